"""TensorFlow Serving's ModelService, and gRPC's own service of health."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow.core.protobuf import error_codes_pb2
from tensorflow_serving.apis import get_model_status_pb2, model_management_pb2, model_service_pb2_grpc

from xmodels.serving.models import Models
from xmodels.serving.rpc.calls import CallError, Calls
from xmodels.serving.rpc.prediction import Use, read_spec

SERVICES = ("", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService")
LOOK_SECONDS = 0.2  # between two looks of who watches the health
Health = health_pb2.HealthCheckResponse


class Status(model_service_pb2_grpc.ModelServiceServicer):
    """Says which versions there are."""

    def __init__(self, calls: Calls, models: Models):
        self.calls, self.models = calls, models

    async def GetModelStatus(
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.aio.ServicerContext
    ):
        return await self.calls.answer("status", self._describe, request, context)

    async def HandleReloadConfigRequest(
        self, request: model_management_pb2.ReloadConfigRequest, context: grpc.aio.ServicerContext
    ):
        return await self.calls.answer("reload", self._reload, request, context)

    async def _describe(self, request: Any, use: Use) -> get_model_status_pb2.GetModelStatusResponse:
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in self.models.known(*read_spec(request)):
            status = response.model_version_status.add(version=version.number)
            status.state = get_model_status_pb2.ModelVersionStatus.State.Value(version.state)
            status.status.error_code = error_codes_pb2.Code.Value(version.error_code)
            status.status.error_message = version.error
        return response

    async def _reload(self, request: Any, use: Use) -> None:
        message = "The models are those that the server began with; their folders are watched for new versions."
        raise CallError(message, grpc.StatusCode.UNIMPLEMENTED)


class HealthService(health_pb2_grpc.HealthServicer):
    """Says whether requests are taken, as GET /health does.

    Args:
        is_ready: asked at each look.
        is_draining: ends the streams of those who watch.
    """

    def __init__(self, is_ready: Callable[[], bool], is_draining: Callable[[], bool]):
        self.is_ready, self.is_draining = is_ready, is_draining

    async def Check(self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext):
        if request.service not in SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"No service {request.service!r:.100}.")
        return Health(status=self._status(request.service))

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[Health]:
        last = None
        while True:
            status = self._status(request.service)
            if status != last:
                yield Health(status=status)
                last = status
            if self.is_draining():
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _status(self, service: str) -> int:
        if service not in SERVICES:
            return Health.SERVICE_UNKNOWN
        return Health.SERVING if self.is_ready() else Health.NOT_SERVING
