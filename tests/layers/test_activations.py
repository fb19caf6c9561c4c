"""Both forms of gelu: their formulas, their slopes by differences of the formulas, in half precision too."""

import math

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.helpers.compiling import Compiler
from xmodels.layers import compilation
from xmodels.layers.activations import activation
from xmodels.layers.pullback import pullback

FORMULAS = {
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}
POINTS = np.concatenate([np.linspace(-8, 8, 161), [-1e4, -30.0, 30.0, 1e4]])


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 2e-8), ("float32", 1e-6), ("bfloat16", 4e-3), ("float16", 5e-4)]
)
@pytest.mark.parametrize("name", FORMULAS)
def test_gelu_and_its_gradient_are_those_of_the_formula(name, dtype, tolerance):
    points = ops.cast(ops.convert_to_tensor(POINTS), dtype)
    exact = np.array(ops.cast(points, "float64"))
    weights = ops.cast(ops.convert_to_tensor(np.where(POINTS > 1, 0.5, 2.0)), dtype)
    values, pull = pullback(activation(name), [points])
    (gradient,) = pull(weights)
    assert str(values.dtype) == str(gradient.dtype) == str(points.dtype)
    formula, near = np.vectorize(FORMULAS[name]), 1e-5 * np.maximum(1, abs(exact))
    slopes = (formula(exact + near) - formula(exact - near)) / (2 * near)
    np.testing.assert_allclose(np.array(ops.cast(values, "float64")), formula(exact), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        np.array(ops.cast(gradient, "float64")),
        slopes * np.where(POINTS > 1, 0.5, 2.0),
        rtol=tolerance,
        atol=2 * tolerance,
    )


@pytest.fixture
def compile_function(monkeypatch):
    """Many numbers are ten."""
    monkeypatch.setattr(compilation, "MANY", 10)
    return Compiler()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_compiled_activation_has_the_same_value_and_gradient(name, dtype, compile_function):
    points, upstream = ops.cast(ops.convert_to_tensor(POINTS), dtype), ops.cast(ops.convert_to_tensor(POINTS), dtype)

    found = []
    for compile_it in (None, compile_function):
        with compilation.compiled(compile_it):
            values, pull = pullback(activation(name), [points])
        found.append([np.array(ops.cast(each, "float64")) for each in (values, *pull(upstream))])
        assert str(values.dtype) == str(points.dtype)
    tolerance = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 8e-3, "float16": 1e-3}[dtype]
    for expected, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)
    assert len(compile_function.asked) == 1 and np.ptp(found[0][0]) > 1


def test_only_activations_of_many_numbers_are_compiled_and_all_of_them_by_one_function(compile_function):
    with compilation.compiled(compile_function):
        for shape in ((10,), (2, 5), (9,)):
            activation("gelu")(np.ones(shape, "float32"))
        with compilation.compiled(None):
            activation("gelu")(np.ones(10, "float32"))
        tf.function(activation("gelu"), input_signature=[tf.TensorSpec([None])]).get_concrete_function()
    activation("gelu")(np.ones(10, "float32"))
    assert len(compile_function.asked) == 2 and compile_function.asked[0] is compile_function.asked[1]
