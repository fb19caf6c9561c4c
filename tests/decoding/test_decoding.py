"""Decoding: beam search as the original, filters of logits, samples from the right distribution, uneven prompts."""

import itertools

import numpy as np
import pytest
from keras import ops

from tests.helpers.parity import assert_close, read_case
from xmodels.decoding import filters
from xmodels.decoding.beam import beam_search, gnmt_penalty
from xmodels.decoding.options import Decoding
from xmodels.decoding.sampling import generate, greedy, sample
from xmodels.layers.attention.places import Beams


def test_draws_leave_tokens_where_the_likeliest_ones_are_forbidden():
    """An end that takes 99 % of the probability must not come yet, so the draw is one of the others."""
    logits = np.log(np.array([[0.002, 0.006, 0.99, 0.002]], "float32"))
    for draws in ({"top_p": 0.9}, {"top_k": 1}):
        found = ops.convert_to_tensor(logits)
        for change in Decoding(1.0, min_new_tokens=3, forbidden=(0,), **draws).target_filters(np.array([9]), end_id=2):
            found = change(found, ops.zeros((1, 9), "int32"), ops.convert_to_tensor(1))
        assert int(ops.argmax(found[0])) == 1 and float(found[0, 1]) > -10 and float(found[0, 2]) < -1e6


def table_step(token_ids, position, table):
    """The logits of a table (N, T, V, V): by place and last token."""
    last = ops.reshape(ops.take(token_ids, position, axis=1), (-1, 1, 1))
    rows = ops.take(table, position, axis=1)  # (N, V, V)
    return ops.take_along_axis(rows, ops.broadcast_to(last, (rows.shape[0], 1, rows.shape[2])), axis=1)[:, 0], table


@pytest.mark.parametrize(("alpha", "early"), itertools.product((0, 0.6, 1.2), (True, False)))
def test_beam_search_finds_what_the_original_finds(alpha, early):
    golden = read_case("beam_search/beam_table_model")
    case, inputs, outputs = golden.numbers, golden.inputs, golden.outputs
    ids, scores = beam_search(
        table_step, ops.convert_to_tensor(inputs["logits_table"]), ops.convert_to_tensor(inputs["initial_ids"]),
        case["beam_size"], case["decode_length"], case["end_token_id"], gnmt_penalty(alpha), early,
    )  # fmt: skip
    name = f"alpha{alpha}_{'stop_early' if early else 'no_early_stop'}"
    expected = outputs[f"{name}/ids"]
    np.testing.assert_array_equal(np.array(ids)[:, :, : expected.shape[2]], expected)
    assert not np.array(ids)[:, :, expected.shape[2] :].any()
    assert_close(scores, outputs[f"{name}/scores"])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_beam_that_is_wide_enough_finds_the_best_of_all_texts(alpha):
    """4 tokens, of which 1 ends a text, and 3 steps: at most 64 texts."""
    table = np.random.default_rng(3).normal(size=(4, 4, 4)).astype("float32") * 2
    logs = table - np.log(np.exp(table).sum(-1, keepdims=True))
    best = (-np.inf, None)
    for length in (1, 2, 3):
        for body in itertools.product((0, 2, 3), repeat=length - 1):
            text = (*body, 1)
            score = sum(logs[i, ([0, *text])[i], token] for i, token in enumerate(text))
            best = max(best, (float(score / gnmt_penalty(alpha)(length)), text))
    ids, scores = beam_search(
        table_step, ops.convert_to_tensor(table[None]), ops.convert_to_tensor([0]), 64, 3, 1, gnmt_penalty(alpha), False
    )
    assert float(scores[0, 0]) == pytest.approx(best[0], abs=1e-5)
    assert tuple(np.array(ids)[0, 0, 1 : 1 + len(best[1])]) == best[1]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_nothing_stands_behind_an_end_where_beams_are_wider_than_the_choices(alpha):
    """3 tokens, of which 2 ends a text, and 3 steps: 27 beams hold all texts."""
    table = np.log(np.float32([[0.924, 0.047, 0.029], [0.001, 0.137, 0.862], [0.045, 0.002, 0.953]]))
    best = max(
        (sum(table[([0, *text])[i], token] for i, token in enumerate(text)) / gnmt_penalty(alpha)(len(text)), text)
        for length in (1, 2, 3)
        for text in ((*body, 2) for body in itertools.product((0, 1), repeat=length - 1))
    )
    logits = ops.convert_to_tensor(np.broadcast_to(table, (1, 4, 3, 3)))
    ids, scores = beam_search(table_step, logits, ops.convert_to_tensor([0]), 27, 3, 2, gnmt_penalty(alpha), False)
    assert float(scores[0, 0]) == pytest.approx(float(best[0]), abs=1e-5)
    for text, score in zip(np.array(ids)[0, :, 1:].tolist(), np.array(scores)[0].tolist(), strict=True):
        if score > -1e6:
            assert 2 not in text or not any(text[text.index(2) + 1 :])


