"""FastBERT: costs and uncertainty as the paper's, exits that do not change answers, students that learn from the teacher alone."""

import json
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import xmodels
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES, TOKENIZER
from tests.helpers.small_models import network as two_layers
from xmodels import systems
from xmodels.jobs.finetune.options import Options
from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer, reader_of
from xmodels.layers.branches import BranchClassifier, leaves, uncertainty
from xmodels.models import folder
from xmodels.models.backbone import named_weights
from xmodels.models.bert import BertConfig
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.fast_classify.costs import branch_flops, exit_flops, expected_speedup, full_flops, layer_flops
from xmodels.tasks.fast_classify.distillation import Distil
from xmodels.tasks.fast_classify.early_exit import early_exit
from xmodels.tasks.fast_classify.exits import Exits
from xmodels.tasks.fast_classify.task import FastClassify
from xmodels.training.devices import distribution
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single

BASE = BertConfig(21128, 768, 12, 12, 3072)
SMALL = {"hidden_dim": 32, "num_layers": 3, "num_heads": 2, "intermediate_dim": 48, "max_sequence_length": 32}
LONG = pytest.mark.long
QUICK = {
    "task": "fast_classify", "max_seq_length": 16, "train_batch_size": 16, "distribution_strategy": "one_device",
    "jit_compile": "false", "learning_rate": 2e-3, "distill_learning_rate": 2e-3, "save_checkpoints_steps": 10, "log_steps": 5,
}  # fmt: skip


def made(name, task=FastClassify, **more):
    """A small network with classifiers that are sure of some texts and not of others."""
    keras.utils.set_random_seed(3)
    system = systems.load(name)
    config = system.MODEL.config_class(vocabulary_size=len(TOKENIZER.vocabulary), dropout=0.1, **SMALL)
    backbone = system.MODEL(config).initialize()
    made_task = task(config, ["a", "b", "c"], system.READING, **more)
    made_task.exits(backbone, backbone.tiny_batch())
    for branch in made_task.branches:
        branch.head.kernel.assign(8.0 * branch.head.kernel)
        branch.narrow.kernel.assign(3.0 * branch.narrow.kernel)
    return backbone, made_task


def texts(rows=24, length=12, seed=0):
    draw = np.random.default_rng(seed)
    real = np.arange(length) < draw.integers(3, length + 1, (rows, 1))
    ids = np.where(real, draw.integers(5, len(TOKENIZER.vocabulary), (rows, length)), 0).astype("int32")
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": real}


def probabilities(logits):
    return np.array(keras.ops.softmax(logits))


def test_costs_are_the_papers():
    assert layer_flops(BASE, 128) == 1_811_939_328 and branch_flops(BASE, 128) == 41_975_808
    assert full_flops(BASE, 128) == 21_785_247_744
    assert exit_flops(BASE, 128, [0, 11]).tolist() == [1_853_915_136, 22_246_981_632]
    assert expected_speedup(BASE, 128, [0]) == pytest.approx(11.75, abs=0.005)


@pytest.mark.parametrize(("labels", "count"), [(2, 181_250), (4, 181_508)])
def test_a_branch_has_the_weights_of_the_paper(labels, count):
    branch = BranchClassifier(labels)
    assert branch(np.zeros((1, 2, 768), "float32"), np.ones((1, 2), bool)).shape == (1, labels)
    assert sum(int(np.prod(weight.shape)) for weight in branch.weights) == count


def test_uncertainty_is_an_entropy_from_0_to_1():
    even, sure = np.zeros((1, 5), "float32"), np.array([[0, 200, 0, 0, 0]], "float32")
    assert np.array(uncertainty(even))[0] == pytest.approx(1.0, abs=1e-6) and np.array(uncertainty(sure))[0] == 0.0
    logits = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    np.testing.assert_allclose(uncertainty(logits), uncertainty(logits[:, [3, 0, 4, 1, 2]]), atol=1e-6)
    with pytest.raises(ValueError, match="at least 2 classes"):
        uncertainty(logits[:, :1])


