"""Schedules against tables of the originals."""

import pathlib

import keras
import numpy as np
import pytest

from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.schedules.kinds import SCHEDULES
from xmodels.training.schedules.schedules import noam_peak

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def table(name):
    return np.load(GOLDEN / name / "outputs.npz")


def schedule(name, peak, warmup, num_steps=100, floor=0.0, power=1.0):
    numbers = Optimization(
        schedule=name,
        learning_rate=peak,
        num_warmup_steps=warmup,
        num_steps=num_steps,
        min_lr_ratio=floor,
        lr_power=power,
    )
    return numbers.make_schedule()


def rates(steps, *arguments, **numbers):
    rate = schedule(*arguments, **numbers)
    return np.array([float(rate(step)) for step in steps])


def test_bert_linear_follows_the_table_of_google():
    found = rates(range(15), "bert_linear", 0.02, 3, 12)
    expected = table("optimizers/bert_and_lamb")["bert_train_op/learning_rates"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["linear", "polynomial"])
def test_linear_decay_follows_the_table_of_fairseq(name):
    stored = table("fairseq_schedules/schedules")
    found = rates(stored["updates"], name, 5e-4, 10, 50)
    np.testing.assert_allclose(found, stored["polynomial_decay"], rtol=1e-5, atol=1e-10)


def test_inverse_square_root_follows_the_table_of_fairseq():
    stored = table("fairseq_schedules/schedules")
    np.testing.assert_allclose(rates(stored["updates"], "inverse_sqrt", 5e-4, 10), stored["inverse_sqrt"], rtol=1e-5)


def test_noam_follows_the_table_of_tensor2tensor():
    stored = table("transformer_tables/timing_schedule_loss")
    found = rates(stored["noam/steps"] - 1, "noam", noam_peak(64, 16, scale=2.0), 16)  # the paper's t is our step + 1
    np.testing.assert_allclose(found, stored["noam/learning_rate"], rtol=1e-5)


def test_slanted_triangle_follows_the_table_of_the_paper():
    stored = table("slanted_triangular/table")
    found = rates(stored["step"], "slanted_triangular", 0.01, 6, 60)
    np.testing.assert_allclose(found, stored["learning_rate"], rtol=1e-5)


@pytest.mark.parametrize(("warmup", "num_steps"), [(10, 105), (0, 7), (1, 1)])
def test_slanted_triangle_stays_between_its_ends_for_any_number_of_steps(warmup, num_steps):
    found = rates(range(num_steps + 3), "slanted_triangular", 0.01, warmup, num_steps)
    assert found.min() == pytest.approx(0.01 / 32) and found.max() <= 0.01 * (1 + 1e-6)


def test_noam_peaks_at_the_end_of_its_warm_up_and_halves_at_four_times_that():
    found = rates(range(400), "noam", 1e-3, 50)
    assert found.argmax() == 49 and found.max() == pytest.approx(1e-3)
    assert found[199] == pytest.approx(5e-4) and found[0] == pytest.approx(1e-3 / 50)


def test_formulas():
    steps = np.arange(0, 120)
    x = np.minimum(steps / 100, 1.0)
    after = np.clip((steps - 20) / 80, 0.0, 1.0)
    rising = np.minimum(steps / 20, 1.0)
    formulas = {
        "gpt_linear": rising * (1 - x),
        "cosine": np.where(steps < 20, rising, 0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * after))),
        "polynomial": np.where(steps < 20, rising, 0.1 + 0.9 * (1 - after) ** 2),
        "linear": np.where(steps < 20, rising, 0.1 + 0.9 * (1 - after)),
        "constant": rising,
        "t5_inverse_sqrt": np.sqrt(20 / np.maximum(steps, 20)),
    }
    for name, expected in formulas.items():
        found = rates(steps, name, 2e-3, 20, floor=0.1, power=2.0)
        np.testing.assert_allclose(found, 2e-3 * expected, rtol=1e-5, atol=1e-9, err_msg=name)


def test_t5_begins_at_a_hundredth_for_ten_thousand_steps():
    found = rates([0, 10_000, 40_000], "t5_inverse_sqrt", 0.01, 10_000)
    np.testing.assert_allclose(found, [0.01, 0.01, 0.005], rtol=1e-6)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_is_rebuilt_from_its_config_and_needs_no_warm_up(name):
    for warmup in (0, 5):
        first = schedule(name, 1e-3, warmup, 20)
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(first))
        values = np.array([float(first(step)) for step in range(25)])
        np.testing.assert_array_equal(values, [float(again(step)) for step in range(25)])
        assert np.isfinite(values).all() and 0.9e-3 < values.max() <= 1.001e-3 or warmup == 5 and name in (
            "bert_linear", "gpt_linear")  # fmt: skip
        assert values.min() >= 0.0


def test_root_decay_is_the_formula_of_cross_view_training():
    steps = np.array([0, 1, 2500, 5000, 200_000])
    expected = 0.5 * np.minimum(1.0, steps / 5000) / (1 + 0.005 * np.sqrt(steps))
    found = rates(steps, "root_decay", 0.5, 5000, 200_000)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert round(found[3], 4) == 0.3694
