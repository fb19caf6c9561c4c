"""TensorFlow Serving's gRPC beside REST: the same answers, its codes of errors, several models, versions that change, and the end."""

import concurrent.futures
import gc
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.protobuf import saved_model_pb2

for package in ("starlette", "uvicorn", "prometheus_client", "grpc", "grpc_health", "tensorflow_serving"):
    pytest.importorskip(package)

import grpc  # noqa: E402
from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: E402
from tensorflow_serving.apis import (  # noqa: E402
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests.helpers.held_signature import Held  # noqa: E402
from tests.helpers.running_server import running, wait_until  # noqa: E402
from tests.helpers.small_served import echo, small_export  # noqa: E402
from xmodels.serving.folder import LABELS, SAVED_MODEL  # noqa: E402
from xmodels.serving.limits import Limits  # noqa: E402
from xmodels.serving.policies import Policy  # noqa: E402
from xmodels.serving.sources import Source  # noqa: E402

pytestmark = pytest.mark.extra("starlette", "uvicorn", "prometheus_client", "grpc", "grpc_health", "tensorflow_serving")
LIMITS = Limits(max_body_bytes=4000, max_text_length=100, max_batch_size=8, max_waiting=20, drain_timeout=20.0)
TEXTS = ["abc", "好", "", "many words and more words", "0.1"]
CLASSES = ["bad", "so so", "好"]
CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"
Code = grpc.StatusCode


class Judge(tf.Module):
    """Probabilities and scores in the shapes of tasks, of which each text has others."""

    def classes(self, text):
        size = tf.cast(tf.strings.length(text), tf.float32)[:, None]
        shares = tf.nn.softmax(tf.sin(size * tf.constant([[1.0, 2.0, 3.0]])))
        return {"label": tf.gather(tf.constant(CLASSES), tf.argmax(shares, axis=1)), "probabilities": shares}

    def named(self, text, text_pair):
        found = self.classes(tf.strings.join([text, text_pair]))
        return {"probabilities": found["probabilities"], "labels": tf.repeat([["x", "y", "z"]], tf.size(text), axis=0)}

    def scores(self, text):
        return {"score": tf.sin(tf.cast(tf.strings.length(text), tf.float32))}

    def scaled_classes(self, text, speed):
        found = self.classes(text)
        return {"probabilities": found["probabilities"] * speed}


def judge(path):
    """Writes the SavedModel of a Judge into `path`/1; returns `path`."""
    made, text = Judge(), tf.TensorSpec([None], tf.string, "text")
    methods = {
        "serving_default": (made.classes, [text]),
        "pairs": (made.named, [text, tf.TensorSpec([None], tf.string, "text_pair")]),
        "scores": (made.scores, [text]),
        "adaptive": (made.scaled_classes, [text, tf.TensorSpec([], tf.float32, "speed")]),
    }
    signatures = {name: tf.function(method).get_concrete_function(*specs) for name, (method, specs) in methods.items()}
    tf.saved_model.save(made, str(path / "1"), signatures=signatures)
    (path / "1" / LABELS).parent.mkdir()
    (path / "1" / LABELS).write_text('["bad", "so so", "好"]', encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    (models / "echo").mkdir()
    (models / "judge").mkdir()
    shutil.copytree(echo(models / "echo") / "1", models / "echo/3")
    named = Source("echo", str(models / "echo"), Policy(None), {"stable": 1})
    with running(LIMITS, echo=named, judge=judge(models / "judge")) as made:
        yield made


@pytest.fixture(scope="module")
def channel(served):
    with served.channel() as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def request_of(model, signature="", outputs=(), version=None, label=None, **inputs):
    """A PredictRequest."""
    made = predict_pb2.PredictRequest(output_filter=outputs)
    name(made.model_spec, model, signature, version, label)
    for each, value in inputs.items():
        made.inputs[each].CopyFrom(value if isinstance(value, TensorProto) else tf.make_tensor_proto(value))
    return made


def name(spec, model, signature="", version=None, label=None):
    spec.name, spec.signature_name = model, signature
    if version is not None:
        spec.version.value = version
    if label is not None:
        spec.version_label = label


def examples(*rows, context=None):
    """An Input of tf.train.Example."""

    def example(row):
        made = tf.train.Example()
        for each, value in row.items():
            feature = made.features.feature[each]
            values = value if isinstance(value, list) else [value]
            if isinstance(values[0], str | bytes):
                feature.bytes_list.value.extend(v.encode() if isinstance(v, str) else v for v in values)
            elif isinstance(values[0], float):
                feature.float_list.value.extend(values)
            else:
                feature.int64_list.value.extend(values)
        return made

    if context is None:
        return input_pb2.Input(example_list=input_pb2.ExampleList(examples=map(example, rows)))
    together = input_pb2.ExampleListWithContext(examples=map(example, rows), context=example(context))
    return input_pb2.Input(example_list_with_context=together)


def error_of(call, *arguments, **named):
    """The code and the message of a call that fails."""
    with pytest.raises(grpc.RpcError) as found:
        call(*arguments, timeout=20, **named)
    return found.value.code(), found.value.details()


def as_lists(outputs):
    """Outputs of gRPC as REST shows them; float32 stay as they are, to be compared bit for bit."""
    return {name: tf.make_ndarray(proto) for name, proto in outputs.items()}


@pytest.mark.parametrize(
    ("model", "signature", "inputs"),
    [
        ("echo", "serving_default", {"text": TEXTS}),
        ("echo", "words", {"text": TEXTS}),
        ("echo", "scaled", {"text": TEXTS, "factor": 3.0}),
        ("echo", "ranked", {"query": ["", ""], "candidates": [["a", "bbb"], ["cc", ""]]}),
        ("echo", "drawn", {"text": TEXTS, "seed": [1, 2]}),
        ("judge", "serving_default", {"text": TEXTS * 4}),
    ],
)
def test_predict_answers_as_rest_does_bit_for_bit(served, stub, model, signature, inputs):
    types = {"factor": tf.float32, "seed": tf.int32}
    tensors = {each: tf.make_tensor_proto(value, types.get(each)) for each, value in inputs.items()}
    answer = stub.Predict(request_of(model, signature, **tensors), timeout=20)
    code, rest = served.post(f"/v1/models/{model}:predict", {"signature_name": signature, "inputs": inputs})
    assert code == 200
    found = as_lists(answer.outputs)
    expected = rest["outputs"] if isinstance(rest["outputs"], dict) else {next(iter(found)): rest["outputs"]}
    assert found.keys() == expected.keys()
    for each, value in found.items():
        if value.dtype == object:
            assert np.vectorize(bytes.decode, otypes=[object])(value).tolist() == expected[each]
        else:
            np.testing.assert_array_equal(value, np.array(expected[each], value.dtype))
            assert not answer.outputs[each].tensor_content  # clients in other languages read the fields
    spec = answer.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == (model, {"echo": 3, "judge": 1}[model], signature)


def test_versions_labels_and_outputs_are_chosen(stub):
    for chosen, version in (({}, 3), ({"version": 1}, 1), ({"version": 3}, 3), ({"label": "stable"}, 1)):
        answer = stub.Predict(request_of("echo", outputs=["length"], text=["abc"], **chosen), timeout=20)
        assert answer.model_spec.version.value == version and list(answer.outputs) == ["length"]
    content = predict_pb2.PredictRequest()
    name(content.model_spec, "echo", "scaled")
    content.inputs["text"].CopyFrom(tf.make_tensor_proto(["abc", "d"]))
    content.inputs["factor"].dtype = tf.float32.as_datatype_enum
    content.inputs["factor"].tensor_content = np.float32(4.0).tobytes()
    assert list(stub.Predict(content, timeout=20).outputs["scaled"].float_val) == [0.75, 0.25]
    content.inputs["text"].tensor_shape.dim[0].size = 4  # the last value stands for those that are missing
    assert list(stub.Predict(content, timeout=20).outputs["scaled"].float_val) == [0.75, 0.25, 0.25, 0.25]


def shaped(*sizes, **fields):
    made = tf.make_tensor_proto(["a"])
    made.ClearField("tensor_shape")
    for size in sizes:
        made.tensor_shape.dim.add(size=size)
    for each, value in fields.items():
        setattr(made, each, value)
    return made


WRONG = [
    (request_of("nope", text=["a"]), Code.NOT_FOUND, "Latest(nope). Served is echo, versions 3, 1; judge"),
    (request_of("echo", version=2, text=["a"]), Code.NOT_FOUND, "Servable not found for request: Specific(echo, 2)"),
    (request_of("echo", label="new", text=["a"]), Code.INVALID_ARGUMENT, "Unrecognized servable version label: new"),
    (predict_pb2.PredictRequest(), Code.INVALID_ARGUMENT, "Missing ModelSpec"),
    (request_of("echo", "nope", text=["a"]), Code.FAILED_PRECONDITION, '"nope" not found in signature def. Expected one of: drawn'),
    (request_of("echo"), Code.INVALID_ARGUMENT, "Missing named input: text in inputs"),
    (request_of("echo", text=["a"], more=["b"]), Code.INVALID_ARGUMENT, "inputs does not have named input: 'more'"),
    (request_of("echo", text=[1]), Code.INVALID_ARGUMENT, "inputs.text is of type int32. Expected string"),
    (request_of("echo", text="a"), Code.INVALID_ARGUMENT, "inputs.text is a text. Expected a list"),
    (request_of("echo", text=[["a"]]), Code.INVALID_ARGUMENT, "inputs.text[0] is a list. Expected a text"),
    (request_of("echo", text=[b"a", b"\xff"]), Code.INVALID_ARGUMENT, "inputs.text is not UTF-8 at byte 0"),
    (request_of("echo", text=["a" * 101]), Code.INVALID_ARGUMENT, "inputs.text[0] has 101 characters"),
    (request_of("echo", text=["refused"]), Code.INVALID_ARGUMENT, "The model refuses the request: .*This text is refused"),
    (request_of("echo", text=shaped(-1)), Code.INVALID_ARGUMENT, "inputs.text has no shape"),
    (request_of("echo", text=shaped(0)), Code.INVALID_ARGUMENT, "inputs.text holds 1 values. Expected 0"),
    (request_of("echo", text=shaped(100_000, 100_000)), Code.RESOURCE_EXHAUSTED, "inputs.text has 10,000,000,000 values"),
    (request_of("echo", text=shaped(1, dtype=9999)), Code.INVALID_ARGUMENT, "inputs.text is of type number 9999"),
    (request_of("echo", "scaled", text=["a"], factor=shaped(dtype=1)), Code.INVALID_ARGUMENT, "inputs.factor holds 0 values"),
    (request_of("echo", "scaled", text=["a"], factor=float("nan")), Code.INVALID_ARGUMENT, "inputs.factor is nan"),
    (request_of("echo", text=["a"] * 21), Code.RESOURCE_EXHAUSTED, "At most 20 are answered at a time"),
    (request_of("echo", text=["a"] * 2000), Code.RESOURCE_EXHAUSTED, "message larger than max"),
    (request_of("echo", outputs=["nope"], text=["a"]), Code.INVALID_ARGUMENT, "output tensor alias not found in signature: nope"),
    (request_of("echo", outputs=["text", "text"], text=["a"]), Code.INVALID_ARGUMENT, "duplicate output tensor alias: text"),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "code", "message"), WRONG, ids=range(len(WRONG)))
def test_errors_have_the_codes_of_tensorflow_serving(stub, request_, code, message):
    found, said = error_of(stub.Predict, request_)
    assert found == code, said
    assert message in said or message.rpartition(".*")[2] in said


def test_a_fault_of_ours_is_internal_with_a_number_in_the_log(stub, monkeypatch, capsys):
    monkeypatch.setattr("xmodels.serving.rpc.prediction.write_tensors", lambda *arguments: {}["secret"])
    code, said = error_of(stub.Predict, request_of("echo", text=["a"]))
    assert code == Code.INTERNAL and "The log of the server says more" in said and "secret" not in said
    assert "KeyError" in capsys.readouterr().err
    monkeypatch.undo()
    stub.Predict(request_of("echo", text=["a"]), timeout=20)


def classes_of(result):
    return [[(each.label, np.float32(each.score)) for each in row.classes] for row in result.classifications]


def rest_classes(served, body):
    code, answer = served.post("/v1/models/judge:classify", body)
    assert code == 200, answer
    return [[(label, np.float32(score)) for label, score in row] for row in answer["results"]]


def test_classify_gives_labels_with_their_probabilities(served, stub):
    rows = [{"text": text, "label": 3} for text in TEXTS]  # a feature that the signature does not take
    asked = classification_pb2.ClassificationRequest(input=examples(*rows))
    name(asked.model_spec, "judge")
    answer = stub.Classify(asked, timeout=20)
    found = classes_of(answer.result)
    _, rest = served.post("/v1/models/judge:predict", {"instances": TEXTS})
    expected = [[*zip(CLASSES, np.float32(row["probabilities"]), strict=True)] for row in rest["predictions"]]
    assert found == expected == rest_classes(served, {"examples": rows})
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("judge", 1)
    asked = classification_pb2.ClassificationRequest(input=examples(*rows[:2], context={"text_pair": "more"}))
    name(asked.model_spec, "judge", "pairs")
    body = {"signature_name": "pairs", "context": {"text_pair": ["more"]}, "examples": rows[:2]}
    found = classes_of(stub.Classify(asked, timeout=20).result)
    assert found == rest_classes(served, body) and [label for label, _ in found[0]] == ["x", "y", "z"]
    asked = classification_pb2.ClassificationRequest(input=examples({"text": "a"}, context={"speed": 0.5}))
    name(asked.model_spec, "judge", "adaptive")
    assert sum(score for _, score in classes_of(stub.Classify(asked, timeout=20).result)[0]) == pytest.approx(0.5)


def test_regress_gives_a_number_for_each_example(served, stub):
    rows = [{"text": text} for text in TEXTS]
    asked = regression_pb2.RegressionRequest(input=examples(*rows))
    name(asked.model_spec, "judge", "scores")
    found = [np.float32(each.value) for each in stub.Regress(asked, timeout=20).result.regressions]
    code, rest = served.post("/v1/models/judge:regress", {"signature_name": "scores", "examples": rows})
    assert code == 200 and found == [np.float32(each) for each in rest["results"]] and len(set(found)) == 3


def test_several_inferences_share_their_examples(stub):
    asked = inference_pb2.MultiInferenceRequest(input=examples({"text": "abc"}))
    name(asked.tasks.add(method_name=CLASSIFY).model_spec, "judge")
    name(asked.tasks.add(method_name=REGRESS).model_spec, "judge", "scores")
    first, second = stub.MultiInference(asked, timeout=20).results
    assert [label for label, _ in classes_of(first.classification_result)[0]] == CLASSES
    assert second.regression_result.regressions[0].value == pytest.approx(np.sin(3))
    asked.tasks[0].method_name = "tensorflow/serving/predict"
    assert error_of(stub.MultiInference, asked)[0] == Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("given", "signature", "message"),
    [
        (examples({"text": "a"}), "scores", "`scores` answers by no `probabilities`. Ask by :predict"),
        (examples({"text": "a"}), "nope", '"nope" not found in signature def'),
        (examples({"txt": "a"}), "", "Feature text is missing in examples[0]. Expected text"),
        (examples({"text": ["a", "b"]}), "", "examples[0].text has 2 values. Expected one"),
        (examples({"text": "a"}, {"text": 3}), "", "examples[1].text is a number. Expected a text"),
        (examples({"text": b"\xff"}), "", "examples[0].text is not UTF-8 at byte 0"),
        (examples(), "", "'examples' value is an empty array"),
        (input_pb2.Input(), "", "Input is empty"),
    ],
)
def test_what_is_wrong_with_examples_is_named(stub, given, signature, message):
    asked = classification_pb2.ClassificationRequest(input=given)
    name(asked.model_spec, "judge", signature)
    code, said = error_of(stub.Classify, asked)
    assert code == Code.INVALID_ARGUMENT and message in said


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "key 'examples' is expected and was not found"),
        ({"examples": {}}, "Expecting 'examples' value to be an list"),
        ({"examples": ["a"]}, "Example must be JSON object: examples[0] is none"),
        ({"instances": ["a"]}, "Unknown key 'instances'"),
        ({"examples": [{"text": None}]}, "examples[0].text is null. Expected a text"),
    ],
)
def test_what_is_wrong_with_examples_in_json_is_named(served, body, message):
    code, answer = served.post("/v1/models/judge:classify", body)
    assert code == 400 and message in answer["error"]


