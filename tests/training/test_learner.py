"""The training step: micro-batches, averages and precision, each against its plain sibling."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.small_learner import largest_difference, make_batches, make_learner, train, values
from xmodels.layers import compilation
from xmodels.training.step import stream_pass
from xmodels.training.step.learner import Memory
from xmodels.training.watching.memory_estimate import training_memory


@pytest.mark.parametrize(
    ("strategy", "parts", "optimizer", "jit_compile"),
    [
        pytest.param("one_device", 4, "lamb", True, marks=pytest.mark.long),
        ("mirrored", 2, "bert_adamw", False),
    ],
)
def test_accumulated_micro_batches_equal_the_large_batch(strategy, parts, optimizer, jit_compile):
    # Rows hide unequal numbers of tokens, and the norm of the gradients is above what it is clipped to.
    settings = {"optimizer": optimizer, "clip_norm": 0.1, "jit_compile": jit_compile}
    large = make_learner(**settings, memory=Memory(ema_decay=0.9))
    totals = train(large, make_batches(3))
    memory = Memory(parts, rematerialize=strategy == "mirrored", ema_decay=0.9)
    learner = make_learner(strategy, memory=memory, **settings)
    np.testing.assert_allclose(train(learner, make_batches(3)), totals, rtol=1e-5)
    assert largest_difference(values(learner), values(large)) < 1e-6
    with learner.averaged_weights(), large.averaged_weights():
        assert largest_difference(values(learner), values(large)) < 1e-6


@pytest.mark.long
def test_micro_batches_draw_different_dropout():
    batch = next(make_batches(1, rows=4))
    batch = {name: np.concatenate([x, x]) for name, x in batch.items()}  # both micro-batches are equal
    halves = make_learner(dropout=0.5, memory=Memory(2), optimizer="adamw")
    train(halves, [batch])
    one = make_learner(dropout=0.5, memory=Memory(1), optimizer="adamw")
    train(one, [{name: x[:4] for name, x in batch.items()}])
    assert largest_difference(values(halves), values(one)) > 1e-4


def test_moving_average_follows_its_formula_and_leaves_the_weights_alone():
    learner = make_learner(memory=Memory(ema_decay=0.5))
    expected = None
    for n, batch in enumerate(make_batches(12)):
        train(learner, [batch])
        now = values(learner)
        keep = min(0.5, (1 + n) / (10 + n)) if n else 0.0
        expected = now if not n else {name: keep * expected[name] + (1 - keep) * now[name] for name in now}
    with learner.averaged_weights():
        assert largest_difference(values(learner), expected) < 1e-6
        assert largest_difference(now, expected) > 1e-4
    assert largest_difference(values(learner), now) == 0.0


@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_compiled_loops_change_nothing(strategy, monkeypatch):
    found = []
    for many in (1 << 60, 1):
        monkeypatch.setattr(compilation, "MANY", many)
        shapes = []
        compile_once = stream_pass.compile_once
        monkeypatch.setattr(
            stream_pass,
            "compile_once",
            lambda f, compile_once=compile_once, shapes=shapes: shapes.append(f) or compile_once(f),
        )
        memory = Memory(2, rematerialize=True)
        learner = make_learner(strategy, dropout=0.1, memory=memory, optimizer="adamw")
        totals = train(learner, make_batches(3))
        found.append((totals, values(learner), len(shapes)))
    (plain, before, none), (compiled, after, some) = found
    assert none == 0 < some
    np.testing.assert_allclose(compiled, plain, rtol=1e-5)
    assert largest_difference(after, before) < 1e-5


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.long)])
def test_rematerialized_blocks_have_equal_gradients_with_dropout(jit_compile):
    batch = {name: tf.constant(x) for name, x in next(make_batches(1)).items()}
    gradients = []
    for rematerialize in (False, True):
        memory = Memory(rematerialize=rematerialize)
        learner = make_learner(dropout=0.3, num_layers=2, memory=memory, jit_compile=jit_compile)
        gradients.append(
            learner.passes["training"].gradients(batch, tf.constant([1.0, 1.0]), tf.constant([1, 2], tf.uint32))[0]
        )
    for kept, again in zip(*gradients, strict=True):
        np.testing.assert_allclose(again, kept, rtol=1e-4, atol=1e-6)


def test_rematerialized_blocks_are_computed_twice_and_keep_little():
    calls = []
    learner = make_learner(num_layers=2, memory=Memory(rematerialize=True))
    kept = [
        training_memory(each, next(make_batches(1)))["kept for the backward pass"]
        for each in (learner, make_learner(num_layers=2))
    ]
    assert 3 * kept[0] < kept[1]
    for block in learner.backbone.blocks:
        forward = block.call
        block.call = lambda *args, forward=forward, **names: calls.append(1) or forward(*args, **names)
    batch = {name: tf.constant(x) for name, x in next(make_batches(1)).items()}
    learner.passes["training"].compute_gradients(batch, [1.0, 1.0], tf.constant([1, 2], tf.uint32))
    assert len(calls) == 2 * len(learner.backbone.blocks)
