"""Rows by their places: values and gradients are those of NumPy's indexing, in graphs that do not know the shapes either."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from xmodels.layers.rows import take_rows

SHAPES = {"(L,K)": (7, 3), "(B,L,K)": (2, 7, 3), "(B,H,L,K)": (2, 5, 7, 3)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_rows_and_gradients_are_those_of_numpy(shape):
    draw = np.random.default_rng(len(shape))
    x, places = draw.normal(size=shape).astype("float32"), draw.integers(-7, 7, (*shape[:-2], 9))
    direction = draw.normal(size=(*shape[:-2], 9, 3)).astype("float32")

    @tf.function(
        input_signature=[tf.TensorSpec([None] * len(shape)), tf.TensorSpec([None] * len(shape[:-1]), tf.int64)]
    )
    def taken(x, places):
        with tf.GradientTape() as tape:
            tape.watch(x)
            rows = take_rows(x, places)
            loss = tf.reduce_sum(rows * direction)
        return rows, tape.gradient(loss, x)

    rows, gradient = taken(tf.constant(x), tf.constant(places))
    expected = np.zeros_like(x)
    for index in np.ndindex(*places.shape):
        np.testing.assert_array_equal(rows[index], x[(*index[:-1], places[index])])
        expected[(*index[:-1], places[index])] += direction[index]
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_places_are_the_same_for_all_matrices_where_they_broadcast():
    x = np.arange(48).reshape(2, 3, 4, 2)
    found = ops.convert_to_numpy(take_rows(x, np.array([[[3, -4]]])))
    np.testing.assert_array_equal(found, x[:, :, [3, 0]])


def test_rows_may_be_of_truth_values():
    seen = np.eye(4, dtype=bool)[None]
    np.testing.assert_array_equal(ops.convert_to_numpy(take_rows(seen, np.array([[2, 0]])))[0], seen[0, [2, 0]])


def test_places_behind_the_end_are_the_last_row():
    x = np.arange(12).reshape(2, 3, 2)
    np.testing.assert_array_equal(ops.convert_to_numpy(take_rows(x, np.array([[3], [99]]))), x[:, 2:])
