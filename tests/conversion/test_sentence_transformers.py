"""Folders of sentence-transformers in and out: our vectors are those of the documented poolings, and what is not known is refused."""

import json
import os

import numpy as np
import pytest

from tests.helpers.invocation import invoke
from tests.helpers.small_models import network
from xmodels.conversion import convert
from xmodels.conversion import sentence_transformers as theirs
from xmodels.jobs.convert_checkpoint.sentence_transformers import from_run, to_run
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.runs.fine_tuned import read_task

TEXTS = ["ann in york", "", "where does bob live ? in rome", "many words " * 30, "北京 and ann"]


def folder_of(path, pooling="mean", dense=True, kind="bert"):
    """A folder as the library writes it, of a small network of random weights."""
    path.mkdir()
    (path / "start").mkdir()
    network(kind, path / "start")
    rng = np.random.default_rng(0)
    width = 48 * (1 + pooling.count("+"))  # of the poolings side by side
    layer = (rng.normal(size=(width, 6)).astype("float32") / 7, rng.normal(size=6).astype("float32"), "tanh")
    made = theirs.SentenceEncoder(convert.load(str(path / "start")), pooling, 16, layer if dense else None, dense)
    (path / "theirs").mkdir()
    theirs.write(str(path / "theirs"), made)
    return path / "theirs"


def changed(folder, name, **values):
    file = folder / name
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_run_of_a_folder_and_a_folder_of_that_run_hold_the_same(tmp_path):
    folder, run = folder_of(tmp_path / "made"), tmp_path / "run"
    to_run(str(folder), str(run))
    described = read_task(str(run))
    assert (described.max_sequence_length, described.settings["normalize"], described.settings["projection_dim"]) == (
        16,
        True,
        6,
    )
    vectors = load(str(run)).encode(TEXTS)
    assert vectors.shape == (5, 6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)
    from_run(str(run), str(tmp_path / "back"))
    names = ("modules.json", "1_Pooling/config.json", "2_Dense/config.json", "sentence_bert_config.json", "config.json")
    for name in (*names, "model.safetensors", "2_Dense/model.safetensors"):
        assert (tmp_path / "back" / name).read_bytes() == (folder / name).read_bytes(), name


@pytest.mark.long
def test_conversions_say_what_they_made_and_compare_vectors(tmp_path, capsys):
    folder, run = folder_of(tmp_path / "made"), tmp_path / "run"
    assert invoke("convert_checkpoint", "--verify", **{"from": f"sentence_transformers:{folder}", "to": run}) == 0
    back = {"from": run, "to": f"sentence_transformers:{tmp_path / 'back'}"}
    assert invoke("convert_checkpoint", "--verify", **back) == 0
    said = capsys.readouterr().out
    assert said.count("encodes texts as 6 numbers") == 2 and said.count("largest difference of the vectors: 0") == 2
    assert invoke("convert_checkpoint", **back) == 2 and "exists already" in capsys.readouterr().err


def test_both_spellings_of_poolings_and_lengths_are_read(tmp_path):
    folder = folder_of(tmp_path / "made", dense=False)
    (folder / "1_Pooling/config.json").write_text(
        json.dumps({"embedding_dimension": 48, "pooling_mode": "weightedmean"})
    )
    (folder / "sentence_bert_config.json").write_text("{}")
    changed(folder, "tokenizer_config.json", model_max_length=12)
    for several in (["lasttoken", "cls"], ["max"]):  # in the order of the list
        changed(folder, "1_Pooling/config.json", pooling_mode=several)
        assert theirs.read(str(folder)).pooling == {2: "last+first", 1: "max"}[len(several)]
    flags = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True, "pooling_mode_max_tokens": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(flags))
    assert theirs.read(str(folder)).pooling == "first+mean"
    changed(folder, "1_Pooling/config.json", pooling_mode="weightedmean")
    found = theirs.read(str(folder))
    assert (found.pooling, found.max_sequence_length, found.dense, found.normalize) == (
        "weighted_mean",
        12,
        None,
        False,
    )
    changed(folder, "tokenizer_config.json", model_max_length=10**30)  # what the library writes for no bound
    assert theirs.read(str(folder)).max_sequence_length == 32


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": False}, "expected some of the poolings cls, max, mean"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_best_tokens": True},
            "Found: pooling_mode_mean_tokens, pooling_mode_best_tokens",
        ),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "mean"]}, "each once. Found: mean, mean"),
        ("1_Pooling/config.json", {"pooling_mode": [["mean"]]}, "each once"),
        ("2_Dense/config.json", {"activation_function": "torch.nn.modules.activation.GELU"}, "activation_function"),
        ("sentence_bert_config.json", {"max_seq_length": "long"}, "`max_seq_length` must be a whole number from 4"),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "puts the prompt 'query'"),
    ],
)
def test_what_is_not_known_is_refused_by_its_file(name, values, said, tmp_path, capsys):
    folder = folder_of(tmp_path / "made")
    changed(folder, name, **values)
    flags = {"from": f"sentence_transformers:{folder}", "to": tmp_path / "run"}
    assert invoke("convert_checkpoint", **flags) == 4
    shown = capsys.readouterr().err
    assert said in shown and name in shown and not (tmp_path / "run").exists()


