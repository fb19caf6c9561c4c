"""Every kind of raw text gives the same documents, in one part and in many; damaged files are named."""

import bz2
import collections
import gzip
import io
import itertools
import json
import lzma
import random
import re
import tracemalloc

import pyarrow
import pyarrow.parquet
import pytest
from backports import zstd

from data_pipelines.corpora import corpus as corpora
from data_pipelines.corpora import encodings
from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.corpora.files import split_sources
from data_pipelines.corpora.reading import Monitor, Reading, report
from data_pipelines.errors import DataError, UsageError

PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd.compress}
TEXTS = [f"The {i}th text. It ends{' so' * (i % 7)}.\nHere is its second paragraph." for i in range(500)]
DOCUMENTS = [[f"The {i}th text.", f"It ends{' so' * (i % 7)}.", "Here is its second paragraph."] for i in range(500)]


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def documents_of(corpus, num_parts=1, counts=None):
    monitor = Monitor(counts=counts) if counts is not None else None
    return [document.sentences for part in corpus.cut(num_parts) for document in read_documents(part, monitor)]


def parquet(texts, rows_in_group=70, **more):
    sink = io.BytesIO()
    table = pyarrow.table({"id": range(len(texts)), **(more or {"text": texts})})
    pyarrow.parquet.write_table(table, sink, row_group_size=rows_in_group)
    return sink.getvalue()


def csv(texts):
    return "id,text\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(texts))


def tsv(texts):
    return "id\ttext\n" + "".join(f"{i}\t{text}\n" for i, text in enumerate(texts))


def jsonl(texts):
    return "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))


def article(i, text):
    return f'<doc id="{i}" url="https://x?curid={i}" title="The &amp; {i}">\nThe & {i}\n\n{text}\n</doc>\n'


def wiki(texts):
    return "".join(article(i, text) for i, text in enumerate(texts))


def wiki_json(texts):
    lines = ({"id": i, "title": f"T {i}", "text": f"T {i}\n\n{text}"} for i, text in enumerate(texts))
    return "".join(json.dumps(line) + "\n" for line in lines)


FLAT = [text.replace("\n", " ") for text in TEXTS]
# name -> (name of the file, contents, input_format)
KINDS = {
    "sentences": ("a.txt", "\n\n".join("\n".join(d) for d in DOCUMENTS), "auto"),
    "documents": ("a.txt", "\n".join(FLAT), "auto"),
    "jsonl": ("a.jsonl", jsonl(TEXTS), "auto"),
    "json lines by looking": ("a", jsonl(TEXTS), "auto"),
    "tsv": ("a.tsv", tsv(FLAT), "auto"),
    "csv": ("a.csv", csv(TEXTS), "auto"),
    "wikiextractor": ("AA/wiki_00", wiki(TEXTS), "auto"),
    "wikiextractor json": ("AA/wiki_00", wiki_json(TEXTS), "wikiextractor"),
    "parquet": ("a.parquet", parquet(TEXTS), "auto"),
}


@pytest.mark.parametrize("packed", ["", *PACK])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_each_document_once_in_one_part_and_in_many(tmp_path, kind, packed):
    name, contents, layout = KINDS[kind]
    if kind == "parquet" and packed:
        pytest.skip("Parquet compresses within")
    contents = contents if isinstance(contents, bytes) else contents.encode()
    corpus = open_corpus(
        write(tmp_path / f"{name}{packed}", PACK[packed](contents) if packed else contents), "en", layout
    )
    assert documents_of(corpus) == DOCUMENTS
    for num_parts in (2, 3, 7, 40):
        found = documents_of(corpus, num_parts)
        assert sorted(found) == sorted(DOCUMENTS)
        if not packed and kind != "csv":
            assert found == DOCUMENTS
    seen = []
    for part in corpus.cut(3):
        list(read_documents(part, Monitor(seen.append)))
    assert sum(seen) == corpus.num_bytes


