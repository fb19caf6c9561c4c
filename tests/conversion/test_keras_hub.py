"""Presets of KerasHub compute what our networks compute, in both directions, and cut texts alike."""

import dataclasses
import io
import json
import os
import pathlib
import unicodedata

import h5py
import keras_hub
import numpy as np
import pytest
import sentencepiece
from keras_hub.src.utils.keras_utils import gelu_approximate

from data_pipelines.errors import CheckpointError
from data_pipelines.text.kinds import open_tokenizer
from xmodels.conversion import convert
from xmodels.models import folder
from xmodels.objectives.causal_lm import CausalLM

NUMBERS = {
    "vocabulary_size": 40,
    "num_layers": 3,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "max_sequence_length": 12,
}
HALF = {"embedding_dim": 6, "num_groups": 3, "num_inner_repetitions": 2, "num_layers": 6}
T5 = {name: value for name, value in NUMBERS.items() if name != "max_sequence_length"} | {"key_value_dim": 5}
MODELS = keras_hub.models
MAKE = {
    "bert": lambda: MODELS.BertBackbone(**NUMBERS),
    "albert": lambda: MODELS.AlbertBackbone(**{**NUMBERS, **HALF}),
    "roberta": lambda: MODELS.RobertaBackbone(**NUMBERS),
    "gpt2": lambda: MODELS.GPT2Backbone(**NUMBERS),
    "bart": lambda: MODELS.BartBackbone(**NUMBERS),
    "t5": lambda: MODELS.T5Backbone(**T5, use_gated_activation=False),
    "t5_v1_1": lambda: MODELS.T5Backbone(**T5, activation=gelu_approximate, tie_embedding_weights=False),
}
PAIRS = ("bart", "t5", "t5_v1_1")  # an encoder and a decoder
CLASSIFIERS = {
    "bert": MODELS.BertTextClassifier,
    "albert": MODELS.AlbertTextClassifier,
    "roberta": MODELS.RobertaTextClassifier,
}


def shaken(model):
    """The model with weights that are all different, and no zeros."""
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if np.issubdtype(np.dtype(weight.dtype), np.floating):
            weight.assign(rng.normal(0.2, 0.4, weight.shape))
    return model


def batch():
    ids = np.random.default_rng(1).integers(2, 40, (2, 9)).astype("int32")
    real = np.arange(9) < np.array([[9], [6]])
    return {
        "token_ids": np.where(real, ids, 1).astype("int32"), "padding_mask": real, "target_ids": ids[:, ::-1].copy(),
        "segment_ids": (np.arange(9) > 4).astype("int32") * real,
    }  # fmt: skip


def theirs(model, name):
    """What a network of KerasHub makes of the batch."""
    b, mask = batch(), batch()["padding_mask"].astype("int32")
    features = {"token_ids": b["token_ids"], "padding_mask": mask, "segment_ids": b["segment_ids"]}
    if name in PAIRS:
        features = {
            "encoder_token_ids": b["token_ids"], "encoder_padding_mask": mask, "decoder_token_ids": b["target_ids"],
            "decoder_padding_mask": np.ones_like(mask),
        }  # fmt: skip
    if name in ("roberta", "gpt2"):
        del features["segment_ids"]
    return model(features)


def states(outputs, name):
    """The last states of real tokens."""
    if isinstance(outputs, dict):
        outputs = outputs.get("decoder_sequence_output", outputs.get("sequence_output"))
    return np.array(outputs)[batch()["padding_mask"] if name not in PAIRS else slice(None)]


def ours(path, name):
    loaded = convert.load(path)
    network = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", network, loaded.values, loaded.model)
    reads = {k: v for k, v in batch().items() if k in network.reads or k in network.may_read}
    return network(reads), loaded


def seldom(names):
    """Names as parameters, of which those that are like another one are long."""
    return [pytest.param(name, marks=pytest.mark.long) if name == "t5_v1_1" else name for name in names]


