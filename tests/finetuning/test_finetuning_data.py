"""Labelled data as records: what each task writes, the order and bytes of shards, and what is said of bad input."""

import errno
import gzip
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.corpora.choices import read_choices
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning import job as finetuning_data
from data_pipelines.finetuning.command import summary, warnings
from data_pipelines.finetuning.tag_schemes import to_bio
from data_pipelines.finetuning.task import Settings
from data_pipelines.finetuning.tasks.tag import align
from data_pipelines.pretraining.stages.windows import most_context, windows
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.verification import verify
from data_pipelines.text.byte_pairs import ByteBpeTokenizer
from data_pipelines.text.framing import shorten
from data_pipelines.text.joining import join_words
from data_pipelines.text.kinds import read_tokenizer
from tests.helpers.invocation import invoke
from tests.helpers.samples import SHARED

PIECES = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat on mat dog ##s ran play ##ing un ##happy good bad , . ? who where what 1 2 3 "
    "中 国 的 首 都 是 北 京 上 海 在 哪 里 好 坏 人 ， 。 ？ 大 小"
).split()

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/bert_squad"
SQUAD_BLANKS = " \t\r\n\u202f"


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in PIECES), encoding="utf-8")
    return str(path)


def one_by_one(function, jobs, num_workers, report, done=0):
    """`run_jobs` without processes."""
    return {key: function(*arguments, lambda num_bytes: None) for key, arguments in jobs.items()}


@pytest.fixture
def make(tmp_path, vocabulary, monkeypatch):
    """Writes text to a file, makes records of it in this process; returns the manifest and the folder."""
    monkeypatch.setattr(finetuning_data, "run_jobs", one_by_one)

    def run(task, name, text, **settings):
        path = tmp_path / name
        text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        folder = tmp_path / "records"
        manifest = finetuning_data.create(
            Settings(task=task, **{"input_file": str(path), "vocab_file": vocabulary, "max_seq_length": 16} | settings),
            str(folder),
            overwrite=True,
        )
        return manifest, folder

    return run


def read(folder):
    """All records of a folder in order: name -> numpy array, in the shape of the schema."""
    manifest = Manifest.read(str(folder))
    verify(str(folder), manifest, deep=True)
    records = []
    for shard in manifest.shards:
        for serialized in tf.data.TFRecordDataset(str(pathlib.Path(folder) / shard.name)).as_numpy_iterator():
            features, record = tf.train.Example.FromString(serialized).features.feature, {}
            assert set(features) == set(manifest.features)
            for key, feature in manifest.features.items():
                values = features[key].float_list if feature.dtype == "float32" else features[key].int64_list
                shape = [-1 if size is None else size for size in feature.shape]
                record[key] = np.array(values.value, feature.dtype).reshape(shape)
            records.append(record)
    return records


def tokens(ids):
    return " ".join(PIECES[i] for i in ids)


def halves(record):
    """The two texts of a record as tokens."""
    a, b = record["segment_lengths"]
    assert len(record["token_ids"]) == a + b
    return tokens(record["token_ids"][:a]), tokens(record["token_ids"][a:])


# Texts and pairs


def test_texts_keep_their_order_and_labels_get_sorted_ids(make):
    manifest, folder = make(
        "classify", "a.tsv", "label\ttext\ngood\tThe cat sat.\nbad\t中国的首都 ran\ngood\tdogs playing\n"
    )
    records = read(folder)
    assert [halves(r) for r in records] == [
        ("the cat sat .", ""),
        ("中 国 的 首 都 ran", ""),
        ("dog ##s play ##ing", ""),
    ]
    assert manifest.settings.label_names == ["bad", "good"]
    assert [int(r["labels"]) for r in records] == [1, 0, 1]
    assert [int(r["example_ids"]) for r in records] == [0, 1, 2]
    assert manifest.statistics["label=good"] == 2 and manifest.statistics["tokens"] == 14


def test_pairs_are_cut_at_the_longer_text_and_the_share_is_said(make):
    rows = "the cat sat on the mat\tdogs\t0\n中国的首都是北京\t北京是中国的首都\t1\n"
    manifest, folder = make(
        "classify", "a.tsv", rows, text_column="0", text_pair_column="1", label_column="2", max_seq_length=10
    )
    assert [halves(r) for r in read(folder)] == [("the cat sat on the", "dog ##s"), ("中 国 的 首", "北 京 是")]
    assert "longer than --max_seq_length=10: 2 (100.00%), cut by 10 tokens" in summary(manifest, "x")
    assert any("more than a fifth" in message for message in warnings(manifest))
    rows += "the\tcat\t0\n"
    columns = {"text_column": "0", "text_pair_column": "1", "label_column": "2"}
    manifest, folder = make("classify", "a.tsv", rows, **columns, max_seq_length=10, on_long_text="drop")
    assert [halves(r) for r in read(folder)] == [("the", "cat")] and manifest.statistics["left_out_long"] == 2
    assert int(read(folder)[0]["example_ids"]) == 2


def test_shorten_takes_from_the_longer_text_one_piece_at_a_time():
    def one_at_a_time(a, b, capacity):
        while a + b > capacity:
            a, b = (a - 1, b) if a > b else (a, b - 1)
        return a, b

    for a in range(14):
        for b in range(14):
            for capacity in range(12):
                assert shorten(a, b, capacity) == one_at_a_time(a, b, capacity)


def test_scores_are_floats(make):
    rows = "The cat.,the cat,5.0\n中国,北京,2.75\n"
    columns = {"text_column": "0", "text_pair_column": "1", "label_column": "2"}
    manifest, folder = make("regress", "a.csv", rows, **columns)
    assert [float(r["labels"]) for r in read(folder)] == [5.0, 2.75]
    assert manifest.features["labels"].dtype == "float32" and not manifest.settings.label_names
    with pytest.raises(DataError, match="a.csv, line 2: no number: '好'"):
        make("regress", "a.csv", rows.replace("2.75", "好"), **columns)


def test_labels_of_training_records_are_those_of_dev(make, tmp_path):
    _, folder = make("classify", "train.tsv", "label\ttext\nb\tcat\na\tdog\nc\tmat\n")
    folder.rename(tmp_path / "train")
    manifest, folder = make("classify", "dev.tsv", "label\ttext\nc\tcat\n", labels_from=str(tmp_path / "train"))
    assert manifest.settings.label_names == ["a", "b", "c"] and int(read(folder)[0]["labels"]) == 2
    with pytest.raises(DataError, match=r"dev.tsv, line 2: unknown label: 'd'. Known: a, b, c"):
        make("classify", "dev.tsv", "label\ttext\nd\tcat\n", labels_from=str(tmp_path / "train"))
    manifest, folder = make("classify", "dev.tsv", "label\ttext\n1\tcat\n0\tdog\n", labels="1,0")
    assert [int(r["labels"]) for r in read(folder)] == [0, 1]


