"""ULMFiT: a language model, further trained on the texts of a task, whose layers then thaw one after the other, at rates by depth."""

import dataclasses
import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from tests.helpers.invocation import invoke
from tests.helpers.small_learner import Rows
from xmodels import systems
from xmodels.models.awd_lstm import AwdLstm, AwdLstmConfig
from xmodels.models.folder import read_weights
from xmodels.systems import awd_lstm
from xmodels.tasks.classify.task import Classify
from xmodels.training.finetuning import LANGUAGE_MODEL
from xmodels.training.loop import Interrupted, Loop
from xmodels.training.optimizers.grouped import GroupedOptimizer
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single

WORDS = "the king is here and no one was there to see him go home".split()
CONFIG = AwdLstmConfig(13, hidden_dim=6, num_layers=2, recurrent_dim=8, dropout=0.0)
IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0], [2, 9, 10, 3], [4, 3, 0, 0]], "int32")
BATCH = {
    "token_ids": IDS, "padding_mask": IDS > 0, "labels": np.array([0, 1, 1, 0], "int32"),
    "example_weights": np.ones(4, "float32"),
}  # fmt: skip
EPOCH, EPOCHS = 2, 5  # steps of an epoch, and epochs
HEAD = "classify"


def options(**given):
    usual = {"gradual_unfreezing": 1.0, "num_train_epochs": EPOCHS, "language_model_epochs": 1.0}
    return types.SimpleNamespace(**usual | {"auxiliary_lm_weight": None, "set": None} | given)


def learner_of(optimizer="adam", rate=0.01, schedule="slanted_triangular", **given):
    """A learner of two classes, in epochs of two steps."""
    keras.utils.set_random_seed(2)
    backbone = AwdLstm(CONFIG).initialize()
    groups = systems.finetuning(awd_lstm, HEAD, CONFIG, options(**given)).groups
    whole = Optimization(
        num_steps=EPOCH * EPOCHS, learning_rate=rate, num_warmup_steps=0, optimizer=optimizer, schedule=schedule
    )
    task = Classify(CONFIG, "ab", awd_lstm.READING)
    return Learner(
        tf.distribute.get_strategy(), backbone, single(task, Rows(BATCH)), GroupedOptimizer(groups, whole), 0.0
    )


def train(learner, steps):
    learner.train(iter(tf.data.Dataset.from_tensors(BATCH).repeat()), tf.constant(steps))


def values(learner):
    return {name: weight.numpy() for name, weight in learner.trained_weights().items()}


def part(name):
    """The group of a weight."""
    words = name.split(".")
    return "_".join(words[1:3]) if words[1] == "recurrent_layers" else words[1]


def moved(before, after):
    return {part(name) for name in before if not np.array_equal(before[name], after[name])}


def test_an_epoch_thaws_a_layer_and_frozen_ones_and_their_moments_stay_as_they_are():
    learner, thawed = learner_of(), [HEAD]
    for layer in ("recurrent_layers_1", "recurrent_layers_0", "embedding", None):
        before = values(learner)
        train(learner, EPOCH)
        assert moved(before, values(learner)) == set(thawed)
        for kind in ("momentum", "velocity"):  # in the order of the weights
            moments = [v.numpy() for n, v in learner.optimizer.named_variables.items() if n.endswith(kind)]
            for name, value in zip(before, moments, strict=True):
                assert part(name) in thawed or not value.any(), name
        thawed += [layer] if layer else []


def test_each_layer_moves_by_the_step_of_the_one_above_divided_by_the_decay():
    """With gradient descent a step is the rate times the gradient."""
    learner = learner_of("sgd", 1.0, "constant", gradual_unfreezing=0.0)
    before = values(learner)
    train(learner, 1)
    norms = dict(zip(before, learner.gradient_norms.numpy(), strict=True))
    after = values(learner)
    rates = {part(n): np.linalg.norm(after[n] - before[n]) / norms[n] for n in before if norms[n] > 1e-5}
    expected = {HEAD: 1.0, "recurrent_layers_1": 1 / 2.6, "recurrent_layers_0": 2.6**-2, "embedding": 2.6**-3}
    assert rates == pytest.approx(expected, rel=1e-2)


