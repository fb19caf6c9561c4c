"""Phrases, n-grams and spans: units whole, rates and lengths as published, the draw belongs to the example."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops import spans
from data_pipelines.ops.corruption import mask_units, mask_whole_words
from data_pipelines.ops.groups import words_of
from data_pipelines.ops.seeds import fold, take_seed, uniform
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.ops.test_corruption import MASK, VOCABULARY, arrays, framed_batch, groups_of, hidden_of, seeds_of
from xmodels.systems import ernie

SPECIAL = [VOCABULARY[token] for token in SPECIAL_TOKENS]
OPS = {
    "ngrams": spans.mask_ngrams(VOCABULARY, num_predictions=10),
    "spans": spans.mask_spans(VOCABULARY, num_predictions=10),
    "token n-grams": spans.mask_token_ngrams(VOCABULARY, num_predictions=10),
    "phrases": mask_units(VOCABULARY, "word_start", num_predictions=10),
    "words, one fate": mask_whole_words(MASK, len(VOCABULARY), num_predictions=10, replace_unit="word"),
}
EACH = pytest.mark.parametrize("corrupt", OPS.values(), ids=OPS)


@EACH
def test_only_hidden_tokens_change_and_no_special_token_is_hidden(corrupt):
    clean = framed_batch(rows=500)
    masked, clean = arrays(corrupt(clean)), arrays(clean)
    hidden = hidden_of(masked, clean["token_ids"].shape)
    assert hidden.sum() > 2000
    assert not hidden[~clean["maskable"]].any()
    np.testing.assert_array_equal(masked["token_ids"][~hidden], clean["token_ids"][~hidden])
    for name in ("segment_ids", "padding_mask", "word_start"):
        np.testing.assert_array_equal(masked[name], clean[name])
    used = masked["label_weights"] > 0
    originals = np.take_along_axis(clean["token_ids"], masked["mask_positions"], 1)
    np.testing.assert_array_equal(masked["labels"], np.where(used, originals, 0))
    assert masked["labels"].shape == (500, 10) and "maskable" not in masked


@pytest.mark.one_in(3)
@EACH
def test_the_draw_belongs_to_the_example_whatever_the_batch(corrupt):
    batch = framed_batch(rows=64)
    whole = arrays(tf.function(corrupt)(batch))
    order = np.random.default_rng(0).permutation(64)
    for part in (order[:1], order[:7], order):
        some = arrays(corrupt({name: tf.gather(value, part) for name, value in batch.items()}))
        for name, value in some.items():
            np.testing.assert_array_equal(value, whole[name][part])
    other = corrupt({**batch, "seed": seeds_of(range(64), seed=1)})
    assert (other["token_ids"].numpy() != whole["token_ids"]).any(1).mean() > 0.8


@pytest.mark.parametrize("name", ["ngrams", "phrases", "words, one fate"])
def test_units_are_hidden_whole(name):
    clean = framed_batch(rows=500)
    hidden = hidden_of(arrays(OPS[name](clean)), clean["token_ids"].shape)
    for groups, row in zip(groups_of(arrays(clean)), hidden, strict=True):
        np.testing.assert_array_equal(row, np.isin(groups, groups[row]))


@pytest.mark.parametrize("name", ["spans", "token n-grams", "phrases"])
def test_special_tokens_are_not_drawn(name):
    batch = framed_batch(rows=2000)
    masked = arrays(OPS[name](batch))
    now = np.take_along_axis(masked["token_ids"], masked["mask_positions"], 1)[masked["label_weights"] > 0]
    assert not np.isin(now, [s for s in SPECIAL if s != MASK]).any()
    # [MASK] is never drawn either, so its share is that of the fate alone.
    assert (now == MASK).mean() == pytest.approx(0.8, abs=0.025)


def long_batch(rows=6000, length=128, word_share=0.7):
    rng = np.random.default_rng(3)
    maskable = np.ones((rows, length), bool)
    maskable[:, [0, -1]] = False
    starts = rng.random((rows, length)) < word_share
    starts[:, :2] = True
    return {
        "token_ids": tf.constant(rng.integers(5, len(VOCABULARY), (rows, length)), tf.int32),
        "padding_mask": tf.fill((rows, length), True), "maskable": tf.constant(maskable),
        "word_start": tf.constant(starts, tf.int32), "seed": seeds_of(range(rows)),
    }  # fmt: skip


def test_spans_hide_fifteen_percent_of_the_text_rounded_up_special_tokens_not_counted():
    for length in (22, 23, 42, 43):  # texts of 20, 21, 40 and 41 tokens
        batch = long_batch(rows=20, length=length)
        counts = spans.mask_spans(VOCABULARY, num_predictions=30)(batch)["label_weights"].numpy().sum(1)
        assert (counts == np.ceil((length - 2) * 0.15)).all()


BUDGETS = {"ngrams": 19, "spans": 19, "token n-grams": 19}


@pytest.mark.parametrize("name", BUDGETS)
def test_rates_and_fates_over_a_hundred_thousand_hidden_tokens(name):
    make = {"ngrams": spans.mask_ngrams, "spans": spans.mask_spans, "token n-grams": spans.mask_token_ngrams}[name]
    batch = long_batch()
    masked = arrays(make(VOCABULARY, num_predictions=30)(batch))
    used = masked["label_weights"] > 0
    counts, now = used.sum(1), np.take_along_axis(masked["token_ids"], masked["mask_positions"], 1)
    assert counts.sum() > 100_000 and counts.max() == BUDGETS[name]
    assert counts.mean() > BUDGETS[name] - (0.5 if name == "ngrams" else 1e-9)
    tolerance = 0.015 if name == "spans" else 0.005  # 24,000 spans are one draw each
    assert (now[used] == MASK).mean() == pytest.approx(0.8, abs=tolerance)
    assert (now[used] == masked["labels"][used]).mean() == pytest.approx(0.1, abs=tolerance)


def walk_ngrams(sizes, order, drawn, budget):
    """ALBERT's loop over shuffled n-grams, in plain Python: the words taken."""
    taken = set()
    for first, n in zip(order, drawn, strict=True):
        left = budget - sum(sizes[word] for word in taken)
        while n and sum(sizes[first : first + n]) > left:
            n -= 1
        if n and not taken & set(range(first, first + n)):
            taken |= set(range(first, first + n))
    return taken