@pytest.fixture(scope="module", params=seldom(MAKE))
def preset(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("presets") / request.param
    network = shaken(MAKE[request.param]())
    network.save_to_preset(str(path))
    return request.param, str(path), network


@pytest.mark.one_in(3)
def test_a_preset_computes_here_what_it_computes_there(preset):
    name, path, network = preset
    found, loaded = ours(f"keras_hub:{path}", name)
    model = name.partition("_v")[0]
    assert loaded.model == model and convert.model_of(f"keras_hub:{path}") == model
    np.testing.assert_allclose(states(found, name), states(theirs(network, name), name), rtol=2e-3, atol=2e-4)


@pytest.mark.one_in(3)
def test_what_we_write_is_read_there_and_comes_back(preset, tmp_path):
    name, path, network = preset
    loaded = convert.load(f"keras_hub:{path}")
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = keras_hub.models.Backbone.from_preset(str(tmp_path / "back"))
    np.testing.assert_allclose(
        states(theirs(again, name), name), states(theirs(network, name), name), rtol=1e-5, atol=1e-5
    )
    assert max(convert.verify(f"keras_hub:{path}", f"keras_hub:{tmp_path}/back").values()) < 1e-5


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_keeps_its_head_in_both_directions(name, tmp_path):
    model = shaken(CLASSIFIERS[name](backbone=MAKE[name](), num_classes=3))
    model.save_to_preset(str(tmp_path / "there"))
    logits = np.array(theirs(model, name))
    loaded = convert.load(f"keras_hub:{tmp_path}/there")
    assert (
        "classify" in loaded.heads and convert.tensors.num_classes(loaded.values, convert.formats.table_of(name)) == 3
    )
    table = convert.formats.table_of(name)
    head = next(head for head in table.heads if head.label == "classify")
    network = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", network, loaded.values, loaded.model)
    reads = {k: v for k, v in batch().items() if k in network.reads or k in network.may_read}
    found = convert._logits(head, network(reads), reads, network, loaded)
    np.testing.assert_allclose(np.array(found), logits, rtol=2e-3, atol=2e-4)
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = keras_hub.models.TextClassifier.from_preset(str(tmp_path / "back"), preprocessor=None)
    np.testing.assert_allclose(np.array(theirs(again, name)), logits, rtol=1e-5, atol=1e-5)


WRITERS = {
    "gpt2": MODELS.GPT2CausalLM, "bart": MODELS.BartSeq2SeqLM, "t5": MODELS.T5Seq2SeqLM, "t5_v1_1": MODELS.T5Seq2SeqLM,
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("preset", seldom(WRITERS), indirect=True)
def test_a_network_that_writes_has_the_logits_that_it_has_there(preset, tmp_path):
    """T5 1.0 scales states before the table of tokens, 1.1 has an output matrix of its own."""
    name, path, network = preset
    found, loaded = ours(f"keras_hub:{path}", name)
    backbone = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", backbone, loaded.values, loaded.model)
    logits = CausalLM().logits if name == "gpt2" else lambda states, network: network.logits(states)
    expected = states(theirs(WRITERS[name](backbone=network), name), name)
    mine = states(logits(found["sequence_output"], backbone), name)
    np.testing.assert_allclose(mine, expected, rtol=2e-3, atol=1e-3)
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = WRITERS[name].from_preset(str(tmp_path / "back"), preprocessor=None)
    np.testing.assert_allclose(states(theirs(again, name), name), expected, rtol=1e-5, atol=1e-5)


def test_a_masked_language_model_of_roberta_keeps_its_head_in_both_directions(tmp_path):
    model = shaken(MODELS.RobertaMaskedLM(backbone=MAKE["roberta"]()))
    model.save_to_preset(str(tmp_path / "there"))
    positions = np.array([[0, 3, 8], [1, 2, 5]], "int32")
    asked = batch() | {"mask_positions": positions}

    def answer(network):
        features = {name: asked[name] for name in ("token_ids", "mask_positions")}
        return np.array(network(features | {"padding_mask": asked["padding_mask"].astype("int32")}))

    loaded = convert.load(f"keras_hub:{tmp_path}/there")
    assert loaded.heads == {"masked_lm"}
    head = next(head for head in convert.formats.table_of("roberta").heads if head.label == "masked_lm")
    network = folder.model_class(loaded.model)(loaded.config).initialize()
    folder.assign("backbone", network, loaded.values, loaded.model)
    reads = {k: v for k, v in asked.items() if k in network.reads}
    found = convert._logits(head, network(reads), asked, network, loaded)
    np.testing.assert_allclose(np.array(found), answer(model), rtol=2e-3, atol=5e-4)
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = MODELS.MaskedLM.from_preset(str(tmp_path / "back"), preprocessor=None)
    np.testing.assert_allclose(answer(again), answer(model), rtol=1e-5, atol=1e-5)


TEXTS = ["the cat's hat", "unheard of", "a 你好 b"]


def test_word_pieces_go_both_ways(tmp_path):
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "the",
        "cat",
        "'",
        "s",
        "hat",
        "un",
        "##heard",
        "of",
        "a",
        "你",
        "好",
        "b",
    ]
    (tmp_path / "v.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    their = MODELS.BertTokenizer(vocabulary=str(tmp_path / "v.txt"), lowercase=True)
    MODELS.BertBackbone(**{**NUMBERS, "vocabulary_size": len(tokens)}).save_to_preset(str(tmp_path / "there"))
    their.save_to_preset(str(tmp_path / "there"))
    loaded = convert.load(f"keras_hub:{tmp_path}/there")
    assert [loaded.tokenizer.open().encode(text).ids for text in TEXTS] == [their(text).tolist() for text in TEXTS]
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = MODELS.BertTokenizer.from_preset(str(tmp_path / "back"))
    assert [again(text).tolist() for text in TEXTS] == [their(text).tolist() for text in TEXTS]


def test_what_its_word_pieces_do_otherwise(tmp_path):
    """As docs/keras_hub.md says."""
    (tmp_path / "v.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "café", "a", "b", "ab"]), "utf-8"
    )
    their = MODELS.BertTokenizer(vocabulary=str(tmp_path / "v.txt"), lowercase=True)
    our = open_tokenizer(str(tmp_path / "v.txt"), "wordpiece", True)
    for text, theirs_, ours_ in (("Café", [6], [5]), ("a\u00adb", [7, 8], [9]), ("ａ", [7], [1])):
        assert (their(text).tolist(), our.encode(text).ids) == (theirs_, ours_)


def is_read_otherwise(text, lowercase):
    """Whether a text holds what docs/keras_hub.md names: accents, folded characters, odd blanks, invisible ones, long words."""
    parts = unicodedata.normalize("NFD", text)  # Hangul has some too
    accents = parts != text or any(unicodedata.combining(c) for c in parts)
    folded = accents or unicodedata.normalize("NFKC", text).casefold() != text.lower()
    odd = any(unicodedata.category(c)[0] in "CZ" and c not in " \t\n\r" or c == "\ufffd" for c in text)
    return (lowercase and folded) or odd or any(len(word) > 100 for word in text.split())


@pytest.mark.parametrize("kind, lowercase", [("uncased", True), ("cased", False)])
def test_all_other_golden_strings_are_cut_alike(kind, lowercase):
    folder_ = pathlib.Path(__file__).parents[1] / "golden" / "tokenizers"
    path = str(folder_ / f"wordpiece_{kind}_vocab.txt")
    their, our = (
        MODELS.BertTokenizer(vocabulary=path, lowercase=lowercase),
        open_tokenizer(path, "wordpiece", lowercase),
    )
    lines = (folder_ / f"bert_fast_{kind}.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [text for text in (json.loads(line)["text"] for line in lines) if "[MASK]" not in text]
    alike = [text for text in texts if not is_read_otherwise(text, lowercase)]
    assert len(alike) > 80
    assert [list(map(int, their(text))) for text in alike] == [our.encode(text).ids for text in alike]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["roberta", "gpt2", "bart"])
def test_byte_bpe_goes_both_ways(name, tmp_path):
    made = {"roberta": MODELS.RobertaTokenizer, "gpt2": MODELS.GPT2Tokenizer, "bart": MODELS.BartTokenizer}[name]
    bytes_ = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if name != "gpt2" else ["<|endoftext|>"]
    merges = ["t h", "th e", "Ġ a", "c a", "ca t"]
    vocabulary = {token: i for i, token in enumerate([*special, *bytes_, *(m.replace(" ", "") for m in merges)])}
    their = made(vocabulary=vocabulary, merges=merges)
    type(MAKE[name]())(**{**NUMBERS, "vocabulary_size": len(vocabulary)}).save_to_preset(str(tmp_path / "there"))
    their.save_to_preset(str(tmp_path / "there"))
    loaded = convert.load(f"keras_hub:{tmp_path}/there")
    assert [loaded.tokenizer.open().encode(text).ids for text in TEXTS] == [their(text).tolist() for text in TEXTS]
    convert.save(loaded, f"keras_hub:{tmp_path}/back")
    again = made.from_preset(str(tmp_path / "back"))
    assert [again(text).tolist() for text in TEXTS] == [their(text).tolist() for text in TEXTS]


@pytest.mark.long
def test_sentence_pieces_of_t5_go_both_ways(tmp_path):
    """KerasHub's tokenizer has no sentinels; where the table has rows for them, they are tokens here."""
    model, text = io.BytesIO(), ["the cat sat on the hat", "unheard of hats and cats", "a hat a cat"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=40, hard_vocab_limit=False, minloglevel=2,
        bos_id=-1, pad_id=0, eos_id=1, unk_id=2, pad_piece="<pad>", eos_piece="</s>", unk_piece="<unk>",
    )  # fmt: skip
    their = MODELS.T5Tokenizer(proto=model.getvalue())
    count = their.vocabulary_size()
    for rows, sentinels in ((count + 128, 100), (count, 0)):
        there, back = (str(tmp_path / f"{name}_{rows}") for name in ("there", "back"))
        MODELS.T5Backbone(**T5 | {"vocabulary_size": rows}).save_to_preset(there)
        their.save_to_preset(there)
        loaded = convert.load(f"keras_hub:{there}")
        tokenizer = loaded.tokenizer.open()
        assert [tokenizer.encode(each).ids for each in text] == [their(each).tolist() for each in text]
        assert len(tokenizer.vocabulary) == count + sentinels
        assert ("<extra_id_0>" in tokenizer.vocabulary) == bool(sentinels)
        convert.save(loaded, f"keras_hub:{back}")
        again = MODELS.T5Tokenizer.from_preset(back)
        assert [again(each).tolist() for each in text[:3]] == [their(each).tolist() for each in text[:3]]
    deeper = dataclasses.replace(loaded.config, num_decoder_layers=5)
    with pytest.raises(CheckpointError, match="cannot say `num_decoder_layers` = 5"):
        convert.save(dataclasses.replace(loaded, config=deeper), f"keras_hub:{tmp_path}/deeper")


def change(path, edit):
    with open(path) as file:
        value = json.load(file)
    edit(value)
    with open(path, "w") as file:
        json.dump(value, file)


def test_what_cannot_be_read_is_named(tmp_path):
    path = str(tmp_path / "preset")
    MAKE["bert"]().save_to_preset(path)
    change(f"{path}/config.json", lambda value: value.update(class_name="Evil", registered_name="os>system"))
    with pytest.raises(CheckpointError, match="config.json: a network of the class 'Evil'. Known: .*BertBackbone"):
        convert.load(f"keras_hub:{path}")
    change(f"{path}/config.json", lambda value: value.update(class_name="BertBackbone"))
    change(f"{path}/config.json", lambda value: value["config"].update(num_layers=4))
    with pytest.raises(CheckpointError, match="transformer_encoder_3"):
        convert.load(f"keras_hub:{path}")
    change(f"{path}/config.json", lambda value: value["config"].update(num_layers=10**9))
    with pytest.raises(CheckpointError, match="`num_layers` must be"):
        convert.load(f"keras_hub:{path}")
    change(f"{path}/config.json", lambda value: value["config"].update(num_layers=3))
    with h5py.File(f"{path}/model.weights.h5", "r+") as file:
        del file["layers/dense/vars/0"]
        file["layers/dense/vars/0"] = h5py.ExternalLink("/etc/hostname", "/x")
    with pytest.raises(CheckpointError, match="leads elsewhere"):
        convert.load(f"keras_hub:{path}")
    os.truncate(f"{path}/model.weights.h5", 100)
    with pytest.raises(CheckpointError, match="not a readable file of weights"):
        convert.load(f"keras_hub:{path}")


def test_what_kerashub_cannot_say_is_refused(tmp_path):
    path = str(tmp_path / "preset")
    MAKE["bert"]().save_to_preset(path)
    loaded = convert.load(f"keras_hub:{path}")
    exact = dataclasses.replace(loaded, config=dataclasses.replace(loaded.config, activation="gelu"))
    with pytest.raises(CheckpointError, match="cannot say `activation` = 'gelu'"):
        convert.save(exact, f"keras_hub:{tmp_path}/out")
    assert not os.path.exists(tmp_path / "out")
