"""Batches of mixed lengths, answered in parts of like length."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.ops.length_sorting import MAX_PARTS, MIN_ROWS, answer_in_parts


def features(lengths, pads_left=False, orders=0):
    """token_ids of the row's number plus one, and zeros where there is padding."""
    width = max([*np.ravel(lengths), 1])
    mask = np.arange(width) < np.array(lengths, np.int32).reshape(-1, 1)
    mask = mask[:, ::-1] if pads_left else mask
    mask = np.repeat(mask[:, None], orders, axis=1) if orders else mask
    rows = np.arange(1, len(lengths) + 1, dtype=np.int32).reshape(-1, *[1] * (mask.ndim - 1))
    return {"token_ids": tf.constant(rows * mask, tf.int32), "padding_mask": tf.constant(mask, tf.bool)}


def answer(part):
    """The sum of a row, and how wide and how high the part is that it stands in."""
    shape = tf.shape(part["token_ids"])
    return {
        "sum": tf.reduce_sum(part["token_ids"], axis=list(range(1, part["token_ids"].shape.rank))),
        "shape": tf.tile([[shape[0], shape[-1]]], [shape[0], 1]),
    }


def ask(values, answer=answer, **how):
    """As an exported graph knows its inputs: by rank alone."""
    specs = {name: tf.TensorSpec([None] * value.shape.rank, value.dtype, name=name) for name, value in values.items()}
    graph = tf.function(lambda values: answer_in_parts(answer, values, **how), autograph=False)
    return graph.get_concrete_function(specs)(values)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 40, 200])
@pytest.mark.parametrize("pads_left", [False, True])
def test_answers_come_in_order_and_parts_are_as_wide_as_their_longest_row(rows, pads_left):
    lengths = np.random.default_rng(rows).geometric(0.1, rows)
    found = {name: value.numpy() for name, value in ask(features(lengths, pads_left)).items()}
    np.testing.assert_array_equal(found["sum"], lengths * np.arange(1, rows + 1))
    sizes, widths = found["shape"][:, 0], found["shape"][:, 1]
    assert len(found["shape"]) == rows and (widths >= lengths).all()
    assert (sizes < rows / MAX_PARTS + MIN_ROWS).all()
    assert len({size for size in sizes if size % MIN_ROWS}) <= 1  # the last part has what is left
    if rows > MIN_ROWS:  # geometric lengths are mostly padding
        assert widths.sum() < 0.75 * rows * lengths.max()
        assert len(np.unique(found["shape"], axis=0)) > 1


@pytest.mark.parametrize("pads_left", [False, True])
def test_what_is_said_of_tokens_stands_where_they_do(pads_left):
    values = features(np.random.default_rng(1).geometric(0.1, 40), pads_left)
    found = ask(
        values, lambda part: {"ids": part["token_ids"], "pair": tf.stack([part["token_ids"]] * 2, -1)}, per_token=True
    )
    np.testing.assert_array_equal(found["ids"], values["token_ids"])
    np.testing.assert_array_equal(found["pair"][..., 1], values["token_ids"])
    nothing = ask(features([]), lambda part: {"ids": part["token_ids"]}, per_token=True)
    assert nothing["ids"].shape == (0, 1)


def test_a_batch_with_little_padding_goes_at_once():
    found = ask(features([10] * 30 + [9] * 10))
    assert (found["shape"].numpy() == [40, 10]).all()


def test_rows_of_several_orders_and_rows_without_a_token():
    lengths = [3, 1, 9] * 10 + [0]
    found = ask(features(lengths, orders=2))
    np.testing.assert_array_equal(found["sum"].numpy(), 2 * np.array(lengths) * np.arange(1, 32))
    assert ask(features([0, 0]))["shape"].numpy().tolist() == [[2, 1], [2, 1]]
