"""The workers of a job wait for each other before TensorFlow starts, whose own wait has no end and hears no Ctrl-C.

The chief listens at its address of TF_CONFIG; each other worker connects and tells who it is. When all are there, the
chief tells them to start and frees the port for TensorFlow. Messages are lines of JSON; an empty object means: start.
"""

import contextlib
import json
import socket
import time

from data_pipelines.errors import DeviceError, UsageError
from xmodels.training.devices.tf_config import Cluster
from xmodels.training.watching.progress import print_status

PATIENCE = 600.0  # seconds; machines of one job may start minutes apart
REMIND = 15.0  # seconds between two lines about who is missing


def wait_for_workers(cluster: Cluster, patience: float | None = None) -> None:
    """Returns when all workers are there.

    Args:
        patience: seconds after which to give up.

    Raises:
        DeviceError: a worker, or the chief, did not come in time, or the address is taken or not of this machine.
        UsageError: two processes say that they are the same worker, or name other workers.
    """
    patience = PATIENCE if patience is None else patience
    deadline = time.monotonic() + patience
    if cluster.index:
        _report(cluster, deadline, patience)
    else:
        _gather(cluster, deadline, patience)


def _gather(cluster: Cluster, deadline: float, patience: float) -> None:
    here: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_listen(cluster.addresses[0]))
        reminder = time.monotonic() + REMIND
        while missing := [i for i in range(1, len(cluster.addresses)) if i not in here]:
            with contextlib.suppress(TimeoutError):
                connection = stack.enter_context(server.accept()[0])
                try:
                    here |= _welcome(connection, cluster, here)
                except UsageError as error:
                    _tell([*here.values(), connection], {"error": str(error)})
                    raise
            names = ", ".join(f"{i} ({cluster.addresses[i]})" for i in missing)
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"Worker {names} did not come within {patience:g} s. Start the same command on every machine of "
                    "TF_CONFIG, each with its own index."
                )
            if time.monotonic() > reminder:
                print_status(f"Waiting for worker {names} ...")
                reminder = time.monotonic() + REMIND
        _tell(here.values(), {})


def _tell(connections, message: dict) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps(message).encode() + b"\n")


def _listen(address: str) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.settimeout(0.5)
    port = int(address.rpartition(":")[2])
    try:
        server.bind(("", port))
    except OSError as error:
        server.close()
        raise DeviceError(
            f"TF_CONFIG: {address}: port {port} of this machine cannot be used ({error.strerror}). Is another "
            "process of the job, or an older one, still running?"
        ) from None
    server.listen(64)
    return server


def _welcome(connection: socket.socket, cluster: Cluster, here: dict[int, socket.socket]) -> dict[int, socket.socket]:
    """Returns the worker behind a connection; nothing of a stranger, or of a worker that has gone again."""
    connection.settimeout(5)
    try:
        value = _line(connection)
        index, addresses = value["index"], tuple(value["addresses"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if addresses != cluster.addresses:
        raise UsageError(
            f"TF_CONFIG: worker {index} names {', '.join(addresses)}, the chief {', '.join(cluster.addresses)}. All "
            "must name the same cluster."
        )
    if index == cluster.index or (index in here and not _has_gone(here[index])):
        raise UsageError(f"TF_CONFIG: two processes say that they are worker {index}; give each its own index.")
    return {index: connection}


def _line(connection: socket.socket) -> dict:
    with connection.makefile("rb") as file:
        return json.loads(file.readline(1 << 20))


def _has_gone(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _report(cluster: Cluster, deadline: float, patience: float) -> None:
    """Tells the chief that this worker is there, and waits for its word; tries again while nobody listens."""
    host, _, port = cluster.addresses[0].rpartition(":")
    greeting = {"index": cluster.index, "addresses": cluster.addresses}
    problem = "no answer"
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=min(5, left)) as connection:
                connection.sendall(json.dumps(greeting).encode() + b"\n")
                connection.settimeout(left)
                answer = _line(connection)
        except (OSError, ValueError) as error:  # an empty line is no JSON
            problem = str(error) if isinstance(error, OSError) else "it went away again"
            time.sleep(0.2)
            continue
        if "error" in answer:
            raise UsageError(answer["error"])
        return
    raise DeviceError(
        f"The chief, {cluster.addresses[0]}, did not start within {patience:g} s ({problem}). Start the same command on "
        "every machine of TF_CONFIG, and see that its port can be reached from here."
    )
