"""Words with tags: CoNLL and CoNLL-U files, or records made of them. BIO, IOB1, BIOES, BMES and BILOU become BIO; others stay."""

import dataclasses
import os
from typing import ClassVar

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.conll import TaggedSentence, read_conll
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.row_checks import check_labels
from data_pipelines.finetuning.tag_schemes import (
    OUTSIDE,
    REFUSE,
    REPAIR,
    SPAN_TAG,
    bad_tags,
    refusal,
    respell,
    scheme_of,
    to_bio,
    usual_spelling,
)  # fmt: skip
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.framing import max_text_tokens
from data_pipelines.text.labels import sort_tags
from xmodels.tasks.base.read import Data, Survey
from xmodels.tasks.base.records import check_recorded, recorded_batches
from xmodels.tasks.base.texts import TextReader
from xmodels.tasks.tag.settings import Settings, are_spans
from xmodels.tasks.tag.words import Words, encode_words, pack_words, stride_of, windows_of
from xmodels.training.watching.progress import print_status

SAMPLE = 1000  # sentences of a survey whose texts are kept


class TagSource(ArraySource):
    """Windows as arrays, and the text to which each belongs.

    Attributes:
        text_ids: int (N,), of rows that stand in the order of their texts.
    """

    def __init__(self, arrays, name: str, text_ids: np.ndarray):
        super().__init__(arrays, name)
        self.text_ids = text_ids


def read_sentences(
    path: str, text_column: str | None, label_column: str | None, on_bad_tags: str = REPAIR
) -> list[TaggedSentence]:
    """Returns the sentences of a file, with BIO tags where the tags are those of spans.

    Args:
        on_bad_tags: what to do with tags that cannot be: `repair` reads them as `to_bio` says and prints how many there are.

    Raises:
        DataError, UsageError: the file cannot be read, holds nothing, a column is none, or tags that cannot be are refused.
    """
    for flag, given in (("text_column", text_column), ("label_column", label_column)):
        if given is not None and not given.isdigit():
            raise UsageError(f"--{flag}={given}: columns of CoNLL files have no names; give its position from 0.")
    columns = (None if given is None else int(given) for given in (text_column, label_column))
    found = list(read_conll(path, *columns))
    if not found:
        raise DataError(f"{path}: holds no sentences; expected a word a line, and a blank line behind each sentence.")
    if spelling := usual_spelling(tag for sentence in found for tag in sentence.tags):
        tag, usual = next((tag, usual) for tag, usual in sorted(spelling.items()) if usual != OUTSIDE)
        print_status(f"{path}: tags of spans are spelled otherwise; {tag!r} and its like are read as {usual!r}.")
        found = [dataclasses.replace(each, tags=respell(each.tags, spelling)) for each in found]
    odd = [(tag, n) for s in found for tag, n in zip(s.tags, s.lines, strict=True) if not SPAN_TAG.fullmatch(tag)]
    if odd:
        check_odd(path, found, odd, on_bad_tags)
        return found
    check_tags(path, found, on_bad_tags)
    return [dataclasses.replace(sentence, tags=to_bio(sentence.tags)) for sentence in found]


def check_odd(path: str, sentences: list[TaggedSentence], odd: list[tuple[str, int]], on_bad_tags: str) -> None:
    """Says where a file of spans seems to hold tags that are none, since then all are taken as they stand; refuses it if told so."""
    count = sum(tag.startswith(("B-", "I-")) for sentence in sentences for tag in sentence.tags)
    outside = sum(tag == OUTSIDE for sentence in sentences for tag in sentence.tags)
    if count <= len(odd) and outside:
        unread_scheme(path, odd, outside, on_bad_tags)
    if count <= len(odd):
        return  # parts of speech
    (tag, line), more = odd[0], f"{len(odd):,} such tag(s)"
    problem = f"{path}, line {line}: {tag!r} is no tag of spans, where {count:,} others are; expected O, B-… or I-…"
    if on_bad_tags == REFUSE:
        raise DataError(f"{problem}; {more}. Correct them, or name another column with --label_column.")
    print_status(
        f"Warning: {problem}; {more}. All tags are therefore taken as they stand, and each word is a span of its own."
    )


def unread_scheme(path: str, odd: list[tuple[str, int]], outside: int, on_bad_tags: str) -> None:
    """Says where tags name spans, as some words are outside of them, in a scheme that is not read; refuses it if told so."""
    (tag, line), words = odd[0], f"{outside:,} word(s) are {OUTSIDE!r}"
    problem = f"{path}, line {line}: {tag!r} is of no scheme of spans that is read, where {words}; expected B-… or I-…"
    if on_bad_tags == REFUSE:
        raise DataError(f"{problem}. Correct the tags, or name another column with --label_column.")
    print_status(
        f"Warning: {problem}. All tags are therefore taken as they stand: each word is a span of its own, with {OUTSIDE!r} too, so "
        "scores of spans are the share of right words."
    )


