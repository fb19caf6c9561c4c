"""Training of every kind of vocabulary, the report on it, and the files it leaves. No TensorFlow."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.errors import DataError, UsageError
from data_pipelines.options.train_vocabulary import Options
from data_pipelines.pretraining.vocabulary import train_vocabulary
from data_pipelines.text import words
from data_pipelines.text.kinds import KINDS, open_tokenizer
from data_pipelines.text.plain_units import CharacterTokenizer
from data_pipelines.text.report import vocabulary_report
from data_pipelines.text.sentence_pieces import SentencePieceTokenizer, opens_word
from data_pipelines.text.tokenizer_settings import TOKENIZERS, UNTRAINED
from data_pipelines.text.train_kinds import TRAINERS, train_tokenizer
from data_pipelines.text.vocabulary import CLS, MASK, PAD, SEP, SPECIAL_TOKENS, UNKNOWN, Vocabulary

ROOT = pathlib.Path(__file__).parents[2]
SAMPLES = str(ROOT / "samples/zh/corpus.txt")
ENGLISH = """The keeper walked along the old harbour, and the boats were counted every evening.
Programmers rewrote the unaffordable parts themselves: it could sort 1,000,000 records.
The walkers talked; the talkers walked. Nobody counted the cafés of the harbour in 1998, or 9,000 boats.
"""
SIZES = {
    "wordpiece": 150,
    "byte_bpe": 300,
    "bpe": 150,
    "sentencepiece": 90,
    "characters": 60,
    "words": 40,
    "word_characters": 40,
}


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text(ENGLISH * 20, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def trained(english):
    corpus = open_corpus(english, "en")
    return {kind: train_tokenizer(kind, corpus, SIZES[kind]) for kind in TRAINERS}


def test_every_kind_can_be_trained():
    assert set(TRAINERS) == set(TOKENIZERS) == set(KINDS) - set(UNTRAINED)


@pytest.mark.parametrize("kind", TRAINERS)
def test_a_trained_vocabulary_keeps_its_size_and_has_the_tokens_that_masking_needs(trained, kind):
    vocabulary = trained[kind].vocabulary
    assert len(vocabulary) <= SIZES[kind] and len(set(vocabulary.tokens)) == len(vocabulary)
    assert len({vocabulary[role] for role in (PAD, UNKNOWN, CLS, SEP, MASK)}) == 5
    ids = trained[kind].encode("the keeper walked").ids
    assert vocabulary[UNKNOWN] not in ids
    assert trained[kind].decode([vocabulary[CLS], *ids, vocabulary[SEP]]).strip() == "the keeper walked"


def test_byte_pairs_have_special_tokens_where_fairseq_has_them_and_older_ones_are_read(trained, tmp_path):
    tokenizer = trained["byte_bpe"]
    tokens = tokenizer.vocabulary.tokens
    assert tokens[:4] == ["<s>", "<pad>", "</s>", "<unk>"] and tokens[-1] == "<mask>" and len(tokens) == 300
    assert tokenizer.vocabulary[MASK] == 299
    before = [*tokens[:4], "<mask>", *tokens[4:-1]]
    (tmp_path / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(before)}))
    (tmp_path / "merges.txt").write_bytes(tokenizer.files()["merges.txt"])
    older = open_tokenizer(str(tmp_path))
    assert older.vocabulary.tokens == before and older.vocabulary[MASK] == 4
    pieces = [[each.vocabulary.tokens[i] for i in each.encode(ENGLISH).ids] for each in (tokenizer, older)]
    assert pieces[0] == pieces[1]


TRAIN = """
import sys
from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.text.train_kinds import train_tokenizer
for kind, size in (("byte_bpe", 420), ("bpe", 2000), ("sentencepiece", 1400), ("characters", 500), ("words", 700)):
    print(kind, train_tokenizer(kind, open_corpus(sys.argv[1], "zh"), size).sha256)
