"""T5 computes what Hugging Face's does: buckets, states, attention, loss, gradients, and the texts that it writes."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError
from tests.helpers.parity import assert_close, assert_gradient_norms, gradients_of, read_case
from xmodels.conversion import convert
from xmodels.conversion.tables.t5 import TABLE
from xmodels.conversion.tensors import rows
from xmodels.decoding.options import Decoding
from xmodels.decoding.targets import beam_search_targets, draw
from xmodels.layers.attention.visible import Visible
from xmodels.layers.relative_buckets import RelativeBuckets
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.t5 import SIZES, T5, T5Config
from xmodels.objectives.seq2seq import Seq2Seq

CASE = read_case("t5/seq2seq_v10")
NUMBERS = CASE.numbers
PAD, END = NUMBERS["pad_token_id"], NUMBERS["end_token_id"]


SETTINGS = {
    "model_type": "t5", "is_encoder_decoder": True, "vocab_size": 110, "d_model": 32, "num_layers": 3, "num_decoder_layers": 2,
    "num_heads": 4, "d_kv": 8, "d_ff": 64, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16,
    "feed_forward_proj": "relu", "tie_word_embeddings": True, "layer_norm_epsilon": 1e-6, "dropout_rate": 0.1,
    "initializer_factor": 1.0, "n_positions": 512, "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The weights of the case as Hugging Face writes them, with a copy of a tied one."""
    path = tmp_path_factory.mktemp("theirs")
    save_file(CASE.weights | {"lm_head.weight": CASE.weights["shared.weight"]}, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(SETTINGS))
    return path


@pytest.fixture(scope="module")
def network(theirs):
    loaded = convert.load(f"hf:{theirs}")
    backbone = T5(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, "the case")
    return backbone


def batch_of(inputs):
    labels = inputs["labels"]
    clean = np.where(labels < 0, PAD, labels)
    return {
        "token_ids": inputs["encoder_token_ids"], "padding_mask": inputs["encoder_padding_mask"] > 0,
        "target_ids": np.pad(clean[:, :-1], ((0, 0), (1, 0)), constant_values=PAD),
        "labels": clean, "label_weights": (labels >= 0).astype("float32"),
    }  # fmt: skip


BATCH = batch_of(CASE.inputs)
REAL = BATCH["padding_mask"]


