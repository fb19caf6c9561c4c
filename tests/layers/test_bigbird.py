"""BigBird: parity with Hugging Face's, and the plan of its random blocks. The battery is `test_mixers.py`."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.encoder_weights import assign_hugging_face
from xmodels.layers.attention.bigbird import BigBird
from xmodels.layers.hashes import hashes
from xmodels.layers.initialization import gpt
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt import Gpt, GptConfig

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "bigbird" / "mlm_block_sparse"


@pytest.fixture(scope="module")
def golden():
    return {part: dict(np.load(GOLDEN / f"{part}.npz")) for part in ("inputs", "weights", "outputs")}


def network_of(golden, **numbers):
    sizes = json.loads((GOLDEN / "config.json").read_text())["hyperparameters"]
    numbers = {"block_size": sizes["block_size"], "num_random_blocks": sizes["num_random_blocks"]} | numbers
    config = BertConfig(
        sizes["vocabulary_size"], sizes["hidden_dim"], sizes["num_layers"], sizes["num_heads"], sizes["intermediate_dim"],
        max_sequence_length=sizes["max_sequence_length"], dropout=0.0, attention_dropout=0.0, mixer="bigbird", mixer_numbers=numbers,
    )  # fmt: skip
    network = Bert(config).initialize()
    assign_hugging_face(network, golden["weights"], "bert")
    return network


@pytest.mark.parametrize("plan", ["random_blocks", "eval"])
def test_it_computes_what_hugging_face_computes(golden, plan, monkeypatch):
    network = network_of(golden, plan="first")
    if plan == "random_blocks":
        for index, block in enumerate(network.blocks):
            given = golden["outputs"][f"random_blocks/block_plan/{index}"]
            monkeypatch.setattr(
                block.mixer, "random_blocks", lambda count, given=given: keras.ops.convert_to_tensor(given)
            )
    features = {name: golden["inputs"][name] for name in ("token_ids", "segment_ids")}
    features["padding_mask"] = real = golden["inputs"]["padding_mask"] > 0
    for index, states in enumerate(network.hidden_states(features)):
        expected = golden["outputs"][f"{plan}/hidden_states/{index}"]
        np.testing.assert_allclose(np.array(states)[real], expected[real], atol=1e-4)
    if plan == "random_blocks":
        found, expected = network.attention_maps(features)[0], golden["outputs"]["random_blocks/attention_probs/0"]
        real = real[:, None, :, None]
        np.testing.assert_allclose(np.where(real, found, 0), np.where(real, expected, 0), atol=1e-5)


def mixer_of(index=0, **numbers):
    numbers = {"block_size": 2, "num_random_blocks": 3} | numbers
    config = BertConfig(
        50, 16, 2, 2, 32, max_sequence_length=60, attention_dropout=0.0, mixer="bigbird", mixer_numbers=numbers
    )
    keras.utils.set_random_seed(0)
    mixer = BigBird.for_block(config, gpt(0.5), index)
    mixer(np.zeros((1, 2, 16), "float32"))
    return mixer


@pytest.mark.parametrize("count", [8, 9, 30])
def test_a_row_lists_no_block_twice_and_eight_in_all(count):
    blocks, counts = (np.array(each) for each in mixer_of().blocks_of_rows(count))
    assert blocks.shape == counts.shape == (2, count - 2, 8)
    for head in range(2):
        for place in range(count - 2):
            listed = blocks[head, place][counts[head, place]]
            # The blocks beside the ends list one of the ends as their neighbour, so they have one block fewer.
            assert len(listed) == len(set(listed)) == 8 - (place in (0, count - 3))
            assert {0, place, place + 1, place + 2, count - 1} <= set(listed) <= set(range(count))


def test_random_blocks_are_uniform_over_those_that_are_free():
    count, row = 30, 14
    mixer, found = mixer_of(), []
    for seed in range(150):
        mixer.draws = hashes((seed, 0), mixer.draws.shape)
        found.append(np.array(mixer.random_blocks(count))[:, row - 1].ravel())
    found = np.concatenate(found)
    free = sorted(set(range(count)) - {0, row - 1, row, row + 1, count - 1})
    times = np.array([(found == block).sum() for block in free])
    assert times.sum() == len(found) == 900
    expected = len(found) / len(free)  # 36
    assert ((times - expected) ** 2 / expected).sum() < 52.6  # chi squared with 24 degrees of freedom, p = 0.0007


def test_the_same_seed_gives_the_same_plan_and_layers_heads_and_seeds_others():
    plan = np.array(mixer_of().random_blocks(30))
    np.testing.assert_array_equal(plan, mixer_of().random_blocks(30))
    for other in (mixer_of(index=1), mixer_of(plan_seed=1)):
        assert (np.array(other.random_blocks(30)) != plan).mean() > 0.5
    assert (plan[0] != plan[1]).mean() > 0.5
    np.testing.assert_allclose(hashes((0, 1), (2, 2)).ravel(), KNOWN, atol=1e-6)  # those of folders that exist


KNOWN = [0.7590681, 0.8440179, 0.3935608, 0.2637869]


def test_two_layers_reach_every_token():
    reached = np.array(mixer_of().reach(60)).any(axis=0).astype(int)
    assert ((reached @ reached) > 0).all()


@pytest.mark.parametrize("length", [22, 23, 40])
def test_tokens_take_from_the_blocks_of_their_row_and_in_short_texts_from_all(length):
    mixer, x = mixer_of(), tf.constant(np.random.default_rng(0).normal(size=(1, length, 16)).astype("float32"))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(mixer(x) * np.random.default_rng(2).normal(size=16), axis=-1)
    reached = np.abs(tape.batch_jacobian(y, x).numpy()).max(axis=-1)[0] > 0
    np.testing.assert_array_equal(reached, np.array(mixer.reach(length)).any(axis=0))
    assert reached.all() == (length <= 22)  # 5 + 2 r blocks of 2


def test_short_texts_of_unknown_length_are_mixed_by_full_attention_too():
    mixer, x = mixer_of(), np.random.default_rng(0).normal(size=(1, 40, 16)).astype("float32")
    compiled = tf.function(mixer, input_signature=[tf.TensorSpec([None, None, 16])])
    for length in (20, 40):
        np.testing.assert_allclose(compiled(x[:, :length]), mixer(x[:, :length]), atol=1e-5)


def test_it_has_no_causal_form():
    with pytest.raises(ValueError, match="BigBird does not support `causal` of `Visible`"):
        Gpt(GptConfig(50, 16, 1, 2, 32, mixer="bigbird"))
