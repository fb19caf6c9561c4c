"""context2vec by commands: sentences become records, a network learns them, and says which words fit a place."""

import numpy as np
import pytest

import xmodels
from data_pipelines.errors import DataError
from tests.helpers.invocation import invoke
from xmodels.conversion import word_vectors

PEOPLE, FOOD = "john mary anna peter".split(), "bread soup cake fish".split()


pytestmark = pytest.mark.long  # a training of seconds; test_context2vec and test_context2vec_files show the network


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path, draw = tmp_path_factory.mktemp("context2vec"), np.random.default_rng(0)
    lines = []
    for i in range(400):
        one, other, food = draw.choice(PEOPLE), draw.choice(PEOPLE), draw.choice(FOOD)
        lines += [f"{one} eats {food} .", f"{one} likes {other} .", f"{one} cooks {food} for {other} ."]
        lines += ["hush", ""] if i % 5 == 4 else []
    (path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    text = {"input_file": path / "text.txt"}
    assert invoke("train_vocabulary", **text, tokenizer="words", vocab_size=30, output_file=path / "words") == 0
    made = {"vocab_file": path / "words", "output_dir": path / "records", "packing": "sentences", "max_seq_length": 16}
    assert invoke("create_pretraining_data", **text, **made) == 0
    learnt = {"num_train_steps": 120, "train_batch_size": 32, "learning_rate": 1e-2, "save_checkpoints_steps": 120}
    assert invoke(
        "pretrain", system="context2vec", size="tiny", data_dir=path / "records", model_dir=path / "run", **learnt
    ) == 0  # fmt: skip
    return path / "run"


def test_sentences_of_one_word_are_left_out_and_others_have_rows_of_their_own(run):
    shown = xmodels.inspect_data(data_dir=str(run.parent / "records"))
    assert shown is None or shown
    manifest = (run.parent / "records" / "manifest.json").read_text("utf-8")
    assert '"examples": 1200' in manifest


def test_words_that_fit_a_place_come_first(run):
    (record,) = xmodels.predict(model_dir=str(run), text="mary eats [MASK] .")
    assert {each["token"] for each in record["masks"][0][:4]} == set(FOOD)
    assert record["masks"][0][0]["cosine"] > record["masks"][0][4]["cosine"]
    (record,) = xmodels.predict(model_dir=str(run), text="[MASK] likes [MASK] .")
    assert [{each["token"] for each in place[:4]} for place in record["masks"]] == [set(PEOPLE)] * 2
    with pytest.raises(DataError, match="has no mask"):
        xmodels.predict(model_dir=str(run), text="mary eats bread .")


def test_vectors_of_words_are_those_of_the_words_that_are_predicted(run, tmp_path):
    assert invoke("convert_checkpoint", **{"from": run, "to": f"word2vec:{tmp_path}/vectors.txt"}) == 0
    words, vectors = word_vectors.read_text(str(tmp_path / "vectors.txt"))
    assert {word for word, _ in word_vectors.nearest(words, vectors, "cake", 3)} == set(FOOD) - {"cake"}


def test_a_task_reads_the_vectors_of_contexts_and_is_exported(run, tmp_path):
    rows = [f"{person} eats {food} .\tfood" for person in PEOPLE for food in FOOD]
    rows += [f"{one} likes {other} .\tpeople" for one in PEOPLE for other in PEOPLE]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    table = dict.fromkeys(("train_file", "eval_file"), tmp_path / "train.tsv")
    learnt = {"num_train_epochs": 12, "train_batch_size": 8, "learning_rate": 1e-2, "max_seq_length": 12}
    assert invoke("finetune", task="classify", init_checkpoint=run, model_dir=tmp_path / "task", **table, **learnt) == 0
    (record,) = xmodels.predict(model_dir=str(tmp_path / "task"), text="anna eats soup .")
    assert record["label"] == "food"
    assert invoke("export_model", model_dir=tmp_path / "task", export_dir=tmp_path / "served", serving_ops="core") == 0
