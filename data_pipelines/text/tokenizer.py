"""What every tokenizer gives: ids, the characters that each covers, and where words begin."""

import dataclasses
import hashlib
import re
from collections.abc import Sequence
from typing import Any

from data_pipelines.text.longest_pieces import LongestPieces
from data_pipelines.text.vocabulary import UNKNOWN, Vocabulary

CONFIG = "tokenizer_config.json"  # in a vocabulary folder, records and model folders: what `describe` says


@dataclasses.dataclass(frozen=True)
class Pieces:
    """The pieces of one text.

    Attributes:
        ids: vocabulary ids.
        spans: for each piece the first and one past the last character of the original text that it covers. Blanks
            that a piece begins with do not count, unless it is nothing but blanks. Pieces that share a character,
            as bytes do, all cover it; a piece that stands for nothing in the text has an empty span.
        word_start: 1 where a piece opens a word, 0 where it continues one.
    """

    ids: list[int]
    spans: list[tuple[int, int]]
    word_start: list[int]


class Tokenizer:
    """Turns text into ids of a vocabulary, and back.

    Attributes:
        kind: the name that `--tokenizer` and manifests use.
        vocabulary: the tokens in id order, and which are special.
        do_lower_case: whether text is lower-cased.
        blank: what stands before a text for the blank that parts it from the one before, if blanks are, or are part of, pieces.
        chunks: a pattern, where there is one: the pieces of a text are those of its matches, side by side, so that
            what was tokenized once need not be tokenized again. With `do_lower_case`, A to Z are as a to z.
        keeps_blanks: whether line ends and runs of blanks have pieces, so that the pieces give back any text.
        parts_at_blanks: whether the pieces of a text are those of its words, each with the one blank before it.
        drops_blanks: whether the pieces of a text are those of what its blanks (U+0020) part.
        extends: the `sha256` of the tokenizer to which special tokens were added at the end to make this one; their ids of a
            text are equal.
        longest_pieces: gives the ids of words of ASCII letters and digits, where that is faster than `encode_batch`.
        backend: the tokenizer of the library `tokenizers` that cuts texts and joins pieces, for kinds that leave it to one.
        frame: the special tokens around texts, as `frames` writes them, where whoever published the tokenizer says it; None: those of
            the system that reads.
        is_open: whether a network reads the characters of words too, so that unknown ones differ (`text.open_words`).
    """

    kind: str
    vocabulary: Vocabulary
    do_lower_case: bool
    blank: str = ""
    chunks: re.Pattern | None = None
    keeps_blanks: bool = False
    parts_at_blanks: bool = False
    drops_blanks: bool = False
    extends: str | None = None
    longest_pieces: LongestPieces | None = None
    backend: Any = None
    frame: str | None = None
    is_open: bool = False

    def encode(self, text: str) -> Pieces:
        """Returns the pieces of one text, without special tokens around it."""
        return self.encode_batch([text])[0]

    @classmethod
    def read(cls, path: str, **options):
        """Opens the file of a vocabulary, by default a `vocab.txt`; `options` are those of the constructor."""
        return cls(Vocabulary.read(path), **options)

    def encode_batch(self, texts: Sequence[str]) -> list[Pieces]:
        """Returns the pieces of many texts, by default those of `backend`, whose threads share the work."""
        encodings = self.backend.encode_batch(texts, add_special_tokens=False)
        return [self.pieces_of(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]

    def pieces_of(self, text: str, encoding: Any) -> Pieces:
        """Returns the pieces that `backend` has found in a text."""
        raise NotImplementedError

    def encode_targets(self, texts: Sequence[str]) -> list[Pieces]:
        """Returns the pieces of texts that a network learns to write: others than those it reads, where each side has its
        model."""
        return self.encode_batch(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of some ids, without special tokens; what normalising dropped is gone."""
        return self.backend.decode(self.without_special(ids), skip_special_tokens=False)

    def options(self) -> dict:
        """Returns the settings beside `do_lower_case`, as the constructor takes them."""
        return {}

    def files(self) -> dict[str, bytes]:
        """Returns the files, name -> contents, that must travel with records and models."""
        return {"vocab.txt": self.vocabulary.text().encode()}

    def describe(self) -> dict:
        """Returns what a manifest or a run folder must remember to tokenize alike."""
        frame = {"frame": self.frame} if self.frame else {}
        return {"tokenizer": self.kind, "do_lower_case": self.do_lower_case, **self.options(), **frame}

    @property
    def sha256(self) -> str:
        """Identifies the contents of the files."""
        files = self.files()
        if len(files) == 1:
            return hashlib.sha256(*files.values()).hexdigest()
        return hashlib.sha256(b"".join(b"%s %d\n%s" % (n.encode(), len(c), c) for n, c in files.items())).hexdigest()

    def without_special(self, ids: Sequence[int]) -> list[int]:
        """Returns the ids but for special tokens; an unknown one stays, as text stood there."""
        special = set(self.vocabulary.special_ids) - {self.vocabulary.roles.get(UNKNOWN)}
        return [int(i) for i in ids if int(i) not in special]


def trim(text: str, first: int, end: int) -> tuple[int, int]:
    """Returns a span without the blanks at its front; one that is all blanks stays."""
    start = first
    while start < end and text[start].isspace():
        start += 1
    return (first, end) if start == end else (start, end)


def is_ideograph(character: str) -> bool:
    """Returns whether a character is a word of its own until a segmenter says otherwise: the blocks that BERT parts."""
    code = ord(character)
    return code >= 0x3400 and (
        0x4E00 <= code <= 0x9FFF
        or code <= 0x4DBF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x2CEAF
        or 0x2F800 <= code <= 0x2FA1F
    )


def parts_ideographs(text: str, first: int, previous_end: int) -> bool:
    """Returns whether a piece at `first` opens a word because an ideograph stands there or right before.

    False for a piece that begins inside a character, as bytes do.
    """
    if first < previous_end or first >= len(text):
        return False
    return is_ideograph(text[first]) or (first > 0 and is_ideograph(text[first - 1]))
