"""Encode texts one by one with one network, and compare their vectors (Reimers and Gurevych, 2019)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.interfaces.reading import Reading
from xmodels.objectives.measures import weighted_accuracy, weighted_cross_entropy
from xmodels.tasks.base.sequences import rows, split_sequences
from xmodels.tasks.base.task import SummaryTask
from xmodels.tasks.siamese import losses
from xmodels.tasks.siamese.settings import LOSSES, MATCH, SCORE, PairLoss, Settings


class Siamese(SummaryTask):
    """The pooled state of a text, perhaps behind a Dense layer, is its vector; texts are as similar as the cosine of theirs.

    `token_ids` are (B, S, L), the sides of an example; one call of the network reads all of them. Or (B, L), texts to encode.

    Args:
        config: the configuration of the backbone.
        labels: the names of the classes, of the loss `classification`; else none.
        reading: how the network reads texts; by default as BERT does.
        settings: how vectors are made, and the loss.
        training: the loss with its numbers; by default the usual ones.
    """

    title = "Siamese network: an encoder of texts"
    signature = {"vectors": Feature((None,), "float32"), "scores": Feature((), "float32")}
    names_labels = False

    def __init__(self, config, labels=(), reading=None, settings=None, training=None, **kwargs):
        super().__init__(**kwargs)
        self._settings, self.training = settings or Settings(), training or PairLoss()
        self.loss = LOSSES[self._settings.loss]
        self.reading, pooling = (reading or Reading()).build_pooling(config)
        if pooling is not None:
            self.attention_pooling = pooling
        self.reading, mix = self.reading.build_layer_mix()
        if mix is not None:
            self.layer_mix = mix
        if width := self._settings.projection_dim:
            initializer, activation = self.reading.initializer(config), self._settings.projection_activation
            self.projection = keras.layers.Dense(width, activation, kernel_initializer=initializer, name="projection")
        if self._settings.loss == "classification":
            self.label_names = tuple(labels)
            initializer = self.reading.initializer(config)
            self.head = keras.layers.Dense(len(self.label_names), kernel_initializer=initializer, name="head")

    @property
    def settings(self) -> dict:
        return dataclasses.asdict(self._settings)

    @property
    def reads(self):
        labels = {"labels": Feature((), "float32" if self.loss.rows in (SCORE, MATCH) else "int32")}
        named = hasattr(self, "label_names") or self.loss.rows in (SCORE, MATCH)
        return {"token_ids": Feature((None, None))} | (labels if named else {})

    def forward(self, backbone, batch, training=None):
        sequences = rows(batch)
        outputs = self.reading.outputs(backbone, sequences, training)
        vectors = self.vectors(outputs, sequences)  # (B S, D)
        if len(batch["token_ids"].shape) == 2:
            return {**outputs, "vectors": vectors}
        vectors = split_sequences(vectors, batch["token_ids"].shape[1])  # (B, S, D)
        first, second = vectors[:, 0], vectors[:, 1]
        outputs = {**outputs, "vectors": vectors, "scores": losses.cosine(first, second)}
        if self._settings.loss == "classification":
            outputs["logits"] = ops.cast(self.head(self.compared(first, second)), "float32")  # (B, C)
        return outputs

    def vectors(self, outputs, sequences):
        """Returns the vector of each row, float32 (B, D)."""
        state = self.reading.summary(outputs, sequences)
        if self._settings.projection_dim:
            state = self.projection(state)
        state = ops.cast(state, "float32")
        return losses.normalized(state) if self._settings.normalize else state

    def compared(self, first, second):
        """Returns what the classifier reads of two vectors (B, D)."""
        made = {"u": first, "v": second, "difference": ops.abs(first - second), "product": first * second}
        return ops.concatenate([made[name] for name in self._settings.features], axis=-1)

    def score(self, outputs, batch, backbone):
        weights = ops.cast(batch["example_weights"], "float32")  # (B,)
        name, vectors, numbers = self._settings.loss, outputs["vectors"], self.training
        margin = self.loss.margin if numbers.margin is None else numbers.margin
        if name == "classification":
            answer = batch["labels"], outputs["logits"], weights
            return {name: weighted_cross_entropy(*answer)}, {"accuracy": weighted_accuracy(*answer)}
        if name == "triplet":
            return {name: losses.triplet(vectors, weights, margin)}, {}
        if name == "multiple_negatives":
            pair = vectors, batch["token_ids"]
            return {name: losses.multiple_negatives(*pair, weights, numbers.scale, numbers.symmetric)}, {}
        answer = ops.cast(batch["labels"], "float32"), weights
        if name == "cosine":
            return {name: losses.squared_cosine_error(outputs["scores"], *answer)}, {}
        distances = losses.DISTANCES[numbers.distance](vectors[:, 0], vectors[:, 1])  # (B,)
        chosen = losses.contrastive if name == "contrastive" else losses.online_contrastive
        return {name: chosen(distances, *answer, margin)}, {}

    def predictions(self, outputs, batch, backbone):
        if "logits" in outputs:
            return {"labels": ops.argmax(outputs["logits"], axis=-1)}
        return {"labels": outputs["scores"]} if "labels" in batch else {}

    def predict(self, outputs):
        found = {name: outputs[name] for name in ("vectors", "scores") if name in outputs}
        return found | ({"probabilities": ops.softmax(outputs["logits"], axis=-1)} if "logits" in outputs else {})
