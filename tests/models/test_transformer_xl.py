"""Transformer-XL computes what the original and Hugging Face's do, over segments that go on; its memory means what it says."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError
from tests.helpers.parity import (
    assert_close,
    assert_gradient_norms,
    assert_outputs,
    feed,
    gradients_of,
    names_of,
    read_case,
)
from xmodels.conversion import convert
from xmodels.layers.adaptive import AdaptiveSoftmax
from xmodels.layers.attention.relative import relative_shift
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.models.transformer_xl import SIZES, TransformerXL, TransformerXLConfig
from xmodels.objectives.adaptive_lm import AdaptiveLM

HUGGING_FACE, ORIGINAL = (
    ["lm3segments_div2", "lm3segments_same_length_clamp"], ["original_lm3segments", "original_eval_same_length"],
)  # fmt: skip


def config_of(case):
    n = case.numbers
    own = {int(name.rsplit(".", 1)[1]) for name in case.weights if name.startswith("crit.out_projs.")}
    clusters = range(len(n["cutoffs"]) + 1)
    return TransformerXLConfig(
        n["vocabulary_size"], n["hidden_dim"], n["num_layers"], n["num_heads"], n["intermediate_dim"], dropout=0.0,
        memory_length=n["memory_length"], head_dim=n["head_dim"], embedding_dim=n["embedding_dim"],
        cutoffs=tuple(n["cutoffs"]), embedding_division=n["embedding_division"],
        tied_projections="".join("F" if i in own else "T" for i in clusters),
        clamp_length=n["clamp_length"] if n["clamp_length"] > 0 else None, same_length=n["same_length"],
        pre_norm=n["pre_layer_norm"], untied_biases=n["untie_relative_biases"],
    )  # fmt: skip


def table_of(config, prefix):
    """The table of all weights for `parity.feed`."""
    heads, width = config.num_heads, config.hidden_dim
    rows = {}

    def third(part):
        return lambda x: np.split(x, 3)[part].T.reshape(width, heads, -1)

    for i in range(config.num_layers):
        ours, theirs = f"backbone.blocks.{i}", f"{prefix}layers.{i}"
        for part, name in enumerate(("query", "key", "value")):
            rows[f"{ours}.mixer.{name}.kernel"] = (f"{theirs}.dec_attn.qkv_net.weight", third(part))
        rows[f"{ours}.mixer.position.kernel"] = (
            f"{theirs}.dec_attn.r_net.weight",
            lambda x: x.T.reshape(width, heads, -1),
        )
        rows[f"{ours}.mixer.merge.kernel"] = (
            f"{theirs}.dec_attn.o_net.weight",
            lambda x: x.T.reshape(heads, -1, width),
        )
        if config.untied_biases:
            rows[f"{ours}.content_bias"] = f"{theirs}.dec_attn.r_w_bias"
            rows[f"{ours}.position_bias"] = f"{theirs}.dec_attn.r_r_bias"
        for norm, name in (("mixer_norm", "dec_attn.layer_norm"), ("feedforward_norm", "pos_ff.layer_norm")):
            rows[f"{ours}.{norm}.gamma"] = f"{theirs}.{name}.weight"
            rows[f"{ours}.{norm}.beta"] = f"{theirs}.{name}.bias"
        for name, number in (("expand", 0), ("contract", 3)):
            rows[f"{ours}.feedforward.{name}.kernel"] = (f"{theirs}.pos_ff.CoreNet.{number}.weight", lambda x: x.T)
            rows[f"{ours}.feedforward.{name}.bias"] = f"{theirs}.pos_ff.CoreNet.{number}.bias"
    if not config.untied_biases:
        rows["backbone.biases.content_bias"] = f"{prefix}r_w_bias"
        rows["backbone.biases.position_bias"] = f"{prefix}r_r_bias"
    for i in range(len(config.cutoffs) + 1):
        rows[f"backbone.embedding.table_{i}"] = f"{prefix}word_emb.emb_layers.{i}.weight"
        rows[f"backbone.embedding.projection_{i}"] = (f"{prefix}word_emb.emb_projs.{i}", lambda x: x.T)
        rows[f"head.bias_{i}"] = f"crit.out_layers.{i}.bias"
        rows[f"head.projection_{i}"] = (f"crit.out_projs.{i}", lambda x: x.T)
    # The original takes the columns of the clusters from the end.
    turned = (lambda x: x[::-1]) if not prefix else (lambda x: x)
    rows["head.cluster_weight"], rows["head.cluster_bias"] = (
        ("crit.cluster_weight", turned),
        ("crit.cluster_bias", turned),
    )
    return rows


def signal_of(rates, most, keys):
    """The signal of the original at other rates than 10,000 ** (-2 j / D)."""
    angles = np.outer(np.minimum(np.arange(keys - 1, -1, -1.0), most), rates)
    return ops.convert_to_tensor(np.concatenate([np.sin(angles), np.cos(angles)], axis=1), "float32")


@functools.cache
def model(name):
    case = read_case(f"transformer_xl/{name}")
    config = config_of(case)
    backbone, objective = TransformerXL(config).initialize(), AdaptiveLM(config)
    weights = {f"backbone.{n}": v for n, v in named_weights(backbone).items()}
    weights |= named_weights(objective)
    rows = table_of(config, "" if name in ORIGINAL else "transformer.")
    if name == "lm3segments_same_length_clamp":  # one table, of which the biases are cut
        rows["head.bias_0"] = ("crit.out_layers.0.bias", lambda x: x[:30])
        rows["head.bias_1"] = ("crit.out_layers.0.bias", lambda x: x[30:])
    unused = {n for n in case.weights if "inv_freq" in n} | set(case.config["tied_parameters"])
    feed(weights, rows, case.weights, unused)
    rates = next(value for name, value in case.weights.items() if name.endswith("inv_freq"))
    backbone.signal = functools.partial(signal_of, rates, config.clamp_length or np.inf)  # the cases drew theirs anew
    return backbone, objective


def folder_of(case, path, **changes):
    """A folder as `TransfoXLLMHeadModel.save_pretrained` wrote it, with copies of what is shared."""
    n = case.numbers
    own = [f"crit.out_projs.{i}" in case.weights for i in range(len(n["cutoffs"]) + 1)]
    config = {
        "model_type": "transfo-xl", "architectures": ["TransfoXLLMHeadModel"], "vocab_size": n["vocabulary_size"],
        "cutoffs": n["cutoffs"], "d_model": n["hidden_dim"], "d_embed": n["embedding_dim"], "n_head": n["num_heads"],
        "d_head": n["head_dim"], "d_inner": n["intermediate_dim"], "div_val": n["embedding_division"], "n_layer": n["num_layers"],
        "mem_len": n["memory_length"], "clamp_len": n["clamp_length"], "same_length": n["same_length"], "pre_lnorm": False,
        "untie_r": n["untie_relative_biases"], "tie_projs": [not each for each in own], "adaptive": True, "attn_type": 0,
        "dropout": 0.0, "dropatt": 0.0,
    }  # fmt: skip
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config | changes))
    copies = {copy: case.weights[original] for copy, original in case.config["tied_parameters"].items()}
    save_file(case.weights | copies, path / "model.safetensors")
    return f"hf:{path}"


def test_folders_of_hugging_face_are_read_and_written(tmp_path):
    case, (backbone, objective) = read_case("transformer_xl/lm3segments_div2"), model("lm3segments_div2")
    source, target = folder_of(case, tmp_path / "theirs"), f"hf:{tmp_path / 'again'}"
    found = convert.load(source)
    assert found.config == config_of(case) and found.heads == {"adaptive_lm"}
    expected = {f"backbone.{n}": v for n, v in named_weights(backbone).items()}
    expected |= {f"objective.adaptive_lm.{n}": v for n, v in named_weights(objective).items()}
    assert found.values.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found.values[name], value, err_msg=name)
    convert.save(found, target)
    written = load_file(tmp_path / "again/model.safetensors")
    assert {name for name in case.weights if "inv_freq" not in name} == set(written)
    assert all(np.array_equal(value, case.weights[name]) for name, value in written.items())
    assert max(convert.verify(source, target).values()) < 1e-6


@pytest.mark.parametrize(
    "more",
    [
        {"untied_biases": True, "pre_norm": True, "clamp_length": 4, "same_length": True},
        {"cutoffs": (7, 12), "embedding_division": 2, "tied_projections": "TFT", "embedding_dim": 8},
        {"embedding_dim": 4},
    ],
)
def test_what_a_folder_of_hugging_face_can_say_comes_back(more, tmp_path):
    backbone = tiny(**more)
    objective = AdaptiveLM(backbone.config)
    (tmp_path / "ours").mkdir()
    folder.write_model(str(tmp_path / "ours"), backbone, objective)
    ours = convert.load(str(tmp_path / "ours"))
    convert.save(ours, f"hf:{tmp_path / 'theirs'}")
    found = convert.load(f"hf:{tmp_path / 'theirs'}")
    assert found.values.keys() == ours.values.keys()
    assert all(np.array_equal(found.values[name], value) for name, value in ours.values.items())
    assert max(convert.verify(str(tmp_path / "ours"), f"hf:{tmp_path / 'theirs'}").values()) < 1e-6


def test_what_cannot_be_read_from_hugging_face_is_said(tmp_path):
    case = read_case("transformer_xl/lm3segments_div2")
    for number, (changes, said) in enumerate(
        [
            ({"div_val": 1}, "`div_val` 1"),
            ({"attn_type": 2}, "`attn_type` = 2"),
            ({"cutoffs": [50, 20]}, "`cutoffs` must rise"),
        ]
    ):
        with pytest.raises(CheckpointError, match=said):
            convert.load(folder_of(case, tmp_path / str(number), **changes))


def segments(case):
    length = case.numbers["segment_length"]
    ids = case.inputs["token_ids"]
    for i in range(3):
        yield i, ids[:, i * length : (i + 1) * length], ids[:, i * length + 1 : (i + 1) * length + 1]


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_segments_that_go_on_give_what_hugging_face_gives(name):
    case, (backbone, objective) = read_case(f"transformer_xl/{name}"), model(name)
    past = backbone.initial_memory(2)
    past["memory_filled"] = ops.full(
        (2,), case.numbers["memory_length"], "int32"
    )  # it looks at the zeros before the text
    for i, token_ids, _ in segments(case):
        batch = {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids, bool), **past}
        states = enumerate(backbone.hidden_states(batch))
        assert_outputs({f"segment{i}/hidden_states/{layer}": state for layer, state in states}, case.outputs)
        outputs = backbone(batch)
        assert_close(objective.logits(outputs["sequence_output"], backbone), case.outputs[f"segment{i}/log_probs"])
        past = {part: outputs[part] for part in ("memory", "memory_filled")}
    for layer in range(case.numbers["num_layers"]):
        assert_close(ops.transpose(past["memory"][:, layer], (1, 0, 2)), case.outputs[f"final_mems/{layer}"])


def total_loss(case, backbone, objective, past):
    """The sum over segments of their mean losses; yields what each gives on the way."""
    total, found = 0.0, []
    for _, token_ids, labels in segments(case):
        batch = {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids, bool), "labels": labels, **past}
        outputs = backbone(batch)
        batch["label_weights"] = np.ones(labels.shape, "float32")
        ((loss, weight),) = objective.score(outputs, batch, backbone)[0].values()
        total = total + loss / weight
        found.append((outputs, loss / weight))
        past = {part: outputs[part] for part in ("memory", "memory_filled")}
    return total, found


@pytest.mark.parametrize("name", ORIGINAL)
def test_segments_from_an_empty_memory_give_what_the_original_gives(name):
    case, (backbone, objective) = read_case(f"transformer_xl/{name}"), model(name)
    weights = {f"backbone.{n}": v for n, v in named_weights(backbone).items()} | named_weights(objective)
    segments_found = []

    def loss():
        total, found = total_loss(case, backbone, objective, backbone.initial_memory(2))
        segments_found.extend(found)
        return total

    gradients = gradients_of(loss, weights)[1]
    for i, (outputs, mean) in enumerate(segments_found):
        assert_close(ops.transpose(outputs["sequence_output"], (1, 0, 2)), case.outputs[f"segment{i}/sequence_output"])
        assert_close(mean, case.outputs[f"segment{i}/loss"])
        filled = int(outputs["memory_filled"][0])
        for layer in range(case.numbers["num_layers"]):
            expected = case.outputs[f"segment{i}/mems_after/{layer}"]
            assert filled == len(expected)
            assert_close(ops.transpose(outputs["memory"][:, layer, -filled:], (1, 0, 2)), expected)
    names = names_of(table_of(backbone.config, ""))
    # Of "qkv_net" we have three parts.
    found = {names[ours]: gradient for ours, gradient in gradients.items() if "qkv_net" not in names[ours]}
    assert_gradient_norms(found, case.outputs, at_least=16, rel=2e-3)


def tiny(**more):
    keras.utils.set_random_seed(2)
    values = {"dropout": 0.0, "memory_length": 8} | more
    backbone = TransformerXL(TransformerXLConfig(20, 16, 2, 2, 32, **values)).initialize()
    for variable in backbone.variables:
        variable.assign_add(np.random.default_rng(1).normal(0, 0.2, variable.shape))
    return backbone


def features(token_ids, past=()):
    return {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids, bool), **dict(past)}


def test_padding_does_not_enter_the_memory():
    """A segment of 5 real tokens of 8, then one more, is as the two without the padding; whatever stands there."""
    backbone, ids = tiny(), np.random.default_rng(0).integers(1, 20, (2, 12))
    short, padded, real = ids[:, :5], ids[:, :8].copy(), np.arange(8)[None] < [[5], [8]]
    padded[0, 5:] = 0
    past = backbone(features(short, backbone.initial_memory(2)))
    mixed = backbone({"token_ids": padded, "padding_mask": real, **backbone.initial_memory(2)})
    assert np.array(mixed["memory_filled"]).tolist() == [5, 8]
    assert_close(mixed["memory"][0], past["memory"][0])
    parts = "memory", "memory_filled"
    found, expected = (
        backbone(features(ids[:, 8:], {name: outputs[name] for name in parts}))["sequence_output"][0]
        for outputs in (mixed, past)
    )
    assert_close(found, expected)


def run(backbone, token_ids, cuts, memory_length=None):
    """The states of a text that is read in parts."""
    past, found = backbone.initial_memory(len(token_ids), memory_length), []
    for first, last in zip(cuts, cuts[1:], strict=False):
        outputs = backbone(features(token_ids[:, first:last], past))
        found.append(np.array(outputs["sequence_output"]))
        past = {part: outputs[part] for part in ("memory", "memory_filled")}
    return np.concatenate(found, axis=1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("more", [{}, {"pre_norm": True}, {"untied_biases": True}])
def test_a_memory_that_holds_all_of_the_past_equals_one_pass(more):
    backbone = tiny(**more)
    token_ids = np.random.default_rng(0).integers(20, size=(2, 8)).astype("int32")
    whole = np.array(backbone(features(token_ids))["sequence_output"])
    for cuts in ([0, 4, 8], [0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 3, 8]):
        np.testing.assert_allclose(run(backbone, token_ids, cuts), whole, atol=2e-5)


@pytest.mark.parametrize("more", [{}, {"pre_norm": True}])
def test_a_graph_reads_segments_of_any_length(more):
    backbone = tiny(**more)
    graph = tf.function(lambda ids: backbone({"token_ids": ids})["sequence_output"], autograph=False)
    graph = graph.get_concrete_function(tf.TensorSpec([None, None], tf.int32))
    for length in (3, 8):
        token_ids = np.random.default_rng(0).integers(20, size=(2, length)).astype("int32")
        np.testing.assert_allclose(
            graph(tf.constant(token_ids)), backbone({"token_ids": token_ids})["sequence_output"], atol=1e-5
        )


def test_with_same_length_the_size_of_segments_does_not_matter():
    backbone = tiny(same_length=True)
    token_ids = np.random.default_rng(0).integers(20, size=(1, 24)).astype("int32")
    ways = [run(backbone, token_ids, list(range(0, 25, step)), 6) for step in (1, 2, 6, 8)]
    for other in ways[1:]:
        np.testing.assert_allclose(other, ways[0], atol=2e-5)


def test_the_past_gets_no_gradient_and_the_future_is_invisible():
    backbone = tiny()
    token_ids = np.random.default_rng(0).integers(20, size=(1, 6)).astype("int32")
    table = backbone.embedding.table_0
    first, second = np.array([[1, 2, 3]], "int32"), np.array([[4, 5, 6]], "int32")
    with tf.GradientTape() as tape:
        past = backbone(features(first))
        full = backbone(features(first, backbone.initial_memory(1)))
        loss = tf.reduce_sum(
            backbone(features(second, {p: full[p] for p in ("memory", "memory_filled")}))["sequence_output"] ** 2
        )
    del past
    gradient = np.array(tf.convert_to_tensor(tape.gradient(loss, table.value)))
    assert np.abs(gradient[1:4]).max() == 0 and np.abs(gradient[4:7]).max() > 0
    changed = token_ids.copy()
    changed[:, 4:] = 7
    one, other = (np.array(backbone(features(x))["sequence_output"]) for x in (token_ids, changed))
    np.testing.assert_allclose(one[:, :4], other[:, :4], atol=1e-6)


def test_with_gradients_through_the_memory_the_past_would_get_some(monkeypatch):
    monkeypatch.setattr(ops, "stop_gradient", lambda x: x)
    backbone = tiny()
    first, second = np.array([[1, 2, 3]], "int32"), np.array([[4, 5, 6]], "int32")
    with tf.GradientTape() as tape:
        past = backbone(features(first, backbone.initial_memory(1)))
        past = {name: past[name] for name in ("memory", "memory_filled")}
        loss = tf.reduce_sum(backbone(features(second, past))["sequence_output"] ** 2)
    gradient = np.array(tf.convert_to_tensor(tape.gradient(loss, backbone.embedding.table_0.value)))
    assert np.abs(gradient[1:4]).min(axis=0).max() > 0


def test_slots_that_were_never_filled_and_their_number_do_not_matter():
    """So only distances count: before the same tokens stand 0, 3 or 8 places that hold anything."""
    backbone = tiny()
    token_ids = np.random.default_rng(0).integers(20, size=(2, 5)).astype("int32")
    expected = backbone(features(token_ids))["sequence_output"]
    for slots in (0, 3, 8):
        past = backbone.initial_memory(2, slots)
        past["memory"] = past["memory"] + 9.0
        np.testing.assert_allclose(backbone(features(token_ids, past))["sequence_output"], expected, atol=2e-5)
    ends = {"memory": np.ones((2, 2, 3, 16), "float32"), "memory_filled": np.array([3, 1], "int32")}
    partly = np.array(backbone(features(token_ids, ends))["sequence_output"])
    assert np.abs(partly - np.array(expected)).max() > 1e-3  # what is filled does


def test_without_the_terms_of_positions_the_order_of_the_memory_does_not_matter():
    backbone = tiny(memory_length=6)
    past = {
        "memory": np.random.default_rng(1).normal(size=(1, 2, 6, 16)).astype("float32"),
        "memory_filled": np.array([6], "int32"),
    }
    turned = {**past, "memory": past["memory"][:, :, ::-1]}
    token_ids = np.array([[3, 1, 4]], "int32")

    def difference():
        one, other = (np.array(backbone(features(token_ids, p))["sequence_output"]) for p in (past, turned))
        return np.abs(one - other).max()

    assert difference() > 1e-2
    for variable in [*backbone.biases.weights, *(block.mixer.position.kernel for block in backbone.blocks)]:
        variable.assign(ops.zeros_like(variable))
    assert difference() < 1e-5


def test_one_cluster_is_the_plain_softmax():
    backbone = tiny()
    objective = AdaptiveLM(backbone.config)
    objective.head.bias_0.assign(np.random.default_rng(2).normal(size=20))
    states = np.random.default_rng(0).normal(size=(3, 16)).astype("float32")
    plain = states @ np.array(backbone.embedding.table_0).T + np.array(objective.head.bias_0)
    np.testing.assert_allclose(objective.logits(states, backbone), ops.log_softmax(plain), atol=1e-5)


def test_the_signal_is_that_of_the_paper():
    backbone = tiny(clamp_length=5)
    rates = 10_000.0 ** (-np.arange(0, 16, 2) / 16)
    np.testing.assert_allclose(backbone.signal(9), signal_of(rates, 5, 9), atol=1e-6)


def test_scores_by_distance_move_to_their_keys():
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 7)).astype("float32")
    found = np.array(relative_shift(ops.convert_to_tensor(x)))
    for query in range(4):
        for key in range(query + 4):  # up to the query itself, behind a memory of 3
            np.testing.assert_array_equal(found[:, :, query, key], x[:, :, query, key + 3 - query])


@pytest.mark.parametrize(
    ("cutoffs", "division", "tied"), [((), 1, ""), ((5, 12), 1, "FTT"), ((5, 12), 2, "TTF"), ((5,), 4, "")]
)
def test_log_probabilities_sum_to_one(cutoffs, division, tied):
    backbone = tiny(cutoffs=cutoffs, embedding_division=division, tied_projections=tied)
    objective = AdaptiveLM(backbone.config)
    logs = objective.logits(np.random.default_rng(0).normal(size=(3, 4, 16)).astype("float32"), backbone)
    assert logs.shape == (3, 4, 20)
    np.testing.assert_allclose(np.exp(np.array(logs)).sum(-1), 1, atol=1e-5)
    assert isinstance(objective.head, AdaptiveSoftmax)


@pytest.mark.parametrize(
    ("size", "vocabulary_size", "cutoffs", "more", "count"),
    [
        ("base", 267_735, (20_000, 40_000, 200_000), {}, 151_107_538),
        ("characters_12", 204, (), {}, 41_055_436),
        ("characters_24", 204, (), {}, 277_231_820),
        ("characters_24", 27, (), {}, 277_050_395),
        ("large", 267_735, (20_000, 40_000, 200_000), {}, 285_170_506),
        ("large", 267_735, (20_000, 40_000, 200_000), {"untied_biases": True}, 285_205_322),
        ("one_billion", 793_471, (60_000, 100_000, 640_000), {}, 841_354_862),
    ],
)
def test_published_sizes_have_the_published_number_of_parameters(size, vocabulary_size, cutoffs, more, count):
    config = TransformerXLConfig(vocabulary_size, cutoffs=cutoffs, **SIZES[size], **more)
    shapes = weight_sizes(config)
    assert shapes == count


def weight_sizes(config):
    """The number of parameters, from the shapes of a network whose layers are one."""
    import dataclasses

    small = dataclasses.replace(config, num_layers=1)
    per_layer = 5 * config.hidden_dim * config.num_heads * config.head_dim
    per_layer += 2 * config.hidden_dim * config.intermediate_dim + config.intermediate_dim + 5 * config.hidden_dim
    per_layer += 2 * config.num_heads * config.head_dim if config.untied_biases else 0
    if config.vocabulary_size < 1000:
        built = TransformerXL(small).initialize().count_params() + AdaptiveLM(small).count_params()
    else:  # the tables alone are a gigabyte: their shapes are those of a vocabulary a thousand times smaller
        less = dataclasses.replace(small, vocabulary_size=267, cutoffs=(20, 40, 200))
        built = TransformerXL(less).initialize().count_params() + AdaptiveLM(less).count_params()
        widths = [config.embedding_dim // config.embedding_division**i for i in range(4)]
        sizes = np.diff([0, *config.cutoffs, config.vocabulary_size]) - np.diff([0, 20, 40, 200, 267])
        built += int(sum(size * (width + 1) for size, width in zip(sizes, widths, strict=True)))
    return built + (config.num_layers - 1) * per_layer
