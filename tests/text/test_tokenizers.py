"""Every kind of tokenizer against the ids of its original, and what all of them promise. No TensorFlow."""

import json
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_pipelines.errors import DataError, UsageError
from data_pipelines.text import words
from data_pipelines.text.byte_pairs import BpeTokenizer, ByteBpeTokenizer
from data_pipelines.text.kinds import open_tokenizer, read_tokenizer
from data_pipelines.text.plain_units import CharacterTokenizer, WordTokenizer
from data_pipelines.text.sentence_pieces import SentencePieceTokenizer
from data_pipelines.text.vocabulary import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNKNOWN, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.samples import SHARED

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "tokenizers"
BYTE_BPE, CHAR_BPE = str(GOLDEN / "byte_bpe_vocab.json"), str(GOLDEN / "char_bpe_vocab.json")
ORACLES = SHARED / "oracles"
SPECIAL_STRINGS = ("<s>", "<|endoftext|>", "[MASK]", "<mask>", "<extra_id_0>")


def golden(name):
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").open(encoding="utf-8")]


def oracle(name):
    lines = (ORACLES / "tokenizers" / name / "cases.jsonl").open(encoding="utf-8")
    return [case for case in map(json.loads, lines) if "pair" not in case]


def test_gpt2_byte_pairs_and_their_texts_are_those_of_the_original():
    tokenizer = ByteBpeTokenizer.read(BYTE_BPE)
    for case in golden("gpt2_byte_bpe"):
        if case["text"] == "<|endoftext|>":
            assert not set(tokenizer.encode(case["text"]).ids) & set(tokenizer.vocabulary.special_ids)
            continue
        assert tokenizer.encode(case["text"]).ids == case["ids"], case["text"]
        assert tokenizer.decode(case["ids"]) == case["decoded"] == case["text"]


def test_roberta_byte_pairs_are_those_of_the_original_special_tokens_in_the_text_included():
    tokenizer = ByteBpeTokenizer.read(BYTE_BPE, recognize_special_tokens=True)
    for case in golden("roberta_slow"):
        if case["text"] != "<|endoftext|>":  # no special token of RoBERTa, though of this vocabulary
            assert tokenizer.encode(case["text"]).ids == case["ids"], case["text"]


def test_gpt1_pieces_are_those_of_the_original():
    tokenizer = BpeTokenizer.read(CHAR_BPE, recognize_special_tokens=True)
    for case in golden("gpt1_slow"):
        assert tokenizer.encode(case["text"]).ids == case["ids"], case["text"]


def test_subword_nmt_codes_cut_words_as_the_original_does():
    lines = (GOLDEN / "subword_nmt_codes.txt").read_text(encoding="utf-8").splitlines()[1:]
    merges = [tuple(line.split(" ")) for line in lines]
    cases = golden("subword_nmt")
    characters = sorted({c for case in cases for c in case["text"]} | {c for pair in merges for c in pair})
    tokens = dict.fromkeys(["<unk>", *characters, *(f"{c}</w>" for c in characters), *map("".join, merges)])
    vocabulary = Vocabulary(tokens, required=(), spelled=True)
    tokenizer = BpeTokenizer(vocabulary, merges, do_lower_case=False, words="blanks")
    for case in cases:
        pieces = tokenizer.encode(case["text"])
        tokens = [vocabulary.tokens[i] for i in pieces.ids]
        found = [t.removesuffix("</w>") if t.endswith("</w>") else f"{t}@@" for t in tokens]
        assert found == [piece for piece in case["segmented"].strip("\r\n ").split(" ") if piece], case["text"]


HUGGING_FACE = {"clean": True, "keep_accents": False, "part_digits": True}
ORIGINALS = {
    "sentencepiece_unigram_albert": ("albert", {}, (0, 0)),
    "sentencepiece_unigram_xlnet": ("xlnet", {}, (0, 0)),
    "sentencepiece_unigram_t5": ("t5", {}, (0, 0)),
    "albert_original_spm": ("albert", {"part_digits": True}, (0, 0)),
    "albert_slow": ("albert", {"do_lower_case": True, **HUGGING_FACE}, (1, 1)),
    "xlnet_slow": ("xlnet", HUGGING_FACE, (0, 2)),
    "t5_slow": ("t5", {"num_sentinels": 4}, (0, 1)),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ORIGINALS)
def test_sentence_pieces_are_those_of_the_original(name):
    model, options, (before, after) = ORIGINALS[name]
    path = ORACLES / f"tokenizer_files/small/unigram_{model}.model"
    tokenizer = SentencePieceTokenizer.read(str(path), **options)
    compared = 0
    for case in oracle(name):
        ids = case.get("ids", case.get("ids_with_special"))
        ids, found = ids[before : len(ids) - after], tokenizer.encode(case["text"]).ids
        if "ids" not in case and any(s in case["text"] for s in SPECIAL_STRINGS):
            special = set(tokenizer.vocabulary.special_ids) - {tokenizer.vocabulary[UNKNOWN]}
            assert not set(found) & special  # theirs reads special tokens in the text, ours never does
            continue
        assert found == ids, case["text"]
        if "decoded" in case:
            assert tokenizer.decode(ids) == case["decoded"]
        compared += 1
    assert compared > 130


