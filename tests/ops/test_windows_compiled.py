"""Words and windows that Numba draws are those of TensorFlow's operations, of the same seeds."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.ops.windows import WordWindows, noise_distribution

WORDS, LENGTH = 40, 200


@pytest.mark.extra("numba")
@pytest.mark.parametrize("negatives", [32, 0])
@pytest.mark.parametrize("ends", [(), (0, 3)])
def test_numba_draws_what_operations_draw(ends, negatives):
    draw = np.random.default_rng(0)
    counts = np.arange(1, WORDS + 1)
    keep = draw.random(WORDS) * (np.arange(WORDS) != 3)
    text = draw.integers(0, WORDS, (60, LENGTH + 1))
    lengths = np.stack([draw.integers(1, LENGTH + 2, 60), np.zeros(60, np.int64)], axis=1)
    lengths[:20, 0] = LENGTH + 1
    features = {
        "token_ids": tf.constant(text), "segment_lengths": tf.constant(lengths),
        "seed": tf.constant(draw.integers(0, 1 << 63, 60), tf.uint64),
    }  # fmt: skip
    found = []
    for is_compiled in (False, True):
        op = WordWindows(LENGTH, counts / counts.sum(), keep, noise_distribution(counts), 5, negatives, ends)
        op.is_compiled = is_compiled
        found.append(tf.function(op)(features))
    operations, numba = found
    assert list(operations) == list(numba) and ("negative_ids" in numba) == bool(negatives)
    assert operations["window_ends"].numpy().max() > 50
    for name, value in operations.items():
        assert numba[name].dtype == value.dtype and numba[name].shape == value.shape, name
        np.testing.assert_array_equal(numba[name].numpy(), value.numpy(), name)


@pytest.mark.extra("numba")
def test_rows_in_which_more_words_stay_than_there_is_room_for_are_cut_alike():
    counts, text = np.ones(WORDS), np.random.default_rng(0).integers(0, WORDS, (4, LENGTH + 1))
    features = {
        "token_ids": tf.constant(text, tf.int32), "segment_lengths": tf.constant([[LENGTH + 1, 0]] * 4),
        "seed": tf.constant([0, 1, 2, 3], tf.uint64),
    }  # fmt: skip
    found = []
    for is_compiled in (False, True):
        op = WordWindows(LENGTH, np.full(WORDS, 0.1 / WORDS), np.ones(WORDS), noise_distribution(counts))
        assert op.slots < LENGTH  # the shares say that few words are kept, but all are
        op.is_compiled = is_compiled
        found.append(op(features))
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name].numpy(), value.numpy(), name)
