"""XLNet computes what the original and Hugging Face's do; no target sees itself; both directions and the memory mean what they say."""

import dataclasses
import functools
import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError
from data_pipelines.ops.permutation import permute
from data_pipelines.text.frames import XLNET
from data_pipelines.text.framing import pack_ids
from tests.helpers.parity import assert_close, assert_gradient_norms, assert_outputs, gradients_of, read_case
from tests.helpers.samples import SHARED
from xmodels.conversion import configurations, convert, tensors
from xmodels.conversion.tables.xlnet import HUGGING_FACE, TABLE, TENSORFLOW1
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.interfaces.reading import XLNET_READING
from xmodels.jobs.pretrain.start import check_start
from xmodels.layers.attention.relative import relative_shift
from xmodels.layers.attention.two_stream import shift_rows
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.transformer_xl import TransformerXL, TransformerXLConfig
from xmodels.models.xlnet import SIZES, XLNet, XLNetConfig
from xmodels.objectives.measures import weighted_cross_entropy
from xmodels.objectives.permutation_lm import PermutationLM
from xmodels.tasks.classify.task import Classify

ORIGINAL, TRANSFORMERS = ["original_two_stream_loss", "original_two_stream_bidata"], ["plm_uni", "plm_bidata_clamp"]
V = 23
SMALL = {"vocabulary_size": V, "hidden_dim": 8, "num_layers": 2, "num_heads": 2, "intermediate_dim": 12}
SMALL |= {"dropout": 0.0, "attention_dropout": 0.0, "initializer_stddev": 0.4, "memory_length": 5}


def config_of(case):
    n = case.numbers
    gelu = "gelu_tanh" if "original" in case.config["case"] else "gelu"
    return XLNetConfig(
        n["vocabulary_size"], n["hidden_dim"], n["num_layers"], n["num_heads"], n["intermediate_dim"], dropout=0.0,
        attention_dropout=0.0, memory_length=n["memory_length"], reuse_length=n["reuse_length"], head_dim=n["head_dim"],
        clamp_length=n["clamp_length"] if n["clamp_length"] > 0 else None, untied_biases=n["untie_relative_biases"],
        attention_type=n.get("attention_type", "bi"), activation=gelu if n["activation"] == "gelu" else n["activation"],
    )  # fmt: skip


@functools.cache
def load_case(name):
    case = read_case(f"xlnet/{name}")
    case.config_of = config_of(case)
    case.backbone, case.head = XLNet(case.config_of).initialize(), PermutationLM(case.config_of)
    case.form = TENSORFLOW1 if name in ORIGINAL else HUGGING_FACE
    values, absent = tensors.to_our_values(case.weights, TABLE.variables(case.form), TABLE, case.config_of, name)
    assert set(absent) == set(TABLE.tasks)
    folder.assign("backbone", case.backbone, values, name)
    folder.assign(case.head.prefix, case.head, values, name)
    parts = (("backbone", case.backbone), (case.head.prefix, case.head))
    case.variables = {f"{part}.{name}": v for part, layer in parts for name, v in named_weights(layer).items()}
    assert set(case.variables) == set(values)
    return case


def two_stream_features(case):
    """What the original's inputs are for our network."""
    original = "input_k" in case.inputs
    i = {name: tf.constant(value) for name, value in case.inputs.items()}
    blind = case.inputs["perm_mask" if original else "permutation_mask"] > 0
    ids = i["input_k" if original else "token_ids"]
    padding = np.zeros(ids.shape, bool) if original else case.inputs["input_mask_1_is_pad"] > 0
    blind |= padding[:, None, :]
    mapping = case.inputs["target_mapping"]
    places = mapping.argmax(-1)
    real = mapping.sum(-1) > 0
    if original:
        memory = case.inputs["mems"].transpose(2, 0, 1, 3)
    else:
        memory = np.stack([case.outputs[f"previous/mems/{n}"] for n in range(case.numbers["num_layers"])])
        memory = memory.transpose(2, 0, 1, 3)
    query = ~np.take_along_axis(blind, places[..., None], axis=1)
    query = np.concatenate([np.ones((*query.shape[:2], memory.shape[2]), bool), query], axis=2) & real[..., None]
    features = {
        "token_ids": ids, "segment_ids": i["seg_id" if original else "segment_ids"], "padding_mask": tf.constant(~padding),
        "memory": tf.constant(memory), "memory_filled": tf.fill([len(padding)], memory.shape[2]),
        "mask_positions": tf.constant(places, tf.int32), "query_mask": tf.constant(query),
        "content_mask": tf.constant(~blind | np.eye(blind.shape[1], dtype=bool)),
    }  # fmt: skip
    return features | directions(case, len(padding))


