"""Examples held in memory, for `dataset.Batches`."""

import functools
from collections.abc import Collection, Mapping

import numpy as np
import tensorflow as tf

from data_pipelines.arrays import CodedArray, arrays_sha256
from data_pipelines.features import Feature
from data_pipelines.ops.seeds import permutation


class ArraySource:
    """Examples held in memory: arrays with a common first axis.

    Args:
        arrays: of a `CodedArray` batches hold the codes until `Batches` decodes them.
        name: of the file, for messages.
        derived: names of arrays that follow from the others and a network, and do not tell examples from others.
    """

    is_stream = False  # no example continues another
    item_dtype = tf.int64  # of what `in_order` gives and `parse` takes

    def __init__(self, arrays: Mapping[str, np.ndarray | CodedArray], name: str, derived: Collection[str] = ()):
        self.arrays, self.derived = dict(arrays), frozenset(derived)
        coded = {n: a for n, a in self.arrays.items() if isinstance(a, CodedArray)}
        with tf.device("CPU"):  # made once, so that graphs refer to them and hold no copies
            self.tensors = {n: tf.constant(coded[n].codes if n in coded else a) for n, a in self.arrays.items()}
            self.tables = {n: tf.constant(a.table) for n, a in coded.items()}
        self.name = name
        self.features = {n: Feature(a.shape[1:], str(a.dtype)) for n, a in self.arrays.items()}
        self.num_examples = len(next(iter(self.arrays.values())))
        self.indices = np.arange(self.num_examples)

    @property
    def sha256(self) -> str:
        """Tells these examples, in this order, from others."""
        return arrays_sha256({name: value for name, value in self.arrays.items() if name not in self.derived})[:16]

    def part(self, index: int, count: int) -> "ArraySource":
        """Returns every `count`-th example, for one of several hosts. The indices stay those of the whole."""
        part = ArraySource({name: array[index::count] for name, array in self.arrays.items()}, self.name, self.derived)
        part.indices = self.indices[index::count]
        return part

    def window_sizes(self, epoch: int, seed: int) -> np.ndarray:
        """Returns the size of the one window, which holds all examples."""
        return np.array([self.num_examples])

    def windows(self, epoch: tf.Tensor, seed: int, first: tf.Tensor) -> tf.data.Dataset:
        """Returns (index, place in the arrays), both (N,), of all examples in one window, shuffled; nothing behind it."""
        indices = tf.constant(self.indices, tf.int64)
        places = permutation(seed + 1, epoch, indices)
        return tf.data.Dataset.from_tensors((tf.gather(indices, places), places)).skip(first)

    def in_order(self) -> tf.data.Dataset:
        """Returns (index, place in the arrays) of all examples."""
        places = tf.range(self.num_examples, dtype=tf.int64)
        return tf.data.Dataset.from_tensor_slices((tf.constant(self.indices, tf.int64), places))

    def read_from(self, first: tf.Tensor) -> tf.data.Dataset:
        """Returns (index, place in the arrays) of all examples from the place `first` on, in order, and round for ever."""
        return self.in_order().repeat().skip(first)

    @functools.cached_property
    def masks(self) -> list[np.ndarray]:
        """Where tokens are real, bool (N, L): of the source, and of the target where there is one."""
        targets = [self.arrays["label_weights"] > 0] if "target_ids" in self.arrays else []
        return [self.arrays["padding_mask"], *targets]

    @functools.cached_property
    def num_tokens(self) -> np.ndarray:
        """The real tokens of each example, int64 (N,). Of source and target the longer one counts."""
        return np.max([mask.sum(axis=1) for mask in self.masks], axis=0)

    def lengths(self, places: tf.Tensor) -> tf.Tensor:
        """Returns the same of the examples at these places, int64 (N,)."""
        return tf.gather(tf.constant(self.num_tokens), places)

    def parse(self, places: tf.Tensor) -> dict[str, tf.Tensor]:
        return {name: tf.gather(tensor, places) for name, tensor in self.tensors.items()}
