"""Sources and references: two files of lines, or a table of two columns; and translations, a line each."""

import os
from collections.abc import Sequence
from typing import ClassVar

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.corpora.encodings import assumed_encoding
from data_pipelines.corpora.headers import PAIR_NAMES, TEXT_NAMES, Columns
from data_pipelines.corpora.lines import ENDLESS, Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.corpora.tables import TABLES, BadRow, read_table
from data_pipelines.corpora.text_files import open_text
from data_pipelines.corpora.translations import read_translations
from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import whole_file
from data_pipelines.text import cuts
from data_pipelines.text.vocabulary import UNKNOWN
from xmodels import systems
from xmodels.interfaces.reading import numbers_for
from xmodels.models.config import LONGEST_ROW
from xmodels.tasks.base import read as base
from xmodels.tasks.base.origin import options_of
from xmodels.tasks.translate.one_row import OneRow
from xmodels.tasks.translate.two_sides import TwoSides
from xmodels.training.watching.progress import print_status

SAMPLE = 1000  # pairs of a survey whose texts are kept


def read_pairs(test_file: str, target_file: str | None, text_column: str | None, target_column: str | None):
    """Sources and references, read as `create_pretraining_data` reads parallel text; says how many pairs lack a side.

    Raises:
        DataError: the files differ in their numbers of lines, or hold no pair.
    """
    if target_file and (text_column or target_column):
        raise UsageError(
            "--target_file goes with two files of lines; --text_column and --target_column with one table."
        )
    # A file *.tsv without a header is parallel text, whose columns are counted.
    named = kind_of(test_file) != ".tsv" or (not (text_column or target_column) and _has_header(test_file))
    read = _table if not target_file and kind_of(test_file) in TABLES and named else _parallel
    try:
        pairs, empty = read(test_file, target_file, text_column, target_column)
    except (DataError, UsageError) as error:
        message = str(error).replace("--input_file", "--test_file")
        for flag in ("--text_pair_column", "--label_column"):
            message = message.replace(flag, "--target_column")
        raise type(error)(message) from None
    if not pairs:
        raise DataError(f"--test_file={test_file}: holds no pair of a text and its translation.")
    if empty:
        print(f"Note: {empty:,} pair(s) with an empty side are left out.")
    return [source for source, _ in pairs], [reference for _, reference in pairs]


def _has_header(path: str) -> bool:
    """Returns whether the first line of a file *.tsv names both columns, as `finetune` finds them."""
    if not os.path.isfile(path):  # a pattern of parallel text
        return False
    with open_text(path) as file:
        names = file.readline().rstrip("\r\n").split("\t")
    return bool(set(names) & set(TEXT_NAMES)) and bool(set(names) & set(PAIR_NAMES))


def _parallel(test_file: str, target_file: str | None, text_column: str | None, target_column: str | None):
    """Pairs of two files of lines, or of tab-separated columns, and how many lack a side."""
    monitor, reading = Monitor(), Reading("en", text_column, target_column, encoding=assumed_encoding())
    corpus = open_corpus(test_file, "en", "parallel", reading, target_file)
    pairs = [document.sentences for document in read_documents(corpus.whole(), monitor)]
    return pairs, monitor.counts["empty_documents"]


def _table(test_file: str, target_file: None, text_column: str | None, target_column: str | None):
    """Returns the same of a table of JSON lines or of comma-separated columns."""
    bad_rows: list[BadRow] = []
    rows = read_translations(test_file, Columns(text_column, target_column), bad_rows=bad_rows)
    pairs = [(source.strip(), reference.strip()) for source, reference, _ in rows]
    whole = [pair for pair in pairs if all(pair)]
    return whole, len(bad_rows) + len(pairs) - len(whole)


def texts_of(path: str, text_column: str | None = None) -> list[str]:
    """Returns the lines of a text file, also compressed, or the texts of a table: a file *.tsv, *.csv or *.jsonl.

    Raises:
        DataError: there is no such file, it has no text, or text of another encoding.
        UsageError: a column is named of a file that is no table.
    """
    if os.path.isfile(path) and kind_of(path) in TABLES:
        rows = read_table(path, Columns(text_column), with_labels=False, may_be_empty=True)
        return [row.texts[0].strip() for row in rows]
    if text_column is not None:
        raise UsageError(
            f"--text_column={text_column}: {path} is a text a line, by its name. A table ends in .tsv, .csv or .jsonl."
        )
    return lines_of(path)


def lines_of(path: str) -> list[str]:
    """Returns the lines of a text file, also compressed. Raises a DataError where there is none, or one is not of its encoding."""
    if not os.path.isfile(path):
        raise DataError(f"--input_file={path}: no such file.")
    try:
        lines = list(
            Lines(
                Piece(path, "documents", 0, ENDLESS, ENDLESS), "file", Reading(encoding=assumed_encoding()), Monitor()
            )
        )
    except DataError as error:  # here is no flag for it
        raise DataError(str(error).replace(", or go on with --on_bad_text=replace or drop", "")) from None
    if not any(lines):
        raise DataError(f"--input_file={path}: holds no text.")
    return lines


