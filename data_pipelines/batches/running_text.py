"""Text that a language model is scored on: one stream of pieces, and how many words, bytes and characters it stands for.

Two ways to read. Verbatim: each file as it is, with its line ends, as a published model was scored. As records: sentences of
documents, cleaned and joined as `create_pretraining_data --packing=stream` does it, so that a network meets what it learnt from.
"""

import collections
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from data_pipelines.corpora.corpus import Corpus, open_corpus, read_documents
from data_pipelines.corpora.documents import Document
from data_pipelines.corpora.encodings import assumed_encoding
from data_pipelines.corpora.files import expand
from data_pipelines.corpora.headers import TEXT_NAMES
from data_pipelines.corpora.labelled import first_of, read_json_lines
from data_pipelines.corpora.layouts import format_of
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import DataError, UsageError
from data_pipelines.pretraining.stages import clean
from data_pipelines.pretraining.stages.pipe import pipe
from data_pipelines.pretraining.stages.tokenize import ids_of, tokenize
from data_pipelines.text.tokenizer import Tokenizer, is_ideograph
from data_pipelines.text.vocabulary import EOS, SEP, UNKNOWN

TOGETHER = 1 << 20  # characters of a file that are tokenized at once
_BEFORE_BLANKS = re.compile(r"(?<=\S)(?=\s)")  # no piece of any tokenizer reaches across
_IN_A_WORD = re.compile(r"(?<=\w)(?=\w)")  # for single characters, which drop blanks at the ends of a text
Change = Callable[[str], str]


@dataclasses.dataclass(frozen=True)
class RunningText:
    """A text as pieces, and its size before it was detokenized.

    Attributes:
        ids: int32 (N + 1,). The first, which is the token that ends documents if there is such, is read and not scored.
        words: what blanks part.
        ends: ends of lines (verbatim) or of documents (as records) that stand among the pieces.
        bytes, characters: of the text in UTF-8, ends included.
        ideographs: how many of the characters are words without blanks around them.
        documents: what the token that ends documents parts.
        unknown: pieces that are the unknown token.
    """

    ids: np.ndarray
    words: int
    ends: int
    bytes: int
    characters: int
    ideographs: int
    documents: int
    unknown: int


def end_of_documents(tokenizer: Tokenizer) -> list[int]:
    """Returns the token that ends documents in streams; none where the vocabulary has no such, as that of GPT-1."""
    roles = tokenizer.vocabulary.roles
    return [roles[role] for role in (EOS, SEP) if role in roles][:1]


def read_verbatim(patterns: str, tokenizer: Tokenizer, change: Change, settings: Mapping | None = None) -> RunningText:
    """Returns files as they are; several are parted by the token that ends documents. Each line of JSON lines is such a file.

    Args:
        change: is given each file before it is tokenized, such as a detokenizer.
        settings: of the manifest of records that were made with `--input_format=verbatim`, whose readers then read. They know tables,
            and put a line end behind the last line of a file.

    Raises:
        DataError: a file is missing or no UTF-8, or all are empty.
        UsageError: a file is a table.
    """
    sizes, stream = collections.Counter(), []
    end = np.array(end_of_documents(tokenizer), np.int32)
    for text in _texts(patterns) if settings is None else _texts_of_documents(_opened(patterns, settings)):
        if not text.strip():
            continue
        sizes.update(_sizes(text), ends=text.count("\n") if tokenizer.keeps_blanks else 0, documents=1)
        parts = _cut(change(text), _IN_A_WORD if tokenizer.kind == "characters" else _BEFORE_BLANKS)
        stream += [end, *(np.array(tokenizer.encode(part).ids, np.int32) for part in parts)]
    return _made(stream, sizes, tokenizer, patterns)


