"""Encodes texts as vectors with a Siamese network, and writes them.

xmodels encode --model_dir=siamese --input_file=texts.txt --output_file=vectors.npy
xmodels encode --model_dir=siamese --input_file=titles.tsv --text_column=title --output_file=vectors.parquet
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import encoding_option
from xmodels.jobs.device_options import AnswerDeviceOptions
from xmodels.jobs.share_options import ShareOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ShareOptions, AnswerDeviceOptions):
    """A Siamese network and the texts to encode."""

    SECTION: ClassVar = "Vectors of texts"
    JOB: ClassVar = "xmodels.jobs.encode.run:encode"
    EARLY: ClassVar = "xmodels.jobs.early:check_usage"
    NEEDS_TENSORFLOW: ClassVar = True

    model_dir: str = option(REQUIRED, "Run folder that finetune --task=siamese or convert_checkpoint wrote.", section="Model")  # fmt: skip
    input_file: str = option(REQUIRED, "Plain text with one text a line, or TSV, CSV, JSON lines.", section="Texts")
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without a header. Default: text, sentence, …")  # fmt: skip
    output_file: str = option(REQUIRED, "NAME.npy: float32 (texts, width), with NAME.npy.json beside it. NAME.parquet: texts and vectors.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output_file.")
    batch_size: int = option(32, "Batch size: texts at a time. Texts of similar length share a batch.", minimum=1)
