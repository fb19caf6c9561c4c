"""Pairs of texts that match, or triplets.

Texts that match, for networks that read each on its own: pairs, or triplets with a text that does not match the first.
"""

import dataclasses

from data_pipelines.corpora.labelled import RawExample, broken_examples
from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.lists import Lists


class Siamese(Lists):
    """Rows of two texts that match, or of three. Each text may have the whole length."""

    name = "siamese"
    own_flags = ("negative_column",)

    def check(self):
        if self.settings.label_column is not None:
            raise UsageError(
                "--label_column: records of --task=siamese are of texts that match, without labels. Make those of labelled pairs "
                "by --task=classify, and those of scores by --task=regress; `finetune --task=siamese` learns from them too."
            )

    def examples(self, path):
        bad_rows, columns, negative = self.bad_rows(), self.settings.columns(), self.settings.negative_column
        if negative is not None:  # it takes the place of the label in the reader of tables
            columns = dataclasses.replace(columns, label=negative)
        for row in read_table(path, columns, True if negative else None, may_be_empty=True, bad_rows=bad_rows):
            if len(row.texts) < 2:
                raise UsageError(
                    f"{path}: has one text in a row. Name the column of the second with --text_pair_column."
                )
            if negative is None and row.label is not None:
                raise UsageError(
                    f"{path}: has a column of labels, such as {row.label!r:.40}, but --task=siamese reads texts that match. Take "
                    "--task=classify or regress, or take the column out."
                )
            texts = [*row.texts, row.label] if negative is not None else list(row.texts)
            empty = any(not text.strip() for text in texts)
            problem = "empty text: write it, or take the row out" if empty else None
            yield RawExample(f"{path}, line {row.line}", {"texts": texts}, problem=problem)
        yield from broken_examples(bad_rows)

    def size_of(self, value):
        return len(value["texts"])

    def text_of(self, value):
        return "\t".join(value["texts"])

    def encode(self, indices, values, tokenizer, size, counts):
        capacity = self.capacity(1)
        columns = [
            [p.ids for p in tokenizer.encode_batch(texts)] for texts in zip(*(v["texts"] for v in values), strict=True)
        ]
        for index, *whole in zip(indices, *columns, strict=True):
            row = self.rows([[ids[:capacity]] for ids in whole], size, tokenizer, counts)
            lost = [max(0, len(ids) - capacity) for ids in whole]
            counts.update(cut=sum(map(bool, lost)), cut_tokens=sum(lost))
            if not self.is_left_out(any(lost), counts):
                yield {**row, "example_ids": [index]}

    @classmethod
    def mark(cls, record, row):
        return ("   ", "  +", "  -")[row]
