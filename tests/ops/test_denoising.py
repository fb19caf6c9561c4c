"""Noise for encoder-decoders: inputs and targets together give back the text, exactly."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.compose import compose
from data_pipelines.ops.fragment import fragment_length, mask_fragment
from data_pipelines.ops.infilling import draw_lengths, infill_text, permute_sentences, poisson
from data_pipelines.ops.joined import frame_denoising, join_segments, mark_sentences
from data_pipelines.ops.seeds import uniform
from data_pipelines.ops.sentinels import corrupt_spans, corrupted_lengths, num_spans, sentinels_of
from data_pipelines.ops.token_noise import delete_tokens, replace_tokens, rotate_document
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.ops.test_corruption import CLS, MASK, PAD, SEP, VOCABULARY, arrays, parsed_batch, seeds_of
from xmodels.systems import bart

SPECIAL_IDS = {VOCABULARY[token] for token in SPECIAL_TOKENS}

TEXT, FRAMED = 64, 66
SENTINELS = list(range(1099, 999, -1))  # behind the vocabulary, as T5's
EOS = SEP


def text_batch(rows=400):
    features = parsed_batch(rows, np.random.default_rng(2), length=TEXT + 3)
    starts = np.random.default_rng(3).random(features["token_ids"].shape) < 0.15
    features["sentence_start"] = tf.constant(starts.astype(np.int64))
    return join_segments(TEXT)({**features, "seed": seeds_of(range(rows))})


def texts_of(ids, mask):
    return [row[real].tolist() for row, real in zip(ids, mask, strict=True)]


OPS = {
    "fragment": mask_fragment(VOCABULARY, FRAMED),
    "infilling": compose(infill_text(MASK), frame_denoising(VOCABULARY, FRAMED)),
    "sentences": compose(permute_sentences(), frame_denoising(VOCABULARY, FRAMED)),
    "both": compose(permute_sentences(), infill_text(MASK), frame_denoising(VOCABULARY, FRAMED)),
    "sentinels": corrupt_spans(SENTINELS, EOS, TEXT),
    "deletion": compose(delete_tokens(0.2), frame_denoising(VOCABULARY, FRAMED)),
    "masking": compose(replace_tokens(MASK, 0.2), frame_denoising(VOCABULARY, FRAMED)),
    "rotation": compose(rotate_document(), frame_denoising(VOCABULARY, FRAMED)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("corrupt", OPS.values(), ids=OPS)
def test_the_draw_belongs_to_the_example_and_shapes_are_static(corrupt):
    batch = text_batch(48)
    batch["token_ids"] = tf.ensure_shape(batch["token_ids"], (None, TEXT))
    graph = tf.function(corrupt)
    whole = arrays(graph(batch))
    specs = {name: tf.TensorSpec((None, *value.shape[1:]), value.dtype) for name, value in batch.items()}
    shapes = tf.function(corrupt).get_concrete_function(specs).structured_outputs
    for name in ("token_ids", "padding_mask", "target_ids", "labels", "label_weights"):
        assert shapes[name].shape[1] == whole[name].shape[1]
    for part in ([5], [40, 3, 9]):
        some = arrays(corrupt({name: tf.gather(value, part) for name, value in batch.items()}))
        for name, value in some.items():
            np.testing.assert_array_equal(value, whole[name][part])
    other = arrays(corrupt({**batch, "seed": seeds_of(range(48), epoch=1)}))
    assert (other["token_ids"] != whole["token_ids"]).any(1).mean() > 0.6


def test_joined_segments_are_one_text_without_separators():
    features = {
        "token_ids": tf.constant([[10, SEP, 11, 12, 0]], tf.int64), "word_start": tf.constant([[1, 1, 1, 0, 0]]),
        "segment_lengths": tf.constant([[3, 1]], tf.int64),
    }  # fmt: skip
    joined = arrays(join_segments(4, SEP)(features))
    assert joined["token_ids"].tolist() == [[10, 11, 12, 0]]
    assert joined["word_start"].tolist() == [[1, 1, 0, 0]]
    assert joined["padding_mask"].tolist() == [[True, True, True, False]]
    assert arrays(join_segments(2)(features))["token_ids"].tolist() == [[10, SEP]]


def test_a_fragment_and_its_gap_give_back_the_text():
    batch = text_batch()
    clean, made = arrays(batch), arrays(OPS["fragment"](batch))
    whole = np.zeros((400, FRAMED), int)
    for row, text in enumerate(texts_of(clean["token_ids"], clean["padding_mask"])):
        n, used = len(text), made["label_weights"][row] > 0
        framed = [CLS, *text, SEP]
        if n < 5:
            assert not used.any() and made["token_ids"][row, : n + 2].tolist() == framed
            continue
        positions = made["target_position_ids"][row][used]
        assert used.sum() == fragment_length(n) and np.diff(positions).tolist() == [1] * (used.sum() - 1)
        assert [framed[p] for p in positions] == made["target_ids"][row][used].tolist()
        assert [framed[p + 1] for p in positions] == made["labels"][row][used].tolist()
        rebuilt = made["token_ids"][row].copy()
        rebuilt[positions + 1] = made["labels"][row][used]
        assert rebuilt[: n + 2].tolist() == framed
        assert (rebuilt[n + 2 :] == PAD).all() and made["padding_mask"][row].sum() == n + 2
        whole[row, positions + 1] = 1
    hidden = made["token_ids"][whole == 1]
    assert (hidden == MASK).mean() == pytest.approx(0.8, abs=0.02)


def test_a_fragment_opens_or_closes_the_text_in_a_fifth_of_examples_each():
    rows, n = 20_000, 40
    batch = {
        "token_ids": tf.fill((rows, n), 7),
        "padding_mask": tf.fill((rows, n), True),
        "seed": seeds_of(range(rows)),
    }
    made = arrays(mask_fragment(VOCABULARY, n + 2)(batch))
    first = made["target_position_ids"][:, 0]
    edge = 0.2 + 0.6 / 21  # the even draw meets the edges too
    assert (first == 0).mean() == pytest.approx(edge, abs=0.01)
    assert (first == 20).mean() == pytest.approx(edge, abs=0.01)
    assert first.max() == 20
    assert (made["label_weights"].sum(1) == 20).all()


def test_sentinels_replaced_by_their_spans_give_back_the_text():
    batch = text_batch()
    clean, made = arrays(batch), arrays(OPS["sentinels"](batch))
    for row, text in enumerate(texts_of(clean["token_ids"], clean["padding_mask"])):
        inputs = made["token_ids"][row][made["padding_mask"][row]].tolist()
        targets = made["labels"][row][made["label_weights"][row] > 0].tolist()
        assert inputs.pop() == targets.pop() == EOS
        hidden, spans = num_spans(len(text))
        assert len(inputs) == len(text) - hidden + spans and len(targets) == hidden + max(spans, 1)
        answers, sentinel = {}, None
        for token in targets:
            if token in SENTINELS:
                sentinel, answers[token] = token, []
            else:
                answers[sentinel].append(token)
        assert list(answers) == SENTINELS[: max(spans, 1)]
        assert [t for token in inputs for t in answers.get(token, [token])] == text
        if spans:
            assert inputs[0] == text[0] and inputs[-1] in SENTINELS  # visible first, hidden last
        assert made["target_ids"][row, 0] == 0
        np.testing.assert_array_equal(made["target_ids"][row, 1:], made["labels"][row, :-1])


def test_span_corruption_has_the_lengths_of_the_released_preprocessor():
    assert corrupted_lengths(568) == (512, 114)
    assert num_spans(568) == (85, 28)
    with pytest.raises(UsageError, match="28 hidden spans"):
        corrupt_spans([1, 2], EOS, 568)


def test_every_division_of_hidden_tokens_into_spans_is_equally_likely():
    rows, n = 40_000, 34  # 5 hidden tokens in 2 spans: 1+4, 2+3, 3+2, 4+1
    assert num_spans(n) == (5, 2)
    batch = {
        "token_ids": tf.fill((rows, n), 7),
        "padding_mask": tf.fill((rows, n), True),
        "seed": seeds_of(range(rows)),
    }
    made = arrays(corrupt_spans(SENTINELS, EOS, n)(batch))
    second = np.argmax(made["labels"] == SENTINELS[1], axis=1) - 1
    shares = np.bincount(second, minlength=5) / rows
    np.testing.assert_allclose(shares, [0, 0.25, 0.25, 0.25, 0.25], atol=0.01)
    visible = np.bincount(np.argmax(made["token_ids"] == SENTINELS[0], axis=1), minlength=29)[1:29] / rows
    np.testing.assert_allclose(visible, 1 / 28, atol=0.005)


def is_subsequence(short, long):
    rest = iter(long)
    return all(token in rest for token in short)


def test_infilled_text_without_masks_is_the_text_less_whole_words():
    batch = text_batch()
    clean, made = arrays(batch), arrays(OPS["infilling"](batch))
    shares = []
    for row, text in enumerate(texts_of(clean["token_ids"], clean["padding_mask"])):
        answer = made["labels"][row][made["label_weights"][row] > 0].tolist()
        assert answer == [CLS, *text, SEP]
        assert made["target_ids"][row, : len(answer)].tolist() == [SEP, *answer[:-1]]
        noisy = made["token_ids"][row][made["padding_mask"][row]].tolist()
        assert noisy[0] == CLS and noisy[-1] == SEP and MASK in noisy
        left = [token for token in noisy[1:-1] if token != MASK]
        assert is_subsequence(left, text)
        words = np.flatnonzero(clean["word_start"][row][: len(text)])
        bounds = [0, *[w for w in words if w], len(text)]
        pieces = [text[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
        rest = list(left)
        gone = 0
        for piece in pieces:
            if rest[: len(piece)] == piece:
                rest = rest[len(piece) :]
            else:
                gone += 1
        assert not rest  # what is left is whole words
        assert gone <= int(np.ceil(len(pieces) * 0.3))
        shares.append(gone / len(pieces))
    assert 0.2 < np.mean(shares) <= 0.35  # overlapping spans, against rounding up in short texts


def test_no_noise_leaves_the_text():
    batch = text_batch(50)
    corrupt = compose(infill_text(MASK, rate=0.0), frame_denoising(VOCABULARY, FRAMED))
    made = arrays(corrupt(batch))
    np.testing.assert_array_equal(made["token_ids"], made["labels"])


def test_span_lengths_are_poisson_and_cover_the_budget():
    drawn = poisson(uniform(seeds_of(range(500)), 400), 3.0).numpy()
    assert drawn.mean() == pytest.approx(3, abs=0.05) and drawn.var() == pytest.approx(3, abs=0.1)
    assert (drawn == 0).mean() == pytest.approx(np.exp(-3), abs=0.003)
    lengths, empty = draw_lengths(tf.ones((2000, 100), tf.int32), seeds_of(range(2000)), 0.3, 3.0)
    assert (lengths.numpy().sum(1) == 30).all()
    spans = (lengths.numpy() > 0).sum()
    assert empty.numpy().sum() / (spans + empty.numpy().sum()) == pytest.approx(np.exp(-3), abs=0.01)


def test_insertions_stand_anywhere_in_the_text():
    batch = {"token_ids": tf.fill((3000, 40), 7), "padding_mask": tf.sequence_mask([30] * 3000, 40),
             "word_start": tf.ones((3000, 40), tf.int32), "seed": seeds_of(range(3000))}  # fmt: skip
    noisy = arrays(infill_text(MASK, mean=0.5)(batch))
    share = (noisy["token_ids"] == MASK).mean(0)[:28]
    assert share.max() < 1.6 * share.min()
    assert (noisy["padding_mask"].sum(1) > 30).any()  # many empty spans: the text grows


def test_a_share_of_the_masks_are_random_tokens_and_no_special_ones():
    batch = {"token_ids": tf.fill((3000, 40), 7), "padding_mask": tf.sequence_mask([30] * 3000, 40),
             "word_start": tf.ones((3000, 40), tf.int32), "seed": seeds_of(range(3000))}  # fmt: skip
    drawable = np.array([8, 9, 11], np.int32)
    plain, noisy = (arrays(infill_text(MASK, **more)(batch)) for more in ({}, {"drawable": drawable, "random": 0.1}))
    masks = plain["token_ids"] == MASK
    np.testing.assert_array_equal(noisy["token_ids"][~masks], plain["token_ids"][~masks])
    drawn = noisy["token_ids"][masks & (noisy["token_ids"] != MASK)]
    assert len(drawn) / masks.sum() == pytest.approx(0.1, abs=0.005)
    np.testing.assert_allclose(np.unique(drawn, return_counts=True)[1] / len(drawn), 1 / 3, atol=0.03)
    recipe = bart.Options(mask_random=0.5).noises(VOCABULARY)[1]
    ids = arrays(recipe(batch))["token_ids"]
    assert set(np.unique(ids)) - {7} > {MASK} and not set(np.unique(ids)) & (SPECIAL_IDS - {MASK, PAD})


def sentences_of(text, starts):
    bounds = [0, *[i for i in range(1, len(text)) if starts[i]], len(text)]
    return [tuple(text[a:b]) for a, b in zip(bounds, bounds[1:], strict=False)]


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.0])
def test_sentences_move_whole_among_their_own_places(rate):
    batch = text_batch()
    batch["token_ids"] = tf.where(batch["padding_mask"], 5 + tf.range(TEXT), 0)
    clean, made = arrays(batch), arrays(permute_sentences(rate)(batch))
    moved = 0
    for row, text in enumerate(texts_of(clean["token_ids"], clean["padding_mask"])):
        before = sentences_of(text, clean["sentence_start"][row])
        after_text = made["token_ids"][row][made["padding_mask"][row]].tolist()
        assert sorted(after_text) == sorted(text)
        order, rest = [], after_text
        while rest:  # no id stands twice, so a sentence is known by its tokens
            match = [s for s in before if tuple(rest[: len(s)]) == s]
            assert match
            order.append(match[0])
            rest = rest[len(match[0]) :]
        assert sorted(order) == sorted(before)
        places = sum(a != b for a, b in zip(before, order, strict=True))
        assert places <= np.ceil(rate * len(before))
        moved += places
        np.testing.assert_array_equal(made["clean_ids"][row], clean["token_ids"][row])
    assert (moved > 500) if rate else (moved == 0)


def test_orders_of_three_sentences_are_equally_likely():
    rows = 12_000
    batch = {"token_ids": tf.tile([[10, 11, 12]], (rows, 1)), "padding_mask": tf.fill((rows, 3), True),
             "sentence_start": tf.ones((rows, 3), tf.int32), "seed": seeds_of(range(rows))}  # fmt: skip
    made = permute_sentences()(batch)["token_ids"].numpy()
    _, counts = np.unique(made, axis=0, return_counts=True)
    np.testing.assert_allclose(counts / rows, [1 / 6] * 6, atol=0.015)


def test_a_sentence_opens_behind_a_full_stop():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a", ".", "。"])
    batch = {"token_ids": tf.constant([[5, 6, 5, 7, 7, 5, 0]]), "padding_mask": tf.sequence_mask([6], 7)}
    assert mark_sentences(vocabulary)(batch)["sentence_start"].numpy().tolist() == [[1, 0, 1, 0, 0, 1, 0]]


def test_sentinels_are_the_named_tokens_or_else_the_last_ones():
    assert sentinels_of(Vocabulary(list("abc"), required=()), 2) == [2, 1]
    named = Vocabulary(["a", "<extra_id_1>", "<extra_id_0>", "b"], required=())
    assert sentinels_of(named, 1) == [2, 1]


def noisy_texts(op):
    batch = text_batch()
    batch["token_ids"] = tf.where(batch["padding_mask"], 5 + tf.range(TEXT), 0)  # no id stands twice
    clean, made = arrays(batch), arrays(op(batch))
    np.testing.assert_array_equal(made["clean_ids"], clean["token_ids"])
    return zip(
        texts_of(clean["token_ids"], clean["padding_mask"]),
        texts_of(made["token_ids"], made["padding_mask"]),
        strict=True,
    )


def test_deletion_takes_tokens_out_and_masking_leaves_one_mask_for_each():
    for text, noisy in noisy_texts(delete_tokens(0.2)):
        assert len(noisy) == len(text) - np.ceil(len(text) * 0.2) and is_subsequence(noisy, text)
    for text, noisy in noisy_texts(replace_tokens(MASK, 0.2)):
        assert len(noisy) == len(text) and noisy.count(MASK) == np.ceil(len(text) * 0.2)
        assert all(a in (b, MASK) for a, b in zip(noisy, text, strict=True))


@pytest.mark.parametrize(("rate", "moved"), [(1.0, 0.96), (0.5, 0.48), (0.0, 0.0)])
def test_rotation_begins_anywhere_and_loses_nothing(rate, moved):
    firsts = []
    for text, noisy in noisy_texts(rotate_document(rate)):
        first = text.index(noisy[0])
        assert noisy == text[first:] + text[:first]
        firsts.append(first / len(text))
    assert np.mean(np.array(firsts) > 0) == pytest.approx(moved, abs=0.06)
    assert np.mean(firsts) == pytest.approx(rate / 2, abs=0.06)
