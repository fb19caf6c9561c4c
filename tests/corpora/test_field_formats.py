"""Files as people have them: columns, comments, titles, truth values and line ends that are not as the first paper wrote them."""

import json

import numpy as np
import pytest

from data_pipelines.corpora.conll import read_conll
from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.corpora.squad import read_squad
from data_pipelines.errors import CheckpointError, DataError
from tests.corpora.test_inputs import documents_of
from tests.helpers.samples import SHARED
from xmodels.conversion import word_vectors

CASES = SHARED / "cases"


def conll(path, text):
    path.write_bytes(text.encode())
    return [(sentence.words, sentence.tags, sentence.lines) for sentence in read_conll(str(path))]


@pytest.mark.parametrize("word", ["10\u00a0000", "\u3000", "a\u2009b", "a\u2028b", "a\x0bb", "\u00a0"])
@pytest.mark.parametrize("first", [True, False])
def test_columns_of_conll_are_parted_by_blanks_and_tabs_only(word, first, tmp_path):
    lines = [f"{word} B-X", "we O"] if first else ["we  O", f"{word} B-X"]
    (found,) = conll(tmp_path / "a.conll", "\n".join(lines) + "\n\n")
    assert sorted(zip(found[0], found[1], strict=True)) == sorted([(word, "B-X"), ("we", "O")])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# id 12\tdomain=en\nwe _ _ O\n# _ _ O\n\n# id 13\tdomain=en\nyou _ _ O\n", [["we", "#"], ["you"]]),
        ("# _ _ O\nwe _ _ O\n", [["#", "we"]]),
        ("# id 1 2\nwe\tO\n#hello\tO\n\n#hello\tO\n", [["we", "#hello"], ["#hello"]]),
        ("# id 12\tdomain=en\nwe\tO\n", [["we"]]),
        ("#begin document (x); part 0\nwe x O\n\n#end document\n", [["we"]]),
        ("-DOCSTART- -X- O\n\n# id 12 of 13 texts\nwe x O\n", [["we"]]),
        ("# O\n# O\n", [["#", "#"]]),
        ("# id x y\nwe _ _ O\n\n# _ _ O\nin _ _ O\n", [["we"], ["#", "in"]]),
    ],
)
def test_comments_of_conll_are_left_out_and_words_stay(text, words, tmp_path):
    assert [found[0] for found in conll(tmp_path / "a.conll", text)] == words


def test_a_line_with_too_few_columns_is_still_named(tmp_path):
    for broken in ("we\n", "#hello\n", "we x y z\n"):
        with pytest.raises(DataError, match=r"line 4: .* column\(s\), expected 3 as before"):
            conll(tmp_path / "a.conll", f"a b O\nb c O\n\n{broken}")


def documents(path, text):
    path.write_text(text)
    return documents_of(open_corpus(str(path), "en", "wikiextractor"))


@pytest.mark.parametrize(
    ("attribute", "line"),
    [
        ('""Good" Cat"', '"Good" Cat'), ('"Plain Cat"', "Plain Cat"), ('"A &amp; B"', "A & B"), ('"A &amp; B"', "A &amp; B"),
        ('"&quot;Good&quot; Cat"', '"Good" Cat'), ('"Cat" nonfiltered="1" processed="2"', "Cat"), ("'Cat'", "Cat"),
        ('"A > B"', "A > B"), ('"Good "Cat""', 'Good "Cat"'), ('"Cat"', "<h1>Cat</h1>"), ('"Cat"', "Cat."), ('"Cat"', "# Cat"),
    ],
)  # fmt: skip
def test_titles_of_wikiextractor_are_left_out(attribute, line, tmp_path):
    text = f'<doc id="1" url="https://x/?curid=1" title={attribute}>\n{line}\n\nThe dog ran home.\n\n</doc>\n'
    assert documents(tmp_path / "wiki", text) == [["The dog ran home."]]


def test_only_the_first_line_can_be_a_marked_title(tmp_path):
    text = '<doc id="1" title="Cat">\nThe dog ran home.\nCat.\n</doc>\n'
    assert documents(tmp_path / "wiki", text) == [["The dog ran home.", "Cat."]]


def test_an_article_without_its_end_is_named(tmp_path):
    text = '<doc id="1" title="A">\nA\n\nOne.\n<doc id="2" title="B">\nB\n\nTwo.\n</doc>\n'
    with pytest.raises(DataError, match="line 5: an article begins inside of another one, which lacks its </doc>"):
        documents(tmp_path / "wiki", text)