def directions(case, rows):
    return (
        {"is_reversed": tf.constant(np.arange(rows) >= rows // 2, tf.int32)}
        if case.numbers["bidirectional_data"]
        else {}
    )


def labels_of(case):
    if "target" in case.inputs:
        return tf.constant(case.inputs["target"]), tf.constant(case.inputs["target_mask"])
    labels = case.inputs["lm_labels"]
    return tf.constant(np.maximum(labels, 0)), tf.constant(labels >= 0, tf.float32)


@pytest.mark.parametrize("name", ORIGINAL + TRANSFORMERS)
def test_loss_logits_memory_and_gradients_equal_the_reference(name):
    case = load_case(name)
    features, (labels, weights) = two_stream_features(case), labels_of(case)
    found = {}

    def loss():
        found.update(case.backbone(features))
        batch = {"labels": labels, "label_weights": weights}
        total, weight = case.head.score(found, batch, case.backbone)[0]["permutation_lm"]
        return total / weight

    value, gradients = gradients_of(loss, case.variables)
    assert_close(value, case.outputs["loss"], "loss")
    logits = np.array(case.head.logits(found, case.backbone))
    if name in ORIGINAL:
        assert_close(logits.transpose(1, 0, 2), case.outputs["logits"], "logits")
    else:
        assert_close(logits, case.outputs["lm_logits"], "logits")
    memory = np.array(found["memory"]).transpose(1, 2, 0, 3)
    prefix = "new_mems" if name in ORIGINAL else "mems"
    assert_outputs({f"{prefix}/{n}": layer for n, layer in enumerate(memory)}, case.outputs)
    assert_gradient_norms(norms_by_their_names(case, gradients), case.outputs)


def norms_by_their_names(case, gradients):
    """Gradients by the names of the reference; of layers that it keeps in one tensor, one after the other."""
    found = {}
    for ours, _, theirs, _ in tensors.rows(TABLE.variables(case.form), TABLE, case.config_of):
        if ours in gradients:
            found.setdefault(theirs.partition("[")[0], []).append(gradients[ours].ravel())
    return {name: np.concatenate(parts) for name, parts in found.items()}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_states_of_both_streams_equal_hugging_face_s(name):
    case = load_case(name)
    for i, states in enumerate(case.backbone.hidden_states(two_stream_features(case))):
        assert_outputs({f"content_states/{i}": states["content"], f"query_states/{i}": states["targets"]}, case.outputs)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_content_stream_alone_equals_hugging_face_s(name):
    case = load_case(name)
    rows = len(case.inputs["token_ids"])
    features = {
        "token_ids": case.inputs["token_ids"], "segment_ids": case.inputs["segment_ids"],
        "padding_mask": tf.constant(case.inputs["input_mask_1_is_pad"] == 0),
    } | directions(case, rows)  # fmt: skip
    assert_close(case.backbone(features)["sequence_output"], case.outputs["finetune/sequence_output"])
    features = {
        "token_ids": case.inputs["previous_token_ids"], "segment_ids": case.inputs["previous_segment_ids"],
        "padding_mask": tf.ones(case.inputs["previous_token_ids"].shape, tf.bool),
    } | directions(case, rows) | case.backbone.initial_memory(rows, 0)  # fmt: skip
    outputs = case.backbone(features)
    logits = case.head.logits({"query_output": outputs["sequence_output"]}, case.backbone)
    assert_close(logits, case.outputs["previous/lm_logits"])
    memory = np.array(outputs["memory"]).transpose(1, 2, 0, 3)
    assert_outputs({f"previous/mems/{n}": layer for n, layer in enumerate(memory)}, case.outputs)


@pytest.mark.parametrize(
    ("size", "parameters"), [("base", 116_718_336), pytest.param("large", 360_268_800, marks=pytest.mark.long)]
)
def test_sizes_have_the_published_number_of_parameters(size, parameters):
    with tf.Graph().as_default():
        backbone = XLNet(XLNetConfig(vocabulary_size=32_000, **SIZES[size])).initialize()
        assert backbone.count_params() == parameters
        assert PermutationLM(backbone.config).count_params() == 32_000


def test_a_shift_moves_each_row_to_its_distances():
    queries, keys, memory = 4, 7, 3
    distances = np.arange(keys - 1, -queries, -1)
    x = np.broadcast_to(distances, (1, 1, queries, len(distances)))
    expected = np.arange(queries)[:, None] + memory - np.arange(keys)
    np.testing.assert_array_equal(np.array(relative_shift(ops.convert_to_tensor(x)))[0, 0, :, :keys], expected)
    places = np.array([[3, 0, 3]], "int32")
    some = shift_rows(ops.convert_to_tensor(x[:, :, :3]), ops.convert_to_tensor(places), queries, keys)
    np.testing.assert_array_equal(np.array(some)[0, 0], expected[places[0]])


def network(seed=0, **changes):
    keras.utils.set_random_seed(seed)
    return XLNet(XLNetConfig(**(SMALL | changes))).initialize()


def features_of(ids, order, targets, memory=None, **more):
    """Two streams over one row: `order` says where each token stands in the factorisation, -1 for context."""
    ids, order = np.atleast_2d(ids), np.atleast_2d(order)
    targets = np.atleast_2d(targets)
    is_target = np.zeros(ids.shape, bool)
    np.put_along_axis(is_target, targets, True, 1)
    rank = np.where(is_target, order, order + 1)
    blind = (rank[:, :, None] <= order[:, None, :]) & (order >= 0)[:, None, :]
    content = ~blind | np.eye(ids.shape[1], dtype=bool)
    return {
        "token_ids": tf.constant(ids, tf.int32), "segment_ids": tf.zeros(ids.shape, tf.int32),
        "padding_mask": tf.ones(ids.shape, tf.bool), "content_mask": tf.constant(content),
        "query_mask": tf.constant(~np.take_along_axis(blind, targets[..., None], axis=1)),
        "mask_positions": tf.constant(targets, tf.int32),
    } | (memory or {}) | more  # fmt: skip


def reach(backbone, features):
    """How strongly each target's output depends on the embedding at each place: (P, N)."""
    table, found = backbone.embedding.token, []
    ids = features["token_ids"]
    for target in range(features["mask_positions"].shape[1]):
        rows = tf.Variable(tf.gather(table.embeddings.value, ids[0]))
        with tf.GradientTape() as tape:
            inner = backbone.embedding.call
            backbone.embedding.call = lambda token_ids, training=None, rows=rows: rows[None]
            try:
                state = backbone(features)["query_output"][0, target]
            finally:
                backbone.embedding.call = inner
            value = tf.reduce_sum(state * tf.range(1.0, 1.0 + state.shape[0]))
        gradient = tape.gradient(value, rows)
        found.append(np.zeros(ids.shape[1]) if gradient is None else np.abs(gradient.numpy()).sum(1))
    return np.stack(found)


def test_no_target_depends_on_itself_or_on_what_comes_later():
    """Also where a target sees nothing at all: the first of the order, without context and memory."""
    backbone = network()
    order = np.array([3, -1, 0, 1, -1, 2])
    targets = [0, 2, 3, 5]
    found = reach(backbone, features_of([1, 2, 3, 4, 5, 6], order, targets))
    for row, target in enumerate(targets):
        sees = order < order[target]
        assert (found[row][~sees] == 0).all() and (found[row][sees] > 1e-6).all()
    order = np.array([2, 0, 1])
    found = reach(backbone, features_of([1, 2, 3], order, [0, 1, 2]))
    for row in range(3):
        np.testing.assert_array_equal(found[row] > 0, order < order[row])


def test_a_target_depends_on_its_own_place():
    backbone = network()
    outputs = [backbone(features_of([1, 2, 3, 3, 4], [-1, -1, 0, 0, -1], [t]))["query_output"] for t in (2, 3)]
    assert np.abs(np.array(outputs[0]) - np.array(outputs[1])).max() > 1e-3


def test_the_identity_order_is_a_left_to_right_language_model_whose_likelihoods_sum_to_one():
    backbone = network(vocabulary_size=4)
    head = PermutationLM(backbone.config)
    strings = np.array(list(itertools.product(range(4), repeat=3)))
    every = np.broadcast_to(np.arange(3), strings.shape)
    outputs = backbone(features_of(strings, every, every))
    logits = head.logits(outputs, backbone)
    losses, _ = weighted_cross_entropy(tf.constant(strings, tf.int32)[:1], logits[:1], tf.ones((1, 3)))
    logs = np.take_along_axis(np.array(ops.log_softmax(logits)), strings[..., None], axis=-1)[..., 0]
    assert np.exp(logs.sum(1)).sum() == pytest.approx(1, abs=1e-5)
    assert float(losses) == pytest.approx(-logs[0].sum(), rel=1e-5)


def test_content_does_not_know_of_targets_and_targets_may_be_gathered():
    backbone = network()
    ids, order = [1, 2, 3, 4, 5, 6], np.array([0, -1, 1, 2, -1, 3])
    both = features_of(ids, order, [0, 2, 3, 5])
    alone = {n: v for n, v in both.items() if n not in ("query_mask", "mask_positions")}
    with_targets = backbone(both)
    np.testing.assert_array_equal(np.array(with_targets["sequence_output"]), backbone(alone)["sequence_output"])
    some = features_of(ids, order, [0, 2, 3, 5])
    some |= {"mask_positions": some["mask_positions"][:, 1:3], "query_mask": some["query_mask"][:, 1:3]}
    np.testing.assert_allclose(backbone(some)["query_output"], with_targets["query_output"][:, 1:3], atol=1e-6)


def test_without_segments_and_looking_back_it_is_a_transformer_xl():
    keras.utils.set_random_seed(1)
    numbers = {k: v for k, v in SMALL.items() if k != "vocabulary_size"} | {"untied_biases": True}
    recurrent = TransformerXL(
        TransformerXLConfig(V, layer_norm_epsilon=1e-12, activation="gelu_tanh", **numbers)
    ).initialize()
    ours = network(attention_type="uni")
    weights = named_weights(recurrent)
    scale = SMALL["hidden_dim"] ** 0.5  # Transformer-XL multiplies its embeddings
    for name, variable in named_weights(ours).items():
        if "segment" in name or name == "embedding.query":
            continue
        if name == "embedding.token.embeddings":
            variable.assign(weights["embedding.table_0"].value * scale)
        else:
            variable.assign(weights[name.replace("biases.", "")].value)
    ids = np.random.default_rng(0).integers(0, V, (2, 6))
    memory = {"memory": tf.random.normal((2, 2, 5, 8)), "memory_filled": tf.constant([5, 2])}
    expected = recurrent({"token_ids": ids, **memory})
    found = ours({"token_ids": ids, "padding_mask": np.ones(ids.shape, bool), **memory})
    for name in ("sequence_output", "memory"):
        np.testing.assert_allclose(np.array(found[name]), np.array(expected[name]), atol=1e-5)


def test_a_reversed_row_gives_the_states_of_the_row_read_forwards():
    backbone = network()
    ids = np.random.default_rng(0).integers(0, V, (1, 7))
    segments = np.array([[0, 0, 0, 1, 1, 1, 2]])
    order = np.array([0, -1, 1, -1, -1, 2, -1])
    forward = features_of(ids, order, [0, 2, 5]) | {"segment_ids": segments}
    backward = features_of(ids[:, ::-1], order[::-1], [6, 4, 1]) | {
        "segment_ids": segments[:, ::-1],
        "is_reversed": np.array([1]),
    }
    one, other = backbone(forward), backbone(backward)
    np.testing.assert_allclose(one["sequence_output"], np.array(other["sequence_output"])[:, ::-1], atol=1e-5)
    np.testing.assert_allclose(one["query_output"], other["query_output"], atol=1e-5)
    unsaid = backbone({n: v for n, v in backward.items() if n != "is_reversed"})
    assert np.abs(unsaid["query_output"] - one["query_output"]).max() > 1e-3


def test_segments_are_compared_and_not_looked_up():
    backbone = network()
    features = features_of([1, 2, 3, 4], [-1, 0, -1, -1], [1])
    outputs = [
        np.array(backbone(features | {"segment_ids": np.array([s])})["query_output"])
        for s in ([0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0])
    ]
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-6)
    assert np.abs(outputs[0] - outputs[2]).max() > 1e-3


def test_memory_keeps_the_reused_part_without_gradient_and_unfilled_slots_are_not_seen():
    backbone = network(reuse_length=3)
    ids = np.random.default_rng(0).integers(0, V, (2, 6))
    features = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones(ids.shape, bool)}
    plain = backbone(features)
    first = backbone(features | backbone.initial_memory(2))
    np.testing.assert_allclose(plain["sequence_output"], first["sequence_output"], atol=1e-6)
    assert first["memory_filled"].numpy().tolist() == [3, 3] and first["memory"].shape == (2, 2, 5, 8)
    embedded = tf.gather(backbone.embedding.token.embeddings.value, ids[:, :3])
    np.testing.assert_allclose(first["memory"][:, 0, 2:], embedded, atol=1e-6)
    past = {name: first[name] for name in ("memory", "memory_filled")}
    assert np.abs(backbone(features | past)["sequence_output"] - plain["sequence_output"]).max() > 1e-3
    poisoned = past | {"memory": tf.concat([tf.fill((2, 2, 2, 8), 9.0), first["memory"][:, :, 2:]], axis=2)}
    np.testing.assert_allclose(
        backbone(features | past)["sequence_output"], backbone(features | poisoned)["sequence_output"], atol=1e-6
    )
    with tf.GradientTape() as tape:
        kept = tf.reduce_sum(backbone(features | past)["memory"])
    assert tape.gradient(kept, backbone.embedding.token.embeddings.value) is None


