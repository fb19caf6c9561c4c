"""Which networks stand apart, as ONNX and as LiteRT: a classifier on a small network of each system that reads texts."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.text.added_tokens import with_tokens
from data_pipelines.text.framing import pack_texts
from tests.helpers.small_models import TOKENIZER
from tests.helpers.small_systems import small_recipe
from xmodels import systems
from xmodels.export import apart
from xmodels.interfaces.reading import plain_reading
from xmodels.serving.kinds import FILES, LITERT, ONNX
from xmodels.tasks.classify.task import Classify

pytestmark = [pytest.mark.long, pytest.mark.extra("tf2onnx", "onnx", "onnxruntime", "ai_edge_litert")]
TEXTS = [("where does bob live ? ann and dan live in york",), ("many words",), ("",)]
LENGTH = 16
# What is refused, and a word of the reason; docs/exports.md has the same table.
REFUSED = dict.fromkeys([(name, LITERT) for name in ("awd_lstm", "context2vec", "cove", "siatl")], "TensorListReserve")
REFUSED |= {
    ("fasttext", LITERT): "StridedSlice",
    ("star_transformer", LITERT): "Roll",
    ("star_transformer", ONNX): "Pad",
}


def network_of(name):
    """A network of random weights with a classifier on it: (features -> numbers, features of TEXTS)."""
    system = systems.load(name)
    reading = system.READING or plain_reading(system.MODEL, TOKENIZER.vocabulary, bool(system.WRITING)).with_pooling(
        "mean"
    )
    tokenizer = with_tokens(TOKENIZER, reading.added_tokens)
    backbone = small_recipe(name, tokenizer.vocabulary, 2).backbone().initialize()
    reading = reading.with_frame_of(tokenizer, backbone.config)
    task = Classify(backbone.config, ["bad", "so so", "good"], reading=reading)
    features = pack_texts(TEXTS, tokenizer, LENGTH, reading.frame)

    def answer(given):
        return {"probabilities": task.predict(task.forward(backbone, given, training=False))["probabilities"]}

    answer(features)
    generator = np.random.default_rng(5)
    for variable in [*backbone.variables, *task.variables]:
        if variable.dtype == "float32":
            variable.assign_add(generator.normal(0, 0.1, variable.shape))
    return answer, features


def readers():
    """The systems whose networks read texts, but for those that read characters of words, which TOKENIZER has not."""
    found = {name: systems.load(name) for name in systems.names()}
    return [n for n, each in found.items() if each.READING is not None and "character_ids" not in each.MODEL.reads]


@pytest.mark.parametrize("kind", [ONNX, LITERT])
@pytest.mark.parametrize("name", readers())
def test_a_network_that_stands_apart_answers_as_in_keras_or_is_refused_by_name(name, kind, tmp_path):
    answer, features = network_of(name)
    specs = {n: tf.TensorSpec([None] * 2 + list(x.shape[2:]), x.dtype, n) for n, x in sorted(features.items())}
    path = str(tmp_path / FILES[kind])
    if (name, kind) in REFUSED:
        with pytest.raises(UsageError, match=REFUSED[name, kind]):
            apart.write_network(answer, specs, path, kind, "float32")
        return
    network = apart.write_network(answer, specs, path, kind, "float32")
    for rows, length in ((3, LENGTH), (1, 8)):
        given = {n: x[:rows, :length] for n, x in features.items()}
        wanted = answer({n: tf.constant(x) for n, x in given.items()})["probabilities"]
        np.testing.assert_allclose(network(given)["probabilities"], wanted, atol=1e-4)
