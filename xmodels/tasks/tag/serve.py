"""Strings in; words with tags, and entities, with their places in the text, out."""

import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.escaping import for_code_span
from data_pipelines.ops.length_sorting import answer_in_parts
from data_pipelines.ops.serving_kinds import shift
from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.ops.text_places import NOWHERE, places_of
from data_pipelines.ops.token_windows import most_context, token_windows
from data_pipelines.text.framing import max_text_tokens, pack_texts
from xmodels.tasks.base import serve
from xmodels.tasks.base.apart import Parted, softmax
from xmodels.tasks.base.served_attention import attention_of
from xmodels.tasks.base.signatures import DEFAULT, Column, Signature
from xmodels.tasks.tag.settings import OUTSIDE, PREFIXES, are_spans, in_other_scheme
from xmodels.tasks.tag.words import stride_of, text_offset

EXAMPLES = ("John Smith lives in New York.", "王小明住在北京。")
CHECKED = (*EXAMPLES, "", " \t\n", "NAÏVE ﬁancé №1 👩‍🚀 [MASK]", "a  b\u0301c,d", "many words, " * 300 + "王")


class Server(serve.Server):
    """`serving_default` and `words` take `text`, string (B,)."""

    title, model = "# A tagger of words exported by xmodels", "tagger"
    answers, inside = "that tags words", "The vocabulary, the tokenizer and the tags are inside."
    numbers = ("logits",)
    examples, checked = [(text,) for text in EXAMPLES], [(text,) for text in CHECKED]

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        if in_other_scheme(predictor.labels):
            raise UsageError(
                f"--task=tag: this tagger has learnt {', '.join(predictor.labels[:6])}, …; a graph finds spans in tags of BIO only. "
                "Ask it with `xmodels predict`, which finds them in those of IOB1, BIOES, BMES and BILOU."
            )
        self.frame = predictor.task.reading.frame
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops, self.frame)
        self.placed = places_of(self.tokenizer, predictor.tokenizer)
        self.max_sequence_length = predictor.max_sequence_length
        self.stride = stride_of(predictor.settings.doc_stride, self.max_sequence_length, self.frame)
        tags = [label if are_spans(predictor.labels) else f"B-{label}" for label in predictor.labels]
        parts = [tag.partition("-") for tag in tags]
        types = list(dict.fromkeys(kind for tag, (_, _, kind) in zip(tags, parts, strict=True) if tag != OUTSIDE))
        inside = [
            NOWHERE if tag == OUTSIDE else types.index(kind) for tag, (_, _, kind) in zip(tags, parts, strict=True)
        ]
        self.attention = attention_of(self.backbone, predictor.tokenizer, self.beginning, {"text": tf.string})
        self.labels, self.types = tf.constant(predictor.labels), tf.constant(types or [""])  # (C,), (T,)
        self.type_ids = tf.constant(inside)  # (C,), NOWHERE of O
        self.begins = tf.constant([prefix == PREFIXES[0] for prefix, _, _ in parts])  # (C,)

    def beginning(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the network reads of `text`, string (B,), up to its length: (B, L)."""
        return self.tokenizer.features([text], self.max_sequence_length)

    def split_words(self, text: tf.Tensor) -> tuple[tf.RaggedTensor, dict[str, tf.RaggedTensor]]:
        """Returns the tokens of `text`, string (B,), and its words as `words.words_of` has them.

        Returns:
            ids, ragged int32 (B, None), and of each word start and end, its characters, and first, its first token, likewise.
        """
        found = self.placed(text)
        ids, shown = found["ids"], ~found["blank"].flat_values
        row, place = ids.value_rowids(), tf.ragged.range(ids.row_lengths()).flat_values
        # A word begins at the first piece that is no blank behind one that opens a word, which may itself be blank.
        opened = tf.cumsum(tf.cast(found["opens"].flat_values, tf.int32))
        row, place, opened, start, end = (
            tf.boolean_mask(x, shown)
            for x in (row, place, opened, found["starts"].flat_values, found["ends"].flat_values)
        )
        begins = (opened != shift(opened, 1, NOWHERE)) | (row != shift(row, 1, NOWHERE))
        word = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        columns = {
            "start": tf.boolean_mask(start, begins), "end": tf.math.segment_max(end, word),
            "first": tf.cast(tf.boolean_mask(place, begins), tf.int32),
        }  # fmt: skip
        rows = tf.boolean_mask(row, begins)
        return ids, {
            name: tf.RaggedTensor.from_value_rowids(value, rows, ids.nrows(), validate=False)
            for name, value in columns.items()
        }

    def windows(self, ids: tf.RaggedTensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the windows of texts, ragged int32 (B, None), as `token_windows` has them, and what the network reads of them,
        (W, L)."""
        capacity = tf.fill([ids.nrows(out_type=tf.int32)], max_text_tokens(1, self.max_sequence_length, self.frame))
        found = token_windows(ids, capacity, self.stride)
        return found, self.tokenizer.framed([found["ids"]], self.max_sequence_length)

    def logits(self, ids: tf.RaggedTensor, given: tf.Tensor | None = None) -> tf.RaggedTensor:
        """Returns that of each token of texts, ragged int32 (B, None), float32 (B, None, C): from the window that shows most
        around it.

        Args:
            given: those of the windows, (W, L, C), of a network that stands apart.
        """
        found, features = self.windows(ids)
        width = tf.shape(features["token_ids"])[1]
        logits = given
        if given is None:
            logits = answer_in_parts(self.emissions, features, per_token=True)["logits"]  # (W, L, C)
        padding = tf.reduce_sum(tf.cast(~features["padding_mask"], tf.int32), axis=1, keepdims=True)  # (W, 1)
        place = tf.minimum(text_offset(self.frame, padding) + tf.range(width)[None, :], width - 1)
        place += tf.zeros_like(padding)
        # Windows stand in the order of their texts, and what counts in them in the order of the tokens.
        each = tf.boolean_mask(tf.gather(logits, place, batch_dims=1), most_context(found, width))
        return tf.RaggedTensor.from_row_lengths(each, ids.row_lengths(), validate=False)

    def emissions(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"logits": self.task.emissions(self.backbone, features)["logits"]}

    def tag_words(self, text: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Works as `_tag_words`, traced once for all signatures."""
        return self._tag_words(text)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tag_words(self, text: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return self.tag_words_by(text)

    def tag_words_by(self, text: tf.Tensor, given: tf.Tensor | None = None) -> tuple[tf.Tensor, ...]:
        """Returns (start, end, label, probability, real) of each word, (B, W): its characters, the id of its tag, False on
        padding. `given` as in `logits`."""
        with tf.device("CPU:0"):
            ids, found = self.split_words(text)
            first = found["first"].to_tensor()
            width = tf.shape(first)[1]
            first = tf.pad(first, [[0, 0], [0, tf.maximum(1 - width, 0)]])  # a chain has a place at least
            real = tf.sequence_mask(found["first"].row_lengths(), tf.shape(first)[1])
        logits = self.logits(ids, given).to_tensor(shape=[None, None, len(self.predictor.labels)])  # (B, T, C)
        logits = tf.pad(logits, [[0, 0], [0, 1], [0, 0]])  # of texts without tokens there is none
        logits = tf.gather(logits, tf.where(real, first, 0), batch_dims=1)  # (B, W, C)
        chosen = self.task.decode(logits, real)
        label, probability, real = (x[:, :width] for x in (chosen["label_ids"], chosen["probabilities"], real))
        with tf.device("CPU:0"):
            start, end = (found[name].to_tensor(NOWHERE) for name in ("start", "end"))
        return start, end, label, tf.where(real, probability, 0.0), real

    def words(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the words of each text, and their tags."""
        return self.words_of(text, self.tag_words(text))

    def words_of(self, text: tf.Tensor, tagged: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """Works as `words`, of what `tag_words` has found."""
        start, end, label, probability, real = tagged
        with tf.device("CPU:0"):
            every = tf.repeat(text[:, None], tf.shape(start)[1], axis=1)  # (B, W)
            first, length = tf.where(real, start, 0), end - start  # of padding 0
            word = tf.where(real, tf.strings.substr(every, first, length, unit="UTF8_CHAR"), "")
            tag = tf.where(real, tf.gather(self.labels, label), "")
        return {"word": word, "tag": tag, "start": start, "end": end, "probability": probability}

    def entities(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the entities of each text."""
        return self.entities_of(text, self.tag_words(text))

    def entities_of(self, text: tf.Tensor, tagged: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """Works as `entities`, of what `tag_words` has found."""
        start, end, label, _, real = tagged
        kind = tf.where(real, tf.gather(self.type_ids, label), NOWHERE)  # (B, W)
        before = tf.pad(kind, [[0, 0], [1, 0]], constant_values=NOWHERE)[:, :-1]
        inside = kind != NOWHERE
        begins = inside & (tf.gather(self.begins, label) | (kind != before))
        continued = tf.pad(inside & ~begins, [[0, 0], [0, 1]])[:, 1:]  # by the next word
        with tf.device("CPU:0"):
            first = tf.ragged.boolean_mask(start, begins)  # (B, None)
            last = tf.ragged.boolean_mask(end, inside & ~continued)
            of_text = tf.gather(text, first.value_rowids())
            names = tf.strings.substr(
                of_text, first.flat_values, last.flat_values - first.flat_values, unit="UTF8_CHAR"
            )
            kinds = tf.ragged.boolean_mask(kind, begins)
            return {
                "entity": first.with_flat_values(names).to_tensor(""),
                "type": kinds.with_flat_values(tf.gather(self.types, kinds.flat_values)).to_tensor(""),
                "start": first.to_tensor(NOWHERE),
                "end": last.to_tensor(NOWHERE),
            }

    def signatures(self):
        text, entities, words = self.columns()
        return {
            DEFAULT: Signature(self.entities, text, entities), "words": Signature(self.words, text, words),
            **self.attention.signature(),
        }  # fmt: skip

    def parted(self):
        text, entities, words = self.columns()

        def write(answers_of):
            return lambda numbers, text: answers_of(text, self.tag_words_by(text, numbers["logits"]))

        return {
            DEFAULT: Parted(self.read, write(self.entities_of), text, entities),
            "words": Parted(self.read, write(self.words_of), text, words),
        }

    def read(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the network reads of texts, string (B,), in windows: (W, L)."""
        with tf.device("CPU:0"):
            ids, _ = self.split_words(text)
        return self.windows(ids)[1]

    def columns(self) -> tuple[list[Column], ...]:
        """Returns the input, and the outputs of `entities` and of `words`."""
        text = [Column("text", "B", "UTF-8")]
        entities = [
            Column("entity", "BE", "as it stands in the text"), Column("type", "BE"),
            Column("start", "BE", "its first character, counted from 0"), Column("end", "BE", "the character behind its last one"),
        ]  # fmt: skip
        words = [
            Column("word", "BW", "parted at blanks, punctuation and ideographs"), Column("tag", "BW"), Column("start", "BW"),
            Column("end", "BW"), Column("probability", "BW", "of the tag"),
        ]  # fmt: skip
        return text, entities, words

    def shares(self, numbers, features):
        return {"probabilities": softmax(numbers["logits"]) * features["padding_mask"][..., None]}

    def served_rows(self, inputs):
        return [(each if isinstance(each, str) else each.text,) for each in inputs]

    def named(self, prediction):
        return tuple(prediction.tags)

    def predictions(self, rows):
        return self.predictor.predict([text for (text,) in rows])

    def expected(self, row, prediction, found):
        columns = {"entity": "text", "type": "type", "start": "start", "end": "end"}
        return {name: [getattr(each, field) for each in prediction.entities] for name, field in columns.items()}

    def expected_words(self, row, prediction, found):
        """Returns the outputs of the signature `words` for which a prediction of the run stands."""
        return {
            "start": [start for start, _ in prediction.spans], "end": [end for _, end in prediction.spans],
            "tag": prediction.tags, "probability": prediction.probabilities,
        }  # fmt: skip

    def compare(self, served):
        """Compares entities and words."""
        words = self.compare_signature(served["words"], self.predictions(self.checked), self.expected_words)
        return max(super().compare(served), words)

    def attention_example(self):
        read = pack_texts([EXAMPLES[:1]], self.predictor.tokenizer, self.max_sequence_length, self.frame)
        return EXAMPLES[:1], read

    def notes(self):
        labels = ", ".join(for_code_span(label) for label in self.predictor.labels)
        chain = ", and a chain over all words of the text" if self.predictor.settings.crf else ""
        return (
            f"Rows with fewer entities or words end in empty strings, with -1 for `start` and `end`. Tags: {labels}.\n"
            f"Long texts are read in windows of {self.max_sequence_length} pieces, special tokens counted, that begin {self.stride} "
            f"pieces apart; each word has the tag that\nthe window with most of the text around it gives{chain}."
        )
