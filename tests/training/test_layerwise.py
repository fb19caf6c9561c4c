"""A learning rate for each variable: depths, frozen layers, gradual unfreezing; for every optimizer, replica and resumption."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.text.vocabulary import Vocabulary
from tests.helpers.small_learner import Rows
from tests.helpers.small_systems import is_table_of_words, small_sizes
from xmodels import systems
from xmodels.models.backbone import Backbone, named_weights
from xmodels.models.bert import BertConfig
from xmodels.models.config import AttentionConfig
from xmodels.tasks.classify.task import Classify
from xmodels.training.devices import distribution
from xmodels.training.optimizers.kinds import OPTIMIZERS
from xmodels.training.optimizers.layerwise import Layerwise, depths
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.optimizers.synced import Rate
from xmodels.training.recipe import Records
from xmodels.training.states import checkpoints
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single

CONFIG = AttentionConfig(vocabulary_size=11, hidden_dim=8, num_layers=2, num_heads=1, intermediate_dim=8, dropout=0.0)
TOP = 3  # embeddings, two blocks, and above them pooler and head
IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0], [2, 9, 10, 3], [2, 4, 8, 3]], "int32")
BATCH = {"token_ids": IDS, "padding_mask": IDS > 0, "labels": np.array([0, 1, 2, 1], "int32"),
         "example_weights": np.ones(4, "float32")}  # fmt: skip


class Tiny(Backbone):
    """Two dense layers over embeddings: as deep as needed, and traced in no time."""

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = keras.layers.Embedding(config.vocabulary_size, config.hidden_dim, "normal")
        dense = {"units": config.hidden_dim, "kernel_initializer": keras.initializers.RandomNormal(stddev=0.5)}
        self.blocks = [keras.layers.Dense(activation="tanh", **dense) for _ in range(config.num_layers)]
        self.pooler = keras.layers.Dense(**dense)

    def call(self, features, training=None):
        x = self.embedding(features["token_ids"])
        for block in self.blocks:
            x = block(x)
        return {"sequence_output": x, "pooled_output": self.pooler(keras.ops.mean(x, axis=1))}


class Head(Classify):
    """A head whose weights are not close to 0, so that all gradients have a size."""

    def __init__(self, labels):
        super().__init__(BertConfig(**CONFIG.to_json()), labels)
        self.head.kernel_initializer = keras.initializers.RandomNormal(stddev=0.5)


def classifier(name="adam", clip_norm=1.0, **numbers):
    """A small classifier of three classes. Its weights do not depend on the optimizer."""
    keras.utils.set_random_seed(3)
    strategy = tf.distribute.get_strategy()
    given = {"learning_rate": 1e-2, "num_warmup_steps": 0, "num_steps": 100, "schedule": "constant"} | numbers
    backbone, task = Tiny(CONFIG).initialize(), Head(["a", "b", "c"])
    optimizer = Optimization(optimizer=name, **given).make_optimizer()
    if name == "adafactor":
        optimizer.smallest_factored = 4  # or nothing of this network is factored
    return Learner(strategy, backbone, single(task, Rows(BATCH)), optimizer, clip_norm)


def train(learner, steps):
    learner.train(iter(tf.data.Dataset.from_tensors(BATCH).repeat()), tf.constant(steps))
    return learner


def apply(learner, steps):
    """Updates with made-up gradients, which need no graph to be traced."""
    for _ in range(steps):
        random = np.random.default_rng(learner.step)
        gradients = [tf.constant(random.normal(size=v.shape).astype("float32")) for v in learner.variables]
        learner.optimizer.apply(gradients, learner.variables)
    return learner


def values(learner):
    weights = named_weights(learner.backbone) | {f"task.{n}": v for n, v in named_weights(learner.objective).items()}
    return {name: v.numpy() for name, v in weights.items()}


def moved(before, after):
    """How far each depth has moved, as the largest change of a weight."""
    found = dict.fromkeys(range(TOP + 1), 0.0)
    for name, depth in (depths(n for n in before if not n.startswith("task.")) | {"task.head.kernel": None}).items():
        depth = TOP if depth is None else depth
        found[depth] = max(found[depth], np.abs(after[name] - before[name]).max())
    return found


def test_depths_follow_the_names_of_attributes():
    names = {
        "embedding.token.embeddings": 0, "embeddings.tables.3.embeddings": 0, "blocks.0.mixer.query.kernel": 1,
        "encoder.layers.11.norm.gamma": 12, "blocks.2.experts.7.kernel": 3, "pooler.kernel": None, "norm.gamma": None,
        "embedding.output_matrix.embeddings": None,
    }  # fmt: skip
    assert depths(names) == names


RECURRENT = {"universal_transformer", "adaptive_universal_transformer"}  # one block, which is at all depths
WITHOUT_DEPTH = RECURRENT | set(filter(is_table_of_words, systems.names())) | {"fasttext", "nnlm", "senna"}
SHARED = {"albert"}  # its layers are one, which is numbered by its group


def network_of(name, vocabulary):
    system = systems.load(name)
    sizes = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8, "max_sequence_length": 8}
    kind = system.MODEL.config_class
    config = kind(vocabulary_size=11, **small_sizes(kind, sizes))
    return system.recipe(Vocabulary.read(vocabulary), Records(), "tiny", config).backbone().initialize()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", sorted(set(systems.names()) - WITHOUT_DEPTH))
def test_rule_of_depths_fits_every_network(name, zh_vocabulary):
    found = depths(named_weights(network_of(name, zh_vocabulary)))
    layers = (
        {1} if name in SHARED else {1, 2, 3} if name == "lstm_seq2seq" else {1, 2}
    )  # it counts those above a language model's
    assert {depth for depth in found.values() if depth is not None} == {0} | layers, "embeddings and the layers"
    # Of all layers of a Transformer-XL and of DeBERTa, and the words that context2vec predicts: they learn at the full rate.
    shared = {"biases.content_bias", "biases.position_bias", "targets.embeddings"}
    shared |= {"positions.table", "positions.norm.gamma", "positions.norm.beta"}
    lost = {n for n, depth in found.items() if depth is None and ("embed" in n or "position" in n)}
    assert lost <= shared


def test_a_network_without_layers_is_refused():
    dense = keras.Sequential([keras.layers.Dense(2, name="alone")])
    dense.build((1, 3))
    with pytest.raises(UsageError, match="Sequential has no numbered layers"):
        Layerwise(0.5).rates(dense)


@pytest.mark.parametrize("name", sorted(WITHOUT_DEPTH))
def test_a_network_without_numbered_layers_is_refused(name, zh_vocabulary):
    network = network_of(name, zh_vocabulary)
    with pytest.raises(UsageError, match=f"{type(network).__name__} has no numbered layers"):
        Layerwise(0.5).rates(network)


def test_rates_fall_by_one_factor_from_layer_to_layer():
    learner = classifier("sgd", layerwise_lr_decay=1 / 2.6, clip_norm=0.0)
    plain = classifier("sgd", clip_norm=0.0)
    start = values(plain)
    by_rate, full = moved(start, values(train(learner, 1))), moved(start, values(train(plain, 1)))
    for depth in range(TOP + 1):
        assert by_rate[depth] == pytest.approx(full[depth] / 2.6 ** (TOP - depth), rel=1e-3), depth
    assert learner.optimizer.layerwise.describe(learner.backbone) == (
        "Rates from the top down: 1, 0.385, 0.148, 0.0569."
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rate_of_a_variable_scales_its_step_under_every_optimizer(name):
    start = values(classifier(name))
    full, slow = apply(classifier(name), 1), apply(classifier(name, layerwise_lr_decay=0.5), 1)
    steps = [moved(start, values(learner)) for learner in (full, slow)]
    for depth in range(TOP + 1):
        assert steps[1][depth] == pytest.approx(steps[0][depth] * 0.5 ** (TOP - depth), rel=2e-2), depth
        assert steps[0][depth] > 0


def test_rate_zero_freezes_all_below_the_top_and_computes_no_gradient_for_it():
    learner = classifier("adamw", layerwise_lr_decay=0.0)
    start = values(learner)
    after = moved(start, values(train(learner, 3)))
    assert [after[depth] for depth in range(TOP)] == [0.0, 0.0, 0.0] and after[TOP] > 0
    assert len(learner.variables) == 4  # kernel and bias of pooler and head


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_layers_thaw_from_the_top_down_and_sleep_without_a_trace(name):
    learner = classifier(name, thaw_steps=2, weight_decay=0.1)
    before = values(learner)
    for step in range(8):
        after = values(apply(learner, 1))
        awake = [depth for depth, change in moved(before, after).items() if change > 0]
        assert awake == [depth for depth in range(TOP + 1) if step >= 2 * (TOP - depth)], f"step {step}"
        before = after
        if step == 1:
            slots = [s for s in learner.optimizer.variables if tuple(s.shape) == (11, 8)]  # of the embeddings only
            assert all(np.ptp(slot.numpy()) == 0 for slot in slots)


def test_a_late_beginner_takes_the_first_step_of_a_beginner():
    """Its bias correction starts with it: Adam's first step has the size of the rate."""
    learner = apply(classifier("adam", thaw_steps=3), 9)
    before = values(learner)
    after = values(apply(learner, 1))
    table = np.abs(after["embedding.embeddings"] - before["embedding.embeddings"])
    assert table.max() == pytest.approx(1e-2, rel=1e-3)


