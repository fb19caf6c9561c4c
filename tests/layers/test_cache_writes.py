"""Keys and values stand in the cache where they are written, by a scatter and by an assignment."""

import numpy as np
import pytest
import tensorflow as tf

from xmodels.layers.attention.writing import assigned_slices, write_at


@pytest.mark.parametrize(("dtype", "width"), [("float32", 8), ("bfloat16", 8), ("float16", 4), ("float32", 6)])
@pytest.mark.parametrize(("slot", "length"), [(0, 3), (4, 1), (2, 3)])
def test_both_ways_write_the_same_and_leave_the_old_cache(dtype, width, slot, length):
    draw = np.random.default_rng(0)
    past = tf.cast(draw.normal(size=(2, 3, 5, width)), dtype)
    present = tf.constant(draw.normal(size=(2, 3, length, width)), tf.float32)
    before, expected = past.numpy().copy(), past.numpy().copy()
    expected[:, :, slot : slot + length] = tf.cast(present, dtype).numpy()
    np.testing.assert_array_equal(write_at(past, present, slot).numpy(), expected)
    with assigned_slices():
        np.testing.assert_array_equal(write_at(past, present, tf.constant(slot)).numpy(), expected)
        graph = tf.function(lambda past, present, slot: (write_at(past, present, slot), past), autograph=False)
        written, old = graph(past, present, tf.constant(slot))
    np.testing.assert_array_equal(written.numpy(), expected)
    np.testing.assert_array_equal(old.numpy(), before)
    np.testing.assert_array_equal(past.numpy(), before)


def test_a_loop_that_reads_what_it_overwrites_sees_the_old_numbers():
    """The second cache is written twice; what was read before stays as it was, though TensorFlow writes in place where it can."""

    def step(place, past, sums):
        new = write_at(past, tf.fill((1, 1, 1, 4), tf.cast(place + 1, tf.float32)), place % 2)
        return place + 1, new, sums + tf.reduce_sum(new) + 100 * tf.reduce_sum(past)

    def run():
        return tf.while_loop(lambda place, *_: place < 4, step, (tf.constant(0), tf.zeros((1, 1, 3, 4)), 0.0))[1:]

    with assigned_slices():
        past, sums = tf.function(run, autograph=False)()
    np.testing.assert_array_equal(past[0, 0, :, 0].numpy(), [3, 4, 0])
    new = [4 * total for total in (1, 3, 5, 7)]  # of the slots after each step: 1; 1 2; 3 2; 3 4
    assert float(sums) == sum(new) + 100 * sum([0, *new[:-1]])
