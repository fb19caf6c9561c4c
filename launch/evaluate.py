"""Scores a fine-tuned network on labelled rows, or a causal one on text."""

import sys

from launch.command import Command
from xmodels.jobs.evaluate.options import Options

COMMAND = Command(
    Options,
    "Scores a network: labels, tags and answers, perplexity of texts, or BLEU of translations. Labels are scored by accuracy, F1 and confusions; "
    "texts also by bits per byte, last words and words for gaps. --task=probe shows what a network knows before fine-tuning.",
    "xmodels evaluate --model_dir=classifier --test_file=test.tsv\n"
    "xmodels evaluate --model_dir=hf:gpt2 --test_file=wiki.test.tokens --detokenize=wikitext --stride=512\n"
    "xmodels evaluate --model_dir=run --test_file=test.de --target_file=test.en --num_beams=4\n"
    "xmodels evaluate --task=probe --model_dir=run --train_file=train.tsv --test_file=test.tsv",
    "Using a network",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
