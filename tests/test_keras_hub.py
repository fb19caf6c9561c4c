"""Presets of KerasHub compute what our networks compute, in both directions, and cut texts alike."""

import json
import os

import h5py
import keras_hub
import numpy as np
import pytest

from data_pipelines.errors import CheckpointError
from data_pipelines.text.kinds import open_tokenizer
from xmodels.conversion import convert
from xmodels.models import folder

NUMBERS = {
    "vocabulary_size": 40,
    "num_layers": 3,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "max_sequence_length": 12,
}
HALF = {"embedding_dim": 6, "num_groups": 3, "num_inner_repetitions": 2, "num_layers": 6}
MODELS = keras_hub.models
MAKE = {
    "bert": lambda: MODELS.BertBackbone(**NUMBERS),
    "albert": lambda: MODELS.AlbertBackbone(**{**NUMBERS, **HALF}),
    "roberta": lambda: MODELS.RobertaBackbone(**NUMBERS),
    "gpt2": lambda: MODELS.GPT2Backbone(**NUMBERS),
    "bart": lambda: MODELS.BartBackbone(**NUMBERS),
}
CLASSIFIERS = {
    "bert": MODELS.BertTextClassifier,
    "albert": MODELS.AlbertTextClassifier,
    "roberta": MODELS.RobertaTextClassifier,
}


def shaken(model):
    """The model with weights that are all different, and no zeros."""
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if np.issubdtype(np.dtype(weight.dtype), np.floating):
            weight.assign(rng.normal(0.2, 0.4, weight.shape))
    return model


def batch():
    ids = np.random.default_rng(1).integers(2, 40, (2, 9)).astype("int32")
    real = np.arange(9) < np.array([[9], [6]])
    return {
        "token_ids": np.where(real, ids, 1).astype("int32"), "padding_mask": real, "target_ids": ids[:, ::-1].copy(),
        "segment_ids": (np.arange(9) > 4).astype("int32") * real,
    }  # fmt: skip


def theirs(model, name):
    """What a network of KerasHub makes of the batch."""
    b, mask = batch(), batch()["padding_mask"].astype("int32")
    features = {"token_ids": b["token_ids"], "padding_mask": mask, "segment_ids": b["segment_ids"]}
    if name == "bart":
        features = {
            "encoder_token_ids": b["token_ids"], "encoder_padding_mask": mask, "decoder_token_ids": b["target_ids"],
            "decoder_padding_mask": np.ones_like(mask),
        }  # fmt: skip
    if name in ("roberta", "gpt2"):
        del features["segment_ids"]
    return model(features)


def states(outputs, name):
    """The last states of real tokens."""
    if isinstance(outputs, dict):
        outputs = outputs.get("decoder_sequence_output", outputs.get("sequence_output"))
    return np.array(outputs)[batch()["padding_mask"] if name != "bart" else slice(None)]


def ours(path, name):
    loaded = convert.load(path)
    network = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", network, loaded.values, loaded.model)
    reads = {k: v for k, v in batch().items() if k in network.reads or k in network.may_read}
    return network(reads), loaded


