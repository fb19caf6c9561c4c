"""SentencePiece models (Kudo and Richardson, 2018), with the cleaning that ALBERT, XLNet and T5 put before them.

The work is done by the `sentencepiece` library: normalisation, and the likeliest segmentation under a unigram model
(or BPE, where the model is one).
"""

import os
import unicodedata
from collections.abc import Sequence

import sentencepiece

from data_pipelines.errors import DataError
from data_pipelines.text.tokenizer import Pieces, Tokenizer, is_ideograph, trim
from data_pipelines.text.vocabulary import UNKNOWN, Vocabulary

SPACE = "▁"  # how SentencePiece writes a blank
Chars = list[tuple[str, int]]  # characters, each with the place in the original text it comes from


# What may stand in a piece beside letters without parting it from the one before (ALBERT's create_pretraining_data.py).
MARKS = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~£€')


def opens_word(piece: str) -> bool:
    """Returns whether a piece begins a word wherever it stands, as in ALBERT's script: behind a blank, a mark alone, or with
    anything that is neither letter nor mark, such as a digit or an apostrophe. Letters are those of all scripts, not of English
    alone."""
    return (
        piece.startswith((SPACE, "<"))
        or piece in MARKS
        or not all(character.isalpha() or character in MARKS for character in piece)
    )


