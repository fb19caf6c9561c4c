"""Every kind of tokenizer travels with its checkpoint, and Hugging Face's files tell which kind they are."""

import dataclasses
import json
import pathlib
import shutil

import pytest
import tokenizers

from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.errors import CheckpointError
from data_pipelines.text.frames import BERT
from data_pipelines.text.framing import pack, pack_texts
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.train_kinds import train_tokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.conversion.test_conversion import random_checkpoint
from tests.helpers.samples import ROOT, SHARED
from xmodels.conversion import convert
from xmodels.conversion.formats import table_of
from xmodels.conversion.tokenizer_writing import write_hugging_face
from xmodels.conversion.vocabularies import TokenizerFiles, read_hugging_face, read_ours

SIZES = {"byte_bpe": 420, "bpe": 1500, "sentencepiece": 1400, "characters": 1400, "words": 900}
GOLDEN = pathlib.Path(__file__).parents[1] / "golden/tokenizers"
TEXTS = ("The keeper's 9,000 walks!", "我们去爬山 of T恤。", "")


@pytest.fixture(scope="module", params=SIZES)
def tokenizer(request):
    return train_tokenizer(request.param, open_corpus(str(ROOT / "samples/zh/corpus.txt"), "zh"), SIZES[request.param])


def checkpoint_with(held):
    """A small network with as many rows of tokens as this vocabulary has."""
    checkpoint = random_checkpoint(vocabulary_size=len(held.open().vocabulary))
    return dataclasses.replace(checkpoint, tokenizer=held)


@pytest.mark.parametrize("kind", ["hf:", "tf1:"])
def test_a_converted_checkpoint_keeps_the_kind_and_the_files_of_its_vocabulary(tokenizer, kind, tmp_path):
    held = TokenizerFiles(tokenizer.files(), tokenizer.describe())
    convert.save(checkpoint_with(held), str(tmp_path / "ours"))
    convert.save(convert.load(str(tmp_path / "ours")), f"{kind}{tmp_path / 'theirs'}")
    convert.save(convert.load(f"{kind}{tmp_path / 'theirs'}"), str(tmp_path / "again"))
    assert convert.load(str(tmp_path / "again")).tokenizer == held
    again = open_tokenizer(str(tmp_path / "again"))
    assert again.describe() == tokenizer.describe() and again.sha256 == tokenizer.sha256


@pytest.mark.parametrize("tokenizer", ["byte_bpe", "bpe"], indirect=True)
def test_hugging_face_reads_byte_pairs_with_our_framing(tokenizer, tmp_path):
    held = TokenizerFiles(tokenizer.files(), tokenizer.describe())
    convert.save(checkpoint_with(held), f"hf:{tmp_path / 'theirs'}")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "theirs/tokenizer.json"))
    for text in TEXTS:
        ids = [tokenizer.encode(part).ids for part in (text, TEXTS[0])]
        found = theirs.encode(text, TEXTS[0])
        assert (found.ids, found.type_ids) == pack(*ids, tokenizer.vocabulary, 512)
        assert theirs.encode(text).ids == pack(ids[0], None, tokenizer.vocabulary, 512)[0]
    stored = json.loads((tmp_path / "theirs/tokenizer_config.json").read_text())
    assert stored["tokenizer_class"] == "PreTrainedTokenizerFast" and stored["mask_token"] == "<mask>"
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):  # as version 5 leaves a folder
        (tmp_path / "theirs" / name).unlink()
    found = read_hugging_face(str(tmp_path / "theirs"))
    assert found.kind == tokenizer.kind
    assert [found.open().encode(text) for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]


