"""How a training command computes its steps: the flags that all of them share, and what these mean."""

import keras

from data_pipelines.errors import UsageError
from xmodels.jobs.devices import tpu_flags
from xmodels.jobs.training_options import PrecisionOptions
from xmodels.training.devices.distribution import num_gpus
from xmodels.training.devices.processor import BFLOAT16, CPUINFO, multiplies_bfloat16
from xmodels.training.step.learner import Memory
from xmodels.training.watching.progress import print_status

POLICIES = {"none": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
INSTRUCTIONS = " or ".join(BFLOAT16)


def memory_of(options: PrecisionOptions) -> Memory:
    """Returns what a step does to need less memory."""
    return Memory(options.gradient_accumulation_steps, options.rematerialize, options.ema_decay)


def set_precision(options: PrecisionOptions) -> None:
    """Sets the policy of the layers that are made from now on."""
    keras.config.set_dtype_policy(POLICIES[options.mixed_precision])
    warn_of_precision(options)


def warn_of_precision(options: PrecisionOptions) -> None:
    """Says so where the devices gain nothing from a precision."""
    if num_gpus():
        return
    if options.mixed_precision == "float16":
        print_status(
            "Warning: --mixed_precision=float16 without a GPU gains no speed, and is only good for trials. Use "
            f"--mixed_precision=bfloat16 (fast where {CPUINFO} has {INSTRUCTIONS}), or none."
        )
    if options.mixed_precision == "bfloat16" and on_processor(options) and multiplies_bfloat16() is False:
        print_status(
            f"Warning: --mixed_precision=bfloat16 gains no speed on this processor ({CPUINFO} has neither of {INSTRUCTIONS}). "
            "Leave the flag out."
        )


def on_processor(options: PrecisionOptions) -> bool:
    """Returns whether the steps of a machine without a GPU are its processor's, and not a TPU's."""
    return options.distribution_strategy != "tpu" and not tpu_flags(options).asked_for


def check_batch_size(options: PrecisionOptions, batch_size: int, replicas: int) -> None:
    """Raises a UsageError unless the batch can be shared by the devices, and cut into parts."""
    parts = options.gradient_accumulation_steps
    if batch_size % (replicas * parts):
        wanted = f"{replicas} devices" + (f" times --gradient_accumulation_steps={parts}" if parts > 1 else "")
        fitting = max(1, round(batch_size / (replicas * parts))) * replicas * parts
        raise UsageError(f"--train_batch_size={batch_size}: must be a multiple of the {wanted}, such as {fitting}.")
