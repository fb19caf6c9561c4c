"""Around every call: errors become codes of gRPC, and all is counted."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import tensorflow as tf

from xmodels.serving.limits import GONE, RequestError
from xmodels.serving.metrics import Metrics
from xmodels.serving.versions import Version
from xmodels.serving.watch import log_fault, refusal

Code = grpc.StatusCode
CODES = {
    400: Code.INVALID_ARGUMENT, 404: Code.NOT_FOUND, 413: Code.RESOURCE_EXHAUSTED, GONE: Code.CANCELLED, 500: Code.INTERNAL,
    503: Code.UNAVAILABLE,
}  # fmt: skip
LATER = (("grpc-retry-pushback-ms", "1000"),)  # for clients that try again by themselves


class CallError(RequestError):
    """An error for which HTTP has no code of its own."""

    def __init__(self, message: str, status: grpc.StatusCode):
        super().__init__(message)
        self.status = status


class Calls:
    """Answers calls.

    Args:
        log_requests: print a line for each.
    """

    def __init__(self, metrics: Metrics, log_requests: bool = False):
        self.metrics, self.log_requests = metrics, log_requests

    async def answer(
        self, method: str, work: Callable[..., Awaitable[Any]], request: Any, context: grpc.aio.ServicerContext
    ) -> Any:
        """Returns what `work(request, use)` returns; `use` takes the version that answers. Where it fails, the client is told why.

        Where the client leaves, or its deadline passes, gRPC cancels the call and with it what waits in the queue.
        """
        began, versions = time.monotonic(), []
        code, message = Code.OK, ""
        try:
            return await work(request, versions.append)
        except asyncio.CancelledError:
            code = Code.CANCELLED
            raise
        except RequestError as error:
            code, message = getattr(error, "status", CODES.get(error.code, Code.UNKNOWN)), str(error)
        except tf.errors.InvalidArgumentError as error:
            code, message = Code.INVALID_ARGUMENT, refusal(error)
        except Exception as error:  # a fault of ours or of the network: the server goes on
            code, message = Code.INTERNAL, log_fault(error)
        finally:
            self._count(method, code, time.monotonic() - began, versions)
        await context.abort(code, message, LATER if code == Code.UNAVAILABLE else ())

    def _count(self, method: str, code: grpc.StatusCode, seconds: float, versions: list[Version]) -> None:
        named = [(each.folder.name, each.folder.version) for each in versions[:1]]
        self.metrics.count(f"grpc_{method}", code.name, seconds, *named)
        if self.log_requests:
            print(f"gRPC {method} {code.name} {seconds * 1000:.1f} ms", flush=True)