def test_metadata_are_the_signatures_of_the_file(served, stub):
    asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    name(asked.model_spec, "judge")
    found = get_model_metadata_pb2.SignatureDefMap()
    stub.GetModelMetadata(asked, timeout=20).metadata["signature_def"].Unpack(found)
    with open(f"{served.models.find('judge').folder.path}/{SAVED_MODEL}", "rb") as file:
        saved = saved_model_pb2.SavedModel.FromString(file.read())
    expected = saved.meta_graphs[0].signature_def
    assert {**found.signature_def} == {**expected} and "scores" in expected
    asked.metadata_field[:] = ["other"]
    assert error_of(stub.GetModelMetadata, asked) == (
        Code.INVALID_ARGUMENT, "Metadata field other is not supported. Expected signature_def.",
    )  # fmt: skip


def test_states_and_health_are_said(channel):
    models, health = model_service_pb2_grpc.ModelServiceStub(channel), health_pb2_grpc.HealthStub(channel)
    asked = get_model_status_pb2.GetModelStatusRequest()
    name(asked.model_spec, "echo")
    found = models.GetModelStatus(asked, timeout=20).model_version_status
    available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert [(each.version, each.state, each.status.error_code) for each in found] == [
        (3, available, 0),
        (1, available, 0),
    ]
    name(asked.model_spec, "echo", version=2)
    assert error_of(models.GetModelStatus, asked)[0] == Code.NOT_FOUND
    assert (
        error_of(models.HandleReloadConfigRequest, model_management_pb2.ReloadConfigRequest())[0] == Code.UNIMPLEMENTED
    )
    for service in ("", "tensorflow.serving.PredictionService"):
        assert health.Check(health_pb2.HealthCheckRequest(service=service), timeout=20).status == 1
    assert error_of(health.Check, health_pb2.HealthCheckRequest(service="other"))[0] == Code.NOT_FOUND
    watching = health.Watch(health_pb2.HealthCheckRequest(), timeout=20)
    assert next(iter(watching)).status == 1
    watching.cancel()


