"""DeBERTa: scores by distance, what positions reach, the decoder of masks, and embeddings that are shared in one direction."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.errors import UsageError
from data_pipelines.ops.sampled_masks import mask_for_samples
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from xmodels.layers.attention.disentangled import Disentangled, RelativePositions, rows_of
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import gpt
from xmodels.models.backbone import named_weights
from xmodels.models.deberta_v2 import (
    SIZES,
    SIZES_3,
    DebertaV2,
    DebertaV2Config,
    EnhancedMaskDecoder,
    Generator,
)
from xmodels.models.folder import read_model, write_model
from xmodels.objectives.enhanced_masked_lm import EnhancedMaskedLM
from xmodels.objectives.replaced_tokens_in_context import ReplacedTokensInContext
from xmodels.systems import deberta_v2, deberta_v3
from xmodels.training.recipe import Records

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *"abcdefghijklmnopqrst"])
SMALL = DebertaV2Config(
    25, 16, 3, 2, 24, max_sequence_length=40, initializer_stddev=0.3, position_buckets=6, conv_kernel_size=3, dropout=0.0,
    attention_dropout=0.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def network():
    keras.utils.set_random_seed(0)
    return DebertaV2(SMALL).initialize()


def rows(count, length, seed=0):
    return np.random.default_rng(seed).integers(5, 25, (count, length)).astype("int32")


def test_buckets_hold_one_distance_and_then_ever_wider_ranges():
    found = rows_of(np.arange(-511, 512), 256, 512)
    middle = 511
    assert found[middle] == 256 and found[middle + 128] == 384 and found[middle - 128] == 128  # one row a distance
    assert found[-1] == 511 and found[0] == 1 and (np.diff(found) >= 0).all()
    assert (found + found[::-1] == 512).all()  # both directions alike
    widths = np.unique(found[middle + 129 :], return_counts=True)[1]
    assert len(widths) < 128 and widths[-2] > widths[0]


@pytest.mark.parametrize("kinds", ["c2p|p2c", "c2p", "p2c"])
@pytest.mark.parametrize("shares", [True, False])
def test_scores_are_those_of_the_equation_for_each_pair(kinds, shares):
    """Equation 4, by gathering a row for each query and key."""
    keras.utils.set_random_seed(1)
    positions = RelativePositions(12, 4, 8, keras.initializers.RandomNormal(stddev=0.7), epsilon=1e-7)
    mixer = Disentangled(2, 8, 0.0, gpt(0.6), positions, kinds, shares)
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, 9, 8)).astype("float32"))
    mixer(x)
    query, key = np.array(mixer.query(x[:, :5])), np.array(mixer.key(x))
    found = np.array(mixer.by_position(query, key))  # of fewer queries than keys
    vectors = positions(ops.arange(-11, 12))[None]
    of_key = np.array((mixer.key if shares else getattr(mixer, "position_key", mixer.key))(vectors)[0])
    of_query = np.array((mixer.query if shares else getattr(mixer, "position_query", mixer.query))(vectors)[0])
    expected = np.zeros_like(found)
    for i in range(5):
        for j in range(9):
            if "c2p" in kinds:
                expected[:, :, i, j] += np.einsum("bhk,hk->bh", query[:, i], of_key[i - j + 11])
            if "p2c" in kinds:
                expected[:, :, i, j] += np.einsum("bhk,hk->bh", key[:, j], of_query[i - j + 11])
    np.testing.assert_allclose(found, expected / np.sqrt(4 * (1 + len(kinds.split("|")))), atol=1e-5)


def test_packed_rows_are_read_as_single_ones(network):
    ids = rows(1, 17)
    packs = np.array([[1] * 9 + [2] * 6 + [0] * 2], "int32")
    packed = network({"token_ids": ids, "padding_mask": packs > 0, "pack_ids": packs})["sequence_output"]
    for part in (slice(0, 9), slice(9, 15)):
        single = network({"token_ids": ids[:, part], "padding_mask": np.ones_like(ids[:, part], bool)})
        np.testing.assert_allclose(packed[:, part], single["sequence_output"], atol=2e-5)


def test_padding_is_invisible_also_to_the_convolution(network):
    ids = rows(1, 12, 1)
    whole = network({"token_ids": ids, "padding_mask": np.ones_like(ids, bool)})["sequence_output"]
    padded = np.pad(ids, ((0, 0), (0, 7)), constant_values=9)
    found = network({"token_ids": padded, "padding_mask": np.arange(19)[None] < 12})["sequence_output"]
    np.testing.assert_allclose(found[:, :12], whole, atol=2e-5)
    assert network.passes == []  # the convolution is no block


def test_the_order_of_tokens_matters_and_the_place_of_the_text_does_not(network):
    ids = rows(1, 6, 2)
    shifted = np.pad(ids, ((0, 0), (5, 0)), constant_values=9)
    plain = network({"token_ids": ids, "padding_mask": np.ones_like(ids, bool)})["sequence_output"]
    later = network({"token_ids": shifted, "padding_mask": np.arange(11)[None] >= 5})["sequence_output"]
    np.testing.assert_allclose(later[:, 5:], plain, atol=2e-5)
    other = network({"token_ids": ids[:, ::-1].copy(), "padding_mask": np.ones_like(ids, bool)})["sequence_output"]
    assert np.abs(np.array(other)[:, ::-1] - plain).max() > 0.1


def test_the_decoder_of_masks_passes_the_last_block_twice_with_absolute_positions(network):
    keras.utils.set_random_seed(2)
    decoder = EnhancedMaskDecoder(SMALL)
    ids = rows(2, 10, 3)
    features = {"token_ids": ids, "padding_mask": np.arange(10) < np.array([[10], [7]])}
    states = network.hidden_states(features)
    found = decoder(states[-2], block=network.blocks[-1], features=features)
    table = np.array(decoder.position.embeddings)
    query, visible = states[-2] + table[:10], Visible(features["padding_mask"])
    for _ in range(2):
        query = network.blocks[-1](query, visible=visible, context=states[-2])
    np.testing.assert_allclose(found, query, atol=1e-5)
    outputs = network(features)
    np.testing.assert_allclose(outputs["last_input"], states[-2], atol=1e-6)
    decoder.position.embeddings.assign(np.zeros_like(table))  # nothing absolute is left, so two passes of one block are
    once = network.blocks[-1](states[-2], visible=visible)
    np.testing.assert_allclose(
        decoder(states[-2], block=network.blocks[-1], features=features),
        network.blocks[-1](once, visible=visible, context=states[-2]), atol=1e-5,
    )  # fmt: skip


def test_masked_tokens_are_predicted_from_the_decoded_states(network):
    recipe = deberta_v2.recipe(VOCABULARY, Records(sequence_length=24, num_predictions=4), config=SMALL)
    objective = recipe.objective()
    assert isinstance(objective, EnhancedMaskedLM) and objective.prefix == "objective.masked_lm"
    ids = rows(2, 24, 4)
    batch = {
        "token_ids": ids, "padding_mask": np.ones_like(ids, bool), "mask_positions": np.array([[1, 5, 0, 0]] * 2, "int32"),
        "labels": ids[:, :4], "label_weights": np.array([[1, 1, 0, 0]] * 2, "float32"),
    }  # fmt: skip
    outputs = objective.forward(network, batch)
    logits = objective.logits(outputs, batch, network)
    plain = objective.head(outputs["decoded"], batch["mask_positions"], token_embedding=network.embedding.token)
    np.testing.assert_array_equal(logits, plain)
    losses, _ = objective.score(outputs, batch, network)
    shares = np.log(np.array(ops.softmax(logits, axis=-1)))
    expected = -sum(shares[row, place, ids[row, place]] for row in range(2) for place in range(2))
    assert float(losses["masked_lm"][0]) == pytest.approx(expected, rel=1e-4)
    options = deberta_v2.Options(mask_decoder=False)
    without = deberta_v2.recipe(VOCABULARY, Records(), config=SMALL, options=options).objective()
    assert not hasattr(without.masked_lm, "mask_decoder")


def batch_of(count=4, length=24, seed=0):
    """Framed rows of random letters, of which 15 % are masked."""
    rng = np.random.default_rng(seed)
    real = np.arange(length)[None] < rng.integers(length // 2, length + 1, size=(count, 1))
    features = {
        "token_ids": tf.constant(np.where(real, rng.integers(5, 25, (count, length)), 0).astype("int32")),
        "segment_ids": tf.zeros((count, length), tf.int32), "padding_mask": tf.constant(real), "maskable": tf.constant(real),
        "seed": tf.constant(rng.integers(1 << 60, size=count), tf.uint64),
    }  # fmt: skip
    return mask_for_samples(VOCABULARY, 0.15, 5, masked=1.0)(features)


@pytest.fixture(scope="module")
def sharing():
    """A network and version 3's objective, whose differences are not zero."""
    keras.utils.set_random_seed(3)
    backbone = DebertaV2(SMALL).initialize()
    objective = ReplacedTokensInContext(SMALL, Generator(deberta_v3.generator_of(SMALL)), None)
    objective.score(objective.forward(backbone, batch_of()), batch_of(), backbone)
    shape = objective.generator.token_difference.shape
    objective.generator.token_difference.assign(np.random.default_rng(0).normal(size=shape) * 0.2)
    return backbone, objective


