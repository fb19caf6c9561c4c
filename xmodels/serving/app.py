"""The addresses of a server: TensorFlow Serving's REST interface, health, metrics, and the page."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xmodels.serving.addresses import NUMBER, Address, malformed_error, read_address
from xmodels.serving.answers import Outputs, as_json
from xmodels.serving.bodies import read_body, while_connected
from xmodels.serving.examples import CLASSIFY, as_classes, as_numbers, read_examples, results_as_json
from xmodels.serving.hosts import Hosts
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.models import Models
from xmodels.serving.questions import Question, read_question
from xmodels.serving.versions import MODEL, Version
from xmodels.serving.watch import HANDLERS, Watch

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
SCRIPT = "text/javascript"
PAGE = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": SCRIPT,
    "words.js": SCRIPT,
    "answers.js": SCRIPT,
    "attention.js": SCRIPT,
    "requests.js": SCRIPT,
    "rows.js": SCRIPT,
    "icon.svg": "image/svg+xml",
}
LARGE = 20_000  # numbers or texts in an answer, from which it is written in a thread of its own
PREDICT = ":predict"


class Service:
    """The models of a server and the handlers of requests for them.

    Attributes:
        ends: is done when nothing but HTTP uses the models any more; None where nothing else does.
    """

    def __init__(self, models: Models, limits: Limits):
        self.models, self.limits, self.metrics = models, limits, models.metrics
        self.draining = False
        self.ends: asyncio.Future | None = None

    @contextlib.asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Yields the life of the app."""
        self.models.open()
        try:
            yield
        finally:
            self.draining = True
            if self.ends:
                await self.ends
            await self.models.close()

    async def get_model(self, request: Request) -> Response:
        """Answers GET /v1/models/NAME, /versions/N, /labels/LABEL and /metadata."""
        address = read_address(request)
        if address.verb is None:
            known = self.models.known(address.name, address.number, address.label)
            return JSONResponse({"model_version_status": [_status(each) for each in known]})
        version = self._find(request, address)
        spec = {"name": version.folder.name, "signature_name": "", "version": version.folder.version}
        return JSONResponse(
            {"model_spec": spec, "metadata": {"signature_def": {"signature_def": version.model.metadata}}}
        )

    async def ask(self, request: Request) -> Response:
        """Answers POST /v1/models/NAME:predict, :classify and :regress."""
        address = read_address(request)
        version = self._find(request, address)
        read = read_question if address.verb == PREDICT else read_examples
        with version.in_use():
            with version.batches.coming():
                question = read(await read_body(request, self.limits), version.model.signatures, self.limits)
            outputs = await while_connected(request, version.batches.ask(question))
            arguments = address.verb, outputs, question, version.labels
            if sum(value.size for value in outputs.values()) > LARGE:
                answer = await asyncio.to_thread(_answer, *arguments)
            else:
                answer = _answer(*arguments)
        return Response(answer, media_type="application/json")

    async def answer_malformed(self, request: Request) -> Response:
        """Answers any other method or address below /v1 with a fault of the request, as TensorFlow Serving does."""
        if request.method == "GET" and request.url.path == "/v1/models":
            raise RequestError("Missing model name in request.")
        raise malformed_error(request)

    def _find(self, request: Request, address: Address) -> Version:
        version = self.models.find(address.name, address.number, address.label)
        request.scope[MODEL] = version.folder.name, version.folder.version  # by which it is counted
        return version

    async def live(self, request: Request) -> Response:
        """Answers GET /health/live: the process answers."""
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        """Answers GET /health and /health/ready: requests are taken; 503 while the server ends or its queues are full."""
        is_ready = not self.draining and self.models.is_ready
        return JSONResponse({"live": True, "ready": is_ready}, 200 if is_ready else 503)

    async def numbers(self, request: Request) -> Response:
        """Answers GET /metrics."""
        return Response(generate_latest(self.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def page(self, request: Request) -> Response:
        """Answers GET / and what belongs to the page."""
        name = request.path_params.get("file", "index.html")
        if name not in PAGE:
            raise RequestError("Not found.", 404)
        return Response((resources.files("xmodels.serving") / "page" / name).read_bytes(), media_type=PAGE[name])

    async def description(self, request: Request) -> Response:
        """Answers GET /page/model.json: what the page asks for, and how; of the first model, or of the one that is named."""
        asked = request.query_params
        number = int(asked["version"]) if NUMBER.fullmatch(asked.get("version", "")) else None
        version = self.models.find(asked.get("name", next(iter(self.models.served))), number)
        signatures = {
            name: {
                "inputs": {
                    each.name: {"dtype": each.dtype, "rank": len(each.shape)} for each in signature.inputs.values()
                },
                "outputs": list(signature.outputs),
            }
            for name, signature in version.model.signatures.items()
        }
        models = {
            name: [each.folder.version for each in served.available()] for name, served in self.models.served.items()
        }
        known = {"labels": version.labels, "max_text_length": self.limits.max_text_length, "models": models}
        return JSONResponse(
            {"name": version.folder.name, "version": version.folder.version, "signatures": signatures, **known}
        )


def _status(version: Version) -> dict[str, Any]:
    status = {"error_code": version.error_code, "error_message": version.error}
    return {"version": version.folder.version, "state": version.state, "status": status}


def _answer(verb: str, outputs: Outputs, question: Question, labels: list[str] | None) -> bytes:
    if verb == PREDICT:
        return as_json(outputs, question.num_rows, question.by_rows, labels)
    return results_as_json(as_classes(outputs, question, labels) if verb == CLASSIFY else as_numbers(outputs, question))


def make_app(
    models: Models,
    limits: Limits,
    log_requests: bool = False,
    hosts: Hosts | None = None,
) -> Starlette:
    """Returns the ASGI application of models that have started; `app.state.service` is its Service.

    Args:
        hosts: which requests are answered; None for all.
    """
    service = Service(models, limits)
    routes = [
        Route("/", service.page),
        Route("/page/model.json", service.description),
        Route("/page/{file}", service.page),
        Route("/v1/models/{path:path}", service.get_model, methods=["GET"]),
        Route("/v1/models/{path:path}", service.ask, methods=["POST"]),
        Route("/v1/{path:path}", service.answer_malformed, methods=METHODS),
        Route("/health", service.ready),
        Route("/health/ready", service.ready),
        Route("/health/live", service.live),
        Route("/metrics", service.numbers),
    ]
    app = Starlette(routes=routes, lifespan=service.running, exception_handlers=HANDLERS)
    app.router.redirect_slashes = False  # an address without its end is said to be wrong
    app.state.service = service
    if hosts and hosts.origins:  # within what watches, so that other pages are refused before
        app.add_middleware(
            CORSMiddleware, allow_origins=hosts.origins, allow_methods=["GET", "POST"], allow_headers=["Content-Type"]
        )
    app.add_middleware(Watch, metrics=service.metrics, log_requests=log_requests, hosts=hosts)
    return app
