"""Averages the weights of the last states of a run, as the Transformer paper does, and writes them as a model folder.

xmodels average_checkpoints --model_dir=run --last=5 --output_dir=averaged
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A run, how many of its states to average, and the model folder to write."""

    SECTION: ClassVar = "Checkpoints and serving"
    JOB: ClassVar = "xmodels.jobs.average_checkpoints.run:average_checkpoints"
    EARLY: ClassVar = "xmodels.jobs.early:check_averaging"

    model_dir: str = option(REQUIRED, "Run folder; the run may be unfinished.", section="Run and output")
    last: int = option(5, "Number of last states to average. Train with --keep_checkpoint_max to keep as many.", minimum=1)  # fmt: skip
    output_dir: str = option(REQUIRED, "Folder for the averaged network and its heads.")