def test_ngrams_equal_the_walk_of_the_released_code():
    batch = arrays(framed_batch(rows=300))
    seed = seeds_of(range(300))
    budget = tf.constant(np.random.default_rng(1).integers(1, 14, 300), tf.int32)
    chosen = spans.choose_ngrams(tf.constant(batch["word_start"]), tf.constant(batch["maskable"]), budget, seed, 3)
    word, sizes = (x.numpy() for x in words_of(batch["word_start"], tf.constant(batch["maskable"])))
    counts = (sizes > 0).sum(1)
    order, drawn = (x.numpy() for x in spans.draw_ngrams(tf.constant(counts, tf.int32), sizes.shape[1], seed, 3))
    for row, count in enumerate(counts):
        assert (order[row, :count] + drawn[row, :count] <= count).all()
        taken = walk_ngrams(list(sizes[row, :count]), order[row, :count], drawn[row, :count], int(budget[row]))
        np.testing.assert_array_equal(chosen[row], np.isin(word[row], list(taken)) & batch["maskable"][row])


def test_the_length_of_an_ngram_is_drawn_with_one_over_n():
    _, drawn = spans.draw_ngrams(tf.fill([500], 1_000_000), 400, seeds_of(range(500)), 3)
    shares = np.bincount(drawn.numpy().ravel(), minlength=4)[1:] / drawn.numpy().size
    np.testing.assert_allclose(shares, [6 / 11, 3 / 11, 2 / 11], atol=0.01)


def test_span_lengths_are_geometric_with_mean_3_8():
    drawn = spans.geometric(uniform(seeds_of(range(500)), 400), 0.2, 10).numpy()
    shares = np.bincount(drawn.ravel(), minlength=11)[1:] / drawn.size
    np.testing.assert_allclose(shares, 0.2 * 0.8 ** np.arange(10) / (1 - 0.8**10), atol=0.01)
    assert drawn.mean() == pytest.approx(3.80, abs=0.05)


def runs_of(row):
    edges = np.flatnonzero(np.diff(np.r_[0, row.astype(int), 0]))
    return list(zip(edges[::2], edges[1::2], strict=True))


def test_spans_begin_and_end_with_words_but_for_one_cut_a_row_and_share_one_fate():
    batch = long_batch(rows=500)
    clean, masked = arrays(batch), arrays(spans.mask_spans(VOCABULARY, num_predictions=30)(batch))
    hidden = hidden_of(masked, clean["token_ids"].shape)
    lengths = []
    for row in range(500):
        begins = clean["word_start"][row] > 0
        cuts = 0
        for begin, end in runs_of(hidden[row]):
            assert begins[begin] and not (~clean["maskable"][row, begin:end]).any()
            cuts += bool(clean["maskable"][row, end] and not begins[end])
            lengths.append(end - begin)
            now, before = masked["token_ids"][row, begin:end], clean["token_ids"][row, begin:end]
            assert (now == MASK).all() or (now == before).all() or not (now == MASK).any()
        assert cuts <= 1
    assert np.mean(lengths) > 3.5


