"""Words, phrases and entities: segmenters agree with their originals, lexicons match longest, units align with pieces."""

import collections
import gzip
import pathlib
import random
import sys
import types

import pytest

from data_pipelines.corpora.documents import Document
from data_pipelines.errors import DataError, UsageError
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.pretraining.stages.tokenize import ids_of, starts_of, tokenize
from data_pipelines.text import plain_units, words
from data_pipelines.text.lexicon import Lexicon
from data_pipelines.text.tokenizer import Pieces
from tests.helpers.samples import SHARED
from tests.pretraining.test_pretraining_data import SAMPLES, chinese, examples_of
from tests.text.test_text import tokenizer_for

ROOT = pathlib.Path(__file__).parents[2]


def lexicon(tmp_path, *entries, name="lexicon.txt"):
    path = tmp_path / name
    path.write_text("\n".join(entries), encoding="utf-8")
    return str(path)


def cut(segment, text):
    """The words of a text by a segmenter."""
    found = []
    for number, character in zip(segment(text), text, strict=True):
        if number == len(found):
            found.append("")
        found[-1] += character
    return found


@pytest.fixture(scope="module")
def both():
    """(jieba as published, ours)"""
    return words.python_jieba(None), words.fast_jieba(None)


def test_our_jieba_is_jieba_on_the_samples(both):
    lines = [line for path in (ROOT / "samples/zh").glob("*.txt") for line in path.read_text().splitlines()]
    assert len(lines) > 2000
    for line in lines:
        assert both[0](line) == both[1](line)


@pytest.mark.parametrize(
    "text",
    ["10.4.11和4150-4160", "mount_udf里inside-out", "DVD-RW，0757-8300转8", "C++与c#，100%是AT&T的3.5%", "他,she 说\u3000hi\r\n\t嗯",
     "㐀𠀀々〇ー한국어", "é café ñ", "", " ", "。。。——……", "-", "a.b.c在.5"],
)  # fmt: skip
def test_our_jieba_is_jieba_where_the_implementations_differ(both, text):
    assert both[0](text) == both[1](text)


def test_our_jieba_is_jieba_on_random_mixtures(both):
    rng = random.Random(0)
    for _ in range(1500):
        text = "".join(rng.choices("中国人民大学生活动物理想象棋盘 ,。aB1.5-_+#&%\n\u3000々é", k=rng.randrange(30)))
        assert both[0](text) == both[1](text)


@pytest.mark.shared_data
def test_our_jieba_is_jieba_on_web_text(both):
    with gzip.open(SHARED / "data/lm/cluecorpussmall-zh/docs.txt.gz", "rt", encoding="utf-8") as file:
        for line in list(file)[:300]:
            assert both[0](line) == both[1](line)


@pytest.mark.parametrize("name", ["jieba", "jieba_python"])
def test_a_lexicon_adds_words_to_jieba(tmp_path, name):
    path = lexicon(tmp_path, "石墨烯量子点", "网易杭研大厦 5 n")
    assert cut(words.segmenter(name, path), "石墨烯量子点在网易杭研大厦") == ["石墨烯量子点", "在", "网易杭研大厦"]
    assert cut(words.segmenter(name), "石墨烯量子点")[0] == "石墨"


def test_a_lexicon_alone_matches_the_longest_and_cuts_no_latin_word(tmp_path):
    path = lexicon(tmp_path, "\ufeff# a comment", "中国", "中国人民 \t12", "人民大学", "ai", "New York", "x")
    segment = words.segmenter("lexicon", path)
    assert cut(segment, "中国人民大学AI的xai") == ["中国人民", "大", "学", "AI", "的", "xai"]
    assert cut(segment, "in new york, X") == ["in", " ", "new york", ",", " ", "X"]
    assert Lexicon(path).matches("中国中国人") == [(0, 2), (2, 4)]
    assert Lexicon(path).entries["中国人民"] == 12 and len(Lexicon(path)) == 6


def test_characters_of_running_text_keep_the_blanks_between_sentences():
    from data_pipelines.text.plain_units import SPACE, CharacterTokenizer
    from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary

    tokenizer = CharacterTokenizer(Vocabulary([*SPECIAL_TOKENS, SPACE, *"abc."]))
    documents = [Document(["a b.", "c."], "here")]
    (tokens,) = tokenize(tokenizer, None, collections.Counter(), blank=tokenizer.blank)(iter(documents))
    assert tokenizer.decode(ids_of(tokens.marked).tolist()) == "a b. c."
    # The blank between sentences belongs to the word behind it, as in byte BPE.
    assert starts_of(tokens.marked, "word_start").tolist() == [1, 1, 1, 1, 1, 0, 1]
    assert CharacterTokenizer(Vocabulary([*SPECIAL_TOKENS, *"abc."])).blank == ""


