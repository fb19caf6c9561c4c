"""BERT's tokenizer inside a TensorFlow graph, so that a SavedModel takes raw strings.

The ids equal those of `WordPieceTokenizer`: the cleaning is a table read off it (`character_table`), and the words are
then cut into pieces by one of two ops. `text` is fast and needs the library `tensorflow_text` wherever the model is
served; `core` runs in any TensorFlow, so also in a stock TensorFlow Serving.
"""

import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.character_table import CharacterTable
from data_pipelines.ops.recognized import GraphAddedTokens
from data_pipelines.ops.serving_kinds import GraphOpenWords, graph_of
from data_pipelines.text import recognized_tokens
from data_pipelines.text.frames import BERT, Frame
from data_pipelines.text.framing import max_text_tokens
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import CONTINUATION, UNKNOWN, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer


class GraphTokenizer(tf.Module):
    """Turns strings into ids in eager mode, in a `tf.function` and in a SavedModel.

    Keep it as an attribute of the module that is saved, so that its tables are saved too.

    Args:
        tokenizer: the tokenizer to reproduce. It must not recognize special tokens in the text: whoever sends a
            text to a served model would otherwise decide where it is framed.
        serving_ops: `text` or `core`. Of the kinds beside WordPiece (`serving_kinds`) only SentencePiece minds: it needs
            `text`.
        frame: where special tokens stand.
    """

    def __init__(self, tokenizer: Tokenizer, serving_ops: str = "text", frame: Frame = BERT):
        super().__init__()
        self.frame = frame
        if serving_ops not in WORDPIECES:
            known = ", ".join(WORDPIECES)
            raise UsageError(f"Unknown `serving_ops`: {serving_ops!r}. Known: {known}.")
        self.vocabulary = tokenizer.vocabulary
        self.graph = self.added = None
        if getattr(tokenizer, "added_tokens", None) and not tokenizer.recognize_special_tokens:
            with tf.device("CPU:0"):
                self.added = GraphAddedTokens(tokenizer)
            tokenizer = recognized_tokens.without(tokenizer)
        if not isinstance(tokenizer, WordPieceTokenizer):
            with tf.device("CPU:0"):
                self.graph = graph_of(tokenizer, serving_ops)
            return
        if tokenizer.backend.get_added_tokens_decoder():
            raise UsageError(
                "A graph tokenizer reads special tokens in the text as ordinary text. "
                "Received: a WordPieceTokenizer with recognize_special_tokens=True."
            )
        self.max_word_characters = tokenizer.max_word_characters
        with tf.device("CPU:0"):
            self.characters = CharacterTable(tokenizer.backend)
            self.wordpieces = WORDPIECES[serving_ops](tokenizer.vocabulary)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids, int32 (B, None), of `text`, string (B,), without special tokens; traced once for all graphs."""
        # `tf.function` keeps a weak reference to the object of its method; this frame keeps the object while it runs.
        return self._tokenize(text)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        with tf.device("CPU:0"):
            if self.added is not None:
                return self.added(text, self._pieces)
            return self._pieces(text)

    def _pieces(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the same of texts without added tokens."""
        if self.graph is not None:
            return self.graph(text)
        words = self.characters.split(text)  # (B, None)
        word = words.flat_values  # (W,)
        too_long = tf.strings.length(word, unit="UTF8_CHAR") > self.max_word_characters
        pieces = self.wordpieces(tf.where(too_long, UNKNOWN, word))  # (W, None)
        return words.with_flat_values(pieces).merge_dims(1, 2)

    def units(self, text: tf.Tensor) -> dict[str, tf.RaggedTensor]:
        """Returns of the tokens of `text`, string (B,), `token_ids`, int32 (B, None), and what else the network reads of each."""
        return split_features(self.tokenize(text))

    def features(self, texts: list[tf.Tensor] | tuple[tf.Tensor, ...], max_sequence_length: int) -> dict:
        """Frames one text, or a pair, as `data_pipelines.text.framing.pack` does.

        Args:
            texts: one or two string tensors (B,).
            max_sequence_length: counts the special tokens; longer inputs are shortened.

        Returns:
            token_ids and segment_ids, int32 (B, L), padding_mask, bool (B, L), with L the longest of the batch, at least 1; of words
            with their characters also character_ids, int32 (B, L, 50).
        """
        return self.framed([self.tokenize(text) for text in texts], max_sequence_length)

    def _special(self, role: str, rows: tf.Tensor) -> tf.Tensor:
        """Returns a special token for each row, int32 (B, 1), or (B, 1, 51)."""
        token_id = self.vocabulary[role]
        if not isinstance(self.graph, GraphOpenWords):
            return tf.fill([rows, 1], token_id)
        return tf.repeat(self.graph.special(token_id)[None, None], rows, axis=0)

    def framed(self, texts: list[tf.RaggedTensor], max_sequence_length: int) -> dict:
        """Works as `features`, of texts that are ids already, int32 (B, None) each."""
        capacity = max_text_tokens(len(texts), max_sequence_length, self.frame)
        ids = [text[:, :capacity] for text in texts]
        lengths = kept_lengths([tf.cast(x.row_lengths(), tf.int32) for x in ids], capacity)
        ids = [tf.RaggedTensor.from_tensor(x.to_tensor(), lengths=kept) for x, kept in zip(ids, lengths, strict=True)]
        parts, segments = [], []
        for part in self.frame.of_texts(len(texts)):
            parts.append(ids[part.text] if part.role is None else self._special(part.role, ids[0].nrows()))
            segments.append(tf.ones_like(split_features(parts[-1])["token_ids"]) * part.segment)
        found = split_features(tf.concat(parts, axis=1))
        token_ids = found.pop("token_ids")
        width = tf.maximum(token_ids.bounding_shape(axis=1), 1)  # a frame may be empty, as the texts may
        shape = tf.stack([-1, width])
        features = {
            "token_ids": token_ids.to_tensor(self.vocabulary.padding_id, shape=shape),
            "segment_ids": tf.concat(segments, axis=1).to_tensor(self.frame.pad_segment, shape=shape),
            "padding_mask": tf.sequence_mask(token_ids.row_lengths(), width),
            **{n: x.to_tensor(0, shape=tf.concat([shape, [x.shape[-1]]], axis=0)) for n, x in found.items()},
        }
        if not self.frame.pads_left:
            return features
        turned = (tf.range(width)[None, :] + token_ids.row_lengths()[:, None]) % width  # (B, L)
        return {name: tf.gather(value, turned, batch_dims=1) for name, value in features.items()}


