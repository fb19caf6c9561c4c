"""Chooses the devices that share a training step."""

import os

import tensorflow as tf

from data_pipelines.errors import DeviceError
from xmodels.training.devices import rendezvous, tf_config, tpu
from xmodels.training.devices.memory_optimizer import turn_off_memory_optimizer
from xmodels.training.devices.tpu import Tpu
from xmodels.training.watching.progress import only_errors, print_status

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


def choose(name: str, num_virtual_devices: int = 0, tpu_flags: Tpu | None = None) -> tf.distribute.Strategy:
    """Returns the strategy of that name. Call it before anything else uses TensorFlow.

    Args:
        name: "one_device" for the first GPU or the CPU; "mirrored" for all GPUs, or for virtual CPUs; "multi_worker"
            for the machines that TF_CONFIG names; "tpu"; "auto" for a TPU if one is asked for, else the machines of
            TF_CONFIG, else all GPUs, else the CPU.
        num_virtual_devices: splits the CPU into as many devices, to try "mirrored" without GPUs.

    Raises:
        DeviceError: the devices are not there.
        UsageError: TF_CONFIG is wrong.
    """
    tpu_flags = tpu_flags or Tpu()
    turn_off_memory_optimizer()
    check_gpus()
    if num_virtual_devices:
        split_cpu(num_virtual_devices)
    if name == "auto":
        name = _best(num_virtual_devices, tpu_flags)
    if name == "tpu":
        return tpu.connect(tpu_flags)
    if name == "multi_worker":
        return _multi_worker()
    gpus, cpus = tf.config.list_logical_devices("GPU"), tf.config.list_logical_devices("CPU")
    devices = [device.name for device in gpus or cpus]
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy(devices[0])
    if name != "mirrored":
        raise DeviceError(f"--distribution_strategy={name}: unknown. Known: {', '.join(STRATEGIES)}.")
    if len(devices) < 2:
        raise DeviceError(
            f"--distribution_strategy=mirrored needs two devices or more, found {len(gpus)} GPU(s). Use one_device, "
            "or try it on the CPU with --num_virtual_devices=2."
        )
    # Collectives are known by a number in the process, so a second strategy, of another network, must count elsewhere.
    tf.distribute.MirroredStrategy._collective_key_base += 1000
    return tf.distribute.MirroredStrategy(devices)


def _best(num_virtual_devices: int, tpu_flags: Tpu) -> str:
    if tpu_flags.asked_for:
        return "tpu"
    if os.environ.get("TF_CONFIG"):
        return "multi_worker"
    # Physical devices, since asking for logical ones starts TensorFlow.
    return "mirrored" if max(len(tf.config.list_physical_devices("GPU")), num_virtual_devices) > 1 else "one_device"


def _multi_worker() -> tf.distribute.Strategy:
    """Returns all devices of all machines that TF_CONFIG names; waits until they are there."""
    cluster = tf_config.read(os.environ.get("TF_CONFIG"))
    rendezvous.wait_for_workers(cluster)
    if cluster.index:
        print_status(
            f"Worker {cluster.index} of {len(cluster.addresses)}: what happens is told by the chief, {cluster.addresses[0]}."
        )
        only_errors()
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except tf.errors.UnknownError:
        address = cluster.addresses[cluster.index]
        raise DeviceError(
            f"TF_CONFIG: TensorFlow cannot listen at {address}. Is another process of the job still running there, or "
            "is this another machine?"
        ) from None
    except RuntimeError as error:
        raise DeviceError(f"--distribution_strategy=multi_worker: TensorFlow is already running ({error}).") from None


def num_gpus() -> int:
    """Returns the GPUs that TensorFlow sees; asking takes none of their memory."""
    return len(tf.config.list_physical_devices("GPU"))


def check_gpus() -> None:
    """Raises a DeviceError where the environment asks for GPUs that TensorFlow does not see."""
    asked = os.environ.get("CUDA_VISIBLE_DEVICES", "").strip()
    if not asked or asked.startswith("-") or num_gpus():
        return
    if not tf.sysconfig.get_build_info().get("is_cuda_build"):
        why = "this TensorFlow was built without CUDA. Install one with it"
    elif not os.path.exists("/dev/nvidiactl"):
        why = "this machine shows no NVIDIA driver. Run where there is one (in containers: `--gpus all`)"
    else:
        why = 'the CUDA libraries may be missing (`pip install -e ".[gpu]"`), or the number is that of no card (`nvidia-smi -L`)'
    raise DeviceError(
        f"CUDA_VISIBLE_DEVICES={asked} asks for GPUs, but TensorFlow sees none: {why}. To use the CPU, run "
        "`export CUDA_VISIBLE_DEVICES=-1`."
    )


def compiles(jit_compile: str | bool, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether forward and backward are compiled with XLA by us.

    Args:
        jit_compile: true or false, or "auto" for: on GPUs. On CPUs it measured slower. What runs on a TPU is compiled
            by its strategy, whatever is said here.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return False
    if str(jit_compile).lower() != "auto":
        return str(jit_compile).lower() == "true"
    return any("GPU" in device for device in strategy.extended.worker_devices)


def is_processor(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether CPUs compute, and nothing else."""
    if not isinstance(strategy, tf.distribute.Strategy):  # what stands for devices that are not there
        return False
    if strategy is tf.distribute.get_strategy() and not tf.distribute.has_strategy():
        return not tf.config.list_logical_devices("GPU")  # the default one names no devices
    return all("CPU" in device for device in strategy.extended.worker_devices)


def split_cpu(count: int) -> None:
    """Splits the CPU into `count` logical devices; must come before TensorFlow uses it."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:
        if len(tf.config.list_logical_devices("CPU")) != count:
            raise DeviceError(
                f"--num_virtual_devices={count}: TensorFlow is already running with other devices."
            ) from None
