"""Tells whether a pretraining compiles for a TPU, fits, and how fast it could be, without a TPU."""

import sys

from launch.command import Command
from xmodels.jobs.quiet import quiet_start

COMMAND = Command(
    "tpu_preflight",
    "Tells whether a pretraining compiles for a TPU, fits its memory, and how fast it could be, without a TPU. Compiles "
    "the whole training step with the TPU's own compiler (docs/tpu.md); needs `pip install xmodels[tpu-preflight]`.",
    "xmodels tpu_preflight --system=bert --size=base --topology=v5e:2x4 --train_batch_size=256 --max_seq_length=128",
)
COMMAND.section("Model")
COMMAND.string("system", None, "Published system, as of `xmodels pretrain`.", required=True)
COMMAND.string("size", "base", "Size of the network.")
COMMAND.settings(
    "set", "NAME=VALUE: a number of the system or a field of its network's configuration; see `xmodels pretrain`."
)
COMMAND.string("vocab_file", None, "Vocabulary; only its length matters, so that vocab_size will do.")
COMMAND.integer("vocab_size", 30522, "Pieces of the vocabulary, without vocab_file.", minimum=1)
COMMAND.section("Training")
COMMAND.string("topology", "v5e:2x4", "Generation and slice: v2, v3, v5e or v6e with XxY chips, v4 or v5p with XxYxZ.")
COMMAND.integer("train_batch_size", None, "Examples a step, over all devices. Default: the system's.", minimum=1)
COMMAND.integer("max_seq_length", 128, "Tokens of an example.", minimum=8)
COMMAND.integer("max_predictions_per_seq", 20, "Most hidden tokens in an example.", minimum=1)
COMMAND.string("optimizer", None, "As of `xmodels pretrain`. Default: the system's.")
COMMAND.choice("mixed_precision", "bfloat16", ["none", "bfloat16"], "Compute in bfloat16, with weights in float32.")
COMMAND.integer("gradient_accumulation_steps", 1, "Parts into which a device cuts its share of a batch, one after the other.", minimum=1)  # fmt: skip
COMMAND.boolean("rematerialize", False, "Compute blocks again in the backward pass instead of keeping them.")
COMMAND.choice(
    "backend",
    "tensorflow",
    ["tensorflow", "jax"],
    "Of Keras, by which the step is built. tensorflow: the step that `xmodels pretrain` takes. jax: the same network, objective and optimizer with inputs shared by all chips.",
)
COMMAND.section("Search for the largest batch")
COMMAND.integer("max_compiles", 5, "Compile so many batches at most, each a minute or so for base. 1: only the one asked for.", minimum=1)  # fmt: skip


def run() -> None:
    with quiet_start():
        from xmodels.jobs.tpu_preflight import preflight
        from xmodels.jobs.tpu_step import Options

    preflight(Options(**COMMAND.options()))


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
