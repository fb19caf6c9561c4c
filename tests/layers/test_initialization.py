"""Initializers draw nothing for a network whose weights are read, and what is drawn beside it stays the same."""

import keras
import numpy as np
import pytest

from xmodels.layers import initialization
from xmodels.layers.initialization import loading
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt2 import Gpt2, Gpt2Config

NETWORKS = {"bert": (Bert, BertConfig(20, 8, 1, 2, 16)), "gpt2": (Gpt2, Gpt2Config(20, 8, 1, 2, 16))}


@pytest.mark.parametrize(
    "make",
    [
        initialization.truncated_normal,
        initialization.RandomNormal,
        initialization.RandomUniform,
        initialization.GlorotUniform,
    ],
    ids=lambda make: make.__name__,
)
def test_zeros_stand_in_for_what_is_drawn(make):
    drawn = make()
    expected = np.array(drawn((3, 2, 2)))
    with loading():
        assert not np.array(drawn((3, 2, 2))).any()
    np.testing.assert_array_equal(drawn((3, 2, 2)), expected)
    assert expected.all()


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_that_is_read_has_its_weights_and_draws_no_others_from_what_follows(name):
    network, config = NETWORKS[name]
    keras.utils.set_random_seed(3)
    values = folder.values_of("backbone", network(config).initialize())
    follows = np.array(keras.layers.Dense(4).kernel_initializer((2, 4)))
    keras.utils.set_random_seed(3)
    found = folder.values_of("backbone", folder.build_with(network, config, values, "values"))
    np.testing.assert_array_equal(keras.layers.Dense(4).kernel_initializer((2, 4)), follows)
    assert found.keys() == values.keys()
    for each, value in values.items():
        np.testing.assert_array_equal(found[each], value, err_msg=each)


@pytest.mark.parametrize("make", [initialization.RandomNormal, initialization.RandomUniform])
def test_a_large_table_is_drawn_in_parts(make, monkeypatch):
    monkeypatch.setattr(initialization, "MOST_AT_ONCE", 1000)
    monkeypatch.setattr(initialization, "OF_PART", 300)
    initializer = make(seed=5)
    small, large = np.array(initializer((100, 10))), np.array(initializer((505, 10)))
    assert large.shape == (505, 10) and len(np.unique(large, axis=0)) == 505
    assert abs(large.mean()) < 0.003 and large.std() == pytest.approx(small.std(), rel=0.05)
    np.testing.assert_array_equal(np.array(initializer((505, 10))), large)
    assert np.array(make(seed=6)((505, 10))).ravel()[0] != large.ravel()[0]
    assert np.array(initializer((505, 10), dtype="float16")).dtype == "float16"
