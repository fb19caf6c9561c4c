"""Text from text: an encoder-decoder of any system is fine-tuned on a table, and writes, is scored and exported with its prefix."""

import json
import shutil
import sys

import numpy as np
import pytest

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.translations import read_translations
from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from xmodels import systems
from xmodels.conversion import convert
from xmodels.decoding.options import Decoding
from xmodels.jobs.finetune.options import Options
from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer, reader_of
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.runs.fine_tuned import Source, read_task
from xmodels.tasks.translate import answer
from xmodels.tasks.translate.read import read_pairs
from xmodels.tasks.translate.score import rouge_scorer, rouge_scores
from xmodels.tasks.translate.two_sides import padded

SMALL = {
    "hidden_dim": 32,
    "num_layers": 1,
    "num_heads": 2,
    "intermediate_dim": 64,
    "max_sequence_length": 40,
    "dropout": 0.0,
}
NO_DROPOUT = {"transformer": {"attention_dropout": 0.0, "intermediate_dropout": 0.0}, "t5": {"head_dim": 16}}
PAIRS = [("今天天气很好", "天气"), ("我们一起去公园", "公园"), ("语言模型学习句子", "语言"), ("孩子喜欢读书", "读书")]
PREFIX = "学: "


def start_of(system, path, vocabulary, spare=0):
    """A model folder of a small network of the system, with random weights and `spare` rows without a token."""
    tokenizer, module = open_tokenizer(vocabulary), systems.load(system)
    config = module.MODEL.config_class(
        vocabulary_size=len(tokenizer.vocabulary) + spare, **SMALL, **NO_DROPOUT.get(system, {})
    )
    path.mkdir()
    backbone = module.MODEL(config).initialize()
    folder.write_model(str(path), backbone, None, tokenizer.files(), tokenizer.describe(), system)
    return path


