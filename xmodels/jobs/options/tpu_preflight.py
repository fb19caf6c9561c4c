"""The options of `xmodels tpu_preflight`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A pretraining and the TPU for which it is compiled; None keeps the recipe's number."""

    JOB: ClassVar = "xmodels.jobs.tpu_preflight:preflight"

    system: str = option(REQUIRED, "Published system, as of `xmodels pretrain`.", section="Model")
    size: str = option("base", "Size of the network.")
    set: str | None = option(None, "NAME=VALUE: a number of the system or a field of its network's configuration; see `xmodels pretrain`.", repeatable=True)  # fmt: skip
    vocab_file: str | None = option(None, "Vocabulary; only its length matters, so that vocab_size will do.")
    vocab_size: int = option(30522, "Pieces of the vocabulary, without vocab_file.", minimum=1)
    topology: str = option("v5e:2x4", "Generation and slice: v2, v3, v5e or v6e with XxY chips, v4 or v5p with XxYxZ.", section="Training")  # fmt: skip
    train_batch_size: int | None = option(None, "Examples a step, over all devices. Default: the system's.", minimum=1)
    max_seq_length: int = option(128, "Tokens of an example.", minimum=8)
    max_predictions_per_seq: int = option(20, "Most hidden tokens in an example.", minimum=1)
    optimizer: str | None = option(None, "As of `xmodels pretrain`. Default: the system's.")
    mixed_precision: str = option(
        "bfloat16", "Compute in bfloat16, with weights in float32.", choices=("none", "bfloat16")
    )
    gradient_accumulation_steps: int = option(1, "Parts into which a device cuts its share of a batch, one after the other.", minimum=1)  # fmt: skip
    rematerialize: bool = option(False, "Compute blocks again in the backward pass instead of keeping them.")
    backend: str = option("tensorflow", "Of Keras, by which the step is built. tensorflow: the step that `xmodels pretrain` takes. jax: the same network, objective and optimizer with inputs shared by all chips.", choices=("tensorflow", "jax"))  # fmt: skip
    max_compiles: int = option(5, "Compile so many batches at most, each a minute or so for base. 1: only the one asked for.", section="Search for the largest batch", minimum=1)  # fmt: skip
