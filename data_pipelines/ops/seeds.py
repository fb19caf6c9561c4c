"""Random numbers that belong to an example, not to a batch, a worker or a process.

TensorFlow's stateless generators take one seed a call, so a batch would need one call an example. SplitMix64 (Steele,
Lea and Flood, 2014) is a hash of a counter and serves a whole batch of seeds in a few element-wise operations.
"""

import tensorflow as tf

STEP = 0x9E3779B97F4A7C15
FACTORS = (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)  # a shift, and by what is multiplied then
LAST_SHIFT = 31


def _constant(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint64)


def mix(x: tf.Tensor) -> tf.Tensor:
    """Returns the output function of SplitMix64: a bijection of uint64 that scatters nearby inputs."""
    for shift, factor in FACTORS:
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _constant(shift))) * _constant(factor)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _constant(LAST_SHIFT)))


def fold(seed: tf.Tensor, number) -> tf.Tensor:
    """Returns another seed for every whole `number`. Shapes broadcast."""
    return mix(seed + _constant(STEP) * (tf.cast(number, tf.uint64) + _constant(1)))


def example_seeds(seed, epoch: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Returns a seed for each example: a hash of the run's seed, the epoch, and the example's place in the records.

    Args:
        seed: whole number.
        epoch, index: int64 (B,).

    Returns:
        uint64 (B,)
    """
    return fold(fold(fold(tf.zeros((), tf.uint64), seed), epoch), index)


def permutation(seed, epoch: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Returns an order of the places of `index`, int64 (N,), by a hash of seed, epoch and index.

    `Dataset.shuffle` would do, but its order also depends on TensorFlow's global seed, and with one set it does not
    take the epoch as a tensor.
    """
    key = tf.bitwise.right_shift(example_seeds(seed, epoch, index), _constant(1))
    return tf.cast(tf.argsort(tf.cast(key, tf.int64), stable=True), tf.int64)


def uniform(seed: tf.Tensor, count) -> tf.Tensor:
    """Returns (B,) seeds -> float32 (B, count), uniform in [0, 1) with 24 random bits."""
    bits = fold(seed[:, None], tf.range(count, dtype=tf.int64)[None, :])
    return tf.cast(tf.bitwise.right_shift(bits, _constant(40)), tf.float32) * 2.0**-24


def take_seed(features) -> tuple[dict, tf.Tensor]:
    """Splits `seed`: returns the features with a fresh seed for later ops, and a seed for this one."""
    return {**features, "seed": fold(features["seed"], 0)}, fold(features["seed"], 1)