def test_version_3_masks_all_chosen_tokens():
    batch = batch_of(200)
    shown = np.take_along_axis(np.array(batch["token_ids"]), np.array(batch["mask_positions"]), 1)
    assert (shown[np.array(batch["label_weights"]) > 0] == VOCABULARY["[MASK]"]).all()


def test_each_loss_changes_its_own_part_of_the_embeddings(sharing):
    backbone, objective = sharing
    batch = batch_of()
    with tf.GradientTape(persistent=True) as tape:
        losses, _ = objective.score(objective.forward(backbone, batch), batch, backbone)
        parts = {name: total / count for name, (total, count) in losses.items()}
    own, body = named_weights(objective), named_weights(backbone)
    table, difference = body["embedding.token.embeddings"].value, own["generator.token_difference"].value

    def reaches(loss, weight):
        found = tape.gradient(parts[loss], weight)
        return found is not None and bool(np.abs(tf.convert_to_tensor(found)).max() > 0)

    assert reaches("masked_lm", table) and not reaches("masked_lm", difference)
    assert reaches("replaced_tokens", difference) and not reaches("replaced_tokens", table)
    assert reaches("replaced_tokens", body["positions.table"].value) and not reaches(
        "masked_lm", body["positions.table"].value
    )
    assert reaches("masked_lm", own["generator.mask_decoder.position.embeddings"].value)