def test_phrases_hold_numbers_and_a_tab_parts_them_from_a_frequency(tmp_path):
    path = lexicon(tmp_path, "Apollo 11", "World War 2 memorial\t7", "Boeing 747 \t 3 nz", "# 1")
    known = Lexicon(path, "--entity_lexicon", has_phrases=True)
    assert known.entries == {"Apollo 11": None, "World War 2 memorial": 7, "Boeing 747": 3}
    with pytest.raises(DataError, match=r"line 1: .* expected a phrase, or a phrase, a tab and its frequency"):
        Lexicon(lexicon(tmp_path, "Apollo\t11 times\t2"), "--entity_lexicon", has_phrases=True)


def test_the_longest_match_is_that_of_a_plain_search(tmp_path):
    rng = random.Random(0)
    entries = {"".join(rng.choices("甲乙丙丁", k=rng.randint(1, 5))) for _ in range(60)}
    known = Lexicon(lexicon(tmp_path, *entries))
    for _ in range(300):
        text = "".join(rng.choices("甲乙丙丁戊", k=20))
        expected, place = [], 0
        while place < len(text):
            longest = max((n for n in range(6) if text[place : place + n] in entries and place + n <= 20), default=0)
            if longest:
                expected.append((place, place + longest))
            place += longest or 1
        assert known.matches(text) == expected


def test_lexicons_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    for path, says in (("nowhere", "no such file"), ("latin.txt", "not valid UTF-8 at byte 0"), ("empty", "no entry")):
        (tmp_path / "empty").write_text("# nothing\n")
        with pytest.raises(DataError, match=f"--lexicon=.*{path}: .*{says}"):
            Lexicon(str(tmp_path / path))


@pytest.mark.parametrize(
    "name, lexicon, says",
    [("lexicon", "", "--lexicon=FILE"), ("presegmented", "x", "does not use one"), ("ltp:/nowhere", "", "no such folder"),
     (":", "", "cannot be imported"), (".json:loads", "", "cannot be imported"),
     ("json:nothing", "", "cannot be imported"), ("no_such_module:f", "", "cannot be imported"), ("sys:path", "", "a list, not")],
)  # fmt: skip
def test_segmenters_that_cannot_work_say_what_is_missing(name, lexicon, says):
    with pytest.raises(UsageError, match=says):
        words.segmenter(name, lexicon)


def test_ltp_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ltp", None)
    with pytest.raises(UsageError, match=r"pip install 'xmodels\[ltp\]'"):
        words.segmenter(f"ltp:{tmp_path}")


def test_ltp_reads_a_local_folder_only(tmp_path, monkeypatch):
    class Model:
        def __init__(self, folder, local_files_only):
            assert folder == str(tmp_path) and local_files_only

        def pipeline(self, texts, tasks):
            assert tasks == ["cws"]
            return types.SimpleNamespace(cws=[[text[i : i + 2] for i in range(0, len(text), 2)] for text in texts])

    monkeypatch.setitem(sys.modules, "ltp", types.SimpleNamespace(LTP=Model))
    assert cut(words.segmenter(f"ltp:{tmp_path}"), "一二三四五") == ["一二", "三四", "五"]


def test_a_function_of_the_user_gives_words_and_may_leave_out_blanks(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", types.SimpleNamespace(halves=str.split, wrong=lambda text: ["something"]))
    assert words.segmenter("mine:halves")("ab  cd e ") == [0, 0, 1, 1, 1, 1, 2, 2, 2]
    with pytest.raises(UsageError, match="'something', which does not follow in 'abc'"):
        words.segmenter("mine:wrong")("abc")


def test_a_match_is_one_unit_and_what_follows_opens_another():
    pieces = Pieces([0] * 6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (7, 8)], [1] * 6)
    starts = [1, 0, 1, 0, 0, 1]
    assert words.mark_units(pieces, starts, [(1, 3)]) == ([1, 1, 0, 1, 0, 1], 0)
    assert words.mark_units(pieces, starts, [(0, 2), (2, 6)]) == ([1, 0, 1, 0, 0, 1], 0)
    assert words.mark_units(pieces, starts, [(3, 5), (4, 8)]) == ([1, 0, 1, 0, 1, 0], 1)
    assert words.mark_units(pieces, starts, [(6, 7)]) == (starts, 1)  # nothing but a blank