@pytest.fixture(scope="module", params=["t5", pytest.param("bart", marks=pytest.mark.long)])
def tuned(request, tmp_path_factory, zh_vocabulary):
    base = tmp_path_factory.mktemp(request.param)
    (base / "train.tsv").write_text("text\ttext_pair\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    start = start_of(request.param, base / "start", zh_vocabulary)
    done = invoke(
        "finetune", task="translate", init_checkpoint=start, train_file=base / "train.tsv", test_file=base / "train.tsv",
        model_dir=base / "run", prefix=PREFIX, max_seq_length=32, max_target_length=12, num_train_epochs=120,
        train_batch_size=4, learning_rate=3e-3, optimizer="adamw", jit_compile="false", log_steps=40,
    )  # fmt: skip
    assert done == 0
    return base / "run"


@pytest.mark.long
def test_what_was_learnt_is_written_with_the_prefix_that_the_run_keeps(tuned):
    assert json.loads((tuned / "task.json").read_text())["prefix"] == read_task(str(tuned)).prefix == PREFIX
    generator = answer.load(Source(str(tuned)))
    texts = [source for source, _ in PAIRS]
    assert generator.generate([*texts, " "]) == [*(target for _, target in PAIRS), ""]
    assert generator.generate(texts, Decoding(temperature=0.0, num_beams=3)) == [target for _, target in PAIRS]
    vocabulary = generator.tokenizer.vocabulary
    read = generator.source_ids(texts[0])
    own = generator.tokenizer.encode(PREFIX + texts[0]).ids
    opening = [vocabulary["[CLS]"]] if generator.opening else []
    assert read == [*opening, *own, vocabulary["[SEP]"]] and generator.source_ids(" ") == []
    cut = generator.source_ids(texts[0] * 10)
    assert len(cut) == 40 and cut[-1] == vocabulary["[SEP]"] and generator.num_cut == 1


@pytest.mark.long
def test_the_verbs_take_the_run(tuned, tmp_path, capsys):
    (tmp_path / "in.txt").write_text(f"{PAIRS[0][0]}\n\n{PAIRS[3][0]}\n", encoding="utf-8")
    flags = {"model_dir": tuned, "input_file": tmp_path / "in.txt"}
    assert invoke("translate", **flags, output_file=tmp_path / "out.txt", num_beams=2) == 0
    assert invoke("translate", model_dir=tuned, text=PAIRS[0][0], min_new_tokens=9, no_repeat_ngram_size=1) == 0
    longer = capsys.readouterr().out.strip().splitlines()[-1]
    assert len(longer) > len(PAIRS[0][1])
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == f"{PAIRS[0][1]}\n\n{PAIRS[3][1]}\n"
    rows = "".join(f"{a}\t{b}\n" for a, b in PAIRS)
    (tmp_path / "test.tsv").write_text(f"text\ttext_pair\n{rows}", encoding="utf-8")
    columns = {"text_column": "text", "target_column": "text_pair"}
    score = tmp_path / "scores.json"
    assert invoke("evaluate", model_dir=tuned, test_file=tmp_path / "test.tsv", output_file=score, **columns) == 0
    assert json.loads(score.read_text())["chrf"] == pytest.approx(100)
    scores = json.loads((tuned / "results.json").read_text())["results"]
    assert scores["test exact_match"] == 1 and 0 < scores["test negative_log_likelihood"] < 0.5


def test_pairs_are_read_from_every_kind_of_table(tmp_path, capsys):
    rows = [{"text": "one, two", "text_pair": "eins, zwei"}, {"text": "three", "text_pair": " "}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    texts = {
        "rows.jsonl": lines, "rows.csv": 'text,text_pair\n"one, two","eins, zwei"\nthree, \n',
        "rows.tsv": "text\ttext_pair\none, two\teins, zwei\nthree\t \n",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_pairs(str(tmp_path / name), None, "text", "text_pair") == (["one, two"], ["eins, zwei"])
        assert "1 pair(s) with an empty side are left out" in capsys.readouterr().out
    with pytest.raises(UsageError, match="no column 'answer'.*--text_column=0 --target_column=1"):
        read_pairs(str(tmp_path / "rows.csv"), None, "text", "answer")


def test_both_columns_are_asked_for_where_neither_is_known(tmp_path):
    table = tmp_path / "rows.tsv"
    table.write_text("german\tenglish\neins\tone\n", encoding="utf-8")
    with pytest.raises(UsageError, match="Name the two columns with --text_column and --text_pair_column"):
        list(read_translations(str(table), Columns()))
    with pytest.raises(UsageError, match="no column 'text_pair .* Name the column with --text_pair_column"):
        list(read_translations(str(table), Columns("german")))
    assert next(read_translations(str(table), Columns("german", "english")))[:2] == ("eins", "one")


@pytest.mark.long
def test_an_export_writes_what_the_run_writes(tuned, tmp_path):
    """The verb compares the SavedModel with the run itself, greedily and with beams."""
    rules = {"num_beams": 2, "no_repeat_ngram_size": 1, "min_new_tokens": 4}
    assert invoke("export_model", model_dir=tuned, export_dir=tmp_path / "served", serving_ops="core", **rules) == 0
    assert f"Each text gets the prefix {PREFIX!r} here." in (tmp_path / "served/README.md").read_text(encoding="utf-8")


def flags_of(tmp_path, start, **more):
    data = {"train_file": tmp_path / "train.tsv", "max_seq_length": 32}
    return {"task": "translate", "init_checkpoint": start, "model_dir": tmp_path / "run", **data, **more}


def test_what_cannot_be_learnt_is_said(tmp_path, zh_vocabulary, capsys):
    start = start_of("transformer", tmp_path / "start", zh_vocabulary)
    (tmp_path / "train.tsv").write_text("text\ttext_pair\n你好\t好\n今天\t\n", encoding="utf-8")
    assert invoke("finetune", **flags_of(tmp_path, start)) == DataError.exit_code
    assert "line 3: one of the two texts is empty" in capsys.readouterr().err
    assert invoke("finetune", **flags_of(tmp_path, start, label_column="x")) == UsageError.exit_code
    assert "--text_pair_column" in capsys.readouterr().err
    assert invoke("finetune", **flags_of(tmp_path, start, max_target_length=10**6)) == UsageError.exit_code
    assert "--max_target_length=1000000: the network has" in capsys.readouterr().err
    tokenizer = open_tokenizer(zh_vocabulary)
    (tmp_path / "bert").mkdir()
    bert = Bert(BertConfig(len(tokenizer.vocabulary), 16, 1, 2, 32, 32)).initialize()
    folder.write_model(str(tmp_path / "bert"), bert, None, tokenizer.files(), tokenizer.describe(), "bert")
    assert invoke("finetune", **flags_of(tmp_path, tmp_path / "bert")) == UsageError.exit_code
    assert "needs an encoder-decoder" in capsys.readouterr().err
    table = {**flags_of(tmp_path, tmp_path / "bert"), "task": "classify", "prefix": "x"}
    assert invoke("finetune", **table) != 0
    assert "--prefix: --task=classify has no such flag" in capsys.readouterr().err


def test_smoothing_and_pondering_go_on_as_the_network_was_pretrained(tmp_path, zh_vocabulary):
    """They stand in the flags of its run; a network without a run has the usual ones."""
    start = start_of("adaptive_universal_transformer", tmp_path / "backbone", zh_vocabulary)

    def numbers():
        options = Options(task="translate", init_checkpoint=str(start), model_dir=str(tmp_path / "tuned"))
        reader = reader_of(options)
        loaded, _ = load_checkpoint_and_tokenizer(options, reader)
        task = reader.layout.task(loaded.config)
        return task.label_smoothing, task.smoothing_over, task.ponder_weight

    assert numbers() == (0.1, "others", 0.01)
    given = "smoothing_over=all,ponder_weight=0.001,dropout=0.2,label_smoothing=0"
    (tmp_path / "config.json").write_text(json.dumps({"job": "pretrain", "flags": {"set": given}}))
    assert numbers() == (0.0, "all", 0.001)
    later = tmp_path / "later"  # a fine-tuning of that network
    shutil.copytree(start, later / "backbone")
    (later / "config.json").write_text(json.dumps({"job": "finetune", "flags": {"init_checkpoint": str(tmp_path)}}))
    start = later / "backbone"
    assert numbers() == (0.0, "all", 0.001)
    (tmp_path / "config.json").write_text(json.dumps({"job": "pretrain", "flags": {"set": "label_smoothing=much"}}))
    with pytest.raises(CheckpointError, match="told what is not understood"):
        numbers()


def test_unilm_goes_on_with_the_share_of_targets_that_it_was_pretrained_with(tmp_path, zh_vocabulary):
    start = start_of("unilm", tmp_path / "backbone", zh_vocabulary)
    given = "target_masking_rate=0.5,label_smoothing=0"
    (tmp_path / "config.json").write_text(json.dumps({"job": "pretrain", "flags": {"set": given}}))
    options = Options(
        task="translate", init_checkpoint=str(start), model_dir=str(tmp_path / "tuned"), max_seq_length=16
    )
    reader = reader_of(options)
    loaded, _ = load_checkpoint_and_tokenizer(options, reader)
    assert reader.layout.identity == {"as_pretrained": {"label_smoothing": 0.0, "target_masking_rate": 0.5}}
    assert reader.layout.task(loaded.config).label_smoothing == 0.0


def test_rows_are_padded_to_the_longest():
    assert padded([[5, 6, 7], [8]], 1, 5)[0].shape == (2, 5)
    ids, real = padded([[5, 6, 7], [8]], 1, 20)
    assert ids.tolist() == [[5, 6, 7, 1, 1, 1, 1, 1], [8, 1, 1, 1, 1, 1, 1, 1]]
    assert np.array_equal(real.sum(axis=1), [3, 1])


def test_rouge_needs_its_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    with pytest.raises(UsageError, match="rouge-score"):
        rouge_scorer()


@pytest.mark.extra("rouge_score")
def test_rouge_counts_words_and_chinese_characters():
    predictions, references = ["the cat sat down", "今天下雨"], ["The cat, sat.", "今天很好"]
    found = rouge_scores(rouge_scorer(), predictions, references)
    assert found["rouge1"] == pytest.approx(100 * (6 / 7 + 1 / 2) / 2)
    assert found["rouge2"] == pytest.approx(100 * (4 / 5 + 1 / 3) / 2)
    assert found["rougeL"] == pytest.approx(found["rouge1"])


def test_rows_without_a_token_are_for_t5_and_never_written(tmp_path, zh_vocabulary):
    generator = answer.load(Source(str(start_of("t5", tmp_path / "t5", zh_vocabulary, 5))))
    size, table = len(generator.tokenizer.vocabulary), generator.backbone.embedding.token.embeddings
    values = np.array(table)
    values[size:] *= 50.0  # what random states like best
    table.assign(values)
    states = np.random.default_rng(0).normal(size=(20, 32)).astype("float32")
    assert (np.argmax(generator.logits(states), axis=-1) >= size).mean() > 0.8
    drawn = Decoding(temperature=2.0)
    for decoding in (drawn, Decoding(temperature=0.0, num_beams=2)):
        assert all(isinstance(text, str) for text in generator.generate(["今天", "天气"] * 4, decoding, 12))
    loaded = convert.load(str(tmp_path / "t5"))
    convert.save(loaded, f"hf:{tmp_path / 'theirs'}")
    assert convert.load(f"hf:{tmp_path / 'theirs'}").config.vocabulary_size == size + 5
    spare = 5 if (size + 5) % 8 else 6  # a table that ends at a multiple of 8 was filled up
    start = start_of("bart", tmp_path / "bart", zh_vocabulary, spare)
    with pytest.raises(CheckpointError, match="vocabulary holds"):
        answer.load(Source(str(start)))
