"""The server: addresses and codes of TensorFlow Serving, batches, bounds, clients that leave, and its end."""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import xmodels
from data_pipelines.corpora.squad import Question as SpanQuestion
from data_pipelines.errors import UsageError
from tests.helpers.small_served import echo, small_export
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.serving.folder import find_model, labels_of
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.model import Model
from xmodels.serving.questions import read_question
from xmodels.tasks.base.answer import without_padding

for package in ("starlette", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(package)

from starlette.testclient import TestClient  # noqa: E402

from tests.helpers.held_signature import Held  # noqa: E402
from tests.helpers.served_app import app_of  # noqa: E402
from xmodels.serving import server  # noqa: E402
from xmodels.serving.batches import Batches  # noqa: E402
from xmodels.serving.metrics import Metrics  # noqa: E402

pytestmark = pytest.mark.extra("starlette", "uvicorn", "prometheus_client", "httpx")
LIMITS = Limits(max_body_bytes=2000, max_text_length=100, max_batch_size=8, max_waiting=20, client_timeout=1.0)
PREDICT = "/v1/models/echo:predict"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Model(find_model(str(echo(tmp_path_factory.mktemp("models"))), "echo"))


@pytest.fixture(scope="module")
def client(model):
    with TestClient(app_of(model, LIMITS), raise_server_exceptions=False) as client:
        yield client


def error_of(response):
    assert response.headers["content-type"] == "application/json" and set(response.json()) == {"error"}
    return response.json()["error"]


def test_addresses_are_those_of_tensorflow_serving(client):
    status = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for address in ("/v1/models/echo", "/v1/models/echo/versions/1"):
        assert client.get(address).json() == {"model_version_status": [status]}
    metadata = client.get("/v1/models/echo/metadata").json()
    assert metadata["model_spec"] == {"name": "echo", "signature_name": "", "version": "1"}
    found = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert found["inputs"] == {"text": {"dtype": "DT_STRING", "tensor_shape": shape, "name": "serving_default_text:0"}}
    assert found["method_name"] == "tensorflow/serving/predict"
    for address in (PREDICT, "/v1/models/echo/versions/1:predict"):
        answer = client.post(address, json={"instances": ["好"]})
        assert answer.json() == {"predictions": [{"length": 1, "text": "好"}]} and "好" in answer.text
    assert client.get("/health").json() == client.get("/health/ready").json() == {"live": True, "ready": True}
    assert client.get("/health/live").status_code == 200


@pytest.mark.parametrize(
    ("method", "address", "code", "message"),
    [
        ("GET", "/v1/models/other", 404, "Could not find any versions of model other. Served is echo"),
        ("GET", "/v1/models/echo/versions/2", 404, "Could not find version 2 of model echo"),
        ("GET", "/v1/models/other/metadata", 404, "Servable not found for request: Latest(other)"),
        ("POST", "/v1/models/other:predict", 404, "Servable not found for request: Latest(other)"),
        ("POST", "/v1/models/echo/versions/2:predict", 404, "Servable not found for request: Specific(echo, 2)"),
        ("POST", "/v1/models/echo:classify", 400, "JSON Parse error: The document is empty"),
        ("POST", "/v1/models/echo:explain", 400, "Malformed request: POST /v1/models/echo:explain"),
        ("POST", "/v1/models/echo", 400, "Malformed request: POST /v1/models/echo."),
        ("POST", "/v1/models/echo/metadata", 400, "Malformed request"),
        ("GET", PREDICT, 400, "Malformed request: GET /v1/models/echo:predict"),
        ("PUT", PREDICT, 400, "Malformed request: PUT"),
        ("GET", "/v1/models/echo/labels/new", 400, "Unrecognized servable version label: new. Labels of echo: none"),
        ("GET", "/v1/models/echo/a/b", 400, "Malformed request"),
        ("GET", "/v1/models", 400, "Missing model name in request"),
        ("GET", "/nothing", 404, "Expected /v1/models/NAME"),
        ("POST", "/health", 405, "Method Not Allowed"),
        ("GET", "/page/../app.py", 404, "Not found"),
        ("GET", "/page/%2e%2e%2fapp.py", 404, "Not found"),
        ("POST", PREDICT, 400, "JSON Parse error: The document is empty"),
    ],
)
def test_errors_are_json_with_a_code(client, method, address, code, message):
    answer = client.request(method, address)
    assert answer.status_code == code and message in error_of(answer)
    assert code != 405 or answer.headers["allow"]


def test_what_the_graph_refuses_is_400_and_no_fault_of_neighbours(client):
    answer = client.post(PREDICT, json={"instances": ["refused"]})
    assert answer.status_code == 400 and "This text is refused" in error_of(answer)


def test_a_fault_of_ours_is_500_with_a_number_in_the_log(client, model, monkeypatch, capsys):
    monkeypatch.setattr("xmodels.serving.app.as_json", lambda *arguments: {}["secret\nkey"])
    answer = client.post(PREDICT, json={"instances": ["a"]})
    number = re.search(r"says more: ([0-9a-f]{8})\.", error_of(answer))[1]
    said = capsys.readouterr().err
    assert answer.status_code == 500 and "secret" not in answer.text
    assert said.count("\n") == 1 and said.startswith(f"Error {number}: KeyError") and "Traceback" not in said
    monkeypatch.undo()
    assert client.post(PREDICT, json={"instances": ["a"]}).status_code == 200


def test_bodies_are_bounded_with_a_length_and_without(client):
    long = json.dumps({"instances": ["a"] * 1000}).encode()
    for body in (long, iter([long[:1500], long[1500:]])):
        answer = client.post(PREDICT, content=body)
        assert answer.status_code == 413 and "longer than 2,000 bytes" in error_of(answer)
    answer = client.post(PREDICT, content=long, headers={"Expect": "100-continue"})
    assert answer.status_code == 413
    assert client.post(PREDICT, content=b"x", headers={"Content-Encoding": "gzip"}).status_code == 415
    assert client.post(PREDICT, json={"instances": ["a"] * 21}).status_code == 413


def test_the_page_needs_nothing_from_elsewhere_and_runs_no_words(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for name in ("page.css", "page.js", "words.js", "answers.js", "attention.js", "requests.js", "rows.js", "icon.svg"):
        assert client.get(f"/page/{name}").status_code == 200
        text = client.get(f"/page/{name}").text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(
            r"https?://|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", text
        ), name
    assert "http" not in page.text and not re.search(r"\son\w+=|<style|<script(?! type=\"module\" src)", page.text)
    assert client.get("/page/model.json").json()["signatures"]["ranked"]["inputs"]["candidates"] == {
        "dtype": "string",
        "rank": 2,
    }


def test_numbers_are_counted(model):
    with TestClient(app_of(model, LIMITS)) as client:
        client.post(PREDICT, json={"instances": ["a", "b"]})
        client.post(PREDICT, content=b"{")
        text = client.get("/metrics").text
    for line in (
        'xmodels_requests_total{code="200",model="echo",route="predict",version="1"} 1.0',
        'xmodels_requests_total{code="400",model="echo",route="predict",version="1"} 1.0',
        'xmodels_request_seconds_count{model="echo",route="predict",version="1"} 2.0',
        'xmodels_batch_rows_bucket{le="2.0",model="echo",version="1"} 1.0',
        'xmodels_waiting_rows{model="echo",version="1"} 0.0',
    ):
        assert line in text.splitlines()


def question(signature, *texts, **shared):
    asked = {"signature_name": signature.name, "inputs": {"text": texts, **shared}}
    return read_question(json.dumps(asked).encode(), {signature.name: signature}, LIMITS)


def with_batches(signature, work, limits=LIMITS):
    """What `work(batches, held)` returns in an event loop of its own."""

    async def run():
        held, batches = Held(signature), Batches(limits, Metrics().of("echo", "1"))
        try:
            return await asyncio.wait_for(work(batches, held), 30)
        finally:
            held.free.set()
            await batches.close()

    return asyncio.run(run())


async def begun(held):
    while not held.begun.is_set():
        await asyncio.sleep(0.001)


def test_requests_that_come_together_are_one_batch_and_each_gets_its_rows(model):
    async def work(batches, held):
        first = asyncio.ensure_future(batches.ask(question(held, "first")))
        await begun(held)
        texts = [["a"], ["bb", "ccc"], ["dddd"], ["e" * 5, "f" * 6]]
        others = [asyncio.ensure_future(batches.ask(question(held, *each))) for each in texts]
        await asyncio.sleep(0.01)
        held.free.set()
        await first
        for asked, found in zip(texts, await asyncio.gather(*others), strict=True):
            assert found["length"].tolist() == [len(text) for text in asked]
        return held.calls

    assert with_batches(model.signatures["serving_default"], work) == [
        ["first"],
        ["a", "bb", "ccc", "dddd", "e" * 5, "f" * 6],
    ]


def test_batches_are_bounded_and_a_long_question_is_parted(model):
    async def work(batches, held):
        held.free.set()
        texts = ["x" * n for n in range(1, 20)]
        found = await batches.ask(question(held, *texts))
        assert found["length"].tolist() == list(range(1, 20))
        return [len(call) for call in held.calls]

    assert with_batches(model.signatures["serving_default"], work) == [8, 8, 3]


def test_where_too_many_wait_texts_of_like_length_are_asked_together(model):
    async def work(batches, held):
        first = asyncio.ensure_future(batches.ask(question(held, "first")))
        await begun(held)
        texts = ["x" * n for n in (50, 1, 52, 2, 51, 3, 53, 4, 5, 49, 6, 7)]
        others = [asyncio.ensure_future(batches.ask(question(held, each))) for each in texts]
        await asyncio.sleep(0.01)
        held.free.set()
        await asyncio.gather(first, *others)
        return [sorted(map(len, call)) for call in held.calls]

    assert with_batches(model.signatures["serving_default"], work) == [[5], [5, 6, 7, 49, 50, 51, 52, 53], [1, 2, 3, 4]]


def test_other_numbers_are_another_batch_and_random_draws_are_asked_alone(model):
    async def scaled(batches, held):
        first = asyncio.ensure_future(batches.ask(question(held, "first", factor=1)))
        await begun(held)
        others = [asyncio.ensure_future(batches.ask(question(held, "abcd", factor=each))) for each in (2, 4, 2)]
        await asyncio.sleep(0.01)
        held.free.set()
        await first
        return [found["scaled"].tolist() for found in await asyncio.gather(*others)], len(held.calls)

    assert with_batches(model.signatures["scaled"], scaled) == ([[2.0], [1.0], [2.0]], 3)

    async def drawn(batches, held):
        held.free.set()
        asked = [question(held, "a", "b", seed=[1, 2])] * 3
        found = await asyncio.gather(*map(batches.ask, asked))
        return {tuple(each["number"].tolist()) for each in found}, len(held.calls)

    numbers, calls = with_batches(model.signatures["drawn"], drawn)
    assert len(numbers) == 1 and calls == 3


def test_one_bad_row_fails_no_neighbour(model):
    async def work(batches, held):
        first = asyncio.ensure_future(batches.ask(question(held, "first")))
        await begun(held)
        others = [asyncio.ensure_future(batches.ask(question(held, each))) for each in ("a", "refused", "b")]
        await asyncio.sleep(0.01)
        held.free.set()
        await first
        return await asyncio.gather(*others, return_exceptions=True)

    good, bad, also_good = with_batches(model.signatures["serving_default"], work)
    assert good["length"].tolist() == also_good["length"].tolist() == [1] and "refused" in str(bad)


def test_clients_that_leave_are_dropped_and_a_full_queue_says_when_to_come_again(model):
    async def work(batches, held):
        first = asyncio.ensure_future(batches.ask(question(held, "first")))
        await begun(held)
        leaving = asyncio.ensure_future(batches.ask(question(held, *["left"] * 10)))
        staying = asyncio.ensure_future(batches.ask(question(held, *["kept"] * 10)))
        await asyncio.sleep(0.01)
        assert batches.is_full
        with pytest.raises(RequestError, match="Too many requests wait") as full:
            await batches.ask(question(held, "late"))
        assert full.value.code == 503 and full.value.headers["Retry-After"] == "1"
        leaving.cancel()
        await asyncio.sleep(0.01)
        assert not batches.is_full
        held.free.set()
        await asyncio.gather(first, staying)
        return held.calls

    assert with_batches(model.signatures["serving_default"], work) == [["first"], ["kept"] * 8, ["kept"] * 2]


def test_a_request_that_is_alone_does_not_wait_and_one_in_company_does(model):
    async def work(batches, held):
        held.free.set()
        await batches.ask(question(held, "alone"))  # within the half minute that `with_batches` has
        with batches.coming():  # a body that is being received
            waiting = asyncio.ensure_future(batches.ask(question(held, "together")))
            await asyncio.sleep(0.05)
            assert not waiting.done()
        await waiting
        return held.calls

    patient = Limits(batch_timeout=600.0)
    assert with_batches(model.signatures["serving_default"], work, patient) == [["alone"], ["together"]]


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Runs and their exports, made once each."""
    made = {}

    def of(task):
        if task not in made:
            made[task] = small_export(task, tmp_path_factory.mktemp(task))
        return made[task]

    return of


@contextlib.contextmanager
def served(export):
    folder = find_model(str(export))
    with TestClient(app_of(Model(folder), Limits(), labels_of(folder))) as client:
        yield client, f"/v1/models/{folder.name}:predict"


TEXTS = ["Ann lives in York.", "", "Where does Bob live? 北京", "many words and more words"]


def together(client, address, requests):
    """Answers to requests that are sent at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda each: client.post(address, json=each), requests))


