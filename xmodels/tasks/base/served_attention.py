"""The attention of a network inside a graph: a signature of its own, so that the others cost nothing more."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.text.spelling import spelling
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.tasks.base.answer import without_padding
from xmodels.tasks.base.serve import Signature, check_difference

NAME = "attention"  # of the signature
INPUTS = ("text", "text_pair")


class ServedAttention(tf.Module):
    """How much each token of a text takes of each other, for programs that show it.

    It answers one text or pair at a time: what it gives grows with the square of the length, so a batch has no bound.

    Args:
        backbone: has `attention_maps`.
        read: strings (B,), one or two -> features (B, L), without padding where B is 1.
        num_texts: 1 or 2.
    """

    def __init__(
        self, backbone, tokenizer: Tokenizer, read: Callable[..., Mapping[str, tf.Tensor]], num_texts: int = 1
    ):
        super().__init__()
        self.backbone, self.read, self.num_texts = backbone, read, num_texts
        with tf.device("CPU:0"):
            self.spelling = tf.constant(shown(tokenizer))  # (V,)

    def of_text(self, text: tf.Tensor, layer: tf.Tensor) -> dict[str, tf.Tensor]:
        """That of a text.

        Args:
            text: string ().
            layer: int32 (), from 1. Another number than that of a layer is refused by an op.

        Returns:
            token string (L,), which joined are the text; weight float32 (L, L), the mean of the heads, rows summing to one over what
            each token takes of; num_layers int32 ().
        """
        return self._of([text], layer)

    def of_pair(self, text: tf.Tensor, text_pair: tf.Tensor, layer: tf.Tensor) -> dict[str, tf.Tensor]:
        """That of a pair, likewise."""
        return self._of([text, text_pair], layer)

    def _of(self, texts: Sequence[tf.Tensor], layer: tf.Tensor) -> dict[str, tf.Tensor]:
        features = self.read(*(tf.expand_dims(text, 0) for text in texts))  # (1, L)
        # (L, L) of each layer.
        maps = [tf.reduce_mean(each[0], axis=0) for each in self.backbone.attention_maps(features)]
        message = f"`layer` must be from 1 to {len(maps)}."
        with tf.control_dependencies([tf.debugging.Assert((layer >= 1) & (layer <= len(maps)), [message])]):
            weight = tf.gather(tf.stack(maps), layer - 1)
        with tf.device("CPU:0"):
            token = tf.gather(self.spelling, features["token_ids"][0])
        return {"token": token, "weight": weight, "num_layers": tf.constant(len(maps))}

    def signature(self) -> dict[str, Signature]:
        """As `Server.signatures` has it."""
        specs = [tf.TensorSpec([], tf.string, name=name) for name in INPUTS[: self.num_texts]]
        method = self.of_text if self.num_texts == 1 else self.of_pair
        return {NAME: (method, [*specs, tf.TensorSpec([], tf.int32, name="layer")])}

    def readme(self) -> str:
        """What README.md says of the signature."""
        return README_TEXT.format(texts="one text" if self.num_texts == 1 else "one pair of texts")

    def compare(
        self, served: Mapping[str, Callable], texts: Sequence[str], features: Mapping[str, np.ndarray]
    ) -> float:  # fmt: skip
        """The largest difference between the weights of the SavedModel and those of the run.

        Args:
            texts: one or two.
            features: what the run reads of them, (1, L).

        Raises:
            RuntimeError: it is more than rounding.
        """
        asked = dict(zip(INPUTS, map(tf.constant, texts), strict=False))
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

    def compare(self, served, texts, features) -> float:
        return 0.0


def attention_of(backbone, tokenizer: Tokenizer, read: Callable, num_texts: int = 1) -> ServedAttention | NoAttention:
    """The attention of a network, as far as it shows it; arguments as of `ServedAttention`."""
    if not hasattr(backbone, "attention_maps"):
        return NoAttention()
    return ServedAttention(backbone, tokenizer, read, num_texts)


def shown(tokenizer: Tokenizer) -> list[bytes]:
    """The bytes of each token, with the blank before a word; the names of special ones."""
    names = tokenizer.vocabulary.tokens
    return [text or name.encode() for text, name in zip(spelling(tokenizer), names, strict=True)]


README_TEXT = """
The signature `attention` takes {texts}, string (), and `layer`, int32 () from 1. It gives `token`, string (L,), `weight`,
float32 (L, L), how much each token takes of each in the mean of the heads of the layer, and `num_layers`. It is there for
pictures, and takes no batch.
"""
