"""Masking in the graph: what is hidden, how much of it, by whose dice."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.ops.corruption import choose_words, mask_tokens, mask_whole_words
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.seeds import example_seeds, fold, take_seed, uniform
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.helpers.samples import make_records

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *(f"t{i}" for i in range(995))])
PAD, CLS, SEP, MASK = (VOCABULARY[token] for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]"))
LENGTH, PREDICTIONS = 64, 10


def seeds_of(index, seed=0, epoch=0):
    return example_seeds(seed, tf.constant(epoch, tf.int64), tf.constant(index, tf.int64))


def parsed_batch(rows, rng, length=LENGTH, word_lengths=(1, 1, 1, 2, 2, 3, 4)):
    """What `RecordSource.parse` gives: random words of random tokens in two segments, padded with zeros."""
    lengths = rng.integers(1, (length - 3) // 2 + 1, (rows, 2))
    lengths[0] = (length - 3) // 2  # so that the longest row has full length
    token_ids, word_start = np.zeros((rows, length), np.int64), np.zeros((rows, length), np.int64)
    for row, total in enumerate(lengths.sum(1)):
        token_ids[row, :total] = rng.integers(5, len(VOCABULARY), total)
        marks = [mark for size in rng.choice(word_lengths, total) for mark in [1] + [0] * (size - 1)]
        word_start[row, :total] = marks[:total]
    return {
        "token_ids": tf.constant(token_ids),
        "word_start": tf.constant(word_start),
        "segment_lengths": tf.constant(lengths),
        "next_sentence_labels": tf.zeros(rows, tf.int64),
    }


def framed_batch(rows=256, seed=0, epoch=0, rng_seed=0, **kwargs):
    features = frame_pair(VOCABULARY, LENGTH)(parsed_batch(rows, np.random.default_rng(rng_seed), **kwargs))
    return {**features, "seed": seeds_of(range(rows), seed, epoch)}


def arrays(features):
    return {name: value.numpy() for name, value in features.items()}


def hidden_of(masked, shape):
    hidden = np.zeros(shape, bool)
    rows, slots = np.nonzero(masked["label_weights"])
    hidden[rows, masked["mask_positions"][rows, slots]] = True
    return hidden


MASKINGS = {
    "words": mask_whole_words(MASK, len(VOCABULARY), num_predictions=PREDICTIONS),
    "tokens": mask_tokens(MASK, len(VOCABULARY), num_predictions=PREDICTIONS),
}


@pytest.mark.parametrize("corrupt", MASKINGS.values(), ids=MASKINGS)
def test_only_hidden_tokens_change_and_their_labels_are_the_originals(corrupt):
    clean = framed_batch()
    masked, clean = arrays(corrupt(clean)), arrays(clean)
    hidden = hidden_of(masked, clean["token_ids"].shape)
    assert hidden.any(1).mean() > 0.9  # where every word exceeds the budget, none is hidden
    np.testing.assert_array_equal(masked["token_ids"][~hidden], clean["token_ids"][~hidden])
    for name in ("segment_ids", "padding_mask", "word_start", "segment_lengths"):
        if name in clean:
            np.testing.assert_array_equal(masked[name], clean[name])
    originals = np.take_along_axis(clean["token_ids"], masked["mask_positions"], 1)
    used = masked["label_weights"] == 1
    np.testing.assert_array_equal(masked["labels"], np.where(used, originals, 0))
    assert set(np.unique(masked["label_weights"])) <= {0.0, 1.0}
    assert not masked["mask_positions"][~used].any()
    assert "maskable" not in masked


@pytest.mark.parametrize("corrupt", MASKINGS.values(), ids=MASKINGS)
def test_positions_ascend_and_used_slots_come_first(corrupt):
    masked = arrays(corrupt(framed_batch()))
    for positions, weights in zip(masked["mask_positions"], masked["label_weights"], strict=True):
        count = int(weights.sum())
        assert weights[:count].all()
        assert (np.diff(positions[:count]) > 0).all()


@pytest.mark.parametrize("corrupt", MASKINGS.values(), ids=MASKINGS)
def test_no_special_token_and_no_padding_is_hidden(corrupt):
    clean = framed_batch(rows=1000)
    hidden = hidden_of(arrays(corrupt(clean)), (1000, LENGTH))
    token_ids = clean["token_ids"].numpy()
    assert hidden.sum() > 5000
    assert not np.isin(token_ids[hidden], (PAD, CLS, SEP)).any()
    assert not hidden[~clean["padding_mask"].numpy()].any()


def groups_of(clean):
    """The number of the word that each token of a row belongs to; -1 on special tokens and padding."""
    return np.where(clean["maskable"], np.cumsum(clean["word_start"], axis=1), -1)


def test_words_are_hidden_whole():
    clean = framed_batch(rows=1000)
    hidden = hidden_of(arrays(MASKINGS["words"](clean)), (1000, LENGTH))
    long_words = 0
    for groups, row in zip(groups_of(arrays(clean)), hidden, strict=True):
        chosen = set(groups[row])
        assert -1 not in chosen
        np.testing.assert_array_equal(row, np.isin(groups, list(chosen)))
        long_words += sum((groups == word).sum() > 1 for word in chosen)
    assert long_words > 500


def test_single_tokens_break_words():
    clean = framed_batch(rows=100)
    hidden = hidden_of(arrays(MASKINGS["tokens"](clean)), (100, LENGTH))
    groups = groups_of(arrays(clean))
    assert any(not np.array_equal(row, np.isin(g, g[row])) for g, row in zip(groups, hidden, strict=True))


def test_single_tokens_are_what_words_of_one_token_give():
    batch = framed_batch(word_lengths=(1,))
    words, tokens = (arrays(MASKINGS[name](batch)) for name in ("words", "tokens"))
    for name in words:
        np.testing.assert_array_equal(words[name], tokens[name])


def walk(starts, maskable, budget, order):
    """Google's loop over shuffled words, in plain Python."""
    words = []
    for place, (start, real) in enumerate(zip(starts, maskable, strict=True)):
        if real and start:
            words.append([place])
        elif real:
            words[-1].append(place)
    chosen = []
    for number in order:
        if number >= len(words) or len(chosen) >= budget:
            continue
        if len(chosen) + len(words[number]) <= budget:
            chosen += words[number]
    return [place in chosen for place in range(len(starts))]


