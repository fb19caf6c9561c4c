"""Raw text becomes the same records whatever the number of workers and interruptions."""

import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import DataError, UsageError
from data_pipelines.pretraining.command import summary
from data_pipelines.pretraining.job import Settings, create, default_num_shards
from data_pipelines.records.folder import PLAN
from data_pipelines.records.manifest import MANIFEST, Manifest
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.helpers.invocation import invoke

ROOT = pathlib.Path(__file__).parents[2]
SAMPLES = str(ROOT / "samples/zh/corpus.txt")
COMMAND = [sys.executable, "-m", "launch", "create_pretraining_data"]
WORDS = [*(f"w{i}" for i in range(300)), *(f"##p{i}" for i in range(100))]


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(pathlib.Path(folder).iterdir())}


def chinese(vocabulary, **settings):
    values = {"language": "zh", "do_whole_word_mask": True, "segmenter": "jieba", "max_seq_length": 64, "num_shards": 4}
    return Settings(input_file=SAMPLES, vocab_file=vocabulary, **(values | settings))


def examples_of(folder):
    """All records of a folder, as dictionaries of lists."""
    paths = [os.path.join(folder, shard.name) for shard in Manifest.read(str(folder)).shards]
    for record in tf.data.TFRecordDataset(paths).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        yield {name: list(getattr(f, f.WhichOneof("kind")).value) for name, f in features.items()}


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    """(corpus, vocabulary): 12,000 sentences of words of one to four pieces."""
    folder, rng = tmp_path_factory.mktemp("english"), random.Random(0)
    with open(folder / "corpus.txt", "w") as file:
        for _ in range(2000):
            for _ in range(6):
                file.write(" ".join(english_word(rng) for _ in range(10)) + " .\n")
            file.write("\n")
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, ".", *WORDS]))
    return str(folder / "corpus.txt"), str(folder / "vocab.txt")


def english_word(rng):
    return f"w{rng.randrange(300)}" + "".join(f"p{rng.randrange(100)}" for _ in range(rng.choice([0, 0, 0, 1, 2, 3])))


def test_the_records_do_not_depend_on_the_number_of_workers(tmp_path, zh_vocabulary):
    made = []
    for num_workers in (1, 2, 4):
        folder = tmp_path / str(num_workers)
        manifest = create(chinese(zh_vocabulary), str(folder), num_workers)
        made.append(hashes(folder))
        assert {shard.name: shard.sha256 for shard in manifest.shards}.items() <= made[-1].items()
    assert made[0] == made[1] == made[2]
    assert sorted(made[0]) == [MANIFEST, *(f"records-0000{i}-of-00004.tfrecord" for i in range(4)), "vocab.txt"]


def test_another_seed_makes_other_records_of_the_same_text(tmp_path, zh_vocabulary):
    one, two = (
        create(
            chinese(zh_vocabulary, num_shards=1, segmenter="none", do_whole_word_mask=False, random_seed=seed),
            str(tmp_path / str(seed)),
        )
        for seed in (1, 2)
    )
    assert one.shards[0].sha256 != two.shards[0].sha256
    assert one.statistics["tokens"] == two.statistics["tokens"]


def command(english, folder, *more):
    corpus, vocabulary = english
    values = [f"--input_file={corpus}", f"--vocab_file={vocabulary}", f"--output_dir={folder}", "--num_shards=8"]
    values += ["--do_whole_word_mask", "--masking=static", "--dupe_factor=4"]
    return [*COMMAND, *values, *more]


def run(arguments):
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)


def finished(folder):
    return {
        path.name: path.stat().st_mtime_ns
        for path in folder.glob("*.tfrecord")
        if (folder / f"{path.name}.json").exists()
    }


