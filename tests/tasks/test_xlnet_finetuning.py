"""XLNet's content stream answers: special tokens and the state that answers stand last, padding first, in every task and export."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.grouping import shorten_features
from data_pipelines.corpora.choices import ChoiceQuestion
from data_pipelines.text.frames import XLNET
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.invocation import invoke
from tests.tasks.test_tag import sentences
from xmodels.models import folder
from xmodels.models.xlnet import XLNet, XLNetConfig
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.tag.words import pack_words

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"
WORDS = "ann bob car ##los met in new york ji ##nan rome . , too !".split()
PLAIN = [word for word in WORDS if word.isalpha() and word not in ("ann", "bob", "car")]
TOKENIZER = WordPieceTokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS], "a test"))
QUICK = {"max_seq_length": 16, "train_batch_size": 16, "distribution_strategy": "one_device", "jit_compile": "false"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A small network of random weights as a model folder."""
    path = tmp_path_factory.mktemp("xlnet")
    backbone = XLNet(XLNetConfig(len(TOKENIZER.vocabulary), 32, 1, 2, 64, memory_length=8)).initialize()
    folder.write_model(str(path), backbone, None, TOKENIZER.files(), TOKENIZER.describe(), "xlnet")
    return path


def test_rows_are_shortened_on_the_side_of_their_padding():
    mask = np.array([[False, False, False, True, True], [False, False, True, True, True]])
    ids = np.arange(10).reshape(2, 5)
    for real, rows, columns in ((mask, ids, slice(1, 5)), (mask[:, ::-1], ids, slice(0, 4))):
        features = {"padding_mask": tf.constant(real), "token_ids": tf.constant(rows), "labels": tf.constant([1, 2])}
        found = shorten_features(features, tf.constant(4))
        np.testing.assert_array_equal(found["token_ids"], rows[:, columns])
        np.testing.assert_array_equal(found["padding_mask"], real[:, columns])
        np.testing.assert_array_equal(found["labels"], [1, 2])


def tables(path):
    """Texts, and pairs, whose label is told by a word of the first text."""
    rows = [(f"{a} met {b} in {place}", "new york too !", a) for a in ("ann", "bob") for b in PLAIN for place in PLAIN]
    (path / "texts.tsv").write_text("text\tlabel\n" + "".join(f"{a}\t{label}\n" for a, _, label in rows), "utf-8")
    lines = "".join(f"{a}\t{b}\t{label}\n" for a, b, label in rows)
    (path / "pairs.tsv").write_text(f"text\ttext_pair\tlabel\n{lines}", "utf-8")
    return path


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "table"), [("classify", "texts"), pytest.param("similarity", "pairs", marks=pytest.mark.long)]
)
def test_texts_and_pairs_are_learnt_and_served(start, tmp_path, task, table):
    run, flags = tmp_path / "run", QUICK | ({"length_buckets": "8,12"} if task == "classify" else {})
    data = tables(tmp_path) / f"{table}.tsv"
    flags |= {"train_file": data, "eval_file": data, "num_train_epochs": 8, "learning_rate": 1e-2}
    assert invoke("finetune", task=task, init_checkpoint=start, model_dir=run, **flags) == 0
    predictor = load(str(run))
    text = ("bob met new in rome",) + (("new york",) if table == "pairs" else ())
    longer = (" ".join(WORDS), *text[1:])
    together, alone = predictor.predict([text, longer]), predictor.predict([text])
    assert together[0].label == "bob"
    assert together[0].probabilities["bob"] == pytest.approx(alone[0].probabilities["bob"], abs=1e-5)
    features = predictor.features([text])
    last = TOKENIZER.vocabulary["[CLS]"]
    assert (features["token_ids"][..., -1] == last).all() and (features["segment_ids"][..., -1] == 2).all()
    if task == "classify":  # which compares its answers with those of the run
        assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops="core") == 0
        served = tf.saved_model.load(str(tmp_path / "served/1")).signatures["serving_default"]
        found = served(text=tf.constant([text[0], longer[0]]))
        assert found["label"].numpy()[0] == b"bob"
        assert found["probabilities"].numpy()[0].max() == pytest.approx(max(alone[0].probabilities.values()), abs=1e-4)