def curl_of(export):
    """The body of the first request of a README, and its answer."""
    text = (export / "README.md").read_text("utf-8")
    body = re.search(r"<<'JSON'\n(.*?)\nJSON", text, re.DOTALL)[1]
    return body, json.loads(re.search(r"```json\n(.*?)\n```", text, re.DOTALL)[1])


def test_a_classifier_answers_as_predict_and_its_readme_do(exports):
    run, export = exports("classify")
    predictions = xmodels.load(str(run)).predict(TEXTS)
    with served(export) as (client, address):
        answers = together(client, address, [{"instances": [text]} for text in TEXTS])
        for answer, expected in zip(answers, predictions, strict=True):
            (found,) = answer.json()["predictions"]
            assert found["label"] == expected.label and answer.json()["labels"] == list(expected.probabilities)
            assert found["probabilities"] == pytest.approx(list(expected.probabilities.values()), abs=1e-5)
        assert client.get("/page/model.json").json()["labels"] == ["bad", "so so", "好"]
        body, expected = curl_of(export)
        found = client.post(address, content=body.encode()).json()
        for row, wanted in zip(found["predictions"], expected["predictions"], strict=True):
            assert row["label"] == wanted["label"] and row["probabilities"] == pytest.approx(
                wanted["probabilities"], abs=1e-3
            )