def write_lines(path: str, lines: Sequence[str]) -> None:
    """Writes a text a line; the file is there whole or not at all."""
    with whole_file(path, "w") as file:
        file.writelines(f"{line}\n" for line in lines)


class Reader(base.Reader):
    """Tables of two columns of text: what is read, and what is written."""

    writing = None
    refused: ClassVar[dict[str, str]] = {
        "label_column": "name the column of targets with --text_pair_column",
        "data_dir": "it learns from a table of two columns of text, --train_file",
    }

    def prepare(self, loaded, tokenizer):
        system = systems.of_model(loaded.system, loaded.model, self.options.init_checkpoint)
        self.writing = system and system.WRITING
        self.writing = self.writing and self.writing.with_frame_of(tokenizer)
        if self.writing is None or self.writing.task != self.name:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: --task={self.name} needs an encoder-decoder; a network of the "
                f"kind {loaded.model} is none. Take one of T5, BART, MASS, UniLM or the Transformer."
            )
        own = options_of(self.options.init_checkpoint, system)  # what pretraining was told of smoothing and pondering
        layout = OneRow if self.writing.one_row else TwoSides
        self.layout = layout(self.options, self.writing, tokenizer.vocabulary, own)
        self.layout.check(loaded.model, loaded.config.cut(LONGEST_ROW))
        self.numbers = numbers_for(self.writing.numbers, loaded.config, self.usual_optimizer())
        if tokenizer.vocabulary.roles.get(UNKNOWN) in tokenizer.encode(self.options.prefix).ids:
            print_status(
                f"Warning: the vocabulary does not know all of --prefix={self.options.prefix!r}, so the network reads it as [UNK]."
            )
        return loaded, tokenizer

    @property
    def num_positions(self):
        return self.layout.num_positions

    @property
    def decisive(self):
        return self.layout.decisive or super().decisive

    def prepare_weights(self, task, backbone, loaded):
        super().prepare_weights(task, backbone, loaded)
        if not self.options.random_init:
            self.layout.take_head(task, loaded)

    def pairs(self, path: str) -> list[tuple[str, str]]:
        """Sources and targets of a table. Raises a DataError where one is empty, unless such rows are left out."""
        columns = Columns(self.options.text_column, self.options.text_pair_column)
        bad_rows = self.bad_rows()
        found, empty = [], []
        for source, target, place in read_translations(path, columns, bad_rows=bad_rows):
            if source.strip() and target.strip():
                found.append((source, target))
            else:
                empty.append(BadRow(place, "one of the two texts is empty"))
        if empty and bad_rows is None:
            raise DataError(
                f"{empty[0]}. Mend the row or take it out; `finetune --on_bad_row=skip` leaves such rows out."
            )
        base.print_left_out(path, [*(bad_rows or []), *empty])
        if not found:
            raise DataError(f"{path}: holds no row with two texts.")
        return found

    def training_file(self) -> str:
        if not self.options.train_file:
            raise UsageError("--train_file=FILE: give a table of two columns of text to learn from.")
        return self.options.train_file

    def survey(self):
        train = self.pairs(self.training_file())
        summary = [f"{len(train):,} pairs to train on"]
        summary += [f"{len(self.pairs(path)):,} for {name}" for name, path in self.evaluation_files()]
        return base.Survey(", ".join(summary), num_rows=len(train), texts=[source for source, _ in train[:SAMPLE]])

    def read(self, tokenizer):
        source = self._source(self.training_file(), tokenizer)
        sets = {name: self._source(path, tokenizer) for name, path in self.evaluation_files()}
        summary = f"{source.num_examples:,} pairs of texts"
        return base.Data(source, sets, [], 1, summary, self.layout.identity)

    def task(self, config, data):
        return self.layout.task(config)

    def _framed(self, ids, vocabulary, limit: int, of_target: bool) -> list[int]:
        found = self.writing.add_special_tokens(ids, vocabulary, limit, of_target)
        cuts.add([len(self.writing.add_special_tokens(ids, vocabulary, LONGEST_ROW, of_target)) - len(found)])
        return found

    @base.tells_cuts("max_seq_length", "max_target_length")
    def _source(self, path: str, tokenizer) -> ArraySource:
        """Returns the examples of a table, framed and padded."""
        pairs, vocabulary, longest = self.pairs(path), tokenizer.vocabulary, self.options.max_seq_length
        sides = [self.options.prefix + source for source, _ in pairs], [target for _, target in pairs]
        limits = longest, self.options.max_target_length or longest
        encoders = tokenizer.encode_batch, tokenizer.encode_targets
        framed = [
            [self._framed(p.ids, vocabulary, limit, of_target) for p in encode(texts)]
            for encode, texts, limit, of_target in zip(encoders, sides, limits, (False, True), strict=True)
        ]
        return ArraySource(self.layout.arrays(*framed), path)