def test_rare_labels_and_repeated_texts_are_reported(make):
    rows = (
        "label\ttext\n" + "".join(f"good\tthe {'cat ' * i}\n" for i in range(1, 31)) + "bad\tthe cat \ngood\tthe cat \n"
    )
    manifest, _ = make("classify", "a.tsv", rows)
    shown = summary(manifest, "x")
    assert "2 labels: good 96.9% · bad 3.1%" in shown
    assert "texts that stand before: 2 (6.25%), of these with another label 1 (50.00%)" in shown
    assert "few examples of bad (1)" in warnings(manifest)[0]


# Tags


def test_the_first_piece_of_a_word_carries_its_tag(make):
    text = "-DOCSTART- -X- O O\n\nThe D X I-A\ncats N X I-A\nplaying V X O\n. P X B-B\n\n中 N X B-A\n国 N X I-A\n12 M X O\n好 A X O\n"
    manifest, folder = make("tag", "a.txt", text)
    names = manifest.settings.label_names
    assert names == ["O", "B-A", "I-A", "B-B"]
    first, second = read(folder)
    assert tokens(first["token_ids"]) == "the cat ##s play ##ing ."
    assert first["label_weights"].tolist() == [1, 1, 0, 1, 0, 1] and first["word_ids"].tolist() == [0, 1, 1, 2, 2, 3]
    assert [names[t] for t in first["labels"][first["label_weights"] > 0]] == ["B-A", "I-A", "O", "B-B"]
    assert tokens(second["token_ids"]) == "中 国 [UNK] 好" and second["labels"].tolist() == [1, 2, 0, 0]
    assert second["segment_lengths"].tolist() == [4, 0]
    assert manifest.statistics["changed_tags"] == 1 and manifest.statistics["words"] == 8


def test_tags_of_all_schemes_become_bio():
    assert to_bio("I-A I-A O I-A B-A I-B".split()) == "B-A I-A O B-A B-A B-B".split()  # IOB1
    assert to_bio("B-A I-A E-A S-A S-A O B-B E-B".split()) == "B-A I-A I-A B-A B-A O B-B I-B".split()  # BIOES
    assert to_bio("B-A M-A E-A O U-A L-B".split()) == "B-A I-A I-A O B-A B-B".split()  # BMES, BILOU
    assert to_bio("S-A I-A E-A I-A".split()) == "B-A B-A I-A B-A".split()
    valid = "O B-A I-A B-A O B-B I-B I-B B-A".split()
    assert to_bio(valid) == valid == to_bio(to_bio(valid))


def test_conll_u_leaves_out_comments_and_multiword_tokens(make):
    rows = [
        ("1-2", "thecat", "_"),
        ("1", "the", "DET"),
        ("2", "cat", "NOUN"),
        ("2.1", "dog", "NOUN"),
        ("3", "sat", "VERB"),
    ]
    text = "# text = the cat sat\n" + "".join(f"{i}\t{w}\t{w}\t{t}\t_\n" for i, w, t in rows)
    manifest, folder = make("tag", "a.conllu.gz", text, tag_scheme="none")
    assert manifest.settings.label_names == ["DET", "NOUN", "VERB"]
    assert tokens(read(folder)[0]["token_ids"]) == "the cat sat" and read(folder)[0]["labels"].tolist() == [0, 1, 2]


def test_words_are_joined_as_their_script_is_written():
    for words, text in [
        (["The", "cat", ",", "ran"], "The cat , ran"), (["中", "国", "，", "好"], "中国，好"),
        (["１", "９", "年"], "１ ９ 年"), (["在", "NBA", "打", "2", "0"], "在 NBA 打 2 0"), ([], ""),
    ]:  # fmt: skip
        joined, starts = join_words(words)
        assert joined == text
        assert [joined[s : s + len(w)] for s, w in zip(starts, words, strict=True)] == words


def test_every_word_of_random_sentences_has_one_labelled_piece(zh_vocabulary):
    from data_pipelines.text.kinds import open_tokenizer

    rng = np.random.default_rng(1)
    tokenizer = open_tokenizer(zh_vocabulary)
    words = ["自", "然", "语言", "模型", "good", "playing", "un", "2024", "，", "。", "3.5", "don't", "１２", "龘", "é"]
    for _ in range(100):
        chosen = [words[i] for i in rng.integers(0, len(words), rng.integers(1, 20))]
        text, starts = join_words(chosen)
        pieces = tokenizer.encode(text)
        owners, opens = align(pieces, starts)
        assert opens.sum() == len(chosen) and sorted(set(owners)) == list(range(len(chosen)))
        assert (np.diff(owners) >= 0).all() and (np.diff(owners[opens == 1]) > 0).all()
        for (first, end), owner in zip(pieces.spans, owners, strict=True):
            assert starts[owner] <= first and end <= starts[owner] + len(chosen[owner])


def test_bytes_align_to_words_as_well():
    from tokenizers import pre_tokenizers

    from data_pipelines.text.vocabulary import Vocabulary

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = ByteBpeTokenizer(Vocabulary([*symbols, "at", "Ġc"], required=()), [("a", "t"), ("Ġ", "c")])
    text, starts = join_words(["the", "cat", "中", "国"])
    pieces = tokenizer.encode(text)
    owners, opens = align(pieces, starts)
    first_tokens = [tokenizer.vocabulary.tokens[pieces.ids[i]] for i in np.flatnonzero(opens)]
    assert first_tokens[:2] == ["t", "Ġc"] and opens.sum() == 4
    assert owners[-3:].tolist() == [3, 3, 3]  # the three bytes of the last character


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the O\ncat N\n", r"a.txt, line 1: no tag of spans: 'N' on line 2.*--label_column"),
        ("the D O\ncat O\n", r"a.txt, line 2: 2 column\(s\), expected 3 as before"),
        ("the\ncat\n", r"a.txt, line 1: 1 column\(s\), expected at least 2"),
        ("\n\n", "a.txt: holds no examples"),
        ("the B-A\n\ncat I-C\n", r"a.txt, line 3: unknown label: 'B-C'. Known: O, B-A, I-A"),
    ],
)
def test_bad_tags_are_named(make, text, message):
    with pytest.raises(DataError, match=message):
        make("tag", "a.txt", text, labels="O,B-A,I-A")


# Answers in a text


@pytest.mark.parametrize(("capacity", "stride"), [(1, 1), (4, 1), (4, 2), (4, 4), (7, 3), (50, 20)])
def test_windows_cover_every_token_and_each_token_has_most_context_once(capacity, stride):
    for length in range(1, 60):
        places = windows(length, capacity, stride)
        covered = np.zeros(length, int)
        for start, size in places:
            assert 0 < size <= capacity and start + size <= length
            covered[start : start + size] += 1
        assert covered.min() >= 1
        assert all(b[0] - a[0] == stride for a, b in zip(places, places[1:], strict=False))
        assert places[-1][0] + places[-1][1] == length and all(start + size < length for start, size in places[:-1])
        owners = np.zeros(length, int)
        for (start, size), most in zip(places, most_context(places, length), strict=True):
            owners[start : start + size] += most
        assert (owners == 1).all()


