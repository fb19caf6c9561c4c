"""Long texts: tokens that tasks make global, memory that grows as the length does, and whole fine-tunings on thousands of tokens."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.text.frames import BERT, GPT, ROBERTA, XLNET
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES, TOKENIZER
from xmodels.interfaces.reading import ROBERTA_READING, Reading
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.roberta import Roberta, RobertaConfig
from xmodels.tasks.answer_span.task import AnswerSpan
from xmodels.tasks.base.global_tokens import of_question
from xmodels.tasks.classify.task import Classify
from xmodels.tasks.tag.task import Tag
from xmodels.training.watching.memory_estimate import kept_bytes


@functools.cache
def network(length=64, name="longformer", network_class=Bert, num_layers=2, **numbers):
    keras.utils.set_random_seed(0)
    numbers = {"window": 4, "num_global": 6, **numbers} if name == "longformer" else numbers
    config_class = {Bert: BertConfig, Roberta: RobertaConfig}[network_class]
    config = config_class(
        len(TOKENIZER.vocabulary), 16, num_layers, 2, 32, max_sequence_length=length, dropout=0.0, attention_dropout=0.0, mixer=name,
        mixer_numbers=numbers, initializer_stddev=0.3,
    )  # fmt: skip
    return network_class(config).initialize()


def batch_of(length=64, question=3):
    """Two rows of a question and a text, of which the second is shorter."""
    ids = np.random.default_rng(0).integers(5, 20, size=(2, length)).astype("int32")
    ids[:, 0], ids[:, question + 1] = 2, 3
    ends = np.array([length - 1, length - 8])
    ids[[0, 1], ends] = 3
    real = np.arange(length) <= ends[:, None]
    ids = np.where(real, ids, 0).astype("int32")
    segments = (real & (np.arange(length) > question + 1)).astype("int32")
    return {"token_ids": ids, "segment_ids": segments, "padding_mask": real, "example_weights": np.ones(2, "float32")}


def passes(monkeypatch, backbone, task, batch):
    """The `global_ids` with which a task calls the network; None where it leaves the choice to the mixer."""
    found = []
    for name in ("call", "summarize"):
        if hasattr(type(backbone), name):
            before = getattr(type(backbone), name)

            def spied(self, features, *rest, before=before, **more):
                found.append(features.get("global_ids"))
                return before(self, features, *rest, **more)

            monkeypatch.setattr(type(backbone), name, spied)
    task.forward(backbone, batch)
    return found[0]


@pytest.mark.parametrize("network_class", [Bert, Roberta])
def test_a_question_is_global_with_its_class_token(monkeypatch, network_class):
    backbone = network(network_class=network_class)
    reading = Reading() if network_class is Bert else ROBERTA_READING
    marks = passes(monkeypatch, backbone, AnswerSpan(backbone.config, reading=reading), batch_of())
    np.testing.assert_array_equal(marks, np.broadcast_to(np.arange(64) < 4, (2, 64)))


def test_where_every_token_is_asked_about_none_is_global(monkeypatch):
    backbone = network()
    marks = passes(monkeypatch, backbone, Tag(backbone.config, ["O", "B-X"]), batch_of())
    np.testing.assert_array_equal(marks, np.zeros((2, 64)))


def test_of_a_text_to_classify_the_first_token_is_global(monkeypatch):
    backbone, batch = network(), batch_of()
    task = Classify(backbone.config, ["a", "b"])
    assert passes(monkeypatch, backbone, task, batch) is None
    first = {**batch, "global_ids": np.broadcast_to(np.arange(64) == 0, (2, 64)).astype("int32")}
    np.testing.assert_allclose(
        task.forward(backbone, batch)["logits"], task.forward(backbone, first)["logits"], atol=1e-6
    )


@pytest.mark.parametrize("name", ["multi_head", "bigbird", "local_window"])
def test_networks_without_global_tokens_get_no_marks(monkeypatch, name):
    backbone = network(name=name)
    assert passes(monkeypatch, backbone, Tag(backbone.config, ["O", "B-X"]), batch_of()) is None


def test_what_a_batch_marks_itself_stays(monkeypatch):
    backbone, own = network(), np.eye(64, dtype="int32")[[5, 9]]
    batch = {**batch_of(), "global_ids": own}
    np.testing.assert_array_equal(passes(monkeypatch, backbone, AnswerSpan(backbone.config), batch), own)


def test_frames_that_end_otherwise_mark_no_question():
    assert of_question(BERT) and of_question(ROBERTA)
    assert of_question(XLNET) is None and of_question(GPT) is None


@pytest.mark.parametrize(
    "task",
    [pytest.param("classify", marks=pytest.mark.long), "answer_span", pytest.param("tag", marks=pytest.mark.long)],
)
def test_what_a_step_keeps_grows_as_the_text_does(task):
    def kept(length):
        backbone, batch = network(length, num_layers=1), batch_of(length)
        made = {
            "classify": lambda: Classify(backbone.config, ["a", "b"]),
            "answer_span": lambda: AnswerSpan(backbone.config),
            "tag": lambda: Tag(backbone.config, ["O", "B-X"]),
        }[task]()
        batch |= {"start_positions": np.array([6, 0]), "end_positions": np.array([7, 0])}
        batch |= {
            "labels": np.zeros((2, length) if task == "tag" else 2, "int32"),
            "label_weights": np.ones((2, length), "float32"),
        }

        def loss(batch):
            return tf.add_n(
                [each[0] for each in made.score(made.forward(backbone, batch, True), batch, backbone)[0].values()]
            )

        return kept_bytes(loss, backbone.trainable_variables, batch)

    short, long = kept(512), kept(2048)
    assert 3.0 < long / short < 4.4  # of full attention nearly 16


def sentences(count, seed):
    drawn = np.random.default_rng(seed)
    return [f"{drawn.choice(NAMES)} lives in {drawn.choice(PLACES)} ." for _ in range(count)]


def write_files(path, tokens):
    """Files of the three tasks, of texts of about so many tokens; the answer of each stands near the end of its text."""
    count = tokens // 6  # `lives` are two tokens
    tables, questions, tagged = [], [], []
    for row in range(6):
        text = " ".join(sentences(count - 1, row)) + f" {NAMES[row % 4]} and {PLACES[row % 2]} ."
        tables.append(f"{PLACES[row % 2]}\t{text}")
        answer = {"text": PLACES[row % 2], "answer_start": text.rindex(PLACES[row % 2])}
        asked = {"id": str(row), "question": f"where does {NAMES[row % 4]} live ?", "answers": [answer]}
        questions.append({"title": "", "paragraphs": [{"context": text, "qas": [asked]}]})
        words = [f"{word} {'B-LOC' if word in PLACES else 'O'}" for word in text.split()]
        tagged.append("\n".join(words))
    (path / "rows.tsv").write_text("label\ttext\n" + "\n".join(tables) + "\n")
    (path / "questions.json").write_text(json.dumps({"version": "1.1", "data": questions}))
    (path / "words.txt").write_text("\n\n".join(tagged) + "\n")


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "file"), [("classify", "rows.tsv"), ("answer_span", "questions.json"), ("tag", "words.txt")]
)
def test_texts_of_thousands_of_tokens_are_recorded_learnt_and_answered(task, file, tmp_path):
    length = 4096
    write_files(tmp_path, length)
    source = tmp_path / "long"
    source.mkdir()
    made = network(length, window=16, num_global=16)
    folder.write_model(str(source), made, None, TOKENIZER.files(), TOKENIZER.describe(), "bert")
    flags = {"task": task, "max_seq_length": length}
    records = {"input_file": tmp_path / file, "vocab_file": source / "vocab.txt", "output_dir": tmp_path / "records"}
    assert invoke("create_finetuning_data", **flags, **records) == 0
    training = {"init_checkpoint": source, "data_dir": tmp_path / "records", "eval_file": tmp_path / file}
    numbers = {"train_batch_size": 2, "num_train_epochs": 1, "model_dir": tmp_path / "run"}
    assert invoke("finetune", **flags, **training, **numbers) == 0
    assert invoke("evaluate", model_dir=tmp_path / "run", test_file=tmp_path / file) == 0
