"""A hierarchical softmax over labels: probabilities, gradients, a training from rows to a file of fastText, and what has no place."""

import keras
import numpy as np
import pytest
from keras import ops

from data_pipelines.text.huffman import paths
from tests.helpers.invocation import invoke
from xmodels.conversion import fasttext_files
from xmodels.layers.label_tree import LabelTree
from xmodels.models.folder import read_label_counts
from xmodels.runs.fine_tuned import load_predictor

COUNTS = [3, 40, 1, 7, 7, 22]


def by_loops(scores, counts):
    """Returns the probabilities of labels for scores of inner nodes (C - 1,)."""
    nodes, codes = paths(np.array(counts))
    found = np.ones(len(counts))
    for label, (way, bits) in enumerate(zip(nodes, codes, strict=True)):
        for node, bit in zip(way, bits, strict=True):
            if bit >= 0:
                yes = 1.0 / (1.0 + np.exp(-scores[node]))
                found[label] *= yes if bit else 1.0 - yes
    return found


def test_a_label_is_as_likely_as_the_decisions_on_its_way():
    keras.utils.set_random_seed(1)
    tree = LabelTree(*paths(np.array(COUNTS)), kernel_initializer="random_normal", bias_initializer="random_normal")
    states = np.random.default_rng(0).normal(size=(4, 3)).astype("float32") * 20
    found = np.exp(ops.convert_to_numpy(tree(states)))
    scores = states @ ops.convert_to_numpy(tree.kernel) + ops.convert_to_numpy(tree.bias)
    np.testing.assert_allclose(found, [by_loops(row, COUNTS) for row in scores.astype("float64")], atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)
    assert tree.kernel.shape == (3, len(COUNTS) - 1) and tree.compute_output_shape((None, 3)) == (None, len(COUNTS))


def test_two_labels_are_a_logistic_regression():
    tree = LabelTree(*paths(np.array([5, 9])), kernel_initializer="ones", use_bias=False)
    found = np.exp(ops.convert_to_numpy(tree(np.array([[2.0, -0.5]], "float32"))))
    yes = 1.0 / (1.0 + np.exp(-1.5))
    np.testing.assert_allclose(found[0], [1.0 - yes, yes], atol=1e-6)  # the rarer one is the first child


def test_scores_of_any_size_have_finite_logarithms():
    tree = LabelTree(*paths(np.array(COUNTS)), kernel_initializer="ones", use_bias=False)
    found = ops.convert_to_numpy(tree(np.array([[3e4], [-3e4]], "float32")))
    assert np.isfinite(found).all() and (found <= 0).all()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    words = {"boats": "harbour keel sail", "trains": "rail track station", "birds": "wing nest feather"}
    lines = [
        f"{label}\t{text} {number % 7}"
        for label, text in words.items()
        for number in range(12 if label == "birds" else 24)
    ]
    (folder / "train.tsv").write_text("\n".join(["label\ttext", *lines]) + "\n", "utf-8")
    flags = {
        "input_file": folder / "train.tsv",
        "text_column": "text",
        "tokenizer": "word_characters",
        "vocab_size": 60,
    }
    assert invoke("train_vocabulary", **flags, output_file=folder / "vocabulary") == 0
    return folder


def finetune(rows, run, network="new:fasttext_classifier", **more):
    flags = {"vocab_file": rows / "vocabulary"} if network.startswith("new:") else {}
    return invoke(
        "finetune", "--hierarchical_softmax", init_checkpoint=network, train_file=rows / "train.tsv", eval_file=rows / "train.tsv",
        model_dir=run, num_train_epochs=6, train_batch_size=12, text_column="text", label_column="label", jit_compile="false",
        **flags, **more,
    )  # fmt: skip


def test_rows_are_learnt_and_answered_alike_as_run_as_folder_and_as_file_of_the_library(rows, tmp_path, capsys):
    numbers = tmp_path / "numbers.json"
    numbers.write_text('{"hidden_dim": 8, "buckets": 50, "word_ngrams": 2}', "utf-8")
    assert finetune(rows, tmp_path / "run", model_config_file=numbers, learning_rate=0.05) == 0
    run = load_predictor(str(tmp_path / "run"))
    texts = [("harbour sail",), ("wing nest",), ("rail station",), ("nothing",)]
    expected = run.predict(texts)
    assert [each.label for each in expected[:3]] == ["boats", "birds", "trains"] and run.task.label_counts == [
        12,
        24,
        24,
    ]

    assert invoke("convert_checkpoint", **{"from": tmp_path / "run", "to": tmp_path / "model"}) == 0
    assert read_label_counts(str(tmp_path / "model")) == [12, 24, 24]
    for row, other in zip(expected, load_predictor(str(tmp_path / "model")).predict(texts), strict=True):
        assert other.probabilities == pytest.approx(row.probabilities, abs=1e-6)

    assert invoke("convert_checkpoint", **{"from": tmp_path / "model", "to": f"fasttext:{tmp_path}/model.bin"}) == 0
    written = fasttext_files.read(f"{tmp_path}/model.bin")
    assert written.loss == "hs" and written.label_counts.tolist() == [24, 24, 12]
    for (text,), row in zip(texts, expected, strict=True):
        theirs = {label.removeprefix("__label__"): p for label, p in fasttext_files.classify(written, text, 3)}
        assert theirs == pytest.approx(row.probabilities, abs=1e-5)


@pytest.mark.long
def test_other_formats_and_damaged_counts_are_refused(rows, tmp_path, capsys):
    numbers = tmp_path / "numbers.json"
    numbers.write_text(
        '{"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8, "max_sequence_length": 16}', "utf-8"
    )
    assert finetune(rows, tmp_path / "run", "new:bert", model_config_file=numbers, max_seq_length=16) == 0
    capsys.readouterr()
    assert invoke("convert_checkpoint", **{"from": tmp_path / "run", "to": f"hf:{tmp_path}/hf"}) == 4
    assert "has no place for --hierarchical_softmax" in capsys.readouterr().err
    task = tmp_path / "run/task.json"
    (tmp_path / "run/SHA256SUMS").unlink()
    task.write_text(task.read_text("utf-8").replace("12", "0", 1), "utf-8")
    assert invoke("predict", model_dir=tmp_path / "run", text="harbour") == 4
    assert "`label_counts` a number above 0 for each of the 3 labels" in capsys.readouterr().err
