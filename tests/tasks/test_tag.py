"""Tagging, from CoNLL files to entities with their places: heads, alignment, scores, the choice of the epoch, and what is served."""

import importlib
import json

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import xmodels
from data_pipelines.errors import DataError, UsageError
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.invocation import invoke
from tests.helpers.parity import read_case
from tests.models.test_bert_parity import write_hugging_face
from xmodels.conversion import convert
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.base import find
from xmodels.tasks.tag.read import TagSource, read_sentences
from xmodels.tasks.tag.score import from_source, scores
from xmodels.tasks.tag.task import Tag
from xmodels.tasks.tag.words import Words, entities, words_of

PEOPLE, PLACES = ("Ann", "Bob", "Carlos"), ("York", "Jinan", "Rome")
TEXT = "Ann met Bob in York. Carlos, too!"


def sentences(count, seed):
    """CoNLL lines of sentences whose entities are told by the words."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        first, second, place = rng.choice(PEOPLE), rng.choice(PEOPLE), rng.choice(PLACES)
        yield from (f"{first} B-PER", "met O", f"{second} B-PER", "in O", "New B-LOC", f"{place} I-LOC", ". O", "")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder_ = tmp_path_factory.mktemp("conll")
    for name, count, seed in (("train.txt", 64, 0), ("dev.txt", 16, 1)):
        (folder_ / name).write_text("\n".join(sentences(count, seed)) + "\n", encoding="utf-8")
    return folder_


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("bert")
    words = [
        "ann",
        "bob",
        "car",
        "##los",
        "met",
        "in",
        "new",
        "york",
        "ji",
        "##nan",
        "rome",
        ".",
        ",",
        "too",
        "!",
        "北",
        "京",
    ]
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *words], "a test")
    config = BertConfig(len(vocabulary), 32, num_layers=1, num_heads=2, intermediate_dim=64, max_sequence_length=24)
    tokenizer = WordPieceTokenizer(vocabulary)
    folder.write_model(str(path), Bert(config).initialize(), None, tokenizer.files(), tokenizer.describe())
    return path


def call(verb, *arguments):
    module = importlib.import_module(f"launch.{verb}")
    assert module.COMMAND.main(list(map(str, arguments))) == 0


@pytest.fixture(scope="module")
def run(data, checkpoint, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "tagger"
    call(
        "finetune", "--task=tag", f"--init_checkpoint={checkpoint}", f"--train_file={data}/train.txt",
        f"--eval_file={data}/dev.txt", f"--model_dir={path}", "--max_seq_length=16", "--num_train_epochs=6",
        "--train_batch_size=16", "--learning_rate=1e-2", "--distribution_strategy=one_device", "--log_steps=4", "--nojit_compile",
    )  # fmt: skip
    return path


def test_the_head_is_that_of_hugging_face(tmp_path):
    case = read_case("bert/heads")
    found = convert.load(write_hugging_face(tmp_path / "hf", case, "token/"))
    backbone, task = Bert(found.config).initialize(), Tag(found.config, range(case.numbers["num_token_labels"]))
    folder.assign("backbone", backbone, found.values, "golden")
    ids = case.inputs["token_labels"]
    batch = {name: case.inputs[name] for name in ("token_ids", "segment_ids")}
    batch |= {"padding_mask": case.inputs["padding_mask"] > 0, "example_weights": np.ones(len(ids), np.float32)}
    batch |= {"labels": np.maximum(ids, 0), "label_weights": (ids >= 0).astype(np.float32)}
    task.forward(backbone, batch)  # builds the head
    task.head.set_weights([case.weights["token/classifier.weight"].T, case.weights["token/classifier.bias"]])
    outputs = task.forward(backbone, batch)
    np.testing.assert_allclose(outputs["logits"], case.outputs["token/logits"], atol=1e-4)
    total, count = task.score(outputs, batch, backbone)[0]["tag"]
    np.testing.assert_allclose(float(total) / float(count), case.outputs["token/loss"], atol=1e-4)


def test_a_task_is_found_by_its_folder():
    assert "tag" in find.names() and "tag" in find.names("task")
    for verb in ("finetune", "evaluate"):
        assert "tag" in importlib.import_module(f"launch.{verb}").COMMAND.usage()


def test_the_best_epoch_is_that_of_the_best_entity_f1(run):
    results = json.loads((run / "results.json").read_text())
    assert "evaluation entity_f1" in json.dumps(results)
    assert "best entity_f1" in (run / "model_card.md").read_text()


def test_entities_of_plain_text_with_their_places(run):
    (found,) = xmodels.load(str(run)).predict([TEXT])
    assert [found.text[a:b] for a, b in found.spans] == [
        "Ann",
        "met",
        "Bob",
        "in",
        "York",
        ".",
        "Carlos",
        ",",
        "too",
        "!",
    ]
    for entity in found.entities:
        assert found.text[entity.start : entity.end] == entity.text
    assert ("Ann", "PER", 0, 3) in [(e.text, e.type, e.start, e.end) for e in found.entities]


def test_words_are_those_of_berts_tokenizer(run):
    tokenizer = load(str(run)).tokenizer
    words = words_of("Ann, 北京 Carlos!", tokenizer)
    assert [words.text[a:b] for a, b in words.spans] == ["Ann", ",", "北", "京", "Carlos", "!"]


def test_predict_and_evaluate_from_the_command_line(run, data, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text(f"{TEXT}\n\nin Rome\n", encoding="utf-8")
    call("predict", f"--model_dir={run}", f"--input_file={tmp_path}/texts.txt", f"--output_file={tmp_path}/out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows[0]["text"] == TEXT and rows[1] is None and len(rows[2]["words"]) == 2
    call("evaluate", f"--model_dir={run}", f"--test_file={data}/dev.txt", f"--output_file={tmp_path}/scores.json")
    assert json.loads((tmp_path / "scores.json").read_text())["entity_f1"] > 0.9
    assert "entity F1" in capsys.readouterr().out


def test_a_run_tags_the_same_after_a_way_through_hugging_faces_format(run, tmp_path):
    call("convert_checkpoint", f"--from={run}", f"--to=hf:{tmp_path}/theirs", "--verify")
    stored = json.loads((tmp_path / "theirs/config.json").read_text())
    assert stored["architectures"] == ["BertForTokenClassification"]
    assert list(stored["id2label"].values()) == ["O", "B-LOC", "I-LOC", "B-PER"]
    call("convert_checkpoint", f"--from=hf:{tmp_path}/theirs", f"--to={tmp_path}/back")
    texts = [TEXT, "", "Rome"]
    expected = load(str(run)).predict(texts)
    for source in (f"{tmp_path}/back", f"hf:{tmp_path}/theirs"):
        found = xmodels.load(source).predict(texts)
        assert [each.entities for each in found] == [each.entities for each in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.tags == other.tags
            np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-5)


@pytest.mark.parametrize("serving_ops", ["core", pytest.param("text", marks=pytest.mark.long)])
@pytest.mark.long
def test_what_is_served_is_what_the_run_says(run, tmp_path, serving_ops):
    call("export_model", f"--model_dir={run}", f"--export_dir={tmp_path}/served", f"--serving_ops={serving_ops}")
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures
    found = {name: value.numpy()[0] for name, value in served["serving_default"](text=tf.constant([TEXT, "x"])).items()}
    (expected,) = load(str(run)).predict([TEXT])
    assert [x.decode() for x in found["entity"] if x] == [entity.text for entity in expected.entities]
    assert [s for s in found["start"].tolist() if s >= 0] == [entity.start for entity in expected.entities]
    assert "tagger of words" in (tmp_path / "served/README.md").read_text()


def test_entities_of_tags():
    words = Words("a b c d", [(0, 1), (2, 3), (4, 5), (6, 7)])
    found = [(e.text, e.type) for e in entities(words, ["I-X", "I-X", "I-Y", "B-Y"])]
    assert found == [("a b", "X"), ("c", "Y"), ("d", "Y")]


def test_scores_are_those_of_seqeval_and_an_all_o_tagger_has_none():
    truth = [["B-X", "I-X", "O"], ["O", "B-Y", "O"]]
    assert scores(truth, truth)["entity_f1"] == 1.0
    silent = scores([["O"] * 3] * 2, truth)
    assert silent["entity_f1"] == 0.0 and silent["accuracy"] == 0.5
    assert scores([["B-X", "O", "O"], ["O", "B-Y", "O"]], truth)["entity_f1"] == 0.5
    plain = scores([["NOUN", "VERB"]], [["NOUN", "NOUN"]])  # parts of speech: each word is a span
    assert plain["entity_f1"] == plain["accuracy"] == 0.5


def test_arrays_give_the_tags_of_first_tokens_of_all_windows():
    outputs = {"label_ids": np.array([[0, 1, 2, 0], [0, 0, 1, 0], [2, 2, 2, 2]])}
    weights = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 0, 1]], np.float32)
    arrays = {"labels": np.array([[0, 1, 0, 2], [0, 0, 2, 0], [0] * 4]), "label_weights": weights}
    config = BertConfig(30, 8, num_layers=1, num_heads=1, intermediate_dim=8, max_sequence_length=8)
    found = from_source(outputs, TagSource(arrays, "x", np.array([4, 4, 7])), Tag(config, ["O", "B-X", "I-X"]))
    assert found == ([["B-X", "O", "O", "B-X"], ["I-X"]], [["B-X", "I-X", "O", "I-X"], ["O"]])


def test_tags_that_are_unknown_and_columns_with_names_are_said(data, tmp_path):
    with pytest.raises(UsageError, match="columns of CoNLL files have no names"):
        read_sentences(str(data / "train.txt"), "word", None)
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(DataError, match="holds no sentences"):
        read_sentences(str(tmp_path / "empty.txt"), None, None)


def test_a_table_of_classes_is_no_file_of_tags(checkpoint, tmp_path, capsys):
    (tmp_path / "table.tsv").write_text("".join(f"good\ttext{number}\n" for number in range(60)))
    flags = {
        "init_checkpoint": checkpoint,
        "train_file": tmp_path / "table.tsv",
        "model_dir": tmp_path / "run",
        "max_seq_length": 24,
    }
    assert invoke("finetune", task="tag", **flags) == 2
    assert "60 different labels in 60 rows" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_tags_behind_the_first_token_of_a_word_do_not_count():
    config = BertConfig(30, 8, num_layers=1, num_heads=1, intermediate_dim=8, max_sequence_length=8)
    backbone, task = Bert(config).initialize(), Tag(config, ["O", "B-X"])
    ids = np.arange(5, 13).reshape(2, 4)
    batch = {
        "token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0, "example_weights": np.array([1.0, 0.0], np.float32),
        "label_weights": np.array([[0, 1, 0, 0]] * 2, np.float32), "labels": np.zeros_like(ids),
    }  # fmt: skip
    outputs = task.forward(backbone, batch)
    one = task.score(outputs, batch, backbone)[0]["tag"]
    other = task.score(outputs, {**batch, "labels": np.array([[1, 0, 1, 1], [1, 1, 1, 1]])}, backbone)[0]["tag"]
    np.testing.assert_allclose(*(ops.convert_to_numpy(each[0]) for each in (one, other)))
    assert float(one[1]) == 1.0
