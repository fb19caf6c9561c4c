"""The server of gRPC. It lives in the event loop of the server of HTTP, and asks the same models by the same queues."""

import socket

import grpc
from grpc_health.v1 import health_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from data_pipelines.errors import UsageError
from xmodels.serving.app import Service
from xmodels.serving.limits import Limits
from xmodels.serving.rpc.calls import Calls
from xmodels.serving.rpc.prediction import Prediction
from xmodels.serving.rpc.status import HealthService, Status

MOST_CALLS = 1000  # at a time; further ones get RESOURCE_EXHAUSTED


class RpcServer:
    """Answers calls until it is stopped. Made in the event loop that it lives in.

    Args:
        service: whose models are asked.
    """

    def __init__(self, service: Service, limits: Limits, log_requests: bool = False):
        self._server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", limits.max_body_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),  # a second server at the same address is told so
            ),
            maximum_concurrent_rpcs=MOST_CALLS,
        )
        calls = Calls(service.metrics, log_requests)
        prediction = Prediction(calls, service.models, limits)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(prediction, self._server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(Status(calls, service.models), self._server)
        health = HealthService(
            lambda: not service.draining and service.models.is_ready,
            lambda: service.draining,
        )
        health_pb2_grpc.add_HealthServicer_to_server(health, self._server)

    async def start(self, reserved: socket.socket) -> None:
        """Listens at the address of a socket that is bound but does not listen, which is closed.

        Raises:
            UsageError: the address cannot be had.
        """
        host, port = reserved.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self._server.add_insecure_port(address)
        except RuntimeError:
            raise UsageError(f"--grpc_port={port}: gRPC cannot listen at {address}. Choose another.") from None
        await self._server.start()
        reserved.close()

    async def stop(self, seconds: float) -> None:
        """Takes no more calls; returns when those that have come are answered, or after some seconds."""
        await self._server.stop(seconds)
