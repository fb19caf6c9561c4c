"""RoBERTa computes what Hugging Face's does, wherever padding stands, and travels both ways."""

import argparse
import dataclasses
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file, save_file

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.ops.cloze import ordinary_ids
from data_pipelines.text.frames import ROBERTA
from data_pipelines.text.framing import pack
from data_pipelines.text.vocabulary import MASK
from tests.helpers.parity import assert_close, read_case
from tests.ops.test_corruption import VOCABULARY, hidden_of, seeds_of
from xmodels.conversion import convert, fairseq
from xmodels.conversion.tables.roberta import HUGGING_FACE
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.interfaces.reading import ROBERTA_READING
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.roberta import SIZES, Roberta, RobertaConfig, real_positions
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.systems import roberta
from xmodels.tasks.classify.task import Classify
from xmodels.training.recipe import Records

CASE = read_case("roberta/mlm")
SMALL = RobertaConfig(120, 32, 2, 4, 64, max_sequence_length=22)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The weights of the case as Hugging Face writes them."""
    path = tmp_path_factory.mktemp("theirs")
    numbers = CASE.numbers
    copies = {copy: CASE.weights[original] for copy, original in HUGGING_FACE.tied.items()}
    save_file(CASE.weights | copies, path / "model.safetensors")
    settings = {
        "model_type": "roberta", "vocab_size": numbers["vocabulary_size"], "hidden_size": numbers["hidden_dim"],
        "num_hidden_layers": numbers["num_layers"], "num_attention_heads": numbers["num_heads"],
        "intermediate_size": numbers["intermediate_dim"], "max_position_embeddings": numbers["position_table_rows"],
        "type_vocab_size": 1, "pad_token_id": 1, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(settings))
    return path


@pytest.fixture(scope="module")
def loaded(theirs):
    return convert.load(f"hf:{theirs}")


@pytest.fixture(scope="module")
def network(loaded):
    backbone = Roberta(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, "the case")
    return backbone


FEATURES = {"token_ids": CASE.inputs["token_ids"], "padding_mask": CASE.inputs["padding_mask"].astype(bool)}
REAL = FEATURES["padding_mask"]


def test_positions_count_real_tokens(network):
    assert np.array_equal(real_positions(FEATURES["padding_mask"], 2), CASE.outputs["position_ids"])
    assert network.config.max_sequence_length == 22 and network.config.num_positions == 24


def test_states_and_attention_are_those_of_the_original(network):
    for index, states in enumerate(network.hidden_states(FEATURES)):
        assert_close(states, CASE.outputs[f"hidden_states/{index}"], f"state {index}", REAL)
    for index, maps in enumerate(network.attention_maps(FEATURES)):
        expected = CASE.outputs[f"attention_probs/{index}"]
        where = np.broadcast_to(REAL[:, None, :, None], expected.shape)
        assert_close(maps, expected, f"attention {index}", where)


def test_the_head_gives_the_logits_and_the_loss_of_the_original(network, loaded):
    objective = MaskedLM(loaded.config)
    labels = CASE.inputs["mlm_labels"]
    hidden = labels >= 0
    most = hidden.sum(axis=1).max()
    order = np.argsort(~hidden, axis=1, kind="stable")[:, :most]
    weights = np.take_along_axis(hidden, order, 1).astype("float32")
    batch = {
        **FEATURES, "mask_positions": order.astype("int32"), "label_weights": weights,
        "labels": np.where(weights > 0, np.take_along_axis(labels, order, 1), 0).astype("int32"),
    }  # fmt: skip
    outputs = network(FEATURES)
    objective.logits(outputs, batch, network)  # creates the weights
    folder.assign(objective.prefix, objective, loaded.values, "the case")
    expected = np.take_along_axis(CASE.outputs["mlm_logits"], order[..., None], 1)
    assert_close(objective.logits(outputs, batch, network), expected, "logits", weights > 0)
    total, weight = objective.score(outputs, batch, network)[0]["masked_lm"]
    assert_close(total / weight, CASE.outputs["loss"], "loss")


def test_more_padding_on_either_side_changes_nothing(network):
    token_ids = CASE.inputs["token_ids"][:1, :6]
    alone = network({"token_ids": token_ids, "padding_mask": np.ones((1, 6), bool)})["sequence_output"]
    for left, right in ((0, 5), (4, 0), (3, 7)):
        padded = np.pad(token_ids, ((0, 0), (left, right)), constant_values=1)
        mask = np.pad(np.ones((1, 6), bool), ((0, 0), (left, right)))
        found = network({"token_ids": padded, "padding_mask": mask})["sequence_output"]
        assert_close(
            found[:, left : left + 6], alone, f"{left} on the left, {right} on the right", atol=1e-5, rtol=1e-5
        )


def test_rows_of_several_examples_give_each_what_it_gets_alone(network):
    ids = CASE.inputs["token_ids"][0]
    row = {
        "token_ids": ids[None, :11], "padding_mask": np.arange(11)[None] < 10,
        "pack_ids": np.array([[1] * 4 + [2] * 6 + [0]], "int32"), "position_ids": np.array([[*range(4), *range(6), 0]], "int32"),
    }  # fmt: skip
    packed = network(row)["sequence_output"]
    for begin, end in ((0, 4), (4, 10)):
        alone = {"token_ids": ids[None, begin:end], "padding_mask": np.ones((1, end - begin), bool)}
        assert_close(packed[:, begin:end], network(alone)["sequence_output"], "packed", atol=1e-5, rtol=1e-5)


def test_a_row_that_is_too_long_is_refused(network):
    with pytest.raises(ValueError, match="length=23, max_sequence_length=22"):
        network({"token_ids": ops.zeros((1, 23), "int32"), "padding_mask": ops.ones((1, 23), "bool")})


def test_what_is_written_is_what_was_read(theirs, loaded, tmp_path):
    convert.save(loaded, str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'back'}")
    there, back = (load_file(path / "model.safetensors") for path in (theirs, tmp_path / "back"))
    assert set(there) - set(HUGGING_FACE.tied) == set(back)
    assert all(np.array_equal(there[name], value) for name, value in back.items())
    stored, written = (json.loads((path / "config.json").read_text()) for path in (theirs, tmp_path / "back"))
    assert {key: written[key] for key in stored} == stored and written["architectures"] == ["RobertaForMaskedLM"]


def fairseq_names(weights):
    """The weights of the case by fairseq's names, with query, key and value fused as in the oldest files."""
    found = {}
    for ours, theirs in fairseq.FORM.names.items():
        for index in range(CASE.numbers["num_layers"] if "{block}" in ours else 1):
            found[f"decoder.sentence_encoder.{theirs}".format(block=index)] = weights[
                HUGGING_FACE.names[ours].format(block=index)
            ]
    found = {name.replace("sentence_encoder.lm_head", "lm_head"): tensor for name, tensor in found.items()}
    for kind in ("weight", "bias"):
        for index in range(CASE.numbers["num_layers"]):
            attention = f"decoder.sentence_encoder.layers.{index}.self_attn."
            parts = [found.pop(f"{attention}{part}_proj.{kind}") for part in "qkv"]
            found[f"{attention}in_proj_{kind}"] = np.concatenate(parts)
    tokens = weights["roberta.embeddings.word_embeddings.weight"]
    return {**found, "decoder.lm_head.weight": tokens, "decoder.classification_heads.mnli.dense.weight": tokens[:32]}


