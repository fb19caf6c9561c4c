"""The recipe of a system may have phases: runs of their own that are finished before, and resume at borders and inside of them."""

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
TRIAL = '''"""A trial: BERT whose head learns first, and then everything."""

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


@pytest.fixture
def start(tmp_path, zh_vocabulary, monkeypatch):
    """The flags of a fine-tuning from a tiny BERT of a system with two phases."""
    listing, model = tmp_path / "listing", tmp_path / "model"
    listing.mkdir()
    (listing / "trial_phases.py").write_text(TRIAL)
    monkeypatch.setattr(systems, "__path__", [*systems.__path__, str(listing)])
    tokenizer = open_tokenizer(str(zh_vocabulary))
    backbone = Bert(BertConfig(len(tokenizer.vocabulary), **SMALL)).initialize()
    model.mkdir()
    write_model(str(model), backbone, None, tokenizer.files(), tokenizer.describe(), "trial_phases")
    run = {"init_checkpoint": model, "train_file": SAMPLES / "train.tsv", "max_seq_length": 8, "train_batch_size": 8}
    yield run | {"num_train_epochs": 0.2, "pooling": "published", "save_checkpoints_steps": 1}
    systems.default_for.cache_clear()


def weights(folder):
    return read_weights(folder / "backbone/weights.safetensors")


def test_a_phase_is_a_run_that_the_next_one_begins_with_and_an_interruption_loses_nothing(
    start, tmp_path, monkeypatch, capsys
):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
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
