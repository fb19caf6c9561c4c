"""What a dry run says before anything is trained, and that it writes nothing."""

import os
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.records.manifest import Manifest
from tests.helpers.invocation import invoke
from xmodels.jobs import numbers
from xmodels.jobs.pretrain.options import Options
from xmodels.training.watching.memory_estimate import kept_bytes

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"


def files(folder):
    return {path: path.stat().st_mtime_ns for path in pathlib.Path(folder).rglob("*")}


@pytest.fixture
def pretraining(records, small_config, tmp_path):
    return {
        "system": "bert_wwm", "data_dir": records, "model_config_file": small_config, "model_dir": tmp_path / "run",
        "num_train_steps": 20, "train_batch_size": 8, "optimizer": "bert_adamw",
    }  # fmt: skip


def test_pretraining_is_shown_with_origins_costs_and_first_batch_and_nothing_is_written(
    pretraining, records, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    before = files(records)
    assert invoke("pretrain", **pretraining, dry_run="true") == 0
    assert files(records) == before and os.listdir(tmp_path) == []
    said = capsys.readouterr().out
    for name, value, origin in (
        ("num_train_steps", "20", "flag"), ("optimizer", "bert_adamw", "flag"), ("eval_steps", "100", "default"),
        ("num_warmup_steps", "2", "recipe of bert_wwm: its share of the steps"), ("max_seq_length", "32", "records"),
        ("learning_rate", "0.0001", "recipe of bert_wwm"),
    ):  # fmt: skip
        assert re.search(rf"^  {name} +{value} +{origin}$", said, re.MULTILINE), name
    assert "blocks (1) " in said and "objective.masked_lm " in said and "FLOPs a step of 256 tokens" in said
    count = Manifest.read(records).num_examples
    assert "kept for the backward pass" in said and f"20 of 8 examples: {160 / count:.3g} passes over {count}" in said
    assert "token_ids             int32 (8, 32)" in said
    shown = [line for line in said.splitlines() if line.startswith("  [CLS] ")]
    assert len(shown) == 4 and all("→[MASK]]" in line and "second segment: " in line for line in shown)


@pytest.mark.long
def test_fine_tuning_is_shown_too(pretraining, tmp_path, capsys):
    assert invoke("pretrain", **pretraining | {"num_train_steps": 1, "num_warmup_steps": 0}) == 0
    flags = {"init_checkpoint": tmp_path / "run", "train_file": SAMPLES / "train.tsv", "model_dir": tmp_path / "tuned"}
    before = files(tmp_path)
    capsys.readouterr()
    assert invoke("finetune", **flags, max_seq_length=32, num_train_epochs=2, dry_run="true") == 0
    assert files(tmp_path) == before
    said = capsys.readouterr().out
    assert re.search(r"^  num_train_steps +\d+ +num_train_epochs$", said, re.MULTILINE)
    assert re.search(r"^  num_train_epochs +2.0 +flag$", said, re.MULTILINE)
    assert len(re.findall(r"^  \[CLS\] .*\(label: \S+\)$", said, re.MULTILINE)) == 4


def test_origins_put_flags_first_and_leave_out_what_nobody_set():
    options = Options(system="bert", model_dir="run", learning_rate=0.5)
    rows = numbers.list_numbers(options, {"learning_rate": (0.1, "recipe"), "optimizer": ("lamb", "recipe")})
    assert rows[:4] == [
        ("system", "bert", "flag"), ("learning_rate", 0.5, "flag"), ("model_dir", "run", "flag"),
        ("optimizer", "lamb", "recipe"),
    ]  # fmt: skip
    assert ("seed", 12345, "default") in rows and "init_checkpoint" not in [name for name, _, _ in rows]


def test_memory_that_the_backward_pass_needs_is_read_off_the_graph():
    first, second = (tf.Variable(np.ones(shape, np.float32)) for shape in ((8, 16), (16, 4)))

    class Weight:  # as Keras' variables have it
        def __init__(self, variable):
            self.value = variable

    def loss(batch):
        hidden = tf.nn.relu(tf.matmul(batch["x"], first))  # (2, 16), read by relu's gradient and the second product's
        return tf.reduce_sum(tf.tanh(tf.matmul(tf.reshape(hidden, (2, 16)), second)))  # tanh, (2, 4), by its own

    variables = [Weight(first), Weight(second)]
    assert kept_bytes(loss, variables, {"x": tf.ones((2, 8))}) == 4 * (2 * 16 + 2 * 4)
    assert kept_bytes(loss, variables[1:], {"x": tf.ones((2, 8))}) == 4 * (2 * 16 + 2 * 4)