def random_row(rng, length):
    real = rng.integers(0, length + 1)
    maskable = np.arange(length) < real
    maskable[rng.random(length) < 0.1] = False  # special tokens may stand anywhere
    starts = rng.random(length) < rng.choice([0.1, 0.5, 0.9, 1.0])
    starts |= np.cumsum(maskable) == 1  # as framing sees to it
    return starts.astype(np.int32), maskable, rng.integers(1, 12)


SPECIAL_ROWS = {
    "one huge word": ([1] + [0] * 19, [True] * 20, 5),
    "one word of just the budget": ([1] + [0] * 19, [True] * 20, 20),
    "every word over the budget": ([1, 0, 0, 0] * 5, [True] * 20, 3),
    "no words": ([0] * 20, [False] * 20, 3),
    "one token": ([1] + [0] * 19, [True] + [False] * 19, 1),
    "no budget": ([1] * 20, [True] * 20, 0),
    "budget over all tokens": ([1, 1, 0, 1, 0] * 4, [True] * 20, 100),
}


@pytest.mark.parametrize("length", [1, 2, 3, 7, 20, 128])
def test_choosing_words_in_passes_equals_walking_through_them_one_by_one(length):
    rng = np.random.default_rng(length)
    rows = [random_row(rng, length) for _ in range(150)]
    if length == 20:
        rows += [tuple(map(np.asarray, row)) for row in SPECIAL_ROWS.values()]
    starts, maskable, budget = (np.stack(column) for column in zip(*rows, strict=True))
    seed = seeds_of(range(len(rows)))
    chosen = choose_words(tf.constant(starts, tf.int32), tf.constant(maskable), tf.constant(budget, tf.int32), seed)
    order = np.argsort(uniform(seed, length).numpy(), axis=1, kind="stable")
    expected = [walk(*row, o) for row, o in zip(rows, order, strict=True)]
    np.testing.assert_array_equal(chosen.numpy(), expected)
    assert np.any(expected) and not np.all(expected)


def test_the_budget_rounds_half_to_even_as_python_does():
    lengths = range(1, 200)
    for rate in (0.15, 0.5, 0.1, 0.25):
        corrupt = mask_tokens(MASK, len(VOCABULARY), rate=rate, num_predictions=60)
        maskable = tf.sequence_mask(lengths, 200)
        features = {
            "token_ids": tf.ones((len(lengths), 200), tf.int32), "padding_mask": maskable, "maskable": maskable,
            "word_start": tf.ones((len(lengths), 200), tf.int32), "seed": seeds_of(lengths),
        }  # fmt: skip
        counts = corrupt(features)["label_weights"].numpy().sum(1)
        assert counts.tolist() == [min(60, max(1, round(length * rate))) for length in lengths]


def test_fewer_tokens_than_slots_leave_slots_empty():
    corrupt = mask_whole_words(MASK, len(VOCABULARY), num_predictions=100)
    masked = arrays(corrupt(framed_batch(rows=16)))
    assert masked["mask_positions"].shape == masked["labels"].shape == masked["label_weights"].shape == (16, 100)
    assert (masked["label_weights"].sum(1) <= 10).all()


