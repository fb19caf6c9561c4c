"""Reads plain text: one sentence a line with blank lines between documents, free prose, or one document a line.

A corpus is a list of files seen as one range of bytes, so that it can be cut into parts that are read independently
and always hold the same sentences in the same order. Memory does not grow with the corpus.
"""

import bisect
import dataclasses
import glob
import itertools
import os
from collections.abc import Callable, Iterator

from data_pipelines.corpora.documents import Document
from data_pipelines.errors import DataError, UsageError
from data_pipelines.text.sentences import SPLITTERS, join_lines

FORMATS = ("sentences", "text", "documents")
LONGEST_LINE = 1_000_000  # bytes; a longer line is a file without line breaks, or not text
LONGEST_DOCUMENT = 1000  # sentences; a longer document is cut, so that a file without blank lines needs little memory
PROSE_DOCUMENT = 32  # sentences; paragraphs of free prose are gathered to about this
_BOM = b"\xef\xbb\xbf"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Text files as one range of bytes.

    Attributes:
        paths: the files, sorted.
        offsets: where each file begins in the range, and the end of the last.
        layout: one of `FORMATS`.
        language: "en" or "zh", for splitting and joining.
    """

    paths: list[str]
    offsets: list[int]
    layout: str
    language: str

    @property
    def num_bytes(self) -> int:
        return self.offsets[-1]

    def cut(self, num_parts: int) -> list[tuple[int, int]]:
        """Cuts the corpus into byte ranges of about equal size, each beginning where a document may begin."""
        marks = [0]
        for part in range(1, num_parts):
            marks.append(max(marks[-1], self._boundary(self.num_bytes * part // num_parts)))
        return list(itertools.pairwise([*marks, self.num_bytes]))

    def _boundary(self, offset: int) -> int:
        """The first place at or after `offset` where a document may begin: after a blank line, or a new file."""
        index = bisect.bisect_right(self.offsets, offset) - 1
        base, end = self.offsets[index], self.offsets[index + 1]
        if offset == base:
            return offset
        with open(self.paths[index], "rb") as file:
            file.seek(offset - base)
            while len(file.readline(LONGEST_LINE + 1)) > LONGEST_LINE:  # the rest of a line that began before
                pass
            while self.layout != "documents" and file.readline(LONGEST_LINE + 1).strip():
                pass
            return min(base + file.tell(), end)


def expand(patterns: str) -> list[str]:
    """The files that a comma-separated list of names or globs matches, sorted, each once.

    Raises:
        DataError: a pattern matches no file.
    """
    paths = set()
    for pattern in filter(None, (part.strip() for part in patterns.split(","))):
        found = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
        if not found:
            raise DataError(f"--input_file={pattern}: matches no file.")
        paths.update(found)
    if not paths:
        raise UsageError("--input_file: name at least one text file, such as --input_file=corpus/*.txt.")
    return sorted(paths)


def open_corpus(patterns: str, language: str, layout: str = "auto") -> Corpus:
    """Finds the files and decides how to read them.

    Args:
        patterns: comma-separated names or globs.
        language: "en" or "zh".
        layout: one of `FORMATS`, or "auto" to look at the beginning of the first file that has text.

    Raises:
        DataError: no file matches, or none holds any text.
    """
    paths = expand(patterns)
    sizes = [os.path.getsize(path) for path in paths]
    for path in paths:
        head = _beginning(path, 4096)
        if head[:2] == b"\x1f\x8b" or b"\x00" in head:
            raise DataError(
                f"{path}: not plain text (compressed, binary or UTF-16); unpack it, or convert it to UTF-8."
            )
    samples = (_beginning(path, 1 << 17).removeprefix(_BOM) for path in paths)
    sample = next((s for s in samples if s.strip()), b"")
    if not sample:
        raise DataError(f"--input_file={patterns}: the {len(paths)} file(s) hold no text.")
    if layout == "auto":
        layout = guess_layout(sample.decode("utf-8", errors="ignore"), language)
    return Corpus(paths, list(itertools.accumulate(sizes, initial=0)), layout, language)


def _beginning(path: str, num_bytes: int) -> bytes:
    with open(path, "rb") as file:
        return file.read(num_bytes)


def guess_layout(sample: str, language: str) -> str:
    """Chooses between `FORMATS` by the number of sentences a line and by blank lines."""
    lines = sample.splitlines()[:-1] or sample.splitlines()
    texts = [line for line in lines if line.strip()]
    per_line = sum(len(SPLITTERS[language](line)) for line in texts) / max(1, len(texts))
    if len(texts) == len(lines):
        # Without blank lines, many sentences a line mean that each line is a document.
        return "documents" if per_line > 2 else "sentences"
    # English prose that is broken into lines ends most of them inside a sentence; in Chinese a line without a full stop
    # at its end is as often a title.
    wrapped = sum(line.rstrip()[-1].isalpha() or line.rstrip()[-1] == "," for line in texts) / max(1, len(texts))
    return "text" if per_line > 2 or (wrapped > 0.5 and language != "zh") else "sentences"


def read_documents(
    corpus: Corpus, start: int, end: int, progress: Callable[[int], None] = lambda num_bytes: None
) -> Iterator[Document]:
    """The documents in the bytes [start, end) of the corpus, a range that `Corpus.cut` gave.

    Args:
        progress: called with the number of bytes after each line.

    Raises:
        DataError: invalid UTF-8 or a line of more than `LONGEST_LINE` bytes; names the file and the line.
    """
    group = {"documents": _documents, "sentences": _sentence_groups, "text": _prose}[corpus.layout]
    for index, path in enumerate(corpus.paths):
        base, limit = corpus.offsets[index], corpus.offsets[index + 1]
        first, last = max(start, base) - base, min(end, limit) - base
        if first < last:
            yield from group(_lines(path, first, last, progress), SPLITTERS[corpus.language], corpus.language, path)


def _lines(path: str, start: int, end: int, progress: Callable[[int], None]) -> Iterator[tuple[str, int]]:
    """The stripped lines of a part of a file, with their offsets."""
    with open(path, "rb") as file:
        file.seek(start)
        position = start
        while position < end:
            raw = file.readline(LONGEST_LINE + 1)
            yield _decode(raw, path, position), position
            position += len(raw)
            progress(len(raw))


def _documents(lines, split, language, path) -> Iterator[Document]:
    for line, position in lines:
        if sentences := split(line):
            yield Document(sentences, f"{path}, byte {position}")


def _sentence_groups(lines, split, language, path) -> Iterator[Document]:
    sentences: list[str] = []
    opened = 0
    for line, position in lines:
        if line:
            opened = opened if sentences else position
            sentences.append(line)
        if sentences and (not line or len(sentences) == LONGEST_DOCUMENT):
            yield Document(sentences, f"{path}, byte {opened}")
            sentences = []
    if sentences:
        yield Document(sentences, f"{path}, byte {opened}")


def _prose(lines, split, language, path) -> Iterator[Document]:
    paragraphs = _sentence_groups(lines, split, language, path)  # here a "sentence" is a line of a paragraph
    sentences: list[str] = []
    opened = ""
    for paragraph in paragraphs:
        opened = opened if sentences else paragraph.source
        sentences += split(join_lines(paragraph.sentences, language))
        if len(sentences) >= PROSE_DOCUMENT:
            yield Document(sentences, opened)
            sentences = []
    if sentences:
        yield Document(sentences, opened)


def _decode(raw: bytes, path: str, position: int) -> str:
    if len(raw) > LONGEST_LINE:
        raise DataError(
            f"{path}, line {_line_number(path, position)}: longer than {LONGEST_LINE:,} bytes. "
            "Text needs line breaks: one sentence, paragraph or document a line."
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {_line_number(path, position)}: not valid UTF-8 at byte {error.start + 1} of the line "
            f"(0x{raw[error.start]:02x}). Convert the file, for example with `iconv -f GB18030 -t UTF-8`."
        ) from None
    return text.removeprefix("\ufeff").strip() if position == 0 else text.strip()


def _line_number(path: str, position: int) -> int:
    with open(path, "rb") as file:
        number, left = 1, position
        while left > 0 and (block := file.read(min(left, 1 << 20))):
            number += block.count(b"\n")
            left -= len(block)
    return number
