"""ELECTRA: what a generator samples, what counts as replaced, and what gradients reach."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.errors import UsageError
from data_pipelines.ops.sampled_masks import mask_for_samples
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from xmodels.models.backbone import named_weights
from xmodels.models.electra import SIZES, Electra, ElectraConfig, Generator
from xmodels.objectives.replaced_tokens import ReplacedTokens, put, sample
from xmodels.systems import electra
from xmodels.training.recipe import Records

VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *"abcdefghijklmnopqrst"])
SMALL = ElectraConfig(25, 16, 2, 2, 32, max_sequence_length=40, dropout=0.0, attention_dropout=0.0, embedding_dim=8)


def batch_of(rows=4, length=24, seed=0):
    """Framed rows of random letters, masked."""
    rng = np.random.default_rng(seed)
    lengths = np.arange(length)[None] < rng.integers(length // 2, length + 1, size=(rows, 1))
    features = {
        "token_ids": tf.constant(np.where(lengths, rng.integers(5, 25, (rows, length)), 0).astype("int32")),
        "segment_ids": tf.zeros((rows, length), tf.int32),
        "padding_mask": tf.constant(lengths),
        "maskable": tf.constant(lengths),
        "seed": tf.constant(rng.integers(1 << 60, size=rows), tf.uint64),
    }
    return mask_for_samples(VOCABULARY, 0.15, 5)(features)


def test_masks_keep_a_tenth_and_a_half_of_the_chosen_tokens_and_the_text_itself():
    batch = batch_of(rows=400)
    clean, shown, weights = (np.array(batch[name]) for name in ("clean_ids", "token_ids", "label_weights"))
    places = np.array(batch["mask_positions"])
    assert (np.take_along_axis(clean, places, 1) == np.array(batch["labels"]))[weights > 0].all()
    hidden = np.take_along_axis(shown, places, 1)[weights > 0] == VOCABULARY["[MASK]"]
    assert hidden.mean() == pytest.approx(0.85, abs=0.03)
    assert (
        (shown != clean).sum(axis=1) <= weights.sum(axis=1)
    ).all()  # nothing else is changed, nothing drawn at random
    draws = np.array(batch["draws"])
    assert draws.min() >= 0 and draws.max() < 1 and draws.mean() == pytest.approx(0.5, abs=0.02)


def test_samples_are_distributed_as_the_generator_says_and_belong_to_their_draws():
    logits = np.tile(np.log([0.1, 0.2, 0.3, 0.4]).astype("float32"), (1, 20_000, 1))
    draws = np.random.default_rng(0).random((1, 20_000)).astype("float32")
    found = np.array(sample(ops.convert_to_tensor(logits), draws))[0]
    np.testing.assert_allclose(np.bincount(found, minlength=4) / len(found), [0.1, 0.2, 0.3, 0.4], atol=0.01)
    edges = np.array([[0.0, 0.0999, 0.1001, 0.2999, 0.3001, 0.5999, 0.6001, 0.9999999]], "float32")
    assert np.array(sample(ops.convert_to_tensor(logits[:, :8]), edges))[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_values_are_put_where_they_are_masked_and_nowhere_else():
    batch = {"mask_positions": np.array([[2, 5, 0]], "int32"), "label_weights": np.array([[1, 1, 0]], "float32")}
    found = put(ops.convert_to_tensor(np.arange(7, dtype="int32")[None]), batch, np.array([[70, 80, 90]], "int32"))
    assert np.array(found).tolist() == [[0, 1, 70, 3, 4, 80, 6]]


@pytest.fixture(scope="module")
def network():
    keras.utils.set_random_seed(0)
    backbone = Electra(SMALL).initialize()
    objective = ReplacedTokens(SMALL, Generator(electra.generator_of(SMALL, 0.5)), None)
    objective.forward(backbone, batch_of())
    objective.score(objective.forward(backbone, batch_of()), batch_of(), backbone)
    return backbone, objective


def test_a_sample_that_is_the_original_token_counts_as_original(network):
    backbone, objective = network
    batch = batch_of(rows=64)
    outputs = objective.forward(backbone, batch)
    replaced, clean = np.array(outputs["replaced"]), np.array(batch["clean_ids"])
    tokens = sample(outputs["generator_logits"], batch["draws"])
    shown = np.array(put(ops.cast(batch["clean_ids"], "int32"), batch, tokens))
    assert ((shown != clean) == replaced).all() and 0.05 < replaced[np.array(batch["padding_mask"])].mean() < 0.15
    places, weights = np.array(batch["mask_positions"]), np.array(batch["label_weights"]) > 0
    lucky = (np.array(tokens) == np.array(batch["labels"])) & weights
    assert lucky.any() and not np.take_along_axis(replaced, places, 1)[lucky].any()


def test_the_loss_of_the_network_reaches_neither_the_samples_nor_the_generator(network):
    backbone, objective = network
    batch = batch_of()
    with tf.GradientTape(persistent=True) as tape:
        losses, _ = objective.score(objective.forward(backbone, batch), batch, backbone)
        parts = {name: total / count for name, (total, count) in losses.items()}
    own, body = named_weights(objective), named_weights(backbone)
    generator = [weight.value for name, weight in own.items() if name.startswith("generator.")]
    blocks = [weight.value for name, weight in body.items() if name.startswith("blocks.")]
    table = body["embedding.token.embeddings"].value

    def reaches(loss, weights):
        found = tape.gradient(parts[loss], weights)
        return [each is not None and np.abs(tf.convert_to_tensor(each)).max() > 0 for each in found]

    assert not any(reaches("replaced_tokens", generator)) and not any(reaches("masked_lm", blocks))
    assert all(reaches("masked_lm", [table])) and all(reaches("replaced_tokens", [table]))  # they share embeddings
    assert any(reaches("masked_lm", generator)) and any(reaches("replaced_tokens", blocks))


def test_losses_are_those_of_the_formula(network):
    backbone, objective = network
    batch = batch_of()
    outputs = objective.forward(backbone, batch)
    losses, metrics = objective.score(outputs, batch, backbone)
    logits = np.array(objective.head(outputs["sequence_output"]), "float64")
    replaced, real = np.array(outputs["replaced"]), np.array(batch["padding_mask"])
    each = np.where(replaced, np.log1p(np.exp(-logits)), np.log1p(np.exp(logits)))
    total, count = (float(x) for x in losses["replaced_tokens"])
    assert total == pytest.approx(50 * each[real].sum(), rel=1e-5) and count == real.sum()
    right = ((logits > 0) == replaced)[real].mean()
    assert float(metrics["replaced_accuracy"][0]) / count == pytest.approx(right)


@pytest.mark.parametrize(
    ("size", "sizes"), [("small", (64, 1, 256)), ("base", (256, 4, 1024)), ("large", (256, 4, 1024))]
)
def test_generators_have_the_published_sizes(size, sizes):
    found = electra.generator_of(ElectraConfig(30_522, **SIZES[size]))
    assert (found.hidden_dim, found.num_heads, found.intermediate_dim) == sizes
    assert (found.num_layers, found.embedding_dim) == (SIZES[size]["num_layers"], SIZES[size]["embedding_dim"])


def test_the_small_network_has_the_published_number_of_parameters():
    """14 million (table 1), without the generator's own layers."""
    count = Electra(ElectraConfig(30_522, **SIZES["small"])).initialize().count_params()
    assert 13.4e6 < count < 14.1e6


def test_records_whose_masks_stand_in_them_are_refused():
    with pytest.raises(UsageError, match="Make the records without --masking=static"):
        electra.recipe(VOCABULARY, Records(static=True), "tiny")
