"""How often words stand near each other in the whole corpus (GloVe).

A record holds some pairs of words, drawn from all pairs, and how much each counts.
"""

import dataclasses

import numpy as np

from data_pipelines.features import Feature
from data_pipelines.layout import Layout, Merge
from data_pipelines.pretraining import sorted_sums
from data_pipelines.pretraining.stages.pair_counts import both_ways, pair_counts, pairs_of
from data_pipelines.pretraining.stages.pipe import in_batches

PAIRS = 1024  # in a record; the last one of a shard has fewer
TOGETHER = 256  # records that are encoded at once


@dataclasses.dataclass(frozen=True)
class Numbers:
    """`window` is the largest distance of a pair. A pair counts 1 / distance, or 1 if not `weighted`. If not `symmetric`, the
    context of a word is what follows it."""

    window: int = 15
    symmetric: bool = True
    weighted: bool = True

    def __post_init__(self):
        if self.window < 1:
            raise ValueError("`window` must be 1 or more.")


def features(settings):
    return {
        "center_ids": Feature((None,)),
        "context_ids": Feature((None,)),
        "pair_weights": Feature((None,), "float32"),
    }


def stage(settings, vocabulary, rng):
    numbers = settings.numbers
    left_out = np.array(sorted(vocabulary.special_ids))
    return pair_counts(numbers.window, numbers.symmetric, numbers.weighted, left_out, len(vocabulary))


def collect(batches, path, settings, statistics):
    statistics["collected_pairs"] += sorted_sums.write(batches, path)


def shard(paths, index, settings):
    """Yields the pairs of a part of all keys, in batches of whole records but for the last."""
    size, rest = PAIRS * TOGETHER, np.zeros(0, sorted_sums.ENTRY)
    for some in in_batches(_pairs(paths, index, settings), len, size):
        together = np.concatenate([rest, *some])
        whole = len(together) - len(together) % size
        yield from (together[begin : begin + size] for begin in range(0, whole, size))
        rest = together[whole:]
    if len(rest):
        yield rest


def _pairs(paths, index, settings):
    """Yields the pairs of a part of all keys, a few at a time; those the other way round come soon after."""
    for entries in sorted_sums.merge(paths, index, len(paths)):
        for begin in range(0, len(entries), PAIRS * TOGETHER):
            some = entries[begin : begin + PAIRS * TOGETHER]
            yield both_ways(some) if settings.numbers.symmetric else some


def columns(settings, entries, statistics):
    records = -(-len(entries) // PAIRS)
    lengths = np.full(records, PAIRS)
    lengths[-1] -= records * PAIRS - len(entries)
    statistics["examples"] += records
    statistics["pairs"] += len(entries)
    centers, contexts = pairs_of(entries["key"])
    return {
        "center_ids": (centers, lengths),
        "context_ids": (contexts, lengths),
        "pair_weights": (entries["sum"].astype(np.float32), lengths),
    }


def num_pairs(parsed):
    import tensorflow as tf  # here, so that processes that write records need not

    return tf.math.count_nonzero(parsed["pair_weights"], axis=1)


def faults(values, settings):
    """Yields the records whose weights are no counts."""
    weights = values["pair_weights"]
    wrong = ~(np.isfinite(weights) & (weights >= 0)).all(axis=1)
    yield wrong, lambda n: "holds a weight of a pair that is negative or not finite"


def show(record, tokens):
    """Returns the first pairs of a record, a line each."""
    ids = zip(record["center_ids"], record["context_ids"], record["pair_weights"], strict=True)
    lines = [f"{tokens[center]} · {tokens[context]}  {weight:g}" for center, context, weight in ids if weight]
    return "\n".join([*lines[:10], f"and {len(lines) - 10:,} pairs more"] if len(lines) > 10 else lines)


def report(manifest):
    counts = manifest.statistics
    return [f"pairs of words {counts['pairs']:,}, merged from {counts['collected_pairs']:,} of the parts of the corpus"]


LAYOUT = Layout(
    features=features,
    stage=stage,
    columns=columns,
    merge=Merge(collect, shard),
    numbers=Numbers,
    lengths=num_pairs,
    measured=("pair_weights",),
    width=lambda max_sequence_length: PAIRS,
    ids=("center_ids", "context_ids"),
    faults=faults,
    show=show,
    report=report,
)
