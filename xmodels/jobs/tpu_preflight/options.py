"""Tells, without a TPU, whether a pretraining compiles for one and fits its memory, and how fast it could be. Compiles
the whole training step with the TPU's own compiler (docs/tpu.md); needs `pip install xmodels[tpu-preflight]`.

    xmodels tpu_preflight --system=bert --size=base --topology=v5e:2x4 --train_batch_size=256 --max_seq_length=128
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A pretraining and the TPU that it is compiled for. None keeps the recipe's value."""

    SECTION: ClassVar = "TPUs"
    JOB: ClassVar = "xmodels.jobs.tpu_preflight.run:preflight"

    system: str = option(REQUIRED, "Published system, as in `xmodels pretrain`.", section="Model")
    size: str = option("base", "Size of the network.")
    set: str | None = option(None, "NAME=VALUE: a hyperparameter of the system or a field of its network's configuration; see `xmodels pretrain`.", repeatable=True)  # fmt: skip
    vocab_file: str | None = option(None, "Vocabulary. Only its size matters, so vocab_size is enough.")
    vocab_size: int = option(30522, "Size of the vocabulary, if vocab_file is not given.", minimum=1)
    topology: str = option("v5e:2x4", "TPU generation and slice: v2, v3, v5e or v6e with XxY chips, v4 or v5p with XxYxZ.", section="Training")  # fmt: skip
    train_batch_size: int | None = option(None, "Batch size: examples per step, over all devices. Default: the system's.", minimum=1)  # fmt: skip
    max_seq_length: int = option(128, "Length of an example in tokens.", minimum=8)
    max_predictions_per_seq: int | None = option(None, "Maximum number of masked tokens per example. Default: 20, or what the training masks if that is more.", minimum=1)  # fmt: skip
    optimizer: str | None = option(None, "Optimizer, as in `xmodels pretrain`. Default: the system's.")
    mixed_precision: str = option("bfloat16", "Compute in bfloat16, with weights in float32.", choices=("none", "bfloat16"))  # fmt: skip
    gradient_accumulation_steps: int = option(1, "Split the batch of each device into this many parts, computed one after the other.", minimum=1)  # fmt: skip
    rematerialize: bool = option(False, "Recompute blocks in the backward pass instead of storing their activations.")
    backend: str = option("tensorflow", "Keras backend that builds the training step. tensorflow: the step of `xmodels pretrain`. jax: the same network, objective and optimizer, with the inputs spread over all chips.", choices=("tensorflow", "jax"))  # fmt: skip
    max_compiles: int = option(5, "Maximum number of batch sizes to compile, each about a minute for base. 1: only the given one.", section="Search for the largest batch", minimum=1)  # fmt: skip
