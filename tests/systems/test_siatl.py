"""SiATL: its language model, the layers on top, three groups that thaw, and the language model's loss beside that of the task."""

import dataclasses
import json
import shutil
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from data_pipelines.errors import UsageError
from tests.helpers.invocation import invoke
from tests.helpers.small_learner import Rows
from xmodels import systems
from xmodels.layers.attentive_lstm import AttentiveLstm
from xmodels.layers.dropout import dropout_seed
from xmodels.layers.locked_dropout import LockedDropout, WordDropout
from xmodels.models.folder import read_weights
from xmodels.models.siatl import Siatl, SiatlConfig
from xmodels.objectives.tied_lm import TiedLM
from xmodels.systems import siatl
from xmodels.tasks.base.auxiliary_lm import WithLanguageModel
from xmodels.tasks.classify.task import Classify
from xmodels.training.finetuning import AUXILIARY_LM
from xmodels.training.optimizers.grouped import GroupedOptimizer
from xmodels.training.optimizers.groups import divide
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.step.learner import Learner
from xmodels.training.step.loss_weights import LossWeights
from xmodels.training.step.streams import single

WORDS = "the king is here and no one was there to see him go home".split()
CONFIG = SiatlConfig(vocabulary_size=13, hidden_dim=6, num_layers=2, recurrent_dim=8, dropout=0.0, initial_scale=0.5)
IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0], [2, 9, 10, 3], [4, 3, 0, 0]], "int32")
BATCH = {
    "token_ids": IDS, "padding_mask": IDS > 0, "labels": np.array([0, 1, 1, 0], "int32"),
    "example_weights": np.ones(4, "float32"),
}  # fmt: skip
EPOCH, EPOCHS = 2, 6  # steps of an epoch, and epochs


def network():
    keras.utils.set_random_seed(2)
    return Siatl(CONFIG).initialize()


def options(**given):
    usual = {"clip_norm": 1.0, "gradual_unfreezing": 1.0, "num_train_epochs": EPOCHS, "auxiliary_lm_weight": 0.2019}
    usual |= {"set": None}
    return types.SimpleNamespace(**usual | given)


def learner_of(**given):
    """A learner of two classes, in epochs of two steps."""
    backbone = network()
    finetuning = siatl.finetuning("classify", CONFIG, options(**given))
    task, reading = (
        WithLanguageModel(Classify(CONFIG, "ab", siatl.READING), TiedLM(CONFIG), True),
        siatl.READING.numbers,
    )
    whole = Optimization(
        num_steps=EPOCH * EPOCHS, learning_rate=reading["learning_rate"], num_warmup_steps=0, optimizer=reading["optimizer"],
        schedule=reading["lr_schedule"], adam_beta2=reading["adam_beta2"], adam_epsilon=reading["adam_epsilon"],
    )  # fmt: skip
    weights = LossWeights(finetuning.loss_weights, whole.num_steps)
    optimizer = GroupedOptimizer(finetuning.groups, whole)
    return Learner(
        tf.distribute.get_strategy(), backbone, single(task, Rows(BATCH)), optimizer, 1.0, loss_weights=weights
    )


def train(learner, steps):
    return learner.train(iter(tf.data.Dataset.from_tensors(BATCH).repeat()), tf.constant(steps))[0].numpy()


def values(learner):
    return {name: weight.numpy() for name, weight in learner.trained_weights().items()}


def moved(before, after):
    """Which parts have moved: the second words of their names."""
    return {name.split(".")[1] for name in before if not np.array_equal(before[name], after[name])}