def test_most_context_of_the_example_in_googles_script():
    """Doc: the man went to the store and bought a gallon of milk; spans of 5, stride 3: `bought` is best in the third."""
    places = windows(12, 5, 3)
    most = most_context(places, 12)
    holds = [
        (start, bool(m[7 - start])) for (start, size), m in zip(places, most, strict=True) if start <= 7 < start + size
    ]
    assert holds == [(3, False), (6, True)]


def squad(*questions, context="中国的首都是北京。上海在哪里？", version="v2.0"):
    made = []
    for number, (question, answers, *impossible) in enumerate(questions):
        value = {
            "id": f"q{number}",
            "question": question,
            "answers": [{"text": t, "answer_start": s} for t, s in answers],
        }
        made.append(value | ({"is_impossible": True} if impossible else {}))
    return {"version": version, "data": [{"title": "t", "paragraphs": [{"context": context, "qas": made}]}]}


def answer_of(record, context):
    first, last = int(record["start_positions"]), int(record["end_positions"])
    assert record["segment_lengths"][0] <= first <= last < len(record["token_ids"])
    return context[record["char_starts"][first] : record["char_ends"][last]]


def test_answers_are_tokens_and_give_the_text_back(make):
    context = "The  CATS sat on the mat. Unhappy dogs, playing!"
    asked = [("Who sat?", [("CATS", 5), ("The  CATS", 0)]), ("what", [("Unhappy dogs", 26)]), ("where?", [], True)]
    flags = {"max_seq_length": 32, "doc_stride": 8, "max_query_length": 5}
    manifest, folder = make("answer_span", "a.json", squad(*asked, context=context), **flags)
    first, second, third = read(folder)
    assert tokens(first["token_ids"]) == "who sat ? the cat ##s sat on the mat . un ##happy dog ##s , play ##ing [UNK]"
    assert (int(first["start_positions"]), int(first["end_positions"]), int(first["has_answer"])) == (4, 5, 1)
    assert [answer_of(r, context) for r in (first, second)] == ["CATS", "Unhappy dogs"]
    assert [int(third[n]) for n in ("start_positions", "end_positions", "has_answer")] == [0, 0, 0]
    assert manifest.statistics["without_answer"] == 1 and "without an answer 1 (33.33%)" in summary(manifest, "x")


def test_long_texts_are_read_in_windows(make):
    context = "中国的首都是北京。上海在哪里？" * 2
    asked = squad(("哪里好在哪里？", [("北京", 21)]), ("中", [("上海在", 9)]), context=context)
    manifest, folder = make("answer_span", "a.json.gz", asked, max_seq_length=16, doc_stride=5, max_query_length=4)
    records = read(folder)
    mine = [r for r in records if r["example_ids"] == 0]
    assert all(halves(r)[0] == "哪 里 好 在" for r in mine)  # cut at four
    assert [halves(r)[1].replace(" ", "") for r in mine] == [context[s : s + 9] for s in (0, 5, 10, 15, 20)] + [
        context[25:]
    ]
    assert [int(r["has_answer"]) for r in mine] == [0, 0, 0, 1, 1, 0]  # the second 北京; the first is no answer
    assert all(answer_of(r, context) == "北京" for r in records if r["example_ids"] == 0 and r["has_answer"])
    assert all(answer_of(r, context) == "上海在" for r in records if r["example_ids"] == 1 and r["has_answer"])
    assert all((r["start_positions"], r["end_positions"]) == (0, 0) for r in records if not r["has_answer"])
    seen = [c for r in mine for c, most in zip(r["char_starts"][4:], r["most_context"][4:], strict=True) if most]
    assert sorted(seen) == list(range(len(context)))
    assert manifest.statistics["cut_questions"] == 1 and manifest.statistics["long_contexts"] == 2


@pytest.mark.parametrize("case", ["squad_v1", "squad_v2"])
def test_windows_answers_and_contexts_are_those_of_the_original(make, case, tmp_path):
    """`run_squad.py` numbers words, parted by its whitespace, where we number characters."""
    given, expected, config = (
        json.loads((GOLDEN / case / f"{name}.json").read_text("utf-8")) for name in ("inputs", "outputs", "config")
    )
    (tmp_path / "pieces.txt").write_text("".join(f"{piece}\n" for piece in given["vocabulary"]), "utf-8")
    numbers = config["hyperparameters"]
    flags = {"doc_stride": numbers["doc_stride"], "max_query_length": numbers["max_query_length"]}
    flags |= {"vocab_file": str(tmp_path / "pieces.txt"), "max_seq_length": numbers["max_sequence_length"]}
    _, folder = make("answer_span", "squad.json", given["squad"], **flags)
    contexts = [paragraph["context"] for paragraph in given["squad"]["data"][0]["paragraphs"]]
    cls, sep = (given["vocabulary"].index(name) for name in ("[CLS]", "[SEP]"))
    for record, feature, span in zip(read(folder), expected["features"], expected["train_spans"], strict=True):
        assert record["example_ids"] == feature["example_index"]
        first, second = record["segment_lengths"]
        ids = [cls, *record["token_ids"][:first], sep, *record["token_ids"][first:], sep]
        padding = numbers["max_sequence_length"] - len(ids)
        assert ids + [0] * padding == feature["input_ids"]
        assert [1] * len(ids) + [0] * padding == feature["input_mask"]
        assert [0] * (first + 2) + [1] * (second + 1) + [0] * padding == feature["segment_ids"]
        text = range(first, first + second)  # in a frame two special tokens stand before it
        most = {str(place + 2): bool(record["most_context"][place]) for place in text}
        assert most == feature["token_is_max_context"]
        context = contexts[feature["example_index"]]
        words = np.cumsum(
            [c not in SQUAD_BLANKS and (not i or context[i - 1] in SQUAD_BLANKS) for i, c in enumerate(context)]
        )
        found = {str(place + 2): int(words[record["char_starts"][place]]) - 1 for place in text}
        assert found == feature["token_to_orig_map"]
        answer = [int(record[name]) + 2 * int(record["has_answer"]) for name in ("start_positions", "end_positions")]
        assert answer == [span["start_position"], span["end_position"]]


def test_answers_that_stand_elsewhere_are_moved_to_the_nearest_place_and_counted(make):
    context = "北京 在 北京 的 北京"
    manifest, folder = make(
        "answer_span", "a.json", squad(("哪", [("北京", 6)]), context=context), max_query_length=2, doc_stride=4
    )
    record = read(folder)[0]
    assert int(record["char_starts"][record["start_positions"]]) == 5 and manifest.statistics["moved_answers"] == 1
    assert "found elsewhere than the file says 1 (100.00%)" in summary(manifest, "x")
    first_form = [{"context_text": "在上海", "qas": [{"query_text": "哪", "query_id": "Q", "answers": ["上海"]}]}]
    _, folder = make("answer_span", "a.json", first_form, max_query_length=2, doc_stride=4)
    assert answer_of(read(folder)[0], "在上海") == "上海"


