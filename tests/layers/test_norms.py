"""A norm that is compiled for itself gives the values and gradients of Keras' layer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.compiling import Compiler
from xmodels.layers import compilation
from xmodels.layers.norms import LayerNorm


@pytest.fixture
def compile_function(monkeypatch):
    """Many numbers are 12."""
    monkeypatch.setattr(compilation, "MANY", 12)
    return Compiler()


def value_and_gradients(layer, x, upstream, compile_it):
    layer.build(x.shape)
    for number, weight in enumerate(layer.trainable_variables):
        weight.assign(np.random.default_rng(number).normal(1, 0.5, weight.shape))
    with tf.GradientTape() as tape, compilation.compiled(compile_it):
        tape.watch(x)
        value = layer(x)
    found = [value, *tape.gradient(value, [x, *(each.value for each in layer.trainable_variables)], upstream)]
    return [np.array(tf.cast(each, "float64")) for each in found], [each.dtype for each in found]


@pytest.mark.parametrize("given, policy", [
    ("float32", "float32"), ("float64", "float64"), ("bfloat16", "mixed_bfloat16"), ("float16", "mixed_float16"),
    ("float32", "mixed_bfloat16"), ("bfloat16", "float32"),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(2, 3, 8), (6, 7), (2, 2, 3, 5)])
@pytest.mark.parametrize("center", [True, False])
def test_value_and_gradients_are_those_of_keras(given, policy, shape, center, compile_function):
    random = np.random.default_rng(3)
    x, upstream = random.normal(5, 2, shape), random.normal(size=shape)
    found = []
    for kind in (keras.layers.LayerNormalization, LayerNorm):
        layer = kind(epsilon=1e-3, center=center, dtype=policy)
        found.append(
            value_and_gradients(layer, tf.cast(x, given), tf.cast(upstream, layer.compute_dtype), compile_function)
        )
    (expected, types), (ours, our_types) = found
    assert types == our_types and len(ours) == 3 + center and len(compile_function.asked) == 2
    rounding = {"float64": 1e-9, "float32": 2e-5, "bfloat16": 3e-2, "float16": 4e-3}
    tolerance = max(rounding[given], rounding[layer.compute_dtype])
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


def test_norms_that_compute_the_same_share_what_is_compiled(compile_function):
    x = tf.random.normal((3, 4))
    with compilation.compiled(compile_function):
        for epsilon in (1e-6, 1e-6, 1e-12):
            LayerNorm(epsilon=epsilon)(x)
    forward = compile_function.asked[::2]
    assert forward[0] is forward[1] is not forward[2]


@pytest.mark.parametrize("x, more", [
    (np.ones((2, 4)), {}), (np.ones((3, 4)), {"axis": 0}), (np.ones((3, 4)), {"scale": False}),
])  # fmt: skip
def test_few_numbers_and_other_norms_are_left_to_keras(x, more, compile_function):
    with compilation.compiled(compile_function):
        LayerNorm(**more)(x)
    assert not compile_function.asked


def test_a_length_that_is_not_known_is_left_to_keras(compile_function):
    layer = LayerNorm()
    layer.build((None, 4))
    with compilation.compiled(compile_function):
        tf.function(layer, input_signature=[tf.TensorSpec((None, 4))]).get_concrete_function()
    assert not compile_function.asked