def test_a_compressed_file_is_shared_evenly_between_parts(tmp_path):
    rng = random.Random(0)
    texts = ["".join(rng.choices("abcdefgh ", k=100)) for _ in range(30_000)]
    corpus = open_corpus(write(tmp_path / "a.txt.gz", gzip.compress("\n".join(texts).encode())), "en", "documents")
    sizes = [sum(1 for _ in read_documents(part)) for part in corpus.cut(4)]
    assert sum(sizes) == len(texts) and min(sizes) > 0.8 * max(sizes)


@pytest.mark.parametrize("begins", ["sentences", "wikiextractor"])
def test_documents_longer_than_a_block_of_a_compressed_file_are_kept_whole(tmp_path, begins):
    rng = random.Random(1)
    documents = [
        [f"S {i} {j} {'x' * rng.randint(1, 90)}." for j in range(rng.choice([1, 1, 2, 200]))] for i in range(300)
    ]
    if begins == "sentences":
        text = ("\r\n" + "\r\n" * rng.randint(1, 3)).join("\r\n".join(d) for d in documents)
    else:
        text = "".join(article(i, "\n".join(d)) for i, d in enumerate(documents))
    corpus = open_corpus(write(tmp_path / "a.gz", gzip.compress(text.encode())), "en", begins)
    for num_parts in (1, 2, 5, 16):
        assert sorted(documents_of(corpus, num_parts)) == sorted(documents)


def test_small_compressed_files_are_read_by_one_part_only(tmp_path, monkeypatch):
    for i in range(40):
        write(tmp_path / f"{i:02}.jsonl.gz", gzip.compress(jsonl(TEXTS[i : i + 3]).encode()))
    opened = collections.Counter()
    real = corpora.READERS["jsonl"]
    monkeypatch.setitem(
        corpora.READERS, "jsonl", lambda piece, *rest: opened.update([piece.path]) or real(piece, *rest)
    )
    corpus = open_corpus(str(tmp_path / "*.gz"), "en")
    assert len(documents_of(corpus, 8)) == 120 and set(opened.values()) == {1} and len(opened) == 40


def test_kinds_are_told_file_by_file(tmp_path):
    write(tmp_path / "a.txt", "One sentence.\nAnother.\n")
    write(tmp_path / "b.jsonl.zst", zstd.compress(jsonl(["From JSON."]).encode()))
    write(tmp_path / "c.parquet", parquet(["From Parquet."]))
    corpus = open_corpus(str(tmp_path / "*"), "en")
    assert corpus.layout == "jsonl+parquet+sentences"
    assert documents_of(corpus) == [["One sentence.", "Another."], ["From JSON."], ["From Parquet."]]


def test_fields_are_chosen_by_name_by_path_and_by_position(tmp_path):
    nested = json.dumps({"meta": {"body": {"value": "Deep down."}}, "text": "Not this."})
    path = write(tmp_path / "a.jsonl", nested)
    assert documents_of(open_corpus(path, "en", reading=Reading(text_field="meta.body.value"))) == [["Deep down."]]
    dotted = write(tmp_path / "d.jsonl", json.dumps({"meta.body": "Flat.", "meta": {"body": "Deep."}}))
    assert documents_of(open_corpus(dotted, "en", reading=Reading(text_field="meta.body"))) == [["Flat."]]
    bare = write(tmp_path / "b.tsv", "7\tNo header here.\n8\tNone at all.\n")
    assert documents_of(open_corpus(bare, "en", reading=Reading(text_field="1"))) == [
        ["No header here."],
        ["None at all."],
    ]
    deep = write(tmp_path / "e.parquet", parquet([0], meta=[{"body": "Struct.", "x": 1}]))
    assert documents_of(open_corpus(deep, "en", reading=Reading(text_field="meta.body"))) == [["Struct."]]


DIALOGUES = [[f"Hi {i}!", "Oh. Hello there.", *["Bye."] * (i % 3)] for i in range(50)]