def test_speeds_0_and_1_are_exact():
    unsure = np.array([0.0, 0.5, 1.0, 1.0 + 1e-6], "float32")
    assert not np.array(leaves(unsure, 0.0)).any() and np.array(leaves(unsure, 1.0)).all()
    assert np.array(leaves(unsure, 0.5)).tolist() == [True, False, False, False]  # strictly less


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name", ["bert", pytest.param("roberta", marks=LONG), "albert", pytest.param("ernie", marks=LONG)]
)
def test_texts_that_leave_get_the_answers_of_all_layers(name):
    (backbone, task), batch = made(name), texts()
    teacher = np.array(task.forward(backbone, batch, training=False)["logits"])
    assert len(task.branches) == SMALL["num_layers"]
    exits, before, middle = task.exits(backbone, batch), np.inf, set()
    tensors = {name: tf.constant(x) for name, x in batch.items()}
    leave = tf.function(lambda speed: early_exit(backbone, task, tensors, speed))
    for speed in (0.0, 0.2, 0.5, 0.7, 0.9, 1.0):
        ways = task.select(exits, speed), leave(tf.constant(speed))
        chosen, left = ({each: np.array(x) for each, x in way.items()} for way in ways)
        np.testing.assert_array_equal(chosen["exit_layers"], left["exit_layers"])
        for each in ("logits", "uncertainties"):
            np.testing.assert_allclose(chosen[each], left[each], atol=1e-5)
        assert left["exit_layers"].mean() <= before
        before = left["exit_layers"].mean()
        middle |= set(left["exit_layers"].tolist()) if 0 < speed < 1 else set()
        if speed in (0.0, 1.0):
            assert (left["exit_layers"] == (len(task.branches) - 1 if speed == 0 else 0)).all()
        if speed == 0.0:
            for way in (chosen, left):
                np.testing.assert_allclose(way["logits"], teacher, atol=1e-6 * np.abs(teacher).max())
    assert middle == {0, 1, 2}  # so every kind of exit was compared


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "pooling", ["first", "mean", *(pytest.param(x, marks=LONG) for x in ("last", "max", "attention", "mean+attention"))]
)
def test_neighbours_and_padding_change_no_answer(pooling):
    """Reading of all tokens, by any pooling, is that of the real ones."""
    keras.utils.set_random_seed(4)
    system = systems.load("bert")
    config = system.MODEL.config_class(vocabulary_size=len(TOKENIZER.vocabulary), **SMALL)
    backbone, task = (
        system.MODEL(config).initialize(),
        FastClassify(config, "abc", system.READING.with_pooling(pooling)),
    )
    batch = texts(6)
    together = np.array(task.exits(backbone, batch))
    for row, length in enumerate(batch["padding_mask"].sum(axis=1)):
        alone = {name: x[row : row + 1, :length] for name, x in batch.items()}
        np.testing.assert_allclose(np.array(task.exits(backbone, alone))[0], together[row], atol=1e-5)
    assert np.ptp(together, axis=0).max() > 1e-4  # it does read the texts


def test_a_student_that_says_what_the_teacher_says_has_no_loss_and_the_teacher_no_gradient():
    backbone, task = made("bert", Distil)
    logits = tf.Variable(np.random.default_rng(0).normal(size=(4, 3, 3)).astype("float32"))
    batch = {"example_weights": np.array([1, 1, 1, 0], "float32")}
    same = tf.repeat(logits[:, -1:], 3, axis=1)
    assert float(task.score({"exits": same}, batch, backbone)[0]["distillation"][0]) == pytest.approx(0.0, abs=1e-6)
    with tf.GradientTape() as tape:
        total, weight = task.score({"exits": logits}, batch, backbone)[0]["distillation"]
    gradient = np.array(tape.gradient(total, logits))
    assert float(weight) == 3.0 and not gradient[:, -1].any() and not gradient[3].any() and gradient[:3, :-1].any()


def test_divergences_are_sums_over_students_in_both_directions():
    logits = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("float32")
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    batch = {"example_weights": np.ones(2, "float32")}
    for direction, pairs in (
        ("teacher_first", [(p[:, 2], p[:, i]) for i in (0, 1)]),
        ("student_first", [(p[:, i], p[:, 2]) for i in (0, 1)]),
    ):
        backbone, task = made("bert", Distil, direction=direction)
        expected = sum((a * np.log(a / b)).sum() for a, b in pairs)
        found = task.score({"exits": tf.constant(logits)}, batch, backbone)[0]["distillation"][0]
        assert float(found) == pytest.approx(expected, rel=1e-5)


