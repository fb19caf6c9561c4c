"""Checks the first batch against the network: with ids out of range a GPU silently computes nonsense, a CPU fails obscurely."""

from collections.abc import Mapping

import numpy as np

from data_pipelines.errors import DataError

WORDS = ("token_ids", "target_ids", "context_ids", "negative_ids")  # features that hold ids of tokens


def check_lengths(batch: Mapping, backbone, where: str = "The first batch") -> None:
    """Raises a DataError if rows, (B, L), are longer than the network's `max_sequence_length`."""
    if "token_ids" not in batch:
        return
    length, longest = batch["token_ids"].shape[1], backbone.config.longest
    if not (backbone.any_length or "position_ids" in batch or backbone.config.reads(length or 0)):
        raise DataError(
            f"{where}: `token_ids` has rows of {length}, but the network has {longest} positions (`max_sequence_length`). "
            f"Make the data with --max_seq_length={longest}, or take a network with more positions."
        )


def check_values(batch: Mapping[str, np.ndarray], backbone, objective) -> None:
    """Raises a DataError that names the first feature with values out of range, and these values."""
    config, names = backbone.config, getattr(objective, "label_names", None)
    check_lengths(batch, backbone)
    own = config.values().get("vocabulary_size", 0)  # networks of sets read no words
    size = getattr(config, "target_vocabulary_size", None) or own
    words = size, f"the network's vocabulary has {size} entries"  # of what it writes
    for name in WORDS:
        read = size if name == "target_ids" else own
        _below(name, batch.get(name), read, f"the network's vocabulary has {read} entries")
    labels, weights = batch.get("labels"), batch.get("label_weights")
    if labels is not None and names is not None:
        _below("labels", labels[batch["example_weights"] > 0], len(names), f"there are {len(names)} labels")
    elif labels is not None and weights is not None and weights.shape == labels.shape:
        _below("labels", labels[weights > 0], *words)
    if segments := getattr(config, "num_segments", None):
        _below("segment_ids", batch.get("segment_ids"), segments, f"the network has {segments} segments")
    longest = config.longest
    if longest and not backbone.any_length:
        _below("position_ids", batch.get("position_ids"), longest, f"the network has {longest} positions")
    if "mask_positions" in batch:
        length = batch["token_ids"].shape[1]
        _below("mask_positions", batch["mask_positions"], length, f"rows have {length} tokens")
    _check_weights(batch)


def _below(name: str, values: np.ndarray | None, bound: int, why: str) -> None:
    if values is None or not values.size or not np.issubdtype(values.dtype, np.integer):
        return
    smallest, largest = int(values.min()), int(values.max())
    if smallest < 0 or largest >= bound:
        wrong = smallest if smallest < 0 else largest
        raise DataError(
            f"The first batch: `{name}` holds {wrong}, but {why}, so 0 to {bound - 1} are allowed. The data and the network "
            "do not belong together; use the vocabulary and the configuration that the data were made with."
        )


def _check_weights(batch: Mapping[str, np.ndarray]) -> None:
    for name in ("label_weights", "example_weights"):
        values = batch.get(name)
        if values is not None and not (np.isfinite(values).all() and (values >= 0).all()):
            raise DataError(
                f"The first batch: `{name}` holds {values.min():g} to {values.max():g}; expected 0 or more."
            )
    counted = batch.get("example_weights")
    if counted is not None and counted.ndim == 1 and "padding_mask" in batch:
        real: np.ndarray = batch["padding_mask"].astype(bool).reshape(len(counted), -1)
        empty = np.flatnonzero((counted > 0) & ~real.any(axis=1))
        if empty.size:
            raise DataError(f"The first batch: row {empty[0]} of `padding_mask` marks no token as real.")
