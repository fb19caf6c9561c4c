"""Answers whose ends are read beside their beginnings: XLNet's head, its places, its answers, and Hugging Face's class."""

import json

import numpy as np
import pytest

from data_pipelines.corpora.squad import read_squad
from data_pipelines.text.frames import BERT, XLNET
from tests.helpers.invocation import invoke
from tests.helpers.small_models import TOKENIZER, network
from tests.tasks.test_answer_span import QUICK, squad
from xmodels.conversion import convert, formats
from xmodels.models import folder
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.xlnet import XLNet, XLNetConfig
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.answer_beam.spans import BeamSettings, of_row, roles_of
from xmodels.tasks.answer_beam.task import NULL, TEXT, AnswerBeam
from xmodels.tasks.answer_span.spans import Candidates, find
from xmodels.tasks.answer_span.windows import Window, pack_windows, places

SMALL = {
    "hidden_dim": 8,
    "num_layers": 2,
    "num_heads": 2,
    "intermediate_dim": 12,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}


def checkpoint():
    """A small XLNet with the head, all of random weights."""
    config, random = XLNetConfig(30, **SMALL), np.random.default_rng(1)
    task = AnswerBeam(config)
    backbone = XLNet(config).initialize()
    task.forward(backbone, batch_of(4))
    values = folder.values_of("backbone", backbone) | folder.values_of("objective.answer_beam", task)
    values = {name: random.normal(0, 0.4, value.shape).astype("float32") for name, value in values.items()}
    for prefix, made in (("backbone", backbone), ("objective.answer_beam", task)):
        folder.assign(prefix, made, values, "a test")
    table = formats.table_of("xlnet")
    assert all(name in table.axes or "blocks" in name for name in values)
    return backbone, task, Checkpoint("xlnet", config, values, heads=frozenset({"answer_beam"}), system="xlnet")


def batch_of(rows, length=11, padding=0):
    """Texts of 4 tokens that are asked about by 3, in XLNet's frame; `padding` columns stand before all of them."""
    random = np.random.default_rng(0)
    ids = random.integers(7, 30, (rows, length)).astype("int32")
    real = np.ones((rows, length), bool)
    if rows > 1:
        real[1, :2] = False  # this text is shorter
    lengths = [(3, length - 6 if row != 1 or rows == 1 else length - 8) for row in range(rows)]
    segments = np.zeros((rows, length), "int32")
    segments[:, length - 5 : length - 1], segments[:, -1] = 1, 2
    found = {"token_ids": ids, "padding_mask": real, "segment_ids": segments}
    found["segment_ids"][~real] = 3
    found = {
        name: np.pad(x, [(0, 0), (padding, 0)], constant_values=3 if name == "segment_ids" else 0)
        for name, x in found.items()
    }
    return found | {"span_roles": roles_of(found["padding_mask"], lengths, XLNET, True)}


def numbers(tensors):
    return {name: np.asarray(value) for name, value in tensors.items()}


def test_an_answer_begins_and_ends_in_the_text_or_nowhere():
    (questions, contexts) = [[9, 8], [7]], [[11, 12, 13], [14, 15, 16, 17]]
    rows = [
        Window(q, c, np.zeros((len(c), 2), int), np.ones(len(c), bool))
        for q, c in zip(questions, contexts, strict=True)
    ]
    for frame, first in ((XLNET, True), (BERT, False)):
        packed = pack_windows(rows, TOKENIZER, 16, frame, first)
        roles = roles_of(packed["padding_mask"], [(2, 3), (1, 4)], frame, first)
        for row, context in enumerate(contexts):
            assert packed["token_ids"][row][roles[row] == TEXT].tolist() == context
            (null,) = np.flatnonzero(roles[row] == NULL)
            assert TOKENIZER.vocabulary.tokens[packed["token_ids"][row][null]] == "[CLS]"
    assert places(XLNET, 2, 3, 5, True) == (5, 12)  # the text, [SEP], the question, [SEP], [CLS]


def test_chances_are_zero_outside_of_the_text_and_do_not_depend_on_padding():
    backbone, task, _ = checkpoint()
    found = numbers(task.forward(backbone, batch_of(3)))
    roles = batch_of(3)["span_roles"]
    chances = np.exp(found["start_logits"] - found["start_logits"].max(-1, keepdims=True))
    assert (chances[roles == 0] == 0).all() and (chances[roles > 0] > 0).all()
    padded = numbers(task.forward(backbone, batch_of(3, padding=4)))
    possible = found["top_start_scores"] > -1e29  # the second text has fewer places than the beam
    assert possible.sum(axis=1).tolist() == [5, 4, 5]
    beside = (found["top_end_scores"] > -1e29) & possible[..., None]
    for name in AnswerBeam.signature:
        where = beside if "end" in name else possible if "start" in name else slice(None)
        np.testing.assert_allclose(padded[name][where], found[name][where], atol=1e-5, err_msg=name)


