"""Reformer: parity with Hugging Face's, reversible blocks, parts of the tokens at a time, positions in a grid, and folders."""

import dataclasses
import functools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError
from tests.helpers.pages import ROOT
from tests.helpers.parity import assert_close, read_case
from xmodels.conversion import convert
from xmodels.layers.choices import choose, recorded, repeated
from xmodels.layers.dropout import dropout_seed
from xmodels.layers.reversible import Walk, run_reversibly
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.models.reformer import SIZES, Reformer, ReformerConfig, default_grid
from xmodels.objectives.chunked_lm import ChunkedLM
from xmodels.training.watching.memory_estimate import kept_bytes

CASES = ("reformer/lm_local_lsh", "reformer/lm_lsh_factored")


def write_hugging_face(path, name):
    """A folder as `transformers` writes it."""
    case = read_case(name)
    numbers = case.numbers
    path.mkdir()
    bias = np.zeros(
        numbers["vocabulary_size"], "float32"
    )  # that of the reference; the stored `lm_head.bias` has no use there
    biases = {"lm_head.bias": bias, "lm_head.decoder.bias": bias.copy()}
    save_file(case.weights | biases, path / "model.safetensors")
    settings = {
        "model_type": "reformer", "is_decoder": True, "attn_layers": numbers["attention_layers"], "hidden_size": numbers["hidden_dim"],
        "num_attention_heads": numbers["num_heads"], "attention_head_size": numbers["head_dim"], "hidden_act": numbers["activation"],
        "feed_forward_size": numbers["intermediate_dim"], "vocab_size": numbers["vocabulary_size"],
        "max_position_embeddings": numbers["max_sequence_length"], "axial_pos_shape": numbers["axial_shape"],
        "axial_pos_embds_dim": numbers["axial_dims"], "num_buckets": numbers["num_buckets"], "num_hashes": numbers["num_hashes"],
        "local_attn_chunk_length": numbers["local_chunk_length"], "lsh_attn_chunk_length": numbers["lsh_chunk_length"],
        "layer_norm_eps": numbers["layer_norm_epsilon"],
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(settings))
    return f"hf:{path}"


@functools.cache
def published(name):
    """The network of a case, its head, and the case; with the rotations of the case."""
    with tempfile.TemporaryDirectory() as path:
        loaded = convert.load(write_hugging_face(pathlib.Path(path) / "hf", name))
    backbone, case = Reformer(loaded.config).initialize(), read_case(name)
    folder.assign("backbone", backbone, loaded.values, name)
    head = ChunkedLM(loaded.config)
    folder.assign(head.prefix, head, loaded.values, name)
    for block, kind in zip(backbone.blocks, loaded.config.kinds, strict=True):
        if kind == "lsh":
            block.mixer.rotations = case.inputs["lsh_rotations"]
    return backbone, head, case


@pytest.mark.parametrize("name", CASES)
def test_states_logits_and_loss_are_those_of_hugging_face(name):
    backbone, head, case = published(name)
    batch = {"token_ids": case.inputs["token_ids"], "padding_mask": case.inputs["padding_mask"] > 0}
    # The first token sees itself only, by scores of -1e5, which float32 rounds: the weights of the reference do not sum to one.
    real = batch["padding_mask"] & (np.arange(32) > 0)
    width = backbone.config.hidden_dim
    *states, output = backbone.hidden_states(batch)
    for index, state in enumerate(states):  # of theirs only the second stream is stored
        assert_close(state[..., width:], case.outputs[f"hidden_states/{index}"], f"hidden_states/{index}", real)
    assert_close(backbone(batch)["sequence_output"], output)
    logits = np.array(head.logits(output, backbone))
    assert_close(logits, case.outputs["lm_logits"], "lm_logits", real, atol=3e-3)  # what the first token passes on
    labels = np.pad(case.inputs["labels"][:, 1:], ((0, 0), (0, 1)), constant_values=-100)
    answer = {"labels": np.maximum(labels, 0), "label_weights": (labels >= 0).astype("float32")}
    (total, weight) = head.score({"sequence_output": output}, answer, backbone)[0]["causal_lm"]
    assert_close(total / weight, case.outputs["loss"], atol=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_folders_of_hugging_face_come_back_as_they_were(tmp_path, name):
    source = write_hugging_face(tmp_path / "theirs", name)
    convert.save(convert.load(source), str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    before, after = (load_file(tmp_path / part / "model.safetensors") for part in ("theirs", "back"))
    assert set(before) == set(after)
    for tensor, value in before.items():
        np.testing.assert_array_equal(value, after[tensor], err_msg=tensor)
    settings = [json.loads((tmp_path / part / "config.json").read_text()) for part in ("theirs", "back")]
    assert settings[0].items() <= settings[1].items()
    assert max(convert.verify(source, str(tmp_path / "ours")).values()) < 1e-5


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("is_decoder", False, "cannot convert `is_decoder` = False; only True is supported"),
        ("attn_layers", ["local", "full"], "`attn_layers` must name the kinds of the first layers, local or lsh"),
        ("attn_layers", [], "`attn_layers` must be a string. Found: \\[\\]"),
        ("num_buckets", 7, "`num_buckets` must be even numbers. Found: \\[7\\]"),
        (
            "axial_pos_shape",
            [4, 4],
            "`axial_pos_shape` must be two numbers whose product is the number of positions, 32",
        ),
        ("axial_pos_embds_dim", [30, 20], "`axial_pos_embds_dim` must be two numbers whose sum is `hidden_size`, 32"),
        ("lsh_num_chunks_before", 2, "cannot convert `lsh_num_chunks_before` = 2; only 1 is supported"),
    ],
)
def test_what_our_network_cannot_be_is_refused_by_its_key(tmp_path, key, value, message):
    source = write_hugging_face(tmp_path / "theirs", CASES[0])
    config = tmp_path / "theirs" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {key: value}))
    with pytest.raises(CheckpointError, match=message):
        convert.load(source)


