"""Units: words, and the bytes of which each of them is spelled, as ELMo reads them (Peters et al., 2018; bilm-tf's
`UnicodeCharsVocabulary`).

A word is a row of `WIDTH` ids: where it begins, its bytes in UTF-8, where it ends, and filling. Longer words lose their last bytes,
even in the middle of a letter. Ids are those of bilm-tf plus 1, as its networks read them, so that a row of zeros is no word.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from data_pipelines.features import CHARACTERS as WIDTH
from data_pipelines.features import Feature, Features

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, FILLING = range(257, 262)  # behind the bytes, which are 1 to 256
NUM_CHARACTERS = 262
CHARACTER_IDS = Feature((None, WIDTH))


class Characters:
    """Cuts texts into words: the id of each, that of the unknown token where the vocabulary lacks it, and its characters.

    Args:
        tokenizer: of the kind `word_characters`.
    """

    features: ClassVar[Features] = {"token_ids": Feature((None,)), "character_ids": CHARACTER_IDS}

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def offline(self, text: str) -> dict[str, np.ndarray]:
        """Returns `token_ids` (W,) and `character_ids` (W, 50), int32."""
        ids = self.tokenizer.encode(text).ids
        return {"token_ids": np.array(ids, np.int32), **self.tokenizer.vocabulary.token_features(ids)}

    def graph(self) -> Callable:
        """Returns a function of texts, string (B,), that returns the same as ragged tensors (B, None) and (B, None, 50)."""
        # TensorFlow, which the workers of records do without.
        from data_pipelines.ops.serving_text import GraphTokenizer

        return GraphTokenizer(self.tokenizer, "core").units


def spell(words: Sequence[str], width: int = WIDTH) -> np.ndarray:
    """Returns the characters of words, int32 (W, width)."""
    found = np.full((len(words), width), FILLING, np.int32)
    for row, word in zip(found, words, strict=True):
        kept = np.frombuffer(word.encode("utf-8", "replace")[: width - 2], np.uint8)
        row[0], row[1 : 1 + len(kept)], row[1 + len(kept)] = BEGIN_WORD, kept.astype(np.int32) + 1, END_WORD
    return found


def spell_mark(character: int, width: int = WIDTH) -> np.ndarray:
    """Returns the row of a word that is one special character, such as `BEGIN_SENTENCE`: int32 (width,)."""
    row = np.full(width, FILLING, np.int32)
    row[:3] = BEGIN_WORD, character, END_WORD
    return row


def read_back(characters: np.ndarray) -> str | None:
    """Returns the word of a row of characters, without what was cut off; None of a row of zeros or of a mark."""
    spelled = characters[(characters > 0) & (characters < BEGIN_WORD)]
    if not characters.any() or (spelled > 256).any():
        return None
    return bytes(spelled.astype(np.uint8) - np.uint8(1)).decode("utf-8", "ignore")


def spell_in_graph(words, width: int = WIDTH):
    """Returns the same as `spell` of words, string (W,), as a tensor."""
    import tensorflow as tf  # as above

    kept = tf.strings.substr(words, 0, width - 2)  # bytes
    ends = tf.strings.length(kept)[:, None] + 1  # (W, 1)
    codes = tf.cast(tf.io.decode_raw(kept, tf.uint8, fixed_length=width - 2), tf.int32) + 1
    codes = tf.pad(codes, [[0, 0], [1, 1]], constant_values=BEGIN_WORD)  # (W, width)
    place = tf.range(width)[None, :]
    codes = tf.where(place < ends, codes, tf.where(place == ends, END_WORD, FILLING))
    return tf.ensure_shape(codes, [None, width])
