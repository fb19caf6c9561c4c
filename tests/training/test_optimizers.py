"""Optimizers against traces of the originals and, where there are none, against their formulas."""

import json
import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from xmodels.jobs.finetune.rates import defaults_of
from xmodels.training.optimizers.kinds import OPTIMIZERS
from xmodels.training.optimizers.optimization import NUMBERS, Optimization
from xmodels.training.optimizers.optimizers import (
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    BertAdamW,
    BertLamb,
    Lamb,
    LazyAdam,
    MtDnnAdamax,
    Muon,
    Sgd,
    adafactor,
    exclude_from_decay,
)  # fmt: skip
from xmodels.training.schedules.schedules import WarmupLinearDecay

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/optimizers"
GIVEN = np.load(GOLDEN / "bert_and_lamb/inputs.npz")
TRACE = np.load(GOLDEN / "bert_and_lamb/outputs.npz")
NUMBERS_OF_BERT = {"weight_decay": 0.01, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-6}


def make(name, **numbers):
    given = {"learning_rate": 1e-2, "num_warmup_steps": 2, "num_steps": 100} | numbers
    return Optimization(optimizer=name, **given).make_optimizer()


def variables(names):
    return {name: keras.Variable(GIVEN[name], name=name) for name in names}


@pytest.mark.parametrize(("optimizer_class", "prefix"), [(BertAdamW, "adam_weight_decay"), (BertLamb, "lamb")])
def test_optimizer_follows_the_trace_of_google(optimizer_class, prefix):
    weights = variables(["kernel", "bias", "zero"])
    optimizer = optimizer_class(learning_rate=0.02, **NUMBERS_OF_BERT)
    exclude_from_decay(optimizer, weights)
    for step in range(5):
        optimizer.apply([GIVEN[f"grads_{name}"][step] for name in weights], list(weights.values()))
        for name, weight in weights.items():
            np.testing.assert_allclose(weight.numpy(), TRACE[f"{prefix}/{name}"][step], rtol=1e-5, atol=1e-6)


def test_the_fused_step_is_as_close_to_the_trace_as_numbers_of_32_bits_are():
    weights = variables(["kernel", "zero"])
    optimizer = BertAdamW(learning_rate=0.02, **NUMBERS_OF_BERT)
    exclude_from_decay(optimizer, weights)
    for step in range(5):
        optimizer.apply([GIVEN[f"grads_{name}"][step] for name in weights], list(weights.values()))
        for name, weight in weights.items():
            np.testing.assert_allclose(weight.numpy(), TRACE[f"adam_weight_decay/{name}"][step], rtol=1e-6, atol=4e-7)


@pytest.mark.parametrize("name", ["bias", "block.mixer.content_bias", "norm.gamma", "norm.beta", "encoder_norm.scale"])
def test_biases_of_any_name_and_norms_do_not_decay(name):
    weights = {
        name: keras.Variable(np.ones(3)),
        "kernel": keras.Variable(np.ones(3)),
        "v.scale": keras.Variable(np.ones(3)),
    }
    optimizer = BertAdamW(learning_rate=0.02, **NUMBERS_OF_BERT)
    exclude_from_decay(optimizer, weights)
    optimizer.apply([np.zeros(3)] * 3, list(weights.values()))
    assert [float(weight[0]) < 1 for weight in weights.values()] == [False, True, True]


def test_clipping_and_schedule_follow_the_train_op_of_google():
    weights = variables(["kernel", "bias"])
    optimizer = BertAdamW(learning_rate=WarmupLinearDecay(0.02, 3, 12), global_clipnorm=1.0, **NUMBERS_OF_BERT)
    exclude_from_decay(optimizer, weights)
    for step in range(5):
        optimizer.apply([GIVEN[f"grads_{name}"][step] for name in weights], list(weights.values()))
        for name, weight in weights.items():
            np.testing.assert_allclose(weight.numpy(), TRACE[f"bert_train_op/{name}"][step], rtol=1e-5, atol=1e-6)


