"""NNLM: the equation of the paper, what it sees, segments and steps against the whole, and the paper's number of weights."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from xmodels.models.backbone import named_weights
from xmodels.models.nnlm import SIZES, Nnlm, NnlmConfig
from xmodels.objectives.untied_lm import UntiedLM

KINDS = {
    "hidden": NnlmConfig(11, 8, embedding_dim=3, order=4),
    "direct": NnlmConfig(11, 8 + 9, embedding_dim=3, order=4, direct_connections=True),
}
IDS = np.array([[1, 5, 3, 10, 2, 7, 7], [4, 0, 9, 9, 6, 8, 2]])


@pytest.fixture(params=KINDS)
def network(request):
    tf.random.set_seed(1)
    return Nnlm(KINDS[request.param]).initialize()


def weights(network, objective):
    return {name: np.array(value) for part in (network, objective) for name, value in named_weights(part).items()}


def test_logits_are_those_of_the_equation(network):
    """y = b + W x + U tanh(d + H x), x = [C(w of t - n + 1); ...; C(w of t)]."""
    objective, config = UntiedLM(network.config), network.config
    found = objective.logits(network({"token_ids": IDS})["sequence_output"], network)
    named = weights(network, objective)
    vectors = np.concatenate([np.zeros((2, 2, 3)), named["embedding.embeddings"][IDS]], axis=1)
    u, w = np.split(named["head.kernel"], [config.num_units])  # W has no rows without direct connections
    for place in range(IDS.shape[1]):
        x = vectors[:, place : place + 3].reshape(2, 9)
        hidden = np.tanh(named["hidden.bias"] + x @ named["hidden.kernel"])
        y = named["head.bias"] + hidden @ u + (x @ w if len(w) else 0)
        np.testing.assert_allclose(found[:, place], y, atol=1e-6)


def test_a_state_sees_the_last_three_words_and_no_others(network):
    vectors = tf.Variable(network.embedding(IDS))
    network.embedding = lambda ids: vectors
    with tf.GradientTape() as tape:
        state = network({"token_ids": IDS})["sequence_output"][:, 4]
    gradient = np.abs(tape.gradient(state, vectors)).max(axis=(0, 2))
    assert [place for place, size in enumerate(gradient) if size > 0] == [2, 3, 4]


@pytest.mark.parametrize("lengths", [(4, 3), (1, 1, 5), (6, 1)])
def test_segments_and_steps_are_the_whole(network, lengths):
    whole = np.array(network({"token_ids": IDS})["sequence_output"])
    memory, past, segments, steps = network.initial_memory(2)["memory"], network.start(2, 7), [], []
    for ids in np.split(IDS, np.cumsum(lengths)[:-1], axis=1):
        outputs = network({"token_ids": ids, "memory": memory})
        memory = outputs["memory"]
        segments.append(outputs["sequence_output"])
        states, past = network.decode(ids, past, None)
        steps.append(states)
    np.testing.assert_allclose(np.concatenate(segments, axis=1), whole, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(steps, axis=1), whole, atol=1e-6)


def test_the_number_of_weights_is_that_of_the_paper():
    """Section 2: |V| (1 + n m + h) + h (1 + (n - 1) m), where n m counts C and W; without W, |V| (1 + m + h) + h (1 + (n - 1) m)."""
    for size, words in (("small", 1 + 5 * 30 + 50), ("base", 1 + 30 + 100)):
        config = NnlmConfig(16_383, **SIZES[size])
        found = sum(value.size for value in weights(Nnlm(config).initialize(), UntiedLM(config)).values())
        assert found == 16_383 * words + config.num_units * (1 + 4 * 30)


def test_hidden_units_must_be_left_beside_direct_connections():
    values = {"vocabulary_size": 9, "hidden_dim": 120, "embedding_dim": 30, "direct_connections": True}
    with pytest.raises(CheckpointError, match="must be more than the 120 dimensions of 4 words"):
        NnlmConfig.from_json(values, "config.json")
