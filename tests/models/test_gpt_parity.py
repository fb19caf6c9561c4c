"""GPT and GPT-2 compute what Hugging Face's do: states, logits, losses, gradients, sizes, and texts token by token."""

import dataclasses
import functools
import json
import math
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError
from tests.helpers.invocation import invoke
from tests.helpers.parity import assert_close, assert_gradient_norms, assert_outputs, gradients_of, read_case
from xmodels.conversion import convert
from xmodels.conversion.formats import table_of
from xmodels.conversion.tensors import to_their_tensors
from xmodels.decoding.beam import beam_search, mean_penalty
from xmodels.decoding.memory import Copies, Shared
from xmodels.decoding.sampling import generate
from xmodels.models import folder, gpt, gpt2
from xmodels.models.backbone import named_weights
from xmodels.objectives.causal_lm import CausalLM

CASES = {"gpt1/lm": "gpt", "gpt1/double_heads": "gpt", "gpt2/lm_cache_generate": "gpt2"}


def write_hugging_face(path, name):
    """A folder as `transformers` writes it."""
    case, form = read_case(name), table_of(CASES[name]).hugging_face
    path.mkdir()
    kept = {n: value for n, value in case.weights.items() if n.startswith("transformer.")}
    save_file(kept, path / "model.safetensors")
    settings = {theirs: case.numbers[ours] for theirs, ours in form.settings.items() if ours in case.numbers}
    settings |= {"model_type": form.fixed["model_type"], form.activation_key: next(iter(form.activations))}
    (path / "config.json").write_text(json.dumps(settings))
    return f"hf:{path}"


@functools.cache
def network(name):
    import tempfile

    with tempfile.TemporaryDirectory() as path:
        loaded = convert.load(write_hugging_face(pathlib.Path(path) / "hf", name))
    backbone = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, name)
    return backbone


def features(inputs, **more):
    rows = {n: inputs[n].reshape(-1, inputs[n].shape[-1]) for n in ("token_ids", "padding_mask")}
    return {"token_ids": rows["token_ids"], "padding_mask": rows["padding_mask"].astype(bool), **more}


@pytest.mark.parametrize("name", CASES)
def test_states_and_logits(name):
    case, backbone = read_case(name), network(name)
    batch = features(case.inputs)
    real = batch["padding_mask"]
    prefix = "no_segment/" if "no_segment/lm_logits" in case.outputs else ""
    states = backbone.hidden_states(batch)
    if not prefix:
        assert_outputs({f"hidden_states/{i}": state for i, state in enumerate(states)}, case.outputs, real)
    assert_close(backbone(batch)["sequence_output"], states[-1])
    logits = CausalLM().logits(states[-1], backbone)
    expected = case.outputs[f"{prefix}lm_logits"]
    assert_close(logits, expected.reshape(-1, *expected.shape[-2:]), "lm_logits", real)


def shifted(inputs):
    """labels[t] is the label of token t + 1, as the loss of the originals shifts."""
    labels = np.pad(inputs["lm_labels"][:, 1:], ((0, 0), (0, 1)), constant_values=-100)
    return {"labels": np.maximum(labels, 0).astype("int32"), "label_weights": (labels >= 0).astype("float32")}


@pytest.mark.parametrize("name", ["gpt1/lm", "gpt2/lm_cache_generate"])
def test_loss_and_gradient_norms(name):
    case, backbone = read_case(name), network(name)
    batch = features(case.inputs, **shifted(case.inputs))

    def mean():
        total, weight = CausalLM().score(backbone(batch), batch, backbone)[0]["causal_lm"]
        return total / weight

    loss, values = gradients_of(mean, {f"backbone.{n}": v for n, v in named_weights(backbone).items()})
    assert_close(loss, case.outputs["loss"])
    table = table_of(CASES[name])
    found = to_their_tensors(values, table.variables(table.hugging_face), table, backbone.config)
    assert_gradient_norms(found, case.outputs, atol=1e-5)


def test_padding_on_the_left_is_invisible():
    case, backbone = read_case("gpt2/lm_cache_generate"), network("gpt2/lm_cache_generate")
    real = case.inputs["left_padding_mask"].astype(bool)
    batch = {"token_ids": case.inputs["token_ids"], "padding_mask": real}
    states = backbone({**batch, "position_ids": case.inputs["left_position_ids"]})["sequence_output"]
    assert_close(
        CausalLM().logits(states, backbone), case.outputs["left_padded/lm_logits"], "left_padded/lm_logits", real
    )