def test_a_beam_of_one_is_greedy():
    table = np.random.default_rng(1).normal(size=(2, 8, 9, 9)).astype("float32")
    table[..., 1] = -50.0  # nothing ends
    ids, _ = beam_search(table_step, ops.convert_to_tensor(table), ops.convert_to_tensor([0, 3]), 1, 7, 1)
    for row, first in enumerate((0, 3)):
        text = [first]
        for place in range(7):
            text.append(int(table[row, place, text[-1]].argmax()))
        assert np.array(ids)[row, 0].tolist() == text


def kept(change, logits, token_ids=((0,),), position=1):
    changed = np.array(change(ops.convert_to_tensor([logits]), ops.convert_to_tensor(token_ids), position))[0]
    return [i for i, value in enumerate(changed) if value > -1e8]


def test_top_k_keeps_k_and_what_equals_the_last():
    assert kept(filters.top_k(2), [1.0, 4.0, 3.0, 2.0]) == [1, 2]
    assert kept(filters.top_k(2), [1.0, 4.0, 3.0, 3.0]) == [1, 2, 3]
    assert kept(filters.top_k(9), [1.0, 4.0]) == [0, 1]


def test_top_p_keeps_the_token_that_reaches_p():
    logits = np.log([0.5, 0.3, 0.15, 0.05]).tolist()
    assert kept(filters.top_p(0.4), logits) == [0]
    assert kept(filters.top_p(0.7), logits) == [0, 1]
    assert kept(filters.top_p(0.9), logits) == [0, 1, 2]
    assert kept(filters.top_p(1.0), logits) == [0, 1, 2, 3]


def test_repetition_penalty_weakens_what_stands_in_the_text():
    change = filters.repetition_penalty(2.0)
    texts = ops.convert_to_tensor([[1, 2, 3], [0, 0, 3]])  # the third token is not there yet
    logits = ops.convert_to_tensor([[4.0, 4.0, -4.0, 4.0], [4.0, 4.0, -4.0, 4.0]])
    np.testing.assert_allclose(change(logits, texts, 2), [[4, 2, -8, 4], [2, 4, -4, 4]])


def test_no_run_of_tokens_comes_twice():
    text = [[1, 2, 3, 1, 2, 0, 0]]
    assert kept(filters.no_repeated_ngrams(3), [0.0] * 5, text, 5) == [0, 1, 2, 4]
    assert kept(filters.no_repeated_ngrams(2), [0.0] * 5, text, 5) == [0, 1, 2, 4]
    assert kept(filters.no_repeated_ngrams(2), [0.0] * 5, text, 4) == [0, 1, 3, 4]
    assert kept(filters.no_repeated_ngrams(1), [0.0] * 5, text, 3) == [0, 4]
    assert kept(filters.no_repeated_ngrams(4), [0.0] * 5, text, 2) == [0, 1, 2, 3, 4]


def test_forbidden_tokens():
    assert kept(filters.forbid([0, 3]), [9.0, 1.0, 1.0, 9.0]) == [1, 2]


