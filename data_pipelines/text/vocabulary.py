"""A vocabulary file in BERT's format: one token a line, the line number is the id."""

import hashlib
import os
from collections.abc import Iterable

from data_pipelines.errors import DataError

PAD, UNKNOWN, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNKNOWN, CLS, SEP, MASK)
CONTINUATION = "##"  # marks a piece that continues a word, as in BERT


class Vocabulary:
    """An ordered list of tokens with the ids of BERT's special tokens.

    Args:
        tokens: the tokens in id order. Must hold the five special tokens of BERT, without duplicates.
        source: where they came from, for error messages.

    Raises:
        DataError: a special token is missing, or a token stands twice.
    """

    def __init__(self, tokens: Iterable[str], source: str = "vocabulary"):
        self.tokens = list(tokens)
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids]
        if missing:
            raise DataError(
                f"{source}: the vocabulary lacks {', '.join(missing)}; a BERT vocabulary holds "
                f"{', '.join(SPECIAL_TOKENS)}, each on a line of its own. Found {len(self.tokens)} tokens."
            )
        if len(self.ids) != len(self.tokens):
            line = next(index for index, token in enumerate(self.tokens) if self.ids[token] != index)
            raise DataError(
                f"{source}, line {line + 1}: the token {self.tokens[line]!r} stands again on line "
                f"{self.ids[self.tokens[line]] + 1}; every token must be unique."
            )

    @classmethod
    def read(cls, path: str) -> "Vocabulary":
        """Reads a `vocab.txt`. A byte-order mark and Windows line ends are accepted."""
        if not os.path.isfile(path):
            raise DataError(f"{path}: no such vocabulary file. Make one with `xmodels train_vocabulary`.")
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                text = file.read()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not valid UTF-8 at byte {error.start}; a vocabulary is UTF-8 text.") from None
        lines = [line.rstrip("\r") for line in text.split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return cls(lines, path)

    def text(self) -> str:
        """The contents of the vocabulary file."""
        return "".join(f"{token}\n" for token in self.tokens)

    @property
    def sha256(self) -> str:
        """Identifies the vocabulary, whatever the line ends of its file."""
        return hashlib.sha256(self.text().encode("utf-8")).hexdigest()

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, token: str) -> int:
        return self.ids[token]

    def __contains__(self, token: str) -> bool:
        return token in self.ids
