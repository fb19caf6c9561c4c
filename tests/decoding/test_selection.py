"""The best of many scores are those that sorting all of them finds, in the same order."""

import numpy as np
import pytest
from keras import ops

from xmodels.decoding import selection


def scores(rows, size, levels=None, hidden=0.0):
    draw = np.random.default_rng(size)
    found = draw.normal(size=(rows, size)) if levels is None else draw.integers(0, levels, (rows, size))
    return np.where(draw.random((rows, size)) < hidden, -np.inf, found).astype(np.float32)


@pytest.mark.parametrize(
    ("size", "count", "levels", "hidden"),
    [(640, 8, None, 0.0), (650, 8, None, 0.0), (650, 8, 3, 0.0), (321, 2, 2, 0.9), (97, 3, None, 0.999), (40, 8, 4, 0.0)],
)  # fmt: skip
def test_values_and_places_are_those_of_all_sorted_and_of_equal_scores_the_first(size, count, levels, hidden):
    given = scores(5, size, levels, hidden)
    values, places = map(np.array, selection.highest(ops.convert_to_tensor(given), count))
    expected = np.argsort(-given, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(given, expected, axis=1))
    assert places.dtype == np.int32


def test_the_most_probable_of_equal_scores_is_the_first():
    given = np.array([[1.0, 3.0, 3.0, -np.inf], [-0.0, 0.0, -1.0, 0.0], [-np.inf, -2.0, -2.0, -5.0]], np.float32)
    np.testing.assert_array_equal(np.array(selection.most_probable(ops.convert_to_tensor(given))), [1, 0, 1])