def read_as_records(patterns: str, tokenizer: Tokenizer, change: Change, settings: Mapping) -> RunningText:
    """Documents as `create_pretraining_data` reads them; each ends with the token that ends documents.

    Args:
        change: is given each sentence before it is tokenized.
        settings: of a manifest: `language`, `input_format`, `clean` and the like; what is not there has its default.

    Raises:
        DataError, UsageError: as the corpus' readers.
    """
    language, corpus = settings.get("language", "en"), _opened(patterns, settings)
    statistics: collections.Counter = collections.Counter()
    sizes: collections.Counter = collections.Counter()
    blank = "" if language == "zh" else tokenizer.blank
    limits = settings.get("min_sentence_chars", 0), settings.get("min_document_chars", 0)

    def counted(documents: Iterator[Document]) -> Iterator[Document]:
        for document in documents:
            for sentence in document.sentences:
                sizes.update(_sizes(sentence))
            between = bool(blank) * (len(document.sentences) - 1)
            sizes.update(ends=1, documents=1, bytes=1 + between, characters=1 + between)
            yield Document([change(sentence) for sentence in document.sentences], document.source)

    made = pipe(
        read_documents(corpus.whole(), Monitor()),
        clean.clean(settings.get("clean", ""), *limits, statistics),
        counted,
        tokenize(tokenizer, None, statistics, blank=blank),
    )
    end = np.array(end_of_documents(tokenizer), np.int32)
    stream = [end] + [part for tokens in made for part in (ids_of(tokens.marked), end)]
    return _made(stream, sizes, tokenizer, patterns)


def _opened(patterns: str, settings: Mapping) -> Corpus:
    reading = Reading.of({**settings, "encoding": assumed_encoding(), "on_bad_text": "fail"})
    return open_corpus(patterns, settings.get("language", "en"), settings.get("input_format", "auto"), reading)


def _texts_of_documents(corpus: Corpus) -> Iterator[str]:
    """Yields the texts of documents that are read verbatim, each of one `Document` or of several that go on with one another."""
    parts: list[str] = []
    for document in read_documents(corpus.whole(), Monitor()):
        parts += document.sentences
        if document.ends:
            yield "".join(parts)
            parts = []


def _texts(patterns: str) -> Iterator[str]:
    for path in expand(patterns, "--test_file"):
        yield from _contents(path)


def _made(stream: list[np.ndarray], sizes: Mapping[str, int], tokenizer: Tokenizer, patterns: str) -> RunningText:
    ids = np.concatenate(stream) if stream else np.zeros(0, np.int32)
    if not sizes["words"] or len(ids) < 2:
        raise DataError(f"--test_file={patterns}: holds no words to score.")
    unknown = int((ids == tokenizer.vocabulary.roles.get(UNKNOWN, -1)).sum())
    return RunningText(ids, unknown=unknown, **{f.name: sizes[f.name] for f in dataclasses.fields(RunningText)[1:-1]})


def _sizes(text: str) -> dict[str, int]:
    return {
        "words": len(text.split()), "bytes": len(text.encode()), "characters": len(text),
        "ideographs": sum(map(is_ideograph, text)),
    }  # fmt: skip


def _contents(path: str) -> Iterator[str]:
    """Yields the text of a file, or the texts of JSON lines."""
    kind = format_of(path, "auto:verbatim")
    if kind == "jsonl":
        for place, value in read_json_lines(path):
            yield str(first_of(value, TEXT_NAMES, place) or "")
        return
    if kind != "verbatim":
        raise UsageError(f"--test_file={path}: a table is not text to be read verbatim; give --input_format={kind}.")
    with open_text(path, by_lines=False) as file:
        text = file.read()
    yield text


def _cut(text: str, place: re.Pattern) -> Iterator[str]:
    """Parts of about `TOGETHER` characters whose pieces are, side by side, those of the whole."""
    begin = 0
    while begin < len(text):
        found = place.search(text, begin + TOGETHER)
        end = found.start() if found else len(text)
        yield text[begin:end]
        begin = end
