"""What Cross-View Training learns from texts without labels (Clark et al., 2018, section 2)."""

from collections.abc import Mapping, Sequence

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.prediction_module import PredictionModule
from xmodels.layers.views import VIEWS
from xmodels.objectives.base import Objective


class CrossViews(Objective):
    """Modules that see a part of a text learn to predict what a tagger predicts that sees all of it.

    Each adds KL(p || q), a mean over words, with p by the tagger without dropout and without gradient. The network learns through what
    the modules see, the tagger does not. Their weights are in the states of a run, and not in what it hands over.

    Args:
        task: the tagger, a `CvtTag` on a network that has `views`. Its weights are none of this objective.
        views: names in `VIEWS`.
    """

    needs = {"label_weights": Feature((None,), "float32")}

    def __init__(self, task, views: Sequence[str], **kwargs):
        super().__init__(**kwargs)
        self._teach, self._views = task.emissions, tuple(views)
        for name in self._views:
            module = PredictionModule(task.module_dim, len(task.label_names), is_linear=name == "full", name=name)
            setattr(self, f"{name}_module", module)

    def forward(self, backbone, batch, training=None, seen=None):
        """Returns `teacher`, the probabilities of tags by the tagger, and under the name of each view its logits, float32 (B, L, C);
        those of a view that predicts the word beside stand where that word stands.

        Args:
            seen: what the parts of the network know, where that is computed already.
        """
        taught = ops.stop_gradient(ops.softmax(self._teach(backbone, batch, training=False)["logits"], axis=-1))
        seen, found = seen or backbone.views(batch, training=training, labelled=False), {}
        for name in self._views:
            part, place = VIEWS[name]
            found[name] = ops.roll(getattr(self, f"{name}_module")(seen[part]), place, axis=1)
        return {"teacher": taught, **found}

    def score(self, outputs, batch, backbone):
        weights = batch["label_weights"] * ops.expand_dims(ops.cast(batch["example_weights"], "float32"), 1)  # (B, L)
        losses, right = {}, {}
        for name in self._views:
            counted = of_words_beside(weights, VIEWS[name][1])
            losses[name] = ops.sum(divergence(outputs["teacher"], outputs[name]) * counted), ops.sum(counted)
            same = ops.argmax(outputs[name], axis=-1) == ops.argmax(outputs["teacher"], axis=-1)
            right[f"{name}_agreement"] = ops.sum(ops.cast(same, "float32") * counted), ops.sum(counted)
        return losses, right


class CrossViewsOfTasks(Objective):
    """The modules of several taggers, which learn from the same texts in the same step (section 2.3): the sum of their losses.

    Args:
        tasks: {name of a task: its `CrossViews`}.
    """

    needs = CrossViews.needs

    def __init__(self, tasks: Mapping[str, CrossViews], **kwargs):
        super().__init__(**kwargs)
        self._names = tuple(tasks)
        for name, views in tasks.items():
            setattr(self, f"of_{name}", views)

    def _of(self, name: str) -> CrossViews:
        return getattr(self, f"of_{name}")

    def forward(self, backbone, batch, training=None):
        """Returns what `CrossViews` does, by the names of the tasks. What the parts of the network know is computed once."""
        seen = backbone.views(batch, training=training, labelled=False)
        return {name: self._of(name).forward(backbone, batch, training, seen) for name in self._names}

    def score(self, outputs, batch, backbone):
        losses, metrics = {}, {}
        for name in self._names:
            of_task = self._of(name).score(outputs[name], batch, backbone)
            for found, each in zip((losses, metrics), of_task, strict=True):
                found |= {f"{name}_{key}": value for key, value in each.items()}
        return losses, metrics


def divergence(probabilities, logits):
    """Returns KL(p || softmax(logits)): float32 (..., C) each -> (...)."""
    logs = ops.log(ops.maximum(probabilities, 1e-30))
    return ops.sum(probabilities * (logs - ops.log_softmax(logits, axis=-1)), axis=-1)


def of_words_beside(weights, place: int):
    """Returns the weights (B, L) of the words whose tags are predicted from the word `place` before them, 0 where that one is none."""
    if place == 0:
        return weights
    length = weights.shape[1]
    position = ops.arange(length) - place
    inside = ops.cast(ops.logical_and(position >= 0, position < length), weights.dtype)  # a roll wraps around
    return weights * ops.cast(ops.roll(weights, place, axis=1) > 0, weights.dtype) * inside