def attention_of(client, address, layer, **texts):
    return client.post(address, json={"signature_name": "attention", "inputs": {**texts, "layer": layer}})


def test_attention_is_that_of_the_run_and_a_layer_beyond_is_refused(exports):
    run, export = exports("classify")
    predictor = load(str(run))
    features = without_padding(predictor.features([(TEXTS[0],)]))
    with served(export) as (client, address):
        for layer, heads in enumerate(predictor.backbone.attention_maps(features), 1):
            found = attention_of(client, address, layer, text=TEXTS[0]).json()["outputs"]
            assert (
                found["token"] == ["[CLS]", " ann", " live", "s", " in", " york", ".", "[SEP]"]
                and found["num_layers"] == 2
            )
            np.testing.assert_allclose(found["weight"], np.array(heads)[0].mean(axis=0), atol=1e-5)
        for layer in (0, 3):
            refused = attention_of(client, address, layer, text=TEXTS[0])
            assert refused.status_code == 400 and "`layer` must be from 1 to 2" in error_of(refused)
        assert attention_of(client, address, 1, text=[TEXTS[0]]).status_code == 400  # it takes no batch


@pytest.mark.long
def test_a_tagger_gives_the_entities_of_predict_without_filling(exports):
    run, export = exports("tag")
    predictions = load(str(run)).predict(TEXTS)
    with served(export) as (client, address):
        answers = together(client, address, [{"inputs": [text]} for text in TEXTS])
        for text, answer, expected in zip(TEXTS, answers, predictions, strict=True):
            found = {name: column[0] for name, column in answer.json()["outputs"].items()}
            assert [text[a:b] for a, b in zip(found["start"], found["end"], strict=True)] == found["entity"]
            places = zip(found["type"], found["start"], found["end"], strict=True)
            assert list(places) == [(each.type, each.start, each.end) for each in expected.entities]
    assert any(each.entities for each in predictions)


