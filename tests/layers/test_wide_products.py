"""Gradients of wide kernels, computed the other way, are those of Keras' layer; only where it pays."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from xmodels.layers import wide_products
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.wide_products import Dense, transposed_first


@pytest.fixture
def products(monkeypatch):
    """The shapes of the products that are computed the other way."""
    taken, product = [], wide_products._product

    def counted(rows, kernel):
        taken.append((tuple(rows.shape), tuple(kernel.shape)))
        return product(rows, kernel)

    monkeypatch.setattr(wide_products, "_product", counted)
    return taken


def value_and_gradients(layer, x, upstream):
    """What a layer returns, and the gradients of its weights and of x."""
    with tf.GradientTape() as tape:
        x = tf.Variable(x)
        value = layer(x)
    return [value, *tape.gradient(value, [*(v.value for v in layer.trainable_variables), x], upstream)]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("widths", [(8, 1024), (1024, 8)])
@pytest.mark.parametrize("more", [{}, {"use_bias": False}, {"activation": "relu"}])
def test_value_and_gradients_are_those_of_keras(widths, more, products):
    rows, upstream = numbers(512, widths[0]), numbers(512, widths[1], seed=1)
    found = []
    for kind in (keras.layers.Dense, Dense):
        layer = kind(widths[1], **more)
        layer.build(rows.shape)
        layer.kernel.assign(numbers(*widths, seed=2))
        with transposed_first():
            found.append(value_and_gradients(layer, rows, upstream))
    assert products == [((512, widths[0]), widths)]
    assert len(found[0]) == len(found[1]) == 3 + ("use_bias" not in more)
    for expected, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "kernel", "dtype", "taken"),
    [
        ((512, 256), (256, 1024), "float32", True), ((4096, 1024), (1024, 256), "float32", True),
        ((512, 64), (64, 2048), "float32", True),
        ((512, 256), (256, 768), "float32", False),  # rows of other sizes lie in other lines of the cache
        ((512, 512), (512, 2048), "float32", False),  # oneDNN copies both first
        ((504, 256), (256, 1024), "float32", False), ((513, 256), (256, 1024), "float32", False),
        ((512, 256), (256, 1024), "bfloat16", False), ((4, 128, 256), (256, 1024), "float32", False),
    ],
)  # fmt: skip
def test_only_where_it_pays(rows, kernel, dtype, taken, products):
    layer = Dense(kernel[1], dtype=dtype)
    layer.build(rows)
    layer(np.zeros(rows, "float32"))
    assert not products  # nobody asks for it
    with transposed_first():
        layer(np.zeros(rows, "float32"))
        with transposed_first(False):
            layer(np.zeros(rows, "float32"))
    assert len(products) == taken


def test_feed_forward_layers_ask_for_it_and_adapters_learn(products):
    layer = FeedForward(16, 1024, "gelu")
    x = numbers(4, 128, 16)
    layer(x)
    layer.expand.enable_lora(2)
    layer.expand.lora_kernel_b.assign(numbers(2, 1024))
    found = []
    for wanted in (False, True):
        with transposed_first(wanted):
            found.append(value_and_gradients(layer, x, numbers(4, 128, 16, seed=3)))
    assert products == [((512, 16), (16, 1024)), ((512, 1024), (1024, 16))]
    for expected, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-3)
