"""A server of HTTP and gRPC in a thread of this process, for tests that ask it as clients do."""

import contextlib
import http.client
import json
import sys
import threading
import time
import traceback

import grpc

from xmodels.serving import server
from xmodels.serving.app import make_app
from xmodels.serving.metrics import Metrics
from xmodels.serving.models import Models
from xmodels.serving.sources import Source


class Running:
    """A server that runs.

    Attributes:
        models: what it serves.
        port, address: of HTTP; of gRPC.
        server: is None until it runs.
    """

    def __init__(self, models, limits):
        self.models, self.server = models, None
        self.listening, self.reserved = server.listen("127.0.0.1", 0), server.listen("127.0.0.1", 0)
        self.port = self.listening.getsockname()[1]
        self.address = f"127.0.0.1:{self.reserved.getsockname()[1]}"
        self.app, self.ready = make_app(models, limits), threading.Event()
        arguments = self.app, self.listening, limits, self.ready.set, self.reserved
        self.thread = threading.Thread(target=server.run, args=arguments)

    def begin(self):
        outer = self

        class Kept(server.Server):
            def __init__(self, *arguments):
                super().__init__(*arguments)
                outer.server = self

        with contextlib.ExitStack() as patched:
            before, server.Server = server.Server, Kept
            patched.callback(setattr, server, "Server", before)
            self.thread.start()
            assert self.ready.wait(60)

    def end(self):
        """What SIGTERM does."""
        self.server.should_exit = True
        self.thread.join(40)
        assert not self.thread.is_alive()

    def post(self, path, body):
        """The code and the JSON of an answer."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(client):
            client.request("POST" if body is not None else "GET", path, None if body is None else json.dumps(body))
            answer = client.getresponse()
            return answer.status, json.loads(answer.read())

    def get(self, path):
        return self.post(path, None)

    def channel(self):
        return grpc.insecure_channel(self.address, options=[("grpc.enable_retries", 0)])


@contextlib.contextmanager
def running(limits, poll_seconds=0.0, **folders):
    """A server of models, by their names."""
    sources = [each if isinstance(each, Source) else Source(name, str(each)) for name, each in folders.items()]
    models = Models(sources, limits, Metrics(), poll_seconds)
    models.start()
    made = Running(models, limits)
    made.begin()
    try:
        yield made
    finally:
        if made.thread.is_alive():
            made.end()


def wait_until(is_true, seconds=120):
    """Fails with what all threads are doing, which says what has kept it."""
    ends = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < ends, "\n".join(_stacks())
        time.sleep(0.01)


def _stacks():
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"{names.get(ident)}:\n{''.join(traceback.format_stack(frame)[-6:])}"
