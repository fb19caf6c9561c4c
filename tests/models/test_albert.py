"""ALBERT computes what the original code and Hugging Face's compute, shares what it says, and travels both ways."""

import dataclasses
import functools
import json
import math
import pathlib
import tempfile
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError
from tests.conversion.test_conversion import TOKENS, change_json
from tests.helpers.invocation import invoke
from tests.helpers.samples import make_records
from xmodels.comparison import networks
from xmodels.conversion import convert
from xmodels.conversion.tables.albert import HUGGING_FACE, SETTINGS, TABLE, TENSORFLOW1
from xmodels.conversion.tensors import rows, to_their_tensors
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.interfaces.reading import Reading
from xmodels.models import folder
from xmodels.models.albert import SIZES, Albert, AlbertConfig
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.sentence_order import SentenceOrder
from xmodels.systems.albert import READING
from xmodels.tasks.answer_beam.task import AnswerBeam
from xmodels.tasks.choose.task import Choose
from xmodels.tasks.classify.task import Classify
from xmodels.tasks.multi_label.task import MultiLabel
from xmodels.tasks.rank.task import Rank
from xmodels.tasks.regress.task import Regress
from xmodels.tasks.san.task import San
from xmodels.tasks.tag.settings import Settings as TagSettings
from xmodels.tasks.tag.task import Tag

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/albert"
CASES = ("pretraining_shared_all", "pretraining_groups2_inner2", "original_pretraining")
SMALL = AlbertConfig(
    vocabulary_size=23, hidden_dim=8, num_layers=3, num_heads=2, intermediate_dim=12, max_sequence_length=20,
    embedding_dim=6, num_groups=2, num_inner_layers=2,
)  # fmt: skip
HEADS = ("masked_lm", "sentence_order", "classify")


def write_theirs(path, name, case):
    """The weights of a case as its library writes them."""
    path.mkdir()
    settings = {theirs: case.numbers[ours] for theirs, ours in SETTINGS.items() if ours in case.numbers}
    if name.startswith("original"):
        names, values = list(case.weights), list(case.weights.values())
        names, values = [*names, "global_step"], [*values, np.array(7, "int64")]
        prefix = str(path / "model.ckpt-best")
        tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)
        (path / "albert_config.json").write_text(json.dumps(settings | {"hidden_act": "gelu"}))
        return f"tf1:{path}"
    copies = {copy: case.weights[original] for copy, original in HUGGING_FACE.tied.items()}
    save_file(case.weights | copies, path / "model.safetensors")
    more = {"model_type": "albert", "hidden_act": case.numbers["activation"], "layer_norm_eps": 1e-12}
    (path / "config.json").write_text(json.dumps(settings | more))
    return f"hf:{path}"


@functools.cache
def example(name):
    """A case with the network and the objective that hold its weights, and its batch."""
    case = {part: dict(np.load(GOLDEN / name / f"{part}.npz")) for part in ("weights", "inputs", "outputs")}
    numbers = json.loads((GOLDEN / name / "config.json").read_text())["hyperparameters"]
    case = types.SimpleNamespace(numbers=numbers, **case)
    with tempfile.TemporaryDirectory() as path:
        loaded = convert.load(write_theirs(pathlib.Path(path) / "theirs", name, case))
    case.loaded, case.batch = loaded, batch_of(case.inputs)
    case.backbone = Albert(loaded.config).initialize()
    case.objective = together(MaskedLM(loaded.config), SentenceOrder(loaded.config))
    case.objective.score(case.backbone(case.batch), case.batch, case.backbone)  # creates the weights
    folder.assign("backbone", case.backbone, loaded.values, name)
    folder.assign("objective", case.objective, loaded.values, name)
    return case


def batch_of(inputs):
    if "masked_ids" in inputs:
        hidden = {"mask_positions": inputs["masked_positions"], "labels": inputs["masked_ids"]}
        hidden["label_weights"] = inputs["masked_weights"]
    else:
        labels = inputs["mlm_labels"]
        hidden = {"labels": np.maximum(labels, 0), "label_weights": (labels != -100).astype("float32")}
        hidden["mask_positions"] = np.broadcast_to(np.arange(labels.shape[1]), labels.shape)
    batch = {"token_ids": inputs["token_ids"], "segment_ids": inputs["segment_ids"], **hidden}
    batch["sentence_order_labels"] = inputs["sop_labels"].reshape(-1)
    batch["example_weights"] = np.ones(len(inputs["token_ids"]), "float32")
    batch["padding_mask"] = inputs["padding_mask"].astype(bool)
    return {feature: ops.convert_to_tensor(value) for feature, value in batch.items()}


