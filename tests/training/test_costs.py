"""Costs that layers add to the loss reach the step, its gradients and its log, and only there."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.helpers.small_learner import largest_difference, make_batches, make_learner, make_network, train, values
from xmodels.layers import costs
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.dropout import dropout_seed
from xmodels.layers.rematerialization import rematerialized
from xmodels.objectives.base import Objective
from xmodels.training.step.learner import Memory

FACTOR = 0.5


class CostlyAttention(MultiHeadAttention):
    """Attention that also wants the states of real tokens to be small."""

    def call(self, x, visible=None, context=None, training=None):
        real = ops.expand_dims(ops.cast(visible.padding, "float32"), -1)
        costs.add("size_of_states", FACTOR * ops.sum(real * ops.square(x)), ops.sum(real))
        return super().call(x, visible, context, training)


@pytest.fixture
def costly(monkeypatch):
    """Makes the blocks of small learners of `CostlyAttention`."""
    monkeypatch.setattr("xmodels.layers.mixers.find", lambda name: CostlyAttention)


def pairs(learner, batch):
    found = next(iter(learner.passes.values())).evaluate([batch])
    return dict(zip(learner.names, found, strict=False))


def test_a_cost_is_a_mean_over_tokens_and_layers_in_the_loss_and_in_the_log(costly):
    batch = next(make_batches(1))
    learner = make_learner(num_layers=2)
    states = learner.backbone.hidden_states(batch)[:2]
    expected = FACTOR * sum(np.sum(np.square(x)[batch["padding_mask"]]) for x in states)
    found = pairs(learner, batch)["size_of_states"]
    np.testing.assert_allclose(found, [expected, 2 * batch["padding_mask"].sum()], rtol=1e-5)
    means = learner.evaluate([batch])
    parts = [means[name] for name in ("masked_lm", "next_sentence", "size_of_states")]
    assert means["loss"] == pytest.approx(sum(parts), rel=1e-6)
    assert learner.loss_names == ["masked_lm", "next_sentence", "size_of_states"]


def gradients_of(learner, batch, again=False):
    each = next(iter(learner.passes.values()))
    inverse = 1.0 / each.loss_weights(batch)
    with tf.GradientTape() as tape, dropout_seed(np.array([1, 2], "uint32")), rematerialized(again):
        _, losses, _ = learner.objective.run(learner.backbone, batch, training=True)
        loss = tf.add_n([losses[name][0] * inverse[i] for i, name in enumerate(each.loss_names)])
    return [np.array(tf.convert_to_tensor(g)) for g in tape.gradient(loss, [v.value for v in learner.variables])]


def test_its_gradient_reaches_the_weights_also_of_what_is_recomputed(costly, monkeypatch):
    batch = next(make_batches(1))
    learner = make_learner(num_layers=2, dropout=0.2)
    found, again = gradients_of(learner, batch), gradients_of(learner, batch, again=True)
    for once, twice in zip(found, again, strict=True):
        np.testing.assert_allclose(twice, once, atol=1e-5)
    monkeypatch.setattr(costs, "add", lambda *cost: None)
    without = gradients_of(make_learner(num_layers=2, dropout=0.2), batch)
    assert max(np.abs(a - b).max() for a, b in zip(found, without, strict=True)) > 1e-2


@pytest.mark.long
def test_micro_batches_add_up_to_the_whole_batch(costly):
    batches = list(make_batches(2, rows=8))
    whole = make_learner()
    sums = train(whole, batches)
    parts = make_learner(memory=Memory(micro_batches=4))
    np.testing.assert_allclose(train(parts, batches), sums, rtol=1e-5)
    assert largest_difference(values(whole), values(parts)) < 1e-5


def test_outside_of_a_pass_with_losses_a_cost_goes_nowhere():
    costs.add("nothing", 1.0, 1.0)
    with costs.collect() as outer:
        costs.add("here", 1.0, 2.0)
        with costs.collect() as inner:
            costs.add("there", 5.0, 1.0)
        costs.add("here", 3.0, 2.0)
    assert outer == {"here": (4.0, 4.0)} and inner == {"there": (5.0, 1.0)}


class Named(Objective):
    """An objective with a loss of the name that a layer uses too."""

    def score(self, outputs, batch, backbone):
        return {"size_of_states": (ops.sum(outputs["sequence_output"]), 1.0)}, {}


def test_a_cost_may_not_have_the_name_of_a_loss(costly):
    backbone, _ = make_network()
    with pytest.raises(ValueError, match="adds a cost named 'size_of_states', but the objective named has a loss"):
        Named().run(backbone, next(make_batches(1)))
