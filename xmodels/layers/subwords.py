"""The rows of a table that fastText sums for a word: its own, and those of its parts (Bojanowski et al., 2017; `dictionary.cc`).

All of it is computed from the bytes of words, so words that the vocabulary lacks have vectors too.
"""

import keras
from keras import ops

from xmodels.layers.initialization import RandomUniform
from xmodels.layers.layer import Layer

# Of FNV-1a, as `data_pipelines.text.subwords` computes it; and of the characters of `data_pipelines.units.characters`.
OFFSET, PRIME, BITS, SIGN, RUN_PRIME = 2_166_136_261, 16_777_619, 0xFFFFFFFF, 0xFFFFFF00, 116_049_371
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD = range(257, 261)
END_OF_LINE = 3_617_362_777  # the hash of `</s>`, fastText's word for what our texts end with


def signed_bytes(characters):
    """Returns the bytes of `<word>` as fastText reads them, int64 (B, L, W), and where there are any, bool.

    Args:
        characters: int (B, L, W), of `data_pipelines.units.characters`. Marks of sentences have no bytes.
    """
    marks = ops.any((characters >= BEGIN_SENTENCE) & (characters <= END_SENTENCE), axis=-1, keepdims=True)
    real = (characters > 0) & (characters <= END_WORD) & ~marks
    codes = ops.where(characters == BEGIN_WORD, ord("<"), ops.where(characters == END_WORD, ord(">"), characters - 1))
    codes = ops.cast(codes, "int64")
    return ops.where(real, ops.where(codes > 127, ops.bitwise_or(codes, SIGN), codes), 0), real


def part_buckets(characters, shortest: int, longest: int, buckets: int):
    """Returns the buckets of the parts of words: for each length a pair of int64 and bool (B, L, W), of the parts that begin at each
    byte and whether there is one."""
    codes, real = signed_bytes(characters)
    width = characters.shape[-1]
    opens = real & (ops.bitwise_and(codes, 0xC0) != 0x80)  # not inside of a character of several bytes
    letters = ops.cumsum(ops.cast(opens, "int32"), axis=-1)
    ends = real & (_later(opens, 1) | ~_later(real, 1))  # a character ends with this byte
    last = ops.sum(ops.cast(opens, "int32"), axis=-1, keepdims=True)
    found = {n: (ops.zeros_like(codes), ops.zeros_like(real)) for n in range(max(1, shortest), longest + 1)}
    value = ops.full_like(codes, OFFSET)
    for step in range(min(4 * longest, width)):
        value = ops.bitwise_and(ops.bitwise_xor(value, _later(codes, step)) * PRIME, BITS)
        size = _later(letters, step) - letters + 1
        for n in found:
            here = opens & _later(ends, step) & (size == n)
            if n == 1:  # `<` or `>` alone is no part
                here &= (letters > 1) & (letters < last)
            bucket, there = found[n]
            found[n] = ops.where(here, value % buckets, bucket), there | here
    return list(found.values())


def word_hashes(characters):
    """Returns the hash of each word without its marks, as a signed number of 32 bits, int64 (B, L)."""
    characters = ops.transpose(ops.cast(characters, "int32"), (2, 0, 1))  # so that the bytes of a step lie side by side
    marks = ops.any((characters >= BEGIN_SENTENCE) & (characters <= END_SENTENCE), axis=0)
    inside = (characters > 0) & (characters < BEGIN_SENTENCE) & ~marks
    codes = ops.where(characters > 128, characters - 257, characters - 1)  # of 8 bits with a sign
    value = ops.full_like(codes[0], _signed(OFFSET))
    for real, code in zip(ops.unstack(inside), ops.unstack(codes), strict=True):
        value = ops.where(
            real, ops.bitwise_xor(value, code) * PRIME, value
        )  # products of 32 bits drop what is above them
    value = ops.where(ops.any(characters == END_SENTENCE, axis=0), _signed(END_OF_LINE), value)
    return ops.cast(value, "int64")


def _signed(number: int) -> int:
    """Returns a number of 32 bits as one with a sign."""
    return number - (1 << 32) if number >= 1 << 31 else number


def run_buckets(hashes, real, longest: int, buckets: int):
    """Returns the buckets of runs of 2 to `longest` words: for each length a pair of int64 and bool (B, L), of the runs that begin at
    each word and whether there is one."""
    correction = (1 << 64) % buckets
    value, there, found = hashes, real, []
    for step in range(1, longest):
        value, there = (
            value * RUN_PRIME + _later(hashes, step),
            there & _later(real, step),
        )  # of 64 bits, without a sign
        bucket = value % buckets
        found.append((ops.where(value < 0, (bucket + correction) % buckets, bucket), there))
    return found


class WordRows(Layer):
    """A table of words and buckets, of which the vector of a word sums some rows.

    Args:
        config: of the network: a `FastTextConfig`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        bound = 1.0 / config.hidden_dim
        rows = config.vocabulary_size + (config.kept_buckets or config.buckets)
        uniform = RandomUniform(-bound, bound)
        self.table = keras.layers.Embedding(rows, config.hidden_dim, uniform, name="table")
        self.table.build(None)
        self.kept = None
        if config.kept_buckets:
            # The buckets that are left of a pruned network, in the order of their rows; whole numbers.
            self.kept = self.add_weight(shape=(config.kept_buckets,), initializer="zeros", trainable=False, name="kept")

    def call(self, token_ids, character_ids=None):
        """Returns the sums of the rows of each token, (B, L, D), and how many they are, (B, L).

        Args:
            token_ids: int (B, L).
            character_ids: int (B, L, W); None for the rows of words alone.
        """
        config, known = self.config, token_ids != self.config.unknown_id
        if character_ids is not None:
            known &= ops.any(character_ids > 0, axis=-1) & ~ops.any(character_ids == BEGIN_SENTENCE, axis=-1)
        sums, counts = self._rows(token_ids, known)
        if character_ids is None or not config.longest_ngram:
            return sums, counts
        for bucket, there in part_buckets(character_ids, config.shortest_ngram, config.longest_ngram, config.buckets):
            found, there = self.of_buckets(bucket, there)  # (B, L, W, D), (B, L, W)
            sums, counts = sums + ops.sum(found, axis=2), counts + ops.sum(there, axis=2)
        return sums, counts

    def of_buckets(self, bucket, there):
        """Returns the rows of buckets (...), zeros where there are none, and 1 where there is one."""
        row = bucket
        if self.kept is not None:
            kept = ops.cast(self.kept, "float32")
            wanted = ops.cast(bucket, "float32")
            row = ops.minimum(ops.searchsorted(kept, ops.reshape(wanted, (-1,))), self.config.kept_buckets - 1)
            row = ops.reshape(row, ops.shape(bucket))
            there &= ops.take(kept, row) == wanted
        return self._rows(ops.cast(row, "int32") + self.config.vocabulary_size, there)

    def _rows(self, ids, there):
        there = ops.cast(there, self.compute_dtype)
        return self.table(ids) * there[..., None], there


def _later(x, steps: int):
    """Returns what stands `steps` places later on the last axis; zeros behind the end."""
    if not steps:
        return x
    pads = [[0, 0]] * (len(x.shape) - 1)
    return ops.pad(x, [*pads, [0, steps]])[..., steps:]