@pytest.mark.long
def test_answers_in_texts_are_those_of_predict(exports):
    run, export = exports("answer_span")
    questions = [
        ("who lives in york ?", "Ann lives in York."),
        ("where", "many words and more words " * 3 + "Bob in Rome."),
    ]
    asked = [SpanQuestion(str(n), q, c, [], False, "test") for n, (q, c) in enumerate(questions)]
    predictions = xmodels.load(str(run)).predict(asked)
    with served(export) as (client, address):
        answers = together(client, address, [{"inputs": {"question": [q], "context": [c]}} for q, c in questions])
        for (_, context), answer, expected in zip(questions, answers, predictions, strict=True):
            found = {name: column[0] for name, column in answer.json()["outputs"].items()}
            assert found["answer"] == expected.answer.text
            assert not found["answer"] or context[found["start"] : found["end"]] == found["answer"]


@pytest.fixture
def running(model):
    """The address of a server in a thread of this process, and the server."""
    made = server.listen("127.0.0.1", 0)
    app = app_of(model, LIMITS)
    running = {}

    class Kept(server.Server):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            running["server"] = self

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "Server", Kept)
        thread = threading.Thread(target=server.run, args=(app, made, LIMITS))
        thread.start()
        while not ("server" in running and running["server"].started):
            time.sleep(0.01)
        yield made.getsockname(), running["server"]
        running["server"].should_exit = True
        thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def listening(running):
    return running[0]


