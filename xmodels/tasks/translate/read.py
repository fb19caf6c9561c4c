"""Sources and references: two files of lines, or a table of two columns; and translations, a line each."""

import os
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.corpora.encodings import assumed
from data_pipelines.corpora.lines import ENDLESS, Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.corpora.tables import BadRow, Columns
from data_pipelines.corpora.translations import read_translations
from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import whole_file
from data_pipelines.ops.compose import compose
from data_pipelines.ops.unilm import frame_source_and_target, mask_targets
from data_pipelines.text.vocabulary import PAD
from xmodels import systems
from xmodels.models.folder import assign
from xmodels.systems import unilm
from xmodels.tasks.base import read as base
from xmodels.tasks.translate.one_row import TranslateInRow
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
    monitor = Monitor()
    try:
        corpus = open_corpus(
            test_file, "en", "parallel", Reading("en", text_column, target_column, encoding=assumed()), target_file
        )
        pairs = [document.sentences for document in read_documents(corpus.whole(), monitor)]
    except (DataError, UsageError) as error:
        raise type(error)(str(error).replace("--input_file", "--test_file")) from None
    if not pairs:
        raise DataError(f"--test_file={test_file}: holds no pair of a text and its translation.")
    if empty := monitor.counts["empty_documents"]:
        print(f"Note: {empty:,} pair(s) with an empty side are left out.")
    return [source for source, _ in pairs], [reference for _, reference in pairs]


def lines_of(path: str) -> list[str]:
    """The lines of a text file, also compressed. Raises a DataError where there is none, or one is not UTF-8."""
    if not os.path.isfile(path):
        raise DataError(f"--input_file={path}: no such file.")
    lines = list(Lines(Piece(path, "documents", 0, ENDLESS, ENDLESS), "file", Reading(encoding=assumed()), Monitor()))
    if not any(lines):
        raise DataError(f"--input_file={path}: holds no text.")
    return lines


def write_lines(path: str, lines: Sequence[str]) -> None:
    """Writes a text a line; the file is there whole or not at all."""
    with whole_file(path, "w") as file:
        file.writelines(f"{line}\n" for line in lines)