class SentencePieceTokenizer(Tokenizer):
    """Turns text into the pieces of a SentencePiece model.

    A piece opens a word where it begins with `▁`, is a punctuation mark, or touches a CJK ideograph, which is a word
    of its own until a segmenter says otherwise (after ALBERT's and XLNet's scripts).

    Args:
        model: the contents of a `spiece.model`.
        do_lower_case: lower-case before the model; ALBERT does, besides what the model itself normalises.
        keep_accents: False strips accents (XLNet, and ALBERT in Hugging Face's reading).
        clean: join blanks, and turn `` and '' into a double quote, as ALBERT and XLNet do.
        part_digits: cut the comma off a piece that ends in a digit and a comma, as ALBERT and XLNet do.
        num_sentinels: `<extra_id_0>` and so on, after the pieces of the model, the last one first (T5).
        source: the file, for error messages.
    """

    kind = "sentencepiece"

    def __init__(
        self,
        model: bytes,
        do_lower_case: bool = False,
        keep_accents: bool = True,
        clean: bool = False,
        part_digits: bool = False,
        num_sentinels: int = 0,
        source: str = "spiece.model",
    ):
        self.model = model
        self.do_lower_case, self.keep_accents, self.clean = do_lower_case, keep_accents, clean
        self.part_digits, self.num_sentinels = part_digits, num_sentinels
        self.processor = sentencepiece.SentencePieceProcessor()
        try:
            self.processor.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise DataError(f"{source}: not a SentencePiece model ({error}).") from None
        pieces = [self.processor.IdToPiece(i) for i in range(self.processor.GetPieceSize())]
        sentinels = [f"<extra_id_{i}>" for i in reversed(range(num_sentinels))]
        self.vocabulary = Vocabulary([*pieces, *sentinels], source, required=(), spelled=True)
        unknown = self.vocabulary.roles.get(UNKNOWN)  # stands for any text, and says nothing of it
        self.opens = [i != unknown and opens_word(piece) for i, piece in enumerate(self.vocabulary.tokens)]

    @classmethod
    def read(cls, path: str, **options) -> "SentencePieceTokenizer":
        """Opens a `spiece.model`."""
        if not os.path.isfile(path):
            raise DataError(f"{path}: no such SentencePiece model. Make one with `xmodels train_vocabulary`.")
        with open(path, "rb") as file:
            return cls(file.read(), source=path, **options)

    def encode_batch(self, texts: Sequence[str]) -> list[Pieces]:
        """Returns the pieces of many texts."""
        cleaned = [self.preprocess(text) for text in texts]
        encoded = self.processor.encode([text for text, _ in cleaned], return_type="offset_mapping")
        return [self._pieces(text, *c, e) for text, c, e in zip(texts, cleaned, encoded, strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the normalised text."""
        size = self.processor.GetPieceSize()
        return self.processor.decode([i for i in self.without_special(ids) if i < size])

    def options(self) -> dict:
        names = "keep_accents", "clean", "part_digits", "num_sentinels"
        return {name: getattr(self, name) for name in names}

    def files(self) -> dict[str, bytes]:
        return {"spiece.model": self.model}

    @property
    def cleans(self) -> bool:
        """Whether `preprocess` changes anything."""
        return self.clean or self.do_lower_case or not self.keep_accents

    @property
    def plain(self) -> bool:
        """Whether the model does everything."""
        return not (self.cleans or self.part_digits or self.num_sentinels)

    def preprocess(self, text: str) -> tuple[str, list[int] | None]:
        """Returns the text that the model gets, and for each of its characters the place it comes from; None if unchanged."""
        if not self.cleans:
            return text, None
        chars: Chars = list(zip(text, range(len(text)), strict=True))
        if self.clean:
            chars = straight_quotes(join_blanks(chars))
        if not self.keep_accents:
            chars = [(d, i) for c, i in chars for d in unicodedata.normalize("NFKD", c) if not unicodedata.combining(d)]
        if self.do_lower_case:
            chars = lower(chars)
        return "".join(c for c, _ in chars), [i for _, i in chars]

    def _pieces(self, text: str, cleaned: str, places: list[int] | None, encoded) -> Pieces:
        ids, spans, starts = [], [], []
        for piece in zip(encoded["ids"], encoded["pieces"], encoded["offsets"], strict=True):
            for number, first, end in self._parted(*piece):
                near = cleaned[max(0, first - 1) : first + 1] if first < end else ""
                opens = not ids or self.opens[number] or any(map(is_ideograph, near.replace(" ", "")))
                if places is not None:
                    first, end = place(places, first, end, len(text))
                ids.append(number)
                spans.append(trim(text, first, end))
                starts.append(int(opens))
        return Pieces(ids, spans, starts)

    def _parted(self, number: int, whole: str, span: tuple[int, int]) -> list[tuple[int, int, int]]:
        """Returns (id, first, end) of a piece, or of its parts where `part_digits` asks for it."""
        begin, end = span
        if not self.part_digits or whole[-1:] != ",":
            return [(number, begin, end)]
        parts, found = self.parts(number), []
        for part, length in reversed(parts):
            first = max(begin, end - length)
            found.append((part, first, end))
            end = first
        return found[::-1]

    def parts(self, number: int) -> list[tuple[int, int]]:
        """Returns the pieces in the place of one, each with its characters; itself, unless `part_digits` cuts a comma off a
        digit."""
        whole = self.processor.IdToPiece(number)
        if not self.part_digits or not (len(whole) > 1 and whole[-1] == "," and whole[-2].isdigit()):
            return [(number, len(whole.lstrip(SPACE)))]
        parts = self.processor.encode(whole[:-1].replace(SPACE, ""), return_type=str)
        if not whole.startswith(SPACE) and parts[0].startswith(SPACE):
            parts = parts[1:] if len(parts[0]) == 1 else [parts[0][1:], *parts[1:]]
        found = [(self.processor.PieceToId(part), len(part.lstrip(SPACE))) for part in parts]
        return [*found, (self.processor.PieceToId(","), 1)]


def place(places: list[int], first: int, end: int, length: int) -> tuple[int, int]:
    """Returns a span of cleaned text as a span of the original."""
    if first >= end:
        start = places[first] if first < len(places) else length
        return start, start
    return places[first], places[end - 1] + 1


def join_blanks(chars: Chars) -> Chars:
    """Returns one blank between words, and none at the ends."""
    kept: Chars = []
    for c, i in chars:
        if not c.isspace():
            kept.append((c, i))
        elif kept and kept[-1][0] != " ":
            kept.append((" ", i))
    return kept[:-1] if kept and kept[-1][0] == " " else kept


def straight_quotes(chars: Chars) -> Chars:
    """Returns `` and '' become a double quote."""
    kept, skip = [], False
    for index, (c, i) in enumerate(chars):
        if skip:
            skip = False
            continue
        skip = c in "`'" and index + 1 < len(chars) and chars[index + 1][0] == c
        kept.append(('"', i) if skip else (c, i))
    return kept


def lower(chars: Chars) -> Chars:
    """Lower-cases; the whole text at once where lengths allow, as the last sigma of a word differs."""
    text = "".join(c for c, _ in chars)
    lowered = text.lower()
    if len(lowered) == len(text):
        return [(c, i) for c, (_, i) in zip(lowered, chars, strict=True)]
    return [(d, i) for c, i in chars for d in c.lower()]
