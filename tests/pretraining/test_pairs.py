"""Pairs and static masks are those of Google's `create_pretraining_data.py`, draw by draw."""

import itertools
import json
import math
import pathlib
import random

import numpy as np
import pytest

from benchmarks import reference_data
from data_pipelines.pretraining.stages.draws import Draws
from data_pipelines.pretraining.stages.pairs import Sentences, chunks_of, pairs, pairs_of, sentence_pairs
from data_pipelines.pretraining.stages.static_masks import (
    budgets,
    mask_ngrams_statically,
    mask_statically,
    shuffle_words,
)
from data_pipelines.pretraining.stages.tokenize import Tokens, ids_of, mark, word_starts_of
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "bert_create_pretraining_data"
CASES = ["create_data_plain", "create_data_whole_word"]


def read_golden(case):
    config, inputs, outputs = (
        json.loads((GOLDEN / case / f"{n}.json").read_text()) for n in ("config", "inputs", "outputs")
    )
    return config["hyperparameters"], inputs, outputs


def bounds_of(documents):
    """All tokens side by side, and the bounds of the sentences of each document."""
    flat, bounds = [], []
    for document in documents:
        ends = itertools.accumulate(map(len, document), initial=len(flat))
        bounds.append(list(ends))
        flat += [token for sentence in document for token in sentence]
    return flat, bounds


class OneByOne:
    """Draws as the originals make them: one after the other, each document from the generator of its lane."""

    def __init__(self, *generators):
        self.generators = generators

    def chance(self, lanes, rate):
        return np.array([self.generators[lane].random() < rate for lane in lanes], bool)

    def between(self, lanes, low, high):
        low, high = (np.broadcast_to(bound, len(lanes)).tolist() for bound in (low, high))
        found = [self.generators[lane].randint(a, b) for lane, a, b in zip(lanes, low, high, strict=True)]
        return np.array(found, np.int64)

    def heads(self, lanes, counts):
        return self.heads_in_turn(lanes, counts, turns=1)[0]

    def heads_in_turn(self, lanes, counts, turns=2):
        throws = [
            [self.generators[lane].random() < 0.5 for _ in range(n)] for lane, n in zip(lanes, counts, strict=True)
        ]
        return [np.array([sum(thrown[turn::turns]) for thrown in throws], np.int64) for turn in range(turns)]


def made_of(documents, indices, length, short_rate, draws, *choices):
    """Pairs of lists of tokens, step by step: (first, second, is negative)."""
    flat, bounds = documents
    sentences = Sentences.of(bounds)
    for chunks in chunks_of(sentences, np.array(indices), length, short_rate, draws, *choices):
        made = pairs_of(sentences, chunks, length, draws)
        for ((a, b), (c, d)), is_negative in zip(*map(np.ndarray.tolist, made), strict=True):
            yield flat[a:b], flat[c:d], is_negative


def pairs_of_one(documents, index, length, short_rate, rng, *choices):
    """The pairs of one document, with the draws of the originals."""
    return made_of(documents, [index], length, short_rate, OneByOne(rng), *choices)


def instances(documents, vocabulary, settings, whole_words):
    """What Google's script makes of tokenised documents, with our pairs and one generator for everything."""
    rng = random.Random(settings["random_seed"])
    documents = list(documents)
    rng.shuffle(documents)
    documents = bounds_of(documents)
    made = []
    for _ in range(settings["duplicate_factor"]):
        for index in range(len(documents[1])):
            args = documents, index, settings["max_sequence_length"], settings["short_sequence_probability"], rng
            for first, second, is_random in pairs_of_one(*args):
                tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
                rate, most = settings["masked_lm_probability"], settings["max_predictions"]
                masked = reference_data.mask(tokens, vocabulary, rate, most, whole_words, rng)
                made.append(
                    {
                        "tokens": masked.tokens,
                        "segment_ids": [0] * (len(first) + 2) + [1] * (len(second) + 1),
                        "is_random_next": is_random,
                        "masked_positions": masked.positions,
                        "masked_labels": masked.labels,
                    }
                )
    rng.shuffle(made)
    return made


