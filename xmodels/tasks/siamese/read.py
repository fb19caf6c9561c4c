"""Pairs and triplets of texts: a table, or records."""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import BadRow, Row, read_table
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.row_checks import check_labels, no_label_warning, unknown_label
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.framing import pack_ids
from data_pipelines.text.labels import sort_labels
from xmodels.tasks.base.read import Data, Survey, drop_unusable, print_left_out, tells_cuts
from xmodels.tasks.base.records import check_recorded, recorded_batches
from xmodels.tasks.base.texts import TextReader
from xmodels.tasks.regress.read import as_number
from xmodels.tasks.siamese.settings import LABEL, LOSSES, MATCH, POSITIVE, SCORE, Loss, loss_of, settings_of
from xmodels.training.watching.progress import print_status

# The task of records of labelled pairs.
RECORDS = {LABEL: "classify", MATCH: "classify", POSITIVE: "classify", SCORE: "regress"}
MATCHING = "siamese"  # of records of texts that match, without labels
SAMPLE = 1000  # rows of a survey whose texts are kept
TRIPLETS = "--text_column=anchor --text_pair_column=positive --negative_column=negative"


@dataclasses.dataclass(frozen=True)
class Example:
    """A row.

    Attributes:
        texts: two or three of them: texts, or their ids.
        label: as the file has it; None where it has none.
        place: file and line, for messages.
    """

    texts: tuple
    label: str | None
    place: str


def read_rows(
    path: str, columns: Columns, negative_column: str | None = None, bad_rows: list[BadRow] | None = None
) -> list[Example]:
    """Returns the rows of a table of pairs, with their labels where it has some, or of triplets.

    Args:
        negative_column: of the third text.
        bad_rows: where rows go that cannot be used; None where such a row is an error.

    Raises:
        DataError: names file and line.
        UsageError: a column is missing.
    """
    if negative_column is not None:  # it takes the place of the label in the reader of tables
        columns = dataclasses.replace(columns, label=negative_column)
    rows = read_table(path, columns, with_labels=True if negative_column else None, bad_rows=bad_rows)
    if len(rows[0].texts) < 2:
        raise UsageError(f"{path}: has one text in a row. Name the column of the second with --text_pair_column.")
    found = [_example(path, row, negative_column is not None) for row in rows]
    return drop_unusable(found, bad_rows, lambda each: None if all(map(str.strip, each.texts)) else "a text is empty")


def _example(path: str, row: Row, is_triplet: bool) -> Example:
    texts, label = ((*row.texts, row.label), None) if is_triplet else (row.texts, row.label)
    return Example(texts, label, f"{path}, line {row.line}")


