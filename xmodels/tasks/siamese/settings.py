"""What makes two Siamese networks different: the loss, and the steps from the pooled state to the vector of a text."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from data_pipelines.errors import UsageError
from data_pipelines.schema import Constraint, whole

LABEL, SCORE, MATCH, POSITIVE = "label", "score", "match", "positive"  # what a row says of its texts


@dataclasses.dataclass(frozen=True)
class Loss:
    """What a loss needs.

    Attributes:
        rows: LABEL: the name of a class; SCORE: a number; MATCH: 0 or 1; POSITIVE: nothing, the first two texts match.
        decisive: the score that chooses the epoch.
        margin: the usual one; None where the loss has none.
    """

    rows: str
    decisive: str
    margin: float | None = None


LOSSES: Mapping[str, Loss] = {
    "multiple_negatives": Loss(POSITIVE, "mrr"),
    "classification": Loss(LABEL, "accuracy"),
    "cosine": Loss(SCORE, "spearman"),
    "contrastive": Loss(MATCH, "average_precision", margin=0.5),
    "online_contrastive": Loss(MATCH, "average_precision", margin=0.5),
    "triplet": Loss(POSITIVE, "triplet_accuracy", margin=1.0),
}
FEATURES = ("u", "v", "difference", "product")  # of the vectors of both texts: u, v, |u - v|, u * v
ACTIVATIONS = ("tanh", "linear")
SCALE = 20.0
DEFAULT = next(iter(LOSSES))
DISTANCES = ("cosine", "euclidean")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What stands in the task.json of a run.

    Attributes:
        loss: of `LOSSES`; that of the training.
        normalize: whether vectors have the length 1.
        projection_dim: the width of a Dense layer behind the pooling; None where there is none.
        projection_activation: of that layer.
        features: what the classifier reads, some of `FEATURES`.
        threshold: texts match whose cosine is not below it; None where no evaluation file has chosen one.
    """

    loss: Annotated[str, Constraint(lambda name: name in LOSSES, f"one of {', '.join(LOSSES)}")] = "multiple_negatives"
    normalize: bool = False
    projection_dim: whole(1) | None = None
    projection_activation: Annotated[str, Constraint(lambda name: name in ACTIVATIONS, "tanh or linear")] = "tanh"
    features: Annotated[
        list[str], Constraint(lambda names: names and set(names) <= set(FEATURES), f"some of {', '.join(FEATURES)}")
    ] = dataclasses.field(default_factory=lambda: ["u", "v", "difference"])
    threshold: float | None = None


@dataclasses.dataclass(frozen=True)
class PairLoss:
    """A loss of pairs of vectors with its numbers, the `task_loss` of a `FineTuning`. Nothing but training needs the numbers.

    Attributes:
        name: of `LOSSES`.
        scale: multiplies cosines before a softmax.
        margin: of the losses that have one; None for the usual one.
        distance: of contrastive losses: `cosine`, which is 1 - cosine, or `euclidean`.
        symmetric: whether the second texts look for the first ones too.
    """

    name: str = DEFAULT
    scale: float = SCALE
    margin: float | None = None
    symmetric: bool = False
    distance: str = DISTANCES[0]


def loss_of(options, of_recipe: PairLoss | None = None) -> PairLoss:
    """Returns the loss that the flags of `finetune` say.

    Args:
        of_recipe: the loss of the system's recipe, where the flags name none; its numbers hold where no flag gives others.
    """
    found = (
        of_recipe
        if of_recipe and options.siamese_loss in (None, of_recipe.name)
        else PairLoss(options.siamese_loss or DEFAULT)
    )
    flags = {name: getattr(options, f"siamese_{name}") for name in ("scale", "margin", "distance")}
    given = {name: value for name, value in flags.items() if value is not None}
    return dataclasses.replace(found, **given, symmetric=found.symmetric or options.siamese_symmetric)


def settings_of(options, of_recipe: PairLoss | None = None) -> tuple[Settings, PairLoss]:
    """Returns what the flags of `finetune` say.

    Args:
        of_recipe: as for `loss_of`.

    Raises:
        UsageError: a flag that the loss has no use for, or unknown features.
    """
    loss = loss_of(options, of_recipe)
    name = loss.name
    softmax, classifies = name == "multiple_negatives", name == "classification"
    unused = {
        "siamese_scale": options.siamese_scale is not None and not softmax,
        "siamese_symmetric": options.siamese_symmetric and not softmax,
        "siamese_margin": options.siamese_margin is not None and LOSSES[name].margin is None,
        "siamese_distance": options.siamese_distance is not None and LOSSES[name].rows != MATCH,
        "siamese_features": options.siamese_features is not None and not classifies,
        "max_score": options.max_score is not None and LOSSES[name].rows != SCORE,
    }
    for flag in (flag for flag, wrong in unused.items() if wrong):
        raise UsageError(f"--{flag}: --siamese_loss={name} has no such number. Leave it out.")
    features = [each.strip() for each in (options.siamese_features or "u,v,difference").split(",")]
    if len(set(features)) < len(features) or not set(features) <= set(FEATURES):
        raise UsageError(
            f"--siamese_features={options.siamese_features}: expected some of {', '.join(FEATURES)}, each once, parted by commas."
        )
    return Settings(name, options.normalize_vectors, options.projection_dim, features=features), loss
