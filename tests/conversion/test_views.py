"""Weights are written from their own memory: a copy would need as much of it again."""

import tracemalloc

import keras
import numpy as np
import pytest

from xmodels.models import folder
from xmodels.models.skip_gram import SkipGram, SkipGramConfig


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "bool"])
def test_a_view_has_the_numbers_of_a_variable(dtype):
    variable = keras.Variable(np.arange(6).reshape(3, 2) % 2, dtype=dtype)
    for each in (variable, variable.value):
        found = folder.view_of(each)
        assert found.dtype.name == dtype and found.shape == (3, 2)
        np.testing.assert_array_equal(found.astype("float32"), [[0, 1]] * 3)


def test_writing_a_network_copies_no_table(tmp_path):
    network = SkipGram(SkipGramConfig(20_000, hidden_dim=100)).initialize()  # two tables of 8 MB
    folder.write_model(str(tmp_path), network)
    tracemalloc.start()
    folder.write_model(str(tmp_path), network)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    found = folder.read_weights(str(tmp_path / folder.WEIGHTS))
    np.testing.assert_array_equal(found["backbone.words.embeddings"], np.asarray(network.words.embeddings))
    assert found["backbone.words.embeddings"].any()