class Reader(TextReader):
    """Rows of texts for one of `LOSSES`."""

    default_pooling = "mean"

    @property
    def loss_name(self) -> str:
        return loss_of(self.options, self.recipe.task_loss).name

    @property
    def loss(self) -> Loss:
        return LOSSES[self.loss_name]

    @property
    def decisive(self) -> str:
        return self.loss.decisive

    def examples(self, path: str) -> list[Example]:
        """Returns the rows of a table that the loss learns from; says which ones are left out."""
        options, bad_rows = self.options, self.bad_rows()
        if options.negative_column and self.loss.rows != POSITIVE:
            raise UsageError(f"--negative_column: --siamese_loss={self.loss_name} compares two texts. Leave it out.")
        if self.loss_name == "triplet" and not options.negative_column:
            raise UsageError(f"--siamese_loss=triplet: needs three texts in a row, such as {TRIPLETS}.")
        columns = Columns(options.text_column, options.text_pair_column, options.label_column)
        found = read_rows(path, columns, options.negative_column, bad_rows)
        found = self.checked(path, found, bad_rows)
        print_left_out(path, bad_rows)
        return found

    def checked(self, path: str, examples: list[Example], bad_rows: list[BadRow] | None) -> list[Example]:
        """Returns the examples whose labels suit the loss; of labelled pairs for `multiple_negatives` those that match."""
        if examples and examples[0].label is None and self.loss.rows != POSITIVE:
            raise UsageError(
                f"{path}: has no labels, which --siamese_loss={self.loss_name} learns from. Name their column with "
                "--label_column, or take --siamese_loss=multiple_negatives."
            )
        found = drop_unusable(examples, bad_rows, self._problem)
        if self.loss.rows == POSITIVE and examples and examples[0].label is not None:
            found = [each for each in found if as_number(each.label) > 0]
            print_status(
                f"{path}: {len(found):,} of {len(examples):,} pairs match, by their labels; the others are not used."
            )
        if not found:
            raise DataError(f"{path}: holds no row that can be used. Is --label_column right?")
        return found

    def _problem(self, example: Example) -> str | None:
        """Returns why the label of a row cannot be used; None where it can."""
        if self.loss.rows == LABEL or example.label is None:
            return None
        number, shown = as_number(example.label), f"{example.label!r:.40}"
        if number is None:
            return f"no number: {shown}"
        if self.loss.rows == MATCH and number not in (0, 1):
            return f"expected the label 1 (they match) or 0, found {shown}"
        if self.loss.rows == SCORE and not abs(number) <= self.max_score:
            return f"the score {shown} is beyond --max_score={self.max_score:g}, which stands for a cosine of 1"
        return None

    @property
    def max_score(self) -> float:
        return self.options.max_score or 1.0

    def survey(self):
        path = self.training_files()
        settings_of(self.options, self.recipe.task_loss)
        train = self.examples(path)
        labels = self._labels(path, train)
        summary = [f"{len(train):,} rows to train on" + (f", {len(labels)} labels" if labels else "")]
        summary += self.count_evaluation(lambda other: len(self.examples(other)))
        texts = [text for each in train[:SAMPLE] for text in each.texts]
        return Survey(", ".join(summary), labels, len(train), texts)

    def survey_records(self, tokenizer):
        labels, count = self.check_records(self.recorded_as(self.options.data_dir), tokenizer)
        return Survey(f"{count:,} examples", labels if self.loss.rows == LABEL else [], count)

    def read(self, tokenizer):
        path = self.training_files()
        self.settings, self.training = settings_of(self.options, self.recipe.task_loss)
        train = self._ids(path, tokenizer)
        labels = self._labels(path, train)
        source = self._source(path, tokenizer, train, labels)

        def read(other: str) -> ArraySource:
            found = self._source(other, tokenizer, self._ids(other, tokenizer), labels)
            if found.arrays["token_ids"].shape[1] != source.arrays["token_ids"].shape[1]:
                raise DataError(f"{other}: has another number of texts in a row than {path}.")
            return found

        evaluation_sets = self.evaluation_sets(source, tokenizer, read)
        kind = f"{len(train[0].texts)} texts in a row" + (f", {len(labels)} labels" if labels else "")
        return Data(source, evaluation_sets, labels, 2, f"{self.loss_name}, {kind}")

    def recorded_as(self, folder: str) -> str:
        """Returns the task of `create_finetuning_data` whose records the loss learns from."""
        matches = self.loss.rows == POSITIVE and Manifest.read(folder).settings.task == MATCHING
        return MATCHING if matches or self.loss_name == "triplet" else RECORDS[self.loss.rows]

    def task(self, config, data):
        return self.task_class(
            config, data.labels, reading=self.reading, settings=self.settings, training=self.training
        )

    def _labels(self, path: str, examples: Sequence[Example]) -> list[str]:
        """Returns the names of the classes; none unless the loss is `classification`."""
        if self.loss.rows != LABEL:
            return []
        labels = sort_labels(each.label for each in examples)
        check_labels(path, labels, len(examples), self.options.label_column)
        if found := no_label_warning(labels):
            print_status(f"Warning: {path}: {found}")
        return labels

    def _ids(self, path: str, tokenizer) -> list[Example]:
        """Returns the examples of a table or of records, their texts as ids."""
        if os.path.isdir(path):
            task = self.recorded_as(path)
            found = matching(path, tokenizer) if task == MATCHING else recorded(path, tokenizer, task)
            if self.loss_name == "triplet" and len(found[0].texts) < 3:
                raise UsageError(
                    f"{path}: --siamese_loss=triplet needs records of three texts: {TRIPLETS} when they are made."
                )
            return self.checked(path, found, self.bad_rows())
        examples = self.examples(path)
        columns = zip(*(each.texts for each in examples), strict=True)
        ids = [[pieces.ids for pieces in tokenizer.encode_batch(column)] for column in columns]
        return [
            dataclasses.replace(each, texts=texts) for each, texts in zip(examples, zip(*ids, strict=True), strict=True)
        ]

    def recorded_set(self, folder, tokenizer, labels):
        return self._source(folder, tokenizer, self._ids(folder, tokenizer), labels)

    @tells_cuts("max_seq_length")
    def _source(self, path: str, tokenizer, examples: Sequence[Example], labels: list[str]) -> ArraySource:
        texts = [each.texts for each in examples]
        arrays = pack_sides(texts, tokenizer.vocabulary, self.options.max_seq_length, self.reading.frame)
        if self.loss.rows == LABEL:
            numbers = {name: index for index, name in enumerate(labels)}
            for each in examples:
                if each.label not in numbers:
                    raise unknown_label(each.place, each.label, labels)
            arrays["labels"] = np.array([numbers[each.label] for each in examples], np.int32)
        elif self.loss.rows in (SCORE, MATCH):
            arrays["labels"] = np.array([float(each.label) / self.max_score for each in examples], np.float32)
        return ArraySource(arrays, path)


