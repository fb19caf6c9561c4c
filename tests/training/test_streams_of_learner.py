"""Several streams in one learner, sparse gradients, and memories that are dropped: small networks, each against a plain twin."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import UsageError
from tests.helpers.small_learner import LENGTH, VOCABULARY, Rows, make_batches
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.lstm_lm import LstmLM, LstmLMConfig
from xmodels.models.skip_gram import SkipGram, SkipGramConfig
from xmodels.objectives.base import Objective, together
from xmodels.objectives.causal_lm import CausalLM
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.negative_sampling import NegativeSampling
from xmodels.objectives.next_sentence import NextSentence
from xmodels.objectives.untied_lm import UntiedLM
from xmodels.objectives.word_windows import Contexts
from xmodels.training.devices import distribution
from xmodels.training.loop import Loop
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.states import checkpoints
from xmodels.training.step.learner import Learner, Memory
from xmodels.training.step.sparse import merge_duplicates
from xmodels.training.step.streams import Stream, choose, first_credits, single
from xmodels.training.watching.progress import read_log

WORDS, PAIRS, NEGATIVES = 12, 6, 3


def optimizer_of(name="sgd", rate=0.1):
    return Optimization(optimizer=name, learning_rate=rate, num_warmup_steps=0, num_steps=1000, schedule="constant")


def weights_of(learner):
    return {name: variable.numpy() for name, variable in learner.trained_weights().items()}


def assert_close(first, second, tolerance=1e-6):
    for name in first:
        np.testing.assert_allclose(first[name], second[name], atol=tolerance, err_msg=name)


# Shares.


def counts_of(streams, steps, seed=0):
    credits, taken = first_credits(seed, len(streams)), []
    for step in range(steps):
        name, credits = choose(streams, step, credits)
        taken.append(name)
    return taken


def test_counts_follow_shares_at_every_step_and_shares_may_move():
    fixed = {"a": Stream(None, None, 3), "b": Stream(None, None, 1), "c": Stream(None, None, 0)}
    taken = counts_of(fixed, 400)
    ahead = np.cumsum([name == "a" for name in taken]) - 0.75 * np.arange(1, 401)
    assert np.abs(ahead).max() < 1.01 and "c" not in taken
    moving = {"a": Stream(None, None, lambda step: 1 - step / 100), "b": Stream(None, None, lambda step: step / 100)}
    taken = counts_of(moving, 100)
    assert 25 > taken[:50].count("b") > 8 and abs(taken.count("a") - 50) <= 2
    with pytest.raises(UsageError, match="a -1, b 1; expected"):
        counts_of({"a": Stream(None, None, -1), "b": Stream(None, None)}, 1)


# Several streams.


def two_streams(strategy="one_device", memory=None, seed=0):
    strategy = distribution.choose(strategy)
    rows = [next(make_batches(1, seed=seed + n)) for n in range(2)]
    with strategy.scope():
        keras.utils.set_random_seed(1)
        config = BertConfig(VOCABULARY, 16, 1, 2, 32, max_sequence_length=LENGTH, dropout=0.0, attention_dropout=0.0)
        backbone = Bert(config).initialize()
        sources = [ArraySource({n: np.concatenate([x, x[::-1]]) for n, x in each.items()}, "made up") for each in rows]
        batches = [Batches(source, lambda features: features, 8, seed=3) for source in sources]
        streams = {
            "masked": Stream(MaskedLM(config), batches[0], 2.0),
            "pairs": Stream(NextSentence(config), batches[1], 1.0),
        }
        optimizer = optimizer_of("adamw", 1e-2).make_optimizer()
        return Learner(strategy, backbone, streams, optimizer, memory=memory or Memory())


def run(learner, folder, steps, state=None):
    loop = Loop(learner, str(folder), steps, 0, save_every=4, log_every=4)
    return loop.run(state or checkpoints.State())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of seven steps, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    learner = two_streams(memory=Memory(ema_decay=0.9))
    state = run(learner, folder, 7)
    return learner, state, folder


@pytest.mark.long
def test_streams_share_a_network_and_keep_their_own_places(whole):
    learner, state, folder = whole
    counts = {name: state.at(name).consumed // 8 for name in ("masked", "pairs")}
    assert counts["masked"] + counts["pairs"] == 7 and counts["masked"] in (4, 5)
    assert state.consumed == 56 and learner.steps_of == counts
    entries = [e for e in read_log(f"{folder}/log.jsonl") if e["kind"] == "train"]
    assert {"masked/masked_lm", "pairs/next_sentence", "masked/real_tokens", "loss"} <= entries[0].keys()
    assert entries[0]["tokens_per_second"] >= 0 and np.isfinite(entries[0]["loss"])


def test_a_resumed_run_of_streams_equals_an_uninterrupted_one(whole):
    learner, _, folder = whole
    again = two_streams(memory=Memory(ema_decay=0.9))
    state = checkpoints.restore(f"{folder}/checkpoints/step_00000004", again)
    assert sum(position.consumed for position in state.positions.values()) == 32
    run(again, folder, 7, state)
    for name, value in weights_of(learner).items():
        np.testing.assert_array_equal(weights_of(again)[name], value, err_msg=name)


@pytest.mark.long
def test_two_replicas_and_micro_batches_equal_one_device_with_streams(whole, tmp_path):
    other = two_streams("mirrored", Memory(2, ema_decay=0.9))
    run(other, tmp_path, 7)
    assert_close(weights_of(other), weights_of(whole[0]), 2e-6)


@pytest.mark.long
def test_a_step_leaves_the_head_of_another_stream_alone():
    learner = two_streams()
    before = weights_of(learner)
    learner.credits.assign([0.0, 5.0])  # so that the next steps are of the second stream
    learner.train({name: iter(s.batches.training()) for name, s in learner.streams.items()}, 2)
    changed = {name for name, value in weights_of(learner).items() if np.abs(value - before[name]).max() > 0}
    assert learner.steps_of == {"masked": 0, "pairs": 2}
    assert "objective.next_sentence.head.kernel" in changed or any("next_sentence" in name for name in changed)
    assert not any("masked_lm" in name for name in changed)


# Joined objectives.


def test_objectives_with_a_pass_of_their_own_are_not_joined():
    class Twice(Objective):
        def forward(self, backbone, batch, training=None):
            return backbone(batch), backbone(batch)

    with pytest.raises(ValueError, match="Received: Twice. Give such an objective a stream"):
        together(CausalLM(), Twice())


# Sparse gradients.


def pairs(seed=0, rows=4):
    """Rows of `PAIRS` words, the last of which is none, with windows of up to 2 words to each side."""
    draw = np.random.default_rng(seed)
    place, reach = np.arange(PAIRS), draw.integers(1, 3, (rows, PAIRS))
    real = place < PAIRS - 1
    return {
        "padding_mask": np.ones((rows, 5), bool), "center_ids": draw.integers(0, WORDS, (rows, PAIRS), "int32"),
        "window_starts": np.where(real, np.maximum(place - reach, 0), 0).astype("int32"),
        "window_ends": np.where(real, np.minimum(place + reach + 1, PAIRS - 1), 0).astype("int32"),
        "negative_ids": draw.integers(0, WORDS, (rows, NEGATIVES), "int32"),
        "example_weights": np.ones((rows,), "float32"), "token_ids": np.zeros((rows, 5), "int32"),
    }  # fmt: skip


def skip_gram(optimizer="sgd", sparse=True, strategy="one_device", clip_norm=0.0, jit_compile=False, **memory):
    strategy = distribution.choose(strategy)
    with strategy.scope():
        keras.utils.set_random_seed(1)
        backbone = SkipGram(SkipGramConfig(WORDS, 4)).initialize()
        backbone.contexts.embeddings.assign(np.random.default_rng(0).normal(size=(WORDS, 4)))
        if not sparse:
            backbone.sparse_tables = ()
        streams = single(NegativeSampling(Contexts(), 2, 5), Rows(pairs()))
        optimizer = optimizer_of(optimizer, 0.5).make_optimizer()
        return Learner(
            strategy, backbone, streams, optimizer, clip_norm, jit_compile=jit_compile, memory=Memory(**memory)
        )


def train(learner, count=3):
    replicas = learner.strategy.num_replicas_in_sync
    columns = {n: np.concatenate([pairs(seed)[n] for seed in range(count)]) for n in pairs()}
    data = tf.data.Dataset.from_tensor_slices(columns).batch(4 // replicas, True)
    iterator = iter(learner.strategy.distribute_datasets_from_function(lambda context: data))
    learner.train(iterator, tf.constant(count))
    return weights_of(learner)


def test_duplicates_are_summed_in_one_place():
    gradient = tf.IndexedSlices(
        tf.constant([[1.0], [2.0], [4.0], [8.0]]), tf.constant([5, 3, 5, 3]), tf.constant([9, 1])
    )
    merged = merge_duplicates(gradient)
    np.testing.assert_array_equal(tf.convert_to_tensor(merged), tf.convert_to_tensor(gradient))
    assert float(tf.norm(merged.values)) == pytest.approx(np.hypot(5.0, 10.0))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_sparse_updates_equal_dense_ones_also_when_clipped(optimizer):
    sparse = skip_gram(optimizer, clip_norm=0.7)
    (stream,) = sparse.passes.values()
    batch = {name: tf.constant(x) for name, x in pairs().items()}
    gradients = stream.gradients(batch, tf.ones((1,)), tf.constant([1, 2], tf.uint32))[0]
    assert all(isinstance(g, tf.IndexedSlices) for g in gradients)
    found, expected = train(sparse), train(skip_gram(optimizer, sparse=False, clip_norm=0.7))
    assert_close(found, expected)
    np.testing.assert_allclose(sparse.gradient_norms.numpy().shape, (2,))


def test_sparse_gradients_of_replicas_and_micro_batches_add_up():
    expected = train(skip_gram("adagrad", clip_norm=0.7))
    assert_close(train(skip_gram("adagrad", clip_norm=0.7, strategy="mirrored", micro_batches=2)), expected)
    assert_close(train(skip_gram("adagrad", clip_norm=0.7, jit_compile=True)), expected)


def test_a_step_is_the_update_of_word2vec():
    learner = skip_gram()
    words, contexts = (
        layer.embeddings.numpy().astype(np.float64) for layer in (learner.backbone.words, learner.backbone.contexts)
    )
    batch = pairs()
    found, slopes = train(learner, 1), [np.zeros_like(words), np.zeros_like(contexts)]
    for row, place in np.ndindex(batch["center_ids"].shape):
        center, window = (
            batch["center_ids"][row, place],
            slice(batch["window_starts"][row, place], batch["window_ends"][row, place]),
        )
        for other in set(range(PAIRS)[window]) - {place}:
            context = batch["center_ids"][row, other]
            drawn = [n for n in batch["negative_ids"][row] if n != context]  # skipped, not drawn again
            for word, label, rate in ((context, 1.0, 1.0), *((n, 0.0, 5 / NEGATIVES) for n in drawn)):
                error = rate * (label - 1.0 / (1.0 + np.exp(-words[center] @ contexts[word])))
                slopes[0][center] += error * contexts[word]
                slopes[1][word] += error * words[center]
    np.testing.assert_allclose(found["backbone.words.embeddings"], words + 0.5 * slopes[0], atol=1e-5)
    np.testing.assert_allclose(found["backbone.contexts.embeddings"], contexts + 0.5 * slopes[1], atol=1e-5)


# Memories.


def lstm(continues, learning_rate=0.1, jit_compile=False):
    keras.utils.set_random_seed(1)
    config = LstmLMConfig(VOCABULARY, 8, 2, dropout=0.0)
    batch = {"token_ids": np.arange(12, dtype="int32").reshape(2, 6), "padding_mask": np.ones((2, 6), bool),
             "labels": np.arange(1, 13, dtype="int32").reshape(2, 6), "label_weights": np.ones((2, 6), "float32"),
             "example_weights": np.ones((2,), "float32")}  # fmt: skip
    streams = single(UntiedLM(config), Rows(batch, continues))
    optimizer = optimizer_of("sgd", learning_rate).make_optimizer()
    learner = Learner(
        distribution.choose("one_device"), LstmLM(config).initialize(), streams, optimizer, jit_compile=jit_compile
    )
    data = tf.data.Dataset.from_tensors({name: tf.constant(x) for name, x in batch.items()}).repeat()
    return learner, batch, data


def test_the_state_of_an_lstm_goes_on_where_rows_do_and_is_dropped_where_examples_are_unrelated():
    learner, batch, data = lstm(True, 0.0)
    learner.train(iter(data), tf.constant(2))
    past = learner.backbone.initial_memory(2)
    for _ in range(2):
        outputs = learner.backbone({**batch, **past})
        past = {"memory": outputs["memory"]}
    carried = learner.passes["training"].carried
    np.testing.assert_allclose(carried.memory["memory"], past["memory"], atol=1e-6)
    assert np.abs(past["memory"]).max() > 0
    learner, batch, data = lstm(False, 0.0)
    assert learner.passes["training"].carried is None and "carried.memory" not in learner.further_variables
    once, twice = (learner.train(iter(data), tf.constant(1))[0].numpy() for _ in range(2))
    np.testing.assert_array_equal(once, twice)


def test_an_lstm_read_in_parts_or_token_by_token_equals_one_read_at_once():
    learner, batch, _ = lstm(False)
    backbone, ids = learner.backbone, tf.constant(batch["token_ids"])
    expected = backbone({"token_ids": ids})["sequence_output"]
    past, states = backbone.start(2, 6), []
    for begin, end in ((0, 3), (3, 4), (4, 6)):
        found, past = backbone.decode(ids[:, begin:end], past, begin)
        states.append(found)
    np.testing.assert_allclose(tf.concat(states, axis=1), expected, atol=1e-6)


@pytest.mark.long
def test_a_compiled_step_of_an_lstm_equals_the_plain_one():
    found = []
    for jit_compile in (False, True):
        learner, _, data = lstm(True, jit_compile=jit_compile)
        learner.train(iter(data), tf.constant(3))
        found.append(weights_of(learner))
    assert_close(*found, 1e-5)