# Name in the trace -> an optimizer with its numbers, and its L2 penalty, which torch adds to the gradient.
ADAM = {"learning_rate": 0.01, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8}
OF_TORCH = {
    "adam": (lambda: Adam(**ADAM), 0.0),
    "adam_l2": (lambda: Adam(0.01, 0.9, 0.98, 1e-9), 0.1),
    "adamw": (lambda: AdamW(**ADAM | {"epsilon": 1e-6}, weight_decay=0.1), 0.0),
    "adamax": (lambda: Adamax(**ADAM | {"learning_rate": 0.002}), 0.0),
    "sgd_nesterov": (lambda: Sgd(0.1, 0.9, nesterov=True), 0.01),
    "adagrad": (lambda: Adagrad(0.1, initial_accumulator_value=0.0, epsilon=1e-10), 0.0),
}


@pytest.mark.parametrize("name", OF_TORCH)
def test_optimizer_of_keras_follows_the_trace_of_torch(name):
    given, trace = np.load(GOLDEN / "traces/inputs.npz"), np.load(GOLDEN / "traces/outputs.npz")
    make_it, penalty = OF_TORCH[name]
    optimizer, weights = make_it(), [keras.Variable(given[f"initial_{n}"]) for n in "wb"]
    for step in range(6):
        gradients = [given[f"grads_{n}"][step] + penalty * w.numpy() for n, w in zip("wb", weights, strict=True)]
        optimizer.apply(gradients, weights)
        for n, weight in zip("wb", weights, strict=True):
            np.testing.assert_allclose(weight.numpy(), trace[f"{name}/{n}"][step], rtol=1e-5, atol=1e-6)


def test_numbers_of_the_traces_are_those_that_were_tried():
    stored = json.loads((GOLDEN / "traces/config.json").read_text())["hyperparameters"]
    assert stored["adam_l2"]["weight_decay"] == OF_TORCH["adam_l2"][1]
    assert stored["adamax"]["lr"] == 0.002 and stored["sgd_nesterov"]["momentum"] == 0.9


def updated(optimizer, start, gradients):
    """The value of a variable after each of the gradients."""
    weight, values = keras.Variable(np.array(start, "float32")), []
    for gradient in gradients:
        optimizer.apply([np.array(gradient, "float32")], [weight])
        values.append(weight.numpy())
    return values


def test_first_step_is_not_bias_corrected():
    (value,) = updated(BertAdamW(learning_rate=1.0, weight_decay=0.0), np.zeros(3), [np.ones(3)])
    np.testing.assert_allclose(value, -0.1 / (np.sqrt(0.001) + 1e-6), rtol=1e-5)


def test_lazy_adam_changes_the_rows_of_a_sparse_gradient_alone():
    draw, rate = np.random.default_rng(0), 0.1
    start = draw.normal(size=(5, 3)).astype("float32")
    table, optimizer = keras.Variable(start), LazyAdam(rate, beta_1=0.9, beta_2=0.99, epsilon=1e-3)
    weights, m, v = start.astype("float64"), np.zeros((5, 3)), np.zeros((5, 3))
    for step, rows in enumerate(([3, 0], [0, 0, 4], [2, 0]), start=1):
        values = draw.normal(size=(len(rows), 3)).astype("float32")
        if step == 2:
            values[0] = 0.0  # a row that occurs twice has its gradient at one place
        if step == 3:
            values[0] = 0.0  # a row of zeros does not count as read
        optimizer.apply([tf.IndexedSlices(values, tf.constant(rows, tf.int32), tf.constant([5, 3]))], [table])
        for row, gradient in zip(rows, values.astype("float64"), strict=True):
            if gradient.any():
                m[row] = 0.9 * m[row] + 0.1 * gradient
                v[row] = 0.99 * v[row] + 0.01 * gradient**2
                corrected = m[row] / (1 - 0.9**step), np.sqrt(v[row]) / np.sqrt(1 - 0.99**step)
                weights[row] -= rate * corrected[0] / (corrected[1] + 1e-3 / np.sqrt(1 - 0.99**step))
        np.testing.assert_allclose(table.numpy(), weights, atol=1e-6)
    np.testing.assert_array_equal(table.numpy()[[1, 2]], start[[1, 2]])


