"""The addresses of a server: TensorFlow Serving's REST interface, health, metrics, and the page."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from importlib import resources

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from xmodels.serving.answers import as_json
from xmodels.serving.batches import Batches
from xmodels.serving.bodies import read_body, while_connected
from xmodels.serving.hosts import Hosts
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.metrics import Metrics
from xmodels.serving.model import Model
from xmodels.serving.questions import read_question
from xmodels.serving.watch import HANDLERS, Watch

PATH = re.compile(r"(?P<name>[^/:]+)(?:/versions/(?P<version>[0-9]+))?(?P<verb>/metadata|:predict|:classify|:regress)?")
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
OK = {"error_code": "OK", "error_message": ""}


class Service:
    """A model and the handlers of requests for it.

    Args:
        labels: of `probabilities`, for answers and the page.
    """

    def __init__(self, model: Model, limits: Limits, labels: list[str] | None = None):
        self.model, self.limits, self.labels = model, limits, labels
        self.metrics = Metrics()
        self.draining = False
        self.batches: Batches | None = None  # while the app runs

    @contextlib.asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Yields the life of the app."""
        self.batches = Batches(self.limits, self.metrics)
        try:
            yield
        finally:
            self.draining = True
            await self.batches.close()

    async def get_model(self, request: Request) -> Response:
        """Answers GET /v1/models/NAME, /versions/N and /metadata."""
        folder, verb = self.model.folder, self._verb(request)
        if verb == "/metadata":
            spec = {"name": folder.name, "signature_name": "", "version": folder.version}
            return JSONResponse(
                {"model_spec": spec, "metadata": {"signature_def": {"signature_def": self.model.metadata}}}
            )
        status = {"version": folder.version, "state": "AVAILABLE", "status": OK}
        return JSONResponse({"model_version_status": [status]})

    async def predict(self, request: Request) -> Response:
        """Answers POST /v1/models/NAME:predict."""
        if (verb := self._verb(request)) != ":predict":
            raise RequestError(f"{verb} is not answered: the signatures of the model are for :predict.")
        with self.batches.coming():
            body = await read_body(request, self.limits)
            question = read_question(body, self.model.signatures, self.limits)
        outputs = await while_connected(request, self.batches.ask(question))
        arguments = outputs, question.num_rows, question.by_rows, self.labels
        if sum(value.size for value in outputs.values()) > LARGE:
            answer = await asyncio.to_thread(as_json, *arguments)
        else:
            answer = as_json(*arguments)
        return Response(answer, media_type="application/json")

    async def answer_malformed(self, request: Request) -> Response:
        """Answers any other method or address below /v1 with a fault of the request, as TensorFlow Serving does."""
        if request.method == "GET" and request.url.path == "/v1/models":
            raise RequestError("Missing model name in request.")
        raise _malformed_request_error(request)

    def _verb(self, request: Request) -> str | None:
        """Returns what is asked of the model: a verb, "/metadata", or None for its state.

        Raises:
            RequestError: in the words of TensorFlow Serving, the address does not go with the method (400), or another model or
                version is asked (404).
        """
        found = PATH.fullmatch(request.path_params["path"])
        if not found or (found["verb"] in (None, "/metadata")) != (request.method != "POST"):
            raise _malformed_request_error(request)
        folder, name, version, verb = self.model.folder, found["name"], found["version"], found["verb"]
        if name == folder.name and version in (None, folder.version):
            return verb
        if verb is None:
            missing = f"Could not find {f'version {version:.20}' if version else 'any versions'} of model {name:.100}"
        else:
            which = f"Specific({name:.100}, {version:.20})" if version else f"Latest({name:.100})"
            missing = f"Servable not found for request: {which}"
        raise RequestError(f"{missing}. Served is {folder.name}, version {folder.version}.", 404)

    async def live(self, request: Request) -> Response:
        """Answers GET /health/live: the process answers."""
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        """Answers GET /health and /health/ready: requests are taken; 503 while the server ends or its queue is full."""
        is_ready = not self.draining and not self.batches.is_full
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
        """Answers GET /page/model.json: what the page asks for, and how."""
        signatures = {
            name: {
                "inputs": {
                    each.name: {"dtype": each.dtype, "rank": len(each.shape)} for each in signature.inputs.values()
                },
                "outputs": list(signature.outputs),
            }
            for name, signature in self.model.signatures.items()
        }
        folder = self.model.folder
        known = {"labels": self.labels, "max_text_length": self.limits.max_text_length}
        return JSONResponse({"name": folder.name, "version": folder.version, "signatures": signatures, **known})


def _malformed_request_error(request: Request) -> RequestError:
    return RequestError(
        f"Malformed request: {request.method} {request.url.path:.200}. Expected POST /v1/models/NAME[/versions/N]:predict or "
        "GET /v1/models/NAME[/versions/N][/metadata]."
    )


def make_app(
    model: Model,
    limits: Limits,
    labels: list[str] | None = None,
    log_requests: bool = False,
    hosts: Hosts | None = None,
) -> Starlette:
    """Returns the ASGI application of a model; `app.state.service` is its Service.

    Args:
        hosts: which requests are answered; None for all.
    """
    service = Service(model, limits, labels)
    routes = [
        Route("/", service.page),
        Route("/page/model.json", service.description),
        Route("/page/{file}", service.page),
        Route("/v1/models/{path:path}", service.get_model, methods=["GET"]),
        Route("/v1/models/{path:path}", service.predict, methods=["POST"]),
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
