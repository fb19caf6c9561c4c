"""A learner of word vectors whose steps are one function compiled by Numba."""

from xmodels.kernels.compiled_learner import CompiledLearner, first_reason, needs
from xmodels.models.fasttext import FastText
from xmodels.models.skip_gram import SkipGram
from xmodels.objectives.base import Together
from xmodels.objectives.hierarchical_softmax import HierarchicalSoftmax
from xmodels.objectives.negative_sampling import NegativeSampling

WORDS_AT_ONCE = 1 << 16


class WordLearner(CompiledLearner):
    """Steps of skip-gram, CBOW and fastText. Ask `reason_against` first.

    Attributes:
        batches_at_once: as of `Learner`: a batch is small, and what makes it ready takes little longer for many.
    """

    def __post_init__(self):
        from xmodels.kernels.word_steps import WordSteps

        super().__post_init__()
        tokens = self.streams[self.name].batches.zeros()["token_ids"].shape.num_elements()
        self.compiled = WordSteps(self.backbone, self.first_objective, self.threads)
        self.batches_at_once = max(1, WORDS_AT_ONCE // tokens)


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
    others = needs(strategy, backbone, objective, recipe, recipe.clip_norm, memory, log_norms_steps)
    return first_reason({
        "the system is none of skip_gram, cbow and fasttext": type(backbone) in (SkipGram, FastText)
        and all(type(part) in (NegativeSampling, HierarchicalSoftmax) for part in parts_of(objective)),
        "the optimizer is not plain sgd": recipe.optimizer == "sgd" and not any(recipe.numbers.values()),
        **others,
        "there are several streams": recipe.curriculum is None and not recipe.length_schedule,
    })  # fmt: skip
