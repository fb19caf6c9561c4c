"""Around every request: errors become JSON, answers get headers that keep a browser to this page, and all is counted."""

import json
import secrets
import sys
import time

import tensorflow as tf
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from data_pipelines.escaping import for_terminal_line
from xmodels.serving.hosts import Hosts, check_framing
from xmodels.serving.limits import RequestError
from xmodels.serving.metrics import Metrics
from xmodels.serving.versions import MODEL

HEADERS = {
    # Nothing from elsewhere, no script or style that stands in the page itself, and no frame around it.
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}
VERBS = (":predict", ":classify", ":regress")
ROUTES = {"/": "page", "/health": "health", "/metrics": "metrics"}


class Watch:
    """ASGI middleware.

    Args:
        hosts: which requests are answered; None for all.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, log_requests: bool, hosts: Hosts | None = None):
        self.app, self.metrics, self.log_requests, self.hosts = app, metrics, log_requests, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, code = time.monotonic(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                message = {**message, "headers": [*message["headers"], *HEADERS.items()]}
            await send(message)

        try:
            headers = Headers(scope=scope)
            check_framing(headers)
            if self.hosts:
                self.hosts.check(scope["method"], headers)
            await self.app(scope, receive, send_with_headers)
        except RequestError as error:
            await _error(str(error), error.code, error.headers)(scope, receive, send_with_headers)
        except Exception as error:  # a fault of ours or of the network: the server goes on
            message = log_fault(error)
            if not code:
                await _error(message, 500)(scope, receive, send_with_headers)
        seconds, route = time.monotonic() - began, _route(scope["path"])
        self.metrics.count(route, code, seconds, scope.get(MODEL, ("", "")))
        if self.log_requests:
            address = for_terminal_line(scope["path"])[:200]
            print(f"{scope['method']} {address} {code} {seconds * 1000:.1f} ms", flush=True)


async def request_error(request: Request, error: RequestError) -> Response:
    """Returns what is wrong with a request, as JSON."""
    return _error(str(error), error.code, error.headers)


async def http_error(request: Request, error: HTTPException) -> Response:
    """Returns what Starlette refuses, as JSON."""
    if error.status_code == 404:
        return _error("Not found. Expected /v1/models/NAME:predict, /health, /metrics or /.", 404)
    return _error(f"{error.detail}.", error.status_code, dict(error.headers or {}))


async def refused_by_network(request: Request, error: tf.errors.InvalidArgumentError) -> Response:
    """Returns what ops of the SavedModel refuse, as JSON."""
    return _error(refusal(error), 400)


def refusal(error: tf.errors.InvalidArgumentError) -> str:
    """Returns what ops of the SavedModel refuse, such as a number out of bounds."""
    lines = (line.strip() for line in error.message.splitlines())
    messages = [
        line for line in lines if line and not line.startswith(("Graph execution", "Detected at", "<stack", "[["))
    ]
    return f"The model refuses the request: {' '.join(messages):.300}"


HANDLERS = {
    RequestError: request_error,
    HTTPException: http_error,
    tf.errors.InvalidArgumentError: refused_by_network,
}


def _error(message: str, code: int, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, code, headers)


def log_fault(error: Exception) -> str:
    """Prints what happened in one line; returns what the client is told, with the number that tells the line."""
    number = secrets.token_hex(4)
    place, trace = "", error.__traceback__
    while trace:
        place, trace = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", trace.tb_next
    text = for_terminal_line(json.dumps(str(error), ensure_ascii=False))
    print(f"Error {number}: {type(error).__name__} {text:.500} at {place}", file=sys.stderr, flush=True)
    return f"Something went wrong here, not in the request. The log of the server says more: {number}."


def _route(path: str) -> str:
    if path.endswith(VERBS):
        return path.rpartition(":")[2]
    first = "/" + path.split("/")[1] if path.startswith("/") else path
    return ROUTES.get(first, "model" if first == "/v1" else "page" if first == "/page" else "other")
