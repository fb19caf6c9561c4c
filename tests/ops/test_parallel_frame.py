"""The frame of pairs: what stands before a source and before a target, and what happens where there is no room."""

import numpy as np
import tensorflow as tf

from data_pipelines.ops.parallel import frame_parallel
from data_pipelines.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg"])
CLS, SEP = VOCABULARY["[CLS]"], VOCABULARY["[SEP]"]
FEATURES = {
    "token_ids": np.array([[5, 6, 7, 8, 9], [5, 6, 7, 10, 0]], np.int32), "segment_lengths": np.array([[2, 3], [3, 1]], np.int32)
}  # fmt: skip


def framed(**more):
    found = frame_parallel(VOCABULARY, 4, **more)({name: tf.constant(value) for name, value in FEATURES.items()})
    return {name: np.array(value) for name, value in found.items()}


def test_by_default_padding_stands_before_a_target_and_nothing_before_a_source():
    found = framed()
    np.testing.assert_array_equal(found["token_ids"], [[5, 6, SEP, 0], [5, 6, 7, SEP]])
    np.testing.assert_array_equal(found["padding_mask"], [[1, 1, 1, 0], [1, 1, 1, 1]])
    np.testing.assert_array_equal(found["target_ids"], [[0, 7, 8, 9], [0, 10, SEP, 0]])
    np.testing.assert_array_equal(found["labels"], [[7, 8, 9, SEP], [10, SEP, 0, 0]])


def test_an_opening_stands_before_a_source_of_which_the_end_stays_and_a_start_before_a_target():
    plain, found = framed(), framed(start=CLS, opening=CLS)
    np.testing.assert_array_equal(found["token_ids"], [[CLS, 5, 6, SEP], [CLS, 5, 6, SEP]])  # 7 has no room
    np.testing.assert_array_equal(found["padding_mask"], np.ones((2, 4), bool))
    np.testing.assert_array_equal(found["target_ids"], [[CLS, 7, 8, 9], [CLS, 10, SEP, 0]])
    for name in ("labels", "label_weights"):
        np.testing.assert_array_equal(found[name], plain[name])
    open_ended = framed(opening=CLS, ends_source=False)
    np.testing.assert_array_equal(open_ended["token_ids"], [[CLS, 5, 6, 0], [CLS, 5, 6, 7]])
    np.testing.assert_array_equal(open_ended["padding_mask"], [[1, 1, 1, 0], [1, 1, 1, 1]])
