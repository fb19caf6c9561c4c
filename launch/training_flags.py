"""The flags of run folders, devices, precision and memory, which all commands that train share."""

from launch.command import Command


def add_resuming(command: Command, save_steps: int) -> None:
    """Adds flags about states to the section of the run folder."""
    command.choice("resume", "auto", ["auto", "never", "must"], "auto: go on from the last whole state, if there is one. must: fail without one. never: fail with one.")  # fmt: skip
    command.integer("save_checkpoints_steps", save_steps, "Steps between two resumable states.", minimum=1)
    command.integer(
        "keep_checkpoint_max", 2, "How many of the newest states are kept, besides the best one.", minimum=1
    )


def add_devices(command: Command) -> None:
    """Adds the section of devices, which docs/training.md explains."""
    command.section("Devices (docs/training.md)")
    command.choice("distribution_strategy", "auto", ["auto", "one_device", "mirrored", "multi_worker", "tpu"], "auto: a TPU if one is asked for, else the machines of TF_CONFIG, else all GPUs, else the CPU. mirrored: all GPUs of this machine. multi_worker: all machines that TF_CONFIG names.")  # fmt: skip
    command.integer("num_virtual_devices", 0, "Split the CPU into this many devices, to try mirrored without GPUs.")
    command.boolean("use_tpu", False, "Ask for a TPU.")
    command.string("tpu", None, "Name or grpc:// address of a TPU of other machines. Default: the one of this machine.")
    command.string("tpu_zone", None, "Zone of that TPU.")
    command.string("gcp_project", None, "Project of that TPU.")
    command.switch("jit_compile", "auto", "Compile the step with XLA. auto: on GPUs; on CPUs it measured slower.")


def add_precision(command: Command) -> None:
    """Adds the section of precision, memory and averages."""
    command.section("Precision and memory (docs/training.md)")
    command.choice("mixed_precision", "none", ["none", "bfloat16", "float16"], "Compute in 16 bits, with weights, softmax, normalisation and losses in float32. float16 scales the loss; it is for GPUs.")  # fmt: skip
    command.integer("gradient_accumulation_steps", 1, "Cut the batch of each device into so many parts, computed one after the other. train_batch_size stays the whole, and the result the same.", minimum=1)  # fmt: skip
    command.boolean("rematerialize", False, "Compute blocks again in the backward pass instead of keeping them: less memory, about a third more time.")  # fmt: skip
    command.number("clip_norm", None, "Scale gradients down to this global norm; 0 for never. Default: the system's, usually 1.")  # fmt: skip
    command.number("ema_decay", 0.0, "Evaluate and hand over a moving average of the weights, such as 0.999; 0 for none.", maximum=0.999999)  # fmt: skip
    command.integer("max_skipped_steps", 20, "End the run when so many steps in a row, or ten times as many in all, had numbers that are not finite.", minimum=1)  # fmt: skip