class Rows:
    """One batch for ever, without labels."""

    continues, grouping = False, None

    def __init__(self, batch):
        self.batch, self.source, self.batch_size = batch, self, len(batch["token_ids"])
        self.num_examples = self.batch_size

    def zeros(self):
        return {name: tf.zeros_like(x) for name, x in self.batch.items()}


def learner(backbone, task, batch):
    numbers = {"learning_rate": 1e-2, "num_warmup_steps": 0, "num_steps": 20, "weight_decay": 0.1}
    return Learner(
        distribution.choose("one_device"), backbone, single(task, Rows(batch)), Optimization(**numbers).make_optimizer()
    )


def values(part):
    return {name: np.array(weight) for name, weight in named_weights(part).items()}


@pytest.mark.long
def test_the_second_phase_needs_no_labels_and_changes_students_only():
    backbone, task = made("bert", Distil)
    batch = texts() | {"example_weights": np.ones(24, "float32")}
    task.freeze(backbone)
    before, heads = values(backbone), values(task)
    steps = learner(backbone, task, batch)
    data = iter(tf.data.Dataset.from_tensors(batch).repeat())
    losses = [float(steps.train(data, tf.constant(5))[0].numpy()[0, 0]) for _ in range(2)]
    assert losses[1] < losses[0]
    after, changed = values(backbone), {n for n, x in values(task).items() if not np.array_equal(x, heads[n])}
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert {name.split(".")[1] for name in changed} == {"0", "1"}  # the teacher is branch 2
    exits = [np.array(task.exits(backbone, batch, training=True))[:, -1] for _ in range(2)]
    np.testing.assert_array_equal(*exits)  # nothing is dropped in network and teacher


def test_the_first_phase_gives_students_no_gradient():
    backbone, task = made("bert")
    batch = texts() | {"labels": np.arange(24) % 3, "example_weights": np.ones(24, "float32")}
    with tf.GradientTape() as tape:
        (total, _) = task.score(task.forward(backbone, batch, training=True), batch, backbone)[0]["classify"]
    of_students = tape.gradient(total, [w.value for student in task.students for w in student.weights])
    assert all(gradient is None for gradient in of_students)


# Whole runs.


def table(path, count, seed):
    draw = np.random.default_rng(seed)
    with open(path, "w", encoding="utf-8") as file:
        file.write("text\tlabel\n")
        for _ in range(count):
            words = draw.choice([*NAMES, *PLACES], draw.integers(1, 9))
            file.write(f"{' '.join(words)}\t{'person' if words[0] in NAMES else 'place'}\n")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    for name, count, seed in (("train", 256, 0), ("dev", 64, 1)):
        table(path / f"{name}.tsv", count, seed)
    (path / "plain.txt").write_text("ann bob\n\nrome oslo\nbonn ann dan\n" * 20, "utf-8")
    return path


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return two_layers("bert", tmp_path_factory.mktemp("bert"))


def street(data, start, path, **more):
    files = {"train_file": data / "train.tsv", "eval_file": data / "dev.tsv", "init_checkpoint": start}
    numbers = QUICK | {"num_train_epochs": 3, "distill_epochs": 1, "keep_checkpoint_max": 9}
    return invoke("finetune", model_dir=path, **files, **numbers | more)