def test_samples_follow_the_softmax_and_their_seed():
    probabilities = np.array([0.6, 0.3, 0.1])
    logits = ops.convert_to_tensor(np.log(np.tile(probabilities, (20_000, 1))), "float32")
    drawn = np.array(sample((1, 2))(logits, 5))
    share = np.bincount(drawn, minlength=3) / len(drawn)
    assert np.abs(share - probabilities).max() < 0.015  # four standard deviations
    assert (np.array(sample((1, 2))(logits, 5)) == drawn).all()
    for other in (sample((1, 3))(logits, 5), sample((2, 2))(logits, 5), sample((1, 2))(logits, 6)):
        assert 0.4 < (np.array(other) == drawn).mean() < 0.52  # 0.46 = the sum of squares: independent draws


def count_up(token_ids, past, position):
    """A model whose state is its token, and which remembers what stands where."""
    past = ops.slice_update(past, (0, position), token_ids)
    return ops.cast(ops.expand_dims(token_ids, 2), "float32"), past


def next_number(states):
    return -ops.abs(ops.arange(12, dtype="float32") - states - 1)


def test_prompts_of_several_lengths_go_on_where_each_ends():
    prompts, lengths = ops.convert_to_tensor([[3, 0, 0], [1, 5, 0], [2, 2, 8]]), ops.convert_to_tensor([1, 2, 3])
    found, ends = generate(
        count_up, next_number, ops.zeros((3, 8), "int32"), prompts, lengths, 8, end_id=9, pad_id=0, pick=greedy
    )
    assert np.array(found).tolist() == [[3, 4, 5, 6, 7, 8, 9, 0], [1, 5, 6, 7, 8, 9, 0, 0], [2, 2, 8, 9, 0, 0, 0, 0]]
    assert np.array(ends).tolist() == [7, 6, 4]


def test_texts_end_at_their_limits_and_nothing_is_read_behind_the_last():
    prompts, lengths, read = (
        ops.convert_to_tensor([[3, 0, 0], [1, 5, 0], [2, 2, 8]]),
        ops.convert_to_tensor([1, 2, 3]),
        [],
    )

    def counting(token_ids, past, position):
        read.append(position)
        return count_up(token_ids, past, position)

    found, ends = generate(
        counting, next_number, ops.zeros((3, 12), "int32"), prompts, lengths, 12, end_id=11, limits=ops.convert_to_tensor([3, 5, 3])
    )  # fmt: skip
    assert np.array(found)[:, :6].tolist() == [[3, 4, 5, 0, 0, 0], [1, 5, 6, 7, 8, 0], [2, 2, 8, 0, 0, 0]]
    assert np.array(ends).tolist() == [3, 5, 3] and len(read) == 1 + 4  # the prompts at once, then places 1 to 4


def test_texts_side_by_side_take_a_step_for_each_new_token():
    prompts, lengths = ops.convert_to_tensor([[3, 0, 0], [1, 5, 0], [2, 2, 8]]), ops.convert_to_tensor([1, 2, 3])
    places = []

    def counting(token_ids, past, place):
        if not isinstance(place, Beams):  # the prompts
            return count_up(token_ids, past, place)
        places.append(place)
        return count_up(token_ids, past, place.slot)

    found, ends = generate(
        counting, next_number, ops.zeros((3, 7), "int32"), prompts, lengths, 12, end_id=11,
        limits=ops.convert_to_tensor([3, 5, 7]), slots=7,
    )  # fmt: skip
    assert np.array(found)[:, :7].tolist() == [[3, 4, 5, 0, 0, 0, 0], [1, 5, 6, 7, 8, 0, 0], [2, 2, 8, 9, 10, 11, 0]]
    assert np.array(ends).tolist() == [3, 5, 6]
    assert [np.array(place.position).tolist() for place in places] == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert np.array(places[1].seen)[:, 0].astype(int).tolist() == [
        [1, 0, 0, 1, 1, 0, 0], [1, 1, 0, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0, 0]
    ]  # fmt: skip


def test_an_end_token_in_a_prompt_does_not_end_it():
    found, ends = generate(
        count_up, next_number, ops.zeros((1, 5), "int32"), ops.convert_to_tensor([[9, 4]]), ops.convert_to_tensor([2]), 5,
        end_id=9,
    )  # fmt: skip
    assert np.array(found).tolist() == [[9, 4, 5, 6, 7]] and np.array(ends).tolist() == [5]
