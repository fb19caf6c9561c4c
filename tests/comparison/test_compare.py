"""What a comparison runs, when, and what it makes of it: stages, budgets, choices, tests and the page."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from data_pipelines.corpora.tables import Row
from data_pipelines.errors import DataError
from tests.comparison.test_compare_plan import PLAN, SAMPLES, plan_file
from xmodels.comparison import baselines, budget, findings, planning, report, stages, statistics
from xmodels.comparison.budget import StepCost
from xmodels.comparison.checks import read_plan
from xmodels.comparison.plan import Budget
from xmodels.comparison.planning import Agenda, make_agenda
from xmodels.comparison.runner import Runner
from xmodels.comparison.stages import Input, make_stage
from xmodels.comparison.workspace import Workspace
from xmodels.runs.baselines import Baselines

ROOT = pathlib.Path(__file__).parents[2]
SYSTEMS = "systems:\n  bert: {}\n  unilm: {}\n  roberta: {}\n  gpt: {tune: {learning_rate: [1e-3, 2e-3]}}\n"


class Known(Workspace):
    """A folder of which a test says what is done."""

    def __init__(self, folder="comparison"):
        super().__init__(folder)
        self.done, self.costs = {}, {}

    def state(self, one):
        return "done" if one.name in self.done else "failed" if self.fingerprint(one) in self.broken else "open"

    def mark(self, one):
        return {"processor_seconds": 60.0, "seconds": 90.0} if one.name in self.done else None

    def results(self, one):
        return self.done.get(one.name)

    def cost(self, probe, tokens):
        return self.costs.get(probe.arm)


def plan_of(tmp_path, *changes):
    text = PLAN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return read_plan(plan_file(tmp_path, text), SAMPLES)[0]


def four_systems(tmp_path, *changes):
    old = PLAN[PLAN.index("systems:") : PLAN.index("baselines:")]
    return plan_of(tmp_path, (old, SYSTEMS), *changes)


def names(found, kind):
    return [one.name for one in found.stages if one.kind == kind]


def test_systems_that_read_the_same_records_share_them(tmp_path):
    found = make_agenda(four_systems(tmp_path), Known())
    assert names(found, "vocabulary") == ["vocabulary wordpiece 300"]
    kinds = {name.split()[1] for name in names(found, "records")}
    assert len(names(found, "records")) == 6 and kinds == {"segment_pair", "full_sentences", "stream"}
    by_name = {one.name: dict(one.flags) for one in found.stages}
    assert by_name["pretrain bert"]["data_dir"] is by_name["pretrain unilm"]["data_dir"] or (
        by_name["pretrain bert"]["data_dir"] == by_name["pretrain unilm"]["data_dir"]
    )
    assert by_name["pretrain bert"]["data_dir"] != by_name["pretrain roberta"]["data_dir"]


def test_systems_that_differ_in_their_fine_tuning_alone_share_their_pretraining(tmp_path):
    more = "  gpt:\n    finetune: {auxiliary_lm_weight: 0.0}\n  with_lm: {system: gpt, finetune: {auxiliary_lm_weight: 0.5}}\n"
    plan = plan_of(
        tmp_path,
        (PLAN[PLAN.index("systems:") : PLAN.index("baselines:")], f"systems:\n{more}"),
        ("[bert]", "[with_lm]"),
    )
    found = make_agenda(plan, Known())
    assert names(found, "pretrain") == ["pretrain gpt"] and list(found.pretrained) == ["gpt"]
    tuned = [dict(one.flags) for one in found.stages if one.kind == "finetune"]
    assert {(one["auxiliary_lm_weight"], one["init_checkpoint"].name) for one in tuned} == {
        ("0.0", "pretrain gpt"), ("0.5", "pretrain gpt")
    }  # fmt: skip
    assert {learnt.arm.name for learnt in found.learnt.values()} >= {"gpt", "with_lm", "random-with_lm"}


def test_tokens_are_steps_at_once(tmp_path):
    found = make_agenda(four_systems(tmp_path), Known())
    assert not names(found, "probe") and found.pretrained["gpt"].num_steps == 4096 // (32 * 4)
    assert names(found, "pretrain") == [
        "pretrain bert", "pretrain unilm", "pretrain roberta", "pretrain gpt learning_rate=0.001",
        "pretrain gpt learning_rate=0.002",
    ]  # fmt: skip
    flags = dict(next(one for one in found.stages if one.name == "pretrain bert").flags)
    assert flags["num_train_steps"] == "32" and flags["eval_every"] == "5"


def test_minutes_wait_for_all_probes_and_then_stay(tmp_path):
    plan, known = four_systems(tmp_path, ("{tokens: 4096}", "{processor_minutes: 2}")), Known()
    found = make_agenda(plan, known)
    assert names(found, "probe") == [f"probe {name}" for name in plan.systems] and not names(found, "pretrain")
    assert len(found.waiting) == 4
    cost = {"bert": 0.1, "unilm": 0.2, "roberta": 0.1}
    known.costs = {name: StepCost(seconds, 9.0, 1e9, 128) for name, seconds in cost.items()}
    known.done = {f"probe {name}": {} for name in cost}
    assert not names(make_agenda(plan, known), "pretrain")  # the last one is measured beside nothing but probes too
    known.broken = {known.fingerprint(one) for one in found.stages if one.name == "probe gpt"}
    found = make_agenda(plan, known)
    assert names(found, "pretrain") == ["pretrain bert", "pretrain unilm", "pretrain roberta"]
    assert found.pretrained["bert"].num_steps == 1200 and found.pretrained["unilm"].num_steps == 600


def test_held_out_text_chooses_the_pretraining_and_development_rows_the_rate(tmp_path):
    plan, known = four_systems(tmp_path), Known()
    known.done = {"pretrain gpt learning_rate=0.001": {"loss": 5.0}, "pretrain gpt learning_rate=0.002": {"loss": 4.0}}
    found = make_agenda(plan, known)
    assert [one.name for one in found.pretrained["gpt"].runs] == ["pretrain gpt learning_rate=0.002"]
    tried = [name for name in names(found, "finetune") if " gpt " in name]
    assert tried == [f"finetune gpt topic learning_rate={rate} seed=1" for rate in ("0.0003", "0.001")]
    assert not names(found, "predict")  # test rows wait for the choice
    known.done |= {name: {planning.DEV: value} for name, value in zip(tried, (0.8, 0.7), strict=True)}
    found = make_agenda(plan, known)
    assert [name for name in names(found, "finetune") if " gpt " in name] == [*tried, tried[0][:-1] + "2"]
    assert names(found, "predict") == ["predict gpt topic seed=1", "predict gpt topic seed=2"]
    flags = dict(found.learnt["gpt", "topic"].runs[1][1].flags)
    assert flags["learning_rate"] == "0.0003" and flags["seed"] == "2" and "test_file" not in flags


def test_fine_tunings_take_several_pretrainings_in_turn(tmp_path):
    plan, known = (
        four_systems(
            tmp_path, ("  train_batch_size: 4", "  train_batch_size: 4\n  seeds: [5, 6]"), ("[1, 2]", "[1, 2, 3]")
        ),
        Known(),
    )
    known.done = {f"pretrain gpt learning_rate={rate}": {"loss": rate} for rate in (0.001, 0.002)}
    known.done |= {f"finetune gpt topic learning_rate={rate} seed=1": {planning.DEV: rate} for rate in (0.0003, 0.001)}
    found = make_agenda(plan, known)
    assert [name for name in names(found, "pretrain") if " gpt " in name] == [
        "pretrain gpt learning_rate=0.001", "pretrain gpt learning_rate=0.002", "pretrain gpt learning_rate=0.001 seed=6",
    ]  # fmt: skip
    starts = [dict(run.flags)["init_checkpoint"] for _, run, _ in found.learnt["gpt", "topic"].runs]
    assert [dict(one.flags)["seed"] for one in starts] == ["5", "6", "5"]
    assert {dict(one.flags)["learning_rate"] for one in starts} == {"0.001"}


def test_a_plan_that_gets_more_pretrainings_keeps_the_one_that_it_has(tmp_path):
    def folders(seeds):
        plan, known = (
            four_systems(tmp_path, ("  train_batch_size: 4", f"  train_batch_size: 4\n  seeds: {seeds}")),
            Known(),
        )
        known.done = {f"pretrain gpt learning_rate={rate}": {"loss": rate} for rate in (0.001, 0.002)}
        return {
            each.name: known.fingerprint(each) for each in make_agenda(plan, known).stages if each.verb == "pretrain"
        }

    one, several = folders([5]), folders([5, 6])
    assert one.items() < several.items()


def test_a_candidate_that_fails_is_not_chosen(tmp_path):
    plan, known = four_systems(tmp_path), Known()
    known.done = {"pretrain bert": {"loss": 1.0}, "finetune bert topic learning_rate=0.001 seed=1": {planning.DEV: 0.1}}
    failing = next(
        one for one in make_agenda(plan, known).stages if one.name == "finetune bert topic learning_rate=0.0003 seed=1"
    )
    known.broken = {known.fingerprint(failing)}
    assert make_agenda(plan, known).learnt["bert", "topic"].chosen == 1


def test_random_weights_have_the_network_of_a_system_and_the_same_rates(tmp_path):
    found = make_agenda(four_systems(tmp_path), Known(), only=["random-bert"])
    assert names(found, "pretrain") == ["pretrain bert"]
    flags = [dict(one.flags) for one in found.stages if one.kind == "finetune"]
    assert [each["learning_rate"] for each in flags] == ["0.0003", "0.001"]
    assert all(each["random_init"] == "true" and each["init_checkpoint"].name == "pretrain bert" for each in flags)


THEN = """systems:
  begun: {new: text_cnn, vectors: vectors, tune_finetuning: {learning_rate: [1e-2]}}
  vectors: {system: skip_gram, size: small, averaged: true}
  alone: {new: text_cnn, size: base}
  cove: {vectors: vectors, corpus: {train: "${zh}/train.tsv", train_target: "${zh}/food.txt",
    heldout: "${zh}/dev.tsv", heldout_target: "${zh}/travel.txt"}, flags: {freeze_vectors: true}}