def test_questions_that_cannot_be_used_end_the_run_or_are_dropped_and_named(make):
    asked = squad(("哪", [("南京", 6)]), ("里", []), ("在", [("北京", 6)]), ("", [("北京", 6)]))
    asked["data"][0]["paragraphs"][0]["qas"] += [
        {"id": "q2", "question": "大", "answers": [{"text": "北京", "answer_start": 6}]}
    ]
    flags = {"max_query_length": 2, "doc_stride": 4}
    with pytest.raises(DataError) as error:
        make("answer_span", "a.json", asked, **flags)
    said = str(error.value)
    assert (
        "a.json, data[0].paragraphs[0].qas[0]: (id q0) answer not in the context: '南京' (at character 6 stands '北京"
        in said
    )
    assert "4 of 5 examples cannot be used" in said and "--on_bad_row=skip" in said and "(id q1) no answer" in said
    manifest, folder = make("answer_span", "a.json", asked, **flags, on_bad_row="skip")
    assert {int(r["example_ids"]) for r in read(folder)} == {2}
    for reason in ("answer not in the context", "no answer", "empty text", "duplicate id"):
        assert manifest.statistics[f"bad {reason}"] == 1
    assert "duplicate id 1 (20.00%)" in summary(manifest, "x") and "(id q2) duplicate id: 'q2' stands at" in summary(
        manifest, "x"
    )


def test_answers_inside_a_token_are_counted(make):
    manifest, folder = make(
        "answer_span", "a.json", squad(("who", [("at", 5)]), context="the cat"), max_query_length=2, doc_stride=4
    )
    assert answer_of(read(folder)[0], "the cat") == "cat" and manifest.statistics["answers_inside_tokens"] == 1


# Choices, lists, translations


def test_choices_are_rows_of_a_fixed_shape(make):
    items = [
        [
            ["中国大", "中国好"],
            [{"question": "首都在哪里？", "choice": ["北京", "上海", "大"], "answer": "上海"}],
            "1-2",
        ],
        [["The cat sat."], [{"question": "who?", "choice": ["cat", "dogs"], "answer": "cat"}], "1-3"],
    ]
    manifest, folder = make("choose", "a.json", items, max_seq_length=20)
    first, second = read(folder)
    assert first["token_ids"].shape == (3, 20) and first["segment_lengths"].tolist() == [[6, 8], [6, 8], [6, 7]]
    assert (
        tokens(first["token_ids"][1][:14]) == "中 国 大 中 国 好 首 都 在 哪 里 ？ 上 海"
        and not first["token_ids"][:, 14:].any()
    )
    assert int(first["labels"]) == 1 and first["choice_weights"].tolist() == [1, 1, 1]
    assert second["segment_lengths"].tolist() == [[4, 3], [4, 4], [0, 0]] and second["choice_weights"].tolist() == [
        1,
        1,
        0,
    ]
    assert tokens(second["token_ids"][1][:8]) == "the cat sat . who ? dog ##s" and int(second["labels"]) == 0
    assert manifest.features["token_ids"].shape == (3, 20)


def test_clozes_lines_and_tables_of_choices(make):
    cloze = {"id": 7, "content": "中国#idiom#人", "candidates": ["大", "小"], "answer": 1}
    lines = [cloze, {"question": "who", "choices": ["cat", "dog"], "answer": "B", "context": "the dog"}]
    _, folder = make("choose", "a.jsonl", "\n".join(json.dumps(line) for line in lines), num_choices=3)
    first, second = read(folder)
    assert tokens(first["token_ids"][1][:5]) == "中 国 小 人 小" and int(first["labels"]) == 1
    assert first["token_ids"].shape == (3, 16) and int(second["labels"]) == 1
    table = 'who,cat,dog,,A\n"where, the cat",mat,dog,on,3\n'
    _, folder = make("choose", "a.csv", table)
    first, second = read(folder)
    assert first["choice_weights"].tolist() == [1, 1, 0] and [int(r["labels"]) for r in (first, second)] == [0, 2]


SWAG_NAMES = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
SWAG = (
    f"{SWAG_NAMES}\n"
    '0,anetv_1,12,"the ""dog"" , who. who","the ""dog"" , who.",who,gold,cat,"dog, the",mat,on,1\n'
    "1,lsmdc_2,7,the cat. dogs,the cat.,dogs,gen,1,0,,,0\n"
)


def test_choices_of_swag_are_read_by_their_names(make, tmp_path):
    (tmp_path / "swag.csv").write_text(SWAG, "utf-8")
    first, second = read_choices(str(tmp_path / "swag.csv"))
    assert (first.context, first.question) == ('the "dog" , who.', "who")
    assert first.choices == ["cat", "dog, the", "mat", "on"] and first.answer_index() == 1
    assert second.choices == ["1", "0"] and second.answer_index() == 0  # a position, not the text of a choice
    assert second.place == f"{tmp_path / 'swag.csv'}, line 3"
    (tmp_path / "few.tsv").write_text("ending1\tending0\tstartphrase\ncat\tdog\tthe cat. who\n", "utf-8")
    (few,) = read_choices(str(tmp_path / "few.tsv"), with_answers=False)
    assert (few.context, few.question, few.choices, few.answer) == ("", "the cat. who", ["dog", "cat"], None)
    _, folder = make("choose", "a.csv", SWAG)
    row, fewer = read(folder)
    assert int(row["labels"]) == 1 and fewer["choice_weights"].tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (SWAG.replace("on,1", "on,4"), DataError, "line 2: answer is no choice: '4' for 4 choices"),
        (SWAG.replace("on,1", "on,"), DataError, "line 2: answer is no choice: ''"),
        (SWAG.replace("on,1", f"on,{'9' * 5000}"), DataError, "line 2: answer is no choice: '9999"),
        (SWAG.replace("on,1", "on,²"), DataError, "line 2: answer is no choice: '²'"),
        (SWAG.replace("on,1", "on"), DataError, r"line 2: 11 column\(s\), the first line names 12"),
        (SWAG.replace('cat,"dog, the"', '  ,"dog, the"'), DataError, "line 2: empty text: a choice says nothing"),
        (
            SWAG.replace(",label", ",gold"),
            UsageError,
            "has ending0, as SWAG has, but no column label. The first line has",
        ),
        (SWAG.replace("sent1,", "s,").replace("start", "s"), UsageError, "no column sent1 and sent2, or startphrase"),
        ("startphrase,ending0,label\na,b,0\n", UsageError, "no column ending1"),
    ],
)
def test_what_is_wrong_with_swag_is_named(make, text, error, message):
    with pytest.raises(error, match=message):
        make("choose", "a.csv", text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "E"}, "line 1: answer is no choice: 'E' for 2 choices"),
        ({"answer": 2}, "line 1: answer is no choice: '2'"),
        ({"choices": ["cat"]}, "line 1: too few choices: 1"),
        ({"choices": ["cat", " "]}, "line 1: empty text"),
        ({"choices": ["cat", "dog", "mat", "on"]}, "line 1: too many choices: 4. Raise --num_choices"),
        ({"choices": "cat"}, "line 1, the choices: expected a list of texts"),
    ],
)
def test_bad_choices_are_named(make, change, message):
    with pytest.raises(DataError, match=message):
        make("choose", "a.jsonl", {"question": "who", "choices": ["cat", "dog"], "answer": 0} | change, num_choices=3)


