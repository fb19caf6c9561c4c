"""A pretrained masked language model, opened to fill the masks of texts."""

import os

from xmodels.conversion import convert, names
from xmodels.models import folder
from xmodels.runs.loaded import BACKBONE_FOLDER
from xmodels.runs.loaded import load as load_checkpoint
from xmodels.tasks.base.run import JOINT_FILE, TASK_FILE
from xmodels.tasks.fill_mask.answer import Predictor, head_of


def load(path: str) -> Predictor | None:
    """Returns the predictor of a pretrained network, given its run, its model folder or `hf:FOLDER`; None if it has learnt a task, or
    does not predict masked tokens.

    Raises:
        CheckpointError: the files are damaged, or do not fit each other.
    """
    if any(os.path.lexists(os.path.join(path, name)) for name in (TASK_FILE, JOINT_FILE)):
        return None
    if names.is_foreign(path):
        weights = convert.load(path).values
    else:
        places = [os.path.join(path, *inner, folder.WEIGHTS) for inner in ((BACKBONE_FOLDER,), ())]
        found = next(filter(os.path.isfile, places), None)
        weights = folder.read_weights(found) if found else {}
    return Predictor(load_checkpoint(path)) if head_of(weights) else None