@pytest.mark.parametrize(
    "write_one",
    [
        lambda turns: "\n".join(turns) + "\n\n",
        lambda turns: " __eou__ ".join(turns) + " __eou__\n",
        lambda turns: "\t".join(turns) + "\n",
        lambda turns: json.dumps(turns) + "\n",
        lambda turns: json.dumps({"id": 1, "messages": [{"message": turn, "attrs": []} for turn in turns]}) + "\n",
    ],
)
def test_turns_of_dialogues(tmp_path, write_one):
    corpus = open_corpus(write(tmp_path / "a.txt", "".join(map(write_one, DIALOGUES))), "en", "dialogue")
    for num_parts in (1, 3, 10):
        assert documents_of(corpus, num_parts) == DIALOGUES


def test_what_one_speaker_says_in_a_row_is_one_turn(tmp_path):
    turns = [("user", "Hi."), ("user", "Anyone?"), ("bot", "Yes."), ("user", "Good.")]
    line = json.dumps({"conversations": [{"from": who, "value": text} for who, text in turns]})
    corpus = open_corpus(write(tmp_path / "a.jsonl", line), "en", "dialogue")
    assert documents_of(corpus) == [["Hi. Anyone?", "Yes.", "Good."]]


def test_parallel_text_from_two_files_or_two_columns(tmp_path):
    pairs = [[f"Sentence {i}.", f"第{i}句。"] for i in range(1000)]
    for number in (0, 1):
        write(tmp_path / f"a.{number}.gz", gzip.compress("\n".join(p[number] for p in pairs).encode()))
        write(tmp_path / f"plain.{number}", "\n".join(p[number] for p in pairs))
    columns = write(tmp_path / "a.tsv", "\n".join("\t".join(p) for p in pairs))
    named = write(tmp_path / "b.tsv", "zh\ten\n" + "\n".join("\t".join(reversed(p)) for p in pairs))
    found = [
        open_corpus(str(tmp_path / "a.0.gz"), "en", target_file=str(tmp_path / "a.1.gz")),
        open_corpus(str(tmp_path / "plain.0"), "en", target_file=str(tmp_path / "plain.1")),
        open_corpus(columns, "en", "parallel"),
        open_corpus(named, "en", "parallel", Reading(text_field="en", target_field="zh")),
    ]
    for corpus in found:
        assert documents_of(corpus) == pairs
        assert sorted(documents_of(corpus, 3)) == sorted(pairs)


def test_files_that_do_not_belong_together_line_by_line_are_named(tmp_path):
    write(tmp_path / "a.en", "One.\nTwo.\nThree.\n")
    write(tmp_path / "a.zh", "一。\n二。\n")
    corpus = open_corpus(str(tmp_path / "a.en"), "en", target_file=str(tmp_path / "a.zh"))
    with pytest.raises(DataError, match=r"a\.en has more lines than .*a\.zh, which ends after 2"):
        documents_of(corpus)
    with pytest.raises(UsageError, match=r"2 file\(s\) for 1"):
        open_corpus(str(tmp_path / "a.en"), "en", target_file=str(tmp_path / "a.*"))
    # A dropped line does not shift those behind it.
    write(tmp_path / "b.en", b"One.\n\xff\xff.\nThree.\n")
    write(tmp_path / "b.zh", "一。\n二。\n三。\n")
    reading = Reading(on_bad_text="drop")
    corpus = open_corpus(str(tmp_path / "b.en"), "en", reading=reading, target_file=str(tmp_path / "b.zh"))
    assert documents_of(corpus) == [["One.", "一。"], ["Three.", "三。"]]


# Mixtures.


def mixture(tmp_path, when_exhausted, weights=(0.7, 0.3), sizes=(700, 50)):
    for name, size in zip("ab", sizes, strict=True):
        write(tmp_path / f"{name}.txt", "".join(f"{name} sentence {i:04}.\n\n" for i in range(size)))
    patterns = ",".join(f"{tmp_path}/{name}.txt:{weight}" for name, weight in zip("ab", weights, strict=True))
    return open_corpus(patterns, "en", "sentences", Reading(when_exhausted=when_exhausted)), patterns


