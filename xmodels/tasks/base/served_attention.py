"""The attention of a network as a signature of a SavedModel, separate so that other signatures do not compute it."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.text.spelling import spelling
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.tasks.base.answer import without_padding
from xmodels.tasks.base.comparison import check_difference
from xmodels.tasks.base.signatures import ATTENTION, Column, Signature, ask


class ServedAttention(tf.Module):
    """The attention weights between the tokens of a text, for programs that visualise them.

    It takes one row of the network at a time, such as a text, a pair, or a query with a candidate: the output grows with the
    square of the length, so a batch of any size could exhaust the memory.

    Args:
        backbone: has `attention_maps`.
        tokenizer: of the network.
        read: a function of one value (1,) per input, in order, that returns features (1, L) without padding.
        inputs: {name: dtype} of the inputs of the signature other than `layer`.
        note: lines of README.md that explain them; "" for none.
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
        self.inputs = tuple(Column(name, (), dtype=dtype) for name, dtype in inputs.items())
        with tf.device("CPU:0"):
            self.spelling = tf.constant(spell_tokens(tokenizer))  # (V,)

    def answer(self, *asked: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the attention weights of a layer.

        Args:
            asked: the inputs, (), and after them the layer, int32 (), from 1. The graph fails if there is no such layer.

        Returns:
            A dictionary of `token` string (L,), whose concatenation is the text; `weight` float32 (L, L), the mean over the heads,
            where each row is a query and sums to one over the keys; and `num_layers` int32 ().
        """
        *values, layer = asked
        features = self.read(*(tf.expand_dims(value, 0) for value in values))  # (1, L)
        # (L, L) for each layer.
        maps = [tf.reduce_mean(each[0], axis=0) for each in self.backbone.attention_maps(features)]
        message = f"`layer` must be from 1 to {len(maps)}."
        with tf.control_dependencies([tf.debugging.Assert((layer >= 1) & (layer <= len(maps)), [message])]):
            weight = tf.gather(tf.stack(maps), layer - 1)
        return {"token": self.tokens(features), "weight": weight, "num_layers": tf.constant(len(maps))}

    def tokens(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the tokens, string (L,), whose concatenation is the text."""
        with tf.device("CPU:0"):
            return tf.gather(self.spelling, features["token_ids"][0])

    def signature(self) -> dict[str, Signature]:
        """Returns the signature in the form of `Server.signatures`."""
        inputs = [*self.inputs, Column("layer", (), "from 1", tf.int32)]
        return {ATTENTION: Signature(self.answer, inputs, OUTPUTS, note=f"{PURPOSE}\n{self.note}".strip())}

    def compare(
        self, served: Mapping[str, Callable], values: Sequence[str | int], features: Mapping[str, np.ndarray]
    ) -> float:  # fmt: skip
        """Returns the largest difference between the attention weights of the SavedModel and those of the run.

        Args:
            served: {name of the signature: function of the SavedModel}.
            values: of the inputs, in order.
            features: the features of the run for them, (1, L).

        Raises:
            RuntimeError: it is above `comparison.TOLERANCE`.
        """
        asked = dict(zip((each.name for each in self.inputs), values, strict=True))
        differences = []
        for layer, heads in enumerate(self.backbone.attention_maps(without_padding(features)), 1):
            found = ask(served[ATTENTION], {**asked, "layer": layer})["weight"]
            differences.append(float(np.abs(found - np.array(heads)[0].mean(axis=0)).max()))
        return check_difference(max(differences))


class NoAttention:
    """Replaces `ServedAttention` for networks without `attention_maps`: no signature."""

    def signature(self) -> dict[str, Signature]:
        return {}


def attention_of(
    backbone, tokenizer: Tokenizer, read: Callable, inputs: Mapping[str, tf.DType], note: str = ""
) -> ServedAttention | NoAttention:
    """Returns a `ServedAttention`, or a `NoAttention` if the network shows no attention. Arguments as in `ServedAttention`."""
    if not backbone.shows_attention:
        return NoAttention()
    return ServedAttention(backbone, tokenizer, read, inputs, note)


def spell_tokens(tokenizer: Tokenizer) -> list[bytes]:
    """Returns the bytes of each token, with the space before a word; for special tokens their names."""
    names = tokenizer.vocabulary.tokens
    return [text or name.encode() for text, name in zip(spelling(tokenizer), names, strict=True)]


OUTPUTS = (
    Column("token", "L"),
    Column("weight", "LL", "how much each token takes of each in the mean of the heads of the layer"),
    Column("num_layers", ()),
)
PURPOSE = "It is there for pictures, and takes no batch."
