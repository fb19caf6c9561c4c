"""What a network learns: the corruption it needs, the head it adds, and how it is scored."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.features import Feature, Features


class Objective(keras.layers.Layer):
    """One way to learn. Methods are called by name, never through `__call__`.

    `reads` says what the records must hold; `transform()` gives the op that turns them into what `forward` and `score`
    need: what the backbone reads, and `needs`. `classes` names the classes of a feature that holds one number: its title
    and the name of each value, for people.
    """

    reads: ClassVar[Features] = {}
    needs: ClassVar[Features] = {}
    classes: ClassVar[Mapping[str, tuple[str, Sequence[str]]]] = {}
    sparse_tables: ClassVar[tuple[str, ...]] = ()  # weights, by `named_weights`, of which a batch reads few rows
    # What a token may be told by, of those beside it: "both" neighbours, or the two "before". None: it names no tokens.
    context: ClassVar[str | None] = None
    accuracy: ClassVar[str | None] = None  # the metric that counts the tokens that it names rightly
    sums_examples: ClassVar[bool] = False  # is the loss of a step the sum over its examples, and not their mean?

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.built = True  # it has no call; the heads below it build themselves

    @property
    def label(self) -> str:
        """The class name in snake case: `masked_lm` for `MaskedLM`. Names its weights in a checkpoint."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def parts(self) -> list["Objective"]:
        """The objectives that it joins; by default itself."""
        return [self]

    @property
    def prefix(self) -> str:
        """Leads the names of its weights in a checkpoint."""
        return f"objective.{self.label}"

    def transform(self):
        """An op on batches of features; by default nothing changes."""
        return lambda features: features

    def batch_features(self, backbone) -> tuple[str, ...]:
        """The features of a batch that `forward` and `score` read; others need not travel to the devices."""
        return tuple({**backbone.reads, **backbone.may_read, **self.needs, "example_weights": Feature((), "float32")})

    def forward(self, backbone, batch, training=None):
        """Calls the backbone. Override for a special mask or for several passes."""
        return backbone(batch, training=training)

    def score(self, outputs, batch, backbone):
        """Losses and metrics of one batch.

        Returns:
            Two dictionaries from names to (sum, weight). The training step divides by the weight summed over all
            replicas and micro-batches, so the weights may depend on the batch only, not on the outputs.
        """
        raise TypeError(f"{type(self).__name__} must define `score`.")

    def counts(self, batch) -> dict:
        """What a batch holds of the units of the log, the first of which measures speed: {unit: (real ones, all)}.

        By default tokens: those that `padding_mask` marks, and all positions.
        """
        real = ops.cast(batch["padding_mask"], "float32")
        return {"tokens": (ops.sum(real), ops.cast(ops.size(real), "float32"))}

    def predictions(self, outputs, batch, backbone):
        """Predictions for features of the batch: {name of the feature: int array of its shape}; by default {}.

        A second head that predicts the same labels has a name of its own, and -1 where it makes no prediction. Reports and samples in
        the log show them.
        """
        return {}

    def target_visibility(self, batch):
        """Which tokens each target may attend to: {"target_visibility": bool (B, P, L)}; {} where it may attend to all.

        Reports show it beside the predictions.
        """
        return {}


class Together(Objective):
    """Several objectives on one pass through the network; their losses are added.

    Raises:
        ValueError: a part has a `forward` of its own, so that there is no one pass.
    """

    def __init__(self, parts, **kwargs):
        super().__init__(**kwargs)
        own = [type(part).__name__ for part in parts if type(part).forward is not Objective.forward]
        if own:
            raise ValueError(
                "Objectives that are joined share one pass through the network, so none may define `forward`. "
                f"Received: {', '.join(own)}. Give such an objective a stream of its own, or write one objective that does both."
            )
        for part in parts:
            setattr(self, part.label, part)
        self._parts = list(parts)

    @property
    def prefix(self):
        return "objective"

    @property
    def parts(self):
        return self._parts

    @property
    def reads(self):
        return {name: feature for part in self._parts for name, feature in part.reads.items()}

    @property
    def needs(self):
        return {name: feature for part in self._parts for name, feature in part.needs.items()}

    @property
    def classes(self):
        return {name: named for part in self._parts for name, named in part.classes.items()}

    @property
    def sparse_tables(self):
        return tuple(f"{part.label}.{name}" for part in self._parts for name in part.sparse_tables)

    def counts(self, batch):
        return self._parts[0].counts(batch)

    def transform(self):
        transforms = [part.transform() for part in self._parts]

        def op(features):
            for each in transforms:
                features = each(features)
            return features

        return op

    def score(self, outputs, batch, backbone):
        losses, metrics = {}, {}
        for part in self._parts:
            part_losses, part_metrics = part.score(outputs, batch, backbone)
            losses |= part_losses
            metrics |= part_metrics
        return losses, metrics

    def predictions(self, outputs, batch, backbone):
        return {n: value for part in self._parts for n, value in part.predictions(outputs, batch, backbone).items()}


def together(*parts: Objective) -> Together:
    """Joins objectives that share one forward pass, such as masked LM and next sentence."""
    return Together(parts, name="objective")