def test_attention_counts_real_states_only_and_padding_changes_nothing():
    layer = AttentiveLstm(5, dropout=0.0)
    states = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    mask = np.array([[1, 1, 1, 0], [1, 0, 0, 0]], bool)
    found = np.array(layer(states, mask))
    shares = np.array(layer.shares(layer.lstm(states), mask))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    assert not shares[~mask].any() and shares[mask].all()
    padded = np.concatenate([states, np.full((2, 3, 6), 7.0, "float32")], axis=1)
    longer = np.array(layer(padded, np.pad(mask, [(0, 0), (0, 3)])))
    np.testing.assert_allclose(longer, found, atol=1e-6)
    alone = np.array(layer.lstm(states))[1, 0]  # of a text of one token
    np.testing.assert_allclose(found[1], alone, atol=1e-6)


def test_locked_dropout_draws_once_for_all_positions_and_word_dropout_once_for_a_word():
    x, ids = np.ones((3, 5, 40), "float32"), np.array([[1, 2, 1, 3, 2]] * 3)
    with dropout_seed(np.array([1, 2], "uint32")):
        locked = np.array(LockedDropout(0.5)(x, training=True))
        words = np.array(WordDropout(0.5, 9)(x, ids, training=True))
    assert (locked == locked[:, :1]).all() and not (locked[0] == locked[1]).all() and (locked == 0).any()
    assert (words == words[:, :, :1]).all() and (words[:, 0] == words[:, 2]).all() and (words[0] == words[1]).all()
    with dropout_seed(np.array([3, 4], "uint32")):
        many = np.array(WordDropout(0.25, 9000)(np.ones((1, 9000, 1), "float32"), np.arange(9000)[None], training=True))
    assert (many > 0).mean() == pytest.approx(0.75, abs=0.02) and many.mean() == pytest.approx(1.0, abs=0.02)


def test_the_language_model_is_causal_and_goes_on_from_segment_to_segment():
    backbone, lm = network(), TiedLM(CONFIG)
    logits = np.array(lm.logits(backbone({"token_ids": IDS})["sequence_output"], backbone))
    other = IDS.copy()
    other[:, 2:] = 11
    changed = np.array(lm.logits(backbone({"token_ids": other})["sequence_output"], backbone))
    np.testing.assert_array_equal(changed[:, :2], logits[:, :2])
    assert np.abs(changed[:, 2:] - logits[:, 2:]).max() > 1e-4
    layers = backbone.hidden_states({"token_ids": IDS})
    np.testing.assert_array_equal(layers[-1], backbone({"token_ids": IDS})["sequence_output"])
    assert [each.shape for each in layers] == [(4, 4, 6)] * 3
    first = backbone({"token_ids": IDS[:, :2], **backbone.initial_memory(4)})
    second = backbone({"token_ids": IDS[:, 2:], "memory": first["memory"]})
    parts = np.concatenate([first["sequence_output"], second["sequence_output"]], axis=1)
    np.testing.assert_allclose(parts, backbone({"token_ids": IDS})["sequence_output"], atol=1e-6)


def test_numbers_of_weights_are_those_of_the_paper():
    config = SiatlConfig(70_004, **siatl.SIZES["base"])
    assert (config.width, config.of_lstms.hidden_dim) == (1000, 1000)
    lstms = sum(4 * 1000 * (width + 1000) + 4 * 1000 for width in (400, 1000))  # one bias where PyTorch has two
    expected = 70_004 * 400 + lstms + 1000 * 400 + 400 + 70_004
    small = dataclasses.replace(config, vocabulary_size=100)
    count = Siatl(small).initialize().count_params() + TiedLM(small).count_params()
    assert count == expected - 401 * (70_004 - 100)


def test_the_weight_of_the_language_model_falls_after_each_epoch_and_then_stays():
    weight = siatl.lm_weight(0.2019, 30)
    found = [float(weight(tf.constant((epoch - 1) / 30))) for epoch in (1, 8, 15, 20)]
    assert found == pytest.approx([0.2019, 0.1423, 0.1003, 0.1003], abs=1e-4)
    within = [float(weight(tf.constant(step / 300, tf.float32))) for step in (10, 15, 19)]  # of ten steps an epoch
    assert len(set(within)) == 1 and siatl.lm_weight(0.0, 30) == 0.0


