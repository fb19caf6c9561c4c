"""Steps of fastText's classifier by gradient descent, as a `Learner` does them, by the functions of `texts`."""

import math
from collections.abc import Mapping

import numba
import numpy as np

from data_pipelines.errors import DataError
from xmodels.kernels import texts
from xmodels.kernels.compiled_learner import Batch, Tables
from xmodels.training.optimizers.optimizers import LazyAdam


class TextSteps:
    """Steps of a network and its task; weights and gradients are those of `Objective.score`.

    Args:
        backbone: `FastTextClassifier`.
        task: `Classify` with a head that is a matrix.
        optimizer: `Sgd` or `LazyAdam`, built, whose moments change too.
        threads: of the processor. The result does not depend on it.
        tables: of the source of batches, of what these hold as codes.
    """

    def __init__(self, backbone, task, optimizer, threads: int, tables: Mapping[str, np.ndarray] | None = None):
        self.config, self.optimizer, self.threads = backbone.config, optimizer, threads
        self.is_adam = isinstance(optimizer, LazyAdam)
        variables = {"rows": backbone.rows.table.embeddings, "head": task.head.kernel}
        moments = {}
        if self.is_adam:
            for name, variable in variables.items():
                place = optimizer._get_variable_index(variable)
                moments |= {f"{name} 1": optimizer._momentums[place], f"{name} 2": optimizer._velocities[place]}
        self.tables = Tables(variables | moments)
        self.last = np.full(variables["rows"].shape[0], -1, np.int32)
        shares = task.class_weights
        self.room: dict[str, np.ndarray] = {}
        self.spelled = self._spelled(tables["character_ids"]) if tables else None
        self.class_weights = np.array(shares, np.float32) if shares else np.ones(len(task.label_names), np.float32)

    def run(self, weights: Mapping[str, np.ndarray], batches: Batch, rates: np.ndarray, step: int) -> np.ndarray:
        """Changes the tables by steps, one behind the other.

        Args:
            weights: of `tables.arrays`.
            batches: what network and task need, of as many batches as there are rates.
            rates: float32 (n,), the learning rates.
            step: how many steps were done before.

        Returns:
            (sum, weight) of the loss and of the accuracy of each step, float64 (n, 2, 2). A step with a loss that is not finite has
            changed nothing.
        """
        numba.set_num_threads(self.threads)
        rows = len(batches["labels"]) // len(rates)
        parts = (slice(first, first + rows) for first in range(0, rows * len(rates), rows))
        return np.stack([
            self._step(weights, {name: value[part] for name, value in batches.items()}, rate, step + place)
            for place, (part, rate) in enumerate(zip(parts, rates, strict=True))
        ])  # fmt: skip

    def _step(self, weights: Mapping[str, np.ndarray], batch: Batch, rate: np.float32, step: int) -> np.ndarray:
        config, labels = self.config, batch["labels"].astype(np.int32)
        table, head = weights["rows"], weights["head"]
        check_range("token_ids", batch["token_ids"], len(table) - config.buckets)
        check_range("labels", labels, head.shape[1])
        counted = batch["example_weights"].astype(np.float32)
        shares = counted * self.class_weights[labels]
        total = float(shares.sum(dtype=np.float64))
        count, length = batch["token_ids"].shape
        (spelled, most), codes = self.spelled or ((), 0), batch["character_ids"]
        if codes.ndim == 3:  # the characters of each word of the batch
            spelled, most = self._spelled(codes.reshape(count * length, -1))
            codes = np.arange(count * length, dtype=np.int32).reshape(count, length)
        check_range("character_ids", codes, len(spelled[0]))
        rows, counts = self._room("rows", (count, length * most)), np.empty(count, np.int32)
        means, of_texts = np.empty((2, count, table.shape[1]), np.float32)
        of_logits, losses, right = np.empty((count, head.shape[1]), np.float32), np.empty(count), np.empty(count)
        texts.gradients_of(
            table, head, batch["token_ids"], codes, batch["padding_mask"], labels, (shares / max(total, 1e-5)).astype(np.float32),
            config.unknown_id, config.word_ngrams, config.buckets, *spelled, rows, counts, means, of_texts, of_logits, losses, right,
        )  # fmt: skip
        if np.isfinite(losses[shares > 0]).all():
            self._descend(weights, rows, counts, shares, of_texts, means.T @ of_logits, rate, step)
        return np.array([
            [np.where(shares > 0, losses * shares, 0.0).sum(), total], [(right * counted).sum(), counted.sum(dtype=np.float64)]
        ])  # fmt: skip

    def _descend(self, weights, rows, counts, shares, of_texts, of_head, rate: np.float32, step: int) -> None:
        """Changes the tables by the gradients of texts, (B, D), and of the head, (D, C)."""
        numbers, table, head = np.zeros(3, np.float32), weights["rows"], weights["head"]
        first, second = (weights.get(f"rows {moment}", table) for moment in (1, 2))
        if self.is_adam:
            adam, count = self.optimizer, step + 1
            numbers[:] = adam.beta_1, adam.beta_2, adam.epsilon
            rate = np.float32(rate * (1.0 - adam.beta_2**count) ** 0.5 / (1.0 - adam.beta_1**count))
            moments = (weights[f"head {moment}"].reshape(-1) for moment in (1, 2))
            texts.adam(head.reshape(-1), *moments, of_head.reshape(-1), rate, numbers)
        else:
            head -= rate * of_head
        before, different = (self._room(name, (rows.size,)) for name in ("before", "different"))
        count = texts.chain(rows, counts, shares, self.last, before, different)
        texts.move(
            table, first, second, different[:count], self.last, before, rows.shape[1], of_texts, np.float32(rate), numbers,
            self.is_adam, self.threads,
        )  # fmt: skip

    def _spelled(self, characters: np.ndarray) -> tuple[tuple[np.ndarray, ...], int]:
        """Returns what steps need of words of these characters, (V, W), and the most rows of a word and of runs that begin with it."""
        config, words = self.config, self.tables.variables["rows"].shape[0] - self.config.buckets
        sizes = max(1, config.shortest_ngram), config.longest_ngram
        found = texts.spelled_words(characters, *sizes, config.buckets, words)
        return found, 1 + int(np.diff(found[2]).max()) + max(0, config.word_ngrams - 1)

    def _room(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Returns an array of int32 in memory that is kept: what is made anew for each step costs a page fault for each page."""
        size = math.prod(shape)
        if name not in self.room or self.room[name].size < size:
            self.room[name] = np.empty(size, np.int32)
        return self.room[name][:size].reshape(shape)

    def counts(self, batches: Batch, steps: int) -> np.ndarray:
        """Returns the (sum, size) of the unit of `Objective.counts`, tokens, of each step: float64 (steps, 1, 2).

        Both are real tokens: padding is not computed, and is as long as the longest text of many batches needs it.
        """
        words = batches["padding_mask"].reshape(steps, -1).sum(axis=1, dtype=np.float64)
        return np.stack([words, words], axis=1)[:, None]


def check_range(name: str, values: np.ndarray, limit: int) -> None:
    """Raises a DataError unless all values are row numbers below a limit: compiled code would write beside a table."""
    if values.size and not (values.min() >= 0 and values.max() < limit):
        raise DataError(f"{name}: found {values.min()} to {values.max()}, expected 0 to {limit - 1}.")
