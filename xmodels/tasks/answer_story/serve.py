"""Stories and questions in; answers out."""

import tensorflow as tf

from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.tasks.base import serve
from xmodels.tasks.base.serve import spell_ids
from xmodels.tasks.base.served_attention import ServedAttention
from xmodels.tasks.base.signatures import DEFAULT, Column, Signature

SIGNS = r"[!-/:-@\[-`{-~\p{P}]"  # as `plain_units.is_punctuation`
EXAMPLES = (
    ("Mary moved to the bathroom.\nJohn went to the hallway.", "Where is Mary?"),
    ("Daniel took the milk.", "What is Daniel carrying?"),
)


class StoryAttention(ServedAttention):
    """How much each sentence takes of each other."""

    def tokens(self, features):
        """Returns the sentences and the question, string (S,), in the words that the network knows, each behind a blank."""
        ids = tf.RaggedTensor.from_tensor(features["token_ids"][0], padding=0)
        return tf.strings.join([" ", spell_ids(ids, self.spelling)])


class Server(serve.Server):
    """One signature, of a story and a question."""

    title, model = "# An answerer of questions about stories exported by xmodels", "stories"
    answers, inside = (
        "that answers questions about stories",
        "The vocabulary, the tokenizer and the answers are inside.",
    )
    names, examples, checked = ("story", "question"), EXAMPLES, EXAMPLES

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops)
        self.labels = tf.constant(predictor.labels)  # (C,)
        self.probability_labels = tuple(predictor.labels)
        self.max_sentences, self.max_words = predictor.encoder.max_sentences, predictor.encoder.max_words
        inputs = dict.fromkeys(self.names, tf.string)
        self.attention = StoryAttention(self.backbone, predictor.tokenizer, self.features, inputs, SENTENCES_NOTE)

    def features(self, story: tf.Tensor, question: tf.Tensor) -> dict[str, tf.Tensor]:
        """Works as `StoryEncoder.arrays`, of strings (B,): stories with a sentence a line. Sentences without a word are left
        out."""
        with tf.device("CPU:0"):
            lines = tf.strings.split(story, "\n")  # (B, None)
            words = self.words(lines.flat_values)  # (N, W)
            has_words = lines.with_flat_values(tf.reduce_any(words > 0, axis=1))
            sentences = tf.ragged.boolean_mask(lines.with_flat_values(words), has_words)[:, -self.max_sentences :]
            asked = tf.RaggedTensor.from_uniform_row_length(self.words(question), 1)  # (B, 1, W)
            rows = tf.concat([sentences, asked], axis=1)  # (B, None, W)
            lengths = tf.cast(rows.row_lengths(), tf.int32)
            width = tf.maximum(tf.reduce_max(tf.concat([lengths, [0]], axis=0)), 1)
            token_ids = rows.to_tensor(0, shape=(None, None, self.max_words))
            token_ids = tf.pad(token_ids, [[0, 0], [0, width - tf.shape(token_ids)[1]], [0, 0]])  # of an empty batch
        return {
            "token_ids": token_ids,
            "segment_ids": tf.one_hot(lengths - 1, width, dtype=tf.int32),
            "padding_mask": tf.sequence_mask(lengths, width),
        }

    def words(self, sentence: tf.Tensor) -> tf.Tensor:
        """Returns the ids of sentences (N,), without the signs between words: (N, W)."""
        ids = self.tokenizer.tokenize(tf.strings.regex_replace(sentence, SIGNS, " "))
        return ids[:, : self.max_words].to_tensor(0, shape=(None, self.max_words))

    def answer(self, story: tf.Tensor, question: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns answer string (B,) and probabilities float32 (B, C)."""
        found = self.task.predict(self.task.forward(self.backbone, self.features(story, question), training=False))
        return {"answer": tf.gather(self.labels, found["answer_ids"]), "probabilities": found["answer_probabilities"]}

    def signatures(self):
        inputs = [Column("story", "B", "UTF-8: a sentence a line"), Column("question", "B")]
        outputs = [
            Column("answer", "B", "the most probable one"),
            Column("probabilities", "BC", "in the order of the labels"),
        ]
        return {DEFAULT: Signature(self.answer, inputs, outputs), **self.attention.signature()}

    def predictions(self, rows):
        return self.predictor.predict(stories(rows))

    def expected(self, row, prediction, found):
        return {"probabilities": list(prediction.probabilities.values())}

    def attention_example(self):
        return EXAMPLES[0], self.predictor.features(stories(EXAMPLES[:1]))

    def notes(self):
        return f"Of a story the last {self.max_sentences} sentences are read, of a sentence the first {self.max_words} words."


def stories(rows) -> list[tuple[tuple[str, ...], str]]:
    """Returns rows as the run takes them."""
    return [(tuple(story.split("\n")), question) for story, question in rows]


SENTENCES_NOTE = "A token is a sentence here, and the last one is the question."
