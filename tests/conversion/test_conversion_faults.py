"""What a conversion would lose or make useless is kept, or named before anything is written."""

import json
import os
import shutil

import pytest
from tokenizers import Tokenizer

from data_pipelines.errors import CheckpointError, ReportedError
from data_pipelines.text.byte_pairs import HEADER
from tests.helpers.invocation import invoke
from xmodels.conversion import convert
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.gpt2 import Gpt2, Gpt2Config

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
NUMBERS = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 16}
WORDPIECE = {"tokenizer": "wordpiece", "do_lower_case": True, "max_word_characters": 200}
BYTE_BPE = {"tokenizer": "byte_bpe", "do_lower_case": False, "add_prefix_space": False}
PIECES = ["<|endoftext|>", "a", "b", "c", "ab", "#", "!", "<unk>"]


def lines(tokens):
    return "".join(f"{token}\n" for token in tokens).encode()


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A folder of Hugging Face."""
    path = tmp_path_factory.mktemp("bert")
    network = Bert(BertConfig(len(TOKENS), **NUMBERS, activation="gelu")).initialize()
    (path / "ours").mkdir()
    folder.write_model(str(path / "ours"), network, None, {"vocab.txt": lines(TOKENS)}, WORDPIECE)
    convert.save(convert.load(str(path / "ours")), f"hf:{path / 'hf'}")
    return path / "hf"


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A folder of Hugging Face with tokens of its own choice."""
    path = tmp_path_factory.mktemp("gpt2")
    (path / "ours").mkdir()
    ids = {piece: index for index, piece in enumerate(PIECES)}
    files = {"vocab.json": json.dumps(ids).encode(), "merges.txt": f"{HEADER}a b\n".encode()}
    folder.write_model(str(path / "ours"), Gpt2(Gpt2Config(len(PIECES), **NUMBERS)).initialize(), None, files, BYTE_BPE)
    convert.save(convert.load(str(path / "ours")), f"hf:{path / 'hf'}")
    return path / "hf"


def change(path, **values):
    stored = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**stored, **values}))


def read(path, *names):
    stored = json.loads(path.read_text())
    return [stored.get(name) for name in names]


IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


def test_a_network_that_continues_texts_names_where_they_begin_and_end(gpt2):
    for file in ("config.json", "generation_config.json"):
        assert read(gpt2 / file, *IDS) == [0, 0, None]  # no token pads
    assert read(gpt2 / "tokenizer_config.json", "bos_token", "eos_token") == ["<|endoftext|>"] * 2


