"""Who is answered: names of the server, pages of its own; bodies that end in one place; errors that are JSON whatever came."""

import asyncio
import contextlib
import json
import socket
import threading
import time

import pytest

from data_pipelines.errors import UsageError
from tests.helpers.small_served import echo
from xmodels.serving.folder import find_model
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.model import Model
from xmodels.serving.questions import read_question

for package in ("starlette", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(package)

from starlette.datastructures import Headers  # noqa: E402

from tests.helpers.served_app import app_of  # noqa: E402
from xmodels.serving import server  # noqa: E402
from xmodels.serving.hosts import Hosts, check_framing, origins_of  # noqa: E402

pytestmark = pytest.mark.extra("starlette", "uvicorn", "prometheus_client", "httpx")
LIMITS = Limits(client_timeout=1.0)
BODY = b'{"instances": ["ab"]}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Model(find_model(str(echo(tmp_path_factory.mktemp("models"))), "echo"))


@pytest.fixture
def listening(model):
    """The address of a server in a thread of this process."""
    made, running = server.listen("127.0.0.1", 0), {}

    class Kept(server.Server):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            running["server"] = self

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "Server", Kept)
        app = app_of(model, LIMITS, hosts=Hosts("127.0.0.1"))
        thread = threading.Thread(target=server.run, args=(app, made, LIMITS))
        thread.start()
        while not ("server" in running and running["server"].started):
            time.sleep(0.01)
        yield made.getsockname()
        running["server"].should_exit = True
        thread.join(20)


def answers(address, *parts):
    """(code, headers, JSON) of all answers on one connection, until the server closes it."""
    with socket.create_connection(address, timeout=20) as made:
        for part in parts:
            with contextlib.suppress(OSError):
                made.sendall(part)
        found = b""
        with contextlib.suppress(OSError):
            while piece := made.recv(1 << 16):
                found += piece
    listed = []
    while found:
        head, _, rest = found.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        size = int(headers["content-length"])
        assert headers["content-type"] == "application/json" and headers["x-content-type-options"] == "nosniff"
        listed.append((int(first.split()[1]), headers, json.loads(rest[:size])))
        found = rest[size:]
    return listed


def asked(more=b"", body=BODY, host=b"localhost"):
    return b"POST /v1/models/echo:predict HTTP/1.1\r\nHost: " + host + b"\r\n" + more + b"\r\n" + body


def test_a_request_whose_body_ends_twice_is_answered_once(listening):
    smuggled = asked(LENGTH)
    for more in (LENGTH + CHUNKED, CHUNKED + LENGTH):
        ((code, headers, found),) = answers(listening, asked(more, CHUNKS) + smuggled)
        assert code == 400 and headers["connection"] == "close" and "Content-Length" in found["error"]
    for more in (LENGTH, CHUNKED):
        body = BODY if more == LENGTH else CHUNKS
        ((code, _, found),) = answers(listening, asked(more + b"Connection: close\r\n", body))
        assert code == 200 and found["predictions"][0]["length"] == 2


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", asked(b"Content-Length: -1\r\n"),
             asked(b"Content-Length: 3\r\nContent-Length: 4\r\n"), b"GET / HTTP/1.1\r\n\r\n", asked(b"Bad Name: x\r\n" + LENGTH),
             asked(b"X: " + b"a" * 70_000 + b"\r\n"), b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_http_gets_json_and_the_connection_is_closed(listening, sent):
    found = answers(listening, sent)
    assert [code for code, _, _ in found] == [400] and set(found[0][2]) == {"error"}


def test_connections_beyond_the_most_get_json_and_are_asked_to_come_again(listening, monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 1)
    ((code, headers, found),) = answers(listening, asked(LENGTH))
    assert code == 503 and headers["retry-after"] == "1" and "connections" in found["error"]