@pytest.mark.parametrize("case", CASES)
def test_documents_are_tokenised_as_google_does(case):
    settings, inputs, outputs = read_golden(case)
    vocabulary = Vocabulary(inputs["vocabulary"])
    tokenizer = WordPieceTokenizer(vocabulary, settings["lower_case"])
    found = [[[vocabulary.tokens[i] for i in tokenizer.encode(s).ids] for s in d] for d in inputs["documents"]]
    assert found == outputs["tokenized_documents"]
    yardstick = [[reference_data.tokenize(s, vocabulary.ids) for s in d] for d in inputs["documents"]]
    assert yardstick == outputs["tokenized_documents"]


@pytest.mark.parametrize("case", CASES)
def test_the_yardstick_of_the_benchmark_is_google_s_script(case):
    settings, inputs, outputs = read_golden(case)
    names = (
        "duplicate_factor",
        "max_sequence_length",
        "short_sequence_probability",
        "masked_lm_probability",
        "max_predictions",
    )
    numbers = [settings[name] for name in names]
    rng = random.Random(settings["random_seed"])
    documents = outputs["tokenized_documents"]
    found = reference_data.instances(documents, inputs["vocabulary"], *numbers, settings["whole_word_mask"], rng)
    assert found == outputs["instances"]


@pytest.mark.parametrize("case", CASES)
def test_instances_are_those_of_google_draw_by_draw(case):
    settings, inputs, outputs = read_golden(case)
    found = instances(outputs["tokenized_documents"], inputs["vocabulary"], settings, settings["whole_word_mask"])
    assert len(outputs["instances"]) > 10
    assert found == outputs["instances"]


@pytest.mark.parametrize("choices", [("random",), ("swapped",), ("swapped", "skip")])
def test_documents_cut_side_by_side_give_the_pairs_that_each_gives_alone(choices):
    documents = bounds_of(documents_of(random.Random(8), 40))
    chosen = [index for _ in range(3) for index in range(40)]
    alone = []
    for lane, index in enumerate(chosen):
        alone += pairs_of_one(documents, index, 50, 0.3, random.Random(lane), *choices)
    draws = OneByOne(*map(random.Random, range(len(chosen))))
    together = list(made_of(documents, chosen, 50, 0.3, draws, *choices))
    assert len(together) > 150 and sorted(together) == sorted(alone)


def test_draws_for_many_documents_are_spread_as_those_of_one():
    draws, lanes = Draws(1), np.arange(200_000)
    assert abs(draws.chance(lanes, 0.1).mean() - 0.1) < 0.003
    low, high = np.full(len(lanes), 2), np.where(lanes % 2, 5, 2)
    found = draws.between(lanes, low, high)
    assert (found[::2] == 2).all()
    np.testing.assert_allclose(np.bincount(found[1::2]) / 1e5, [0, 0, 0.25, 0.25, 0.25, 0.25], atol=0.006)
    counts = np.where(lanes % 2, 3, 0)
    for heads, thrown in (
        (draws.heads(lanes, counts), 3),
        *zip(draws.heads_in_turn(lanes, counts), (2, 1), strict=True),
    ):
        assert not heads[::2].any()
        chances = [math.comb(thrown, k) / 2**thrown for k in range(thrown + 1)]
        np.testing.assert_allclose(np.bincount(heads[1::2]) / 1e5, chances, atol=0.006)


def test_whole_words_make_no_difference_to_text_without_words_of_many_pieces():
    settings, inputs, outputs = read_golden("create_data_plain")
    documents = [[[t for t in s if not t.startswith("##")] for s in d] for d in outputs["tokenized_documents"]]
    off, on = (instances(documents, inputs["vocabulary"], settings, whole_words) for whole_words in (False, True))
    assert on == off
    with_long_words = outputs["tokenized_documents"]
    off, on = (instances(with_long_words, inputs["vocabulary"], settings, whole_words) for whole_words in (False, True))
    assert on != off


