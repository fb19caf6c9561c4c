"""Pretrains a published system on records."""

import sys

from launch.command import Command
from xmodels.jobs.pretrain.options import Options

COMMAND = Command(
    Options,
    "Pretrains a published system on records. The same command resumes after an interruption.",
    "xmodels pretrain --system=bert_wwm --size=small --data_dir=records --model_dir=run \\\n"
    "    --num_train_steps=20000 --eval_data_dir=heldout_records",
    "Training",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
