"""A causal network inside a graph: prompts in, texts out."""

from typing import ClassVar

import tensorflow as tf

from data_pipelines.ops.serving_text import GraphTokenizer
from xmodels.decoding import filters
from xmodels.decoding.sampling import generate, greedy, sample
from xmodels.tasks.base import serve
from xmodels.tasks.base.comparison import REPORT
from xmodels.tasks.base.generation import GREEDY, finite_logits
from xmodels.tasks.base.serve import spell_ids
from xmodels.tasks.base.signatures import DEFAULT, Column, Signature, ask
from xmodels.tasks.language_model.answer import TextGenerator

LONGEST = 1024  # tokens of a text with its prompt, where the network sets no bound
MAX_NEW_TOKENS = 64  # as `xmodels generate`: who serves a network does not wait for all the tokens that it could write
CHECKED = ("The", "今天天气", "", "A somewhat longer beginning of a text, which")


class Server(serve.Server):
    """A generator whose tokenizer runs in the graph.

    Args:
        max_new_tokens: most tokens behind a prompt.
    """

    title, model = "# A text generator exported by xmodels", "generator"
    answers = "that continues prompts"
    flags: ClassVar[tuple[str, ...]] = ("max_new_tokens",)
    names, examples, checked = ("prompt",), [("Once upon a time",)], [(text,) for text in CHECKED]
    has_numbers = False

    def __init__(self, generator: TextGenerator, serving_ops: str, max_new_tokens: int = MAX_NEW_TOKENS):
        super().__init__(generator, serving_ops)
        self.max_new_tokens = max_new_tokens
        if self.backbone.carries_memory:  # such a network reads texts of any length, a graph does not
            generator.max_length = LONGEST
        self.tokenizer = GraphTokenizer(generator.tokenizer, serving_ops)
        self.end_id, self.max_length = generator.end_id, generator.max_length
        self.forbidden, self.rewinds = generator.forbidden, generator.rewinds
        with tf.device("CPU:0"):
            self.spelling = tf.constant(generator.spelling)  # (V,)

    def continue_prompts(self, prompt: tf.Tensor, pick, more_filters) -> dict[str, tf.Tensor]:
        ids = self.tokenizer.tokenize(prompt)[:, -(self.max_length - 1) :]
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        token_ids = ids.to_tensor(shape=(None, self.max_length))
        # A prompt without pieces is the token that ends documents.
        start = tf.one_hot(0, self.max_length, self.end_id, 0, dtype=tf.int32)
        token_ids = tf.where(lengths[:, None] == 0, start, token_ids)
        lengths = tf.maximum(lengths, 1)
        past, read = self.backbone.start(tf.shape(token_ids)[0], self.max_length), None
        if not self.rewinds:  # then prompts are read token by token, as the past cannot go back from the longest
            read, past = self.read(token_ids[:, :1], past)
        texts, ends = self.generate_texts(
            token_ids, lengths, lengths + self.max_new_tokens, past, read, pick, more_filters
        )
        new = tf.RaggedTensor.from_tensor(texts, lengths=ends)
        place = tf.ragged.range(tf.cast(new.row_lengths(), tf.int32))
        continuation = tf.ragged.boolean_mask(new, place >= lengths[:, None])
        return {"continuation": spell_ids(continuation, self.spelling), "num_tokens": ends - lengths}

    def read(self, token_ids: tf.Tensor, past):
        """Returns `read` of `sampling.generate` where tokens (B, R) are read, and the past that they leave."""
        states, past = self.backbone.decode(token_ids, past, 0)
        return (tf.shape(token_ids)[1], states[:, -1]), past

    def generate_texts(self, token_ids, lengths, stops, past, read, pick, more_filters) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns texts (B, max_length) with their prompts, and their ends, int32 (B,), none behind its `stops`."""
        changes = [*([filters.forbid(self.forbidden)] if self.forbidden else []), *more_filters]
        return generate(
            self.backbone.decode, lambda states: finite_logits(self.task.logits(states, self.backbone)), past, token_ids, lengths,
            self.max_length, self.end_id, pick=pick, filters=changes, read=read, limits=tf.minimum(stops, self.max_length),
        )  # fmt: skip

    def stream_text(
        self, prompt: tf.Tensor, written: tf.Tensor, count: tf.Tensor, pick, more_filters
    ) -> dict[str, tf.Tensor]:
        """Returns a few tokens more of one text, for programs that show them as they come.

        Nothing is kept from call to call: the text so far is read anew, which takes less time than to write it.

        Args:
            prompt: string (1,).
            written: int32 (1, W), what the calls before gave; (1, 0) at first.
            count: int32 (), most tokens to write now.

        Returns:
            `continuation` string (1,), `num_tokens` int32 (1,) and `written` int32 (1, N), all that is written by now; `is_finished`
            bool (1,), whether this is all that the other signature writes.
        """
        count = check(count, count > 0, "`count` must be at least 1.")
        written = check(
            written, (written >= 0) & (written < self.spelling.shape[0]), "`written` must be ids of the vocabulary."
        )
        own = self.tokenizer.tokenize(prompt)[:, -(self.max_length - 1) :].to_tensor()  # (1, P)
        own = tf.concat([own, tf.fill([1, tf.cast(tf.shape(own)[1] == 0, tf.int32)], self.end_id)], axis=1)
        length = tf.shape(own)[1]
        known = tf.concat([own, written], axis=1)[:, : self.max_length]
        width = tf.shape(known)[1]
        past = self.backbone.start(1, self.max_length)
        # A past that cannot go back reads token by token; one token is a width that graphs know.
        read, past = self.read(known if self.rewinds else known[:, 0][:, None], past)
        token_ids = tf.ensure_shape(tf.pad(known, [[0, 0], [0, self.max_length - width]]), (1, self.max_length))
        last = tf.minimum(length + self.max_new_tokens, self.max_length)
        stop = tf.minimum(width + count, last)
        texts, ends = self.generate_texts(token_ids, width[None], stop[None], past, read, pick, more_filters)
        new = texts[:, length : ends[0]]
        return {
            "continuation": spell_ids(tf.RaggedTensor.from_tensor(new), self.spelling),
            "num_tokens": ends - length,
            "written": new,
            "is_finished": (ends >= last) | tf.reduce_any(new == self.end_id, axis=1),
        }

    def greedy(self, prompt: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the likeliest continuation of each prompt, string (B,)."""
        return self.continue_prompts(prompt, greedy, [])

    def sample(self, prompt, temperature, top_p, seed) -> dict[str, tf.Tensor]:
        """Returns a continuation drawn from the network."""
        return self.continue_prompts(prompt, sample(seed), draw_filters(temperature, top_p))

    def stream_greedy(self, prompt, written, count) -> dict[str, tf.Tensor]:
        """Returns `greedy`, a few tokens at a time."""
        return self.stream_text(prompt, written, count, greedy, [])

    def stream_sample(self, prompt, written, count, temperature, top_p, seed) -> dict[str, tf.Tensor]:
        """Returns `sample`, a few tokens at a time."""
        return self.stream_text(prompt, written, count, sample(seed), draw_filters(temperature, top_p))

    def signatures(self):
        prompts = [Column("prompt", "B", "an empty one begins a text")]
        drawing = [
            Column("temperature", (), dtype=tf.float32), Column("top_p", (), dtype=tf.float32),
            Column("seed", (2,), dtype=tf.int32),
        ]  # fmt: skip
        step = [
            Column("prompt", (1,)), Column("written", (1, "W"), "what the call before gave, and (1, 0) at first", tf.int32),
            Column("count", (), "most tokens to write now", tf.int32),
        ]  # fmt: skip
        texts = [Column("continuation", "B"), Column("num_tokens", "B")]
        steps = [Column(name, "BN") for name in ("continuation", "num_tokens", "written", "is_finished")]
        return {
            DEFAULT: Signature(self.greedy, prompts, texts, note="It writes the likeliest text, token by token."),
            "sample": Signature(self.sample, [*prompts, *drawing], texts, note="It draws a text at random."),
            "stream_serving_default": Signature(self.stream_greedy, step, steps, note=STREAM_NOTE),
            "stream_sample": Signature(self.stream_sample, [*step, *drawing], steps),
        }

    def predictions(self, rows):
        return self.predictor.generate([text for (text,) in rows], GREEDY, self.max_new_tokens)

    def expected(self, row, prediction, found):
        return {"continuation": prediction}

    def compare(self, served):
        """Compares texts that are written at once and in parts, and the lengths of drawn ones."""
        super().compare(served)
        drawn = ask(served["sample"], {"prompt": CHECKED, "temperature": 1.0, "top_p": 0.9, "seed": [1, 2]})
        if (drawn["num_tokens"] > self.max_new_tokens).any():
            raise RuntimeError(f"The exported model writes more than it may. {REPORT}")
        if self.by_parts(served, CHECKED[0]) != self.predictions(self.checked[:1])[0]:
            raise RuntimeError(f"The exported model writes another text in parts than at once. {REPORT}")

    def by_parts(self, served, prompt: str) -> str:
        """Returns the continuation of a prompt, written in two parts or three."""
        found = {"written": tf.zeros([1, 0], tf.int32), "is_finished": tf.constant([False])}
        while not found["is_finished"].numpy()[0]:
            found = served["stream_serving_default"](
                prompt=tf.constant([prompt]), written=found["written"], count=tf.constant(1 + self.max_new_tokens // 2)
            )
        return found["continuation"].numpy()[0].decode()

    def notes(self):
        return (
            f"At most {self.max_new_tokens} tokens are written behind a prompt (`xmodels export_model --max_new_tokens`).\n"
            f"A text with its prompt has at most {self.max_length} tokens; a longer prompt loses its beginning."
        )


def draw_filters(temperature: tf.Tensor, top_p: tf.Tensor) -> list:
    """Returns the filters of draws, which refuse numbers that mean nothing."""
    temperature = check(temperature, temperature > 0, "`temperature` must be above 0.")
    top_p = check(top_p, (top_p > 0) & (top_p <= 1), "`top_p` must be above 0 and at most 1.")
    return [filters.temperature(temperature), filters.top_p(top_p)]


def check(value: tf.Tensor, condition: tf.Tensor, message: str) -> tf.Tensor:
    """Returns the value, which an op of the graph refuses where the condition does not hold everywhere."""
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(condition), [message])]):
        return tf.identity(value)


STREAM_NOTE = """`stream_serving_default` and `stream_sample` write one text a few tokens at a time, for programs that show it as it
comes. The last call has the text of the signature that writes all at once; where two tokens are equally likely but for
rounding, it may be the other one."""
