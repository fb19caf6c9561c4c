"""Exports whose network stands apart, as ONNX or LiteRT, answer as the run does; and every precision says what it costs."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import file_sha256
from tests.export.test_export import contents
from tests.helpers.invocation import invoke
from tests.helpers.small_served import TASKS, small_run
from xmodels.export import apart, exporter, formats, onnx
from xmodels.export.exporter import Form, export
from xmodels.runs import exports
from xmodels.runs.fine_tuned import load_predictor
from xmodels.serving import kinds
from xmodels.serving.apart import ApartModel, open_model, read_description
from xmodels.serving.folder import DESCRIPTION, find_model
from xmodels.serving.kinds import LITERT, ONNX
from xmodels.serving.networks import open_network

ROWS = [
    ("Ann lives in York.", "bad"),
    ("where does Bob live?", "so so"),
    ("many words and more", "好"),
    ("dan?", "bad"),
]
TEXTS = [text for text, _ in ROWS]
NEEDS = {ONNX: ("tf2onnx", "onnx", "onnxruntime"), LITERT: ("ai_edge_litert",)}
onnx_extra, litert_extra = (pytest.mark.extra(*NEEDS[kind]) for kind in (ONNX, LITERT))


def of_formats(*precisions, long=()):
    """Parameters `kind` and `precision` with the packages that they need."""
    return pytest.mark.parametrize(
        ("kind", "precision"),
        [
            pytest.param(kind, each, marks=[pytest.mark.extra(*NEEDS[kind]), *([pytest.mark.long] if (kind, each) in long else [])])
            for kind in NEEDS
            for each in precisions
        ],
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of a task, made once."""
    made: dict[str, pathlib.Path] = {}

    def run(task):
        if task not in made:
            made[task] = small_run(task, tmp_path_factory.mktemp(task))
        return made[task]

    return run


