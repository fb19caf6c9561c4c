"""Cleaning takes out what is no prose, leaves prose alone, and counts."""

import collections
import pathlib
import time

import pytest

from data_pipelines.corpora.dialogue import alternate
from data_pipelines.corpora.documents import Document
from data_pipelines.errors import UsageError
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.pretraining.stages.clean import CLEANERS, choose_rules, clean, report
from data_pipelines.text.html_markup import strip_html
from data_pipelines.text.wiki_markup import strip_wiki

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(
    "html, text",
    [
        ('<p class="a">Foo &amp; bar<br/>baz <b>bold</b>ly</p>', "Foo & bar\nbaz boldly"),
        ("<style>p {}</style><script>if (a<b) x();</script>seen<!-- not seen -->", "seen"),
        ("<!DOCTYPE html><html><head><title>T</title></head><body>今天&#12290;&nbsp;好</body></html>", "今天。\xa0好"),
        ("a < b & c > d, AT&T, x<y and <unk>", "a < b & c > d, AT&T, x<y and <unk>"),
        ("<table><tr><td>1</td><td>2</td></tr></table>", "1\n\n2"),
        ("<script/>seen</div>", "seen"),
        ("<p class='a>b' title=\"c\">seen", "seen"),
        ("use a <![ b here", "use a <![ b here"),
        ("a <!-- b &#999999999999999999999999;", "a <!-- b \ufffd"),
        ("<a href='x>seen", "seen"),
    ],
)
def test_html_becomes_its_visible_text(html, text):
    assert strip_html(html).strip() == text


@pytest.mark.parametrize(
    "wiki, text",
    [
        ("{{Infobox|a={{b}}}}'''Foo''' is a [[bar|baz]] of [[qux]]s.<ref name=x>cite</ref>", "Foo is a baz of quxs."),
        ("See [http://x.org the page]. <!-- no -->__NOTOC__", "See the page."),
        ("== History ==\n* one\n# two", "History\none\ntwo"),
        ("[[File:a.jpg|thumb|A [[cap]] tion]]text[[Category:Foo]][[de:Foo]][[文件:乙.jpg]]", "text"),
        ("{| class=x\n| cell\n|}\nafter", "after"),
        ("-{zh-hant:電腦; zh-hans:计算机;}-和-{了}-", "计算机和了"),
        ("no markup: a - {b} = 'c'", "no markup: a - {b} = 'c'"),
        ("{{a|{{{b|1}}}}}{{{{{c}}}}}x {{#if:y|z}} ''i''", "x  i"),
        ("{| a\n| {{b}}\n{| c\n|}\n|}\nx<math>y < z</math><nowiki>[[n]]</nowiki>", "x[[n]]"),
        ("{{ open [[ open [a] ''i'' ]] }", "{{ open  open [a] i  }"),
        ("''i'' [[a\nb]] [http://x.org] [[c|d|e]]", "i [[a\nb]]  d|e"),
    ],
)
def test_wiki_markup_becomes_its_prose(wiki, text):
    assert strip_wiki(wiki).strip() == text


NASTY = (
    "x<y ", "<a ", "<![ ", "<!-- ", "<!", "</", "<?a", "<", "&", "&#", "&#9", "&amp", "<a href='", "<a '>'", "<a b=", "<p>", "</p>",
    "<b ='", "<svg>", "<svg ", "<script>", "<script ", "<style>", "<textarea>", "<math>", "<nowiki>", "<ref ", "<ref>", "</ref>",
    "{{a|", "{{", "}}", "{{{", "{{a}}", "[[a|", "[[", "]]", "[[a]]", "{{a|[[b|", "[http:", "[http://x", "[http://x ", "]", "''", "'''",
    "{|", "{|\n", "|}", "\n|}", "-{", "-{a;", "-{a:b;", "__", "__A", "=", "\n==", "== ", "\n", " ", "\t \n", "* ", "\n*", "\n:", "|",
    "\u200b", "\u3000", "\x00", "漢",
)  # fmt: skip


@pytest.mark.parametrize("name", CLEANERS)
def test_cleaners_take_linear_time_whatever_the_text(name):
    cleaner = CLEANERS[name]()
    for piece in NASTY:
        for prefix, suffix in (("", ""), ("''i'' <p>{{", "}}]]></p>")):
            text = f"{prefix}{piece * (40_000 // len(piece))}{suffix}"
            begin = time.process_time()
            cleaner(text)
            # Linear cleaners need less than 0.2 s. Those that grew with the square needed 18 s and more for many of these.
            assert time.process_time() - begin < 3, piece


