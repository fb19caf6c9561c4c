"""Serving without a server: folders, questions in JSON, answers cut out of batches, and the command before it begins."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from data_pipelines.errors import DataError, UsageError
from tests.helpers.invocation import invoke
from tests.helpers.small_served import echo
from xmodels.serving.answers import as_json, join_outputs, without_filling
from xmodels.serving.folder import find_model, labels_of
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.model import Model
from xmodels.serving.ops import SAVING, refused_ops
from xmodels.serving.questions import read_question

LIMITS = Limits(max_text_length=20)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Model(find_model(str(echo(tmp_path_factory.mktemp("echo")))))


def read(model, request, raw=False):
    return read_question(request if raw else json.dumps(request).encode(), model.signatures, LIMITS)


def ask(model, request):
    question = read(model, request)
    outputs = without_filling(question.signature(question.values), question.signature)
    return json.loads(as_json(outputs, question.num_rows, question.by_rows))


def test_rows_and_columns_say_the_same(model):
    both = {"length": [3, 1], "text": ["abc", "好"]}
    rows = [{"length": 3, "text": "abc"}, {"length": 1, "text": "好"}]
    assert ask(model, {"inputs": ["abc", "好"]}) == ask(model, {"inputs": {"text": ["abc", "好"]}}) == {"outputs": both}
    assert ask(model, {"instances": ["abc", {"text": "好"}]}) == {"predictions": rows}
    assert ask(model, {"instances": [{"b64": "YWJj"}, {"text": {"b64": "5aW9"}}]}) == {"predictions": rows}
    assert ask(model, {"inputs": []}) == {"outputs": {"length": [], "text": []}}


@pytest.mark.parametrize("by_rows", [True, False])
def test_names_of_probabilities_stand_beside_the_answer(by_rows):
    shares, labels = np.array([[0.25, 0.75]], np.float32), ["bad", "好"]
    outputs = {"label": np.array([b"x"], object), "probabilities": shares}
    found = json.loads(as_json(outputs, 1, by_rows, labels))
    row = {"label": "x", "probabilities": [0.25, 0.75]}
    expected = {"predictions": [row]} if by_rows else {"outputs": {name: [value] for name, value in row.items()}}
    assert found == {**expected, "labels": labels}
    for others in ({"label": outputs["label"]}, {"probabilities": shares[:, :1]}, {"probabilities": shares[0]}):
        assert "labels" not in json.loads(as_json(others, 1, False, labels))
    assert json.loads(as_json(outputs, 1, by_rows)) == expected
    texts = np.array([[label.encode() for label in labels]], object)
    named = json.loads(as_json({"labels": texts, "probabilities": shares}, 1, True, labels))
    assert named == {"predictions": [{"labels": labels, "probabilities": [0.25, 0.75]}]}


def test_a_single_output_stands_without_its_name_and_lists_have_their_width(model):
    lists = {"query": ["", ""], "candidates": [["a", "bbb"], ["cc", ""]]}
    assert ask(model, {"signature_name": "ranked", "inputs": lists}) == {"outputs": [[1, 0], [0, 1]]}
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    assert ask(model, {"signature_name": "ranked", "instances": rows}) == {"predictions": [[1, 0], [0, 1]]}


def test_floats_have_the_digits_that_tell_them_apart(model):
    asked = {"signature_name": "scaled", "inputs": {"text": ["a" * 7], "factor": 10}}
    assert ask(model, asked) == {"outputs": [0.7]}


WRONG = {
    b"": "JSON Parse error: The document is empty",
    b"{": "JSON Parse error: expecting property name enclosed in double quotes at line 1, column 2 (offset 1)",
    b'{"instances": [1,]}': "line 1, column 18",
    b"[" * 10_000: "nested too deep",
    b'{"instances": ["\\ud800"]}': "half of a character",
    b'{"instances": ["\xff"]}': "JSON Parse error: not UTF-8: byte 0xff at offset 16",
    b"[]": "Is not object: the body is a list",
    b"{}": "Missing 'inputs' or 'instances' key",
    b'{"instances": [], "inputs": []}': "Expecting only one of 'inputs' or 'instances' keys to exist",
    b'{"instance": ["a"]}': "Unknown key 'instance'",
    b'{"signature_name": "nope", "instances": ["a"]}': 'name: "nope" not found in signature def. Expected one of: drawn, ranked,',
    b'{"signature_name": 3, "instances": ["a"]}': "'signature_name' key must be a string value",
    b'{"instances": "a"}': '"instances" is a text',
    b'{"instances": []}': "No values in 'instances' array",
    b'{"instances": ["a", 3]}': "instances[1].text is a number. Expected a text",
    b'{"instances": ["a", null]}': "instances[1].text is null",
    b'{"instances": [{"txt": "a"}]}': "Missing named input: text in instances[0]",
    b'{"instances": [{"text": "a", "b": 1}]}': "instances[0] does not have named input: 'b'",
    b'{"instances": [{"b64": "###"}]}': "instances[0].text.b64 is not Base64",
    b'{"instances": [{"b64": "/w=="}]}': "instances[0].text.b64 is not UTF-8 at byte 0",
    b'{"instances": ["a", "aaaaaaaaaaaaaaaaaaaaa"]}': "instances[1].text has 21 characters. At most 20",
    b'{"inputs": {"txt": ["a"]}}': "Missing named input: text in inputs",
    b'{"inputs": "a"}': "inputs.text is a text. Expected a list",
    b'{"inputs": [["a"]]}': "inputs.text[0] is a list. Expected a text",
    b'{"signature_name": "scaled", "instances": [{"text": "a", "factor": 1}]}': "Send columns",
    b'{"signature_name": "scaled", "inputs": {"text": ["a"], "factor": NaN}}': "inputs.factor is nan. Expected a number",
    b'{"signature_name": "scaled", "inputs": {"text": ["a"], "factor": 1e39}}': "inputs.factor is 1e+39",
    b'{"signature_name": "scaled", "inputs": {"text": ["a"], "factor": true}}': "inputs.factor is true or false",
    b'{"signature_name": "drawn", "inputs": {"text": ["a"], "seed": [1]}}': "is a list of 1. Expected a list of 2",
    b'{"signature_name": "drawn", "inputs": {"text": ["a"], "seed": [1, 0.5]}}': "Expected a whole number",
    b'{"signature_name": "drawn", "inputs": {"text": ["a"], "seed": [1, 4294967296]}}': "Expected a number of 32 bits",
    b'{"signature_name": "ranked", "inputs": {"query": ["a"], "candidates": []}}': "candidates 0, query 1",
    b'{"signature_name": "ranked", "inputs": {"query": ["", ""], "candidates": [["a"], []]}}': "different lengths (1, 0)",
}


@pytest.mark.parametrize("body", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_with_a_request_is_named(model, body):
    with pytest.raises(RequestError) as found:
        read(model, body, raw=True)
    assert WRONG[body] in str(found.value) and found.value.code == 400


def test_nan_is_an_error_not_json(model):
    with pytest.raises(RequestError, match="NaN or infinity in `scaled`") as found:
        ask(model, {"signature_name": "scaled", "inputs": {"text": ["a"], "factor": 0}})
    assert found.value.code == 500


def test_only_rows_that_do_not_see_each_other_are_joined(model):
    assert [name for name, each in model.signatures.items() if each.joins] == [
        "ranked",
        "scaled",
        "serving_default",
        "words",
    ]


def test_what_shares_numbers_or_widths_may_be_asked_together(model):
    def group(name, **columns):
        return read(model, {"signature_name": name, "inputs": columns}).group

    assert group("scaled", text=["a"], factor=1) == group("scaled", text=["b", "c"], factor=1)
    assert group("scaled", text=["a"], factor=1) != group("scaled", text=["a"], factor=2)
    assert group("ranked", query=["a"], candidates=[["b"]]) != group("ranked", query=["a"], candidates=[["b", "c"]])


def test_rows_keep_nothing_that_only_fills_up(model):
    words = model.signatures["words"]
    alone = [words({"text": [text]}) for text in ("one two", "", "one")]
    together = words({"text": ["one two", "", "one"]})
    for row, expected in enumerate(alone):
        found = without_filling({name: value[row : row + 1] for name, value in together.items()}, words)
        assert {name: value.tolist() for name, value in found.items()} == {n: v.tolist() for n, v in expected.items()}
    rejoined = join_outputs(alone)
    assert {name: value.tolist() for name, value in rejoined.items()} == {n: v.tolist() for n, v in together.items()}


def test_an_answer_without_a_place_is_no_filling(model):
    outputs = {"word": np.array([[b"a", b""], [b"b", b"c"]], object), "start": np.array([[0, -1], [1, -1]], np.int32)}
    assert without_filling(outputs, model.signatures["words"])["start"].shape == (2, 2)


def test_the_name_is_that_of_the_readme_and_the_highest_version_is_served(tmp_path):
    for version in ("1", "9", "10", "x", "12"):
        (tmp_path / version).mkdir()
        if version != "12":
            (tmp_path / version / "saved_model.pb").write_bytes(b"")
    assert find_model(str(tmp_path)).version == "10" and find_model(str(tmp_path)).name == tmp_path.name.replace(
        "[", "_"
    )
    (tmp_path / "README.md").write_text("curl http://localhost:8501/v1/models/stories:predict")
    assert find_model(str(tmp_path)).name == "stories" and find_model(str(tmp_path), "mine").name == "mine"
    with pytest.raises(UsageError, match="--name=a/b"):
        find_model(str(tmp_path), "a/b")


def test_a_folder_without_a_model_is_named_before_tensorflow_is_asked(tmp_path, capsys):
    assert invoke("serve", export_dir=tmp_path / "none") == 3
    assert invoke("serve", export_dir=tmp_path) == 3
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert invoke("serve", export_dir=tmp_path) == 3
    said = capsys.readouterr().err
    assert "no such folder" in said and "export_model" in said and "the folder around it" in said


def test_damaged_models_and_labels_are_data_errors(model, tmp_path):
    folder = find_model(str(echo(tmp_path)))
    os.mkdir(tmp_path / "1/assets.extra")
    (tmp_path / "1/assets.extra/labels.json").write_text("[1]")
    with pytest.raises(DataError, match="expected a list of texts"):
        labels_of(folder)
    (tmp_path / "1/assets.extra/labels.json").write_text('["a", "好"]', encoding="utf-8")
    assert labels_of(folder) == ["a", "好"] and labels_of(model.folder) is None
    for content, message in ((b"\xff\xff", "damaged"), (b"", "no graph")):
        (tmp_path / "1/saved_model.pb").write_bytes(content)
        with pytest.raises(DataError, match=message):
            Model(folder)


def reading_file(name):
    return tf.map_fn(tf.io.read_file, name)


def reading_lines(name):
    return tf.data.TextLineDataset(name).batch(10).get_single_element()


def reading_records(name):
    return tf.data.TFRecordDataset(name).batch(10).get_single_element()


def reading_a_line(name):
    found = tf.raw_ops.FixedLengthRecordDatasetV2(
        filenames=name, header_bytes=tf.constant(0, tf.int64), record_bytes=tf.constant(1, tf.int64),
        footer_bytes=tf.constant(0, tf.int64), buffer_size=tf.constant(0, tf.int64), compression_type="",
    )  # fmt: skip
    return tf.strings.as_string(tf.raw_ops.DatasetCardinality(input_dataset=found))[None]


def saving(name):
    tf.raw_ops.SaveV2(prefix=name[0], tensor_names=["x"], shape_and_slices=[""], tensors=[tf.constant(1.0)])
    return name


def restoring(name):
    found = tf.raw_ops.RestoreV2(prefix=name[0], tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.string])
    return found[0][None]


def writing_file(name):
    tf.io.write_file(name[0], "x")
    return name


def matching_files(name):
    return tf.io.matching_files(name)


def running_python(name):
    return tf.numpy_function(lambda text: text, [name], tf.string)


def mapping_memory(name):
    return tf.raw_ops.ImmutableConst(dtype=tf.string, shape=[1], memory_region_name="/etc/hostname")


def printing(name):
    tf.print(name, output_stream="file:///tmp/printed")
    return name


def parsing(name):
    return tf.io.decode_proto(name, "x", ["y"], [tf.string], descriptor_source="/etc/hostname")[1][0][:, 0]


REACHING = {
    reading_file: "ReadFile", reading_lines: "TextLineDataset", reading_records: "TFRecordDataset", saving: "SaveV2",
    reading_a_line: "FixedLengthRecordDatasetV2", restoring: "RestoreV2", writing_file: "WriteFile", matching_files: "MatchingFiles",
    running_python: "PyFunc", mapping_memory: "ImmutableConst", printing: "PrintV2", parsing: "DecodeProtoV2",
}  # fmt: skip


def reaching(work, folder):
    signature = tf.function(lambda name: {"text": work(name)}).get_concrete_function(
        tf.TensorSpec([None], tf.string, "name")
    )
    tf.saved_model.save(tf.Module(), str(folder / "1"), signatures=signature)
    return find_model(str(folder))


@pytest.mark.parametrize("work", REACHING, ids=lambda work: work.__name__)
def test_a_graph_that_reaches_beyond_itself_is_refused_by_the_name_of_its_op(tmp_path, work):
    folder = reaching(work, tmp_path)
    with pytest.raises(DataError, match=f"the graph runs .*{REACHING[work]}.* --trust_graph"):
        Model(folder)


def test_a_graph_of_ones_own_may_be_trusted(tmp_path):
    (tmp_path / "lines").write_text("one\ntwo\n")
    model = Model(reaching(reading_lines, tmp_path), trusted=True)
    asked = model.signatures["serving_default"]({"name": [str(tmp_path / "lines")]})
    assert asked["text"].tolist() == [b"one", b"two"]


def test_a_table_that_is_read_from_a_file_is_refused(tmp_path):
    (tmp_path / "lines").write_text("one\n")
    made = tf.Module()
    entries = tf.lookup.TextFileInitializer(
        str(tmp_path / "lines"),
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    made.table = tf.lookup.StaticHashTable(entries, -1)
    answer = tf.function(lambda name: {"id": made.table.lookup(name)})
    signature = answer.get_concrete_function(tf.TensorSpec([None], tf.string, "name"))
    tf.saved_model.save(made, str(tmp_path / "1"), signatures=signature)
    with pytest.raises(DataError, match="InitializeTableFromTextFileV2"):
        Model(find_model(str(tmp_path)))


def test_functions_that_save_variables_may_not_be_reached_by_a_signature(tmp_path):
    folder = find_model(str(echo(tmp_path)))
    path = os.path.join(folder.path, "saved_model.pb")
    with open(path, "rb") as file:
        saved = saved_model_pb2.SavedModel.FromString(file.read())
    (graph,) = saved.meta_graphs
    assert not refused_ops(graph)
    (saver,) = (each for each in graph.graph_def.library.function if "traced_save" in each.signature.name)
    assert SAVING & {node.op for node in saver.node_def}
    served = next(
        each
        for each in graph.graph_def.library.function
        if each.signature.name in graph.object_graph_def.concrete_functions
    )
    calls = served.node_def.add(name="calls", op="StatefulPartitionedCall")
    calls.attr["f"].func.name = saver.signature.name
    assert "SaveV2" in refused_ops(graph)


@pytest.mark.parametrize("name", ["saved_model.cpb", "saved_model.pbtxt"])
def test_another_form_of_the_graph_beside_it_is_refused(tmp_path, name):
    folder = find_model(str(echo(tmp_path)))
    with open(os.path.join(folder.path, name), "wb"):
        pass
    with pytest.raises(DataError, match=f"{name}: an export of ours has none"):
        Model(folder)


def test_missing_packages_are_named_with_the_line_that_installs_them(model, monkeypatch, capsys):
    monkeypatch.setattr("xmodels.jobs.early.importlib.util.find_spec", lambda name: None)
    assert invoke("serve", export_dir=os.path.dirname(model.folder.path)) == 2
    assert "pip install 'xmodels[serve]'" in capsys.readouterr().err
