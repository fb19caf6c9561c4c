"""A whole comparison of small networks: killed in the middle, resumed, and with an entry of its plan changed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.comparison.test_compare_plan import ROOT, SAMPLES, plan_file

PLAN = """\
name: Two systems
language: zh
budget: {processor_minutes: 0.05}
corpus: {train: "${zh}/corpus.txt", heldout: "${zh}/travel.txt"}
vocabulary: {size: 500}
pretraining:
  max_seq_length: 16
  train_batch_size: 8
  evaluations: 2
  eval_steps: 2
  probe_steps: 20
  flags: {set: "hidden_dim=32,intermediate_dim=64", length_schedule: none}
systems:
  bert: {}
  gpt: {}
baselines:
  word_vectors: {size: small, max_steps: 100}
finetuning:
  seeds: [1, 2]
  tune: {learning_rate: [3e-3]}
  flags: {num_train_epochs: 1, train_batch_size: 16, max_seq_length: 16, pooling: mean}
tasks:
  topic: {train: "${zh}/train.tsv", dev: "${zh}/dev.tsv", test: "${zh}/test.tsv"}
"""


def compare(folder, text):
    """Starts the comparison."""
    flags = [
        f"--plan={plan_file(folder, text)}",
        f"--set=zh={SAMPLES['zh']}",
        f"--output_dir={folder / 'work'}",
        "--jobs=1",
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "launch", "compare", *flags], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


def marks(folder):
    """{stage: when it was done}."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "work/done").glob("*.json")}


@pytest.mark.long
def test_a_comparison_that_is_killed_goes_on_and_a_changed_entry_runs_only_what_it_touches(tmp_path):
    process = compare(tmp_path, PLAN)
    deadline = time.monotonic() + 900
    while not list((tmp_path / "work").glob("pretrain/pretrain-bert-*/log.jsonl")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = marks(tmp_path)
    assert any(name.startswith("probe-probe-gpt") for name in before)
    assert compare(tmp_path, PLAN).wait() == 0
    after = marks(tmp_path)
    assert {name: after[name] for name in before} == before
    kinds = [name.partition("-")[0] for name in after]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "vocabulary": 2, "records": 6, "probe": 3, "pretrain": 3, "finetune": 4, "predict": 4, "baseline": 3,
    }  # fmt: skip
    results = json.loads((tmp_path / "work/results.json").read_text())
    assert set(results["scores"]["topic"]) == {"majority", "bag_of_words", "word_vectors", "bert", "gpt"}
    assert results["failed"] == [] and results["scores"]["topic"]["majority"]["test_accuracy"] == [0.25]
    cost = results["costs"]["bert"]
    assert (
        0.02 < cost["step"]["processor_seconds"] * cost["num_steps"] / 60 < 0.1
    )  # the budget, as the whole run measured it
    page = pathlib.Path(tmp_path / "work/report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4 and "not complete" not in page
    assert compare(tmp_path, PLAN.replace("  gpt: {}", "  gpt: {finetune: {weight_decay: 0.0}}")).wait() == 0
    changed = marks(tmp_path)
    assert {name: changed[name] for name in after} == after
    new = sorted(name.rpartition("-")[0] for name in set(changed) - set(after))
    assert new == [f"{verb}-gpt-topic-{rest}seed={n}" for verb, rest in (
        ("finetune-finetune", "learning_rate=0.003-"), ("predict-predict", "")) for n in (1, 2)]  # fmt: skip