@pytest.mark.shared_data
def test_an_impossible_question_from_the_field():
    folder = CASES / "squad_is_impossible_text"
    with pytest.raises(DataError, match=r"text.json.*'is_impossible' must be true or false"):
        list(read_squad(str(folder / "text.json")))
    assert all(question.answers for question in read_squad(str(folder / "false.json")))


@pytest.mark.parametrize("value", ["false", "", 0, 1, [], {}, "no"])
def test_a_question_is_impossible_by_a_truth_value_only(value, tmp_path):
    asked = {"id": "1", "question": "Who?", "answers": [{"text": "dog", "answer_start": 4}], "is_impossible": value}
    data = {"data": [{"paragraphs": [{"context": "The dog", "qas": [asked]}]}]}
    (tmp_path / "a.json").write_text(json.dumps(data))
    with pytest.raises(DataError, match=r"qas\[0\]: 'is_impossible' must be true or false"):
        list(read_squad(str(tmp_path / "a.json")))
    for fine in (True, False, None):
        asked["is_impossible"] = fine
        (tmp_path / "a.json").write_text(json.dumps(data))
        (question,) = read_squad(str(tmp_path / "a.json"))
        assert question.is_impossible is bool(fine)


NUMBERS = np.arange(6, dtype="<f4").reshape(3, 2)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("words", [["a", "b", "c"], [" ", "b", "c"], ["a", "\u00a0", " "]])
def test_binary_word_vectors_are_read_whatever_ends_a_row(end, words, tmp_path):
    rows = b"".join(word.encode() + b" " + row.tobytes() + end for word, row in zip(words, NUMBERS, strict=True))
    (tmp_path / "v.bin").write_bytes(b"3 2\n" + rows)
    found, vectors = word_vectors.read_binary(str(tmp_path / "v.bin"))
    assert found == words and (vectors == NUMBERS).all()


@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b" \n", b"\r\n"])
def test_text_word_vectors_are_read_with_a_mark_and_other_line_ends(head, end, tmp_path):
    (tmp_path / "v.txt").write_bytes(head + end.join([b"3 2", b"a b 0 1", "\u2028 2 3".encode(), b"c 4 5", b""]))
    words, vectors = word_vectors.read_text(str(tmp_path / "v.txt"))
    assert words == ["a b", "\u2028", "c"] and (vectors == NUMBERS).all()


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("v.txt", b"", "line 1: expected the number of words"), ("v.txt", b"a 0 1\nb 2 3\n", "line 1: .*GloVe's files lack"),
        ("v.txt", b"1 2\n\xe5\xa4 0 1\n", "line 2: not valid UTF-8"), ("v.txt", b"1 2\na 0 x\n", "line 2: expected 2 numbers"),
        ("v.txt", b"1 2\na 0 nan\n", "line 2: numbers that are not finite"), ("v.txt", b"1 0\na\n", "line 1"),
        ("v.bin", b"1 2\n\xe5\xa4 " + bytes(8), "word 1: not valid UTF-8"), ("v.bin", b"1 2\n X" + bytes(8), "word 1: it has no char"),
        ("v.bin", b"99999999999 2\n" + bytes(40), "are too few"), ("v.bin", b"1 99999999999\n" + bytes(40), "line 1"),
    ],
)  # fmt: skip
def test_word_vectors_that_cannot_be_are_refused_with_their_place(name, contents, message, tmp_path):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(CheckpointError, match=f"{name}.*{message}"):
        word_vectors.read(f"word2vec:{tmp_path / name}")


@pytest.mark.shared_data
def test_cases_from_the_field():
    found = list(read_conll(str(CASES / "conll_comments/m.conll")))
    assert found[0].words == ["we", "new", "#"] and all("id" not in each.words for each in found)
    assert sum(len(each.words) for each in read_conll(str(CASES / "conll_nbsp/nbsp.conll"))) == 4
    assert sum(len(each.words) for each in read_conll(str(CASES / "conll_nbsp/wide.conll"))) == 5
    for name in "ad":
        corpus = open_corpus(str(CASES / f"wiki_title/wiki_{name}"), "en", "wikiextractor")
        assert documents_of(corpus) == [["The dog ran home."]]
    words, vectors = word_vectors.read(f"word2vec:{CASES / 'word2vec_files/crlf.bin'}")
    assert words == ["a", "b", "c"] and (vectors == NUMBERS).all()