@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("name", CASES)
def test_transformers_computes_the_same_from_what_we_write(tmp_path, name, monkeypatch):
    import torch
    import transformers

    backbone, head, case = published(name)
    convert.save(convert.load(write_hugging_face(tmp_path / "theirs", name)), f"hf:{tmp_path / 'back'}")
    network, report = transformers.ReformerModelWithLMHead.from_pretrained(
        str(tmp_path / "back"), output_loading_info=True
    )
    assert not any(report.values())
    # In float32 it loses digits where a token sees itself alone: scores of -1e5 are summed over the rounds of hashing.
    network, rotations = network.double().eval(), torch.from_numpy(case.inputs["lsh_rotations"]).double()
    monkeypatch.setattr(torch, "randn", lambda *shape, **others: rotations)
    tokens = np.random.default_rng(5).integers(90, size=(2, 32))
    with torch.no_grad():
        found = network(torch.from_numpy(tokens)).logits.numpy()
    states = backbone({"token_ids": tokens, "padding_mask": np.ones((2, 32), bool)})["sequence_output"]
    assert_close(np.array(head.logits(states, backbone))[:, 1:], found[:, 1:], atol=1e-5)


@functools.cache
def network(num_layers=4, policy="float32", **numbers):
    config = ReformerConfig(
        50, 16, num_layers, 2, 32, **{"max_sequence_length": 40, "local_chunk_size": 4, "lsh_chunk_size": 4, "dropout": 0.1,
        "attention_dropout": 0.1, "local_attention_dropout": 0.1, "initializer_stddev": 0.3, "feedforward_chunk_size": 7, **numbers},
    )  # fmt: skip
    keras.utils.set_random_seed(0)
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        return Reformer(config).initialize()
    finally:
        keras.mixed_precision.set_global_policy(before)


def batch_of(length=32):
    token_ids = np.random.default_rng(0).integers(50, size=(2, length)).astype("int32")
    return {"token_ids": token_ids, "padding_mask": np.arange(length) < np.array([[length], [length - 5]])}


def stored(backbone, batch, training=True):
    """The same output, by calling the blocks one after another."""
    x = ops.cast(backbone.embedding(batch["token_ids"], training=training), "float32")
    first, second = x, x
    for block in backbone.blocks:
        first, second = block(first, second, visible=backbone.visible(batch), training=training)
    return backbone.dropout(backbone.finish(first, second), training=training)


def gradients(call, backbone, batch):
    with tf.GradientTape() as tape, dropout_seed(np.array([3, 4], "uint32")):
        y = call(backbone, batch)
        value = tf.reduce_sum(tf.cast(y, "float32") ** 3 * batch["padding_mask"][..., None])
    found = tape.gradient(value, [weight.value for weight in backbone.trainable_variables])
    return [value, *map(tf.convert_to_tensor, found)]


def reversed_back(backbone, batch):
    return backbone(batch, training=True)["sequence_output"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "xla"])