def test_weights_are_shares_of_the_text(tmp_path):
    corpus, patterns = mixture(tmp_path, "repeat")
    counts = collections.Counter()
    documents = documents_of(corpus, 1, counts)
    names = [sentences[0][0] for sentences in documents]
    assert names.count("a") == 700 and names.count("b") == pytest.approx(300, abs=1)
    for end in range(10, 1000):  # all along
        assert abs(names[:end].count("a") - 0.7 * end) <= 1
    assert set(map(tuple, documents)) == {
        (f"{n} sentence {i:04}.",) for n, s in (("a", 700), ("b", 50)) for i in range(s)
    }
    assert documents_of(corpus) == documents
    lines = report(counts, patterns)
    assert re.search(r"a\.txt: (69\.9|70\.0)", lines[0]) and "read 1.00 times" in lines[0]
    assert re.search(r"b\.txt: 30\.[01]", lines[1]) and "read 6.0" in lines[1]


def test_a_mixture_can_stop_at_the_end_of_its_first_source(tmp_path):
    corpus, _ = mixture(tmp_path, "stop")
    names = [sentences[0][0] for sentences in documents_of(corpus)]
    assert names.count("b") == 50 and names.count("a") == pytest.approx(117, abs=1)


def test_every_part_of_a_mixture_has_its_shares(tmp_path):
    corpus, _ = mixture(tmp_path, "repeat", sizes=(4000, 400))
    for part in corpus.cut(4):
        names = [document.sentences[0][0] for document in read_documents(part)]
        assert names.count("a") / len(names) == pytest.approx(0.7, abs=0.01)


def test_a_source_without_text_takes_no_part_in_a_mixture(tmp_path):
    corpus, _ = mixture(tmp_path, "repeat", sizes=(10, 1))
    write(tmp_path / "b.txt", " " * 100)
    assert [d[0][0] for d in documents_of(corpus)] == ["a"] * 10


def test_weights_must_be_whole():
    assert split_sources("a:0.5,b:2,tfds:x/y:1.0.0:.5") == [("a", 0.5), ("b", 2.0), ("tfds:x/y:1.0.0", 0.5)]
    assert split_sources("a, tfds:x/y:1.0.0") == [("a,tfds:x/y:1.0.0", 1.0)]
    with pytest.raises(UsageError, match="b has no weight"):
        split_sources("a:0.5,b")
    with pytest.raises(UsageError, match="weight 0"):
        split_sources("a:0.5,b:0")


# Bad input.


