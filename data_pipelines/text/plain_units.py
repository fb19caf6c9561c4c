"""The plainest vocabularies: one entry for each character, or for each word."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers

from data_pipelines.text import words
from data_pipelines.text.tokenizer import Pieces, Tokenizer, is_ideograph
from data_pipelines.text.vocabulary import UNKNOWN, Vocabulary

MOST_KNOWN = 1 << 17  # words whose normal form is kept
_PLAIN_WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9 ]")
SPACE = "▁"  # the entry of characters that stands for blanks


class CharacterTokenizer(Tokenizer):
    """One piece for each character; blanks are one piece `▁`, and none at the ends of a text.

    Words begin where BERT's tokenizer parts them: at blanks, punctuation and ideographs.

    Args:
        vocabulary: a `vocab.txt` of characters. Without an entry `▁`, blanks have no piece.
        do_lower_case: lower-case and strip accents.
    """

    kind = "characters"

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool = True):
        self.vocabulary, self.do_lower_case = vocabulary, do_lower_case
        self.blanks = SPACE in vocabulary
        self.blank = SPACE if self.blanks else ""  # a blank itself would be stripped
        unknown = vocabulary.tokens[vocabulary[UNKNOWN]]
        self.backend = tokenizers.Tokenizer(models.WordLevel(vocabulary.ids, unk_token=unknown))
        self.backend.normalizer = character_normalizer(do_lower_case)
        self.backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the characters, with blanks where `▁` stands."""
        return "".join(self.vocabulary.tokens[i] for i in self.without_special(ids)).replace(SPACE, " ")

    def pieces_of(self, text: str, encoding) -> Pieces:
        ids, spans, starts, previous_end, inside = [], [], [], 0, False
        for i, (first, end) in zip(encoding.ids, encoding.offsets, strict=True):
            blank = text[first].isspace()
            if blank and not self.blanks:
                inside = False
                continue
            alone = blank or stands_alone(text[first])
            # Several pieces of one character, as the parts of a Korean syllable, stay together.
            starts.append(int((alone or not inside) and first >= previous_end))
            ids.append(i)
            spans.append((first, end))
            inside, previous_end = not alone, end
        return Pieces(ids, spans, starts)


class WordTokenizer(Tokenizer):
    """One piece for each word; words that the vocabulary lacks become the unknown token.

    Words are parted at blanks and punctuation, or where a segmenter says, which Chinese text needs unless it is
    segmented already.

    Args:
        vocabulary: a `vocab.txt` of words.
        do_lower_case: lower-case and strip accents.
        segmenter: `none`, `jieba` or `presegmented`; see `data_pipelines.text.words`.
    """

    kind = "words"

    def __init__(self, vocabulary: Vocabulary, do_lower_case: bool = True, segmenter: str = "none"):
        self.vocabulary, self.do_lower_case, self.segmenter = vocabulary, do_lower_case, segmenter
        self.splitter, self.unknown = WordSplitter(do_lower_case, segmenter), vocabulary[UNKNOWN]
        self.drops_blanks = self.splitter.keeps_letters

    def encode_batch(self, texts: Sequence[str]) -> list[Pieces]:
        """Returns the pieces of many texts."""
        found = []
        for parts in self.splitter.split(texts):
            ids = [self.id_of(word) for word, _ in parts]
            found.append(Pieces(ids, [span for _, span in parts], [1] * len(parts)))
        return found

    def id_of(self, word: str) -> int:
        """Returns the id of a word, normalised."""
        return self.vocabulary.ids.get(word, self.unknown)

    def words(self, text: str) -> list[str]:
        """Returns the words of a text, normalised."""
        return self.splitter.words([text])[0]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the words, parted by blanks."""
        return " ".join(self.vocabulary.tokens[i] for i in self.without_special(ids))

    def options(self) -> dict:
        return {"segmenter": self.segmenter}


class WordSplitter:
    """Text -> normalised words with their spans."""

    def __init__(self, do_lower_case: bool, segmenter: str = "none"):
        self.do_lower_case = do_lower_case
        self.backend = tokenizers.Tokenizer(models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
        self.backend.normalizer = normalizers.BertNormalizer(lowercase=do_lower_case, handle_chinese_chars=False)
        self.backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        self.normalize = self.backend.normalizer.normalize_str
        self.segment = words.segmenter(segmenter)
        self.keeps_letters = self.segment in (None, words.segment_at_blanks)  # and digits together
        self.known: dict[str, str] = {}  # words as they are written -> normalised

    def __call__(self, text: str) -> list[tuple[str, tuple[int, int]]]:
        return next(self.split([text]))

    def split(self, texts: Sequence[str]) -> Iterator[list[tuple[str, tuple[int, int]]]]:
        """Yields the words of each text, with their spans."""
        spans, place = list(map(self._spans, texts)), 0
        found = self.normal([text[first:end] for text, own in zip(texts, spans, strict=True) for first, end in own])
        for own in spans:
            words_here = found[place : place + len(own)]
            yield [pair for pair in zip(words_here, own, strict=True) if pair[0]]
            place += len(own)

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the words of each text. It is fast where most texts are one word."""
        is_word = [self.keeps_letters and text.isascii() and text.isalnum() for text in texts]
        cut = self.split([text for text, alone in zip(texts, is_word, strict=True) if not alone])
        return [
            [text.lower() if self.do_lower_case else text] if alone else [word for word, _ in next(cut)]
            for text, alone in zip(texts, is_word, strict=True)
        ]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Returns where the words of a text stand."""
        if self.segment is not None:
            return words.spans_at_blanks(text) if self.keeps_letters else word_spans(self.segment(text))
        if is_plain(text):
            return [match.span() for match in _PLAIN_WORD.finditer(text)]
        return self.backend.encode(text, add_special_tokens=False).offsets

    def normal(self, written: list[str]) -> list[str]:
        """Returns words normalised; most words of a text have occurred before."""
        try:
            return list(map(self.known.__getitem__, written))
        except KeyError:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            self.known |= {word: self._normal(word) for word in set(written).difference(self.known)}
            return list(map(self.known.__getitem__, written))

    def _normal(self, word: str) -> str:
        return ((word.lower() if self.do_lower_case else word) if is_plain(word) else self.normalize(word)).strip()


def is_plain(text: str) -> bool:
    """Returns whether Python's own functions do to a text what BERT's do, in a tenth of the time: printable ASCII."""
    return text.isascii() and text.isprintable()


def word_spans(numbers: list[int]) -> list[tuple[int, int]]:
    """Returns spans of equal numbers."""
    cuts = [i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1]]
    return list(zip([0, *cuts], [*cuts, len(numbers)], strict=True)) if numbers else []


def stands_alone(character: str) -> bool:
    """Returns whether BERT makes a character a word of its own."""
    return is_ideograph(character) or is_punctuation(character)


def is_punctuation(character: str) -> bool:
    """BERT's notion: every ASCII sign, and what Unicode calls punctuation."""
    if character.isascii():
        return not (character.isalnum() or character.isspace())
    return unicodedata.category(character)[0] == "P"


def character_normalizer(do_lower_case: bool):
    """Cleans as BERT does, and writes runs of blanks as one `▁`."""
    return normalizers.Sequence(
        [
            normalizers.BertNormalizer(lowercase=do_lower_case, handle_chinese_chars=False),
            normalizers.Strip(),
            normalizers.Replace(Regex(r"\s+"), SPACE),
        ]
    )
