"""Siamese networks as sentence encoders, which formats of others have; a classifier that they were trained with has no place there."""

import dataclasses
from collections.abc import Mapping

from data_pipelines.schema import Location, convert
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.sentence_encoder import SentenceEncoder
from xmodels.tasks.base.description import TaskDescription
from xmodels.tasks.siamese.settings import Settings

TASK, PROJECTION = "siamese", "objective.siamese.projection"


def to_encoder(checkpoint: Checkpoint, settings: Mapping, pooling: str, max_sequence_length: int) -> SentenceEncoder:
    """Returns a run as a sentence encoder.

    Args:
        checkpoint: with the weights of the task.
        settings: of its task.json.
    """
    known = convert(dict(settings), Settings, Location("task.json").at("settings"))
    dense = None
    if known.projection_dim:
        kernel, bias = (checkpoint.values[f"{PROJECTION}.{name}"] for name in ("kernel", "bias"))
        dense = kernel, bias, known.projection_activation
    return SentenceEncoder(checkpoint.without_heads(), pooling, max_sequence_length, dense, known.normalize)


def from_encoder(made: SentenceEncoder, pooling: str | None, system: str) -> tuple[Checkpoint, TaskDescription]:
    """Returns the network with the weights of the task, and the task.json of a run.

    Args:
        pooling: as a model folder names it: None where it is what the paper of the system reads.
    """
    values, settings = dict(made.encoder.values), Settings(normalize=made.normalize)
    if made.dense:
        kernel, bias, activation = made.dense
        values |= {f"{PROJECTION}.kernel": kernel, f"{PROJECTION}.bias": bias}
        settings = dataclasses.replace(settings, projection_dim=kernel.shape[1], projection_activation=activation)
    heads = frozenset({TASK} if made.dense else ())
    checkpoint = dataclasses.replace(made.encoder, values=values, heads=heads, pooling=pooling, system=system)
    return checkpoint, TaskDescription(TASK, [], 2, made.max_sequence_length, settings=dataclasses.asdict(settings))
