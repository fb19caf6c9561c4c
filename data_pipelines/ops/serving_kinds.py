"""Tokenizers other than WordPiece inside a TensorFlow graph; `GraphTokenizer` of `serving_text` frames their ids.

BPE over bytes and over characters, characters and words are built of core ops, so that any TensorFlow serves them.
SentencePiece needs the op of `tensorflow_text`. What has no equal in the graph is refused, not approximated.
"""

import functools

import numpy as np
import tensorflow as tf
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

from data_pipelines.errors import UsageError
from data_pipelines.ops.character_table import CODE_POINTS, SURROGATES, CharacterTable
from data_pipelines.ops.piece_cleaning import GraphCleaning
from data_pipelines.text.byte_pairs import END_OF_WORD, BpeTokenizer, ByteBpeTokenizer, byte_symbols
from data_pipelines.text.open_words import OpenWordTokenizer
from data_pipelines.text.paired_pieces import CLOSES, OPENS, SentencePiecePairTokenizer
from data_pipelines.text.plain_units import SPACE, CharacterTokenizer, WordTokenizer
from data_pipelines.text.sentence_pieces import SentencePieceTokenizer
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import UNKNOWN, Vocabulary
from data_pipelines.units.characters import WIDTH, spell_in_graph

NO_RANK = 2**31 - 1
OTHER, LETTER, NUMBER, BLANK = range(4)


def graph_of(tokenizer: Tokenizer, serving_ops: str) -> tf.Module:
    """Returns what turns strings (B,) into ids, int32 (B, None), as `tokenizer` does.

    Raises:
        UsageError: this tokenizer, or one of its settings, is not available in a graph, or not with `serving_ops`.
    """
    if getattr(tokenizer, "recognize_special_tokens", False):
        raise UsageError("A graph tokenizer reads special tokens in the text as ordinary text.")
    if isinstance(tokenizer, (SentencePieceTokenizer, SentencePiecePairTokenizer)) and serving_ops != "text":
        raise UsageError(
            f"--serving_ops={serving_ops}: SentencePiece needs the op of tensorflow-text. Use --serving_ops=text, and "
            "serve with a TensorFlow that has tensorflow-text loaded."
        )
    return GRAPHS[type(tokenizer)](tokenizer)


def refuse(tokenizer: Tokenizer, **wrong) -> None:
    """Raises a UsageError for a setting that the graph does not know."""
    for name, without in wrong.items():
        value = getattr(tokenizer, name)
        if value != without:
            raise UsageError(
                f"A vocabulary of --tokenizer={tokenizer.kind} with `{name}` = {value!r} is not available in a graph. "
                "Serve the run folder with `xmodels predict`, which tokenizes outside of it."
            )


class Merges(tf.Module):
    """Applies byte pair merges to words, int32 (W, L) padded with -1, until none is left."""

    def __init__(self, vocabulary: Vocabulary, merges):
        super().__init__()
        ids, self.size = vocabulary.ids, len(vocabulary)
        keys = [ids[left] * self.size + ids[right] for left, right in merges] or [-1]
        self.merged = tf.constant([ids[left + right] for left, right in merges] or [0], tf.int32)
        entries = tf.lookup.KeyValueTensorInitializer(tf.constant(keys, tf.int64), tf.range(len(keys)))
        self.ranks = tf.lookup.StaticHashTable(entries, default_value=NO_RANK)

    def __call__(self, ids: tf.Tensor) -> tf.RaggedTensor:
        any_shape = tf.TensorShape([None, None])
        ids, _ = tf.while_loop(
            lambda ids, more: more, self.step, [ids, tf.constant(True)], [any_shape, tf.TensorShape([])]
        )
        return tf.RaggedTensor.from_tensor(ids, padding=-1)

    def step(self, ids, more):
        """Joins the best pair of every word, wherever it stands; of overlapping ones the first."""
        ids = tf.pad(ids, [[0, 0], [0, 1]], constant_values=-1)
        left, right = tf.cast(ids[:, :-1], tf.int64), tf.cast(ids[:, 1:], tf.int64)  # (W, L)
        rank = tf.where(right >= 0, self.ranks.lookup(left * self.size + right), NO_RANK)
        best = tf.reduce_min(rank, axis=1, keepdims=True)  # (W, 1)
        match = (rank == best) & (best < NO_RANK)
        before = tf.pad(match, [[0, 0], [1, 0]])[:, :-1]
        take = match & ~before
        joined = tf.gather(self.merged, tf.where(take, rank, 0))
        ids = tf.where(take, joined, ids[:, :-1])
        gone = tf.pad(take, [[0, 0], [1, 0]])[:, :-1]
        ids = tf.ragged.boolean_mask(ids, (ids >= 0) & ~gone).to_tensor(-1)
        return ids, tf.reduce_any(best < NO_RANK)