ARGUMENTS = {
    "encoder_embed_dim": 32, "encoder_layers": 3, "encoder_attention_heads": 4, "encoder_ffn_embed_dim": 64,
    "max_positions": 22, "activation_fn": "gelu", "dropout": 0.1, "attention_dropout": 0.1, "arch": "roberta_base",
}  # fmt: skip


def test_fairseq_is_read_with_its_dictionary(loaded, tmp_path):
    pieces = [
        chr(ord("!") + index) for index in range(94)
    ]  # of GPT-2's encoder, in another order than the dictionary's
    (tmp_path / "encoder.json").write_text(json.dumps({piece: index for index, piece in enumerate(pieces)}))
    fillers = [f"madeupword{index:04}" for index in range(120 - 94 - 5)]
    entries = [*map(str, reversed(range(94))), *fillers]
    (tmp_path / "dict.txt").write_text("".join(f"{entry} 7\n" for entry in entries))
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\n")
    found = fairseq.to_checkpoint(fairseq_names(CASE.weights), ARGUMENTS, str(tmp_path), "model.pt")
    assert found.config == dataclasses.replace(loaded.config, num_segments=1)
    segments = "backbone.embedding.segment.embeddings"
    assert set(found.values) == set(loaded.values) and not found.values[segments].any()
    assert all(np.array_equal(found.values[n], value) for n, value in loaded.values.items() if n != segments)
    assert "classification_heads.mnli" in found.warnings[-1]
    tokens = found.tokenizer.open().vocabulary.tokens
    assert tokens[:5] == ["<s>", "<pad>", "</s>", "<unk>", "~"] and tokens[97] == "!" and tokens[-1] == "<mask>"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder_layers": None}, "model.pt, `args`: missing keys: encoder_layers"),
        ({"activation_fn": "relu"}, "`activation_fn` = 'relu'"),
        ({"encoder_attention_heads": 5}, "heads"),
        ({"encoder_layers": 4}, r"missing .16.: layers.3.fc1"),
    ],
)
def test_a_fairseq_file_that_does_not_fit_is_named(change, message):
    arguments = {name: value for name, value in {**ARGUMENTS, **change}.items() if value is not None}
    with pytest.raises(CheckpointError, match=message):
        fairseq.to_checkpoint(fairseq_names(CASE.weights), arguments, "absent", "model.pt")