def test_phrases_open_at_words_and_entities_at_pieces_where_no_entry_matches(tmp_path):
    text = "使用语言模型来预测iphone"
    tokenizer = tokenizer_for(text)
    lexicons = {
        "phrase_start": Lexicon(lexicon(tmp_path, "语言模型", name="phrases")),
        "entity_start": Lexicon(lexicon(tmp_path, "模型来", name="entities")),
    }
    counts = collections.Counter()
    stage = tokenize(tokenizer, words.segmenter("jieba"), counts, lexicons)
    (document,) = stage(iter([Document([text], "x")]))
    assert ids_of(document.marked).tolist() == tokenizer.encode(text).ids
    found = {name: starts_of(document.marked, name).tolist() for name in ("word_start", "phrase_start", "entity_start")}
    rest = [1, 0, 0, 0, 0, 0]  # iphone
    assert found == {
        "word_start": [1, 0, 1, 0, 1, 0, 1, 1, 0, *rest],
        "phrase_start": [1, 0, 1, 0, 0, 0, 1, 1, 0, *rest],
        "entity_start": [1, 1, 1, 1, 1, 0, 0, 1, 1, *rest],
    }
    assert counts["phrase_matches"] == counts["entity_matches"] == 1


def test_records_hold_the_units_and_the_manifest_their_lexicons(tmp_path, zh_vocabulary):
    phrases, entities = lexicon(tmp_path, "我们", "一个", name="p"), lexicon(tmp_path, "时间", name="e")
    settings = chinese(zh_vocabulary, phrase_lexicon=phrases, entity_lexicon=entities, lexicon=entities, num_shards=1)
    manifest = create(settings, str(tmp_path / "records"))
    plain = create(chinese(zh_vocabulary, lexicon=entities, num_shards=1), str(tmp_path / "plain"))
    assert set(manifest.features) - set(plain.features) == {"phrase_start", "entity_start"}
    assert (
        manifest.settings.others["unit_lexicons_sha256"]["entity_start"] == manifest.settings.others["lexicon_sha256"]
    )
    assert manifest.settings.others["lexicon_sha256"] == Lexicon(entities).sha256
    assert manifest.statistics["phrase_matches"] > 0 and manifest.statistics["misaligned_phrase_matches"] == 0
    held, without = (list(examples_of(tmp_path / name)) for name in ("records", "plain"))
    assert [e["token_ids"] for e in held] == [e["token_ids"] for e in without]
    assert [e["word_start"] for e in held] == [e["word_start"] for e in without]
    assert all(len(e["entity_start"]) == len(e["phrase_start"]) == len(e["token_ids"]) for e in held)
    joined = sum(starts.count(0) for starts in (e["entity_start"] for e in held))
    assert joined > 0 and any(e["phrase_start"] != e["word_start"] for e in held)


def test_units_do_not_go_with_static_masks(tmp_path, zh_vocabulary):
    settings = Settings(
        input_file=SAMPLES,
        vocab_file=zh_vocabulary,
        language="zh",
        masking="static",
        phrase_lexicon=lexicon(tmp_path, "我们"),
    )
    with pytest.raises(UsageError, match="--masking=static"):
        create(settings, str(tmp_path / "records"))


def test_spans_at_blanks_are_those_of_the_numbers_of_characters():
    draw = random.Random(0)
    for _ in range(3000):
        text = "".join(draw.choices(" \u3000\x1c\t\nab中\u200b", k=draw.randrange(9)))
        assert words.spans_at_blanks(text) == plain_units.word_spans(words.segment_at_blanks(text)), repr(text)


@pytest.mark.parametrize("lower", [True, False])
def test_plain_texts_are_cut_and_normalised_as_the_library_does(lower):
    splitter, rng = plain_units.WordSplitter(lower), random.Random(0)
    printable = "".join(map(chr, range(0x20, 0x7F)))
    texts = [printable, *("".join(rng.choices(printable + "   ", k=rng.randint(0, 14))) for _ in range(3000))]
    for text in texts:
        expected = splitter.backend.encode(text, add_special_tokens=False).offsets
        found = splitter(text)
        assert plain_units.is_plain(text) and [span for _, span in found] == expected
        assert [word for word, _ in found] == [splitter.normalize(text[first:end]) for first, end in expected]
    assert not any(map(plain_units.is_plain, ("a\tb", "a\x7f", "é")))
