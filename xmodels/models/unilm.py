"""UniLM: Unified Language Model Pre-training (Dong et al., 2019, arXiv 1905.03197): BERT with six segments that generates text."""

import dataclasses

import keras
from keras import ops

from xmodels.layers.attention.visible import Visible
from xmodels.layers.attention.writing import write_at
from xmodels.models import bert
from xmodels.models.bert import Bert, BertConfig

SOURCE, TARGET = 4, 5  # segments of the seq2seq model


@dataclasses.dataclass(frozen=True)
class UnilmConfig(BertConfig):
    """BERT's configuration with the segments 0 and 1 (bidirectional), 2 (left to right), 3 (right to left), 4 (source), 5 (target)."""

    num_segments: int = 6
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-5


@keras.saving.register_keras_serializable("xmodels")
class Unilm(Bert):
    """BERT's encoder with the attention mask of the objective; by default bidirectional, as BERT. Arguments as in `Bert`.

    It generates a target after a source: a `[MASK]` in place of the next token predicts it, and is then replaced with the token,
    so that the cache holds only real tokens.
    """

    config_class = UnilmConfig
    mixer_must_support = frozenset({"padding", "order"})
    may_read = {name: feature for name, feature in Bert.may_read.items() if not name.startswith("pack")}

    @classmethod
    def adopt(cls, model, config, values):
        """Converts a BERT with two segments: segments 2 to 4 start as segment 0, and 5 (targets) as segment 1, as in the released
        code. Arguments and results as in `Backbone`."""
        name = "backbone.embedding.segment.embeddings"
        if model != "bert" or config.num_segments != 2:
            return model, config, values
        fields = dataclasses.asdict(config) | {"num_segments": cls.config_class.num_segments}
        return "unilm", cls.config_class(**fields), {**values, name: values[name][[0, 1, 0, 0, 0, 1]]}

    def start(self, features, length: int):
        """Encodes the source and returns the initial `past` of `decode`, for targets of at most `length` tokens.

        Args:
            features: `token_ids` int (B, S), `[CLS] source [SEP]`, and `padding_mask` bool (B, S), padded on the right; `mask_ids`
                int (B,), the id of `[MASK]`.
        """
        real = ops.cast(features["padding_mask"], "bool")
        x = self.embedding(features["token_ids"], ops.full_like(features["token_ids"], SOURCE))  # (B, S, D)
        batch, source, past = ops.shape(x)[0], [], []
        for block in self.blocks:
            source.append(block.mixer.keep(x))
            x = block.attend_to_kept(x, source[-1], Visible(real))
            past.append(block.start(batch, length))
        return {
            "past": tuple(past), "source": tuple(source), "source_padding": real, "mask_ids": features["mask_ids"],
            "source_lengths": ops.sum(ops.cast(real, "int32"), axis=1),
        }  # fmt: skip

    def decode(self, target_ids, past, position):
        """Returns the state of a `[MASK]` after one more token of each target.

        Args:
            target_ids: int (B, 1): at `position` 0 the last token of the source, then the tokens of the target.
            past: the result of `start` or of the previous call.
            position: int, from 0.

        Returns:
            The states (B, 1, D), and `past` updated with these tokens.

        Raises:
            ValueError: there is more than one token per target.
        """
        if target_ids.shape[1] != 1:
            raise ValueError(f"Expected one token of each target. Received: target_ids of shape {target_ids.shape}.")
        mask_ids = ops.expand_dims(ops.cast(past["mask_ids"], target_ids.dtype), 1)
        tokens = ops.concatenate([target_ids, mask_ids], axis=1)  # (B, 2)
        first = ops.expand_dims(past["source_lengths"], 1) - 1 + position  # the target continues the source
        # Texts that have reached the maximal length are still decoded, but the result is meaningless.
        places = ops.minimum(ops.concatenate([first, first + 1], axis=1), self.config.max_sequence_length - 1)
        x = self.embedding(tokens, ops.full_like(tokens, TARGET), places)  # (B, 2, D)
        visible, present = self._visible(past, position), []
        for block, source, of_block in zip(self.blocks, past["source"], past["past"], strict=True):
            new = block.mixer.keep(x)
            kept = [ops.concatenate(parts, axis=2) for parts in zip(new, source, of_block, strict=True)]
            x = block.attend_to_kept(x, kept, visible)
            present.append(
                tuple(write_at(old, each[:, :, :1], position) for old, each in zip(of_block, new, strict=True))
            )
        return x[:, 1:], {**past, "past": tuple(present)}

    @staticmethod
    def _visible(past, position) -> Visible:
        """Returns the mask over the token and the `[MASK]`, the source, and the cache of target tokens, in this order.

        Only the `[MASK]` attends to itself. At position 0 the token is the end of the source, and is visible there instead.
        """
        real = past["source_padding"]  # (B, S)
        batch, width = ops.shape(real)[0], ops.shape(real)[1]
        slots = ops.arange(ops.shape(past["past"][0][0])[2], dtype="int32")  # (T,)
        ours = ops.stack([ops.convert_to_tensor(position > 0), ops.convert_to_tensor(True)])  # (2,)
        before = ops.logical_and(slots > 0, slots < position)
        around = [ops.repeat(ops.expand_dims(x, 0), batch, axis=0) for x in (ours, before)]
        keys = ops.arange(2 + width + ops.shape(slots)[0], dtype="int32")
        order = ops.cast(ops.equal(keys, 1), "int32")  # the token does not attend to the `[MASK]`
        padding = ops.concatenate([around[0], real, around[1]], axis=1)
        return Visible(padding, order=ops.repeat(ops.expand_dims(order, 0), batch, axis=0))


# base and large: section 2.4 and the released code. The smaller ones, for trials, have the shapes of the small BERTs.
SIZES = dict(bert.SIZES)