@pytest.mark.parametrize("packed", PACK)
def test_cut_and_damaged_compressed_files_are_named(tmp_path, packed):
    rng = random.Random(0)
    data = PACK[packed]("\n".join("".join(rng.choices("abcdefgh ", k=60)) for _ in range(20_000)).encode())
    for name, contents in (("cut", data[: len(data) // 2]), ("damaged", data[:50_000] + bytes(99) + data[50_099:])):
        path = write(tmp_path / f"{name}.txt{packed}", contents)
        with pytest.raises(DataError, match="cut or damaged|is damaged") as caught:
            documents_of(open_corpus(path, "en", "documents"))
        assert path in str(caught.value)


def test_files_named_after_another_compression_are_named(tmp_path):
    text = b"A line of text.\n" * 9
    for name, data in (("a.txt.gz", text), ("b.txt.gz", bz2.compress(text)), ("c.txt", zstd.compress(text))):
        path = write(tmp_path / name, data)
        with pytest.raises(DataError, match="Rename the file") as caught:
            open_corpus(path, "en")
        assert path in str(caught.value)


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("bad", [b"caf\xe9 au lait", b"a NUL \0 here and there"])
def test_bad_text_is_named_replaced_or_dropped(tmp_path, packed, bad):
    lines = [b"Fine words.", b"", b"More of them.", bad, b"", "\u201cThe end\u201d.".encode()]
    data = b"\n".join(lines * 50)
    path = write(tmp_path / f"a.txt{packed}", PACK[packed](data) if packed else data)

    def read(way):
        counts = collections.Counter()
        return documents_of(open_corpus(path, "en", "sentences", Reading(on_bad_text=way)), 1, counts), counts

    offset = data.index(bad) + min(i for i in range(len(bad)) if bad[i] in (0, 0xE9))
    with pytest.raises(DataError, match=rf"a\.txt.*, line 4: .*byte offset {offset} of the file") as caught:
        documents_of(open_corpus(path, "en", "sentences", Reading(on_bad_text="replace")), 1)
        documents_of(open_corpus(path, "en", "sentences"), 3)
    assert "--on_bad_text=replace" in str(caught.value)
    replaced, counts = read("replace")
    assert counts["bad_text_replaced"] == 50 and replaced[1][1] == bad.translate(
        bytes.maketrans(b"\0", b"\xff")
    ).decode(errors="replace")
    dropped, counts = read("drop")
    assert counts["bad_text_dropped"] == 50 and dropped[1] == ["More of them."] and len(dropped) == len(replaced)


def test_utf16_is_told_from_other_bad_text(tmp_path):
    path = write(tmp_path / "a.txt", "Plain words.\n".encode("utf-16") * 9)
    for way in ("fail", "replace"):
        with pytest.raises(DataError, match="UTF-16.*--encoding=utf-16") as caught:
            documents_of(open_corpus(path, "en", "sentences", Reading(on_bad_text=way)))
        assert "iconv -f UTF-16" in str(caught.value) and path in str(caught.value)


ZH = ["今天是个好天气，我们去公园。", "他说：你好！", "", "第2天下雨了，所以在家看书。", ""] * 40


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030", "big5", "utf-8"])
def test_other_encodings_are_named_and_read_on_demand(tmp_path, encoding, packed):
    lines = (
        "\r\n".join(ZH)
        if encoding != "big5"
        else "\r\n".join(ZH).replace("个", "個").replace("气", "氣").translate(str.maketrans("们园说书", "們園說書"))
    )
    data = lines.encode(encoding)
    path = write(tmp_path / f"a.txt{packed}", PACK[packed](data) if packed else data)
    if encoding != "utf-8":
        with pytest.raises(DataError, match=rf"a\.txt.*, line 1: .*--encoding={encoding}\b"):
            documents_of(open_corpus(path, "zh", "sentences"))
    corpus = open_corpus(path, "zh", "auto", Reading(encoding=encoding))
    expected = [document.split("\r\n") for document in lines.strip().split("\r\n\r\n")]
    for num_parts in (1, 3):
        assert documents_of(corpus, num_parts) == expected


def test_a_byte_order_mark_goes_before_the_flag_and_bad_bytes_of_any_encoding_are_named(tmp_path):
    write(tmp_path / "a.txt", "好。\n".encode("utf-8-sig"))
    write(tmp_path / "b.txt", "好的。\n".encode("utf-16"))
    corpus = open_corpus(f"{tmp_path}/*.txt", "zh", "sentences", Reading(encoding="gbk"))
    assert documents_of(corpus) == [["好。"], ["好的。"]]
    bad = write(tmp_path / "c.txt", "好。\n".encode("gbk") + b"a\xff\xffb\n")
    with pytest.raises(DataError, match=r"c\.txt, line 2: not valid gbk at byte 2 of the line"):
        documents_of(open_corpus(bad, "zh", "sentences", Reading(encoding="gbk")))
    other = write(tmp_path / "e.txt", "今天很好。\n我们知道。\n".encode())
    with pytest.raises(
        DataError, match=r"e\.txt, line \d: not valid gb2312, but UTF-8, from its beginning. One --encoding holds for"
    ):
        documents_of(open_corpus(other, "zh", "sentences", Reading(encoding="gb2312")))
    mended = open_corpus(bad, "zh", "sentences", Reading(encoding="gbk", on_bad_text="replace"))
    assert documents_of(mended) == [["好。", "a\ufffd\ufffdb"]]
    mixed = write(tmp_path / "d.txt", "好。\n".encode() + "今天是我们的。\n".encode("gbk"))
    with pytest.raises(
        DataError, match=r"line 2: .*What stands before it is UTF-8, this looks like gb18030: mend the file"
    ):
        documents_of(open_corpus(mixed, "zh", "sentences"))
    for name in ("idna", "rot13", "hex", "", "nonsense"):
        with pytest.raises(UsageError, match=f"--encoding={name}: unknown"):
            open_corpus(bad, "zh", "sentences", Reading(encoding=name))


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"", None),
        (b"\0", None),
        (b"\0" * 999, None),
        (b"text\tlabel\na\0b\t1\n", None),
        (random.Random(0).randbytes(4096), None),
        ("好的。\n".encode("utf-16-be") * 9, "utf-16-be"),
        ("一　\n".encode("utf-16-le") * 9, "utf-16-le"),
        (b"a\0b\0c\0", "utf-16-le"),
        (("a b c\n" * 50 + "😀").encode("utf-32-be"), "utf-32-be"),
    ],
)
def test_wide_encodings_are_told_from_binary_files_and_stray_nuls(head, name):
    assert encodings.wide(head) == name


