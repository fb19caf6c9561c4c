"""The span boundary objective (Joshi et al., 2019, arXiv 1907.10529, section 3.2)."""

from collections.abc import Sequence

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.heads import SpanBoundaryHead
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import score_classes

MAX_PAIR_TARGETS = 20  # only the first so many tokens of a span are predicted; 15 in the published command


class SpanBoundary(Objective):
    """Predicts each token of a masked span from the states of the two tokens around the span and its position in the span.

    A span is a run of consecutive masked tokens, so adjacent spans count as one. Combine it with an objective that masks
    tokens, such as `MaskedLM`, whose `mask_positions` and `labels` it uses. As in the released code, a span does not count if
    one of its neighbours is not a token of the text.

    Args:
        special_ids: the ids of the special tokens around and between texts, which are no neighbours of a span.
        max_pair_targets: how many tokens of a span are predicted, the first ones.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {
        "mask_positions": Feature((None,)),
        "labels": Feature((None,)),
        "label_weights": Feature((None,), "float32"),
    }

    def __init__(self, config, special_ids: Sequence[int] = (), max_pair_targets: int = MAX_PAIR_TARGETS, **kwargs):
        super().__init__(**kwargs)
        self.special_ids, self.max_pair_targets = tuple(special_ids), max_pair_targets
        self.head = SpanBoundaryHead(config, max_pair_targets, name="head")

    def logits(self, outputs, batch, backbone):
        """Returns the logits of each masked token, float32 (B, P, V), and their weights (B, P)."""
        hidden, table = outputs["sequence_output"], backbone.embedding.token
        first, last, place = spans(batch["mask_positions"], batch["label_weights"])
        end = ops.shape(hidden)[1] - 1
        left, right = ops.maximum(first - 1, 0), ops.minimum(last + 1, end)  # (B, P) each
        logits = self.head(hidden, left, right, ops.minimum(place, self.max_pair_targets - 1), token_embedding=table)
        counts = (first > 0) & (last < end) & (place < self.max_pair_targets)
        counts &= self.in_text(batch, left) & self.in_text(batch, right)
        return logits, batch["label_weights"] * ops.cast(counts, "float32")

    def in_text(self, batch, places):
        """Returns whether the tokens at `places`, int (B, P), none of them masked, are no special tokens: bool (B, P)."""
        token_ids = ops.take_along_axis(ops.convert_to_tensor(batch["token_ids"]), places, axis=1)
        return ops.all(
            ops.expand_dims(token_ids, -1) != ops.convert_to_tensor(self.special_ids, token_ids.dtype), axis=-1
        )

    def score(self, outputs, batch, backbone):
        logits, weights = self.logits(outputs, batch, backbone)
        answer = batch["labels"], logits, weights
        loss, accuracy = score_classes(*answer)
        return {"span_boundary": loss}, {"span_boundary_accuracy": accuracy}

    def predictions(self, outputs, batch, backbone):
        """Returns {"span_labels": int (B, P)}, -1 for tokens that do not count."""
        logits, weights = self.logits(outputs, batch, backbone)
        return {"span_labels": ops.where(weights > 0, ops.argmax(logits, axis=-1), -1)}


def spans(positions, weights):
    """Finds the run of consecutive masked positions that each masked position belongs to.

    Args:
        positions: int (B, P), ascending where `weights` is positive; the slots after these are ignored.
        weights: float (B, P), 0 in unused slots.

    Returns:
        int (B, P) each: the first and the last position of the run, and the index within the run, from 0.
    """
    real = weights > 0  # (B, P)
    before = ops.pad(positions[:, :-1], ((0, 0), (1, 0)), constant_values=-2)
    after = ops.pad(ops.where(real, positions, -2)[:, 1:], ((0, 0), (0, 1)), constant_values=-2)
    opens, closes = real & (positions != before + 1), real & (positions != after - 1)
    index = ops.arange(positions.shape[1])
    earlier = ops.expand_dims(index, 0) <= ops.expand_dims(
        index, 1
    )  # (P, P): True where the second index is not above the first
    places = ops.expand_dims(positions, 1)  # (B, 1, P)
    first = ops.max(ops.where(earlier & ops.expand_dims(opens, 1), places, 0), axis=-1)
    most = ops.max(positions) + 1
    last = ops.min(ops.where(ops.transpose(earlier) & ops.expand_dims(closes, 1), places, most), axis=-1)
    return first, ops.where(real, last, positions), ops.where(real, positions - first, 0)