@pytest.fixture
def held(served):
    """The usual signature of the highest version of `echo`, which waits."""
    signatures = served.models.find("echo").model.signatures
    before = signatures["serving_default"]
    signatures["serving_default"] = made = Held(before)
    yield made
    made.free.set()
    signatures["serving_default"] = before


def test_rows_of_a_client_whose_deadline_has_passed_are_not_asked(served, stub, held):
    first = stub.Predict.future(request_of("echo", text=["first"]), timeout=20)
    assert held.begun.wait(20)
    late = stub.Predict.future(request_of("echo", text=["late"]), timeout=0.3)
    assert late.exception().code() == Code.DEADLINE_EXCEEDED
    gone = stub.Predict.future(request_of("echo", text=["gone"]), timeout=20)
    queue = served.models.find("echo").batches
    wait_until(lambda: queue._num_rows == 1)
    gone.cancel()
    wait_until(lambda: queue._num_rows == 0)
    last = stub.Predict.future(request_of("echo", text=["last"]), timeout=20)
    held.free.set()
    assert first.result().outputs["length"].int_val == [5] and last.result().outputs["length"].int_val == [4]
    assert held.calls == [["first"], ["last"]]


def test_a_full_queue_is_unavailable_and_rest_and_grpc_share_it(served, stub, channel, held):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        first = pool.submit(served.post, "/v1/models/echo:predict", {"instances": ["first"]})
        assert held.begun.wait(20)
        second = pool.submit(served.post, "/v1/models/echo:predict", {"instances": ["a"] * 10})
        queue = served.models.find("echo").batches
        wait_until(lambda: queue._num_rows == 10)
        third = stub.Predict.future(request_of("echo", text=["b"] * 10), timeout=20)
        wait_until(lambda: queue._num_rows == 20)
        code, said = error_of(stub.Predict, request_of("echo", text=["c"]))
        assert code == Code.UNAVAILABLE and "Too many requests wait" in said
        assert stub.Predict(request_of("judge", text=["c"]), timeout=20).outputs  # a model has a queue of its own
        held.free.set()
        assert first.result()[0] == second.result()[0] == 200 and len(third.result().outputs["length"].int_val) == 10
    assert sum(map(len, held.calls)) == 21 and max(map(len, held.calls)) == LIMITS.max_batch_size


