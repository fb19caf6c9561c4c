"""ConvS2S: Convolutional Sequence to Sequence Learning (Gehring et al., 2017, arXiv 1705.03122)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature
from xmodels.layers.attention.additive import bias_of
from xmodels.layers.convolution_blocks import HALF, AttentiveConvolutionBlock, ConvolutionBlock, linear
from xmodels.layers.dropout import Dropout
from xmodels.layers.embeddings import TokenPositionEmbedding
from xmodels.layers.gradients import scale_gradient
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, TokenConfig


@dataclasses.dataclass(frozen=True)
class ConvSeq2SeqConfig(TokenConfig):
    """Sizes of the network. `hidden_dim` is the width of the embeddings and of the encoder's states; layers have their own.

    Attributes:
        filters: the width of each layer of the encoder.
        kernel_sizes: the positions in a window of each.
        decoder_filters, decoder_kernel_sizes: those of the decoder; empty for those of the encoder.
        output_dim: the width before the output layer.
        max_sequence_length: rows of the tables of positions, of sources and of targets.
        initializer_stddev: of the embeddings (section 4.3).
    """

    filters: tuple[int, ...] = (256, 256, 256, 256)
    kernel_sizes: tuple[int, ...] = (3, 3, 3, 3)
    decoder_filters: tuple[int, ...] = ()
    decoder_kernel_sizes: tuple[int, ...] = ()
    output_dim: int = 256
    max_sequence_length: int = 1024
    initializer_stddev: float = 0.1
    dropout: float = 0.1

    @property
    def longest(self):
        return self.max_sequence_length

    @property
    def encoder(self) -> list[tuple[int, int]]:
        """The width and the kernel size of each layer of the encoder."""
        return list(zip(self.filters, self.kernel_sizes, strict=True))

    @property
    def decoder(self) -> list[tuple[int, int]]:
        """The width and the kernel size of each layer of the decoder."""
        return list(zip(self.decoder_filters, self.decoder_kernel_sizes, strict=True)) or self.encoder

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`: windows, gates, sums and residuals of both stacks."""
        return sum(4 * (size + 6) * width for width, size in self.encoder + self.decoder)

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("max_sequence_length", "hidden_dim", source, spelled)
        for first, second in (("filters", "kernel_sizes"), ("decoder_filters", "decoder_kernel_sizes")):
            widths, sizes = getattr(self, first), getattr(self, second)
            if len(widths) != len(sizes) or not self.filters:
                raise CheckpointError(
                    f"{source}: `{first}` and `{second}` must have a number for each layer. Found: {list(widths)} and {list(sizes)}."
                )


