"""BART computes what Hugging Face's does: states, attention, loss, gradients, and the texts that it writes."""

import functools

import numpy as np
import pytest
from keras import ops
from parity import assert_close, assert_gradient_norms, feed, gradients_of, names_of, read_case

from xmodels.decoding.options import Decoding
from xmodels.decoding.targets import draw, searched
from xmodels.layers.attention.visible import Visible
from xmodels.models.backbone import named_weights
from xmodels.models.bart import Bart, BartConfig
from xmodels.objectives.seq2seq import Seq2Seq

CASE = read_case("bart/seq2seq_generate")
NUMBERS = CASE.numbers
PAD, END = NUMBERS["pad_token_id"], NUMBERS["end_token_id"]


def from_hugging_face():
    """The table of all weights for `parity.feed`."""
    rows = {"embedding.token.embeddings": "model.shared.weight", "output_bias.bias": "final_logits_bias"}
    width = NUMBERS["hidden_dim"]

    def pair(ours, theirs, names=("gamma", "beta")):
        rows[f"{ours}.{names[0]}"], rows[f"{ours}.{names[1]}"] = f"{theirs}.weight", f"{theirs}.bias"

    def attention(ours, theirs, heads):
        for part in ("query", "key", "value"):
            rows[f"{ours}.{part}.kernel"] = f"{theirs}.{part[0]}_proj.weight", lambda x: x.T.reshape(width, heads, -1)
            rows[f"{ours}.{part}.bias"] = f"{theirs}.{part[0]}_proj.bias"
        rows[f"{ours}.merge.kernel"] = f"{theirs}.out_proj.weight", lambda x: x.T.reshape(heads, -1, width)
        rows[f"{ours}.merge.bias"] = f"{theirs}.out_proj.bias"

    for stack, side in (("encoder", "source"), ("decoder", "target")):
        rows[f"embedding.{side}_position.embeddings"] = f"model.{stack}.embed_positions.weight"
        pair(f"embedding.{side}_norm", f"model.{stack}.layernorm_embedding")
        for layer in range(NUMBERS[f"num_{stack}_layers"]):
            ours, theirs, heads = (
                f"{stack}_blocks.{layer}",
                f"model.{stack}.layers.{layer}",
                NUMBERS[f"{stack}_num_heads"],
            )
            attention(f"{ours}.mixer", f"{theirs}.self_attn", heads)
            pair(f"{ours}.mixer_norm", f"{theirs}.self_attn_layer_norm")
            if stack == "decoder":
                attention(f"{ours}.cross", f"{theirs}.encoder_attn", heads)
                pair(f"{ours}.cross_norm", f"{theirs}.encoder_attn_layer_norm")
            for part, their in (("expand", "fc1"), ("contract", "fc2")):
                rows[f"{ours}.feedforward.{part}.kernel"] = f"{theirs}.{their}.weight", lambda x: x.T
                rows[f"{ours}.feedforward.{part}.bias"] = f"{theirs}.{their}.bias"
            pair(f"{ours}.feedforward_norm", f"{theirs}.final_layer_norm")
    return rows


@functools.cache
def network():
    n = NUMBERS
    config = BartConfig(
        n["vocabulary_size"], n["hidden_dim"], n["num_encoder_layers"], n["encoder_num_heads"], n["encoder_intermediate_dim"],
        n["max_sequence_length"], num_decoder_layers=n["num_decoder_layers"], decoder_num_heads=n["decoder_num_heads"],
        decoder_intermediate_dim=n["decoder_intermediate_dim"],
    )  # fmt: skip
    backbone = Bart(config).initialize()
    feed(named_weights(backbone), from_hugging_face(), CASE.weights)
    return backbone


def batch_of(inputs):
    labels = inputs["labels"]
    clean = np.where(labels < 0, PAD, labels)
    return {
        "token_ids": inputs["encoder_token_ids"], "padding_mask": inputs["encoder_padding_mask"] > 0,
        "target_ids": np.concatenate([np.full((len(labels), 1), END, "int32"), clean[:, :-1]], axis=1),
        "labels": clean, "label_weights": (labels >= 0).astype("float32"),
    }  # fmt: skip


BATCH = batch_of(CASE.inputs)
REAL = BATCH["padding_mask"]


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
    assert_close(x, expected[f"encoder_hidden_states/{len(backbone.encoder_blocks)}"], "encoder", REAL)
    y, before = backbone.embedding.target(BATCH["target_ids"]), Visible(causal=True)
    for index, block in enumerate(backbone.decoder_blocks):
        assert_close(y, expected[f"decoder_hidden_states/{index}"], "decoder")
        assert_close(block.mixer.probabilities(y, before), expected[f"decoder_attentions/{index}"], "attention")
        y = block(y, source=x, visible=before, source_visible=real)
    assert_close(y, expected[f"decoder_hidden_states/{len(backbone.decoder_blocks)}"], "decoder")
    assert_close(backbone(BATCH)["sequence_output"], y, "all at once", atol=1e-6)


def test_loss_and_gradients_are_those_of_the_original():
    backbone, objective = network(), Seq2Seq(label_smoothing=0.0)
    weights = named_weights(backbone)
    trained = {name: weight for name, weight in weights.items() if weight.trainable}
    assert set(weights) - set(trained) == {"output_bias.bias"}

    def loss():
        total, weight = objective.score(backbone(BATCH), BATCH, backbone)[0]["seq2seq"]
        return total / weight

    value, gradients = gradients_of(loss, trained)
    assert_close(value, CASE.outputs["loss"])
    assert_close(objective.logits(backbone(BATCH)["sequence_output"], backbone), CASE.outputs["lm_logits"])
    names = names_of(from_hugging_face())
    atol = 1e-5 * float(CASE.outputs["grad_norm_values"].max())
    assert_gradient_norms({names[ours]: g for ours, g in gradients.items()}, CASE.outputs, atol=atol)


STARTS, LIMITS = ops.full((3,), END, dtype="int32"), ops.full((3,), 13, dtype="int32")
FORCED = {"temperature": 0.0, "forces_end": True}


def logits(states):
    return network().logits(states)


def cut(rows, pad):
    """Rows of ids up to the end token, which is the first one behind the start."""
    found = []
    for row in np.array(rows).reshape(-1, np.array(rows).shape[-1]).tolist():
        end = row.index(END, 1) if END in row[1:] else len(row) - 1
        assert set(row[end + 1 :]) <= {pad}
        found.append(row[: end + 1])
    return found


def test_greedy_texts_are_those_of_the_original():
    found = draw(network(), logits, BATCH, Decoding(**FORCED), (0, 0), STARTS, END, LIMITS, 13)
    assert cut(np.concatenate([np.full((3, 1), END), found], axis=1), 0) == cut(CASE.outputs["greedy_ids"], PAD)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("beam4_lp1_early", {"num_beams": 4, "length_penalty": 1.0, "early_stopping": True}),
        ("beam4_lp2", {"num_beams": 4, "length_penalty": 2.0}),
        ("beam3_lp0_norepeat2_min6", {"num_beams": 3, "length_penalty": 0.0, "no_repeat_ngram_size": 2, "min_new_tokens": 5}),
    ],
)  # fmt: skip
def test_beam_search_finds_the_texts_of_the_original(name, settings):
    decoding = Decoding(**FORCED, ranked=True, **settings)
    ids, scores = searched(network(), logits, BATCH, decoding, STARTS, END, LIMITS, 13)
    assert cut(ids, 0) == cut(CASE.outputs[f"{name}/ids"], PAD)
    assert_close(np.array(scores).reshape(-1), CASE.outputs[f"{name}/scores"], atol=1e-3)