@pytest.fixture(scope="module")
def quantized(runs, tmp_path_factory):
    """A run, its development file, and its export as ONNX in 8 bits, which was compared on this file."""
    folder = tmp_path_factory.mktemp("quantized")
    run = shutil.copytree(runs("classify"), folder / "run")
    (run / "report.html").write_text("an older report")
    (run / "config.json").write_text('{"flags": {}}')
    lines = ["text\tlabel", *("\t".join(row) for row in ROWS)]
    (folder / "dev.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    flags = {"format": "onnx", "precision": "int8", "eval_file": folder / "dev.tsv", "serving_ops": "core"}
    assert invoke("export_model", model_dir=run, export_dir=folder / "served", **flags) == 0
    return run, folder / "served"


@pytest.mark.parametrize(
    ("kind", "precision"), [("saved_model", "int8"), ("onnx", "bfloat16"), ("saved_model", "float16")]
)
def test_a_precision_that_a_format_lacks_is_refused_with_the_formats_that_have_it(kind, precision):
    others = [name for name, known in formats.PRECISIONS.items() if precision in known]
    with pytest.raises(UsageError, match=f"--precision={precision}: not with --format={kind}, since .*{others[0]}"):
        formats.check(kind, precision)


def test_packages_that_are_missing_are_named_with_their_extra(monkeypatch):
    monkeypatch.setattr(kinds.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"onnx needs tf2onnx, onnx, onnxruntime\. .*pip install 'xmodels\[onnx\]'"):
        formats.check("onnx", "int8")
    with pytest.raises(UsageError, match=r"litert needs ai_edge_litert\. .*pip install 'xmodels\[litert\]'"):
        open_network("model.tflite", LITERT)


def test_tasks_whose_network_cannot_stand_apart_are_refused_with_those_that_can(runs, tmp_path):
    for task in ("answer_beam", "language_model"):
        with pytest.raises(
            UsageError, match=f"not for --task={task}, .*Tasks that can: answer_span, choose, classify, "
        ):
            apart.check_task(task, "--format=onnx")
    parted = {name for name in TASKS if apart._can_part(name)}
    assert parted == set(TASKS) - {"answer_beam"}


def test_a_comparison_replaces_rows_of_the_same_name_and_is_a_part_of_the_report(tmp_path):
    row = {
        "megabytes": 1.0,
        "milliseconds": 2.0,
        "batched": 0.5,
        "difference": None,
        "same": None,
        "score": 0.5,
        "lost": None,
    }
    found = {"file": "<dev>.tsv", "num_rows": 3, "metric": "accuracy", "threads": 1}
    exports.add(
        str(tmp_path), {**found, "rows": [{**row, "name": "the network"}, {**row, "name": "onnx", "lost": 1.0}]}
    )
    exports.add(str(tmp_path), {**found, "rows": [{**row, "name": "onnx", "lost": -0.25}]})
    exports.add(str(tmp_path), {**found, "num_rows": 4, "rows": [{**row, "name": "other"}]})
    page = exports.section(str(tmp_path))
    assert page.count("<table>") == 2 and page.count("onnx") == 1 and "-0.25" in page and "&lt;dev&gt;.tsv" in page
    (tmp_path / exports.FILE).write_text('[{"file": 1')
    assert exports.section(str(tmp_path)) == exports.section(str(tmp_path / "nowhere")) == ""


def described(path, **changes):
    """A folder with a description and the files that it must name."""
    (path / "text").mkdir(parents=True)
    for name in ("model.onnx", "text/saved_model.pb"):
        (path / name).write_text(name)
    sums = {name: file_sha256(str(path / name)) for name in ("model.onnx", "text/saved_model.pb")}
    (path / DESCRIPTION).write_text(json.dumps({"format": "onnx", "sha256": sums} | changes))
    return path


def test_a_description_that_is_damaged_or_leads_elsewhere_is_named(tmp_path):
    good = described(tmp_path / "good")
    assert read_description(str(good))["format"] == "onnx"
    wrong = {"format": "pickle"}, {"sha256": {}}, {"sha256": {"model.onnx": "0", "text/saved_model.pb": "0"}}
    messages = "expected `format`, one of onnx, litert", "does not name model.onnx", "model.onnx: changed since"
    for number, (change, message) in enumerate(zip(wrong, messages, strict=True)):
        with pytest.raises(DataError, match=message):
            read_description(str(described(tmp_path / str(number), **change)))
    sums = json.loads((good / DESCRIPTION).read_text())["sha256"]
    for name in ("../good/model.onnx", "/etc/hostname", "gone"):
        with pytest.raises(DataError, match="missing; export.json names it"):
            read_description(str(described(tmp_path / name.replace("/", "_"), sha256={**sums, name: "0"})))
    (good / DESCRIPTION).write_text("{")
    with pytest.raises(DataError, match=r"export\.json: not readable as JSON"):
        read_description(str(good))


@onnx_extra
def test_an_export_in_8_bits_says_what_it_loses(quantized, capsys):
    run, served = quantized
    found = json.loads((served / "1" / "assets.extra" / "comparison.json").read_text("utf-8"))
    network, usual, small = found["rows"]
    assert [row["name"] for row in found["rows"]] == ["the network in Keras", "saved_model, float32", "onnx, int8"]
    assert found["num_rows"] == len(ROWS) and found["metric"] == "accuracy" and network["lost"] is None
    assert usual["difference"] < 1e-5 and usual["same"] == 1.0 and usual["lost"] == 0.0
    assert 1e-5 < small["difference"] < 0.3  # 8 bits do differ
    assert small["lost"] == pytest.approx(100 * (network["score"] - small["score"]))
    assert all(row["milliseconds"] > 0 and row["batched"] > 0 and row["megabytes"] > 0 for row in found["rows"])
    predictor = load_predictor(str(run))
    answers = [each.label for each in predictor.predict([(text,) for text in TEXTS])]
    theirs = open_model(find_model(str(served))).signatures["serving_default"]({"text": TEXTS})["label"]
    assert small["same"] == np.mean([a == b.decode() for a, b in zip(answers, theirs, strict=True)])
    assert "onnx, int8" in (served / "README.md").read_text("utf-8")
    assert "<h2>Exports</h2>" in (run / "report.html").read_text("utf-8")


@onnx_extra
def test_programs_of_the_readme_answer_without_this_project(quantized, monkeypatch, capsys):
    _, served = quantized
    text = (served / "README.md").read_text("utf-8")
    monkeypatch.chdir(served)
    programs = re.findall("```python\n(.*?)```", text, re.S)
    assert len(programs) == 2 and not any("xmodels" in program for program in programs)
    found = [{}, {}]
    for program, names in zip(programs, found, strict=True):
        exec(program, names)
    asked, answered = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    wanted = [row["probabilities"] for row in answered["predictions"]]
    assert len(wanted) == len(asked["instances"])
    for names in found:  # from strings by TensorFlow, and by the library tokenizers alone
        np.testing.assert_allclose(names["numbers"]["probabilities"], wanted, atol=1e-4)


@onnx_extra
def test_an_export_whose_files_changed_is_not_served_and_may_be_replaced(quantized, tmp_path):
    path = shutil.copytree(quantized[1], tmp_path / "served")
    with open(path / "1" / "model.onnx", "ab") as file:
        file.write(b"\0")
    with pytest.raises(DataError, match=r"model\.onnx: changed since it was written"):
        open_model(find_model(str(path)))
    exporter.check_free(str(path), overwrite=True)
    with pytest.raises(UsageError, match="choose another or --overwrite"):
        exporter.check_free(str(path), overwrite=False)


@pytest.mark.extra(*NEEDS[ONNX], "starlette", "uvicorn", "prometheus_client", "httpx")
def test_a_server_answers_of_an_export_that_stands_apart(quantized):
    from starlette.testclient import TestClient

    from tests.helpers.served_app import app_of
    from xmodels.serving.folder import labels_of
    from xmodels.serving.limits import Limits

    folder = find_model(str(quantized[1]))
    model = open_model(folder)
    model.warm_up()
    assert isinstance(model, ApartModel) and model.signatures["serving_default"].joins
    with TestClient(app_of(model, Limits(), labels_of(folder))) as client:
        address = f"/v1/models/{folder.name}"
        answer = client.post(f"{address}:predict", json={"instances": TEXTS}).json()
        assert [set(row) for row in answer["predictions"]] == [{"label", "probabilities"}] * len(TEXTS)
        assert answer["labels"] == ["bad", "so so", "好"]
        alone = client.post(f"{address}:predict", json={"instances": TEXTS[2:3]}).json()["predictions"][0]
        np.testing.assert_allclose(alone["probabilities"], answer["predictions"][2]["probabilities"], atol=0.05)
        assert client.post(f"{address}:predict", json={"inputs": []}).json()["outputs"] == {
            "label": [],
            "probabilities": [],
        }
        assert client.post(f"{address}:predict", json={"instances": [3]}).status_code == 400
        metadata = client.get(f"{address}/metadata").json()["metadata"]["signature_def"]["signature_def"]
        assert set(metadata) == {"serving_default", "tokens"} and set(metadata["serving_default"]["inputs"]) == {"text"}


@litert_extra
def test_litert_answers_as_the_run_does(runs, tmp_path):
    made = export(str(runs("multi_label")), str(tmp_path / "served"), "core", form=Form(LITERT))
    assert made.largest_difference < 1e-5
    found = open_model(find_model(made.path)).signatures["serving_default"]({"text": TEXTS})
    wanted = load_predictor(str(runs("multi_label"))).predict([(text,) for text in TEXTS])
    np.testing.assert_allclose(
        found["probabilities"], [list(each.probabilities.values()) for each in wanted], atol=1e-5
    )
    assert contents(pathlib.Path(made.path)).keys() >= {
        "README.md",
        "1/model.tflite",
        "1/export.json",
        "1/tokenizer/tokenizer.json",
    }


@onnx_extra
def test_an_operation_that_onnx_lacks_is_named(tmp_path):
    specs = {"token_ids": tf.TensorSpec([None, None], tf.int32, "token_ids")}

    def network(features):
        return {"numbers": tf.math.lgamma(tf.cast(features["token_ids"], tf.float32))}

    with pytest.raises(UsageError, match=r"--format=onnx: ONNX lacks operations of this network: Lgamma\."):
        onnx.write(network, specs, str(tmp_path / "model.onnx"), "float32")


@pytest.mark.long
@of_formats("float32", "float16", "int8")
@pytest.mark.parametrize("task", sorted(set(TASKS) - {"answer_beam"}))
def test_every_task_stands_apart(runs, tmp_path, task, kind, precision):
    """In float32 the export itself compares answers with those of the run, by the signature that is served."""
    made = export(str(runs(task)), str(tmp_path / "served"), "core", form=Form(kind, precision))
    assert made.largest_difference < {"float32": 1e-4, "float16": 0.1, "int8": 0.6}[precision]
    model = open_model(find_model(made.path))
    model.warm_up()
    assert "serving_default" in model.signatures


@pytest.mark.long
@pytest.mark.parametrize("task", ["classify", "regress", "siamese"])
def test_a_saved_model_in_bfloat16_takes_half_the_room(runs, tmp_path, task):
    sizes = {}
    for precision in ("float32", "bfloat16"):
        made = export(str(runs(task)), str(tmp_path / precision), "core", form=Form(precision=precision))
        sizes[precision] = (pathlib.Path(made.path) / "1/variables/variables.data-00000-of-00001").stat().st_size
    assert 1e-5 < made.largest_difference < 0.2
    assert sizes["bfloat16"] < 0.7 * sizes["float32"]  # the object graph stands there too