TABLE = "who\tthe cat\t0\nwho\tthe dog\t1\nwho\tthe mat\t0\n中国\t北京\t1\n"
COLUMNS = {"text_column": "0", "text_pair_column": "1", "label_column": "2"}


def test_rows_of_one_query_make_a_list(make):
    manifest, folder = make("rank", "a.tsv", TABLE, **COLUMNS)
    first, second = read(folder)
    assert first["token_ids"].shape == (3, 16) and tokens(first["token_ids"][1][:3]) == "who the dog"
    assert first["labels"].tolist() == [0, 1, 0] and first["label_weights"].tolist() == [1, 1, 1]
    assert second["labels"].tolist() == [1, 0, 0] and second["label_weights"].tolist() == [1, 0, 0]
    assert second["segment_lengths"].tolist() == [[2, 2], [0, 0], [0, 0]]
    line = {"query": "who", "positives": ["the dog"], "negatives": ["the cat", "the mat"]}
    _, folder = make("rank", "a.jsonl", line)
    assert read(folder)[0]["labels"].tolist() == [1, 0, 0]
    with pytest.raises(DataError, match="a.tsv, line 4: no relevance: 'x'"):
        make("rank", "a.tsv", TABLE.replace("北京\t1", "北京\tx"), **COLUMNS)
    named = TABLE.replace("\t1", "\tyes").replace("\t0", "\tno")
    _, folder = make("rank", "a.tsv", named, **COLUMNS, relevant_label="yes")
    np.testing.assert_array_equal(read(folder)[0]["labels"], first["labels"])
    with pytest.raises(UsageError, match="--relevant_label is for --task=rank"):
        make("classify", "a.tsv", named, text_column="0", label_column="2", relevant_label="yes")


def test_long_lists_are_split_or_sampled_with_what_is_relevant(make):
    _, folder = make("rank", "a.tsv", TABLE, **COLUMNS, list_size=2)
    records = read(folder)
    assert [int(r["example_ids"]) for r in records] == [0, 0, 1]
    assert [r["candidate_ids"].tolist() for r in records] == [[0, 1], [2, 0], [0, 0]]
    assert [r["label_weights"].tolist() for r in records] == [[1, 1], [1, 0], [1, 0]]
    for seed in range(4):
        _, folder = make("rank", "a.tsv", TABLE, **COLUMNS, list_size=2, long_lists="sample", random_seed=seed)
        first, _ = read(folder)
        assert first["labels"].sum() == 1 and 1 in first["candidate_ids"] and first["label_weights"].tolist() == [1, 1]


def test_translations_are_two_texts_and_long_ones_go(make, tmp_path):
    (tmp_path / "a.zh").write_text("中国 好\n北京\n上海在中国\n", encoding="utf-8")
    english = "good\nthe the the the the the the\nthe cat sat\n"
    manifest, folder = make("translate", "a.en", english, target_file=str(tmp_path / "a.zh"), max_seq_length=8)
    first, second = read(folder)
    assert (tokens(first["token_ids"]), tokens(first["target_ids"])) == ("good", "中 国 好")
    assert first["segment_lengths"].tolist() == [1, 3] and int(second["example_ids"]) == 2
    assert manifest.statistics["left_out_long"] == 1 and "left out 1" in summary(manifest, "x")
    _, folder = make("translate", "a.tsv", "the cat\t中国\n", text_column="0", text_pair_column="1")
    assert tokens(read(folder)[0]["target_ids"]) == "中 国"
    with pytest.raises(DataError, match=r"a.en: ends after line 1, while .*a.zh goes on"):
        make("translate", "a.en", "good\n", target_file=str(tmp_path / "a.zh"))
    with pytest.raises(DataError, match="a.en, line 2: empty text"):
        make("translate", "a.en", "good\n\nbad\n", target_file=str(tmp_path / "a.zh"))


# The engine

ROWS = "label\ttext\n" + "".join(
    f"{'ab'[i % 2]}\t{PIECES[5 + i % 40]} {PIECES[5 + i // 40]} the cat\n" for i in range(300)
)


def bytes_of(folder):
    names = sorted(path.name for path in pathlib.Path(folder).iterdir())
    return {name: hashlib.sha256((pathlib.Path(folder) / name).read_bytes()).hexdigest() for name in names}


def test_records_do_not_depend_on_workers_and_stand_in_order(tmp_path, vocabulary):
    (tmp_path / "a.tsv").write_text(ROWS, encoding="utf-8")
    settings = Settings(task="classify", input_file=str(tmp_path / "a.tsv"), vocab_file=vocabulary, num_shards=3)
    for workers in (1, 2):
        finetuning_data.create(settings, str(tmp_path / f"w{workers}"), workers)
    assert bytes_of(tmp_path / "w1") == bytes_of(tmp_path / "w2")
    shards = [f"records-{i:05d}-of-00003.tfrecord" for i in range(3)]
    assert sorted(bytes_of(tmp_path / "w1")) == ["manifest.json", *shards, "vocab.txt"]
    assert [int(r["example_ids"]) for r in read(tmp_path / "w1")] == list(range(300))
    described = Manifest.read(str(tmp_path / "w1")).settings.tokenizer
    assert read_tokenizer(str(tmp_path / "w1"), described).describe() == described


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_tasks_share_the_work_and_leave_the_same_bytes(make, tmp_path, vocabulary, monkeypatch, order):
    _, folder = make("classify", "a.tsv", ROWS, num_shards=3)
    settings = Settings(
        task="classify", input_file=str(tmp_path / "a.tsv"), vocab_file=vocabulary, max_seq_length=16, num_shards=3
    )
    monkeypatch.setattr(finetuning_data, "run_jobs", one_by_one)
    shared = str(tmp_path / "shared")
    said = finetuning_data.create_share(settings, shared, str(order[0]), 2)
    assert isinstance(said, str) and f"the tasks {order[1]} have not" in said and "--task_index=merge" in said
    again = finetuning_data.create_share(settings, shared, str(order[0]), 2)
    assert again == said  # nothing is made twice, nothing is lost
    assert isinstance(finetuning_data.create_share(settings, shared, str(order[1]), 2), Manifest)
    assert bytes_of(shared) == bytes_of(folder)
    assert isinstance(finetuning_data.create_share(settings, shared, "0", 2), Manifest)  # whoever comes late


