"""Every published system builds, learns on one batch, compiles with XLA, is saved and comes back."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.grouping import longest, shorten_features
from data_pipelines.errors import UsageError
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import Vocabulary
from tests.helpers.small_systems import RECORDS, make_learner, small_recipe, without_graphs
from xmodels import systems
from xmodels.conversion import convert
from xmodels.jobs.pretrain.batches import check_grouping
from xmodels.jobs.pretrain.options import Options
from xmodels.models.backbone import named_weights
from xmodels.models.folder import read_model, write_model

ROWS = 4  # of the batch that is learnt

# One of each kind of network and of objective. The others are alike but for what has tests of its own, or trained by such tests.
KINDS = (
    "bert",
    "xlnet",
    "gpt2",
    "bart",
)


of_every_system = pytest.mark.parametrize(
    "system_run",
    [pytest.param(n, marks=() if n in KINDS else pytest.mark.long) for n in systems.names()],
    indirect=True,
)

LABELS = {"span_labels": "labels"}  # predictions of a second head -> the feature that it names too


@pytest.fixture(scope="module")
def system_run(request, zh_vocabulary, records_of):
    """A small network of the system and its learner, which all tests of a system share; each begins with `reset` if it trains."""
    recipe = small_recipe(request.param, Vocabulary.read(zh_vocabulary), ROWS)
    return SystemRun(recipe, RecordSource(records_of(recipe.packings[0])))


class SystemRun:
    """A learner whose step is compiled by XLA, its batch, and the values with which it begins."""

    def __init__(self, recipe, source):
        self.recipe, self.source = recipe, source
        self.learner = learner = make_learner(recipe, source, jit_compile=True)
        self.batch = next(iter(learner.streams["training"].batches.once(1)))
        self.variables = [*learner.variables, *learner.optimizer.variables, *learner.further_variables.values()]
        self.start = [variable.numpy() for variable in self.variables]

    def reset(self):
        for variable, value in zip(self.variables, self.start, strict=True):
            variable.assign(value)

    def weights(self):
        return {name: weight.numpy() for name, weight in named_weights(self.learner.backbone).items()}


def train(learner, batch, steps):
    data = tf.data.Dataset.from_tensors(batch).repeat()
    iterator = iter(learner.strategy.distribute_datasets_from_function(lambda context: data))
    return learner.means(learner.train(iterator, tf.constant(steps))[0])


@of_every_system
def test_system_learns_one_batch_by_heart(system_run):
    learner, batch = system_run.learner, system_run.batch
    system_run.reset()
    before = learner.evaluate([batch])
    for name, rate in before.items():
        if name.endswith("accuracy"):
            assert rate < 0.9, f"{name} is {rate} before training"
    for _ in range(12):
        after = train(learner, batch, 25)
        # A memory changes what a network sees of the batch, so such a one is judged by these steps, not by an evaluation.
        if learner.passes["training"].carried is None:
            after = learner.evaluate([batch])
        accuracies = {name: after[name] for name in after if name.endswith("accuracy")}
        if after["loss"] < 0.3 * before["loss"] and min(accuracies.values(), default=1.0) > 0.9:
            break
    assert after["loss"] < 0.3 * before["loss"]
    assert all(rate > 0.8 for rate in accuracies.values()), after
    carried = learner.passes["training"].carried
    past = {} if carried is None else {name: variable.value() for name, variable in carried.memory.items()}
    outputs = learner.objective.forward(learner.backbone, {**batch, **past})
    for name, predicted in learner.objective.predictions(outputs, batch, learner.backbone).items():
        truth, predicted = batch[LABELS.get(name, name)].numpy(), np.array(predicted)
        weights = batch["label_weights"].numpy() * (predicted >= 0) if truth.ndim > 1 else None
        assert np.average(predicted == truth, weights=weights) > 0.8, f"predictions of {name}"


@pytest.mark.one_in(2)
@of_every_system
def test_step_compiled_by_xla_equals_the_plain_one(system_run):
    results = []
    for compiled in (False, True):
        system_run.reset()
        with contextlib.nullcontext() if compiled else without_graphs():
            train(system_run.learner, system_run.batch, 3)
        results.append(system_run.weights())
    for name, value in results[0].items():
        np.testing.assert_allclose(value, results[1][name], atol=2e-4, err_msg=name)


@pytest.mark.one_in(4)
@of_every_system
def test_step_in_bfloat16_has_a_loss_and_gradients_near_those_of_float32(system_run):
    """A loss that is not float32 cannot be multiplied by its float32 share, and ends the step."""
    system_run.reset()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        half = make_learner(system_run.recipe, system_run.source, jit_compile=False)
    finally:
        keras.config.set_dtype_policy("float32")
    assert half.backbone.compute_dtype == "bfloat16" and {v.dtype for v in half.variables} == {"float32"}
    learners = system_run.learner, half
    with without_graphs():
        plain, found = (train(learner, system_run.batch, 1) for learner in learners)
    assert found["skipped"] == 0 and found["loss"] == pytest.approx(plain["loss"], rel=1e-2)
    norms = [np.linalg.norm(learner.gradient_norms) for learner in learners]
    assert norms[1] == pytest.approx(norms[0], rel=0.1)


@of_every_system
def test_rows_that_fill_up_a_batch_count_for_nothing(system_run):
    learner, batch = system_run.learner, system_run.batch
    whole = learner.evaluate([batch])
    filled = {name: tf.concat([value, tf.zeros_like(value)], axis=0) for name, value in batch.items()}
    with without_graphs():
        with_filling = learner.evaluate([filled])
    for name, value in whole.items():
        if not name.startswith("real_"):
            assert with_filling[name] == pytest.approx(value, rel=1e-5), name


@of_every_system
def test_rows_without_the_padding_that_all_have_give_the_same_or_are_refused(system_run):
    learner, recipe, source = system_run.learner, system_run.recipe, system_run.source
    if source.is_stream or recipe.row_length:
        options = Options(system="bert", model_dir="", length_buckets="auto")
        with pytest.raises(UsageError, match="Leave them out"):
            check_grouping(options, recipe, source)
        return
    batches = list(learner.streams["training"].batches.once(8))
    rows = {name: tf.concat([batch[name] for batch in batches], axis=0) for name in batches[0]}
    shortest = tf.argsort(tf.reduce_sum(tf.cast(rows["padding_mask"], tf.int32), axis=1))[:ROWS]
    whole = {name: tf.gather(value, shortest) for name, value in rows.items()}
    width = longest(whole)
    if width == RECORDS.sequence_length:
        assert recipe.packings[0] in (
            "segment_pair",
            "sentence_order",
        )  # whose rows are full here; `test_grouping` has shorter ones
        return
    expected = learner.evaluate([whole])
    with without_graphs():
        found = learner.evaluate([shorten_features(whole, width)])
    for name, value in expected.items():
        if not name.startswith("real_"):
            assert found[name] == pytest.approx(value, rel=1e-4), name


def as_read(learner, batch):
    """A batch as the network reads it in training, where an objective keeps a part of the vectors of tokens."""
    vectors_for = getattr(getattr(learner.objective, "generator", None), "vectors_for", None)
    return (
        {**batch, "token_vectors": vectors_for(batch["token_ids"], learner.backbone.embedding)}
        if vectors_for
        else batch
    )


@of_every_system
def test_model_folder_brings_back_network_and_heads(system_run, tmp_path):
    learner, batch = system_run.learner, system_run.batch
    write_model(str(tmp_path), learner.backbone, learner.objective)
    backbone, heads = read_model(str(tmp_path))
    expected, found = learner.backbone(as_read(learner, batch)), backbone(batch)
    for name, value in expected.items():
        np.testing.assert_array_equal(np.array(value), np.array(found[name]))
    assert {f"{learner.objective.prefix}.{n}" for n in named_weights(learner.objective)} == set(heads)
    assert convert.load(str(tmp_path)).config == learner.backbone.config


@of_every_system
def test_backbone_is_rebuilt_by_keras(system_run, tmp_path):
    learner, batch = system_run.learner, system_run.batch
    path = str(tmp_path / "network.keras")
    learner.backbone.save(path)
    again = keras.saving.load_model(path)
    np.testing.assert_allclose(
        np.array(again(batch)["sequence_output"]), np.array(learner.backbone(batch)["sequence_output"]), atol=1e-6
    )


def test_unknown_system_names_the_nearest():
    with pytest.raises(UsageError, match="Did you mean bert_wwm"):
        systems.load("bertwwm")
