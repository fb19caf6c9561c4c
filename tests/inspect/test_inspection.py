"""`inspect_data` shows what every objective does to real sentences."""

import re
import shutil

import numpy as np
import pytest

from data_pipelines.batches.dataset import Batches
from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.errors import DataError
from data_pipelines.inspect.inspection import inspect_records, setting_of
from data_pipelines.inspect.objectives import HIDDEN, OBJECTIVES, ORDER, SIDES
from data_pipelines.inspect.showcase import GREEN, RED, SHOW, prepare
from data_pipelines.options.inspect_data import Options
from data_pipelines.pretraining.vocabulary import sample
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import Vocabulary
from tests.helpers.invocation import invoke

UNITS = ("phrases", "entities")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name not in UNITS])
def test_an_objective_is_shown_on_records(objective, records, capsys):
    inspect_records(Options(data_dir=records, num_examples=2, num_statistics=64, objective=objective))
    shown = capsys.readouterr().out
    says = {HIDDEN: "tokens hidden", SIDES: "writes: ", ORDER: "none sees itself"}
    assert shown.count(says[OBJECTIVES[objective]]) >= 2
    assert ("masking of 64 examples" in shown) == (OBJECTIVES[objective] == HIDDEN)
    if objective == "span_corruption":
        assert "<extra_id_0>" in shown


@pytest.mark.parametrize("objective", UNITS)
def test_records_without_the_units_are_refused_in_one_line(objective, records):
    with pytest.raises(DataError, match="needs the feature `(phrase|entity)_start`"):
        inspect_records(Options(data_dir=records, num_examples=2, num_statistics=64, objective=objective))


def test_static_records_show_their_own_masks(static_records, capsys):
    inspect_records(Options(data_dir=static_records, num_examples=1, num_statistics=64, objective="spans"))
    assert "their own" in capsys.readouterr().out


def test_damaged_records_are_named(records, tmp_path, capsys):
    folder = shutil.copytree(records, tmp_path / "records")
    shard = next(folder.glob("*.tfrecord"))
    data = shard.read_bytes()
    shard.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    assert invoke("inspect_data", data_dir=folder) == 3
    said = capsys.readouterr().err
    assert str(folder) in said and "make it anew" in said and "Traceback" not in said


def test_labelled_records_with_the_vocabulary_of_others_are_refused(tmp_path, capsys):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdef"]) + "\n")
    (tmp_path / "rows.tsv").write_text("label\ttext\ngood\ta f\nbad\tb c\n")
    flags = {"task": "classify", "input_file": tmp_path / "rows.tsv", "vocab_file": tmp_path / "vocab.txt"}
    assert invoke("create_finetuning_data", output_dir=tmp_path / "records", **flags) == 0
    (tmp_path / "records/vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]) + "\n")
    assert invoke("inspect_data", data_dir=tmp_path / "records") == 3
    assert "vocab.txt was changed: 5 pieces, but the records" in capsys.readouterr().err


@pytest.mark.long
def test_text_is_coloured_for_a_terminal_only(records):
    source = RecordSource(records)
    setting = setting_of(source.manifest, Vocabulary.read(f"{records}/vocab.txt"))
    for name in ("spans", "mass", "permutation_lm"):
        op, tokens = prepare(name, setting)
        batch = next(iter(Batches(source, op, 8).once(1)))
        example = {key: value[0].numpy() for key, value in batch.items()}
        plain, coloured = (SHOW[OBJECTIVES[name]](example, tokens, colours) for colours in (False, True))
        assert "\033" not in plain and GREEN in coloured
        assert (RED in coloured) or name == "permutation_lm"


def test_phrases_are_hidden_where_records_mark_them(records):
    source = RecordSource(records)
    setting = setting_of(source.manifest, Vocabulary.read(f"{records}/vocab.txt"))
    setting = setting.__class__(**{**vars(setting), "features": (*setting.features, "phrase_start")})
    op, _ = prepare("phrases", setting)

    def with_phrases(features):
        return op({**features, "phrase_start": features["word_start"]})

    batch = next(iter(Batches(source, with_phrases, 64).once(1)))
    assert np.sum(batch["label_weights"]) > 64


def test_a_vocabulary_is_compared_with_a_corpus_or_with_that_of_records(records, zh_vocabulary, tmp_path, capsys):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("我们去爬山。我们跑。\n鿀鿀 鿁\n", encoding="utf-8")
    flags = {"vocab_file": zh_vocabulary, "language": "zh"}
    assert invoke("inspect_data", **flags, input_file=corpus) == 0
    shown = capsys.readouterr().out
    assert "entries of --tokenizer=wordpiece, lower-cased" in shown and "On all of the text" in shown
    assert "most often lost: 鿀 (2) 鿁 (1)" in shown and "entries never used: 1,3" in shown
    assert invoke("inspect_data", vocab_file=zh_vocabulary, data_dir=records, megabytes=0.01) == 0
    assert re.search(r"On 1\d,\d{3} bytes of the text", capsys.readouterr().out)
    for more, said in (({}, "name the text with"), ({"contamination": "a.txt", "input_file": corpus}, "two reports")):
        assert invoke("inspect_data", **flags, **more) == 2
        assert said in capsys.readouterr().err


def test_a_report_takes_its_text_from_all_of_the_corpus(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"sentence number {i} stands here.\n\n" for i in range(4000)), encoding="utf-8")
    found = [int(text.split()[2]) for text in sample(open_corpus(str(corpus), "en"), 10_000)]
    assert found == sorted(found) and len(set(found)) == len(found)
    assert found[0] == 0 and found[-1] > 3700 and len({i // 250 for i in found}) == 16
    assert 10_000 <= sum(len(f"sentence number {i} stands here.") for i in found) <= 11_000
    assert len(list(sample(open_corpus(str(corpus), "en"), 0))) == 4000
