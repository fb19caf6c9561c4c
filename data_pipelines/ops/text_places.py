"""Where the pieces of a text stand in it, inside a TensorFlow graph: for WordPiece, as `WordPieceTokenizer.encode` has it."""

import tensorflow as tf

from data_pipelines.ops.character_table import ITSELF, NOTHING, PAGE, SPACE, CharacterTable
from data_pipelines.text.vocabulary import CONTINUATION, UNKNOWN

NOWHERE = -1


def placed_words(table: CharacterTable, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """The words of `text`, string (B,), cleaned, with the places of their letters.

    As `CharacterTable.split`, with places.

    Returns:
        word string (W,); row int32 (W,), the text of each word; place int32 (M,), the character of the text that each letter
        of the words comes from; letters int32 (M,), the word of each letter.
    """
    characters = tf.strings.unicode_decode(text, "UTF-8", errors="replace")  # (B, None)
    code = characters.flat_values  # (N,)
    page = tf.cast(tf.gather(table.page_of, code // PAGE), tf.int32)
    index = tf.cast(tf.gather(table.pages, page * PAGE + code % PAGE), tf.int32)
    clean = tf.gather(table.replacements, index)  # (N, R)
    clean = tf.where(clean == ITSELF, code[:, None], clean)
    place = tf.ragged.range(tf.cast(characters.row_lengths(), tf.int32)).flat_values  # (N,)
    row = tf.cast(characters.value_rowids(), tf.int32)
    kept = clean != NOTHING
    spread = tf.zeros_like(clean)
    code, place, row = (
        tf.boolean_mask(x, kept) for x in (clean, place[:, None] + spread, row[:, None] + spread)
    )  # (M,)
    letter = code != SPACE
    before = tf.concat([[False], letter[:-1] & (row[1:] == row[:-1])], axis=0)[: tf.size(code)]
    word = tf.cumsum(tf.cast(letter & ~before, tf.int32)) - 1
    code, place, row, word = (tf.boolean_mask(x, letter) for x in (code, place, row, word))
    count = tf.reduce_max(tf.concat([word, [NOWHERE]], axis=0)) + 1
    letters = tf.RaggedTensor.from_value_rowids(code, word, count, validate=False)
    return {
        "word": tf.strings.unicode_encode(letters, "UTF-8"),
        "row": tf.math.segment_max(row, word),
        "place": place,
        "letters": word,
    }


class PlacedPieces(tf.Module):
    """The pieces of texts and the characters that each covers.

    Args:
        tokenizer: a `GraphTokenizer` of WordPiece.
    """

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer
        tokens = tokenizer.vocabulary.tokens
        self.unknown = tokenizer.vocabulary[UNKNOWN]
        with tf.device("CPU:0"):
            self.lengths = tf.constant([len(token.removeprefix(CONTINUATION)) for token in tokens])  # (V,) letters

    def __call__(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """string (B,) -> ids, first characters, and one past the last ones, ragged int32 (B, None)."""
        with tf.device("CPU:0"):
            found = placed_words(self.tokenizer.characters, text)
            word, place = found["word"], found["place"]
            size = tf.strings.length(word, unit="UTF8_CHAR")  # (W,)
            pieces = self.tokenizer.wordpieces(tf.where(size > self.tokenizer.max_word_characters, UNKNOWN, word))
            ids, of_word = pieces.flat_values, tf.cast(pieces.value_rowids(), tf.int32)  # (P,)
            # A word is unknown as a whole; so is one that is spelled as a token that begins with ##, which opens no word.
            alone = tf.gather(tf.cast(pieces.row_lengths(), tf.int32), of_word) == 1
            length = tf.where(alone, tf.gather(size, of_word), tf.gather(self.lengths, ids))
            last = tf.cumsum(length)  # (P,), one past the last letter of each piece
            first = last - length
            start, end = tf.gather(place, first), tf.gather(place, tf.maximum(last - 1, 0)) + 1
            rows = tf.gather(found["row"], of_word)
            count = tf.cast(tf.size(text), rows.dtype)
            return tuple(
                tf.RaggedTensor.from_value_rowids(value, rows, count, validate=False) for value in (ids, start, end)
            )
