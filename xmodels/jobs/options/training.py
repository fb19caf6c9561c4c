"""The options that all commands share which train: optimization, batches, precision, the run folder and devices."""

import dataclasses

from data_pipelines.options.declaration import REQUIRED, SWITCH, option
from xmodels.training.optimizers.kinds import OPTIMIZERS
from xmodels.training.schedules.kinds import SCHEDULES


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizationOptions:
    """Optimizer and schedule, which docs/optimizers.md explains; None keeps the number of the system or of the network."""

    optimizer: str | None = option(None, "bert_adamw and lamb are Google's, without bias correction. LAMB is meant for batches of thousands. Default: the system's, where that is LAMB bert_adamw for fewer than 512 examples; fine-tuning bert_adamw, for GPT adamw, and without --learning_rate muon for networks narrower than 768 that muon has trained.", section="Training", choices=tuple(OPTIMIZERS), structural=True)  # fmt: skip
    lr_schedule: str | None = option(None, "How the learning rate rises and falls. Default: the system's; fine-tuning bert_linear, for GPT gpt_linear.", choices=tuple(SCHEDULES))  # fmt: skip
    weight_decay: float | None = option(None, "Default: 0.01 for the relatives of AdamW and for LAMB, else 0. Biases and normalisations do not decay.")  # fmt: skip
    adam_beta1: float | None = option(None, "Of Adam and its relatives. Default: 0.9.", maximum=1.0)
    adam_beta2: float | None = option(None, "Likewise. Default: 0.999; adam: 0.98.", maximum=1.0)
    adam_epsilon: float | None = option(None, "Likewise. Default: 1e-6; adam: 1e-9, adamax: 1e-8.")
    momentum: float | None = option(None, "Of SGD. Default: 0; sgd_nesterov: 0.9.", maximum=1.0)
    min_lr_ratio: float | None = option(None, "The linear, polynomial and cosine schedules end at this share of the peak.", maximum=1.0)  # fmt: skip
    lr_power: float | None = option(None, "Exponent of the polynomial schedule.")
    layerwise_lr_decay: float | None = option(None, "Learning rate of a layer over that of the layer above it; 0 trains nothing below the top.", maximum=1.0, structural=True)  # fmt: skip
    dry_run: bool = option(False, "Show what would be trained, from which numbers and at what cost, with the first batch, and write nothing.")  # fmt: skip
    seed: int = option(12345, "Seed of initial weights, the order of the data, masks and dropout.", structural=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """Batches of examples of like length."""

    length_buckets: str | None = option(None, "Batches of examples of like length: auto, or lengths such as 32,64,128. Saves computing on padding.", section="Batches", structural=True)  # fmt: skip
    tokens_per_batch: int | None = option(None, "Batches of about so many tokens, padding included, over all devices, in place of train_batch_size: of short examples more rows than of long ones. Lengths as length_buckets says, by default auto.", minimum=1, structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrecisionOptions:
    """How a step is computed; docs/training.md explains it."""

    mixed_precision: str = option("none", "Compute in 16 bits, with weights, softmax, normalisation and losses in float32. bfloat16 is fast on TPUs, newer GPUs and processors with AVX-512 BF16; float16 scales the loss, and is for GPUs.", section="Precision and memory (docs/training.md)", choices=("none", "bfloat16", "float16"), structural=True)  # fmt: skip
    gradient_accumulation_steps: int = option(1, "Cut the batch of each device into so many parts, computed one after the other. train_batch_size stays the whole, and the result the same.", minimum=1)  # fmt: skip
    rematerialize: bool = option(False, "Compute blocks again in the backward pass instead of keeping them: less memory, about a third more time.")  # fmt: skip
    clip_norm: float | None = option(None, "Scale gradients down to this global norm; 0 for never. Default: the system's, usually 1.")  # fmt: skip
    ema_decay: float = option(0.0, "Evaluate and hand over a moving average of the weights, such as 0.999; 0 for none.", maximum=0.999999, structural=True)  # fmt: skip
    max_skipped_steps: int = option(20, "End the run when so many steps in a row, or ten times as many in all, had numbers that are not finite.", minimum=1)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The folder of a run, its states and its log."""

    model_dir: str = option(REQUIRED, "Folder of the run.", section="Run folder")
    resume: str = option("auto", "auto: go on from the last whole state, if there is one. must: fail without one. never: fail with one.", choices=("auto", "never", "must"))  # fmt: skip
    save_checkpoints_steps: int = option(1000, "Steps between two resumable states.", minimum=1)
    keep_checkpoint_max: int = option(2, "How many of the newest states are kept, besides the best one.", minimum=1)
    log_steps: int = option(100, "Steps between two lines of progress.", minimum=1)
    log_norms_steps: int = option(0, "Steps between two records of the norms and histograms of gradients, weights and updates of each layer; 0 for never.")  # fmt: skip
    profile_steps: str | None = option(None, "First and last step of a profile for TensorBoard, such as 100,110.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Devices, which docs/training.md explains."""

    distribution_strategy: str = option("auto", "auto: a TPU if one is asked for, else the machines of TF_CONFIG, else all GPUs, else the CPU. mirrored: all GPUs of this machine. multi_worker: all machines that TF_CONFIG names.", section="Devices (docs/training.md)", choices=("auto", "one_device", "mirrored", "multi_worker", "tpu"))  # fmt: skip
    num_virtual_devices: int = option(0, "Split the CPU into this many devices, to try mirrored without GPUs.")
    use_tpu: bool = option(False, "Ask for a TPU.")
    tpu: str | None = option(
        None, "Name or grpc:// address of a TPU of other machines. Default: the one of this machine."
    )
    tpu_zone: str | None = option(None, "Zone of that TPU.")
    gcp_project: str | None = option(None, "Project of that TPU.")
    jit_compile: str | bool = option("auto", "Compile the step with XLA. auto: on GPUs; on CPUs it measured slower.", choices=SWITCH)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions(OptimizationOptions, BatchOptions, PrecisionOptions, RunOptions, DeviceOptions):
    """All of them, which work on TensorFlow."""

    NEEDS_TENSORFLOW = True
