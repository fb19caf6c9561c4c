"""What a network learns: the corruption of its inputs, the head on top of it, and its losses and metrics."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.features import Feature, Features
from xmodels.layers import costs


class Objective(keras.layers.Layer):
    """Base class of training objectives. Methods are called by name, never through `__call__`.

    `reads` declares the features that the records must hold. `transform()` returns the op that turns them into the
    features that `forward` and `score` take: those that the backbone reads, and `needs`. `classes` describes features that
    hold one class per example, for reports: {feature: (title, names of the classes)}.
    """

    reads: ClassVar[Features] = {}
    needs: ClassVar[Features] = {}
    classes: ClassVar[Mapping[str, tuple[str, Sequence[str]]]] = {}
    # Weights of which a batch reads few rows, by their names in `named_weights`.
    sparse_tables: ClassVar[tuple[str, ...]] = ()
    # The neighbours from which a baseline of counts may predict a token: "both" (one on each side) or "before" (the two
    # before it). None: the objective predicts no tokens.
    context: ClassVar[str | None] = None
    accuracy: ClassVar[str | None] = None  # the metric that is the accuracy of the predicted tokens
    sums_examples: ClassVar[bool] = False  # the loss of a step is the sum over its examples instead of their mean

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.built = True  # an objective has no `call`; its heads build themselves

    @property
    def label(self) -> str:
        """The class name in snake case, such as `masked_lm` for `MaskedLM`. Names the weights in a checkpoint."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def parts(self) -> list["Objective"]:
        """The objectives that this one combines; by default only itself."""
        return [self]

    @property
    def prefix(self) -> str:
        """The prefix of the names of the weights in a checkpoint."""
        return f"objective.{self.label}"

    def transform(self):
        """Returns an op on batches of features; by default the identity."""
        return lambda features: features

    def batch_features(self, backbone) -> tuple[str, ...]:
        """Returns names of the features of a batch that `forward` and `score` read; only these are copied to the devices."""
        return tuple({**backbone.reads, **backbone.may_read, **self.needs, "example_weights": Feature((), "float32")})

    def forward(self, backbone, batch, training=None):
        """Returns the outputs of the backbone. Override for a special mask or for several passes."""
        return backbone(batch, training=training)

    @property
    def fixed_weights(self) -> list:
        """The weights of other networks that the objective computes with; they neither learn nor are saved."""
        return []

    def teach(self, batch) -> dict:
        """Returns what such networks say of a batch, without a gradient; by default there are none, and it is {}."""
        return {}

    def score(self, outputs, batch, backbone):
        """Returns the losses and the metrics of one batch.

        Returns:
            Two dictionaries from names to (sum, weight), scalars. The training step divides by the weight summed over all
            replicas and micro-batches, so the weights may depend on the batch only, not on the outputs.

        Raises:
            TypeError: the subclass does not define it.
        """
        raise TypeError(f"{type(self).__name__} must define `score`.")

    def run(self, backbone, batch, training=None):
        """Runs the network on a batch and scores it.

        Returns:
            The outputs; the losses, followed by the costs that layers add (`layers.costs`); and the metrics.

        Raises:
            ValueError: a layer adds a cost under the name of a loss or of a metric.
        """
        with costs.collect() as added:
            outputs = self.forward(backbone, batch, training=training)
            losses, metrics = self.score(outputs, batch, backbone)
        if taken := sorted(added.keys() & (losses.keys() | metrics.keys())):
            raise ValueError(
                f"A layer adds a cost named {taken[0]!r}, but the objective {self.label} has a loss or metric of that name. Give "
                "the cost another name."
            )
        return outputs, losses | added, metrics

    def counts(self, batch) -> dict:
        """Returns how many units of the log a batch holds: {unit: (count without padding, count with padding)}.

        The speed of training is measured in the first unit. By default there is one, tokens: those that `padding_mask` marks,
        and all positions.
        """
        real = ops.cast(batch["padding_mask"], "float32")
        return {"tokens": (ops.sum(real), ops.cast(ops.size(real), "float32"))}

    def predictions(self, outputs, batch, backbone):
        """Returns predictions for features of the batch: {feature: int array of its shape}; by default {}.

        A second head that predicts the same labels uses a name of its own, with -1 where it makes no prediction. The samples in
        the log and in reports show the predictions.
        """
        return {}

    def target_visibility(self, batch):
        """Returns which tokens each target may attend to: {"target_visibility": bool (B, P, L)}; {} if it may attend to all.

        Reports show it next to the predictions.
        """
        return {}


class Together(Objective):
    """Combines objectives that share one forward pass; their losses are added.

    Args:
        parts: the objectives.

    Raises:
        ValueError: a part overrides `forward`, so the pass cannot be shared.
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
    """Combines objectives that share one forward pass, such as masked LM and next sentence prediction."""
    return Together(parts, name="objective")
