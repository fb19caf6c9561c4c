"""What each token of a vocabulary adds to a text, as bytes: joined, they are the text of a sequence of ids.

Unlike `Tokenizer.decode` this needs no library and no context, so a graph can do it; Chinese gets no blanks between words.
"""

from collections.abc import Callable, Sequence

from data_pipelines.text.byte_pairs import END_OF_WORD, byte_symbols
from data_pipelines.text.plain_units import SPACE
from data_pipelines.text.tokenizer import Tokenizer, is_ideograph
from data_pipelines.text.vocabulary import CONTINUATION

CLINGING = set(".,!?;:%)]}'’”…、。，！？；：）》】」』")  # no blank before these


def spelling(tokenizer: Tokenizer) -> list[bytes]:
    """Returns the bytes of every id; none for special tokens."""
    special = set(tokenizer.vocabulary.special_ids)
    spell = SPELL[tokenizer.kind]()
    return [b"" if i in special else spell(token) for i, token in enumerate(tokenizer.vocabulary.tokens)]


def spell_out(ids: Sequence[int], table: Sequence[bytes]) -> str:
    """Returns the text of some ids, without blanks at its ends; bytes that are no UTF-8, as of a cut character, become U+FFFD."""
    return b"".join(table[i] for i in ids).decode(errors="replace").strip(" ")


def _word(token: str) -> bytes:
    parted = token and token[0] not in CLINGING and not is_ideograph(token[0])
    return f"{' ' if parted else ''}{token}".encode()


def _wordpiece() -> Callable[[str], bytes]:
    return lambda t: t.removeprefix(CONTINUATION).encode() if t.startswith(CONTINUATION) else _word(t)


def _byte_bpe() -> Callable[[str], bytes]:
    codes = {symbol: bytes([code]) for code, symbol in enumerate(byte_symbols())}
    return lambda token: b"".join(codes.get(symbol, symbol.encode()) for symbol in token)


SPELL = {
    "wordpiece": _wordpiece,
    "words": lambda: _word,
    "word_characters": lambda: _word,
    "byte_bpe": _byte_bpe,
    "bpe": lambda: lambda token: token.replace(END_OF_WORD, " ").encode(),
    "sentencepiece": lambda: lambda token: token.replace(SPACE, " ").encode(),
    "sentencepiece_pair": lambda: lambda token: token.replace(SPACE, " ").encode(),
    "characters": lambda: lambda token: token.replace(SPACE, " ").encode(),
}
