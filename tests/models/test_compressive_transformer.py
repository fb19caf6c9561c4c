"""Compressive Transformer: Transformer-XL in its limits, its memories beside lists, and a cost that trains the compression alone."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from xmodels.layers import costs
from xmodels.models.backbone import named_weights
from xmodels.models.compressive_transformer import COST, SIZES, CompressiveTransformer, CompressiveTransformerConfig
from xmodels.models.transformer_xl import TransformerXL, TransformerXLConfig
from xmodels.objectives.adaptive_lm import AdaptiveLM

SHAPE = {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32, "dropout": 0.0}
COUNTS = [[7, 4], [7, 7], [1, 5], [7, 7], [7, 0], [7, 7], [3, 7], [7, 7]]  # real tokens of the rows of each segment


def network_of(network_class=CompressiveTransformer, **numbers):
    keras.utils.set_random_seed(0)
    network = network_class(network_class.config_class(50, **SHAPE, **numbers)).initialize()
    for weight in network.weights:
        weight.assign_add(np.random.default_rng(weight.shape[0]).normal(0, 0.2, weight.shape))
    return network


def segments():
    rng = np.random.default_rng(1)
    for counts in COUNTS:
        real = np.arange(7) < np.array(counts)[:, None]
        yield {"token_ids": rng.integers(0, 50, (2, 7)).astype("int32"), "padding_mask": real}


def read(network, memory, batch):
    """The outputs of a segment, and the memory behind it."""
    outputs = network({**batch, **memory})
    return outputs["sequence_output"].numpy(), {name: outputs[name] for name in memory}


@pytest.mark.parametrize(
    "numbers",
    [
        {"memory_length": 8, "compressed_length": 12, "compression_rate": 1, "compression": "mean"},
        {"memory_length": 20, "compressed_length": 0},
    ],
    ids=["nothing is lost", "nothing is kept"],
)
def test_in_its_limits_it_is_transformer_xl_exactly(numbers):
    plain, ours = network_of(TransformerXL, memory_length=20), network_of(**numbers)
    weights = named_weights(ours)
    assert weights.keys() == named_weights(plain).keys()
    for name, weight in named_weights(plain).items():
        weights[name].assign(weight)
    memories = plain.initial_memory(2), ours.initial_memory(2)
    for batch in segments():
        (expected, first), (found, second) = (
            read(network, memory, batch) for network, memory in zip((plain, ours), memories, strict=True)
        )
        np.testing.assert_array_equal(found[batch["padding_mask"]], expected[batch["padding_mask"]])
        np.testing.assert_array_equal(second["memory_filled"], first["memory_filled"])
        memories = first, second
    assert first["memory_filled"].numpy().tolist() == [20, 20]


def as_lists(memory, row, layer):
    """The states of a row that are compressed and those that are not, oldest first."""
    filled, compressed = (int(memory[name][row]) for name in ("memory_filled", "memory_compressed"))
    states = np.array(memory["memory"])[row, layer]
    states = states[len(states) - filled :]
    return list(states[:compressed]), list(states[compressed:])


@pytest.mark.parametrize("compression", ["convolution", "mean", "max"])
def test_memories_are_those_of_lists_that_are_filled_and_emptied(compression):
    network = network_of(memory_length=5, compressed_length=3, compression_rate=3, compression=compression)
    memory = network.initial_memory(2)
    assert memory["memory"].shape == (2, 2, 5 + 3 + 2, 16)
    longest = 0
    for batch in segments():
        entered = [np.array(x) for x in network.hidden_states({**batch, **memory})[:-1]]
        lists = {(row, layer): as_lists(memory, row, layer) for row in range(2) for layer in range(2)}
        _, memory = read(network, memory, batch)
        for (row, layer), (compressed, plain) in lists.items():
            plain += list(entered[layer][row][batch["padding_mask"][row]])
            while len(plain) >= 5 + 3:  # c states have left the memory
                group, plain = np.stack(plain[:3]), plain[3:]
                made = {
                    "mean": lambda g: g.mean(axis=0), "max": lambda g: g.max(axis=0),
                    "convolution": lambda g: network.compressions[layer].convolution(g.reshape(1, -1)).numpy()[0],  # noqa: B023
                }[compression](group)  # fmt: skip
                compressed = [*compressed, made][-3:]
            found = as_lists(memory, row, layer)
            assert [len(part) for part in found] == [len(compressed), len(plain)]
            np.testing.assert_allclose(found[1], plain, atol=1e-6)
            np.testing.assert_allclose(np.array(found[0]), np.array(compressed), atol=1e-5)
            longest = max(longest, len(compressed))
    assert longest == 3


def test_positions_count_compressed_states_memory_and_segment_one_behind_the_other():
    """What a network sees does not depend on how many empty slots stand before its states."""
    network = network_of(memory_length=5, compressed_length=6, compression_rate=2, compression="mean")
    batches = list(segments())
    memory = network.initial_memory(2)
    for batch in batches[:4]:
        _, memory = read(network, memory, batch)
    roomy = {**memory, "memory": tf.pad(memory["memory"], [[0, 0], [0, 0], [9, 0], [0, 0]])}
    expected, found = (network({**batches[5], **each})["sequence_output"] for each in (memory, roomy))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert memory["memory_compressed"].numpy().min() > 0


def cost_and_gradients(network, objective, memory, batch):
    batch = {**batch, "labels": batch["token_ids"], "label_weights": batch["padding_mask"].astype("float32")}
    with tf.GradientTape(persistent=True) as tape:
        _, losses, _ = objective.run(network, {**batch, **memory}, training=True)
        cost, loss = losses[COST][0], losses["adaptive_lm"][0]
    values = {name: weight.value for name, weight in named_weights(network).items()}
    return losses[COST], tape.gradient(cost, values), tape.gradient(loss, values)


@pytest.mark.parametrize("pre_norm", [False, True], ids=["post", "pre"])
def test_the_cost_reaches_the_compression_alone_and_the_loss_all_else(pre_norm):
    network = network_of(memory_length=5, compressed_length=4, compression_rate=2, pre_norm=pre_norm)
    objective, memory = AdaptiveLM(network.config), network.initial_memory(2)
    batches = list(segments())
    for batch in batches[:3]:
        _, memory = read(network, memory, batch)
    (total, weight), of_cost, of_loss = cost_and_gradients(network, objective, memory, batches[3])
    assert float(total) > 1e-3 and float(weight) == 2 * 14
    for name in of_cost:
        assert (of_cost[name] is not None) == name.startswith("compressions."), name
        assert (of_loss[name] is not None) == (not name.startswith("compressions.")), name
    kernel = of_cost["compressions.0.convolution.kernel"]
    assert np.abs(kernel).max() > 1e-5
    start = cost_and_gradients(network, objective, network.initial_memory(2), batches[0])[0]
    plain = batches[0] | {"labels": batches[0]["token_ids"], "label_weights": np.ones((2, 7), "float32")}
    without = objective.run(network, plain)[1][COST]
    assert [float(each) for each in start] == [pytest.approx(float(start[0])), 2 * 11]
    assert [float(each) for each in without] == [0.0, 2 * 11]


@pytest.mark.parametrize("pre_norm", [False, True], ids=["post", "pre"])
def test_the_cost_is_the_difference_of_two_attentions(pre_norm):
    network = network_of(memory_length=4, compressed_length=4, compression_rate=2, compression="max", pre_norm=pre_norm)
    memory, batches = network.initial_memory(2), list(segments())
    _, memory = read(network, memory, {**batches[0], "padding_mask": np.ones((2, 7), bool)})
    batch = {**batches[3], "padding_mask": np.ones((2, 7), bool)}
    entered = [np.array(x) for x in network.hidden_states({**batch, **memory})[:-1]]
    with costs.collect() as found:
        network({**batch, **memory})
    expected = 0.0
    for (layer, block), row in itertools.product(enumerate(network.blocks), range(2)):
        plain = [*as_lists(memory, row, layer)[1], *entered[layer][row]]
        old = np.stack(plain[: (len(plain) - 4) // 2 * 2])
        new = old.reshape(-1, 2, 16).max(axis=1)
        norm = block.mixer_norm if pre_norm else (lambda x: x)
        query = np.array(block.mixer.query(norm(entered[layer][row : row + 1])))[0]
        results = []
        for states in (old, new):
            key, value = (np.array(part(norm(states[None])))[0] for part in (block.mixer.key, block.mixer.value))
            shares = np.array(tf.nn.softmax(np.einsum("lhk,shk->hls", query, key) / 8**0.5))
            results.append(np.einsum("hls,shk->lhk", shares, value))
        expected += ((results[0] - results[1]) ** 2).mean(axis=(1, 2)).sum()
    assert expected > 0.1
    np.testing.assert_allclose(found[COST][0], expected, rtol=1e-4)


def test_the_cost_falls_where_the_compression_learns_and_the_network_stays():
    network = network_of(memory_length=7, compressed_length=7, compression_rate=7)
    objective, memory = AdaptiveLM(network.config), network.initial_memory(2)
    batch = {**next(segments()), "padding_mask": np.ones((2, 7), bool)}
    _, memory = read(network, memory, batch)
    convolutions = [w for name, w in named_weights(network).items() if name.startswith("compressions.")]
    optimizer, found = keras.optimizers.Adam(1e-2), []

    @tf.function(jit_compile=True)
    def run():
        with tf.GradientTape() as tape:
            _, losses, _ = objective.run(network, {**batch, **memory, **answers})
            cost = losses[COST][0] / losses[COST][1]
        return cost, losses["adaptive_lm"][0], tape.gradient(cost, [weight.value for weight in convolutions])

    answers = {"labels": batch["token_ids"], "label_weights": np.ones((2, 7), "float32")}
    for _ in range(40):
        cost, loss, gradients = run()
        optimizer.apply(gradients, convolutions)
        found.append((float(cost), float(loss)))
    assert found[-1][0] < 0.2 * found[0][0] and found[-1][1] == pytest.approx(found[0][1], rel=1e-6)


def test_decoding_is_reading_segments_of_one_token_and_the_whole_while_nothing_leaves_the_memory():
    network = network_of(memory_length=4, compressed_length=3, compression_rate=2)
    ids = np.random.default_rng(2).integers(0, 50, (2, 15)).astype("int32")
    memory, expected = network.initial_memory(2), []
    for place in range(15):
        states, memory = read(network, memory, {"token_ids": ids[:, place : place + 1]})
        expected.append(states)
    expected = np.concatenate(expected, axis=1)
    past, place, found = network.start(2, 64), 0, []
    for length in (6, 1, 1, 7):
        states, past = network.decode(ids[:, place : place + length], past, place)
        found.append(np.array(states))
        place += length
    np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=1e-5)
    np.testing.assert_allclose(past[0], memory["memory"], atol=1e-5)
    whole = network({"token_ids": ids})["sequence_output"].numpy()
    np.testing.assert_allclose(expected[:, :5], whole[:, :5], atol=1e-5)
    assert np.abs(expected[:, 12:] - whole[:, 12:]).max() > 1e-2  # what was compressed is not what was there


def test_no_token_sees_a_later_one_and_old_ones_reach_the_present_through_the_compression():
    network = network_of(memory_length=4, compressed_length=4, compression_rate=2)
    ids = np.random.default_rng(3).integers(0, 50, (1, 21)).astype("int32")

    def run(ids):
        memory, found = network.initial_memory(1), []
        for place in range(0, 21, 7):
            states, memory = read(network, memory, {"token_ids": ids[:, place : place + 7]})
            found.append(states)
        return np.concatenate(found, axis=1)[0], memory

    changed = ids.copy()
    changed[0, 8] = (ids[0, 8] + 1) % 50
    (expected, _), (found, memory) = run(ids), run(changed)
    moved = np.abs(found - expected).max(axis=-1)
    assert not moved[:8].any() and moved[8:].min() > 0
    assert memory["memory_compressed"].numpy().tolist() == [4]


def test_sizes_build_and_bad_numbers_are_refused():
    for shape in SIZES.values():
        config = CompressiveTransformerConfig.from_json({"vocabulary_size": 300_000, **shape})
        assert config.states_carried == config.memory_length + config.compressed_length + config.compression_rate - 1
    values = {"vocabulary_size": 9, **SHAPE, "compressed_length": -1}
    with pytest.raises(CheckpointError, match="`compressed_length` must be a whole number from 0"):
        CompressiveTransformerConfig.from_json(values)
    with pytest.raises(CheckpointError, match="`compression` must be one of convolution, mean, max"):
        CompressiveTransformerConfig.from_json(values | {"compressed_length": 4, "compression": "most_used"})
    assert TransformerXLConfig(9, **SHAPE).states_carried == 512