class Reader(base.Reader):
    """Tables of two columns of text: what is read, and what is written."""

    own_flags: ClassVar[tuple[str, ...]] = ("prefix", "max_target_length", "best_metric")
    best_metrics = ("seq2seq_accuracy", "exact_match")
    joins, writing = True, None
    refused: ClassVar[dict[str, str]] = {
        "label_column": "name the column of targets with --text_pair_column",
        "data_dir": "it learns from a table of two columns of text, --train_file",
    }

    def prepare(self, loaded, tokenizer):
        system = systems.of_model(loaded.system, loaded.model, self.options.init_checkpoint)
        self.writing = system and system.WRITING
        if self.writing is None or self.writing.task != self.name:
            raise UsageError(
                f"--init_checkpoint={self.options.init_checkpoint}: --task={self.name} needs an encoder-decoder; a network of the "
                f"kind {loaded.model} is none. Take one of T5, BART, MASS, UniLM or the Transformer."
            )
        if self.writing.one_row:
            self._check_row(loaded.model, loaded.config.max_sequence_length)
        self.numbers = self.writing.numbers
        return loaded, tokenizer

    def _check_row(self, model: str, longest: int) -> None:
        """Raises a UsageError where flags do not suit a network that reads source and target in one row of so many tokens."""
        options, length = self.options, self.num_positions
        if length > longest and not options.extend_positions:
            raise UsageError(
                f"--max_seq_length={options.max_seq_length}, --max_target_length={length - options.max_seq_length}: together {length}"
                f", but source and target share the {longest} positions of a {model}. Give less, or --extend_positions."
            )
        for flag in ("best_metric", "length_buckets", "tokens_per_batch"):
            if value := getattr(options, flag):
                raise UsageError(
                    f"--{flag}={value}: not for a {model}, whose rows hold source and target. Leave it out."
                )

    @property
    def in_rows(self) -> bool:
        """Whether source and target stand in one row; known after `prepare`."""
        return self.writing is not None and self.writing.one_row

    @property
    def num_positions(self):
        """Of a row: those of the source, and where both stand in it those of the target."""
        longest = self.options.max_seq_length
        return longest + (self.options.max_target_length or longest) if self.in_rows else longest

    @property
    def decisive(self):
        return "masked_lm_accuracy" if self.in_rows else super().decisive

    def prepare_weights(self, task, backbone, loaded):
        super().prepare_weights(task, backbone, loaded)
        if not self.in_rows or self.options.random_init:
            return
        if "masked_lm" in loaded.heads:
            assign(task.prefix, task, loaded.values, self.options.init_checkpoint)
        else:
            print_status(f"{self.options.init_checkpoint} has no head of a masked language model; a new one is learnt.")

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
        self.vocabulary = tokenizer.vocabulary
        source = self._source(self.training_file(), tokenizer)
        sets = {name: self._source(path, tokenizer) for name, path in self.evaluation_files()}
        return base.Data(source, sets, [], 1, f"{source.num_examples:,} pairs of texts")

    def task(self, config, data):
        if self.in_rows:
            own, length = unilm.Options(), self.num_positions
            hidden = max(1, round(own.target_masking_rate * (length - self.options.max_seq_length)))
            frame = frame_source_and_target(self.vocabulary, length)
            corrupt = compose(frame, mask_targets(self.vocabulary, own.target_masking_rate, hidden))
            return TranslateInRow(config, corrupt, own.label_smoothing, self.vocabulary[PAD], self.options.prefix)
        smoothing = self.writing.objective(config).label_smoothing
        return self.task_class(config, data.labels, smoothing, self.options.prefix)

    def _source(self, path: str, tokenizer) -> ArraySource:
        """The examples of a table, framed and padded."""
        pairs, vocabulary, longest = self.pairs(path), tokenizer.vocabulary, self.options.max_seq_length
        sides = [self.options.prefix + source for source, _ in pairs], [target for _, target in pairs]
        limits = longest, self.options.max_target_length or longest
        sources, targets = (
            [self.writing.framed(p.ids, vocabulary, limit, of_target) for p in tokenizer.encode_batch(texts)]
            for texts, limit, of_target in zip(sides, limits, (False, True), strict=True)
        )
        if self.in_rows:
            return ArraySource(self._rows([ids[1:-1] for ids in sources], [ids[:-1] for ids in targets]), path)
        token_ids, padding_mask = padded(sources, vocabulary.padding_id)
        labels, used = padded(targets, vocabulary.padding_id)
        starts = np.full((len(labels), 1), self.writing.start_id(vocabulary), np.int32)
        return ArraySource(
            {
                "token_ids": token_ids, "padding_mask": padding_mask, "labels": labels, "label_weights": used.astype("float32"),
                "target_ids": np.concatenate([starts, labels[:, :-1]], axis=1),
            },
            path,
        )  # fmt: skip

    def _rows(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """What `frame_source_and_target` reads of pairs without special tokens, and where their rows are real."""
        pairs = list(zip(sources, targets, strict=True))
        both = [[*source, *target] for source, target in pairs]
        lengths = np.array([[len(source), len(target)] for source, target in pairs], np.int32)  # (N, 2)
        # `[CLS] source [SEP] target [SEP]`
        real = np.arange(self.num_positions) < lengths.sum(axis=1, keepdims=True) + 3  # (N, L)
        return {"token_ids": padded(both, self.vocabulary[PAD])[0], "segment_lengths": lengths, "padding_mask": real}


def padded(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids as int32 (N, L), with L the longest of them rounded up to a multiple of 8, and where they are real."""
    lengths = np.array([len(row) for row in rows])
    real = np.arange(-(-int(lengths.max()) // 8) * 8) < lengths[:, None]
    ids = np.full(real.shape, pad_id, np.int32)
    ids[real] = np.concatenate([np.asarray(row, np.int32) for row in rows])
    return ids, real
