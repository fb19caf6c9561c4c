"""Documents that stand in the corpus before are dropped: all of them, no others, whoever does the work."""

import collections
import random
import signal
import subprocess
import time

import numpy as np
import pytest

from data_pipelines.corpora.documents import Document
from data_pipelines.errors import DataError, UsageError
from data_pipelines.pretraining import duplicates
from data_pipelines.pretraining.duplicates import (
    EXACT,
    KEEP,
    NEAR,
    bands_of,
    decide,
    drop_duplicates,
    write_fingerprints,
)
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.text.units import shingles, units
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.pretraining.test_pretraining_data import COMMAND, ROOT, hashes


def verdicts_of(tmp_path, parts, near=True, threshold=0.8, ngram=5, seed=1):
    """The verdicts over parts of documents, each a text or a list of sentences."""
    paths = [str(tmp_path / f"{i}.duplicates") for i in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        documents = (Document([d] if isinstance(d, str) else d, "x") for d in part)
        write_fingerprints(documents, path, near, ngram, seed)
    decide(paths, near, threshold)
    return [list(np.fromfile(f"{path}.drop", np.uint8)) for path in paths]


def test_units_are_lower_case_words_and_single_characters():
    assert units("The U.S.-born_X2, 汉语 é 3.5%") == ["the", "u", "s", "born", "x2", "汉", "语", "é", "3", "5"]
    assert shingles(list("abcd"), 3) == ["a b c", "b c d"] and shingles(["a"], 3) == ["a"] and shingles([], 3) == []


def test_the_first_of_equal_documents_stays_whatever_their_case_and_punctuation(tmp_path):
    parts = [["A b c.", "d", ["a", "B, c!"]], [], ["", "d?", "...", "e"], ["E", "...", "a bc"]]
    expected = [[KEEP, KEEP, EXACT], [], [KEEP, EXACT, KEEP, KEEP], [EXACT, EXACT, KEEP]]
    assert verdicts_of(tmp_path, parts, near=False) == expected
    assert verdicts_of(tmp_path, parts, ngram=1) == expected


def jaccard(a, b, ngram=5):
    first, second = (set(shingles(units(text), ngram)) for text in (a, b))
    return len(first & second) / len(first | second)


@pytest.mark.long
def test_near_duplicates_are_those_of_brute_force_but_for_texts_at_the_threshold(tmp_path):
    rng = random.Random(0)
    texts = []
    for _ in range(60):
        words = [f"w{rng.randrange(500)}" for _ in range(rng.randrange(30, 300))]
        for _ in range(4):
            changed = list(words)
            for _ in range(rng.choice([0, 1, 2, 4, 20])):
                changed[rng.randrange(len(changed))] = "other"
            texts.append(" ".join(changed))
    rng.shuffle(texts)
    found = np.concatenate(verdicts_of(tmp_path, [texts[:100], texts[100:]]))
    clear = 0
    for index, verdict in enumerate(found):
        similar = max([jaccard(texts[index], texts[other]) for other in range(index)], default=0)
        if similar > 0.9 or similar < 0.7:
            clear += 1
            assert (verdict != KEEP) == (similar > 0.9), similar
    assert clear > 150 and {EXACT, NEAR} < set(found)


def test_chinese_documents_are_compared_by_characters(tmp_path):
    text = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜金生丽水玉出昆冈" * 2
    other = "剑号巨阙珠称夜光果珍李柰菜重芥姜海咸河淡鳞潜羽翔龙师火帝鸟官人皇始制文字乃服衣裳推位让国有虞陶唐"
    assert verdicts_of(tmp_path, [[text, text + "。后", other, text[:20] + other]]) == [[KEEP, NEAR, KEEP, KEEP]]


def test_a_bucket_of_a_thousand_alike_is_decided_in_one_sweep(tmp_path):
    same = " ".join(f"w{i}" for i in range(200))
    (verdicts,) = verdicts_of(tmp_path, [[f"{same} {i}" for i in range(1000)]])
    assert verdicts == [KEEP] + [NEAR] * 999


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.95, 1.0])
def test_bands_catch_texts_at_the_threshold(threshold):
    bands = bands_of(threshold)
    rows = bands[0].stop
    assert 1 - (1 - threshold**rows) ** len(bands) >= 0.99 and bands[-1].stop <= duplicates.NUM_HASHES
    assert all(band.stop - band.start == rows for band in bands)


@pytest.mark.parametrize("now", [["one"], ["one", "two", "three"]])
def test_a_text_that_has_changed_between_the_passes_is_named(tmp_path, now):
    verdicts_of(tmp_path, [["one", "two"]], near=False)
    (path,) = (str(p)[: -len(".drop")] for p in tmp_path.rglob("*.drop"))
    with pytest.raises(DataError, match=f"{path}.*the text has changed"):
        list(drop_duplicates(path, collections.Counter())(Document([text], "") for text in now))


def test_flags_that_cannot_work_are_named():
    for wrong, says in ((("all", 0.8, 5), "Known: none"), (("near", 1.1, 5), "Jaccard"), (("near", 0.8, 0), "ngram=0")):
        with pytest.raises(UsageError, match=says):
            duplicates.check(*wrong)


@pytest.fixture(scope="module")
def repeated(tmp_path_factory):
    """(corpus, vocabulary): 400 documents, of which 100 stand once more and 100 once more with a word changed."""
    folder, rng = tmp_path_factory.mktemp("repeated"), random.Random(0)
    documents = [[" ".join(f"w{rng.randrange(300)}" for _ in range(20)) for _ in range(4)] for _ in range(200)]
    documents += [[sentence.upper() for sentence in d] for d in documents[:100]]
    documents += [[*d[:3], "other " + d[3]] for d in documents[100:200]]
    (folder / "corpus.txt").write_text("\n\n".join("\n".join(d) for d in documents) + "\n")
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "other", *(f"w{i}" for i in range(300))]))
    return str(folder / "corpus.txt"), str(folder / "vocab.txt")


def test_records_of_a_corpus_without_its_duplicates_do_not_depend_on_the_workers(tmp_path, repeated):
    made = []
    for num_workers in (1, 3):
        settings = Settings(
            input_file=repeated[0], vocab_file=repeated[1], deduplicate="near", num_shards=5, max_seq_length=64
        )
        manifest = create(settings, str(tmp_path / str(num_workers)), num_workers)
        assert manifest.statistics["documents"] == 200
        assert manifest.statistics["exact_duplicates_dropped"] == manifest.statistics["near_duplicates_dropped"] == 100
        made.append(hashes(tmp_path / str(num_workers)))
    assert made[0] == made[1]
    assert not [name for name in made[0] if "duplicates" in name]
    assert manifest.settings.others["minhash_version"].startswith("rensa ")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("stop_at", ["*.duplicates", "*.drop", "*.tfrecord.json"])
def test_a_run_killed_in_either_pass_resumes_to_the_same_bytes(tmp_path, repeated, stop_at):
    corpus, vocabulary = repeated
    flags = [f"--input_file={corpus}", f"--vocab_file={vocabulary}", "--deduplicate=exact", "--num_shards=20"]
    settings = Settings(input_file=corpus, vocab_file=vocabulary, deduplicate="exact", num_shards=20)
    create(settings, str(tmp_path / "whole"))
    folder = tmp_path / "killed"
    with subprocess.Popen([*COMMAND, *flags, f"--output_dir={folder}"], cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        while not list(folder.glob(stop_at)) and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    time.sleep(0.3)
    create(settings, str(folder), resume=True)
    assert hashes(folder) == hashes(tmp_path / "whole")