@pytest.mark.parametrize("whole_words", [True, False])
def test_static_masks_hide_words_whole_and_just_as_many_tokens_as_wanted(whole_words):
    random_ = np.random.RandomState(0)
    rows, length, most, vocabulary_size, mask = 2000, 60, 8, 10_000, 3
    lengths = random_.randint(3, length + 1, rows)
    ids = random_.randint(5, vocabulary_size, (rows, length))
    place = np.arange(length)
    maskable = (place > 0) & (place < lengths[:, None] - 1)
    word_start = (random_.random_sample(ids.shape) < 0.6) | (place == 1) | (not whole_words)
    wanted = budgets(lengths, 0.15, most)
    assert wanted.tolist() == [min(most, max(1, round(0.15 * n))) for n in lengths.tolist()]
    hidden = mask_statically(ids, word_start, maskable, wanted, (mask, vocabulary_size), most, random_)
    used = np.arange(most) < hidden.counts[:, None]
    changed = np.zeros(ids.shape, bool)
    for row in range(rows):
        places = hidden.positions[row, used[row]]
        changed[row, places] = True
        assert (np.diff(places) > 0).all() and maskable[row, places].all()
        assert (hidden.labels[row, used[row]] == ids[row, places]).all()
        words = np.cumsum(word_start[row])
        whole = np.isin(words, words[places]) & maskable[row]
        assert (whole == changed[row]).all()
    assert (hidden.positions[~used] == 0).all() and (hidden.labels[~used] == 0).all()
    np.testing.assert_array_equal(hidden.ids[~changed], ids[~changed])
    assert (hidden.counts <= wanted).all()
    if not whole_words:
        np.testing.assert_array_equal(hidden.counts, np.minimum(wanted, maskable.sum(axis=1)))
    now = hidden.ids[changed]
    for share, expected in ((now == mask, 0.8), (now == ids[changed], 0.1)):
        assert abs(share.mean() - expected) < 0.015
    # Every place is as likely as any other.
    rate = changed[lengths == lengths.max()].mean() if (lengths == lengths.max()).any() else 0.13
    assert 0.08 < rate < 0.16


def test_static_whole_words_are_those_of_the_sequential_rule():
    """Given the order of the words, the walk takes the words that one after the other would take."""
    generator = random.Random(3)
    for seed in range(300):
        length = generator.randint(4, 60)
        starts = np.array([[True] * 2 + [generator.random() < 0.5 for _ in range(length - 2)]])
        maskable = np.array([[False] + [True] * (length - 1)])
        wanted = np.array([generator.randint(1, 9)])
        hidden = mask_statically(
            np.arange(length)[None], starts, maskable, wanted, (0, 9), 9, np.random.RandomState(seed)
        )
        words = np.split(np.arange(1, length), np.flatnonzero(starts[0, 2:]) + 1)
        (order,) = shuffle_words(np.array([len(words)]), np.random.RandomState(seed))
        assert sorted(order) == list(range(len(words)))
        taken: list = []
        for word in order:
            if len(taken) + len(words[word]) <= wanted[0]:
                taken += words[word].tolist()
        assert hidden.positions[0, : hidden.counts[0]].tolist() == sorted(taken)


def test_words_are_shuffled_evenly():
    counts = np.tile([5, 3], 40_000)
    order = shuffle_words(counts, np.random.RandomState(1)).astype(np.int64)
    assert (np.sort(order[1::2, :3]) == np.arange(3)).all() and (np.sort(order[::2], axis=1) == np.arange(5)).all()
    for rows, size in ((order[::2], 5), (order[1::2], 3)):
        for place in range(size):
            np.testing.assert_allclose(np.bincount(rows[:, place], minlength=size) / 40_000, 1 / size, atol=0.01)


def documents_of(rng, count):
    return [
        [[rng.randrange(1000) for _ in range(rng.randint(1, 30))] for _ in range(rng.randint(1, 9))]
        for _ in range(count)
    ]