def split_features(tokens: tf.RaggedTensor | tf.Tensor) -> dict[str, tf.RaggedTensor | tf.Tensor]:
    """Returns the features of tokens: int32 (B, None), or with the characters of each (B, None, 51)."""
    if tokens.shape.rank == 2:
        return {"token_ids": tokens}
    flat = tokens.flat_values if isinstance(tokens, tf.RaggedTensor) else tokens
    parts = {"token_ids": flat[..., 0], "character_ids": flat[..., 1:]}
    if not isinstance(tokens, tf.RaggedTensor):
        return parts
    return {name: tokens.with_flat_values(values) for name, values in parts.items()}


def kept_lengths(lengths: list[tf.Tensor], capacity: int) -> list[tf.Tensor]:
    """Returns what each text keeps, int32 (B,), when the longer one, or else the second, is shortened piece by piece."""
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], capacity)]
    first, second = lengths
    # A text that fits in its half is kept; the other gets the rest. The odd piece goes to the first.
    kept_first = tf.minimum(first, tf.maximum(capacity - second, capacity - capacity // 2))
    return [kept_first, tf.minimum(second, capacity - kept_first)]


class TextWordPieces(tf.Module):
    """Words, string (W,), to ids, int32 (W, None), with the op of TensorFlow Text: linear in the text."""

    def __init__(self, vocabulary: Vocabulary):
        super().__init__()
        import tensorflow_text  # only here, so that `core` does without

        self.tokenizer = tensorflow_text.FastWordpieceTokenizer(
            vocab=vocabulary.tokens,
            suffix_indicator=CONTINUATION,
            max_bytes_per_word=2**31 - 1,  # long words are already [UNK]
            token_out_type=tf.int32,
            unknown_token=UNKNOWN,
            no_pretokenization=True,
            support_detokenization=False,
        )

    def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
        return self.tokenizer.tokenize(words)


class CoreWordPieces(tf.Module):
    """Words, string (W,), to ids, int32 (W, None), with core ops: whole words first, then the longest match."""

    def __init__(self, vocabulary: Vocabulary):
        super().__init__()
        self.unknown = vocabulary[UNKNOWN]
        self.longest = max(len(token) for token in vocabulary.tokens)
        entries = tf.lookup.KeyValueTensorInitializer(vocabulary.tokens, tf.range(len(vocabulary)))
        self.ids = tf.lookup.StaticHashTable(entries, default_value=-1)

    def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
        ids = self.ids.lookup(words)  # (W,)
        word, to_cut = tf.where(ids >= 0)[:, 0], tf.where(ids < 0)[:, 0]
        found = tf.TensorArray(tf.int64, 1, dynamic_size=True, infer_shape=False, element_shape=[None, 2])
        found = found.write(0, with_ids(word, tf.gather(ids, word)))
        state = tf.constant(1), to_cut, tf.gather(words, to_cut), found
        *_, found = tf.while_loop(lambda step, word, *_: tf.size(word) > 0, self.cut, state)
        return self.in_order(found.concat(), tf.size(words, tf.int64))

    def cut(self, step, word, rest, found):
        """Takes the longest piece off the front of `rest`, string (C,): what is left of the words `word`, (C,)."""
        length = tf.strings.length(rest, unit="UTF8_CHAR")
        shortest = tf.where(step > 1, len(CONTINUATION), 0) + 1
        sizes = tf.range(shortest, tf.minimum(tf.reduce_max(length), self.longest) + 1)[None, :]  # (1, S)
        candidates = tf.strings.substr(rest[:, None], tf.zeros_like(sizes), sizes, unit="UTF8_CHAR")  # (C, S)
        ids = self.ids.lookup(candidates)
        size = tf.reduce_max(tf.where(ids >= 0, sizes, 0), axis=1)  # (C,), 0 where nothing matches
        ids = tf.gather(ids, tf.maximum(size - shortest, 0), batch_dims=1)
        found = found.write(step, with_ids(word, ids))
        unfinished = (size > 0) & (size < length)
        word, rest, size, length = (tf.boolean_mask(x, unfinished) for x in (word, rest, size, length))
        return step + 1, word, CONTINUATION + tf.strings.substr(rest, size, length, unit="UTF8_CHAR"), found

    def in_order(self, found: tf.Tensor, num_words: tf.Tensor) -> tf.RaggedTensor:
        """Returns the pieces of each word, given (word, id) in the order of their discovery, (P, 2)."""
        found = tf.gather(found, tf.argsort(found[:, 0], stable=True))
        word, ids = found[:, 0], tf.cast(found[:, 1], tf.int32)
        unknown = tf.math.unsorted_segment_min(ids, word, num_words) < 0  # (W,): a rest matched nothing
        keep = (ids < 0) | ~tf.gather(unknown, word)  # such a word is one [UNK], without the pieces before
        word, ids = tf.boolean_mask(word, keep), tf.boolean_mask(ids, keep)
        ids = tf.where(ids < 0, self.unknown, ids)
        return tf.RaggedTensor.from_value_rowids(ids, word, num_words, validate=False)


def with_ids(word: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Pairs of word and id, int64 (P, 2)."""
    return tf.stack([word, tf.cast(ids, tf.int64)], axis=1)


WORDPIECES = {"text": TextWordPieces, "core": CoreWordPieces}
