"""A pretrained masked language model, opened to fill the masks of texts."""

import os

from safetensors import safe_open

from xmodels.conversion import convert, names
from xmodels.models import folder
from xmodels.runs.loaded import identify, model_folder
from xmodels.runs.loaded import load as load_checkpoint
from xmodels.tasks.base.description import JOINT_FILE, TASK_FILE
from xmodels.tasks.base.fill_mask import Predictor, prefix_of


def load(path: str) -> Predictor | None:
    """Returns the predictor of a pretrained network, given its run, its model folder or `hf:FOLDER`; None if it has learnt a task, or
    does not predict masked tokens.

    Raises:
        CheckpointError: the run is not finished, or its files are damaged or do not fit each other.
    """
    return Predictor(load_checkpoint(path)) if _has_head(path) else None


def _has_head(path: str) -> bool:
    if names.is_foreign(path):
        return identify(path).writing is None and prefix_of(convert.load(path).values) is not None
    if not os.path.isdir(path) or any(os.path.lexists(os.path.join(path, name)) for name in (TASK_FILE, JOINT_FILE)):
        return False
    weights = os.path.join(model_folder(path), folder.WEIGHTS)
    if not os.path.isfile(weights):
        return False
    with safe_open(weights, "numpy") as file:
        return prefix_of(file.keys()) is not None
