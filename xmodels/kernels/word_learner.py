"""A learner of word vectors whose steps are one function compiled by Numba."""

import importlib.util
import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from xmodels.models.fasttext import FastText
from xmodels.models.skip_gram import SkipGram
from xmodels.objectives.base import Together
from xmodels.objectives.hierarchical_softmax import HierarchicalSoftmax
from xmodels.objectives.negative_sampling import NegativeSampling
from xmodels.training.step.first_batch import check_values
from xmodels.training.step.learner import Learner

WORDS_AT_ONCE = 1 << 14
Batch = Mapping[str, np.ndarray]


class WordLearner(Learner):
    """Does what `Learner` does, to rounding, for gradient descent on one device without anything that changes gradients.

    Its log has no norms of gradients, and no warnings of sudden losses. Ask `reason_against` first.

    Attributes:
        batches_at_once: as of `Learner`: a batch is small, and what makes it ready takes little longer for many.
    """

    def __post_init__(self):
        from xmodels.kernels.word_steps import WordSteps

        super().__post_init__()
        ((self.name, stream),) = self.streams.items()
        self.batch_size = stream.batches.batch_size
        self.word_steps = WordSteps(self.backbone, self.first_objective, min(num_threads(), self.batch_size))
        self.batches_at_once = max(1, WORDS_AT_ONCE // stream.batches.zeros()["token_ids"].shape.num_elements())
        self.is_checked, self.in_row = False, 0
        self._rates: Any = None
        self.read_from: Any = None  # the iterator of which `waiting` has batches that were read, but not learnt
        self.waiting: Batch = {}
        self.gradient_norms.assign(tf.fill(self.gradient_norms.shape, np.float32("nan")))  # not computed

    def train(self, iterators, num_steps):
        self.reading = self.name
        stream, count, waited, first = self.passes[self.name], int(num_steps), 0.0, self.step
        iterator = iterators[self.name] if isinstance(iterators, Mapping) else iterators
        totals, rates, done = np.zeros((len(stream.names) + 1, 2)), self.rates(count), 0
        try:
            with self.word_steps.weights() as weights:
                while done < count:
                    asked = time.monotonic()
                    batches, steps = self.next_batches(iterator, count - done)
                    waited += time.monotonic() - asked
                    losses = self.word_steps.run(weights, batches, rates[done : done + steps])
                    fine = np.isfinite(losses).all(axis=(1, 2))
                    totals[: losses.shape[1]] += losses[fine].sum(axis=0)
                    totals[losses.shape[1] : -1] += self.word_steps.counts(batches, steps)[fine].sum(axis=0)
                    totals[-1] += [steps - fine.sum(), steps]
                    for step in range(steps):
                        if self.in_row or not fine[step]:
                            rows = slice(step * self.batch_size, (step + 1) * self.batch_size)
                            batch = {name: value[rows] for name, value in batches.items()}
                            self.report_fault(stream, batch, first + done + step, not fine[step])
                    done += steps
        finally:
            self.steps_of[self.name] += done
            self.optimizer.iterations.assign(first + done)
        return tf.constant(totals), tf.constant(waited, tf.float64)

    def next_batches(self, iterator, most: int) -> tuple[Batch, int]:
        """Returns the features of the next batches as arrays, one behind the other, and of how many; at most `most`."""
        if iterator is not self.read_from:
            self.read_from, self.waiting = iterator, {}
        if not self.waiting:
            self.waiting = {name: value.numpy() for name, value in next(iterator).items() if name != "cursor"}
            if not self.is_checked:
                check_values(self.waiting, self.backbone, self.first_objective)
                self.is_checked = True
        steps = min(most, len(next(iter(self.waiting.values()))) // self.batch_size)
        rows, waiting = steps * self.batch_size, self.waiting
        self.waiting = {name: value[rows:] for name, value in waiting.items() if len(value) > rows}
        return {name: value[:rows] for name, value in waiting.items()}, steps

    def rates(self, count: int) -> np.ndarray:
        """Returns the learning rates of the next steps, float32 (count,)."""
        if self._rates is None:
            rate = self.optimizer._learning_rate
            schedule = rate if callable(rate) else lambda step: tf.constant(rate.value)
            spec = tf.TensorSpec([None], tf.int64)
            self._rates = tf.function(lambda steps: tf.map_fn(schedule, steps, fn_output_signature=tf.float32), [spec])
        return self._rates(tf.range(self.step, self.step + count, dtype=tf.int64)).numpy()

    def report_fault(self, stream, batch: Batch, step: int, is_fault: bool) -> None:
        """Tells the guard of a step whose loss is not finite, which changed nothing; and of the first good one behind it."""
        self.optimizer.iterations.assign(step)
        self.in_row = self.in_row + 1 if is_fault else 0
        unknown = tf.constant(np.nan if is_fault else 0.0, tf.float32)
        sums = tf.concat([tf.fill((len(stream.names), 1), unknown), tf.ones((len(stream.names), 1))], axis=1)
        self.guard.observe(
            stream, {name: tf.constant(value) for name, value in batch.items()}, sums, self.gradient_norms,
            tf.constant(not is_fault), tf.constant(is_fault),
        )  # fmt: skip


def num_threads() -> int:
    """Returns how many threads can share a step: as many as there are processors, unless threads are told to sleep while they wait,
    which takes longer than their share of a step."""
    from numba import config

    sleeps = os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive"
    has_openmp = importlib.util.find_spec("numba.np.ufunc.omppool") is not None
    return config.NUMBA_NUM_THREADS if has_openmp and not sleeps else 1


def is_installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def parts_of(objective) -> tuple:
    """Returns the objectives that are minimised together."""
    return tuple(objective.parts) if isinstance(objective, Together) else (objective,)


def reason_against(strategy, backbone, objective, recipe, memory, log_norms_steps: int = 0) -> str | None:
    """Returns why steps cannot be those of a `WordLearner`, or None.

    Args:
        recipe: its optimizer, its clipping and whether it has several objectives.
        memory: of `Learner`.
        log_norms_steps: how often norms of gradients are logged; 0 for never.
    """
    reasons = {
        "the system is none of skip_gram, cbow and fasttext": type(backbone) in (SkipGram, FastText)
        and all(type(part) in (NegativeSampling, HierarchicalSoftmax) for part in parts_of(objective)),
        "there are several devices, or a GPU or TPU": strategy.num_replicas_in_sync == 1
        and all("CPU" in device for device in strategy.extended.worker_devices),
        "the optimizer is not plain sgd": recipe.optimizer == "sgd" and not any(recipe.numbers.values()),
        "layers have rates of their own": recipe.layerwise_lr_decay == 1.0 and not recipe.thaw_steps,
        "gradients are clipped": not recipe.clip_norm,
        "steps are done in 16 bits": backbone.compute_dtype == "float32",
        "norms of gradients are logged": not log_norms_steps,
        "batches are computed in parts": memory.micro_batches == 1,
        "weights are averaged": not memory.ema_decay and not memory.nonmonotonic_interval,
        "some weights do not learn": all(v.trainable for v in (*backbone.variables, *objective.variables)),
        "there are several streams": recipe.curriculum is None and not recipe.length_schedule,
    }
    return next((reason for reason, fine in reasons.items() if not fine), None)