def test_calls_are_counted_by_model_and_version(served, stub):
    def count(code, model, version):
        labels = {"route": "grpc_predict", "code": code, "model": model, "version": version}
        return served.models.metrics.registry.get_sample_value("xmodels_requests_total", labels) or 0.0

    before = count("OK", "echo", "1"), count("NOT_FOUND", "", "")
    stub.Predict(request_of("echo", version=1, text=["a"]), timeout=20)
    error_of(stub.Predict, request_of("nope", text=["a"]))
    expected = before[0] + 1, before[1] + 1
    wait_until(lambda: (count("OK", "echo", "1"), count("NOT_FOUND", "", "")) == expected)
    assert (count("OK", "echo", "1"), count("NOT_FOUND", "", "")) == expected


def test_the_page_knows_all_models_and_versions(served):
    code, first = served.get("/page/model.json")
    assert code == 200 and first["models"] == {"echo": ["3", "1"], "judge": ["1"]} and first["name"] == "echo"
    code, other = served.get("/page/model.json?name=judge")
    assert code == 200 and other["labels"] == CLASSES and "scores" in other["signatures"]
    assert served.get("/page/model.json?name=echo&version=1")[1]["version"] == "1"
    assert served.get("/page/model.json?name=echo&version=2")[0] == served.get("/page/model.json?name=x")[0] == 404