"""


def test_two_processes_train_the_same_files_whatever_the_order_of_hash_tables_and_the_threads():
    answers = []
    for seed, threads in (("1", "1"), ("2", "4")):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        command = [sys.executable, "-c", TRAIN, SAMPLES]
        done = subprocess.run(command, capture_output=True, env=environment, cwd=ROOT, text=True)
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)
    assert answers[0] == answers[1] and len(answers[0].splitlines()) == 5


def test_chinese_pieces_with_an_end_of_word_lose_no_character():
    tokenizer = train_tokenizer("bpe", open_corpus(SAMPLES, "zh"), 2000)
    text = pathlib.Path(SAMPLES).read_text(encoding="utf-8")
    assert tokenizer.vocabulary[UNKNOWN] not in tokenizer.encode(text).ids
    assert "的</w>" in tokenizer.vocabulary and "的" not in tokenizer.vocabulary  # it never goes on


def test_chinese_words_are_found_by_jieba():
    tokenizer = train_tokenizer("words", open_corpus(SAMPLES, "zh"), 700)
    assert tokenizer.segmenter == "jieba"
    assert any(len(token) > 1 for token in tokenizer.vocabulary.tokens[5:])


def grouped(tokenizer, text):
    found = []
    pieces = tokenizer.encode(text)
    for (first, end), start in zip(pieces.spans, pieces.word_start, strict=True):
        found.append(text[first:end]) if start else found.append(found.pop() + text[first:end])
    return [word.strip() for word in found]  # `▁` alone covers the blank before its word


def test_sentence_pieces_tell_words(trained):
    tokenizer = trained["sentencepiece"]
    assert grouped(tokenizer, "The keeper, walked  unaffordable") == ["The", "keeper", ",", "walked", "unaffordable"]
    assert grouped(tokenizer, "Don't") == ["Don't"]  # a letter is unknown, which tells nothing
    text = "使用语言模型"
    chinese = train_tokenizer("sentencepiece", open_corpus(SAMPLES, "zh"), 1400)
    starts = words.align(chinese.encode(text), words.segmenter("jieba")(text))
    assert starts is None or starts[0] == 1
    assert set(grouped(chinese, "我们今天去公园")) <= {*"我们今天去公园", *chinese_pieces(chinese)}


@pytest.mark.parametrize(
    ("piece", "opens"),
    [("▁cat", True), ("s", False), ("é", False), ("дорога", False), (",", True), ("...", False), ("9", True), ("100,", True),
     ("'t", True), ("<br", True), ("，", True), ("a.b", False)],
)  # fmt: skip
def test_pieces_open_words_as_in_alberts_script(piece, opens):
    """But for letters outside of a to z, of which there each piece opens one."""
    assert opens_word(piece) == opens


def chinese_pieces(tokenizer):
    return {token.removeprefix("▁") for token in tokenizer.vocabulary.tokens}


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
    | st.text("the ``''9,éİΣ½ \u0301\n", max_size=30)
)
@settings(max_examples=200, deadline=None)
def test_spans_of_sentence_pieces_lie_in_order_inside_the_text_however_it_is_cleaned(trained, text):
    for options in ({}, {"do_lower_case": True, "keep_accents": False, "clean": True, "part_digits": True}):
        pieces = SentencePieceTokenizer(trained["sentencepiece"].model, **options).encode(text)
        assert len(pieces.ids) == len(pieces.spans) == len(pieces.word_start)
        assert pieces.word_start[:1] in ([], [1])
        previous = 0
        for first, end in pieces.spans:
            assert previous <= first <= end <= len(text)
            previous = first


def test_spans_of_cleaned_text_show_the_original(trained):
    tokenizer = SentencePieceTokenizer(
        trained["sentencepiece"].model, do_lower_case=True, keep_accents=False, clean=True
    )
    assert grouped(tokenizer, "  The\n  Cafés,\u3000Harbour ") == ["The", "Cafés", ",", "Harbour"]
    assert tokenizer.preprocess("  The\n ``Cafés'' ΟΔΟΣ ")[0] == 'the "cafes" οδος'


def test_a_comma_after_a_digit_is_a_piece_of_its_own(english):
    text = "9,\n" * 60 + "8, 9, 7,\n" * 60
    path = pathlib.Path(english).parent / "digits.txt"
    path.write_text(text)
    whole = train_tokenizer("sentencepiece", open_corpus(str(path), "en"), 16)
    joined = [t for t in whole.vocabulary.tokens if t.endswith(",") and t[-2:-1].isdigit()]
    assert joined, "the model learned no such piece, so nothing is tested"
    parted = SentencePieceTokenizer(whole.model, part_digits=True)
    pieces = parted.encode("9, 9,")
    tokens = [parted.vocabulary.tokens[i] for i in pieces.ids]
    assert not set(tokens) & set(joined)
    assert [("9, 9,"[a:b]) for a, b in pieces.spans if a < b] == ["9", ",", "9", ","]


@pytest.mark.parametrize(
    "kind, options, message",
    [
        ("byte_bpe", {"size": 200}, "--vocab_size=200: too small; the bytes and special tokens alone are 261"),
        ("bpe", {"size": 20}, "--vocab_size=20: too small"),
        ("sentencepiece", {"size": 3}, "the characters alone are more than"),
        ("sentencepiece", {"size": 90, "min_frequency": 2}, "--min_frequency: SentencePiece"),
        ("characters", {"size": 6}, "--vocab_size=6: too small"),
        ("words", {"size": 5}, "--vocab_size=5: too small"),
        ("unigram", {"size": 90}, "--tokenizer=unigram: unknown. Known: wordpiece"),
    ],
)
def test_sizes_that_cannot_be_are_refused(english, kind, options, message):
    with pytest.raises(UsageError, match=message):
        train_tokenizer(kind, open_corpus(english, "en"), **options)


def test_sentence_pieces_end_where_the_text_has_no_more(english):
    assert 60 < len(train_tokenizer("sentencepiece", open_corpus(english, "en"), 10**6).vocabulary) < 1000


def test_the_report_counts_what_is_lost_and_what_is_dead():
    tokenizer = CharacterTokenizer(Vocabulary([*SPECIAL_TOKENS, "▁", *"abz"]))
    report = vocabulary_report(tokenizer, ["ab cc", "b dc"])
    assert (report.tokens, report.unknown, report.size) == (9, 4, 9)
    assert report.lost == [("c", 3), ("d", 1)] and report.dead == ["z"]
    assert report.words == 6  # ab, cc, b, dc and two blanks
    assert "44.444% of them unknown" in str(report) and "c (3) d (1)" in str(report)
    assert "entries never used: 1 of 9 (11.1%), such as z" in str(report)


JOB = {"language": "en", "input_format": "auto", "do_lower_case": None, "min_frequency": None, "overwrite": False}


@pytest.mark.parametrize(
    "kind, name, files",
    [
        ("byte_bpe", "voc", ["merges.txt", "tokenizer_config.json", "vocab.json"]),
        ("sentencepiece", "voc", ["spiece.model", "tokenizer_config.json"]),
        ("words", "voc", ["tokenizer_config.json", "vocab.txt"]),
        ("bpe", "my-vocab.json", ["my-merges.txt", "my-vocab.json"]),
        ("sentencepiece", "my.model", ["my.model"]),
        ("characters", "my.txt", ["my.txt"]),
        ("wordpiece", "vocab.txt", ["vocab.txt"]),
    ],
)
def test_the_command_writes_files_that_open_again(english, tmp_path, capsys, kind, name, files):
    target = tmp_path / "out" / name
    job = {**JOB, "input_file": english, "output_file": str(target), "tokenizer": kind, "vocab_size": SIZES[kind]}
    train_vocabulary(Options(**job))
    assert sorted(p.name for p in (target if target.is_dir() else target.parent).iterdir()) == files
    output = capsys.readouterr().out
    assert "entries from 1 file(s)" in output and "a word" in output and "entries never used" in output
    tokenizer = open_tokenizer(str(target), "auto" if name != "my.txt" else kind)
    assert tokenizer.kind == kind and len(tokenizer.vocabulary) <= SIZES[kind]
    with pytest.raises(UsageError, match="exists. Choose another name or add --overwrite"):
        train_vocabulary(Options(**job))


def test_a_name_that_does_not_fit_the_kind_is_refused_before_the_work(english, tmp_path):
    job = {**JOB, "input_file": english, "vocab_size": 300}
    with pytest.raises(UsageError, match=r"--output_file=.*vocab.txt: a vocabulary of --tokenizer=byte_bpe is a file"):
        train_vocabulary(Options(**job, tokenizer="byte_bpe", output_file=str(tmp_path / "vocab.txt")))
    with pytest.raises(UsageError, match="Chinese words need their segmenter"):
        train_vocabulary(
            Options(**{**job, "language": "zh"}, tokenizer="words", output_file=str(tmp_path / "vocab.txt"))
        )


def test_text_without_words_makes_no_vocabulary(tmp_path):
    (tmp_path / "a.txt").write_text("\u200b\n\n" * 50, encoding="utf-8")
    with pytest.raises(DataError, match="holds no words to learn from"):
        train_vocabulary(Options(input_file=f"{tmp_path}/a.txt", output_file=f"{tmp_path}/vocab.txt", vocab_size=99))
    assert not (tmp_path / "vocab.txt").exists()


def test_sentinels_stand_behind_the_pieces_with_the_special_tokens_of_t5(english, tmp_path):
    flags = {"input_file": english, "tokenizer": "sentencepiece", "vocab_size": 90, "num_sentinels": 3}
    train_vocabulary(Options(**flags, output_file=str(tmp_path / "vocabulary")))
    tokens = open_tokenizer(str(tmp_path / "vocabulary")).vocabulary.tokens
    assert tokens[:3] == ["<pad>", "</s>", "<unk>"]
    assert tokens[-3:] == ["<extra_id_2>", "<extra_id_1>", "<extra_id_0>"]
    for wrong in (
        {"output_file": str(tmp_path / "spiece.model")},
        {"tokenizer": "bpe", "output_file": str(tmp_path / "b")},
    ):
        with pytest.raises(UsageError, match="num_sentinels=3"):
            train_vocabulary(Options(**{**flags, **wrong}))


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_a_fault_of_the_text_is_told_as_such(kind, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"id": 1, "body": "A text."}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"^.*texts.jsonl, line 1: no field named text"):
        train_tokenizer(kind, open_corpus(str(path), "en"), SIZES[kind])
