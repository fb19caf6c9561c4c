"""The options of `xmodels translate`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, SWITCH, option
from data_pipelines.options.input import encoding_option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """An encoder-decoder, the texts that it translates, and how."""

    JOB: ClassVar = "xmodels.jobs.translate:translate"
    EARLY: ClassVar = "xmodels.jobs.early:using"

    model_dir: str = option(REQUIRED, "Run folder of pretrain, or a model folder, such as of average_checkpoints.", section="Model")  # fmt: skip
    text: str | None = option(None, "A text.", section="Texts: one of these", alias="prompt")
    input_file: str | None = option(
        None, "Plain text, also .gz .bz2 .xz .zst, with a text a line; or a table: *.tsv, *.csv, *.jsonl."
    )
    text_column: str | None = option(None, "Column of the texts of a table: its name, or its position counted from 0 where there is no header line. Default: text, sentence, …")  # fmt: skip
    encoding: str = encoding_option()
    num_beams: int = option(1, "Above 1: the best translation that a beam search finds; 4 in the paper.", section="How to translate (default: the likeliest token each time)", minimum=1)  # fmt: skip
    length_penalty: float | None = option(
        None,
        "Of beam search: alpha of ((5 + length) / 6) ** alpha, of BART the power of the length; larger for longer ones. Default: that of the system, 0.6 of the Transformer.",
    )
    no_repeat_ngram_size: int = option(0, "No run of so many tokens comes twice; 0 for no such rule. 3 is usual for summaries.", minimum=0)  # fmt: skip
    min_new_tokens: int = option(0, "A translation does not end before it has so many tokens.", minimum=0)
    max_new_tokens: int | None = option(None, "Most tokens of a translation. Default: 50 more than of its source.", minimum=1)  # fmt: skip
    output_file: str | None = option(None, "Plain text with a translation a line, in the order of the input. Default: print.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output_file.")
    batch_size: int = option(32, "Texts at a time; those of like length go together.", minimum=1)
    jit_compile: str | bool = option("auto", "Compile the network with XLA: some seconds for each length of the texts, then less time for each token. auto: from 2,000 texts on.", choices=SWITCH)  # fmt: skip
