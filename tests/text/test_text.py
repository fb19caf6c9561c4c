"""Vocabularies, sentences, words, the vocabulary trainer and labelled tables. No TensorFlow in the code under test."""

import collections
import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import pytest

from data_pipelines.corpora import encodings
from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.corpora.documents import Document
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.errors import DataError, UsageError
from data_pipelines.pretraining.stages import chunks, word_cache
from data_pipelines.pretraining.stages import tokenize as tokenize_stage
from data_pipelines.pretraining.stages.tokenize import ids_of, mark, tokenize, word_starts_of
from data_pipelines.text import words
from data_pipelines.text.byte_pairs import BpeTokenizer, ByteBpeTokenizer
from data_pipelines.text.open_words import OpenWordTokenizer
from data_pipelines.text.plain_units import WordTokenizer
from data_pipelines.text.sentences import join_lines, split_chinese, split_english
from data_pipelines.text.train import train_wordpiece
from data_pipelines.text.train_kinds import train_tokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer

ROOT = pathlib.Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/tokenizers"
SAMPLES = ROOT / "samples/zh/corpus.txt"


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


TOKENS = [*SPECIAL_TOKENS, "a", "##a", "字"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "end"])
def test_a_vocabulary_reads_alike_whatever_its_line_ends_and_byte_order_mark(tmp_path, line_end, bom, last):
    path = write(tmp_path / "vocab.txt", bom + line_end.join(TOKENS) + (line_end if last else ""))
    vocabulary = Vocabulary.read(path)
    assert vocabulary.tokens == TOKENS
    assert vocabulary["[PAD]"] == 0 and vocabulary["字"] == 7 and len(vocabulary) == 8
    assert "字" in vocabulary and "词" not in vocabulary
    assert vocabulary.sha256 == Vocabulary(TOKENS).sha256 != Vocabulary([*TOKENS, "b"]).sha256


def test_a_vocabulary_writes_what_it_reads(tmp_path):
    tokens = [*TOKENS, "", " ", "\u3000", "\u2028"]  # odd, but they keep the ids of the lines behind them
    path = write(tmp_path / "vocab.txt", "\n".join([*tokens, "last"]))
    assert Vocabulary.read(path).tokens == [*tokens, "last"]
    assert Vocabulary.read(write(tmp_path / "again.txt", Vocabulary.read(path).text())).tokens == [*tokens, "last"]