@pytest.mark.long
def test_tags_stand_at_their_words_behind_the_padding(start, tmp_path):
    rows = [(TOKENIZER.encode(text).ids, *[np.array(x) for x in spans]) for text, spans in (
        ("Carlos met Ann", ([0, 0, 1, 2], [1, 0, 1, 1])), ("Bob in Rome , too !", ([0, 1, 2, 3, 4, 5], [1] * 6)),
    )]  # fmt: skip
    packed = pack_words(rows, TOKENIZER, 16, XLNET)
    for row, (ids, words, opens) in enumerate(rows):
        text = np.flatnonzero(packed["padding_mask"][row])[: len(ids)]
        assert packed["token_ids"][row, text].tolist() == ids
        assert packed["word_ids"][row, text].tolist() == words.tolist()
        assert np.flatnonzero(packed["label_weights"][row]).tolist() == text[opens > 0].tolist()
    (tmp_path / "train.txt").write_text("\n".join(sentences(64, 0)) + "\n", "utf-8")
    run, data = tmp_path / "run", tmp_path / "train.txt"
    flags = QUICK | {"train_file": data, "eval_file": data, "num_train_epochs": 6, "learning_rate": 1e-2}
    assert invoke("finetune", task="tag", init_checkpoint=start, model_dir=run, **flags) == 0
    found = load(str(run)).predict(["Carlos met Ann in New Jinan ."])[0].entities
    assert [(each.text, each.type) for each in found] == [("Carlos", "PER"), ("Ann", "PER"), ("New Jinan", "LOC")]
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops="core") == 0


@pytest.mark.long
def test_choices_are_learnt_and_served(start, tmp_path):
    asked = [
        {"context": f"{a} met {b}", "question": "too", "choices": [a, "rome"][:: 1 - 2 * (i % 2)], "answer": i % 2}
        for i, (a, b) in enumerate((a, b) for a in ("ann", "bob", "york") for b in PLAIN)
    ]
    data = tmp_path / "asked.jsonl"
    data.write_text("".join(json.dumps(each) + "\n" for each in asked))
    run, flags = (
        tmp_path / "run",
        QUICK | {"train_file": data, "eval_file": data, "num_train_epochs": 6, "learning_rate": 1e-2},
    )
    assert invoke("finetune", task="choose", init_checkpoint=start, model_dir=run, **flags) == 0
    questions = [ChoiceQuestion("bob met ann", "too", choices, 0, "") for choices in (["bob", "rome"], ["rome", "bob"])]
    assert [each.choice for each in load(str(run)).predict(questions)] == [0, 1]
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops="core") == 0


@pytest.mark.long  # the parts have tests of their own
def test_from_raw_text_with_sentence_pieces_to_a_served_classifier_and_to_hugging_face(tmp_path):
    text, vocabulary, records = SAMPLES / "corpus.txt", tmp_path / "vocabulary", tmp_path / "records"
    source = {"input_file": text, "language": "zh"}
    assert invoke("train_vocabulary", tokenizer="sentencepiece", vocab_size=1500, output_file=vocabulary, **source) == 0
    flags = {"vocab_file": vocabulary, "packing": "stream_bidirectional", "max_seq_length": 32, "output_dir": records}
    assert invoke("create_pretraining_data", **source, **flags) == 0
    run, numbers = (
        tmp_path / "run",
        "num_layers=1,hidden_dim=16,intermediate_dim=16,memory_length=8,partial_prediction=7",
    )
    flags = {"num_train_steps": 4, "train_batch_size": 4, "distribution_strategy": "one_device", "jit_compile": "false"}
    assert invoke("pretrain", system="xlnet", size="tiny", data_dir=records, model_dir=run, set=numbers, **flags) == 0
    stored = json.loads((run / "backbone/config.json").read_text())["config"]
    assert (stored["memory_length"], stored["reuse_length"]) == (8, 16)
    last = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines() if '"samples"' in line][-1]
    hidden = [piece for piece in last["examples"][0]["pieces"] if isinstance(piece, list)]
    assert hidden and all(truth == shown for truth, _, shown in hidden)  # nothing is masked: its own token stands there
    tuned = tmp_path / "tuned"
    flags = QUICK | {"train_file": SAMPLES / "train.tsv", "num_train_epochs": 1, "max_seq_length": 32}
    assert invoke("finetune", task="classify", init_checkpoint=run, model_dir=tuned, **flags) == 0
    assert invoke("export_model", model_dir=tuned, export_dir=tmp_path / "served", serving_ops="text") == 0
    for start, name in ((run, "run"), (tuned, "tuned")):
        there, back = f"hf:{tmp_path}/hf_{name}", tmp_path / f"back_{name}"
        assert invoke("convert_checkpoint", "--verify", **{"from": start, "to": there}) == 0
        assert invoke("convert_checkpoint", "--verify", **{"from": there, "to": back}) == 0
    expected, found = (load(str(path)).predict([("今天天气很好",)])[0] for path in (tuned, tmp_path / "back_tuned"))
    assert found.label == expected.label
    assert list(found.probabilities.values()) == pytest.approx(list(expected.probabilities.values()), abs=1e-5)
