"""Numbers of texts and pairs: the loss, correlations as scipy's, files and records, what is served, bad rows."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.invocation import invoke
from tests.helpers.small_models import network
from xmodels.models.bert import Bert, BertConfig
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.regress.score import scores
from xmodels.tasks.regress.task import Regress

QUICK = {
    "max_seq_length": 16, "train_batch_size": 16, "distribution_strategy": "one_device", "jit_compile": "false", "learning_rate": 2e-3,
}  # fmt: skip
WORDS = {"ann": 0.5, "bob": 1.0, "york": 1.5, "rome": 2.0, "bonn": 0.0}  # what each adds


def table(path, count, seed):
    rng, rows = np.random.default_rng(seed), []
    for _ in range(count):
        first, second = (list(rng.choice(list(WORDS), 2)) for _ in range(2))
        rows.append(f"{' '.join(first)}\t{' '.join(second)}\t{sum(WORDS[word] for word in first + second):.2f}\n")
    path.write_text("text\ttext_pair\tlabel\n" + "".join(rows), "utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("numbers")
    for name, count, seed in (("train", 160, 0), ("dev", 48, 1)):
        table(path / f"{name}.tsv", count, seed)
    return path


@pytest.fixture(scope="module")
def run(data, small_bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "numbers"
    files = {"train_file": data / "train.tsv", "eval_file": data / "dev.tsv"}
    assert (
        invoke(
            "finetune", task="regress", init_checkpoint=small_bert, model_dir=path, num_train_epochs=8, **files, **QUICK
        )
        == 0
    )
    return path


def test_the_loss_is_the_mean_square_and_filled_rows_count_for_nothing():
    config = BertConfig(20, 16, 1, 2, 32, max_sequence_length=8, dropout=0.0, attention_dropout=0.0)
    backbone, task = Bert(config).initialize(), Regress(config)
    ids = np.arange(24).reshape(3, 8) % 20
    batch = {
        "token_ids": ids,
        "segment_ids": ids * 0,
        "padding_mask": ids >= 0,
        "labels": np.array([1.0, 2.0, 9.0], np.float32),
    }
    batch["example_weights"] = np.array([1.0, 1.0, 0.0], np.float32)
    outputs = task.forward(backbone, batch)
    total, weight = task.score(outputs, batch, backbone)[0]["squared_error"]
    expected = np.sum((np.array(outputs["scores"])[:2] - [1.0, 2.0]) ** 2)
    assert (float(total), float(weight)) == (pytest.approx(expected, rel=1e-5), 2.0)


@pytest.mark.long
def test_answers_begin_at_the_mean_of_the_training_rows(data, small_bert, tmp_path):
    given = {"train_file": data / "train.tsv", "eval_file": data / "train.tsv", "num_train_epochs": 0.1}
    quick = {**QUICK, "learning_rate": 1e-9}
    assert (
        invoke("finetune", task="regress", init_checkpoint=small_bert, model_dir=tmp_path / "run", **given, **quick)
        == 0
    )
    numbers = [float(line.split("\t")[2]) for line in (data / "train.tsv").read_text("utf-8").splitlines()[1:]]
    found = json.loads((tmp_path / "run/results.json").read_text())["results"]["evaluation loss"]
    assert found == pytest.approx(np.var(numbers), rel=0.1) and np.mean(numbers) ** 2 > 5 * np.var(numbers)


def test_correlations_and_errors():
    found = scores([1.0, 2.0, 3.0, 10.0], [1.0, 3.0, 2.0, 4.0])
    assert found["spearman"] == pytest.approx(0.8) and found["pearson"] == pytest.approx(
        np.corrcoef([1, 2, 3, 10], [1, 3, 2, 4])[0, 1]
    )
    assert found["mean_squared_error"] == pytest.approx((0 + 1 + 1 + 36) / 4)
    assert scores([1.0, 1.0], [1.0, 2.0])["spearman"] == 0.0  # equal numbers have no order


def test_a_run_learns_numbers_and_is_scored_by_them(run, data, tmp_path):
    results = json.loads((run / "results.json").read_text())["results"]
    assert results["evaluation spearman"] > 0.8
    arguments = {"test_file": data / "dev.tsv", "output_file": tmp_path / "scores.json", "plots": tmp_path / "pictures"}
    assert invoke("evaluate", model_dir=run, **arguments) == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found["spearman"] == pytest.approx(results["evaluation spearman"], abs=1e-3)
    assert (tmp_path / "pictures/numbers.png").exists() and (run / "pictures/numbers.png").exists()
    assert "data:image/png" in (run / "report.html").read_text()


def test_predict_from_the_command_line(run, tmp_path, capsys):
    assert invoke("predict", model_dir=run, text="ann bob", text_pair="rome rome") == 0
    assert "score: " in capsys.readouterr().out
    (tmp_path / "pairs.tsv").write_text("text\ttext_pair\nann ann\tbonn\nrome rome\trome rome\n", "utf-8")
    assert invoke("predict", model_dir=run, input_file=tmp_path / "pairs.tsv", output_file=tmp_path / "out.jsonl") == 0
    low, high = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert low["score"] < high["score"] and low["texts"] == ["ann ann", "bonn"]
    assert invoke("predict", model_dir=run, text="ann") != 0
    assert "pairs of texts" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("serving_ops", ["core", "text"])
def test_what_is_served_is_what_the_run_says(run, tmp_path, serving_ops):
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops=serving_ops) == 0
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures["serving_default"]
    found = served(text=tf.constant(["ann bob", "rome"]), text_pair=tf.constant(["bonn", "york york"]))["score"].numpy()
    expected = load(str(run)).predict([("ann bob", "bonn"), ("rome", "york york")])
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.long
def test_records_teach_what_their_table_teaches(data, small_bert, tmp_path):
    from tests.tasks.test_answer_span import TOKENIZER

    (tmp_path / "vocab.txt").write_text("\n".join(TOKENIZER.vocabulary.tokens) + "\n", "utf-8")
    flags = {"input_file": data / "train.tsv", "vocab_file": tmp_path / "vocab.txt", "output_dir": tmp_path / "records"}
    assert (
        invoke("create_finetuning_data", task="regress", max_seq_length=16, text_pair_column="text_pair", **flags) == 0
    )
    losses = []
    for name, source in (("file", {"train_file": data / "train.tsv"}), ("records", {"data_dir": tmp_path / "records"})):
        path, numbers = tmp_path / f"run_{name}", QUICK | {"num_train_epochs": 0.5, "log_steps": 1}
        assert invoke("finetune", task="regress", init_checkpoint=small_bert, model_dir=path, **source, **numbers) == 0
        losses.append([json.loads(line).get("loss") for line in (path / "log.jsonl").read_text().splitlines()])
    assert losses[0] == losses[1] and any(losses[0])


def test_what_is_no_number_is_named_or_left_out(data, small_bert, tmp_path, capsys):
    text = (data / "train.tsv").read_text("utf-8") + "ann\tbob\tvery\nann\tbob\tnan\n"
    (tmp_path / "bad.tsv").write_text(text, "utf-8")
    flags = {"task": "regress", "init_checkpoint": small_bert, "train_file": tmp_path / "bad.tsv"} | QUICK
    assert invoke("finetune", model_dir=tmp_path / "run", **flags) != 0
    assert "bad.tsv, line 162: no number: 'very'" in capsys.readouterr().err
    assert invoke("finetune", "--dry_run", model_dir=tmp_path / "run", on_bad_row="skip", **flags) == 0
    assert "2 row(s) cannot be used" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize("kind", ["roberta", "xlnet", "gpt"])
def test_every_family_learns_and_serves_it(kind, data, tmp_path):
    path = tmp_path / kind
    path.mkdir()
    files = {"train_file": data / "train.tsv", "eval_file": data / "dev.tsv"}
    start, run = network(kind, path), tmp_path / "run"
    assert (
        invoke("finetune", task="regress", init_checkpoint=start, model_dir=run, num_train_epochs=10, **files, **QUICK)
        == 0
    )
    assert json.loads((run / "results.json").read_text())["results"]["evaluation spearman"] > 0.5
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops="core") == 0
