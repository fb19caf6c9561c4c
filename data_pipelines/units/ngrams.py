"""Units: words, and the parts of each that fastText learns vectors of (Bojanowski et al., 2017, section 3.2; `dictionary.cc`).

The parts of a word are all runs of `shortest` to `longest` characters of `<word>`, in the order of their places. They share a
table with the words: a part has the row `len(vocabulary)` plus its hash, modulo the number of buckets.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from data_pipelines.features import Feature, Features
from data_pipelines.text.subwords import BITS, BUCKETS, OFFSET, PRIME, SIGN, bucket_ids
from data_pipelines.text.vocabulary import UNKNOWN


class NGrams:
    """Cuts texts into words: the id of each, and the rows whose mean is its vector.

    Args:
        tokenizer: of the kind `words`.
        shortest, longest: characters of a part; 0 and 0 for words without parts.
        buckets: rows of the table behind those of the words.
    """

    features: ClassVar[Features] = {"token_ids": Feature((None,)), "ngram_ids": Feature((None, None))}

    def __init__(self, tokenizer, shortest: int = 3, longest: int = 6, buckets: int = BUCKETS):
        self.tokenizer, self.lengths, self.buckets = tokenizer, (shortest, longest), buckets

    def offline(self, text: str) -> dict[str, np.ndarray]:
        """Returns `token_ids` (W,), and `ngram_ids` (W, G): the row of the word itself if the vocabulary has it, those of its parts,
        and zeros up to the most that a word has; int32."""
        vocabulary, words = self.tokenizer.vocabulary, self.tokenizer.words(text)
        rows = [
            [*([vocabulary.ids[w]] if w in vocabulary.ids else []), *(len(vocabulary) + np.array(self.parts(w), int))]
            for w in words
        ]
        found = np.zeros((len(rows), max(map(len, rows), default=0)), np.int32)
        for place, row in zip(found, rows, strict=True):
            place[: len(row)] = row
        unknown = vocabulary[UNKNOWN]
        return {"token_ids": np.array([vocabulary.ids.get(w, unknown) for w in words], np.int32), "ngram_ids": found}

    def parts(self, word: str) -> Sequence[int]:
        """Returns the buckets of the parts of a word."""
        return bucket_ids(word, *self.lengths, self.buckets)

    def graph(self) -> Callable:
        """Returns a function of texts, string (B,), that returns the same as ragged tensors (B, None) and (B, None, None)."""
        from data_pipelines.ops.serving_kinds import GraphWords  # TensorFlow, which the workers of records do without

        words, vocabulary = GraphWords(self.tokenizer), self.tokenizer.vocabulary

        def units(text):
            import tensorflow as tf

            found = words.split(text)  # (B, None)
            ids = words.ids.lookup(found.flat_values)
            own = tf.RaggedTensor.from_tensor(
                ids[:, None], lengths=tf.cast(words.is_known(found.flat_values), tf.int64)
            )
            parts = bucket_ids_in_graph(found.flat_values, *self.lengths, self.buckets) + len(vocabulary)
            return {
                "token_ids": found.with_flat_values(ids),
                "ngram_ids": found.with_flat_values(tf.concat([own, parts], axis=1)),
            }

        units.tables = words  # what a module that is saved has to hold
        return units


def bucket_ids_in_graph(words, shortest: int, longest: int, buckets: int):
    """Returns the same of words, string (W,), as a ragged tensor, int32 (W, None)."""
    import tensorflow as tf  # as above

    marked = tf.strings.join(["<", words, ">"])
    length = tf.strings.length(marked, unit="UTF8_CHAR")  # (W,)
    sizes = range(max(shortest, 1), longest + 1)
    start = tf.range(tf.reduce_max(tf.concat([length, [0]], axis=0)))[None, :, None]  # (1, C, 1)
    size = tf.constant(list(sizes), tf.int32)[None, None, :]  # (1, 1, N)
    end = start + size
    alone = (size == 1) & ((start == 0) | (end == length[:, None, None]))
    real = (end <= length[:, None, None]) & ~alone  # (W, C, N)
    word, first, which = tf.unstack(tf.where(real), axis=1)  # (P,) each, in fastText's order
    part = tf.strings.substr(tf.gather(marked, word), first, which + sizes.start, unit="UTF8_CHAR")
    codes = tf.cast(tf.io.decode_raw(part, tf.uint8, fixed_length=max(4 * longest, 1)), tf.int64)  # (P, 4 longest)
    codes = tf.where(codes > 127, codes | SIGN, codes)
    value = tf.fill(tf.shape(part), tf.constant(OFFSET, tf.int64))
    for place in range(4 * longest):
        next_value = ((value ^ codes[:, place]) * PRIME) & BITS
        value = tf.where(place < tf.strings.length(part), next_value, value)
    bucket = tf.cast(value % buckets, tf.int32)
    return tf.RaggedTensor.from_value_rowids(bucket, word, tf.size(words, tf.int64), validate=False)
