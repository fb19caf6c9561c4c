"""A server under load while new versions of its model come and old ones go: what is lost, how long answers take, and its memory.

    python -m benchmarks.serve_versions --export_dir=serving --versions=10

Copies of the export appear one after the other as higher versions, each renamed into its place when whole. Half of the clients ask by
REST, half by gRPC, each with one text at a time and without pause. Needs `pip install 'xmodels[serve,grpc]'`.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import grpc
import numpy as np
import psutil
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

NAME, TEXT = "model", "It rained all week, and nobody minded."
QUIET_SECONDS = 10


@dataclasses.dataclass
class Load:
    """What clients got: when they asked, for how many seconds they waited, which version answered (0 with REST), and the numbers."""

    answers: list[tuple[float, float, int, tuple[float, ...]]] = dataclasses.field(default_factory=list)
    lost: int = 0
    is_over: bool = False


async def ask_by_rest(load: Load, port: int) -> None:
    body = json.dumps({"instances": [TEXT]}).encode()
    head = f"POST /v1/models/{NAME}:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not load.is_over:
        began = time.monotonic()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        content = await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)[1]))
        if answer.split(b" ")[1] != b"200":
            load.lost += 1
            continue
        numbers = json.loads(content)["predictions"][0]["probabilities"]
        load.answers.append((began, time.monotonic() - began, 0, tuple(np.float32(numbers).tolist())))
    writer.close()


async def ask_by_grpc(load: Load, port: int) -> None:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = NAME
    request.inputs["text"].CopyFrom(tf.make_tensor_proto([TEXT]))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_retries", 0)]) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        while not load.is_over:
            began = time.monotonic()
            try:
                answer = await stub.Predict(request, timeout=60)
            except grpc.RpcError:
                load.lost += 1
                continue
            numbers = tuple(answer.outputs["probabilities"].float_val)
            load.answers.append((began, time.monotonic() - began, answer.model_spec.version.value, numbers))


async def until(said: asyncio.StreamReader, words: str) -> float:
    """The time at which the server says some words."""
    while words not in (line := (await said.readline()).decode()):
        assert line, "the server has ended"
    return time.monotonic()


async def measure(arguments) -> str:
    """The page."""
    load = Load()
    with tempfile.TemporaryDirectory() as temporary:
        folder, aside = os.path.join(temporary, NAME), os.path.join(temporary, "aside")
        version = os.path.join(
            arguments.export_dir, max(filter(str.isdecimal, os.listdir(arguments.export_dir)), key=int)
        )
        shutil.copytree(version, os.path.join(folder, "1"))
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "launch", "serve", f"--export_dir={folder}", f"--name={NAME}", "--port=0", "--grpc_port=0",
            stdout=subprocess.PIPE,
        )  # fmt: skip
        ports = [int(re.search(r":(\d+)/?$", (await server.stdout.readline()).decode().strip())[1]) for _ in range(2)]
        work = [(ask_by_rest, ask_by_grpc)[each % 2](load, ports[each % 2]) for each in range(arguments.clients)]
        clients, process = [asyncio.create_task(each) for each in work], psutil.Process(server.pid)
        await asyncio.sleep(QUIET_SECONDS)  # TensorFlow sees what shapes there are
        periods, memory = [(time.monotonic(), time.monotonic() + QUIET_SECONDS)], []
        await asyncio.sleep(QUIET_SECONDS)
        taken, gone = [], []
        for number in range(2, arguments.versions + 2):
            shutil.copytree(version, aside)
            began = time.monotonic()
            os.rename(aside, os.path.join(folder, str(number)))
            taken.append(await until(server.stdout, f"Serving {NAME}, version {number}") - began)
            gone.append(await until(server.stdout, f"Unloaded {NAME}, version {number - 1}") - began)
            periods.append((began, began + gone[-1]))
            memory.append(process.memory_info().rss / 2**20)
        load.is_over = True
        await asyncio.gather(*clients)
        server.send_signal(signal.SIGTERM)
        code = await server.wait()
    return page(arguments, load, periods, taken, gone, memory, code)


def page(arguments, load: Load, periods, taken, gone, memory, code: int) -> str:
    """All numbers as Markdown."""
    quiet, *busy = [[waited for began, waited, *_ in load.answers if start <= began < end] for start, end in periods]
    busy = sum(busy, [])

    def times(found: list[float]) -> str:
        return ", ".join(f"{1000 * value:.0f}" for value in np.quantile(found, (0.5, 0.99, 1.0))) + " ms"

    seen = sorted({version for _, _, version, _ in load.answers} - {0})
    numbers = {
        f"requests, half by REST, half by gRPC, {arguments.clients} clients": f"{len(load.answers):,}",
        "… that got no good answer": f"{load.lost}",
        "largest difference between answers to the one text": f"{np.ptp([each[3] for each in load.answers], axis=0).max():.1g}",
        "versions that answered": f"{seen[0]} to {seen[-1]}, {len(seen)} in all",
        "p50, p99, longest answer while nothing changes": times(quiet),
        "… while a version comes and one goes": times(busy),
        "from the rename until a version answers, median": f"{np.median(taken):.1f} s",
        "… until the one before it is unloaded": f"{np.median(gone):.1f} s",
        "memory after the first, the middle, the last exchange": ", ".join(
            f"{memory[at]:.0f}" for at in (0, len(memory) // 2, -1)
        )
        + " MiB",
        "exit code after SIGTERM": f"{code}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in numbers.items())
    cores = len(psutil.Process().cpu_affinity())
    return f"""# New versions under load

{arguments.about}
{arguments.versions} versions, one after the other; server and clients share {cores} cores with other work.
Python {platform.python_version()}. Made by

    python -m benchmarks.serve_versions --export_dir=… --versions={arguments.versions}

| | |
| --- | --- |
{table}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--export_dir", required=True, help="of a classifier")
    parser.add_argument("--versions", type=int, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--about", default="", help="a sentence about the network, for the page")
    print(asyncio.run(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
