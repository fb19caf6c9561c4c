"""The language model learns the texts of a task before the task begins, in a run of its own that resumes inside and at its border."""

import dataclasses
import functools
import pathlib
import shutil

import numpy as np
import pytest

from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from xmodels.models.folder import read_weights, write_model
from xmodels.models.gpt2 import Gpt2, Gpt2Config
from xmodels.models.siatl import Siatl, SiatlConfig
from xmodels.objectives.causal_lm import CausalLM
from xmodels.objectives.tied_lm import TiedLM
from xmodels.training.loop import Interrupted, Loop

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"
NETWORKS = {
    "siatl": (Siatl, SiatlConfig, TiedLM, {"num_layers": 1}),
    "gpt2": (Gpt2, Gpt2Config, lambda config: CausalLM(), {"num_layers": 1, "num_heads": 2, "intermediate_dim": 16}),
}
PHASE = "language_model"


@pytest.fixture(scope="module")
def start(tmp_path_factory, zh_vocabulary):
    """A function of a system: the flags of a fine-tuning whose first phase has two steps, and whose second one has two."""
    tokenizer = open_tokenizer(str(zh_vocabulary))

    @functools.cache
    def begin(system):
        model = tmp_path_factory.mktemp(system)
        network, config_class, objective, sizes = NETWORKS[system]
        config = config_class(len(tokenizer.vocabulary), 8, **sizes)
        head, made = objective(config), network(config).initialize()
        batch = {"token_ids": np.ones((1, 2), "int32"), "padding_mask": np.ones((1, 2), bool)}
        head.logits(made(batch)["sequence_output"], made)
        write_model(str(model), made, head, tokenizer.files(), tokenizer.describe(), system)
        return {
            "init_checkpoint": model, "train_file": SAMPLES / "train.tsv", "max_seq_length": 8,
            "train_batch_size": 8, "num_train_epochs": 0.2, "language_model_epochs": 0.2, "learning_rate": 0.01,
            "save_checkpoints_steps": 1,
        }  # fmt: skip

    return begin


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    """A function of a system: the folder of its fine-tuning, without an interruption."""

    @functools.cache
    def run(system):
        folder = tmp_path_factory.mktemp("whole") / system
        assert invoke("finetune", **start(system), model_dir=folder) == 0
        return folder

    return run


def weights(folder):
    return read_weights(folder / "backbone/weights.safetensors")


def moved(before, after):
    """The names of what both have that differs."""
    return {name for name in before.keys() & after.keys() if not np.array_equal(before[name], after[name])}


@pytest.mark.long
def test_the_phase_moves_all_of_the_language_model_and_the_task_begins_with_it(start, tmp_path):
    flags, run = start("siatl"), tmp_path / "run"
    assert invoke("finetune", **flags, model_dir=run, freeze_backbone="true", eval_file=SAMPLES / "dev.tsv") == 0
    before, phase = read_weights(flags["init_checkpoint"] / "weights.safetensors"), weights(run / PHASE)
    assert before.keys() == phase.keys() and "objective.tied_lm.bias" in phase, (
        "a language model, and no head of a task"
    )
    assert {name.split(".")[1] for name in moved(before, phase)} >= {"embedding", "recurrent_layers", "tied_lm"}
    after = weights(run)
    assert not moved(phase, after) and "objective.classify.head.kernel" in after, (
        "a frozen network stays as the phase left it"
    )
    assert not (run / PHASE / "task.json").exists() and (run / "task.json").exists()
    shutil.rmtree(run / "backbone")  # the phase can be used as what it is
    assert invoke("generate", model_dir=run / PHASE, prompt="中", max_new_tokens=2) == 0


@pytest.mark.long
@pytest.mark.parametrize("system", ["siatl", pytest.param("gpt2", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "where",
    ["inside the phase", *(pytest.param(w, marks=pytest.mark.long) for w in ("at its border", "inside the task"))],
)
def test_an_interruption_loses_nothing(
    start, whole, system, where, tmp_path, monkeypatch, capsys
):  # fmt: skip
    flags, cut = start(system), tmp_path / "cut"
    original = Loop.run

    def interrupted(loop, state):
        if loop.folder.endswith(PHASE) != (where == "inside the phase"):
            return original(loop, state)
        if where != "at its border":
            original(dataclasses.replace(loop, num_steps=1), state)
        raise Interrupted(15, "that of the last step")

    monkeypatch.setattr(Loop, "run", interrupted)
    assert invoke("finetune", **flags, model_dir=cut) == 128 + 15
    monkeypatch.setattr(Loop, "run", original)
    capsys.readouterr()
    assert invoke("finetune", **flags, model_dir=cut, resume="auto") == 0
    assert (f"{cut / PHASE}: finished already." in capsys.readouterr().out) == (where != "inside the phase")
    for folder in ("", PHASE):
        assert not moved(weights(whole(system) / folder), weights(cut / folder))


def test_networks_that_read_both_sides_have_no_such_phase(tmp_path, zh_vocabulary, capsys):
    flags = {
        "init_checkpoint": "new:bilstm",
        "vocab_file": zh_vocabulary,
        "train_file": SAMPLES / "train.tsv",
        "language_model_epochs": 1,
    }
    assert invoke("finetune", **flags, model_dir=tmp_path / "run") == 2
    assert (
        "--language_model_epochs=1: needs a network that models language from left to right" in capsys.readouterr().err
    )
