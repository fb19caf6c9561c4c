"""The flags of optimizers and schedules, which `pretrain` and `finetune` share. docs/optimizers.md tells what they mean."""

from launch.command import Command

# As in xmodels.training.optimizers.optimizers and schedules, which are too heavy to import here.
OPTIMIZERS = [
    "bert_adamw", "adamw", "adam", "lamb", "lamb_corrected", "adamax", "mt_dnn_adamax", "adafactor", "sgd", "sgd_nesterov",
    "adagrad",
]  # fmt: skip
SCHEDULES = [
    "bert_linear", "linear", "polynomial", "cosine", "constant", "noam", "inverse_sqrt", "t5_inverse_sqrt",
    "slanted_triangular", "gpt_linear",
]  # fmt: skip


def define(command: Command, unset: bool = True) -> None:
    """Defines the flags on a command.

    Args:
        unset: whether a system tells the numbers that are not given; else the network tells some of them.
    """
    system = " Default: the system's." if unset else " Default: bert_{0}, for GPT {1}."
    command.choice("optimizer", None, OPTIMIZERS, f"bert_adamw and lamb are Google's, without bias correction. LAMB is meant for batches of thousands.{system.format('adamw', 'adamw')}")  # fmt: skip
    command.choice("lr_schedule", None, SCHEDULES, f"How the learning rate rises and falls.{system.format('linear', 'gpt_linear')}")  # fmt: skip
    command.number("weight_decay", None, "Default: 0.01 for the relatives of AdamW and for LAMB, else 0. Biases and normalisations do not decay.")  # fmt: skip
    command.number("adam_beta1", None, "Of Adam and its relatives. Default: 0.9.", maximum=1.0)
    command.number("adam_beta2", None, "Likewise. Default: 0.999; adam: 0.98.", maximum=1.0)
    command.number("adam_epsilon", None, "Likewise. Default: 1e-6; adam: 1e-9, adamax: 1e-8.")
    command.number("momentum", None, "Of SGD. Default: 0; sgd_nesterov: 0.9.", maximum=1.0)
    command.number("min_lr_ratio", None if unset else 0.0, "The linear, polynomial and cosine schedules end at this share of the peak.", maximum=1.0)  # fmt: skip
    command.number("lr_power", None if unset else 1.0, "Exponent of the polynomial schedule.")
    command.number("layerwise_lr_decay", None if unset else 1.0, "Learning rate of a layer over that of the layer above it; 0 trains nothing below the top.", maximum=1.0)  # fmt: skip
