"""A pretrained masked language model, or a network that knows which words fit a place, opened to fill the masks of texts."""

import os

from safetensors import safe_open

from xmodels.conversion import convert, names
from xmodels.models import folder
from xmodels.runs.loaded import identify, model_folder
from xmodels.runs.loaded import load as load_checkpoint
from xmodels.tasks.base import fit_words
from xmodels.tasks.base.description import JOINT_FILE, TASK_FILE
from xmodels.tasks.base.fill_mask import Predictor, prefix_of


def load(path: str) -> Predictor | None:
    """Returns the predictor of a pretrained network, given its run, its model folder or `hf:FOLDER`; None if it has learnt a task, or
    says nothing of masked tokens.

    Raises:
        CheckpointError: the run is not finished, or its files are damaged or do not fit each other.
    """
    if _fits_words(path):
        return fit_words.Predictor(load_checkpoint(path))
    return Predictor(load_checkpoint(path)) if _has_head(path) else None


def _fits_words(path: str) -> bool:
    if not names.is_foreign(path) and (
        _has_task(path) or not os.path.isfile(os.path.join(model_folder(path), folder.CONFIG))
    ):
        return False
    return identify(path).network.fits_words


def _has_task(path: str) -> bool:
    if not os.path.isdir(path):
        return True
    return any(os.path.lexists(os.path.join(path, name)) for name in (TASK_FILE, JOINT_FILE))


def _has_head(path: str) -> bool:
    if names.is_foreign(path):
        return identify(path).writing is None and prefix_of(convert.load(path).values) is not None
    if _has_task(path):
        return False
    weights = os.path.join(model_folder(path), folder.WEIGHTS)
    if not os.path.isfile(weights):
        return False
    with safe_open(weights, "numpy") as file:
        return prefix_of(file.keys()) is not None
