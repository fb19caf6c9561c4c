"""Rows of one or two texts with a label: a table, or records made of one."""

import os

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.class_weights import class_weights
from data_pipelines.finetuning.row_checks import (
    check_labels,
    check_texts,
    header_warning,
    label_ids,
    label_names,
    no_label_warning,
    shared_warning,
)  # fmt: skip
from xmodels.tasks.base.read import Data, Survey, print_left_out, tells_cuts
from xmodels.tasks.base.texts import TextReader, token_rows, warn_unknown
from xmodels.tasks.classify.tables import TASK, labelled_source, recorded_source
from xmodels.tasks.classify.thresholds import THRESHOLD
from xmodels.training.watching.progress import print_status

SAMPLE = 1000  # rows of a survey whose texts are kept


class Reader(TextReader):
    """Labels of single texts, or of pairs."""

    def task(self, config, data):
        given = self.options.class_weights
        weights = given and class_weights(given, data.labels, data.source.arrays["labels"])
        return self.task_class(
            config, data.labels, reading=self.reading, class_weights=weights, **self.of_two(data.labels)
        )

    def of_two(self, labels: list[str]) -> dict:
        """Returns what the flags say that are of two labels: arguments of the task.

        Raises:
            UsageError: there are more labels, or the positive one is none of them.
        """
        options = self.options
        flags = {
            "--tune_threshold": options.tune_threshold, f"--positive_label={options.positive_label}": options.positive_label,
            "--best_metric=positive_f1": options.best_metric == "positive_f1",
        }  # fmt: skip
        given = next((flag for flag, value in flags.items() if value), None)
        if given and len(labels) != 2:
            raise UsageError(
                f"{given}: is for two labels, and the rows have {len(labels)}. Take --best_metric=macro_f1, the mean over all labels, "
                "or --task=multi_label, where each label has a threshold."
            )
        if options.positive_label is not None and options.positive_label not in labels:
            raise UsageError(f"--positive_label={options.positive_label}: is no label; they are {', '.join(labels)}.")
        if options.tune_threshold and not options.eval_file:
            raise UsageError("--tune_threshold: the threshold is chosen on --eval_file, and there is none. Give it.")
        threshold = {"threshold": THRESHOLD} if options.tune_threshold else {}
        return threshold | ({"positive_label": options.positive_label} if options.positive_label is not None else {})

    @property
    def columns(self) -> Columns:
        options = self.options
        return Columns(options.text_column, options.text_pair_column, options.label_column)

    def rows_of(self, path: str) -> list[Row]:
        """Returns the rows of a table; says which ones are left out."""
        bad_rows = self.bad_rows()
        rows = read_table(path, self.columns, bad_rows=bad_rows)
        print_left_out(path, bad_rows)
        return rows

    @tells_cuts("max_seq_length")
    def source_of(self, path: str, tokenizer, *labels: list[str]):
        """Returns what `labelled_source` makes of a table; says which rows are left out, and whether the first looks like a header."""
        bad_rows, read_as = self.bad_rows(), {"frame": self.reading.frame, "orders": self.task_class.orders}
        length = self.options.max_seq_length
        found = labelled_source(path, self.columns, tokenizer, length, *labels, **read_as, bad_rows=bad_rows)
        print_left_out(path, bad_rows)
        source, names, _ = found
        if self.columns.by_position and (said := header_warning(names, source.arrays["labels"])):
            print_status(f"Warning: {path}: {said}")
        return found

    def recorded_set(self, folder, tokenizer, labels):
        return self.source_of(folder, tokenizer, labels)[0]

    def survey(self):
        path = self.training_files()
        train = self.rows_of(path)
        labels = label_names(train)
        check_labels(path, labels, len(train), self.options.label_column)
        summary = [f"{len(train):,} rows to train on, {len(labels)} labels"]
        titles = {"evaluation": "to evaluate on", "test": "to test on"}
        for name, other in self.evaluation_files():
            if os.path.isdir(other):
                continue
            rows = self.rows_of(other)
            label_ids(other, rows, labels)
            check_texts(other, len(rows[0].texts), path, len(train[0].texts))
            if warning := shared_warning(other, [row.texts for row in rows], path, [row.texts for row in train]):
                print_status(warning)
            summary.append(f"{len(rows):,} {titles[name]}")
        self.of_two(labels)
        texts = [text for row in train[:SAMPLE] for text in row.texts]
        return Survey(", ".join(summary), labels, len(train), texts)

    def survey_records(self, tokenizer):
        labels, count = self.check_records(TASK, tokenizer)
        check_labels(self.options.data_dir, labels, count)
        return Survey(f"{count:,} examples, {len(labels)} labels", labels, count)

    def read(self, tokenizer):
        options, path = self.options, self.training_files()
        length, read_as = options.max_seq_length, {"frame": self.reading.frame, "orders": self.task_class.orders}
        if options.data_dir:
            source, labels, num_texts = recorded_source(path, tokenizer, length, **read_as)
        else:
            source, labels, num_texts = self.source_of(path, tokenizer)
        check_labels(path, labels, source.num_examples, options.label_column)
        if found := no_label_warning(labels):
            print_status(f"Warning: {path}: {found}")
        warn_unknown(path, source, tokenizer)
        evaluation_sets = {}
        for name, other in self.evaluation_files():
            found, _, texts_there = self.source_of(other, tokenizer, labels)
            check_texts(other, texts_there, path, num_texts)
            if warning := shared_warning(other, token_rows(found), path, token_rows(source)):
                print_status(warning)
            evaluation_sets[name] = found
        return Data(source, evaluation_sets, labels, num_texts, f"{len(labels)} labels")
