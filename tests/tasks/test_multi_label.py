"""Several labels a text: scores as scikit-learn's, thresholds that an evaluation set chooses, files, what is served, bad rows."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import DataError
from data_pipelines.finetuning.class_weights import label_weights
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES, TOKENIZER
from xmodels.jobs.finetune.options import Options
from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer, reader_of
from xmodels.models.bert import Bert, BertConfig
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.runs.fine_tuned import read_task
from xmodels.tasks.classify.thresholds import best_threshold
from xmodels.tasks.multi_label.read import read_rows
from xmodels.tasks.multi_label.score import CHOICES, chosen, scores
from xmodels.tasks.multi_label.task import MultiLabel

QUICK = {
    "task": "multi_label", "max_seq_length": 16, "train_batch_size": 16, "distribution_strategy": "one_device", "jit_compile": "false",
    "learning_rate": 2e-3, "pooling": "max",
}  # fmt: skip
WORDS = (NAMES[0], NAMES[1], PLACES[0])  # a label each


def table(path, count, seed):
    draw, rows = np.random.default_rng(seed), []
    for _ in range(count):
        words = list(draw.choice([*NAMES, *PLACES], 4))
        rows.append(f"{' '.join(words)}\t{'|'.join(word for word in WORDS if word in words)}\n")
    path.write_text("text\tlabels\n" + "".join(rows), "utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    for name, count, seed in (("train", 256, 0), ("dev", 64, 1)):
        table(path / f"{name}.tsv", count, seed)
    return path


@pytest.fixture(scope="module")
def run(data, small_bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "labels"
    files = {"train_file": data / "train.tsv", "eval_file": data / "dev.tsv", "test_file": data / "dev.tsv"}
    assert invoke("finetune", init_checkpoint=small_bert, model_dir=path, num_train_epochs=8, **files, **QUICK) == 0
    return path


def test_scores_are_scikit_learns():
    from sklearn.metrics import accuracy_score, f1_score

    draw = np.random.default_rng(0)
    probabilities, truth = draw.random((50, 4)), draw.random((50, 4)) < 0.3
    thresholds = [0.2, 0.5, 0.7, 0.9]
    found, chosen = scores(probabilities, truth, thresholds), probabilities >= thresholds
    assert found["micro_f1"] == pytest.approx(f1_score(truth, chosen, average="micro"))
    assert found["macro_f1"] == pytest.approx(f1_score(truth, chosen, average="macro"))
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, chosen))


def test_a_threshold_is_the_best_of_all():
    from sklearn.metrics import f1_score

    draw = np.random.default_rng(1)
    for _ in range(20):
        right = draw.random(40) < 0.4
        probabilities = np.round(0.6 * draw.random(40) + 0.3 * right, 1)  # many are equal
        if 5 <= right.sum() <= 35:
            found = f1_score(right, probabilities >= best_threshold(probabilities, right))
            assert found == pytest.approx(max(f1_score(right, probabilities >= x) for x in np.arange(0.0, 1.0, 0.05)))
    few = np.arange(40) < 4
    assert best_threshold(few.astype(float), few) == 0.5


@pytest.mark.parametrize("metric", CHOICES)
def test_thresholds_are_those_of_the_score_that_decides(metric):
    draw = np.random.default_rng(2)
    for _ in range(5):
        truth = draw.random((40, 2)) < [0.3, 0.6]
        probabilities = np.round(0.7 * draw.random((40, 2)) + 0.3 * truth, 1)
        grid = np.arange(0.0, 1.1, 0.05)
        every = [scores(probabilities, truth, [a, b])[metric] for a in grid for b in grid]
        found = scores(probabilities, truth, **chosen(probabilities, truth, metric))
        usual = scores(probabilities, truth, [0.5, 0.5])
        assert found[metric] == pytest.approx(max(every)) or (metric == "accuracy" and found[metric] >= usual[metric])


def test_weights_of_labels_are_those_of_scikit_learn_and_of_a_copied_row():
    from sklearn.utils.class_weight import compute_class_weight

    truth = np.array([[1, 0, 1], [0, 0, 1], [0, 1, 1], [0, 0, 1]], np.float32)
    found = label_weights("balanced", list("abc"), truth)
    for k in range(2):
        expected = compute_class_weight("balanced", classes=np.array([0.0, 1.0]), y=truth[:, k])
        assert found[k] == pytest.approx(tuple(expected))
    assert label_weights("b:3", list("abc"), truth) == [(1.0, 1.0), (1.0, 3.0), (1.0, 1.0)]
    logits, ones = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), np.ones(4, np.float32)
    task = MultiLabel(BertConfig(20, 16, 1, 2, 32), "abc", class_weights=[(1.0, 1.0), (1.0, 3.0), (1.0, 1.0)])
    total, weight = task.loss(logits, truth, ones)
    task.class_weights = [(1.0, 1.0)] * 3
    plain, count = task.loss(logits, truth, ones)
    task.class_weights = None
    np.testing.assert_allclose([plain, count], [np.array(x) for x in task.loss(logits, truth, ones)], rtol=1e-6)
    again = 2 * np.logaddexp(0, -logits[2, 1])  # the row of label b, two times more
    assert float(total) == pytest.approx(float(plain) + again / 3, rel=1e-5)
    assert float(weight) == pytest.approx(float(count) + 2 / 3)


def test_the_loss_is_the_mean_over_labels_and_filled_rows_count_for_nothing():
    backbone = Bert(
        BertConfig(20, 16, 1, 2, 32, max_sequence_length=8, dropout=0.0, attention_dropout=0.0)
    ).initialize()
    task, tokens = MultiLabel(backbone.config, "abc"), np.arange(1, 13).reshape(3, 4)
    truth = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], np.float32)
    batch = {"token_ids": tokens, "segment_ids": tokens * 0, "padding_mask": tokens > 0, "labels": truth}
    batch["example_weights"] = np.array([1.0, 1.0, 0.0], np.float32)
    outputs = task.forward(backbone, batch)
    p = 1 / (1 + np.exp(-np.array(outputs["logits"])))
    expected = -(truth * np.log(p) + (1 - truth) * np.log(1 - p)).mean(axis=1)[:2].sum()
    total, weight = task.score(outputs, batch, backbone)[0]["multi_label"]
    assert (float(total), float(weight)) == (pytest.approx(expected, rel=1e-5), 2.0)


@pytest.mark.long
def test_a_run_that_goes_on_without_a_better_epoch_keeps_the_thresholds_of_its_best_one(run, data, tmp_path):
    again, files = (
        tmp_path / "again",
        {"train_file": data / "train.tsv", "eval_file": data / "dev.tsv", "test_file": data / "dev.tsv"},
    )
    shutil.copytree(run, again)
    before, start = read_task(str(again)).settings["thresholds"], json.loads((run / "config.json").read_text())["flags"]
    assert set(before) != {0.5}
    more = QUICK | {"num_train_epochs": 9, "learning_rate": 1e-12}
    assert invoke("finetune", init_checkpoint=start["init_checkpoint"], model_dir=again, **files, **more) == 0
    assert read_task(str(again)).settings["thresholds"] == before


def test_a_run_learns_several_labels_and_keeps_its_thresholds(run, data, tmp_path, capsys):
    results = json.loads((run / "results.json").read_text())["results"]
    assert results["evaluation micro_f1"] > 0.9
    assert results["test micro_f1"] == pytest.approx(
        results["evaluation micro_f1"]
    )  # with the thresholds chosen before
    errors = json.loads((run / "errors.json").read_text())
    assert all("none" in (pair["truth"], pair["answer"]) for pair in errors["pairs"]) and errors["rows"] == 64
    settings = read_task(str(run)).settings
    assert len(settings["thresholds"]) == 3 and settings["label_separator"] == "|"
    pictures = tmp_path / "pictures"
    given = {"test_file": data / "dev.tsv", "output_file": tmp_path / "scores.json", "plots": pictures}
    assert invoke("evaluate", model_dir=run, **given) == 0
    for folder in (pictures, run / "pictures"):
        assert sorted(path.name for path in folder.iterdir()) == ["confusions.png", "thresholds.png"]
    assert "alt='thresholds'" in (run / "report.html").read_text("utf-8")
    assert json.loads((tmp_path / "scores.json").read_text())["micro_f1"] == pytest.approx(
        results["evaluation micro_f1"], abs=1e-3
    )
    assert invoke("evaluate", model_dir=run, test_file=data / "dev.tsv", task="regress") == 2
    assert "was fine-tuned for --task=multi_label" in capsys.readouterr().err
    (tmp_path / "lines.txt").write_text("ann bob york\n\ncar dan\n", "utf-8")
    assert invoke("predict", model_dir=run, input_file=tmp_path / "lines.txt", output_file=tmp_path / "out.jsonl") == 0
    first, blank, last = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert set(first["labels"]) == {"ann", "bob", "york"} and blank is None and last["labels"] == []
    assert invoke("predict", model_dir=run, input_file=tmp_path / "lines.txt", output_file=tmp_path / "out.tsv") == 0
    assert sorted((tmp_path / "out.tsv").read_text().splitlines()[1].split("\t")[0].split("|")) == [
        "ann",
        "bob",
        "york",
    ]


@pytest.mark.long
@pytest.mark.parametrize("serving_ops", ["core", "text"])
def test_what_is_served_is_what_the_run_says(run, tmp_path, serving_ops):
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops=serving_ops) == 0
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures["serving_default"]
    found = {name: value.numpy() for name, value in served(text=tf.constant(["ann york", "dan"])).items()}
    for row, expected in enumerate(load(str(run)).predict([("ann york",), ("dan",)])):
        chosen = {label.decode() for label in found["labels"][row][found["chosen"][row]]}
        assert chosen == set(expected.labels)
        np.testing.assert_allclose(found["probabilities"][row], list(expected.probabilities.values()), atol=1e-4)


def test_rows_have_any_number_of_labels(tmp_path):
    (tmp_path / "rows.tsv").write_text("text\tlabels\nann\ta, b\nbob\t\ncar\tb\n", "utf-8")
    rows = read_rows(str(tmp_path / "rows.tsv"), Columns(), ",")
    assert [row.labels for row in rows] == [("a", "b"), (), ("b",)]


def test_json_lines_hold_labels_as_a_list_or_side_by_side(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"text": "ann", "labels": ["a", " b|c "]}\n{"text": "bob", "labels": []}\n{"text": "car", "labels": "b|a"}\n'
        '{"text": "dan", "labels": [7]}\n{"text": "eve", "labels": null}\n', "utf-8",
    )  # fmt: skip
    rows = read_rows(str(path), Columns(), "|")
    assert [row.labels for row in rows] == [("a", "b|c"), (), ("b", "a"), ("7",), ()]
    assert [row.place for row in rows] == [f"{path}, line {number}" for number in (1, 2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ('["a", null]', r"field 'labels' holds \['a', None\], expected text, or a list of texts, none empty"),
        ('[["a"]]', "expected text, or a list"),
        ('["a", " "]', "expected text, or a list"),
        ("[true]", "expected text, or a list"),
        ('["a", "b", "a"]', r"a label stands twice in \['a', 'b', 'a'\]"),
        ('{"a": 1}', "field 'labels' holds dict, expected text"),
        (f'["{"a" * 600_000}", "{"b" * 600_000}"]', "a field holds 1,200,000 characters"),
    ],
)
def test_lists_that_hold_something_else_are_named_or_left_out(labels, said, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"text": "ann", "labels": ["a"]}}\n{{"text": "bob", "labels": {labels}}}\n', "utf-8")
    with pytest.raises(DataError, match=rf"rows.jsonl, line 2: .*{said}"):
        read_rows(str(path), Columns(), "|")
    bad_rows = []
    assert [row.labels for row in read_rows(str(path), Columns(), "|", bad_rows)] == [("a",)]
    assert [each.place for each in bad_rows] == [f"{path}, line 2"]


def test_a_list_is_an_error_of_other_tasks_and_as_a_text(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "ann", "labels": ["a"]}\n', "utf-8")
    with pytest.raises(DataError, match="line 1: field 'labels' holds list, expected text"):
        read_table(str(path), Columns())
    assert read_table(str(path), Columns(), with_labels=False)[0].texts == ("ann",)  # as `predict` reads it
    path.write_text('{"text": ["ann"], "labels": ["a"]}\n', "utf-8")
    with pytest.raises(DataError, match="line 1: field 'text' holds list, expected text"):
        read_rows(str(path), Columns(), "|")


@pytest.mark.long
def test_records_teach_what_their_table_teaches(data, small_bert, tmp_path, capsys):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENIZER.vocabulary.tokens) + "\n", "utf-8")
    (tmp_path / "dev.tsv").write_text((data / "dev.tsv").read_text("utf-8").replace("|", ";"), "utf-8")
    made = {"task": "multi_label", "vocab_file": tmp_path / "vocab.txt", "max_seq_length": 16}
    assert invoke("create_finetuning_data", input_file=data / "train.tsv", output_dir=tmp_path / "train", **made) == 0
    made |= {"input_file": tmp_path / "dev.tsv", "label_separator": ";", "labels_from": tmp_path / "train"}
    assert invoke("create_finetuning_data", output_dir=tmp_path / "dev", **made) == 0
    found = []
    for files in (
        {"train_file": data / "train.tsv", "eval_file": data / "dev.tsv"},
        {"data_dir": tmp_path / "train", "eval_file": tmp_path / "dev"},
    ):
        files = {name: str(path) for name, path in files.items()}
        options = Options(
            task="multi_label", init_checkpoint=str(small_bert), model_dir="x", max_seq_length=16, **files
        )
        reader = reader_of(options)
        read = reader.read(load_checkpoint_and_tokenizer(options, reader)[1])
        found.append(
            (read.labels, read.num_texts, read.summary, read.source.arrays, read.evaluation_sets["evaluation"].arrays)
        )
    assert found[0][:3] == found[1][:3]
    for expected, there in zip(found[0][3:], found[1][3:], strict=True):
        assert expected.keys() == there.keys() and expected["labels"].any()
        for name, values in expected.items():
            np.testing.assert_array_equal(there[name], values)
    run, files = tmp_path / "run", {"data_dir": tmp_path / "train", "eval_file": tmp_path / "dev"}
    assert invoke("finetune", init_checkpoint=small_bert, model_dir=run, num_train_epochs=0.1, **files, **QUICK) == 0
    assert read_task(str(run)).settings["label_separator"] == "|"
    scores = []
    for file in (tmp_path / "dev", data / "dev.tsv"):
        assert invoke("evaluate", model_dir=run, test_file=file, output_file=tmp_path / "scores.json") == 0
        scores.append(json.loads((tmp_path / "scores.json").read_text()))
    assert scores[0] == {name: pytest.approx(value) for name, value in scores[1].items() if name != "labels"}
    assert invoke("evaluate", model_dir=run, test_file=tmp_path / "dev", text_column="text") == 2
    assert "--text_column: --test_file=" in capsys.readouterr().err
    other = {**QUICK, "task": "classify"}
    assert invoke("finetune", init_checkpoint=small_bert, model_dir=tmp_path / "other", **files, **other) != 0
    assert "holds records for multi_label, expected those of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "flags", "said"),
    [
        ("ann\tann|ann\n", {}, "bad.tsv, line 258: a label stands twice"),
        ("  \tann\n", {}, "bad.tsv, line 258: the text is empty"),
        ("ann\tmany\n", {"eval": True}, "bad.tsv, line 258: label 'many' does not occur in training"),
    ],
)
def test_bad_rows_are_named(row, flags, said, data, small_bert, tmp_path, capsys):
    (tmp_path / "bad.tsv").write_text((data / "train.tsv").read_text("utf-8") + row, "utf-8")
    files = (
        {"train_file": data / "train.tsv", "eval_file": tmp_path / "bad.tsv"}
        if flags
        else {"train_file": tmp_path / "bad.tsv"}
    )
    assert invoke("finetune", init_checkpoint=small_bert, model_dir=tmp_path / "run", **files, **QUICK) != 0
    assert said in capsys.readouterr().err
