"""ELMo in tasks: each learns how it mixes the layers, from words that the vocabulary lacks too, and is served as a SavedModel of
strings."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.conversion.test_bilm import bilm_folder
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES
from xmodels.conversion import convert
from xmodels.models.folder import read_weights
from xmodels.runs.fine_tuned import load_predictor as load

QUICK = {
    "max_seq_length": 16, "train_batch_size": 16, "distribution_strategy": "one_device", "jit_compile": "false",
    "learning_rate": 0.1, "num_train_epochs": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A network of bilm-tf as ours, and labelled texts: which kind of name stands first."""
    path = tmp_path_factory.mktemp("elmo")
    (path / "bilm").mkdir()
    assert (
        invoke("convert_checkpoint", **{"from": bilm_folder("bilm_two_layers", path / "bilm"), "to": path / "net"}) == 0
    )
    draw = np.random.default_rng(0)
    for name, count in (("train", 96), ("dev", 32)):
        rows = [(draw.choice(PLACES if i % 2 == 0 else NAMES), draw.choice([*NAMES, *PLACES])) for i in range(count)]
        kinds = ["place" if first in PLACES else "person" for first, _ in rows]
        table = [f"{first}\t{kind}\n" for (first, _), kind in zip(rows, kinds, strict=True)]
        (path / f"{name}.tsv").write_text("text\tlabel\n" + "".join(table), "utf-8")
        words = [f"{first} B-{kind}\n{second} O\n\n" for (first, second), kind in zip(rows, kinds, strict=True)]
        (path / f"{name}.conll").write_text("".join(words), "utf-8")
    return path


@pytest.fixture(scope="module")
def classifier(folder):
    files = {"train_file": folder / "train.tsv", "eval_file": folder / "dev.tsv", "init_checkpoint": folder / "net"}
    flags = QUICK | {
        "task": "classify",
        "model_dir": folder / "classify",
        "freeze_backbone": True,
        "num_train_epochs": 2,
        "task_dropout": 0.0,
    }
    assert invoke("finetune", **flags, **files) == 0
    return folder / "classify"


def weights(path):
    return read_weights(f"{path}/backbone/weights.safetensors")


@pytest.mark.long
def test_a_task_learns_the_mix_and_leaves_a_frozen_network(classifier, folder):
    found, before = weights(classifier), read_weights(f"{folder}/net/weights.safetensors")
    assert all(np.array_equal(found[name], value) for name, value in before.items())
    shares, gamma = (found[f"objective.classify.layer_mix.{name}"] for name in ("shares", "gamma"))
    assert shares.shape == (3,) and np.abs(shares).max() > 1e-3 and abs(gamma[0] - 1) > 1e-3


@pytest.mark.long
def test_unknown_words_have_answers_of_their_own(classifier):
    predictor = load(str(classifier))
    found = predictor.predict([("Berlin",), ("Berlins",), ("Berlin",)])
    numbers = [each.probabilities for each in found]
    assert numbers[0] == numbers[2] and numbers[0] != numbers[1]


def served(run, path, text):
    """Exports a run, which compares the SavedModel with it, and asks the SavedModel."""
    assert invoke("export_model", model_dir=run, export_dir=path, serving_ops="core") == 0
    signature = tf.saved_model.load(f"{path}/1").signatures["serving_default"]
    return {name: value.numpy() for name, value in signature(text=tf.constant(text)).items()}


@pytest.mark.long
def test_a_classifier_is_served_as_a_saved_model_of_strings(classifier, tmp_path):
    texts = ["york ann", "bob 天气 😀", "", "supercalifragilistic" * 5]
    found = served(classifier, tmp_path / "served", texts)
    expected = load(str(classifier)).predict([(text,) for text in texts])
    np.testing.assert_allclose(
        found["probabilities"], [list(each.probabilities.values()) for each in expected], atol=1e-5
    )


@pytest.mark.long
def test_a_tagger_learns_from_records_with_a_mix_on_both_sides_of_its_lstm(folder, tmp_path):
    flags = {"task": "tag", "input_file": folder / "train.conll", "vocab_file": folder / "net", "tag_scheme": "none"}
    assert (
        invoke("create_finetuning_data", **flags, output_dir=tmp_path / "records", max_seq_length=16, num_workers=1)
        == 0
    )
    manifest = json.loads((tmp_path / "records" / "manifest.json").read_text())
    assert manifest["features"]["character_ids"]["shape"] == [None, 50]
    mixed = {"freeze_backbone": True, "feature_layers": "0,1,2", "combine_layers": "mix_both", "bilstm_dim": 8}
    files = {"data_dir": tmp_path / "records", "eval_file": folder / "dev.conll", "init_checkpoint": folder / "net"}
    assert invoke("finetune", task="tag", model_dir=tmp_path / "tag", **QUICK | mixed | files) == 0
    found = weights(tmp_path / "tag")
    assert found["objective.tag.head.kernel"].shape == (2 * 8 + 32, 3)
    mixes = [found[f"objective.tag.{name}.shares"] for name in ("mix", "output_mix")]
    assert np.abs(mixes).max() > 1e-4 and not np.array_equal(*mixes)
    answer = served(tmp_path / "tag", tmp_path / "served", ["york ann"])
    predicted = load(str(tmp_path / "tag")).predict(["york ann"])[0]
    assert answer["entity"][0].tolist() == [each.text.encode() for each in predicted.entities]


@pytest.mark.long
def test_a_tagger_mixes_all_layers_unless_told_otherwise(folder, tmp_path):
    files = {"train_file": folder / "train.conll", "init_checkpoint": folder / "net"}
    assert invoke("finetune", task="tag", model_dir=tmp_path / "tag", **QUICK | files | {"num_train_epochs": 1}) == 0
    assert weights(tmp_path / "tag")["objective.tag.layer_mix.shares"].shape == (3,)


def test_a_vocabulary_without_characters_is_refused(folder, tmp_path, capsys):
    loaded = convert.load(str(folder / "net"))
    words = dataclasses.replace(loaded.tokenizer, settings={"tokenizer": "words", "do_lower_case": False})
    convert.save(dataclasses.replace(loaded, tokenizer=words), str(tmp_path / "net"))
    flags = QUICK | {"task": "classify", "model_dir": tmp_path / "run", "init_checkpoint": tmp_path / "net"}
    assert invoke("finetune", train_file=folder / "train.tsv", **flags) == 2
    assert "reads the characters of words, but its vocabulary is of --tokenizer=words" in capsys.readouterr().err
