"""An export answers as the run does, strings in and labels out, without this project and without the run."""

import functools
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from tests.helpers.invocation import invoke
from xmodels.conversion import convert
from xmodels.export import exporter
from xmodels.export.exporter import export
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.runs.fine_tuned import load_predictor, read_task, write_task
from xmodels.tasks.base.description import TaskDescription
from xmodels.tasks.classify.serve import INPUTS, Server
from xmodels.tasks.classify.task import Classify

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "tokenizers"
LABELS = ("bad", "so so", "好")
NUM_TEXTS = [1, 2]
OPS = {1: "core", 2: "text"}  # of texts in an input: each export takes seconds; texts and ops do not know of each other
CASES = list(OPS.items())
MAX_SEQUENCE_LENGTH = 40  # some golden strings are longer


@functools.cache
def golden_texts():
    files = [GOLDEN / "bert_original_uncased.jsonl", GOLDEN / "bert_fast_uncased.jsonl"]
    return tuple(json.loads(line)["text"] for file in files for line in file.open(encoding="utf-8"))


def golden_rows(num_texts):
    return [(text, other)[:num_texts] for text, other in zip(golden_texts(), reversed(golden_texts()), strict=True)]


def make_run(run, num_texts=1, labels=LABELS):
    """What fine-tuning writes, with random weights that answer differently to different texts."""
    rng = np.random.default_rng(num_texts)
    vocabulary = Vocabulary.read(str(GOLDEN / "wordpiece_uncased_vocab.txt"))
    config = BertConfig(len(vocabulary), 16, num_layers=2, num_heads=2, intermediate_dim=32, max_sequence_length=64)
    backbone, task = Bert(config).initialize(), Classify(config, labels)
    task.head.build((None, config.hidden_dim))
    for variable in [*backbone.variables, *task.variables]:
        variable.assign_add(rng.normal(0, 0.4, variable.shape))
    (run / "backbone").mkdir(parents=True)
    tokenizer = WordPieceTokenizer(vocabulary).describe()
    folder.write_model(str(run / "backbone"), backbone, task, {"vocab.txt": vocabulary.text().encode()}, tokenizer)
    write_task(str(run), task, num_texts, MAX_SEQUENCE_LENGTH)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return {num_texts: make_run(tmp_path_factory.mktemp("runs") / "run", num_texts) for num_texts in NUM_TEXTS}


@pytest.fixture(scope="module")
def predictors(runs):
    return {num_texts: load_predictor(str(run)) for num_texts, run in runs.items()}


@pytest.fixture(scope="module")
def expected(predictors):
    """What the runs say to the golden strings: probabilities (B, C)."""
    return {n: probabilities(predictor.predict(golden_rows(n))) for n, predictor in predictors.items()}


@pytest.fixture(scope="module")
def exports(runs, tmp_path_factory):
    """Exports of copies of the runs; the copies are deleted."""
    found = {}
    for num_texts, serving_ops in CASES:
        path = tmp_path_factory.mktemp("exports")
        copy = shutil.copytree(runs[num_texts], path / "run")
        made = export(str(copy), str(path / "model"), serving_ops)
        assert made.path == str(path / "model")
        assert made.largest_difference < 1e-6
        shutil.rmtree(copy)
        found[num_texts, serving_ops] = path / "model"
    return found


@pytest.fixture(scope="module")
def models(exports):
    return {case: tf.saved_model.load(str(path / "1")) for case, path in exports.items()}


def probabilities(predictions):
    return np.array([list(prediction.probabilities.values()) for prediction in predictions])


def columns_of(rows):
    return dict(zip(INPUTS, zip(*rows, strict=True), strict=False))


def ask(model, rows, signature="serving_default"):
    columns = {name: tf.constant(column) for name, column in columns_of(rows).items()}
    return {name: value.numpy() for name, value in model.signatures[signature](**columns).items()}


def assert_answers(labels, found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5)  # rows in parts of like length: sums have another order
    assert list(labels) == [LABELS[row.argmax()] for row in expected]


