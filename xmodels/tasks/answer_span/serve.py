"""Questions and texts in; answers, which stand in the texts, out. Long texts are read in windows inside the graph."""

import numpy as np
import tensorflow as tf

from data_pipelines.corpora.squad import Question
from data_pipelines.ops.length_sorting import answer_in_parts
from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.ops.text_places import places_of
from data_pipelines.ops.token_windows import most_context, token_windows
from data_pipelines.text.framing import max_text_tokens
from xmodels.tasks.answer_span.spans import NOWHERE
from xmodels.tasks.answer_span.windows import places, windows_of
from xmodels.tasks.base import serve
from xmodels.tasks.base.apart import Parted, softmax
from xmodels.tasks.base.comparison import REPORT
from xmodels.tasks.base.served_attention import attention_of
from xmodels.tasks.base.signatures import DEFAULT, Column, Signature

EXAMPLES = (
    ("Where does John Smith live?", "John Smith lives in New York. He was born in Rome."),
    ("王小明住在哪里？", "王小明住在北京。他在上海出生。"),
)
CHECKED = (
    *EXAMPLES, ("", ""), ("Who?", ""), ("", "NAÏVE ﬁancé №1 👩‍🚀 [MASK] a  b\u0301c,d"),
    ("why so many? " * 40, "many words, " * 300 + "and the end"),
)  # fmt: skip
NEVER = -1e30  # the score of what is no answer
BASE = 0x1E35A7BD3C6EF371  # odd, so that it has an inverse modulo 2^64
BASES = BASE, (lambda x: x - (1 << 64) if x >> 63 else x)(pow(BASE, -1, 1 << 64))  # as signed numbers


