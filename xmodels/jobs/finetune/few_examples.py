"""--train_fraction and --num_train_examples: a fine-tuning that has few labels (Liu et al., 2019, section 4.4)."""

import dataclasses

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.errors import UsageError
from xmodels.tasks.base.read import Data
from xmodels.training.watching.progress import print_status


def count_of(options, total: int) -> int:
    """Returns how many of the training examples are learnt from.

    Raises:
        UsageError: both flags are given, the share is 0, or there are not so many examples.
    """
    fraction, number = options.train_fraction, options.num_train_examples
    if fraction is None:
        fraction = 1.0
    elif number is not None:
        raise UsageError(f"--num_train_examples={number}, --train_fraction={fraction:g}: give one of them.")
    if not fraction > 0:
        raise UsageError(f"--train_fraction={fraction:g}: must be above 0.")
    if number is not None and number > total:
        raise UsageError(f"--num_train_examples={number}: there are {total:,}. Give fewer, or leave the flag out.")
    return number or max(1, int(fraction * total))


def subsample(data: Data, options) -> Data:
    """Returns the data with a part of the training examples, drawn without replacement by the seed, whatever their labels are.

    An example is a row of the arrays: of answers in long texts a window. The order of the examples stays, and so do all labels.
    """
    arrays, total = data.source.arrays, data.source.num_examples
    count = count_of(options, total)
    if count == total:
        return data
    rows = draw_places(total, count, options.seed)
    source = ArraySource({name: array[rows] for name, array in arrays.items()}, data.source.name, data.source.derived)
    if missing := missing_labels(source, data.labels):
        print_status(f"Warning: of the {count:,} examples that were drawn none has the label {', '.join(missing[:8])}.")
    summary = f"{data.summary}, {count:,} of {total:,} examples drawn"
    return dataclasses.replace(data, source=source, summary=summary)


def draw_places(total: int, count: int, seed: int) -> np.ndarray:
    """Returns (count,), int64: different places below `total`, in rising order; all of them where there are no more."""
    if count == total:
        return np.arange(total)
    return np.sort(np.random.default_rng([seed, total]).choice(total, count, replace=False))


def missing_labels(source: ArraySource, labels: list[str]) -> list[str]:
    """Returns the labels that no example has, where each has one."""
    ids = source.arrays.get("labels")
    if ids is None or ids.ndim > 1 or not labels:
        return []
    return [labels[label] for label in sorted(set(range(len(labels))) - set(ids.tolist()))]