def test_missing_special_tokens_are_listed(tmp_path):
    path = write(tmp_path / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\nword\n")
    with pytest.raises(DataError, match=r"lacks \[SEP\], \[MASK\];") as caught:
        Vocabulary.read(path)
    assert path in str(caught.value)
    with pytest.raises(DataError, match=r"lacks \[MASK\];"):
        Vocabulary([token for token in TOKENS if token != "[MASK]"])


def test_an_empty_vocabulary_lacks_all_special_tokens(tmp_path):
    with pytest.raises(DataError, match=r"\[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"):
        Vocabulary.read(write(tmp_path / "vocab.txt", ""))


def test_a_token_that_stands_twice_is_named_with_both_lines(tmp_path):
    path = write(tmp_path / "vocab.txt", "\n".join([*TOKENS, "b", "a"]))
    with pytest.raises(DataError, match="line 6: the token 'a' stands again on line 10") as caught:
        Vocabulary.read(path)
    assert path in str(caught.value)


def test_a_vocabulary_that_is_not_utf8_or_not_there_is_named(tmp_path):
    path = write(tmp_path / "vocab.txt", "\n".join(TOKENS).encode("gb18030"))
    with pytest.raises(DataError, match="not valid UTF-8") as caught:
        Vocabulary.read(path)
    assert path in str(caught.value)
    with pytest.raises(DataError, match="no such vocabulary file"):
        Vocabulary.read(str(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. Smith went to Washington.", "He met Dr. J. R. Jones there."],
        ['He said "Go!"', "Then he left."],
        ["“Hello.”", "She smiled."],
        ["Wait...", "What?!", "No!"],
        ["See Fig. 3 and vol. 12 for details.", "(It is big.)", "Next."],
        ["It costs $3.50 today.", "5 people came at 2.30."],
        ["Use e.g. Python, i.e. The language.", 'It said "No."', "(Really?)", "Yes."],
        ["the end. but no capital follows"],
        ["no full stop"],
        ["..."],
        ["Cats, dogs, etc. Are here."],
        ["(See St. Paul.)", "He did."],
        ["We met at 5 p.m. on Monday.", "It rained in the U.S. Army camp of Ft. Bragg."],
        ["She left the U.S.", "The others stayed until 5 p.m.", "He took a Ph.D. Nobody cared."],
        ["He said no.", "She said no. 5 is mine."],
        ["So do I.", "He agreed with J. Smith."],
        ["1. Stir well.", "2. Serve at once."],
        [
            "See http://a.org/B.C?d=E. for version 2.0.1 of it.",
            "Écrit en France.",
            "«Oui.»",
            "It ended…",
            "Then it began.",
        ],
    ],
)
def test_english_text_splits_into_sentences(sentences):
    assert split_english("  " + "  ".join(sentences) + "\n") == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["今天天气很好。", "我们去公园吧！", "好吗？"],
        ["他说：“走！”", "然后离开了。"],
        ["他说“走！”。", "她没动。"],
        ["真的吗？！", "是的……", "我不知道。"],
        ["（他来了。）", "她走了。"],
        ["他说：“我知道（其实不知道。）”", "然后走了。"],
        ["「好。」", "『不好。』", "【完。】"],
        ["好！！！", "“是吗？”", "她问。"],
        ["A股上涨3.5%。", "T恤很贵!", "Really?", "是"],
        ["没有句号"],
        ["见http://a.cn/?id=1&b=2。", "Yahoo!7和圆周率3.14都在。"],
        ['他说:"走!"', '她答:"好?"', "然后离开了。"],
        ["第一句. ", "第二句."],
        ["他……", "她……！”", "完了。。。"],
        ["。"],
    ],
)
def test_chinese_text_splits_into_sentences(sentences):
    assert split_chinese("".join(sentences)) == [sentence.strip() for sentence in sentences]


def test_no_text_has_no_sentences():
    for text in ("", " ", "\n\u3000"):
        assert split_english(text) == split_chinese(text) == []


@pytest.mark.parametrize("split", [split_english, split_chinese])
def test_splitting_loses_no_character(split):
    rng = random.Random(0)
    for _ in range(2000):
        text = "".join(rng.choices("ab 。！？…”’」）“（.!?\"') AB1字，", k=rng.randint(0, 40)))
        assert "".join("".join(split(text)).split()) == "".join(text.split())
        assert all(sentence == sentence.strip() != "" for sentence in split(text))