def test_a_model_folder_has_the_sum_and_a_further_run_begins_with_it(sharing, tmp_path):
    backbone, objective = sharing
    batch = batch_of()
    outputs = objective.forward(backbone, {**batch, "draws": tf.zeros_like(batch["draws"])})
    write_model(str(tmp_path), backbone, objective)
    again, heads = read_model(str(tmp_path))
    name = "embedding.token.embeddings"
    total = np.array(named_weights(backbone)[name]) + np.array(objective.generator.token_difference)
    np.testing.assert_array_equal(named_weights(again)[name], total)
    difference = heads["objective.replaced_tokens.generator.token_difference"]
    assert difference.shape == total.shape and not difference.any()
    ids = rows(2, 9, 5)
    vectors = objective.generator.vectors_for(ids, backbone.embedding)
    features = {"token_ids": ids, "padding_mask": np.ones_like(ids, bool)}
    expected = backbone({**features, "token_vectors": vectors})["sequence_output"]
    np.testing.assert_array_equal(again(features)["sequence_output"], expected)
    assert np.abs(np.array(backbone(features)["sequence_output"]) - expected).max() > 0.01
    assert np.isfinite(outputs["sequence_output"]).all()


def test_the_head_reads_the_sum_with_the_state_of_the_first_token(sharing):
    head = sharing[1].head
    x = np.random.default_rng(6).normal(size=(2, 5, 16)).astype("float32")
    weights = {name: np.array(value, "float64") for name, value in named_weights(head).items()}
    y = x[:, :1] + x.astype("float64")
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-7)
    y = (y * weights["norm.gamma"] + weights["norm.beta"]) @ weights["dense.kernel"] + weights["dense.bias"]
    y = (
        np.array(keras.activations.gelu(y, approximate=False)) @ weights["prediction.kernel"]
        + weights["prediction.bias"]
    )
    np.testing.assert_allclose(head(x), y[..., 0], atol=1e-5)


def count_of(config):
    """The weights of a network by the formula; it holds for one that is small enough to be built."""
    d, f, n = config.hidden_dim, config.intermediate_dim, config.num_layers
    block = 4 * (d * d + d) + 2 * d * f + f + d + 4 * d
    convolution = config.conv_kernel_size * d * d + 3 * d if config.conv_kernel_size else 0
    return n * block + 2 * d + config.num_relative_positions * d + 2 * d + convolution


@pytest.mark.parametrize(
    ("sizes", "size", "millions"),
    [
        (SIZES_3, "xsmall", 22),
        (SIZES_3, "small", 43),
        (SIZES_3, "base", 85),
        (SIZES_3, "large", 303),
        (SIZES, "xlarge", 687),
    ],
)
def test_sizes_have_the_published_numbers_of_parameters(sizes, size, millions):
    """The table of the released networks counts 22, 44, 86 and 304 million beside the tokens, and 900 with 197 of xlarge's tokens."""
    config = DebertaV2Config(128_100, **sizes[size])
    assert count_of(config) / 1e6 == pytest.approx(millions, abs=1.5)
    assert DebertaV2(SMALL).initialize().count_params() == count_of(SMALL) + 25 * 16


def test_records_whose_masks_stand_in_them_are_refused_by_version_3():
    with pytest.raises(UsageError, match="Make the records without --masking=static"):
        deberta_v3.recipe(VOCABULARY, Records(static=True), "tiny")
