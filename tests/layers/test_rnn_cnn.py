"""Recurrent and convolutional encoders: cells as a loop in NumPy and as Keras', padding invisible, windows by hand, what a place sees;
and a classifier from random weights."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.helpers.invocation import invoke
from tests.helpers.small_models import TOKENIZER
from xmodels.layers.attention.local_window import LocalWindow
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.complexity import LAYERS, cost_model
from xmodels.layers.convolution import GatedConvolution, TokenWindows
from xmodels.layers.initialization import glorot
from xmodels.layers.recurrent import Bidirectional, GruCell, LstmCell, Recurrent
from xmodels.layers.separable_convolution import SeparableConvolution
from xmodels.models.bigru import BiGru, BiGruConfig
from xmodels.models.bilstm import BiLstm, BiLstmConfig
from xmodels.models.gated_convolution import GatedConvolutionConfig, GatedConvolutions
from xmodels.models.lstmn import Lstmn, LstmnConfig
from xmodels.models.text_cnn import TextCnn, TextCnnConfig
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.training.watching.flops import count

B, L, E, D = 2, 5, 3, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, L, E)).astype("float32")
CELLS = {
    "lstm": LstmCell,
    "gru": GruCell,
    "gru_reset_after": lambda width: GruCell(width, reset_after=True),
}
ENCODERS = {
    "bilstm": lambda: BiLstm(BiLstmConfig(30, 12, embedding_dim=6, dropout=0.0)),
    "bigru": lambda: BiGru(BiGruConfig(30, 12, embedding_dim=6, dropout=0.0)),
    "lstmn": lambda: Lstmn(LstmnConfig(30, 12, num_layers=2, embedding_dim=6, dropout=0.0)),
    "text_cnn": lambda: TextCnn(TextCnnConfig(30, 12, embedding_dim=6)),
    "gated_convolution": lambda: GatedConvolutions(GatedConvolutionConfig(30, 12, 3, dilation_base=2, dropout=0.0)),
}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def drawn(layer, scale=0.5):
    """The layer with other weights, biases too."""
    for i, variable in enumerate(layer.weights):
        variable.assign(np.random.default_rng(i).normal(0, scale, variable.shape))
    return layer


def recurrent(name):
    layer = Recurrent(CELLS[name](D))
    layer(X)
    return drawn(layer)


def lstm_by_loop(layer, x):
    w, b, u = (np.array(v) for v in (layer.gates.kernel, layer.gates.bias, layer.steps.cell.recurrent.kernel))
    h, c, states = np.zeros((len(x), D)), np.zeros((len(x), D)), []
    for step in range(x.shape[1]):
        i, f, g, o = np.split(x[:, step] @ w + b + h @ u, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack(states, axis=1)


def gru_by_loop(layer, x, reset_after):
    cell = layer.steps.cell
    (wz, wr, wh), (bz, br, bh) = (np.split(np.array(v), 3, axis=-1) for v in (layer.gates.kernel, layer.gates.bias))
    (uz, ur), uh = np.split(np.array(cell.recurrent.kernel), 2, axis=1), np.array(cell.recurrent_candidate.kernel)
    after = np.array(cell.recurrent_candidate.bias) if reset_after else 0.0
    h, states = np.zeros((len(x), D)), []
    for step in range(x.shape[1]):
        at = x[:, step]
        z, r = sigmoid(at @ wz + h @ uz + bz), sigmoid(at @ wr + h @ ur + br)
        past = r * (h @ uh + after) if reset_after else (r * h) @ uh
        h = (1 - z) * h + z * np.tanh(at @ wh + bh + past)
        states.append(h)
    return np.stack(states, axis=1)


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_the_loop_of_its_paper(name):
    layer = recurrent(name)
    expected = lstm_by_loop(layer, X) if name == "lstm" else gru_by_loop(layer, X, name == "gru_reset_after")
    np.testing.assert_allclose(layer(X), expected, atol=1e-5)


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_that_of_keras_whose_update_gate_is_the_opposite(name):
    layer = recurrent(name)
    cell, kernel, bias = layer.steps.cell, np.array(layer.gates.kernel), np.array(layer.gates.bias)
    if name == "lstm":
        other, weights = keras.layers.LSTM(D, return_sequences=True), [kernel, np.array(cell.recurrent.kernel), bias]
    else:
        after = name == "gru_reset_after"
        other = keras.layers.GRU(D, return_sequences=True, reset_after=after)
        recurrents = np.concatenate([cell.recurrent.kernel, cell.recurrent_candidate.kernel], axis=1)
        if after:
            bias = np.stack([bias, np.concatenate([np.zeros(2 * D), cell.recurrent_candidate.bias])])
        weights = [kernel, recurrents, bias]
        for weight in weights:
            weight[..., :D] *= -1  # z
    other(X)
    other.set_weights(weights)
    np.testing.assert_allclose(layer(X), other(X), atol=1e-5)


def test_an_lstm_begins_with_open_forget_gates_and_orthogonal_recurrences():
    layer = Recurrent(LstmCell(D))
    layer(X)
    np.testing.assert_array_equal(layer.gates.bias, np.repeat([0, 1, 0, 0], D))
    for part in np.split(np.array(layer.steps.cell.recurrent.kernel), 4, axis=1):
        np.testing.assert_allclose(part @ part.T, np.eye(D), atol=1e-5)


@pytest.mark.parametrize("name", CELLS)
def test_equal_directions_mirror_each_other_on_a_palindrome(name):
    layer = Bidirectional(recurrent(name), recurrent(name))
    palindrome = np.concatenate([X, X[:, ::-1], 9 * np.ones((B, 2, E))], axis=1).astype("float32")
    real = np.arange(2 * L + 2)[None] < np.array([[2 * L], [2 * L]])
    ahead, behind = np.split(np.array(layer(palindrome, real)), 2, axis=-1)
    np.testing.assert_allclose(ahead[:, : 2 * L], behind[:, : 2 * L][:, ::-1], atol=1e-6)
    assert not ahead[:, 2 * L :].any() and not behind[:, 2 * L :].any()


@pytest.mark.parametrize("name", ENCODERS)
def test_padding_changes_nothing_and_a_text_of_none_is_finite(name):
    network, ids = drawn(ENCODERS[name]().initialize(), 0.3), np.array([[4, 7, 9, 2, 11, 3, 8], [5, 3, 0, 0, 0, 0, 0]])
    real = np.arange(7) < np.array([[7], [2]])
    found = network({"token_ids": ids, "padding_mask": real})
    wide = {
        "token_ids": np.pad(ids, ((0, 0), (0, 4)), constant_values=6),
        "padding_mask": np.pad(real, ((0, 0), (0, 4))),
    }
    padded = network(wide)
    for row, length in enumerate((7, 2)):
        text = {"token_ids": ids[row : row + 1, :length], "padding_mask": np.ones((1, length), bool)}
        alone = network(text)
        for other in (found, padded):
            states = np.array(other["sequence_output"])[row]
            np.testing.assert_allclose(states[:length], alone["sequence_output"][0], atol=1e-5)
            np.testing.assert_allclose(other["pooled_output"][row], alone["pooled_output"][0], atol=1e-5)
            assert not states[length:].any() and states.shape[1] == 12
    nothing = network({"token_ids": ids, "padding_mask": np.zeros((2, 7), bool)})
    assert all(np.isfinite(value).all() for value in nothing.values())


def test_a_recurrent_and_a_causal_layer_see_no_future_and_others_do():
    x = tf.constant(RNG.normal(size=(1, 6, D)).astype("float32"))
    lstm = Recurrent(LstmCell(D))
    layers = {True: (lstm, GatedConvolution(D, 3, is_causal=True)), False: (GatedConvolution(D, 3),)}
    for is_causal, group in layers.items():
        for layer in group:
            with tf.GradientTape() as tape:
                tape.watch(x)
                state = layer(x)[:, 2]
            seen = np.abs(tape.gradient(state, x)).sum(axis=(0, 2)) > 0
            assert seen[:3].any() and seen[3:].any() != is_causal, type(layer)


@pytest.mark.parametrize("dilation_base", [1, 2])
@pytest.mark.parametrize("width", [2, 3])
def test_the_receptive_field_is_where_gradients_are(width, dilation_base):
    count, length = 3, 24
    layers = [GatedConvolution(D, width, dilation=dilation_base**i, is_causal=True) for i in range(count)]
    x = tf.constant(RNG.normal(size=(1, length, D)).astype("float32"))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for layer in layers:
            y = layer(y)
        last = y[:, -1]
    seen = (np.abs(tape.gradient(last, x)).sum(axis=(0, 2)) > 0).sum()
    expected = 1 + (width - 1) * (count if dilation_base == 1 else 2**count - 1)
    assert seen == expected


def test_a_gated_convolution_is_a_scaled_sum_and_keras_convolution():
    layer, x = GatedConvolution(D, 3, dilation=2), RNG.normal(size=(2, 9, D)).astype("float32")
    layer(x)
    layer.convolution.kernel.assign(np.zeros_like(layer.convolution.kernel))
    np.testing.assert_array_equal(layer(x), x * np.float32(0.5**0.5))  # nothing is added: the residual alone, scaled
    layer.convolution.bias.assign(np.repeat([1.0, 0.0], D))
    np.testing.assert_allclose(layer(x), (x + 0.5) * 0.5**0.5, atol=1e-6)
    drawn(layer)
    conv = keras.layers.Conv1D(2 * D, 3, padding="same", dilation_rate=2)
    conv(x)
    conv.set_weights([np.array(layer.convolution.kernel).reshape(3, D, 2 * D), np.array(layer.convolution.bias)])
    a, b = np.split(np.array(conv(x)), 2, axis=-1)
    np.testing.assert_allclose(layer(x), (x + a * sigmoid(b)) * 0.5**0.5, atol=1e-5)


N, WIDTH, KERNEL, WINDOW = 10, 6, 3, 4
# What each layer multiplies, for all its steps together: `count times an einsum`.
PRODUCTS = {
    "self_attention": [(4, "nd,de->ne"), (1, "nd,md->nm"), (1, "nm,md->nd")],
    "local_attention": [(4, "nd,de->ne"), (1, "nd,nrd->nr"), (1, "nr,nrd->nd")],
    "lstm": [(4, "nd,de->ne"), (4, "nd,de->ne")],
    "gru": [(3, "nd,de->ne"), (3, "nd,de->ne")],
    "convolution": [(1, "nkd,kde->ne")],
    "gated_convolution": [(2, "nkd,kde->ne")],
    "separable_convolution": [(1, "nkd,kd->nd"), (1, "nd,de->ne")],
}
MADE = {
    "self_attention": lambda: MultiHeadAttention(2, WIDTH, 0.0, glorot()),
    "local_attention": lambda: LocalWindow(2, WIDTH, 0.0, glorot(), window=WINDOW // 2),
    "lstm": lambda: Recurrent(LstmCell(WIDTH)),
    "gru": lambda: Recurrent(GruCell(WIDTH)),
    "convolution": lambda: keras.layers.Conv1D(WIDTH, KERNEL, padding="same"),
    "gated_convolution": lambda: GatedConvolution(WIDTH, KERNEL),
    "separable_convolution": lambda: SeparableConvolution(WIDTH, KERNEL, True, "glorot_uniform"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_costs_are_those_of_the_layers(name):
    cost = cost_model(name, N, WIDTH, kernel_size=KERNEL, window=WINDOW, num_heads=2)
    sizes = {"n": N, "m": N, "d": WIDTH, "e": WIDTH, "k": KERNEL, "r": WINDOW}
    tally = sum(times * np.prod([sizes[axis] for axis in {*each} & {*sizes}]) for times, each in PRODUCTS[name])
    layer = MADE[name]()
    layer(np.zeros((1, N, WIDTH), "float32"))
    assert cost.flops == 2 * tally
    assert cost.parameters == layer.count_params()
    if name not in ("local_attention", "separable_convolution"):  # whose products are of blocks, or of shifted rows
        graph = tf.function(layer).get_concrete_function(tf.TensorSpec((1, N, WIDTH), tf.float32)).graph
        assert count(graph) == cost.flops
    assert cost.sequential_steps == (N if name in ("lstm", "gru") else 1)


def test_paths_grow_as_the_table_says_and_wrong_sizes_are_refused():
    paths = {name: cost_model(name, 81, 8, window=9).longest_path for name in LAYERS}
    assert paths == {
        "self_attention": 1, "local_attention": 9, "lstm": 81, "gru": 81, "convolution": 27, "gated_convolution": 27,
        "separable_convolution": 27,
    }  # fmt: skip
    assert [cost_model("convolution", n, 8, dilated=True).longest_path for n in (1, 3, 81, 82)] == [1, 1, 4, 5]
    assert cost_model("lstm", 81, 8).flops / cost_model("gru", 81, 8).flops == pytest.approx(8 / 6)
    equal = cost_model("self_attention", 64, 64).flops, cost_model("gru", 64, 64).flops
    assert equal[0] == equal[1]  # n = d: 4 n d^2 + 2 n^2 d = 6 n d^2
    assert cost_model("gru", 5, 8, bytes_per_number=2).activation_bytes == 6 * 5 * 8 * 2
    for wrong in ({"layer": "pooling"}, {"n": 0}, {"layer": "convolution", "dilated": True, "kernel_size": 1}):
        with pytest.raises(ValueError, match="Received"):
            cost_model(**{"layer": "lstm", "n": 4, "d": 4} | wrong)


def windows_of(kernel, bias=0.0):
    """A `TokenWindows` with one filter over (width, E) numbers."""
    layer = TokenWindows(1, len(kernel))
    layer(np.zeros((1, 1, len(kernel[0])), "float32"), np.ones((1, 1), bool))
    layer.convolution.kernel.assign(np.reshape(kernel, (-1, 1)))
    layer.convolution.bias.assign([bias])
    return layer


def test_windows_by_hand():
    layer = windows_of([[1.0], [2.0], [-1.0]], bias=0.5)
    x, real = np.array([[[3.0], [1.0], [2.0], [0.0], [0.0]]], "float32"), np.array([[1, 1, 1, 0, 0]], bool)
    states, pooled = (np.array(each)[0] for each in layer(x, real))
    np.testing.assert_allclose(pooled, [3 + 2 - 2 + 0.5])  # the one window inside of the text
    # Around each token: 0 3 1, 3 1 2, 1 2 0.
    np.testing.assert_allclose(states[:3, 0], [6 - 1 + 0.5, 3.5, 1 + 4 + 0.5])
    np.testing.assert_allclose(layer(x[:, :1], real[:, :1])[1], [[3.5]])  # a text of one token: 3 0 0
    np.testing.assert_allclose(windows_of([[-1.0]])(x, real)[1], [[0.0]])  # a ReLU stands before the maximum


def test_far_phrases_may_change_places():
    """Phrases as wide as a window, apart from each other by neutral words: only the largest counts, wherever it stands."""
    layer, gap = windows_of(RNG.normal(size=(3, E))), np.zeros((2, E))
    phrases = [RNG.normal(size=(3, E)) for _ in range(3)]

    def pooled(order):
        parts = [part for i in order for part in (gap, phrases[i])]
        x = np.concatenate([*parts, gap])[None].astype("float32")
        return np.array(layer(x, np.ones(x.shape[:2], bool))[1])

    assert pooled([0, 1, 2]) > 0
    np.testing.assert_allclose(pooled([0, 1, 2]), pooled([2, 0, 1]), atol=1e-6)


def test_widths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="`hidden_dim` must be even"):
        BiLstm(BiLstmConfig(9, 5))
    with pytest.raises(ValueError, match="multiple of the number of `kernel_sizes`"):
        TextCnn(TextCnnConfig(9, 10))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows = [(f"{a} and {b} {verb} in {place}", a) for a in ("ann", "bob") for b in ("car", "dan") for verb in ("live", "many")
            for place in ("york", "rome", "bonn", "oslo")]  # fmt: skip
    path = tmp_path_factory.mktemp("table")
    (path / "texts.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), "utf-8")
    for name, contents in TOKENIZER.files().items():
        (path / name).write_bytes(contents)
    return path


QUICK = {"max_seq_length": 16, "train_batch_size": 8, "distribution_strategy": "one_device", "learning_rate": 1e-2}


@pytest.mark.long
def test_a_classifier_from_random_weights_is_asked_and_exported(table, tmp_path, capsys):
    (tmp_path / "sizes.json").write_text(json.dumps({"hidden_dim": 24, "embedding_dim": 16, "kernel_sizes": [2, 3]}))
    flags = QUICK | {"train_file": table / "texts.tsv", "vocab_file": table / "vocab.txt", "num_train_epochs": 5}
    given = {
        "init_checkpoint": "new:text_cnn/tiny",
        "model_config_file": tmp_path / "sizes.json",
        "model_dir": tmp_path / "run",
    }
    assert invoke("finetune", test_file=table / "texts.tsv", **given, **flags) == 0
    assert "test accuracy: 1.0000" in capsys.readouterr().out
    asked = load(str(tmp_path / "run")).predict([("bob and car live in york",), ("",)])
    assert asked[0].label == "bob"
    assert invoke("export_model", model_dir=tmp_path / "run", export_dir=tmp_path / "served") == 0
    assert invoke("evaluate", model_dir=tmp_path / "run", test_file=table / "texts.tsv") == 0
    assert "bob 16" in capsys.readouterr().out


def test_a_new_network_needs_a_vocabulary_and_a_size(table, tmp_path, capsys):
    flags = {"train_file": table / "texts.tsv", "model_dir": tmp_path / "run"}
    for start, more, message in (
        ("new:bilstm", {}, "a new network needs a vocabulary; name one with --vocab_file"),
        ("new:bigru/bas", {"vocab_file": table / "vocab.txt"}, "bigru has the sizes tiny, base, large. Try base"),
        ("new:story_transformer", {"vocab_file": table / "vocab.txt"}, "does not know how to read"),
        ("new:lstm", {"vocab_file": table / "vocab.txt"}, "unknown network. Did you mean lstmn, bilstm"),
    ):
        assert invoke("finetune", init_checkpoint=start, **flags, **more) in (2, 4)
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ENCODERS)
def test_a_network_comes_back_from_its_configuration(name):
    network = ENCODERS[name]().initialize()
    again = type(network).from_config(network.get_config()).initialize()
    again.set_weights(network.get_weights())
    batch = {"token_ids": np.array([[3, 4, 5]]), "padding_mask": np.ones((1, 3), bool)}
    for found, expected in zip(again(batch).values(), network(batch).values(), strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(found), ops.convert_to_numpy(expected))
