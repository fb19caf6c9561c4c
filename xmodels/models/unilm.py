"""UniLM: Unified Language Model Pre-training (Dong et al., 2019, arXiv 1905.03197): BERT with six segments, which also writes."""

import dataclasses

import keras
from keras import ops

from xmodels.layers.attention.core import write_at
from xmodels.layers.attention.visible import Visible
from xmodels.models import bert
from xmodels.models.bert import Bert, BertConfig

SOURCE, TARGET = 4, 5  # segments of the seq2seq model


@dataclasses.dataclass(frozen=True)
class UnilmConfig(BertConfig):
    """BERT's. Segments are 0 and 1 (bidirectional), 2 (left to right), 3 (right to left), 4 and 5 (source and target)."""

    num_segments: int = 6
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-5


@keras.saving.register_keras_serializable("xmodels")
class Unilm(Bert):
    """BERT's encoder, which sees what the objective lets it see; without that, everything, as BERT.

    It writes a target behind a source: the next token is what it names at a `[MASK]` that stands at its place. Then the token
    itself is read there, so of the past only real tokens are kept.
    """

    config_class = UnilmConfig
    mixer_must_honour = frozenset({"padding", "order"})
    may_read = {name: feature for name, feature in Bert.may_read.items() if not name.startswith("pack")}

    @classmethod
    def adopt(cls, model, config, values):
        """A BERT with two segments: as their segments all others begin as the first, but for that of targets (and code)."""
        name = "backbone.embedding.segment.embeddings"
        if model != "bert" or config.num_segments != 2:
            return model, config, values
        fields = dataclasses.asdict(config) | {"num_segments": cls.config_class.num_segments}
        return "unilm", cls.config_class(**fields), {**values, name: values[name][[0, 1, 0, 0, 0, 1]]}

    def start(self, features, length: int):
        """What `decode` takes as `past` for targets of at most `length` tokens: the source is encoded here, once.

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
        """The state of a `[MASK]` behind one more token of each target.

        Args:
            target_ids: int (B, 1): at `position` 0 the last token of the source, then the tokens of the target.
            past: of `start`, or of the call before.

        Returns:
            The states (B, 1, D), and `past` with these tokens.

        Raises:
            ValueError: there is more than one token of each.
        """
        if target_ids.shape[1] != 1:
            raise ValueError(f"Expected one token of each target. Received: target_ids of shape {target_ids.shape}.")
        mask_ids = ops.expand_dims(ops.cast(past["mask_ids"], target_ids.dtype), 1)
        tokens = ops.concatenate([target_ids, mask_ids], axis=1)  # (B, 2)
        first = ops.expand_dims(past["source_lengths"], 1) - 1 + position  # where the source ends, the target goes on
        # Texts that are as long as they may be are carried on, and mean nothing.
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
        """The token and the `[MASK]`, which alone sees itself; the source; and the tokens of the target before.

        The first token is the end of the source, which is seen there.
        """
        real = past["source_padding"]  # (B, S)
        batch, width = ops.shape(real)[0], ops.shape(real)[1]
        slots = ops.arange(ops.shape(past["past"][0][0])[2], dtype="int32")  # (T,)
        ours = ops.stack([ops.convert_to_tensor(position > 0), ops.convert_to_tensor(True)])  # (2,)
        before = ops.logical_and(slots > 0, slots < position)
        around = [ops.repeat(ops.expand_dims(x, 0), batch, axis=0) for x in (ours, before)]
        keys = ops.arange(2 + width + ops.shape(slots)[0], dtype="int32")
        order = ops.cast(ops.equal(keys, 1), "int32")  # the `[MASK]`, which the token does not see
        padding = ops.concatenate([around[0], real, around[1]], axis=1)
        return Visible(padding, order=ops.repeat(ops.expand_dims(order, 0), batch, axis=0))


# base and large: section 2.4 and the released code; the smaller ones, for trials, have the shapes of the small BERTs.
SIZES = dict(bert.SIZES)
