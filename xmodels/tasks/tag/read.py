"""Words with tags: CoNLL and CoNLL-U files, or records made of them. BIO, IOB1, BIOES, BMES and BILOU become BIO; others stay."""

import dataclasses
import os
from typing import ClassVar

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.conll import TaggedSentence, read_conll
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.row_checks import check_labels, shared_warning
from data_pipelines.finetuning.tag import SPAN_TAG, to_bio
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.labels import sort_tags
from xmodels.tasks.base.read import Data, Survey
from xmodels.tasks.base.records import check_recorded, recorded_batches
from xmodels.tasks.base.texts import TextReader, token_rows, warn_unknown
from xmodels.tasks.tag.words import Words, encoded, pack_words
from xmodels.training.watching.progress import print_status

SAMPLE = 1000  # sentences of a survey whose texts are kept


def read_sentences(path: str, text_column: str | None, label_column: str | None) -> list[TaggedSentence]:
    """The sentences of a file, with BIO tags where the tags are those of spans.

    Raises:
        DataError, UsageError: the file cannot be read, holds nothing, or a column is none.
    """
    for flag, given in (("text_column", text_column), ("label_column", label_column)):
        if given is not None and not given.isdigit():
            raise UsageError(f"--{flag}={given}: columns of CoNLL files have no names; give its position from 0.")
    columns = (None if given is None else int(given) for given in (text_column, label_column))
    found = list(read_conll(path, *columns))
    if not found:
        raise DataError(f"{path}: holds no sentences; expected a word a line, and a blank line behind each sentence.")
    if not all(SPAN_TAG.fullmatch(tag) for sentence in found for tag in sentence.tags):
        return found
    return [dataclasses.replace(sentence, tags=to_bio(sentence.tags)) for sentence in found]


def known_tags(path: str, sentences: list[TaggedSentence], labels: list[str]) -> None:
    """Raises a DataError where a tag does not occur in training."""
    known = set(labels)
    for sentence in sentences:
        for tag, line in zip(sentence.tags, sentence.lines, strict=True):
            if tag not in known:
                raise DataError(
                    f"{path}, line {line}: tag {tag!r} does not occur in training. Known: {', '.join(labels[:20])}. Correct "
                    "the line, or name another column with --label_column."
                )


class Reader(TextReader):
    """Sentences of tagged words."""

    refused: ClassVar[dict] = {"text_pair_column": "tagging reads one text only"}

    def sentences(self, path: str) -> list[TaggedSentence]:
        return read_sentences(path, self.options.text_column, self.options.label_column)

    def survey(self):
        path = self.training_files()
        train = self.sentences(path)
        labels = sort_tags(tag for sentence in train for tag in sentence.tags)
        check_labels(path, labels, len(train), self.options.label_column)
        summary = [f"{len(train):,} sentences to train on, {len(labels)} tags"]
        for name, other in self.evaluation_files():
            if not os.path.isdir(other):
                known_tags(other, sentences := self.sentences(other), labels)
                summary.append(f"{len(sentences):,} for {name}")
        texts = [Words.joined(sentence.words).text for sentence in train[:SAMPLE]]
        return Survey(", ".join(summary), labels, len(train), texts)

    def survey_records(self, tokenizer):
        labels, count = self.check_records("tag", tokenizer)
        return Survey(f"{count:,} examples, {len(labels)} tags", labels, count)

    def read(self, tokenizer):
        path = self.training_files()
        source, labels = self._source(path, tokenizer, None)
        check_labels(path, labels, source.num_examples, self.options.label_column)
        warn_unknown(path, source, tokenizer)
        evaluation_sets = {}
        for name, other in self.evaluation_files():
            found = evaluation_sets[name] = self._source(other, tokenizer, labels)[0]
            if warning := shared_warning(other, token_rows(found), path, token_rows(source)):
                print_status(warning)
        return Data(source, evaluation_sets, labels, 1, f"{len(labels)} tags")

    def _source(self, path: str, tokenizer, labels: list[str] | None) -> tuple[ArraySource, list[str]]:
        read = self._recorded if os.path.isdir(path) else self._written
        rows, tags, labels = read(path, tokenizer, labels)
        arrays = pack_words(rows, tokenizer, self.options.max_seq_length, self.reading.frame)
        opens, ids = arrays["label_weights"] > 0, np.zeros_like(arrays["token_ids"])
        for row, (of_words, words) in enumerate(zip(tags, arrays.pop("word_ids"), strict=True)):
            ids[row, opens[row]] = np.asarray(of_words, np.int32)[words[opens[row]]]
        return ArraySource({**arrays, "labels": ids}, path), labels

    def _written(self, path, tokenizer, labels):
        """The rows of `pack_words`, the ids of the tags of their words, and the names of all tags."""
        sentences = self.sentences(path)
        labels = labels or sort_tags(tag for sentence in sentences for tag in sentence.tags)
        known_tags(path, sentences, labels)
        ids = {name: index for index, name in enumerate(labels)}
        rows = encoded([Words.joined(sentence.words) for sentence in sentences], tokenizer)
        return rows, [[ids[tag] for tag in sentence.tags] for sentence in sentences], labels

    def _recorded(self, path, tokenizer, labels):
        """The same from records of `create_finetuning_data --task=tag`."""
        manifest = Manifest.read(path)
        labels = check_recorded(path, manifest, "tag", tokenizer, labels)
        rows, tags = [], []
        for parsed in recorded_batches(path, manifest):
            for row, (count, _) in enumerate(parsed["segment_lengths"]):
                ids, words, opens, of_tokens = (
                    parsed[name][row, :count] for name in ("token_ids", "word_ids", "label_weights", "labels")
                )
                of_words = np.zeros(int(words.max(initial=0)) + 1, np.int32)
                of_words[words[opens > 0]] = of_tokens[opens > 0]
                rows.append((ids.tolist(), words, opens))
                tags.append(of_words)
        return rows, tags, labels