def test_a_pickle_of_fairseq_is_not_read_unasked(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match="without `--allow_pickle`"):
        convert.load(f"fairseq:{tmp_path}")
    with pytest.raises(UsageError, match="is read, not written"):
        convert.save(None, f"fairseq:{tmp_path}")


@pytest.mark.extra("torch")
def test_a_pickle_of_fairseq_is_read_where_it_is_allowed(loaded, tmp_path):
    import torch

    model = {name: torch.from_numpy(tensor).half() for name, tensor in fairseq_names(CASE.weights).items()}
    torch.save({"args": argparse.Namespace(**ARGUMENTS), "model": model}, tmp_path / "model.pt")
    found = convert.load(f"fairseq:{tmp_path}", allow_pickle=True)
    name = "backbone.blocks.2.mixer.key.kernel"
    assert np.allclose(found.values[name], loaded.values[name], atol=1e-3)
    torch.save({"args": argparse.Namespace(**ARGUMENTS), "model": model, "more": Fails()}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="not a readable PyTorch file of weights"):
        convert.load(f"fairseq:{tmp_path}", allow_pickle=True)


class Fails:
    def __reduce__(self):
        return pytest.fail, ("the pickle ran its code",)


TOKENIZERS = pathlib.Path(__file__).parents[1] / "golden/tokenizers"


