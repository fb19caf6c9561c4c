"""The process of a server: its address, its clients' patience, and its end."""

import asyncio
import contextlib
import gc
import json
import signal
import socket
import threading

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from data_pipelines.errors import UsageError
from xmodels.serving.app import make_app
from xmodels.serving.folder import ModelFolder, labels_of
from xmodels.serving.hosts import Hosts
from xmodels.serving.limits import Limits
from xmodels.serving.model import Model
from xmodels.serving.watch import HEADERS

MOST_CONNECTIONS = 1000  # further ones get 503; below the 1,024 open files that a process has on many machines
BACKLOG = 2048
MOST_HEADER_BYTES = 32 * 1024
LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    folder: ModelFolder,
    host: str,
    port: int,
    limits: Limits,
    log_requests: bool = False,
    trusted: bool = False,
    allowed_hosts: tuple[str, ...] = (),
    allowed_origins: tuple[str, ...] = (),
) -> None:
    """Loads a model and answers requests until SIGTERM or SIGINT.

    Args:
        trusted: run any op of its graph.
        allowed_hosts: further names by which clients may ask.
        allowed_origins: of pages of elsewhere that may ask.

    Raises:
        UsageError: the address cannot be had.
        DataError: the model cannot be loaded.
        KeyboardInterrupt: the end of a server that got SIGINT.
    """
    listening = listen(host, port)
    with listening:
        model = Model(folder, trusted)
        model.warm_up()
        gc.freeze()  # what is loaded stays: looking for garbage in it takes a fifth of the time of a request
        app = make_app(model, limits, labels_of(folder), log_requests, Hosts(host, allowed_hosts, allowed_origins))
        listening.listen(BACKLOG)  # who reads the next line may connect
        shown = f"[{host}]" if ":" in host else host
        print(
            f"Serving {folder.name}, version {folder.version} ({', '.join(model.signatures)}) at "
            f"http://{shown}:{listening.getsockname()[1]}/",
            flush=True,
        )
        if host not in LOCAL:
            print("  Whoever reaches this address may ask: put what checks passwords in front of it.", flush=True)
        run(app, listening, limits)
    print("Ended; requests that had come were answered.", flush=True)


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket at an address, that listens when the server runs.

    Raises:
        UsageError: the address is in use, not of this machine, or no address.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)  # asyncio answers without delay where it reads that this is TCP
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--host={host} --port={port}: {why}. Choose another, such as --port=0 for a free one."
        ) from None
    return made


def run(app: Starlette, listening: socket.socket, limits: Limits) -> None:
    """Runs the app until a signal. After SIGTERM it returns; SIGINT is a KeyboardInterrupt, as elsewhere."""
    config = uvicorn.Config(
        app,
        http=type("Patient", (PatientProtocol,), {"patience": limits.client_timeout}),
        ws="none",
        log_config=None,
        log_level="critical",  # what clients do wrong is counted, and faults are logged by the app
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        timeout_keep_alive=max(1, round(limits.client_timeout)),
        timeout_graceful_shutdown=max(1, round(limits.drain_timeout)),
    )
    main = threading.current_thread() is threading.main_thread()
    # uvicorn drains, then raises the signal anew for what was there before it: of SIGTERM nothing more is to be done.
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN) if main else None
    try:
        Server(config).run([listening])
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


class Server(uvicorn.Server):
    """Says that it ends before it does, so that what balances load sends nothing more."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.app.state.service.draining = True
        await super().shutdown(sockets)


class PatientProtocol(H11Protocol):
    """HTTP that waits `patience` seconds for the headers of the next request, and for a client that reads no answers."""

    patience: float
    _watch: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) >= MOST_CONNECTIONS:
            self.app = crowded
        self._wait_for_request()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, and closes the connection."""
        body, headers = _json({"error": msg}), [(b"connection", b"close"), *HEADERS.items()]
        with contextlib.suppress(h11.LocalProtocolError):  # an answer has begun already
            for event in (
                h11.Response(status_code=400, headers=[*_json_headers(body), *headers]),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._watch, self._unread):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.patience, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread:
            self._unread.cancel()

    def _wait_for_request(self) -> None:
        if self._watch:
            self._watch.cancel()
        self._watch = self.loop.call_later(self.patience, self._close_where_nothing_is_asked)

    def _close_where_nothing_is_asked(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


async def crowded(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers connections beyond `MOST_CONNECTIONS`."""
    body = _json({"error": f"The server has {MOST_CONNECTIONS:,} connections, which is the most. Try again later."})
    headers = [(b"retry-after", b"1"), (b"connection", b"close"), *HEADERS.items()]
    await send({"type": "http.response.start", "status": 503, "headers": [*_json_headers(body), *headers]})
    await send({"type": "http.response.body", "body": body})


def _json(value: dict[str, str]) -> bytes:
    return json.dumps(value).encode()


def _json_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