def test_folders_of_tasks_are_merged(make, tmp_path, vocabulary, monkeypatch):
    _, folder = make("classify", "a.tsv", ROWS, num_shards=3)
    settings = Settings(
        task="classify", input_file=str(tmp_path / "a.tsv"), vocab_file=vocabulary, max_seq_length=16, num_shards=3
    )
    monkeypatch.setattr(finetuning_data, "run_jobs", one_by_one)
    for index in range(2):
        finetuning_data.create_share(settings, str(tmp_path / f"task{index}"), str(index), 2)
    with pytest.raises(DataError, match=r"1 of 3 shards are missing or cut.*the tasks 1 again"):
        finetuning_data.create_share(settings, str(tmp_path / "task0"), "merge", 2)
    shutil.copytree(tmp_path / "task1", tmp_path / "task0", dirs_exist_ok=True)
    assert isinstance(finetuning_data.create_share(settings, str(tmp_path / "task0"), "merge", None), Manifest)
    assert bytes_of(tmp_path / "task0") == bytes_of(folder)


@pytest.mark.parametrize(
    ("index", "count", "message"),
    [("2", 2, "--task_index=2 --num_tasks=2: give both"), ("0", None, "give both"), ("0", 9, "only 3 shards"),
     ("merge", None, "no task has left anything")],
)  # fmt: skip
def test_tasks_that_cannot_be_are_refused(make, tmp_path, vocabulary, index, count, message):
    make("classify", "a.tsv", ROWS, num_shards=3)
    settings = Settings(
        task="classify", input_file=str(tmp_path / "a.tsv"), vocab_file=vocabulary, max_seq_length=16, num_shards=3
    )
    with pytest.raises((UsageError, DataError), match=message):
        finetuning_data.create_share(settings, str(tmp_path / "shared"), index, count)


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_an_interrupted_run_resumes_to_the_same_bytes(make, tmp_path, vocabulary, monkeypatch, finished):
    _, folder = make("classify", "a.tsv", ROWS, num_shards=3)
    expected = bytes_of(folder)
    written = []

    def stops(function, jobs, *rest):
        for key in list(jobs)[:finished]:
            function(*jobs[key], lambda num_bytes: None)
        for name in ("records-00002-of-00003.tfrecord", "manifest.json", "examples.jsonl"):
            (tmp_path / f"cut/{name}.0a1b2c3d4e5f.partial").write_bytes(b"half")
        raise KeyboardInterrupt

    settings = Settings(
        task="classify", input_file=str(tmp_path / "a.tsv"), vocab_file=vocabulary, max_seq_length=16, num_shards=3
    )
    monkeypatch.setattr(finetuning_data, "run_jobs", stops)
    with pytest.raises(KeyboardInterrupt):
        finetuning_data.create(settings, str(tmp_path / "cut"))
    monkeypatch.setattr(
        finetuning_data, "run_jobs", lambda f, jobs, *rest: written.extend(jobs) or one_by_one(f, jobs, *rest)
    )
    monkeypatch.setattr(finetuning_data, "gather", None)  # the first pass is not made again
    with pytest.raises(UsageError, match="Add --resume"):
        finetuning_data.create(settings, str(tmp_path / "cut"))
    finetuning_data.create(settings, str(tmp_path / "cut"), resume=True)
    assert written == list(range(finished, 3)) and bytes_of(tmp_path / "cut") == expected
    (tmp_path / "a.tsv").write_text(ROWS + "a\tcat\n", encoding="utf-8")
    with pytest.raises(UsageError, match="begun with other settings.*input_sha256"):
        finetuning_data.create(settings, str(tmp_path / "cut"), resume=True)


