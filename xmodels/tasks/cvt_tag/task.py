"""Tag every word of a text, learnt from texts without tags too, by modules that see a part of them (Clark et al., 2018)."""

from xmodels.layers.prediction_module import PredictionModule
from xmodels.objectives.measures import ALL, smoothed_cross_entropy
from xmodels.tasks.tag.task import Tag

SMOOTHING = 0.1  # of tags, in the released code; what the network itself predicts is not smoothed


class CvtTag(Tag):
    """The primary module of Cross-View Training: a hidden layer and an output layer on both layers of the encoder.

    The tag of a word has a probability of 0.9 in the loss, and the rest is spread over all tags.

    Args:
        config, labels, reading, settings: as of `Tag`; of the settings only how long texts are read.
    """

    title = "Tagger of words that has learnt from texts without tags too"

    def make_head(self, config):
        self.module_dim = config.output_dim  # of the hidden layer, also of modules that see less
        return PredictionModule(self.module_dim, len(self.label_names), name="head")

    def score(self, outputs, batch, backbone):
        losses, metrics = super().score(outputs, batch, backbone)
        weights = self.word_weights(batch)
        return losses | {
            "tag": smoothed_cross_entropy(batch["labels"], outputs["logits"], weights, SMOOTHING, over=ALL)
        }, metrics