@pytest.fixture(scope="module")
def uninterrupted(english, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "records"
    done = run(command(english, folder, "--num_workers=2"))
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_a_run_killed_in_the_middle_resumes_to_the_bytes_of_an_uninterrupted_one(tmp_path, english, uninterrupted):
    folder = tmp_path / "records"
    with subprocess.Popen(command(english, folder), cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        while not finished(folder):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    time.sleep(0.5)
    kept = finished(folder)
    assert 0 < len(kept) < 8
    time.sleep(1.5)
    assert finished(folder) == kept  # the workers have died with their parent
    assert not (folder / MANIFEST).exists() and (folder / PLAN).exists()
    refused = run(command(english, folder))
    assert refused.returncode == 2 and "--resume" in refused.stderr and finished(folder) == kept
    done = run(command(english, folder, "--resume"))
    assert done.returncode == 0, done.stderr
    assert hashes(folder) == hashes(uninterrupted[0])
    assert {name: (folder / name).stat().st_mtime_ns for name in kept} == kept


def test_resuming_a_finished_folder_changes_nothing(english, uninterrupted):
    folder, printed = uninterrupted
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = run(command(english, folder, "--resume"))
    assert (again.returncode, again.stdout) == (0, printed)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_the_end_prints_what_the_records_hold(uninterrupted):
    for word in (
        "documents 2,000",
        "sentences 12,000",
        "tokens",
        "[UNK] 0.00%",
        "padding",
        "more than one token",
        "hidden",
    ):
        assert word in uninterrupted[1]


@pytest.fixture
def small(tmp_path, zh_vocabulary):
    """A finished folder, and its settings."""
    settings = chinese(zh_vocabulary, segmenter="none", do_whole_word_mask=False, num_shards=1)
    create(settings, str(tmp_path / "records"))
    return tmp_path / "records", settings


@pytest.mark.parametrize("unfinished", [False, True])
def test_resuming_with_other_settings_names_what_changed(small, zh_vocabulary, unfinished):
    folder, _ = small
    if unfinished:
        (folder / PLAN).write_text(json.dumps(Manifest.read(str(folder)).settings.to_json()))
        (folder / MANIFEST).unlink()
    before = hashes(folder)
    other = chinese(
        zh_vocabulary, segmenter="none", do_whole_word_mask=False, num_shards=1, random_seed=3, short_seq_prob=0.5
    )
    with pytest.raises(UsageError, match="random_seed: 12345 then, 3 now; short_seq_prob: 0.1 then, 0.5 now"):
        create(other, str(folder), resume=True)
    assert hashes(folder) == before


def test_existing_records_are_replaced_only_on_demand(small):
    folder, settings = small
    before = hashes(folder)
    with pytest.raises(UsageError, match="--overwrite"):
        create(settings, str(folder))
    assert hashes(folder) == before
    (folder / "records-00007-of-00008.tfrecord.0f.partial").write_text("of an older run")
    create(settings, str(folder), overwrite=True)
    assert hashes(folder) == before


def test_overwriting_refuses_to_delete_files_that_are_not_records(small):
    folder, settings = small
    (folder / "thesis.txt").write_text("dear")
    before = hashes(folder)
    with pytest.raises(UsageError, match=r"refuses to delete.*thesis\.txt"):
        create(settings, str(folder), overwrite=True)
    with pytest.raises(UsageError):
        create(settings, str(folder))
    assert hashes(folder) == before


def test_neither_a_foreign_folder_is_resumed(tmp_path, zh_vocabulary):
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(UsageError, match="other files"):
        create(chinese(zh_vocabulary), str(tmp_path), resume=True)


def test_chinese_words_without_a_segmenter_are_a_usage_error(tmp_path, zh_vocabulary):
    values = [f"--input_file={SAMPLES}", f"--vocab_file={zh_vocabulary}", f"--output_dir={tmp_path / 'records'}"]
    done = run([*COMMAND, *values, "--language=zh", "--do_whole_word_mask"])
    assert done.returncode == 2
    assert "--segmenter=jieba" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "records").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_seq_length": 7},
        {"masked_lm_prob": 0.0},
        {"max_predictions_per_seq": 0},
        {"dupe_factor": 0},
        {"num_shards": -1},
    ],
)
def test_settings_that_cannot_work_are_named(tmp_path, zh_vocabulary, wrong):
    with pytest.raises(UsageError, match=f"--{next(iter(wrong))}="):
        create(chinese(zh_vocabulary, **wrong), str(tmp_path / "records"))
    with pytest.raises(UsageError, match="--num_workers=0"):
        create(chinese(zh_vocabulary), str(tmp_path / "records"), num_workers=0)
    assert not (tmp_path / "records").exists()


