"""Raw text is read the same in one part and in many, without growing memory, and bad text is named."""

import gzip
import pathlib
import random
import tracemalloc

import pytest

from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.corpora.documents import LONGEST_DOCUMENT
from data_pipelines.corpora.files import expand
from data_pipelines.corpora.plain_text import guess_layout
from data_pipelines.corpora.reading import Monitor
from data_pipelines.errors import DataError, UsageError

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh/corpus.txt"


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


FORMATS = ("sentences", "text", "documents")


def sentences_of(corpus, part=None):
    return [document.sentences for document in read_documents(part or corpus.whole())]


@pytest.mark.parametrize(
    ("layout", "language", "text"),
    [
        ("sentences", "en", "One sentence here.\nAnd another one.\n\nA new document begins.\nIt ends.\n"),
        ("sentences", "en", "One sentence here.\nAnd another one.\nNo blank lines at all.\n"),
        ("sentences", "en", "\n\nOne sentence here.\n\n\n\nAnd one in a document of its own.\n\n"),
        ("sentences", "zh", "今天天气很好。\n我们去公园吧！\n\n老人在看报纸。\n"),
        ("sentences", "zh", SAMPLES.read_text(encoding="utf-8")),
        (
            "text",
            "en",
            "A line that is broken\nin the middle of a sentence. And one\nmore.\n\nAnother paragraph\nends here.\n",
        ),
        (
            "text",
            "en",
            "Long lines. They hold much. Many sentences each.\n\nAnd blank lines. They part paragraphs. See.\n",
        ),
        ("text", "zh", "今天天气很好。我们去公园吧！他说好。\n\n老人在看报纸。公园里人多。孩子在玩。\n"),
        ("text", "zh", "\n\n".join(f"第{i}天他来了。" + "雨停了，大家都很高兴。" * (i % 3) for i in range(20))),
        ("text", "en", "\n\n".join(f"On day {i} he came." + " The rain stopped." * (i % 3) for i in range(20))),
        ("text", "zh", "".join(f"　　第{i}天他来了。雨停了。\n" for i in range(20))),
        (
            "text",
            "zh",
            "标题\n"
            + "\n".join("今天天气很好我们去公园。老人在看报纸公园里人多"[i % 7 :][:16] for i in range(20))
            + "\n完。\n",
        ),
        ("sentences", "zh", "".join(f"第{i}天他来了。\n雨停了，大家都很高兴。\n又过了一年。\n\n" for i in range(20))),
        (
            "sentences",
            "zh",
            "".join(f"标题\n床前明月光，疑是地上霜。\n举头望明月，低头思故乡。\n题{i}\n\n" for i in range(9)),
        ),
        (
            "sentences",
            "zh",
            "".join(f"　　第{i}天他来了。\n　　雨停了，大家都很高兴。\n　　又过了一年。\n\n" for i in range(20)),
        ),
        ("documents", "en", "One document. It has sentences. Three of them.\nAnother one. It also has. Its three.\n"),
        ("documents", "zh", "今天天气很好。我们去公园吧！他说好。\n老人在看报纸。公园里人多。孩子在玩。\n"),
    ],
)
def test_the_layout_of_a_text_is_guessed_from_its_beginning(tmp_path, layout, language, text):
    assert guess_layout(text, language) == layout
    for variant in (text.replace("\n", "\r\n"), "\ufeff" + text, text.rstrip("\n")):
        assert open_corpus(write(tmp_path / "a.txt", variant), language).layout == layout


def test_the_layout_is_guessed_from_the_first_file_that_has_text(tmp_path):
    for name, text in (
        ("a", ""),
        ("b", "\n \n"),
        ("c", "\ufeff"),
        ("d", "One. Two. Three.\nFour. Five. Six.\n"),
        ("e", "x\n\nx\n"),
    ):
        write(tmp_path / f"{name}.txt", text)
    assert open_corpus(str(tmp_path / "*.txt"), "en").layout == "documents"
    assert open_corpus(str(tmp_path / "*.txt"), "en", "text").layout == "text"


@pytest.mark.parametrize("order", [("a.txt", "z.txt"), ("z.txt", "a.txt")])
def test_each_name_in_a_list_is_read_in_its_own_format(tmp_path, order):
    write(tmp_path / order[0], "One. Two. Three.\nFour. Five. Six.\n")
    write(tmp_path / order[1], "".join(f"One {i}.\nTwo.\n\n" for i in range(9)))
    write(tmp_path / "m.jsonl", '{"text": "Seven."}\n')
    corpus = open_corpus(f"{tmp_path}/a.txt,{tmp_path}/z.txt,{tmp_path}/m.jsonl", "en")
    assert corpus.layout == "documents+jsonl+sentences"
    assert len(list(read_documents(corpus.whole()))) == 2 + 9 + 1
    with pytest.raises(UsageError, match=r"--input_format=text: .*m.jsonl holds JSON.*'\*\.txt=text,auto'"):
        open_corpus(f"{tmp_path}/*", "en", "text")
    assert open_corpus(f"{tmp_path}/*", "en", "*.txt=text,auto").layout == "jsonl+text"


