"""Predicts the labels or answers for texts with a fine-tuned network, or fills masks with a pretrained one.

xmodels predict --model_dir=classifier --text='It rained all week.'
xmodels predict --model_dir=classifier --input_file=new.tsv --output_file=labelled.tsv
xmodels predict --model_dir=classifier --input_file=new.tsv --output_file=labelled.tsv --task_index=0 --num_tasks=4
xmodels predict --model_dir=pretrained --text='The capital of France is [MASK].'
xmodels predict --model_dir=stories --text='Ann went home. Ann took the lamp.' --text_pair='Where is the lamp?'
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import delimiter_option, encoding_option
from xmodels.jobs.device_options import AnswerDeviceOptions
from xmodels.jobs.share_options import ShareOptions
from xmodels.tasks.base import find

TaskOptions = find.all_options(find.PREDICT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """A network and texts."""

    model_dir: str = option(REQUIRED, "Run folder of finetune, a classifier that convert_checkpoint wrote, or hf:FOLDER. A pretrained masked language model fills each [MASK] of a text.", section="Model")  # fmt: skip
    text: str | None = option(None, "One text.", section="Text: one of these")
    text_pair: str | None = option(None, "Second text, for pairs; for stories, the question.")
    input_file: str | None = option(None, "Plain .txt with one text a line, or TSV, CSV, JSON lines. Stories: one sentence a line; questions end with a question mark, and a blank line ends a story.")  # fmt: skip
    encoding: str = encoding_option()
    delimiter: str | None = delimiter_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without a header. Default: as given to finetune.")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, for pairs.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where predictions are written."""

    output_file: str | None = option(None, "File for the predictions, one line per text: JSON if its name ends in .jsonl, else a table with a header, comma-separated if it ends in .csv, else tab-separated. Default: print.", section="Output")  # fmt: skip
    overwrite: bool = option(False, "Replace an existing output_file.")
    batch_size: int = option(32, "Batch size: texts at a time.", minimum=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SourceOptions, TaskOptions, OutputOptions, ShareOptions, AnswerDeviceOptions):
    """A fine-tuned network or a masked language model, and the texts to predict."""

    SECTION: ClassVar = "Using a network"
    JOB: ClassVar = "xmodels.jobs.predict.run:predict"
    EARLY: ClassVar = "xmodels.jobs.early:check_usage"
    NEEDS_TENSORFLOW: ClassVar = True
    TASK_OPTIONS: ClassVar = TaskOptions
