"""Optimizers and schedules against traces of the originals."""

import pathlib

import keras
import numpy as np
import pytest

from xmodels.training.optimizers import OPTIMIZERS, BertAdamW, BertLamb, exclude_from_decay
from xmodels.training.schedules import WarmupLinearDecay

GOLDEN = pathlib.Path(__file__).parent / "golden/optimizers/bert_and_lamb"
GIVEN = np.load(GOLDEN / "inputs.npz")
TRACE = np.load(GOLDEN / "outputs.npz")
NUMBERS = {"decay": 0.01, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-6}


def variables(names):
    return {name: keras.Variable(GIVEN[name], name=name) for name in names}


@pytest.mark.parametrize(("optimizer_class", "prefix"), [(BertAdamW, "adam_weight_decay"), (BertLamb, "lamb")])
def test_optimizer_follows_the_trace_of_google(optimizer_class, prefix):
    weights = variables(["kernel", "bias", "zero"])
    optimizer = optimizer_class(learning_rate=0.02, **NUMBERS)
    exclude_from_decay(optimizer, weights)
    for step in range(5):
        optimizer.apply([GIVEN[f"grads_{name}"][step] for name in weights], list(weights.values()))
        for name, weight in weights.items():
            np.testing.assert_allclose(weight.numpy(), TRACE[f"{prefix}/{name}"][step], rtol=1e-5, atol=1e-7)


def test_clipping_and_schedule_follow_the_train_op_of_google():
    weights = variables(["kernel", "bias"])
    optimizer = BertAdamW(learning_rate=WarmupLinearDecay(0.02, 3, 12), global_clipnorm=1.0, **NUMBERS)
    exclude_from_decay(optimizer, weights)
    for step in range(5):
        optimizer.apply([GIVEN[f"grads_{name}"][step] for name in weights], list(weights.values()))
        for name, weight in weights.items():
            np.testing.assert_allclose(weight.numpy(), TRACE[f"bert_train_op/{name}"][step], rtol=1e-5, atol=1e-7)


def test_schedule_follows_the_table_of_google():
    schedule = WarmupLinearDecay(0.02, 3, 12)
    rates = [float(schedule(step)) for step in range(15)]
    np.testing.assert_allclose(rates, TRACE["bert_train_op/learning_rates"], rtol=1e-5, atol=1e-9)


def test_first_step_is_not_bias_corrected():
    weight = keras.Variable(np.zeros(3, "float32"))
    BertAdamW(learning_rate=1.0, decay=0.0).apply([np.ones(3, "float32")], [weight])
    np.testing.assert_allclose(weight.numpy(), -0.1 / (np.sqrt(0.001) + 1e-6), rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_lamb_steps_by_the_norm_of_the_weight_whatever_the_gradient_scale(scale):
    start = np.array([[3.0, 0.0], [0.0, 4.0]], "float32")
    weight = keras.Variable(start)
    BertLamb(learning_rate=0.01, epsilon=1e-12).apply(
        [scale * np.array([[1.0, -2.0], [0.5, 3.0]], "float32")], [weight]
    )
    assert np.linalg.norm(weight.numpy() - start) == pytest.approx(0.01 * 5.0, rel=1e-5)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_named_optimizer_is_rebuilt_from_its_config(name):
    optimizer = OPTIMIZERS[name](1e-3, 10, 100)
    again = type(optimizer).from_config(optimizer.get_config())
    first, second = (keras.Variable(np.ones(2, "float32")) for _ in range(2))
    for _ in range(3):
        optimizer.apply([np.array([0.5, -1.0], "float32")], [first])
        again.apply([np.array([0.5, -1.0], "float32")], [second])
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert not np.array_equal(first.numpy(), np.ones(2))
