"""NT-ASGD: the weights are averaged once evaluations get no better."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.small_learner import largest_difference, make_batches, make_learner, train, values
from xmodels.training.states import checkpoints
from xmodels.training.states.averaging import NonMonotonicAverage
from xmodels.training.states.checkpoints import State
from xmodels.training.step.learner import Memory


def first_trigger(losses, interval):
    """The evaluation at which Salesforce's code begins, written as there; None if it never does."""
    best = []
    for number, loss in enumerate(losses):
        if len(best) > interval and loss > min(best[:-interval]):
            return number
        best.append(loss)
    return None


@pytest.mark.parametrize("interval", [1, 2, 5])
def test_it_begins_where_the_code_of_the_authors_begins(interval):
    draw = np.random.default_rng(interval)
    for _ in range(30):
        losses = (np.linspace(3, 1, 20) + draw.normal(0, 0.3, 20)).astype("float32").tolist()
        average = NonMonotonicAverage({}, interval)
        found = [average.observe(loss) for loss in losses]
        assert (found.index(True) if True in found else None) == first_trigger(losses, interval)
        assert sum(found) <= 1
    falling = NonMonotonicAverage({}, interval)
    assert not any(falling.observe(1 / (n + 1)) for n in range(20)) and falling.describe() == ""


def test_an_evaluation_that_is_not_finite_is_no_least_loss():
    average = NonMonotonicAverage({}, 1)
    assert [average.observe(loss) for loss in (float("nan"), 2.0, 1.5, 2.5)] == [False, False, False, True]


def test_it_is_the_mean_of_the_weights_after_each_step_from_then_on_and_leaves_them_alone():
    plain, learner = make_learner(), make_learner(memory=Memory(nonmonotonic_interval=1))
    batches, seen = list(make_batches(6)), []
    for number, batch in enumerate(batches):
        train(plain, [batch])
        train(learner, [batch])
        seen.append(values(learner))
        with learner.averaged_weights():
            if number < 3:  # it has not begun
                assert largest_difference(values(learner), seen[-1]) == 0.0
            else:
                mean = {name: np.mean([each[name] for each in seen[3:]], axis=0) for name in seen[-1]}
                assert largest_difference(values(learner), mean) < 1e-6
        assert learner.average.observe((1.0, 0.5, 2.0, 0.1, 0.1, 0.1)[number]) == (number == 2)
    assert largest_difference(values(learner), values(plain)) == 0.0
    assert learner.apply_average() == "mean of the last 3 steps"
    assert largest_difference(values(learner), mean) < 1e-6


@pytest.mark.long
@pytest.mark.one_in(2)
@pytest.mark.parametrize("begun", [False, True])
def test_a_state_holds_average_and_losses(begun, tmp_path):
    memory, batches = Memory(nonmonotonic_interval=2), list(make_batches(4))
    learner = make_learner(memory=memory)
    for loss in (1.0, 0.9, 0.8, 2.0 if begun else 0.7):
        learner.average.observe(loss)
    train(learner, batches[:2])
    checkpoints.save(str(tmp_path), learner, State(2, 0), 2)
    again = make_learner(memory=memory)
    checkpoints.restore(str(next(tmp_path.iterdir())), again)
    for each in (learner, again):
        train(each, batches[2:])
        each.average.observe(0.95)
    for name, variable in learner.average.variables.items():
        np.testing.assert_array_equal(again.average.variables[name], tf.convert_to_tensor(variable), err_msg=name)
    assert bool(again.average.begun.numpy()) and int(again.average.updates.numpy()) == (4 if begun else 0)
