"""Recipes of systems: phases that are runs of their own and resume at borders and inside; examples beside the labelled ones."""

import json
import pathlib

import numpy as np
import pytest

from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from xmodels import systems
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import read_weights, write_model
from xmodels.training.loop import Interrupted, Loop

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"
SMALL = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 32}
TRIAL_OF_PHASES = '''"""A trial: BERT whose head learns first, and then everything."""

from xmodels.models.bert import SIZES, Bert
from xmodels.systems import bert
from xmodels.training.finetuning import FineTuning, Phase
from xmodels.training.optimizers.groups import Group

MODEL, NEEDS_WORDS = Bert, False
READING, WRITING = bert.READING, None
recipe = bert.recipe
__all__ = ["SIZES"]


def finetuning(task, network, options):
    if options.layerwise_lr_decay == 0:
        return FineTuning()
    return FineTuning(
        groups=(Group("network", "^backbone", "sgd", "constant", learning_rate=0.1),),
        phases=(Phase("head_first", {"learning_rate": 0.01, "layerwise_lr_decay": 0.0}),),
    )
'''


TRIAL_OF_STREAMS = '''"""A trial: BERT that also makes its answers to texts without labels certain."""

from keras import ops

from data_pipelines.batches.array_source import ArraySource
from xmodels.models.bert import SIZES, Bert
from xmodels.objectives.base import Objective
from xmodels.systems import bert
from xmodels.training.finetuning import FineTuning, OtherExamples

MODEL, NEEDS_WORDS = Bert, False
READING, WRITING = bert.READING, None
recipe = bert.recipe
__all__ = ["SIZES"]


class Certain(Objective):
    """The entropy of the answers."""

    def __init__(self, task):
        super().__init__()
        self.classify = task

    def forward(self, backbone, batch, training=None):
        return self.classify.forward(backbone, batch, training=training)

    def score(self, outputs, batch, backbone):
        logs, weights = ops.log_softmax(outputs["logits"], axis=-1), ops.cast(batch["example_weights"], "float32")
        entropies = -ops.sum(ops.exp(logs) * logs, axis=-1)
        return {"entropy": (ops.sum(entropies * weights), ops.sum(weights))}, {}


def texts(reader, tokenizer):
    arrays = reader.read(tokenizer).source.arrays
    return ArraySource({name: array for name, array in arrays.items() if name != "labels"}, "texts")


def finetuning(task, network, options):
    return FineTuning(streams={"texts": OtherExamples(Certain, texts)}, loss_weights={"entropy": 0.5})
'''


@pytest.fixture
def start(tmp_path, zh_vocabulary, monkeypatch):
    """A function of a trial system: the flags of a fine-tuning of a tiny BERT that it has trained."""
    listing, model = tmp_path / "listing", tmp_path / "model"
    listing.mkdir()
    (listing / "trial_phases.py").write_text(TRIAL_OF_PHASES)
    (listing / "trial_streams.py").write_text(TRIAL_OF_STREAMS)
    monkeypatch.setattr(systems, "__path__", [*systems.__path__, str(listing)])
    tokenizer = open_tokenizer(str(zh_vocabulary))
    backbone = Bert(BertConfig(len(tokenizer.vocabulary), **SMALL)).initialize()
    model.mkdir()
    run = {"init_checkpoint": model, "train_file": SAMPLES / "train.tsv", "max_seq_length": 8, "train_batch_size": 8}
    run |= {"num_train_epochs": 0.2, "pooling": "published", "save_checkpoints_steps": 1}

    def begin(system):
        write_model(str(model), backbone, None, tokenizer.files(), tokenizer.describe(), system)
        return run

    yield begin
    systems.default_for.cache_clear()


def weights(folder):
    return read_weights(folder / "backbone/weights.safetensors")


@pytest.mark.long
def test_a_phase_is_a_run_that_the_next_one_begins_with_and_an_interruption_loses_nothing(
    start, tmp_path, monkeypatch, capsys
):
    start, whole, cut = start("trial_phases"), tmp_path / "whole", tmp_path / "cut"
    assert invoke("finetune", **start, model_dir=whole) == 0
    first, before = weights(whole / "head_first"), read_weights(start["init_checkpoint"] / "weights.safetensors")
    moved = {name.split(".")[1] for name, value in before.items() if not np.array_equal(value, first[name])}
    assert moved == {"pooler"}, "below the top nothing learns in the first phase"
    settings = json.loads((whole / "config.json").read_text())["settings"]
    assert settings["layerwise_lr_decay"] == 1.0 and (whole / "head_first/results.json").is_file()
    assert any(not np.array_equal(value, first[name]) for name, value in weights(whole).items() if "blocks" in name)

    original = Loop.run

    def interrupted(loop, state):
        if loop.folder == str(cut):
            raise Interrupted(15, "nowhere yet")
        return original(loop, state)

    monkeypatch.setattr(Loop, "run", interrupted)
    assert invoke("finetune", **start, model_dir=cut) == 128 + 15
    monkeypatch.setattr(Loop, "run", original)
    capsys.readouterr()
    assert invoke("finetune", **start, model_dir=cut, resume="auto") == 0
    assert f"{cut / 'head_first'}: finished already." in capsys.readouterr().out
    for name, value in weights(whole).items():
        np.testing.assert_array_equal(weights(cut)[name], value, err_msg=name)


@pytest.mark.long
def test_examples_without_labels_are_learnt_in_steps_of_their_own(start, tmp_path):
    run, folder = start("trial_streams"), tmp_path / "run"
    assert invoke("finetune", **run, model_dir=folder, eval_file=SAMPLES / "dev.tsv", log_steps=1) == 0
    logged = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    learnt = [
        sorted({"training/classify", "texts/entropy"} & set(entry)) for entry in logged if entry["kind"] == "train"
    ]
    assert sorted(learnt) == [["texts/entropy"]] * 2 + [["training/classify"]] * 2, (
        "0.2 epochs of 10 steps, and as many beside"
    )
    entropies = [entry["texts/entropy"] for entry in logged if "texts/entropy" in entry]
    assert all(0 < value < 0.5 * np.log(4) + 1e-3 for value in entropies), "multiplied by the weight"
    assert "texts_sha256" in json.loads((folder / "config.json").read_text())
    names = read_weights(folder / "backbone/weights.safetensors")
    assert {name for name in names if name.startswith("objective.")} == {
        "objective.classify.head.kernel", "objective.classify.head.bias"
    }  # fmt: skip