def test_token_by_token_equals_the_whole_text():
    case, backbone = read_case("gpt2/lm_cache_generate"), network("gpt2/lm_cache_generate")
    token_ids = case.inputs["token_ids"]
    past, parts = backbone.start(3, 16), []
    for start, stop in ((0, 5), (5, 6), (6, 7), (7, 12)):
        states, past = backbone.decode(token_ids[:, start:stop], past, start)
        parts.append(states)
    logits = CausalLM().logits(ops.concatenate(parts, axis=1), backbone)
    assert_close(logits, case.outputs["incremental/lm_logits"])
    for layer, states in enumerate(past):
        keys, values = (each[:, :, :12] for each in states)
        assert_outputs({f"cache/key/{layer}": keys, f"cache/value/{layer}": values}, case.outputs)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("jit_compile", [None, True])
def test_greedy_continuation(jit_compile):
    case, backbone = read_case("gpt2/lm_cache_generate"), network("gpt2/lm_cache_generate")
    prompts = tf.constant(case.inputs["prompt_ids"])
    logits = functools.partial(CausalLM().logits, backbone=backbone)

    @tf.function(jit_compile=jit_compile)
    def continued(prompts, lengths):
        return generate(backbone.decode, logits, backbone.start(3, 13), prompts, lengths, 13)

    found, lengths = continued(prompts, tf.constant([5, 5, 5]))
    np.testing.assert_array_equal(found, case.outputs["greedy_ids"])
    assert lengths.numpy().tolist() == [13] * 3


@pytest.mark.parametrize("memory", [Copies(3, 13), Shared(3, 4 + 9 * 3, 4)], ids=["copies", "shared"])
def test_beam_continuation(memory):
    case, backbone = read_case("gpt2/lm_cache_generate"), network("gpt2/lm_cache_generate")
    assert backbone.shares_past
    prompts, lengths = np.pad(case.inputs["prompt_ids"], ((0, 0), (0, 8))), np.array([5, 5, 5])
    _, past = backbone.decode(prompts[:, :4], backbone.start(3, memory.slots), 0)

    def step(token_ids, position, state):
        states, state = memory.read(backbone.decode, ops.take(token_ids, position, axis=1), state, position)
        return CausalLM().logits(states, backbone), state

    penalty, prompts = mean_penalty(1.0), (prompts, lengths)
    found, scores = beam_search(step, past, None, 3, 12, -1, penalty, prompts=prompts, memory=memory)
    np.testing.assert_array_equal(np.array(found).reshape(9, 13), case.outputs["beam3_ids"])
    assert_close(np.array(scores).ravel(), case.outputs["beam3_scores"])


