"""Both forms of gelu: their formulas, their slopes by differences of the formulas, in half precision too."""

import math

import numpy as np
import pytest
from keras import ops

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
