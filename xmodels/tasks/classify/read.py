"""Rows of one or two texts with a label: a table, or records made of one."""

import numpy as np

from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.class_weights import class_weights
from data_pipelines.finetuning.row_checks import check_labels, header_warning, label_ids, label_names, no_label_warning
from xmodels.tasks.base.teaching import TaughtReader
from xmodels.tasks.classify.distillation import DistilledClassify
from xmodels.tasks.classify.thresholds import THRESHOLD
from xmodels.training.watching.progress import print_status


class Reader(TaughtReader):
    """Labels of single texts, or of pairs."""

    records = "classify"
    distilled_class = DistilledClassify

    def task(self, config, data):
        weights = class_weights(self.options.class_weights, data.labels, data.source.arrays["labels"])
        more = {"reading": self.reading, "class_weights": weights, **self.of_two(data.labels), **self.tree(data)}
        if not self.learns_answers:
            return self.task_class(config, data.labels, **more)
        numbers = {"temperature": self.options.distill_temperature, "share": self.options.distill_share}
        return self.distilled_class(config, data.labels, **numbers, **more)

    def tree(self, data) -> dict:
        """Returns the argument of the task that makes its softmax a hierarchical one, if the flag asks for it."""
        if not self.options.hierarchical_softmax:
            return {}
        counts = np.bincount(data.source.arrays["labels"], minlength=len(data.labels))
        return {"label_counts": np.maximum(counts, 1).tolist()}

    def arrays_of_teacher(self, answers, labels):
        found = [[answer.probabilities[label] for label in labels] for answer in answers]
        return {"teacher_probabilities": np.array(found, "float32")}

    def of_two(self, labels: list[str]) -> dict:
        """Returns what the flags say that are of two labels: arguments of the task.

        Raises:
            UsageError: there are more labels, or the positive one is none of them.
        """
        options = self.options
        flags = {
            "--tune_threshold": options.tune_threshold, f"--positive_label={options.positive_label}": options.positive_label,
            **{f"--best_metric={name}": options.best_metric == name for name in ("positive_f1", "roc_auc")},
        }  # fmt: skip
        given = next((flag for flag, value in flags.items() if value), None)
        if given and len(labels) != 2:
            raise UsageError(
                f"{given}: is for two labels, and the rows have {len(labels)}. Take --best_metric=macro_f1, the mean over all labels, "
                "or --task=multi_label, where each label has a threshold."
            )
        if options.positive_label is not None and options.positive_label not in labels:
            raise UsageError(f"--positive_label={options.positive_label}: is no label; they are {', '.join(labels)}.")
        if options.tune_threshold and options.best_metric == "roc_auc":
            raise UsageError("--tune_threshold: --best_metric=roc_auc is the same at every threshold. Take another.")
        if options.tune_threshold and not options.eval_file:
            raise UsageError("--tune_threshold: the threshold is chosen on --eval_file, and there is none. Give it.")
        threshold = {"threshold": THRESHOLD} if options.tune_threshold else {}
        return threshold | ({"positive_label": options.positive_label} if options.positive_label is not None else {})

    def read_rows(self, path, columns, bad_rows):
        return read_table(path, columns, bad_rows=bad_rows)

    def label_names(self, path, rows):
        return label_names(rows)

    def label_values(self, path, rows, labels):
        return label_ids(path, rows, labels)

    def source_of(self, path, tokenizer, labels=None):
        """Says also whether the first row looks like a header."""
        source, names, num_texts = super().source_of(path, tokenizer, labels)
        if self.columns.by_position and (said := header_warning(names, source.arrays["labels"])):
            print_status(f"Warning: {path}: {said}")
        return source, names, num_texts

    def check_training(self, path, labels, num_rows):
        check_labels(path, labels, num_rows, self.options.label_column)
        self.of_two(labels)
        if found := no_label_warning(labels):
            print_status(f"Warning: {path}: {found}")