class Server(serve.Server):
    """`serving_default` gives the answer, `n_best` the likeliest ones."""

    title, model = "# A finder of answers exported by xmodels", "answers"
    answers, numbers = "that finds answers in texts", ("start_logits", "end_logits")
    names, examples, checked = ("question", "context"), EXAMPLES, CHECKED

    def __init__(self, predictor, serving_ops):
        super().__init__(predictor, serving_ops)
        self.frame, self.settings = predictor.task.reading.frame, predictor.settings
        self.tokenizer = GraphTokenizer(predictor.tokenizer, serving_ops, self.frame)
        self.placed = places_of(self.tokenizer, predictor.tokenizer)
        self.max_sequence_length = predictor.max_sequence_length
        inputs = {"question": tf.string, "context": tf.string, "start": tf.int32}
        self.attention = attention_of(self.backbone, predictor.tokenizer, self.window_of, inputs, START_NOTE)

    def windows(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the windows of all texts, W of them, as `windows.windows_of` has them.

        Returns:
            question and ids, ragged int32 (W, None); text int32 (W,), the row to which it belongs; first and count int32 (W,),
            its tokens; total int32 (W,), those of its text; starts and ends, ragged int32 (B, None), the characters of the
            tokens of each text.
        """
        asked = self.tokenizer.tokenize(question)[:, : self.settings.max_query_length]
        ids, starts, ends = (self.placed(context)[name] for name in ("ids", "starts", "ends"))  # ragged (B, None)
        capacity = max_text_tokens(2, self.max_sequence_length, self.frame) - tf.cast(asked.row_lengths(), tf.int32)
        found = token_windows(ids, capacity, self.settings.doc_stride)
        return {**found, "question": tf.gather(asked, found["text"]), "starts": starts, "ends": ends}

    def frame_windows(self, found: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns what the network reads of windows, (W, L)."""
        texts = [found["question"], found["ids"]]
        return self.tokenizer.framed(texts[::-1] if self.settings.context_first else texts, self.max_sequence_length)

    def window_of(self, question: tf.Tensor, context: tf.Tensor, start: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the network reads of the window from which an answer is, (1, L).

        Args:
            question, context: string (1,).
            start: int32 (1,), the character at which the answer begins; -1 for none, which has the first window.
        """
        found = self.windows(question, context)
        token = tf.reduce_sum(tf.cast(found["starts"].flat_values < start, tf.int32))
        width = tf.maximum(tf.reduce_max(found["count"]), 1)
        place = found["first"][:, None] + tf.range(width)[None, :]  # (W, T)
        holds = tf.reduce_any(most_context(found, width) & (place == token), axis=1)
        window = tf.argmax(holds, output_type=tf.int32)[None]
        return self.frame_windows({name: tf.gather(found[name], window) for name in ("question", "ids")})

    def list_answers(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        """Works as `_list_answers`, traced once for all signatures."""
        return self._list_answers(question, context)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2, autograph=False)
    def _list_answers(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.list_answers_by(question, context)

    def list_answers_by(
        self, question: tf.Tensor, context: tf.Tensor, given: dict[str, tf.Tensor] | None = None
    ) -> dict[str, tf.Tensor]:
        """Returns the candidates of each text, the likeliest first, and of equal texts the first only, as `spans.find` has
        them.

        Args:
            given: start_logits and end_logits float32 (W, L) of the windows, of a network that stands apart.

        Returns:
            answer string, start and end int32, total and score float32, all (B, K): "", -1 and 0 where there is none; null
            float32 (B,), the total of having no answer.
        """
        found = self.windows(question, context)
        features = self.frame_windows(found)
        width = tf.shape(features["token_ids"])[1]
        first, last, totals, nulls = self.score_stretches(found, features, *([] if given is None else [given]))
        shown = most_context(found, width)
        good = (first >= 0) & (first < found["count"][:, None, None])
        good &= tf.gather(shown, tf.clip_by_value(first, 0, width - 1), batch_dims=1)
        good &= (
            (last >= first) & (last < found["count"][:, None, None]) & (last - first < self.settings.max_answer_length)
        )
        columns = {
            "total": tf.where(good, totals, NEVER), "first": first + found["first"][:, None, None],
            "last": last + found["first"][:, None, None],
        }  # fmt: skip
        return self.sort_answers(
            context, found, columns, tf.math.unsorted_segment_min(nulls, found["text"], tf.size(context))
        )

    def score_stretches(
        self, found: dict[str, tf.Tensor], features: dict[str, tf.Tensor], given: dict[str, tf.Tensor] | None = None
    ) -> tuple[tf.Tensor, ...]:
        """Stretches of the texts of all windows, and what the network makes of them.

        Returns:
            first and last token int32, counted in the text of the window, and the score float32, all (W, n, n); the score of
            having no answer (W,).
        """
        outputs = answer_in_parts(self.ends, features, per_token=True) if given is None else given
        logits = [tf.where(features["padding_mask"], outputs[f"{n}_logits"], NEVER) for n in ("start", "end")]
        padding = tf.reduce_sum(tf.cast(~features["padding_mask"], tf.int32), axis=1)
        begin, null = self.places(found, padding)
        nulls = sum(tf.gather(x, null, batch_dims=1) for x in logits)  # (W,)
        number = tf.minimum(self.settings.n_best_size, tf.shape(features["token_ids"])[1])
        (start_logits, starts), (end_logits, ends) = (tf.math.top_k(x, number) for x in logits)  # (W, n)
        first, last = (starts - begin[:, None])[:, :, None], (ends - begin[:, None])[:, None, :]
        totals = start_logits[:, :, None] + end_logits[:, None, :]
        return first + tf.zeros_like(last), last + tf.zeros_like(first), totals, nulls

    def places(self, found: dict[str, tf.Tensor], padding: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Works as `windows.places`, int32 (W,) both."""
        asked = tf.cast(found["question"].row_lengths(), tf.int32)
        found = places(self.frame, asked, found["count"], padding, self.settings.context_first)
        return tuple(x + tf.zeros_like(asked) for x in found)

    def ends(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns start_logits and end_logits float32 (W, L)."""
        outputs = self.task.predict(self.task.forward(self.backbone, features, training=False))
        return {name: outputs[name] for name in ("start_logits", "end_logits")}

    def sort_answers(self, context, found, columns, null) -> dict[str, tf.Tensor]:
        """Works as `list_answers`; columns of the windows (W, n, n)."""
        rows = tf.size(context)
        each = tf.reduce_prod(tf.shape(columns["total"])[1:])
        by_text = {
            name: tf.RaggedTensor.from_value_rowids(
                tf.reshape(value, [-1]), tf.repeat(found["text"], each), rows, validate=False
            )
            for name, value in columns.items()
        }
        total = by_text["total"].to_tensor(NEVER)  # (B, M)
        first, last = (by_text[name].to_tensor(0) for name in ("first", "last"))
        has_null = self.settings.null_score_diff_threshold is not None
        ranked = has_null and not self.settings.null_alone
        extra = null if ranked else tf.fill([rows], NEVER)
        total = tf.concat([total, extra[:, None]], axis=1)
        first, last = (tf.pad(x, [[0, 0], [0, 1]], constant_values=NOWHERE) for x in (first, last))
        order = tf.argsort(total, axis=1, direction="DESCENDING", stable=True)
        total, first, last = (tf.gather(x, order, batch_dims=1) for x in (total, first, last))
        with tf.device("CPU:0"):
            real = (total > NEVER) & (first >= 0)
            starts, ends = (found[n].to_tensor(0) for n in ("starts", "ends"))
            starts, ends = (tf.pad(x, [[0, 0], [0, 1]]) for x in (starts, ends))
            start = tf.where(real, tf.gather(starts, tf.where(real, first, 0), batch_dims=1), NOWHERE)
            end = tf.where(real, tf.gather(ends, tf.where(real, last, 0), batch_dims=1), NOWHERE)
            key = same_text(context, tf.where(real, start, 0), tf.where(real, end, 0))  # (B, M)
            count = tf.shape(key)[1]
            _, group = tf.unique(tf.reshape(key, [-1]))
            place = tf.range(tf.size(group))
            opens = tf.math.unsorted_segment_min(place, group, tf.size(group))
            kept = tf.reshape(tf.gather(opens, group) == place, [rows, count]) & (total > NEVER)
            kept &= tf.cumsum(tf.cast(kept, tf.int32), axis=1) <= self.settings.n_best_size
            # Having no answer is always listed where the run knows questions without.
            missing = ~tf.reduce_any(kept & ~real, axis=1) if has_null else ~tf.reduce_any(kept, axis=1)
        listed = {"start": start, "end": end, "total": total}
        filler = {"start": NOWHERE, "end": NOWHERE, "total": NEVER}
        closing = {"start": tf.fill([rows, 1], NOWHERE), "end": tf.fill([rows, 1], NOWHERE), "total": null[:, None]}
        kept = tf.concat([kept, missing[:, None]], axis=1)
        listed = {n: tf.ragged.boolean_mask(tf.concat([x, closing[n]], axis=1), kept) for n, x in listed.items()}
        dense = {n: x.to_tensor(filler[n]) for n, x in listed.items()}  # (B, K)
        with tf.device("CPU:0"):
            start, length = tf.maximum(dense["start"], 0), dense["end"] - dense["start"]  # without an answer 0
            every = tf.repeat(context[:, None], tf.shape(start)[1], axis=1)
            dense["answer"] = tf.strings.substr(every, start, length, unit="UTF8_CHAR")
        return dense | {"score": self.probabilities(dense["total"], dense["answer"] == ""), "null": null}

    def probabilities(self, total: tf.Tensor, silent: tf.Tensor) -> tf.Tensor:
        """Works as `spans.probabilities`, (B, K); `silent` where no answer stands."""
        if not self.settings.null_alone:
            return tf.nn.softmax(total, axis=1)
        null = silent & (total > NEVER)
        chance = tf.where(null, tf.where(tf.reduce_all(silent, axis=1, keepdims=True), 1.0, tf.sigmoid(total)), 0.0)
        others = tf.nn.softmax(tf.where(null, NEVER, total), axis=1)
        return tf.where(null, chance, others * (1 - tf.reduce_sum(chance, axis=1, keepdims=True)))

    def n_best(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns answer string, start and end int32, score float32, (B, K)."""
        return self.listed(self.list_answers(question, context))

    def listed(self, found: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Works as `n_best`, of what `list_answers` has found."""
        return {name: found[name] for name in ("answer", "start", "end", "score")}

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns answer string, start and end int32, score float32, (B,)."""
        return self.best_of(self.list_answers(question, context))

    def best_of(self, found: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Works as `answer`, of what `list_answers` has found."""
        named, total = found["answer"] != "", found["total"]
        width = tf.shape(total)[1]
        place = tf.range(width)[None, :] + tf.zeros_like(found["start"])
        best = tf.minimum(tf.reduce_min(tf.where(named, place, width), axis=1), width - 1)  # (B,)
        nothing = tf.minimum(tf.reduce_min(tf.where(~named & (total > NEVER), place, width), axis=1), width - 1)
        threshold = self.settings.null_score_diff_threshold
        silent = ~tf.reduce_any(named, axis=1)
        if threshold is not None:
            rival = 0.0 if self.settings.null_alone else tf.gather(total, best, batch_dims=1)
            silent |= found["null"] - rival > threshold
        chosen = tf.where(silent, nothing, best)
        return {name: tf.gather(found[name], chosen, batch_dims=1) for name in ("answer", "start", "end", "score")}

    def signatures(self):
        texts, answer, n_best = self.columns()
        return {
            DEFAULT: Signature(self.answer, texts, answer), "n_best": Signature(self.n_best, texts, n_best, note=N_BEST_NOTE),
            **self.attention.signature(),
        }  # fmt: skip

    def parted(self):
        texts, answer, n_best = self.columns()

        def read(question, context):
            return self.frame_windows(self.windows(question, context))

        def write(answers_of):
            return lambda numbers, question, context: answers_of(self.list_answers_by(question, context, numbers))

        return {
            DEFAULT: Parted(read, write(self.best_of), texts, answer),
            "n_best": Parted(read, write(self.listed), texts, n_best),
        }

    def columns(self) -> tuple[list[Column], ...]:
        """Returns the inputs, and the outputs of `answer` and of `n_best`."""
        texts = [Column("question", "B", "UTF-8"), Column("context", "B", "the text that holds the answer")]
        notes = {
            "answer": "as it stands in the text; empty where there is none",
            "start": "its first character in `context`, counted from 0; -1 without an answer",
            "end": "the character behind its last one", "score": "the probability among the likeliest answers",
        }  # fmt: skip
        answer, n_best = ([Column(name, axes, note) for name, note in notes.items()] for axes in ("B", "BK"))
        return texts, answer, n_best

    def shares(self, numbers, features):
        hidden = np.where(features["padding_mask"], 0.0, NEVER)
        return {name: softmax(value + hidden) for name, value in numbers.items()}

    def served_rows(self, inputs):
        return [(each.question, each.context) for each in inputs]

    def named(self, prediction):
        return prediction.answer.text

    def predictions(self, rows):
        return self.predictor.predict([asked(row) for row in rows])

    def expected(self, row, prediction, found):
        """Returns the score of the answer that the SavedModel finds; answers with like scores may stand in another order.

        Raises:
            RuntimeError: it does not stand in the text.
        """
        key = found["answer"].decode(), int(found["start"]), int(found["end"])
        if key[0] and row[1][key[1] : key[2]] != key[0]:
            raise RuntimeError(f"The exported model names {key[0]!r}, which does not stand there. {REPORT}")
        scores = {(each.text, each.start, each.end): each.score for each in prediction.n_best}
        return {"score": scores.get(key, prediction.answer.score)}

    def compare(self, served):
        """Compares answers, and the scores of the likeliest ones, whatever their order."""

        def scores(**texts):
            return {"score": tf.sort(served["n_best"](**texts)["score"], direction="DESCENDING")}

        def expected(row, prediction, found):
            return {"score": sorted((each.score for each in prediction.n_best), reverse=True)}

        likeliest = self.compare_signature(scores, self.predictions(self.checked), expected)
        return max(super().compare(served), likeliest)

    def attention_example(self):
        """Returns the last window of a text, the only one that holds the last token."""
        reading = self.predictor.tokenizer, self.settings, self.max_sequence_length, self.frame
        ((*_, window),) = windows_of([asked(EXAMPLES[0])], *reading)
        return (*EXAMPLES[0], int(window.spans[-1, 0])), self.predictor.features([window])

    def notes(self):
        return (
            f"Long texts are read in windows of {self.max_sequence_length} pieces, with the question and special tokens, that begin "
            f"{self.settings.doc_stride} pieces apart."
        )


def asked(row: tuple[str, str]) -> Question:
    """Returns a question with its text as the run takes it."""
    return Question("", *row, [], False, "")


def same_text(context: tf.Tensor, start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
    """Returns int64 (B, M), equal where two stretches of the same text are spelled alike: a polynomial of their characters
    modulo 2^64.

    The strings themselves would be copies of the text for each of tens of thousands of stretches.

    Args:
        context: string (B,).
        start, end: int32 (B, M), characters.
    """
    code = tf.cast(tf.strings.unicode_decode(context, "UTF-8", errors="replace").to_tensor(), tf.int64) + 1  # (B, C)
    width = tf.shape(code)[1]
    powers, inverses = (tf.math.cumprod(tf.fill([width + 1], tf.constant(x, tf.int64)), exclusive=True) for x in BASES)
    total = tf.pad(tf.cumsum(code * powers[:-1], axis=1), [[0, 0], [1, 0]])  # (B, C + 1)
    found = tf.gather(total, end, batch_dims=1) - tf.gather(total, start, batch_dims=1)
    row = tf.range(tf.size(context, tf.int64), dtype=tf.int64)[:, None]
    return found * tf.gather(inverses, start) + row * BASE


START_NOTE = """`start` is that of an answer, and says which window of a long text is read: the one from which the answer is.
-1, which is no answer, has the first one."""
N_BEST_NOTE = "These are the likeliest answers of each row; rows with fewer end in empty strings with a score of 0."
