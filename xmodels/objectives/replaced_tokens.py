"""Replaced token detection (Clark et al., 2020, arXiv 2003.10555, section 2)."""

from typing import ClassVar

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.activations import activation
from xmodels.layers.initialization import truncated_normal
from xmodels.layers.layer import Layer
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import area_under_roc, score_classes


class ReplacedTokensHead(Layer):
    """Says of each token whether it was replaced: Dense, activation, Dense: (B, L, D) -> float32 logits (B, L)."""

    prefix = "objective.replaced_tokens.head"  # of the names of its weights in a checkpoint

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)

        def dense(width, name):
            initializer = truncated_normal(config.initializer_stddev)
            return keras.layers.Dense(width, kernel_initializer=initializer, name=name)

        self.dense, self.prediction = dense(config.hidden_dim, "dense"), dense(1, "prediction")
        self.activation = activation(config.activation)

    def call(self, x):
        return ops.cast(self.prediction(self.activation(self.dense(x)))[..., 0], "float32")


class ReplacedTokens(Objective):
    """Lets a generator fill masked tokens with its own samples, and the network tell for each token whether it was replaced.

    The generator learns masked language modelling, not to fool the network; no gradient passes through its samples (section 2).
    A sample that is the original token counts as original. Both losses are added, that of the network with `weight`.

    Args:
        config: of the network.
        generator: a masked language model on the embeddings of the network, such as `models.electra.Generator`. One that has
            `vectors_for`, a function of token ids and the embedding layer, says what the network reads in place of the vectors of its
            table.
        corrupt: an op that masks tokens, keeps `clean_ids`, and draws a number in [0, 1) for each masked token.
        weight: of the loss of the network; 50 in the paper.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {
        "clean_ids": Feature((None,)),
        "mask_positions": Feature((None,)),
        "labels": Feature((None,)),
        "label_weights": Feature((None,), "float32"),
        "draws": Feature((None,), "float32"),
    }
    context, accuracy = "both", "masked_lm_accuracy"
    head_class: ClassVar[type[Layer]] = ReplacedTokensHead

    def __init__(self, config, generator: keras.layers.Layer, corrupt, weight: float = 50.0, **kwargs):
        super().__init__(**kwargs)
        self.corrupt, self.weight = corrupt, weight
        self.generator = generator
        self.head = self.head_class(config, name="head")

    def transform(self):
        return self.corrupt

    def forward(self, backbone, batch, training=None):
        """Returns the outputs of the network on the text with samples in it, the `generator_logits` (B, P, V), and `replaced`,
        bool (B, L)."""
        logits = self.generator(batch, embedding=backbone.embedding, training=training)
        clean = ops.cast(batch["clean_ids"], "int32")
        token_ids = put(clean, batch, sample(ops.stop_gradient(logits), batch["draws"]))
        features = {**batch, "token_ids": token_ids}
        if hasattr(self.generator, "vectors_for"):
            features["token_vectors"] = self.generator.vectors_for(token_ids, backbone.embedding)
        outputs = backbone(features, training=training)
        return {**outputs, "generator_logits": logits, "replaced": ops.not_equal(token_ids, clean)}

    def score(self, outputs, batch, backbone):
        guess = batch["labels"], outputs["generator_logits"], batch["label_weights"]
        logits = self.head(outputs["sequence_output"])  # (B, L)
        replaced, real = (ops.cast(x, "float32") for x in (outputs["replaced"], batch["padding_mask"]))
        found, count = ops.sum(ops.binary_crossentropy(replaced, logits, from_logits=True) * real), ops.sum(real)
        right = ops.cast(ops.equal(logits > 0, outputs["replaced"]), "float32")
        loss, accuracy = score_classes(*guess)
        return (
            {"masked_lm": loss, "replaced_tokens": (self.weight * found, count)},
            {
                "masked_lm_accuracy": accuracy,
                "replaced_accuracy": (ops.sum(right * real), count),
                "replaced_auc": area_under_roc(replaced, logits, real),
            },
        )

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(outputs["generator_logits"], axis=-1)}


def sample(logits, draws):
    """Returns a token for each row of logits, by the inverse of the cumulative distribution.

    Args:
        logits: float32 (B, P, V).
        draws: float32 (B, P), uniform in [0, 1).

    Returns:
        int32 (B, P)
    """
    below = ops.cumsum(ops.softmax(logits, axis=-1), axis=-1) <= ops.expand_dims(draws, -1)  # (B, P, V)
    # Rounding may leave the whole sum below a draw.
    return ops.minimum(ops.sum(ops.cast(below, "int32"), axis=-1), logits.shape[-1] - 1)


def put(token_ids, batch, values):
    """Returns `token_ids` (B, L) with `values` (B, P) at the masked positions of a batch."""
    length = ops.shape(token_ids)[1]
    real = ops.cast(batch["label_weights"] > 0, "int32")
    places = ops.expand_dims(ops.cast(batch["mask_positions"], "int32"), -1)  # (B, P, 1)
    at = ops.cast(ops.equal(places, ops.arange(length, dtype="int32")), "int32") * ops.expand_dims(
        real, -1
    )  # (B, P, L)
    there = ops.sum(at, axis=1)  # (B, L), 1 where a token is masked
    return token_ids * (1 - there) + ops.sum(at * ops.expand_dims(values, -1), axis=1)
