"""Steps of skip-gram, CBOW and fastText by gradient descent, as a `Learner` does them, by the functions of `word_windows`."""

from collections.abc import Mapping

import numba
import numpy as np

from xmodels.kernels import word_descent
from xmodels.kernels.compiled_learner import Batch, Tables
from xmodels.kernels.word_learner import parts_of
from xmodels.layers.word_windows import BLOCK
from xmodels.models.fasttext import FastText
from xmodels.objectives.hierarchical_softmax import MOST, HierarchicalSoftmax
from xmodels.objectives.negative_sampling import NegativeSampling
from xmodels.objectives.word_windows import Contexts


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
        # The columns of its losses, in its order.
        self.losses = [0 if isinstance(part, NegativeSampling) else 1 for part in parts_of(objective)]
        predict = parts_of(objective)[0].predict
        self.one_by_one, self.reach = isinstance(predict, Contexts), parts_of(objective)[0].reach
        self.true_gradient = not self.one_by_one and predict.true_gradient
        rows = backbone.rows.table if isinstance(backbone, FastText) else backbone.words
        tables = {"words": rows.embeddings, "others": backbone.contexts.embeddings}
        self.tables = Tables(tables | ({"nodes": self.tree.nodes.embeddings} if self.tree else {}))
        self.width, self.room = rows.embeddings.shape[1], {}

    def run(self, weights: Mapping[str, np.ndarray], batches: Batch, rates: np.ndarray, step: int = 0) -> np.ndarray:
        """Changes the tables by steps, one behind the other.

        Args:
            weights: of `tables.arrays`.
            batches: what the objective needs, of as many batches as there are rates.
            rates: float32 (n,), the learning rates.
            step: how many steps were done before; descent does not ask.

        Returns:
            (sum, weight) of each loss of each step, float64 (n, losses, 2). A step with a loss that is not finite has changed nothing.
        """
        numba.set_num_threads(self.threads)
        centers, starts, ends = (integers(batches[name]) for name in ("center_ids", "window_starts", "window_ends"))
        count, slots = centers.shape
        rows = count // len(rates)
        places = self._room("places", (count, slots), np.int32, lambda x: np.copyto(x, np.arange(slots)))
        row_ids, row_places = (
            (integers(batches["row_ids"]), integers(batches["row_places"]))
            if "row_ids" in batches
            else (centers, places)
        )
        drawn, share, block = self._drawn(batches, count, slots)
        node_ids, codes, shares = self._ways(batches, count, slots)
        most = min(slots * node_ids.shape[2], len(weights["nodes"]) if self.tree else 0)
        results = word_descent.run(
            weights["words"], weights["others"], weights.get("nodes", weights["others"]), centers, places[:rows], row_ids,
            row_places, starts, ends, drawn, node_ids, codes, shares, self.one_by_one, self.true_gradient, share, self.reach, block,
            MOST, np.asarray(rates, np.float32), self.threads, self._room("of_words", (rows, slots, self.width)),
            self._room("of_centers", (rows, slots if self.negatives else 0, self.width)),
            self._room("of_drawn", (rows, drawn.shape[1], self.width)), self._room("of_nodes", (rows, most, self.width)),
            self._room("different", (rows, most), np.int32), self._room("room", (self.threads, 4, slots + 1, self.width)),
            self._room("nodes_read", (self.threads, most, self.width)),
        )  # fmt: skip
        return np.stack([results[:, [place, 2]] for place in self.losses], axis=1)

    def counts(self, batches: Batch, steps: int) -> np.ndarray:
        """Returns the (sum, size) of each unit of `WindowObjective.counts`, of each step: float64 (steps, 2, 2)."""
        words = batches["padding_mask"].reshape(steps, -1)
        sizes = np.maximum(batches["window_ends"] - batches["window_starts"] - 1, 0).reshape(steps, -1)
        units = (words.sum(axis=1), words.shape[1]), (sizes.sum(axis=1), 2.0 * self.reach * sizes.shape[1])
        return np.stack([np.stack([found, np.full(steps, size)], axis=1) for found, size in units], axis=1)

    def _drawn(self, batch: Batch, count: int, slots: int) -> tuple[np.ndarray, np.float32, int]:
        """Returns the negatives, (B, K S), of how many each one stands for, and the words of a block."""
        block = slots if slots % BLOCK else BLOCK
        if not self.negatives:
            return np.empty((count, 0), np.int32), np.float32(0), block
        drawn = integers(batch["negative_ids"])
        return drawn, np.float32(self.negatives.negatives * (slots // block) / drawn.shape[1]), block

    def _ways(self, batch: Batch, count: int, slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the nodes and codes of the ways to words, and the share of words that pass each node, (B, N, T)."""
        if not self.tree:
            none = np.empty((count, slots, 0), np.int32)
            return none, none, np.empty((count, slots, 0), np.float32)
        shares = np.ascontiguousarray(batch["node_shares"], np.float32)
        return integers(batch["node_ids"]), integers(batch["node_codes"]), shares

    def _room(self, name: str, shape: tuple, dtype=np.float32, fill=None) -> np.ndarray:
        """Returns an array that is made once for each shape."""
        if name not in self.room or self.room[name].shape != shape:
            self.room[name] = np.empty(shape, dtype)
            if fill:
                fill(self.room[name])
        return self.room[name]


def integers(values) -> np.ndarray:
    return np.ascontiguousarray(values, np.int32)
