"""The score that chooses the best epoch of a fine-tuning: of the metrics that the steps count, or of answers, where those lack it."""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from xmodels.tasks.base import score as base
from xmodels.tasks.base.find import load_part
from xmodels.training.step.learner import Learner

LEAST_BATCHES = 16  # of an evaluation set that is read by length


@dataclasses.dataclass
class Evaluation:
    """Scores the evaluation sets of a fine-tuning.

    Attributes:
        task_name: a folder of `xmodels/tasks`.
        decisive: the score that chooses the best epoch.
        batches: those of training; evaluation sets are read once, large ones by length where the training is.
        stream: of the learner, whose objective is scored; None for the first.
        tuned: the settings that the evaluation set chooses, of `score.CHOSEN` those that the task has.
        chosen: the settings that the evaluation set chose last.
        answers: what the network answered to it then, and what is right.
    """

    task_name: str
    task: object
    learner: Learner
    batches: Batches
    labels: list[str]
    decisive: str
    stream: str | None = None
    chosen: dict = dataclasses.field(default_factory=dict)
    answers: tuple | None = None

    def __post_init__(self):
        self.score = load_part(self.task_name, "score")
        settings = getattr(self.task, "settings", {})
        self.tuned = tuple(name for name in self.score.CHOSEN if name in settings)
        self._fixed = {name: settings[name] for name in self.score.SETTINGS if name in settings}
        self._pass = self.learner.passes[self.stream or next(iter(self.learner.passes))]
        self._needs_answers = bool(self.tuned) or self.decisive not in ("loss", *self._pass.names)
        later = hasattr(self.score, "mistakes") or self.score.DRAWS_LAST
        # One graph for scores and answers, unless an objective that combines the task with others has outputs of its own.
        in_one = self._pass.objective is self.task and not self._pass.carried and (self._needs_answers or later)
        self._evaluate_and_predict = self._pass.evaluate_and(self.task.predict) if in_one else None
        # A partial, as in `training.step.graphs`: functions of several runs are no single one that is retraced.
        self._predict = tf.function(functools.partial(self._outputs), reduce_retracing=True, autograph=False)
        # By the identity of a source, which is kept too: its batches, and where their rows stand in it.
        self._sets: dict[int, tuple[object, tf.data.Dataset, np.ndarray | None]] = {}

    def means(self, source, settings: dict | None = None) -> dict[str, float]:
        """Returns losses and metrics of a set, the decisive score among them.

        Args:
            settings: what an evaluation set chose before; None where this set chooses.
        """
        means, answers = self._means_and_answers(source)
        if answers is None:
            return means
        if settings is None:
            settings, self.answers = self._choose(answers), answers
            self.chosen = settings
        found = self.score.scores(*answers, **settings, **self._fixed)
        return {**means, **{name: found[name] for name in (self.decisive, *self.score.REPORTED) if name in found}}

    def _means_and_answers(self, source) -> tuple[dict[str, float], tuple | None]:
        """Returns losses and metrics of a set, and `_answers` to it, if they are needed: by one pass over the set where that gives
        both."""
        batches, places = self._batches(source)
        if self._evaluate_and_predict is None:
            means = self.learner.evaluate(batches, self.stream)
            if not self._needs_answers:
                return means, None
            with self.learner.averaged_weights():
                return means, self._answers(source, *self.predict_set(source))
        seen = []

        def evaluate_batch(batch):
            sums, past, outputs = self._evaluate_and_predict(batch)
            if self._needs_answers:
                seen.append(real_rows(outputs, batch))
            return sums, past

        means = self.learner.evaluate(batches, self.stream, evaluate_batch)
        return means, self._answers(source, *in_order(stack_batches(seen), places)) if seen else None

    def _answers(self, source, outputs, examples) -> tuple:
        """Returns what the network answers to a set, and what is right, as `scores` takes them."""
        if self.score.READS_SOURCE:
            return self.score.from_source(outputs, source, self.task)
        return self.score.from_arrays(outputs, examples, self.labels)

    def _choose(self, answers: tuple) -> dict:
        return self.score.chosen(*answers, self.decisive, **self._fixed) if self.tuned else {}

    def predict_set(self, source) -> list[Mapping[str, np.ndarray]]:
        """Returns what the network answers to a set, and the set: {name: array (N, ...)} each, in the order of the set."""
        batches, places = self._batches(source)
        return in_order(stack_batches(real_rows(self._outputs_of(batch), batch) for batch in batches), places)

    def _batches(self, source) -> tuple[tf.data.Dataset, np.ndarray | None]:
        """Returns the batches of a set, each of its rows once: as they come, and None; or by length, as those of the training are,
        and the places of the rows."""
        if id(source) not in self._sets:
            batches = dataclasses.replace(self.batches, source=source)
            found = batches.once_by_length() if self._saves_padding(source) else (batches.once(), None)
            self._sets[id(source)] = source, *found
        return self._sets[id(source)][1:]

    def _saves_padding(self, source) -> bool:
        """Returns whether batches by length are worth a graph for each length, and rows end with padding, so that places stay."""
        grouping, least = self.batches.grouping, LEAST_BATCHES * self.batches.batch_size
        if grouping is None or grouping.by_length(source.masks[0].shape[1]) is None or source.num_examples < least:
            return False
        return all(mask[:, 0].all() for mask in source.masks)

    def draw_set(self, folder: str, source, settings: dict) -> None:
        """Writes the task's pictures of answers to a set by the weights as they are, where it has some and does not wait for the end.

        Args:
            settings: of the run.
        """
        if not self.score.DRAWS_LAST and self.score.draw is not base.draw:
            answers = self._answers(source, *self.predict_set(source))
            self.score.draw(folder, *answers, {n: settings[n] for n in self.tuned} | self._fixed)

    def draw(self, folder: str) -> None:
        """Writes the task's pictures of the last answers, where it has some and does not wait for the end."""
        if self.answers is not None and not self.score.DRAWS_LAST:
            self.score.draw(folder, *self.answers, self.chosen | self._fixed)

    def _outputs_of(self, batch):
        return self._predict(batch) if self._evaluate_and_predict is None else self._evaluate_and_predict(batch)[2]

    def _outputs(self, batch):
        return self.task.predict(self.task.forward(self.learner.backbone, batch, training=False))


def real_rows(outputs, batch) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the arrays of both without the rows that fill up the last batch."""
    real = batch["example_weights"].numpy() > 0
    first, second = ({name: value.numpy()[real] for name, value in each.items()} for each in (outputs, batch))
    return first, second


def in_order(found: list[Mapping[str, np.ndarray]], places: np.ndarray | None) -> list[Mapping[str, np.ndarray]]:
    """Returns rows in the order of their places in the set; as they are where these are None."""
    if places is None:
        return found
    order = np.argsort(places)
    return [{name: rows[order] for name, rows in side.items()} for side in found]


def stack_batches(pairs) -> list[Mapping[str, np.ndarray]]:
    """Dictionaries of arrays (B, ...) joined to one of arrays (N, ...); lengths that differ are padded with zeros."""
    return [
        {name: concatenate_padded([rows[name] for rows in side]) for name in side[0]}
        for side in zip(*pairs, strict=True)
    ]


def concatenate_padded(arrays: list[np.ndarray]) -> np.ndarray:
    shape = np.max([array.shape for array in arrays], axis=0)
    return np.concatenate(
        [
            np.pad(array, [(0, 0), *((0, b - a) for a, b in zip(array.shape[1:], shape[1:], strict=True))])
            for array in arrays
        ]
    )