def test_the_end_is_read_beside_the_right_beginning_in_training_and_the_loss_is_the_papers():
    backbone, task, _ = checkpoint()
    batch = batch_of(3)
    starts, ends = np.array([1, 10, 2], "int32"), np.array([2, 10, 4], "int32")  # the second has no answer
    labelled = batch | {"start_positions": starts, "end_positions": ends, "example_weights": np.array([1.0, 1.0, 0.0])}
    found = task.forward(backbone, labelled)
    assert not any(name in task.forward(backbone, labelled, training=True) for name in ("top_starts", "top_ends"))
    logits, rows = numbers(found), np.arange(3)

    def cross_entropy(x, right):
        return np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1)) + x.max(-1) - x[rows, right]

    silent = np.array([0.0, 1.0, 0.0])
    nothing = np.log1p(np.exp(logits["null_logits"])) - silent * logits["null_logits"]
    each = (cross_entropy(logits["start_logits"], starts) + cross_entropy(logits["end_logits"], ends) + nothing) / 2
    losses, metrics = task.score(found, labelled, backbone)
    (total, count) = losses["answer_beam"]
    assert float(count) == 2 and float(total) == pytest.approx(each[:2].sum(), rel=1e-5)
    assert set(metrics) == {"start_accuracy", "end_accuracy", "answerable_accuracy"}
    other = numbers(task.forward(backbone, labelled | {"start_positions": starts[::-1].copy()}))
    assert np.abs(other["end_logits"] - logits["end_logits"])[0].max() > 1e-3


def test_beams_hold_the_likeliest_pairs():
    """As many beginnings and ends as there are places: all pairs, in the order of their chances; no more, and they are cut."""
    backbone, task, _ = checkpoint()
    task.settings = {"start_n_top": 11, "end_n_top": 11}
    batch, window = batch_of(1), Window([1] * 3, [1] * 5, np.array([[i, i + 1] for i in range(5)]), np.ones(5, bool))
    found, settings = numbers(task.forward(backbone, batch)), BeamSettings(context_first=True)
    every = of_row({name: x[0] for name, x in found.items()}, batch["padding_mask"][0], window, XLNET, settings)
    assert len(every.starts) == 5 * 6 / 2  # the end is not before the beginning
    place = int(np.argmax(every.start_logits + every.end_logits))
    task.settings = {}
    found = numbers(task.forward(backbone, batch))
    few = of_row({name: x[0] for name, x in found.items()}, batch["padding_mask"][0], window, XLNET, settings)
    best = int(np.argmax(few.start_logits + few.end_logits))
    assert len(few.starts) < len(every.starts)
    assert (few.starts[best], few.ends[best]) == (every.starts[place], every.ends[place])
    short = batch_of(1, length=8)  # fewer places than the beam is wide
    assert numbers(task.forward(backbone, short))["top_ends"].shape == (1, 5, 5)


def test_having_no_answer_is_scored_by_itself():
    made = [
        Candidates(np.array([-1.0, -2.0]), np.array([-0.5, -0.1]), np.array([0, 4]), np.array([3, 8]), null, 0.0)
        for null in (0.7, -0.4)
    ]
    answered = find("Ann lives", made, BeamSettings(null_score_diff_threshold=0.0))
    assert answered.null_score_diff == -0.4 and answered.answer.text == "Ann"  # the least of all windows
    chances = [each.score for each in answered.n_best]
    assert sum(chances) == pytest.approx(1.0)
    assert [each.text for each in answered.n_best] == ["Ann", "live", ""]
    assert chances[-1] == pytest.approx(1 / (1 + np.exp(0.4)))
    assert find("Ann lives", made[:1], BeamSettings(null_score_diff_threshold=0.0)).answer.text == ""
    assert find("Ann lives", made[:1], BeamSettings()).answer.text == "Ann"  # every question has one


def test_weights_go_to_hugging_face_and_back(tmp_path):
    _, _, ours = checkpoint()
    convert.save(ours, f"hf:{tmp_path}/theirs")
    stored = json.loads((tmp_path / "theirs/config.json").read_text())
    assert stored["architectures"] == ["XLNetForQuestionAnswering"]
    found = convert.load(f"hf:{tmp_path}/theirs")
    assert found.heads == {"answer_beam"}
    for name, value in ours.values.items():
        np.testing.assert_array_equal(found.values[name], value, err_msg=name)
    convert.save(found, f"{tmp_path}/ours")
    assert max(convert.verify(f"{tmp_path}/ours", f"hf:{tmp_path}/theirs").values()) < 1e-6


