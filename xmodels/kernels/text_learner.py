"""A learner of fastText's classifier whose steps are one function compiled by Numba."""

from xmodels.kernels.compiled_learner import CompiledLearner, first_reason, needs
from xmodels.models.fasttext_classifier import FastTextClassifier
from xmodels.tasks.classify.task import Classify

TEXTS_AT_ONCE = 2048  # that one call of a data pipeline makes ready, which takes hardly longer than for one batch


class TextLearner(CompiledLearner):
    """Steps of fastText's classifier. Ask `reason_against` first."""

    reads_codes = True

    def __post_init__(self):
        from xmodels.kernels.text_steps import TextSteps

        super().__post_init__()
        tables = {name: table.numpy() for name, table in self.batches.source.tables.items()}
        if self.batches.grouping is None or self.batches.grouping.comes_at_once:
            self.batches_at_once = max(1, TEXTS_AT_ONCE // self.batch_size)
        self.compiled = TextSteps(self.backbone, self.first_objective, self.optimizer, self.threads, tables)


def reason_against(
    strategy, backbone, objective, optimization, clip_norm: float, memory, is_alone: bool, log_norms_steps: int = 0
) -> str | None:
    """Returns why steps cannot be those of a `TextLearner`, or None.

    Args:
        optimization, clip_norm, memory, log_norms_steps: see `needs`.
        is_alone: whether there is one stream of batches, of a fixed number of rows, and all weights learn alike.
    """
    is_plain = type(objective) is Classify and not objective.label_counts and is_linear(objective)
    config = backbone.config
    whole = (
        type(backbone) is FastTextClassifier
        and not config.kept_buckets
        and (config.buckets or not config.longest_ngram)
    )
    return first_reason({
        "the network is no whole fasttext_classifier": whole,
        "the task is not --task=classify with one linear layer, no dropout and the published pooling": is_plain,
        "the optimizer is neither lazy_adam nor sgd, plain ones": optimization.optimizer in ("sgd", "lazy_adam")
        and not any(optimization.numbers.get(name) for name in ("weight_decay", "momentum")),
        **needs(strategy, backbone, objective, optimization, clip_norm, memory, log_norms_steps),
        "the batches differ in rows, or weights learn in groups": is_alone,
    })  # fmt: skip


def is_linear(task: Classify) -> bool:
    """Returns whether the head is a matrix on the mean of the rows of a text."""
    has_more = (task.network, task.dense, getattr(task, "layer_mix", None), getattr(task, "attention_pooling", None))
    is_bare = not task.head.use_bias and not task.dropout.rate and task.reading.pooling == "published"
    return is_bare and all(part is None for part in has_more)