def assert_close(found, expected, atol=1e-4):
    """The tolerance of the golden vectors."""
    found = ops.convert_to_numpy(found)
    assert found.shape == np.shape(expected)
    assert np.max(np.abs(found - expected)) <= atol + 1e-4 * np.max(np.abs(expected))


@pytest.mark.parametrize("name", CASES)
def test_states_logits_and_losses(name):
    case = example(name)
    states, outputs, found = case.backbone.hidden_states(case.batch), case.outputs, case.backbone(case.batch)
    original = name.startswith("original")
    for index, state in enumerate(states[1:]):
        assert_close(state, outputs[f"layer_output/{index}" if original else f"hidden_states/{index + 1}"])
    assert_close(found["sequence_output"], outputs["sequence_output"])
    assert_close(found["pooled_output"], outputs["pooled_output"])
    assert_close(case.backbone.summarize(case.batch)["pooled_output"], outputs["pooled_output"])
    logits = case.objective.masked_lm.logits(found, case.batch, case.backbone)
    order = case.objective.sentence_order.head(found["pooled_output"])
    losses = {name: total / weight for name, (total, weight) in losses_of(case).items()}
    if original:
        assert_close(ops.log_softmax(ops.reshape(logits, (-1, logits.shape[-1]))), outputs["mlm_log_probs"])
        assert_close(ops.log_softmax(order), outputs["sop_log_probs"])
        assert_close(losses["masked_lm"], outputs["mlm_loss"])
        assert_close(losses["sentence_order"], outputs["sop_loss"])
    else:
        assert_close(logits, outputs["mlm_logits"])
        assert_close(order, outputs["sop_logits"])
    assert_close(sum(losses.values()), outputs["loss"])


def losses_of(case):
    return case.objective.score(case.backbone(case.batch), case.batch, case.backbone)[0]


@pytest.mark.parametrize("name", CASES)
def test_gradient_norms(name):
    case = example(name)
    weights = {f"backbone.{n}": weight for n, weight in named_weights(case.backbone).items()}
    weights |= {f"objective.{n}": weight for n, weight in named_weights(case.objective).items()}
    with tf.GradientTape() as tape:
        epsilon = 1e-5 if name.startswith("original") else 0.0  # by which the original divides too much
        (masked, count), (order, examples) = losses_of(case).values()
        loss = masked / (count + epsilon) + order / examples
    gradients = tape.gradient(loss, {n: weight.value for n, weight in weights.items()})
    gradients = {n: tf.convert_to_tensor(gradient).numpy() for n, gradient in gradients.items()}
    form = TENSORFLOW1 if name.startswith("original") else HUGGING_FACE
    theirs = to_their_tensors(gradients, TABLE.variables(form), TABLE, case.loaded.config)
    expected = dict(zip(case.outputs["grad_norm_names"], case.outputs["grad_norm_values"], strict=True))
    assert set(theirs) == set(expected)
    for tensor, norm in expected.items():
        np.testing.assert_allclose(np.linalg.norm(theirs[tensor]), norm, rtol=1e-3, atol=1e-6, err_msg=tensor)


# Sharing


