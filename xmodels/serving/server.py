"""The process of a server: its address, its clients' patience, and its end."""

import asyncio
import contextlib
import dataclasses
import gc
import json
import signal
import socket
import threading
from collections.abc import Callable, Iterable

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from data_pipelines.errors import UsageError
from xmodels.serving.app import make_app
from xmodels.serving.hosts import Hosts
from xmodels.serving.limits import Limits
from xmodels.serving.metrics import Metrics
from xmodels.serving.models import Models
from xmodels.serving.sources import Source
from xmodels.serving.watch import HEADERS

MOST_CONNECTIONS = 1000  # further ones get 503; below the 1,024 open files that a process has on many machines
BACKLOG = 2048
MOST_HEADER_BYTES = 32 * 1024
LOCAL = ("127.0.0.1", "::1", "localhost")


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a server listens.

    Attributes:
        grpc_port: None for no gRPC.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int | None = None


def serve(
    sources: Iterable[Source],
    address: Address,
    limits: Limits,
    poll_seconds: float = 0.0,
    log_requests: bool = False,
    trusted: bool = False,
    allowed_hosts: tuple[str, ...] = (),
    allowed_origins: tuple[str, ...] = (),
) -> None:
    """Loads models and answers requests until SIGTERM or SIGINT.

    Args:
        poll_seconds: between two looks at the folders of the models.
        trusted: run any op of their graphs.
        allowed_hosts: further names by which clients may ask.
        allowed_origins: of pages of elsewhere that may ask.

    Raises:
        UsageError: the address cannot be had.
        DataError: a model cannot be loaded.
        KeyboardInterrupt: the end of a server that got SIGINT.
    """
    with contextlib.ExitStack() as sockets:
        listening = sockets.enter_context(listen(address.host, address.port))
        reserved = None
        if address.grpc_port is not None:
            reserved = sockets.enter_context(listen(address.host, address.grpc_port, "grpc_port"))
        models = Models(sources, limits, Metrics(), poll_seconds, trusted)
        models.start()
        gc.freeze()  # what is loaded stays: looking for garbage in it takes a fifth of the time of a request
        app = make_app(models, limits, log_requests, Hosts(address.host, allowed_hosts, allowed_origins))
        ports = [each.getsockname()[1] for each in (listening, reserved) if each]

        def announce() -> None:
            print("\n".join(announcement(models, address.host, *ports)), flush=True)

        run(app, listening, limits, announce, reserved, log_requests)
    print("Ended; requests that had come were answered.", flush=True)


def announcement(models: Models, host: str, port: int, grpc_port: int | None = None) -> list[str]:
    """Returns the lines that say what is served and where."""
    shown = f"[{host}]" if ":" in host else host
    found = [version for served in models.served.values() for version in served.available()]
    named = [
        f"{each.folder.name}, version {each.folder.version} ({', '.join(each.model.signatures)})" for each in found
    ]
    lines = [f"Serving {named[0] if len(named) == 1 else f'{len(named)} models'} at http://{shown}:{port}/"]
    lines += [f"  {each}" for each in named if len(named) > 1]
    if grpc_port is not None:
        lines.append(f"  gRPC at {shown}:{grpc_port}")
    if host not in LOCAL:
        lines.append("  Whoever reaches this address may ask: put what checks passwords in front of it.")
    return lines


def listen(host: str, port: int, flag: str = "port") -> socket.socket:
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
            f"--host={host} --{flag}={port}: {why}. Choose another, such as --{flag}=0 for a free one."
        ) from None
    return made


def run(
    app: Starlette,
    listening: socket.socket,
    limits: Limits,
    announce: Callable[[], None] = lambda: None,
    reserved: socket.socket | None = None,
    log_requests: bool = False,
) -> None:
    """Runs the app until a signal. After SIGTERM it returns; SIGINT is a KeyboardInterrupt, as elsewhere.

    Args:
        announce: is called when requests are answered.
        reserved: a socket at the address of gRPC; None for no gRPC.
    """
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
        Server(config, announce, reserved, limits, log_requests).run([listening])
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


class Server(uvicorn.Server):
    """A server of HTTP, and of gRPC beside it. It says that it ends before it does, so that what balances load sends nothing more."""

    def __init__(
        self,
        config: uvicorn.Config,
        announce: Callable[[], None],
        reserved: socket.socket | None,
        limits: Limits,
        log_requests: bool,
    ):
        super().__init__(config)
        self._service, self._announce, self._reserved = config.app.state.service, announce, reserved
        self._limits, self._log_requests = limits, log_requests
        self._rpc = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._reserved:
            from xmodels.serving.rpc.server import RpcServer  # needs an extra of its own

            self._rpc = RpcServer(self._service, self._limits, self._log_requests)
            await self._rpc.start(self._reserved)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.draining = True
        if self._rpc:
            self._service.ends = asyncio.ensure_future(self._rpc.stop(self._limits.drain_timeout))
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