def test_lazy_adam_is_adam_where_all_rows_are_read():
    draw, found = np.random.default_rng(1), []
    start, gradients = draw.normal(size=(4, 3)), draw.normal(size=(5, 4, 3)).astype("float32")
    for kind in (Adam, LazyAdam):
        table, optimizer = keras.Variable(start.astype("float32")), kind(0.05)
        for gradient in gradients:
            rows = tf.IndexedSlices(gradient, tf.range(4), tf.constant([4, 3]))
            optimizer.apply([rows if kind is LazyAdam else gradient], [table])
        found.append(table.numpy())
    np.testing.assert_allclose(found[1], found[0], atol=5e-6)


def test_adamax_of_mt_dnn_is_neither_corrected_nor_decoupled():
    numbers = {"weight_decay": 0.5, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-2}
    found = updated(MtDnnAdamax(learning_rate=0.1, **numbers), [2.0, -1.0], [[1.0, -0.5], [0.25, 3.0], [0.0, 0.0]])
    w, m, u = np.array([2.0, -1.0]), np.zeros(2), np.zeros(2)
    for gradient, value in zip(([1.0, -0.5], [0.25, 3.0], [0.0, 0.0]), found, strict=True):
        m = 0.9 * m + 0.1 * np.array(gradient)
        u = np.maximum(0.999 * u, np.abs(gradient) + 1e-2)
        w = w - 0.1 * (m / (u + 1e-2) + 0.5 * w)
        np.testing.assert_allclose(value, w, rtol=1e-5)


def test_the_first_step_of_adamax_is_a_tenth_without_correction_and_whole_with_it():
    (plain,) = updated(MtDnnAdamax(learning_rate=0.5, weight_decay=0.0), np.zeros(2), [[3.0, -1e-2]])
    (corrected,) = updated(Adamax(learning_rate=0.5), np.zeros(2), [[3.0, -1e-2]])
    np.testing.assert_allclose(plain, [-0.05, 0.05], rtol=1e-3)
    np.testing.assert_allclose(corrected, [-0.5, 0.5], rtol=1e-3)


def adam_by_formula(start, gradients, form, rate, decay=0.0, beta_1=0.9, beta_2=0.999, epsilon=1e-6):
    """Adam with decoupled decay in float64: the weight after each gradient, element by element.

    `form` says where epsilon stands: "torch", beside the corrected second moment; "keras", beside the plain one (the last form
    of section 2 of the paper, and of TensorFlow's kernel); "bert", likewise, and nothing is corrected.
    """
    w, m, v = np.array(start, "float64"), 0.0, 0.0
    for t, gradient in enumerate(np.array(gradients, "float64"), 1):
        m, v = beta_1 * m + (1 - beta_1) * gradient, beta_2 * v + (1 - beta_2) * gradient**2
        first, second = (1.0, 1.0) if form == "bert" else (1 - beta_1**t, 1 - beta_2**t)
        bound = np.sqrt(v / second) + epsilon if form == "torch" else (np.sqrt(v) + epsilon) / np.sqrt(second)
        w = w - rate * (m / first / bound + decay * w)
        yield w


@pytest.mark.parametrize(("trace", "form"), [("adamw", "torch"), ("adam_weight_decay", "bert")])
def test_the_formula_follows_the_traces_of_the_originals(trace, form):
    """Closely enough that another epsilon, or epsilon in another place, would be seen."""
    if form == "bert":
        names, given, expected = ("kernel", "zero"), GIVEN, TRACE
        numbers, start = {"rate": 0.02, "decay": 0.01}, "{}"
    else:
        given, expected = (np.load(GOLDEN / f"traces/{name}.npz") for name in ("inputs", "outputs"))
        names, numbers, start = "wb", {"rate": 0.01, "decay": 0.1}, "initial_{}"
    arguments = [(given[start.format(name)], given[f"grads_{name}"]) for name in names]
    trace_of = [expected[f"{trace}/{name}"] for name in names]

    def largest_difference(form, **other):
        made = [np.array(list(adam_by_formula(*each, form, **numbers, **other))) for each in arguments]
        return max(np.abs(x - y).max() for x, y in zip(made, trace_of, strict=True))

    assert largest_difference(form) < 2e-6
    assert largest_difference("keras") > 4e-6
    assert largest_difference(form, epsilon=1e-4) > 1e-5


