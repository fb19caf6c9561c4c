"""MacBERT's corruption: n-grams of words become similar words of as many pieces, a few random ones, and a few stay."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.ops.groups import words_of
from data_pipelines.ops.similar import SHARES, keys_of, places_in_words, replace_by_similar_words
from data_pipelines.ops.spans import draw_ngrams
from data_pipelines.text.similar_words import LONGEST, find_similar_words
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer

CHARACTERS = "天地人你我他山水火土金木日月星云雨雪风花"
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *CHARACTERS, "cat", "dog", "##s"])
TOKENIZER = WordPieceTokenizer(VOCABULARY)
# Of one, two and three pieces; cats has two, and no vector of 金木日 is near another one.
WORDS = ["天", "地", "人", "你", "我", "他", "山水", "火土", "日月", "cats", "dogs", "金木日", "天地人", "unknown"]
VECTORS = np.array(
    [[1, 0, 0], [1, 0.1, 0], [0, 1, 0], [0, 1, 0.2], [0, 1, 0.4], [0.1, 1, 0.1], [1, 0, 1], [1, 0, 0.9], [1, 0.1, 1], [-1, 0, 0],
     [-1, 0.1, 0], [0, 0, 1], [0, -1, 0], [0, 0, 0]],
    "float32",
)  # fmt: skip


@pytest.fixture(scope="module")
def similar():
    return find_similar_words(TOKENIZER, WORDS, VECTORS, 2, 0.5)


def spelled(similar, place):
    return "".join(VOCABULARY.tokens[i].removeprefix("##") for i in similar.pieces[place, : similar.sizes[place]])


def test_similar_words_are_the_nearest_of_as_many_pieces(similar):
    names = [spelled(similar, place) for place in range(len(similar))]
    assert names == [word for word in WORDS if word != "unknown"]  # whose pieces are not known
    assert similar.sizes.tolist() == [1] * 6 + [2] * 5 + [3] * 2
    unit = VECTORS[: len(names)] / np.linalg.norm(VECTORS[: len(names)], axis=1, keepdims=True)
    for place, name in enumerate(names):
        cosines = {
            other: unit[place] @ unit[at]
            for at, other in enumerate(names)
            if at != place and similar.sizes[at] == similar.sizes[place] and unit[place] @ unit[at] >= 0.5
        }
        expected = sorted(cosines, key=cosines.get, reverse=True)[:2]
        found = [names[i] for i in similar.similar[place, : similar.counts[place]]]
        assert found == expected, name
    assert similar.counts[names.index("金木日")] == 0


def test_words_of_a_text_have_the_keys_of_the_same_words_of_the_file(similar):
    text = [("天",), ("山", "水"), ("金", "木", "日"), ("cat", "##s"), ("水", "山"), ("雪",)]
    ids = [VOCABULARY["[CLS]"], *(VOCABULARY[piece] for word in text for piece in word), VOCABULARY["[SEP]"]]
    starts = [0, *(int(place == 0) for word in text for place in range(len(word))), 0]
    maskable = np.array([[False] + [True] * (len(ids) - 2) + [False]])
    ids, starts = np.array([ids], "int32"), np.array([starts], "int32")
    word, _ = words_of(starts, maskable)
    places = places_in_words(word, tf.constant(maskable)).numpy()[0]
    assert places[1:-1].tolist() == [0, 0, 1, 0, 1, 2, 0, 1, 0, 1, 0]
    keys = keys_of(tf.constant(ids), places[None], word, maskable).numpy()[0]
    known = {int(key): spelled(similar, place) for place, key in enumerate(similar.keys())}
    assert len(known) == len(similar)
    assert [known.get(int(key)) for key in keys[:6]] == ["天", "山水", "金木日", "cats", None, None]


def rows_of(count, words, seed=0):
    """Framed rows of random words, each a tuple of pieces; and where the words begin."""
    rng = np.random.default_rng(seed)
    length = 62
    ids, starts = np.zeros((count, length), "int32"), np.zeros((count, length), "int32")
    for row in range(count):
        ids[row, 0], at = VOCABULARY["[CLS]"], 1
        while True:
            word = [VOCABULARY[piece] for piece in words[rng.integers(len(words))]]
            if at + len(word) > length - 1:
                break
            ids[row, at : at + len(word)], starts[row, at] = word, 1
            at += len(word)
        ids[row, at] = VOCABULARY["[SEP]"]
    return ids, starts


def corrupt(op, ids, starts):
    special = [VOCABULARY[token] for token in SPECIAL_TOKENS]
    features = {
        "token_ids": tf.constant(ids), "padding_mask": tf.constant(ids > 0), "word_start": tf.constant(starts),
        "maskable": tf.constant(~np.isin(ids, special)),
        "seed": tf.constant(np.random.default_rng(1).integers(1 << 60, size=len(ids)), tf.uint64),
    }  # fmt: skip
    return {name: np.array(value) for name, value in op(features).items()}


def test_of_the_chosen_words_80_percent_become_similar_10_random_and_10_stay(similar):
    words = [("天",), ("人",), ("山", "水"), ("火", "土"), ("cat", "##s")]
    ids, starts = rows_of(3000, words)
    found = corrupt(replace_by_similar_words(VOCABULARY, similar, 0.15, 10), ids, starts)
    shown, weights, places = found["token_ids"], found["label_weights"] > 0, found["mask_positions"]
    assert (np.take_along_axis(ids, places, 1) == found["labels"])[weights].all()
    chosen = np.zeros(ids.shape, bool)
    for row in range(len(ids)):
        chosen[row, places[row][weights[row]]] = True
    assert (shown == ids)[~chosen].all() and not (shown == VOCABULARY["[MASK]"]).any()
    assert chosen.sum() / (ids > 0).sum() == pytest.approx(0.15, abs=0.01)
    names = {tuple(VOCABULARY[piece] for piece in word): "".join(word).replace("##", "") for word in words}
    near = {
        spelled(similar, place): {spelled(similar, i) for i in similar.similar[place, : similar.counts[place]]}
        for place in range(len(similar))
    }
    kept = alike = other = 0
    for row, at in zip(*np.nonzero(starts), strict=True):
        size = next(len(word) for word in names if tuple(ids[row, at : at + len(word)]) == word)
        part = slice(at, at + size)
        if chosen[row, part].any():
            assert chosen[row, part].all()  # whole words
            before = names[tuple(ids[row, part])]
            after = "".join(VOCABULARY.tokens[i].removeprefix("##") for i in shown[row, part])
            assert after in near, after  # a word of the file with as many pieces, never parts of two
            kept, alike = kept + (after == before), alike + (after in near[before])
            other += after != before and after not in near[before]
    total = kept + alike + other
    assert total > 10_000
    # Of 5 or 6 words of a size a random one is the word itself or one of its two similar ones in some draws.
    assert kept / total == pytest.approx(0.1 + 0.1 / 5.6, abs=0.015)
    assert alike / total == pytest.approx(0.8 + 0.1 * 1.6 / 5.6, abs=0.02)
    assert other / total > 0.04


def test_words_without_similar_ones_become_random_words_and_without_any_file_random_pieces(similar):
    ids, starts = rows_of(800, [("雪", "花"), ("金", "木", "日"), ("雨",) * (LONGEST + 1)])
    for op, alone in (
        (replace_by_similar_words(VOCABULARY, similar, 0.3, 20), False),
        (replace_by_similar_words(VOCABULARY, rate=0.3, num_predictions=20), True),
    ):
        found = corrupt(op, ids, starts)
        changed = found["token_ids"] != ids
        hidden = np.zeros_like(changed)
        for row in range(len(ids)):
            hidden[row, found["mask_positions"][row][found["label_weights"][row] > 0]] = True
        # Of three pieces there are two words, so that half of the random ones are the word itself.
        assert not changed[~hidden].any() and (0.82 if alone else 0.7) < changed[hidden].mean() < 0.9
        new = set(found["token_ids"][changed].tolist())
        assert not new & {VOCABULARY[token] for token in SPECIAL_TOKENS}
        pairs = {
            tuple(found["token_ids"][row, at : at + 2])
            for row, at in zip(*np.nonzero(starts), strict=True)
            if ids[row, at] == VOCABULARY["雪"] and changed[row, at]
        }
        known = {tuple(similar.pieces[i, :2]) for i in range(len(similar)) if similar.sizes[i] == 2}
        assert (len(pairs) > 50) if alone else (pairs == known)


def test_ngrams_of_words_have_the_shares_of_the_paper():
    seed = tf.constant(np.random.default_rng(2).integers(1 << 60, size=400), tf.uint64)
    count = tf.fill([400], 60)
    order, drawn = draw_ngrams(count, 60, seed, len(SHARES), SHARES)
    drawn = np.array(drawn)[np.array(order) < 56]  # near the end of a text only shorter ones fit
    np.testing.assert_allclose(np.bincount(drawn, minlength=5)[1:] / len(drawn), SHARES, atol=0.01)


def test_the_same_example_is_replaced_alike_in_any_batch(similar):
    ids, starts = rows_of(6, [("天",), ("山", "水"), ("cat", "##s")])
    op = replace_by_similar_words(VOCABULARY, similar)
    whole = corrupt(op, ids, starts)
    parts = [corrupt(op, ids[:n], starts[:n]) for n in (1, 6)]  # seeds are those of the place
    for part in parts:
        for name, value in part.items():
            np.testing.assert_array_equal(value, whole[name][: len(value)])