def test_a_document_that_a_cleaner_cannot_take_is_kept_and_counted(monkeypatch):
    monkeypatch.setitem(CLEANERS, "width", lambda: lambda text: text.encode("ascii").decode())
    counts = collections.Counter()
    kept = list(clean("width", 0, 0, counts)(iter([Document(["好"], "1"), Document(["a"], "2")])))
    assert [d.sentences for d in kept] == [["好"], ["a"]] and counts["not_cleaned_by_width"] == 1
    assert "width 1" in report(counts)[1]


@pytest.mark.parametrize(
    "name, before, after",
    [
        ("width", "ＡＢｃ１２３％，。！（Ａ）\u3000甲", "ABc123%，。！（A） 甲"),
        ("control", "a\u200bb\x00c\u3000 \t d\ufeff\ue000\ufffd\xade", "abc de"),
        ("traditional_to_simplified", "漢語，頭髮與發展，乾淨，乾隆", "汉语，头发与发展，干净，乾隆"),
    ],
)
def test_each_cleaner_changes_what_its_name_says(name, before, after):
    cleaner = CLEANERS[name]()
    assert cleaner(before) == after
    assert cleaner(after) == after


def test_markup_over_several_sentences_is_seen_whole_and_everything_is_counted():
    counts = collections.Counter()
    documents = [
        Document(["Before. <script>var a;", "var b;</script> After<br>Line &#65313;", "x"], "1"),
        Document(["<p></p>"], "2"),
        Document(["Tiny."], "3"),
        Document(["Nothing to clean here."], "4"),
    ]
    kept = list(clean("width,html", 3, 10, counts)(iter(documents)))
    assert [d.sentences for d in kept] == [["Before.  After", "Line A"], ["Nothing to clean here."]]
    assert kept[1] is documents[3]
    assert counts == {
        "cleaned_by_html": 2, "cleaned_by_width": 1, "characters_before_cleaning": 63 + 7 + 5 + 22,
        "characters_after_cleaning": 21 + 5 + 22, "short_sentences_dropped": 1, "short_documents_dropped": 1,
        "emptied_documents_dropped": 1,
    }  # fmt: skip
    assert "short documents 1" in report(counts)[1]


def test_without_cleaners_nothing_is_touched_or_counted():
    counts = collections.Counter()
    documents = [Document(["<p> "], "1")]
    assert list(clean("", 0, 0, counts)(documents)) == documents and not counts


def test_cleaners_work_in_their_own_order_and_unknown_ones_list_the_known():
    assert choose_rules("control, html") == ["html", "control"]
    with pytest.raises(UsageError, match="--clean=htm: unknown. Known: wiki, html"):
        choose_rules("htm,width")


def test_the_manifest_says_how_the_text_was_cleaned(tmp_path, zh_vocabulary):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("<p>漢語，有趣。</p>\n我們學習漢語。\n好\n\n" * 30, encoding="utf-8")
    settings = Settings(
        input_file=str(corpus),
        vocab_file=zh_vocabulary,
        language="zh",
        clean="traditional_to_simplified,html",
        min_sentence_chars=2,
        max_seq_length=32,
    )
    manifest = create(settings, str(tmp_path / "records"))
    assert manifest.settings.others["clean"] == "html,traditional_to_simplified"
    assert manifest.settings.others["clean_versions"].keys() == {"traditional_to_simplified"}
    assert manifest.statistics["cleaned_by_html"] == manifest.statistics["short_sentences_dropped"] == 30
    assert manifest.statistics["sentences"] == 60


def test_turns_and_translations_are_cleaned_each_by_itself():
    def of(sentences, join):
        stage = clean("html", 0, 0, collections.Counter(), join)
        return [document.sentences for document in stage([Document(sentences, "here")])]

    pair = ["<p>one<br>two</p>", "eins<br>zwei"]
    assert of(pair, list) == [["one two", "eins zwei"]] and len(of(pair, None)[0]) == 4
    turns = ["hi", "<br>", "are you there?", "yes<br>I am"]  # whose second speaker says nothing
    assert of(turns, alternate) == [["hi are you there?", "yes I am"]]
    assert alternate(["", "a", "b", "", "", "c"]) == ["a", "b", "c"] and alternate(["x", "", "y"], "") == ["xy"]


def test_turns_are_not_taken_out_by_their_length():
    with pytest.raises(UsageError, match="--min_sentence_chars=4: would take out turns"):
        Settings(input_file="a", vocab_file="b", language="en", packing="dialogue", min_sentence_chars=4).check()