def test_a_full_disk_says_what_to_do(tmp_path, vocabulary, monkeypatch):
    def fills(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a.tsv").write_text(ROWS, encoding="utf-8")
    monkeypatch.setattr(finetuning_data, "run_jobs", fills)
    settings = Settings(task="classify", input_file=str(tmp_path / "a.tsv"), vocab_file=vocabulary, max_seq_length=16)
    with pytest.raises(DataError, match="the disk is full .*free some space.*--resume"):
        finetuning_data.create(settings, str(tmp_path / "records"))


def test_lines_are_cut_between_lines(tmp_path):
    path = tmp_path / "lines"
    for lines in (["a"] * 9, ["a" * 50, "b", "c"], ["a", "b" * 50], ["a"]):
        path.write_text("".join(f"{line}\n" for line in lines))
        for count in range(1, 6):
            cuts = finetuning_data.cut_lines(str(path), count)
            assert len(cuts) == count + 1 and cuts == sorted(cuts) and (cuts[0], cuts[-1]) == (0, path.stat().st_size)
            assert all(cut == 0 or path.read_bytes()[cut - 1 : cut] == b"\n" for cut in cuts)


def test_workers_need_no_tensorflow():
    program = "import sys, data_pipelines.finetuning.command; assert 'tensorflow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], cwd=pathlib.Path(__file__).parents[2]).returncode == 0


def test_a_row_without_label_is_named_or_dropped(make):
    with pytest.raises(DataError, match="a.tsv, line 3: empty label"):
        make("classify", "a.tsv", "label\ttext\ngood\tcat\n \tdog\nbad\tdog\n")
    manifest, _ = make("classify", "a.tsv", "label\ttext\ngood\tcat\n \tdog\nbad\tmat\n", on_bad_row="skip")
    assert manifest.num_examples == 2 and sorted(manifest.settings.label_names) == ["bad", "good"]


BROKEN = {  # rows that no reader of CSV can take
    "classify": ("text,label", 'cat,a\n"dog,b\nmat,b\nrat,c,d,e\n', 2),
    "rank": ("text,text_b,label", 'cat,dog,1\n"cat,mat,0\nrat,cat,1\n', 2),
    "translate": ("text,text_b", 'cat,dog\n"dog,cat\nrat,mat\n', 2),
}


@pytest.mark.parametrize("task", BROKEN)
def test_a_row_whose_quotes_nothing_closes_is_named_or_left_out(make, task):
    header, rows, kept = BROKEN[task]
    with pytest.raises(DataError, match="a.csv, line 3: .*--on_bad_row=skip"):
        make(task, "a.csv", f"{header}\n{rows}")
    manifest, _ = make(task, "a.csv", f"{header}\n{rows}", on_bad_row="skip")
    assert manifest.num_examples == kept
    assert manifest.statistics["bad broken row"] == manifest.statistics["read"] - kept
    assert "a.csv, line 3: broken row: a quote opens" in manifest.settings.bad_examples[0]


def test_the_command_says_what_the_records_hold(tmp_path, vocabulary, capsys):
    (tmp_path / "a.tsv").write_text("label\ttext\ngood\tcat\nbad\t\nbad\tdog\n", encoding="utf-8")
    flags = {"input_file": tmp_path / "a.tsv", "vocab_file": vocabulary, "output_dir": tmp_path / "records"}
    assert invoke("create_finetuning_data", task="classify", **flags) == 3
    assert "a.tsv, line 3: empty text" in capsys.readouterr().err
    assert not (tmp_path / "records").exists()  # the same line works once the file is corrected
    assert invoke("create_finetuning_data", task="classify", **flags, on_bad_row="skip") == 0
    shown = capsys.readouterr().out
    assert "2 records in 1 shard(s) from 2 examples" in shown and "left out: empty text 1 (33.33%)" in shown
    assert (
        invoke("create_finetuning_data", task="classify", **flags) == 2
        and "holds finished records" in capsys.readouterr().err
    )
    assert invoke("create_finetuning_data", task="classify", **flags, resume=True, on_bad_row="skip") == 0


PAGE = (pathlib.Path(__file__).parents[2] / "docs/labelled_data.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"\| `(--task=.*)` \|$", PAGE, flags=re.MULTILINE)
LINES = {
    "choices.jsonl": {"question": "who", "choices": ["cat", "dog"], "answer": 1},
    "c3.json": [[["中国大"], [{"question": "哪", "choice": ["北京", "上海"], "answer": "北京"}], "1"]],
    "idioms.jsonl": {"content": "中国#idiom#人", "candidates": ["大", "小"], "answer": 1},
    "queries.jsonl": {"query": "who", "positives": ["cat"], "negatives": ["dog"] * 7},
}
PAGE_FILES = {
    "reviews.tsv": "label\ttext\na\tcat\nb\tdog\n", "reviews.csv": "label;text\na;cat\nb;dog\n",
    "bare.csv": "a,cat\nb,dog\n", "scores.csv": "cat,dog,1\n",
    "topics.tsv": "labels\ttext\na;b\tcat\nb\tdog\n", "train.txt": "__label__a cat\n__label__b dog\n",
    "qa1_train.txt": "1 the cat sat.\n2 who sat?\tcat\t1\n",
    "triplets.tsv": "anchor\tpositive\tnegative\ncat\tthe cat\tdog\n", "matches.tsv": "text\ttext_b\ncat\tthe cat\n",
    "pairs.tsv": "label\ttext\ttext_b\na\tcat\tdog\nb\tdog\tcat\n", "entities.txt": "cat B-A\ndog O\n",
    "words.conllu": "1\tcat\tcat\tNOUN\n2\tran\trun\tVERB\n", "exam.csv": "who,cat,dog,A\n",
    "swag.csv": ",sent1,sent2,ending0,ending1,label\n0,the cat,who,cat,dog,1\n",
    "answers.tsv": "who\tthe cat\t0\nwho\tthe dog\t1\n", "train.en": "cat\n", "train.zh": "大\n", "both.tsv": "cat\t大\n",
    **{name: json.dumps(value) for name, value in LINES.items()},
}  # fmt: skip


def test_records_of_every_task_are_shown(make, tmp_path, capsys):
    from data_pipelines.inspect.inspection import inspect_records
    from data_pipelines.options.inspect_data import Options

    for task, name, text, flags, shown in [
        ("classify", "a.tsv", "label\ttext\ta\nx\tthe cat\t\ny\tdogs\t\n", {}, ["[x] the cat", "[y] dog ##s"]),
        ("multi_label", "a.tsv", "label\ttext\nx|y\tthe cat\n\tdogs\n", {}, ["[x | y] the cat", "[] dog ##s"]),
        ("multi_label", "a.jsonl", '{"text": "cat", "labels": ["x|y"]}', {}, ["[x|y] cat"]),
        ("regress", "a.csv", "cat,dog,2.5\n", COLUMNS, ["[2.5] cat | dog"]),
        ("tag", "a.txt", "dogs B-A\nplaying O\n", {}, ["dog/B-A ##s play/O ##ing"]),
        ("answer_span", "a.json", squad(("哪", [("北京", 6)]), ("里", [("都", 4)]), ("大", [], True)),
         {"max_query_length": 1, "doc_stride": 12, "max_seq_length": 19},
         ["哪 | 中 国 的 首 都 是 【北 京】 。", "里 | 中 国 的 首 【都】 是", "大 | 中 国 的 首 都 是 北"]),
        ("choose", "a.csv", "who,cat,dog,B\n", {}, ["  - who | cat\n  * who | dog"]),
        ("rank", "a.tsv", TABLE, COLUMNS, ["  0 who | the cat\n  1 who | the dog", "  1 中 国 | 北 京"]),
        ("siamese", "a.tsv", "text\ttext_pair\tother\nthe cat\tcat\tdogs\n", {"negative_column": "other"},
         ["    the cat\n  + cat\n  - dog ##s"]),
        ("siamese", "a.jsonl", '{"text": "the cat", "text_pair": "cat"}', {}, ["    the cat\n  + cat"]),
        ("answer_story", "qa1_a.txt", "1 the cat sat.\n2 dog ran.\n3 where?\tmat\t1\n", {"vocab_file": None},
         ["    the cat sat\n    dog ran\n  ? where\n  [mat]"]),
        ("translate", "a.tsv", "the cat\t中国\n", {"text_column": "0", "text_pair_column": "1"}, ["the cat\n  → 中 国"]),
    ]:  # fmt: skip
        _, folder = make(task, name, text, **flags)
        inspect_records(Options(data_dir=str(folder), num_examples=5, verify=True))
        said = capsys.readouterr().out
        assert "are whole and as the manifest says" in said and f"for --task={task}" in said
        assert all(line in said for line in shown)


def test_tables_of_texts_and_of_pairs_do_not_mix(make, tmp_path):
    (tmp_path / "b.tsv").write_text("label\ttext\ttext_b\na\tcat\tdog\nb\tdog\tcat\n", encoding="utf-8")
    single = str(tmp_path / "a.tsv")
    with pytest.raises(DataError, match=r"b.tsv, line 2: 2 text\(s\) in a row, the files before have 1"):
        make("classify", "a.tsv", "label\ttext\na\tcat\n", input_file=f"{single},{tmp_path / 'b.tsv'}")


@pytest.mark.parametrize("line", COMMANDS)
def test_rows_of_the_page_work_as_they_are_written(tmp_path, vocabulary, capsys, monkeypatch, line):
    monkeypatch.setattr(finetuning_data, "run_jobs", one_by_one)
    monkeypatch.chdir(tmp_path)
    for name, text in {**PAGE_FILES, "squad.json": json.dumps(squad(("哪", [("北京", 6)])))}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in line.split(" "))
    assert invoke("create_finetuning_data", **flags, vocab_file=vocabulary, output_dir="records") == 0, (
        capsys.readouterr().err
    )
    assert read("records") and f"for --task={flags['task']}" in capsys.readouterr().out


def test_the_page_names_every_feature_and_every_task():
    assert {line.split(" ")[0].removeprefix("--task=") for line in COMMANDS} == set(finetuning_data.TASKS)
    for task in map(finetuning_data.task_class, finetuning_data.TASKS):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{task.name}` |"))
        names = set(task(Settings(task=task.name, input_file="x", vocab_file="y")).features(2)) - {
            "example_ids",
            "segment_lengths",
            "token_ids",
        }
        assert all(f"`{name}`" in row for name in names)


@pytest.mark.parametrize(
    ("task", "name", "data", "message"),
    [
        ("classify", "a.tsv", b"label\ttext\na\tcat\n", "holds one label only ('a')"),
        ("classify", "a.tsv", b"label\ttext\na\t\xff\n", "a.tsv, line 2: not valid UTF-8 at byte 3 of the line (0xff)"),
        ("classify", "a.tsv", b"label\ttext\n" + b"".join(b"%d\tcat\n" % i for i in range(20)), "20 different labels in 20"),
        ("multi_label", "a.tsv", b"label\ttext\na|b|a\tcat\n", "line 2: repeated label: a label stands twice in ['a', 'b', 'a']"),
        ("multi_label", "a.tsv", b"label\ttext\n\tcat\n", "a.tsv: no row has a label. Name their column"),
        ("siamese", "a.tsv", b"text\ttext_b\tlabel\ncat\tdog\t1\n", "has a column of labels, such as '1', but --task=siamese reads"),
        ("siamese", "a.tsv", b"text\ttext_b\ncat\t\n", "a.tsv, line 2: empty text"),
        ("siamese", "a.tsv", b"text\ncat\n", "a.tsv: has one text in a row"),
        ("answer_story", "a.txt", b"1 cat.\n2 ...\tmat\n", "a.txt, line 2: no word: '...'"),
        ("answer_story", "a.txt", b"1 cat.\n3 who?\tmat\n", "a.txt, line 2: has number 3, expected 2"),
        ("answer_span", "a.json", b'{"data": [\n{]}', "a.json, line 2: not JSON"),
        ("answer_span", "a.json", b'{"data": [{"title": 1}]}', "data[0]: expected 'paragraphs' (list), as SQuAD has it. Found: title"),
        ("choose", "a.txt", b"cat", "unknown kind of file '.txt'. Known: .jsonl"),
        ("choose", "a.jsonl", b'{"question": "a"}', "a.jsonl, line 1: no field 'choices' or"),
        ("choose", "a.jsonl.gz", b"no gzip", "a.jsonl.gz: holds no compressed data"),
        ("rank", "a.jsonl", b'{"query": "a", "candidates": ["b"], "labels": []}', "a.jsonl, line 1: 1 candidates and 0 labels"),
        ("tag", "b.txt", b"", "b.txt: holds no examples"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_are_named(tmp_path, vocabulary, capsys, task, name, data, message):
    (tmp_path / name).write_bytes(data)
    flags = {"input_file": tmp_path / name, "vocab_file": vocabulary, "output_dir": tmp_path / "records"}
    assert invoke("create_finetuning_data", task=task, max_query_length=8, doc_stride=8, **flags) in (2, 3)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "classify", "labels": "a,a"}, "a label stands twice"),
        ({"task": "classify", "labels": "a", "labels_from": "x"}, "give one of them"),
        ({"task": "classify", "label_separator": ";"}, "is for --task=multi_label, not for --task=classify"),
        ({"task": "classify", "negative_column": "no"}, "is for --task=siamese, not for --task=classify"),
        ({"task": "siamese", "label_column": "no"}, "are of texts that match, without labels"),
        ({"task": "classify", "vocab_file": None}, "missing: --vocab_file, which --task=classify needs"),
        ({"task": "multi_label", "label_separator": ""}, "is empty"),
        ({"task": "regress", "labels": "a"}, "not for --task=regress"),
        ({"task": "classify", "target_file": "x"}, "--target_file is for --task=translate"),
        ({"task": "tag", "text_column": "word"}, "give its position from 0"),
        (
            {"task": "answer_span", "max_seq_length": 64, "max_query_length": 64},
            "--max_query_length=64: leaves no room",
        ),
        ({"task": "answer_span", "max_seq_length": 128, "doc_stride": 128}, "--doc_stride=128: windows of 61 tokens"),
        ({"task": "answer_span", "doc_stride": 0}, "--doc_stride=0: must be at least 1"),
    ],
)
def test_settings_that_cannot_work_are_named(tmp_path, vocabulary, settings, message):
    with pytest.raises(UsageError, match=message):
        given = {"input_file": "x", "vocab_file": vocabulary} | settings
        finetuning_data.create(Settings(**given), str(tmp_path / "records"))
    assert not (tmp_path / "records").exists()


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["squad1-en/xquad_en_subset.json", "cmrc2018-zh/cmrc2018_trial.json"])
def test_answers_of_real_questions_come_back_from_their_tokens(tmp_path, zh_vocabulary, monkeypatch, name):
    from data_pipelines.corpora.squad import read_squad

    monkeypatch.setattr(finetuning_data, "run_jobs", one_by_one)
    path = str(SHARED / "data/qa" / name)
    settings = Settings(
        task="answer_span", input_file=path, vocab_file=zh_vocabulary, max_seq_length=256, on_bad_row="skip"
    )
    manifest = finetuning_data.create(settings, str(tmp_path / "records"))
    questions, found, inside = list(read_squad(path)), set(), 0
    for record in read(tmp_path / "records"):
        question = questions[int(record["example_ids"])]
        if record["has_answer"]:
            found.add(int(record["example_ids"]))
            answer = answer_of(record, question.context)
            # A mark at the end, which lower-casing strips, belongs to no token.
            assert any(text.strip() in answer or text.strip().startswith(answer) for text, _ in question.answers)
            inside += all(text.strip() != answer for text, _ in question.answers)
    counts = manifest.statistics
    lost = counts.get("answers_in_no_window", 0) + counts.get("answers_without_tokens", 0)
    assert len(found) == counts["accepted"] - lost and lost < 0.02 * counts["accepted"] and inside < 0.02 * len(found)


def test_records_feed_the_network_the_batches_of_the_table(tmp_path, zh_vocabulary):

    from data_pipelines.batches.dataset import Batches
    from data_pipelines.text.kinds import open_tokenizer
    from tests.helpers.small_readers import reader_of

    samples = pathlib.Path(__file__).parents[2] / "samples/zh"
    pair = tmp_path / "pair.tsv"
    pair.write_text(
        "text\ttext_b\tlabel\n" + "自然语言处理模型\t语言\t1\n好吃\t\u3000语言模型 a\t0\n" * 8, encoding="utf-8"
    )
    tokenizer = open_tokenizer(zh_vocabulary)
    for path, length in ((samples / "train.tsv", 32), (pair, 10)):
        folder = str(tmp_path / path.stem)
        settings = Settings(
            task="classify", input_file=str(path), vocab_file=zh_vocabulary, max_seq_length=length, num_shards=2
        )
        finetuning_data.create(settings, folder)
        reader = reader_of("classify", max_seq_length=length)
        table, labels, num_texts = reader.source_of(str(path), tokenizer)
        recorded, same_labels, same_texts = reader.source_of(folder, tokenizer)
        assert (labels, num_texts) == (same_labels, same_texts)
        first, second = (
            list(Batches(source, lambda features: features, 8, 3).training().take(5)) for source in (table, recorded)
        )
        for a, b in zip(first, second, strict=True):
            assert set(a) == set(b)
            for name in a:
                np.testing.assert_array_equal(a[name], b[name])
                assert a[name].dtype == b[name].dtype
