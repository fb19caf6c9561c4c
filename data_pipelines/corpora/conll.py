"""Reads tagged words: CoNLL (a word a line, columns parted by blanks or tabs, a blank line ends a sentence), CoNLL-U."""

import dataclasses
import itertools
import re
from collections.abc import Iterator

from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.headers import LABEL_NAMES, TEXT_NAMES
from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import DataError, UsageError

BLANKS = re.compile(r"[ \t]+")  # what parts columns, as in conlleval
NO_WORDS = "is a table of texts with labels, no file of words with their tags"
ADVICE = "Take --task=classify, or give a word and its tag a line, and a blank line behind each sentence."
CONLL_U = (1, 3)  # the columns FORM and UPOS


@dataclasses.dataclass(frozen=True)
class TaggedSentence:
    """Words and the tag of each; `lines` are where they stand, counted from 1."""

    words: list[str]
    tags: list[str]
    lines: list[int]


def read_conll(path: str, word_column: int | None = None, tag_column: int | None = None) -> Iterator[TaggedSentence]:
    """Yields the sentences of a file; `-DOCSTART-` lines, comments at the beginning of a sentence, and the
    multiword tokens and empty nodes of CoNLL-U are left out.

    Args:
        word_column: counted from 0; None takes the first, in `.conllu` the second.
        tag_column: None takes the last, in `.conllu` the fourth (universal part of speech).

    Raises:
        DataError: a line has too few columns, or another number than the lines before it.
    """
    is_conll_u = kind_of(path) == ".conllu"
    usual = CONLL_U if is_conll_u else (0, -1)
    word, tag = (u if given is None else given for given, u in zip((word_column, tag_column), usual, strict=True))
    if word == tag:
        raise UsageError(f"{path}: --text_column and --label_column are the same column ({word}).")
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []
    is_alone = True  # whether no sentence came before
    with open_text(path) as file:
        numbered, width, by_tabs = _layout(enumerate(file, 1))
        known: set[str] | None = None
        for number, line in numbered:
            line = line.rstrip("\r\n")
            if not line.strip() or line.startswith("-DOCSTART-"):
                if words:
                    yield TaggedSentence(words, tags, lines)
                    is_alone = False
                words, tags, lines = [], [], []
                continue
            fields = _fields(line, by_tabs)
            if line.startswith("#") and not words and not is_conll_u and len(fields) == width and known is None:
                known = _tags(path, width, by_tabs, tag)
            if line.startswith("#") and (is_conll_u or (not words and _is_comment(line, fields, width, known, tag))):
                continue
            if len(fields) != width or width <= max(word, tag, 1):
                raise DataError(
                    f"{path}, line {number}: {len(fields)} column(s), expected "
                    + (f"{width} as before" if len(fields) != width else f"at least {max(word, tag, 1) + 1}")
                    + f", parted by {'tabs' if by_tabs else 'blanks'}. Found: {line[:60]!r}. A sentence ends with a "
                    "blank line; name the columns with --text_column and --label_column, counted from 0."
                )
            if is_conll_u and not fields[0].isdigit():
                continue
            words.append(fields[word])
            tags.append(fields[tag])
            lines.append(number)
            if is_alone and len(words) == 1:
                _check_no_header(path, fields)
    if words and is_alone:
        _check_no_table(path, words)
    if words:
        yield TaggedSentence(words, tags, lines)


def _check_no_header(path: str, fields: list[str]) -> None:
    """Raises a UsageError where the first line names the columns of a table of texts with labels."""
    names = [field.strip().lower() for field in fields]
    if not (set(names) & set(TEXT_NAMES) and set(names) & set(LABEL_NAMES)):
        return
    raise UsageError(f"{path}: {NO_WORDS}: its first line names columns, {', '.join(names)[:60]}. {ADVICE}")


def _check_no_table(path: str, words: list[str]) -> None:
    """Raises a UsageError where the only sentence of a file has words most of which hold blanks, as texts do."""
    texts = [word for word in words if len(word.split()) > 1]
    if len(texts) > 1 and 2 * len(texts) > len(words):
        raise UsageError(
            f"{path}: {NO_WORDS}: {len(texts):,} of its {len(words):,} words hold blanks, such as {texts[0][:40]!r}, and no blank "
            f"line ends a sentence. {ADVICE}"
        )


def _layout(lines: Iterator[tuple[int, str]]) -> tuple[Iterator[tuple[int, str]], int, bool]:
    """Returns all lines again, the number of columns, and whether tabs part them: by the first line that is no comment."""
    seen = []
    for number, line in lines:
        seen.append((number, line))
        if line.strip() and not line.startswith(("#", "-DOCSTART-")):
            break
    of_words = [line for _, line in seen if line.strip() and not line.startswith("-DOCSTART-")]
    line = of_words[-1].rstrip("\r\n") if of_words else ""
    by_tabs = "\t" in line
    return itertools.chain(seen, lines), len(_fields(line, by_tabs)), by_tabs


def _fields(line: str, by_tabs: bool) -> list[str]:
    """Returns the columns of a line, parted by single tabs or by any number of blanks and tabs; other white space belongs to
    words."""
    return line.split("\t") if by_tabs else BLANKS.split(line.strip(" \t"))


def _is_comment(line: str, fields: list[str], width: int, known: set[str] | None, tag: int) -> bool:
    """Returns whether a line that begins with # at the beginning of a sentence is a comment, such as `# id 12`, and no word.

    Args:
        known: the tags of all lines that do not begin with #; a word has one of them.
    """
    if len(fields) != width:
        return len(line.split()) > 1
    return " " in fields[0] or (bool(known) and fields[tag] not in known)


def _tags(path: str, width: int, by_tabs: bool, tag: int) -> set[str]:
    """Returns the tags of the lines of a file that are certainly words."""
    with open_text(path) as file:
        lines = (line.rstrip("\r\n") for line in file if not line.startswith(("#", "-DOCSTART-")))
        rows = (_fields(line, by_tabs) for line in lines if line.strip())
        return {fields[tag] for fields in rows if len(fields) == width > tag}