def test_gradients_are_those_of_stored_activations_with_dropout_too(is_compiled):
    backbone, batch = network(2, feedforward_chunk_size=20), batch_of()
    calls = [functools.partial(gradients, call, backbone, batch) for call in (stored, reversed_back)]
    found = [tf.function(call, jit_compile=True)() if is_compiled else call() for call in calls]
    for expected, value in zip(*found, strict=True):
        assert float(tf.reduce_max(tf.abs(expected))) > 1.0
        assert_close(value, expected, atol=0.0, rtol=5e-5)


def test_in_half_precision_the_streams_stay_whole():
    backbone, batch = network(policy="mixed_bfloat16"), batch_of()
    found = [gradients(call, backbone, batch) for call in (stored, reversed_back)]
    for expected, value in zip(*found, strict=True):
        assert_close(value, expected, atol=0.0, rtol=0.05)


def test_blocks_walk_back_to_their_inputs():
    backbone, batch = network(), batch_of()
    first, second = (np.random.default_rng(n).normal(size=(2, 32, 16)).astype("float32") for n in (1, 2))
    walks = [Walk(block, backbone.visible(batch)) for block in backbone.blocks]
    with dropout_seed(np.array([3, 4], "uint32")):
        from xmodels.layers.dropout import active_seed

        a, b = ops.convert_to_tensor(first), ops.convert_to_tensor(second)
        for walk in walks:
            a, b = walk.forward(a, b, walk.weights, active_seed())
        assert np.abs(np.array(a) - first).max() > 0.5
        slopes = ops.zeros_like(a), ops.zeros_like(b)
        for walk in reversed(walks):
            a, b, slopes, _ = walk.backward(a, b, slopes, walk.weights, active_seed())
    np.testing.assert_allclose(a, first, atol=1e-5)
    np.testing.assert_allclose(b, second, atol=1e-5)


def test_without_a_seed_of_the_step_dropout_is_repeated_all_the_same():
    backbone, batch = network(2, dropout=0.5), batch_of()
    x = tf.constant(np.random.default_rng(1).normal(size=(2, 32, 16)).astype("float32"))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        first, second = run_reversibly(backbone.blocks, x, x, backbone.visible(batch))
    again = run_reversibly(backbone.blocks, x, x, backbone.visible(batch))
    assert np.abs(first - again[0]).max() > 0.1 and np.isfinite(tape.gradient(second, x)).all()


@pytest.mark.long
def test_what_is_kept_for_the_gradient_does_not_grow_with_the_layers():
    batch = batch_of()

    def kept(call, num_layers):
        backbone = network(num_layers, attention="local", feedforward_chunk_size=0)
        return kept_bytes(lambda batch: tf.reduce_sum(call(backbone, batch)), backbone.trainable_variables, {**batch})

    few, many = (kept(reversed_back, num_layers) for num_layers in (1, 3))
    of_layer = (kept(stored, 3) - kept(stored, 1)) / 2
    assert of_layer > 2 * 32 * 16 * 4 * 8 and many - few < 0.01 * of_layer


def test_estimates_of_memory_grow_by_the_buckets_only():
    two, ten = (ReformerConfig(50, 16, n, 2, 32) for n in (2, 10))
    assert ten.kept_bytes(1024) - two.kept_bytes(1024) == 4 * 4 * 2 * 2


def test_tokens_in_parts_are_all_tokens():
    (whole, parts), batch = (network(feedforward_chunk_size=size) for size in (0, 5)), batch_of()
    for ours, theirs in zip(parts.weights, whole.weights, strict=True):
        ours.assign(theirs)
    np.testing.assert_allclose(parts(batch)["sequence_output"], whole(batch)["sequence_output"], atol=1e-5)


def test_a_loss_in_parts_is_the_whole_loss_and_so_are_gradients():
    states = tf.constant(np.random.default_rng(0).normal(size=(2, 11, 32)).astype("float32"))
    batch = {
        "labels": np.arange(22).reshape(2, 11),
        "label_weights": (np.arange(22) % 3 > 0).reshape(2, 11).astype("float32"),
    }
    found = []
    for size in (0, 4):
        keras.utils.set_random_seed(1)
        head = ChunkedLM(ReformerConfig(50, 16, 1, 2, 32, head_chunk_size=size, initializer_stddev=0.5))
        with tf.GradientTape() as tape:
            tape.watch(states)
            losses, measures = head.score({"sequence_output": states}, batch, None)
        slopes = tape.gradient(losses["causal_lm"][0], [states, *(weight.value for weight in head.trainable_variables)])
        found.append([*losses["causal_lm"], *measures["causal_lm_accuracy"], *slopes])
    for whole, parts in zip(*found, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)


