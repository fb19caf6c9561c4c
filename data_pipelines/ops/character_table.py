"""What BERT's cleaning does to every character, read off the tokenizer itself and embedded in a TensorFlow graph.

Cleaning, lower-casing, NFD, stripping accents and splitting at CJK characters and punctuation all work on one
character at a time, so a table of replacements reproduces them: "É" -> "e", "," -> " , ", "中" -> " 中 ", NUL -> "".

One thing is not: NFD also sorts the marks that follow a letter. Marks are stripped right after, so this shows only
where two marks that survive (some Indic, Glagolitic and musical signs, when lower-casing) stand in unsorted order.
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

PAGE = 256  # code points that share one row of the table
CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)  # never in UTF-8
SPACE = ord(" ")
ITSELF, NOTHING = -1, -2  # in a replacement: the character that is replaced; no character


class Replacements(tf.Module):
    """What stands in the place of each character.

    Args:
        cleaned: what makes clean text of text, each character by itself; hashable, and equal where it does the same.
    """

    def __init__(self, cleaned: Callable[[str], str]):
        super().__init__()
        page_of, pages, replacements = compact(cleaned)
        self.page_of = tf.constant(page_of)  # (CODE_POINTS / PAGE,): row of `pages`
        self.pages = tf.constant(pages)  # (rows * PAGE,): row of `replacements`
        self.replacements = tf.constant(replacements)  # (replacements, R): code points, ITSELF or NOTHING

    def replaced(self, code: tf.Tensor) -> tf.Tensor:
        """Returns the characters in the place of each one, int32 (N,), as int32 (N, R), with NOTHING where there are fewer than
        R."""
        page = tf.cast(tf.gather(self.page_of, code // PAGE), tf.int32)
        index = tf.cast(tf.gather(self.pages, page * PAGE + code % PAGE), tf.int32)
        clean = tf.gather(self.replacements, index)
        return tf.where(clean == ITSELF, code[:, None], clean)


class CharacterTable(Replacements):
    """Cleans text inside the graph, exactly as the normalizer and pre-tokenizer of `backend`.

    Args:
        backend: a `tokenizers.Tokenizer`, the `backend` of a `WordPieceTokenizer`.
    """

    def __init__(self, backend):
        super().__init__(_Cleaning(backend))

    def split(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the clean words of `text`, string (B,), as strings (B, None). Broken UTF-8 is dropped, as U+FFFD is."""
        characters = tf.strings.unicode_decode(text, "UTF-8", errors="replace")  # (B, None)
        clean = self.replaced(characters.flat_values)  # (N, R)
        is_character = clean != NOTHING
        ends = tf.cumsum(tf.math.count_nonzero(is_character, axis=1))
        ends = tf.concat([tf.zeros([1], tf.int64), ends], axis=0)  # (N + 1,)
        row_splits = tf.gather(ends, characters.row_splits)
        clean = tf.RaggedTensor.from_row_splits(tf.boolean_mask(clean, is_character), row_splits, validate=False)
        return tf.strings.split(tf.strings.unicode_encode(clean, "UTF-8"))


class _Cleaning:
    """Normalizer and pre-tokenizer of a backend; equal where these do the same."""

    def __init__(self, backend):
        self.normalizer, self.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
        self.states = self.normalizer.__getstate__(), self.pre_tokenizer.__getstate__()

    def __eq__(self, other):
        return self.states == other.states

    def __hash__(self):
        return hash(self.states)

    def __call__(self, text: str) -> str:
        """Returns `text`, normalised, with a space wherever one word ends and the next begins."""
        words = self.pre_tokenizer.pre_tokenize_str(self.normalizer.normalize_str(f"a{text}a"))
        return " ".join(word for word, _ in words)[1:-1]


@functools.lru_cache(maxsize=8)  # it takes a second or more
def compact(cleaned: Callable[[str], str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a two-level table: `replacements[pages[page_of[code // PAGE], code % PAGE]]`."""
    rows, replacements = {}, {}
    page_of = [
        rows.setdefault(tuple(replacements.setdefault(x, len(replacements)) for x in page), len(rows))
        for page in (page_replacements(cleaned, first) for first in range(0, CODE_POINTS, PAGE))
    ]
    width = max(map(len, replacements))
    padded = [replacement + (NOTHING,) * (width - len(replacement)) for replacement in replacements]
    return np.array(page_of, np.int16), np.array(list(rows), np.int16).reshape(-1), np.array(padded, np.int32)


def page_replacements(cleaned: Callable[[str], str], first: int) -> list[tuple[int, ...]]:
    """Returns the replacement of each code point from `first` to `first + PAGE`."""
    if first in SURROGATES:
        return [()] * PAGE
    text = "".join(map(chr, range(first, first + PAGE)))
    whole = cleaned(text)  # most pages hold ordinary letters only, or only characters to drop
    if whole in (text, ""):
        return [(ITSELF,) if whole else ()] * PAGE
    return [tuple(ITSELF if new == old else ord(new) for new in cleaned(old)) for old in text]