@pytest.fixture(scope="module")
def run(data, start, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "fast"
    assert street(data, start, path) == 0
    return path


@pytest.mark.parametrize("distill_epochs", [0.0, None], ids=["teacher", "students"])
def test_both_phases_read_the_same_state_of_a_network_that_muon_trained(start, tmp_path, distill_epochs):
    shutil.copytree(start, tmp_path / "backbone")
    (tmp_path / "config.json").write_text(json.dumps({"settings": {"optimizer": "muon"}}))
    folders = {"init_checkpoint": str(tmp_path / "backbone"), "model_dir": str(tmp_path / "run")}
    options = Options(task="fast_classify", distill_epochs=distill_epochs, **folders)
    reader = reader_of(options)
    load_checkpoint_and_tokenizer(options, reader)
    assert (reader.usual_optimizer() == "muon") == (distill_epochs == 0)
    assert reader.reading.pooling == reader.numbers["pooling"] == "published"


def weights(run):
    return folder.read_weights(str(run / "backbone/weights.safetensors"))


@pytest.mark.long
def test_one_command_teaches_and_distils(run, data, tmp_path, capsys):
    results = json.loads((run / "results.json").read_text())["results"]
    taught = json.loads((run / "teacher/results.json").read_text())["results"]
    assert (
        results["evaluation teacher_accuracy"] == pytest.approx(taught["evaluation accuracy"])
        and taught["evaluation accuracy"] > 0.9
    )
    assert results["evaluation mean_exit_accuracy"] > 0.9
    before, after = weights(run / "teacher"), weights(run)
    same = {name for name in before if np.array_equal(before[name], after[name])}
    assert {n for n in before if n.startswith(("backbone.", "objective.fast_classify.branches.1."))} <= same
    assert any(name not in same for name in before if ".branches.0." in name)
    assert {"exits.png", "speed.png", "uncertainty.png"} <= {each.name for each in (run / "pictures").iterdir()}
    scores = tmp_path / "scores.json"
    assert (
        invoke(
            "evaluate", model_dir=run, test_file=data / "dev.tsv", speed="0,0.5,1", batch_size=64, output_file=scores
        )
        == 0
    )
    rows = json.loads(scores.read_text())["speeds"]
    assert [row["mean_layers"] for row in rows][::2] == [2.0, 1.0] and rows[1]["mean_layers"] <= 2.0
    assert rows[0]["accuracy"] == pytest.approx(results["evaluation teacher_accuracy"]) and sum(rows[1]["exits"]) == 64
    assert "times as fast" in capsys.readouterr().out


@pytest.mark.long
def test_both_phases_resume_bit_by_bit(run, data, start, tmp_path):
    for lost in ("teacher", "."):
        copy = tmp_path / f"copy_{lost.strip('.')}"
        shutil.copytree(run, copy)
        if lost == "teacher":  # killed in the first phase: nothing of the second one is there
            for each in copy.iterdir():
                if each.name != "teacher":
                    shutil.rmtree(each) if each.is_dir() else each.unlink()
        broken = copy / lost
        newest = sorted((broken / "checkpoints").iterdir())[-1]
        shutil.rmtree(newest)
        (broken / "results.json").unlink()
        assert street(data, start, copy) == 0
        expected, found = weights(run), weights(copy)
        assert all(np.array_equal(expected[name], found[name]) for name in expected), lost


@pytest.mark.long
def test_texts_get_one_answer_however_they_are_asked(run, tmp_path):
    (tmp_path / "lines.txt").write_text("ann rome\n\nrome ann bob\nmany words\n", "utf-8")
    flags = {"input_file": tmp_path / "lines.txt", "output_file": tmp_path / "found.jsonl", "speed": 0.4}
    assert invoke("predict", model_dir=run, **flags) == 0
    found = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert found.pop(1) is None  # a blank line
    opened, asked = xmodels.load(str(run)), [("ann rome",), ("rome ann bob",), ("many words",)]
    selected = opened.predict(asked, speed=0.4, exit_mode="select")
    for one, other in zip(found, selected, strict=True):
        assert one["layer"] == other.layer in (1, 2) and one["label"] == other.label
        assert one["uncertainty"] == pytest.approx(other.uncertainty, abs=1e-5) and 0 <= one["uncertainty"] <= 1
        assert list(opened.predictor.describe_prediction(None, other))[-1].startswith(
            f"layer: {other.layer} of 2, uncertainty"
        )
    exits = Exits.of(opened.predictor, asked, 2)
    assert [each.layer - 1 for each in selected] == exits.at(0.4)[1].tolist()


@pytest.mark.long
@pytest.mark.parametrize("serving_ops", ["core", "text"])
def test_a_speed_is_an_input_of_what_is_served(run, tmp_path, serving_ops):
    assert (
        invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops=serving_ops, speed=0.3) == 0
    )
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures
    asked = [("ann rome",), ("rome bob",), ("",)]
    predictor, strings = load(str(run)), tf.constant([text for (text,) in asked])
    for speed, signature in ((0.3, "serving_default"), (0.0, "adaptive"), (0.6, "adaptive"), (1.0, "adaptive")):
        more = {"speed": tf.constant(speed)} if signature == "adaptive" else {}
        found = {name: x.numpy() for name, x in served[signature](text=strings, **more).items()}
        predictor.adjust(speed=speed)
        expected = predictor.predict(asked)
        assert [each.layer for each in expected] == found["layer"].tolist()
        assert [each.label for each in expected] == [label.decode() for label in found["label"]]
        wanted = [list(each.probabilities.values()) for each in expected]
        np.testing.assert_allclose(found["probabilities"], wanted, atol=1e-4)
    assert "adaptive" in (tmp_path / "served/README.md").read_text()