@pytest.mark.parametrize(("num_texts", "serving_ops"), CASES)
def test_an_export_answers_every_golden_string_as_the_run_does(models, expected, num_texts, serving_ops):
    model = models[num_texts, serving_ops]
    answer = ask(model, golden_rows(num_texts))
    assert answer["probabilities"].dtype == np.float32
    assert_answers([label.decode() for label in answer["label"]], answer["probabilities"], expected[num_texts])
    assert len(set(answer["label"])) > 1  # else the labels would prove little
    some = list(range(0, len(golden_texts()), 40))
    alone = [ask(model, [golden_rows(num_texts)[index]])["probabilities"][0] for index in some]
    np.testing.assert_allclose(alone, expected[num_texts][some], atol=1e-6)


@pytest.mark.parametrize(("num_texts", "serving_ops"), CASES)
def test_an_empty_batch_has_no_answers_and_an_empty_string_has_one(predictors, models, num_texts, serving_ops):
    model = models[num_texts, serving_ops]
    nothing = {name: tf.constant([], tf.string) for name in INPUTS[:num_texts]}
    answer = model.signatures["serving_default"](**nothing)
    assert answer["label"].shape == (0,)
    assert answer["probabilities"].shape == (0, len(LABELS))
    predictor, empty = predictors[num_texts], [("",) * num_texts]
    assert predictor.predict([]) == []
    np.testing.assert_allclose(ask(model, empty)["probabilities"], probabilities(predictor.predict(empty)), atol=1e-6)


@pytest.mark.parametrize("num_texts", NUM_TEXTS)
def test_the_tokens_of_an_export_are_those_of_the_run(predictors, models, num_texts):
    rows = golden_rows(num_texts)
    features, tokens = predictors[num_texts].features(rows), ask(models[num_texts, OPS[num_texts]], rows, "tokens")
    assert set(tokens) == set(features) == {"token_ids", "segment_ids", "padding_mask"}
    for name, value in features.items():
        np.testing.assert_array_equal(tokens[name], value)


def test_an_export_holds_a_network_and_no_training_state(exports):
    for path in exports.values():
        assert (path / "1" / "saved_model.pb").stat().st_size < 1_800_000
        names = [name for name, _ in tf.train.list_variables(str(path / "1" / "variables" / "variables"))]
        assert not [name for name in names if "optimizer" in name.lower() or "seed" in name.lower()]


ELSEWHERE = """
import json, sys
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

def ask(questions):
    answers = []
    for path, columns in questions:
        model = tf.saved_model.load(path)
        answer = model.signatures["serving_default"](**{name: tf.constant(column) for name, column in columns.items()})
        labels = [label.decode() for label in answer["label"].numpy()]
        answers.append([labels, answer["probabilities"].numpy().tolist()])
    return answers

given = json.load(sys.stdin)
found = {"unknown": [name for name in given["ops"] if op_def_registry.get(name) is None], "core": ask(given["core"])}
assert not {"xmodels", "data_pipelines", "tensorflow_text"} & set(sys.modules)
import tensorflow_text
found["text"] = ask(given["text"])
assert not {"xmodels", "data_pipelines"} & set(sys.modules)
print(json.dumps(found))
"""


