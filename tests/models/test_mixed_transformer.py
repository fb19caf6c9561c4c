"""A Transformer with other mixers: full attention is the Transformer, TensorCoder and its reading of a source are what loops give."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from xmodels.layers.attention.visible import Visible
from xmodels.layers.context_matrix import ContextMatrix
from xmodels.models.backbone import named_weights
from xmodels.models.mixed_transformer import MixedTransformer, MixedTransformerConfig
from xmodels.models.mixing import check_mixer
from xmodels.models.transformer import Transformer, TransformerConfig

SMALL = {
    "vocabulary_size": 30, "hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 24, "max_sequence_length": 32,
    "dropout": 0.0, "attention_dropout": 0.0, "intermediate_dropout": 0.0,
}  # fmt: skip


def make(**more):
    keras.utils.set_random_seed(0)
    network = MixedTransformer(MixedTransformerConfig(**SMALL, **more)).initialize()
    for weight in network.weights:
        weight.assign_add(np.random.default_rng(weight.shape[0]).normal(0, 0.2, weight.shape))
    return network


@pytest.fixture(scope="module", params=["attention", "context"])
def network(request):
    return make(mixer="tensorcoder", cross=request.param)


def batch_of(source=12, target=9):
    rng = np.random.default_rng(1)
    return {
        "token_ids": rng.integers(3, 30, (2, source)).astype("int32"), "padding_mask": np.arange(source) < np.array([[source], [7]]),
        "target_ids": rng.integers(3, 30, (2, target)).astype("int32"),
    }  # fmt: skip


def test_with_full_attention_it_is_the_transformer():
    mixed, plain = make(), Transformer(TransformerConfig(**SMALL, attention_bias=True)).initialize()
    weights = named_weights(mixed)
    assert {name: weight.shape for name, weight in named_weights(plain).items()} == {
        n: w.shape for n, w in weights.items()
    }
    for name, weight in named_weights(plain).items():
        weight.assign(weights[name])
    np.testing.assert_array_equal(mixed(batch_of())["sequence_output"], plain(batch_of())["sequence_output"])


def test_it_has_as_many_weights_as_the_transformer(network):
    plain = Transformer(TransformerConfig(**SMALL, attention_bias=True)).initialize()
    assert network.count_params() == plain.count_params()


def test_padding_of_the_source_changes_nothing(network):
    batch = batch_of()
    whole = network(batch)["sequence_output"]
    changed = {**batch, "token_ids": np.where(batch["padding_mask"], batch["token_ids"], 29)}
    np.testing.assert_array_equal(network(changed)["sequence_output"], whole)
    shorter = {**batch, "token_ids": batch["token_ids"][:, :7], "padding_mask": batch["padding_mask"][:, :7]}
    np.testing.assert_allclose(network(shorter)["sequence_output"][1], whole[1], atol=2e-5)
    assert np.abs(network(shorter)["sequence_output"][0] - whole[0]).max() > 1e-3  # there, tokens are missing


def test_no_target_sees_a_later_one_and_all_see_the_source(network):
    block, x = network.decoder_blocks[0], tf.random.normal((1, 9, 16))
    source = tf.random.normal((1, 5, 16))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, source])
        y = tf.reduce_sum(block(x, source=source, visible=Visible(causal=True)) * np.arange(16), axis=-1)
    reached = np.abs(tape.batch_jacobian(y, x, experimental_use_pfor=False)[0]).max(axis=-1) > 0
    assert np.array_equal(reached, np.tril(np.ones((9, 9), bool)))
    assert (np.abs(tape.batch_jacobian(y, source, experimental_use_pfor=False)[0]).max(axis=-1) > 0).all()


@pytest.mark.parametrize("pieces", [(9,), (1,) * 9, (4, 1, 4)], ids=str)
def test_decoding_with_a_state_is_the_whole_target_at_once(network, pieces):
    batch = batch_of()
    whole = network(batch)["sequence_output"]
    past, place, found = network.start(batch, 9), 0, []
    for length in pieces:
        states, past = network.decode(batch["target_ids"][:, place : place + length], past, place)
        found.append(states)
        place += length
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, atol=2e-5)


def test_a_source_is_read_by_the_matrix_of_loops():
    layer = ContextMatrix(2, 6)
    x, source = (np.random.default_rng(i).normal(size=(2, n, 6)).astype("float32") for i, n in enumerate((4, 7)))
    real = np.arange(7) < np.array([[7], [3]])
    found = layer(x, visible=Visible(real), context=source)
    query, key, value = (
        np.array(part(y)) for part, y in ((layer.query, x), (layer.key, source), (layer.value, source))
    )
    mixed = np.zeros((2, 4, 2, 3))
    for row, length in enumerate((7, 3)):
        for head in range(2):
            matrix = np.zeros((3, 3))
            for a in range(3):
                for b in range(3):
                    matrix[a, b] = (
                        sum(key[row, t, head, a] * value[row, t, head, b] for t in range(length)) / length**0.5
                    )
            matrix = np.exp(matrix) / np.exp(matrix).sum(axis=0)  # over the features of keys
            mixed[row, :, head] = query[row, :, head] @ matrix
    np.testing.assert_allclose(found, layer.merge(mixed.astype("float32")), atol=1e-5)
    kept = layer.keep(source, Visible(real))
    np.testing.assert_array_equal(layer.attend_to_kept(x, kept), found)


def test_it_has_no_order_of_its_own_in_the_source():
    layer, draw = ContextMatrix(2, 6), np.random.default_rng(0)
    x, source = draw.normal(size=(1, 4, 6)), draw.normal(size=(1, 7, 6))
    np.testing.assert_allclose(layer(x, context=source), layer(x, context=source[:, ::-1]), atol=1e-5)


def test_what_cannot_stand_in_an_encoder_or_a_decoder_is_refused():
    with pytest.raises(ValueError, match="SparseAttention requires `causal`"):
        make(mixer="sparse")
    with pytest.raises(ValueError, match="SparseAttention requires `causal`"):
        check_mixer("sparse", MixedTransformer)
    check_mixer("performer", MixedTransformer)
    with pytest.raises(ValueError, match="Linformer does not support `causal`"):
        make(mixer="linformer")
    with pytest.raises(ValueError, match="`cross` must be 'attention' or 'context'. Received: 'none'"):
        make(cross="none")