def check_tags(path: str, sentences: list[TaggedSentence], on_bad_tags: str) -> None:
    """Prints how many tags of spans cannot be where they stand, or raises a DataError that names the first one."""
    scheme = scheme_of(sentence.tags for sentence in sentences)
    bad = [(s.lines[min(each.place, len(s.lines) - 1)], each) for s in sentences for each in bad_tags(s.tags, scheme)]
    if bad and on_bad_tags == REFUSE:
        raise refusal(path, *bad[0], scheme, len(bad))
    if bad:
        print_status(
            f"{path}: {len(bad):,} impossible tag(s) of {scheme.name} repaired, as conlleval reads them; the first is on line "
            f"{bad[0][0]}: {bad[0][1].reason}."
        )


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

    reads_windows = True
    refused: ClassVar[dict] = {"text_pair_column": "tagging reads one text only"}

    @property
    def settings(self) -> Settings:
        options = self.options
        given = {
            "feature_layers": self.feature_layers(),
            "combine_layers": options.combine_layers,
            "bilstm_dim": options.bilstm_dim,
        }
        given = {name: value for name, value in given.items() if value}
        return Settings(options.crf, options.doc_stride, options.freeze_backbone, **given)

    def feature_layers(self) -> list[int]:
        """Returns the numbers of --feature_layers. Raises a UsageError where they are none, or the network below learns."""
        options = self.options
        several = (options.feature_layers or "").count(",")
        if options.feature_layers and not options.freeze_backbone:
            raise UsageError(
                "--feature_layers: are of a network that does not learn. Add --freeze_backbone, or leave them out."
            )
        if options.combine_layers and not several:
            raise UsageError(
                f"--combine_layers={options.combine_layers}: needs several --feature_layers, such as -1,-2,-3,-4."
            )
        if options.combine_layers == "mix_both" and not options.bilstm_dim:
            raise UsageError("--combine_layers=mix_both: is for both sides of a BiLSTM. Add --bilstm_dim, or take mix.")
        parts = (options.feature_layers or "").split(",") if options.feature_layers else []
        if not all(part.strip().removeprefix("-").isdecimal() for part in parts):
            raise UsageError(
                f"--feature_layers={options.feature_layers}: expected numbers with commas between, such as -1,-2."
            )
        return [int(part) for part in parts]

    def prepare_weights(self, task, backbone, loaded):
        if not self.options.freeze_backbone:
            return
        count, numbers = len(backbone.hidden_states(backbone.tiny_batch())), self.feature_layers()
        if not all(-count <= number < count for number in numbers):
            raise UsageError(
                f"--feature_layers={self.options.feature_layers}: the network shows {count} layers; expected numbers from 0, the "
                f"embedding, to {count - 1}; -1 is the last one."
            )
        backbone.trainable = False

    def sentences(self, path: str) -> list[TaggedSentence]:
        options = self.options
        return read_sentences(path, options.text_column, options.label_column, options.bad_tags or REPAIR)

    def survey(self):
        path = self.training_files()
        train = self.sentences(path)
        labels = sort_tags(tag for sentence in train for tag in sentence.tags)
        num_words = sum(len(sentence.words) for sentence in train)
        check_labels(path, labels, num_words, self.options.label_column or "the last of a line")
        warn_blanks(path, train)
        summary = [f"{len(train):,} sentences to train on, {len(labels)} tags"]

        def count(other: str) -> int:
            known_tags(other, sentences := self.sentences(other), labels)
            return len(sentences)

        summary += self.count_evaluation(count)
        texts = [Words.joined(sentence.words).text for sentence in train[:SAMPLE]]
        return Survey(", ".join(summary), labels, len(train), texts)

    def survey_records(self, tokenizer):
        labels, count = self.check_records("tag", tokenizer)
        return Survey(f"{count:,} examples, {len(labels)} tags", labels, count)

    def read(self, tokenizer):
        path, options = self.training_files(), self.options
        stride_of(options.doc_stride, options.max_seq_length, self.reading.frame)  # raises what is wrong with it
        source, labels = self._source(path, tokenizer, None)
        num_words = int(source.arrays["label_weights"].sum())
        check_labels(path, labels, num_words, options.label_column or "the last of a line")
        sets = self.evaluation_sets(source, tokenizer, lambda other: self._source(other, tokenizer, labels)[0])
        return Data(source, sets, labels, 1, f"{len(labels)} tags")

    def task(self, config, data):
        return self.task_class(config, data.labels, reading=self.reading, settings=self.settings)

    def recorded_set(self, folder, tokenizer, labels):
        return self._source(folder, tokenizer, labels)[0]

    def _source(self, path: str, tokenizer, labels: list[str] | None) -> tuple[TagSource, list[str]]:
        read = self._recorded if os.path.isdir(path) else self._written
        rows, tags, text_ids, labels = read(path, tokenizer, labels)
        arrays = pack_words(rows, tokenizer, self.options.max_seq_length, self.reading.frame)
        counts, ids = arrays["label_weights"] > 0, np.zeros_like(arrays["token_ids"])
        if are_spans(labels):
            tags = as_chains(tags, text_ids, labels)
        for row, of_words in enumerate(tags):
            ids[row, counts[row]] = of_words
        if not self.options.crf:
            arrays.pop("word_ids")
        return TagSource({**arrays, "labels": ids}, path, np.array(text_ids)), labels

    def _written(self, path, tokenizer, labels):
        """Returns the rows of `pack_words`, the ids of the tags of the words that count in each, the text of each, and all
        tags."""
        sentences = self.sentences(path)
        labels = labels or sort_tags(tag for sentence in sentences for tag in sentence.tags)
        known_tags(path, sentences, labels)
        ids = {name: index for index, name in enumerate(labels)}
        whole = encode_words([Words.joined(sentence.words) for sentence in sentences], tokenizer)
        made = windows_of(whole, self.options.doc_stride, self.options.max_seq_length, self.reading.frame)
        rows, tags, text_ids = [], [], []
        for text, (sentence, parts) in enumerate(zip(sentences, made, strict=True)):
            of_words = np.array([ids[tag] for tag in sentence.tags], np.int32)
            rows += parts
            tags += [of_words[words[opens > 0]] for _, words, opens in parts]
            text_ids += [text] * len(parts)
        return rows, tags, text_ids, labels

    def _recorded(self, path, tokenizer, labels):
        """Returns the same from records of `create_finetuning_data --task=tag`."""
        manifest = Manifest.read(path)
        labels = check_recorded(path, manifest, "tag", tokenizer, labels)
        rows, tags, text_ids = [], [], []
        for parsed in recorded_batches(path, manifest):
            for row, (count, _) in enumerate(parsed["segment_lengths"]):
                ids, words, opens, of_tokens = (
                    parsed[name][row, :count] for name in ("token_ids", "word_ids", "label_weights", "labels")
                )
                rows.append((ids.tolist(), words, opens))
                tags.append(of_tokens[opens > 0])
                text_ids.append(int(parsed["example_ids"][row]))
        length, longest = self.options.max_seq_length, max(len(ids) for ids, _, _ in rows)
        capacity = max_text_tokens(1, length, self.reading.frame)
        if longest > capacity:
            raise UsageError(
                f"--max_seq_length={length}: holds {capacity} tokens of a text, but {path} has texts of {longest}. Make the records "
                f"with a smaller --max_seq_length, or give at least {length + longest - capacity} here."
            )
        return rows, tags, text_ids, labels


