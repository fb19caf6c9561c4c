"""Multiple choice: what gives way where texts are too long, and records that teach what their file teaches."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from data_pipelines.errors import DataError
from data_pipelines.finetuning.tasks.choose import fit_parts
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.frames import BERT
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES, TOKENIZER
from xmodels.jobs.finetune.options import Options
from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer, reader_of
from xmodels.tasks.choose.packing import choice_source, recorded_source

QUICK = {
    "task": "choose", "max_seq_length": 16, "train_batch_size": 8, "distribution_strategy": "one_device", "jit_compile": "false",
    "learning_rate": 1e-3, "num_train_epochs": 1,
}  # fmt: skip


def asked(number, seed):
    """Questions with and without a context, short and too long, of two or three choices."""
    draw = np.random.default_rng(seed)
    for i in range(number):
        name, other = draw.permutation(NAMES)[:2]
        context = " ".join(f"{name} in {draw.choice(PLACES)}" for _ in range(draw.integers(0, 6)))
        question = " ".join(["who", *draw.choice(PLACES, draw.choice([2, 16]))])
        choices = [str(name), str(other), "york"][: 2 + i % 2]
        yield {"context": context, "question": question, "choices": choices, "answer": int(draw.integers(2))}


@pytest.fixture
def data(tmp_path):
    """Files to learn from and to score, the records made of them, and a vocabulary."""
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENIZER.vocabulary.tokens) + "\n", "utf-8")
    for seed, name in enumerate(("train", "dev")):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in asked(24, seed)), "utf-8")
        made = {
            "input_file": tmp_path / f"{name}.jsonl",
            "vocab_file": tmp_path / "vocab.txt",
            "output_dir": tmp_path / name,
        }
        assert invoke("create_finetuning_data", task="choose", max_seq_length=16, **made) == 0
    return tmp_path


def test_what_stands_before_a_choice_gives_way_to_it():
    assert fit_parts([1, 2, 3], [4, 5], [6, 7], 7) == ([1, 2, 3], [4, 5], [6, 7])
    assert fit_parts([1, 2, 3], [4, 5], [6, 7], 5) == ([1], [4, 5], [6, 7])
    assert fit_parts([1, 2, 3], [4, 5], [6, 7], 3) == ([], [4], [6, 7])
    assert fit_parts([1, 2, 3], [4, 5], [6, 7], 1) == ([], [], [6])
    for most in range(8):  # so records may be cut to a length first, and then to a shorter one
        for fewer in range(most + 1):
            assert fit_parts(*fit_parts([1, 2, 3], [4, 5], [6, 7], most), fewer) == fit_parts(
                [1, 2, 3], [4, 5], [6, 7], fewer
            )


@pytest.mark.parametrize("asks_first", [False, True])
def test_records_hold_what_their_file_holds(data, asks_first):
    reading = SimpleNamespace(frame=BERT, asks_first=asks_first)
    expected = choice_source(str(data / "train.jsonl"), TOKENIZER, 14, reading).arrays
    found = recorded_source(str(data / "train"), TOKENIZER, 14, reading).arrays
    assert found.keys() == expected.keys() and 0 in expected["choice_weights"]
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.long
def test_records_teach_what_their_file_teaches(data, small_bert, capsys):
    files = {"train_file": data / "train.jsonl", "eval_file": data / "dev.jsonl"}
    records = {"data_dir": data / "train", "eval_file": data / "dev"}
    losses = []
    for name, source in (("file", files), ("records", records)):
        run = data / f"run_{name}"
        assert invoke("finetune", init_checkpoint=small_bert, model_dir=run, **source, **QUICK, log_steps=1) == 0
        losses.append([json.loads(line).get("loss") for line in (run / "log.jsonl").read_text().splitlines()])
    assert losses[0] == losses[1] and any(losses[0])
    served = {"model_dir": data / "run_records", "export_dir": data / "served", "serving_ops": "core"}
    assert invoke("export_model", **served) == 0  # which compares long questions too
    options = Options(task="choose", init_checkpoint=str(small_bert), model_dir="x", data_dir=str(data / "train"))
    reader = reader_of(options)
    assert reader.survey_records(load_checkpoint_and_tokenizer(options, reader)[1]).summary == "24 questions"


def test_records_without_the_end_of_the_question_are_refused(data, monkeypatch):
    manifest = Manifest.read(str(data / "train"))
    del manifest.features["part_lengths"]
    monkeypatch.setattr(Manifest, "read", lambda folder: manifest)
    with pytest.raises(DataError, match="do not say where the question ends"):
        recorded_source(str(data / "train"), TOKENIZER, 16, SimpleNamespace(frame=BERT, asks_first=False))
