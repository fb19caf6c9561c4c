"""Steps of skip-gram, CBOW and fastText by gradient descent, as a `Learner` does them, by the functions of `word_windows`."""

import contextlib
import ctypes
from collections.abc import Iterator, Mapping

import numba
import numpy as np

from xmodels.kernels import word_windows
from xmodels.layers.word_windows import BLOCK
from xmodels.models.fasttext import FastText
from xmodels.objectives.base import Together
from xmodels.objectives.hierarchical_softmax import MOST, HierarchicalSoftmax
from xmodels.objectives.negative_sampling import NegativeSampling
from xmodels.objectives.word_windows import Contexts

Batch = Mapping[str, np.ndarray]


class WordSteps:
    """Steps of one network and objective; their weights and gradients are those of `Objective.score`.

    Args:
        backbone: `SkipGram` or `FastText`.
        objective: `NegativeSampling`, `HierarchicalSoftmax`, or both together.
        threads: of the processor. The result does not depend on it.
    """

    def __init__(self, backbone, objective, threads: int):
        self.threads = threads
        parts = {type(part): part for part in parts_of(objective)}
        self.negatives, self.tree = parts.get(NegativeSampling), parts.get(HierarchicalSoftmax)
        self.losses = [
            0 if isinstance(part, NegativeSampling) else 1 for part in parts_of(objective)
        ]  # columns, in its order
        predict = parts_of(objective)[0].predict
        self.one_by_one, self.reach = isinstance(predict, Contexts), parts_of(objective)[0].reach
        self.true_gradient = not self.one_by_one and predict.true_gradient
        rows = backbone.rows.table if isinstance(backbone, FastText) else backbone.words
        self.tables = {"words": rows.embeddings, "others": backbone.contexts.embeddings}
        if self.tree:
            self.tables["nodes"] = self.tree.nodes.embeddings
        self.width, self.room = rows.embeddings.shape[1], {}

    @contextlib.contextmanager
    def weights(self) -> Iterator[dict[str, np.ndarray]]:
        """Gives the tables, (V, D) each, as arrays that share the memory of the variables, for as long as the context lasts."""
        held = {name: in_place(variable.value) for name, variable in self.tables.items()}
        yield {name: array for name, (_, array) in held.items()}

    def step(self, weights: Mapping[str, np.ndarray], batch: Batch, rate: float) -> np.ndarray | None:
        """Changes the tables by one step.

        Args:
            weights: of `weights`.
            batch: what the objective needs.
            rate: the learning rate.

        Returns:
            (sum, weight) of each loss, float64 (losses, 2); None where one is not finite, and nothing was changed.
        """
        numba.set_num_threads(self.threads)
        centers, starts, ends = (integers(batch[name]) for name in ("center_ids", "window_starts", "window_ends"))
        count, slots = centers.shape
        places = self._room("places", (count, slots), np.int32, lambda x: np.copyto(x, np.arange(slots)))
        row_ids, row_places = (
            (integers(batch["row_ids"]), integers(batch["row_places"])) if "row_ids" in batch else (centers, places)
        )
        drawn, share, block = self._drawn(batch, count, slots)
        sizes = np.maximum(ends - starts - 1, 0)
        predictions = float((sizes if self.one_by_one else np.minimum(sizes, 1)).sum())
        node_ids, codes, scales = self._ways(batch, count, slots, predictions)
        most = min(slots * node_ids.shape[2], len(weights["nodes"]) if self.tree else 0)
        gradients = {
            "words": self._room("of_words", (count, slots, self.width)),
            "centers": self._room("of_centers", (count, slots if self.negatives else 0, self.width)),
            "drawn": self._room("of_drawn", (count, drawn.shape[1], self.width)),
            "nodes": self._room("of_nodes", (count, most, self.width)),
        }
        different, found = self._room("different", (count, most), np.int32), np.zeros(count, np.int64)
        losses = np.zeros((count, 2))
        word_windows.gradients_of(
            weights["words"], weights["others"], weights.get("nodes", weights["others"]), centers, row_ids, row_places, starts, ends,
            drawn, node_ids, codes, scales, self.one_by_one, self.true_gradient, share, self.reach, block, *gradients.values(),
            different, found, losses, self._room("room", (count, 4, slots + 1, self.width)),
            self._room("nodes_read", (count, most, self.width)),
        )  # fmt: skip
        if not np.isfinite(losses).all():
            return None
        rate = np.float32(rate)
        if self.negatives:
            numbers = self._room("numbers", drawn.shape, np.int32, lambda x: np.copyto(x, np.arange(drawn.shape[1])))
            word_windows.descend(weights["others"], centers, places, gradients["centers"], rate, self.threads)
            word_windows.descend(weights["others"], drawn, numbers, gradients["drawn"], rate, self.threads)
        if self.tree:
            turns = np.arange(most, dtype=np.int32)[None]
            turns = np.where(turns < found[:, None], turns, most).astype(np.int32)
            word_windows.descend(
                weights["nodes"], np.where(turns < most, different, 0), turns, gradients["nodes"], rate, self.threads
            )
        word_windows.descend(weights["words"], row_ids, row_places, gradients["words"], rate, self.threads)
        return np.array([[losses[:, place].sum(), predictions] for place in self.losses])

    def counts(self, batch: Batch) -> np.ndarray:
        """Returns the (sum, size) of each unit of `WindowObjective.counts`: float64 (2, 2)."""
        words, sizes = batch["padding_mask"], np.maximum(batch["window_ends"] - batch["window_starts"] - 1, 0)
        return np.array([[words.sum(), words.size], [sizes.sum(), 2.0 * self.reach * sizes.size]], np.float64)

    def _drawn(self, batch: Batch, count: int, slots: int) -> tuple[np.ndarray, np.float32, int]:
        """Returns the negatives, (B, K S), of how many each one stands for, and the words of a block."""
        block = slots if slots % BLOCK else BLOCK
        if not self.negatives:
            return np.empty((count, 0), np.int32), np.float32(0), block
        drawn = integers(batch["negative_ids"])
        return drawn, np.float32(self.negatives.negatives * (slots // block) / drawn.shape[1]), block

    def _ways(self, batch: Batch, count: int, slots: int, predictions: float):
        """Returns the nodes, codes and scales of gradients of the ways to words, (B, N, T)."""
        if not self.tree:
            return *(np.empty((count, slots, 0), np.int32),) * 2, np.empty((count, slots, 0), np.float32)
        scales = MOST / np.maximum(batch["node_shares"] * np.float32(predictions), np.float32(MOST))
        return integers(batch["node_ids"]), integers(batch["node_codes"]), scales.astype(np.float32)

    def _room(self, name: str, shape: tuple, dtype=np.float32, fill=None) -> np.ndarray:
        """Returns an array that is made once for each shape."""
        if name not in self.room or self.room[name].shape != shape:
            self.room[name] = np.empty(shape, dtype)
            if fill:
                fill(self.room[name])
        return self.room[name]


def parts_of(objective) -> tuple:
    """Returns the objectives that are minimised together."""
    return tuple(objective.parts) if isinstance(objective, Together) else (objective,)


def integers(values) -> np.ndarray:
    return np.ascontiguousarray(values, np.int32)


def in_place(variable) -> tuple[object, np.ndarray]:
    """Returns a variable's tensor, which must be kept for as long as the array is used, and an array in the same memory.

    What is written into it is written into the variable: a table of a million words is not copied to and fro.
    """
    tensor = variable.read_value()
    address = np.frombuffer(memoryview(tensor), np.float32).__array_interface__["data"][0]
    array = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), shape=tuple(variable.shape))
    return tensor, array