@keras.saving.register_keras_serializable("xmodels")
class ConvSeq2Seq(Backbone):
    """Stacks of gated convolutions; every layer of the decoder attends to the source.

    Call arguments:
        features: `token_ids` int (B, S) and `padding_mask` bool (B, S), the source; `target_ids` int (B, T), the inputs of the
            decoder: the target shifted right by one. Padding is on the right.

    Returns:
        A dictionary of `sequence_output` (B, T, `output_dim`), the inputs of the output layer, and `encoder_output` (B, S, E), the
        states that the decoder takes up, (z + e) * sqrt(1/2), with zeros for z at padding.
    """

    config_class = ConvSeq2SeqConfig
    encodes = True
    reads = {**Backbone.reads, "target_ids": Feature((None,))}

    def __init__(self, config: ConvSeq2SeqConfig, **kwargs):
        super().__init__(config, **kwargs)
        dim, dropout = config.hidden_dim, config.dropout
        self.embedding = TokenPositionEmbedding(config, name="embedding")
        self.target_embedding = TokenPositionEmbedding(config, name="target_embedding")
        self.encoder_input, self.decoder_input = (
            linear(dim, layers[0][0], dropout, name=f"{stack}_input")
            for stack, layers in (("encoder", config.encoder), ("decoder", config.decoder))
        )
        self.encoder_layers = [
            ConvolutionBlock(inputs, width, size, dropout, name=f"encoder_{i}")
            for i, (inputs, width, size) in enumerate(chained(config.encoder))
        ]
        self.decoder_layers = [
            AttentiveConvolutionBlock(inputs, width, size, dropout, dim, name=f"decoder_{i}")
            for i, (inputs, width, size) in enumerate(chained(config.decoder))
        ]
        self.encoder_output = linear(config.encoder[-1][0], dim, name="encoder_output")
        self.decoder_output = linear(config.decoder[-1][0], config.output_dim, name="decoder_output")
        self.output_words = linear(config.output_dim, config.vocabulary_size, dropout, name="output_words")
        self.output_words.build((None, config.output_dim))  # only `logits` calls it
        self.dropout = Dropout(dropout)

    def logits(self, states):
        """Returns the logits of target tokens: (..., `output_dim`) -> float32 (..., V)."""
        return ops.cast(self.output_words(states), "float32")

    def call(self, features, training=None):
        keys, values = self._encode(features, training)
        source = keys, values, *self._of_padding(features["padding_mask"])
        words = self.target_embedding(features["target_ids"], training=training)  # (B, T, E)
        x = self.decoder_input(words)
        for block in self.decoder_layers:
            x, _ = block(x, words, source, training=training)
        outputs = self.dropout(self.decoder_output(x), training=training)
        return {"sequence_output": outputs, "encoder_output": values}

    def encode(self, features, training=None):
        """Returns the states of the source, (B, S, E)."""
        return self._encode(features, training)[1]

    def hidden_states(self, features, training=None):
        """Returns the embedding of the source and the states of the encoder, (B, S, E) each; layers between have other widths."""
        return [self.embedding(features["token_ids"], training=training), self.encode(features, training)]

    def _encode(self, features, training=None):
        """Returns z and (z + e) * sqrt(1/2), (B, S, E) each."""
        embedded = self.embedding(features["token_ids"], training=training)
        real = ops.expand_dims(ops.cast(features["padding_mask"], embedded.dtype), -1)  # (B, S, 1)
        x = self.encoder_input(embedded)
        for block in self.encoder_layers:
            x = block(x, real, training=training)
        # Every layer of the decoder sends a gradient; half of a mean of them stays (fairseq; section 3.5 has the mean).
        keys = scale_gradient(self.encoder_output(x) * real, 0.5 / len(self.decoder_layers))
        return keys, (keys + embedded) * HALF

    def _of_padding(self, padding_mask):
        """Returns the bias of scores (B, S), and the square root of the number of real tokens (B,), float32 each."""
        count = ops.sum(ops.cast(padding_mask, "float32"), axis=1)
        return ops.cast(bias_of(padding_mask), "float32"), ops.sqrt(count)

    def alignments(self, features):
        """Returns the attention weights of each target token over the source, the mean of all layers, (B, T, S), for pictures."""
        source = *self._encode(features), *self._of_padding(features["padding_mask"])
        words = self.target_embedding(features["target_ids"])
        x, found = self.decoder_input(words), []
        for block in self.decoder_layers:
            x, shares = block(x, words, source)
            found.append(shares)
        return sum(found) / len(found)

    def start(self, features, length: int):
        """Encodes the source and returns the initial `past` of `decode`, for targets of at most `length` tokens."""
        batch = ops.shape(features["token_ids"])[0]
        return {
            "past": tuple(block.start(batch, length) for block in self.decoder_layers),
            "source": (*self._encode(features), *self._of_padding(features["padding_mask"])),
        }

    def decode(self, target_ids, past, position):
        """Decodes the next T tokens of targets, without recomputing those before them.

        Args:
            target_ids: int (B, T), the tokens from `position` on.
            past: the result of `start` or of the previous call.
            position: int, that of the first token.

        Returns:
            Their outputs (B, T, `output_dim`), and `past` updated with these tokens.
        """
        places = position + ops.arange(ops.shape(target_ids)[1], dtype="int32")
        words, present = self.target_embedding(target_ids, ops.expand_dims(places, 0)), []
        x = self.decoder_input(words)
        for block, of_block in zip(self.decoder_layers, past["past"], strict=True):
            x, of_block = block.step(x, of_block, position, words, past["source"])
            present.append(of_block)
        return self.decoder_output(x), {**past, "past": tuple(present)}


def chained(layers: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Returns (width of its inputs, width, kernel size) of each layer; the first reads its own width."""
    before = [layers[0][0], *(width for width, _ in layers)]
    return [(inputs, width, size) for inputs, (width, size) in zip(before, layers, strict=False)]


# base: the paper's network for WMT 2014 English to German (section 4.3); small: fairseq's for IWSLT 2014 German to English. tiny is
# ours.
SIZES = {
    "tiny": {"hidden_dim": 128, "filters": (128, 128), "kernel_sizes": (3, 3), "output_dim": 128},
    "small": {
        "hidden_dim": 256, "filters": (256,) * 4, "kernel_sizes": (3,) * 4, "decoder_filters": (256,) * 3,
        "decoder_kernel_sizes": (3,) * 3, "output_dim": 256, "dropout": 0.2,
    },
    "base": {
        "hidden_dim": 768, "filters": (512,) * 9 + (1024,) * 4 + (2048,) * 2, "kernel_sizes": (3,) * 13 + (1,) * 2, "output_dim": 512,
        "dropout": 0.2,
    },
}  # fmt: skip
