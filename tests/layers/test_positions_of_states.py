"""What a network tells of its states is of the features that it is called with: positions and packs too."""

import numpy as np
import pytest

from xmodels.models.albert import Albert, AlbertConfig
from xmodels.models.bert import Bert, BertConfig

NUMBERS = {
    "vocabulary_size": 20, "hidden_dim": 8, "num_layers": 2, "num_heads": 2, "intermediate_dim": 16, "max_sequence_length": 12,
    "initializer_stddev": 0.5,
}  # fmt: skip
NETWORKS = {
    "bert": lambda: Bert(BertConfig(**NUMBERS)),
    "albert": lambda: Albert(AlbertConfig(**NUMBERS, embedding_dim=4)),
}


def features(**more):
    ids = np.random.default_rng(0).integers(20, size=(2, 6)).astype("int32")
    real = np.array([[1] * 6, [1] * 4 + [0] * 2], bool)
    return {"token_ids": ids, "segment_ids": (ids % 2).astype("int32"), "padding_mask": real, **more}


POSITIONS = {"position_ids": np.array([[5, 4, 3, 2, 1, 0], [11, 3, 3, 7, 0, 0]], "int32")}
PACKS = {
    "position_ids": np.array([[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 0, 0]], "int32"),
    "pack_ids": np.array([[1, 1, 1, 2, 2, 2], [1, 1, 2, 2, 0, 0]], "int32"),
    "pack_starts": np.array([[0, 3], [0, 2]], "int32"),
}


@pytest.mark.parametrize("more", [{}, POSITIONS, PACKS], ids=["plain", "positions", "packs"])
@pytest.mark.parametrize("name", NETWORKS)
def test_states_and_summary_are_those_of_the_call(name, more):
    network = NETWORKS[name]().initialize()
    batch = features(**more)
    found, plain = network(batch), network(features())
    np.testing.assert_allclose(network.hidden_states(batch)[-1], found["sequence_output"], atol=1e-6)
    np.testing.assert_allclose(network.summarize(batch)["pooled_output"], found["pooled_output"], atol=1e-5)
    assert not more or np.abs(np.array(found["sequence_output"]) - plain["sequence_output"]).max() > 1e-2


@pytest.mark.parametrize("more", [POSITIONS, PACKS], ids=["positions", "packs"])
def test_attention_is_that_of_the_positions(more):
    network = NETWORKS["bert"]().initialize()
    maps, plain = (np.array(network.attention_maps(batch)[0]) for batch in (features(**more), features()))
    assert np.abs(maps - plain).max() > 1e-2
    if "pack_ids" in more:  # row 0: nothing looks into the other example
        assert np.abs(maps[0, :, :3, 3:]).max() < 1e-6
