"""A tokenizer folder of Hugging Face is read whole, as the `tokenizers` library reads it, or refused."""

import dataclasses
import json

import pytest
import tokenizers
from tokenizers import AddedToken, models, normalizers, pre_tokenizers

from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.text.byte_pairs import byte_symbols
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.conversion.test_conversion import random_checkpoint
from tests.helpers.samples import SHARED
from xmodels.conversion import convert
from xmodels.conversion.tokenizer_check import TEXTS
from xmodels.conversion.vocabularies import read_hugging_face

LETTERS = "abcdefghijklmnopqrstuvwxyzHW0123456789.!?'-"
PIECES = [*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "hello", "world", "cat", "...", "[E1]"]
CASES = SHARED / "cases"


def word_pieces(**model):
    """BERT's tokenizer, as the library makes it."""
    ids = {piece: index for index, piece in enumerate(PIECES[:-1])}
    made = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]", **model))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(list(SPECIAL_TOKENS))
    return made


def byte_pairs(**model):
    symbols = [*byte_symbols(), "he", "ll", "hell", "Ġw"]
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("Ġ", "w")]
    made = tokenizers.Tokenizer(models.BPE({s: i for i, s in enumerate(symbols)}, merges, **model))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def folder_with(path, made, beside=(), **settings):
    """A folder with this `tokenizer.json`, perhaps with the files of its model beside it."""
    made.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **settings}))
    if beside:
        made.model.save(str(path))
    return str(path)


def assert_alike(folder, made):
    ours = read_hugging_face(folder).open()
    for text in (*TEXTS, "hello [E1] cat", "x[E1]y"):
        assert ours.encode(text).ids == made.encode(text, add_special_tokens=False).ids, text
    return ours


@pytest.mark.parametrize("beside", [False, True])
def test_bert_is_read_with_and_without_a_vocabulary_beside_it(beside, tmp_path):
    made = word_pieces()
    assert assert_alike(folder_with(tmp_path, made, beside), made).describe() == {
        "tokenizer": "wordpiece", "do_lower_case": True, "max_word_characters": 200,
    }  # fmt: skip


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    "part",
    [
        {"pre_tokenizer": pre_tokenizers.Whitespace()},
        {"pre_tokenizer": pre_tokenizers.WhitespaceSplit()},
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits(True)])},
        {"normalizer": normalizers.Lowercase()},
        {"normalizer": normalizers.Sequence([normalizers.NFKC(), normalizers.BertNormalizer(lowercase=True)])},
        {"normalizer": normalizers.Sequence([normalizers.Replace("-", " "), normalizers.BertNormalizer()])},
    ],
    ids=str,
)  # fmt: skip
def test_word_pieces_that_are_cut_otherwise_are_refused_with_the_text(beside, part, tmp_path):
    made = word_pieces()
    for name, value in part.items():
        setattr(made, name, value)
    with pytest.raises(CheckpointError, match="tokenizer.json: it cuts '.* of ours that is closest, wordpiece"):
        read_hugging_face(folder_with(tmp_path, made, beside, do_lower_case=True))


def test_the_parts_of_a_word_piece_model_are_read_or_refused(tmp_path):
    made = word_pieces(max_input_chars_per_word=4)
    ours = assert_alike(folder_with(tmp_path, made), made)
    assert ours.max_word_characters == 4
    with pytest.raises(CheckpointError, match="`continuing_subword_prefix` = '@@'"):
        read_hugging_face(folder_with(tmp_path, word_pieces(continuing_subword_prefix="@@")))


def test_settings_of_a_class_of_its_own_go_before_and_others_behind_the_file(tmp_path):
    made = word_pieces()
    assert read_hugging_face(folder_with(tmp_path, made, do_lower_case=False)).do_lower_case is True
    found = read_hugging_face(folder_with(tmp_path, made, tokenizer_class="BertTokenizer", do_lower_case=False))
    assert found.do_lower_case is False


def test_byte_pairs_take_what_only_the_json_says(tmp_path):
    made = byte_pairs()
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.ByteLevel(add_prefix_space=True)
    ours = assert_alike(folder_with(tmp_path, made, beside=True), made)
    assert ours.do_lower_case and ours.add_prefix_space


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    ("model", "prefix", "message"),
    [
        ({"ignore_merges": True}, {}, "`ignore_merges` = True"), ({"dropout": 0.1}, {}, "`dropout` = 0.1"),
        ({"byte_fallback": True}, {}, "`byte_fallback` = True"), ({}, {"use_regex": False}, "it cuts 'hello world'"),
    ],
)  # fmt: skip
def test_byte_pairs_that_are_cut_otherwise_are_refused(beside, model, prefix, message, tmp_path):
    made = byte_pairs(**model)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, **prefix)
    with pytest.raises(CheckpointError, match=message):
        read_hugging_face(folder_with(tmp_path, made, beside))


def test_files_that_contradict_each_other_are_refused(tmp_path):
    folder_with(tmp_path, word_pieces(), beside=True)
    turned = [*PIECES[:5], *PIECES[-2:4:-1]]
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in turned))
    with pytest.raises(CheckpointError, match="Two vocabularies lie in this folder"):
        read_hugging_face(str(tmp_path))
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES[:-2]))
    with pytest.raises(CheckpointError, match=r"holds 1 token\(s\) that the vocabulary beside it lacks, such as '...'"):
        read_hugging_face(str(tmp_path))


