"""Find the answer to a question in a text: its beginning, its end beside it, and whether there is one (Yang et al., 2019)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.rows import take_rows
from xmodels.layers.span_beam import NEVER, SpanBeamHead
from xmodels.tasks.answer_span.task import AnswerSpan

STARTS, ENDS = 5, 5  # `start_n_top` and `end_n_top` of the released code
TEXT, NULL = 1, 2  # values of `span_roles`
EPSILON = 1e-12


class AnswerBeam(AnswerSpan):
    """XLNet's head for SQuAD. An answer begins and ends in the text, or at the token that stands for having none.

    In training the end is read beside the right beginning; in answers beside each of the likeliest ones. The loss is half the sum of
    the cross-entropies of beginning and end, and half that of there being no answer.

    Args:
        config, labels, reading, settings: as of `AnswerSpan`; settings also hold `start_n_top` and `end_n_top`.
    """

    title = "Finder of answers in texts that reads ends beside beginnings"
    reads = {**AnswerSpan.reads, "span_roles": Feature((None,))}
    signature = {
        "top_starts": Feature((None,)), "top_start_scores": Feature((None,), "float32"), "top_ends": Feature((None, None)),
        "top_end_scores": Feature((None, None), "float32"), "null_logits": Feature((), "float32"),
    }  # fmt: skip

    def add_head(self, config):
        epsilon = getattr(config, "layer_norm_epsilon", EPSILON)
        rate = self.reading.dropout_rate(config)
        self.head = SpanBeamHead(
            config.hidden_dim, rate, epsilon, lambda: self.reading.initializer(config), name="head"
        )
        self.head.build()

    def forward(self, backbone, batch, training=None):
        outputs = self.reading.states(backbone, batch, training)
        states, roles = outputs["sequence_output"], ops.cast(batch["span_roles"], "int32")
        allowed = ops.greater(roles, 0)
        logits = self.head.starts(states, allowed)
        null_place = ops.cast(ops.argmax(roles, axis=-1), "int32")  # (B,); NULL is the largest
        null_logits = self.head.nothing(states, logits, at(states, null_place[:, None])[:, 0], training)
        found = {**outputs, "start_logits": logits, "null_logits": null_logits, "null_positions": null_place}
        if "start_positions" in batch:
            right = at(states, ops.cast(batch["start_positions"], "int32")[:, None])
            found["end_logits"] = self.head.ends(states, right, allowed)[:, 0]
        return found if training else {**found, **self.beam(states, logits, allowed, batch["padding_mask"])}

    def beam(self, states, logits, allowed, padding_mask):
        """Returns the likeliest beginnings and the likeliest ends beside each, and the logarithms of their probabilities.

        Places count from the first real token, so that they are the same with less padding before it.
        """
        count, each = (
            self.settings.get(name, number) for name, number in (("start_n_top", STARTS), ("end_n_top", ENDS))
        )
        start_scores, starts = top(ops.log_softmax(logits, axis=-1), count)  # (B, K)
        ends = self.head.ends(states, at(states, starts), allowed)
        end_scores, ends = top(ops.log_softmax(ends, axis=-1), each)  # (B, K, E)
        before = ops.cast(ops.argmax(ops.cast(padding_mask, "int32"), axis=-1), "int32")[:, None]  # (B, 1)
        return {
            "top_starts": starts - before, "top_start_scores": start_scores, "top_ends": ends - before[:, None],
            "top_end_scores": end_scores,
        }  # fmt: skip

    def score(self, outputs, batch, backbone):
        (total, count), metrics = self.span_score(outputs, batch)
        weights = ops.cast(batch["example_weights"], "float32")  # (B,)
        silent = ops.equal(ops.cast(batch["start_positions"], "int32"), outputs["null_positions"])  # (B,)
        logits = outputs["null_logits"]
        losses = ops.softplus(logits) - ops.where(silent, logits, 0.0)
        right = ops.cast(ops.equal(logits > 0, silent), "float32")
        metrics["answerable_accuracy"] = ops.sum(right * weights), count
        return {"answer_beam": (total + ops.sum(losses * weights) / 2, count)}, metrics

    def predictions(self, outputs, batch, backbone):
        before = ops.cast(ops.argmax(ops.cast(batch["padding_mask"], "int32"), axis=-1), "int32")  # (B,)
        starts, ends = outputs["top_starts"][:, 0], outputs["top_ends"][:, 0, 0]
        return {"start_positions": starts + before, "end_positions": ends + before}


def at(states, places):
    """Returns (B, L, D), int (B, K) -> (B, K, D): the states at some places; those behind the last are the last."""
    places = ops.minimum(places, ops.shape(states)[1] - 1)
    return take_rows(states, places)


def top(scores, count: int):
    """Returns the largest of the last axis and their places; where there are fewer, places behind them that are NEVER."""
    widths = [[0, 0]] * (len(scores.shape) - 1) + [[0, count]]
    values, places = ops.top_k(ops.pad(scores, widths, constant_values=NEVER), count)
    return values, ops.cast(places, "int32")
