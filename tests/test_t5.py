"""T5 computes what Hugging Face's does: buckets, states, attention, loss, gradients, and the texts that it writes."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from parity import assert_close, assert_gradient_norms, feed, gradients_of, names_of, read_case

from xmodels.decoding.options import Decoding
from xmodels.decoding.targets import draw, searched
from xmodels.layers.attention.visible import Visible
from xmodels.layers.relative_buckets import RelativeBuckets
from xmodels.models.backbone import named_weights
from xmodels.models.t5 import SIZES, T5, T5Config
from xmodels.objectives.seq2seq import Seq2Seq

CASE = read_case("t5/seq2seq_v10")
NUMBERS = CASE.numbers
PAD, END = NUMBERS["pad_token_id"], NUMBERS["end_token_id"]


def from_hugging_face():
    """The table of all weights for `parity.feed`."""
    rows = {"embedding.token.embeddings": "shared.weight"}
    width, heads = NUMBERS["hidden_dim"], NUMBERS["num_heads"]

    def attention(ours, theirs):
        for part in ("query", "key", "value"):
            rows[f"{ours}.{part}.kernel"] = f"{theirs}.{part[0]}.weight", lambda x: x.T.reshape(width, heads, -1)
        rows[f"{ours}.merge.kernel"] = f"{theirs}.o.weight", lambda x: x.T.reshape(heads, -1, width)

    for stack in ("encoder", "decoder"):
        attend = f"{stack}.block.0.layer.0.SelfAttention"
        rows[f"{stack}_buckets.table"] = f"{attend}.relative_attention_bias.weight"
        for layer in range(NUMBERS[f"num_{stack}_layers"]):
            ours, theirs = f"{stack}_blocks.{layer}", f"{stack}.block.{layer}.layer"
            attention(f"{ours}.mixer", f"{theirs}.0.SelfAttention")
            norms = ["mixer", "feedforward"]
            if stack == "decoder":
                attention(f"{ours}.cross", f"{theirs}.1.EncDecAttention")
                norms.insert(1, "cross")
            for index, part in enumerate(norms):
                rows[f"{ours}.{part}_norm.scale"] = f"{theirs}.{index}.layer_norm.weight"
            for part, their in (("expand", "wi"), ("contract", "wo")):
                place = f"{theirs}.{len(norms) - 1}.DenseReluDense.{their}.weight"
                rows[f"{ours}.feedforward.{part}.kernel"] = place, lambda x: x.T
        rows[f"{stack}_norm.scale"] = f"{stack}.final_layer_norm.weight"
    return rows


@functools.cache
def network():
    n = NUMBERS
    config = T5Config(
        n["vocabulary_size"], n["hidden_dim"], n["num_encoder_layers"], n["num_heads"], n["intermediate_dim"], dropout=0.0,
        num_decoder_layers=n["num_decoder_layers"], head_dim=n["head_dim"], num_buckets=n["num_relative_buckets"],
        max_distance=n["relative_max_distance"],
    )  # fmt: skip
    backbone = T5(config).initialize()
    feed(named_weights(backbone), from_hugging_face(), CASE.weights)
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


def test_states_and_attention_are_those_of_the_original():
    backbone, expected = network(), CASE.outputs
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


def test_loss_and_gradients_are_those_of_the_original():
    backbone, objective = network(), Seq2Seq(label_smoothing=0.0)

    def loss():
        total, weight = objective.score(backbone(BATCH), BATCH, backbone)[0]["seq2seq"]
        return total / weight

    value, gradients = gradients_of(loss, named_weights(backbone))
    assert_close(value, CASE.outputs["loss"])
    assert_close(objective.logits(backbone(BATCH)["sequence_output"], backbone), CASE.outputs["lm_logits"])
    names = names_of(from_hugging_face())
    assert_gradient_norms({names[ours]: g for ours, g in gradients.items()}, CASE.outputs)


STARTS, LIMITS = ops.full((3,), PAD, dtype="int32"), ops.full((3,), 11, dtype="int32")


def cut(rows):
    """Rows of ids up to the end token."""
    rows = np.array(rows).reshape(-1, np.array(rows).shape[-1]).tolist()
    return [row[: row.index(END) + 1] if END in row else row for row in rows]


def test_greedy_texts_are_those_of_the_original():
    found = draw(network(), network().logits, BATCH, Decoding(temperature=0.0), (0, 0), STARTS, END, LIMITS, 11)
    assert cut(np.pad(found, ((0, 0), (1, 0)))) == cut(CASE.outputs["greedy_ids"])


def test_beam_search_finds_the_texts_of_the_original():
    decoding = Decoding(temperature=0.0, num_beams=3, length_penalty=0.6, ranked=True)
    ids, scores = searched(network(), network().logits, BATCH, decoding, STARTS, END, LIMITS, 11)
    assert cut(ids) == cut(CASE.outputs["beam3_lp0.6/ids"])
    assert_close(np.array(scores).reshape(-1), CASE.outputs["beam3_lp0.6/scores"], atol=1e-3)


def small(**more):
    keras.utils.set_random_seed(1)
    return T5(T5Config(30, 16, 2, 3, 24, dropout=0.0, head_dim=4, num_buckets=8, max_distance=12, **more)).initialize()


VERSION_1_1 = {"gated": True, "tied_output": False, "activation": "gelu_tanh", "num_decoder_layers": 1}


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