def ops_of(path):
    saved = saved_model_pb2.SavedModel.FromString((path / "1" / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    functions = {function.signature.name for function in graph.library.function}
    return sorted({node.op for node in nodes} - functions)


@pytest.fixture(scope="module")
def elsewhere(exports, tmp_path_factory):
    """What a process says that starts in an empty folder, where this project cannot be imported."""
    given = {"ops": [op for path in exports.values() for op in ops_of(path)]}
    for (num_texts, serving_ops), path in exports.items():
        given.setdefault(serving_ops, []).append((f"{path}/1", columns_of(golden_rows(num_texts))))
    command, folder = [sys.executable, "-I", "-c", ELSEWHERE], tmp_path_factory.mktemp("elsewhere")
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("serving_ops", OPS.values())
def test_an_export_needs_tensorflow_only(elsewhere, exports, expected, serving_ops):
    cases = [num_texts for num_texts, ops in exports if ops == serving_ops]
    for num_texts, answer in zip(cases, elsewhere[serving_ops], strict=True):
        assert_answers(*answer, expected[num_texts])


def test_only_the_text_variant_has_ops_that_tensorflow_lacks(elsewhere, exports):
    core, text = (ops_of(exports[case]) for case in CASES)
    assert {"LookupTableFindV2", "Softmax"} <= set(core)  # the list does reach into functions
    unknown = elsewhere["unknown"]
    assert unknown
    assert set(unknown) <= set(text) - set(core)
    assert all(op_def_registry.get(name) for name in unknown)  # here tensorflow_text is there


@pytest.mark.parametrize("num_texts", NUM_TEXTS)
def test_the_readme_says_what_the_export_answers(exports, models, num_texts):
    path = exports[num_texts, OPS[num_texts]]
    lines = (path / "README.md").read_text(encoding="utf-8").splitlines()
    requests = [json.loads(line) for line in lines if line.startswith("{")]
    by_row, predictions, by_column, outputs = requests
    instances = by_row["instances"]
    rows = [(row,) if isinstance(row, str) else tuple(row[name] for name in INPUTS) for row in instances]
    assert by_column["inputs"] == {name: list(column) for name, column in columns_of(rows).items()}
    answer = ask(models[num_texts, OPS[num_texts]], rows)
    labels = [label.decode() for label in answer["label"]]
    assert outputs["outputs"]["label"] == [row["label"] for row in predictions["predictions"]] == labels
    np.testing.assert_allclose(outputs["outputs"]["probabilities"], answer["probabilities"], atol=1e-4)
    assert [f'{index}. "{label}"' for index, label in enumerate(LABELS)] == [
        x for x in lines if x[:2] in ("0.", "1.", "2.")
    ]
    start = lines.index("```python") + 1
    program = "\n".join(lines[start : lines.index("```", start)])
    exec(program.replace('"1"', repr(str(path / "1"))), {})


def test_predictions_do_not_depend_on_the_batch_size(predictors):
    predictor, counts = predictors[1], []
    some = golden_rows(1)[::10]
    batched = predictor.predict(some, batch_size=8, progress=counts.append)
    assert counts == [8] * (len(some) // 8) + [len(some) % 8]
    np.testing.assert_allclose(probabilities(batched), probabilities(predictor.predict(some, 64)), atol=1e-6)
    for prediction in batched:
        assert prediction.label == max(prediction.probabilities, key=prediction.probabilities.get)
        assert tuple(prediction.probabilities) == predictor.labels == LABELS


def test_features_are_padded_to_the_maximum(predictors):
    predictor = predictors[2]
    features = predictor.features([("the", "the the"), ("", "the " * 100)])
    the, cls, sep, pad = (predictor.tokenizer.vocabulary[token] for token in ("the", "[CLS]", "[SEP]", "[PAD]"))
    assert features["token_ids"][0].tolist() == [cls, the, sep, the, the, sep] + [pad] * (MAX_SEQUENCE_LENGTH - 6)
    assert features["segment_ids"][0].tolist() == [0] * 3 + [1] * 3 + [0] * (MAX_SEQUENCE_LENGTH - 6)
    assert features["padding_mask"].sum(axis=1).tolist() == [6, MAX_SEQUENCE_LENGTH]
    assert {value.shape for value in features.values()} == {(2, MAX_SEQUENCE_LENGTH)}
    assert [features[x].dtype for x in ("token_ids", "segment_ids", "padding_mask")] == [np.int32, np.int32, bool]


@pytest.mark.parametrize("row", [("a", "b"), (), "a"])
def test_inputs_with_another_number_of_texts_are_refused(predictors, row):
    with pytest.raises(DataError, match=r"Input 2 (has [02] text|is a string).* fine-tuned on single texts"):
        predictors[1].predict([("a",), row])


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_not_an_export_stays_untouched(runs, tmp_path, overwrite):
    taken = tmp_path / "taken"
    (taken / "1").mkdir(parents=True)
    (taken / "1" / "saved_model.pb").write_text("somebody else's")
    (taken / "README.md").write_text("# Not ours\n")
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="exists"):
        export(str(runs[1]), str(taken), "core", overwrite)
    with pytest.raises(UsageError, match="not a folder"):
        export(str(runs[1]), str(taken / "README.md"), "core", overwrite)
    assert contents(tmp_path) == before


@pytest.mark.long
def test_an_earlier_export_is_replaced_only_when_asked(runs, exports, tmp_path, monkeypatch):
    path = shutil.copytree(exports[1, "core"], tmp_path / "model")
    before = contents(path)
    with pytest.raises(UsageError, match="choose another or --overwrite"):
        export(str(runs[2]), str(path), "core")
    (path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="more or other than an export"):
        export(str(runs[2]), str(path), "core", overwrite=True)
    (path / "notes.txt").unlink()
    with monkeypatch.context() as patch, pytest.raises(OSError, match="disk full"):
        patch.setattr(exporter, "save", fail)
        export(str(runs[2]), str(path), "core", overwrite=True)
    assert contents(path) == before
    export(str(runs[2]), str(path), "core", overwrite=True)
    assert "text_pair" in (path / "README.md").read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]  # nothing temporary is left


def fail(*_):
    raise OSError("disk full")


@pytest.mark.parametrize("exists", [False, True])
def test_a_new_folder_appears_whole_or_not_at_all(tmp_path, exists):
    path = tmp_path / "deep" / "model"
    if exists:
        path.mkdir(parents=True)  # an empty folder is as good as none
    with pytest.raises(OSError, match="disk full"), exporter.new_folder(str(path)) as unfinished:
        (pathlib.Path(unfinished) / "half").touch()
        fail()
    assert path.exists() == exists
    with exporter.new_folder(str(path)) as unfinished:
        (pathlib.Path(unfinished) / "whole").touch()
    assert [str(found.relative_to(path.parent)) for found in path.parent.rglob("*")] == ["model", "model/whole"]


def test_what_a_killed_export_has_left_is_named(runs, tmp_path, capsys):
    left = tmp_path / "model.partial-abc"
    for each in (left, tmp_path / "model" / "taken"):
        each.mkdir(parents=True)
    assert invoke("export_model", model_dir=runs[1], export_dir=tmp_path / "model") == 2
    assert f"{left} was left by an export that was killed" in capsys.readouterr().out


def test_other_answers_and_other_tokens_than_those_of_the_run_are_noticed(runs, exports):
    served, other = tf.saved_model.load(str(exports[1, "core"] / "1")).signatures, load_predictor(str(runs[1]))
    assert Server(other, "core").compare(served) < 1e-6
    other.max_sequence_length -= 1
    with pytest.raises(RuntimeError, match="pieces"):
        Server(other, "core").compare(served)
    other.max_sequence_length += 1
    other.task.head.bias.assign_add([0.1, 0.0, 0.0])
    with pytest.raises(RuntimeError, match=r"differ by up to 0\.0"):
        Server(other, "core").compare(served)


def test_unknown_or_missing_serving_ops(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="text, core"):
        export("run", str(tmp_path), "rust")
    monkeypatch.setattr(exporter.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install tensorflow-text"):
        export("run", str(tmp_path), "text")


def test_a_run_that_was_not_fine_tuned_says_so(tmp_path):
    with pytest.raises(CheckpointError, match="no such run"):
        load_predictor(str(tmp_path / "run"))
    with pytest.raises(CheckpointError, match="is no run and no model folder; it holds nothing"):
        export(str(tmp_path), str(tmp_path / "model"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "{}",
        {"task": "translation"},
        {"labels": "ab"},
        {"labels": []},
        {"labels": ["a", "a"]},
        {"labels": ["a", 1]},
        {"labels": [["a"]]},
        {"num_texts": 3},
        {"num_texts": True},
        {"num_texts": "1"},
        {"max_sequence_length": 0},
        {"max_sequence_length": 128.0},
        {"max_sequence_length": None},
        {"extra": 1},
    ],
)
def test_a_damaged_task_is_named(tmp_path, damage):
    whole = {"task": "classify", "labels": ["a", "b"], "num_texts": 1, "max_sequence_length": 128}
    (tmp_path / "task.json").write_text(damage if isinstance(damage, str) else json.dumps(whole | damage))
    with pytest.raises(CheckpointError, match=r"task\.json"):
        read_task(str(tmp_path))


def test_a_task_is_read_as_written(runs):
    assert read_task(str(runs[2])) == TaskDescription("classify", list(LABELS), 2, MAX_SEQUENCE_LENGTH)


def copy_without_checksums(run, path):
    """A copy as older versions wrote it."""
    return shutil.copytree(run, path, ignore=shutil.ignore_patterns("SHA256SUMS"))


def change(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("backbone/vocab.txt", "[MASK]\n", "[MASK]\nanother\n", "326 tokens, but the network has 325"),
        ("backbone/vocab.txt", "[MASK]\n", "", r"lacks \[MASK\]"),
        ("backbone/tokenizer_config.json", "true", '"yes"', "tokenizer_config.json: .*do_lower_case"),
        ("backbone/tokenizer_config.json", "wordpiece", "unigram", "tokenizer_config.json"),
        ("backbone/tokenizer_config.json", "200", "-1", "tokenizer_config.json"),
        ("task.json", ": 40", ": 65", "65, but the network reads at most 64"),
        ("task.json", '"bad",', "", r"task\.json: its `labels` are not those of"),
    ],
)
def test_files_that_do_not_fit_each_other_are_named(runs, tmp_path, name, old, new, message):
    run = copy_without_checksums(runs[1], tmp_path / "run")
    change(run / name, old, new)
    with pytest.raises(CheckpointError, match=message):
        load_predictor(str(run))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("backbone/vocab.txt", "\nthe\n", "\nThe\n"),
        ("backbone/config.json", "gelu_tanh", "gelu"),
        ("backbone/tokenizer_config.json", "true", "false"),
        ("backbone/labels.json", '"bad",\n    "so so"', '"so so",\n    "bad"'),
        ("task.json", '"bad",\n    "so so"', '"so so",\n    "bad"'),
    ],
)
def test_a_file_that_was_edited_is_named_with_the_command_that_keeps_the_edit(runs, tmp_path, name, old, new):
    run = shutil.copytree(runs[1], tmp_path / "run")
    change(run / name, old, new)
    with pytest.raises(CheckpointError, match=f"{name}: changed since it was written.*to keep the change: ") as caught:
        load_predictor(str(run))
    command = str(caught.value).partition("to keep the change: ")[2].rstrip(".")
    subprocess.run(command, shell=True, check=True)
    if name in ("backbone/labels.json", "task.json"):
        with pytest.raises(CheckpointError, match=r"task\.json: its `labels` are not those of .*labels\.json"):
            load_predictor(str(run))
    else:
        load_predictor(str(run))


