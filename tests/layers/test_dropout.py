"""Dropout: the share, the scale, and bits without a pattern."""

import itertools
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.compiling import Compiler
from xmodels.layers import compilation
from xmodels.layers.dropout import Dropout, _words, dropout_seed, resolution

ROOT = pathlib.Path(__file__).parents[2]


def drop(rate, shape, seed):
    with dropout_seed(np.array(seed, "uint32")):
        return Dropout(rate)(keras.ops.ones(shape), training=True).numpy()


def words(seed, count):
    with dropout_seed(np.array(seed, "uint32")):
        return _words(count).numpy()[:, 0]


@pytest.mark.parametrize("rate", [0.0005, 0.02, 0.1, 0.15, 0.5, 0.9, 0.999])
def test_the_share_is_that_of_the_rate_and_the_mean_stays(rate):
    bits, dropped = resolution(rate)
    share, count = dropped / 2**bits, 1_000_000
    assert share == pytest.approx(rate, rel=0.02)
    y = drop(rate, (count,), [3, 4])
    deviation = np.sqrt(share * (1 - share) / count)
    assert abs((y == 0).mean() - share) < 5 * deviation
    assert abs(y.mean() - 1) < 5 * deviation / (1 - share)
    np.testing.assert_allclose(y[y != 0], 1 / (1 - share), rtol=1e-6)


def test_all_bytes_of_the_words_are_uniform():
    for seed in ([0, 0], [1, 2], [2**32 - 1, 2**32 - 1], [0, 7919]):
        for values in words(seed, 1 << 18).view("uint8").reshape(-1, 4).T:
            counts = np.bincount(values, minlength=256)
            chi_squared = ((counts - 1024) ** 2 / 1024).sum()
            assert 130 < chi_squared < 400  # 255 expected, deviation 23


def test_masks_do_not_resemble_their_neighbours_nor_those_of_other_seeds():
    count = 1 << 18
    seeds = [[5, 6], [5, 7], [6, 6], [5, 6 + 7919], [6, 5], [5 + 2**31, 6]]
    kept = [drop(0.5, (count,), seed) - 1 for seed in seeds]  # -1 or 1
    bound = 5.5 / np.sqrt(count)
    for first, second in itertools.combinations(kept, 2):
        assert abs((first * second).mean()) < bound
    for lag in (1, 2, 3, 4, 8, 64, 768, 4096):
        assert abs((kept[0][lag:] * kept[0][:-lag]).mean()) < bound


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4, 4)])
def test_shapes_may_be_odd_and_unknown_and_xla_draws_the_same(shape):
    def call(x, seed):
        with dropout_seed(seed):
            return Dropout(0.3)(x, training=True)

    x, seed = tf.ones(shape), tf.constant([8, 9], tf.uint32)
    expected = call(x, seed)
    spec = tf.TensorSpec([None] * len(shape)), tf.TensorSpec([2], tf.uint32)
    np.testing.assert_array_equal(tf.function(call, input_signature=spec)(x, seed), expected)
    np.testing.assert_allclose(tf.function(call, jit_compile=True)(x, seed), expected, rtol=1e-6)


def test_compiled_words_are_the_same_words(monkeypatch):
    monkeypatch.setattr(compilation, "MANY", 100)
    expected, compile_it = words([8, 9], 25), Compiler()
    with compilation.compiled(compile_it):
        np.testing.assert_array_equal(words([8, 9], 25), expected)
        np.testing.assert_array_equal(words([8, 9], 24), expected[:24])
        words([1, 2], 25)
    assert len(compile_it.asked) == 2 and compile_it.asked[0] is compile_it.asked[1]


def test_the_gradient_is_the_mask():
    x = tf.random.normal((64, 32))
    with tf.GradientTape() as tape, dropout_seed(np.array([1, 2], "uint32")):
        tape.watch(x)
        y = Dropout(0.25)(x, training=True)
    np.testing.assert_allclose(tape.gradient(y, x) * x, y, rtol=1e-6)


def test_low_precision_stays_low_and_outside_of_a_step_masks_differ():
    x = keras.ops.ones((64, 64), "bfloat16")
    layer = Dropout(0.5, dtype="bfloat16")
    first, second = (layer(x, training=True) for _ in range(2))
    assert first.dtype == "bfloat16"
    assert not np.array_equal(first, second)
    assert np.array_equal(layer(x, training=False), x)


@pytest.mark.extra("jax")
def test_jax_draws_the_same_masks():
    program = (
        "import numpy as np, keras; from xmodels.layers.dropout import Dropout, dropout_seed\n"
        "with dropout_seed(np.array([3, 4], 'uint32')):\n"
        "    y = Dropout(0.1)(keras.ops.ones((5, 7)), training=True)\n"
        "print(np.flatnonzero(np.asarray(y) == 0).tolist())"
    )
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == str(np.flatnonzero(drop(0.1, (5, 7), [3, 4]) == 0).tolist())
