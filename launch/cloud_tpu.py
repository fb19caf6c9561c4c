"""Rents a Cloud TPU and runs a command of xmodels on it."""

import sys

from launch.command import Command
from xmodels.jobs.cloud_tpu.options import Options

COMMAND = Command(
    Options,
    "Rents a Cloud TPU and runs a command of xmodels on it. ACTION is the first word: create requests the TPU; submit requests it if need be, "
    "installs the project on every host, starts the command there, and starts again when the TPU is taken away; logs shows the log; delete gives the TPU back. "
    "By default it only prints the gcloud commands (docs/tpu.md).",
    "xmodels cloud_tpu submit --accelerator_type=v5litepod-8 --zone=us-west4-a --project=my-project --bucket=my-bucket \\\n"
    "    --spot --command='pretrain --system=bert --data_dir=/mnt/xmodels/records --model_dir=/mnt/xmodels/run \\\n"
    "    --distribution_strategy=tpu'",
    "TPUs",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