@pytest.mark.parametrize("end", ["\r", "\u2028", "\u2029", "\x85"])
def test_a_file_whose_lines_end_otherwise_is_refused_with_a_command_that_mends_it(tmp_path, end):
    long = write(tmp_path / "b.txt", end.join(["One line."] * 120_000))
    with pytest.raises(
        DataError, match=r"b.txt, line 1: longer than 1,000,000 bytes without a line feed, but with .*sed"
    ):
        sentences_of(open_corpus(long, "en", "sentences"))


def test_sentences_stand_on_lines_and_documents_between_blank_lines(tmp_path):
    path = write(tmp_path / "a.txt", "\ufeff\r\n one. Two. \r\n\tthree\r\n\u3000\r\n \r\n\r\nfour\r\n\r\n")
    corpus = open_corpus(path, "en", "sentences")
    documents = list(read_documents(corpus.whole()))
    assert [d.sentences for d in documents] == [["one. Two.", "three"], ["four"]]
    for document in documents:
        assert document.source.startswith(f"{path}, byte ")
        offset = int(document.source.rpartition(" ")[2])
        assert pathlib.Path(path).read_bytes()[offset:].decode().lstrip().startswith(document.sentences[0])


def test_prose_is_joined_split_and_gathered(tmp_path):
    paragraphs = "\n\n".join(f"The {i}th paragraph is\nbroken here. It has\ntwo sentences." for i in range(40))
    corpus = open_corpus(write(tmp_path / "a.txt", paragraphs), "en")
    assert corpus.layout == "text"
    found = sentences_of(corpus)
    assert found[0][:2] == ["The 0th paragraph is broken here.", "It has two sentences."]
    assert sum(map(len, found)) == 80
    assert [len(sentences) for sentences in found] == [32, 32, 16]


def test_chinese_prose_is_joined_without_blanks(tmp_path):
    corpus = open_corpus(write(tmp_path / "a.txt", "今天天气\n很好。我们去公\n园吧！\n\n好。\n"), "zh", "text")
    assert sentences_of(corpus) == [["今天天气很好。", "我们去公园吧！", "好。"]]


def test_each_line_is_a_document(tmp_path):
    corpus = open_corpus(write(tmp_path / "a.txt", "One. Two.\n\nThree is longer.\n"), "en", "documents")
    assert sentences_of(corpus) == [["One.", "Two."], ["Three is longer."]]


def random_files(folder, rng, line_end, layout):
    """Files with many kinds of beginnings and ends, an empty one among them."""
    for name in "abcde":
        blocks = []
        for _ in range(rng.randint(0, 12)):
            lines = [
                rng.choice(["Hi. You.", "字。词！", "x" * rng.randint(1, 30), "Some words. And more"])
                for _ in range(rng.randint(1, 5))
            ]
            blocks.append(line_end.join(lines))
        text = (line_end * rng.randint(2, 4)).join(blocks)
        text = rng.choice(["", "\ufeff", line_end, line_end * 3]) + text + line_end * rng.randint(0, 4)
        write(folder / f"{name}.txt", text)
    write(folder / "c.txt", "")
    write(folder / "f.txt", "Last file. No newline at its end")
    return open_corpus(str(folder / "*.txt"), "en", layout)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_parts_of_a_corpus_hold_what_the_whole_holds_each_once_and_in_order(tmp_path, layout, line_end):
    rng = random.Random(f"{layout}{line_end}")
    for _ in range(15):
        corpus = random_files(tmp_path, rng, line_end, layout)
        whole = sentences_of(corpus)
        assert len(whole) > 1 or layout == "text"
        for count in (1, 2, 3, 5, 8, 13, 50, corpus.num_bytes + 7):
            parts = corpus.cut(count)
            assert len(parts) == count
            assert sum(part.num_bytes for part in parts) == corpus.num_bytes
            found = [sentences for part in parts for sentences in sentences_of(corpus, part)]
            if layout == "text":  # prose is gathered anew in each part, but no paragraph is cut
                found, whole = ([s for sentences in d for s in sentences] for d in (found, whole))
                found, whole = [found], [whole]
            assert found == whole


@pytest.mark.parametrize("layout", FORMATS)
def test_parts_are_of_about_equal_size(tmp_path, layout):
    corpus = open_corpus(write(tmp_path / "a.txt", "Some words here.\n\n" * 10_000), "en", layout)
    sizes = [sum(map(len, sentences_of(corpus, part))) for part in corpus.cut(7)]
    assert max(sizes) - min(sizes) < 100


def test_progress_counts_every_byte_once(tmp_path):
    corpus = random_files(tmp_path, random.Random(0), "\r\n", "sentences")
    for count in (1, 3, 10):
        seen = []
        for part in corpus.cut(count):
            list(read_documents(part, Monitor(seen.append)))
        assert sum(seen) == corpus.num_bytes