def as_chains(tags: list[np.ndarray], text_ids: list[int], labels: list[str]) -> list[np.ndarray]:
    """Returns the ids of tags of spans, such that I-X stands behind B-X or I-X only, also where a word before has no piece and
    so no tag."""
    made, before, text_before = [], None, None
    names = {name: index for index, name in enumerate(labels)}
    for of_words, text in zip(tags, text_ids, strict=True):
        before = before if text == text_before else None  # windows of a text go on
        given = [labels[tag] for tag in of_words]
        fixed = to_bio([*([before] if before else []), *given])[1 if before else 0 :]
        made.append(np.array([names.get(tag, old) for tag, old in zip(fixed, of_words, strict=True)], np.int32))
        before, text_before = (fixed[-1] if fixed else before), text
    return made


def warn_blanks(path: str, sentences) -> None:
    """Says where words hold blanks, as the texts of a table do that is taken for words with their tags."""
    words = [word for sentence in sentences for word in sentence.words]
    odd = [word for word in words if len(word.split()) > 1]
    if 2 * len(odd) > len(words):
        print_status(
            f"Warning: {path}: {len(odd):,} of {len(words):,} words hold blanks, such as {odd[0][:40]!r}. A line is one word and its "
            "tag, and a blank line ends a sentence; for a table of texts with labels take --task=classify."
        )