@pytest.mark.parametrize(
    ("listens", "allowed", "host", "right"),
    [
        ("127.0.0.1", (), "localhost:8501", True), ("127.0.0.1", (), "127.0.0.1:8501", True), ("127.0.0.1", (), "[::1]:8501", True),
        ("127.0.0.1", (), "LOCALHOST", True), ("127.0.0.1", (), None, True), ("127.0.0.1", (), "evil.example:8501", False),
        ("127.0.0.1", (), "localhost.evil.example", False), ("127.0.0.1", (), "10.0.0.5", False), ("127.0.0.1", (), "", False),
        ("127.0.0.1", (), "localhost:8501@evil.example", False), ("0.0.0.0", (), "10.0.0.5:8501", True),
        ("0.0.0.0", (), "evil.example", False), ("0.0.0.0", ("models.example",), "Models.example", True),
        ("models.example", (), "models.example:1", True), ("127.0.0.1", ("*",), "evil.example", True),
    ],
)  # fmt: skip
def test_only_names_of_the_server_are_answered(listens, allowed, host, right):
    headers = Headers({} if host is None else {"host": host})
    with contextlib.nullcontext() if right else pytest.raises(RequestError, match="--allowed_hosts"):
        Hosts(listens, allowed).check("GET", headers)


@pytest.mark.parametrize(
    ("headers", "right"),
    [
        ({}, True), ({"origin": "http://localhost:8501"}, True), ({"origin": "https://localhost:8501"}, True),
        ({"origin": "null"}, False),
        ({"origin": "http://evil.example"}, False), ({"origin": "http://localhost:9999"}, False), ({"origin": ""}, False),
        ({"origin": "http://localhost:8501.evil.example"}, False), ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-origin"}, True), ({"origin": "file://"}, False), ({"origin": "https://models.example"}, True),
    ],
)  # fmt: skip
def test_a_page_of_elsewhere_makes_the_server_do_nothing(headers, right):
    hosts, given = Hosts("127.0.0.1", ("models.example",)), Headers({"host": "localhost:8501", **headers})
    hosts.check("GET", given)
    with contextlib.nullcontext() if right else pytest.raises(RequestError, match="pages of"):
        hosts.check("POST", given)


def test_a_page_of_elsewhere_gets_a_code_and_no_answer(listening):
    for more, host in ((b"Origin: http://evil.example\r\n", b"localhost"), (b"", b"evil.example")):
        ((code, _, found),) = answers(listening, asked(more + b"Connection: close\r\n" + LENGTH, host=host))
        assert code == 403 and "predictions" not in found


@pytest.mark.parametrize("name", ["host", "content-length", "transfer-encoding", "origin"])
def test_headers_that_count_stand_once(name):
    with pytest.raises(RequestError, match=f"{name} stands twice"):
        check_framing(Headers(raw=[(name.encode(), b"1"), (name.encode(), b"1")]))


@pytest.mark.parametrize(
    "body",
    [
        b'{"instances": ["a"], "instances": ["b"]}',
        b'{"instances": [{"text": "a", "text": "b"}]}',
        b'{"x": {"y": 1, "y": 1}}',
    ],
)
def test_a_key_that_stands_twice_is_refused(model, body):
    with pytest.raises(RequestError, match="JSON Parse error: the key .* stands twice"):
        read_question(body, model.signatures, LIMITS)


def test_pages_of_a_named_origin_may_ask_and_read(model):
    hosts = Hosts("127.0.0.1", origins=origins_of("https://app.example, http://localhost:3000"))
    app = app_of(model, LIMITS, hosts=hosts)

    def ask(method, path, **headers):
        """(code, headers) of a request to the app, without a network."""
        sent = []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        named = [
            (name.replace("_", "-").encode(), value.encode())
            for name, value in {"host": "localhost", **headers}.items()
        ]
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "headers": named,
            "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 9), "root_path": "",
        }  # fmt: skip
        asyncio.run(app(scope, receive, send))
        return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}

    path, asks = "/v1/models/echo:predict", {"access_control_request_method": "POST"}
    code, headers = ask("OPTIONS", path, origin="https://app.example", **asks)
    assert code == 200 and headers["access-control-allow-origin"] == "https://app.example"
    code, headers = ask("GET", "/v1/models/echo", origin="http://localhost:3000")
    assert code == 200 and headers["access-control-allow-origin"] == "http://localhost:3000"
    for other in ("https://evil.example", "http://app.example", "https://app.example.evil", "null"):
        code, headers = ask("OPTIONS", path, origin=other, **asks)
        assert code == 403 and "access-control-allow-origin" not in headers


@pytest.mark.parametrize("text", ["*", "app.example", "ftp://app.example", "https://app.example/path", "null"])
def test_what_is_no_origin_is_refused(text):
    with pytest.raises(UsageError, match="is no origin of pages, such as"):
        origins_of(text)