@pytest.mark.parametrize(("suffix", "buckets", "most"), [("", 8, 16), ("_32_128", 32, 128)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_those_of_the_original(suffix, buckets, most, bidirectional):
    layer = RelativeBuckets(1, buckets, most, bidirectional, "zeros")
    name = f"buckets_{'bidirectional' if bidirectional else 'causal'}{suffix}"
    expected = CASE.outputs[name]
    distances = np.arange(len(expected)) - len(expected) // 2
    if not suffix:
        assert np.array_equal(distances, CASE.outputs["relative_offsets_key_minus_query"])
    assert np.array_equal(np.array(layer.buckets(ops.convert_to_tensor(distances, "int32"))), expected)


def test_states_and_attention_are_those_of_the_original(network):
    backbone, expected = network, CASE.outputs
    assert np.array_equal(BATCH["target_ids"], expected["decoder_token_ids"])
    real = Visible(REAL)
    x = backbone.embedding(BATCH["token_ids"], REAL)
    for index, block in enumerate(backbone.encoder_blocks):
        assert_close(x, expected[f"encoder_hidden_states/{index}"], "encoder", REAL)
        found, maps = block.attention_map(x, real), expected[f"encoder_attentions/{index}"]
        assert_close(found, maps, "attention", np.broadcast_to(REAL[:, None, :, None], maps.shape))
        x = block(x, visible=real)
    x = backbone.finish(x, "encoder")
    assert_close(x, expected[f"encoder_hidden_states/{len(backbone.encoder_blocks)}"], "encoder", REAL)
    y, before = backbone.embedding.target(BATCH["target_ids"]), Visible(causal=True)
    for index, block in enumerate(backbone.decoder_blocks):
        assert_close(y, expected[f"decoder_hidden_states/{index}"], "decoder")
        maps = block.mixer.probabilities(block.mixer_norm(y), before)
        assert_close(maps, expected[f"decoder_attentions/{index}"], "attention")
        y = block(y, source=x, visible=before, source_visible=real)
    y = backbone.finish(y, "decoder")
    assert_close(y, expected[f"decoder_hidden_states/{len(backbone.decoder_blocks)}"], "decoder")
    assert_close(backbone(BATCH)["sequence_output"], y, "all at once", atol=1e-6)


def test_loss_and_gradients_are_those_of_the_original(network):
    backbone, objective = network, Seq2Seq(label_smoothing=0.0)

    def loss():
        total, weight = objective.score(backbone(BATCH), BATCH, backbone)[0]["seq2seq"]
        return total / weight

    value, gradients = gradients_of(loss, named_weights(backbone))
    assert_close(value, CASE.outputs["loss"])
    assert_close(objective.logits(backbone(BATCH)["sequence_output"], backbone), CASE.outputs["lm_logits"])
    listed = rows(TABLE.variables(TABLE.hugging_face), TABLE, backbone.config)
    found = {their: gradients[ours.removeprefix("backbone.")] for ours, _, their, _ in listed}
    assert_gradient_norms(found, CASE.outputs)


STARTS, LIMITS = ops.full((3,), PAD, dtype="int32"), ops.full((3,), 11, dtype="int32")


def cut(rows):
    """Rows of ids up to the end token."""
    rows = np.array(rows).reshape(-1, np.array(rows).shape[-1]).tolist()
    return [row[: row.index(END) + 1] if END in row else row for row in rows]


def test_greedy_texts_are_those_of_the_original(network):
    found = draw(network, network.logits, BATCH, Decoding(temperature=0.0), (0, 0), STARTS, END, LIMITS, 11)
    assert cut(np.pad(found, ((0, 0), (1, 0)))) == cut(CASE.outputs["greedy_ids"])


def test_beam_search_finds_the_texts_of_the_original(network):
    decoding = Decoding(temperature=0.0, num_beams=3, length_penalty=0.6, ranked=True)
    ids, scores = beam_search_targets(network, network.logits, BATCH, decoding, STARTS, END, LIMITS, 11)
    assert cut(ids) == cut(CASE.outputs["beam3_lp0.6/ids"])
    assert_close(np.array(scores).reshape(-1), CASE.outputs["beam3_lp0.6/scores"], atol=1e-3)


def small(**more):
    keras.utils.set_random_seed(1)
    return T5(T5Config(30, 16, 2, 3, 24, dropout=0.0, head_dim=4, num_buckets=8, max_distance=12, **more)).initialize()


VERSION_1_1 = {
    "gated": True,
    "tied_output": False,
    "scaled_output": False,
    "activation": "gelu_tanh",
    "num_decoder_layers": 1,
}


@pytest.mark.parametrize("more", [{}, VERSION_1_1], ids=["1.0", "1.1"])
def test_decoding_token_by_token_equals_the_whole_target(more):
    backbone, rng = small(**more), np.random.default_rng(0)
    batch = {
        "token_ids": rng.integers(2, 30, (2, 9)).astype("int32"), "padding_mask": np.arange(9) < np.array([[9], [5]]),
        "target_ids": rng.integers(2, 30, (2, 20)).astype("int32"),
    }  # fmt: skip
    past, found = backbone.start(batch, 20), []
    for first, last in ((0, 1), (1, 2), (2, 15), (15, 16), (16, 20)):
        states, past = backbone.decode(batch["target_ids"][:, first:last], past, first)
        found.append(states)
    np.testing.assert_allclose(ops.concatenate(found, axis=1), backbone(batch)["sequence_output"], atol=2e-5)


def num_weights(c: T5Config):
    inner, width = c.num_heads * c.head_dim, c.hidden_dim
    feedforward = (3 if c.gated else 2) * width * c.intermediate_dim
    encoder, decoder = 4 * width * inner + feedforward + 2 * width, 8 * width * inner + feedforward + 3 * width
    stacks = c.num_layers * encoder + (c.num_decoder_layers or c.num_layers) * decoder + 2 * width
    return (1 if c.tied_output else 2) * c.vocabulary_size * width + stacks + 2 * c.num_buckets * c.num_heads


@pytest.mark.parametrize("more", [{}, VERSION_1_1], ids=["1.0", "1.1"])
def test_the_count_of_weights_is_that_of_the_formula(more):
    backbone = small(**more)
    assert backbone.count_params() == num_weights(backbone.config)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("small", 60_506_624),
        ("base", 222_903_552),
        ("large", 737_668_096),
        ("v1_1_small", 76_961_152),
        ("v1_1_base", 247_577_856),
        ("v1_1_large", 783_150_080),
        ("v1_1_xl", 2_849_757_184),
    ],
)
def test_sizes_have_the_published_numbers_of_parameters(name, published):
    assert num_weights(T5Config(32_128, **SIZES[name])) == published