@pytest.mark.shared_data
@pytest.mark.parametrize("case_of", ["keep", "lower"])
def test_xlnet_cleans_and_cuts_text_as_the_original_does(case_of):
    path = ORACLES / "tokenizer_files/small/unigram_xlnet.model"
    tokenizer = SentencePieceTokenizer.read(str(path), do_lower_case=case_of == "lower", **HUGGING_FACE)
    for case in oracle("xlnet_original"):
        assert tokenizer.preprocess(case["text"])[0] == case[case_of]["preprocessed"]
        assert tokenizer.encode(case["text"]).ids == case[case_of]["ids"], case["text"]


TEXT = "The un-affable keeper, 9,000 walks! Don't 使用语言模型 of T恤 ok"


def characters_of(*texts):
    return [*SPECIAL_TOKENS, "▁", *sorted({c for text in texts for c in text.lower()} - {" "})]


@pytest.fixture(scope="module")
def tokenizers():
    """One of each kind but SentencePiece, whose tests train a model."""
    characters = characters_of(TEXT)
    pieces = [*characters, *(f"##{c}" for c in characters[6:])]
    return {
        "wordpiece": WordPieceTokenizer(Vocabulary(pieces)),
        "byte_bpe": ByteBpeTokenizer.read(BYTE_BPE),
        "bpe": BpeTokenizer.read(CHAR_BPE),
        "characters": CharacterTokenizer(Vocabulary(characters)),
        "words": WordTokenizer(Vocabulary([*SPECIAL_TOKENS, "the", "un", "-", "affable", "keeper", ",", "walks", "!"])),
    }


KINDS = ["wordpiece", "byte_bpe", "bpe", "characters", "words"]


def grouped(tokenizer, text):
    """The words that the pieces make, as parts of the text."""
    pieces, found = tokenizer.encode(text), []
    for (first, end), start in zip(pieces.spans, pieces.word_start, strict=True):
        if start:
            found.append([first, end])
        else:
            found[-1][1] = max(end, found[-1][1])
    return [text[first:end] for first, end in found]


LATIN = "The un-affable keeper, walks"
BERT_WORDS = ["The", "un", "-", "affable", "keeper", ",", "walks"]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_tell_english_words(tokenizers, kind):
    expected = {
        "byte_bpe": LATIN.split(),
        "characters": ["The", " ", "un", "-", "affable", " ", "keeper", ",", " ", "walks"],
    }
    assert grouped(tokenizers[kind], LATIN) == expected.get(kind, BERT_WORDS)


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "bpe", "characters"])
def test_an_ideograph_is_a_word_until_a_segmenter_says_otherwise(tokenizers, kind):
    text = "使用语言模型iPhone"
    assert grouped(tokenizers[kind], text) == [*"使用语言模型", "iPhone"]
    pieces = tokenizers[kind].encode(text)
    starts = words.align(pieces, words.segmenter("jieba")(text))
    firsts = [first for (first, _), start in zip(pieces.spans, starts, strict=True) if start]
    assert firsts == [0, 2, 4, 6]  # 使用 语言 模型 iPhone, also where a character is three bytes


def test_words_of_chinese_need_a_segmenter():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "使用", "语言", "模型"])
    assert WordTokenizer(vocabulary, segmenter="jieba").encode("使用语言模型").ids == [5, 6, 7]
    assert WordTokenizer(vocabulary).encode("使用 语言\u3000模型").ids == [5, 6, 7]
    assert WordTokenizer(vocabulary).encode("使用语言模型").ids == [vocabulary[UNKNOWN]]


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize("kind", KINDS)
@given(text=ANY_TEXT | st.text("aB é,'9使用 \n\u0301한ǅ", max_size=30))
@settings(max_examples=150, deadline=None)
def test_spans_lie_in_order_inside_the_text_and_words_start_with_the_first_piece(tokenizers, kind, text):
    pieces = tokenizers[kind].encode(text)
    assert len(pieces.ids) == len(pieces.spans) == len(pieces.word_start)
    assert pieces.word_start[:1] in ([], [1])
    previous = 0
    for first, end in pieces.spans:
        assert previous <= first <= end <= len(text)
        previous = first
    assert pieces == tokenizers[kind].encode_batch(["x", text])[1]


@given(text=ANY_TEXT)
@settings(max_examples=300, deadline=None)
def test_byte_pairs_give_any_text_back_and_their_spans_show_the_piece(tokenizers, text):
    tokenizer = tokenizers["byte_bpe"]
    pieces = tokenizer.encode(text)
    assert tokenizer.decode(pieces.ids) == text
    for i, (first, end) in zip(pieces.ids, pieces.spans, strict=True):
        piece = tokenizer.decode([i])
        if "\ufffd" not in piece:  # a whole character or more
            assert text[first:end] == (piece.lstrip() or piece)