SHARINGS = {  # name -> changes of the configuration, (group, part of its block) -> the group that holds the weights
    "groups": ({}, lambda index, part: index * SMALL.num_groups // SMALL.num_layers),
    "attention": (
        {"sharing": "attention", "num_groups": 1, "num_inner_layers": 1},
        lambda index, part: 0 if part.startswith("mixer") else index,
    ),
    "feedforward": (
        {"sharing": "feedforward", "num_groups": 1, "num_inner_layers": 1},
        lambda index, part: 0 if part.startswith("feedforward") else index,
    ),
}


def holder(name: str, owner) -> str:
    """The name of the weight that a weight of an unshared network is in one that shares."""
    kind, _, rest = name.partition(".")
    if kind != "groups":
        return name
    index, blocks, inner, part = rest.split(".", 3)
    return f"groups.{owner(int(index), part)}.{blocks}.{inner}.{part}"


def unshared(config, backbone, owner):
    """A network whose passes have weights of their own, with the values of those that `backbone` shares."""
    alone = Albert(dataclasses.replace(config, sharing="none")).initialize()
    source, target = named_weights(backbone), named_weights(alone)
    assert {holder(name, owner) for name in target} == set(source)
    for name, weight in target.items():
        weight.assign(source[holder(name, owner)])
    return alone


def random_batch(rows=3, length=9):
    ids = np.random.default_rng(1).integers(1, 23, (rows, length)).astype("int32")
    return {"token_ids": ids, "segment_ids": (ids > 11).astype("int32"), "padding_mask": ids > 0}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_the_gradient_of_a_shared_weight_is_the_sum_over_its_passes(sharing):
    changes, owner = SHARINGS[sharing]
    config = dataclasses.replace(SMALL, **changes)
    shared, batch = Albert(config).initialize(), random_batch()
    networks, found = (shared, unshared(config, shared, owner)), []
    for network in networks:
        weights = named_weights(network)
        with tf.GradientTape() as tape:
            outputs = network(batch)["sequence_output"]
            loss = tf.reduce_sum(
                outputs * tf.reshape(tf.range(tf.size(outputs), dtype="float32"), outputs.shape) ** 0.5
            )
        values = {name: weight.value for name, weight in weights.items() if not name.startswith("pooler")}
        gradients = tape.gradient(loss, values)
        found.append({name: tf.convert_to_tensor(value).numpy() for name, value in gradients.items()})
    totals = {name: np.zeros_like(gradient) for name, gradient in found[0].items()}
    for name, gradient in found[1].items():
        totals[holder(name, owner)] += gradient
    for name, gradient in found[0].items():
        total = totals[name]
        np.testing.assert_allclose(gradient, total, rtol=1e-4, atol=1e-5 * np.abs(total).max() + 1e-5, err_msg=name)


@pytest.mark.parametrize("sharing", ["attention", "feedforward"])
def test_halves_that_are_shared_are_written_once_and_read_again(sharing, tmp_path):
    config = dataclasses.replace(SMALL, **SHARINGS[sharing][0])
    network, again = Albert(config).initialize(), AlbertConfig.from_json(config.to_json())
    values = folder.values_of("backbone", network)
    parts = [name for name in values if ".groups.1." in name]
    assert parts and not any(f".{'mixer' if sharing == 'attention' else 'feedforward'}" in name for name in parts)
    other = Albert(again).initialize()
    folder.assign("backbone", other, values, "the first")
    batch = random_batch()
    for output, value in network(batch).items():
        np.testing.assert_array_equal(other(batch)[output], value)
    (tmp_path / "ours").mkdir()
    folder.write_values(str(tmp_path / "ours"), "albert", config, values)
    loaded = convert.load(str(tmp_path / "ours"))
    assert loaded.config == config
    with pytest.raises(CheckpointError, match=f"this format cannot say `sharing` = '{sharing}'"):
        convert.save(loaded, f"hf:{tmp_path / 'theirs'}")
    with pytest.raises(CheckpointError, match="`num_groups` = `num_inner_layers` = 1. Found: 2 and 1"):
        AlbertConfig.from_json(config.to_json() | {"num_groups": 2})


def test_more_passes_cost_no_weights():
    config = dataclasses.replace(SMALL, num_groups=1)
    one, more = (Albert(dataclasses.replace(config, num_layers=n)).initialize() for n in (2, 3))
    assert one.count_params() == more.count_params()
    folder.assign("backbone", more, folder.values_of("backbone", one), "the other")
    batch = random_batch()
    assert np.abs(one(batch)["sequence_output"] - more(batch)["sequence_output"]).max() > 1e-3


def test_without_sharing_and_with_wide_tables_it_is_bert():
    numbers = {"vocabulary_size": 23, "hidden_dim": 8, "num_layers": 3, "num_heads": 2, "intermediate_dim": 12}
    bert = Bert(BertConfig(**numbers)).initialize()
    albert = Albert(AlbertConfig(**numbers, embedding_dim=8, num_groups=3)).initialize()
    assert albert.count_params() == bert.count_params()
    theirs = {name.replace("blocks.", "groups.", 1): weight for name, weight in named_weights(bert).items()}
    for name, weight in named_weights(albert).items():
        weight.assign(theirs[name.replace(".blocks.0.", ".")])
    batch = random_batch()
    for output, value in bert(batch).items():
        np.testing.assert_allclose(albert(batch)[output], value, atol=1e-6)
    for found, expected in zip(albert.attention_maps(batch), bert.attention_maps(batch), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def size_of(layer):
    return sum(math.prod(weight.shape) for weight in layer.weights)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("size", "changes", "encoder", "with_heads"),
    [
        ("base", {}, 11_683_584, 11_813_810),
        ("large_v2", {}, 17_683_968, 17_847_474),
        ("xlarge_v2", {}, 58_724_864, 59_021_490),
        ("xxlarge_v2", {}, 222_595_584, 223_158_450),
        ("base", {"embedding_dim": 768}, 31_114_752, None),
        ("base", {"num_groups": 12, "embedding_dim": 768}, 109_081_344, None),  # that of BERT
        ("base", {"sharing": "none"}, 89_650_176, None),
        ("base", {"sharing": "attention"}, 63_647_232, None),
        pytest.param("base", {"sharing": "attention", "embedding_dim": 768}, 83_078_400, None, marks=pytest.mark.long),
        ("base", {"sharing": "feedforward"}, 37_686_528, None),
        pytest.param(
            "base", {"sharing": "feedforward", "embedding_dim": 768}, 57_117_696, None, marks=pytest.mark.long
        ),
    ],
)
def test_published_sizes(size, changes, encoder, with_heads, monkeypatch):
    def zeros(self, shape, dtype=None, **kwargs):
        return ops.zeros(shape, dtype)

    monkeypatch.setattr(keras.initializers.TruncatedNormal, "__call__", zeros)  # quicker to trace
    config = AlbertConfig(vocabulary_size=30_000, **SIZES[size] | changes)
    assert (config.dropout == config.attention_dropout == 0) == (size.endswith("v2") or size == "xxlarge")
    if config.sharing == "all":  # passes do not count, so one through each group tells the size
        config = dataclasses.replace(config, num_layers=config.num_groups)
    ids, positions = np.zeros((1, 2), "int32"), np.zeros((1, 1), "int32")
    with tf.Graph().as_default(), keras.StatelessScope(initialize_variables=False):  # allocates no weights
        network, masked_lm, order = Albert(config), MaskedLM(config), SentenceOrder(config)
        found = network.call({"token_ids": ids, "segment_ids": ids, "padding_mask": ids == 0})
        assert size_of(network) == encoder
        if with_heads:
            masked_lm.head(found["sequence_output"], positions, token_embedding=network.embedding.token)
            order.head(found["pooled_output"])
            assert encoder + size_of(masked_lm) + size_of(order) == with_heads
    keras.backend.clear_session()  # forgets the weights that were never made


# The second objective


@pytest.mark.long
@pytest.mark.parametrize(
    ("second", "parts", "packing"),
    [
        ("sentence_order", {"masked_lm", "sentence_order"}, "sentence_order"),
        pytest.param("next_sentence", {"masked_lm", "next_sentence"}, "segment_pair", marks=pytest.mark.long),
        pytest.param("none", {"masked_lm"}, "full_sentences", marks=pytest.mark.long),
    ],
)
def test_the_second_objective_can_be_another_or_none(second, parts, packing, tmp_path, zh_vocabulary):
    records = make_records(tmp_path / "records", zh_vocabulary, packing=packing, do_whole_word_mask=False)
    own = f"num_layers=1,hidden_dim=16,num_heads=2,intermediate_dim=32,embedding_dim=8,second_objective={second}"

    def pretrain(folder):
        flags = {
            "system": "albert",
            "data_dir": folder,
            "set": own,
            "model_dir": tmp_path / "run",
            "num_train_steps": 2,
        }
        return invoke("pretrain", **flags, train_batch_size=4, log_steps=1)

    assert pretrain(records) == 0
    loaded = convert.load(str(tmp_path / "run"))
    assert loaded.heads == parts
    convert.save(loaded, f"hf:{tmp_path / 'theirs'}")
    assert convert.load(f"hf:{tmp_path / 'theirs'}").heads == parts - {"next_sentence"}
    assert networks.list_packings("albert", "tiny", own)[0] == packing


@pytest.mark.long
@pytest.mark.parametrize("system", ["bert", pytest.param("bert_wwm", marks=pytest.mark.long)])
def test_bert_learns_without_next_sentences_from_any_packing(system, tmp_path, zh_vocabulary):
    records = make_records(tmp_path / "records", zh_vocabulary, packing="full_sentences")
    sizes = "num_layers=1,hidden_dim=16,num_heads=2,intermediate_dim=32"
    flags = {"system": system, "data_dir": records, "num_train_steps": 2, "train_batch_size": 4, "log_steps": 1}
    assert invoke("pretrain", model_dir=tmp_path / "with", set=sizes, **flags) == 3  # the records have no such labels
    assert invoke("pretrain", model_dir=tmp_path / "run", set=f"{sizes},next_sentence=false", **flags) == 0
    assert convert.load(str(tmp_path / "run")).heads == {"masked_lm"}


def test_records_of_another_second_objective_are_refused(tmp_path, records, capsys):
    flags = {"system": "albert", "data_dir": records, "model_dir": tmp_path / "run", "num_train_steps": 2}
    assert invoke("pretrain", **flags) == 3 and "sentence_order" in capsys.readouterr().err


# Conversion


def checkpoint(heads=HEADS, **changes):
    """A small network with random weights and three classes."""
    config = dataclasses.replace(SMALL, **changes)
    lengths, random = TABLE.lengths(config) | {"C": 3}, np.random.default_rng(1)
    values = {
        name: random.normal(size=[lengths[axis] for axis in axes.split()]).astype("float32")
        for name, axes, _, _ in rows(TABLE.variables(HUGGING_FACE), TABLE, config)
        if name.startswith("backbone.") or name.split(".")[1] in heads
    }
    text = "".join(f"{token}\n" for token in TOKENS)
    tokenizer = TokenizerFiles({"vocab.txt": text.encode()}, {"tokenizer": "wordpiece", "do_lower_case": True})
    return convert.Checkpoint("albert", config, values, tokenizer, frozenset(heads))


@pytest.mark.parametrize("kind", ["hf:", "tf1:"])
@pytest.mark.parametrize(
    ("heads", "changes"),
    [(HEADS, {}), (HEADS[:2], {"num_groups": 1, "num_inner_layers": 1}), (["masked_lm"], {"embedding_dim": 8})],
)
def test_round_trip_is_bitwise(tmp_path, kind, heads, changes):
    if kind == "hf:" and "embedding_dim" in changes:
        changes = {**changes, "force_projection": True}
    ours = checkpoint(heads, **changes)
    convert.save(ours, f"{tmp_path}/ours")
    convert.save(convert.load(f"{tmp_path}/ours"), f"{kind}{tmp_path}/theirs")
    found = convert.load(f"{kind}{tmp_path}/theirs")
    assert found.config == ours.config and found.heads == ours.heads and found.model == "albert"
    assert found.values.keys() == ours.values.keys()
    for name, value in ours.values.items():
        np.testing.assert_array_equal(found.values[name], value, err_msg=name)


def test_the_names_are_those_of_the_libraries(tmp_path):
    for name, kind in ((CASES[1], "hf:"), (CASES[2], "tf1:")):
        case = example(name)
        convert.save(case.loaded, f"{kind}{tmp_path}/{name}")
        if kind == "hf:":
            written = load_file(tmp_path / name / "model.safetensors")
            stored = json.loads((tmp_path / name / "config.json").read_text())
            assert stored["architectures"] == ["AlbertForPreTraining"] and stored["hidden_act"] == "gelu_new"
        else:
            reader = tf.train.load_checkpoint(str(tmp_path / name / "model.ckpt-best"))
            written = {n: reader.get_tensor(n) for n in reader.get_variable_to_shape_map()}
        assert written.keys() == case.weights.keys()
        for tensor, value in case.weights.items():
            np.testing.assert_array_equal(written[tensor], value, err_msg=tensor)


@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("heads", [HEADS[:2], HEADS[:1], HEADS[2:], ()])
def test_transformers_computes_the_same_from_what_we_write(heads, tmp_path):
    import torch
    import transformers

    ours = checkpoint(heads, num_groups=1, num_inner_layers=2)
    convert.save(ours, f"hf:{tmp_path}/theirs")
    architecture = json.loads((tmp_path / "theirs/config.json").read_text())["architectures"][0]
    network, report = getattr(transformers, architecture).from_pretrained(
        f"{tmp_path}/theirs", output_loading_info=True
    )
    unexpected = report.pop("unexpected_keys")  # the masked LM of transformers has no pooler
    assert not any(report.values()) and all("pooler" in name for name in unexpected)
    batch = convert.example_batch(ours.config)
    given = {"input_ids": "token_ids", "token_type_ids": "segment_ids", "attention_mask": "padding_mask"}
    with torch.no_grad():
        found = network.eval()(**{theirs: torch.from_numpy(batch[mine]) for theirs, mine in given.items()})
    expected = convert.outputs(ours)
    names = {
        "AlbertForPreTraining": {"prediction_logits": "masked_lm_logits", "sop_logits": "sentence_order_logits"},
        "AlbertForMaskedLM": {"logits": "masked_lm_logits"},
        "AlbertForSequenceClassification": {"logits": "classify_logits"},
        "AlbertModel": {"last_hidden_state": "sequence_output", "pooler_output": "pooled_output"},
    }[architecture]
    for theirs, mine in names.items():
        tokens = getattr(found, theirs).ndim == 3  # padding is seen otherwise there
        real = batch["padding_mask"].astype(bool) if tokens else slice(None)
        assert_close(getattr(found, theirs).numpy()[real], expected[mine][real])


def test_verify_compares_network_and_heads(tmp_path):
    ours = checkpoint(num_layers=1, num_groups=1, num_inner_layers=1)
    for kind in ("", "hf:"):
        convert.save(ours, f"{kind}{tmp_path}/{kind[:2] or 'ours'}")
    differences = convert.verify(f"{tmp_path}/ours", f"hf:{tmp_path}/hf")
    assert set(differences) == {"sequence_output", "pooled_output"} | {f"{head}_logits" for head in HEADS}
    assert max(differences.values()) < 1e-6


@pytest.mark.parametrize(("kind", "force"), [("hf:", False), ("tf1:", True)])
def test_a_projection_that_the_other_library_has_not_is_refused(tmp_path, kind, force):
    ours = checkpoint((), embedding_dim=8, force_projection=force)
    with pytest.raises(CheckpointError, match=f"cannot say `force_projection` = {force}"):
        convert.save(ours, f"{kind}{tmp_path}/theirs")


def test_a_damaged_number_of_groups_is_refused_at_once(tmp_path):
    convert.save(checkpoint(), f"hf:{tmp_path}/theirs")
    change_json(tmp_path / "theirs/config.json", num_hidden_groups=999, inner_group_num=999)
    with pytest.raises(CheckpointError, match="missing"):
        convert.load(f"hf:{tmp_path}/theirs")


def test_a_bare_network_and_a_missing_pooler_are_understood(tmp_path):
    convert.save(checkpoint(()), f"hf:{tmp_path}/theirs")
    file = tmp_path / "theirs/model.safetensors"
    save_file({n.removeprefix("albert."): t for n, t in load_file(file).items() if "pooler" not in n}, file)
    found = convert.load(f"hf:{tmp_path}/theirs")
    assert found.values.keys() == checkpoint(()).values.keys()
    assert any("pooler starts from initial values" in warning for warning in found.warnings)


def test_two_configurations_in_a_folder_are_refused(tmp_path):
    convert.save(checkpoint(), f"tf1:{tmp_path}/theirs")
    (tmp_path / "theirs/bert_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="expected one configuration: albert_config.json or bert_config.json"):
        convert.load(f"tf1:{tmp_path}/theirs")


def head_dropouts(reading):
    """The dropout of the head of each task that has one, of a network without dropout."""
    config = dataclasses.replace(SMALL, dropout=0.0)
    summarized = (Classify, MultiLabel, Regress, Choose, Rank, San)
    made = {each.__name__: each(config, ["a", "b"], reading=reading).dropout for each in summarized}
    tagger = Tag(config, ["O", "B"], reading, TagSettings(bilstm_dim=4))
    made |= {"Tag": tagger.dropout, "AnswerBeam": AnswerBeam(config, [], reading).head.dropout}
    return {name: layer.rate for name, layer in made.items()}


def test_heads_have_a_dropout_of_their_own():
    assert set(head_dropouts(READING).values()) == {0.1}
    assert set(head_dropouts(Reading()).values()) == {0.0}