def numbered(rng, count):
    """Documents whose tokens are numbered through."""
    numbers = iter(range(10**6))
    return [[[next(numbers) for _ in sentence] for sentence in document] for document in documents_of(rng, count)]


def tokens_of(documents):
    """What the tokenizer gives for `documents`."""
    for document in documents:
        flat, (bounds,) = bounds_of([document])
        yield Tokens(np.array(flat, np.int32), bounds)


def test_pairs_fit_and_true_second_segments_follow_in_the_document():
    rng = random.Random(1)
    documents = numbered(rng, 60)
    of_document = {token: i for i, document in enumerate(documents) for sentence in document for token in sentence}
    both = set()
    for _ in range(3):
        for index in range(len(documents)):
            for first, second, is_negative in pairs_of_one(bounds_of(documents), index, 40, 0.1, rng):
                assert first and second and len(first) + len(second) <= 37
                assert {of_document[token] for token in first} == {index}
                if not is_negative:  # tokens are numbered through, and truncation only cuts at the ends
                    assert {of_document[token] for token in second} == {index}
                    assert second[0] > first[-1]
                else:
                    assert {of_document[token] for token in second} != {index}
                both.add(is_negative)
    assert both == {True, False}


def test_blocks_bound_the_memory_and_lose_no_document():
    documents = documents_of(random.Random(2), 200)
    for block_tokens in (1, 500, 10**9):
        taken = 0

        def counted():
            nonlocal taken
            for document in tokens_of(documents):
                taken += 1
                yield document

        stream = pairs(64, 0.1, 1, random.Random(3), block_tokens)(counted())
        first = next(stream)
        assert (taken < 60) == (block_tokens < 10**9)
        rest = list(stream)
        assert taken == 200 and len(first) + sum(map(len, rest)) > 200


def test_examples_are_shuffled_cut_and_gathered_with_their_labels():
    (examples,) = pairs(40, 0.1, 2, random.Random(4))(tokens_of(numbered(random.Random(5), 40)))
    shuffled = examples.shuffled(1)

    def rows(examples):
        lengths = examples.lengths().sum(axis=1)
        return list(
            zip(np.split(examples.flat, np.cumsum(lengths)[:-1]), examples.labels["next_sentence_labels"], strict=True)
        )

    expected = sorted((row.tolist(), label) for row, label in rows(examples))
    found = [(row.tolist(), label) for batch in shuffled.batches(7) for row, label in rows(batch)]
    assert sorted(found) == expected != found
    assert max(map(len, shuffled.batches(7))) == 7
    assert (shuffled.spans == examples.shuffled(1).spans).all() and (shuffled.spans != examples.shuffled(2).spans).any()


def test_a_marked_piece_keeps_its_id_and_its_word_start():
    marked = mark([0, 5, 21127, 119546], [1, 0, 1, 0])
    assert ids_of(marked).tolist() == [0, 5, 21127, 119546]
    assert word_starts_of(marked).tolist() == [1, 0, 1, 0]


ALBERT = pathlib.Path(__file__).parents[1] / "golden" / "albert_create_pretraining_data"


