"""What computes the steps of a training: `--step_engine`."""

from data_pipelines.errors import UsageError
from xmodels.kernels import compiled_learner
from xmodels.training.step.learner import Learner
from xmodels.training.watching.progress import print_status

INSTALL = "pip install 'xmodels[numba]'"


def choose_learner(asked: str, reason: str | None, compiled: type[Learner]) -> type[Learner]:
    """Returns the class of the learner.

    Args:
        asked: the flag.
        reason: why the steps cannot be those of `compiled`, or None.
        compiled: a learner whose steps are compiled by Numba.

    Raises:
        UsageError: Numba is asked for, and is not installed or has no such steps.
    """
    if asked == "tensorflow":
        return Learner
    if reason is None and not compiled_learner.is_installed():
        if asked == "numba":
            raise UsageError(f"--step_engine=numba: Numba is not installed. Do: {INSTALL}")
        print_status(f"Note: with Numba these steps take a fraction of the time: {INSTALL}")
        return Learner
    if reason is None:
        print_status("Steps are compiled by Numba, the first time in half a minute (--step_engine).")
        return compiled
    if asked == "numba":
        raise UsageError(f"--step_engine=numba: {reason}. Choose auto or tensorflow.")
    return Learner
