"""A classifier that learns from another one: the loss, what is handed over, and what is refused."""

import json
import pathlib
import re

import keras
import numpy as np
import pytest

from data_pipelines.errors import UsageError
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import read_weights, write_model
from xmodels.runs.fine_tuned import load_predictor
from xmodels.tasks.classify.distillation import DistilledClassify, divergence
from xmodels.tasks.multi_label.distillation import DistilledMultiLabel
from xmodels.tasks.regress.distillation import DistilledRegress
from xmodels.tasks.similarity.distillation import DistilledSimilarity

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"
SMALL = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 32}
TEXTS = [("今天的比赛很精彩",), ("手机的电池",), ("这家餐厅好吃",)]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, zh_vocabulary):
    """A classifier of the samples, as a run."""
    folder, tokenizer = tmp_path_factory.mktemp("teacher"), open_tokenizer(str(zh_vocabulary))
    (folder / "bert").mkdir()
    keras.utils.set_random_seed(0)
    backbone = Bert(BertConfig(len(tokenizer.vocabulary), **SMALL)).initialize()
    write_model(str(folder / "bert"), backbone, None, tokenizer.files(), tokenizer.describe(), "bert")
    flags = {
        "init_checkpoint": folder / "bert",
        "train_file": SAMPLES / "train.tsv",
        "max_seq_length": 16,
        "num_train_epochs": 1,
    }
    assert invoke("finetune", model_dir=folder / "run", jit_compile="false", learning_rate=3e-3, **flags) == 0
    return folder / "run"


@pytest.fixture
def student(teacher, zh_vocabulary):
    """The flags of a student of another kind, with characters as its vocabulary, that learns from the teacher alone."""
    return {
        "init_checkpoint": "new:text_cnn/tiny", "vocab_file": zh_vocabulary, "train_file": SAMPLES / "train.tsv", "max_seq_length": 24,
        "teacher": teacher, "distill_share": 1.0, "jit_compile": "false", "num_train_epochs": 3, "learning_rate": 0.01,
    }  # fmt: skip


@pytest.mark.long
def test_a_student_of_another_kind_comes_to_say_what_the_teacher_says(teacher, student, tmp_path):
    assert invoke("finetune", model_dir=tmp_path / "run", eval_file=SAMPLES / "dev.tsv", log_steps=1, **student) == 0
    logged = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    losses = [entry["distillation"] for entry in logged if entry["kind"] == "train"]
    assert losses[-1] < 0.5 * losses[0] and all(entry["classify"] == 0 for entry in logged if entry["kind"] == "train")
    assert any("agreement" in entry for entry in logged if entry["kind"] != "train")
    weights = read_weights(str(tmp_path / "run/backbone/weights.safetensors"))
    assert {name.split(".")[0] for name in weights} == {"backbone", "objective"}
    assert not any("teacher" in name for name in weights)
    answers = [load_predictor(str(path)).predict(TEXTS) for path in (teacher, tmp_path / "run")]
    assert set(answers[0][0].probabilities) == set(answers[1][0].probabilities)


def test_the_loss_is_that_of_the_formula_and_its_gradient_keeps_its_size_at_any_temperature():
    rng = np.random.default_rng(0)
    logits, teacher = (rng.normal(size=(4, 3)).astype("float32") for _ in range(2))
    labels, weights = np.array([0, 2, 1, 1]), np.array([1.0, 1.0, 0.0, 1.0], "float32")

    def softmax(x):
        return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)

    probabilities = softmax(teacher)
    task = DistilledClassify(BertConfig(50, **SMALL), ("a", "b", "c"), temperature=3.0, share=0.25)
    batch = {"labels": labels, "example_weights": weights, "teacher_probabilities": probabilities}
    losses, metrics = task.score({"logits": keras.ops.convert_to_tensor(logits)}, batch, None)
    p, q = softmax(np.log(probabilities) / 3), softmax(logits / 3)
    soft = (p * np.log(p / q)).sum(axis=-1)
    hard = -np.log(softmax(logits)[np.arange(4), labels])
    assert float(losses["distillation"][0]) == pytest.approx(0.25 * 9 * (soft * weights).sum(), rel=1e-4)
    assert float(losses["classify"][0]) == pytest.approx(0.75 * (hard * weights).sum(), rel=1e-5)
    agreement = (logits.argmax(-1) == probabilities.argmax(-1)) @ weights / 3
    assert float(metrics["agreement"][0]) / float(metrics["agreement"][1]) == pytest.approx(agreement)
    same = divergence(keras.ops.convert_to_tensor(logits), keras.ops.convert_to_tensor(logits + 5), 2.0)
    np.testing.assert_allclose(same, 0.0, atol=1e-6)  # logits are equal up to a constant


