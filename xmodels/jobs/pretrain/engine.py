"""What computes the steps of a pretraining: `--step_engine`."""

from data_pipelines.errors import UsageError
from xmodels.jobs.pretrain.options import Options
from xmodels.kernels import word_learner
from xmodels.training.recipe import Recipe
from xmodels.training.step.learner import Learner, Memory
from xmodels.training.watching.progress import print_status

INSTALL = "pip install 'xmodels[numba]'"


def choose_learner(options: Options, strategy, backbone, objective, recipe: Recipe, memory: Memory) -> type[Learner]:
    """Returns the class of the learner.

    Raises:
        UsageError: Numba is asked for, and is not installed or has no such steps.
    """
    asked = options.step_engine
    if asked == "tensorflow":
        return Learner
    reason = word_learner.reason_against(strategy, backbone, objective, recipe, memory, options.log_norms_steps)
    if reason is None and not word_learner.is_installed():
        if asked == "numba":
            raise UsageError(f"--step_engine=numba: Numba is not installed. Do: {INSTALL}")
        print_status(f"Note: with Numba these steps take a fraction of the time: {INSTALL}")
        return Learner
    if reason is None:
        print_status("Steps are compiled by Numba, the first time in half a minute (--step_engine).")
        recipe.frame.is_compiled = True  # before it is traced
        return word_learner.WordLearner
    if asked == "numba":
        raise UsageError(f"--step_engine=numba: {reason}. Choose auto or tensorflow.")
    return Learner
