"""The options shared by all commands that train: optimization, batches, precision, the run folder and devices."""

import dataclasses

from data_pipelines.options.declaration import REQUIRED, SWITCH, option
from xmodels.training.optimizers.kinds import OPTIMIZERS
from xmodels.training.schedules.kinds import SCHEDULES


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizationOptions:
    """Optimizer and schedule, explained in docs/optimizers.md. None keeps the value of the system or of the network."""

    optimizer: str | None = option(None, "bert_adamw and lamb are Google's, without bias correction. LAMB is meant for batches of thousands. Default: the system's, but bert_adamw in place of LAMB for batches below 512 examples. Fine-tuning: bert_adamw; for GPT adamw; without --learning_rate, muon for networks narrower than 768 that were pretrained with muon.", section="Training", choices=tuple(OPTIMIZERS), structural=True)  # fmt: skip
    lr_schedule: str | None = option(None, "Learning rate schedule. Default: the system's; for fine-tuning bert_linear, for GPT gpt_linear.", choices=tuple(SCHEDULES))  # fmt: skip
    weight_decay: float | None = option(None, "Weight decay. Default: 0.01 for AdamW and its relatives and for LAMB, else 0. Biases and normalisations are not decayed.")  # fmt: skip
    adam_beta1: float | None = option(None, "Beta 1 of Adam and its relatives. Default: 0.9.", maximum=1.0)
    adam_beta2: float | None = option(None, "Beta 2 of Adam and its relatives. Default: 0.999; adam: 0.98.", maximum=1.0)  # fmt: skip
    adam_epsilon: float | None = option(None, "Epsilon of Adam and its relatives. Default: 1e-6; adam: 1e-9, adamax: 1e-8.")  # fmt: skip
    momentum: float | None = option(None, "Momentum of SGD and Muon. Default: 0; sgd_nesterov: 0.9, muon: 0.95.", maximum=1.0)  # fmt: skip
    min_lr_ratio: float | None = option(None, "Share of the peak learning rate at which the linear, polynomial and cosine schedules end.", maximum=1.0)  # fmt: skip
    lr_power: float | None = option(None, "Exponent of the polynomial schedule.")
    layerwise_lr_decay: float | None = option(None, "Learning rate of each layer as a fraction of that of the layer above it. 0 trains only what is above all layers, such as the head.", maximum=1.0, structural=True)  # fmt: skip
    dry_run: bool = option(False, "Show what would be trained, with which settings and at what cost, and the first batch. Writes nothing.")  # fmt: skip
    seed: int = option(12345, "Random seed of the initial weights, the order of the data, masks and dropout.", structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """Batches of examples of similar length."""

    length_buckets: str | None = option(None, "Batch examples of similar length together: auto, or bucket lengths such as 32,64,128. Saves computing on padding.", section="Batches", structural=True)  # fmt: skip
    tokens_per_batch: int | None = option(None, "Batches of about this many tokens over all devices, including padding, instead of train_batch_size. Batches of short examples have more rows than those of long ones. Lengths are those of length_buckets, by default auto.", minimum=1, structural=True)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrecisionOptions:
    """How a training step is computed, explained in docs/training.md."""

    mixed_precision: str = option("none", "Compute in 16 bits, but keep weights, softmax, normalisations and losses in float32. bfloat16 is fast on TPUs, newer GPUs and CPUs with AVX-512 BF16. float16 uses loss scaling, and is for GPUs.", section="Precision and memory (docs/training.md)", choices=("none", "bfloat16", "float16"), structural=True)  # fmt: skip
    gradient_accumulation_steps: int = option(1, "Split the batch of each device into this many parts, computed one after the other. train_batch_size remains the whole batch, and the result is the same.", minimum=1)  # fmt: skip
    rematerialize: bool = option(False, "Recompute blocks in the backward pass instead of storing their activations: less memory, about a third more time.")  # fmt: skip
    clip_norm: float | None = option(None, "Clip gradients to this global norm; 0 turns clipping off. Default: the system's, usually 1.")  # fmt: skip
    ema_decay: float = option(0.0, "Decay of a moving average of the weights, such as 0.999, which is used for evaluation and in backbone/. 0: no average.", maximum=0.999999, structural=True)  # fmt: skip
    max_skipped_steps: int = option(20, "Stop the run after this many consecutive steps, or ten times as many in all, whose loss or gradients were NaN or infinite.", minimum=1)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The run folder, its saved states and its log."""

    model_dir: str = option(REQUIRED, "Folder of the run.", section="Run folder")
    resume: str = option("auto", "auto: continue from the last complete state, if there is one. must: fail if there is none. never: fail if there is one.", choices=("auto", "never", "must"))  # fmt: skip
    save_checkpoints_steps: int = option(1000, "Steps between two saved states that a run can resume from.", minimum=1)
    keep_checkpoint_max: int = option(2, "Number of newest states to keep, besides the best one.", minimum=1)
    log_steps: int | None = option(None, "Steps between two progress lines. Default: a twentieth of the run, at most 100.", minimum=1)  # fmt: skip
    log_norms_steps: int = option(0, "Steps between two logs of the norms and histograms of gradients, weights and updates of each layer; 0: never.")  # fmt: skip
    profile_steps: str | None = option(None, "First and last step of a TensorBoard profile, such as 100,110.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Devices, explained in docs/training.md."""

    distribution_strategy: str = option("auto", "auto: a TPU if --use_tpu or --tpu asks for one, else the machines of TF_CONFIG, else all GPUs, else the CPU. mirrored: all GPUs of this machine. multi_worker: all machines that TF_CONFIG names.", section="Devices (docs/training.md)", choices=("auto", "one_device", "mirrored", "multi_worker", "tpu"))  # fmt: skip
    num_virtual_devices: int = option(0, "Split the CPU into this many devices, to try mirrored without GPUs.")
    use_tpu: bool = option(False, "Train on a TPU.")
    tpu: str | None = option(None, "Name or grpc:// address of a TPU on other machines. Default: the TPU of this machine.")  # fmt: skip
    tpu_zone: str | None = option(None, "Google Cloud zone of that TPU.")
    gcp_project: str | None = option(None, "Google Cloud project of that TPU.")
    jit_compile: str | bool = option("auto", "Compile the training step with XLA. auto: only on GPUs; on CPUs it measured slower.", choices=SWITCH)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions(OptimizationOptions, BatchOptions, PrecisionOptions, RunOptions, DeviceOptions):
    """All training options. Training runs on TensorFlow."""

    NEEDS_TENSORFLOW = True
