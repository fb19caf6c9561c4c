"""Chooses the devices that share a training step."""

import tensorflow as tf

from data_pipelines.errors import DeviceError

STRATEGIES = ("one_device", "mirrored")


def choose(name: str, num_virtual_devices: int = 0) -> tf.distribute.Strategy:
    """The strategy of that name.

    Args:
        name: "one_device" for the first GPU or the CPU; "mirrored" for all GPUs, or for virtual CPUs.
        num_virtual_devices: splits the CPU into as many devices, to try "mirrored" without GPUs.

    Raises:
        DeviceError: the devices are not there.
    """
    if num_virtual_devices:
        split_cpu(num_virtual_devices)
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
    return tf.distribute.MirroredStrategy(devices)


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