def test_the_language_model_learns_by_rates_of_its_own_and_drops_less():
    wide = dataclasses.replace(CONFIG, hidden_dim=400)
    recipe = systems.finetuning(awd_lstm, HEAD, wide, options())
    (phase,) = recipe.phases
    assert phase.learns == phase.name == LANGUAGE_MODEL and phase.changes["learning_rate"] == 4e-3
    assert [(g.name, g.rate) for g in phase.recipe.groups] == [
        ("layer_1", 1 / 2.6),
        ("layer_0", pytest.approx(2.6**-2)),
    ]
    assert all(group.begins == 0 for group in phase.recipe.groups)
    assert phase.recipe.network == {
        "dropout": 0.1, "hidden_dropout": 0.15, "input_dropout": 0.25, "embedding_dropout": 0.02, "weight_dropout": 0.2, "bptt": 70,
    }  # fmt: skip
    assert recipe.network["weight_dropout"] == 0.5 and recipe.network["embedding_dropout"] == 0.05
    assert [group.begins for group in recipe.groups] == pytest.approx([1 / EPOCHS, 2 / EPOCHS, 3 / EPOCHS])
    assert not systems.finetuning(awd_lstm, HEAD, wide, options(language_model_epochs=0.0)).phases


@pytest.mark.parametrize(("width", "rate"), [(40, 0.04), (400, 0.4), (800, 0.4)])
def test_a_narrow_network_drops_less_in_proportion_to_its_width(width, rate):
    config = dataclasses.replace(CONFIG, hidden_dim=width)
    assert systems.finetuning(awd_lstm, HEAD, config, options()).network["dropout"] == pytest.approx(rate)


