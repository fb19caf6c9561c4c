"""A training leaves nothing behind in a process that goes on."""

import gc

import pytest
import tensorflow as tf

from tests.helpers.small_learner import make_batches, make_learner, train


def variables_alive():
    """How many variables of TensorFlow anything still holds."""
    gc.collect()
    handles = (each for each in gc.get_objects() if isinstance(each, tf.Tensor) and not hasattr(each, "graph"))
    return sum(each.dtype == tf.resource for each in handles)


@pytest.mark.long  # it looks at every object of the process, three times
def test_variables_of_a_learner_go_with_it():
    before = variables_alive()
    learner = make_learner()
    train(learner, make_batches(2))
    assert variables_alive() > before
    del learner
    assert variables_alive() == before