@pytest.mark.parametrize("name", CASES)
def test_hugging_face_folders_come_back_as_they_were(tmp_path, name):
    source = write_hugging_face(tmp_path / "theirs", name)
    convert.save(convert.load(source), str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    before, after = (load_file(tmp_path / part / "model.safetensors") for part in ("theirs", "back"))
    assert set(before) == set(after)
    for tensor, value in before.items():
        np.testing.assert_array_equal(value, after[tensor], err_msg=tensor)
    assert max(convert.verify(source, str(tmp_path / "ours")).values()) < 1e-5


def test_what_the_format_of_gpt_cannot_say_is_refused(tmp_path):
    config = gpt.GptConfig(11, hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=8, max_sequence_length=8)
    folder_path = tmp_path / "ours"
    folder_path.mkdir()
    folder.write_model(str(folder_path), gpt.Gpt(config).initialize())
    with pytest.raises(CheckpointError, match="cannot say `intermediate_dim` = 8"):
        convert.save(convert.load(str(folder_path)), f"hf:{tmp_path / 'theirs'}")


@pytest.mark.parametrize(
    ("module", "size", "vocabulary_size", "count"),
    [
        (gpt, "base", 40_478, 116_534_784),
        (gpt2, "base", 50_257, 124_439_808),
        (gpt2, "medium", 50_257, 354_823_168),
        (gpt2, "large", 50_257, 774_030_080),
        (gpt2, "xl", 50_257, 1_557_611_200),
    ],
)
def test_published_sizes_have_the_published_number_of_parameters(module, size, vocabulary_size, count):
    network_class = gpt.Gpt if module is gpt else gpt2.Gpt2
    numbers = module.SIZES[size]
    small = dict(numbers, num_layers=1, hidden_dim=numbers["num_heads"], intermediate_dim=4 * numbers["num_heads"])

    def expected(v, d, layers, positions):
        return v * d + positions * d + layers * (12 * d * d + 13 * d) + (2 * d if module is gpt2 else 0)

    # The formula holds for a network that is small enough to build here, and for the published size.
    built = network_class(network_class.config_class(99, **small)).initialize()
    positions = numbers["max_sequence_length"]
    assert built.count_params() == expected(99, small["hidden_dim"], 1, positions)
    assert expected(vocabulary_size, numbers["hidden_dim"], numbers["num_layers"], positions) == count
    if module is gpt:  # with the three tokens of fine-tuning
        assert expected(vocabulary_size + 3, 768, 12, positions) == 116_537_088


@pytest.mark.parametrize("module", [gpt, gpt2])
def test_the_future_is_invisible(module):
    network_class = gpt.Gpt if module is gpt else gpt2.Gpt2
    config = network_class.config_class(50, 16, 2, 2, 32, max_sequence_length=8, dropout=0.0, attention_dropout=0.0)
    backbone = network_class(config).initialize()
    inputs = tf.Variable(tf.random.normal((1, 8, 16), seed=1))
    visible = backbone.visible({"token_ids": np.zeros((1, 8)), "padding_mask": np.ones((1, 8), bool)})
    with tf.GradientTape() as tape:
        x = inputs
        for block in backbone.blocks:
            x = block(x, visible=visible)
        output = tf.reduce_sum(backbone.finish(x)[:, 3] * tf.random.normal((16,), seed=2))
    gradient = tape.gradient(output, inputs).numpy()[0]
    assert np.abs(gradient[4:]).max() == 0.0 and (np.abs(gradient[:4]).max(axis=1) > 0).all()


def test_first_loss_and_states_of_a_new_gpt():
    """Its last norm leaves states of mean 0 and variance 1, and its first loss is that of even odds."""
    keras.utils.set_random_seed(3)
    backbone = gpt.Gpt(gpt.GptConfig(40_478, 64, 2, 4, 256, max_sequence_length=32, dropout=0.0)).initialize()
    token_ids = np.random.default_rng(0).integers(40_478, size=(4, 33)).astype("int32")
    batch = {"token_ids": token_ids[:, :-1], "padding_mask": np.ones((4, 32), bool), "labels": token_ids[:, 1:]}
    outputs = backbone(batch)
    states = np.array(outputs["sequence_output"])
    np.testing.assert_allclose(states.mean(axis=-1), 0.0, atol=1e-5)
    np.testing.assert_allclose(states.var(axis=-1), 1.0, atol=1e-2)
    losses, _ = CausalLM().score(outputs, {**batch, "label_weights": np.ones((4, 32))}, backbone)
    assert float(losses["causal_lm"][0] / losses["causal_lm"][1]) == pytest.approx(10.61, abs=0.3)


def test_first_loss_and_residual_projections_of_a_new_network():
    keras.utils.set_random_seed(3)
    config = gpt2.Gpt2Config(5000, 64, 6, 4, 256, max_sequence_length=64)
    backbone = gpt2.Gpt2(config).initialize()
    for block in backbone.blocks:
        for kernel in (block.mixer.merge.kernel, block.feedforward.contract.kernel):
            assert np.std(np.array(kernel)) == pytest.approx(0.02 / math.sqrt(12), rel=0.1)
        assert np.std(np.array(block.mixer.query.kernel)) == pytest.approx(0.02, rel=0.1)
    assert np.std(np.array(backbone.embedding.position.embeddings)) == pytest.approx(0.01, rel=0.1)
    token_ids = np.random.default_rng(0).integers(5000, size=(4, 33)).astype("int32")
    batch = {"token_ids": token_ids[:, :-1], "padding_mask": np.ones((4, 32), bool), "labels": token_ids[:, 1:]}
    losses, _ = CausalLM().score(backbone(batch), {**batch, "label_weights": np.ones((4, 32))}, backbone)
    assert float(losses["causal_lm"][0] / losses["causal_lm"][1]) == pytest.approx(math.log(5000), abs=0.3)


def openai_tensors(weights) -> dict[str, np.ndarray]:
    """Tensors as OpenAI's code of GPT-2 keeps them (`src/model.py`): kernels have an axis of length 1 in front."""
    found = {}
    for name, value in weights.items():
        if not name.startswith("transformer.") or name.endswith((".attn.bias", ".masked_bias")):
            continue
        parts = name.removeprefix("transformer.").split(".")
        if parts[0] == "h":
            parts = [f"h{parts[1]}", *parts[2:]]
        if parts[0] in ("wte", "wpe"):
            parts = parts[:1]
        elif parts[-2].startswith("ln_"):
            parts[-1] = {"weight": "g", "bias": "b"}[parts[-1]]
        else:
            value = value[None] if parts[-1] == "weight" else value
            parts[-1] = parts[-1][0]
        found["/".join(["model", *parts])] = value
    return found


def test_a_checkpoint_of_openai_s_code_is_read_written_and_asked(tmp_path, capsys):
    case, there = read_case("gpt2/lm_cache_generate"), tmp_path / "117M"
    there.mkdir()
    tensors = openai_tensors(case.weights)
    assert tensors["model/h0/attn/c_attn/w"].ndim == 3 and tensors["model/wte"].ndim == 2
    written = tensors | {
        "model/h0/attn/c_attn/w/Adam": tensors["model/h0/attn/c_attn/w"],
        "beta1_power": np.float32(0.9),
    }
    tf.raw_ops.SaveV2(
        prefix=str(there / "model-1000"), tensor_names=list(written), shape_and_slices=[""] * len(written),
        tensors=[tf.constant(value) for value in written.values()],
    )  # fmt: skip
    n = case.numbers
    hparams = {
        "n_vocab": n["vocabulary_size"], "n_ctx": n["max_sequence_length"], "n_embd": n["hidden_dim"], "n_head": n["num_heads"],
        "n_layer": n["num_layers"],
    }  # fmt: skip
    (there / "hparams.json").write_text(json.dumps(hparams))
    merges = [("Ġ", letter) for letter in "abcdefghijklmnopqrstuv"] + [("t", "h")]
    pieces = ["<unk>", *map(chr, range(ord("!"), ord("~") + 1)), "Ġ", *map("".join, merges), "<|endoftext|>"]
    files = {
        "encoder.json": json.dumps({piece: i for i, piece in enumerate(pieces)}),
        "vocab.bpe": "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges),
    }
    for name, contents in files.items():
        (there / name).write_text(contents, encoding="utf-8")

    loaded = convert.load(f"tf1:{there}")
    backbone = network("gpt2/lm_cache_generate")
    assert loaded.config == dataclasses.replace(backbone.config, dropout=0.1, attention_dropout=0.1)
    for ours, value in folder.values_of("backbone", backbone).items():
        np.testing.assert_array_equal(loaded.values[ours], value)
    tokenizer = loaded.tokenizer.open()
    assert tokenizer.kind == "byte_bpe"
    assert [pieces[i] for i in tokenizer.encode("the sea").ids] == ["th", "e", "Ġs", "e", "a"]

    convert.save(loaded, str(tmp_path / "ours"))  # a vocabulary with no other end than <|endoftext|>
    assert invoke("generate", model_dir=tmp_path / "ours", prompt="the sea", max_new_tokens=2, seed=1) == 0
    assert capsys.readouterr().out.startswith("the sea")

    convert.save(loaded, f"tf1:{tmp_path / 'back'}")
    reader = tf.train.load_checkpoint(str(tmp_path / "back/model.ckpt"))
    assert set(reader.get_variable_to_shape_map()) == set(tensors)
    for theirs, value in tensors.items():
        np.testing.assert_array_equal(reader.get_tensor(theirs), value)
    assert json.loads((tmp_path / "back/hparams.json").read_text()) == hparams
    for name, contents in files.items():
        assert (tmp_path / "back" / name).read_text(encoding="utf-8").replace(", ", ",") == contents.replace(", ", ",")
    assert convert.load(f"tf1:{tmp_path / 'back'}").tokenizer == loaded.tokenizer

    with pytest.raises(CheckpointError, match="hparams.json: this format cannot say `intermediate_dim` = 64; it means"):
        other = dataclasses.replace(loaded, config=dataclasses.replace(loaded.config, intermediate_dim=64))
        convert.save(other, f"tf1:{tmp_path / 'other'}")

    (there / "hparams.json").write_text(json.dumps(hparams | {"n_embd": "wide"}))
    with pytest.raises(CheckpointError, match="hparams.json: `n_embd` must be"):
        convert.load(f"tf1:{there}")
    (there / "hparams.json").write_text(json.dumps(hparams))
    (there / "vocab.bpe").unlink()
    with pytest.raises(CheckpointError, match="vocab.bpe: missing. The vocabulary is encoder.json and vocab.bpe."):
        convert.load(f"tf1:{there}")
