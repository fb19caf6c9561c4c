"""Translates or summarises texts with an encoder-decoder, such as a Transformer, Marian, T5 or BART.

xmodels translate --model_dir=run --text='Ein Hund rennt.'
xmodels translate --model_dir=run --input_file=test.de --num_beams=4 --length_penalty=0.6 --output_file=test.en
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, SWITCH, option
from data_pipelines.options.input import encoding_option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """An encoder-decoder, the texts to translate, and how to translate them."""

    SECTION: ClassVar = "Using a network"
    JOB: ClassVar = "xmodels.jobs.translate.run:translate"
    EARLY: ClassVar = "xmodels.jobs.early:check_usage"

    model_dir: str = option(REQUIRED, "Run folder of pretrain, or a model folder, such as one from average_checkpoints.", section="Model")  # fmt: skip
    text: str | None = option(None, "A text to translate.", section="Texts: one of these", alias="prompt")
    input_file: str | None = option(None, "Plain text with one text a line, also .gz .bz2 .xz .zst; or a table: *.tsv, *.csv, *.jsonl.")  # fmt: skip
    text_column: str | None = option(None, "Column of the texts in a table: its name, or its position from 0 in a file without a header. Default: text, sentence, …")  # fmt: skip
    encoding: str = encoding_option()
    num_beams: int = option(1, "Number of beams. Above 1: the best translation that beam search finds; 4 in the paper.", section="How to translate (default: the likeliest token each time)", minimum=1)  # fmt: skip
    length_penalty: float | None = option(None, "For beam search: alpha in ((5 + length) / 6) ** alpha; for BART the exponent of the length. Larger values give longer translations. Default: that of the system, 0.6 for the Transformer.")  # fmt: skip
    no_repeat_ngram_size: int = option(0, "No n-gram of this many tokens occurs twice; 0: no such rule. 3 is usual for summaries.", minimum=0)  # fmt: skip
    min_new_tokens: int = option(0, "Minimum number of tokens of a translation.", minimum=0)
    max_new_tokens: int | None = option(None, "Maximum number of tokens of a translation. Default: 50 more than its source has.", minimum=1)  # fmt: skip
    output_file: str | None = option(None, "File for the translations, one a line, in the order of the input. Default: print.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output_file.")
    batch_size: int = option(32, "Batch size: texts at a time. Texts of similar length share a batch.", minimum=1)
    jit_compile: str | bool = option("auto", "Compile the network with XLA. This takes some seconds for each length of the texts, then each token takes less time. auto: from 2,000 texts on.", choices=SWITCH)  # fmt: skip
