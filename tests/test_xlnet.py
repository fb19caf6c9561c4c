"""XLNet computes what the original and Hugging Face's do; no target sees itself; both directions and the memory mean what they say."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.parity import assert_close, assert_gradient_norms, assert_outputs, feed, gradients_of, names_of, read_case
from xmodels.layers.attention.relative import shifted
from xmodels.layers.attention.two_stream import shifted_rows
from xmodels.models.backbone import named_weights
from xmodels.models.transformer_xl import TransformerXL, TransformerXLConfig
from xmodels.models.xlnet import SIZES, XLNet, XLNetConfig
from xmodels.objectives.measures import weighted_cross_entropy
from xmodels.objectives.permutation_lm import PermutationLM

ORIGINAL, HUGGING_FACE = ["original_two_stream_loss", "original_two_stream_bidata"], ["plm_uni", "plm_bidata_clamp"]
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


def original_names(config):
    rows = {
        "backbone.embedding.token.embeddings": "model/transformer/word_embedding/lookup_table",
        "backbone.embedding.query": "model/transformer/mask_emb/mask_emb",
        "head.bias": "model/lm_loss/bias",
    }
    biases = (("content_bias", "r_w_bias"), ("position_bias", "r_r_bias"), ("segment_bias", "r_s_bias"))
    for i in range(config.num_layers):
        ours, theirs = f"backbone.blocks.{i}", f"model/transformer/layer_{i}"
        for name, short in (("query", "q"), ("key", "k"), ("value", "v"), ("position", "r")):
            rows[f"{ours}.mixer.{name}.kernel"] = f"{theirs}/rel_attn/{short}/kernel"
        rows[f"{ours}.mixer.merge.kernel"] = (f"{theirs}/rel_attn/o/kernel", lambda x: x.transpose(1, 2, 0))
        rows[f"{ours}.mixer.segment"] = ("model/transformer/seg_embed", lambda x, i=i: x[i])
        for norm, name in (("mixer_norm", "rel_attn"), ("feedforward_norm", "ff")):
            for part in ("gamma", "beta"):
                rows[f"{ours}.{norm}.{part}"] = f"{theirs}/{name}/LayerNorm/{part}"
        for name, layer in (("expand", "layer_1"), ("contract", "layer_2")):
            for part in ("kernel", "bias"):
                rows[f"{ours}.feedforward.{name}.{part}"] = f"{theirs}/ff/{layer}/{part}"
        if config.untied_biases:
            for name, short in biases:
                rows[f"{ours}.biases.{name}"] = (f"model/transformer/{short}", lambda x, i=i: x[i])
    if not config.untied_biases:
        rows |= {f"backbone.biases.{name}": f"model/transformer/{short}" for name, short in biases}
    return rows


def hugging_face_names(config):
    rows = {
        "backbone.embedding.token.embeddings": "transformer.word_embedding.weight",
        "backbone.embedding.query": "transformer.mask_emb",
        "head.bias": "lm_loss.bias",
    }
    for i in range(config.num_layers):
        ours, theirs = f"backbone.blocks.{i}", f"transformer.layer.{i}"
        for name, short in (("query", "q"), ("key", "k"), ("value", "v"), ("position", "r")):
            rows[f"{ours}.mixer.{name}.kernel"] = f"{theirs}.rel_attn.{short}"
        rows[f"{ours}.mixer.merge.kernel"] = (f"{theirs}.rel_attn.o", lambda x: x.transpose(1, 2, 0))
        rows[f"{ours}.mixer.segment"] = f"{theirs}.rel_attn.seg_embed"
        for name, short in (("content_bias", "r_w_bias"), ("position_bias", "r_r_bias"), ("segment_bias", "r_s_bias")):
            rows[f"{ours}.biases.{name}"] = f"{theirs}.rel_attn.{short}"
        for norm, name in (("mixer_norm", "rel_attn"), ("feedforward_norm", "ff")):
            for part, other in (("gamma", "weight"), ("beta", "bias")):
                rows[f"{ours}.{norm}.{part}"] = f"{theirs}.{name}.layer_norm.{other}"
        for name, layer in (("expand", "layer_1"), ("contract", "layer_2")):
            rows[f"{ours}.feedforward.{name}.kernel"] = (f"{theirs}.ff.{layer}.weight", lambda x: x.T)
            rows[f"{ours}.feedforward.{name}.bias"] = f"{theirs}.ff.{layer}.bias"
    return rows


@functools.cache
def load_case(name):
    case = read_case(f"xlnet/{name}")
    case.config_of = config_of(case)
    case.backbone, case.head = XLNet(case.config_of).initialize(), PermutationLM(case.config_of)
    parts = (("backbone", case.backbone), ("head", case.head))
    case.variables = {f"{part}.{name}": v for part, layer in parts for name, v in named_weights(layer).items()}
    case.table = (original_names if name in ORIGINAL else hugging_face_names)(case.config_of)
    feed(case.variables, case.table, case.weights)
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


@pytest.mark.parametrize("name", ORIGINAL + HUGGING_FACE)
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
    theirs = {}
    for ours, name in names_of(case.table).items():
        theirs.setdefault(name, []).append(gradients[ours].ravel())
    return {name: np.concatenate(parts) for name, parts in theirs.items()}


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_states_of_both_streams_equal_hugging_face_s(name):
    case = load_case(name)
    for i, states in enumerate(case.backbone.hidden_states(two_stream_features(case))):
        assert_outputs({f"content_states/{i}": states["content"], f"query_states/{i}": states["targets"]}, case.outputs)


@pytest.mark.parametrize("name", HUGGING_FACE)
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


@pytest.mark.parametrize(("size", "parameters"), [("base", 116_718_336), ("large", 360_268_800)])
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
    np.testing.assert_array_equal(np.array(shifted(ops.convert_to_tensor(x)))[0, 0, :, :keys], expected)
    places = np.array([[3, 0, 3]], "int32")
    some = shifted_rows(ops.convert_to_tensor(x[:, :, :3]), ops.convert_to_tensor(places), queries, keys)
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
