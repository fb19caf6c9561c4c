"""MASS hides a fragment from the encoder, has the decoder write it at its old places, and shows each what it may see."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.ops.fragment import attend_to, mask_fragment
from tests.ops.test_corruption import CLS, MASK, PAD, SEP, VOCABULARY, arrays, seeds_of
from tests.ops.test_denoising import FRAMED, TEXT, text_batch, texts_of
from xmodels.layers.attention.visible import Visible
from xmodels.models.mass import SIZES, Mass, MassConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.systems.mass import WRITING, Options

ALL_MASKED = (1.0, 0.0)


def lines(rows=3, n=12):
    ids = np.random.default_rng(rows).integers(10, 60, (rows, n)).astype("int32")
    return {"token_ids": tf.constant(ids), "padding_mask": tf.fill((rows, n), True), "seed": seeds_of(range(rows))}


def network(**more):
    keras.utils.set_random_seed(3)
    config = MassConfig(len(VOCABULARY), 16, 2, 2, 32, 80, dropout=0.0, attention_dropout=0.0, initializer_stddev=0.3)
    return Mass(dataclasses.replace(config, **more)).initialize()


def logits_of(backbone, batch):
    outputs = backbone({name: value for name, value in batch.items() if name not in ("labels", "label_weights")})
    return np.array(backbone.logits(outputs["sequence_output"]))


def test_a_fragment_of_the_whole_text_makes_a_causal_language_model():
    batch = lines()
    made = arrays(mask_fragment(VOCABULARY, 14, 1.0, rates=ALL_MASKED)(batch))
    clean = batch["token_ids"].numpy()
    np.testing.assert_array_equal(made["labels"], clean)
    np.testing.assert_array_equal(made["target_ids"], np.pad(clean[:, :-1], [(0, 0), (1, 0)], constant_values=CLS))
    np.testing.assert_array_equal(made["target_position_ids"], np.tile(np.arange(12), (3, 1)))
    assert made["token_ids"].tolist() == [[CLS, *[MASK] * 12, SEP]] * 3


def test_a_fragment_of_one_token_is_one_hidden_token():
    batch = lines()
    made = arrays(mask_fragment(VOCABULARY, 14, 1e-9, rates=ALL_MASKED)(batch))
    assert made["labels"].shape == (3, 1) and (made["label_weights"] == 1).all()
    for row, text in enumerate(batch["token_ids"].numpy().tolist()):
        framed, place = [CLS, *text, SEP], made["target_position_ids"][row, 0] + 1
        assert made["labels"][row, 0] == framed[place] and made["target_ids"][row, 0] == framed[place - 1]
        framed[place] = MASK
        assert made["token_ids"][row].tolist() == framed


@pytest.mark.parametrize("first_input", ["previous", "mask"])
def test_a_window_has_a_fragment_each_and_the_decoder_writes_them_in_a_row(first_input):
    batch = text_batch()
    clean = arrays(batch)
    made = arrays(mask_fragment(VOCABULARY, FRAMED, 0.5, 16, first_input, ALL_MASKED)(batch))
    assert made["labels"].shape == (400, 32) and TEXT == 64
    begins = []
    for row, text in enumerate(texts_of(clean["token_ids"], clean["padding_mask"])):
        framed, used = np.array([CLS, *text, SEP]), made["label_weights"][row] > 0
        places = made["target_position_ids"][row][used] + 1
        assert used.tolist() == sorted(used, reverse=True) and np.all(np.diff(places) > 0)
        held = [min(16, len(text) - first) for first in range(0, len(text), 16)]
        sizes = [size // 2 if size >= 5 else 0 for size in held]
        assert np.bincount((places - 1) // 16, minlength=len(sizes)).tolist() == sizes
        np.testing.assert_array_equal(framed[places], made["labels"][row][used])
        before, starts = framed[places - 1], np.r_[True, np.diff((places - 1) // 16) > 0][: len(places)]
        if first_input == "mask":
            before = np.where(starts, MASK, before)
        np.testing.assert_array_equal(before, made["target_ids"][row][used])
        for window in range(len(text) // 16):
            inside = places[(places - 1) // 16 == window] - 1
            assert np.all(np.diff(inside) == 1)
            begins.append(inside[0] - 16 * window)
        framed[places] = MASK
        np.testing.assert_array_equal(framed, made["token_ids"][row][: len(framed)])
    shares = np.bincount(begins) / len(begins)  # anywhere, evenly
    assert len(shares) == 9 and shares == pytest.approx([1 / 9] * 9, abs=0.04)


@pytest.mark.parametrize("window", [None, 8])
@pytest.mark.parametrize("min_length", [5, 1])
def test_nothing_of_a_short_text_is_hidden_or_learnt(window, min_length):
    batch = lines(rows=8, n=8) | {"padding_mask": tf.sequence_mask(range(1, 9), 8)}
    batch["token_ids"] *= tf.cast(batch["padding_mask"], tf.int32)
    made = arrays(mask_fragment(VOCABULARY, 10, 0.5, window, rates=ALL_MASKED, min_length=min_length)(batch))
    counts = [n // 2 if window else (n + 1) // 2 for n in range(1, 9)]
    expected = [count if n >= min_length else 0 for n, count in enumerate(counts, 1)]
    assert made["label_weights"].sum(1).tolist() == expected
    assert (made["token_ids"] == MASK).sum(1).tolist() == expected


def test_texts_that_are_all_too_short_are_refused():
    for window in (None, 4):
        with pytest.raises(ValueError, match="fewer than 5 tokens"):
            mask_fragment(VOCABULARY, 20 if window else 6, 0.5, window)


def test_rates_of_what_becomes_of_a_hidden_token():
    batch, rates = text_batch(), (0.3, 0.6)
    clean, made = arrays(batch), arrays(mask_fragment(VOCABULARY, FRAMED, 1.0, rates=rates)(batch))
    real = clean["padding_mask"]
    shown = made["token_ids"][:, 1 : TEXT + 1][real]
    assert (shown == MASK).mean() == pytest.approx(0.3, abs=0.02)
    assert (shown == clean["token_ids"][real]).mean() == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(("encoder", "cross"), [(True, False), (False, False), (True, True)])
def test_the_three_programs_differ_in_who_sees_the_masks(encoder, cross):
    """Changing the embedding of `[MASK]` shows who has looked at it."""
    made = arrays(attend_to(VOCABULARY, encoder, cross)(mask_fragment(VOCABULARY, 14, rates=ALL_MASKED)(lines())))
    hidden = made["token_ids"] == MASK
    np.testing.assert_array_equal(made["encoder_mask"], made["padding_mask"] & (encoder | ~hidden))
    np.testing.assert_array_equal(made["cross_mask"], made["padding_mask"] & (cross | ~hidden))
    backbone = network()
    places, before = np.argwhere(~hidden), np.array(backbone(made)["encoder_output"])
    words_before = logits_of(backbone, made)
    backbone.embedding.token.embeddings.assign_add(np.eye(len(VOCABULARY))[MASK][:, None] * np.linspace(-1, 2, 16) ** 2)
    after, words_after = np.array(backbone(made)["encoder_output"]), logits_of(backbone, made)
    changed = np.abs(after - before)[tuple(places.T)].max() > 1e-4
    assert changed == encoder
    same_words = [i for i in range(len(VOCABULARY)) if i != MASK]
    assert (np.abs(words_after - words_before)[..., same_words].max() > 1e-4) == (encoder or cross)


def test_a_fragment_and_a_whole_target_with_masked_slots_have_the_same_logits():
    """Section 3.1: slots that nobody attends to may as well be left out, if positions stay those of the text."""
    batch = lines()
    made, backbone = arrays(mask_fragment(VOCABULARY, 14, rates=ALL_MASKED)(batch)), network()
    found = logits_of(backbone, made)
    framed = np.pad(batch["token_ids"].numpy(), [(0, 0), (1, 0)], constant_values=CLS)
    inside = np.zeros(framed.shape, bool)
    np.put_along_axis(inside, made["target_position_ids"], True, axis=1)
    source = backbone.encode(made)
    x = backbone.embedding.target(np.where(inside, framed, MASK))
    for block in backbone.decoder_blocks:
        x = block(x, source=source, visible=Visible(inside, causal=True), source_visible=Visible(made["padding_mask"]))
    whole = np.take_along_axis(np.array(backbone.logits(x)), made["target_position_ids"][:, :, None], axis=1)
    np.testing.assert_allclose(found, whole, atol=2e-5)


def test_a_token_behind_reaches_the_encoder_and_no_earlier_word():
    made, backbone = arrays(mask_fragment(VOCABULARY, 14, rates=ALL_MASKED)(lines(4))), network()
    embeddings = backbone.embedding.token.embeddings

    def loss_at(step):
        with tf.GradientTape() as tape:
            x = tf.Variable(backbone.embedding.target(made["target_ids"], made["target_position_ids"]))
            y, source = x, backbone.encode(made)
            for block in backbone.decoder_blocks:
                y = block(y, source=source, visible=Visible(causal=True), source_visible=backbone.source_visible(made))
            value = tf.reduce_sum(y[:, step] ** 3)
        return tape.gradient(value, [x, embeddings.value])

    for step in range(6):
        reached, _ = loss_at(step)
        seen = np.abs(reached.numpy()).max(axis=(0, 2)) > 0
        assert seen.tolist() == [j <= step for j in range(6)]
    before = np.array(backbone(made)["encoder_output"])
    last = {**made, "token_ids": np.where(np.arange(14) == 12, 60, made["token_ids"])}
    assert np.abs(np.array(backbone(last)["encoder_output"]) - before)[:, 1].max() > 1e-4


def test_what_is_learnt_is_the_mean_over_the_tokens_of_fragments():
    made, backbone = arrays(mask_fragment(VOCABULARY, FRAMED)(text_batch(8))), network()
    total, weight = Seq2Seq(0.0).score(backbone(made), made, backbone)[0]["seq2seq"]
    logs = np.log(np.array(keras.ops.softmax(logits_of(backbone, made))))
    named = np.take_along_axis(logs, made["labels"][:, :, None], axis=2)[..., 0]
    assert float(total / weight) == pytest.approx(-named[made["label_weights"] > 0].mean(), rel=1e-4)


def num_weights(c: MassConfig):
    h, inner = c.hidden_dim, c.intermediate_dim
    encoder = 4 * (h * h + h) + 2 * h + 2 * h * inner + inner + h + 2 * h
    decoder = encoder + 4 * (h * h + h) + 2 * h
    return c.num_layers * (encoder + decoder) + c.vocabulary_size * h + 2 * c.max_sequence_length * h + 4 * h


def test_sizes_have_the_published_numbers_of_parameters():
    assert network().count_params() == num_weights(network().config)
    assert num_weights(MassConfig(30522, **SIZES["base"])) == 123_468_288
    assert num_weights(MassConfig(30522, **SIZES["middle"])) == 208_664_576  # published as 208M


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fragment": 0.0}, "above 0"),
        ({"window": 1}, "at least one token"),
        ({"window": 4}, "no more than a `window`"),
        ({"min_length": 0}, "at least 1"),
        ({"first_input": "next"}, "'previous' or 'mask'"),
        ({"mask_rate": 0.8, "random_rate": 0.3}, "more than 1"),
    ],
)
def test_options_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Options(**wrong)


def test_padding_is_never_a_target():
    made = arrays(mask_fragment(VOCABULARY, FRAMED)(text_batch()))
    used = made["label_weights"] > 0
    assert (made["labels"][used] != PAD).all() and (made["labels"][~used] == PAD).all()


def test_a_target_begins_where_the_decoder_of_pretraining_would():
    """Step j has position j and reads the token there, so what fine-tuning writes is a fragment that opens the text."""
    source, target = ([*WRITING.add_special_tokens([20, 21], VOCABULARY, 9, of_target)] for of_target in (False, True))
    assert (source, target) == ([CLS, 20, 21, SEP], [20, 21, SEP])
    assert (WRITING.start_id(VOCABULARY), WRITING.opening_ids(VOCABULARY, of_target=True)) == (CLS, [])
    assert WRITING.add_special_tokens(range(20, 30), VOCABULARY, 4, of_target=True) == [20, 21, 22, SEP]
