"""BART computes what Hugging Face's does: states, attention, loss, gradients, and the texts that it writes."""

import json

import numpy as np
import pytest
from keras import ops
from safetensors.numpy import load_file, save_file

from tests.helpers.parity import assert_close, assert_gradient_norms, gradients_of, read_case
from xmodels.conversion import convert
from xmodels.conversion.tables.bart import TABLE
from xmodels.conversion.tensors import rows
from xmodels.decoding.options import Decoding
from xmodels.decoding.targets import beam_search_targets, draw
from xmodels.interfaces.reading import last_token
from xmodels.layers.attention.visible import Visible
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.models.bart import SIZES, Bart, BartConfig, shift_tokens_right
from xmodels.objectives.seq2seq import Seq2Seq

CASE = read_case("bart/seq2seq_generate")
NUMBERS = CASE.numbers
PAD, END = NUMBERS["pad_token_id"], NUMBERS["end_token_id"]


SETTINGS = {
    "model_type": "bart", "is_encoder_decoder": True, "vocab_size": 110, "d_model": 32, "encoder_layers": 2, "decoder_layers": 3,
    "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 48,
    "max_position_embeddings": 28, "activation_function": "gelu", "scale_embedding": False, "dropout": 0.1,
    "attention_dropout": 0.0, "activation_dropout": 0.0, "init_std": 0.02, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The weights of the case as Hugging Face writes them, with a copy of a tied one."""
    path = tmp_path_factory.mktemp("theirs")
    save_file(CASE.weights | {"lm_head.weight": CASE.weights["model.shared.weight"]}, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(SETTINGS))
    return path


@pytest.fixture(scope="module")
def network(theirs):
    loaded = convert.load(f"hf:{theirs}")
    backbone = Bart(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, "the case")
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
    assert_close(x, expected[f"encoder_hidden_states/{len(backbone.encoder_blocks)}"], "encoder", REAL)
    y, before = backbone.embedding.target(BATCH["target_ids"]), Visible(causal=True)
    for index, block in enumerate(backbone.decoder_blocks):
        assert_close(y, expected[f"decoder_hidden_states/{index}"], "decoder")
        assert_close(block.mixer.probabilities(y, before), expected[f"decoder_attentions/{index}"], "attention")
        y = block(y, source=x, visible=before, source_visible=real)
    assert_close(y, expected[f"decoder_hidden_states/{len(backbone.decoder_blocks)}"], "decoder")
    assert_close(backbone(BATCH)["sequence_output"], y, "all at once", atol=1e-6)


def test_loss_and_gradients_are_those_of_the_original(network):
    backbone, objective = network, Seq2Seq(label_smoothing=0.0)
    weights = named_weights(backbone)
    trained = {name: weight for name, weight in weights.items() if weight.trainable}
    assert set(weights) - set(trained) == {"output_bias.bias"}

    def loss():
        total, weight = objective.score(backbone(BATCH), BATCH, backbone)[0]["seq2seq"]
        return total / weight

    value, gradients = gradients_of(loss, trained)
    assert_close(value, CASE.outputs["loss"])
    assert_close(objective.logits(backbone(BATCH)["sequence_output"], backbone), CASE.outputs["lm_logits"])
    names = {
        ours.removeprefix("backbone."): their
        for ours, _, their, _ in rows(TABLE.variables(TABLE.hugging_face), TABLE, backbone.config)
    }
    found = {names[ours]: gradient for ours, gradient in gradients.items()}
    atol = 1e-5 * float(CASE.outputs["grad_norm_values"].max())
    assert_gradient_norms(found, CASE.outputs, atol=atol)


STARTS, LIMITS = ops.full((3,), END, dtype="int32"), ops.full((3,), 13, dtype="int32")
FORCED = {"temperature": 0.0, "forces_end": True}


def cut(rows, pad):
    """Rows of ids up to the end token, which is the first one behind the start."""
    found = []
    for row in np.array(rows).reshape(-1, np.array(rows).shape[-1]).tolist():
        end = row.index(END, 1) if END in row[1:] else len(row) - 1
        assert set(row[end + 1 :]) <= {pad}
        found.append(row[: end + 1])
    return found


def test_greedy_texts_are_those_of_the_original(network):
    found = draw(network, network.logits, BATCH, Decoding(**FORCED), (0, 0), STARTS, END, LIMITS, 13)
    assert cut(np.concatenate([np.full((3, 1), END), found], axis=1), 0) == cut(CASE.outputs["greedy_ids"], PAD)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("beam4_lp1_early", {"num_beams": 4, "length_penalty": 1.0, "early_stopping": True}),
        ("beam4_lp2", {"num_beams": 4, "length_penalty": 2.0}),
        ("beam3_lp0_norepeat2_min6", {"num_beams": 3, "length_penalty": 0.0, "no_repeat_ngram_size": 2, "min_new_tokens": 5}),
    ],
)  # fmt: skip
def test_beam_search_finds_the_texts_of_the_original(network, name, settings):
    decoding = Decoding(**FORCED, ranked=True, **settings)
    ids, scores = beam_search_targets(network, network.logits, BATCH, decoding, STARTS, END, LIMITS, 13)
    assert cut(ids, 0) == cut(CASE.outputs[f"{name}/ids"], PAD)
    assert_close(np.array(scores).reshape(-1), CASE.outputs[f"{name}/scores"], atol=1e-3)


def test_what_is_written_is_what_was_read(theirs, tmp_path):
    convert.save(convert.load(f"hf:{theirs}"), str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    back = load_file(tmp_path / "back/model.safetensors")
    assert set(back) == set(CASE.weights)
    assert all(np.array_equal(CASE.weights[name], value) for name, value in back.items())
    written = json.loads((tmp_path / "back/config.json").read_text())
    known = {key: value for key, value in SETTINGS.items() if not key.endswith("token_id")}
    assert {key: written[key] for key in known} == known
    assert written["architectures"] == ["BartForConditionalGeneration"]
    assert max(convert.verify(f"hf:{theirs}", f"hf:{tmp_path / 'back'}").values()) == 0


def num_weights(c: BartConfig):
    width, heads = c.hidden_dim, 4 * c.hidden_dim * (c.hidden_dim + 1)
    feedforward = 2 * width * c.intermediate_dim + c.intermediate_dim + width
    encoder, decoder = heads + feedforward + 4 * width, 2 * heads + feedforward + 6 * width
    return (c.vocabulary_size + 2 * c.num_positions + 4) * width + c.num_layers * (encoder + decoder)


@pytest.mark.parametrize(("size", "published"), [("base", 139_420_416), ("large", 406_291_456)])
def test_sizes_have_the_published_numbers_of_parameters(size, published):
    assert num_weights(BartConfig(50_265, **SIZES[size])) == published
    small = BartConfig(30, 16, 2, 2, 24, 20)
    assert sum(int(np.prod(w.shape)) for w in Bart(small).initialize().trainable_weights) == num_weights(small)


def test_decoding_token_by_token_equals_the_whole_target(network):
    past, found = network.start(BATCH, 9), []
    for first, last in ((0, 1), (1, 2), (2, 8), (8, 9)):
        states, past = network.decode(BATCH["target_ids"][:, first:last], past, first)
        found.append(states)
    np.testing.assert_allclose(ops.concatenate(found, axis=1), network(BATCH)["sequence_output"], atol=2e-5)


def test_without_targets_the_decoder_reads_the_source_behind_its_end(network):
    batch = {name: BATCH[name] for name in ("token_ids", "padding_mask")}
    ids, counts = batch["token_ids"], batch["padding_mask"].sum(axis=1)
    assert (ids[np.arange(3), counts - 1] == END).all()
    target = np.concatenate([np.full((3, 1), END, "int32"), ids[:, :-1]], axis=1)
    found = network(batch)["sequence_output"]
    np.testing.assert_array_equal(found, network({**batch, "target_ids": target})["sequence_output"])
    wider = {name: np.pad(value, ((0, 0), (0, 3))) for name, value in batch.items()}
    answers = [last_token(network(each), each) for each in (batch, wider)]
    np.testing.assert_allclose(*answers, atol=1e-5)


def test_the_last_token_is_found_behind_padding_too():
    ids, real = np.array([[0, 0, 5, END], [6, 7, 8, END]]), np.array([[0, 0, 1, 1], [1, 1, 1, 1]], bool)
    for mirrored in (slice(None), slice(None, None, -1)):  # left padding, and the same rows backwards: right padding
        batch = {"token_ids": ids[:, mirrored], "padding_mask": real[:, mirrored]}
        last = batch["token_ids"][np.arange(2), [3, 3] if mirrored == slice(None) else [1, 3]]
        assert np.array(shift_tokens_right(batch))[:, 0].tolist() == last.tolist()
        states = batch["token_ids"][..., None].astype("float32")
        assert np.array(last_token({"sequence_output": states}, batch))[:, 0].tolist() == last.tolist()


def test_a_table_without_a_row_for_the_mask_suits_its_vocabulary():
    config = BartConfig(50_264, **SIZES["large"])
    assert config.suits(50_264) and config.suits(50_265)
    assert not config.suits(50_266) and not config.suits(50_263)
