"""Classify a text, or a pair of texts, with early exit as soon as the label is certain: FastBERT (Liu et al., 2020)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.attention.visible import Visible
from xmodels.layers.branches import BranchClassifier, leaves, uncertainty
from xmodels.tasks.classify.task import Classify


class FastClassify(Classify):
    """A classifier behind every layer of an encoder: the teacher behind the last one, students behind the others.

    As an objective it is the first of two ways to learn: network and teacher, from labels. `distillation.Distil` is the second.

    Args:
        config, labels, reading: as of `Classify`; the pooling of `reading` is that of each classifier, by default the first token.
    """

    title = "Text classifier that lets easy texts leave early"
    signature = {
        **Classify.signature,
        "exit_layers": Feature(()),
        "uncertainties": Feature((), "float32"),
    }

    def add_head(self, config, num_outputs, reading):
        self.reading, dropout = reading, config.dropout
        self.branches = [
            BranchClassifier(num_outputs, reading.pooling, dropout, name=f"branch_{index}")
            for index in range(config.num_layers)
        ]

    @property
    def teacher(self) -> BranchClassifier:
        return self.branches[-1]

    @property
    def students(self) -> list[BranchClassifier]:
        return self.branches[:-1]

    def forward(self, backbone, batch, training=None):
        outputs = self.reading.states(backbone, batch, training)
        states, mask = outputs["sequence_output"], batch["padding_mask"]
        return {**outputs, "logits": self.teacher(states, mask, training=training)}

    def exits(self, backbone, batch, training=None):
        """Returns what each classifier says: float32 (B, layers, C). Network and teacher never drop anything; `training` is
        that of the students."""
        mask = batch["padding_mask"]
        x, visible, found = backbone.embed(batch, False), Visible(mask), []
        for layer, branch in zip(backbone.passes, self.branches, strict=True):
            x = layer(x, visible=visible, training=False)
            found.append(branch(x, mask, training=training and branch is not self.teacher))
        return ops.stack(found, axis=1)

    def select(self, exits, speed):
        """Returns that of what each classifier says (B, layers, C), what counts at a speed: that of the first one which is
        certain enough, else the teacher's. Shapes do not depend on the speed."""
        uncertainties = uncertainty(exits)  # (B, layers)
        last = ops.arange(exits.shape[1]) == exits.shape[1] - 1  # (layers,)
        layers = ops.argmax(ops.cast(ops.logical_or(leaves(uncertainties, speed), last), "int32"), axis=1)  # (B,)
        return {
            "logits": ops.squeeze(ops.take_along_axis(exits, ops.reshape(layers, (-1, 1, 1)), axis=1), 1),
            "exit_layers": ops.cast(layers, "int32"),
            "uncertainties": ops.squeeze(ops.take_along_axis(uncertainties, ops.reshape(layers, (-1, 1)), axis=1), 1),
        }

    def predict(self, outputs):
        """Returns `outputs` are those of `forward` or of `select`."""
        others = {name: outputs[name] for name in ("exit_layers", "uncertainties") if name in outputs}
        return {**super().predict(outputs), **others}