def connect(address, *parts, until=lambda: True):
    """Sends parts, and reads from when something is true; returns what comes until the server closes."""
    with socket.create_connection(address, timeout=20) as made:
        for part in parts:
            with contextlib.suppress(OSError):
                made.sendall(part)
        ends = time.monotonic() + 60
        while not until():
            assert time.monotonic() < ends
            time.sleep(0.05)
        found = b""
        with contextlib.suppress(OSError):
            while piece := made.recv(1 << 16):
                found += piece
        return found


HEAD = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\n".encode()


def test_slow_clients_are_left(listening):
    began = time.monotonic()
    assert connect(listening, b"GET /health HT") == b""  # headers that never end
    assert b" 408 " in connect(listening, HEAD + b"Content-Length: 100\r\n\r\n{").split(b"\r\n")[0]
    assert connect(listening, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /heal").count(b"HTTP/1.1 200") == 1
    assert time.monotonic() - began < 15


def test_clients_that_read_nothing_are_left(running):
    address, serving = running
    asked, held = 4000, []

    def left():  # once it was there
        held.append(bool(serving.server_state.connections))
        return held[-1:] == [False] and any(held)

    answer = connect(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * asked, until=left)
    assert 0 < answer.count(b"HTTP/1.1 200") < asked


def test_chunks_without_end_and_garbage_are_refused(listening):
    chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
    answer = connect(
        listening, HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n", chunk * 8, b"0\r\n\r\n"
    )
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b" 400 " in connect(listening, b"\x16\x03\x01 nonsense\r\n\r\n").split(b"\r\n")[0]
    assert b" 400 " in connect(listening, b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 40_000).split(b"\r\n")[0]
    assert b" 200 " in connect(listening, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


def test_an_address_that_is_taken_is_named(listening):
    with pytest.raises(UsageError, match=f"--port={listening[1]}: .*in use"):
        server.listen(*listening)
    with pytest.raises(UsageError, match="--host=nowhere.invalid"):
        server.listen("nowhere.invalid", 0)


@pytest.mark.long
def test_the_command_serves_and_sigterm_answers_what_has_come(exports, request):
    _, export = exports("classify")
    command = [sys.executable, "-m", "launch", "serve", f"--export_dir={export}", "--port=0", "--log_requests"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    request.addfinalizer(process.kill)
    port = int(re.search(r"at http://127.0.0.1:(\d+)/", process.stdout.readline())[1])
    body = json.dumps({"instances": TEXTS}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as made:
        address = b"POST /v1/models/classifier:predict HTTP/1.1\r\nHost: localhost\r\n"
        made.sendall(address + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:9])
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        made.sendall(body[9:])
        answer = b""
        while piece := made.recv(1 << 16):
            answer += piece
    said, errors = process.communicate(timeout=30)
    assert b" 200 " in answer.split(b"\r\n")[0] and len(json.loads(answer.split(b"\r\n\r\n")[1])["predictions"]) == len(
        TEXTS
    )
    assert process.returncode == 0 and "Traceback" not in errors
    assert re.search(r"POST /v1/models/classifier:predict 200 \d", said) and os.path.isdir(export)
