"""Labelled rows as of `classify`, and texts without labels: the two phases of FastBERT."""

import dataclasses
import os
from typing import ClassVar

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.files import file_sha256
from data_pipelines.finetuning.row_checks import check_texts
from data_pipelines.text.framing import pack_texts
from xmodels.layers.poolings import PUBLISHED
from xmodels.models import folder
from xmodels.models.backbone import Backbone
from xmodels.tasks.base import read as base
from xmodels.tasks.base.answer import plain_lines
from xmodels.tasks.base.read import print_left_out, tells_cuts
from xmodels.tasks.classify import read
from xmodels.tasks.fast_classify.distillation import Distil
from xmodels.training.finetuning import Phase

TEACHER = "teacher"  # the folder of the first phase, in that of the second one
NUMBERS = {"distill_epochs": 5.0, "distill_learning_rate": 2e-4, "distill_divergence": "teacher_first"}


class Reader(read.Reader):
    """A run of the second phase holds one of the first phase, `teacher/`, which is finished before it begins.

    With --distill_epochs=0 there is the first phase only. It is how the first phase of another run looks, too.
    """

    refused: ClassVar[dict[str, str]] = dict.fromkeys(
        ("train_fraction", "num_train_examples"), "both phases take all rows; cut the file"
    )
    default_pooling = PUBLISHED  # a classifier attends to all tokens by itself; both phases read the same state

    def __init__(self, name, options):
        super().__init__(name, options)
        self.distils = options.distill_epochs != 0
        if options.distill_epochs is not None and options.distill_epochs < 0:
            raise UsageError(f"--distill_epochs={options.distill_epochs:g}: must not be below 0; 5 is usual.")
        others = [
            flag
            for flag in ("distill_file", *NUMBERS)
            if flag != "distill_epochs" and getattr(options, flag) is not None
        ]
        if others and not self.distils:
            raise UsageError(f"--{others[0]}: with --distill_epochs=0 nothing is distilled. Leave one of the two out.")

    @property
    def teacher(self) -> str:
        return os.path.join(self.options.model_dir or "", TEACHER)

    @property
    def checkpoint(self):
        """The teacher, where there is one already."""
        there = self.distils and os.path.isdir(os.path.join(self.teacher, "backbone"))
        return self.teacher if there else self.options.init_checkpoint

    @property
    def decisive(self):
        return "mean_exit_accuracy" if self.distils else "accuracy"

    def recorded_set(self, folder, tokenizer, labels):
        return base.Reader.recorded_set(self, folder, tokenizer, labels)  # texts leave one by one, against the clock

    @property
    def phase_names(self):
        return (TEACHER,) if self.distils else ()

    def phases(self):
        if not self.distils:
            return ()
        if self.options.distill_file:
            self.unlabelled()  # so that what is wrong with it is not found after the first phase only
        begun = os.path.isfile(os.path.join(self.options.model_dir, "config.json"))
        if begun and not os.path.isdir(os.path.join(self.teacher, "backbone")):
            raise CheckpointError(
                f"{self.teacher}: missing; the run of --model_dir={self.options.model_dir} learns from this teacher. Copy it back, or "
                "choose another --model_dir."
            )
        return (Phase(TEACHER, dict.fromkeys(("distill_file", *NUMBERS)) | {"distill_epochs": 0.0}),)

    def of_this_phase(self, options):
        if not self.distils:
            return options
        return dataclasses.replace(
            options, num_train_epochs=options.distill_epochs, learning_rate=options.distill_learning_rate,
            init_checkpoint=self.checkpoint, random_init=options.random_init and self.checkpoint != self.teacher,
        )  # fmt: skip

    def prepare(self, loaded, tokenizer):
        loaded, tokenizer = super().prepare(loaded, tokenizer)
        if folder.model_class(loaded.model).passes is Backbone.passes:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: --task={self.name} puts a classifier behind every layer of an "
                f"encoder, such as BERT, RoBERTa, ALBERT, ERNIE or SpanBERT; the network is of the kind {loaded.model}."
            )
        if self.distils and loaded.config.num_layers < 2:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: the network has one layer, so no text can leave early. Take one "
                "of several layers, or --task=classify."
            )
        return loaded, tokenizer

    def usual_optimizer(self):
        # Students begin with random weights, and the rate of their phase is that of AdamW.
        return self.options.optimizer if self.distils else super().usual_optimizer()

    def defaults(self):
        numbers = NUMBERS.items() if self.distils else ()
        return super().defaults() | {n: value for n, value in numbers if getattr(self.options, n) is None}

    def unlabelled(self) -> list[tuple[str, ...]]:
        """Returns the texts of --distill_file."""
        path, options, bad_rows = self.options.distill_file, self.options, self.bad_rows()
        if path.endswith(".txt"):
            return [(line,) for line in plain_lines(path) if line]
        columns = Columns(options.text_column, options.text_pair_column)
        rows = read_table(path, columns, with_labels=False, bad_rows=bad_rows)
        print_left_out(path, bad_rows)
        return [row.texts for row in rows]

    def survey(self):
        found = super().survey()
        if not self.options.distill_file:
            return found
        return dataclasses.replace(found, summary=f"{found.summary}, {len(self.unlabelled()):,} texts to distil on")

    def read(self, tokenizer):
        data = super().read(tokenizer)
        if not self.distils:
            return dataclasses.replace(data, summary=f"the teacher learns {data.summary}")
        arrays, path = data.source.arrays, self.options.distill_file
        if path:
            texts = self.unlabelled()
            check_texts(path, len(texts[0]), self.training_files(), data.num_texts)
            arrays = self._packed(path, texts, tokenizer)
        arrays = {name: array for name, array in arrays.items() if name != "labels"}
        summary = f"the students learn {data.summary} from the teacher"
        source = ArraySource(arrays, path or data.source.name)
        return dataclasses.replace(data, source=source, summary=summary, identity=self.identity())

    @tells_cuts("max_seq_length")
    def _packed(self, path: str, texts: list[tuple[str, ...]], tokenizer) -> dict:
        return pack_texts(texts, tokenizer, self.options.max_seq_length, self.reading.frame)

    def identity(self) -> dict:
        """Returns which teacher it is."""
        path = os.path.join(self.teacher, "backbone", folder.WEIGHTS)
        return {"teacher_sha256": file_sha256(path)[:16]} if os.path.isfile(path) else {}

    def task(self, config, data):
        if not self.distils:
            return super().task(config, data)
        direction = self.options.distill_divergence or NUMBERS["distill_divergence"]
        return Distil(config, data.labels, reading=self.reading, direction=direction)

    def prepare_weights(self, task, backbone, loaded):
        task.exits(
            backbone, backbone.tiny_batch()
        )  # builds all classifiers, so that every state and model folder has them
        if not self.distils:
            for student in task.students:
                student.trainable = False
            return
        if self.checkpoint == self.teacher:
            folder.assign(task.prefix, task, loaded.values, self.teacher)
        task.freeze(backbone)
