"""The options of `xmodels export_model`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A run and the SavedModel to export it to."""

    JOB: ClassVar = "xmodels.jobs.export_model.run:export_model"
    EARLY: ClassVar = "xmodels.jobs.early:using"
    NEEDS_TENSORFLOW: ClassVar = True

    model_dir: str = option(REQUIRED, "Run folder of finetune, or of pretrain with a system that generates or translates; or a classifier of single texts that convert_checkpoint wrote.", section="Model")  # fmt: skip
    export_dir: str = option(REQUIRED, "New folder, laid out for TensorFlow Serving.", section="Export")
    serving_ops: str = option("text", "text: needs tensorflow-text where the model is loaded. core: only core TensorFlow ops, so that stock TensorFlow Serving can load it.", choices=("text", "core"))  # fmt: skip
    overwrite: bool = option(False, "Replace an earlier export in export_dir.")
    num_beams: int | None = option(
        None,
        "Number of beams of the beam search signature. Default: that of the system, 4 for most.",
        section="Translators",
        minimum=2,
    )
    length_penalty: float | None = option(
        None,
        "For beam search: alpha in ((5 + length) / 6) ** alpha; for BART and Marian the exponent of the length. Default: that of the system, 0.6 for the Transformer.",
    )
    no_repeat_ngram_size: int | None = option(None, "No n-gram of this many tokens occurs twice in the output; 3 is usual for summaries. Default: no such rule.", minimum=1)  # fmt: skip
    min_new_tokens: int | None = option(None, "Minimum number of tokens in the output. Default: no minimum.", minimum=1)  # fmt: skip
    max_new_tokens: int | None = option(None, "Maximum number of tokens that are written after a prompt. Default: 64.", section="Text generators", minimum=1)  # fmt: skip
    speed: float | None = option(None, "Early exit speed for requests that give none. Default: 0.1.", section="Early exit (docs/fast_classify.md)", minimum=0, maximum=1.0)  # fmt: skip