def test_other_steps_other_folders_and_other_tasks_are_refused(tmp_path, capsys):
    folder = folder_of(tmp_path / "made")
    steps = json.loads((folder / "modules.json").read_text())
    for found, said in (
        ([steps[1], steps[0]], "Found: Pooling, Transformer"),
        ([steps[0], {**steps[1], "path": "../1_Pooling"}], "is not a folder in this one"),
        ({}, "expected a list of steps"),
    ):
        (folder / "modules.json").write_text(json.dumps(found))
        assert invoke("convert_checkpoint", **{"from": f"sentence_transformers:{folder}", "to": tmp_path / "run"}) == 4
        assert said in capsys.readouterr().err
    os.remove(folder / "modules.json")
    assert invoke("convert_checkpoint", **{"from": f"sentence_transformers:{folder}", "to": tmp_path / "run"}) == 4
    assert "there is no modules.json" in capsys.readouterr().err
    assert (
        invoke("convert_checkpoint", **{"from": tmp_path / "made/start", "to": f"sentence_transformers:{tmp_path}/out"})
        == 4
    )
    assert "no task.json" in capsys.readouterr().err


@pytest.mark.one_in(3)
@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("pooling", [*theirs.POOLINGS, "max+mean", "last+first"])
def test_vectors_are_those_of_the_documented_poolings_in_pytorch(kind, pooling, tmp_path):
    """The states of `transformers`, and the formulas of the library's documentation."""
    import torch
    import transformers

    folder = folder_of(tmp_path / "made", pooling, kind=kind)
    to_run(str(folder), str(tmp_path / "run"))
    network_of_theirs = transformers.AutoModel.from_pretrained(folder).eval()
    rows, expected = load(str(tmp_path / "run")).features([(text,) for text in TEXTS]), []
    with torch.no_grad():
        for ids, real in zip(rows["token_ids"], rows["padding_mask"], strict=True):
            tokens = torch.tensor(ids[real][None].astype("int64"))
            states = network_of_theirs(tokens).last_hidden_state[0]
            weights = torch.arange(1.0, len(states) + 1)[:, None]
            states_of = {
                "first": lambda s: s[0],
                "last": lambda s: s[-1],
                "mean": lambda s: s.mean(0),
                "max": lambda s: s.max(0).values,
                "mean_sqrt_len": lambda s: s.sum(0) / len(s) ** 0.5,
                "weighted_mean": lambda s, w=weights: (s * w).sum(0) / w.sum(),
            }
            state = torch.cat([states_of[each](states) for each in pooling.split("+")])
            dense = {
                name: torch.tensor(value)
                for name, value in theirs.read_weights(str(folder / "2_Dense/model.safetensors")).items()
            }
            state = torch.tanh(state @ dense["linear.weight"].T + dense["linear.bias"])
            expected.append(torch.nn.functional.normalize(state, dim=0).numpy())
    np.testing.assert_allclose(load(str(tmp_path / "run")).encode(TEXTS), expected, atol=1e-5)


@pytest.mark.extra("sentence_transformers")
def test_vectors_are_those_of_the_library(tmp_path):
    import sentence_transformers as library

    for pooling in (*theirs.POOLINGS, "max+mean", "last+first"):
        folder = folder_of(tmp_path / pooling, pooling)
        to_run(str(folder), str(tmp_path / f"run_{pooling}"))
        found = load(str(tmp_path / f"run_{pooling}")).encode(TEXTS)
        np.testing.assert_allclose(
            library.SentenceTransformer(str(folder), device="cpu").encode(TEXTS), found, atol=1e-5
        )


@pytest.mark.long
def test_a_network_that_frames_texts_otherwise_is_refused(tmp_path):
    from tests.tasks.test_siamese import QUICK, table

    start, path = (
        network("gpt", (tmp_path / "gpt").mkdir() or tmp_path / "gpt"),
        table(tmp_path / "train.tsv", 32, 0, "match"),
    )
    flags = {"init_checkpoint": start, "train_file": path, "num_train_epochs": 1, "auxiliary_lm_weight": 0} | QUICK
    assert invoke("finetune", task="siamese", siamese_loss="contrastive", model_dir=tmp_path / "run", **flags) == 0
    with pytest.raises(theirs.CheckpointError, match="special tokens around texts"):
        from_run(str(tmp_path / "run"), str(tmp_path / "out"))