def test_files_of_hugging_face_tell_the_kind(tmp_path):
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(GOLDEN / f"byte_bpe_{name}", tmp_path / name)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "RobertaTokenizer", "do_lower_case": false}')
    found = read_hugging_face(str(tmp_path))
    assert found.kind == "byte_bpe" and found.open().sha256 == open_tokenizer(str(tmp_path)).sha256
    size = len(found.open().vocabulary)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<special>": size}))
    assert read_hugging_face(str(tmp_path)).open().vocabulary["<special>"] == size
    assert read_hugging_face(str(tmp_path / "..")) is None


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("model", "stored", "expected"),
    [
        ("albert", {"tokenizer_class": "AlbertTokenizer"}, (True, False, True, True, 0)),
        ("albert", {"tokenizer_class": "AlbertTokenizerFast", "do_lower_case": False}, (False, False, True, True, 0)),
        ("xlnet", {"tokenizer_class": "XLNetTokenizer", "keep_accents": True}, (False, True, True, True, 0)),
        ("t5", {"tokenizer_class": "T5Tokenizer", "extra_ids": 4}, (False, True, False, False, 4)),
        ("xlnet", {"model_type": "xlnet"}, (False, False, True, True, 0)),
    ],
)
def test_sentence_pieces_are_cleaned_as_their_class_does(tmp_path, model, stored, expected):
    shutil.copy(SHARED / f"oracles/tokenizer_files/small/unigram_{model}.model", tmp_path / "spiece.model")
    name = "config.json" if "model_type" in stored else "tokenizer_config.json"
    (tmp_path / name).write_text(json.dumps(stored))
    found = read_hugging_face(str(tmp_path)).open()
    made = (found.do_lower_case, found.keep_accents, found.clean, found.part_digits, found.num_sentinels)
    assert made == expected


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("tokenizer.json", {"model": {"type": "Unigram", "vocab": []}}, "put its spiece.model beside it"),
        (
            "tokenizer.json",
            {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}},
            "neither GPT-2's over bytes nor",
        ),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {"a": 1}}}, "with the ids 0, 1, 2"),
        ("tokenizer_config.json", {"tokenizer_class": "CamembertTokenizer"}, "renumbers the pieces"),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "AlbertTokenizer", "do_lower_case": "no"},
            "must be of type bool",
        ),
    ],
)
def test_tokenizers_that_are_none_of_ours_are_refused_in_one_line(tmp_path, name, values, message):
    (tmp_path / name).write_text(json.dumps(values))
    if name == "tokenizer_config.json":
        (tmp_path / "spiece.model").write_bytes(b"any")
    with pytest.raises(CheckpointError, match=message):
        read_hugging_face(str(tmp_path))


def test_a_damaged_setting_of_ours_is_named(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer": "wordpiece", "do_lower_case": "no"}')
    with pytest.raises(CheckpointError, match="`do_lower_case` must be of type bool"):
        read_ours(str(tmp_path))


@pytest.mark.parametrize("model", ["xlnet", "roberta", "gpt2", "bart", "ernie"])
def test_word_pieces_have_the_frame_of_their_network(model, tmp_path):
    """`BertTokenizer` puts [CLS] before a text and [SEP] behind it, whatever network it is for."""
    vocabulary = [*SPECIAL_TOKENS, *"abcd"]
    files = TokenizerFiles(
        {"vocab.txt": "".join(f"{t}\n" for t in vocabulary).encode()}, {"tokenizer": "wordpiece", "do_lower_case": True}
    )
    form = table_of(model).hugging_face
    write_hugging_face(str(tmp_path), files, 16, form)
    said = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert read_hugging_face(str(tmp_path)).kind == "wordpiece"
    if form.frame == BERT:
        assert said["tokenizer_class"] == "BertTokenizer" and not (tmp_path / "tokenizer.json").exists()
        return
    theirs, ours = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")), files.open()
    assert said["tokenizer_class"] == "PreTrainedTokenizerFast" and said["padding_side"] == (
        "left" if model == "xlnet" else "right"
    )
    assert ("token_type_ids" in said["model_input_names"]) == (model == "xlnet")
    for texts in (("a b",), ("a b", "c")):
        packed, found = pack_texts([texts], ours, 16, form.frame), theirs.encode(*texts)
        real = packed["padding_mask"][0]
        assert (
            found.ids == packed["token_ids"][0][real].tolist()
            and found.type_ids == packed["segment_ids"][0][real].tolist()
        )


@pytest.mark.parametrize(
    ("said", "wrong"),
    [({"strip_accents": False}, "strip_accents"), ({"do_lower_case": False, "strip_accents": True}, "strip_accents"),
     ({"tokenize_chinese_chars": False}, "tokenize_chinese_chars"), ({"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class")],
)  # fmt: skip
def test_word_pieces_that_are_cut_otherwise_are_refused(said, wrong, tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{t}\n" for t in SPECIAL_TOKENS))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said))
    with pytest.raises(CheckpointError, match=f"tokenizer_config.json: `{wrong}` = .* our word pieces are BERT's"):
        read_hugging_face(str(tmp_path))


def test_a_prefix_space_beside_a_vocabulary_is_read(tmp_path):
    held = train_tokenizer(
        "byte_bpe", open_corpus(str(ROOT / "samples/zh/corpus.txt"), "zh"), SIZES["byte_bpe"]
    ).files()
    for name, contents in held.items():
        (tmp_path / name).write_bytes(contents)
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True})
    )
    assert read_hugging_face(str(tmp_path)).settings["add_prefix_space"] is True