def test_the_loss_of_the_language_model_is_a_mean_over_all_tokens_but_padding():
    backbone, lm = network(), TiedLM(CONFIG)
    objective = WithLanguageModel(Classify(CONFIG, "ab", siatl.READING), lm, over_tokens=True)
    outputs = objective.forward(backbone, BATCH)
    total, count = objective.modelling(outputs, BATCH, backbone)
    logs = np.array(ops.log_softmax(lm.logits(outputs["sequence_output"], backbone)))
    expected = [-logs[row, place - 1, IDS[row, place]] for row in range(4) for place in range(1, (IDS[row] > 0).sum())]
    assert float(count) == len(expected) == 9 and float(total) == pytest.approx(sum(expected), rel=1e-5)


def test_layers_thaw_epoch_by_epoch_and_each_group_is_clipped_alone():
    learner = learner_of()
    start = values(learner)
    train(learner, EPOCH)
    first = values(learner)
    assert moved(start, first) == {"classify"}
    train(learner, EPOCH)
    second = values(learner)
    assert moved(first, second) == {"classify", "recurrent_layers", "down", "language_model"}
    train(learner, 3 * EPOCH)
    assert "embedding" in moved(second, values(learner))
    groups = learner.optimizer.parts
    assert list(groups) == ["task", "layers", "embedding"] and [part.clip_norm for part in groups.values()] == [1.0] * 3
    assert learner.optimizer.describe() == (
        "task: adam at 0.0005, constant; layers: sgd at 0.01, constant, from step 2; embedding: sgd at 0.0001, constant, from step 8"
    )


