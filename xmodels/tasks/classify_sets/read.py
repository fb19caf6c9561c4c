"""Sets of vectors with labels, from arrays, JSON lines or Parquet; networks of sets, new or from a run."""

import functools
import os
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.vector_sets import VectorSet, pad_sets, read_sets
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.class_weights import class_weights
from data_pipelines.finetuning.row_checks import check_labels, unknown_label
from data_pipelines.text.labels import sort_labels
from data_pipelines.text.untokenized import NoTokenizer
from xmodels.models import folder
from xmodels.models.backbone import Backbone
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import BACKBONE_FOLDER
from xmodels.tasks.base import read
from xmodels.tasks.base.new import NEW, network_of, new_network
from xmodels.tasks.base.read import Data, Survey, print_left_out


class Reader(read.Reader):
    """Sets with a label each. The network reads them all, whatever their order, so none is truncated."""

    numbers: ClassVar[dict] = {
        "learning_rate": 1e-3, "warmup_proportion": 0.0, "optimizer": "adam", "lr_schedule": "constant",
    }  # fmt: skip
    refused: ClassVar[dict] = {
        "text_column": "name the vectors with --points_column", "text_pair_column": "it reads one set",
        "vocab_file": "it reads no texts", "do_lower_case": "it reads no texts", "data_dir": "it reads sets by --train_file",
    }  # fmt: skip

    def __init__(self, name, options):
        super().__init__(name, options)
        if not options.train_file:
            raise UsageError("--train_file=FILE: name the sets to learn from.")

    @functools.cached_property
    def training(self) -> list[VectorSet]:
        """The sets to learn from."""
        return self.sets_of(self.options.train_file)

    @property
    def width(self) -> int:
        """The numbers of a vector."""
        return self.training[0].points.shape[1]

    def sets_of(self, path: str) -> list[VectorSet]:
        """Returns the sets of a file; says which ones are left out.

        Raises:
            DataError, UsageError: as `read_sets`; or a set is larger than --max_seq_length.
        """
        options, bad_rows = self.options, self.bad_rows()
        found = list(read_sets(path, options.points_column, options.label_column, bad_rows=bad_rows))
        print_left_out(path, bad_rows)
        if not found:
            raise DataError(f"{path}: holds no set that can be used.")
        largest = max(found, key=lambda each: len(each.points))
        if len(largest.points) > options.max_seq_length:
            raise UsageError(
                f"--max_seq_length={options.max_seq_length}: {largest.place} has {len(largest.points):,} vectors. A set is read "
                f"whole: give --max_seq_length={len(largest.points)} or more, or sample its vectors before."
            )
        return found

    def begin(self):
        tokenizer = NoTokenizer()
        if self.is_new:
            self.check_network(network_of(self.options)[1])
            name, config = new_network(self.options, tokenizer.vocabulary, input_dim=self.width)
            return Checkpoint(name, config, {}), tokenizer
        path, inner = self.checkpoint, os.path.join(self.checkpoint, BACKBONE_FOLDER)
        path = inner if os.path.isdir(inner) else path
        config, network = folder.read_config(path)
        values = folder.read_weights(os.path.join(path, folder.WEIGHTS))
        return Checkpoint(folder.name_of(network), config, values), tokenizer

    def check_network(self, network: type[Backbone]) -> None:
        """Raises a UsageError unless a network reads sets."""
        if "points" not in network.reads:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: --task={self.name} reads sets of vectors, which a network of the "
                f"kind {folder.name_of(network)} does not. A new one that does: --init_checkpoint={NEW}set_transformer."
            )

    def prepare(self, loaded, tokenizer):
        self.check_network(folder.model_class(loaded.model))
        if loaded.config.input_dim != self.width:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: reads vectors of {loaded.config.input_dim} numbers, but those of "
                f"{self.options.train_file} have {self.width}."
            )
        return loaded, tokenizer

    def survey(self):
        labels = self.label_names()
        held_out = {name: self.held_out(path) for name, path in self.evaluation_files()}
        for sets in held_out.values():
            self.label_values(sets, labels)
        counts = [f"{len(sets):,} for {name}" for name, sets in held_out.items()]
        return Survey(", ".join([f"{len(self.training):,} sets to train on", *counts]), labels, len(self.training))

    def read(self, tokenizer):
        labels = self.label_names()
        source = self.source_of(self.options.train_file, self.training, labels)
        evaluation_sets = {
            name: self.source_of(path, self.held_out(path), labels) for name, path in self.evaluation_files()
        }
        sizes = source.arrays["padding_mask"].sum(axis=1)
        summary = (
            f"{self.describe(source, labels)}, sets of {sizes.min()} to {sizes.max()} vectors of {self.width} numbers"
        )
        return Data(source, evaluation_sets, labels, 1, summary)

    def held_out(self, path: str) -> list[VectorSet]:
        """Returns the sets of a file that is scored. Raises a DataError if their vectors are not those of the training."""
        found = self.sets_of(path)
        if (width := found[0].points.shape[1]) != self.width:
            raise DataError(
                f"{path}: vectors of {width} numbers, but those of {self.options.train_file} have {self.width}."
            )
        return found

    def source_of(self, path: str, sets: list[VectorSet], labels: list[str]) -> ArraySource:
        """Returns sets as arrays."""
        arrays = pad_sets([each.points for each in sets])
        return ArraySource({**arrays, "labels": self.label_values(sets, labels)}, path)

    # What differs between labels and numbers.

    def label_names(self) -> list[str]:
        """Returns the labels of the training, in the order of their ids. Raises a UsageError if they can be none."""
        labels = sort_labels(each.label for each in self.training)
        check_labels(self.options.train_file, labels, len(self.training), self.options.label_column)
        return labels

    def label_values(self, sets: list[VectorSet], labels: list[str]) -> np.ndarray:
        """Returns the array `labels` (N,). Raises a DataError that names the set whose label is none."""
        return label_ids_of(sets, labels)

    def describe(self, source: ArraySource, labels: list[str]) -> str:
        """Returns what is said of the labels."""
        return f"{len(labels)} labels"

    def task(self, config, data):
        weights = class_weights(self.options.class_weights, data.labels, data.source.arrays["labels"])
        return self.task_class(config, data.labels, class_weights=weights)


def label_ids_of(sets: list[VectorSet], labels: Sequence[str]) -> np.ndarray:
    """Returns the number of the label of each set, int32 (N,). Raises a DataError that names one whose label is unknown."""
    ids = {name: index for index, name in enumerate(labels)}
    for each in sets:
        if each.label not in ids:
            raise unknown_label(each.place, each.label, labels)
    return np.array([ids[each.label] for each in sets], np.int32)