@pytest.mark.extra("torch", "transformers")
@pytest.mark.parametrize("head", ["masked_lm", "classify"])
def test_transformers_computes_the_same_from_what_we_write(head, tmp_path, monkeypatch):
    import torch
    import transformers

    names = ("vocab.json", "byte_bpe_vocab.json"), ("merges.txt", "byte_bpe_merges.txt")
    files = {ours: (TOKENIZERS / golden).read_bytes() for ours, golden in names}
    tokenizer = TokenizerFiles(files, {"tokenizer": "byte_bpe", "do_lower_case": False, "add_prefix_space": False})
    config = dataclasses.replace(SMALL, vocabulary_size=len(tokenizer.open().vocabulary))
    keras.utils.set_random_seed(3)
    backbone = Roberta(config).initialize()
    objective = Classify(config, "abc", ROBERTA_READING) if head == "classify" else MaskedLM(config)
    batch = {**FEATURES, "mask_positions": np.zeros((3, 1), "int32"), "example_weights": np.ones(3)}
    outputs = backbone(FEATURES)
    objective.answer(outputs, batch) if head == "classify" else objective.logits(outputs, batch, backbone)
    values = folder.values_of("backbone", backbone) | folder.values_of(objective.prefix, objective)
    generator = np.random.default_rng(0)
    values = {name: generator.normal(0, 0.2, value.shape).astype("float32") for name, value in values.items()}
    checkpoint = Checkpoint("roberta", config, values, tokenizer, frozenset({head}))
    convert.save(checkpoint, f"hf:{tmp_path}/theirs")

    architecture = json.loads((tmp_path / "theirs/config.json").read_text())["architectures"][0]
    network, report = getattr(transformers, architecture).from_pretrained(
        str(tmp_path / "theirs"), output_loading_info=True
    )
    assert not any(report.values())
    # Hugging Face tells padding, for positions, by its id.
    places = np.tile(np.arange(13, dtype="int32"), (3, 1))
    example = {**FEATURES, "mask_positions": places, "token_ids": FEATURES["token_ids"]}
    monkeypatch.setattr(convert, "example_batch", lambda config: example)
    with torch.no_grad():
        found = network(torch.from_numpy(example["token_ids"]), torch.from_numpy(example["padding_mask"]))
    expected = convert.outputs(checkpoint)[f"{head}_logits"]
    logits = found.logits.numpy()
    if head == "masked_lm":
        logits = np.take_along_axis(logits, example["mask_positions"][..., None], 1)
    assert_close(logits, expected, "logits", example["padding_mask"] if head == "masked_lm" else None)

    theirs, ours = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "theirs")), tokenizer.open()
    lines = [json.loads(line) for line in (TOKENIZERS / "roberta_slow.jsonl").read_text().splitlines()]
    texts = [line["text"] for line in lines if line.get("text") and "<" not in line["text"]][:40]
    assert len(texts) > 10
    for text in texts:
        first, second = ours.encode(text).ids, ours.encode(texts[0]).ids
        assert theirs(text)["input_ids"] == pack(first, None, ours.vocabulary, 512, ROBERTA)[0]
        assert theirs(text, texts[0])["input_ids"] == pack(first, second, ours.vocabulary, 512, ROBERTA)[0]
    masked = theirs("a <mask> b", add_special_tokens=False)["input_ids"]
    assert masked.count(ours.vocabulary[MASK]) == 1 and len(masked) == 1 + len(
        ours.encode("a").ids + ours.encode(" b").ids
    )


def num_weights(config):
    width, inner = config.hidden_dim, config.intermediate_dim
    block = 4 * width * (width + 1) + 2 * width * inner + inner + width + 4 * width
    return (config.vocabulary_size + config.num_positions + config.num_segments + 2) * width + config.num_layers * block


def test_sizes_have_the_published_numbers_of_parameters(network):
    assert network.count_params() == num_weights(network.config)
    for size, published in (("base", 124_055_040), ("large", 354_310_144)):
        assert num_weights(RobertaConfig(50_265, **SIZES[size])) == published


def test_random_tokens_are_no_special_ones_and_the_numbers_are_fairseqs():
    recipe, ordinary = roberta.recipe(VOCABULARY, Records(16, 16, masking_rate=0.5)), ordinary_ids(VOCABULARY)
    rows = 3000
    batch = {
        "token_ids": tf.fill((rows, 16), int(ordinary[0])), "padding_mask": tf.fill((rows, 16), True),
        "maskable": tf.fill((rows, 16), True), "seed": seeds_of(range(rows)),
    }  # fmt: skip
    ids = recipe.objective().transform()(batch)["token_ids"].numpy()
    shares = np.bincount(ids.ravel(), minlength=len(VOCABULARY)) / ids.size
    assert set(np.flatnonzero(shares)) <= {*ordinary, VOCABULARY[MASK]}
    np.testing.assert_allclose(shares[VOCABULARY[MASK]], 0.5 * 0.8, atol=0.005)
    np.testing.assert_allclose(shares[ordinary[1:]].sum(), 0.5 * 0.1, atol=0.005)
    assert (recipe.schedule, recipe.clip_norm) == ("linear", 0.0)
    numbers = roberta.READING.numbers
    assert (numbers["lr_schedule"], numbers["clip_norm"], numbers["adam_beta2"]) == ("linear", 0.0, 0.98)