@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e-8])
@pytest.mark.parametrize(("optimizer_class", "form"), [(AdamW, "keras"), (Adam, "keras"), (BertAdamW, "bert")])
def test_epsilon_stands_where_it_stands_in_the_original(optimizer_class, form, scale):
    """With gradients so small that epsilon decides, and from zero, where nothing rounds it away."""
    gradients = GIVEN["grads_kernel"] * scale
    decay = {} if optimizer_class is Adam else {"weight_decay": 0.1}
    optimizer = optimizer_class(learning_rate=0.02, beta_1=0.9, beta_2=0.999, epsilon=1e-6, **decay)
    found = updated(optimizer, np.zeros(gradients.shape[1:]), gradients)
    expected = adam_by_formula(0 * gradients[0], gradients, form, 0.02, decay.get("weight_decay", 0.0))
    np.testing.assert_allclose(found, list(expected), rtol=1e-4)


def test_numbers_that_are_not_given_are_those_of_the_originals():
    assert NUMBERS_OF_BERT.items() <= make("bert_adamw").get_config().items()
    assert make("adamw").epsilon == 1e-6 and make("adam").epsilon == 1e-9 and make("adamax").epsilon == 1e-8


@pytest.mark.parametrize("scale", [1.0, 10.0])
@pytest.mark.parametrize("optimizer_class", [BertLamb, Lamb])
def test_lamb_steps_by_the_norm_of_the_weight_whatever_the_gradient_scale(scale, optimizer_class):
    start = np.array([[3.0, 0.0], [0.0, 4.0]], "float32")
    optimizer = optimizer_class(learning_rate=0.01, epsilon=1e-12)
    (value,) = updated(optimizer, start, [scale * np.array([[1.0, -2.0], [0.5, 3.0]])])
    assert np.linalg.norm(value - start) == pytest.approx(0.01 * 5.0, rel=1e-5)


def test_corrected_lamb_is_that_of_keras_where_nothing_decays():
    start, gradients = GIVEN["kernel"], GIVEN["grads_kernel"]
    ours = updated(Lamb(learning_rate=0.02, weight_decay=0.0, epsilon=1e-6), start, gradients)
    theirs = updated(keras.optimizers.Lamb(learning_rate=0.02, epsilon=1e-6), start, gradients)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    # Without decay the ratio takes out what the correction puts in, up to epsilon.
    original = updated(BertLamb(learning_rate=0.02, weight_decay=0.0, epsilon=1e-6), start, gradients)
    np.testing.assert_allclose(ours, original, rtol=1e-4)


def test_corrected_lamb_follows_algorithm_2_with_decay():
    start, gradients = GIVEN["kernel"].astype("float64"), GIVEN["grads_kernel"].astype("float64")
    numbers = {"learning_rate": 0.02, "weight_decay": 0.5, "epsilon": 1e-6}
    found, original = updated(Lamb(**numbers), start, gradients), updated(BertLamb(**numbers), start, gradients)
    w, m, v = start, 0.0, 0.0
    for t, (gradient, value) in enumerate(zip(gradients, found, strict=True), 1):
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        r = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.5 * w
        w = w - 0.02 * np.linalg.norm(w) / np.linalg.norm(r) * r
        np.testing.assert_allclose(value, w, rtol=1e-4, atol=1e-6)
    assert np.abs(np.array(found) - original).max() > 1e-3