@pytest.mark.parametrize("text", [".", "A. ", ".)", "! ", ". \u3000", "。", "！”", "字"])
@pytest.mark.parametrize("split", [split_english, split_chinese])
def test_a_megabyte_of_anything_splits_in_linear_time(split, text):
    whole = text * (500_000 // len(text))
    parts = split(whole)  # quadratic, this takes an hour
    assert sum(map(len, parts)) <= len(whole)


def test_hard_wrapped_lines_join_as_the_language_writes():
    assert join_lines([" one two ", "three"], "en") == "one two three"
    assert join_lines([" 一二 ", "三"], "zh") == "一二三"


def tokenizer_for(*texts, do_lower_case=True):
    characters = sorted({c for text in texts for c in text.lower() if not c.isspace()})
    continued = [f"##{c}" for c in characters if c.isascii() and c.isalnum()]
    return WordPieceTokenizer(Vocabulary([*SPECIAL_TOKENS, *characters, *continued]), do_lower_case)


def aligned(text, name, tokenizer=None):
    tokenizer = tokenizer or tokenizer_for(text)
    pieces = tokenizer.encode(text)
    starts = words.align(pieces, words.segmenter(name)(text))
    if starts is None:
        return None
    found = []
    for i, start in zip(pieces.ids, starts, strict=True):
        token = tokenizer.vocabulary.tokens[i].removeprefix("##")
        if start:
            found.append(token)
        else:
            found[-1] += token
    return found


def test_jieba_finds_the_words_of_the_example_in_the_paper():
    text = "使用语言模型来预测下一个词的概率"
    assert aligned(text, "jieba") == ["使用", "语言", "模型", "来", "预测", "下", "一个", "词", "的", "概率"]
    starts = words.align(tokenizer_for(text).encode(text), words.segmenter("jieba")(text))
    assert starts[:6] == [1, 0, 1, 0, 1, 0]


def test_words_of_latin_letters_and_characters_are_one_group():
    assert aligned("他买了A股和T恤", "jieba") == ["他", "买", "了", "a股", "和", "t恤"]


def test_the_pieces_of_a_latin_word_stay_together_in_chinese_text():
    text = "苹果发布iPhone15"
    assert aligned(text, "jieba") == ["苹果", "发布", "iphone15"]


def test_blanks_around_words_do_not_matter():
    assert aligned("  使用\u3000 语言\t模型 ", "jieba") == ["使用", "语言", "模型"]


def test_presegmented_text_has_the_words_between_its_blanks():
    assert aligned("使用 语言模型  来 预测T恤", "presegmented") == ["使用", "语言模型", "来", "预测t恤"]


def test_an_unknown_piece_keeps_its_place_in_the_word():
    text = "使用语言模型"
    tokenizer = tokenizer_for("使用言模型")
    assert aligned(text, "jieba", tokenizer) == ["使用", "[UNK]言", "模型"]


def test_characters_that_normalising_drops_do_not_shift_the_words():
    text = "使\u200b用语\u0301言\ufffd模型"
    pieces = tokenizer_for("使用语言模型").encode(text)
    numbers = [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert words.align(pieces, numbers) == [1, 0, 1, 0, 1, 0]


def test_a_piece_that_covers_two_words_is_a_disagreement():
    text = "我喝café吧"  # jieba parts é from caf; here [UNK] covers the whole word
    assert aligned(text, "jieba", tokenizer_for("我喝吧")) is None


def test_unknown_segmenters_list_the_known_ones_and_none_is_none():
    assert words.segmenter("none") is None
    with pytest.raises(UsageError, match="Known: jieba, .*presegmented, .*none"):
        words.segmenter("ltp2")


def test_the_manifest_learns_the_version_of_the_segmenter():
    described = words.describe("jieba")
    assert described["segmenter"] == "jieba" and re.fullmatch(
        r"rjieba [\d.]+ jieba [\d.]+", described["segmenter_version"]
    )
    assert words.describe("none") == {"segmenter": "none", "segmenter_version": None, "lexicon_sha256": None}


def test_sentences_whose_words_and_pieces_disagree_fall_back_to_the_pieces_and_are_counted():
    tokenizer = tokenizer_for("使用语言模型我喝吧")
    counts = collections.Counter()
    documents = [Document(["使用语言模型", "我喝café吧"], "x"), Document(["\u200b"], "x"), Document(["模型用言"], "x")]
    first, second = tokenize(tokenizer, words.segmenter("jieba"), counts)(iter(documents))
    assert word_starts_of(first.marked).tolist() == [1, 0, 1, 0, 1, 0, 1, 1, 1, 1] and first.bounds == [0, 6, 10]
    assert ids_of(second.marked).tolist() == tokenizer.encode("模型用言").ids and second.bounds == [0, 4]
    assert counts == {
        "documents": 2, "sentences": 3, "tokens": 14, "unknown_tokens": 1, "misaligned_sentences": 1,
    }  # fmt: skip


def test_without_a_segmenter_the_pieces_tell_the_words():
    tokenizer = tokenizer_for("ab")
    (document,) = tokenize(tokenizer, None, collections.Counter())(iter([Document(["ab b aab"], "x")]))
    assert word_starts_of(document.marked).tolist() == [1, 0, 1, 1, 0, 0]


WORDS = Vocabulary([*SPECIAL_TOKENS, *"a b ab abc ba é be 今 气 , . '".split()])
CACHED = {
    "words": lambda lower: WordTokenizer(WORDS, lower),
    "words parted by blanks": lambda lower: WordTokenizer(WORDS, lower, "presegmented"),
    "words with characters": lambda lower: OpenWordTokenizer(WORDS, lower),
    "word pieces": lambda lower: tokenizer_for("abcdeABé今天气ab,.!的", do_lower_case=lower),
    "byte BPE": lambda lower: ByteBpeTokenizer.read(f"{GOLDEN}/byte_bpe_vocab.json", do_lower_case=lower),
    "byte BPE, blank in front": lambda lower: ByteBpeTokenizer.read(
        f"{GOLDEN}/byte_bpe_vocab.json", do_lower_case=lower, add_prefix_space=True
    ),
    "BPE": lambda lower: BpeTokenizer.read(f"{GOLDEN}/char_bpe_vocab.json", do_lower_case=lower),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("kind", CACHED)
def test_the_cache_of_words_gives_the_pieces_of_whole_sentences(kind, lower, monkeypatch):
    """Also where control characters, rare blanks, accents and scripts meet, and when the cache is emptied."""
    monkeypatch.setattr(tokenize_stage, "TOGETHER", 1 << 12)
    monkeypatch.setattr(chunks, "CACHED_PIECES", 1 << 12)
    monkeypatch.setattr(word_cache, "ENTRIES", 1 << 10)
    rng = random.Random(0)
    tokenizer = CACHED[kind](lower)
    assert tokenizer.chunks or tokenizer.parts_at_blanks or tokenizer.drops_blanks
    everything = [chr(c) for c in range(1, 0x30000, 5) if not 0xD800 <= c < 0xE000]
    often = list("abcABé今天气,.!-_' \t\u0301\u3000\x85\u2028\xa0\u200b") * 400
    sentences = ["".join(rng.choices(everything + often, k=rng.randint(1, 14))) for _ in range(4000)]
    sentences += [
        " ".join("".join(rng.choices("abI'ts,.12é今", k=rng.randint(1, 6))) for _ in range(6)) for _ in range(500)
    ]
    documents = tokenize(tokenizer, None, collections.Counter())(iter(Document([s], "x") for s in sentences))
    found = [pieces.marked.tolist() for pieces in documents]
    expected = [tokenizer.encode(s) for s in sentences]
    assert found == [mark(p.ids, p.word_start).tolist() for p in expected if p.ids]


TRAIN = """
import sys
from data_pipelines.corpora import encodings
from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.text.train import train_wordpiece
path, language, size = sys.argv[1:]
sys.stdout.buffer.write(train_wordpiece(open_corpus(path, language), int(size)).text().encode())
"""


def train_in_process(path, language, size, hash_seed):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", TRAIN, str(path), language, str(size)]
    done = subprocess.run(command, capture_output=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return Vocabulary(done.stdout.decode().splitlines())


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    rng = random.Random(0)
    stems, ends = ["walk", "talk", "jump", "read", "sing", "unaffordab"], ["", "ed", "ing", "er", "s", "le"]
    lines = [" ".join(rng.choice(stems) + rng.choice(ends) for _ in range(9)) + "." for _ in range(400)]
    path = tmp_path_factory.mktemp("english") / "corpus.txt"
    path.write_text("\n".join(lines) + "\nÉté Øre\n")
    return path


@pytest.mark.parametrize("language", ["zh", "en"])
def test_two_processes_train_the_same_vocabulary(language, english):
    path, size = (SAMPLES, 1300) if language == "zh" else (english, 120)
    one, two = (train_in_process(path, language, size, hash_seed) for hash_seed in ("1", "2"))
    assert one.tokens == two.tokens
    assert len(one) <= size
    assert one.tokens[:5] == list(SPECIAL_TOKENS)


def is_cjk(character):
    return "\u4e00" <= character <= "\u9fff"


def test_a_chinese_vocabulary_holds_every_character_alone_and_none_that_continues(zh_vocabulary):
    vocabulary = Vocabulary.read(zh_vocabulary)
    characters = {c for c in SAMPLES.read_text(encoding="utf-8") if is_cjk(c)}
    assert characters <= set(vocabulary.tokens)
    assert [t for t in vocabulary.tokens if len(t) > 1 and any(map(is_cjk, t))] == []


def test_an_english_vocabulary_learns_the_stems_and_spells_the_rest(english):
    vocabulary = train_wordpiece(open_corpus(str(english), "en"), 150)
    assert {"walk", "##ing", "##ed"} <= set(vocabulary.tokens)
    assert len(vocabulary) <= 150
    tokenizer = WordPieceTokenizer(vocabulary)
    assert tokenizer.encode("walking walked").ids.count(vocabulary["[UNK]"]) == 0


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "bpe"])
def test_endless_words_are_left_out_of_training_and_said(tmp_path, kind, capsys):
    fine = "The quick brown fox, 今天很好。\n" * 20
    text = f"{fine}{'xyz' * 300_000} tail\n{fine}{'漢字' * 150_000}\n"
    corpus = open_corpus(write(tmp_path / "a.txt", text), "en", "sentences")
    begin = time.process_time()
    trained = train_tokenizer(kind, corpus, 330)
    assert time.process_time() - begin < 5  # the square of 900,000 takes hours
    assert "a word of 900,000 characters is left out" in capsys.readouterr().err
    if kind != "byte_bpe":
        pieces = {piece.removesuffix("</w>") for piece in trained.vocabulary.ids}
        assert {"quick", "漢", "字"} <= pieces


def test_cased_vocabularies_keep_capitals_and_accents(english):
    path = write(pathlib.Path(english).parent / "cased.txt", "Été été Été été\n" * 3 + "word word\n" * 20)
    cased = train_wordpiece(open_corpus(path, "en"), 60, do_lower_case=False)
    uncased = train_wordpiece(open_corpus(path, "en"), 60)
    assert {"É", "é"} & {c for token in cased.tokens for c in token}
    assert not {"É", "é"} & {c for token in uncased.tokens for c in token}


def test_rare_characters_make_room_where_the_vocabulary_is_small(tmp_path):
    text = "".join(chr(0x4E00 + i) * (400 - i) for i in range(300))
    path = write(tmp_path / "corpus.txt", "\n".join(text[i : i + 50] for i in range(0, len(text), 50)))
    vocabulary = train_wordpiece(open_corpus(path, "zh"), 105)
    assert vocabulary.tokens[5:] == [chr(0x4E00 + i) for i in range(100)]


def test_a_vocabulary_too_small_for_anything_is_refused(english):
    with pytest.raises(UsageError, match="--vocab_size=40: too small"):
        train_wordpiece(open_corpus(str(english), "en"), 40)


ROWS = [("good film", "1"), ("坏电影", "0")]
KINDS = {
    "tsv": lambda rows: "".join("\t".join(row) + "\n" for row in rows),
    "csv": lambda rows: "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows),
    "jsonl": lambda rows: "".join(json.dumps(dict(zip(rows[0], row, strict=True))) + "\n" for row in rows[1:]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_tables_read_alike_whatever_their_kind_and_line_ends(tmp_path, kind, packed, line_end, bom):
    data = (
        (bom + KINDS[kind]([("label", "id", "sentence"), *((b, "x", a) for a, b in ROWS)]))
        .replace("\n", line_end)
        .encode()
    )
    path = write(tmp_path / f"train.{kind}{packed}", gzip.compress(data) if packed else data)
    rows = read_table(path, Columns())
    assert [(row.texts, row.label) for row in rows] == [((text,), label) for text, label in ROWS]
    assert [row.line for row in rows] == ([1, 2] if kind == "jsonl" else [2, 3])
    assert [row.label for row in read_table(path, Columns(), with_labels=False)] == [None, None]


def test_columns_are_named_or_counted(tmp_path):
    path = write(tmp_path / "a.tsv", "q\tr\tgold\none\ttwo\tyes\n")
    assert read_table(path, Columns("q", "r", "gold")) == [Row(("one", "two"), "yes", 2)]
    assert read_table(path, Columns("r", None, "gold")) == [Row(("two",), "yes", 2)]
    by_position = read_table(path, Columns("1", "0", "2"))
    assert by_position == [Row(("r", "q"), "gold", 1), Row(("two", "one"), "yes", 2)]
    assert read_table(path, Columns("0"), with_labels=False)[1] == Row(("one",), None, 2)
    twice = write(tmp_path / "b.tsv", "text\tlabel\tlabel\none\tyes\tno\n")
    with pytest.raises(UsageError, match=r"b\.tsv: 2 columns are called 'label'.*--label_column"):
        read_table(twice, Columns())
    assert read_table(twice, Columns("0", None, "2"))[1] == Row(("one",), "no", 2)


def test_pairs_are_found_by_their_usual_names(tmp_path):
    path = write(tmp_path / "a.csv", 'sentence1,sentence2,label\n"a, b","say ""no""",1\n"two\nlines",c,0\n')
    assert [(r.texts, r.label) for r in read_table(path, Columns())] == [
        (("a, b", 'say "no"'), "1"),
        (("two\nlines", "c"), "0"),
    ]
    path = write(tmp_path / "a.jsonl", '{"premise": "a", "hypothesis": "b", "label": 1}\n')
    assert read_table(path, Columns()) == [Row(("a", "b"), "1", 1)]


def json_lines(bad):
    rows = [{"text": "a", "label": 1}, bad, {"text": "c", "label": 3}, {"text": "d", "label": 4}]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


BAD = [  # a table, the line of its row that cannot be used, and what is said of it
    ("a.csv", 'text,label\na,1\n"b,2\nc,3\nd,4\n', 3, "a quote opens in this row that nothing closes"),
    ("a.csv", 'text,label\na,1\n"b,2\nc,3\n"d",4\n', 3, "text stands behind a closing quote"),
    ("a.csv", "text,label\na,1\nb,\nc,3\nd,4\n", 3, "the label is empty"),
    ("a.tsv", "text\tlabel\na\t1\n \t2\nc\t3\nd\t4\n", 3, "the text is empty"),
    ("a.tsv", "text\tlabel\na\t1\nb\nc\t3\nd\t4\n", 3, "1 column"),
    ("a.jsonl", json_lines({"text": "b", "label": None}), 2, "the label is empty"),
    ("a.jsonl", json_lines({"text": ["b"], "label": 2}), 2, "field 'text' holds list"),
    ("a.jsonl", json_lines([]), 2, "expected a JSON object"),
]


@pytest.mark.parametrize(("name", "contents", "line", "says"), BAD)
def test_a_row_that_cannot_be_used_is_named_or_left_out_alone(tmp_path, name, contents, line, says):
    path = write(tmp_path / name, contents)
    with pytest.raises(DataError, match=f"line {line}: {says}"):
        read_table(path, Columns())
    bad_rows = []
    rows = read_table(path, Columns(), bad_rows=bad_rows)
    assert [(row.texts, row.label) for row in rows] == [(("a",), "1"), (("c",), "3"), (("d",), "4")]
    assert len(bad_rows) == 1 and f"line {line}: {says}" in str(bad_rows[0])


def test_a_refusal_counts_all_rows_that_cannot_be_used(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel\na\t1\nb\nc\t3\nd\t\n")
    with pytest.raises(DataError, match="line 3: 1 column.* 2 of 4 rows cannot be used, also line 5. Mend the row"):
        read_table(path, Columns())


def test_a_text_without_label_may_be_empty(tmp_path):
    path = write(tmp_path / "a.tsv", "text\n\n \nb\n")
    assert [row.texts[0] for row in read_table(path, Columns(), with_labels=False)] == [" ", "b"]


def test_quotes_in_tsv_are_text(tmp_path):
    path = write(tmp_path / "a.tsv", 'text\tlabel\n"open\t1\n\nclosed"\t0\n')
    assert [(row.texts[0], row.label) for row in read_table(path, Columns())] == [('"open', "1"), ('closed"', "0")]


@pytest.mark.parametrize(
    ("name", "contents", "columns", "error", "says"),
    [
        ("a.tsv", "text\tlabel\nfine\t1\nno label\n", Columns(), DataError, "line 3: 1 column"),
        ("a.tsv", "fine\t1\nno label\n", Columns("0", None, "1"), DataError, "line 2: 1 column"),
        ("a.tsv", "words\tlabel\nfine\t1\n", Columns(), UsageError, "words, label"),
        ("a.tsv", "text\tstars\nfine\t1\n", Columns(), UsageError, "--label_column"),
        ("a.tsv", "text\tlabel\nfine\t1\n", Columns(text_pair="other"), UsageError, "'other'"),
        ("a.tsv", "fine\t1\n", Columns(label="1"), UsageError, "--text_column"),
        ("a.tsv", "", Columns(), DataError, "no rows"),
        ("a.tsv", "text\tlabel\n", Columns(), DataError, "no rows"),
        ("a.jsonl", "\n", Columns(), DataError, "no rows"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', Columns(), DataError, "line 2: not JSON"),
        ("a.jsonl", '{"text": "a", "label": 1}\n["a", 1]\n', Columns(), DataError, "line 2: expected a JSON object"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', Columns(), DataError, "line 2: no field 'label'"),
        ("a.jsonl", '{"body": "a", "label": 1}\n', Columns(), UsageError, "body, label"),
        (
            "a.tsv",
            "text\tlabel\n很好\t1\n".encode("gb18030"),
            Columns(),
            DataError,
            "line 2: not valid UTF-8 at byte 1 of the line (0xba). It looks like gb18030: add --encoding=gb18030",
        ),
        ("a.tsv", "text\tlabel\n" + "x" * 1_100_000 + "\t1\n", Columns(), DataError, "line 2"),
        ("a.parquet", "PAR1", Columns(), UsageError, ".tsv, .csv, .jsonl"),
        ("a.tsv.gz", "text\tlabel\nnot packed\t1\n", Columns(), DataError, "no compressed data"),
        ("a.tsv.gz", gzip.compress(b"text\tlabel\n" * 1000, mtime=0)[:-20], Columns(), DataError, "cut or damaged"),
        (
            "a.tsv.gz",
            gzip.compress(random.Random(0).randbytes(9999), mtime=0)[:40] + b"\xff" * 999,
            Columns(),
            DataError,
            "",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_name(tmp_path, name, contents, columns, error, says):
    path = write(tmp_path / name, contents)
    with pytest.raises(error) as caught:
        read_table(path, columns)
    assert says in str(caught.value)
    if says != "--text_column":
        assert path in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "gb18030"])
def test_tables_of_other_encodings_are_named_and_read_on_demand(tmp_path, encoding):
    path = write(tmp_path / "a.csv", '文,label\r\n"今天, 很好\n的",1\r\n'.encode(encoding))
    with pytest.raises(DataError, match=f"a.csv, line 1: .*--encoding={encoding}"):
        read_table(path, Columns("文"))
    with encodings.assume(encoding):
        assert read_table(path, Columns("文"))[0].texts == ("今天, 很好\n的",)
    assert encodings.assumed_encoding() == "utf-8"


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(DataError, match="none.tsv: no such file"):
        read_table(str(tmp_path / "none.tsv"), Columns())


def test_words_of_a_segmenter_are_marked_at_once_as_one_sentence_after_the_other():
    """Batches through the table and the cache, against pieces aligned by their spans."""
    rng = random.Random(1)
    tokenizer = tokenizer_for("使用语言模型我喝吧一二三ab12的是在")
    alphabet = list("使用语言模型我喝吧一二三的是在" * 3 + "abcé123 ,。\u0301\u3000\u200b\ue000")
    sentences = ["".join(rng.choices(alphabet, k=rng.randint(0, 12))) for _ in range(1500)]
    for name in ("jieba", "presegmented"):
        segment = words.segmenter(name)
        expected, disagreements = [], 0
        for text in sentences:
            pieces = tokenizer.encode(text)
            starts = words.align(pieces, segment(text))
            disagreements += starts is None
            if pieces.ids:
                expected.append(mark(pieces.ids, pieces.word_start if starts is None else starts).tolist())
        counts = collections.Counter()
        documents = list(tokenize(tokenizer, segment, counts)(iter([Document([s], "x") for s in sentences])))
        assert [document.marked.tolist() for document in documents] == expected
        assert counts["misaligned_sentences"] == disagreements
        assert name != "jieba" or disagreements > 5
