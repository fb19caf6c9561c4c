"""The attention of a network inside a graph: a signature of its own, so that the others cost nothing more."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.text.spelling import spelling
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.tasks.base.answer import without_padding
from xmodels.tasks.base.serve import Signature, check_difference

NAME = "attention"  # of the signature


class ServedAttention(tf.Module):
    """How much each token of a text takes of each other, for programs that show it.

    It answers one row of the network at a time, such as a text, a pair, or a query with a candidate: what it gives grows with the
    square of the length, so a batch has no bound.

    Args:
        backbone: has `attention_maps`.
        read: a value (1,) of each input, in their order -> features (1, L), without padding.
        inputs: the types of what the signature takes beside `layer`, by name.
        note: lines of README.md on what these say; "" for none.
    """

    def __init__(
        self,
        backbone,
        tokenizer: Tokenizer,
        read: Callable[..., Mapping[str, tf.Tensor]],
        inputs: Mapping[str, tf.DType],
        note: str = "",
    ):
        super().__init__()
        self.backbone, self.read, self.note = backbone, read, note
        self.specs = [tf.TensorSpec([], dtype, name=name) for name, dtype in inputs.items()]
        with tf.device("CPU:0"):
            self.spelling = tf.constant(shown(tokenizer))  # (V,)

    def answer(self, *asked: tf.Tensor) -> dict[str, tf.Tensor]:
        """The attention of a layer.

        Args:
            asked: the inputs, (), and behind them the layer, int32 (), from 1. Another number than that of a layer is refused
                by an op.

        Returns:
            token string (L,), which joined are the text; weight float32 (L, L), the mean of the heads, rows summing to one over what
            each token takes of; num_layers int32 ().
        """
        *values, layer = asked
        features = self.read(*(tf.expand_dims(value, 0) for value in values))  # (1, L)
        # (L, L) of each layer.
        maps = [tf.reduce_mean(each[0], axis=0) for each in self.backbone.attention_maps(features)]
        message = f"`layer` must be from 1 to {len(maps)}."
        with tf.control_dependencies([tf.debugging.Assert((layer >= 1) & (layer <= len(maps)), [message])]):
            weight = tf.gather(tf.stack(maps), layer - 1)
        return {"token": self.tokens(features), "weight": weight, "num_layers": tf.constant(len(maps))}

    def tokens(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """What weights are between, string (L,), which joined are the text."""
        with tf.device("CPU:0"):
            return tf.gather(self.spelling, features["token_ids"][0])

    def signature(self) -> dict[str, Signature]:
        """As `Server.signatures` has it."""
        return {NAME: (self.answer, [*self.specs, tf.TensorSpec([], tf.int32, name="layer")])}

    def readme(self) -> str:
        """What README.md says of the signature."""
        inputs = ", ".join(f"`{spec.name}`, {spec.dtype.name} ()" for spec in self.specs)
        return README_TEXT.format(inputs=inputs, note=f"\n{self.note}" if self.note else "")

    def compare(
        self, served: Mapping[str, Callable], values: Sequence[str | int], features: Mapping[str, np.ndarray]
    ) -> float:  # fmt: skip
        """The largest difference between the weights of the SavedModel and those of the run.

        Args:
            values: of the inputs, in their order.
            features: what the run reads of them, (1, L).

        Raises:
            RuntimeError: it is more than rounding.
        """
        asked = {spec.name: tf.constant(value) for spec, value in zip(self.specs, values, strict=True)}
        differences = []
        for layer, heads in enumerate(self.backbone.attention_maps(without_padding(features)), 1):
            found = served[NAME](**asked, layer=tf.constant(layer))["weight"].numpy()
            differences.append(float(np.abs(found - np.array(heads)[0].mean(axis=0)).max()))
        return check_difference(max(differences))


class NoAttention:
    """In place of `ServedAttention` where a network does not show its attention."""

    def signature(self) -> dict[str, Signature]:
        return {}

    def readme(self) -> str:
        return ""

    def compare(self, served, values, features) -> float:
        return 0.0


def attention_of(
    backbone, tokenizer: Tokenizer, read: Callable, inputs: Mapping[str, tf.DType], note: str = ""
) -> ServedAttention | NoAttention:
    """The attention of a network, as far as it shows it; arguments as of `ServedAttention`."""
    if not hasattr(backbone, "attention_maps"):
        return NoAttention()
    return ServedAttention(backbone, tokenizer, read, inputs, note)


def shown(tokenizer: Tokenizer) -> list[bytes]:
    """The bytes of each token, with the blank before a word; the names of special ones."""
    names = tokenizer.vocabulary.tokens
    return [text or name.encode() for text, name in zip(spelling(tokenizer), names, strict=True)]


README_TEXT = """
The signature `attention` takes {inputs}, and `layer`, int32 () from 1.
It gives `token`, string (L,), `weight`, float32 (L, L), how much each token takes of each in the mean of the heads of the layer,
and `num_layers`. It is there for pictures, and takes no batch.{note}
"""
