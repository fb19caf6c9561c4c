"""A causal network that says how likely texts are."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.text.tokenizer import Tokenizer
from xmodels.models.backbone import Backbone
from xmodels.objectives.base import Objective
from xmodels.tasks.base.answer import check_finite

LOGITS_TOGETHER = 1 << 24  # floats of a table of positions by vocabulary; 64 MB


class Scorer:
    """Negative log-likelihoods of tokens.

    Args:
        objective: has `logits(states, backbone)`, (..., D) -> float32 (..., V).
        unlikely: ids that are no answer where a call says so; see `score`.
    """

    def __init__(self, backbone: Backbone, objective: Objective, tokenizer: Tokenizer, unlikely: Sequence[int] = ()):
        self.backbone, self.objective, self.tokenizer = backbone, objective, tokenizer
        self.unlikely = np.zeros(backbone.config.vocabulary_size, bool)
        self.unlikely[list(unlikely)] = True
        self.score = tf.function(self._score, autograph=False)
        self.advance = tf.function(self._advance, autograph=False)

    def _score(self, token_ids, lengths, positions, labels, restricted):
        """Returns what the network says of some tokens of texts; one compiled function for each shape.

        Args:
            token_ids: int32 (B, L), padded on the right.
            lengths: int32 (B,), at least 1.
            positions: int32 (B, P), where the tokens are predicted.
            labels: int32 (B, P), what stands there.
            restricted: bool (B, P), whether `unlikely` tokens are no answer there.

        Returns:
            -log p of each label, float32 (B, P), and whether none is likelier, bool (B, P).
        """
        padding_mask = tf.range(tf.shape(token_ids)[1])[None, :] < lengths[:, None]
        outputs = self.objective.forward(self.backbone, {"token_ids": token_ids, "padding_mask": padding_mask}, False)
        states = tf.gather(outputs["sequence_output"], positions, axis=1, batch_dims=1)  # (B, P, D)
        return self._named(states, labels, restricted)

    def _advance(self, token_ids, labels, past):
        """Returns the next N tokens of streams, for networks with a memory.

        Args:
            token_ids: int32 (B, N).
            labels: int32 (B, N).
            past: of `backbone.initial_memory`, or of the call before.

        Returns:
            -log p of each label, float32 (B, N), and `past` with these tokens.
        """
        batch = {"token_ids": token_ids, "padding_mask": tf.ones_like(token_ids, tf.bool), **past}
        outputs = self.objective.forward(self.backbone, batch, False)
        losses, _ = self._named(outputs["sequence_output"], labels, tf.zeros_like(labels, tf.bool))
        return losses, {name: outputs[name] for name in past}

    def _named(self, states, labels, restricted):
        """Returns (B, P, D) -> float32 (B, P), bool (B, P); so many positions at a time that their logits need little memory."""
        rows, width, size = labels.shape[0] * labels.shape[1], states.shape[-1], len(self.unlikely)
        together = max(1, min(rows, LOGITS_TOGETHER // size))
        padding = -rows % together

        def cut(x, *shape):
            x = tf.pad(tf.reshape(x, (rows, *shape)), [[0, padding], *([0, 0] for _ in shape)])
            return tf.reshape(x, (-1, together, *shape))

        def some(parts):
            states, labels, restricted = parts
            logits = tf.convert_to_tensor(self.objective.logits(states, self.backbone))  # (together, V)
            of_label = tf.gather(logits, labels, axis=1, batch_dims=1)
            out = tf.logical_and(restricted[:, None], self.unlikely)
            best = tf.reduce_max(tf.where(out, logits.dtype.min, logits), axis=-1)
            return tf.reduce_logsumexp(logits, axis=-1) - of_label, of_label >= best

        parts = cut(states, width), cut(labels), cut(restricted)
        losses, first = tf.map_fn(some, parts, fn_output_signature=(tf.float32, tf.bool), parallel_iterations=1)
        return tuple(tf.reshape(tf.reshape(x, [-1])[:rows], labels.shape) for x in (losses, first))


def logarithms(losses) -> np.ndarray:
    """Returns -log p as float64. Raises a CheckpointError where the network answers NaN or infinity."""
    return check_finite({"-log p": losses.numpy().astype(np.float64)})["-log p"]