def masked_rows(options=None, rows=20_000, length=48):
    """(n, hidden, masked): tokens in each row with `<s>` and `</s>`, where tokens are hidden, and the batch."""
    counts = np.random.default_rng(1).integers(3, length + 1, rows)
    place = np.arange(length)
    real = place < counts[:, None]
    inside = (place > 0) & (place < counts[:, None] - 1)
    first, last = VOCABULARY["[CLS]"], VOCABULARY["[SEP]"]
    ids = np.where(inside, 7, np.where(place > 0, last, first)) * real
    batch = {
        "token_ids": tf.constant(ids, tf.int32), "padding_mask": tf.constant(real), "maskable": tf.constant(inside),
        "seed": seeds_of(range(rows)),
    }  # fmt: skip
    recipe = roberta.recipe(VOCABULARY, Records(length, 10), options=options)
    masked = {name: value.numpy() for name, value in recipe.objective().transform()(batch).items()}
    return counts, hidden_of(masked, (rows, length)), masked


@pytest.mark.parametrize(("options", "num_special"), [(None, 2), (roberta.Options(mask_specials=True), 0)])
def test_the_share_of_hidden_tokens_is_fifteen_percent_at_every_length(options, num_special):
    counts, hidden, masked = masked_rows(options)
    counts = counts - num_special
    found = hidden.sum(1)
    wanted = 0.15 * counts
    assert np.all((found == np.floor(wanted)) | (found == np.floor(wanted) + 1))
    assert found.sum() / counts.sum() == pytest.approx(0.15, abs=1e-3)
    short = counts < 10
    assert found[short].sum() / counts[short].sum() == pytest.approx(0.15, abs=5e-3) and (found[short] == 0).any()
    np.testing.assert_array_equal(masked_rows(options)[2]["token_ids"], masked["token_ids"])


def test_special_tokens_are_hidden_only_where_that_is_asked():
    counts, hidden, _ = masked_rows()
    rows = np.arange(len(counts))
    assert not hidden[:, 0].any() and not hidden[rows, counts - 1].any()
    _, hidden, masked = masked_rows(roberta.Options(mask_specials=True))
    for place in (0, counts - 1):
        assert hidden[rows, place].mean() == pytest.approx(0.15, abs=0.01)
    assert {VOCABULARY["[CLS]"], VOCABULARY["[SEP]"], 7} == set(masked["labels"][masked["label_weights"] > 0])


def beyond_two_deviations(network):
    """The share of each table's and kernel's numbers that a normal distribution cut at two deviations would not give."""
    found = {
        w.path: np.abs(np.array(w)) > 2 * 0.02 for w in network.weights if w.path.endswith(("kernel", "embeddings"))
    }
    return {name: each.mean() for name, each in found.items() if each.size > 2000}


def test_weights_begin_with_a_normal_distribution_that_is_not_cut():
    keras.utils.set_random_seed(1)
    numbers = {"vocabulary_size": 200, "hidden_dim": 64, "num_layers": 1, "num_heads": 4, "intermediate_dim": 128}
    config = RobertaConfig(**numbers, max_sequence_length=62)
    recipe = roberta.recipe(VOCABULARY, Records(62, 10), config=config)
    network, objective = recipe.backbone().initialize(), recipe.objective()
    states = {"sequence_output": ops.zeros((1, 2, 64))}
    (head,) = (part for part in objective._flatten_layers() if isinstance(part, MaskedLM))
    head.logits(states, {"mask_positions": ops.zeros((1, 1), "int32")}, network)  # creates the weights
    shares = beyond_two_deviations(network) | beyond_two_deviations(head)
    assert len(shares) == 9 and all(0.03 < share < 0.06 for share in shares.values()), shares
    bert = beyond_two_deviations(Bert(BertConfig(**numbers, max_sequence_length=62)).initialize())
    assert len(bert) == 9 and not any(bert.values())
