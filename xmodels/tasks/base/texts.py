"""The base of readers of tasks on texts: the `Reading` of the system, and new special tokens."""

import dataclasses
import os
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import ClassVar

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.row_checks import shared_warning, unknown_warning
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.added_tokens import with_tokens
from data_pipelines.text.letter_case import case_warning
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import UNKNOWN
from xmodels import systems
from xmodels.interfaces.reading import MEAN_AND_MAX, plain_reading, reading_without_system
from xmodels.layers.poolings import PUBLISHED
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import model_class
from xmodels.tasks.base.origin import pretrained_by
from xmodels.tasks.base.read import Reader
from xmodels.tasks.base.records import check_recorded
from xmodels.training.watching.progress import print_status

SMALL_HINT = (
    "Mean and largest values of all states answer (--pooling={}), which read small networks better (docs/probing.md). Formats of "
    "others have no such head: `convert_checkpoint` writes it beside a network of Hugging Face. --pooling=published has the head of "
    "the paper, which they have."
)
TOKEN_TABLE = "backbone.embedding.token.embeddings"


class TextReader(Reader):
    """A `Reader` of texts, which uses the `READING` of the system.

    Attributes:
        default_pooling: of the task; None for that of the system.
    """

    default_pooling: ClassVar[str | None] = None

    def training_files(self) -> str:
        """Returns the file or the folder of records to train on. Raises a UsageError unless exactly one is given."""
        if bool(self.options.train_file) == bool(self.options.data_dir):
            raise UsageError("--train_file=FILE or --data_dir=RECORDS: give one of them to learn from.")
        return self.options.train_file or self.options.data_dir

    def check_records(self, task: str, tokenizer: Tokenizer) -> tuple[list[str], int]:
        """Returns the labels and the number of the records of --data_dir, and checks that evaluation sets have the same labels.

        Args:
            task: of `create_finetuning_data`.
            tokenizer: of the network.

        Raises:
            DataError, UsageError: as `check_recorded`.
        """
        labels, count = None, 0
        for path in (self.options.data_dir, *(path for _, path in self.evaluation_files() if os.path.isdir(path))):
            manifest = Manifest.read(path)
            labels = check_recorded(path, manifest, task, tokenizer, labels)
            count = count or manifest.num_examples
        return labels, count

    def count_evaluation(self, count: Callable[[str], int]) -> list[str]:
        """Returns how many examples each file has that is scored, as `count` says of its path; nothing of records."""
        return [f"{count(path):,} for {name}" for name, path in self.evaluation_files() if not os.path.isdir(path)]

    def evaluation_sets(
        self, source: ArraySource, tokenizer: Tokenizer, read: Callable[[str], ArraySource]
    ) -> dict[str, ArraySource]:
        """Returns the sets that are scored, as `read` gives them of their path.

        Says where tokens of the training are unknown, and where a set holds texts of the training.
        """
        path, found = self.training_files(), {}
        warn_unknown(path, source, tokenizer)
        for name, other in self.evaluation_files():
            found[name] = read(other)
            warn_shared(other, token_rows(found[name]), path, token_rows(source))
        return found

    def prepare(self, loaded, tokenizer):
        system = systems.of_model(loaded.system, loaded.model, self.options.init_checkpoint)
        reading = system.READING if system else reading_without_system(model_class(loaded.model))
        pooling = self.options.pooling or self.default_pooling
        if reading is None and system and (self.task_class.reads_states or pooling not in (None, PUBLISHED)):
            reading = plain_reading(system.MODEL, tokenizer.vocabulary, bool(system.WRITING))
        if reading is None:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: --task={self.name} asks about texts, which a network "
                f"of the kind {loaded.model} does not know how to read. Take one of BERT, GPT or GPT-2"
                + (", or say which of its states answer: --pooling=mean." if self.pools and system else ".")
            )
        if "character_ids" in model_class(loaded.model).reads and not tokenizer.is_open:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: a network of the kind {loaded.model} reads the characters of "
                f"words, but its vocabulary is of --tokenizer={tokenizer.kind}. It needs one that `train_vocabulary "
                "--tokenizer=word_characters` makes."
            )
        reading = reading.with_frame_of(tokenizer, loaded.config)
        self.numbers = reading.numbers_for(loaded.config, self.usual_optimizer())
        if self.pools:
            # It depends on what pretraining has filled, whatever the fine-tuning learns with. A head that goes on keeps its own.
            trained_by = pretrained_by(self.options.init_checkpoint) or self.numbers.get("optimizer")
            usual = loaded.pooling or reading.default_pooling(loaded.config, trained_by)
            if self.options.init_head:
                usual = loaded.pooling or PUBLISHED
            self.numbers["pooling"] = self.default_pooling or usual
            reading = reading.with_pooling(pooling or self.numbers["pooling"])
            if pooling is None and usual == MEAN_AND_MAX:
                print_status(SMALL_HINT.format(usual))
        extended = with_tokens(tokenizer, reading.added_tokens)
        if len(extended.vocabulary) > len(tokenizer.vocabulary):
            loaded = with_rows(loaded, len(extended.vocabulary), self.options.seed)
            if self.pools and self.options.freeze_backbone and reading.pooling == PUBLISHED:
                print_status(
                    f"Warning: --freeze_backbone: the head reads the state at {reading.added_tokens[-1]}, a token that is new to this "
                    "network and would not be learnt. Take --pooling=mean."
                )
        self.reading = reading
        self.models_language = bool(system and system.WRITING and system.WRITING.models_language)
        return loaded, extended


def with_rows(loaded: Checkpoint, vocabulary_size: int, seed: int) -> Checkpoint:
    """Returns a checkpoint with rows for new tokens in the token embedding, drawn from the same normal distribution as initially."""
    config = loaded.config
    if vocabulary_size <= config.vocabulary_size:  # the table was filled up: the new tokens have spare rows
        return loaded
    if not loaded.values:
        return dataclasses.replace(loaded, config=dataclasses.replace(config, vocabulary_size=vocabulary_size))
    table = loaded.values[TOKEN_TABLE]
    shape = (vocabulary_size - len(table), table.shape[1])
    rows = np.random.default_rng(seed).normal(0.0, config.initializer_stddev, shape).astype(table.dtype)
    values = {**loaded.values, TOKEN_TABLE: np.concatenate([table, rows])}
    return dataclasses.replace(
        loaded, config=dataclasses.replace(config, vocabulary_size=vocabulary_size), values=values
    )


def token_rows(source) -> list[bytes]:
    """Returns the real tokens of each example, as bytes."""
    arrays = source.arrays
    return [ids[real].tobytes() for ids, real in zip(arrays["token_ids"], arrays["padding_mask"], strict=True)]


def warn_shared(path: str, rows: Sequence[Hashable], trained_on: str, trained: Collection[Hashable]) -> None:
    """Prints a warning where many rows of a file that is scored stand in the training file too."""
    if warning := shared_warning(path, rows, trained_on, trained):
        print_status(warning)


def warn_unknown(path: str, source, tokenizer: Tokenizer) -> None:
    """Prints a warning if many tokens are unknown, or if the case of letters does not fit the vocabulary."""
    real = source.arrays["token_ids"][source.arrays["padding_mask"]]
    unknown = int((real == tokenizer.vocabulary.roles.get(UNKNOWN, -1)).sum())
    for warning in (
        case_warning(tokenizer, "the vocabulary"),
        None if tokenizer.is_open else unknown_warning(path, unknown, len(real), tokenizer.do_lower_case),
    ):
        if warning:
            print_status(warning)