def test_an_endless_line_costs_no_memory_and_can_be_dropped(tmp_path):
    data = b"Fine.\n\n" + b"x" * 60_000_000 + b"\n\nFine too.\n"
    for name, contents in (("a.txt", data), ("a.txt.gz", gzip.compress(data, 1)), ("a.jsonl", data[7:])):
        path = write(tmp_path / name, contents)
        tracemalloc.start()
        try:
            with pytest.raises(DataError, match="longer than 1"):
                documents_of(open_corpus(path, "en", "auto" if name == "a.jsonl" else "sentences"), 3)
            if name != "a.jsonl":
                reading = Reading(on_bad_text="drop")
                for num_parts in (1, 3):
                    found = documents_of(open_corpus(path, "en", "sentences", reading), num_parts)
                    assert found == [["Fine."], ["Fine too."]]
            assert tracemalloc.get_traced_memory()[1] < 40e6
        finally:
            tracemalloc.stop()


ENDLESS = "no end " * 300_000


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("a.jsonl", lambda text: jsonl(["Fine.", text])),
        ("a.tsv", lambda text: tsv(["Fine.", text])),
        ("a.csv", lambda text: csv(["Fine.", text])),
        ("a.parquet", lambda text: parquet(["Fine.", text])),
    ],
)
def test_an_endless_paragraph_in_a_field_is_named_or_dropped(tmp_path, name, contents):
    path = write(tmp_path / name, contents(f"Begin.\r\n{ENDLESS}" if name == "a.parquet" else ENDLESS))
    with pytest.raises(DataError, match=rf"{name}, (line|row) \d: a paragraph of 2,.* more than 1,000,000"):
        documents_of(open_corpus(path, "en"))
    counts = collections.Counter()
    found = documents_of(open_corpus(path, "en", reading=Reading(on_bad_text="drop")), 1, counts)
    assert found == [["Fine."], ["Begin."]][: 1 + (name == "a.parquet")] and counts["bad_text_dropped"] == 1


def test_parquet_text_that_is_not_utf8_is_named_or_dropped(tmp_path):
    texts = pyarrow.array([b"Fine.", b"caf\xe9", b"Fine too."]).view(pyarrow.string())
    path = write(tmp_path / "a.parquet", parquet(texts))
    with pytest.raises(DataError, match=r"a.parquet, row 2: not valid UTF-8 \(byte 0xe9\)"):
        documents_of(open_corpus(path, "en"))
    counts = collections.Counter()
    found = documents_of(open_corpus(path, "en", reading=Reading(on_bad_text="drop")), 1, counts)
    assert found == [["Fine."], ["Fine too."]] and counts["bad_text_dropped"] == 1