def test_a_long_file_without_blank_lines_is_cut_into_documents(tmp_path):
    corpus = open_corpus(write(tmp_path / "a.txt", "A line.\n" * (2 * LONGEST_DOCUMENT + 5)), "en")
    assert corpus.layout == "sentences"
    assert [len(s) for s in sentences_of(corpus)] == [LONGEST_DOCUMENT, LONGEST_DOCUMENT, 5]
    # It has no place to cut at, so one part holds it all.
    assert sum(len(sentences_of(corpus, part)) > 0 for part in corpus.cut(4)) == 1


def test_globs_and_lists_give_each_file_once_in_order(tmp_path):
    for name in ("b.txt", "a.txt", "sub/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, "x")
    found = expand(f"{tmp_path}/b.txt, {tmp_path}/*.txt,{tmp_path}/**/c.txt")
    assert found == [f"{tmp_path}/{name}" for name in ("a.txt", "b.txt", "sub/c.txt")]


def test_patterns_without_files_are_named(tmp_path):
    write(tmp_path / "a.txt", "x")
    with pytest.raises(DataError, match=r"--input_file=.*none-\*\.txt: matches no file"):
        open_corpus(f"{tmp_path}/a.txt,{tmp_path}/none-*.txt", "en")
    with pytest.raises(DataError, match="matches no file"):
        open_corpus(str(tmp_path), "en")  # a folder
    with pytest.raises(UsageError, match="name at least one"):
        open_corpus(" , ", "en")


@pytest.mark.parametrize("text", ["", "\n\n \r\n", "\ufeff", "\ufeff\n"])
def test_a_corpus_without_text_is_refused(tmp_path, text):
    path = write(tmp_path / "a.txt", text)
    with pytest.raises(DataError, match="no text") as caught:
        open_corpus(path, "en")
    assert path in str(caught.value)


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(b"text\n" * 99, mtime=0), "text\n".encode("utf-16"), bytes(range(256))],
    ids=["gzip", "utf-16", "binary"],
)
def test_compressed_and_binary_files_are_refused_by_name(tmp_path, packed):
    write(tmp_path / "a.txt", "Fine.\n")
    path = write(tmp_path / "b.txt", packed)
    with pytest.raises(DataError, match="not plain text|not UTF-8: .*--encoding=utf-16|does not end in .gz") as caught:
        sentences_of(open_corpus(str(tmp_path / "*.txt"), "en"))
    assert path in str(caught.value) and "a.txt" not in str(caught.value)


@pytest.mark.parametrize("layout", FORMATS)
def test_invalid_utf8_is_named_with_its_line_in_every_part(tmp_path, layout):
    lines = [b"Fine words.\n", b"\n"] * 20
    lines[30] = "坏".encode("gb18030") + b" words.\r\n"
    path = write(tmp_path / "b.txt", b"".join(lines))
    write(tmp_path / "a.txt", "Fine.\n\nFine.\n")
    corpus = open_corpus(str(tmp_path / "*.txt"), "en", layout)
    for count in (1, 2, 5):
        with pytest.raises(DataError, match="line 31: not valid UTF-8 at byte 1 of the line") as caught:
            for part in corpus.cut(count):
                sentences_of(corpus, part)
        assert path in str(caught.value) and "mend the file" not in str(caught.value)


@pytest.mark.parametrize("layout", FORMATS)
def test_a_line_of_ten_megabytes_is_named_and_not_read_whole(tmp_path, layout):
    path = write(tmp_path / "a.txt", b"Fine.\n\nFine.\n" + b"x" * 10_000_000 + b"\n\nFine.\n")
    corpus = open_corpus(path, "en", layout)
    tracemalloc.start()
    try:
        for count in (1, 4):
            with pytest.raises(DataError, match="line 4: longer than 1,000,000 bytes") as caught:
                for part in corpus.cut(count):
                    sentences_of(corpus, part)
            assert path in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("layout", FORMATS)
def test_memory_does_not_grow_with_the_corpus(tmp_path, layout):
    text = ("This is one sentence of a corpus. " * 3 + "\n") * 9 + ("\n" if layout != "documents" else "")
    with open(tmp_path / "a.txt", "w") as file:
        for _ in range(1000):
            file.write(text * 33)
    corpus = open_corpus(str(tmp_path / "a.txt"), "en", layout)
    assert corpus.num_bytes > 29e6
    tracemalloc.start()
    try:
        count = 0
        part = corpus.cut(8)[5]  # tracing makes reading slow; an eighth of the corpus is enough
        for document in read_documents(part):
            count += len(document.sentences)
        assert count > 30_000
        assert tracemalloc.get_traced_memory()[1] < 2e6
    finally:
        tracemalloc.stop()
        (tmp_path / "a.txt").unlink()
