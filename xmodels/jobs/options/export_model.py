"""The options of `xmodels export_model`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A run and the SavedModel that it becomes."""

    JOB: ClassVar = "xmodels.jobs.export:export_model"
    EARLY: ClassVar = "xmodels.jobs.early:using"
    NEEDS_TENSORFLOW: ClassVar = True

    model_dir: str = option(REQUIRED, "Run folder of finetune, or of pretrain with a system that generates or translates, or a classifier that convert_checkpoint wrote (of single texts).", section="Model")  # fmt: skip
    export_dir: str = option(REQUIRED, "New folder, laid out for TensorFlow Serving.", section="Export")
    serving_ops: str = option("text", "text: needs tensorflow-text where it is loaded. core: core TensorFlow only, so that stock TensorFlow Serving loads it.", choices=("text", "core"))  # fmt: skip
    overwrite: bool = option(False, "Replace an earlier export in export_dir.")
    num_beams: int | None = option(
        None,
        "Of the signature that searches. Default: that of the system, 4 of most.",
        section="Translators",
        minimum=2,
    )
    length_penalty: float | None = option(
        None,
        "Of beam search: alpha of ((5 + length) / 6) ** alpha, of BART and Marian the power of the length. Default: that of the system, 0.6 of the Transformer.",
    )
    no_repeat_ngram_size: int | None = option(None, "No run of so many tokens comes twice in what is written; 3 is usual for summaries. Default: no such rule.", minimum=1)  # fmt: skip
    min_new_tokens: int | None = option(None, "What is written does not end before it has so many tokens. Default: no such rule.", minimum=1)  # fmt: skip
    max_new_tokens: int | None = option(None, "Most tokens that are written behind a prompt. Default: 64.", section="Text generators", minimum=1)  # fmt: skip
    speed: float | None = option(None, "Of early exit, where a request names none. Default: 0.1.", section="Early exit (docs/fast_classify.md)", minimum=0, maximum=1.0)  # fmt: skip
