"""Devices, the precision they compute in, the machines that work together."""

import os
import shutil

from xmodels.doctor.case import Case
from xmodels.training.devices import tf_config
from xmodels.training.watching.progress import print_status

LOCAL = ("localhost", "127.0.0.1", "[::1]", "0.0.0.0")  # names that mean another machine on each


def cluster(case: Case) -> str | None:
    """Returns TF_CONFIG, where it is set or needed."""
    strategy, text = case.flags.distribution_strategy, os.environ.get("TF_CONFIG")
    if not text and strategy != "multi_worker":
        return None
    found = tf_config.read(text)
    addresses = found.addresses
    here = [address for address in addresses if address.rpartition(":")[0] in LOCAL]
    if here and len(here) < len(addresses):
        print_status(
            f"Warning: TF_CONFIG names {here[0]} beside other machines, to each of which that is another one. Use the name by "
            "which the others reach it."
        )
    if len(addresses) > 1 and strategy not in ("multi_worker", "auto", "tpu"):
        print_status(
            f"Warning: TF_CONFIG names {len(addresses)} workers, but --distribution_strategy={strategy} does not read it: each "
            "would train alone. Use --distribution_strategy=multi_worker, or run `unset TF_CONFIG`."
        )
    return f"worker {found.index} of {len(addresses)}"


def devices(case: Case) -> str:
    """Asks for the devices as a training would; of what needs other machines or a TPU only what can be known here."""
    import tensorflow as tf

    from xmodels.jobs.devices import choose, tpu_flags
    from xmodels.training.devices import distribution, tpu

    flags, asked = case.flags, tpu_flags(case.flags)
    strategy = flags.distribution_strategy
    distribution.check_gpus()
    if strategy == "tpu" or (strategy == "auto" and asked.asked_for):
        tpu.check(asked)
        return "a runtime for TPUs; no TPU was asked"
    if strategy == "multi_worker" or (strategy == "auto" and os.environ.get("TF_CONFIG")):
        return f"{os.cpu_count()} processors; the other workers were not asked"
    case.num_replicas = choose(flags).num_replicas_in_sync
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and shutil.which("nvidia-smi") and os.environ.get("CUDA_VISIBLE_DEVICES") is None:
        print_status(
            "Warning: this machine has an NVIDIA driver, but TensorFlow sees no GPU, so training would run on the CPU. Run "
            '`pip install -e ".[gpu]"` where setup.py lies; `nvidia-smi` tells whether the driver works.'
        )
    return f"{len(gpus)} GPU(s), {os.cpu_count()} processors; {strategy} trains on {case.num_replicas} device(s)"


def precision(case: Case) -> str | None:
    """Returns the precision, on these devices; where the processor could be faster with another one, that too."""
    import tensorflow as tf

    from xmodels.jobs.step_options import on_processor, warn_of_precision
    from xmodels.training.devices.processor import multiplies_bfloat16

    warn_of_precision(case.flags)
    if tf.config.list_physical_devices("GPU") or not on_processor(case.flags) or case.flags.mixed_precision != "none":
        return None
    return "float32; --mixed_precision=bfloat16 is faster on this processor" if multiplies_bfloat16() else None