@pytest.mark.parametrize("together", [1, 40], ids=["one text", "40 rows"])
def test_parquet_that_unfolds_is_named_before_it_fills_the_memory(tmp_path, together):
    table = pyarrow.table({"text": ["x" * (80_000_000 // together)] * together})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert (tmp_path / "a.parquet").stat().st_size < 40_000
    before = pyarrow.total_allocated_bytes()
    with pytest.raises(
        DataError, match=rf"a.parquet, rows 1 to {together}: .* bytes unfold to 80,.*, {80 // together}"
    ):
        documents_of(open_corpus(f"{tmp_path}/a.parquet", "en"))
    assert pyarrow.total_allocated_bytes() - before < 1e6


def test_a_text_that_many_rows_of_parquet_share_is_held_once(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", parquet(["Fine. " * 100_000] * 100, 100))
    most = []
    monkeypatch.setattr(
        corpora.parquet, "text_of", lambda v, p, m: most.append(pyarrow.total_allocated_bytes()) or v[:5]
    )
    assert documents_of(open_corpus(path, "en")) == [["Fine."]] * 100
    assert max(most) < 10e6  # together they have 60 MB


def test_formats_may_be_given_by_pattern(tmp_path):
    write(tmp_path / "prose/a.txt", "One. Two.\n\nThree. Four.\n")
    write(tmp_path / "lines/a.txt", "One. Two.\nThree. Four.\n")
    write(tmp_path / "lines/b.jsonl", jsonl(["Five. Six."]))
    write(tmp_path / "c.txt", "One. Two.\nThree. Four.\n")
    everything = f"{tmp_path}/**/*"
    corpus = open_corpus(everything, "en", "prose/*=text,lines/*.txt=documents,sentences")
    assert corpus.layout == "documents+sentences+text"
    by_ending = open_corpus(everything, "en", "prose/*=text,lines/*.txt=documents")
    assert by_ending.layout == "documents+jsonl+sentences+text"
    assert sorted(map(len, documents_of(by_ending))) == [2, 2, 2, 2, 4]
    assert (
        documents_of(by_ending, 3)
        and open_corpus(everything, "en", "lines/*=auto,c.txt=documents,text").layout
        == "documents+jsonl+sentences+text"
    )
    for layout, says in (
        ("*.md=text", "is for no file with text"),
        ("*.txt=prose", "unknown"),
        ("text,documents", "without a pattern"),
    ):
        with pytest.raises(UsageError, match=says):
            open_corpus(everything, "en", layout)


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("a.jsonl", '{"text": "a"}\r{"text": "b"}\r', r"line 1: no line feed \(LF\), but 1 carriage return"),
        ("a.tsv", "id\ttext\r1\ta\r", r"line 1: no line feed \(LF\), but 1 carriage return"),
        ("a.jsonl", '{"text": "a"}\n{"body": "b"}\n', r"a\.jsonl, line 2: no field named .*Found: body"),
        ("a.jsonl", '{"text": "a"}\n\n{"text": 7}\n', r"line 3: the field holds int"),
        ("a.jsonl", '{"text": "a"}\n{"text": \n', r"line 2: not JSON"),
        ("a.json", '[\n{"text": "a"}]\n', r"line 1: not JSON .*jq -c"),
        ("a.jsonl", '["a"]\n', r"line 1: expected a JSON object"),
        ("a.tsv", "id\ttext\n1\ta\n2\n", r"line 3: 1 column\(s\), expected at least 2"),
        ("a.csv", 'id,text\n1,"no end\n' + "x\n" * 20, r"line 2: a quote opens in this row that nothing closes"),
        ("a.parquet", b"PAR1 and so on", r"a\.parquet: no whole Parquet file"),
        ("a.parquet", parquet([], x=[]), r"a\.parquet: no field named"),
    ],
)
def test_records_without_text_are_named_by_file_and_line(tmp_path, name, contents, message):
    with pytest.raises((DataError, UsageError), match=message):
        documents_of(open_corpus(write(tmp_path / name, contents), "en"))


def test_empty_files_and_empty_documents_are_counted(tmp_path):
    write(tmp_path / "a.jsonl", '{"text": "Here."}\n{"text": ""}\n{"text": null}\n')
    write(tmp_path / "b.jsonl", "")
    write(tmp_path / "c.jsonl.gz", gzip.compress(b""))
    corpus, counts = open_corpus(f"{tmp_path}/*", "en"), collections.Counter()
    assert documents_of(corpus, 1, counts) == [["Here."]]
    assert corpus.num_empty_files == 1 and counts == {"empty_documents": 2, "empty_files": 1}
    assert report(counts, "*") == ["empty files 1 · documents without text 2"]


def test_many_small_files_cost_little_memory_and_no_opening(tmp_path, monkeypatch):
    for number in range(20_000):
        with open(tmp_path / f"{number:05}.txt", "wb") as file:
            file.write(b"A sentence.\n")
    opened = []
    real = corpora.beginning
    monkeypatch.setattr(corpora, "beginning", lambda path, size, encoding: opened.append(path) or real(path, size))
    tracemalloc.start()
    try:
        corpus = open_corpus(f"{tmp_path}/*.txt", "en")
        parts = corpus.cut(64)
        assert tracemalloc.get_traced_memory()[0] < 20_000 * 200
    finally:
        tracemalloc.stop()
    assert len(opened) < 50
    assert sum(sum(1 for _ in share.pieces()) for part in parts for share in part.shares) <= 20_000 + 64
    assert max(len(share.source.paths) for part in parts for share in part.shares) < 20_000 / 64 + 3
    assert sum(1 for _ in read_documents(parts[17])) == pytest.approx(20_000 / 64, abs=2)


@pytest.fixture(scope="module")
def data_set(tmp_path_factory):
    """The folder of a small data set that tensorflow-datasets has prepared."""
    import tensorflow_datasets as tfds

    class Articles(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            nested = tfds.features.FeaturesDict({"body": tfds.features.Text()})
            features = tfds.features.FeaturesDict({"text": tfds.features.Text(), "meta": nested})
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, download_manager):
            return {"train": self._generate_examples(TEXTS), "test": self._generate_examples(TEXTS[:3])}

        def _generate_examples(self, texts):
            for index, text in enumerate(texts):
                yield index, {"text": text, "meta": {"body": f"Body {index}."}}

    builder = Articles(data_dir=tmp_path_factory.mktemp("tfds"))
    builder.download_and_prepare()
    return str(builder.data_dir)


def test_prepared_data_sets_of_tensorflow_datasets(data_set):
    corpus = open_corpus(f"tfds:{data_set}", "en")
    whole = documents_of(corpus)
    assert sorted(whole) == sorted(DOCUMENTS) and documents_of(corpus, 4) == whole
    assert len(documents_of(open_corpus(f"tfds:{data_set}@test", "en"))) == 3
    nested = open_corpus(f"tfds:{data_set}@test", "en", reading=Reading(text_field="meta.body"))
    assert sorted(documents_of(nested)) == [["Body 0."], ["Body 1."], ["Body 2."]]
    with pytest.raises(DataError, match="no field 'body'. Found: .*text"):
        documents_of(open_corpus(f"tfds:{data_set}@test", "en", reading=Reading(text_field="body")))


def test_data_sets_that_are_not_prepared_are_named(data_set, tmp_path):
    for name, message in (
        (f"tfds:{data_set}@dev", "no split 'dev'. It has: .*train"),
        (f"tfds:{tmp_path}", "no prepared data set"),
        ("tfds:no_such_data_set", "no_such_data_set not found"),
        ("tfds:/no/such/folder", "no such folder"),
    ):
        with pytest.raises(DataError, match=message):
            open_corpus(name, "en")


def test_formats_that_contradict_the_flags(tmp_path):
    path = write(tmp_path / "a.txt", "Text.\n")
    for arguments in (
        {"layout": "prose"},
        {"reading": Reading(on_bad_text="ignore")},
        {"layout": "text", "target_file": path},
    ):
        with pytest.raises(UsageError):
            open_corpus(path, "en", **arguments)


def test_parts_do_not_depend_on_what_lies_around(tmp_path):
    """Every document of every part is the same whichever part is read first."""
    corpus = open_corpus(write(tmp_path / "a.jsonl.gz", gzip.compress(jsonl(TEXTS).encode())), "en")
    forward = [[d.sentences for d in read_documents(part)] for part in corpus.cut(5)]
    backward = [[d.sentences for d in read_documents(part)] for part in reversed(corpus.cut(5))]
    assert forward == backward[::-1] and sum(map(len, forward)) == 500
    assert list(itertools.chain(*forward)) != DOCUMENTS or len(forward[0]) == 500
