"""Scores a network: labels, tags and answers, perplexity of texts, or BLEU of translations. Labels are scored by
accuracy, F1 and confusions; texts also by bits per byte, last words and words for gaps. --task=probe shows what a
network knows before fine-tuning, --task=word_similarity and --task=analogy what vectors of words know.

    xmodels evaluate --model_dir=classifier --test_file=test.tsv
    xmodels evaluate --model_dir=hf:gpt2 --test_file=wiki.test.tokens --detokenize=wikitext --stride=512
    xmodels evaluate --model_dir=run --test_file=test.de --target_file=test.en --num_beams=4
    xmodels evaluate --task=probe --model_dir=run --train_file=train.tsv --test_file=test.tsv
    xmodels evaluate --task=word_similarity --model_dir=word2vec:vectors.bin --test_file=wordsim353.csv
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, Option, option
from data_pipelines.options.input import delimiter_option, encoding_option
from xmodels.jobs.device_options import AnswerDeviceOptions
from xmodels.jobs.share_options import ShareOptions
from xmodels.tasks.base import find

TaskOptions = find.all_options(find.EVALUATE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """A network and the data to score it on."""

    task: str = option("auto", "Task to score; auto: the task that the run was trained for.", section="Model and data", choices=("auto", *find.names()))  # fmt: skip
    model_dir: str = option(
        REQUIRED,
        "Run folder, a model folder that convert_checkpoint wrote, or hf:FOLDER; for word_similarity and analogy also a file of vectors, such as word2vec:FILE.",
    )
    test_file: str = option(REQUIRED, "Labelled rows: TSV, CSV or JSON lines. For language_model: text, passages or questions, as names or globs. For word_similarity: pairs of words with scores; for analogy: four words a line.")  # fmt: skip
    encoding: str = encoding_option()
    delimiter: str | None = delimiter_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without a header. Default: as given to finetune.")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, for pairs.")
    label_column: str | None = option(None, "Column of the label.")
    batch_size: int | None = option(None, "Batch size: rows or windows; for networks with a memory, streams (default 1, which is exact). Default: chosen to fit.", minimum=1)  # fmt: skip
    plots: str | None = option(None, "Folder for pictures. For stories: steps and attention for the first question of each task.")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where scores are written."""

    output_file: str | None = option(None, "Also write the scores to this file as JSON.", section="Output")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SourceOptions, TaskOptions, OutputOptions, ShareOptions, AnswerDeviceOptions):
    """A network and the data to score it on. A task refuses options of other tasks."""

    SECTION: ClassVar = "Using a network"
    JOB: ClassVar = "xmodels.jobs.evaluate.run:evaluate"
    EARLY: ClassVar = "xmodels.jobs.early:check_evaluation"
    NEEDS_TENSORFLOW: ClassVar = True
    TASK_OPTIONS: ClassVar = TaskOptions

    @staticmethod
    def own_flags(task: str) -> dict[str, Option]:
        """Returns the flags in TASK_OPTIONS that a task takes."""
        return find.own_flags(task, find.EVALUATE)
