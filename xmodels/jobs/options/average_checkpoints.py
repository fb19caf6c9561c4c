"""The options of `xmodels average_checkpoints`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A run, how many of its states, and the model folder that their mean becomes."""

    JOB: ClassVar = "xmodels.jobs.average:average_checkpoints"

    model_dir: str = option(REQUIRED, "Folder of the run; it may be unfinished.", section="Run and output")
    last: int = option(5, "How many states. Train with --keep_checkpoint_max to keep as many.", minimum=1)
    output_dir: str = option(REQUIRED, "Folder for the averaged network and its heads.")
