"""Heads with poolings of all states lie beside a network of Hugging Face, in a form that answers as ours does."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from data_pipelines.errors import CheckpointError
from tests.helpers.small_models import NAMES
from xmodels.conversion import convert, pooled_heads
from xmodels.models import folder
from xmodels.runs.fine_tuned import load_predictor

LABELS = ("good", "bad", "neither")


@pytest.fixture
def checkpoint(small_bert):
    """A BERT with a classifier of means and maxima."""
    loaded, draw = convert.load(str(small_bert)), np.random.default_rng(0)
    head = {
        "objective.classify.head.kernel": draw.normal(size=(2 * loaded.config.hidden_dim, 3)).astype(np.float32),
        "objective.classify.head.bias": draw.normal(size=3).astype(np.float32),
    }
    backbone = {name: value for name, value in loaded.values.items() if name.startswith("backbone.")}
    return dataclasses.replace(
        loaded, values=backbone | head, heads=frozenset({"classify"}), labels=LABELS, pooling="mean+max", system="bert"
    )


def test_network_and_head_answer_as_the_checkpoint_does(checkpoint, tmp_path):
    convert.save(checkpoint, str(tmp_path / "ours"))
    convert.save(checkpoint, f"hf:{tmp_path / 'theirs'}")
    theirs = tmp_path / "theirs"
    assert json.loads((theirs / "config.json").read_text())["architectures"] == ["BertModel"]
    settings, head = json.loads((theirs / pooled_heads.SETTINGS).read_text()), load_file(theirs / pooled_heads.HEAD)
    assert settings == {"task": "classify", "poolings": ["mean", "max"], "labels": list(LABELS)}

    predictor, texts = load_predictor(str(tmp_path / "ours")), [(NAMES[0],), (" ".join(NAMES[:5]),)]
    expected = [list(each.probabilities.values()) for each in predictor.predict(texts)]
    again = convert.load(f"hf:{theirs}")
    network = folder.model_class(again.model)(again.config).initialize()
    folder.assign("backbone", network, again.values, "theirs")
    features = predictor.features(texts)
    states, real = np.asarray(network(features)["sequence_output"]), features["padding_mask"][..., None]
    pools = {"mean": (states * real).sum(1) / real.sum(1), "max": np.where(real, states, -1e9).max(1)}
    logits = np.concatenate([pools[name] for name in settings["poolings"]], 1) @ head["weight"].T + head["bias"]
    found = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_its_readme_is_a_program(checkpoint, tmp_path):
    convert.save(checkpoint, f"hf:{tmp_path / 'theirs'}")
    text = (tmp_path / "theirs" / pooled_heads.README).read_text()
    program = text.split("```python\n")[1].split("```")[0]
    compile(program, "README.md", "exec")
    assert "softmax(-1) where one label is right" in program and "the mean and the max of all states" in text


@pytest.mark.parametrize("pooling", ["attention", "mix:mean", "mean+last"])
def test_other_heads_are_refused(checkpoint, pooling, tmp_path):
    with pytest.raises(CheckpointError, match="the heads of this format have no --pooling="):
        convert.save(dataclasses.replace(checkpoint, pooling=pooling), f"hf:{tmp_path / 'theirs'}")
    with pytest.raises(CheckpointError, match=r"the heads of this format have no --pooling=mean\+max"):
        convert.save(checkpoint, f"tf1:{tmp_path / 'theirs'}")