def test_sleeping_layers_do_not_count_in_the_norm_that_is_clipped():
    alone = train(classifier("sgd", layerwise_lr_decay=0.0, clip_norm=0.01), 2)
    with_sleepers = train(classifier("sgd", thaw_steps=5, clip_norm=0.01), 2)
    for name, value in values(alone).items():
        np.testing.assert_array_equal(value, values(with_sleepers)[name], err_msg=name)


@pytest.mark.long
def test_all_optimizers_do_on_two_replicas_what_they_do_on_one():
    """Gradients come from a function compiled by XLA and are summed before they are applied, as the training step does."""
    x = np.random.default_rng(1).normal(size=(4, 5)).astype("float32")
    results = []
    for strategy in (distribution.choose("one_device"), distribution.choose("mirrored")):
        with strategy.scope():
            groups = {name: _variables(name) for name in OPTIMIZERS}

        @tf.function(jit_compile=True)
        def gradients(rows, *weights):
            with tf.GradientTape() as tape:
                tape.watch(weights)
                loss = tf.reduce_sum(tf.tanh(tf.matmul(rows, weights[0]) + weights[1]) ** 2)
            return tape.gradient(loss, weights)

        def step(rows, groups=groups, gradients=gradients):
            context = tf.distribute.get_replica_context()
            mine = tf.reshape(rows, (context.num_replicas_in_sync, -1, 5))[context.replica_id_in_sync_group]
            for optimizer, weights in groups.values():
                summed = context.all_reduce("sum", gradients(mine, *[tf.convert_to_tensor(w) for w in weights]))
                optimizer.apply(optimizer.zero_frozen(summed, weights), weights)

        run = tf.function(lambda strategy=strategy, step=step: strategy.run(step, (tf.constant(x),)))
        for _ in range(4):
            run()
        results.append({name: [w.numpy() for w in weights] for name, (_, weights) in groups.items()})
    start = _variables("adam")[1]
    for name, weights in results[0].items():
        for one, two, before in zip(weights, results[1][name], start, strict=True):
            np.testing.assert_allclose(two, one, atol=1e-6, err_msg=name)
            assert np.abs(one - before.numpy()).max() > 1e-4, name