@pytest.fixture(scope="module")
def many():
    """Over 100,000 hidden tokens of a vocabulary so small that random draws often hit the original."""
    rng = np.random.default_rng(5)
    rows, size = 6000, 20
    token_ids = tf.constant(rng.integers(5, size, (rows, 128)), tf.int32)
    word_start = tf.constant(rng.random((rows, 128)) < 0.7, tf.int32)
    real = np.zeros((rows, 128), bool)
    for row, length in enumerate(rng.integers(100, 129, rows)):
        real[row, :length] = True
    maskable = real & (np.arange(128) > 0)
    features = {
        "token_ids": token_ids, "padding_mask": tf.constant(real), "maskable": tf.constant(maskable),
        "word_start": word_start, "seed": seeds_of(range(rows)),
    }  # fmt: skip
    masked = arrays(mask_whole_words(MASK, size, num_predictions=20)(features))
    used = masked["label_weights"] > 0
    now = np.take_along_axis(masked["token_ids"], masked["mask_positions"], 1)
    return {"now": now[used], "labels": masked["labels"][used], "rate": used.sum() / real.sum(), "size": size}


def test_the_realised_rate_is_fifteen_percent_less_what_long_words_cost(many):
    assert len(many["now"]) > 100_000
    assert 0.135 < many["rate"] < 0.155


def test_hidden_tokens_become_mask_or_stay_or_are_drawn_by_eight_to_one_to_one(many):
    size = many["size"]
    masked, kept = (many["now"] == MASK).mean(), (many["now"] == many["labels"]).mean()
    # A draw from the whole vocabulary may be [MASK], or the token that stood there.
    assert masked == pytest.approx(0.8 + 0.1 / size, abs=0.005)
    assert kept == pytest.approx(0.1 + 0.1 / size, abs=0.005)


def test_replacements_are_drawn_evenly_from_the_whole_vocabulary(many):
    drawn = many["now"][(many["now"] != MASK) & (many["now"] != many["labels"])]
    counts = np.bincount(drawn, minlength=many["size"])
    special = [PAD, VOCABULARY["[UNK]"], CLS, SEP]
    # An ordinary token is here only where another one stood: one in 15 is missing.
    expected = np.where(np.arange(many["size"]) < 5, 1.0, 14 / 15)
    expected[MASK] = 0
    expected *= counts.sum() / expected.sum()
    assert counts[special].min() > 0 and counts[MASK] == 0
    chi_square = ((counts - expected) ** 2 / np.maximum(expected, 1)).sum()
    assert chi_square < 50  # 18 degrees of freedom


def test_the_draw_belongs_to_the_example_whatever_the_batch_and_the_order():
    batch = framed_batch(rows=96)
    whole = arrays(MASKINGS["words"](batch))
    order = np.random.default_rng(0).permutation(96)
    shuffled = {name: tf.gather(value, order) for name, value in batch.items()}
    for size in (1, 5, 96):
        for first in range(0, 96, max(size, 24)):
            part = {name: value[first : first + size] for name, value in shuffled.items()}
            for name, value in arrays(MASKINGS["words"](part)).items():
                np.testing.assert_array_equal(value, whole[name][order[first : first + size]])


def test_a_graph_draws_what_eager_execution_draws():
    batch = framed_batch(rows=32)
    eager, graph = arrays(MASKINGS["words"](batch)), arrays(tf.function(MASKINGS["words"])(batch))
    for name in eager:
        np.testing.assert_array_equal(graph[name], eager[name])


def test_another_epoch_and_another_seed_draw_other_masks():
    first, epoch, seed = (
        hidden_of(arrays(MASKINGS["words"](framed_batch(**kwargs))), (256, LENGTH))
        for kwargs in ({}, {"epoch": 1}, {"seed": 1})
    )
    for other in (epoch, seed):
        assert (first != other).any(1).mean() > 0.9


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("length", "predictions", "lost"), [(512, 77, 0.0), (128, 20, 0.03)])
def test_characters_of_chinese_words_are_hidden_about_as_often_as_they_occur(
    tmp_path, zh_vocabulary, length, predictions, lost
):
    """To 2 points on long sequences. A small budget has less room for a long word: the rule skips what does not fit."""
    folder = make_records(
        tmp_path / "records", zh_vocabulary, max_seq_length=length, max_predictions_per_seq=predictions,
        packing="full_sentences",  # so that they are as long as that: the documents are short
    )  # fmt: skip
    source = RecordSource(folder)
    serialized = next(iter(source.in_order().batch(100_000)))[1]
    framed = frame_pair(VOCABULARY, length)(source.parse(serialized))
    corrupt = mask_whole_words(MASK, len(VOCABULARY), num_predictions=predictions)
    clean, count = arrays(framed), len(serialized)
    groups = groups_of(clean)
    sizes = np.stack([np.bincount(row + 1, minlength=length + 2)[row + 1] for row in groups])
    masked = [arrays(corrupt({**framed, "seed": seeds_of(range(count), epoch=epoch)})) for epoch in range(20)]
    hidden = np.concatenate([sizes[hidden_of(each, groups.shape)] for each in masked])
    in_corpus, predicted = (sizes[clean["maskable"]] > 1).mean(), (hidden > 1).mean()
    assert 0.5 < in_corpus < 0.8
    assert predicted == pytest.approx(in_corpus - lost, abs=0.02)