def test_without_its_loss_the_language_model_has_no_gradient_and_the_others_that_of_the_task():
    """With --auxiliary_lm_weight=0 and --gradual_unfreezing=0 it is a classifier on a pretrained language model."""
    learner, backbone = learner_of(auxiliary_lm_weight=0.0, gradual_unfreezing=0.0), network()
    train(learner, 1)
    norms = dict(zip(learner.trained_weights(), learner.gradient_norms.numpy(), strict=True))
    task = Classify(CONFIG, "ab", siatl.READING)
    task.forward(backbone, BATCH)
    assert norms["objective.language_model.bias"] == 0 and norms["backbone.embedding.embeddings"] > 0
    assert siatl.finetuning("classify", CONFIG, options(auxiliary_lm_weight=0.0)).models_language is False
    assert siatl.finetuning("classify", CONFIG, options()).models_language
    assert [group.begins for group in siatl.finetuning("", CONFIG, options(gradual_unfreezing=0.0)).groups] == [0] * 3


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A run of a small language model, from raw text."""
    folder = tmp_path_factory.mktemp("siatl")
    draw = np.random.default_rng(0)
    lines = [" ".join(draw.choice(WORDS, 8)) + ("\n" if i % 5 else "\n\n") for i in range(200)]
    (folder / "corpus.txt").write_text("".join(lines), encoding="utf-8")
    text = {"input_file": folder / "corpus.txt"}
    assert invoke("train_vocabulary", **text, tokenizer="words", vocab_size=30, output_file=folder / "words") == 0
    made = {"vocab_file": folder / "words", "output_dir": folder / "stream", "packing": "stream", "max_seq_length": 16}
    assert invoke("create_pretraining_data", **text, **made) == 0
    run = {"data_dir": folder / "stream", "model_dir": folder / "run", "num_train_steps": 3, "train_batch_size": 4}
    assert invoke("pretrain", system="siatl", size="tiny", **run) == 0
    return folder


@pytest.mark.long
def test_a_text_becomes_a_classifier_that_is_served(pretrained, tmp_path, capsys):
    rows = [
        f"{'good' if i % 2 else 'bad'}\t{'the king is here' if i % 2 else 'no one was there'} {i}" for i in range(16)
    ]
    (tmp_path / "train.tsv").write_text("label\ttext\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "texts.txt").write_text("the king\nno one\n", encoding="utf-8")
    run = {"init_checkpoint": pretrained / "run", "train_file": tmp_path / "train.tsv", "max_seq_length": 12}
    run |= {"train_batch_size": 8, "num_train_epochs": 2, "log_steps": 1, "eval_file": tmp_path / "train.tsv"}
    assert invoke("finetune", **run, model_dir=tmp_path / "tuned") == 0
    said = capsys.readouterr().out
    assert "Groups of weights: task: adam at 0.0005, constant; layers: sgd at 0.01, constant, from step 2" in said
    assert "Warning: embedding would begin to learn after the last step, 4." in said
    assert "| groups | task: adam at 0.0005" in (tmp_path / "tuned/model_card.md").read_text(encoding="utf-8")
    logged = [json.loads(line) for line in (tmp_path / "tuned/log.jsonl").read_text().splitlines()]
    logged = [entry for entry in logged if entry["kind"] == "train"]
    assert [entry["layers/learning_rate"] for entry in logged] == pytest.approx([0, 0.01, 0.01, 0.01])
    assert logged[0]["auxiliary_lm/weight"] == pytest.approx(0.2019, abs=1e-4) and logged[0]["auxiliary_lm"] > 0
    before, after = (
        read_weights(folder / "backbone/weights.safetensors") for folder in (pretrained / "run", tmp_path / "tuned")
    )
    assert not [name for name in after if "language_model" in name] and any(
        "classify.network" in name for name in after
    )
    state = read_weights(sorted((tmp_path / "tuned/checkpoints").iterdir())[-1] / "weights.safetensors")
    head = "objective.tied_lm.bias"
    assert np.abs(state["objective.language_model.bias"] - before[head]).max() < 0.1 < np.abs(before[head]).max() + 0.1
    np.testing.assert_array_equal(before["backbone.embedding.embeddings"], after["backbone.embedding.embeddings"])
    assert json.loads((tmp_path / "tuned/backbone/config.json").read_text())["config"]["word_dropout"] == 0.2
    assert invoke("doctor", **run, model_dir=tmp_path / "tuned") == 0
    assert f"{tmp_path / 'tuned'} is finished" in capsys.readouterr().out
    answers = tmp_path / "answers.jsonl"
    read = {"model_dir": tmp_path / "tuned", "input_file": tmp_path / "texts.txt", "output_file": answers}
    assert invoke("predict", **read) == 0
    assert invoke("export_model", model_dir=tmp_path / "tuned", export_dir=tmp_path / "served") == 0
    assert "largest difference from the run's own answers: 0" in capsys.readouterr().out
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures["serving_default"]
    probabilities = served(**{next(iter(served.structured_input_signature[1])): tf.constant(["the king", "no one"])})
    told = [json.loads(line)["probabilities"] for line in answers.read_text(encoding="utf-8").splitlines()]
    np.testing.assert_allclose(probabilities["probabilities"], [list(each.values()) for each in told], atol=1e-4)


def test_numbers_of_the_recipe_are_given_by_name_and_groups_may_be_those_of_the_authors_code():
    own = siatl.FineTuningOptions(layers_rate=0.5, dropout=0.3, reference_groups=True)
    groups = siatl.finetuning("classify", CONFIG, options(), own).groups
    names = ["backbone.down.kernel", "backbone.embedding.embeddings", "backbone.recurrent_layers.0.gates.kernel"]
    names += ["objective.classify.head.kernel", "objective.language_model.bias"]
    found = {name: group.name for name, group in divide(groups, names).items()}
    assert list(found.values()) == ["down", "layers", "layers", "task", "layers"]
    assert [group.begins for group in groups] == [0, None, 1 / EPOCHS] and groups[2].learning_rate == 0.5
    recipe = systems.finetuning(siatl, "classify", CONFIG, options(set="embedding_rate=0.25,word_dropout=0"))
    assert (
        recipe.groups[2].learning_rate == 0.25
        and recipe.network["word_dropout"] == 0
        and recipe.network["dropout"] == 0.4
    )
    with pytest.raises(
        UsageError, match="Did you mean dropout. Known of the recipe of siatl: layers_rate, embedding_rate"
    ):
        systems.finetuning(siatl, "classify", CONFIG, options(set="dropuot=0.2"))
    with pytest.raises(UsageError, match="`word_dropout` must be from 0 to below 1. Received: 1.0."):
        systems.finetuning(siatl, "classify", CONFIG, options(set="word_dropout=1"))
    with pytest.raises(UsageError, match="Known of the recipe of bert: none"):
        systems.finetuning(systems.load("bert"), "classify", CONFIG, options(set="dropout=0.2"))


def test_what_the_recipe_cannot_do_is_refused(pretrained, tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("label\ttext\na\tone\nb\ttwo\n", encoding="utf-8")
    run = {"init_checkpoint": pretrained / "run", "train_file": tmp_path / "train.tsv", "model_dir": tmp_path / "run"}
    assert invoke("finetune", **run, layerwise_lr_decay=0.5) == 2
    assert (
        "siatl is fine-tuned in groups of weights with rates of their own: task, layers, embedding"
        in capsys.readouterr().err
    )
    assert AUXILIARY_LM in siatl.finetuning("classify", CONFIG, options()).loss_weights


@pytest.fixture
def fine_tuning(pretrained, tmp_path):
    """A function of flags: the weights of a fine-tuning of six steps in which all groups have begun."""
    rows = [
        f"{'good' if i % 2 else 'bad'}\t{'the king is here' if i % 2 else 'no one was there'} {i}" for i in range(16)
    ]
    (tmp_path / "train.tsv").write_text("label\ttext\n" + "\n".join(rows) + "\n", encoding="utf-8")
    run = {"init_checkpoint": pretrained / "run", "train_file": tmp_path / "train.tsv", "max_seq_length": 12}
    run |= {"train_batch_size": 8, "num_train_epochs": 3, "gradual_unfreezing": 0.5, "save_checkpoints_steps": 2}

    def learn(folder, **flags):
        assert invoke("finetune", **run, model_dir=folder, **flags) == 0
        return read_weights(folder / "backbone/weights.safetensors")

    return learn


@pytest.mark.long
@pytest.mark.parametrize("step", [2, 4])  # before and behind the beginning of the embedding
def test_an_interrupted_fine_tuning_ends_with_the_weights_of_one_that_was_not(fine_tuning, step, tmp_path):
    whole = fine_tuning(tmp_path / "whole", keep_checkpoint_max=9)
    shutil.copytree(tmp_path / "whole", tmp_path / "parted")
    later = [f"checkpoints/step_{number:08d}" for number in (4, 6) if number > step]
    for gone in (*later, "backbone"):
        shutil.rmtree(tmp_path / "parted" / gone)
    parted = fine_tuning(tmp_path / "parted", keep_checkpoint_max=9, resume="must")
    assert whole.keys() == parted.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(parted[name], value, err_msg=name)


@pytest.mark.long
def test_two_devices_that_share_a_fine_tuning_equal_one(fine_tuning, tmp_path, monkeypatch):
    plain = dataclasses.replace(siatl.READING, make_network=lambda config: AttentiveLstm(100, dropout=0.0))
    monkeypatch.setattr(siatl, "READING", plain)
    without = {"set": "dropout=0,word_dropout=0,locked_input_dropout=0,locked_output_dropout=0"}
    one = fine_tuning(tmp_path / "one", **without, distribution_strategy="one_device")
    two = fine_tuning(tmp_path / "two", **without, distribution_strategy="mirrored")
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, atol=1e-5, err_msg=name)
