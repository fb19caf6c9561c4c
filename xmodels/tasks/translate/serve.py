"""An encoder-decoder inside a graph: texts in, their targets out, such as translations."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.text.vocabulary import UNKNOWN
from xmodels.decoding.options import Decoding
from xmodels.decoding.targets import EXTRA_TOKENS
from xmodels.tasks.base import serve
from xmodels.tasks.base.generation import GREEDY
from xmodels.tasks.base.serve import spell_ids
from xmodels.tasks.base.signatures import DEFAULT, Column, Signature
from xmodels.tasks.translate.answer import Seq2SeqGenerator

EXAMPLES = (
    "A dog runs.",
    "Ein Hund rennt.",
    "一只狗在跑。",
)  # of these the README has the one that the vocabulary knows best
CHECKED = ("Ein Hund rennt.", "今天天气很好。", "", "A somewhat longer text, which shares its batch with shorter ones.")


class Server(serve.Server):
    """A generator whose tokenizer runs in the graph.

    Args:
        num_beams, length_penalty: of the signature `beam`; by default those of the system.
        no_repeat_ngram_size, min_new_tokens: of both signatures, as of `Decoding`; by default no such rules.
    """

    title, model = "# A translator exported by xmodels", "translator"
    answers, has_numbers = "that translates", False
    checked = [(text,) for text in CHECKED]
    flags: ClassVar[tuple[str, ...]] = ("num_beams", "length_penalty", "no_repeat_ngram_size", "min_new_tokens")

    def __init__(
        self,
        generator: Seq2SeqGenerator,
        serving_ops: str,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        no_repeat_ngram_size: int = 0,
        min_new_tokens: int = 0,
    ):
        super().__init__(generator, serving_ops)
        num_beams, penalty = num_beams or generator.writing.num_beams, generator.penalty(length_penalty)
        self._greedy = dataclasses.replace(
            GREEDY, no_repeat_ngram_size=no_repeat_ngram_size, min_new_tokens=min_new_tokens
        )
        self._beam = dataclasses.replace(self._greedy, num_beams=num_beams, length_penalty=penalty)
        self.tokenizer = GraphTokenizer(generator.tokenizer, serving_ops)
        with tf.device("CPU:0"):
            self.spelling = tf.constant(generator.spelling)  # (V,)

    def translate_texts(self, text: tf.Tensor, decoding: Decoding) -> dict[str, tf.Tensor]:
        generator = self.predictor
        own = self.tokenizer.tokenize(text)
        opening = generator.opening
        ids = self.tokenizer.tokenize(tf.strings.join([generator.prefix, text])) if generator.prefix else own
        ids = ids[:, : generator.longest - len(opening) - 1]
        lengths = tf.cast(ids.row_lengths(), tf.int32) + len(opening) + 1
        ends = tf.fill([ids.nrows(), 1], generator.end_id)
        starts = [tf.fill([ids.nrows(), 1], identity) for identity in opening]
        token_ids = tf.concat([*starts, ids, ends], axis=1).to_tensor(generator.pad_id)
        # An empty batch has no tokens, and LSTMs need a step to know the shape of their states.
        missing = tf.maximum(1 - tf.shape(token_ids)[1], 0)
        token_ids = tf.pad(token_ids, [[0, 0], [0, missing]], constant_values=generator.pad_id)
        limits = tf.minimum(lengths + EXTRA_TOKENS, generator.most(lengths))
        most = tf.reduce_max(tf.concat([limits, [1]], axis=0))  # also of an empty batch
        targets, found = generator.targets(token_ids, lengths, limits, tf.zeros([2], tf.int32), decoding, most)
        found = tf.where(own.row_lengths() > 0, found, 0)  # a text without pieces has no translation
        ragged = tf.RaggedTensor.from_tensor(targets, lengths=found)
        return {"translation": spell_ids(ragged, self.spelling), "num_tokens": found}

    def greedy(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the translation of each text, string (B,), by the likeliest token each time."""
        return self.translate_texts(text, self._greedy)

    def beam(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the best translation that a beam search finds."""
        return self.translate_texts(text, self._beam)

    def signatures(self):
        text = [Column("text", "B")]
        outputs = [Column("translation", "B"), Column("num_tokens", "B")]
        found = (
            f"It gives the best translation that a search with {self._beam.num_beams} beams and a length penalty of "
            f"{self._beam.length_penalty:g} finds."
        )
        return {
            DEFAULT: Signature(self.greedy, text, outputs, note="It takes the likeliest token each time."),
            "beam": Signature(self.beam, text, outputs, note=found),
        }

    def predictions(self, rows, decoding: Decoding | None = None):
        return self.predictor.generate([text for (text,) in rows], decoding or self._greedy)

    def expected(self, row, prediction, found):
        return {"translation": prediction}

    def compare(self, served):
        """Compares the translations of both signatures."""
        self.compare_signature(served["beam"], self.predictions(self.checked, self._beam), self.expected)
        return super().compare(served)

    @property
    def examples(self):
        return [(self._example(),)]

    def notes(self):
        generator = self.predictor
        prefix = f"Each text gets the prefix {generator.prefix!r} here. " if generator.prefix else ""
        return (
            f"{prefix}A text has at most {generator.longest - 1 - len(generator.opening)} tokens; a longer one loses its end.\n"
            f"A translation has at most {EXTRA_TOKENS} tokens more than its text. {self._rules()}An empty text has an empty "
            "translation.\nTexts of like length are best sent together."
        )

    def _example(self) -> str:
        tokenizer = self.predictor.tokenizer
        vocabulary = tokenizer.vocabulary
        unknown = [vocabulary[UNKNOWN]] if UNKNOWN in vocabulary else []

        def strangeness(text: str) -> tuple[int, float]:
            ids = tokenizer.encode(text).ids
            return sum(i in unknown for i in ids), len(ids) / len(text)

        return min(EXAMPLES, key=strangeness)

    def _rules(self) -> str:
        least, size = self._greedy.min_new_tokens, self._greedy.no_repeat_ngram_size
        found = f"A translation has at least {least} tokens, where its bound lets it. " if least else ""
        return found + (f"No run of {size} tokens comes twice in it. " if size else "")
