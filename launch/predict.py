"""Predicts the labels or answers for texts with a fine-tuned network."""

import sys

from launch.command import Command
from xmodels.jobs.predict.options import Options

COMMAND = Command(
    Options,
    "Predicts the labels or answers for texts with a fine-tuned network, or fills masks with a pretrained one.",
    "xmodels predict --model_dir=classifier --text='It rained all week.'\n"
    "xmodels predict --model_dir=classifier --input_file=new.tsv --output_file=labelled.tsv\n"
    "xmodels predict --model_dir=pretrained --text='The capital of France is [MASK].'\n"
    "xmodels predict --model_dir=stories --text='Ann went home. Ann took the lamp.' --text_pair='Where is the lamp?'",
    "Using a network",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