@pytest.fixture(scope="module", params=MAKE)
def preset(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("presets") / request.param
    network = shaken(MAKE[request.param]())
    network.save_to_preset(str(path))
    return request.param, str(path), network


def test_a_preset_computes_here_what_it_computes_there(preset):
    name, path, network = preset
    found, loaded = ours(f"keras_hub:{path}", name)
    assert loaded.model == name and convert.model_of(f"keras_hub:{path}") == name
    np.testing.assert_allclose(states(found, name), states(theirs(network, name), name), rtol=2e-3, atol=2e-4)


def test_what_we_write_is_read_there_and_comes_back(preset, tmp_path):
    name, path, network = preset
    loaded = convert.load(f"keras_hub:{path}")
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = keras_hub.models.Backbone.from_preset(str(tmp_path / "back"))
    np.testing.assert_allclose(
        states(theirs(again, name), name), states(theirs(network, name), name), rtol=1e-5, atol=1e-5
    )
    assert max(convert.verify(f"keras_hub:{path}", f"keras_hub:{tmp_path}/back").values()) < 1e-5


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_keeps_its_head_in_both_directions(name, tmp_path):
    model = shaken(CLASSIFIERS[name](backbone=MAKE[name](), num_classes=3))
    model.save_to_preset(str(tmp_path / "there"))
    logits = np.array(theirs(model, name))
    loaded = convert.load(f"keras_hub:{tmp_path}/there")
    assert (
        "classify" in loaded.heads and convert.tensors.num_classes(loaded.values, convert.formats.table_of(name)) == 3
    )
    table = convert.formats.table_of(name)
    head = next(head for head in table.heads if head.label == "classify")
    network = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", network, loaded.values, loaded.model)
    reads = {k: v for k, v in batch().items() if k in network.reads or k in network.may_read}
    found = convert._logits(head, network(reads), reads, network, loaded)
    np.testing.assert_allclose(np.array(found), logits, rtol=2e-3, atol=2e-4)
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = keras_hub.models.TextClassifier.from_preset(str(tmp_path / "back"), preprocessor=None)
    np.testing.assert_allclose(np.array(theirs(again, name)), logits, rtol=1e-5, atol=1e-5)


TEXTS = ["the cat's hat", "unheard of", "a 你好 b"]


def test_word_pieces_go_both_ways(tmp_path):
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "the",
        "cat",
        "'",
        "s",
        "hat",
        "un",
        "##heard",
        "of",
        "a",
        "你",
        "好",
        "b",
    ]
    (tmp_path / "v.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    their = MODELS.BertTokenizer(vocabulary=str(tmp_path / "v.txt"), lowercase=True)
    MODELS.BertBackbone(**{**NUMBERS, "vocabulary_size": len(tokens)}).save_to_preset(str(tmp_path / "there"))
    their.save_to_preset(str(tmp_path / "there"))
    loaded = convert.load(f"keras_hub:{tmp_path}/there")
    assert [loaded.tokenizer.open().encode(text).ids for text in TEXTS] == [their(text).tolist() for text in TEXTS]
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = MODELS.BertTokenizer.from_preset(str(tmp_path / "back"))
    assert [again(text).tolist() for text in TEXTS] == [their(text).tolist() for text in TEXTS]


def test_what_its_word_pieces_do_otherwise(tmp_path):
    """As docs/keras_hub.md says."""
    (tmp_path / "v.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "café", "a", "b", "ab"]), "utf-8"
    )
    their = MODELS.BertTokenizer(vocabulary=str(tmp_path / "v.txt"), lowercase=True)
    our = open_tokenizer(str(tmp_path / "v.txt"), "wordpiece", True)
    for text, theirs_, ours_ in (("Café", [6], [5]), ("a\u00adb", [7, 8], [9]), ("ａ", [7], [1])):
        assert (their(text).tolist(), our.encode(text).ids) == (theirs_, ours_)


@pytest.mark.parametrize("name", ["roberta", "gpt2", "bart"])
def test_byte_bpe_goes_both_ways(name, tmp_path):
    made = {"roberta": MODELS.RobertaTokenizer, "gpt2": MODELS.GPT2Tokenizer, "bart": MODELS.BartTokenizer}[name]
    bytes_ = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if name != "gpt2" else ["<|endoftext|>"]
    merges = ["t h", "th e", "Ġ a", "c a", "ca t"]
    vocabulary = {token: i for i, token in enumerate([*special, *bytes_, *(m.replace(" ", "") for m in merges)])}
    their = made(vocabulary=vocabulary, merges=merges)
    type(MAKE[name]())(**{**NUMBERS, "vocabulary_size": len(vocabulary)}).save_to_preset(str(tmp_path / "there"))
    their.save_to_preset(str(tmp_path / "there"))
    loaded = convert.load(f"keras_hub:{tmp_path}/there")
    assert [loaded.tokenizer.open().encode(text).ids for text in TEXTS] == [their(text).tolist() for text in TEXTS]
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = made.from_preset(str(tmp_path / "back"))
    assert [again(text).tolist() for text in TEXTS] == [their(text).tolist() for text in TEXTS]


def change(path, edit):
    with open(path) as file:
        value = json.load(file)
    edit(value)
    with open(path, "w") as file:
        json.dump(value, file)


def test_what_cannot_be_read_is_named(tmp_path):
    path = str(tmp_path / "preset")
    MAKE["bert"]().save_to_preset(path)
    change(f"{path}/config.json", lambda value: value.update(class_name="Evil", registered_name="os>system"))
    with pytest.raises(CheckpointError, match="config.json: a network of the class 'Evil'. Known: .*BertBackbone"):
        convert.load(f"keras_hub:{path}")
    change(f"{path}/config.json", lambda value: value.update(class_name="BertBackbone"))
    change(f"{path}/config.json", lambda value: value["config"].update(num_layers=4))
    with pytest.raises(CheckpointError, match="transformer_encoder_3"):
        convert.load(f"keras_hub:{path}")
    change(f"{path}/config.json", lambda value: value["config"].update(num_layers=10**9))
    with pytest.raises(CheckpointError, match="`num_layers` must be"):
        convert.load(f"keras_hub:{path}")
    change(f"{path}/config.json", lambda value: value["config"].update(num_layers=3))
    with h5py.File(f"{path}/model.weights.h5", "r+") as file:
        del file["layers/dense/vars/0"]
        file["layers/dense/vars/0"] = h5py.ExternalLink("/etc/hostname", "/x")
    with pytest.raises(CheckpointError, match="leads elsewhere"):
        convert.load(f"keras_hub:{path}")
    os.truncate(f"{path}/model.weights.h5", 100)
    with pytest.raises(CheckpointError, match="not a readable file of weights"):
        convert.load(f"keras_hub:{path}")


def test_what_kerashub_cannot_say_is_refused(tmp_path):
    path = str(tmp_path / "preset")
    MAKE["bert"]().save_to_preset(path)
    loaded = convert.load(f"keras_hub:{path}")
    exact = convert.dataclasses.replace(loaded, config=convert.dataclasses.replace(loaded.config, activation="gelu"))
    with pytest.raises(CheckpointError, match="cannot say `activation` = 'gelu'"):
        convert.save(exact, f"keras_hub:{tmp_path}/out")
    assert not os.path.exists(tmp_path / "out")