def test_bad_text_ends_the_run_with_the_data_exit_code_and_keeps_its_place(tmp_path, zh_vocabulary):
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(b"Fine.\n\n" * 100 + b"\xff\n\n" + b"Fine.\n\n" * 100)
    with pytest.raises(DataError, match="line 201: not valid UTF-8") as caught:
        create(Settings(input_file=str(corpus), vocab_file=zh_vocabulary, num_shards=2), str(tmp_path / "records"))
    assert caught.value.exit_code == 3 and str(corpus) in str(caught.value)
    assert not (tmp_path / "records" / MANIFEST).exists()
    assert not (tmp_path / "records" / "records-00000-of-00002.tfrecord").exists()


def test_static_records_have_googles_layout_and_obey_the_masking_rule(english, uninterrupted):
    folder, _ = uninterrupted
    vocabulary = Vocabulary.read(english[1])
    spec = {name: tf.io.FixedLenFeature([128], tf.int64) for name in ("input_ids", "input_mask", "segment_ids")}
    spec |= {name: tf.io.FixedLenFeature([20], tf.int64) for name in ("masked_lm_positions", "masked_lm_ids")}
    spec |= {
        "masked_lm_weights": tf.io.FixedLenFeature([20], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }
    paths = [str(path) for path in sorted(folder.glob("*.tfrecord"))]
    serialized = list(tf.data.TFRecordDataset(paths).as_numpy_iterator())
    parsed = {name: value.numpy() for name, value in tf.io.parse_example(serialized, spec).items()}
    assert set(tf.train.Example.FromString(serialized[0]).features.feature) == set(spec)
    continues = np.array([token.startswith("##") for token in vocabulary.tokens])
    totals = {"[MASK]": 0, "kept": 0, "hidden": 0, "tokens": 0}
    for row in range(len(serialized)):
        check_static(vocabulary, continues, {name: value[row] for name, value in parsed.items()}, totals)
    statistics = Manifest.read(str(folder)).statistics
    assert statistics["predictions"] == totals["hidden"] > 30_000
    assert statistics["example_tokens"] == totals["tokens"]
    assert 0.135 < totals["hidden"] / totals["tokens"] < 0.155
    assert totals["[MASK]"] / totals["hidden"] == pytest.approx(0.8, abs=0.01)
    assert totals["kept"] / totals["hidden"] == pytest.approx(0.1, abs=0.01)


def check_static(vocabulary, continues, example, totals):
    ids, length = example["input_ids"], int(example["input_mask"].sum())
    count = int(example["masked_lm_weights"].sum())
    positions, labels = example["masked_lm_positions"][:count], example["masked_lm_ids"][:count]
    assert 0 <= count <= min(20, max(1, round(0.15 * length)))
    assert (np.diff(positions) > 0).all() and (positions < length).all()
    assert (example["masked_lm_weights"] == (np.arange(20) < count)).all()
    for name in ("masked_lm_positions", "masked_lm_ids"):
        assert not example[name][count:].any()
    for name in ("input_ids", "input_mask", "segment_ids"):
        assert not example[name][length:].any()
    clean = ids.copy()
    clean[positions] = labels
    special = [i for i in range(length) if clean[i] in (vocabulary["[CLS]"], vocabulary["[SEP]"])]
    assert special[0] == 0 and len(special) == 3 and special[2] == length - 1
    assert (example["segment_ids"][:length] == (np.arange(length) > special[1])).all()
    ordinary = np.setdiff1d(np.arange(length), special)
    words = np.cumsum(~continues[clean[ordinary]] | (ordinary == ordinary[0]))
    hidden = np.isin(ordinary, positions)
    assert hidden.sum() == count and not np.isin(positions, special).any()
    assert (hidden == np.isin(words, words[hidden])).all()  # words whole
    totals["[MASK]"] += (ids[positions] == vocabulary["[MASK]"]).sum()
    totals["kept"] += (ids[positions] == labels).sum()
    totals["hidden"] += count
    totals["tokens"] += length


def test_the_statistics_of_a_corpus_that_can_be_counted_by_hand(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "a", "b", "##c", "."]))
    # Documents of one sentence: each makes one example, with the other document as its random second segment.
    (tmp_path / "corpus.txt").write_text("abc ac x.\n\n\n  b\n")  # [UNK] a ##c [UNK] . and b
    manifest = create(
        Settings(
            input_file=str(tmp_path / "corpus.txt"),
            vocab_file=str(tmp_path / "vocab.txt"),
            input_format="sentences",
            dupe_factor=3,
            max_seq_length=32,
        ),
        str(tmp_path / "records"),
    )
    assert manifest.statistics == {
        "documents": 2, "sentences": 2, "tokens": 6, "unknown_tokens": 2, "examples": 6, "example_tokens": 6 * 9,
        "next_sentence_labels=1": 6, "words": 6 * 5, "long_words": 6,
    }  # fmt: skip
    assert manifest.num_examples == 6
    long, short = [1, 5, 7, 1, 8], [6]
    for example in examples_of(tmp_path / "records"):
        assert example["token_ids"] in (long + short, short + long)
        assert example["segment_lengths"] == ([5, 1] if example["token_ids"][0] == 1 else [1, 5])
        assert example["word_start"] == (
            [1, 1, 0, 1, 1, 1] if example["token_ids"][0] == 1 else [1, 1, 1, 0, 1, 1][:1] + [1, 1, 0, 1, 1]
        )
        assert example["next_sentence_labels"] == [1]