def test_several_labels_and_numbers_are_learnt_by_their_formulas():
    rng, weights = np.random.default_rng(1), np.array([1.0, 0.0, 1.0], "float32")
    logits, teacher = (rng.normal(size=(3, 4)).astype("float32") for _ in range(2))
    labels = (rng.random((3, 4)) > 0.5).astype("float32")

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    config = BertConfig(50, **SMALL)
    task = DistilledMultiLabel(config, "abcd", temperature=3.0, share=0.25)
    batch = {"labels": labels, "example_weights": weights, "teacher_probabilities": sigmoid(teacher)}
    losses, metrics = task.score({"logits": keras.ops.convert_to_tensor(logits)}, batch, None)
    p, q, r = sigmoid(teacher / 3), sigmoid(logits / 3), sigmoid(logits)
    soft = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean(axis=-1)
    hard = -(labels * np.log(r) + (1 - labels) * np.log(1 - r)).mean(axis=-1)
    assert float(losses["distillation"][0]) == pytest.approx(0.25 * 9 * (soft * weights).sum(), rel=1e-4)
    assert float(losses["multi_label"][0]) == pytest.approx(0.75 * (hard * weights).sum(), rel=1e-4)
    same = ((logits > 0) == (teacher > 0)).all(axis=-1)
    assert float(metrics["agreement"][0]) == pytest.approx((same * weights).sum())

    scores, numbers = logits[:, 0], labels[:, 0]
    batch = {"labels": numbers, "example_weights": weights, "teacher_scores": teacher[:, 0]}
    losses, _ = DistilledRegress(config, share=0.25).score({"scores": keras.ops.convert_to_tensor(scores)}, batch, None)
    for name, aim, share in (("squared_error", numbers, 0.75), ("distillation", teacher[:, 0], 0.25)):
        assert float(losses[name][0]) == pytest.approx(share * (np.square(scores - aim) * weights).sum(), rel=1e-4)
        assert float(losses[name][1]) == 2.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "rows"),
    [
        ("similarity", "label\ttext\ttext_pair\n" + "same\t今天\t今天\nother\t电池\t餐厅\n" * 8),
        ("multi_label", "label\ttext\n" + "sports|new\t比赛\nfood\t餐厅\n\t电池\n" * 8),
        ("regress", "label\ttext\n" + "1.5\t比赛\n-2\t餐厅\n" * 8),
    ],
)
def test_other_tasks_learn_layers_and_answers_of_a_teacher_too(task, rows, teacher, tmp_path):
    (tmp_path / "rows.tsv").write_text(rows, encoding="utf-8")
    flags = {
        "task": task, "init_checkpoint": teacher, "train_file": tmp_path / "rows.tsv", "eval_file": tmp_path / "rows.tsv",
        "max_seq_length": 16, "jit_compile": "false", "num_train_epochs": 2, "train_batch_size": 8,
    }  # fmt: skip
    assert invoke("finetune", model_dir=tmp_path / "teacher", **flags) == 0
    more = {"teacher": tmp_path / "teacher", "distill_layers": "hidden,attention", "distill_layers_epochs": 1}
    assert invoke("finetune", model_dir=tmp_path / "run", log_steps=1, **flags, **more) == 0
    logged = (tmp_path / "run/log.jsonl").read_text()
    assert '"distillation"' in logged
    weights = read_weights(str(tmp_path / "run/backbone/weights.safetensors"))
    assert f"objective.{task}.head.kernel" in weights
    answers = load_predictor(str(tmp_path / "run")).predict([("比赛", "餐厅") if task == "similarity" else ("比赛",)])
    assert len(answers) == 1


def test_a_pair_in_both_orders_is_learnt_by_the_same_formula():
    task = DistilledSimilarity(BertConfig(50, **SMALL), ("a", "b"), share=1.0, temperature=1.0)
    backbone = Bert(BertConfig(50, **SMALL)).initialize()
    ids = np.random.default_rng(0).integers(5, 50, (2, 2, 6)).astype("int32")
    batch = {
        "token_ids": ids, "segment_ids": ids * 0, "padding_mask": np.ones((2, 2, 6), bool), "labels": np.array([0, 1]),
        "example_weights": np.ones(2, "float32"), "teacher_probabilities": np.array([[0.9, 0.1], [0.2, 0.8]], "float32"),
    }  # fmt: skip
    outputs, losses, _ = task.run(backbone, batch)
    logits = np.asarray(outputs["logits"])
    assert logits.shape == (2, 2) and task.label == "similarity"
    p, log_q = batch["teacher_probabilities"], np.asarray(keras.ops.log_softmax(logits))
    assert float(losses["distillation"][0]) == pytest.approx((p * (np.log(p) - log_q)).sum(), rel=1e-4)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"distill_temperature": 0}, "--distill_temperature=0: must be above 0"),
        ({"teacher": "nowhere"}, "nowhere: no such run folder"),
        ({"train_file": "labels"}, "its labels are .* and those of the rows other, sports. They must be the same"),
        ({"task": "rank"}, "--teacher: --task=rank has no such flag"),
        ({"task": "regress"}, "has learnt --task=classify, not --task=regress"),
    ],
)
def test_teachers_that_do_not_fit_are_refused(student, tmp_path, capsys, more, message):
    if more.get("train_file") == "labels":
        (tmp_path / "rows.tsv").write_text("label\ttext\n" + "sports\t比赛\nother\t电池\n" * 4)
        more = {"train_file": tmp_path / "rows.tsv"}
    assert invoke("finetune", model_dir=tmp_path / "run", **{**student, **more}) in (UsageError.exit_code, 3, 4)
    assert re.search(message, capsys.readouterr().err)
