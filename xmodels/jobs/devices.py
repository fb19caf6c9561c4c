"""The devices that a training command asks for, and what its processes share when it begins."""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from data_pipelines.lock import hold_lock
from xmodels.training.devices import allocator, distribution
from xmodels.training.devices.tpu import Tpu
from xmodels.training.devices.workers import Workers

PATHS = ("model_dir", "data_dir", "input_file", "train_file", "init_checkpoint", "init_encoder", "init_decoder")


def choose(options) -> tf.distribute.Strategy:
    """Returns the strategy that the flags of a training command ask for. Sets up what the process needs for it."""
    allocator.keep_memory()
    return distribution.choose(options.distribution_strategy, options.num_virtual_devices, tpu_flags(options))


def tpu_flags(options) -> Tpu:
    """Returns those of them that are about a TPU."""
    paths = {name: value for name in PATHS if (value := getattr(options, name, None))}
    return Tpu(options.use_tpu, options.tpu, options.tpu_zone, options.gcp_project, paths)


@contextlib.contextmanager
def at_work(options, workers: Workers) -> Iterator[None]:
    """Surrounds a training: no other process works in its folder, and a worker that is gone is one line. Networks that are made
    behind it compute as those before it.

    Raises:
        UsageError: another process works in the folder.
        DeviceError: another worker has ended.
    """
    alone, precision = workers.is_chief and not options.dry_run, keras.config.dtype_policy()
    try:
        with workers.together(), hold_lock(options.model_dir) if alone else contextlib.nullcontext():
            yield
    finally:
        keras.config.set_dtype_policy(precision)