def test_a_file_that_is_missing_or_new_is_named(runs, tmp_path):
    run = shutil.copytree(runs[1], tmp_path / "run")
    (run / "backbone/vocab.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"vocab\.json: was not there when this folder was written"):
        load_predictor(str(run))
    (run / "backbone/vocab.json").unlink()
    (run / "backbone/labels.json").unlink()
    with pytest.raises(CheckpointError, match=r"labels\.json: missing; SHA256SUMS names it"):
        load_predictor(str(run))
    (run / "backbone/SHA256SUMS").write_text("0" * 64 + "  ../vocab.txt\n")
    with pytest.raises(CheckpointError, match="SHA256SUMS: expected lines of"):
        load_predictor(str(run))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_network_with_a_number_that_is_not_finite_answers_nothing(runs, tmp_path, number):
    from safetensors.numpy import load_file, save_file

    run = copy_without_checksums(runs[1], tmp_path / "run")
    weights = load_file(run / "backbone/weights.safetensors")
    weights["backbone.pooler.bias"][1] = number
    save_file(weights, run / "backbone/weights.safetensors")
    for read in (load_predictor, convert.load):
        with pytest.raises(
            CheckpointError, match=r"backbone\.pooler\.bias holds 1 of [\d,]+ numbers that are NaN or infinite"
        ):
            read(str(run))


def test_a_converted_model_has_no_limit_to_its_words_on_file(runs, tmp_path):
    run = copy_without_checksums(runs[1], tmp_path / "run")
    (run / "backbone" / "tokenizer_config.json").write_text('{"tokenizer": "wordpiece", "do_lower_case": true}')
    assert load_predictor(str(run)).tokenizer.max_word_characters == 200