def test_adafactor_is_that_of_keras_on_matrices_and_vectors_below_its_cap():
    for name in ("kernel", "bias"):
        start, gradients = GIVEN[name], GIVEN[f"grads_{name}"]
        ours = updated(Adafactor(learning_rate=0.02, smallest_factored=1), start, gradients)
        theirs = updated(keras.optimizers.Adafactor(learning_rate=0.02), start, gradients)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_adafactor_follows_its_paper_above_the_cap_of_keras():
    start, gradients = GIVEN["kernel"].astype("float64"), GIVEN["grads_kernel"].astype("float64")
    found = updated(Adafactor(learning_rate=3.0, smallest_factored=1), start, gradients)
    w, rows, columns = start, 0.0, 0.0
    for t, (gradient, value) in enumerate(
        zip(gradients, found, strict=True), 1
    ):  # algorithm 4 with section 8's numbers
        beta = 1.0 - t**-0.8
        rows = beta * rows + (1 - beta) * (gradient**2 + 1e-30).sum(axis=1)
        columns = beta * columns + (1 - beta) * (gradient**2 + 1e-30).sum(axis=0)
        u = gradient / np.sqrt(np.outer(rows, columns) / rows.sum())
        u /= max(1.0, np.sqrt(np.mean(u**2)))
        w = w - 3.0 * max(1e-3, np.sqrt(np.mean(w**2))) * u
        np.testing.assert_allclose(value, w, rtol=2e-4)


def test_adafactor_keeps_the_two_largest_axes_and_no_full_copy_of_what_it_factors():
    optimizer = adafactor.Adafactor(smallest_factored=4)
    optimizer.build([keras.Variable(np.zeros(shape, "float32")) for shape in ((8, 2, 4), (8, 3), (9,), (4, 4))])
    assert [[tuple(v.shape) for v in slots] for slots in optimizer._slots] == [
        [(2, 4), (8, 2)], [(8, 3)], [(9,)], [(4,), (4,)],
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [(16, 4, 8), (4, 8, 16)])
def test_adafactor_takes_kernels_of_heads_as_the_matrices_of_t5(shape):
    """Theirs are (512, 512) in T5's small network, whatever the heads (`AttentionParams` of Mesh TensorFlow)."""
    rng = np.random.default_rng(0)
    matrix = (16, 32) if shape[0] == 16 else (32, 16)
    start, gradients = rng.normal(size=matrix).astype("float32"), rng.normal(size=(3, *matrix)).astype("float32")
    expected = updated(Adafactor(learning_rate=0.1, smallest_factored=16), start, gradients)
    optimizer, kernel = (
        Adafactor(learning_rate=0.1, smallest_factored=16),
        keras.Variable(start.reshape(shape), name="kernel"),
    )
    for gradient, value in zip(gradients, expected, strict=True):
        optimizer.apply([gradient.reshape(shape)], [kernel])
        np.testing.assert_array_equal(kernel.numpy().reshape(matrix), value)
    assert [tuple(v.shape) for v in optimizer._slots[0]] == [matrix[1:], matrix[:1]]
    other = keras.Variable(np.zeros((16, 4, 32), "float32"), name="table")
    optimizer = Adafactor(smallest_factored=16)
    optimizer.build([other])
    assert [tuple(v.shape) for v in optimizer._slots[0]] == [(4, 32), (16, 4)]  # two largest axes


def test_a_state_with_whole_moments_of_kernels_of_heads_goes_on():
    made = [
        keras.Variable(np.ones(s, "float32"), name=n)
        for s, n in (((16, 4, 8), "kernel"), ((16, 32), "kernel"), ((9,), "bias"))
    ]
    optimizer = Adafactor(smallest_factored=16)
    optimizer.build(made)
    whole = np.random.default_rng(0).normal(size=(16, 4, 8)).astype("float32")
    rows, columns, bias = np.arange(32.0), np.arange(16.0), np.arange(9.0)
    old = {"00000.iteration": np.array(7), "00001.rate": np.array(0.1)}
    old |= {"00002.v": whole, "00003.r": rows, "00004.c": columns, "00005.v": bias}
    found = optimizer.upgrade(old)
    assert list(found) == list(optimizer.named_variables)
    np.testing.assert_allclose(found["00002.r"], whole.reshape(16, 32).mean(axis=0))
    np.testing.assert_allclose(found["00003.c"], whole.reshape(16, 32).mean(axis=1))
    assert found["00004.r"] is rows and found["00006.v"] is bias and optimizer.upgrade({"x": rows}) == {"x": rows}