def test_spans_of_characters_slice_the_text_that_they_stand_for(tokenizers):
    tokenizer = tokenizers["characters"]
    pieces = tokenizer.encode(f"  {TEXT}  ")
    tokens = [tokenizer.vocabulary.tokens[i] for i in pieces.ids]
    assert [f"  {TEXT}  "[a:b].lower() for a, b in pieces.spans] == [t.replace("▁", " ") for t in tokens]
    assert tokenizer.decode(pieces.ids) == TEXT.lower()


def test_roles_are_found_however_they_are_spelled():
    roberta = ByteBpeTokenizer.read(BYTE_BPE).vocabulary
    assert [roberta[role] for role in (CLS, PAD, SEP, UNKNOWN, MASK)] == [0, 1, 2, 3, 4]
    assert (roberta[BOS], roberta[EOS]) == (0, 2) and MASK in roberta
    gpt2 = Vocabulary(["a", "<|endoftext|>"], "gpt2", required=(), spelled=True)
    assert gpt2[BOS] == gpt2[EOS] == 1 and MASK not in gpt2 and gpt2.special_ids == [1]
    with pytest.raises(DataError, match=r"gpt2: the vocabulary has no mask token \(\[MASK\] or <mask>\)"):
        gpt2[MASK]
    with pytest.raises(KeyError):
        gpt2["b"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_gives_back_the_tokenizer_that_wrote_it(tokenizers, kind, tmp_path):
    tokenizer = tokenizers[kind]
    for name, contents in tokenizer.files().items():
        (tmp_path / name).write_bytes(contents)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer.describe()))
    for again in (read_tokenizer(str(tmp_path)), open_tokenizer(str(tmp_path)), open_tokenizer(str(tmp_path), kind)):
        assert again.describe() == tokenizer.describe() and again.sha256 == tokenizer.sha256
        assert again.encode(TEXT) == tokenizer.encode(TEXT)
    other = "bpe" if kind != "bpe" else "words"
    with pytest.raises(UsageError, match=f"holds a vocabulary of --tokenizer={kind}"):
        open_tokenizer(str(tmp_path), other)


def test_the_file_tells_the_kind():
    assert open_tokenizer(BYTE_BPE).kind == "byte_bpe" and not open_tokenizer(BYTE_BPE).do_lower_case
    assert open_tokenizer(CHAR_BPE).kind == "bpe" and open_tokenizer(CHAR_BPE).do_lower_case
    path = str(GOLDEN / "wordpiece_uncased_vocab.txt")
    assert open_tokenizer(path).kind == "wordpiece"
    assert open_tokenizer(path, "characters").kind == "characters"
    with pytest.raises(UsageError, match=r"--tokenizer=sentencepiece is a file \*.model"):
        open_tokenizer(path, "sentencepiece")
    with pytest.raises(UsageError, match="--tokenizer=wordpiece is a file"):
        open_tokenizer(BYTE_BPE, "wordpiece")
    with pytest.raises(UsageError, match="unknown. Known: wordpiece, byte_bpe"):
        open_tokenizer(path, "word_piece")


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "vocabulary, merges, message",
    [
        ("{", "", "vocab.json: not valid JSON"),
        ('{"a": 0, "b": 2}', "", "the ids 0, 1, 2"),
        ('["a"]', "", "expected an object of pieces"),
        ('{"a": 0}', None, "merges.txt: no such file"),
        ('{"a": 0}', "#version: 0.2\na b c\n", "merges.txt, line 2: expected two pieces"),
        ('{"a": 0, "<unk>": 1}', "a b\n", "do not fit each other"),
        ('{"a": 0}', "", "without 255 of the 256 bytes"),
    ],
)
def test_damaged_byte_pair_files_are_named(tmp_path, vocabulary, merges, message):
    path = write(tmp_path / "vocab.json", vocabulary)
    if merges is not None:
        write(tmp_path / "merges.txt", merges)
    with pytest.raises(DataError, match=message):
        open_tokenizer(path)


def test_missing_and_damaged_vocabularies_of_other_kinds_are_named(tmp_path):
    for name in ("none.json", "none.model", "none.txt"):
        with pytest.raises(DataError, match=f"{name}: no such"):
            open_tokenizer(str(tmp_path / name))
    with pytest.raises(DataError, match="not a SentencePiece model"):
        open_tokenizer(write(tmp_path / "damaged.model", "no model"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="expected one of vocab.txt, vocab.json, spiece.model, found none"):
        open_tokenizer(str(tmp_path / "empty"))
    write(tmp_path / "empty" / "vocab.txt", "\n".join(SPECIAL_TOKENS))
    for value, message in (
        ('{"tokenizer": "unigram"}', "'unigram' is unknown"),
        ('{"tokenizer": "wordpiece", "do_lower_case": "yes"}', "`do_lower_case` must be of type bool"),
        ('{"tokenizer": "wordpiece", "max_word_characters": 0}', "`max_word_characters` is too small"),
        ('{"tokenizer": "words", "segmenter": "os:system"}', "`segmenter` must be one of none, jieba, presegmented"),
        ("[]", "expected a JSON object"),
    ):
        write(tmp_path / "empty" / "tokenizer_config.json", value)
        with pytest.raises(DataError, match=message):
            open_tokenizer(str(tmp_path / "empty"))
