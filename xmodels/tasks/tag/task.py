"""Tag every word of a text: named entities, chunks, parts of speech (Devlin et al., 2018, section 5.3)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.interfaces.reading import Reading, layers_of
from xmodels.layers.bilstm import BiLstm
from xmodels.layers.crf import LinearChain, first_words
from xmodels.layers.dropout import Dropout
from xmodels.layers.scalar_mix import ScalarMix
from xmodels.objectives.measures import weighted_accuracy, weighted_cross_entropy
from xmodels.tasks.base.global_tokens import mark, nothing
from xmodels.tasks.base.task import Task
from xmodels.tasks.tag.settings import Settings, may_stand

BILSTM_LAYERS = 2


class Tag(Task):
    """Dropout and one Dense layer on the state of each token. The first token of a word has its tag; others do not count.

    Tags are chosen one by one by a softmax, or with `settings.crf` together by a linear chain over the words. Either loss is a mean
    over words, and they are equal where all scores of the chain are 0. The state may be one of a frozen network, put together of
    several of its layers, and may go through a BiLSTM (section 5.3, the feature-based approach).

    Args:
        config: the configuration of the backbone.
        labels: the names of the C tags, in the order of their ids.
        reading: how the network reads texts; by default as BERT does.
        settings: how tags are chosen.
    """

    title = "Tagger of words"
    signature = {"label_ids": Feature((None,)), "probabilities": Feature((None,), "float32")}
    reads_states = True

    def __init__(self, config, labels, reading=None, settings=None, **kwargs):
        super().__init__(**kwargs)
        self.label_names, self._settings = tuple(labels), settings or Settings()
        self.reading, mix = (reading or Reading()).build_layer_mix()
        if mix is not None and not self._settings.feature_layers:
            self.layer_mix = mix
        self.head = self.make_head(config)
        self.dropout = Dropout(self.reading.dropout_rate(config))
        if len(self._settings.feature_layers) > 1 and self._settings.combine_layers != "concat":
            self.mix = ScalarMix(len(self._settings.feature_layers))
        if self._settings.combine_layers == "mix_both":
            self.output_mix = ScalarMix(len(self._settings.feature_layers))
        if self._settings.bilstm_dim:
            self.bilstm = BiLstm(self._settings.bilstm_dim, BILSTM_LAYERS, self.reading.dropout_rate(config))
        if self._settings.crf:
            self.crf = LinearChain(**may_stand(self.label_names))

    def make_head(self, config) -> keras.layers.Layer:
        """Returns the layer that scores the tags of each state: (B, L, D) -> (B, L, C)."""
        initializer = self.reading.initializer(config)
        return keras.layers.Dense(len(self.label_names), kernel_initializer=initializer, name="head")

    @property
    def settings(self) -> dict:
        return dataclasses.asdict(self._settings)

    @property
    def reads(self):
        found = {
            "token_ids": Feature((None,)),
            "labels": Feature((None,)),
            "label_weights": Feature((None,), "float32"),
        }
        return found | ({"word_ids": Feature((None,))} if self._settings.crf else {})

    def emissions(self, backbone, batch, training=None):
        """Returns what `reading` has of the backbone, with `logits`, float32 (B, L, C)."""
        outputs = self.states(backbone, batch, training)
        hidden = outputs["sequence_output"]  # (B, L, D)
        if self._settings.bilstm_dim:
            hidden = self.bilstm(hidden, batch["padding_mask"], training=training)
        if "output_mix" in outputs:  # (B, L, 2 * bilstm_dim + D)
            hidden = ops.concatenate([hidden, outputs.pop("output_mix")], axis=-1)
        hidden = self.dropout(hidden, training=training)
        return {**outputs, "logits": ops.cast(self.head(hidden), "float32")}

    def states(self, backbone, batch, training=None):
        """Returns what `reading` has of the backbone, with the states that the head reads as `sequence_output`, (B, L, D)."""
        numbers, batch = self._settings.feature_layers, mark(backbone, batch, nothing)
        if not numbers:
            return self.reading.states(backbone, batch, training and not self._settings.freeze_backbone)
        shown = layers_of(backbone, batch)
        layers = [shown[number] for number in numbers]
        if len(layers) == 1:
            return {"sequence_output": layers[0]}
        if self._settings.combine_layers == "concat":
            return {"sequence_output": ops.concatenate(layers, axis=-1)}
        further = {"output_mix": self.output_mix(layers)} if self._settings.combine_layers == "mix_both" else {}
        return {"sequence_output": self.mix(layers), **further}

    def forward(self, backbone, batch, training=None):
        outputs = self.emissions(backbone, batch, training)
        if not self._settings.crf:
            return outputs
        words = batch["label_weights"] > 0  # (B, L)
        first = ops.sum(ops.where(first_words(words), batch["word_ids"], 0), axis=1)  # (B,), of its text
        return {**outputs, "words": words, "opens": ops.equal(first, 0)}

    def word_weights(self, batch):
        """Returns what each place counts, float32 (B, L)."""
        return batch["label_weights"] * ops.expand_dims(ops.cast(batch["example_weights"], "float32"), 1)

    def score(self, outputs, batch, backbone):
        weights = self.word_weights(batch)
        answer = batch["labels"], outputs["logits"], weights
        metrics = {"emission_accuracy" if self._settings.crf else "accuracy": weighted_accuracy(*answer)}
        if not self._settings.crf:
            return {"tag": weighted_cross_entropy(*answer)}, metrics
        losses = self.crf.loss(outputs["logits"], batch["labels"], outputs["words"], outputs["opens"])  # (B,)
        total = ops.sum(losses * ops.cast(batch["example_weights"], "float32"))
        return {"tag": (total, ops.sum(weights))}, metrics

    def predict(self, outputs):
        """Returns the tag of each place of a window. With a chain, over the words that count there."""
        if not self._settings.crf:
            return likeliest(outputs["logits"])
        label_ids, probabilities = self.crf.decode(outputs["logits"], outputs["words"], outputs["opens"])
        return {"label_ids": label_ids, "probabilities": probabilities}

    def decode(self, logits, words):
        """Returns the tags of whole texts, and how likely each is.

        Args:
            logits: float32 (B, W, C), of the words of each text.
            words: bool (B, W), False on padding.

        Returns:
            label_ids int32 (B, W), probabilities float32 (B, W): of a softmax, or the marginals of the chain.
        """
        if not self._settings.crf:
            return likeliest(logits)
        label_ids, probabilities = self.crf.decode(logits, words, ops.any(words, axis=1))
        return {"label_ids": label_ids, "probabilities": probabilities}


def likeliest(logits):
    """Returns the tag of each place, and its probability by a softmax: (B, L, C) -> int32 and float32 (B, L)."""
    probabilities = ops.softmax(logits, axis=-1)
    label_ids = ops.cast(ops.argmax(probabilities, axis=-1), "int32")
    return {"label_ids": label_ids, "probabilities": ops.max(probabilities, axis=-1)}