def test_muon_takes_kernels_of_heads_as_the_matrices_that_keras_would():
    """A kernel (in, heads, width) or (heads, width, out) moves as (in, out) does by Keras' rule; heads of classes as by AdamW."""
    rng, numbers = np.random.default_rng(0), {"learning_rate": 0.01, "weight_decay": 0.0, "epsilon": 1e-6}
    start, gradients = rng.normal(size=(32, 32)).astype("float32"), rng.normal(size=(3, 32, 32)).astype("float32")

    def moved(optimizer, shape):
        kernel = keras.Variable(start.reshape(-1)[: np.prod(shape)].reshape(shape), name="kernel")
        for gradient in gradients:
            optimizer.apply([gradient.reshape(-1)[: np.prod(shape)].reshape(shape)], [kernel])
        return kernel.numpy()

    expected = moved(keras.optimizers.Muon(**numbers), (32, 32))
    for shape in ((32, 32), (32, 4, 8), (4, 8, 32)):
        found = moved(Muon(**numbers), shape)
        np.testing.assert_allclose(found.reshape(32, 32), expected, rtol=1e-5, atol=1e-6)
    by_adam = moved(keras.optimizers.AdamW(**numbers), (32, 3))
    np.testing.assert_allclose(moved(Muon(**numbers), (32, 3)), by_adam, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_named_optimizer_is_rebuilt_from_its_config(name):
    optimizer = make(name)
    again = type(optimizer).from_config(optimizer.get_config())
    gradients = [[0.5, -1.0]] * 4
    first, second = updated(optimizer, np.ones(2), gradients), updated(again, np.ones(2), gradients)
    np.testing.assert_array_equal(first, second)
    assert np.array_equal(first[0], np.ones(2))  # the first step of a warm-up has rate 0
    assert not np.array_equal(first[-1], np.ones(2))


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "adafactor"])
def test_numbers_that_are_given_arrive(name):
    given = dict.fromkeys(OPTIMIZERS[name].numbers, 0.25)
    config = make(name, **given).get_config()
    arrived = {"adam_beta1": "beta_1", "adam_beta2": "beta_2", "adam_epsilon": "epsilon"}
    assert {config[arrived.get(number, number)] for number in given} == {0.25}
    assert all(make(name).get_config()[arrived.get(n, n)] == v for n, v in OPTIMIZERS[name].numbers.items())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weight_decay_spares_what_is_excluded(name):
    weights = {"a.kernel": keras.Variable(np.ones((2, 2), "float32")), "a.bias": keras.Variable(np.ones(2, "float32"))}
    optimizer = make(name, weight_decay=0.5, learning_rate=0.1, num_warmup_steps=0, schedule="constant")
    exclude_from_decay(optimizer, weights)
    optimizer.apply([np.zeros((2, 2), "float32"), np.zeros(2, "float32")], list(weights.values()))
    expected = 0.9 if "lamb" in name else 0.95  # LAMB scales the decay up to the norm of the weight
    np.testing.assert_allclose(weights["a.kernel"].numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(weights["a.bias"].numpy(), np.ones(2))


def test_every_number_of_an_optimizer_can_be_set():
    assert {number for kind in OPTIMIZERS.values() for number in kind.numbers} == set(NUMBERS)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_defaults_of_a_fine_tuning_suit_whatever_optimizer_is_asked_for(optimizer):
    paper = {"learning_rate": 0.01, "adam_beta1": 0.7, "adam_beta2": 0.99, "weight_decay": 0.1}
    reader = types.SimpleNamespace(options=types.SimpleNamespace(optimizer=optimizer), defaults=lambda: paper)
    kept = defaults_of(reader)
    assert Optimization(num_steps=1, num_warmup_steps=0, optimizer=optimizer, **kept).numbers["weight_decay"] == 0.1
    assert kept["learning_rate"] == 0.01
    assert ("adam_beta1" in kept) == ("adam_beta1" in OPTIMIZERS[optimizer].numbers)
