"""Steps that go wrong: skipped without a trace in the weights, kept for inspection, and in the end stopping the run."""

import gc
import json
import weakref

import numpy as np
import pytest

from data_pipelines.errors import DataError, NonFiniteError
from tests.helpers.small_learner import (
    LENGTH,
    VOCABULARY,
    largest_difference,
    make_batches,
    make_learner,
    slots,
    train,
    values,
)
from xmodels.training.step.learner import Memory
from xmodels.training.step.nonfinite import check_skipped
from xmodels.training.step.spikes import Spikes


def broken(batch):
    """The batch with a weight that makes the loss infinite, though it passes the look at the first batch."""
    return {**batch, "label_weights": np.full_like(batch["label_weights"], 3e38)}


@pytest.mark.parametrize("strategy", ["one_device", pytest.param("mirrored", marks=pytest.mark.long)])
def test_a_step_that_is_not_finite_changes_neither_weights_nor_slots(strategy, tmp_path):
    first, second, third = make_batches(3)
    learner = make_learner(strategy, memory=Memory(ema_decay=0.9))
    train(learner, [first])
    before, kept = values(learner), [slot.copy() for slot in slots(learner)]
    totals = train(learner, [broken(second)])
    assert learner.step == 2
    assert totals[learner.names.index("skipped")].tolist() == [1, 1]
    assert np.isfinite(totals).all()
    assert largest_difference(values(learner), before) == 0.0
    assert all(np.array_equal(a, b) for a, b in zip(slots(learner), kept, strict=True))
    assert learner.guard.skipped_in_row == 1

    (warning,) = learner.guard.warnings(str(tmp_path))
    assert "step 2 was skipped (losses: masked_lm" in warning and "nonfinite/step_00000002.json" in warning
    with np.load(tmp_path / "nonfinite/step_00000002.npz") as dumped:
        assert set(dumped) == set(second)
        np.testing.assert_array_equal(dumped["token_ids"], second["token_ids"])
    found = json.loads((tmp_path / "nonfinite/step_00000002.json").read_text())
    assert list(found["norms"]) == list(before)
    name = "backbone.blocks.0.mixer.query.kernel"
    assert found["norms"][name]["weight"] == pytest.approx(np.linalg.norm(before[name]), rel=1e-6)

    assert train(learner, [third])[learner.names.index("skipped"), 0] == 0
    assert learner.guard.skipped_in_row == 0 and learner.guard.warnings(str(tmp_path)) == []
    assert largest_difference(values(learner), before) > 1e-4


def test_a_network_that_was_trained_can_go():
    """TensorFlow keeps what graphs call in Python for as long as the process lives."""
    learner = make_learner("one_device")
    train(learner, make_batches(1))
    gone = weakref.ref(learner)
    del learner
    gc.collect()
    assert gone() is None


def test_too_many_skipped_steps_end_the_run_and_name_the_last_good_state():
    check_skipped(2, 29, 3, "run/nonfinite", [])
    with pytest.raises(NonFiniteError, match="3 steps in a row .*run/nonfinite.*Last good state: none"):
        check_skipped(3, 3, 3, "run/nonfinite", [])
    with pytest.raises(NonFiniteError, match="30 steps in all .*Last good state: run/checkpoints/step_00000100"):
        check_skipped(1, 30, 3, "run/nonfinite", ["run/checkpoints/step_00000100"])


@pytest.mark.parametrize(
    ("feature", "change", "message"),
    [
        ("token_ids", VOCABULARY + 7, f"`token_ids` holds 57, but the network's vocabulary has {VOCABULARY} entries"),
        ("labels", -1, "`labels` holds -1, but the network's vocabulary"),
        ("segment_ids", 2, "`segment_ids` holds 2, but the network has 2 segments, so 0 to 1"),
        ("mask_positions", LENGTH, f"`mask_positions` holds {LENGTH}, but rows have {LENGTH} tokens"),
        ("label_weights", np.nan, "`label_weights` holds nan"),
        ("padding_mask", False, "row 0 of `padding_mask` marks no token"),
    ],
)
def test_a_first_batch_that_does_not_suit_the_network_is_named(one_learner, feature, change, message):
    batch = next(make_batches(1))
    batch[feature][0] = change
    batch["label_weights"][0, 0] = batch["label_weights"][0, 0] if feature == "label_weights" else 1.0
    before = values(one_learner)
    with pytest.raises(DataError, match=message):
        train(one_learner, [batch])
    assert one_learner.step == 0 and largest_difference(values(one_learner), before) == 0.0


@pytest.fixture(scope="module")
def one_learner():
    """A learner that has not yet seen a batch that it can read."""
    return make_learner()


def test_rows_longer_than_the_positions_are_refused_at_once():
    batch = {name: np.repeat(x, 2, axis=1) if x.ndim == 2 else x for name, x in next(make_batches(1)).items()}
    with pytest.raises(DataError, match=f"rows of {2 * LENGTH}, but the network has {LENGTH} positions"):
        make_learner(batch=batch)


def test_a_jump_of_the_loss_is_told_once_and_noise_is_not():
    spikes, draw = Spikes(), np.random.default_rng(0)
    losses = 3.0 + 0.1 * draw.standard_normal(400)
    losses[10] = 9.0  # too early to know what is usual
    losses[300] = 5.0
    seen = []
    for step, loss in enumerate(losses):
        spikes.observe(np.float32(loss), step)
        seen.append(spikes.take())
    (warning,) = [s for s in seen if s]
    assert seen[300] == warning and "jumped to 5 at step 300" in warning


def test_the_running_mean_of_the_loss_is_exponential():
    spikes, losses = Spikes(), np.random.default_rng(1).uniform(2, 3, 150).astype("float32")
    mean, variance = 0.0, 0.0
    for count, loss in enumerate(losses):
        spikes.observe(loss, count)
        share = 1 / min(count + 1, 100)
        mean, variance = mean + share * (loss - mean), (1 - share) * (variance + share * (loss - mean) ** 2)
    np.testing.assert_allclose(spikes.running.numpy(), [150, mean, variance], rtol=1e-4)