@pytest.mark.long
@pytest.mark.parametrize("task", ["classify", "multi_label", "regress"])
def test_exports_of_tasks_are_classified_and_regressed_as_they_predict(tmp_path, task):
    _, export = small_export(task, tmp_path)
    texts = ["Ann lives in York.", "Where does Bob live? 北京", ""]
    with running(LIMITS, m=export) as server, server.channel() as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        _, rest = server.post("/v1/models/m:predict", {"instances": texts})
        asked = {"input": examples(*({"text": text} for text in texts))}
        if task == "regress":
            asked = regression_pb2.RegressionRequest(**asked)
            name(asked.model_spec, "m")
            found = [each.value for each in stub.Regress(asked, timeout=20).result.regressions]
            assert found == [float(np.float32(each)) for each in rest["predictions"]]
            return
        asked = classification_pb2.ClassificationRequest(**asked)
        name(asked.model_spec, "m")
        found = classes_of(stub.Classify(asked, timeout=20).result)
        expected = [np.float32(row["probabilities"]).tolist() for row in rest["predictions"]]
        assert [[float(score) for _, score in row] for row in found] == expected
        assert [label for label, _ in found[0]] == ["bad", "so so", "好"]


class Numbered(tf.Module):
    """Says which version it is."""

    def __init__(self, number):
        super().__init__()
        self.number = tf.Variable(number)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def answer(self, text):
        return {"number": tf.repeat(self.number, tf.size(text)), "text": text}