def test_texts_that_are_continued_are_not_framed(tmp_path):
    """A vocabulary of byte_bpe that was learnt here has the tokens of RoBERTa's frame."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "c", "ab"]
    ids = {piece: index for index, piece in enumerate(pieces)}
    files = {"vocab.json": json.dumps(ids).encode(), "merges.txt": f"{HEADER}a b\n".encode()}
    (tmp_path / "ours").mkdir()
    network = Gpt2(Gpt2Config(len(pieces), **NUMBERS)).initialize()
    folder.write_model(str(tmp_path / "ours"), network, None, files, BYTE_BPE)
    convert.save(convert.load(str(tmp_path / "ours")), f"hf:{tmp_path / 'hf'}")
    assert Tokenizer.from_file(str(tmp_path / "hf/tokenizer.json")).encode("abc").ids == [8, 7]


def test_special_tokens_stay_those_of_the_source(gpt2, tmp_path, capsys):
    source = shutil.copytree(gpt2, tmp_path / "source")
    ids = dict(zip(IDS, (1, 5, 6), strict=True))
    change(source / "config.json", **ids)
    change(source / "generation_config.json", **ids, top_k=4)
    change(source / "tokenizer_config.json", bos_token=None, eos_token={"content": "#"}, pad_token="!")
    change(source / "special_tokens_map.json", bos_token="a", eos_token="not this one")
    convert.save(convert.load(f"hf:{source}"), f"hf:{tmp_path / 'target'}")
    for file in ("config.json", "generation_config.json"):
        assert read(tmp_path / "target" / file, *IDS) == [1, 5, 6]
    assert read(tmp_path / "target/generation_config.json", "top_k") == [4]
    names = "bos_token", "eos_token", "pad_token"
    assert read(tmp_path / "target/tokenizer_config.json", *names) == ["a", "#", "!"]
    assert invoke("convert_checkpoint", f"--from=hf:{source}", f"--to={tmp_path / 'ours'}") == 0
    assert "has no place for `bos_token_id` 1, `eos_token_id` 5, `pad_token_id` 6" in capsys.readouterr().out


def test_an_id_beyond_the_vocabulary_is_left_out_and_named(gpt2, tmp_path):
    source = shutil.copytree(gpt2, tmp_path / "source")
    change(source / "config.json", eos_token_id=50256)
    loaded = convert.load(f"hf:{source}")
    assert any("`eos_token_id` 50256 is the id of no token" in warning for warning in loaded.warnings)


def test_a_forgotten_prefix_is_named(bert):
    with pytest.raises(
        CheckpointError, match=f"not a model folder of xmodels.* It is one of Hugging Face: name it hf:{bert}."
    ):
        convert.load(str(bert))


def test_an_activation_is_named_by_the_key_of_the_source(bert, tmp_path):
    with pytest.raises(
        CheckpointError, match=r"`hidden_act` = 'gelu' \(its 'gelu' is 'gelu_new'\).* knows gelu_new, relu, tanh;"
    ):
        convert.save(convert.load(f"hf:{bert}"), f"tf1:{tmp_path / 'tf1'}")
    with pytest.raises(CheckpointError, match=r"`activation` = 'gelu' \(its 'gelu' is 'gelu_tanh'\)"):
        convert.save(convert.load(str(bert.parent / "ours")), f"tf1:{tmp_path / 'tf1'}")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("num_attention_heads", 3, "`hidden_size` must be a multiple of `num_attention_heads`"),
        ("num_hidden_layers", -1, "`num_hidden_layers` must be a whole number from 1 to 1000. Found: -1"),
        ("hidden_size", 8.0, "`hidden_size` must be a whole number from 1 to 10000000. Found: 8.0"),
        ("layer_norm_eps", "x", "`layer_norm_eps` must be a number from 0 to 1. Found: 'x'"),
        ("hidden_act", "mish", "cannot convert `hidden_act` = 'mish'. Known: gelu, "),
    ],
)
def test_a_number_is_named_by_the_key_of_the_source(bert, tmp_path, key, value, says):
    source = shutil.copytree(bert, tmp_path / "source")
    change(source / "config.json", **{key: value})
    with pytest.raises(CheckpointError) as caught:
        convert.load(f"hf:{source}")
    assert f"config.json: {says}" in str(caught.value)


VOCABULARIES = {
    "twice": (lines([*TOKENS[:-1], "a"]), "vocab.txt, line 6: the token 'a' stands again on line 13"),
    "without [CLS]": (lines(["z", *TOKENS[:2], *TOKENS[3:]]), r"vocab.txt: the vocabulary lacks \[CLS\]"),
    "short": (lines(TOKENS[:-1]), "its vocabulary holds 12 tokens, but the network has 13 rows"),
    "no UTF-8": (b"\xff\xfe" + lines(TOKENS), "vocab.txt: not valid UTF-8 at byte 0"),
}


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("target", ["hf:{}", "tf1:{}", "{}"])
def test_a_broken_vocabulary_is_named_and_not_copied(bert, tmp_path, name, target):
    contents, says = VOCABULARIES[name]
    source = shutil.copytree(bert, tmp_path / "source")
    change(source / "config.json", hidden_act="gelu_new")
    (source / "vocab.txt").write_bytes(contents)
    with pytest.raises(ReportedError, match=f"{source}.*{says}"):
        convert.save(convert.load(f"hf:{source}"), target.format(tmp_path / "target"))
    assert os.listdir(tmp_path) == ["source"]


def test_a_prefix_means_the_same_in_and_out(bert, tmp_path):
    source = shutil.copytree(bert, tmp_path / "source")
    change(source / "config.json", hidden_act="gelu_new")
    convert.save(convert.load(f"hf:{source}"), f"tf1:{tmp_path / 'a/bert_model.ckpt'}")
    assert {"bert_model.ckpt.index", "bert_config.json", "vocab.txt"} <= set(os.listdir(tmp_path / "a"))
    convert.save(convert.load(f"tf1:{tmp_path / 'a/bert_model.ckpt'}"), f"tf1:{tmp_path / 'b/model.ckpt-7'}")
    assert max(convert.verify(f"hf:{source}", f"tf1:{tmp_path / 'b/model.ckpt-7'}").values()) < 1e-5


@pytest.mark.parametrize("verb", ["predict", "evaluate", "generate", "translate", "export_model"])
def test_an_unknown_prefix_is_refused_by_every_verb(verb, capsys):
    more = {"predict": {"text": "a"}, "evaluate": {"test_file": "a"}, "generate": {"prompt": "a"}}
    more |= {"translate": {"text": "a"}, "export_model": {"export_dir": "e"}}
    assert invoke(verb, model_dir="ours:x", **more[verb]) == 2
    assert "ours:x: unknown format ours:. Known: hf:, tf1:" in capsys.readouterr().err
