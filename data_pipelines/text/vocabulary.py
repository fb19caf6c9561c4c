"""The tokens of a vocabulary in id order, and which of them play a special role.

BERT's file holds one token a line; the line number is the id. Other kinds keep theirs in `vocab.json` or inside a
SentencePiece model, and spell the special tokens otherwise.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from data_pipelines.errors import DataError
from data_pipelines.features import Features

# The roles of special tokens. Their names are BERT's spellings, so in a BERT vocabulary role and token are one.
PAD, UNKNOWN, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
BOS, EOS = "[BOS]", "[EOS]"
SPECIAL_TOKENS = (PAD, UNKNOWN, CLS, SEP, MASK)  # of BERT
CONTINUATION = "##"  # marks a piece that continues a word, as in BERT

# How the published vocabularies spell each role, the likeliest first: BERT and ALBERT; XLNet; RoBERTa, BART and T5;
# GPT-2. GPT's `_start_` and its like, which are added for fine-tuning, are named in `frames`.
SPELLINGS = {
    PAD: (PAD, "<pad>"),
    UNKNOWN: (UNKNOWN, "<unk>"),
    CLS: (CLS, "<cls>", "<s>"),
    SEP: (SEP, "<sep>", "</s>"),
    MASK: (MASK, "<mask>"),
    BOS: (BOS, "<s>", "<|endoftext|>", CLS, "<cls>"),
    EOS: (EOS, "</s>", "<|endoftext|>", SEP, "<sep>"),
}
ROLE_NAMES = {
    PAD: "pad", UNKNOWN: "unknown", CLS: "cls", SEP: "sep", MASK: "mask", BOS: "bos", EOS: "eos",
}  # fmt: skip


UNUSED = ("[unused", "<unused")  # how tokens begin that are there to be renamed


def first_difference(own: Sequence[str], given: Sequence[str]) -> int | None:
    """Returns the first id that means another token, by which a network that knows `own` would read other texts; None where
    there is none.

    Tokens that are called unused may have got a name. Where one list ends before the other, it is its length.
    """
    for place, (ours, theirs) in enumerate(zip(own, given, strict=False)):
        if ours != theirs and not ours.startswith(UNUSED):
            return place
    return None if len(own) == len(given) else min(len(own), len(given))


class Vocabulary:
    """An ordered list of tokens with the ids of the special ones.

    `vocabulary[MASK]` is the id of the token that plays the role, however it is spelled (`[MASK]`, `<mask>`);
    `vocabulary["word"]` is the id of a token.

    Args:
        tokens: the tokens in id order, without duplicates.
        source: where they came from, for error messages.
        required: the roles that the vocabulary must have; by default the five of BERT.
        spelled: whether roles may be spelled otherwise than BERT does.
        contents: the text of the file that holds the tokens; None: each token on a line of its own.

    Raises:
        DataError: a required role is missing, or a token stands twice.

    Attributes:
        features: what a network reads of each token beside its id.
    """

    features: Features = {}

    def __init__(
        self,
        tokens: Iterable[str],
        source: str = "vocabulary",
        required: Iterable[str] = SPECIAL_TOKENS,
        spelled: bool = False,
        contents: str | None = None,
    ):
        self.tokens = list(tokens)
        self.contents = contents
        self.source = source
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        spellings = SPELLINGS if spelled else {role: (role,) for role in SPELLINGS}
        found = {role: [s for s in options if s in self.ids] for role, options in spellings.items()}
        self.roles = {role: self.ids[options[0]] for role, options in found.items() if options}  # role -> id
        required = tuple(required)
        missing = [role for role in required if role not in self.roles]
        if missing:
            raise DataError(
                f"{source}: the vocabulary lacks {', '.join(missing)}; a BERT vocabulary holds "
                f"{', '.join(SPECIAL_TOKENS)}, each on a line of its own. Found {len(self.tokens)} tokens."
                if required == SPECIAL_TOKENS
                else f"{source}: the vocabulary lacks {', '.join(f'{r} ({ROLE_NAMES[r]})' for r in missing)}. "
                f"Found {len(self.tokens)} tokens."
            )
        if len(self.ids) != len(self.tokens):
            line = next(index for index, token in enumerate(self.tokens) if self.ids[token] != index)
            raise DataError(
                f"{source}, line {line + 1}: the token {self.tokens[line]!r} stands again on line "
                f"{self.ids[self.tokens[line]] + 1}; every token must be unique."
            )

    @classmethod
    def read(cls, path: str, required: Iterable[str] = SPECIAL_TOKENS, blanks: bool = True) -> "Vocabulary":
        """Reads a `vocab.txt`. A byte-order mark and Windows line ends are accepted.

        Args:
            blanks: whether blanks and tabs around a token belong to it. Those of word pieces do not, as in Google's code;
                a line of nothing but blanks stays as it is. The contents of the file, by which records know their vocabulary,
                stay too.
        """
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
        tokens = lines if blanks else [line.strip() or line for line in lines]
        return cls(tokens, path, required, contents=None if tokens == lines else "".join(f"{line}\n" for line in lines))

    def text(self) -> str:
        """Returns the contents of the vocabulary file."""
        return self.contents if self.contents is not None else "".join(f"{token}\n" for token in self.tokens)

    @property
    def sha256(self) -> str:
        """Identifies the vocabulary, whatever the line ends of its file."""
        return hashlib.sha256(self.text().encode("utf-8")).hexdigest()

    @property
    def padding_id(self) -> int:
        """What fills up rows: the padding token, or, as nothing looks at it, the first token where there is none."""
        return self.roles.get(PAD, 0)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, token: str) -> int:
        """Returns the id of a role or of a token.

        Raises:
            DataError: no token plays the role.
            KeyError: there is no such token.
        """
        if token in self.roles:
            return self.roles[token]
        if token in SPELLINGS and token not in self.ids:
            raise DataError(
                f"{self.source}: the vocabulary has no {ROLE_NAMES[token]} token ({' or '.join(SPELLINGS[token])}), "
                "and what you run needs one. Use a vocabulary that has it; `xmodels train_vocabulary` adds it"
                + (
                    ", but not with --num_sentinels, which makes vocabularies of T5."
                    if "<extra_id_0>" in self.ids
                    else "."
                )
            )
        return self.ids[token]

    def __contains__(self, token: str) -> bool:
        return token in self.roles or token in self.ids

    def token_features(self, ids: Sequence[int]) -> dict[str, np.ndarray]:
        """Returns `features` of the tokens of a text, (L, ...) each; by default none."""
        return {}

    def keys_of(self, ids: Sequence[int]) -> Sequence[int | str]:
        """Returns what tells the tokens of a text apart; by default their ids."""
        return ids

    def numbered(self, ids: Sequence[int]) -> Sequence[int]:
        """Returns the ids of a text with a number for each word that the vocabulary lacks, behind all ids; by default as they are."""
        return ids

    def forget(self) -> None:
        """Forgets the words that were numbered."""

    def words_of(self, ids: np.ndarray, features: Mapping[str, np.ndarray]) -> list[int]:
        """Returns the ids of a text as `token_features` takes them, from the ids (L,) and the `features` of a record."""
        return ids.tolist()

    @property
    def special_ids(self) -> list[int]:
        """The ids of all special tokens, ascending."""
        return sorted(set(self.roles.values()))
