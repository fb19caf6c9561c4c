"""16-bit training: what stays in float32, and the loss scale."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.small_learner import largest_difference, make_batches, make_learner, slots, train, values
from xmodels.layers.attention.core import attention_probabilities
from xmodels.training.step import precision
from xmodels.training.step.precision import LossScale

# Exponentials, logarithms and roots, of which softmax, normalisations and losses are made. Activations use tanh.
DELICATE = {
    "Softmax", "LogSoftmax", "SparseSoftmaxCrossEntropyWithLogits", "Exp", "Log", "Log1p", "Rsqrt", "Sqrt",
    "SquaredDifference",
}  # fmt: skip


@pytest.fixture(params=["float16", "bfloat16"])
def policy(request):
    keras.config.set_dtype_policy(f"mixed_{request.param}")
    yield request.param
    keras.config.set_dtype_policy("float32")


def operations(graph):
    """All of a graph, with those of the functions that it calls."""
    yield from ((n.name, n.op, n.attr) for n in graph.as_graph_def().node)
    for function in graph.as_graph_def().library.function:
        yield from ((n.name, n.op, n.attr) for n in function.node_def)


def test_softmax_normalisations_and_losses_stay_in_float32(policy):
    learner = make_learner(dropout=0.1)
    batch = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in next(make_batches(1)).items()}
    specs = batch, tf.TensorSpec((2,)), tf.TensorSpec((2,), tf.uint32)
    graph = learner.passes["training"].gradients.get_concrete_function(*specs).graph
    delicate = [(name, op, attr["T"].type) for name, op, attr in operations(graph) if op in DELICATE]
    assert {op for _, op, _ in delicate} >= {"Softmax", "Log", "Rsqrt", "SquaredDifference"}
    assert not [each for each in delicate if each[2] != tf.float32.as_datatype_enum]
    products = [(name, attr["T"].type) for name, op, attr in operations(graph) if op in ("BatchMatMulV2", "MatMul")]
    products = {kind for name, kind in products if "bert" in name}  # the head of two classes is in float32
    assert products == {tf.as_dtype(policy).as_datatype_enum}  # while the work is done in 16 bits
    assert {v.dtype for v in learner.variables} == {"float32"}
    assert all(v.dtype == np.float32 or v.ndim == 0 for v in slots(learner))


def test_large_scores_neither_overflow_nor_round_to_equal_probabilities(policy):
    query = keras.ops.full((1, 1, 1, 64), 15.0, policy)
    key = keras.ops.stack([keras.ops.full((1, 1, 64), value, policy) for value in (15.0, 14.0)], axis=1)
    found = attention_probabilities(query, key)[0, 0, 0]
    scores = np.array([15.0, 14.0]) * 15 * 64 / 8
    expected = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.one_in(2)
def test_sixteen_bits_stay_near_float32(policy):
    batches = list(make_batches(4))
    small = make_learner()
    keras.config.set_dtype_policy("float32")
    large = make_learner()
    assert small.backbone.compute_dtype == policy
    np.testing.assert_allclose(train(small, batches)[:2], train(large, batches)[:2], rtol=2e-2)
    assert (small.loss_scale is not None) == (policy == "float16")


def test_the_loss_scale_halves_with_an_overflow_and_doubles_after_long_quiet(monkeypatch):
    monkeypatch.setattr(precision, "GROW_AFTER", 3)
    scale = LossScale()
    seen = []
    for finite in (True, False, True, True, True, False, True, True, True):
        (scale.grow if finite else scale.shrink)()
        seen.append(float(scale.scale.numpy()) / precision.FIRST)
    assert seen == [1, 0.5, 0.5, 0.5, 1, 0.5, 0.5, 0.5, 1]
    for _ in range(40):
        scale.shrink()
    assert scale.scale.numpy() == precision.SMALLEST and scale.is_smallest


def test_too_large_a_scale_is_lowered_until_steps_are_done_and_is_no_fault():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        learner = make_learner(optimizer="adamw")
    finally:
        keras.config.set_dtype_policy("float32")
    learner.loss_scale.scale.assign(2.0**40)
    before = values(learner)
    totals = train(learner, make_batches(1))
    assert totals[learner.names.index("skipped"), 0] == 0  # no fault, though nothing was done
    assert largest_difference(values(learner), before) == 0.0
    train(learner, make_batches(40))
    assert learner.step == 41
    assert 2.0**5 < learner.loss_scale.scale.numpy() < 2.0**35
    assert learner.guard.skipped_in_row == 0
    assert largest_difference(values(learner), before) > 1e-4