def _variables(name):
    """An optimizer built on a kernel that learns at half the rate from step 2 on, and a bias."""
    kernel = np.linspace(-0.5, 0.7, 15, dtype="float32").reshape(5, 3)
    weights = [keras.Variable(kernel), keras.Variable(np.array([0.1, -0.2, 0.3], "float32"))]
    numbers = {"learning_rate": 1e-2, "num_warmup_steps": 0, "num_steps": 20, "weight_decay": 0.1}
    optimizer = Optimization(optimizer=name, **numbers).make_optimizer()
    if name == "adafactor":
        optimizer.smallest_factored = 2
    optimizer.set_rates([(weights[0], Rate(0.5, begins=2))])
    optimizer.build(weights)
    return optimizer, weights


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_resumes_bitwise_in_the_middle_of_thawing(name, tmp_path):
    numbers = {"layerwise_lr_decay": 0.7, "thaw_steps": 2, "schedule": "linear", "num_warmup_steps": 2, "num_steps": 12}
    whole = apply(classifier(name, **numbers), 3)
    path = checkpoints.save(str(tmp_path), whole, checkpoints.State(3))
    expected = values(apply(whole, 5))
    again = classifier(name, **numbers)
    assert checkpoints.restore(path, again).step == 3 and again.step == 3
    for key, value in values(apply(again, 5)).items():
        np.testing.assert_array_equal(value, expected[key], err_msg=key)
