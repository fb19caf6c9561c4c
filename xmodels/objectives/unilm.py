"""UniLM's objectives: masked LM with the attention masks of four language models (Dong et al., 2019, section 2.3)."""

from keras import ops

from data_pipelines.features import BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT, SEQ2SEQ, Feature
from xmodels.layers.attention.visible import Visible
from xmodels.layers.heads import MaskedLMHead
from xmodels.layers.rows import take_rows
from xmodels.objectives.base import Objective, Together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.measures import score_smoothed
from xmodels.objectives.next_sentence import NextSentence

MASK_FEATURES = {"objective_ids": Feature(()), "source_lengths": Feature(())}


def visible_of(batch) -> Visible:
    """Returns which tokens each token attends to, by the language model of the example (figure 1).

    Bidirectional: all tokens. Left to right: itself and those before it. Right to left: itself and those after it. Sequence to
    sequence: source tokens attend to the source, target tokens also to themselves and to the target before them.

    Args:
        batch: with `objective_ids` int (B,), `source_lengths` int (B,) and `padding_mask` bool (B, L).
    """
    objective = ops.expand_dims(batch["objective_ids"], 1)  # (B, 1)
    source = ops.expand_dims(ops.cast(batch["source_lengths"], "int32"), 1)
    place = ops.expand_dims(ops.arange(ops.shape(batch["padding_mask"])[1], dtype="int32"), 0)  # (1, L)
    # A token attends to those whose order is not above its own.
    order = ops.where(objective == LEFT_TO_RIGHT, place, 0)
    order = ops.where(objective == RIGHT_TO_LEFT, -place, order)
    order = ops.where(objective == SEQ2SEQ, ops.maximum(place - source + 1, 0), order)
    return Visible(batch["padding_mask"], order=order)


def visible_to_targets(batch):
    """Returns which tokens each masked token attends to, bool (B, P, L)."""
    length = batch["padding_mask"].shape[1]
    visible = visible_of(batch).dense(length, length)[:, 0]  # (B, L, L)
    return take_rows(visible, batch["mask_positions"])


class Unilm(Together):
    """Masked LM as one of four language models, and next sentence prediction on the bidirectional examples.

    `corrupt` is an op as in `MaskedLM`. The frame of the records draws which language model an example trains.
    """

    classes = {"objective_ids": ("language model", ("bidirectional", "left to right", "right to left", "seq2seq"))}

    def __init__(self, config, corrupt=None, **kwargs):
        super().__init__([MaskedLM(config, corrupt), NextSentence(config)], **kwargs)

    @property
    def needs(self):
        return {**super().needs, **MASK_FEATURES}

    def forward(self, backbone, batch, training=None):
        return backbone(batch, visible=visible_of(batch), training=training)

    def score(self, outputs, batch, backbone):
        bidirectional = ops.cast(ops.equal(batch["objective_ids"], BIDIRECTIONAL), "float32")
        losses, metrics = self.masked_lm.score(outputs, batch, backbone)
        pairs = {**batch, "example_weights": ops.cast(batch["example_weights"], "float32") * bidirectional}
        pair_losses, pair_metrics = self.next_sentence.score(outputs, pairs, backbone)
        return losses | pair_losses, metrics | pair_metrics

    def predictions(self, outputs, batch, backbone):
        return self.masked_lm.predictions(outputs, batch, backbone)  # few examples train next sentence prediction

    def target_visibility(self, batch):
        return {"target_visibility": visible_to_targets(batch)}


class TargetMaskedLM(MaskedLM):
    """Masked LM of a target that follows its source, with label smoothing: fine-tunes UniLM to generate text (section 2.5).

    Its head is that of pretraining.

    Args:
        corrupt: an op as in `MaskedLM`.
        label_smoothing: the probability that is spread over the tokens other than the label.
        padding_id: the id of `[PAD]`, which gets none of that probability, as in the released code.
    """

    label = "masked_lm"

    def __init__(self, config, corrupt=None, label_smoothing: float = 0.1, padding_id: int = 0, **kwargs):
        super().__init__(config, corrupt, **kwargs)
        self.label_smoothing, self.padding_id = label_smoothing, padding_id

    @property
    def needs(self):
        return {**MaskedLM.needs, **MASK_FEATURES}

    def forward(self, backbone, batch, training=None):
        return backbone(batch, visible=visible_of(batch), training=training)

    def score(self, outputs, batch, backbone):
        answer = batch["labels"], self.logits(outputs, batch, backbone), batch["label_weights"]
        loss, plain, accuracy = score_smoothed(*answer, self.label_smoothing, self.padding_id)
        return {"masked_lm": loss}, {"negative_log_likelihood": plain, "masked_lm_accuracy": accuracy}

    def target_visibility(self, batch):
        return {"target_visibility": visible_to_targets(batch)}


class NextToken(Objective):
    """The head of the masked LM for generation: predicts the token at a `[MASK]`."""

    label = "masked_lm"

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.head = MaskedLMHead(config, name="head")
        self.head.dense.build((None, None, config.hidden_dim))
        self.head.norm.build((None, None, config.embedding_dim))

    def logits(self, states, backbone):
        """Returns the logits of one token per row: (B, D) -> float32 (B, V)."""
        here = ops.zeros((ops.shape(states)[0], 1), "int32")
        return self.head(ops.expand_dims(states, 1), here, token_embedding=backbone.embedding.token)[:, 0]