def test_a_little_over_half_of_second_segments_are_random(tmp_path, zh_vocabulary):
    settings = chinese(
        zh_vocabulary, segmenter="none", do_whole_word_mask=False, num_shards=1, dupe_factor=40, max_seq_length=128
    )
    manifest = create(settings, str(tmp_path / "records"))
    share = sum(e["next_sentence_labels"][0] for e in examples_of(tmp_path / "records")) / manifest.num_examples
    assert 0.5 <= share <= 0.6
    assert manifest.statistics["next_sentence_labels=1"] / manifest.statistics["examples"] == share


def test_labels_far_from_half_and_much_padding_are_said(tmp_path, zh_vocabulary):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"第{i}天，他来了。雨停了。\n\n" for i in range(200)), encoding="utf-8")
    settings = Settings(input_file=str(corpus), vocab_file=zh_vocabulary, language="zh", max_seq_length=64)
    prose = create(settings, str(tmp_path / "prose"))
    assert prose.settings.read_as == "text" and "about half" not in summary(prose, "records")
    lines = create(dataclasses.replace(settings, input_format="sentences"), str(tmp_path / "lines"))
    said = [line for line in summary(lines, "records").splitlines() if "document has" in line]
    assert "next_sentence_labels: 0% are 0 and 100% are 1, where about half is meant" in said[0]
    assert "padding is " in said[1] and all("--input_format=text" in line for line in said)


def test_text_that_is_cut_off_and_unknown_tokens_are_said(tmp_path, zh_vocabulary):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(("他来了，雨停了。" * 9 + "\n") * 4 + "\n" for _ in range(60)), encoding="utf-8")
    settings = Settings(input_file=str(corpus), vocab_file=zh_vocabulary, language="zh", max_seq_length=32)
    cut = create(dataclasses.replace(settings, input_format="sentences"), str(tmp_path / "cut"))
    said = [line for line in summary(cut, "records").splitlines() if "Warning" in line]
    assert any(
        "of the text is in no example, as sentences are longer than rows: a sentence has" in line for line in said
    ), said
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n他\n", encoding="utf-8")
    unknown = create(dataclasses.replace(settings, vocab_file=str(tmp_path / "vocab.txt")), str(tmp_path / "unknown"))
    assert "of the tokens are [UNK], which tell a network nothing" in summary(unknown, "records")


def test_globs_that_take_vocabulary_or_output_for_text_are_refused(tmp_path, zh_vocabulary, capsys):
    shutil.copy(zh_vocabulary, tmp_path / "vocab.txt")
    shutil.copy(SAMPLES, tmp_path / "corpus.txt")
    (tmp_path / "records").mkdir()
    (tmp_path / "records/notes.md").write_text("text", encoding="utf-8")
    settings = Settings(input_file=f"{tmp_path}/*.txt", vocab_file=f"{tmp_path}/vocab.txt", language="zh")
    for changed, says in (
        ({}, "vocab.txt for text, but that is --vocab_file="),
        ({"vocab_file": str(tmp_path)}, "vocab.txt for text, but that is --vocab_file="),
        ({"input_file": f"{tmp_path}/**/[cn]*.*"}, "notes.md for text, but that lies in --output_dir="),
        ({"phrase_lexicon": f"x.txt,{tmp_path}/corpus.txt"}, "corpus.txt for text, but that is --phrase_lexicon"),
    ):
        with pytest.raises(UsageError, match=says):
            create(dataclasses.replace(settings, **changed), str(tmp_path / "records"))
    flags = {"language": "zh", "overwrite": True, "output_file": tmp_path / "vocab.txt", "vocab_size": 500}
    assert invoke("train_vocabulary", input_file=f"{tmp_path}/*.txt", **flags) == 2
    assert "vocab.txt for text, but that is --output_file=" in capsys.readouterr().err


