"""Several labels of one softmax: the loss as the mean over drawn labels, from lines of fastText to its file, and what has no place."""

import numpy as np
import pytest

from tests.helpers.invocation import invoke
from xmodels.conversion import fasttext_files
from xmodels.models.bert import BertConfig
from xmodels.runs.fine_tuned import load_predictor
from xmodels.tasks.multi_label.task import MultiLabel

LINES = (
    "__label__boats __label__water harbour keel sail",
    "__label__trains rail track station",
    "__label__water rain river",
)


def test_the_loss_is_the_mean_over_the_labels_that_could_be_drawn():
    logits = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    truth = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1], [1, 0, 0]], "float32")
    batch = {"labels": truth, "example_weights": np.array([1, 1, 1, 1, 0], "float32")}
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    drawn = [-np.mean([logs[row, k] for k in np.flatnonzero(truth[row])]) for row in (0, 1, 3)]
    config = BertConfig(20, 16, 1, 2, 32)
    task = MultiLabel(config, "abc", softmax=True, threshold=0.25)
    losses, metrics = task.score({"logits": logits}, batch, None)
    assert [float(x) for x in losses["multi_label"]] == pytest.approx([sum(drawn), 3.0], rel=1e-5)
    right = sum(truth[row, logits[row].argmax()] for row in (0, 1, 3))
    assert [float(x) for x in metrics["precision_1"]] == [right, 3.0]
    np.testing.assert_allclose(np.array(task.predict({"logits": logits})["probabilities"]), np.exp(logs), rtol=1e-5)
    assert task.settings == {"thresholds": [0.25] * 3, "softmax": True}

    weighted = MultiLabel(config, "abc", class_weights=[(1, 1), (1, 3), (1, 1)], softmax=True)
    total, weight = weighted.score({"logits": logits}, batch, None)[0]["multi_label"]
    assert float(total) == pytest.approx(sum(drawn) - 2 * logs[1, 1] - 2 * logs[3, 1] / 3, rel=1e-5)
    assert float(weight) == pytest.approx(3 + 2 + 2 / 3, rel=1e-5)


def finetune(folder, network="new:fasttext_classifier", **more):
    return invoke(
        "finetune", "--label_softmax", task="multi_label", init_checkpoint=network, vocab_file=folder / "vocabulary",
        train_file=folder / "train.txt", model_dir=folder / "run", model_config_file=folder / "numbers.json", train_batch_size=12,
        max_seq_length=16, jit_compile="false", **more,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.txt").write_text("".join(f"{line} {n % 5}\n" for n in range(16) for line in LINES), "utf-8")
    flags = {"input_file": tmp_path / "train.txt", "tokenizer": "word_characters", "vocab_size": 60}
    assert invoke("train_vocabulary", **flags, output_file=tmp_path / "vocabulary") == 0
    return tmp_path


def test_lines_of_fasttext_are_learnt_and_become_a_file_of_it(folder):
    (folder / "numbers.json").write_text('{"hidden_dim": 8, "buckets": 50}', "utf-8")
    assert finetune(folder, learning_rate=0.05, num_train_epochs=12) == 0
    texts = [("harbour sail",), ("rail track",), ("rain",)]
    found = load_predictor(str(folder / "run")).predict(texts)
    assert [set(each.labels) for each in found] == [{"boats", "water"}, {"trains"}, {"water"}]
    assert all(sum(each.probabilities.values()) == pytest.approx(1.0, abs=1e-5) for each in found)
    assert found[0].probabilities["boats"] == pytest.approx(0.5, abs=0.15)
    assert invoke("convert_checkpoint", **{"from": folder / "run", "to": f"fasttext:{folder}/model.bin"}) == 0
    written = fasttext_files.read(f"{folder}/model.bin")
    assert written.loss == "softmax"
    for (text,), row in zip(texts, found, strict=True):
        theirs = {label.removeprefix("__label__"): p for label, p in fasttext_files.classify(written, text, 3)}
        assert theirs == pytest.approx(row.probabilities, abs=1e-5)


def test_teachers_other_formats_and_damaged_settings_are_refused(folder, capsys):
    (folder / "numbers.json").write_text(
        '{"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8, "max_sequence_length": 16}', "utf-8"
    )
    assert finetune(folder, "new:bert", teacher=folder) == 2
    assert "--label_softmax: a teacher's answers" in capsys.readouterr().err
    assert finetune(folder, "new:bert", num_train_epochs=1) == 0
    assert invoke("convert_checkpoint", **{"from": folder / "run", "to": f"hf:{folder}/hf"}) == 4
    assert "has no place for --label_softmax" in capsys.readouterr().err
    task = folder / "run/task.json"
    (folder / "run/SHA256SUMS").unlink()
    task.write_text(task.read_text("utf-8").replace('"softmax": true', '"softmax": 1'), "utf-8")
    assert invoke("predict", model_dir=folder / "run", text="harbour") == 4
    assert "`softmax` true or false. Found: 1" in capsys.readouterr().err