@pytest.mark.long
def test_texts_without_labels_are_enough_to_distil(run, data, start, tmp_path, capsys):
    path = tmp_path / "more"
    shutil.copytree(run / "teacher", path / "teacher")
    given = {"distill_file": data / "plain.txt", "distill_divergence": "student_first", "distill_epochs": 1}
    assert street(data, start, path, **given) == 0
    assert "60 training rows" in capsys.readouterr().out
    assert street(data, start, path, **given | {"distill_divergence": "teacher_first"}) != 0
    assert "distill_divergence" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"distill_epochs": 0, "distill_file": "x.txt"}, "nothing is distilled"),
        ({"distill_file": "missing.txt"}, "missing.txt"),
        ({"task": "classify", "distill_epochs": 2}, "--distill_epochs"),
        ({"distill_epochs": -1}, "distill_epochs"),
    ],
)
def test_what_cannot_be_distilled_is_refused_before_the_first_phase(flags, said, data, start, tmp_path, capsys):
    clean = {name: value for name, value in QUICK.items() if not name.startswith("distill")}
    given = clean | {"train_file": data / "train.tsv", "init_checkpoint": start, "model_dir": tmp_path / "run"} | flags
    assert invoke("finetune", **given) not in (0, None)
    assert said in capsys.readouterr().err and not (tmp_path / "run" / "teacher").exists()


@pytest.mark.long
def test_networks_without_such_layers_and_odd_speeds_are_refused(run, data, tmp_path, capsys):
    causal = two_layers("gpt", tmp_path)
    given = QUICK | {"train_file": data / "train.tsv", "init_checkpoint": causal, "model_dir": tmp_path / "run"}
    assert invoke("finetune", **given) != 0
    assert "of the kind gpt" in capsys.readouterr().err
    assert invoke("predict", model_dir=run, text="ann", speed=1.5) != 0
    assert "speed" in capsys.readouterr().err
    assert invoke("predict", model_dir=run / "teacher", text="ann", speed=0.5) != 0
    assert "have not learnt" in capsys.readouterr().err
    assert invoke("evaluate", model_dir=run, test_file=data / "dev.tsv", speed="0,fast") != 0
    assert "expected numbers from 0 to 1" in capsys.readouterr().err


@pytest.mark.long
def test_another_teacher_is_another_run(run, data, start, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "teacher")
    assert street(data, start, copy) != 0
    assert "learns from this teacher" in capsys.readouterr().err
    assert street(data, start, copy, resume="must") != 0 and pathlib.Path(copy / "backbone").is_dir()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["roberta", "albert"])
def test_other_families_learn_and_serve_it(kind, data, tmp_path):
    backbone, _ = made(kind)
    start = tmp_path / kind
    start.mkdir()
    folder.write_model(str(start), backbone, None, TOKENIZER.files(), TOKENIZER.describe(), kind)
    assert street(data, start, tmp_path / "run", num_train_epochs=6) == 0
    assert json.loads((tmp_path / "run/results.json").read_text())["results"]["evaluation mean_exit_accuracy"] > 0.8
    assert invoke("export_model", model_dir=tmp_path / "run", export_dir=tmp_path / "served", serving_ops="core") == 0


@pytest.mark.long
def test_the_doctor_and_a_dry_run_know_it(data, start, tmp_path, capsys):
    files = {"train_file": data / "train.tsv", "init_checkpoint": start}
    numbers = {name: QUICK[name] for name in ("task", "max_seq_length", "train_batch_size")}
    assert invoke("doctor", model_dir=tmp_path / "run", distill_file=data / "plain.txt", **files, **numbers) == 0
    assert "60 texts to distil on" in capsys.readouterr().out
    assert invoke("finetune", "--dry_run", model_dir=tmp_path / "run", **files, **numbers) == 0
    assert capsys.readouterr().out.count("nothing was written") == 2 and not (tmp_path / "run").exists()
