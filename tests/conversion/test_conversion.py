"""Checkpoints go in and out unchanged, and what does not fit is refused with a list."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError, UsageError
from xmodels.conversion import convert, hugging_face
from xmodels.conversion.hugging_face_heads import variables_of
from xmodels.conversion.tables.bert import TABLE
from xmodels.conversion.tensors import rows
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = BertConfig(
    vocabulary_size=23, hidden_dim=8, num_layers=2, num_heads=2, intermediate_dim=12, max_sequence_length=20
)
HEADS = frozenset({"masked_lm", "next_sentence", "classify"})
TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"字{index}" for index in range(18)))
TARGETS = ["", "hf:", "tf1:"]


def random_checkpoint(heads=HEADS, **changes):
    """A small network with random weights and three classes."""
    config = dataclasses.replace(CONFIG, **changes)
    lengths = TABLE.lengths(config) | {"C": 3}
    random = np.random.default_rng(1)
    names = {name: axes for name, axes, _, _ in rows(TABLE.variables(TABLE.hugging_face), TABLE, config)}
    values = {
        name: random.normal(size=[lengths[axis] for axis in axes.split()]).astype("float32")
        for name, axes in names.items()
        if name.startswith("backbone.") or name.split(".")[1] in heads
    }
    text = "".join(f"{token}\n" for token in TOKENS)
    tokenizer = TokenizerFiles({"vocab.txt": text.encode()}, {"tokenizer": "wordpiece", "do_lower_case": True})
    return convert.Checkpoint("bert", config, values, tokenizer, frozenset(heads))


def assert_same(found, expected):
    assert found.config == expected.config and found.heads == expected.heads
    assert found.tokenizer.files == expected.tokenizer.files and found.tokenizer.kind == "wordpiece"
    assert found.values.keys() == expected.values.keys()
    for name, value in expected.values.items():
        assert found.values[name].dtype == np.float32
        np.testing.assert_array_equal(found.values[name], value, err_msg=name)


def hugging_face_folder(tmp_path, **changes):
    """A written folder, its tensors, and a function that writes the tensors back."""
    path = tmp_path / "theirs"
    convert.save(random_checkpoint(**changes), f"hf:{path}")
    tensors = load_file(path / "model.safetensors")
    return path, tensors, lambda: save_file(tensors, path / "model.safetensors")


def change_json(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def listing(path):
    return sorted(file.name for file in path.iterdir())


def test_an_unknown_format_is_no_folder(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="ours:x/y: unknown format ours:. Known: hf:, tf1:"):
        convert.load("ours:x/y")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b").mkdir()
    with pytest.raises(CheckpointError):  # a folder, if one without a network
        convert.load("a:b")


HUGE = {
    "num_layers": (10_000_000, "`num_layers` must be a whole number from 1 to 1000"),
    "num_segments": (10_000_000, "`num_segments` must be a whole number from 1 to 1000"),
    "max_sequence_length": (
        10_000_000,
        "`max_sequence_length` 10,000,000, but the table of positions in weights.safetensors has",
    ),
    "vocabulary_size": (9_999_999, "`vocabulary_size` 9,999,999 times `embedding_dim` 16 is more than the"),
    "hidden_dim": (10_000_000, "`vocabulary_size` times `embedding_dim` must be at most"),
    "intermediate_dim": (int("9" * 4000), "`intermediate_dim` must be a whole number"),
}
OTHERS = {  # that may be, but are not those of the weights
    "num_layers": (900, "`num_layers` 900, but the weights in weights.safetensors are of 1"),
    "intermediate_dim": (9_000_000, "`intermediate_dim` 9,000,000, but the weights in weights.safetensors are of 32"),
    "num_heads": (16, "`num_heads` 16, but the weights in weights.safetensors are of 2"),
}


@pytest.mark.parametrize(("name", "wrong"), [*HUGE.items(), *OTHERS.items()])
def test_sizes_that_no_file_can_have_are_refused_before_anything_is_built(tmp_path, name, wrong, monkeypatch):
    config = BertConfig(1000, 16, num_layers=1, num_heads=2, intermediate_dim=32, max_sequence_length=64)
    folder.write_model(str(tmp_path), Bert(config).initialize())
    (tmp_path / "SHA256SUMS").unlink()  # as in folders of older versions
    stored = json.loads((tmp_path / "config.json").read_text())
    value, says = wrong
    stored["config"][name] = value
    (tmp_path / "config.json").write_text(json.dumps(stored))
    monkeypatch.setattr(Bert, "__init__", None)
    with pytest.raises(CheckpointError, match=f"config.json: {says}"):
        convert.load(str(tmp_path))


ALIKE = ("classify", "multi_label", "regress", "choose", "tag")  # of which a folder of Hugging Face has one at most


@pytest.mark.parametrize(
    ("variables", "tasks"),
    [
        *((variables_of(TABLE, task), [task]) for task in ALIKE),
        (TABLE.variables(TABLE.tensorflow1), ["classify"]),
    ],
)
def test_every_variable_is_mapped_once_in_both_directions(variables, tasks):
    others = tuple(f"objective.{task}." for task in ALIKE if task not in tasks)
    assert set(variables) == {name for name in TABLE.axes if not name.startswith(others)}
    assert len({theirs for theirs, _ in variables.values()}) == len(variables)
    for name, (_, axes) in variables.items():
        assert sorted(axes.replace(" ", "")) == sorted(TABLE.axes[name].replace(" ", "")), name


def test_the_table_names_the_weights_of_the_network():
    values = folder.values_of("backbone", Bert(CONFIG).initialize())
    expected = {name: value.shape for name, value in random_checkpoint(heads=()).values.items()}
    assert {name: value.shape for name, value in values.items()} == expected


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("heads", [HEADS, {"masked_lm", "next_sentence"}, {"masked_lm"}, {"classify"}, set()])
def test_round_trip_is_bitwise(tmp_path, kind, heads):
    checkpoint = random_checkpoint(heads)
    convert.save(checkpoint, f"{tmp_path}/ours")
    convert.save(convert.load(f"{tmp_path}/ours"), f"{kind}{tmp_path}/theirs")
    assert_same(convert.load(f"{kind}{tmp_path}/theirs"), checkpoint)
    assert listing(tmp_path) == ["ours", "theirs"]


@pytest.mark.parametrize(("kind", "lower_case"), [("", True), ("hf:", True), ("tf1:", None)])
def test_lower_casing_is_kept_where_the_format_says_it(tmp_path, kind, lower_case):
    convert.save(random_checkpoint(), f"{kind}{tmp_path}/theirs")
    found = convert.load(f"{kind}{tmp_path}/theirs")
    assert found.tokenizer.do_lower_case is lower_case
    assert any("lower-cases" in warning for warning in found.warnings) == (lower_case is None)


@pytest.mark.parametrize("kind", TARGETS)
def test_verify_compares_every_output(tmp_path, kind):
    convert.save(random_checkpoint(), f"{tmp_path}/ours")
    convert.save(random_checkpoint(), f"{kind}{tmp_path}/theirs")
    differences = convert.verify(f"{tmp_path}/ours", f"{kind}{tmp_path}/theirs")
    logits = {"masked_lm_logits", "next_sentence_logits", "classify_logits"}
    assert set(differences) == {"sequence_output", "pooled_output"} | logits
    assert max(differences.values()) < 1e-6


def test_verify_sees_a_changed_weight(tmp_path):
    convert.save(random_checkpoint(), f"{tmp_path}/ours")
    path, tensors, write = hugging_face_folder(tmp_path)
    tensors["cls.seq_relationship.bias"][0] += 1.0
    write()
    differences = convert.verify(f"{tmp_path}/ours", f"hf:{path}")
    assert differences["next_sentence_logits"] == pytest.approx(1.0, abs=1e-5)
    assert differences["masked_lm_logits"] == differences["sequence_output"] == 0


def test_verify_needs_the_same_heads(tmp_path):
    convert.save(random_checkpoint(), f"{tmp_path}/one")
    convert.save(random_checkpoint({"masked_lm"}), f"{tmp_path}/two")
    with pytest.raises(CheckpointError, match=r"missing \(2\): classify_logits, next_sentence_logits"):
        convert.verify(f"{tmp_path}/one", f"{tmp_path}/two")


def test_a_run_folder_is_read_through_its_backbone(tmp_path):
    convert.save(random_checkpoint(), f"{tmp_path}/run/backbone")
    assert_same(convert.load(f"{tmp_path}/run"), random_checkpoint())


@pytest.mark.parametrize("kind", ["hf:", "tf1:"])
def test_a_transposed_kernel_keeps_its_meaning(tmp_path, kind):
    checkpoint = random_checkpoint()
    convert.save(checkpoint, f"{kind}{tmp_path}/theirs")
    expected = checkpoint.values["backbone.blocks.1.mixer.merge.kernel"].reshape(8, 8)
    if kind == "hf:":
        tensors = load_file(tmp_path / "theirs" / "model.safetensors")
        found = tensors["bert.encoder.layer.1.attention.output.dense.weight"].T
    else:
        reader = tf.train.load_checkpoint(str(tmp_path / "theirs" / "bert_model.ckpt"))
        found = reader.get_tensor("bert/encoder/layer_1/attention/output/dense/kernel")
    np.testing.assert_array_equal(found, expected)


# Hugging Face


def test_old_names_buffers_and_tied_copies_are_understood(tmp_path):
    path, tensors, write = hugging_face_folder(tmp_path)
    for name in list(tensors):
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[old] = tensors.pop(name)
    tensors["bert.embeddings.position_ids"] = np.arange(20)[None]
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].copy()
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    write()
    assert_same(convert.load(f"hf:{path}"), random_checkpoint())


def test_a_bare_network_is_read_and_its_heads_are_absent(tmp_path):
    path, tensors, write = hugging_face_folder(tmp_path, heads=())
    for name in list(tensors):
        tensors[name.removeprefix("bert.")] = tensors.pop(name)
    write()
    found = convert.load(f"hf:{path}")
    assert_same(found, random_checkpoint(heads=()))
    assert [warning.split()[-1] for warning in found.warnings] == ["masked_lm.", "next_sentence."]


def test_a_missing_pooler_gets_initial_values(tmp_path):
    path, tensors, write = hugging_face_folder(tmp_path)
    for name in list(tensors):
        if "pooler" in name:
            del tensors[name]
    write()
    one, two = convert.load(f"hf:{path}"), convert.load(f"hf:{path}")
    assert any("pooler starts from initial values" in warning for warning in one.warnings)
    kernel = one.values["backbone.pooler.kernel"]
    assert 0 < np.max(np.abs(kernel)) <= 2 * CONFIG.initializer_stddev
    np.testing.assert_array_equal(kernel, two.values["backbone.pooler.kernel"])
    assert not one.values["backbone.pooler.bias"].any()


def test_an_untied_decoder_is_refused(tmp_path):
    path, tensors, write = hugging_face_folder(tmp_path)
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"] + 1
    write()
    with pytest.raises(CheckpointError, match="decoder.weight differs from bert.embeddings.word_embeddings.weight"):
        convert.load(f"hf:{path}")


def test_shards_are_joined(tmp_path):
    path, tensors, _ = hugging_face_folder(tmp_path)
    (path / "model.safetensors").unlink()
    files = {name: f"model-0000{1 + index % 2}-of-00002.safetensors" for index, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in tensors if files[name] == file}, path / file)
    index = path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))
    assert_same(convert.load(f"hf:{path}"), random_checkpoint())
    name = next(iter(files))
    index.write_text(json.dumps({"weight_map": files | {name: "../model-00001-of-00002.safetensors"}}))
    with pytest.raises(CheckpointError, match="is not a file of this folder"):
        convert.load(f"hf:{path}")
    del files[name]
    index.write_text(json.dumps({"weight_map": files}))
    with pytest.raises(CheckpointError, match=rf"unexpected \(1\): {name}"):
        convert.load(f"hf:{path}")


def test_the_vocabulary_of_a_fast_tokenizer_is_read(tmp_path):
    path, _, _ = hugging_face_folder(tmp_path)
    (path / "vocab.txt").unlink()
    ids = {token: index for index, token in reversed(list(enumerate(TOKENS)))}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True}
    parts = {"normalizer": {**normalizer, "strip_accents": None}, "pre_tokenizer": {"type": "BertPreTokenizer"}}
    word_piece = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }
    (path / "tokenizer.json").write_text(json.dumps({**parts, "model": {**word_piece, "vocab": ids}}))
    assert_same(convert.load(f"hf:{path}"), random_checkpoint())
    ids["[PAD]"] = 99
    (path / "tokenizer.json").write_text(json.dumps({**parts, "model": {**word_piece, "vocab": ids}}))
    with pytest.raises(CheckpointError, match="tokenizer.json: expected a WordPiece vocabulary"):
        convert.load(f"hf:{path}")


def test_half_precision_is_widened(tmp_path):
    path, tensors, write = hugging_face_folder(tmp_path)
    name = "bert.embeddings.word_embeddings.weight"
    half = tensors[name] = tensors[name].astype(np.dtype("bfloat16"))
    write()
    found = convert.load(f"hf:{path}").values["backbone.embedding.token.embeddings"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, half.astype("float32"))


def test_integer_weights_are_refused(tmp_path):
    path, tensors, write = hugging_face_folder(tmp_path)
    tensors["cls.predictions.bias"] = tensors["cls.predictions.bias"].astype("int32")
    write()
    with pytest.raises(CheckpointError, match="cls.predictions.bias holds int32"):
        convert.load(f"hf:{path}")


def test_the_written_configuration_names_the_architecture(tmp_path):
    path, _, _ = hugging_face_folder(tmp_path, heads={"classify"})
    stored = json.loads((path / "config.json").read_text())
    assert stored["architectures"] == ["BertForSequenceClassification"]
    assert stored["model_type"] == "bert" and stored["hidden_act"] == "gelu_new" and stored["pad_token_id"] == 0
    assert stored["id2label"] == {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}


def test_names_of_labels_go_both_ways(tmp_path):
    path, _, _ = hugging_face_folder(tmp_path, heads={"classify"})
    named = json.loads((path / "config.json").read_text()) | {"id2label": {"0": "旅行", "1": "sport", "2": "food"}}
    (path / "config.json").write_text(json.dumps(named), encoding="utf-8")
    convert.save(convert.load(f"hf:{path}"), str(tmp_path / "ours"))
    assert convert.load(str(tmp_path / "ours")).labels == ("旅行", "sport", "food")
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'again'}")
    stored = json.loads((tmp_path / "again/config.json").read_text(encoding="utf-8"))
    assert stored["id2label"] == named["id2label"] and stored["label2id"] == {"旅行": 0, "sport": 1, "food": 2}
    (path / "config.json").write_text(json.dumps(named | {"id2label": {"2": "c", "0": "a", "1": "b"}}))
    assert convert.load(f"hf:{path}").labels == ("a", "b", "c")  # the number counts, not the place
    (path / "config.json").write_text(json.dumps(named | {"id2label": {"0": "a", "1": "b"}}))
    loaded = convert.load(f"hf:{path}")
    assert loaded.labels is None and "has 3 classes but names 2 labels" in " ".join(loaded.warnings)
    for other in ({"1": "a", "2": "b", "3": "c"}, {"0": "a", "1": "a", "2": "b"}, ["a", "b", "c"]):
        (path / "config.json").write_text(json.dumps(named | {"id2label": other}))
        loaded = convert.load(f"hf:{path}")
        assert loaded.labels is None and "`id2label` must name the classes 0, 1, 2" in " ".join(loaded.warnings)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("model_type", "funnel"),
        ("hidden_act", "mish"),
        ("hidden_act", ["gelu"]),
        ("num_attention_heads", 3),
        ("num_hidden_layers", "two"),
        ("layer_norm_eps", -1.0),
    ],
)
def test_what_our_network_cannot_express_is_refused(tmp_path, key, value):
    path, _, _ = hugging_face_folder(tmp_path)
    change_json(path / "config.json", **{key: value})
    with pytest.raises(CheckpointError) as error:
        convert.load(f"hf:{path}")
    assert str(value) in str(error.value)


def test_a_missing_setting_is_named(tmp_path):
    path, _, _ = hugging_face_folder(tmp_path)
    (path / "config.json").write_text('{"vocab_size": 23}')
    with pytest.raises(CheckpointError, match="config.json: missing keys: hidden_size, num_hidden_layers"):
        convert.load(f"hf:{path}")


# What does not fit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("bert.pooler.dense.bias"), r"missing \(1\): bert.pooler.dense.bias\."),
        (
            lambda t: t.update(strange=t.pop("bert.embeddings.LayerNorm.weight")),
            r"missing \(1\): bert.embeddings.LayerNorm.weight; unexpected \(1\): strange",
        ),
        (
            lambda t: t.update({"bert.pooler.dense.bias": np.zeros(9, "float32")}),
            r"another shape \(1\): bert.pooler.dense.bias: \[9\] in the file, \[8\] in the model",
        ),
        (lambda t: t.pop("classifier.bias"), r"missing \(1\): classifier.bias"),
        (lambda t: t.update({"classifier.bias": np.zeros((), "float32")}), r"classifier.bias: \[\] in the file"),
        (lambda t: t.update(qa_outputs=np.zeros(2, "float32")), r"unexpected \(1\): qa_outputs"),
    ],
)
def test_every_tensor_is_accounted_for(tmp_path, change, message):
    path, tensors, write = hugging_face_folder(tmp_path)
    change(tensors)
    write()
    with pytest.raises(CheckpointError, match=message):
        convert.load(f"hf:{path}")


def test_a_model_folder_of_ours_is_checked_too(tmp_path):
    checkpoint = random_checkpoint()
    values = dict(checkpoint.values)
    values["objective.masked_lm.head.extra"] = values.pop("objective.masked_lm.head.bias")
    folder.write_values(str(tmp_path), "bert", checkpoint.config, values)
    with pytest.raises(CheckpointError, match=r"missing \(1\): objective.masked_lm.head.bias; unexpected \(1\): "):
        convert.load(str(tmp_path))


def test_a_damaged_number_of_layers_is_refused_at_once(tmp_path):
    path, _, _ = hugging_face_folder(tmp_path)
    change_json(path / "config.json", num_hidden_layers=999)
    with pytest.raises(CheckpointError, match="missing"):
        convert.load(f"hf:{path}")


def test_truncated_files_are_named(tmp_path):
    path, _, _ = hugging_face_folder(tmp_path)
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(CheckpointError, match=f"{file}: not a readable safetensors file"):
        convert.load(f"hf:{path}")


@pytest.mark.parametrize("file", ["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"])
def test_truncated_tensorflow_checkpoints_are_named(tmp_path, file):
    convert.save(random_checkpoint(), f"tf1:{tmp_path}/theirs")
    damaged = tmp_path / "theirs" / file
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    with pytest.raises(CheckpointError, match="bert_model.ckpt: not a readable TensorFlow checkpoint"):
        convert.load(f"tf1:{tmp_path}/theirs")


@pytest.mark.parametrize("source", ["nowhere", "hf:nowhere", "tf1:nowhere"])
def test_a_missing_source_is_named(source):
    with pytest.raises(CheckpointError, match="nowhere"):
        convert.load(source)


# Pickles


def test_no_pickle_is_loaded_unasked(tmp_path):
    path, _, _ = hugging_face_folder(tmp_path)
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="no pickle is loaded without `--allow_pickle`"):
        convert.load(f"hf:{path}")


class _Malicious:
    def __reduce__(self):
        return os.mkdir, ("should_not_exist",)


@pytest.mark.extra("torch")
def test_a_pickle_that_was_asked_for_runs_no_code(tmp_path, monkeypatch):
    import torch

    monkeypatch.chdir(tmp_path)
    path, tensors, _ = hugging_face_folder(tmp_path)
    (path / "model.safetensors").unlink()
    file = path / "pytorch_model.bin"
    torch.save({name: torch.from_numpy(tensor) for name, tensor in tensors.items()}, file)
    assert_same(convert.load(f"hf:{path}", allow_pickle=True), random_checkpoint())
    torch.save({"bert.pooler.dense.bias": _Malicious()}, file)
    with pytest.raises(CheckpointError, match="not a readable PyTorch file"):
        convert.load(f"hf:{path}", allow_pickle=True)
    assert listing(tmp_path) == ["theirs"]


def test_a_pickle_is_not_read_by_a_torch_that_runs_its_code(tmp_path, monkeypatch):
    path, _, _ = hugging_face_folder(tmp_path)
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(__version__="2.5.1+cpu"))
    with pytest.raises(CheckpointError, match="PyTorch 2.5.1.cpu can run code .* Install PyTorch 2.6"):
        convert.load(f"hf:{path}", allow_pickle=True)


def test_a_pickle_without_torch_says_what_to_install(tmp_path, monkeypatch):
    path, _, _ = hugging_face_folder(tmp_path)
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CheckpointError, match="needs PyTorch"):
        convert.load(f"hf:{path}", allow_pickle=True)


# TensorFlow 1


def test_a_prefix_or_its_folder_is_read(tmp_path):
    convert.save(random_checkpoint(), f"tf1:{tmp_path}/theirs")
    theirs = tmp_path / "theirs"
    assert_same(convert.load(f"tf1:{theirs}/bert_model.ckpt"), random_checkpoint())
    for file in listing(theirs):
        if file.startswith("bert_model.ckpt"):
            (theirs / file).rename(theirs / file.replace("bert_model.ckpt", "model.ckpt-100"))
    assert_same(convert.load(f"tf1:{theirs}"), random_checkpoint())
    (theirs / "other.index").write_bytes(b"")
    with pytest.raises(CheckpointError, match="expected one checkpoint. Found: model.ckpt-100, other"):
        convert.load(f"tf1:{theirs}")


def test_optimizer_slots_are_skipped_and_nothing_else(tmp_path):
    convert.save(random_checkpoint(), f"tf1:{tmp_path}/theirs")
    prefix = str(tmp_path / "theirs" / "bert_model.ckpt")
    reader = tf.train.load_checkpoint(prefix)
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

    def write(extra):
        names, values = list(tensors) + list(extra), list(tensors.values()) + list(extra.values())
        tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)

    slots = {f"{name}/{slot}": value for name, value in tensors.items() for slot in ("adam_m", "adam_v", "lamb_m")}
    write(slots | {"global_step": np.array(3, "int64"), "beta1_power": np.float32(0.9)})
    assert_same(convert.load(f"tf1:{prefix}"), random_checkpoint())
    write({"bert/madam/kernel": np.zeros(3, "float32")})
    with pytest.raises(CheckpointError, match=r"unexpected \(1\): bert/madam/kernel"):
        convert.load(f"tf1:{prefix}")


@pytest.mark.parametrize("changes", [{"activation": "gelu"}, {"layer_norm_epsilon": 1e-5}])
def test_what_google_cannot_say_is_not_written(tmp_path, changes):
    with pytest.raises(CheckpointError, match="this format"):
        convert.save(random_checkpoint(**changes), f"tf1:{tmp_path}/theirs")
    assert listing(tmp_path) == []


# Targets


@pytest.mark.parametrize("kind", TARGETS)
def test_an_existing_target_is_left_alone(tmp_path, kind):
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(UsageError, match="exists already"):
        convert.save(random_checkpoint(), f"{kind}{target}")
    assert listing(tmp_path) == ["target"] and listing(target) == []


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(hugging_face, "write_weights", full_disk)
    with pytest.raises(OSError, match="No space left"):
        convert.save(random_checkpoint(), f"hf:{tmp_path}/theirs")
    assert listing(tmp_path) == []


# Other libraries and backends

RUN_ELSEWHERE = """
import sys
import types
sys.modules["tensorflow"] = None  # an import of it fails
import numpy as np
from xmodels.conversion import convert
path, target = sys.argv[1:]
np.savez(target, **convert.outputs(convert.load(path)))
"""


@pytest.mark.long
@pytest.mark.parametrize("backend", [pytest.param(name, marks=pytest.mark.extra(name)) for name in ("jax", "torch")])
def test_other_backends_compute_the_same_without_tensorflow(tmp_path, backend):
    checkpoint = random_checkpoint()
    convert.save(checkpoint, f"{tmp_path}/ours")
    subprocess.run(
        [sys.executable, "-c", RUN_ELSEWHERE, f"{tmp_path}/ours", f"{tmp_path}/outputs.npz"],
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=300,
    )
    expected = convert.outputs(checkpoint)
    with np.load(tmp_path / "outputs.npz") as found:
        assert set(found) == set(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("heads", [{"masked_lm", "next_sentence"}, {"classify"}])
def test_transformers_computes_the_same_from_what_we_write(tmp_path, heads):
    import torch
    import transformers

    checkpoint = random_checkpoint(heads)
    convert.save(checkpoint, f"hf:{tmp_path}/theirs")
    architecture = json.loads((tmp_path / "theirs" / "config.json").read_text())["architectures"][0]
    network, report = getattr(transformers, architecture).from_pretrained(
        str(tmp_path / "theirs"), output_loading_info=True
    )
    assert not any(report.values())
    batch = {name: torch.from_numpy(value) for name, value in convert.example_batch(checkpoint.config).items()}
    with torch.no_grad():
        found = network(batch["token_ids"], batch["padding_mask"], batch["segment_ids"], output_hidden_states=True)
    expected = convert.outputs(checkpoint)
    np.testing.assert_allclose(found.hidden_states[-1], expected["sequence_output"], atol=1e-5)
    if heads == {"classify"}:
        np.testing.assert_allclose(found.logits, expected["classify_logits"], atol=1e-5)
    else:
        np.testing.assert_allclose(found.prediction_logits, expected["masked_lm_logits"], atol=1e-4)
        np.testing.assert_allclose(found.seq_relationship_logits, expected["next_sentence_logits"], atol=1e-5)
    tokenizer = transformers.BertTokenizer.from_pretrained(str(tmp_path / "theirs"))
    assert tokenizer.convert_tokens_to_ids(list(TOKENS)) == list(range(len(TOKENS)))