@pytest.mark.extra("torch", "transformers")
def test_the_class_of_transformers_has_the_same_beams_and_losses(tmp_path):
    import torch
    import transformers

    backbone, task, ours = checkpoint()
    convert.save(ours, f"hf:{tmp_path}/theirs")
    theirs = transformers.XLNetForQuestionAnswering.from_pretrained(str(tmp_path / "theirs")).eval()
    batch = batch_of(3)
    given = {
        "input_ids": torch.tensor(batch["token_ids"]).long(),
        "token_type_ids": torch.tensor(batch["segment_ids"]).long(),
        "attention_mask": torch.tensor(batch["padding_mask"]).float(),
        "p_mask": torch.tensor(batch["span_roles"] == 0).float(),
        "cls_index": torch.tensor([10, 10, 10]),
    }
    found = numbers(task.forward(backbone, batch))
    with torch.no_grad():
        expected = theirs(**given)
    before = np.argmax(batch["padding_mask"], axis=1)[:, None]
    possible = found["top_start_scores"] > -1e29
    np.testing.assert_array_equal((found["top_starts"] + before)[possible], expected.start_top_index[possible])
    np.testing.assert_allclose(np.exp(found["top_start_scores"]), expected.start_top_log_probs, atol=1e-5)
    np.testing.assert_allclose(found["null_logits"], expected.cls_logits, atol=1e-4)
    # Theirs lie beside each other by the rank of the end, and in each rank by the beginning.
    chances = expected.end_top_log_probs.numpy().reshape(3, 5, 5).transpose(0, 2, 1)
    np.testing.assert_allclose(np.exp(found["top_end_scores"])[possible], chances[possible], atol=1e-5)
    starts, ends = np.array([1, 10, 2], "int32"), np.array([2, 10, 4], "int32")
    labelled = batch | {"start_positions": starts, "end_positions": ends, "example_weights": np.ones(3, "float32")}
    losses, _ = task.score(task.forward(backbone, labelled), labelled, backbone)
    with torch.no_grad():
        loss = theirs(
            **given, start_positions=torch.tensor(starts).long(), end_positions=torch.tensor(ends).long()
        ).loss  # fmt: skip
    logits = found[
        "null_logits"
    ]  # theirs reads the right beginning there in training; the authors' code, as ours, all of them
    nothing = np.log1p(np.exp(logits)) - np.array([0.0, 1.0, 0.0]) * logits
    total, count = losses["answer_beam"]
    assert float(total) / float(count) - nothing.mean() / 2 == pytest.approx(float(loss), rel=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_from_files_to_a_served_model(kind, tmp_path, capsys):
    for name, count, seed in (("train", 160, 0), ("dev", 32, 1)):
        (tmp_path / f"{name}.json").write_text(json.dumps(squad(count, seed)), "utf-8")
    (tmp_path / kind).mkdir()
    files = {
        f"{name}_file": tmp_path / f"{part}.json"
        for name, part in (("train", "train"), ("eval", "dev"), ("test", "dev"))
    }
    asked = {"task": "answer_beam", "init_checkpoint": network(kind, tmp_path / kind), "model_dir": tmp_path / "run"}
    buckets = {"length_buckets": "auto"} if kind == "xlnet" else {}
    assert invoke("finetune", **asked, **files, **QUICK, **buckets, num_train_epochs=2, start_n_top=3) == 0
    described = json.loads((tmp_path / "run/task.json").read_text())["settings"]
    assert described["context_first"] == (kind == "xlnet") and described["start_n_top"] == 3
    assert described["null_score_diff_threshold"] is not None
    results = json.loads((tmp_path / "run/results.json").read_text())["results"]
    scored = {
        "model_dir": tmp_path / "run",
        "test_file": tmp_path / "dev.json",
        "output_file": tmp_path / "scores.json",
    }
    assert invoke("evaluate", **scored) == 0
    assert json.loads((tmp_path / "scores.json").read_text())["f1"] == pytest.approx(results["test f1"], abs=1e-3)
    predictor, questions = load(str(tmp_path / "run")), list(read_squad(str(tmp_path / "dev.json")))[:8]
    for question, found in zip(questions, predictor.predict(questions, 4), strict=True):
        assert all(question.context[e.start : e.end] == e.text for e in found.n_best if e.text)
        assert sum(each.score for each in found.n_best) == pytest.approx(1.0)
        (alone,) = predictor.predict([question])
        assert alone.null_score_diff == pytest.approx(found.null_score_diff, abs=1e-4)
    export = {"model_dir": tmp_path / "run", "export_dir": tmp_path / "served", "serving_ops": "core"}
    assert invoke("export_model", **export) == 0  # compares answers with the run's
    assert "Exported" in capsys.readouterr().out or (tmp_path / "served/1").is_dir()