def put(folder, number, aside):
    """A version, written aside and renamed when whole, as exports are."""
    made = Numbered(number)
    tf.saved_model.save(made, str(aside / str(number)), signatures=made.answer)
    folder.mkdir(exist_ok=True)
    (aside / str(number)).rename(folder / str(number))


def test_no_request_is_lost_while_versions_come_and_go(tmp_path, capsys):
    # Here, and not when a version is unloaded: to free what earlier tests have left takes up to a minute, in which none is loaded.
    gc.unfreeze()
    gc.collect()
    folder, aside = tmp_path / "m", tmp_path / "aside"
    put(folder, 1, aside)
    there, answers, is_over = [1], [], threading.Event()

    def ask_by_rest():
        while not is_over.is_set():
            since = there[-1]
            code, body = server.post("/v1/models/m:predict", {"instances": ["a"]})
            answers.append((since, code, body["predictions"][0]["number"] if code == 200 else body))

    def ask_by_grpc():
        with server.channel() as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            while not is_over.is_set():
                since = there[-1]
                outputs = stub.Predict(request_of("m", text=["a"]), timeout=20).outputs
                answers.append((since, 200, outputs["number"].int_val[0]))

    def states():
        return {each["version"]: each["state"] for each in server.get("/v1/models/m")[1]["model_version_status"]}

    with running(Limits(), poll_seconds=0.05, m=folder) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(work) for work in (ask_by_rest, ask_by_rest, ask_by_grpc, ask_by_grpc)]
        try:
            put(folder, 2, aside)
            wait_until(lambda: states() == {"1": "END", "2": "AVAILABLE"})
            there.append(2)
            shutil.rmtree(folder / "1")
            (folder / "4").mkdir()
            (folder / "4" / SAVED_MODEL).write_bytes(b"damaged")
            wait_until(lambda: states().get("4") == "END")
            put(folder, 3, aside)
            shutil.rmtree(folder / "4")
            wait_until(lambda: states() == {"1": "END", "2": "END", "3": "AVAILABLE", "4": "END"})
            there.append(3)
            shutil.rmtree(folder / "2")
            seen = len(answers)
            wait_until(lambda: len(answers) > seen + 8)
        finally:
            is_over.set()
        for client in clients:
            client.result()
        status = {each["version"]: each for each in server.get("/v1/models/m")[1]["model_version_status"]}
    assert {code for _, code, _ in answers} == {200} and {number for _, _, number in answers} == {1, 2, 3}
    assert all(number >= since for since, _, number in answers)  # an older one answers no more
    assert status["4"]["status"]["error_code"] == "DATA_LOSS" and "damaged" in status["4"]["status"]["error_message"]
    said = capsys.readouterr()
    assert "Serving m, version 3 (serving_default)" in said.out and "Unloaded m, version 2" in said.out
    assert "m, version 4: not loaded" in said.err and "Served is m, version 2" in said.err


def test_the_end_waits_for_what_has_come_by_both_ways(tmp_path):
    with running(LIMITS, echo=echo(tmp_path)) as server, server.channel() as channel:
        signatures = server.models.find("echo").model.signatures
        signatures["serving_default"] = held = Held(signatures["serving_default"])
        stub, health = prediction_service_pb2_grpc.PredictionServiceStub(channel), health_pb2_grpc.HealthStub(channel)
        watching = health.Watch(health_pb2.HealthCheckRequest(), timeout=20)
        assert next(watching).status == 1
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            rest = pool.submit(server.post, "/v1/models/echo:predict", {"instances": ["abc"]})
            assert held.begun.wait(20)
            call = stub.Predict.future(request_of("echo", text=["abcd"]), timeout=20)
            wait_until(lambda: server.models.find("echo").batches._num_rows == 1)
            server.server.should_exit = True
            assert next(watching).status == 2
            code, _ = error_of(stub.Predict, request_of("echo", text=["late"]))
            assert code == Code.UNAVAILABLE
            held.free.set()
            assert rest.result() == (200, {"predictions": [{"length": 3, "text": "abc"}]})
            assert call.result().outputs["length"].int_val == [4]
        server.end()
    assert held.calls == [["abc"], ["abcd"]]
