"""A label for a text or a pair.

Labels of texts and of pairs (Devlin et al., 2018, section 4.1).
"""

from data_pipelines.corpora.labelled import RawExample, broken_examples
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.errors import DataError
from data_pipelines.features import Feature
from data_pipelines.finetuning.row_checks import no_label_warning
from data_pipelines.finetuning.shown import pair
from data_pipelines.finetuning.task import Task, count_tokens, cut, label_counts
from data_pipelines.text.framing import max_text_tokens
from data_pipelines.text.labels import sort_labels

RARE = 0.1  # of the share that a label had if all were equally frequent


class Classify(Task):
    """A label for a text or a pair of texts, from a table."""

    name = "classify"
    names_labels = True
    label_feature = Feature(())
    label_lists = False  # whether a label of JSON lines may be a list
    num_texts: int | None = None  # that of the first row

    def texts_a_row(self, row: Row) -> int:
        if self.num_texts is None:
            self.num_texts = len(row.texts)
        return self.num_texts

    def examples(self, path):
        bad_rows = self.bad_rows()
        rows = read_table(
            path, self.settings.columns(), may_be_empty=True, bad_rows=bad_rows, label_lists=self.label_lists
        )
        for row in rows:
            if len(row.texts) != self.texts_a_row(row):
                raise DataError(
                    f"{path}, line {row.line}: {len(row.texts)} text(s) in a row, the files before have "
                    f"{self.num_texts}. Make records of each kind in a folder of their own."
                )
            empty = any(not text.strip() for text in row.texts)
            label = self.label_in(row)
            problem = "empty text: write it, or take the row out" if empty else self.label_problem(label)
            value = {"texts": list(row.texts), "label": label}
            yield RawExample(f"{path}, line {row.line}", value, problem=problem)
        yield from broken_examples(bad_rows)

    def label_in(self, row: Row):
        """Returns what a row says of its texts, as it is kept for the second pass."""
        return row.label

    def label_problem(self, label) -> str | None:
        return self.refuses(label) if label else "empty label: write it, or take the row out"

    def labels_of(self, value):
        return (value["label"],)

    def sort_labels(self, names):
        return sort_labels(names)

    def size_of(self, value):
        return len(value["texts"])

    def text_of(self, value):
        return "\t".join(value["texts"])

    def features(self, size):
        return {
            "token_ids": Feature((None,)),
            "segment_lengths": Feature((2,)),
            "labels": self.label_feature,
            "example_ids": Feature(()),
        }

    def encode(self, indices, values, tokenizer, size, counts):
        capacity = max_text_tokens(size, self.settings.max_seq_length)
        columns = [tokenizer.encode_batch(column) for column in zip(*(v["texts"] for v in values), strict=True)]
        for index, value, *pieces in zip(indices, values, *columns, strict=True):
            first, second, is_cut = cut(pieces[0], pieces[1] if size > 1 else None, capacity, counts)
            if is_cut and self.leaves_out_long:
                counts["left_out_long"] += 1
                continue
            count_tokens(first + second, tokenizer, counts)
            counts["example_tokens"] += len(first) + len(second) + size + 1
            yield {
                "token_ids": first + second,
                "segment_lengths": [len(first), len(second)],
                "labels": self.record_of(value["label"]),
                "example_ids": [index],
            }

    def record_of(self, label) -> list[int] | list[float]:
        """Returns the values of `labels` in a record."""
        return [self.labels.index(label)]

    @classmethod
    def warnings(cls, counts, names):
        labels = label_counts(counts)
        total = sum(labels.values())
        if names and (found := no_label_warning(names)):
            yield found
        rare = [name for name in names if labels.get(name, 0) < RARE * total / len(names)]
        if rare:
            shown = ", ".join(f"{name} ({labels.get(name, 0)})" for name in rare[:5])
            yield (
                f"few examples of {shown}. Accuracy will hide how the network does on them; look at each label's own score."
            )

    @classmethod
    def render(cls, record, tokens, labels):
        label = labels[int(record["labels"])] if labels else f"{record['labels']:g}"
        return f"[{label}] {pair(record['token_ids'], record['segment_lengths'], tokens)}"