def test_numbers_of_the_recipe_are_given_by_name():
    given = options(set="rate_decay=1,dropout_factor=0.5,bptt=0,language_model_rate=0.1", language_model_epochs=2.0)
    recipe = systems.finetuning(awd_lstm, HEAD, CONFIG, given)
    assert {group.rate for group in recipe.groups} == {1.0} and recipe.network["dropout"] == 0.2
    assert recipe.network["bptt"] == 0 and recipe.phases[0].changes["learning_rate"] == 0.1
    assert recipe.phases[0].changes["num_train_epochs"] == 2.0
    for name, value, expected in (
        ("rate_decay", "0.5", "1 or more"), ("language_model_rate", "0", "above 0"), ("dropout_factor", "2", "from 0 to below 2"),
        ("bptt", "-1", "0 or more"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=f"`{name}` must be {expected}. Received: "):
            systems.finetuning(awd_lstm, HEAD, CONFIG, options(set=f"{name}={value}"))
    with pytest.raises(UsageError, match="Known of the recipe of awd_lstm: rate_decay, language_model_rate"):
        systems.finetuning(awd_lstm, HEAD, CONFIG, options(set="rate=1"))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A function of a folder: fine-tunes a small language model, from raw text, in two phases of two and four steps."""
    folder = tmp_path_factory.mktemp("ulmfit")
    draw = np.random.default_rng(0)
    lines = [" ".join(draw.choice(WORDS, 8)) + ("\n" if i % 5 else "\n\n") for i in range(120)]
    (folder / "corpus.txt").write_text("".join(lines), encoding="utf-8")
    text = {"input_file": folder / "corpus.txt"}
    assert invoke("train_vocabulary", **text, tokenizer="words", vocab_size=30, output_file=folder / "words") == 0
    made = {"vocab_file": folder / "words", "output_dir": folder / "stream", "packing": "stream_varied"}
    assert invoke("create_pretraining_data", **text, **made, max_seq_length=16) == 0
    run = {"data_dir": folder / "stream", "model_dir": folder / "run", "num_train_steps": 2, "train_batch_size": 4}
    assert invoke("pretrain", system="awd_lstm", size="tiny", **run) == 0
    rows = [f"{'good' if i % 2 else 'bad'}\t{'the king is' if i % 2 else 'no one was'} here" for i in range(16)]
    (folder / "train.tsv").write_text("label\ttext\n" + "\n".join(rows) + "\n", encoding="utf-8")
    flags = {"init_checkpoint": folder / "run", "train_file": folder / "train.tsv", "max_seq_length": 8}
    flags |= {"train_batch_size": 8, "num_train_epochs": 2, "gradual_unfreezing": 0.5, "save_checkpoints_steps": 1}
    return lambda model, **given: invoke("finetune", **flags | given, model_dir=model)


@pytest.fixture(scope="module")
def whole(tuned, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert tuned(folder, log_steps=1) == 0
    return folder


def weights(folder):
    return read_weights(folder / "backbone/weights.safetensors")


@pytest.mark.long
def test_raw_text_becomes_a_classifier_that_is_served(whole, tmp_path, capsys):
    logged = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    logged = [entry for entry in logged if entry["kind"] == "train"]
    assert [entry["layer_0/learning_rate"] > 0 for entry in logged] == [False, True, True, True]  # of the next step
    assert [entry["embedding/learning_rate"] > 0 for entry in logged] == [False, False, True, True]
    assert {"activation", "temporal_activation", "classify"} <= logged[0].keys()
    card = (whole / "model_card.md").read_text(encoding="utf-8")
    assert "layer_1: adam at 0.00384615, slanted_triangular, from step 1" in card
    phase = json.loads((whole / "language_model/backbone/config.json").read_text())["config"]
    assert (phase["weight_dropout"], phase["bptt"]) == (
        pytest.approx(0.2 * 32 / 400),
        70,
    )  # of the width, in parts of 400
    after = weights(whole)
    assert {n.split("network.")[1] for n in after if "network." in n} == {
        f"{norm}.{name}" for norm in ("pooled_norm", "hidden_norm")
        for name in ("gamma", "beta", "moving_mean", "moving_variance", "num_batches")
    } | {"hidden.kernel", "hidden.bias"}  # fmt: skip
    assert after["objective.classify.network.hidden_norm.num_batches"].tolist() == [4]
    (tmp_path / "texts.txt").write_text("the king\nno one\n", encoding="utf-8")
    read = {"model_dir": whole, "input_file": tmp_path / "texts.txt", "output_file": tmp_path / "answers.jsonl"}
    assert invoke("predict", **read) == 0
    assert invoke("export_model", model_dir=whole, export_dir=tmp_path / "served") == 0
    assert "largest difference from the run's own answers" in capsys.readouterr().out
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures["serving_default"]
    found = served(**{next(iter(served.structured_input_signature[1])): tf.constant(["the king", "no one"])})
    told = [json.loads(line)["probabilities"] for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(found["probabilities"], [list(each.values()) for each in told], atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(
    "where",
    ["inside the task", *(pytest.param(w, marks=pytest.mark.long) for w in ("inside the phase", "at its border"))],
)
def test_an_interruption_loses_nothing(tuned, whole, where, tmp_path, monkeypatch):
    original, cut = Loop.run, tmp_path / "cut"

    def interrupted(loop, state):
        if loop.folder.endswith(LANGUAGE_MODEL) != (where == "inside the phase"):
            return original(loop, state)
        if where != "at its border":
            original(dataclasses.replace(loop, num_steps=1), state)
        raise Interrupted(15, "that of the last step")

    monkeypatch.setattr(Loop, "run", interrupted)
    assert tuned(cut) == 128 + 15
    monkeypatch.setattr(Loop, "run", original)
    assert tuned(cut, resume="auto") == 0
    for folder in ("", LANGUAGE_MODEL):
        before, after = weights(whole / folder), weights(cut / folder)
        assert before.keys() == after.keys()
        for name, value in before.items():
            np.testing.assert_array_equal(after[name], value, err_msg=name)


@pytest.mark.long
def test_from_scratch_nothing_comes_before_the_task_and_rates_by_depth_are_refused(tuned, tmp_path, capsys):
    assert tuned(tmp_path / "run", random_init="true", num_train_epochs=0.5) == 0
    assert not (tmp_path / "run/language_model").exists()
    capsys.readouterr()
    assert tuned(tmp_path / "other", layerwise_lr_decay=0.5) == 2
    assert (
        "awd_lstm is fine-tuned in groups of weights with rates of their own: layer_1, layer_0"
        in capsys.readouterr().err
    )


@pytest.mark.long
def test_two_devices_share_a_fine_tuning(tuned, tmp_path):
    """Batch norm sees the rows of a device only, so the weights differ, but all that is learnt is finite and handed over."""
    assert tuned(tmp_path / "two", distribution_strategy="mirrored") == 0
    found = weights(tmp_path / "two")
    assert all(np.isfinite(value).all() for value in found.values())
    assert found["objective.classify.network.hidden_norm.num_batches"].tolist() == [4]