def test_chinese_words_are_marked_on_the_ids_of_bare_characters(tmp_path, zh_vocabulary):
    tokens = Vocabulary.read(zh_vocabulary).tokens
    characters = [token for token in tokens if len(token) == 1 and "\u4e00" <= token <= "\u9fff"]
    everything = [*tokens, *(f"##{c}" for c in characters)]  # as the published Chinese vocabulary has them
    (tmp_path / "vocab.txt").write_text("\n".join(everything), encoding="utf-8")
    manifest = create(chinese(str(tmp_path / "vocab.txt"), num_shards=1), str(tmp_path / "records"))
    assert manifest.settings.segmenter == "jieba" and manifest.settings.others["segmenter_version"]
    bound = 0
    for example in examples_of(tmp_path / "records"):
        ids, starts, (first, second) = example["token_ids"], example["word_start"], example["segment_lengths"]
        assert max(ids) < len(tokens)
        assert len(ids) == len(starts) == first + second <= 61
        assert starts[0] == starts[first] == 1
        bound += starts.count(0)
    assert bound > 5000
    assert manifest.statistics["long_words"] > 3000


def test_the_folder_keeps_the_vocabulary_and_says_how_it_was_made(small, zh_vocabulary):
    folder, _ = small
    manifest, vocabulary = Manifest.read(str(folder)), Vocabulary.read(zh_vocabulary)
    assert Vocabulary.read(str(folder / "vocab.txt")).sha256 == vocabulary.sha256 == manifest.settings.vocabulary_sha256
    assert manifest.settings.vocabulary_size == len(vocabulary)
    assert manifest.settings.max_sequence_length == 64
    assert manifest.settings.tokenizer["do_lower_case"] is True
    assert manifest.num_examples == manifest.statistics["examples"] == sum(1 for _ in examples_of(folder))


def test_shards_are_few_for_small_and_many_for_large_corpora():
    assert [default_num_shards(n) for n in (1, 1 << 20, 5 << 20, 100 << 20, 10 << 30)] == [1, 1, 5, 16, 160]


def test_workers_need_no_tensorflow():
    imports = "import sys, data_pipelines.pretraining.job, launch.create_pretraining_data"
    assert run([sys.executable, "-c", f"{imports}; print('tensorflow' in sys.modules)"]).stdout == "False\n"


