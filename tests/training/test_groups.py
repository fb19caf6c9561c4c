"""Groups of weights that learn apart: their optimizers, norms, beginnings, states and logs; weights of losses that change."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.helpers.small_learner import (
    Rows,
    largest_difference,
    make_batches,
    make_learner,
    make_network,
    train,
    values,
)
from xmodels.training.devices import distribution
from xmodels.training.loop import Loop
from xmodels.training.optimizers.grouped import GroupedOptimizer
from xmodels.training.optimizers.groups import REST, Group, divide
from xmodels.training.optimizers.layerwise import Layerwise
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.states import checkpoints
from xmodels.training.step.learner import Learner
from xmodels.training.step.loss_weights import LossWeights
from xmodels.training.step.streams import single

HEADS = Group("heads", r"^objective\.")
BLOCKS = Group("blocks", r"^backbone\.blocks\.", optimizer="sgd", learning_rate=0.1)
TABLES = Group("tables", r"^backbone\.embedding\.", optimizer="sgd", learning_rate=0.5, clip_norm=0.01)
LOSSES = ("masked_lm", "next_sentence")


def optimization(name="adam", num_steps=100, **numbers):
    given = {"learning_rate": 1e-3, "num_warmup_steps": 0, "schedule": "constant"} | numbers
    return Optimization(optimizer=name, num_steps=num_steps, **given)


def learner_of(*groups, strategy="one_device", whole=None, clip_norm=0.0, **settings):
    """A learner of a small network whose weights do not depend on the optimizer."""
    strategy, whole = distribution.choose(strategy), whole or optimization()
    with strategy.scope():
        backbone, objective = make_network()
        optimizer = GroupedOptimizer(groups, whole) if groups else whole.make_optimizer()
        streams = single(objective, Rows(next(make_batches(1))))
        return Learner(strategy, backbone, streams, optimizer, clip_norm, **settings)


def beginning_at(group, begins):
    return dataclasses.replace(group, begins=begins)


def steps(found, pattern=""):
    return {name: value for name, value in found.items() if pattern in name}


def test_the_first_group_that_holds_a_weight_has_it_and_the_rest_stays_together():
    names = ["backbone.blocks.0.kernel", "backbone.blocks.1.kernel", "objective.head.bias"]
    lower = Group("lower", lambda name: "blocks.0" in name)
    assert [g.name for g in divide((lower, Group("blocks", "blocks")), names).values()] == ["lower", "blocks", REST]


@pytest.mark.parametrize(
    "groups, said",
    [
        ((Group("all", ""), Group("blocks", "blocks")), "The group 'blocks' holds no weight"),
        ((Group("layers", "layers"),), "'layers' is found in no name"),
        ((Group("a", "blocks"), Group("a", "head")), "Received: a"),
        ((Group(REST, "blocks"),), "Received: rest"),
    ],
)
def test_groups_that_cannot_be_meant_are_refused(groups, said):
    with pytest.raises(ValueError, match=said):
        divide(groups, ["backbone.blocks.0.kernel", "objective.head.bias"])


def test_each_group_learns_as_by_its_optimizer_alone():
    groups = learner_of(HEADS, BLOCKS)
    adam, sgd = learner_of(), learner_of(whole=optimization("sgd", learning_rate=0.1))
    start = values(adam)
    for learner in (groups, adam, sgd):
        train(learner, make_batches(1))
    found, by_adam, by_sgd = map(values, (groups, adam, sgd))
    for name, value in found.items():
        expected = by_sgd if name.startswith("backbone.blocks.") else by_adam
        np.testing.assert_allclose(value, expected[name], atol=1e-7, err_msg=name)
    assert largest_difference(start, found) > 0


def test_each_group_is_clipped_to_its_own_norm_and_no_other():
    free = {"optimizer": "sgd", "learning_rate": 1.0}
    heads, blocks = (
        Group("heads", "^objective", **free, clip_norm=0.02),
        Group("blocks", "blocks", **free, clip_norm=0.03),
    )
    learner = learner_of(heads, blocks, Group("tables", "embedding", **free, clip_norm=0.0))
    before = values(learner)
    train(learner, make_batches(1))
    moved = {name: np.linalg.norm(value - before[name]) for name, value in values(learner).items()}
    norms = {key: np.linalg.norm(list(steps(moved, key).values())) for key in ("objective.", ".blocks.", ".embedding.")}
    assert norms["objective."] == pytest.approx(0.02, rel=1e-3) and norms[".blocks."] == pytest.approx(0.03, rel=1e-3)
    gradients = dict(zip(before, learner.gradient_norms.numpy(), strict=True))
    unclipped = np.linalg.norm(list(steps(gradients, ".embedding.").values()))
    assert norms[".embedding."] == pytest.approx(unclipped, rel=1e-3) and unclipped > 0.03


def test_groups_thaw_at_their_step_or_share_and_leave_no_trace_before():
    late = Group("blocks", "blocks", optimizer="adam", learning_rate=1e-2, begins=2)
    later = Group("tables", "embedding", begins=0.4)  # of ten steps: the fifth one
    learner = learner_of(late, later, whole=optimization("adamw", num_steps=10, weight_decay=0.1))
    moments = steps(learner.optimizer.named_variables, "blocks.")
    moments = [v for name, v in moments.items() if "momentum" in name]
    before, awake = values(learner), {"blocks": [], "embedding": [], "objective": []}
    for step in range(6):
        train(learner, make_batches(1, seed=step))
        after = values(learner)
        for part, found in awake.items():
            if any(np.any(value != before[name]) for name, value in steps(after, f"{part}.").items()):
                found.append(step)
        before = after
        assert any(v.numpy().any() for v in moments) == (step >= 2)
    assert awake == {"blocks": [2, 3, 4, 5], "embedding": [4, 5], "objective": [0, 1, 2, 3, 4, 5]}


@pytest.mark.long
def test_a_group_that_never_begins_has_neither_gradients_nor_moments():
    learner = learner_of(Group("frozen", r"^backbone\.", begins=None))
    before = values(learner)
    assert not steps(before, "backbone.")
    weights = [v.numpy() for v in learner.backbone.variables]
    train(learner, make_batches(2))
    assert all(np.array_equal(v.numpy(), w) for v, w in zip(learner.backbone.variables, weights, strict=True))
    assert largest_difference(before, values(learner)) > 0


@pytest.mark.long
@pytest.mark.parametrize(
    "strategy, compiled",
    [
        ("mirrored", True),
        pytest.param("mirrored", False, marks=pytest.mark.long),
        pytest.param("one_device", True, marks=pytest.mark.long),
    ],
)
def test_replicas_and_xla_do_what_one_device_does_without_tracing_again(strategy, compiled):
    groups = HEADS, BLOCKS, Group("tables", "embedding", "adagrad", learning_rate=0.01, begins=2, clip_norm=0.5)
    weights = LossWeights({"masked_lm": lambda progress: 0.2 * 0.5**progress}, 4)
    plain, other = (
        learner_of(*groups, strategy=each, clip_norm=1.0, jit_compile=xla, loss_weights=weights)
        for each, xla in (("one_device", False), (strategy, compiled))
    )
    totals = [train(each, make_batches(4)) for each in (plain, other)]
    np.testing.assert_allclose(totals[1], totals[0], rtol=1e-4, atol=1e-4)
    assert largest_difference(values(plain), values(other)) < 2e-6
    assert other.passes["training"].gradients.experimental_get_tracing_count() <= other.strategy.num_replicas_in_sync


def test_a_run_resumes_bitwise_while_groups_thaw_and_weights_change(tmp_path):
    groups = HEADS, beginning_at(BLOCKS, 2), beginning_at(TABLES, 5)
    settings = {"loss_weights": LossWeights({"masked_lm": lambda progress: ops.exp(-progress)}, 6), "clip_norm": 1.0}
    whole = learner_of(*groups, **settings)
    train(whole, make_batches(3))
    path = checkpoints.save(str(tmp_path), whole, checkpoints.State(3))
    train(whole, make_batches(3, seed=1))
    again = learner_of(*groups, **settings)
    assert checkpoints.restore(path, again).step == 3 and again.step == 3
    train(again, make_batches(3, seed=1))
    for name, value in values(whole).items():
        np.testing.assert_array_equal(value, values(again)[name], err_msg=name)
    assert {name.split(".")[0] for name in again.optimizer.named_variables} == {"rest", "blocks", "tables"}


@pytest.mark.long
def test_states_of_runs_without_groups_continue_with_layers_as_groups(tmp_path):
    """The flags of layer-wise rates make groups that share one optimizer, whose state has the names of always."""
    before = learner_of(whole=optimization("adamw", layerwise_lr_decay=0.5, thaw_steps=1), clip_norm=0.3)
    layers = Layerwise(0.5, 1).groups(before.backbone)
    after = learner_of(*layers, whole=optimization("adamw"), clip_norm=0.3)
    train(before, make_batches(2))
    assert checkpoints.restore(checkpoints.save(str(tmp_path), before, checkpoints.State(2)), after).step == 2
    for learner in (before, after):
        train(learner, make_batches(2, seed=1))
    for name, value in values(before).items():
        np.testing.assert_array_equal(value, values(after)[name], err_msg=name)


@pytest.mark.long
def test_the_log_tells_rates_and_norms_of_each_group_and_weights_that_change(tmp_path, capsys):
    weights = LossWeights({"next_sentence": lambda progress: 0.2 * 0.5**progress}, 4)
    learner = learner_of(HEADS, beginning_at(BLOCKS, 2), loss_weights=weights, whole=optimization(num_steps=4))
    Loop(learner, str(tmp_path), 4, seed=0, log_every=1).run(checkpoints.State())
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    logged = [entry for entry in logged if entry["kind"] == "train"]
    assert [entry["blocks/learning_rate"] for entry in logged] == pytest.approx([0, 0.1, 0.1, 0.1])  # of the next step
    assert all(entry["heads/learning_rate"] == pytest.approx(1e-3) for entry in logged)
    assert logged[0]["blocks/gradient_norm"] == 0 and logged[-1]["blocks/gradient_norm"] > 0
    assert [entry["next_sentence/weight"] for entry in logged] == pytest.approx(
        [0.2 * 0.5 ** (n / 4) for n in range(1, 5)]
    )
    printed = capsys.readouterr().out
    assert "lr heads 0.001 blocks 0 rest 0.001 ·" in printed and "blocks 0.1 rest" in printed


def test_weights_multiply_losses_in_the_update_and_in_the_log():
    sgd, batch = optimization("sgd"), next(make_batches(1))
    change, logged = {}, {}
    for weight in (0.0, 0.5, 1.0):
        learner = learner_of(whole=sgd, loss_weights=LossWeights({"masked_lm": weight}))
        start = values(learner)
        logged[weight] = learner.means(train(learner, [batch]))["masked_lm"]
        change[weight] = {name: value - start[name] for name, value in values(learner).items()}
    for name in start:
        expected = (change[0.0][name] + change[1.0][name]) / 2
        np.testing.assert_allclose(change[0.5][name], expected, atol=1e-7, err_msg=name)
    assert logged[0.5] == pytest.approx(logged[1.0] / 2, rel=1e-5)
    assert not any(change[0.0][name].any() for name in start if "masked_lm" in name), "no weight, no gradient"


def test_an_evaluation_weighs_losses_as_the_step_does():
    learner = make_learner(loss_weights=LossWeights({"masked_lm": lambda progress: 0.25 + progress}, 4))
    plain = make_learner()
    dataset = tf.data.Dataset.from_tensors(next(make_batches(1)))
    found, expected = learner.evaluate(dataset), plain.evaluate(dataset)
    assert found["masked_lm"] == pytest.approx(expected["masked_lm"] * 0.25, rel=1e-5)
    assert found["loss"] == pytest.approx(found["masked_lm"] + found["next_sentence"], rel=1e-6)
    assert keras.ops.is_tensor(learner.loss_weights.at(LOSSES, 2)) and plain.loss_weights.at(LOSSES, 2) is None