"""


def test_arms_without_pretraining_and_with_vectors_of_another(tmp_path):
    old = PLAN[PLAN.index("systems:") : PLAN.index("baselines:")]
    plan = plan_of(tmp_path, (old, THEN), ("random: [bert]", "majority: true"))
    found = make_agenda(plan, Known())
    assert names(found, "pretrain") == ["pretrain vectors", "pretrain cove"]  # what others begin with is made first
    by_name = {one.name: dict(one.flags) for one in found.stages}
    run = next(one for one in found.stages if one.name == "pretrain vectors")
    assert by_name["pretrain cove"]["init_vectors"] == run and by_name["pretrain cove"]["freeze_vectors"] == "true"
    records = by_name["records parallel words train cove"]
    assert (records["input_file"], records["target_file"]) == (
        Input(SAMPLES["zh"] + "/train.tsv"), Input(SAMPLES["zh"] + "/food.txt")
    )  # fmt: skip
    words = by_name["vocabulary words 300 cove"]["input_file"].path.split(",")
    assert [os.path.basename(each) for each in words] == ["corpus.txt", "train.tsv", "food.txt"]
    begun = by_name["finetune begun topic learning_rate=0.01 seed=1"]
    assert begun["init_checkpoint"] == Input("new:text_cnn/tiny") and begun["init_vectors"] == run
    assert begun["vocab_file"].name == "vocabulary words 300"
    alone = [flags for name, flags in by_name.items() if name.startswith("finetune alone")]
    assert {(each["init_checkpoint"].path, each["learning_rate"]) for each in alone} == {
        ("new:text_cnn/base", "0.0003"), ("new:text_cnn/base", "0.001")
    }  # fmt: skip
    assert (
        not any("init_vectors" in each for each in alone) and alone[0]["vocab_file"].name == "vocabulary wordpiece 300"
    )
    (averaged,) = found.learnt["vectors", "topic"].baselines
    assert dict(averaged.flags)["vectors"] == run and averaged.name == "vectors topic"


def test_what_begins_with_vectors_waits_for_them_and_its_probe_does_not(tmp_path):
    old = PLAN[PLAN.index("systems:") : PLAN.index("baselines:")]
    plan = plan_of(
        tmp_path, (old, THEN), ("random: [bert]", "majority: true"), ("{tokens: 4096}", "{processor_minutes: 2}")
    )
    known = Known()
    found = make_agenda(plan, known, only=["begun", "cove"])
    assert names(found, "probe") == ["probe vectors", "probe cove"] and not names(found, "finetune")
    probe = dict(next(one for one in found.stages if one.name == "probe cove").flags)
    assert not {"init_vectors", "freeze_vectors"} & set(probe)
    assert "begun: the word vectors of vectors" in found.waiting
    known.done = {"probe vectors": {}, "probe cove": {}}
    known.costs = {name: StepCost(0.1, 0.1, 1e9, 128) for name in ("vectors", "cove")}
    found = make_agenda(plan, known, only=["begun", "cove"])
    assert names(found, "pretrain") == ["pretrain vectors", "pretrain cove"] and names(found, "finetune")


CHANGES = {
    "rate": (("[3e-4, 1e-3]", "[3e-4, 2e-3]"), {"finetune"}, 4),  # one of two candidates of each of four systems and a control
    "system": (("unilm: {}", "unilm: {flags: {weight_decay: 0.1}}"), {"pretrain", "finetune"}, 3),
    "budget": (("4096", "8192"), {"pretrain", "finetune"}, 13),
    "name": (("Two systems", "Three systems"), set(), 0),
}  # fmt: skip


@pytest.mark.parametrize(("change", "kinds", "number"), CHANGES.values(), ids=CHANGES)
def test_a_changed_entry_touches_only_what_depends_on_it(change, kinds, number, tmp_path):
    def prints(*changes):
        known = Known()
        found = make_agenda(four_systems(tmp_path, *changes), known)
        return {known.fingerprint(one): one.kind for one in found.stages}

    before, after = prints(), prints(change)
    new = [kind for print_, kind in after.items() if print_ not in before]
    assert set(new) == kinds and len(new) == number


def test_a_fingerprint_is_of_contents_and_not_of_places(tmp_path):
    for name, text in (("a.txt", "one"), ("b.txt", "one"), ("c.txt", "two")):
        (tmp_path / name).write_text(text)
    here, there = Workspace(str(tmp_path / "x")), Workspace(str(tmp_path / "y"))
    a, b, c = (
        make_stage("records", "r", "v",
            {"input_file": Input(str(tmp_path / f"{n}.txt")), "of": make_stage("vocabulary", "w", "v", {})})
        for n in "abc"
    )  # fmt: skip
    assert here.fingerprint(a) == there.fingerprint(a) == here.fingerprint(b) != here.fingerprint(c)
    assert here.output(a) != here.output(c) and here.output(a).replace("/x/", "/y/") == there.output(a)


@pytest.mark.parametrize(
    ("flag", "value", "file"),
    [
        ("phrase_lexicon", "{}/words.txt", "words.txt"),
        ("init_checkpoint", "{}/run", "run/backbone/weights.safetensors"),
        ("init_checkpoint", "hf:{}/theirs", "theirs/model.safetensors"),
        ("init_checkpoint", "tf1:{}/bert_model.ckpt", "bert_model.ckpt.index"),
        ("task_data", "dialogue:{}/records", "records/shard-0.tfrecord"),
    ],
)
def test_files_that_a_flag_of_the_plan_names_are_known_by_their_contents(flag, value, file, tmp_path):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    found = []
    for text in ("one", "another"):
        path.write_text(text)
        one = make_stage("pretrain", "p", "pretrain", {flag: value.format(tmp_path)})
        found.append(Workspace(str(tmp_path / "x")).fingerprint(one))
        assert Workspace(str(tmp_path / "x")).command(one)[1] == f"--{flag}={value.format(tmp_path)}"
    assert found[0] != found[1]


def test_a_budget_is_a_number_of_steps():
    cost = StepCost(processor_seconds=0.5, seconds=0.25, flops=2e9, tokens=4096)
    assert (
        budget.count_steps(Budget(processor_minutes=1), cost) == 120
        and budget.count_steps(Budget(device_minutes=1), cost) == 240
    )
    assert budget.count_steps(Budget(flops=1e11), cost) == 50 and budget.count_steps(Budget(tokens=10_000), cost) == 2
    assert (
        budget.count_steps(Budget(tokens=10), cost) == 1 and budget.count_steps(Budget(tokens=1e9), cost, most=7) == 7
    )
    with pytest.raises(DataError, match="FLOPs is not known"):
        budget.count_steps(Budget(flops=1e11), StepCost(1, 1, 0.0, 1))


def test_the_tracing_of_a_graph_is_no_cost_of_a_step():
    times = [0.0, 0.2, 0.2, 5.0, 0.3, 0.3]  # the first call has no time; a second graph is traced in the fourth
    log = [
        {"kind": "train", "step_seconds": t / 2, "step_processor_seconds": t, "flops_per_token": 10.0} for t in times
    ]
    cost = budget.measure_step([*log, {"kind": "evaluation"}], tokens=100)
    assert cost.processor_seconds == pytest.approx((0.2 + 0.2 + 0.3 + 0.3 + 0.3) / 5) and cost.flops == 1000.0
    assert cost.seconds == pytest.approx(cost.processor_seconds / 2)
    with pytest.raises(DataError, match="2 lines with times"):
        budget.measure_step(log[:3], 100)


def test_the_paired_test_is_that_of_counting_all_signs():
    arm, reference = np.array([[1.0, 1, 1, 0, 1]]), np.array([[0.0, 0, 1, 0, 0]])
    found = statistics.paired_test(arm, reference)
    assert found.mean == pytest.approx(0.6) and found.p == pytest.approx(2 / 8)  # +++ and --- of three signs
    assert statistics.paired_test(reference, arm).mean == pytest.approx(-0.6)
    assert statistics.paired_test(arm, arm) == statistics.Difference(0.0, 0.0, 0.0, 1.0)


def test_seeds_are_averaged_and_a_clear_difference_is_found():
    truth = ["a", "b"] * 100
    right = statistics.correctness([truth, ["a"] * 200], truth)
    assert right.shape == (2, 200) and right.mean(axis=0).tolist() == [1.0, 0.5] * 100
    found = statistics.paired_test(right, statistics.correctness([["b"] * 200], truth))
    assert found.mean == pytest.approx(0.75 - 0.5) and found.low < 0.25 < found.high and found.p < 0.01
    with pytest.raises(ValueError, match="1 answers to 2"):
        statistics.correctness([["a"]], ["a", "b"])


def test_holm_by_hand():
    given = {
        name: statistics.Difference(0.0, 0.0, 0.0, p) for name, p in (("a", 0.01), ("b", 0.04), ("c", 0.03), ("d", 0.5))
    }
    found = {name: each.corrected for name, each in statistics.holm(given).items()}
    assert found == pytest.approx({"a": 0.04, "c": 0.09, "b": 0.09, "d": 0.5})


ROWS = [("good film", "1"), ("bad film", "0"), ("good play", "1"), ("bad play", "0")]


def rows(pairs):
    return [Row((text,), label, i) for i, (text, label) in enumerate(pairs)]


def test_baselines_answer_by_what_development_rows_choose():
    train, dev, test = rows(ROWS * 4 + [("so so", "0")]), rows(ROWS), rows([("good", "1"), ("bad", "0")])
    found = baselines.answers("majority", train, dev, test)
    assert found == {"labels": ["0", "0"], "dev": 0.5, "chosen": {}}
    found = baselines.answers("bag_of_words", train, dev, test)
    assert found["labels"] == ["1", "0"] and found["dev"] == 1.0 and found["chosen"] == {"inverse strength": 0.1}
    with pytest.raises(DataError, match="one label only"):
        baselines.answers("bag_of_words", rows([("a", "1"), ("b", "1")]), dev, test)


def test_word_vectors_are_averaged_without_special_tokens():
    words = object.__new__(baselines.WordVectors)
    words.table, words.special = np.array([[9.0, 9], [1, 0], [3, 2]]), {0}
    pieces = {"x y": [1, 2], "x ?": [1, 0], "?": [0]}

    class Parts:
        def encode_batch(self, texts):
            return [type("Pieces", (), {"ids": pieces[text]}) for text in texts]

    words.tokenizer = Parts()
    assert words.means(["x y", "x ?", "?"]).tolist() == [[2, 1], [1, 0], [0, 0]]
    assert words.features([Row(("x y", "x ?"), "1", 1)]).tolist() == [[2, 1, 1, 0, 1, 1, 2, 0]]


def test_what_fails_stops_only_what_needs_it_and_what_is_done_is_used(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one sentence here\nand another one\n\na second document\n" * 20)
    flags = {"input_file": Input(str(text)), "vocab_size": 60}
    good = make_stage("vocabulary", "good", "train_vocabulary", flags)
    bad = make_stage("vocabulary", "bad", "train_vocabulary", {**flags, "vocab_size": 0})
    blocked = make_stage(
        "records", "blocked", "create_pretraining_data", {"input_file": flags["input_file"], "vocab_file": bad}
    )

    def run():
        known = Workspace(str(tmp_path / "work"))
        runner = Runner(known, lambda: Agenda([good, bad, blocked], {}, {}, []), lambda one: True, jobs=1)
        return known, runner.run(), runner.finished

    known = Workspace(str(tmp_path / "work"))
    pathlib.Path(known.output(good)).parent.mkdir(parents=True)
    pathlib.Path(known.output(good)).write_text("what a killed command left")
    known, failed, finished = run()
    assert failed == [bad] and finished == 2 and known.state(good) == "done" and known.state(blocked) == "open"
    assert known.failure(bad)["exit_code"] == 2 and "vocab_size" in pathlib.Path(known.log(bad)).read_text()
    assert known.mark(good)["processor_seconds"] > 0.1 and not os.path.exists(known.output(blocked))
    made = os.stat(known.output(good)).st_mtime_ns
    known, failed, finished = run()  # tries again what failed, and nothing else
    assert failed == [bad] and finished == 1 and os.stat(known.output(good)).st_mtime_ns == made
    text.write_text("other contents\n" * 50)
    assert Workspace(str(tmp_path / "work")).state(good) == "open"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux tells a process that its parent is gone")
def test_commands_end_with_the_comparison_that_started_them(tmp_path):
    child = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = (
        "import os, subprocess, sys\n"
        f"command = [sys.executable, '-m', 'xmodels.processes.child', str(os.getpid()), '-c', {child!r}]\n"
        "subprocess.Popen(command).wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT)
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pid = int((tmp_path / "pid").read_text())
    process.send_signal(signal.SIGKILL)
    process.wait()
    while pathlib.Path(f"/proc/{pid}").exists() and "zombie" not in pathlib.Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def score(right, dev, seeds=(1, 2), chosen=None):
    return findings.Score(np.array(right, np.float64), list(seeds), dev, chosen or {"learning_rate": 1e-3})


@pytest.fixture
def made_up(tmp_path):
    plan = plan_of(tmp_path)
    half = [1, 0] * 100
    scores = {
        ("majority", "topic"): score([half], 0.5, ()),
        ("bag_of_words", "topic"): score([[1, 0] * 60 + [1, 1] * 40], 0.6, ()),
        ("random-bert", "topic"): score([half, half], 0.55),
        ("bert", "topic"): score([[1] * 200, [1] * 180 + [0] * 20], 0.9),
    }
    compared = findings._compare_with_reference(scores, findings._reference(plan, scores))
    objective = findings.Objective(
        [5.0], [4.25], "masked_lm_accuracy", [0.2], Baselines(0.05, 0.15), [(5, 6.0, 0.1), (10, 5.0, 0.2)]
    )
    cost = findings.Cost(689_630, 32, 4096, StepCost(0.5, 0.25, 3e9, 128), 1.5, 1.0)
    failed = [make_stage("pretrain", "pretrain gpt", "pretrain", {"system": "gpt"}, "gpt")]
    return plan, findings.Findings(
        findings.list_arms(plan), compared, "bert", 3, {"bert": objective}, {"bert": cost}, {"bert": 2.5}, failed
    )


def test_the_reference_is_what_development_rows_find_best(made_up):
    plan, found = made_up
    assert findings._reference(plan, found.scores) == "bert"
    assert found.scores["bert", "topic"].difference is None
    assert found.scores["majority", "topic"].difference.mean == pytest.approx(0.5 - 0.95)


def test_the_page_holds_all_of_it(made_up, tmp_path, monkeypatch):
    plan, found = made_up
    known = Workspace(str(tmp_path / "work"))
    known.begin(found.failed[0])
    known.finish(found.failed[0], 6, 1.0, 1.0)
    path = report.write(plan, known, Agenda([*found.failed], {}, {}, ["gpt"]), found, PLAN, 2)
    text = pathlib.Path(path).read_text(encoding="utf-8")
    assert "5.000" in text and "4.250" in text  # all of the loss, and the part of the measure
    assert "<td>95.0 ± 7.1</td><td>50.0</td><td>70.0</td>" in text  # bert, and beside it majority and bag of words
    assert "4,096 tokens" in text and "majority, bag_of_words, random-bert are worse than bert." in text
    assert "masked lm accuracy</td><td>20.0</td><td>5.0</td><td>15.0</td>" in text and "689,630" in text
    assert "pretrain gpt" in text and "not complete" in text and "xmodels pretrain --system=gpt" in text
    assert (
        text.count("<svg") == 2 and "http" not in text and "<script" not in text
    )  # scores and one objective; nothing from elsewhere
    stored = json.loads((tmp_path / "work/results.json").read_text())
    assert stored["scores"]["topic"]["bert"]["test_accuracy"] == [1.0, 0.9] and stored["failed"] == ["pretrain gpt"]
    assert stored["scores"]["topic"]["majority"]["difference"]["corrected"] < 0.05


def test_kinds_of_stages_and_what_they_write_belong_together():
    assert set(stages.OUTPUT) == set(stages.KINDS)
