"""Networks on JAX and PyTorch: weights have the same names, mixers compute the same, and what writes writes the same texts."""

import itertools
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.mixers import small_numbers
from tests.helpers.pages import ROOT
from xmodels import systems
from xmodels.decoding.options import Decoding
from xmodels.layers import mixers
from xmodels.layers.activations import ACTIVATIONS, activation
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import gpt
from xmodels.layers.pullback import pullback
from xmodels.models.backbone import named_weights
from xmodels.models.bert import BertConfig
from xmodels.models.folder import assign, values_of, write_model
from xmodels.runs.fine_tuned import load_generator

BACKENDS = [pytest.param(name, marks=pytest.mark.extra(name)) for name in ("jax", "torch")]
WORDS = ["the", "dog", "a", "house", "ran", "and", "it", "saw", "red", "."]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = ["the dog", "a red house and it"]
HOW = {"greedily": Decoding(temperature=0.0), "by beams": Decoding(num_beams=3)}
# What writes, on which backend and how. JAX compiles each operation for each length, which takes a minute for beams.
SHORT = ("jax", "gpt2", "greedily"), ("torch", "bart", "by beams")
WRITING = [
    pytest.param(*case, marks=[pytest.mark.extra(case[0]), *([] if case in SHORT else [pytest.mark.long])])
    for case in itertools.product(("jax", "torch"), ("gpt2", "transformer", "t5", "bart"), HOW)
]

PROGRAM = """
import json, sys
from tests.layers import test_backends as asked
json.dump(getattr(asked, sys.argv[1])(*sys.argv[3:]), open(sys.argv[2], "w"))
"""


def elsewhere(backend, what, folder, *arguments):
    """What a function of this file gives in a process with another backend."""
    target = f"{folder}/found.json"
    subprocess.run(
        [sys.executable, "-c", PROGRAM, what, target, *map(str, arguments)], check=True, timeout=300,
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    with open(target) as file:
        return json.load(file)


def small_network(name):
    system = systems.load(name)
    return system.MODEL(systems.configuration(system, Vocabulary(TOKENS), next(iter(system.SIZES)))).initialize()


def names_of_weights():
    return {
        name: {key: list(value.shape) for key, value in named_weights(small_network(name)).items()}
        for name in systems.names()
    }


def written(folder, how):
    return load_generator(str(folder)).generate(TEXTS, HOW[how], max_new_tokens=5)


def mixed():
    """What each mixer gives for one text and another with padding, with weights that are the same everywhere."""
    found, real = {}, np.arange(23) < np.array([[23], [18]])
    x = np.random.default_rng(0).normal(size=(2, 23, 16)).astype("float32")
    for name in mixers.names():
        sizes = {"max_sequence_length": 23, "attention_dropout": 0.0, "mixer": name}
        config = BertConfig(50, 16, 2, 2, 32, **sizes, mixer_numbers=small_numbers(name))
        mixer = mixers.find(name).for_block(config, gpt(0.5), 0, {})
        visible = Visible(keras.ops.convert_to_tensor(real), causal="causal" in mixer.requires)
        mixer(x, visible=visible)
        for key, weight in sorted(named_weights(mixer).items()):
            weight.assign(np.random.default_rng(len(key)).normal(0, 0.4, weight.shape).astype("float32"))
        found[name] = keras.ops.convert_to_numpy(mixer(x, visible=visible))[real].tolist()
    return found


def activated():
    """What each activation gives, and the gradient of its sum of squares."""
    x, found = np.linspace(-5, 5, 41).astype("float32"), {}
    for name in ACTIVATIONS:
        values, pull = pullback(activation(name), [keras.ops.convert_to_tensor(x)])
        (gradient,) = pull(2 * values)
        found[name] = [keras.ops.convert_to_numpy(each).tolist() for each in (values, gradient)]
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_activations_and_their_gradients_are_the_same(backend, tmp_path):
    expected = activated()
    for name, values in elsewhere(backend, "activated", tmp_path).items():
        np.testing.assert_allclose(values, expected[name], rtol=3e-6, atol=3e-6, err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixers_compute_the_same(backend, tmp_path):
    expected = mixed()
    for name, values in elsewhere(backend, "mixed", tmp_path).items():
        np.testing.assert_allclose(values, expected[name], atol=2e-5, err_msg=name)


@pytest.mark.long
@pytest.mark.extra("torch")
def test_weights_have_the_same_names(tmp_path):
    """Names are those of attributes, which PyTorch keeps in another order."""
    assert elsewhere("torch", "names_of_weights", tmp_path) == names_of_weights()


@pytest.mark.parametrize(("backend", "name", "how"), WRITING)
def test_texts_are_the_same(backend, name, how, tmp_path):
    tokenizer, drawn = WordPieceTokenizer(Vocabulary(TOKENS)), np.random.default_rng(0)
    keras.utils.set_random_seed(0)
    backbone = small_network(name)
    values = values_of("backbone", backbone)
    # Biases stay as they are: random ones outweigh the text.
    large = {n: v if v.ndim == 1 else drawn.normal(0, 0.2, v.shape).astype("float32") for n, v in values.items()}
    assign("backbone", backbone, large, name)
    folder = tmp_path / "backbone"
    folder.mkdir()
    write_model(str(folder), backbone, None, tokenizer.files(), tokenizer.describe(), name)
    expected = written(tmp_path, how)
    assert elsewhere(backend, "written", tmp_path, tmp_path, how) == expected
    assert len(set(expected)) > 1