def frame_one(first, second, length, word_start=None):
    tokens = first + second
    width = max(length, len(tokens))
    padded = tf.constant([tokens + [0] * (width - len(tokens))], tf.int64)
    starts = tf.constant([(word_start or [1] * len(tokens)) + [0] * (width - len(tokens))], tf.int64)
    features = {
        "token_ids": padded,
        "word_start": starts,
        "segment_lengths": tf.constant([[len(first), len(second)]], tf.int64),
    }
    return {name: value.numpy()[0].tolist() for name, value in frame_pair(VOCABULARY, length)(features).items()}


def test_a_framed_pair_has_its_special_tokens_segments_and_padding():
    framed = frame_one([10, 11, 12], [20, 21], 10, word_start=[1, 0, 1, 1, 0])
    assert framed["token_ids"] == [CLS, 10, 11, 12, SEP, 20, 21, SEP, PAD, PAD]
    assert framed["segment_ids"] == [0, 0, 0, 0, 0, 1, 1, 1, 0, 0]
    assert framed["padding_mask"] == [True] * 8 + [False] * 2
    assert framed["maskable"] == [False, True, True, True, False, True, True, False, False, False]
    assert framed["word_start"] == [1, 1, 0, 1, 1, 1, 0, 1, 0, 0]
    assert "segment_lengths" not in framed


def test_a_framed_pair_may_fill_the_sequence_to_the_last_place():
    framed = frame_one([10, 11], [20, 21, 22], 8)
    assert framed["token_ids"] == [CLS, 10, 11, SEP, 20, 21, 22, SEP]
    assert framed["padding_mask"] == [True] * 8


def test_an_empty_second_segment_gets_no_separator():
    framed = frame_one([10, 11], [], 6)
    assert framed["token_ids"] == [CLS, 10, 11, SEP, PAD, PAD]
    assert framed["segment_ids"] == [0] * 6
    assert framed["padding_mask"] == [True] * 4 + [False] * 2
    assert framed["word_start"] == [1, 1, 1, 1, 0, 0]


def test_a_word_that_truncation_has_cut_opens_its_segment():
    framed = frame_one([10, 11], [20, 21], 8, word_start=[0, 0, 0, 0])
    assert framed["word_start"] == [1, 1, 0, 1, 1, 0, 1, 0]


def test_random_numbers_are_even_and_independent_between_neighbours():
    numbers = uniform(seeds_of(range(2000)), 200).numpy()  # 400,000 numbers
    assert numbers.min() >= 0 and numbers.max() < 1
    assert numbers.mean() == pytest.approx(0.5, abs=0.003)
    assert numbers.std() == pytest.approx(12**-0.5, abs=0.003)
    counts = np.histogram(numbers, 100, (0, 1))[0]
    assert ((counts - 4000) ** 2 / 4000).sum() < 180  # 99 degrees of freedom
    for a, b in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.01


def test_neighbouring_raw_seeds_give_independent_numbers_too():
    numbers = uniform(tf.cast(tf.range(2000), tf.uint64), 200).numpy()
    assert abs(np.corrcoef(numbers[1:].ravel(), numbers[:-1].ravel())[0, 1]) < 0.01
    assert len(np.unique(numbers)) > 390_000  # no stream repeats another one's numbers, shifted or not


def test_seeds_of_examples_epochs_and_runs_all_differ():
    seeds = [seeds_of(range(1000), seed, epoch).numpy() for seed in (0, 1, -1, 2**31, 2**40) for epoch in range(4)]
    assert len(np.unique(seeds)) == 20_000


def test_taking_a_seed_leaves_another_one():
    seed = seeds_of(range(100))
    features, taken = take_seed({"seed": seed})
    features, again = take_seed(features)
    assert len(np.unique(np.concatenate([seed, taken, again, features["seed"]]))) == 400
    np.testing.assert_array_equal(fold(seed, 3), fold(seed, tf.constant(3, tf.int64)))
