"""How well networks predict a stream: with a memory of some length, in segments, and in windows that slide."""

import dataclasses
import os

import numpy as np
import tensorflow as tf
from keras import ops

from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.runs import frame_run
from data_pipelines.records.source import RecordSource
from xmodels.models import folder
from xmodels.runs import loaded as loading

BLOCK = 10  # segments one after the other, that count as one part of a text


def load(run: str, **changes):
    """The network of a run, with other settings than it was trained with, and its objective."""
    loaded = loading.load(run, lambda found, config: dataclasses.replace(config, **changes))
    return loaded.backbone, loaded.objective()


def losses(objective, backbone, states, labels):
    """Nats of each label: float32 (B, N)."""
    logs = ops.log_softmax(objective.logits(states, backbone), axis=-1)
    return -ops.take_along_axis(logs, ops.expand_dims(labels, -1), axis=-1)[..., 0]


def over_seeds(scores: list[dict]) -> dict:
    """Scores of runs that differ by their seed, as one: means, and the nats of each run (`by_seed`)."""
    found = {"nats": float(np.mean([each["nats"] for each in scores])), "by_seed": [each["nats"] for each in scores]}
    for name in ("places", "segments"):
        if name in scores[0]:
            found[name] = np.mean([each[name] for each in scores], axis=0).tolist()
    return found


def gain(longer: dict, shorter: dict) -> tuple[float, float]:
    """By what share a longer memory lowers the loss, and the standard error of that.

    Both read the same tokens, so that what counts is how the difference varies from one part of the text to the next.
    """
    parts = [np.array(each["segments"])[: len(each["segments"]) // BLOCK * BLOCK] for each in (longer, shorter)]
    shares = ((parts[1] - parts[0]) / shorter["nats"]).reshape(-1, BLOCK).mean(1)
    return 1 - longer["nats"] / shorter["nats"], float(shares.std(ddof=1) / np.sqrt(len(shares)))


def with_memory(run: str, records: str, memory_length: int, changes: dict, rows: int = 8) -> dict:
    """Mean nats of a token (`nats`), also at each place of a segment (`places`) and of each step (`segments`), which is the next
    segment of each row, of a stream that is read in `rows` parts.

    The segments are as long as those that the network has learnt from; the memory need not be. `changes` are settings of the
    network that evaluation may choose.
    """
    backbone, objective = load(run, **changes)

    @tf.function
    def step(batch, past):
        outputs = backbone({**batch, **past})
        found = losses(objective, backbone, outputs["sequence_output"], batch["labels"])
        return found * batch["label_weights"], {name: outputs[name] for name in past}

    past, sums, weights = backbone.initial_memory(rows, memory_length) if memory_length else {}, [], []
    for batch in segments_of(records, rows):
        found, past = step(batch, past)
        sums.append(found.numpy().sum(0, dtype=float))
        weights.append(batch["label_weights"].numpy().sum(0, dtype=float))
    whole = [step for step, weight in enumerate(weights) if weight.sum()]  # the last one may hold nothing
    return _means(sum(sums), sum(weights)) | {"segments": [sums[step].sum() / weights[step].sum() for step in whole]}


def in_segments(run: str, records: str, rows: int = 8) -> dict:
    """The same of a network without memory: every segment begins anew."""
    backbone, objective = load(run)

    @tf.function
    def step(batch):
        found = losses(objective, backbone, backbone(batch)["sequence_output"], batch["labels"])
        return found * batch["label_weights"]

    sums, weights = 0.0, 0.0
    for batch in segments_of(records, rows):
        sums, weights = sums + step(batch).numpy().sum(0, dtype=float), weights + batch["label_weights"].numpy().sum(0)
    return _means(sums, weights)


def _means(sums: np.ndarray, weights: np.ndarray) -> dict:
    return {"nats": float(sums.sum() / weights.sum()), "places": (sums / weights).tolist()}


def in_windows(run: str, records: str, stride: int, rows: int = 64) -> dict:
    """Mean nats of a token where a window moves on by `stride` tokens and only its last `stride` places count.

    So each token sees at least length - `stride` tokens before it.
    """
    backbone, objective = load(run)
    ids, labels = _stream(records)
    length = backbone.config.max_sequence_length

    @tf.function(reduce_retracing=True)
    def step(token_ids, labels):
        batch = {"token_ids": token_ids, "padding_mask": tf.ones_like(token_ids, tf.bool)}
        states = backbone(batch)["sequence_output"][:, -stride:]
        return losses(objective, backbone, states, labels[:, -stride:])

    ends = np.arange(length, len(ids) + 1, stride)
    index = ends[:, None] + np.arange(-length, 0)  # (W, length)
    total = 0.0
    for first in range(0, len(index), rows):
        part = index[first : first + rows]
        total += float(tf.reduce_sum(step(ids[part], labels[part])))
    return {"nats": total / (len(index) * stride)}


def segments_of(records: str, rows: int) -> Batches:
    """A stream that is read in `rows` parts: batches of the next segment of each."""
    source = RecordSource(records)
    return Batches(source, frame_run(source.manifest.settings.max_sequence_length), rows).once()


def _stream(records: str) -> tuple[np.ndarray, np.ndarray]:
    """All inputs of a stream, and what follows each: int32 (T,)."""
    found = [(b["token_ids"][0], b["labels"][0], b["label_weights"][0] > 0) for b in segments_of(records, 1)]
    ids, labels = (np.concatenate([row[i][row[2]] for row in found]) for i in (0, 1))
    return ids.astype(np.int32), labels.astype(np.int32)


def parameters(run: str) -> int:
    """How many numbers a run has learnt, those of its objective included."""
    return sum(v.size for v in folder.read_weights(os.path.join(run, "backbone", folder.WEIGHTS)).values())