def test_merges_that_contradict_each_other_are_refused(tmp_path):
    folder_with(tmp_path, byte_pairs(), beside=True)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nh e\n")
    with pytest.raises(CheckpointError, match="hold other merges"):
        read_hugging_face(str(tmp_path))


@pytest.mark.parametrize(
    "token",
    [
        AddedToken("[E1]", special=True, normalized=False), AddedToken("[E1]", normalized=True),
        AddedToken("[E1]", lstrip=True, rstrip=True), AddedToken("[E1]", single_word=True),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("make", [word_pieces, byte_pairs])
def test_added_tokens_are_found_in_texts_as_the_library_finds_them(make, token, tmp_path):
    made = make()
    made.add_tokens([token])
    ours = assert_alike(folder_with(tmp_path, made), made)
    assert ours.vocabulary.tokens[-1] == "[E1]" and "[E1]" in [
        ours.vocabulary.tokens[i] for i in ours.encode("a [E1] b").ids
    ]
    pieces = ours.encode("a [E1] b")
    assert pieces.word_start[pieces.ids.index(ours.vocabulary["[E1]"])] == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("added_tokens.json", {"[E1]": len(PIECES) - 1}),
        ("tokenizer_config.json", {"do_lower_case": True, "added_tokens_decoder": {str(len(PIECES) - 1): {"content": "[E1]"}}}),
    ],
)  # fmt: skip
def test_added_tokens_beside_a_vocabulary_are_found_too(name, value, tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES[:-1]))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    (tmp_path / name).write_text(json.dumps(value))
    ours = read_hugging_face(str(tmp_path)).open()
    assert [ours.vocabulary.tokens[i] for i in ours.encode("hello [E1] cat").ids] == ["hello", "[E1]", "cat"]
    (tmp_path / "added_tokens.json").write_text(json.dumps({"[E2]": 500}))
    with pytest.raises(CheckpointError, match="expected added tokens with the ids|500"):
        read_hugging_face(str(tmp_path))


def test_added_tokens_travel_with_a_checkpoint(tmp_path):
    made = word_pieces()
    made.add_special_tokens(["[E1]"])
    (tmp_path / "theirs").mkdir()
    held = read_hugging_face(folder_with(tmp_path / "theirs", made))
    checkpoint = dataclasses.replace(random_checkpoint(vocabulary_size=len(PIECES)), tokenizer=held)
    for source, target in (("", "ours"), ("ours", "hf:again"), ("hf:again", "last")):
        loaded = checkpoint if not source else convert.load(_at(tmp_path, source))
        convert.save(loaded, _at(tmp_path, target))
    assert convert.load(_at(tmp_path, "last")).tokenizer == held
    written = tokenizers.Tokenizer.from_file(str(tmp_path / "again/tokenizer.json"))
    assert written.encode("hello [E1] cat").tokens == ["[CLS]", "hello", "[E1]", "cat", "[SEP]"]


def _at(folder, name):
    kind, _, rest = name.rpartition(":")
    return f"{kind}{':' * bool(kind)}{folder / rest}"


@pytest.mark.parametrize(
    "found", [["[E1]"], [{"content": ""}], [{"content": "[E1]", "lstrip": 1}], [{"content": "[E9]"}]]
)
def test_damaged_added_tokens_are_named(found, tmp_path):
    folder_with(tmp_path, word_pieces(), beside=True, tokenizer="wordpiece", do_lower_case=True, added_tokens=found)
    with pytest.raises((CheckpointError, DataError), match="added_tokens"):
        read_hugging_face(str(tmp_path)).open()


@pytest.mark.parametrize("end", [" ", "\t", " \r", "\u00a0"])
def test_blanks_around_word_pieces_do_not_belong_to_them(end, tmp_path):
    (tmp_path / "vocab.txt").write_bytes("".join(f"{piece}{end}\n" for piece in [*PIECES, "\u2028"]).encode())
    ours = WordPieceTokenizer.read(str(tmp_path / "vocab.txt"))
    assert ours.vocabulary.tokens[:-1] == PIECES and len(ours.vocabulary.tokens[-1]) > 0
    plain = Vocabulary.read(str(tmp_path / "vocab.txt"), required=())
    assert ours.vocabulary.sha256 == plain.sha256  # by which records of earlier versions know it


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["blanks", "tabs", "clean"])
def test_vocabularies_from_the_field(name):
    ours = read_hugging_face(str(CASES / "vocab_trailing_blank" / name)).open()
    assert [ours.vocabulary.tokens[i] for i in ours.encode("hello world cat").ids] == ["hello", "world", "cat"]


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "name", [f"bpe_json/{n}" for n in ("noregex", "ignore_merges", "lower_both", "prefix_both", "gpt1_lower")]
    + ["wordpiece_json/split", "wordpiece_json/whitespace", "added_tokens/entities"],
)  # fmt: skip
def test_tokenizers_from_the_field(name):
    theirs = tokenizers.Tokenizer.from_file(str(CASES / name / "tokenizer.json"))
    try:
        ours = read_hugging_face(str(CASES / name)).open()
    except CheckpointError as error:
        assert str(CASES / name / "tokenizer.json") in str(error)
        return
    for text in ("Hello world 2024", "hello [E1] cat [/E1]"):
        assert ours.encode(text).ids == theirs.encode(text, add_special_tokens=False).ids