class GraphByteBpe(tf.Module):
    """`ByteBpeTokenizer` with core ops. Broken UTF-8 is read as U+FFFD."""

    def __init__(self, tokenizer: ByteBpeTokenizer):
        super().__init__()
        refuse(tokenizer, do_lower_case=False, add_prefix_space=False)
        self.classes = tf.constant(character_classes())
        vocabulary = tokenizer.vocabulary
        unknown = vocabulary.roles.get(UNKNOWN, -1)
        self.byte_ids = tf.constant([vocabulary.ids.get(symbol, unknown) for symbol in byte_symbols()], tf.int32)
        self.merges = Merges(vocabulary, tokenizer.merges)

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.unicode_decode(text, "UTF-8", errors="replace")  # (B, None)
        return self.of_characters(
            characters.flat_values, tf.cast(characters.value_rowids(), tf.int32), tf.size(text, tf.int64)
        )

    def of_characters(self, code: tf.Tensor, row: tf.Tensor, count: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids, int32 (B, None), of characters (N,) that stand in texts (N,), of which there are so many."""
        opens = self.openings(code, row)  # (N,)
        word = tf.cumsum(tf.cast(opens, tf.int32)) - 1
        words = tf.RaggedTensor.from_value_rowids(code, word, validate=False)
        words = tf.strings.unicode_encode(words, "UTF-8")  # (W,)
        distinct, index = tf.unique(words)
        lengths = tf.strings.length(distinct)
        longest = tf.reduce_max(tf.concat([lengths, [1]], 0))
        raw = tf.io.decode_raw(distinct, tf.uint8, fixed_length=longest)  # (U, L)
        ids = tf.gather(self.byte_ids, tf.cast(raw, tf.int32))
        ids = self.merges(tf.where(tf.sequence_mask(lengths, longest), ids, -1))
        word_row = tf.cast(tf.boolean_mask(row, opens), tf.int64)
        pieces = tf.gather(ids, index)
        by_row = tf.RaggedTensor.from_value_rowids(pieces, word_row, count, validate=False)
        return tf.cast(by_row.merge_dims(1, 2), tf.int32)

    def openings(self, code: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        """Returns True where GPT-2's pattern begins a new part: bool (N,).

        's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+
        """
        kind = tf.gather(self.classes, code)
        row_starts = row != shift(row, 1, -1)
        row_ends = row != shift(row, -1, -1)
        previous = tf.where(row_starts, -1, shift(kind, 1, -1))
        following = tf.where(row_ends, -1, shift(kind, -1, -1))
        before = tf.where(row_starts, -1, shift(code, 1, -1))
        opens = kind != previous
        # The last blank before a word is on its own, and a plain one goes with the word.
        opens |= (kind == BLANK) & (following != BLANK) & (following != -1)
        opens &= ~((kind != BLANK) & (before == ord(" ")))
        # An apostrophe that opens a part takes s, t, m, d, re, ve or ll with it.
        quote = opens & (code == ord("'")) & (following == LETTER)
        one, two = within(code, row, 1), within(code, row, 2)
        short = quote & is_any(one, "stmd")
        pairs = [(one == ord(a)) & (two == ord(b)) for a, b in ("re", "ve", "ll")]
        long = quote & (pairs[0] | pairs[1] | pairs[2])
        taken = shift(short | long, 1, False) | shift(long, 2, False)
        after = (shift(short, 2, False) | shift(long, 3, False)) & (previous != -1)
        return row_starts | ((opens | after) & ~taken)


def shift(values: tf.Tensor, by: int, fill) -> tf.Tensor:
    """Returns `values` moved to later places, or by a negative number to earlier ones."""
    padding = tf.fill([abs(by)], tf.constant(fill, values.dtype))
    if by > 0:
        return tf.concat([padding, values], 0)[: tf.size(values)]
    return tf.concat([values, padding], 0)[-by:]


def within(code: tf.Tensor, row: tf.Tensor, ahead: int) -> tf.Tensor:
    """Returns the character so many places ahead in the same text, or -1."""
    return tf.where(shift(row, -ahead, -1) == row, shift(code, -ahead, -1), -1)


def is_any(code: tf.Tensor, letters: str) -> tf.Tensor:
    return tf.reduce_any(code[:, None] == tf.constant([ord(c) for c in letters]), axis=1)


@functools.cache
def character_classes() -> np.ndarray:
    """Returns OTHER, LETTER, NUMBER or BLANK of every code point, by the regular expressions of `tokenizers` itself."""
    points = [code for code in range(CODE_POINTS) if code not in SURROGATES]
    text, classes = "".join(map(chr, points)), np.zeros(CODE_POINTS, np.int8)
    places = np.array(points)
    for number, pattern in ((LETTER, r"\p{L}+"), (NUMBER, r"\p{N}+"), (BLANK, r"\s+")):
        split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        for _, (first, end) in split.pre_tokenize_str(text):
            classes[places[first:end]] = number
    return classes.astype(np.int32)


class GraphBpe(tf.Module):
    """`BpeTokenizer` with core ops."""

    def __init__(self, tokenizer: BpeTokenizer):
        super().__init__()
        refuse(tokenizer, words="punctuation")
        self.characters = CharacterTable(tokenizer.backend)
        self.ids = id_table(tokenizer.vocabulary)
        self.merges = Merges(tokenizer.vocabulary, tokenizer.merges)

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        words = self.characters.split(text)  # (B, None)
        return words.with_flat_values(self.of_words(words.flat_values)).merge_dims(1, 2)

    def of_words(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids, int32 (W, None), of words (W,)."""
        distinct, index = tf.unique(words)
        symbols = tf.strings.unicode_split(distinct, "UTF-8")  # (U, None)
        row = symbols.value_rowids()
        last = row != shift(row, -1, -1)
        symbols = tf.where(last, symbols.flat_values + END_OF_WORD, symbols.flat_values)
        ids = tf.RaggedTensor.from_value_rowids(
            self.ids.lookup(symbols), row, tf.size(distinct, tf.int64), validate=False
        )
        return tf.gather(self.merges(ids.to_tensor(-1)), index)


class GraphCharacters(tf.Module):
    """`CharacterTokenizer` with core ops."""

    def __init__(self, tokenizer: CharacterTokenizer):
        super().__init__()
        cleaner = tokenizers.Tokenizer(tokenizer.backend.model)
        cleaner.normalizer = normalizers.BertNormalizer(lowercase=tokenizer.do_lower_case, handle_chinese_chars=False)
        cleaner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        self.characters = CharacterTable(cleaner)
        self.ids = id_table(tokenizer.vocabulary)
        self.blank = SPACE if tokenizer.blanks else ""

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        joined = tf.strings.reduce_join(self.characters.split(text), axis=1, separator=self.blank)  # (B,)
        characters = tf.strings.unicode_split(joined, "UTF-8")  # (B, None)
        return characters.with_flat_values(self.ids.lookup(characters.flat_values))


BLANKS = Regex("[\t-\r\x1c-\x1f\u0085]")  # where `presegmented` parts words, and which BERT's cleaning would drop


class GraphWords(tf.Module):
    """`WordTokenizer` with core ops."""

    def __init__(self, tokenizer: WordTokenizer):
        super().__init__()
        backend = tokenizer.splitter.backend
        if tokenizer.segmenter == "presegmented":
            backend = tokenizers.Tokenizer(backend.model)
            cleaning = normalizers.BertNormalizer(lowercase=tokenizer.do_lower_case, handle_chinese_chars=False)
            backend.normalizer = normalizers.Sequence([normalizers.Replace(BLANKS, " "), cleaning])
            backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        else:
            refuse(tokenizer, segmenter="none")
        self.characters = CharacterTable(backend)
        self.ids = id_table(tokenizer.vocabulary)
        self.unknown = tokenizer.vocabulary[UNKNOWN]

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        words = self.split(text)
        return words.with_flat_values(self.of_words(words.flat_values))

    def split(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the words of texts, string (B,), as strings (B, None)."""
        return self.characters.split(text)

    def of_words(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the token of each word, string (W,): its id, int32 (W,)."""
        return self.ids.lookup(words)

    def is_known(self, words: tf.Tensor) -> tf.Tensor:
        """Returns whether the vocabulary has words, string (W,), but for the unknown token itself: bool (W,)."""
        return self.ids.lookup(words) != self.unknown


class GraphOpenWords(GraphWords):
    """`OpenWordTokenizer` with core ops. A token is a row of numbers: its id, and its characters. int32 (B, None, 51)."""

    def __init__(self, tokenizer: OpenWordTokenizer):
        super().__init__(tokenizer)
        vocabulary = tokenizer.vocabulary
        special = vocabulary.special_ids
        rows = np.zeros((len(vocabulary), WIDTH), np.int32)
        rows[special] = vocabulary.token_features(special)["character_ids"]
        self.special_rows = tf.constant(rows[: max(special) + 1])
        self.is_special = tf.constant([i in special for i in range(max(special) + 1)])

    def of_words(self, words: tf.Tensor) -> tf.Tensor:
        ids = self.ids.lookup(words)  # (W,)
        marked = self.is_known(words) & (ids < tf.size(self.is_special))
        place = tf.where(marked, ids, 0)
        marked &= tf.gather(self.is_special, place)
        rows = tf.where(marked[:, None], tf.gather(self.special_rows, place), spell_in_graph(words))  # (W, 50)
        return tf.concat([ids[:, None], rows], axis=1)

    def special(self, token_id: int) -> tf.Tensor:
        """Returns a special token, int32 (51,)."""
        return tf.concat([[token_id], self.special_rows[token_id]], axis=0)


class GraphSentencePieces(tf.Module):
    """`SentencePieceTokenizer`, with the op of `tensorflow_text`."""

    def __init__(self, tokenizer: SentencePieceTokenizer):
        super().__init__()
        import tensorflow_text  # only here, so that the other kinds do without

        self.model = tensorflow_text.SentencepieceTokenizer(model=tokenizer.model, out_type=tf.int32)
        self.cleaning = GraphCleaning(tokenizer) if tokenizer.cleans else None
        self.parts = PieceParts(tokenizer) if tokenizer.part_digits else None

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        if self.cleaning is not None:
            text, _ = self.cleaning(text)
        ids = self.model.tokenize(text)
        if self.parts is None:
            return ids
        return ids.with_values(tf.gather(self.parts.ids, ids.flat_values)).merge_dims(1, 2)


class GraphSentencePiecePair(tf.Module):
    """How `SentencePiecePairTokenizer` cuts sources, with the op of `tensorflow_text`."""

    def __init__(self, tokenizer: SentencePiecePairTokenizer):
        super().__init__()
        import tensorflow_text  # as above

        self.model = tensorflow_text.SentencepieceTokenizer(model=tokenizer.source.model, out_type=tf.string)
        self.ids = id_table(tokenizer.vocabulary)

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        begins = tf.strings.regex_full_match(text, f"(?s){OPENS}.*{CLOSES}.*")  # (B,)
        code = tf.where(begins, tf.strings.regex_replace(text, f"(?s)^({OPENS}.*?{CLOSES}).*$", r"\1"), "")
        rest = tf.strings.substr(text, tf.strings.length(code), tf.strings.length(text))
        lengths = tf.cast(begins, tf.int64)
        codes = tf.RaggedTensor.from_row_lengths(tf.boolean_mask(code, begins), lengths)  # (B, 0 or 1)
        pieces = tf.concat([codes, self.model.tokenize(rest)], axis=1)
        return pieces.with_flat_values(self.ids.lookup(pieces.flat_values))


WHOLE = 1 << 29  # characters of a piece that is not parted: more than any has


class PieceParts(tf.Module):
    """The pieces in the place of each one, where `part_digits` cuts the comma off those that end in a digit and a comma."""

    def __init__(self, tokenizer: SentencePieceTokenizer):
        super().__init__()
        found = [tokenizer.parts(piece) for piece in range(tokenizer.processor.GetPieceSize())]
        lengths = [[length for _, length in parts] if len(parts) > 1 else [WHOLE] for parts in found]
        behind = [[sum(row[place + 1 :]) for place in range(len(row))] for row in lengths]
        ids = [[part for part, _ in parts] for parts in found]
        # (V, None) each
        self.ids, self.lengths, self.behind = (tf.ragged.constant(x, tf.int32) for x in (ids, lengths, behind))

    def __call__(self, ids, row, first, end) -> tuple[tf.Tensor, ...]:
        """Parts of pieces (P,), which stand in texts `row` from character `first` to `end`: the same of each part."""
        parts = tf.gather(self.ids, ids)
        row, first, end = (tf.repeat(x, parts.row_lengths()) for x in (row, first, end))
        lengths, behind = (tf.gather(x, ids).flat_values for x in (self.lengths, self.behind))
        return parts.flat_values, row, tf.maximum(first, end - behind - lengths), tf.maximum(first, end - behind)


def id_table(vocabulary: Vocabulary) -> tf.lookup.StaticHashTable:
    """Returns token -> id, the unknown one for all others."""
    entries = tf.lookup.KeyValueTensorInitializer(vocabulary.tokens, tf.range(len(vocabulary)))
    return tf.lookup.StaticHashTable(entries, default_value=vocabulary[UNKNOWN])


GRAPHS = {
    ByteBpeTokenizer: GraphByteBpe, BpeTokenizer: GraphBpe, CharacterTokenizer: GraphCharacters, WordTokenizer: GraphWords,
    OpenWordTokenizer: GraphOpenWords, SentencePieceTokenizer: GraphSentencePieces,
    SentencePiecePairTokenizer: GraphSentencePiecePair,
}  # fmt: skip