@pytest.mark.parametrize("case", ["ngram3_sop", "ngram2_longer_random_next"])
def test_ordered_pairs_and_ngrams_are_those_of_albert_draw_by_draw(case):
    config, inputs, outputs = (
        json.loads((ALBERT / case / f"{n}.json").read_text()) for n in ("config", "inputs", "outputs")
    )
    settings = config["hyperparameters"]
    tokenizer = WordPieceTokenizer(Vocabulary(inputs["vocabulary"]), settings["lower_case"])
    vocabulary = inputs["vocabulary"]
    documents = [[[vocabulary[i] for i in tokenizer.encode(s).ids] for s in d] for d in inputs["documents"]]
    rng, lengths = random.Random(settings["random_seed"]), np.random.RandomState(settings["random_seed"])
    rng.shuffle(documents)
    documents = bounds_of(documents)
    negatives = "random" if settings["random_next_sentence"] else "swapped"
    made = []
    for _ in range(settings["duplicate_factor"]):
        for index in range(len(documents[1])):
            args = documents, index, settings["max_sequence_length"], settings["short_sequence_probability"], rng
            for first, second, is_negative in pairs_of_one(*args, negatives):
                tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
                starts = [None if t in ("[CLS]", "[SEP]") else not t.startswith("##") for t in tokens]
                rate, most = settings["masked_lm_probability"], settings["max_predictions"]
                hidden, positions = mask_ngrams_statically(
                    tokens, starts, ("[MASK]", vocabulary), min(most, max(1, round(len(tokens) * rate))),
                    settings["whole_word_mask"], rng, lengths, settings["ngram"], settings["favor_shorter_ngram"],
                )  # fmt: skip
                made.append(
                    {
                        "tokens": hidden,
                        "segment_ids": [0] * (len(first) + 2) + [1] * (len(second) + 1),
                        "is_random_next": is_negative,
                        "token_boundary": [1 if start is None else int(start) for start in starts],
                        "masked_positions": positions,
                        "masked_labels": [tokens[place] for place in positions],
                    }
                )
    rng.shuffle(made)
    assert made == outputs["instances"]


def test_a_swapped_pair_is_the_other_one_turned_round_and_lone_sentences_have_no_order():
    rng = random.Random(4)
    documents = numbered(rng, 300)
    labels = []
    for index, document in enumerate(documents):
        place = {token: i for i, token in enumerate(t for s in document for t in s)}
        for first, second, is_negative in pairs_of_one(bounds_of(documents), index, 60, 0.1, rng, "swapped", "skip"):
            assert len(document) > 1
            if is_negative:
                first, second = second, first
            assert place[first[-1]] < place[second[0]]
            labels.append(is_negative)
    assert len(labels) > 400 and abs(sum(labels) / len(labels) - 0.5) < 0.08


def test_sentence_pairs_are_neighbours_or_of_two_documents():
    rng = random.Random(6)
    documents = numbered(rng, 300)
    sentence_of = {
        t: (d, s) for d, document in enumerate(documents) for s, sentence in enumerate(document) for t in sentence
    }
    (examples,) = sentence_pairs(64, 1, rng)(tokens_of(documents))
    assert len(examples) == sum(len(document) - 1 for document in documents)
    labels = examples.labels["next_sentence_labels"]
    for runs, label in zip(examples.spans, labels, strict=True):
        segments = [{sentence_of[t] for t in examples.marked[a:b].tolist()} for a, b in runs]
        assert all(len(segment) == 1 for segment in segments)
        (d, s), (e, f) = (segment.pop() for segment in segments)
        assert (d != e) if label else (e, f) == (d, s + 1)
    assert abs(labels.mean() - 0.5) < 0.06


def test_tokens_of_a_word_may_share_their_fate():
    generator = np.random.RandomState(1)
    shape = rows, length = 400, 40
    starts = (generator.random_sample(shape) < 0.4) | (np.arange(length) == 0)
    ids, maskable = generator.randint(10, 1000, shape), np.ones(shape, bool)
    wanted = np.full(rows, 12)
    for whole_fates in (True, False):
        hidden = mask_statically(ids, starts, maskable, wanted, (1000, 1000), 12, generator, whole_fates)
        masked = np.take_along_axis(hidden.ids, hidden.positions, axis=1) == 1000
        word = np.take_along_axis(np.cumsum(starts, axis=1), hidden.positions, axis=1)
        used = np.arange(12) < hidden.counts[:, None]
        same = (word[:, 1:] == word[:, :-1]) & used[:, 1:]
        alike = (masked[:, 1:] == masked[:, :-1])[same].mean()
        assert (alike == 1.0) if whole_fates else (0.6 < alike < 0.75)  # 0.8² + 0.2² = 0.68
        assert abs(masked[used].mean() - 0.8) < 0.03
