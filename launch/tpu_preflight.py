"""Tells whether a pretraining compiles for a TPU, fits, and how fast it could be, without a TPU."""

import sys

from launch.command import Command
from xmodels.jobs.tpu_preflight.options import Options

COMMAND = Command(
    Options,
    "Tells, without a TPU, whether a pretraining compiles for one and fits its memory, and how fast it could be. Compiles "
    "the whole training step with the TPU's own compiler (docs/tpu.md); needs `pip install xmodels[tpu-preflight]`.",
    "xmodels tpu_preflight --system=bert --size=base --topology=v5e:2x4 --train_batch_size=256 --max_seq_length=128",
    "TPUs",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
