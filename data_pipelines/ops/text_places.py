"""Where the pieces of a text stand in it, inside a TensorFlow graph: as `encode` of their tokenizer has it."""

import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.character_table import SPACE, CharacterTable
from data_pipelines.ops.code_points import holds_of
from data_pipelines.ops.piece_cleaning import neighbour, spread
from data_pipelines.ops.serving_kinds import (
    GraphBpe,
    GraphByteBpe,
    GraphCharacters,
    GraphOpenWords,
    GraphSentencePieces,
    GraphWords,
    shift,
)
from data_pipelines.text.byte_pairs import END_OF_WORD
from data_pipelines.text.plain_units import SPACE as BLANK
from data_pipelines.text.plain_units import stands_alone
from data_pipelines.text.tokenizer import Tokenizer, is_ideograph
from data_pipelines.text.vocabulary import CONTINUATION, UNKNOWN

NOWHERE = -1
LINE_ENDS = "\n\r\t\u3000"  # behind which a piece of bytes opens a word
Placed = dict[str, tf.RaggedTensor]


def placed_words(table: CharacterTable, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the words of `text`, string (B,), cleaned, with the places of their letters.

    As `CharacterTable.split`, with places.

    Returns:
        word string (W,); row int32 (W,), the text of each word; place int32 (M,), the character of the text that each letter
        of the words comes from; letters int32 (M,), the word of each letter.
    """
    characters = Characters(text)
    code, row, place = spread(table.replaced(characters.code), characters.row, characters.place)  # (M,)
    letter = code != SPACE
    word = tf.cumsum(tf.cast(letter & ~neighbour(letter, row, -1), tf.int32)) - 1
    code, place, row, word = (tf.boolean_mask(x, letter) for x in (code, place, row, word))
    count = tf.reduce_max(tf.concat([word, [NOWHERE]], axis=0)) + 1
    letters = tf.RaggedTensor.from_value_rowids(code, word, count, validate=False)
    return {
        "word": tf.strings.unicode_encode(letters, "UTF-8"),
        "row": tf.math.segment_max(row, word),
        "place": place,
        "letters": word,
    }


def places_of(tokenizer, source: Tokenizer) -> tf.Module:
    """Returns what gives the pieces of texts with their places.

    Args:
        tokenizer: a `GraphTokenizer`.
        source: the tokenizer that it reproduces.

    Returns:
        A module from string (B,) to ids, starts and ends, the first character of each piece and one past the last, ragged int32
        (B, None), and opens and blank, bool: whether a piece opens a word, and whether it is blanks only.

    Raises:
        UsageError: tokens were added to the vocabulary.
    """
    if tokenizer.added is not None:
        raise UsageError(
            "A vocabulary with added tokens is not available in a graph that says where pieces stand. Serve the run folder with "
            "`xmodels predict`, which tokenizes outside of it."
        )
    if tokenizer.graph is None:
        return word_pieces(tokenizer)
    return PLACED[type(tokenizer.graph)](tokenizer.graph, source)


class PlacedWords(tf.Module):
    """Pieces of words that stand between blanks and signs, as WordPiece's and those of GPT-1's BPE.

    Args:
        characters: the table by which words are cleaned and parted.
        pieces: words (W,) -> ids, ragged int32 (W, None).
        lengths: letters of each token, (V,).
        whole: whether a word of one piece has all its letters, however the piece is spelled, as an unknown one.
    """

    def __init__(self, characters: CharacterTable, pieces, lengths: list[int], whole: bool):
        super().__init__()
        self.characters, self.pieces, self.whole = characters, pieces, whole
        with tf.device("CPU:0"):
            self.lengths = tf.constant(lengths)

    def __call__(self, text: tf.Tensor) -> Placed:
        with tf.device("CPU:0"):
            found = placed_words(self.characters, text)
            word, place = found["word"], found["place"]
            pieces = self.pieces(word)
            tokens, of_word = pieces.flat_values, tf.cast(pieces.value_rowids(), tf.int32)  # (P,)
            length = tf.gather(self.lengths, tokens if tokens.shape.rank == 1 else tokens[:, 0])
            if self.whole:
                alone = tf.gather(tf.cast(pieces.row_lengths(), tf.int32), of_word) == 1
                length = tf.where(alone, tf.gather(tf.strings.length(word, unit="UTF8_CHAR"), of_word), length)
            last = tf.cumsum(length)  # (P,), one past the last letter of each piece
            start, end = tf.gather(place, last - length), tf.gather(place, tf.maximum(last - 1, 0)) + 1
            opens = of_word != shift(of_word, 1, NOWHERE)
            return by_text(text, tf.gather(found["row"], of_word), tokens, start, end, opens, tf.zeros_like(opens))


def word_pieces(tokenizer) -> PlacedWords:
    """Works as `WordPieceTokenizer.encode`; `tokenizer` is a `GraphTokenizer` of it."""

    def pieces(word):
        size = tf.strings.length(word, unit="UTF8_CHAR")
        return tokenizer.wordpieces(tf.where(size > tokenizer.max_word_characters, UNKNOWN, word))

    # A word is unknown as a whole; so is one that is spelled as a token that begins with ##, which opens no word.
    lengths = [len(token.removeprefix(CONTINUATION)) for token in tokenizer.vocabulary.tokens]
    return PlacedWords(tokenizer.characters, pieces, lengths, whole=True)


def word_pairs(graph: GraphBpe, source: Tokenizer) -> PlacedWords:
    """Works as `BpeTokenizer.encode`, whose unknown letters are a token each."""
    unknown = source.vocabulary.roles[UNKNOWN]
    tokens = enumerate(source.vocabulary.tokens)
    lengths = [1 if index == unknown else len(token.removesuffix(END_OF_WORD)) for index, token in tokens]
    return PlacedWords(graph.characters, graph.of_words, lengths, whole=False)


def whole_words(graph: GraphWords, source: Tokenizer) -> PlacedWords:
    """Works as `WordTokenizer.encode`."""

    def pieces(word):
        return tf.RaggedTensor.from_tensor(graph.of_words(word)[:, None])

    return PlacedWords(graph.characters, pieces, [1] * len(source.vocabulary), whole=True)


class PlacedCharacters(tf.Module):
    """As `CharacterTokenizer.encode`.

    Args:
        graph: a `GraphCharacters`.
    """

    def __init__(self, graph, source: Tokenizer):
        super().__init__()
        self.graph = graph

    def __call__(self, text: tf.Tensor) -> Placed:
        with tf.device("CPU:0"):
            characters = Characters(text)
            code, row, place, alone = spread(
                self.graph.characters.replaced(characters.code), characters.row, characters.place,
                holds_of(characters.code, stands_alone),
            )  # fmt: skip
            letter = code != SPACE
            seen = tf.cumsum(tf.cast(letter, tf.int32))
            before = tf.math.unsorted_segment_min(
                seen - tf.cast(letter, tf.int32), row, tf.size(text)
            )  # in earlier texts
            kept = letter | ((seen > tf.gather(before, row)) & neighbour(letter, row, 1))  # of blanks the last one
            code, row, place, alone, letter = (tf.boolean_mask(x, kept) for x in (code, row, place, alone, letter))
            ids = self.graph.ids.lookup(tf.strings.unicode_encode(tf.where(letter, code, ord(BLANK))[:, None], "UTF-8"))
            alone |= ~letter
            same = row == shift(row, 1, NOWHERE)  # as the piece before: the text, and the character
            opens = ~same | ((alone | shift(alone, 1, True)) & (place != shift(place, 1, NOWHERE)))
            columns = row, ids, place, place + 1, opens, ~letter
            if not self.graph.blank:
                columns = (tf.boolean_mask(x, letter) for x in columns)
            return by_text(text, *columns)


class Characters:
    """The characters of texts, one text behind the other.

    Attributes:
        code, row, place: int32 (N,): the character, the text in which it stands, and where.
        ends: int32 (N,): the bytes of all texts up to the end of each character.
        seen: int32 (M,): which characters are no blanks, and N behind them.
        lengths, before: int32 (B,): the characters of each text, and of those before it.
    """

    def __init__(self, text: tf.Tensor):
        characters = tf.strings.unicode_decode(text, "UTF-8", errors="replace")  # (B, None)
        self.code, self.row = characters.flat_values, tf.cast(characters.value_rowids(), tf.int32)
        self.place = tf.ragged.range(tf.cast(characters.row_lengths(), tf.int32)).flat_values
        self.size = tf.size(self.code)
        steps = [tf.cast(self.code >= limit, tf.int32) for limit in (0x80, 0x800, 0x10000)]
        self.ends = tf.cumsum(1 + sum(steps))
        blank = holds_of(self.code, str.isspace)
        self.seen = tf.concat([tf.cast(tf.where(~blank)[:, 0], tf.int32), [self.size]], axis=0)  # that are no blanks
        self.lengths = tf.math.unsorted_segment_sum(tf.ones_like(self.row), self.row, tf.size(text))  # (B,)
        self.before = tf.cumsum(self.lengths, exclusive=True)  # (B,), in earlier texts

    def at_byte(self, byte: tf.Tensor) -> tf.Tensor:
        """Returns the character, counted over all texts, in which a byte stands, int32 (P,); behind the last one their number."""
        return tf.searchsorted(self.ends, byte, side="right")

    def codes(self, index: tf.Tensor) -> tf.Tensor:
        """Returns the characters at some places, int32 (P,); -1 outside."""
        inside = (index >= 0) & (index < self.size)
        padded = tf.concat([self.code, [NOWHERE]], axis=0)
        return tf.where(inside, tf.gather(padded, tf.where(inside, index, self.size)), NOWHERE)

    def trimmed(self, first: tf.Tensor, end: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns `first` without the blanks at the front of a piece, and whether it is blanks only, in which case it stays."""
        start = tf.gather(self.seen, tf.minimum(tf.searchsorted(self.seen, first), tf.size(self.seen) - 1))
        blank = start >= end
        return tf.where(blank, first, start), blank

    def are_ideographs(self, index: tf.Tensor) -> tf.Tensor:
        """Returns bool (P,): whether an ideograph stands at some places."""
        return holds_of(self.codes(index), is_ideograph)


class PlacedBytes(tf.Module):
    """As `ByteBpeTokenizer.encode`, whose pieces are bytes of the text and leave none out.

    Args:
        graph: a `GraphByteBpe`.
    """

    def __init__(self, graph, source: Tokenizer):
        super().__init__()
        self.graph = graph
        unknown = source.vocabulary.roles.get(UNKNOWN)
        with tf.device("CPU:0"):
            tokens = enumerate(source.vocabulary.tokens)
            self.lengths = tf.constant([1 if index == unknown else len(token) for index, token in tokens])  # (V,) bytes
            self.after_blank = tf.constant(source.after_blank)

    def __call__(self, text: tf.Tensor) -> Placed:
        with tf.device("CPU:0"):
            characters = Characters(text)
            pieces = self.graph.of_characters(characters.code, characters.row, tf.size(text, tf.int64))
            ids, row = pieces.flat_values, tf.cast(pieces.value_rowids(), tf.int32)  # (P,)
            bytes_up_to = tf.cumsum(tf.gather(self.lengths, ids))
            first = characters.at_byte(bytes_up_to - tf.gather(self.lengths, ids))
            end = characters.at_byte(bytes_up_to - 1) + 1
            begins = row != shift(row, 1, NOWHERE)
            whole = begins | (first >= shift(end, 1, 0))  # a piece may begin inside of a character
            behind_line = tf.reduce_any(
                characters.codes(first - 1)[:, None] == tf.constant([ord(c) for c in LINE_ENDS]), axis=1
            )
            ideograph = characters.are_ideographs(first) | characters.are_ideographs(first - 1)
            opens = begins | tf.gather(self.after_blank, ids) | (whole & (behind_line | ideograph))
            return of_characters(text, characters, row, ids, first, end, opens)


class PlacedSentencePieces(tf.Module):
    """As `SentencePieceTokenizer.encode`, with the op of `tensorflow_text`.

    Args:
        graph: a `GraphSentencePieces`.
    """

    def __init__(self, graph, source: Tokenizer):
        super().__init__()
        self.graph = graph
        with tf.device("CPU:0"):
            self.opens = tf.constant(source.opens)

    def __call__(self, text: tf.Tensor) -> Placed:
        with tf.device("CPU:0"):
            original = characters = Characters(text)
            if self.graph.cleaning is not None:
                text, place = self.graph.cleaning(text)
                characters = Characters(text)
            pieces, first, end = self.graph.model.tokenize_with_offsets(text)  # bytes of each text
            ids, row = pieces.flat_values, tf.cast(pieces.value_rowids(), tf.int32)
            before = tf.gather(tf.cumsum(tf.strings.length(text), exclusive=True), row)
            first, last = (tf.cast(x.flat_values, tf.int32) + before for x in (first, end))
            empty = first >= last  # a piece that stands for nothing of the text
            first = characters.at_byte(first)
            end = tf.where(empty, first, characters.at_byte(last - 1) + 1)
            if self.graph.parts is not None:
                ids, row, first, end = self.graph.parts(ids, row, first, end)
                empty = first >= end
            near = characters.are_ideographs(first)
            near |= characters.are_ideographs(first - 1) & (first > tf.gather(characters.before, row))
            opens = (row != shift(row, 1, NOWHERE)) | tf.gather(self.opens, ids) | (near & ~empty)
            if self.graph.cleaning is not None:
                first, end = in_original(original, characters, place, row, first, end)
            return of_characters(text, original, row, ids, first, end, opens)


def in_original(original: Characters, clean: Characters, place, row, first, end) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns spans of clean texts as those of the texts they come from; `place` int32 (N,) has that of each clean character in
    its text."""
    empty, inside = first >= end, first < tf.gather(clean.before + clean.lengths, row)
    place = tf.concat([place, [NOWHERE]], 0)
    start = tf.where(inside, tf.gather(place, tf.where(inside, first, 0)), tf.gather(original.lengths, row))
    stop = tf.where(empty, start, tf.gather(place, tf.maximum(end - 1, 0)) + 1)
    before = tf.gather(original.before, row)
    return start + before, stop + before


def of_characters(text, characters: Characters, row, ids, first, end, opens) -> Placed:
    """Returns pieces by text, without the blanks at their front; `first` and `end` count over all texts."""
    start, blank = characters.trimmed(first, end)
    before = tf.gather(characters.before, row)
    return by_text(text, row, ids, start - before, end - before, opens, blank)


def by_text(text, row, ids, starts, ends, opens, blank) -> Placed:
    count = tf.cast(tf.size(text), row.dtype)
    columns = {"ids": ids, "starts": starts, "ends": ends, "opens": opens, "blank": blank}
    return {
        name: tf.RaggedTensor.from_value_rowids(value, row, count, validate=False) for name, value in columns.items()
    }


PLACED = {
    GraphByteBpe: PlacedBytes, GraphBpe: word_pairs, GraphCharacters: PlacedCharacters, GraphWords: whole_words,
    GraphOpenWords: whole_words, GraphSentencePieces: PlacedSentencePieces,
}  # fmt: skip
