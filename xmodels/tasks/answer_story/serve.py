"""Stories and questions in; answers out."""

import numpy as np
import tensorflow as tf

from data_pipelines.escaping import for_json_line, for_markdown
from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.tasks.base import serve
from xmodels.tasks.base.serve import check_difference, spelled
from xmodels.tasks.base.served_attention import ServedAttention

SIGNS = r"[!-/:-@\[-`{-~\p{P}]"  # as `plain_units.is_punctuation`
INPUTS = ("story", "question")
EXAMPLES = (
    (("Mary moved to the bathroom.", "John went to the hallway."), "Where is Mary?"),
    (("Daniel took the milk.",), "What is Daniel carrying?"),
)


class StoryAttention(ServedAttention):
    """How much each sentence takes of each other."""

    def tokens(self, features):
        """Returns the sentences and the question, string (S,), in the words that the network knows, each behind a blank."""
        ids = tf.RaggedTensor.from_tensor(features["token_ids"][0], padding=0)
        return tf.strings.join([" ", spelled(ids, self.spelling)])


class Server(serve.Server):
    """One signature, of a story and a question."""

    title = "# An answerer of questions about stories exported by xmodels"
    answers = "that answers questions about stories"

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops)
        self.labels = tf.constant(predictor.labels)  # (C,)
        self.probability_labels = tuple(predictor.labels)
        self.max_sentences, self.max_words = predictor.encoder.max_sentences, predictor.encoder.max_words
        inputs = dict.fromkeys(INPUTS, tf.string)
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
        specs = [tf.TensorSpec([None], tf.string, name=name) for name in INPUTS]
        return {"serving_default": (self.answer, specs), **self.attention.signature()}

    def compare(self, served):
        """Works as `serve.Server.compare`; together and one by one."""
        expected = [list(each.probabilities.values()) for each in self.predictor.predict(list(EXAMPLES))]
        found = [ask(served["serving_default"], EXAMPLES)["probabilities"]]
        found.append(np.concatenate([ask(served["serving_default"], [each])["probabilities"] for each in EXAMPLES]))
        difference = check_difference(float(np.max(np.abs(np.array(found) - np.array(expected, np.float32)))))
        values = [column[0] for column in columns_of(EXAMPLES).values()]
        return max(difference, self.attention.compare(served, values, self.predictor.features(EXAMPLES[:1])))

    def readme(self):
        """Returns the README, with the model's own answers as examples."""
        found = {
            name: value.tolist() for name, value in ask(tf.function(self.answer, autograph=False), EXAMPLES).items()
        }
        found["answer"] = [answer.decode() for answer in found["answer"]]
        columns = columns_of(EXAMPLES)
        instances, predictions = (
            [dict(zip(c, row, strict=True)) for row in zip(*c.values(), strict=True)] for c in (columns, found)
        )
        arguments = ", ".join(f"{name}=tf.constant({value!r})" for name, value in columns.items())
        return README_TEXT.format(
            num_labels=len(self.predictor.labels),
            labels="\n".join(
                f"{index}. {for_markdown(for_json_line(label))}" for index, label in enumerate(self.predictor.labels)
            ),
            sentences=self.max_sentences,
            words=self.max_words,
            attention=self.attention.readme(),
            python=self.python(arguments),
            requests=serve.requests(
                "stories",
                {"instances": instances},
                {"predictions": predictions},
                {"inputs": columns},
                {"outputs": found},
            ),
        )


def columns_of(stories) -> dict[str, list[str]]:
    """Returns the inputs of the signature."""
    columns = ["\n".join(sentences) for sentences, _ in stories], [asked for _, asked in stories]
    return dict(zip(INPUTS, columns, strict=True))


def ask(signature, stories) -> dict[str, np.ndarray]:
    """Returns what a signature answers."""
    return {n: v.numpy() for n, v in signature(**{n: tf.constant(c) for n, c in columns_of(stories).items()}).items()}


SENTENCES_NOTE = "A token is a sentence here, and the last one is the question."

README_TEXT = """The vocabulary, the tokenizer and the answers are inside.

| of the signature `serving_default` | |
|---|---|
| input `story` | string (B,), UTF-8: a sentence a line |
| input `question` | string (B,) |
| output `answer` | string (B,), the most probable one |
| output `probabilities` | float32 (B, {num_labels}), in the order below |

Answers:

{labels}

Of a story the last {sentences} sentences are read, of a sentence the first {words} words.
{attention}
{python}

{requests}
"""