def test_unilm_hides_one_token_in_four_of_five_draws():
    """Without overlaps (a tiny rate), the runs are the draws."""
    batch = long_batch(rows=20_000, length=64)
    chosen = hidden_of(arrays(spans.mask_token_ngrams(VOCABULARY, 1e-3, 3)(batch)), (20_000, 64))
    assert (chosen.sum(1) == 1).all()  # a longer one is cut to the budget
    features, seed = take_seed(batch)
    drawn = uniform(fold(seed, 0), 64).numpy()
    assert (drawn < 0.1).mean() == pytest.approx(0.1, abs=0.003)
    wide = hidden_of(arrays(spans.mask_token_ngrams(VOCABULARY, 0.05, 30)(batch)), (20_000, 64))
    assert (wide.sum(1) == 3).all()
    three = np.mean([max(end - begin for begin, end in runs_of(row)) == 3 for row in wide])
    alone = hidden_of(arrays(spans.mask_token_ngrams(VOCABULARY, 0.05, 30, share=0.0)(batch)), (20_000, 64))
    assert three > 5 * np.mean([max(end - begin for begin, end in runs_of(row)) == 3 for row in alone])


def test_unilm_draws_one_token_in_four_of_five_and_two_as_often_as_three(monkeypatch):
    laid = []

    def spy(begin, end, maskable, budget, seed):
        whole = begin + 3 <= spans.run_ends(maskable)  # where the end of a run cuts nothing
        laid.append(tf.boolean_mask(end - begin, maskable & whole).numpy())
        return cover(begin, end, maskable, budget, seed)

    cover = spans.cover
    monkeypatch.setattr(spans, "cover", spy)
    spans.mask_token_ngrams(VOCABULARY)(long_batch(rows=2000))
    shares = np.bincount(laid[0], minlength=4) / len(laid[0])
    np.testing.assert_allclose(shares, [0, 0.8, 0.1, 0.1], atol=0.01)


def test_ernie_has_room_for_long_units_as_for_short_ones():
    """At the default number of slots of a row: 15 % of the units of every length, within a point, each token with its own fate."""
    batch = long_batch()
    corrupt = mask_units(VOCABULARY, "phrase_start", num_predictions=ernie.slots(0.15, 128))
    masked, clean = arrays(corrupt({**batch, "phrase_start": batch["word_start"]})), arrays(batch)
    hidden = hidden_of(masked, (6000, 128))
    starts = (clean["word_start"] > 0) & clean["maskable"]
    sizes = {size: [0, 0] for size in range(1, 5)}
    for opens, real, row in zip(starts, clean["maskable"], hidden, strict=True):
        begins = np.flatnonzero(opens)
        for begin, end in zip(begins, [*begins[1:], np.flatnonzero(real)[-1] + 1], strict=True):
            if real[begin:end].all() and end - begin in sizes:
                sizes[end - begin][0] += row[begin]
                sizes[end - begin][1] += 1
    for drawn, count in sizes.values():
        assert count < 1000 or drawn / count == pytest.approx(0.15, abs=0.01)
    assert sum(count >= 1000 for _, count in sizes.values()) >= 3
    now, before = masked["token_ids"][hidden], clean["token_ids"][hidden]
    kept = (now == before).mean() - 0.1 / len(VOCABULARY)  # a random token may be the same
    assert (now == MASK).mean() == pytest.approx(0.8, abs=0.01) and kept == pytest.approx(0.1, abs=0.01)


def test_phrases_are_drawn_each_for_itself_at_the_rate_of_units():
    batch = long_batch()
    corrupt = mask_units(VOCABULARY, "phrase_start", num_predictions=60)
    hidden = hidden_of(arrays(corrupt({**batch, "phrase_start": batch["word_start"]})), (6000, 128))
    clean = arrays(batch)
    opens = (clean["word_start"] > 0) & clean["maskable"]
    per_row = (hidden & opens).sum(1)
    assert per_row.sum() / opens.sum() == pytest.approx(0.15, abs=0.003)
    assert per_row.std() == pytest.approx((0.15 * 0.85 * opens.sum(1).mean()) ** 0.5, rel=0.1)  # binomial: no budget


def test_a_word_may_share_one_fate_or_each_token_has_its_own():
    batch = long_batch(rows=1000, word_share=0.4)
    clean = arrays(batch)
    mixed = {}
    for unit in ("word", "token"):
        corrupt = mask_whole_words(MASK, len(VOCABULARY), num_predictions=30, replace_unit=unit)
        masked = arrays(corrupt(batch))
        hidden, groups = hidden_of(masked, (1000, 128)), groups_of(clean)
        mixed[unit] = 0
        for row in range(1000):
            for word in set(groups[row][hidden[row]]):
                masks = masked["token_ids"][row][groups[row] == word] == MASK
                mixed[unit] += masks.any() and not masks.all()
    assert mixed["word"] <= 3  # a random replacement may be [MASK]
    assert mixed["token"] > 500
    with pytest.raises(UsageError, match="token, word"):
        mask_whole_words(MASK, 10, replace_unit="phrase")