def test_a_position_is_its_row_beside_its_column():
    backbone = network(1, max_sequence_length=40, axial_shape=(5, 8), axial_dims=(6, 10))
    position = backbone.embedding.position
    rows, columns = (np.array(table.embeddings) for table in (position.rows, position.columns))
    assert rows.shape == (5, 6) and columns.shape == (8, 10)
    expected = np.concatenate([np.repeat(rows, 8, axis=0), np.tile(columns, (5, 1))], axis=1)
    np.testing.assert_array_equal(position(np.arange(40)), expected)


@pytest.mark.parametrize(("length", "grid"), [(1, (1, 1)), (40, (6, 7)), (4096, (64, 64)), (65_536, (256, 256))])
def test_the_default_grid_holds_all_positions(length, grid):
    assert default_grid(length) == grid and math.prod(grid) >= length


def test_it_decodes_as_it_reads_where_layers_are_local_or_the_text_is_one_chunk():
    for numbers in ({"attention": "local"}, {"lsh_chunk_size": 40}):
        backbone, batch = network(2, **numbers), batch_of(30)
        batch["padding_mask"][:] = True
        past, place, found = backbone.start(2, 40), 0, []
        for length in (13, 1, 1, 15):
            y, past = backbone.decode(batch["token_ids"][:, place : place + length], past, place)
            found.append(y)
            place += length
        np.testing.assert_allclose(ops.concatenate(found, axis=1), backbone(batch)["sequence_output"], atol=1e-3)


def test_parameters_are_those_of_the_formula():
    """Of a layer: three or four projections without biases, the feed-forward layer, and two norms."""

    def expected(v, d, f, width, kinds, grid, dims):  # width: of all heads
        layers = sum((3 if kind == "lsh" else 4) * d * width + 2 * d * f + f + d + 4 * d for kind in kinds)
        return v * d + sum(n * w for n, w in zip(grid, dims, strict=True)) + layers + 4 * d

    small = network(3, attention="local,lsh,lsh", head_dim=12)
    assert small.count_params() == expected(50, 16, 32, 24, small.config.kinds, (6, 7), (4, 12))


def test_published_sizes_are_configurations():
    for name, numbers in SIZES.items():
        config = ReformerConfig(258, **numbers)
        assert ReformerConfig.from_json(config.to_json(), name) == config


def test_choices_are_repeated_in_their_order():
    with recorded() as found:
        assert [choose(functools.partial(int, n)) for n in (3, 1)] == [3, 1]
    with repeated(found):
        assert [choose(lambda: 9) for _ in range(2)] == [3, 1]
    assert choose(lambda: 9) == 9


PROGRAM = """
import json, sys
from tests.models import test_reformer as asked
json.dump(asked.worst_of_other_backend(), open(sys.argv[1], "w"))
"""


def worst_of_other_backend():
    """The largest difference of gradients, relative to the largest of their weight, on the backend of this process."""
    from xmodels.layers.pullback import pullback

    backbone, batch = network(), batch_of()
    variables, found = backbone.trainable_variables, []
    for call in (stored, reversed_back):

        def loss(*values, call=call):
            places = list(zip(variables, values, strict=True))
            with keras.StatelessScope(places), dropout_seed(ops.convert_to_tensor(np.array([3, 4], "uint32"))):
                return ops.sum(call(backbone, batch) ** 3)

        value, pull = pullback(loss, [ops.copy(weight) for weight in variables])
        found.append(pull(ops.ones_like(value)))
    return [float(ops.max(ops.abs(a - b)) / ops.max(ops.abs(a))) for a, b in zip(*found, strict=True)]


@pytest.mark.long
@pytest.mark.parametrize("backend", [pytest.param(name, marks=pytest.mark.extra(name)) for name in ("jax", "torch")])
def test_gradients_of_other_backends(backend, tmp_path):
    target = tmp_path / "found.json"
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(target)], check=True, timeout=300,
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert max(json.loads(target.read_text())) < 5e-5


def test_weights_have_the_names_of_their_places():
    names = set(named_weights(network(2)))
    assert {"blocks.0.mixer.key.kernel", "blocks.1.mixer.query.kernel", "embedding.position.rows.embeddings"} <= names
    assert "blocks.1.mixer.key.kernel" not in names and not any(name.endswith("merge.bias") for name in names)


def test_configurations_are_read_as_they_were_written():
    config = dataclasses.replace(network(2).config, num_buckets=(4, 2), head_dim=12)
    assert ReformerConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(CheckpointError, match="`attention` must name the kinds of the first layers, local or lsh"):
        ReformerConfig.from_json({**config.to_json(), "attention": "local,full"})
