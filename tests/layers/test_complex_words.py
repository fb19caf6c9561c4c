"""Complex words and layers: their equations in complex arithmetic, what a shift of positions does, and what order changes."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.errors import CheckpointError, UsageError
from xmodels.layers import complex_layers
from xmodels.layers.attention.visible import Visible
from xmodels.layers.complex_words import ComplexWords
from xmodels.layers.positions import concatenated_sinusoid
from xmodels.models.backbone import named_weights
from xmodels.models.complex_fasttext import ComplexFastText, ComplexFastTextConfig
from xmodels.models.complex_lstm import ComplexLstm, ComplexLstmConfig
from xmodels.models.complex_rnn import ComplexRnn, ComplexRnnConfig
from xmodels.models.complex_text_cnn import ComplexTextCnn, ComplexTextCnnConfig
from xmodels.models.complex_transformer import ComplexTransformer, ComplexTransformerConfig
from xmodels.runs import changed_flags
from xmodels.training.optimizers.optimizers import NOT_DECAYED

IDS = np.array([[5, 3, 8, 3, 6], [1, 2, 7, 0, 0]])
REAL = IDS > 0
NETWORKS = {
    "fasttext": (ComplexFastText, ComplexFastTextConfig(9, 6)),
    "cnn": (ComplexTextCnn, ComplexTextCnnConfig(9, 12, embedding_dim=5)),
    "rnn": (ComplexRnn, ComplexRnnConfig(9, 8, embedding_dim=5)),
    "lstm": (ComplexLstm, ComplexLstmConfig(9, 8, embedding_dim=5)),
    "transformer": (ComplexTransformer, ComplexTransformerConfig(9, 16, 2, 2, 24)),
}


def numbers(x):
    """A tensor of both parts as complex numbers."""
    real, imaginary = np.split(np.array(x), 2, axis=-1)
    return real + 1j * imaginary


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("sharing", ["none", "word", "dimension", "zero"])
@pytest.mark.parametrize("learned_phase", [False, True])
def test_a_word_is_a_wave(sharing, learned_phase):
    words = ComplexWords(9, 4, sharing, learned_phase)
    found = numbers(words(IDS, REAL))
    tables = {name: np.array(value) for name, value in named_weights(words).items()}
    rows = {"none": 9 * 4, "word": 9, "dimension": 4, "zero": 0}[sharing]
    assert sum(value.size for value in tables.values()) == 9 * 4 + rows + 9 * 4 * learned_phase
    frequency = np.broadcast_to(tables.get("frequency", np.zeros((1, 1))), (9, 4))
    phase = tables.get("phase", np.zeros((9, 4)))
    for row, place in np.argwhere(REAL):
        word = IDS[row, place]
        wave = tables["amplitude.embeddings"][word] * np.exp(1j * (frequency[word] * place + phase[word]))
        np.testing.assert_allclose(found[row, place], wave, atol=1e-5)
    assert not found[~REAL].any()


def test_a_shift_turns_a_word_whatever_its_place():
    words = ComplexWords(9, 4)
    found = numbers(words(np.full((1, 12), 3), np.ones((1, 12), bool)))[0]
    turn = np.exp(1j * np.array(words.frequency)[3] * 5)
    np.testing.assert_allclose(found[5:], found[:-5] * turn, atol=1e-5)
    np.testing.assert_allclose(np.abs(found), np.abs(found[:1]).repeat(12, axis=0), atol=1e-6)


def test_frequencies_of_dimensions_at_amplitude_one_are_a_transformers_positions():
    words = ComplexWords(9, 4, "dimension")
    words(IDS, REAL)
    words.amplitude.embeddings.assign(np.ones((9, 4)))
    cosines, sines = np.split(np.array(words(np.ones((1, 7), int), np.ones((1, 7), bool)))[0], 2, axis=-1)
    np.testing.assert_allclose(
        np.concatenate([sines, cosines], axis=-1), concatenated_sinusoid(np.arange(7), 8), atol=1e-5
    )


def test_frequencies_and_phases_do_not_decay():
    network = ComplexFastText(ComplexFastTextConfig(9, 6, learned_phase=True)).initialize()
    decayed = {name for name in named_weights(network) if not name.endswith(NOT_DECAYED)}
    assert decayed == {"words.amplitude.embeddings"} and len(named_weights(network)) == 3


def test_a_dense_layer_is_a_product_of_complex_matrices():
    layer, x = complex_layers.ComplexDense(3, bias_initializer=keras.initializers.Constant(0.5)), normal(2, 4, 10)
    found = numbers(layer(x))
    kernel, bias = np.array(layer.kernel), numbers(layer.bias)
    np.testing.assert_allclose(found, numbers(x) @ (kernel[0] + 1j * kernel[1]) + bias, atol=1e-5)
    assert sum(w.numpy().size for w in layer.weights) == 2 * 5 * 3 + 2 * 3 and (bias == 0.5 + 0.5j).all()


def test_filters_are_complex_convolutions():
    layer, x = complex_layers.ComplexTokenWindows(3, 3), normal(1, 6, 8)
    states, pooled = layer(x, np.ones((1, 6), bool))
    kernel, bias = np.array(layer.convolution.kernel), numbers(layer.convolution.bias)
    kernel = (kernel[0] + 1j * kernel[1]).reshape(3, 4, 3)
    padded = np.pad(numbers(x)[0], [(1, 1), (0, 0)])
    sums = np.stack([np.einsum("wd,wdf->f", padded[i : i + 3], kernel) for i in range(6)]) + bias
    expected = np.maximum(sums.real, 0) + 1j * np.maximum(sums.imag, 0)
    np.testing.assert_allclose(numbers(states)[0], expected, atol=1e-5)
    inside = expected[1:5]
    np.testing.assert_allclose(numbers(pooled)[0], inside.real.max(0) + 1j * inside.imag.max(0), atol=1e-5)


def test_an_lstm_multiplies_complex_numbers_and_gates_each_part():
    units, x = 3, normal(2, 4, 10)
    layer = ComplexLstm(ComplexLstmConfig(9, 4 * units)).direction(units)
    found = np.array(layer(x))
    kernel = np.array(layer.gates.kernel)
    recurrent = np.array(layer.steps.cell.recurrent.kernel)
    bias = numbers(layer.gates.bias).reshape(4, units)
    np.testing.assert_array_equal(bias, np.array([0, 1 + 1j, 0, 0])[:, None].repeat(units, axis=1))

    def of_parts(function, z):
        return function(z.real) + 1j * function(z.imag)

    def sigmoid(y):
        return 1 / (1 + np.exp(-y))

    def gated(gate, z):
        return of_parts(sigmoid, gate).real * z.real + 1j * of_parts(sigmoid, gate).imag * z.imag

    h = c = np.zeros((2, units), complex)
    for step in range(4):
        sums = numbers(x)[:, step] @ (kernel[0] + 1j * kernel[1]) + h @ (recurrent[0] + 1j * recurrent[1])
        i, f, candidate, o = np.moveaxis(sums.reshape(2, 4, units) + bias, 1, 0)
        c = gated(f, c) + gated(i, of_parts(np.tanh, candidate))
        h = gated(o, of_parts(np.tanh, c))
        np.testing.assert_allclose(numbers(found[:, step]), h, atol=1e-5)


@pytest.mark.parametrize("conjugate", [False, True])
def test_attention_is_that_of_complex_products(conjugate):
    layer, x = complex_layers.ComplexAttention(2, 4, conjugate), normal(2, 5, 8)
    found = numbers(layer(x, visible=Visible(REAL)))
    query, key, value = (numbers(part(x)).reshape(2, 5, 2, 2) for part in (layer.query, layer.key, layer.value))
    scores = np.abs(np.einsum("bqhd,bkhd->bhqk", query, key.conj() if conjugate else key)) / 2**0.5
    shares = np.exp(scores) * REAL[:, None, None]
    mixed = np.einsum("bhqk,bkhd->bqhd", shares / shares.sum(-1, keepdims=True), value).reshape(2, 5, 4)
    both = np.concatenate([mixed.real, mixed.imag], axis=-1).astype("float32")
    np.testing.assert_allclose(found, numbers(layer.merge(both)), atol=1e-5)


def test_hermitian_scores_do_not_change_where_all_places_move():
    """Keys that are not conjugated see sums of angles, which move, as soon as two dimensions have different frequencies."""
    words = ComplexWords(9, 4, "dimension")
    text, rest = [5, 3, 8, 2], [1] * 6
    both = [words(np.array([ids]), np.ones((1, 10), bool)) for ids in (text + rest, rest + text)]
    parts = [ops.split(x[:, begin : begin + 4, None], 2, axis=-1) for x, begin in zip(both, (0, 6), strict=True)]
    for conjugate, moves in ((True, False), (False, True)):
        scores = [np.array(complex_layers.ComplexAttention(1, 4, conjugate).scores(*part, *part)) for part in parts]
        assert (np.abs(scores[0] - scores[1]).max() > 1e-3) == moves


@pytest.mark.parametrize("name", NETWORKS)
def test_order_matters_and_padding_does_not(name):
    keras.utils.set_random_seed(1)
    make, config = NETWORKS[name]
    network = make(config).initialize()
    found = np.array(network({"token_ids": IDS, "padding_mask": REAL})["pooled_output"])
    changed = np.array(network({"token_ids": np.where(REAL, IDS, 4), "padding_mask": REAL})["pooled_output"])
    np.testing.assert_allclose(found, changed, atol=1e-6)
    shorter = np.array(network({"token_ids": IDS[1:, :3], "padding_mask": REAL[1:, :3]})["pooled_output"])
    np.testing.assert_allclose(found[1:], shorter, atol=1e-5)
    turned = np.array(
        network({"token_ids": IDS[:, ::-1].copy(), "padding_mask": REAL[:, ::-1].copy()})["pooled_output"]
    )
    assert np.abs(found[0] - turned[0]).max() > 1e-3


def test_a_bag_of_words_without_frequencies_has_no_order():
    network = ComplexFastText(ComplexFastTextConfig(9, 6, frequency_sharing="zero", learned_phase=True)).initialize()
    found = [
        np.array(network({"token_ids": ids, "padding_mask": ids > 0})["pooled_output"]) for ids in (IDS, IDS[:, ::-1])
    ]
    np.testing.assert_allclose(*found, atol=1e-6)


def test_gradients_are_finite_at_zero():
    layer = complex_layers.ComplexAttention(2, 4)
    x = tf.Variable(np.zeros((1, 3, 8), "float32"))
    with tf.GradientTape() as tape:
        total = ops.sum(layer(x, visible=Visible(np.ones((1, 3), bool))) ** 2)
    assert np.isfinite(tape.gradient(total, x)).all()


def test_widths_that_have_no_two_parts_are_named():
    with pytest.raises(CheckpointError, match="a multiple of twice the number of `kernel_sizes`"):
        ComplexTextCnnConfig.from_json({"vocabulary_size": 9, "hidden_dim": 9})
    with pytest.raises(CheckpointError, match="must be a multiple of 4"):
        ComplexRnnConfig.from_json({"vocabulary_size": 9, "hidden_dim": 6})
    values = {"vocabulary_size": 9, "hidden_dim": 12, "num_layers": 1, "num_heads": 4, "intermediate_dim": 8}
    with pytest.raises(CheckpointError, match="a multiple of twice `num_heads`"):
        ComplexTransformerConfig.from_json(values)


def test_a_run_may_have_the_name_of_its_new_network():
    changed_flags.check_origin("complex_rnn", "new:complex_rnn/tiny")
    with pytest.raises(UsageError, match="is the run of --model_dir itself"):
        changed_flags.check_origin("complex_rnn", "complex_rnn/backbone")