def test_kernels_begin_with_the_deviations_of_the_original():
    keras.utils.set_random_seed(0)
    backbone = T5(T5Config(64, 128, 1, 4, 256, head_dim=32)).initialize()
    block, attention = backbone.decoder_blocks[0], backbone.decoder_blocks[0].mixer
    for kernel, stddev in (
        (attention.query.kernel, (128 * 32) ** -0.5), (attention.key.kernel, 128**-0.5), (attention.merge.kernel, 128**-0.5),
        (block.feedforward.expand.kernel, 128**-0.5), (block.feedforward.contract.kernel, 256**-0.5),
        (backbone.embedding.token.embeddings, 1.0),
    ):  # fmt: skip
        assert float(np.std(kernel)) == pytest.approx(stddev, rel=0.05)


def test_what_is_written_is_what_was_read(theirs, tmp_path):
    convert.save(convert.load(f"hf:{theirs}"), str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    back = load_file(tmp_path / "back/model.safetensors")
    assert set(back) == set(CASE.weights)
    assert all(np.array_equal(CASE.weights[name], value) for name, value in back.items())
    written = json.loads((tmp_path / "back/config.json").read_text())
    known = {key: value for key, value in SETTINGS.items() if not key.endswith("token_id")}
    assert {key: written[key] for key in known} == known
    assert written["architectures"] == ["T5ForConditionalGeneration"]
    assert max(convert.verify(f"hf:{theirs}", f"hf:{tmp_path / 'back'}").values()) == 0


@pytest.mark.parametrize(
    "more",
    [VERSION_1_1, {"scaled_output": False}, {"tied_output": False}, {"activation": "gelu"}],
    ids=["1.1", "unscaled", "untied", "gelu"],
)
def test_versions_travel_both_ways(more, tmp_path):
    backbone = small(**more)
    checkpoint = Checkpoint("t5", backbone.config, folder.values_of("backbone", backbone))
    convert.save(checkpoint, f"hf:{tmp_path / 'theirs'}")
    back = convert.load(f"hf:{tmp_path / 'theirs'}")
    assert back.config == backbone.config and set(back.values) == set(checkpoint.values)
    assert ("lm_head.weight" in load_file(tmp_path / "theirs/model.safetensors")) is not backbone.config.tied_output


def test_what_the_format_cannot_say_is_refused(tmp_path):
    backbone = small(gated=True, activation="gelu")
    checkpoint = Checkpoint("t5", backbone.config, folder.values_of("backbone", backbone))
    with pytest.raises(CheckpointError, match="this format cannot say `activation` = 'gelu'"):
        convert.save(checkpoint, f"hf:{tmp_path / 'theirs'}")
