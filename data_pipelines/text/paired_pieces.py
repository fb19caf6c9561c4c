"""Two SentencePiece models with one list of pieces, as Marian's published networks have them (OPUS-MT)."""

import os
from collections.abc import Sequence

from data_pipelines.errors import DataError, UsageError
from data_pipelines.text.byte_pairs import ids_file, read_ids
from data_pipelines.text.sentence_pieces import SPACE, SentencePieceTokenizer, opens_word
from data_pipelines.text.tokenizer import Pieces, Tokenizer, is_ideograph, trim
from data_pipelines.text.tokenizer_settings import PAIR
from data_pipelines.text.vocabulary import EOS, PAD, UNKNOWN, Vocabulary

# Around the code of the language to write, with which a text may begin: `>>deu<< Good morning.`
OPENS, CLOSES = ">>", "<<"
FEWEST = 0.1  # of the pieces of a model that its list must have


class SentencePiecePairTokenizer(Tokenizer):
    """Cuts sources by one SentencePiece model and targets by another, and numbers the pieces of both by one list.

    A source may begin with the code of a language, such as `>>deu<<`, which is one token.

    Args:
        vocabulary: the pieces of both sides, with `</s>`, `<unk>` and `<pad>`.
        source, target: the models; only how they cut counts, not how they number.
        do_lower_case: must be False. Models that lower-case do so themselves.

    Raises:
        DataError: a special token is missing, or hardly any piece of a model is in the list.
    """

    kind = "sentencepiece_pair"
    do_lower_case = False

    def __init__(self, vocabulary: Vocabulary, source: bytes, target: bytes, do_lower_case: bool = False):
        if do_lower_case:
            raise UsageError(
                "--do_lower_case: SentencePiece models with a list of pieces of their own are not lower-cased. Leave it out."
            )
        self.vocabulary = Vocabulary(vocabulary.tokens, vocabulary.source, required=(EOS, UNKNOWN, PAD), spelled=True)
        names = (os.path.join(os.path.dirname(vocabulary.source), name) for name in PAIR)
        self.source, self.target = (
            SentencePieceTokenizer(model, source=name) for model, name in zip((source, target), names, strict=True)
        )
        for side in (self.source, self.target):
            _check_known(side, self.vocabulary)
        unknown = self.vocabulary[UNKNOWN]
        self.opens = [i != unknown and opens_word(piece) for i, piece in enumerate(self.vocabulary.tokens)]

    @classmethod
    def read(cls, path: str, **options) -> "SentencePiecePairTokenizer":
        """Opens a `vocab.json` and the models `source.spm` and `target.spm` beside it."""
        vocabulary, models = read_ids(path), []
        for name in PAIR:
            beside = os.path.join(os.path.dirname(path), name)
            if not os.path.isfile(beside):
                raise DataError(
                    f"{beside}: no such file; this {os.path.basename(path)} needs {' and '.join(PAIR)} beside it."
                )
            with open(beside, "rb") as file:
                models.append(file.read())
        return cls(vocabulary, *models, **options)

    def encode_batch(self, texts: Sequence[str]) -> list[Pieces]:
        """Returns the pieces of texts that are read."""
        return self._encoded(self.source, texts)

    def encode_targets(self, texts: Sequence[str]) -> list[Pieces]:
        return self._encoded(self.target, texts)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text, of either side: nothing but `▁` tells where blanks stand."""
        return "".join(self.vocabulary.tokens[i] for i in self.without_special(ids)).replace(SPACE, " ").strip()

    def files(self) -> dict[str, bytes]:
        models = self.source.model, self.target.model
        return {"vocab.json": ids_file(self.vocabulary), **dict(zip(PAIR, models, strict=True))}

    def _encoded(self, side: SentencePieceTokenizer, texts: Sequence[str]) -> list[Pieces]:
        starts = [code_end(text) for text in texts]
        rests = [text[start:] for text, start in zip(texts, starts, strict=True)]
        encoded = side.processor.encode(rests, return_type="offset_mapping")
        return [self._pieces(*each) for each in zip(texts, starts, encoded, strict=True)]

    def _pieces(self, text: str, start: int, encoded) -> Pieces:
        unknown, known = self.vocabulary[UNKNOWN], self.vocabulary.ids
        found = Pieces([known.get(text[:start], unknown)], [(0, start)], [1]) if start else Pieces([], [], [])
        for piece, (first, end) in zip(encoded["pieces"], encoded["offsets"], strict=True):
            number, first, end = known.get(piece, unknown), first + start, end + start
            near = text[max(start, first - 1) : first + 1] if first < end else ""
            opens = first <= start or self.opens[number] or any(map(is_ideograph, near.replace(" ", "")))
            found.ids.append(number)
            found.spans.append(trim(text, first, end))
            found.word_start.append(int(opens))
        return found


def code_end(text: str) -> int:
    """Returns where the code of a language ends with which a text begins; 0 where there is none."""
    return text.find(CLOSES) + len(CLOSES) if text.startswith(OPENS) and CLOSES in text else 0


def _check_known(side: SentencePieceTokenizer, vocabulary: Vocabulary) -> None:
    pieces = side.vocabulary.tokens
    known = sum(piece in vocabulary.ids for piece in pieces)
    if known < len(pieces) * FEWEST:
        raise DataError(
            f"{vocabulary.source}: has {known:,} of the {len(pieces):,} pieces of {side.vocabulary.source}, so most text would be "
            f"unknown. Do the two files belong together?"
        )
