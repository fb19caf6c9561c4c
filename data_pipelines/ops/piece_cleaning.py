"""What ALBERT, XLNet and T5 do to a text before SentencePiece, inside a TensorFlow graph: as `SentencePieceTokenizer.preprocess`."""

import unicodedata

import tensorflow as tf

from data_pipelines.ops.character_table import NOTHING, SPACE, Replacements
from data_pipelines.ops.code_points import holds_of
from data_pipelines.text.sentence_pieces import SentencePieceTokenizer

SIGMA, FINAL_SIGMA = ord("σ"), ord("ς")
GROWS = ord("İ")  # the one letter that is two when it is lower-cased; the sigmas of its text are not looked at


class GraphCleaning(tf.Module):
    """Cleans texts, and knows where each character comes from."""

    def __init__(self, tokenizer: SentencePieceTokenizer):
        super().__init__()
        self.clean, self.do_lower_case = tokenizer.clean, tokenizer.do_lower_case
        self.without_accents = None if tokenizer.keep_accents else Replacements(without_accents)
        self.small_letters = Replacements(small_letters) if self.do_lower_case else None

    def __call__(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the clean texts, string (B,), and for each of their characters, of all texts in a row, its place in its own
        text."""
        characters = tf.strings.unicode_decode(text, "UTF-8", errors="replace")  # (B, None)
        code, row = characters.flat_values, tf.cast(characters.value_rowids(), tf.int32)
        place = tf.ragged.range(tf.cast(characters.row_lengths(), tf.int32)).flat_values
        if self.clean:
            code, row, place = with_single_blanks(code, row, place)
            code, row, place = with_straight_quotes(code, row, place)
        if self.without_accents is not None:
            code, row, place = spread(self.without_accents.replaced(code), row, place)
        if self.do_lower_case:
            code, row, place = self.lowered(code, row, place)
        clean = tf.RaggedTensor.from_value_rowids(code, row, tf.size(text), validate=False)
        return tf.strings.unicode_encode(clean, "UTF-8"), place

    def lowered(self, code, row, place):
        """Returns small letters; a sigma that ends a word is another letter than one inside."""
        count = tf.reduce_max(tf.concat([row, [-1]], 0)) + 1
        grows = tf.math.unsorted_segment_max(tf.cast(code == GROWS, tf.int32), row, count) > 0
        final = (code == ord("Σ")) & ~tf.gather(grows, row) & ends_word(code, row)
        replaced = self.small_letters.replaced(code)
        replaced = tf.where(final[:, None] & (replaced == SIGMA), FINAL_SIGMA, replaced)
        return spread(replaced, row, place)


def with_single_blanks(code, row, place):
    """Returns one blank between words, the first of several, and none at the ends."""
    blank = holds_of(code, str.isspace)
    solid = tf.where(blank, 0, 1)
    up_to = tf.cumsum(solid)  # characters of words
    count = tf.reduce_max(tf.concat([row, [-1]], 0)) + 1
    last = tf.math.unsorted_segment_max(up_to, row, count)  # those in all texts up to the end of each
    behind_one = neighbour(solid == 1, row, -1)
    kept = ~blank | (behind_one & (up_to < tf.gather(last, row)))
    code, row, place, blank = (tf.boolean_mask(x, kept) for x in (code, row, place, blank))
    return tf.where(blank, SPACE, code), row, place


def with_straight_quotes(code, row, place):
    """Returns `` and '' become a double quote, from the left."""
    for letter in "`'":
        there = code == ord(letter)
        begins = there & ~neighbour(there, row, -1)
        index = tf.range(tf.size(code))
        run = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        first = tf.gather(tf.concat([tf.cast(tf.where(begins)[:, 0], tf.int32), [0]], 0), tf.maximum(run, 0))
        even = there & ((index - first) % 2 == 0)
        pair = even & neighbour(there, row, 1)
        kept = ~neighbour(pair, row, -1)
        code = tf.where(pair, ord('"'), code)
        code, row, place = (tf.boolean_mask(x, kept) for x in (code, row, place))
    return code, row, place


def ends_word(code, row):
    """Returns whether a letter stands before each place and none behind it, where some signs do not count, as Unicode has it."""
    index = tf.cast(tf.where(~holds_of(code, is_transparent))[:, 0], tf.int32)  # what counts
    letter = tf.concat([tf.gather(holds_of(code, is_cased), index), [False]], 0)
    at = tf.concat([tf.gather(row, index), [NOTHING]], 0)
    here = tf.range(tf.size(code))
    last = tf.size(index)

    def has_letter(position):
        position = tf.where((position < 0) | (position >= last), last, position)
        return tf.gather(letter, position) & (tf.gather(at, position) == row)

    before = tf.searchsorted(index, here, side="left") - 1
    behind = tf.searchsorted(index, here, side="right")
    return has_letter(before) & ~has_letter(behind)


def neighbour(values: tf.Tensor, row: tf.Tensor, ahead: int) -> tf.Tensor:
    """Returns what bool `values` have one place ahead (1) or before (-1) in the same text; False where none stands."""
    if ahead > 0:
        moved, same = tf.concat([values[1:], [False]], 0), tf.concat([row[1:] == row[:-1], [False]], 0)
    else:
        moved, same = tf.concat([[False], values[:-1]], 0), tf.concat([[False], row[1:] == row[:-1]], 0)
    return (moved & same)[: tf.size(values)]


def spread(replaced: tf.Tensor, *columns: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Characters (N, R) with NOTHING among them in a row, (M,), each with what `columns`, (N,), have of the one that it comes from."""
    kept = replaced != NOTHING
    origin = tf.where(kept)[:, 0]
    return tf.boolean_mask(replaced, kept), *(tf.gather(x, origin) for x in columns)


def without_accents(text: str) -> str:
    decomposed = (d for c in text for d in unicodedata.normalize("NFKD", c))
    return "".join(d for d in decomposed if not unicodedata.combining(d))


def small_letters(text: str) -> str:
    """Returns each character by itself."""
    return "".join(c.lower() for c in text)


def is_cased(character: str) -> bool:
    """Returns whether a character counts as a letter where a sigma is looked at; Python tells by what it does."""
    return (character + "Σ").lower()[-1] == "ς"


def is_transparent(character: str) -> bool:
    """Returns whether a sigma looks past a character."""
    return not is_cased(character) and (f"a{character}Σ").lower()[-1] == "ς"
