"""What of a test set stands in the corpus is found, and nothing else."""

import math
import pathlib
import random

import numpy as np
import pytest
from rbloom import Bloom

from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.corpora.headers import Columns
from data_pipelines.errors import DataError
from data_pipelines.options.inspect_data import Options
from data_pipelines.pretraining import contamination
from data_pipelines.pretraining.command import check_contamination
from data_pipelines.pretraining.contamination import TestFile, check, compare, grams, report
from launch.inspect_data import COMMAND

ROOT = pathlib.Path(__file__).parents[2]


def file_of(*examples):
    found = [grams(example) for example in examples]
    return TestFile("test", list(examples), found, [np.zeros(len(g), bool) for g in found])


def sentence(rng, length=20):
    return " ".join(f"w{rng.randrange(1000)}" for _ in range(length))


@pytest.mark.parametrize("capacity", [1, 7, 100, 1 << 20])
def test_overlaps_are_those_of_plain_sets_however_often_the_filter_is_emptied(capacity):
    rng = random.Random(0)
    documents = [[sentence(rng) for _ in range(3)] for _ in range(60)]
    examples = []
    for _ in range(50):
        text = sentence(rng, 12)
        if rng.random() < 0.5:
            text = f"{text} {' '.join(rng.choice(documents)).upper()[: rng.randrange(100)]} {text}"
        examples.append(text)
    file = file_of(*examples)
    compare(documents, 20_000, [file], capacity)
    known = {gram for document in documents for gram in grams(" ".join(document))}
    for example, found in zip(examples, file.found, strict=True):
        assert list(found) == [gram in known for gram in grams(example)]
    assert 0 < file.overlap < 1


def test_case_and_punctuation_do_not_matter_and_chinese_counts_characters():
    file = file_of("One, two: three four FIVE six (seven) eight!", "汉语的语料，很常见。", "too short", "one two three")
    compare([["one two three", "four five six seven eight nine"], ["这些汉语的语料很常见"]], 100, [file])
    assert file.shares[:2].tolist() == [1.0, 1.0] and np.isnan(file.shares[2:]).all()
    assert file.overlap == 1


def test_a_million_other_runs_are_not_found():
    filled = Bloom(20_000, contamination.FALSE_POSITIVES)
    rng = random.Random(1)
    known = [gram for _ in range(1000) for gram in grams(sentence(rng, 27))]
    filled.update(known)
    assert all(gram in filled for gram in known)
    assert not any(f"{i} b c d e f g h" in filled for i in range(1_000_000))


def test_the_report_names_the_worst_examples_of_every_file(tmp_path, capsys):
    rng = random.Random(2)
    lines = [sentence(rng) for _ in range(40)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    rows = [lines[3], sentence(rng), f"{lines[5][:60]} and then some quite other words"]
    (tmp_path / "test.tsv").write_text("\n".join(["label\ttext", *(f"0\t{row}" for row in rows)]))
    (tmp_path / "test.txt").write_text("short\n")
    found = [f"--contamination={tmp_path}/test.*", f"--input_file={tmp_path}/corpus.txt", "--num_worst=2"]
    assert COMMAND.main(found) == 0
    table, first, second, text = capsys.readouterr().out.strip().split("\n")
    assert (
        table.startswith(f"{tmp_path}/test.tsv: ") and "2 share a run, 1 share 80 % or more, 0 are too short" in table
    )
    assert f"100%  example 1: {lines[3]}"[:60] in first and "example 3: " in second
    assert "test.txt: no example has 8 words" in text


def test_the_corpus_of_records_is_found_by_their_manifest(records, capsys):
    tests = str(ROOT / "samples/zh/test.tsv")
    check_contamination(Options(contamination=tests, data_dir=records, num_worst=3))
    assert "runs of 8 words stand in the corpus" in capsys.readouterr().out


def test_test_files_that_are_missing_or_empty_are_named(tmp_path):
    (tmp_path / "corpus.txt").write_text("some text\n")
    (tmp_path / "empty.txt").write_text("\n")
    corpus = open_corpus(str(tmp_path / "corpus.txt"), "en")
    with pytest.raises(DataError, match="--contamination=.*nowhere.txt: matches no file"):
        check(str(tmp_path / "nowhere.txt"), corpus, Columns())
    with pytest.raises(DataError, match="empty.txt: holds no text"):
        check(str(tmp_path / "empty.txt"), corpus, Columns())


def test_files_without_any_run_have_no_share():
    assert math.isnan(file_of("short").overlap) and "none can be told" in report([file_of("short")], 3)


def test_a_command_forgets_the_flags_of_an_earlier_call():
    COMMAND.parse(["--data_dir=records", "--num_worst=7"])
    assert COMMAND.parse(["--contamination=test.txt"]) == Options(contamination="test.txt")