def test_static_ngrams_hide_several_words_in_a_row_and_need_static_masking(tmp_path, zh_vocabulary):
    text = tmp_path / "text.txt"
    text.write_text(
        "\n\n".join("今天天气很好我们去公园散步。\n明天也许会下雨。\n后天再说。" for _ in range(80)), "utf-8"
    )

    def runs(ngram):
        settings = Settings(
            input_file=str(text), vocab_file=zh_vocabulary, language="zh", masking="static", ngram=ngram, packing="sentence_order",
            masked_lm_prob=0.3, max_predictions_per_seq=12, max_seq_length=40,
        )  # fmt: skip
        create(settings, str(tmp_path / f"records{ngram}"))
        batches = Batches(RecordSource(str(tmp_path / f"records{ngram}")), lambda features: features, 64).once()
        gaps, labels = [], []
        for batch in batches:
            used = batch["masked_lm_weights"].numpy() > 0
            gaps += list(np.diff(batch["masked_lm_positions"].numpy(), axis=1)[used[:, 1:]])
            labels += list(batch["next_sentence_labels"].numpy()[batch["example_weights"].numpy() > 0, 0])
        assert 0.2 < np.mean(labels) < 0.8  # the order of the sentences, under Google's name
        return np.mean(np.array(gaps) == 1)

    assert runs(3) > runs(1) + 0.15
    with pytest.raises(UsageError, match="--ngram=3 shapes static masks only"):
        Settings(input_file="x", vocab_file="y", ngram=3).check()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("more", "whole"), [((), True), (("--nodo_whole_word_mask",), False), (("--do_whole_word_mask",), True)]
)
def test_ngrams_are_of_whole_words_unless_the_flag_says_otherwise(tmp_path, english, more, whole):
    corpus, vocabulary = english
    folder, pieces = tmp_path / "records", Vocabulary.read(vocabulary).tokens
    made = {"input_file": corpus, "vocab_file": vocabulary, "output_dir": folder, "num_shards": 1, "dupe_factor": 1}
    assert invoke("create_pretraining_data", *more, **made, masking="static", ngram=3, packing="sentence_order") == 0
    assert Manifest.read(str(folder)).settings.do_whole_word_mask is whole
    cut = 0
    for example in list(examples_of(folder))[:500]:
        places = {place for place in example["masked_lm_positions"] if place}
        ids = dict(enumerate(example["input_ids"])) | dict(
            zip(example["masked_lm_positions"], example["masked_lm_ids"], strict=True)
        )
        for place in range(2, len(example["input_ids"])):
            # Behind [CLS] and [SEP] truncation may have cut a word.
            inside = pieces[ids[place]].startswith("##") and pieces[ids[place - 1]] != "[SEP]"
            cut += inside and ((place in places) != (place - 1 in places))
    assert (cut == 0) is whole


def test_chinese_ngrams_without_a_segmenter_are_of_characters(zh_vocabulary):
    made = {"language": "zh", "masking": "static", "do_whole_word_mask": True}
    Settings(input_file="x", vocab_file=zh_vocabulary, ngram=3, **made).check()
    with pytest.raises(UsageError, match="needs word boundaries"):
        Settings(input_file="x", vocab_file=zh_vocabulary, **made).check()


def test_static_records_of_ordered_sentences_tell_where_words_begin(tmp_path, english):
    corpus, vocabulary = english
    tokens = Vocabulary.read(vocabulary).tokens
    made = {"input_file": corpus, "vocab_file": vocabulary, "masking": "static", "num_shards": 1}
    for packing in ("sentence_order", "segment_pair"):
        manifest = create(Settings(**made, packing=packing), str(tmp_path / packing))
        assert ("token_boundary" in manifest.features) == (packing == "sentence_order")
    for example in list(examples_of(tmp_path / "sentence_order"))[:300]:
        length = sum(example["input_mask"])
        ids = list(example["input_ids"])
        for place, label in zip(example["masked_lm_positions"], example["masked_lm_ids"], strict=True):
            ids[place] = label if place else ids[place]
        expected = [int(not tokens[i].startswith("##")) for i in ids[:length]] + [0] * (len(ids) - length)
        assert example["token_boundary"] == expected


def test_lone_sentences_are_left_out_or_paired_at_random(tmp_path, zh_vocabulary):
    text = tmp_path / "text.txt"
    documents = ["今天天气很好我们去公园散步。"] * 60 + ["明天也许会下雨。\n后天再说。"] * 30
    text.write_text("\n\n".join(documents), "utf-8")
    made = {"input_file": text, "vocab_file": zh_vocabulary, "language": "zh", "input_format": "sentences"}
    made |= {"packing": "sentence_order", "num_shards": 1, "short_seq_prob": 0}
    for more in ({}, {"lone_sentences": "skip"}, {"lone_sentences": "random"}):
        folder, way = tmp_path / str(len(str(more))), more.get("lone_sentences", "skip")
        assert invoke("create_pretraining_data", **made, **more, output_dir=folder) == 0
        manifest = Manifest.read(str(folder))
        assert manifest.settings.to_json()["lone_sentences"] == way
        assert manifest.num_examples == (90 if way == "random" else 30)
        assert (manifest.statistics["sentence_order_labels=1"] >= 60) == (way == "random")
    with pytest.raises(UsageError, match="--lone_sentences=random: only --packing=sentence_order"):
        Settings(input_file="x", vocab_file="y", lone_sentences="random").check()