@pytest.mark.parametrize("left", [True, False])
def test_padding_on_either_side_is_not_seen(left):
    backbone = network()
    ids = np.random.default_rng(0).integers(0, V, (1, 5))
    features = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": np.ones(ids.shape, bool)}
    width = ((0, 0), (3, 0) if left else (0, 3))
    padded = {n: np.pad(v, width, constant_values=0) for n, v in features.items()}
    part = np.s_[:, 3:] if left else np.s_[:, :5]
    np.testing.assert_allclose(
        np.array(backbone(padded)["sequence_output"])[part], backbone(features)["sequence_output"], atol=1e-5
    )


def test_a_folder_of_hugging_face_is_read_and_written_as_it_was(tmp_path):
    case = load_case("plm_uni")
    n, there = case.numbers, tmp_path / "theirs"
    there.mkdir()
    save_file(
        case.weights | {"lm_loss.weight": case.weights["transformer.word_embedding.weight"]},
        there / "model.safetensors",
    )
    stored = {
        "model_type": "xlnet", "vocab_size": n["vocabulary_size"], "d_model": n["hidden_dim"], "n_layer": n["num_layers"],
        "n_head": n["num_heads"], "d_inner": n["intermediate_dim"], "ff_activation": n["activation"], "untie_r": True,
        "attn_type": "bi", "mem_len": n["memory_length"], "reuse_len": None, "bi_data": False, "clamp_len": -1,
        "same_length": False, "dropout": 0.1, "layer_norm_eps": 1e-12,
    }  # fmt: skip
    (there / "config.json").write_text(json.dumps(stored))
    loaded = convert.load(f"hf:{there}")
    assert loaded.model == "xlnet" and loaded.heads == {"permutation_lm"}
    assert (loaded.config.memory_length, loaded.config.reuse_length, loaded.config.clamp_length) == (7, None, None)
    assert convert.outputs(loaded)["permutation_lm_logits"].shape == (2, 16, 110)
    convert.save(loaded, str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    back = load_file(tmp_path / "back/model.safetensors")
    assert set(back) == set(case.weights)
    assert all(np.array_equal(value, case.weights[name]) for name, value in back.items())
    written = json.loads((tmp_path / "back/config.json").read_text())
    assert {key: written[key] for key in stored} == stored and written["architectures"] == ["XLNetLMHeadModel"]


@pytest.mark.parametrize("name", ORIGINAL)
def test_a_checkpoint_of_the_original_code_is_read_and_written_as_it_was(name, tmp_path):
    case = load_case(name)
    n, there = case.numbers, tmp_path / "theirs"
    there.mkdir()
    width, random = n["hidden_dim"], np.random.default_rng(0)
    head = {  # as the original names it for --task_name=mnli
        "model/sequnece_summary/summary/kernel": (width, width), "model/sequnece_summary/summary/bias": (width,),
        "model/classification_mnli/logit/kernel": (width, 3), "model/classification_mnli/logit/bias": (3,),
    }  # fmt: skip
    weights = case.weights | {name: random.normal(size=shape).astype("float32") for name, shape in head.items()}
    slots = {"model/lm_loss/bias/Adam": case.weights["model/lm_loss/bias"], "global_step": np.int64(3)}
    written = weights | slots
    tf.raw_ops.SaveV2(
        prefix=str(there / "xlnet_model.ckpt"), tensor_names=list(written), shape_and_slices=[""] * len(written),
        tensors=[tf.constant(value) for value in written.values()],
    )  # fmt: skip
    stored = {
        "d_head": n["head_dim"], "d_inner": n["intermediate_dim"], "d_model": n["hidden_dim"], "n_head": n["num_heads"],
        "ff_activation": n["activation"], "n_layer": n["num_layers"], "n_token": n["vocabulary_size"],
        "untie_r": n["untie_relative_biases"],
    }  # fmt: skip
    (there / "xlnet_config.json").write_text(json.dumps(stored))
    loaded = convert.load(f"tf1:{there}")
    for ours, variable in case.variables.items():
        np.testing.assert_array_equal(loaded.values[ours], variable.numpy())
    assert loaded.config.activation == ("gelu_tanh" if n["activation"] == "gelu" else "relu")
    convert.save(loaded, f"tf1:{tmp_path / 'back'}")
    reader = tf.train.load_checkpoint(str(tmp_path / "back/xlnet_model.ckpt"))
    written = {name.replace("_mnli", "_classify"): value for name, value in weights.items()}
    assert set(reader.get_variable_to_shape_map()) == set(written)
    for theirs, value in written.items():
        np.testing.assert_array_equal(reader.get_tensor(theirs), value)
    assert json.loads((tmp_path / "back/xlnet_config.json").read_text()) == stored


def test_biases_that_layers_share_have_no_place_with_hugging_face(tmp_path):
    case = load_case("original_two_stream_bidata")
    values = {name: variable.numpy() for name, variable in case.variables.items()}
    loaded = Checkpoint("xlnet", case.config_of, values, None, frozenset({"permutation_lm"}))
    with pytest.raises(CheckpointError, match="this format cannot say"):
        convert.save(loaded, f"hf:{tmp_path / 'there'}")


@pytest.mark.shared_data
@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("head", ["permutation_lm", "classify"])
def test_transformers_computes_the_same_from_what_we_write(head, tmp_path):
    import torch
    import transformers

    model = (SHARED / "oracles/tokenizer_files/small/unigram_xlnet.model").read_bytes()
    settings = {
        "tokenizer": "sentencepiece",
        "do_lower_case": False,
        "keep_accents": False,
        "clean": True,
        "part_digits": True,
    }
    tokenizer = TokenizerFiles({"spiece.model": model}, settings)
    vocabulary = tokenizer.open().vocabulary
    config = XLNetConfig(**(SMALL | {"vocabulary_size": len(vocabulary)}))
    keras.utils.set_random_seed(3)
    backbone = XLNet(config).initialize()
    objective = Classify(config, "abc", XLNET_READING) if head == "classify" else PermutationLM(config)
    texts = [("The cat sat on the mat.", "A big tree"), ("hello world", "on")]
    first, second = ([tokenizer.open().encode(text).ids for text in column] for column in zip(*texts, strict=True))
    features = pack_ids(first, second, vocabulary, 64, XLNET)
    length = features["token_ids"].shape[1]
    blind = np.triu(np.ones((length, length), bool))[::-1, ::-1].T & ~np.eye(length, dtype=bool)
    blind = np.broadcast_to(blind | np.eye(length, dtype=bool), (2, length, length))
    targets = np.array([[length - 5, length - 3]] * 2, "int32")
    real = features["padding_mask"][:, None]
    features |= {
        "mask_positions": targets, "query_mask": np.take_along_axis(~blind & real, targets[..., None], 1),
        "content_mask": ~blind & real | np.eye(length, dtype=bool),
    }  # fmt: skip
    if head == "classify":
        features = {name: features[name] for name in ("token_ids", "segment_ids", "padding_mask")}

    def logits():
        outputs = backbone(features)
        return objective.answer(outputs, features) if head == "classify" else objective.logits(outputs, backbone)

    logits()
    values = folder.values_of("backbone", backbone) | folder.values_of(objective.prefix, objective)
    convert.save(Checkpoint("xlnet", config, values, tokenizer, frozenset({head})), f"hf:{tmp_path}/theirs")
    architecture = json.loads((tmp_path / "theirs/config.json").read_text())["architectures"][0]
    network, report = getattr(transformers, architecture).from_pretrained(
        f"{tmp_path}/theirs", output_loading_info=True
    )
    assert not any(report.values())
    given = {
        "input_ids": features["token_ids"], "token_type_ids": features["segment_ids"],
        "attention_mask": features["padding_mask"].astype("float32"),
    }  # fmt: skip
    if head != "classify":
        given |= {"perm_mask": blind.astype("float32"), "target_mapping": np.eye(length, dtype="float32")[targets]}
    with torch.no_grad():
        found = network.eval()(**{name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in given.items()})
    assert_close(logits(), found.logits.numpy(), "logits")

    theirs = transformers.AutoTokenizer.from_pretrained(f"{tmp_path}/theirs")
    there = theirs([a for a, _ in texts], [b for _, b in texts], padding=True, return_token_type_ids=True)
    mask = features["padding_mask"]
    width = mask.any(axis=0)
    np.testing.assert_array_equal(np.array(there["attention_mask"]) > 0, mask[:, width])
    np.testing.assert_array_equal(there["input_ids"], features["token_ids"][:, width])
    segments = np.array(there["token_type_ids"])  # those of padding, which nobody sees, differ between versions
    np.testing.assert_array_equal(segments[mask[:, width]], features["segment_ids"][mask])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_reversed", [0, 1])
def test_what_the_op_draws_lets_no_target_see_itself(is_reversed):
    """Permutations, spans, special tokens, the reused part and a memory together: by gradient."""
    backbone, length, reuse = network(reuse_length=10), 20, 10
    maskable = np.ones((3, length), bool)
    maskable[:, [15, 18, 19]] = False  # [SEP], [SEP], [CLS]
    batch = {
        "token_ids": tf.random.uniform((3, length), 0, V, tf.int32), "padding_mask": tf.ones((3, length), tf.bool),
        "segment_ids": tf.constant([[0] * 16 + [1] * 3 + [2]] * 3), "maskable": tf.constant(maskable),
        "word_start": tf.ones((3, length), tf.int32), "seed": tf.constant([1, 2, 3], tf.uint64),
        "is_reversed": tf.fill((3,), is_reversed),
    }  # fmt: skip
    made = permute(6, reuse, reuse)(batch)
    memory = {"memory": tf.random.normal((1, 2, 5, 8)), "memory_filled": tf.constant([5])}
    for row in range(3):
        one = {name: value[row : row + 1] for name, value in made.items()} | memory
        found = reach(backbone, one) > 0
        real = one["label_weights"][0].numpy() > 0
        targets, sees = one["mask_positions"][0].numpy(), one["query_mask"][0].numpy()
        assert real.sum() >= 3 and not found[np.arange(6), targets][real].any()
        assert (found & sees)[real].sum() == sees[real].sum()  # and all that it may see counts
        assert not found[real & (targets < reuse), reuse:].any()


@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("attention_type", ["uni", "bi"])
@pytest.mark.parametrize(("same_length", "clamp", "reverse", "reuse"), [(False, 3, True, 4), (True, -1, False, None)])
def test_transformers_agrees_under_other_options(attention_type, same_length, clamp, reverse, reuse):
    import torch
    import transformers

    names = {"attn_type": attention_type, "same_length": same_length, "clamp_len": clamp, "bi_data": reverse}
    sizes = {"vocab_size": V, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 20, "dropout": 0.0}
    stored = names | sizes | {"reuse_len": reuse, "mem_len": 7, "ff_activation": "gelu", "model_type": "xlnet"}
    theirs = transformers.XLNetLMHeadModel(transformers.XLNetConfig(**stored)).eval()
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(torch.from_numpy(rng.normal(0, 0.3, tuple(weight.shape))))
    weights = {name: tensor.numpy() for name, tensor in theirs.state_dict().items() if name != "lm_loss.weight"}
    config = configurations.config_from(HUGGING_FACE, stored, XLNetConfig, "config.json")
    backbone, head = XLNet(config).initialize(), PermutationLM(config)
    values, _ = tensors.to_our_values(weights, TABLE.variables(HUGGING_FACE), TABLE, config, "theirs")
    folder.assign("backbone", backbone, values, "theirs")
    folder.assign(head.prefix, head, values, "theirs")
    ids, memory = rng.integers(0, V, (4, 9)), rng.normal(size=(2, 5, 4, 16)).astype("float32")
    segments, targets = np.array([[0] * 4 + [1] * 4 + [2]] * 4), np.array([[2, 5, 8]] * 4, "int32")
    given = {"input_ids": ids, "token_type_ids": segments}
    features = {
        "token_ids": ids, "segment_ids": segments, "padding_mask": np.ones(ids.shape, bool),
        "memory": memory.transpose(2, 0, 1, 3), "memory_filled": np.full(4, 5, "int32"),
    }  # fmt: skip
    if reverse:
        features["is_reversed"] = np.array([0, 0, 1, 1])
    if attention_type == "bi":  # with "uni" it cannot add its masks
        blind = rng.random((4, 9, 9)) < 0.4
        blind[:, targets[0], targets[0]] = True
        given |= {"perm_mask": blind.astype("float32"), "target_mapping": np.eye(9, dtype="float32")[targets]}
        features |= {"content_mask": ~blind | np.eye(9, dtype=bool), "mask_positions": targets}
        features["query_mask"] = np.take_along_axis(~blind, targets[..., None], axis=1)
    with torch.no_grad():
        past = [torch.from_numpy(x) for x in memory]
        found = theirs(**{name: torch.from_numpy(x) for name, x in given.items()}, mems=past, use_mems=True)
    outputs = backbone(features)
    states = outputs["query_output" if attention_type == "bi" else "sequence_output"]
    assert_close(head.logits({"query_output": states}, backbone), found.logits.numpy(), "logits", atol=1e-5)
    assert_close(np.array(outputs["memory"]).transpose(1, 2, 0, 3), np.stack([x.numpy() for x in found.mems]), "memory")


def test_targets_of_a_network_that_looks_back_do_not_see_what_follows():
    """Whatever the masks allow."""
    backbone = network(attention_type="uni")
    found = reach(backbone, features_of([1, 2, 3, 4, 5, 6], [-1, 0, -1, 1, -1, -1], [1, 3]))
    np.testing.assert_array_equal(found > 0, np.array([[1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]], bool))


def test_a_training_goes_on_with_rows_of_another_length(capsys):
    """How much of a row is used again, and how long a memory is, change no weight."""
    config = XLNetConfig(23, 8, 2, 2, 16, reuse_length=None)
    checkpoint = Checkpoint("xlnet", config, {})
    check_start(checkpoint, "one", XLNet, dataclasses.replace(config, reuse_length=16, memory_length=8), None)
    assert "was trained with other settings (memory_length" in capsys.readouterr().out
    with pytest.raises(CheckpointError, match="is of another size .hidden_dim 8 there, 12 here"):
        check_start(checkpoint, "one", XLNet, dataclasses.replace(config, hidden_dim=12), None)