def pack_sides(texts: Sequence[tuple], vocabulary, max_sequence_length: int, frame) -> dict[str, np.ndarray]:
    """Returns examples of S texts, as ids, each framed on its own: arrays (N, S, L)."""
    sides = len(texts[0])
    flat = pack_ids([ids for each in texts for ids in each], None, vocabulary, max_sequence_length, frame)
    return {name: value.reshape(-1, sides, value.shape[-1]) for name, value in flat.items()}


def recorded(folder: str, tokenizer, task: str) -> list[Example]:
    """Pairs of `create_finetuning_data --task=classify` or `regress`.

    Raises:
        DataError, UsageError: as `check_recorded`; or records of single texts.
    """
    manifest = Manifest.read(folder)
    names = check_recorded(folder, manifest, task, tokenizer, None)
    if manifest.settings.texts_per_record != 2:
        raise UsageError(f"{folder}: holds records of single texts, but --task=siamese compares two.")
    found = []
    for parsed in recorded_batches(folder, manifest):
        for ids, (a, b), label in zip(parsed["token_ids"], parsed["segment_lengths"], parsed["labels"], strict=True):
            text = names[int(np.ravel(label)[0])] if names else repr(float(np.ravel(label)[0]))
            place = f"{folder}, example {len(found)}"
            found.append(Example((ids[:a].tolist(), ids[a : a + b].tolist()), text, place))
    return found


def matching(folder: str, tokenizer) -> list[Example]:
    """Pairs or triplets of `create_finetuning_data --task=siamese`. Raises as `check_recorded` does."""
    manifest = Manifest.read(folder)
    check_recorded(folder, manifest, MATCHING, tokenizer, None)
    found = []
    for parsed in recorded_batches(folder, manifest):
        for rows, lengths in zip(parsed["token_ids"], parsed["segment_lengths"][:, :, 0], strict=True):
            texts = tuple(ids[:length].tolist() for ids, length in zip(rows, lengths, strict=True))
            found.append(Example(texts, None, f"{folder}, example {len(found)}"))
    return found
