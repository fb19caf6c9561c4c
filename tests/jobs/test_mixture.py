"""Mixtures of text-to-text tasks: how often each comes, one network that learns them by their prefixes, scores of each, resuming."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from data_pipelines.errors import DataError
from tests.helpers.invocation import invoke
from tests.tasks.test_text_to_text import start_of
from xmodels.jobs.multitask.steps import batches_of, epochs_of
from xmodels.jobs.multitask.tasks_file import read_tasks_file
from xmodels.objectives.measures import whole_row_accuracy
from xmodels.runs.fine_tuned import Source
from xmodels.tasks.translate import answer
from xmodels.training.mixture import Mixture, rates_of, steps_of

SIZES = {"large": 8000, "small": 500, "tiny": 20}
PLAN = """mixture:
  kind: proportional
  temperature: 2
defaults:
  task: translate
  max_seq_length: 16
  train_batch_size: 4
tasks:
  mood:
    train_file: ${DATA}/mood.tsv
    eval_file: ${DATA}/mood.tsv
    text_column: sentence
    text_pair_column: label
    prefix: '心: '
    best_metric: exact_match
  first:
    train_file: ${DATA}/first.tsv
    eval_file: ${DATA}/first.tsv
    prefix: '学: '
    max_target_length: 4
"""
SENTENCES = ["今天天气很好", "我们一起去公园", "语言模型学习句子", "孩子喜欢读书"]
MOODS = ["好", "不", "不", "好"]


def test_rates_are_those_of_the_paper():
    assert rates_of(Mixture(), SIZES) == pytest.approx({"large": 8000 / 8520, "small": 500 / 8520, "tiny": 20 / 8520})
    limited = rates_of(Mixture(limit=1000), SIZES)
    assert limited == pytest.approx({"large": 1000 / 1520, "small": 500 / 1520, "tiny": 20 / 1520})
    roots = np.sqrt([1000.0, 500.0, 20.0])
    assert list(rates_of(Mixture(limit=1000, temperature=2), SIZES).values()) == pytest.approx(roots / roots.sum())
    for mixture in (Mixture(temperature=1e6), Mixture(kind="equal")):
        assert rates_of(mixture, SIZES) == pytest.approx(dict.fromkeys(SIZES, 1 / 3), abs=1e-4)
    assert rates_of(Mixture(temperature=1e-3), SIZES)["large"] == 1.0
    own = Mixture(rates={"tiny": 1, "small": 3, "large": 4})
    assert rates_of(own, SIZES) == {"large": 0.5, "small": 0.375, "tiny": 0.125}


def test_a_mixture_without_limit_has_each_example_once():
    counts = {name: batches_of(size, 64) for name, size in SIZES.items()}
    assert steps_of(Mixture(), SIZES, counts) == counts


@pytest.mark.parametrize("mixture", [Mixture(limit=2000), Mixture(limit=1000, temperature=2), Mixture(kind="equal")])
def test_tasks_are_drawn_at_their_rates_and_in_an_order_of_the_seed(mixture):
    counts = {name: batches_of(size, 4) for name, size in SIZES.items()}
    rates, steps = rates_of(mixture, SIZES), steps_of(mixture, SIZES, counts)
    total = sum(steps.values())
    assert total == pytest.approx(sum(min(size, mixture.limit or size) for size in SIZES.values()) / 4, abs=1)
    schedule = epochs_of(steps, 3, seed=7)
    names = [schedule.task_at(step) for step in range(3 * total)]
    for name, rate in rates.items():
        assert names.count(name) / len(names) == pytest.approx(rate, abs=0.002)
    window = 400  # also of a part of an epoch, within what chance allows
    for name, rate in rates.items():
        assert names[:window].count(name) / window == pytest.approx(rate, abs=4 * (rate * (1 - rate) / window) ** 0.5)
    again = epochs_of(steps, 9, seed=7)
    assert [again.task_at(step) for step in range(len(names))] == names
    assert [epochs_of(steps, 1, seed=8).task_at(step) for step in range(total)] != names[:total]


def test_every_task_comes_in_every_epoch():
    found = steps_of(Mixture(rates={"a": 1e-6, "b": 1}), {"a": 10, "b": 1000}, {"a": 3, "b": 250})
    assert found == {"a": 1, "b": 252}


def test_a_row_is_right_where_all_its_tokens_are():
    logits = np.eye(5, dtype="float32")[[[1, 2, 0], [1, 3, 4], [0, 2, 4]]]
    labels = np.array([[1, 2, 9], [1, 2, 4], [0, 2, 4]])  # of the first row the last place is padding
    weights = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 0]], "float32")  # the third row fills the batch up
    right, count = whole_row_accuracy(labels, logits, weights, np.array([1.0, 1.0, 0.0], "float32"))
    assert (float(right), float(count)) == (1.0, 2.0)


# A run.


@pytest.fixture(scope="module")
def start(tmp_path_factory, zh_vocabulary):
    """A small T5, with the tables and the plan beside it."""
    base = tmp_path_factory.mktemp("mixture")
    moods = "".join(f"{text}\t{mood}\n" for text, mood in zip(SENTENCES, MOODS, strict=True))
    (base / "mood.tsv").write_text("sentence\tlabel\n" + 8 * moods, "utf-8")
    firsts = "".join(f"{text}\t{text[0]}\n" for text in SENTENCES)
    (base / "first.tsv").write_text("text\ttext_pair\n" + 8 * firsts, "utf-8")
    (base / "tasks.yaml").write_text(PLAN, "utf-8")
    return start_of("t5", base / "start", zh_vocabulary)


def learn(start, path, **flags):
    base = start.parent
    given = {
        "tasks_file": base / "tasks.yaml", "set": f"DATA={base}", "init_checkpoint": start, "model_dir": path,
        "learning_rate": 3e-3, "optimizer": "adamw", "lr_schedule": "constant", "num_train_epochs": 14,
        "distribution_strategy": "one_device", "jit_compile": "false", "log_steps": 20, "save_checkpoints_steps": 50,
        "keep_checkpoint_max": 99,
    }  # fmt: skip
    return invoke("multitask", **given | flags)


@pytest.fixture(scope="module")
def run(start, tmp_path_factory):
    path = tmp_path_factory.mktemp("mixed") / "run"
    assert learn(start, path) == 0
    return path


@pytest.mark.long
def test_one_network_does_each_task_by_its_prefix(run, start, tmp_path, capsys):
    mood, first = (answer.load(Source(str(run / name))) for name in ("mood", "first"))
    assert (mood.prefix, first.prefix) == ("心: ", "学: ")
    assert mood.generate(SENTENCES) == MOODS
    assert first.generate(SENTENCES) == [text[0] for text in SENTENCES]
    both = answer.load(Source(str(run)))  # texts bring their own prefixes
    assert both.generate([f"学: {SENTENCES[1]}", f"心: {SENTENCES[1]}"]) == [SENTENCES[1][0], MOODS[1]]
    output = tmp_path / "scores.json"  # the columns are those of the training
    assert invoke("evaluate", model_dir=run / "mood", test_file=start.parent / "mood.tsv", output_file=output) == 0
    found = json.loads(output.read_text())
    assert (found["exact_match"], found["num_translations"]) == (100, 8 * len(SENTENCES))
    assert "exact 100.00 % of the references" in capsys.readouterr().out


@pytest.mark.long
def test_other_verbs_name_those_for_text_from_text(run, capsys):
    for verb, flags in (("predict", {"text": "x"}), ("evaluate", {"task": "classify", "test_file": "x.tsv"})):
        assert invoke(verb, model_dir=run / "mood", **flags) != 0
        assert "mood: answers texts with texts. `xmodels translate` writes them" in capsys.readouterr().err


@pytest.mark.long
def test_each_task_has_scores_of_its_own(run):
    results = json.loads((run / "results.json").read_text())["results"]
    assert results["mood evaluation exact_match"] == results["first evaluation seq2seq_accuracy"] == 1.0
    last = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines() if '"evaluation"' in line][-1]
    decisive = last["mood/exact_match"], last["first/seq2seq_accuracy"]
    assert last["mean_score"] == pytest.approx(np.mean(decisive))


@pytest.mark.long
def test_a_resumed_mixture_equals_an_uninterrupted_one(run, start, tmp_path, capsys):
    cut = tmp_path / "cut"
    shutil.copytree(run, cut)
    states = sorted((run / "checkpoints").glob("step_*"))
    for state in states[1:]:
        shutil.rmtree(cut / "checkpoints" / state.name)
    (cut / "results.json").unlink()
    for name in ("backbone", "mood", "first"):
        shutil.rmtree(cut / name)
    assert learn(start, cut) == 0
    assert f"step {int(states[0].name[5:])} of" in capsys.readouterr().out
    expected, found = (load_file(path / "checkpoints" / states[-1].name / "weights.safetensors") for path in (run, cut))
    for name in expected:
        np.testing.assert_array_equal(expected[name], found[name], err_msg=name)
    assert json.loads((cut / "results.json").read_text()) == json.loads((run / "results.json").read_text())


@pytest.mark.long
def test_another_mixture_is_another_run(run, start, tmp_path, capsys):
    (tmp_path / "tasks.yaml").write_text(PLAN.replace("temperature: 2", "temperature: 3"), "utf-8")
    assert learn(start, run, tasks_file=tmp_path / "tasks.yaml") != 0
    assert "epochs.mixture.temperature: 2 then, 3 now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("kind: proportional", "kind: fair"), "line 2: `mixture.kind` must be one of proportional, equal. Found: 'fair'"),
        (("temperature: 2", "temperature: 0"), "line 3: `mixture.temperature` must be a number above 0"),
        (("temperature: 2", "limit: 0"), "line 3: `mixture.limit` must be a whole number from 1"),
        (("temperature: 2", "limt: 9"), "line 1: unknown `mixture.limt`; known here: kind, limit"),
        (("proportional", "equal"), "line 3: `mixture.temperature`: belongs to `kind: proportional`"),
        (("temperature: 2", "rates: {mood: 1}"), "line 3: `mixture.rates`: has no number for first"),
        (("temperature: 2", "rates: {mood: 1, first: 2, last: 1}"), "`mixture.rates`: 'last' is none of `tasks`: mood, first"),
        (("temperature: 2", "rates: {mood: 1, first: -2}"), "`mixture.rates.first` must be a number above 0. Found: -2"),
        (("mixture:", "main_task: mood\nratio: 1\nmixture:"), "`mixture`: says how often each task comes, and so does `main_task`"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_mixture_is_named_with_its_line(change, message, start, tmp_path):
    assert change[0] in PLAN
    path = tmp_path / "tasks.yaml"
    path.write_text(PLAN.replace(*change, 1), "utf-8")
    with pytest.raises(DataError, match=message):
        read_tasks_file(str(path), {"DATA": str(start.parent)})


def test_a_score_of_another_kind_of_task_is_refused(start, tmp_path, capsys):
    flags = {"init_checkpoint": start, "train_file": start.parent / "first.tsv", "max_seq_length": 16}
    assert invoke("finetune", task="translate", model_dir=tmp_path / "a", best_metric="mcc", **flags) != 0
    refused = "--best_metric=mcc: --task=translate has no such score. Expected one of seq2seq_accuracy"
    assert refused in capsys.readouterr().err
