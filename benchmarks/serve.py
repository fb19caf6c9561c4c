"""A server under load: 64 clients with texts of mixed lengths, and among them clients that no server wishes for.

    python -m benchmarks.serve --model_dir=run --export_dir=serving --texts=texts.txt --minutes=3

The run answers the texts by `predict` first: its answers are what the server's are compared with, and its speed is the yardstick.
Then the server answers one client, then only good clients, then all. Needs `pip install 'xmodels[serve]'`.

The page has two kinds of speed. Texts a second are by the clock: on this machine the clients and whatever else runs use the same
processors. Milliseconds are what the process that answers uses of the processors for a text, so their ratio to `predict` leaves
clients out. Threads of TensorFlow that wait for each other use processors too, more so where these are busy; there are none on one
core: `taskset -c 0 python -m benchmarks.serve …`.
"""

import argparse
import asyncio
import collections
import dataclasses
import json
import pathlib
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import psutil
import tensorflow as tf

import xmodels

CLEAN_SECONDS = 30
YARDSTICK_SECONDS = 10  # of processors, that `predict` and the SavedModel are measured for at least
BATCH = 32  # texts, of `predict` and of the SavedModel without a server
BODY_BYTES = 100 * 1024 * 1024
BLOCK = b"x" * (64 * 1024)
EXPECTED = {
    "malformed": "400",
    "large": "413",
    "large, in chunks": "413",
    "slow": "408",
    "leaves": "left",
    "good": "200",
}
BAD = {
    "malformed": 2,
    "large": 1,
    "large, in chunks": 1,
    "slow": 2,
    "leaves": 2,
}  # clients of each kind; the others are good


@dataclasses.dataclass
class Load:
    """What clients ask and what they get.

    Attributes:
        codes: of answers, by the kind of client.
        seconds: of each good answer.
        rows: that were answered well.
        wrong: answers that differ from those of `predict`.
    """

    texts: list[str]
    expected: list[list[float]]
    name: str
    port: int
    codes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    seconds: list[float] = dataclasses.field(default_factory=list)
    rows: int = 0
    wrong: int = 0

    def request(self, body: bytes, length: int | None = None) -> bytes:
        size = (
            f"Content-Length: {len(body) if length is None else length}"
            if length != -1
            else "Transfer-Encoding: chunked"
        )
        return f"POST /v1/models/{self.name}:predict HTTP/1.1\r\nHost: x\r\n{size}\r\n\r\n".encode() + body


async def answer_of(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """The code and the body of an answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return head.split(b" ")[1].decode(), await reader.readexactly(int(length[1]) if length else 0)


async def good(load: Load, rng: random.Random, until: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    while time.monotonic() < until:
        rows = rng.sample(range(len(load.texts)), rng.choice((1, 1, 1, 2, 4)))
        began = time.monotonic()
        writer.write(load.request(json.dumps({"instances": [load.texts[row] for row in rows]}).encode()))
        code, body = await answer_of(reader)
        load.seconds.append(time.monotonic() - began)
        load.codes["good", code] += 1
        if code == "200":
            found = [each["probabilities"] for each in json.loads(body)["predictions"]]
            load.wrong += int(np.sum(np.abs(np.array(found) - [load.expected[row] for row in rows]).max(axis=1) > 1e-4))
            load.rows += len(rows)
    writer.close()


async def malformed(load: Load, rng: random.Random, until: float) -> None:
    bodies = [b"{", b'{"instances": "a"}', b"\xff\xfe", b"[" * 5000, b'{"instances": [NaN]}']
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
        writer.write(load.request(rng.choice(bodies)))
        load.codes["malformed", (await answer_of(reader))[0]] += 1
        writer.close()
        await asyncio.sleep(0.05)


async def large(load: Load, rng: random.Random, until: float, chunked: bool = False) -> None:
    kind = "large, in chunks" if chunked else "large"
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
        writer.write(load.request(b"", -1 if chunked else BODY_BYTES))
        for _ in range(BODY_BYTES // len(BLOCK)):
            writer.write(b"%x\r\n%b\r\n" % (len(BLOCK), BLOCK) if chunked else BLOCK)
            await writer.drain()
        if chunked:
            writer.write(b"0\r\n\r\n")
        load.codes[kind, (await answer_of(reader))[0]] += 1
        writer.close()
        await asyncio.sleep(5)


async def slow(load: Load, rng: random.Random, until: float) -> None:
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
        writer.write(load.request(b"{", 1000))
        answer = asyncio.ensure_future(answer_of(reader))
        while not answer.done():
            writer.write(b" ")
            await asyncio.wait([answer], timeout=0.5)
        load.codes["slow", (await answer)[0]] += 1
        writer.close()


async def leaves(load: Load, rng: random.Random, until: float) -> None:
    while time.monotonic() < until:
        _, writer = await asyncio.open_connection("127.0.0.1", load.port)
        writer.write(load.request(json.dumps({"instances": rng.sample(load.texts, 8)}).encode()))
        await asyncio.sleep(rng.random() * 0.02)
        writer.close()
        load.codes["leaves", "left"] += 1
        await asyncio.sleep(0.05)


async def run(load: Load, clients: int, seconds: float, with_bad: bool) -> None:
    """All clients at once; those that fail are counted."""
    until, made = time.monotonic() + seconds, []
    kinds = {"malformed": malformed, "large": large, "slow": slow, "leaves": leaves}
    for kind, count in BAD.items() if with_bad else ():
        function = kinds.get(kind) or (lambda *arguments: large(*arguments, chunked=True))
        made += [(kind, function)] * count
    made += [("good", good)] * (clients - len(made))
    tasks = [function(load, random.Random(index), until) for index, (_, function) in enumerate(made)]
    for (kind, _), found in zip(made, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
        if found is not None:
            load.codes[kind, type(found).__name__] += 1


@dataclasses.dataclass(frozen=True)
class Speed:
    """Texts a second by the clock, and milliseconds of processors for a text."""

    texts: float
    cost: float

    @classmethod
    def of(cls, answer: Callable[[], object], num_texts: int) -> "Speed":
        """That of a function of this process, which answers so many texts; the first call traces and is not counted."""
        answer()
        began, before, count = time.monotonic(), time.process_time(), 0
        while count == 0 or time.process_time() - before < YARDSTICK_SECONDS:
            answer()
            count += num_texts
        return cls(count / (time.monotonic() - began), 1000 * (time.process_time() - before) / count)

    def beside(self, yardstick: "Speed") -> str:
        """Both numbers as shares of the yardstick's speed."""
        return f"{self.texts / yardstick.texts:.2f} of `predict` by the clock, {yardstick.cost / self.cost:.2f} by processors"


def predicted(model_dir: str, texts: list[str]) -> tuple[list[list[float]], Speed]:
    """The probabilities of `predict`, and its speed."""
    network = xmodels.load(model_dir)
    found = [list(each.probabilities.values()) for each in network.predict(texts, BATCH)]
    return found, Speed.of(lambda: network.predict(texts, BATCH), len(texts))


def alone(load: Load, export_dir: str) -> tuple[list[float], list[float]]:
    """Seconds of single answers: of the SavedModel in this process, and of the server to one client."""
    signature = tf.saved_model.load(str(pathlib.Path(export_dir) / "1")).signatures["serving_default"]
    texts = load.texts[:200]
    direct, single = [], []

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
        for text in texts * 2:  # by turns, as the machine may be slower for a while
            began = time.monotonic()
            {name: value.numpy() for name, value in signature(text=tf.constant([text])).items()}
            direct.append(time.monotonic() - began)
            began = time.monotonic()
            writer.write(load.request(json.dumps({"instances": [text]}).encode()))
            await answer_of(reader)
            single.append(time.monotonic() - began)

    asyncio.run(ask())
    return direct[len(texts) :], single[len(texts) :]


def in_process(texts: list[str], export_dir: str) -> Speed:
    """The speed of the SavedModel without a server, in batches as they come."""
    signature = tf.saved_model.load(str(pathlib.Path(export_dir) / "1")).signatures["serving_default"]

    def answer() -> None:
        for start in range(0, len(texts), BATCH):
            signature(text=tf.constant(texts[start : start + BATCH]))["probabilities"].numpy()

    return Speed.of(answer, len(texts))


async def memory(process: psutil.Process, found: list[float]) -> None:
    while True:
        found.append(process.memory_info().rss / 2**20)
        await asyncio.sleep(1)


async def watched(load: Load, clients: int, seconds: float, process: psutil.Process) -> list[float]:
    """Runs all kinds of clients; returns the server's memory in MiB, second by second."""
    found: list[float] = []
    watch = asyncio.ensure_future(memory(process, found))
    await run(load, clients, seconds, True)
    watch.cancel()
    return found


def percentile(seconds: list[float], share: float) -> float:
    return float(np.quantile(seconds, share)) * 1000


def processor_seconds(process: int) -> float:
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


def batches(port: int) -> np.ndarray:
    """Rows that the network has read so far, and in how many batches."""
    import urllib.request

    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    names = "sum", "count"
    return np.array(
        [float(re.search(rf"^xmodels_batch_rows_{name}{{.*}} (\S+)", text, re.MULTILINE)[1]) for name in names]
    )


def measure(arguments) -> str:
    """The page."""
    texts = pathlib.Path(arguments.texts).read_text("utf-8").splitlines()[: arguments.num_texts]
    expected, speed = predicted(arguments.model_dir, texts)
    saved_model = in_process(texts, arguments.export_dir)
    command = [
        sys.executable,
        "-m",
        "launch",
        "serve",
        f"--export_dir={arguments.export_dir}",
        "--port=0",
        "--client_timeout=10",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        name, port = re.search(r"Serving (\S+), .*:(\d+)/$", server.stdout.readline().strip()).groups()
        load = Load(texts, expected, name, int(port))
        direct, single = alone(load, arguments.export_dir)
        asyncio.run(run(load, arguments.clients, 10, False))  # memory grows while TensorFlow sees new shapes
        clean = Load(texts, expected, name, int(port))
        rows_before = batches(int(port))
        before = time.monotonic(), processor_seconds(server.pid), time.process_time()
        asyncio.run(run(clean, arguments.clients, CLEAN_SECONDS, False))
        after = time.monotonic(), processor_seconds(server.pid), time.process_time()
        seconds, answering, asking = np.subtract(after, before)
        served = Speed(clean.rows / seconds, 1000 * answering / max(clean.rows, 1))
        asking = 1000 * asking / max(clean.rows, 1)
        rows = np.divide(*(batches(int(port)) - rows_before))
        mixed = Load(texts, expected, name, int(port))
        used = asyncio.run(watched(mixed, arguments.clients, arguments.minutes * 60, psutil.Process(server.pid)))
    finally:
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=60)
    speeds = speed, saved_model, served
    return page(arguments, speeds, asking, direct, single, clean, rows, mixed, used, server.returncode, said)


def page(arguments, speeds, asking, direct, single, clean, rows, mixed, used, code, said) -> str:
    """All numbers as Markdown."""
    wrong = {kind: n for kind, n in mixed.codes.items() if EXPECTED[kind[0]] != kind[1]}
    tenth = max(1, len(used) // 10)
    speed, saved_model, served = speeds
    besides = mixed.rows / (arguments.minutes * 60)
    lengths = np.quantile([len(text) for text in mixed.texts], (0.05, 0.5, 0.95)).astype(int).tolist()
    cores = len(psutil.Process().cpu_affinity())
    direct, single = (statistics.median(seconds) * 1000 for seconds in (direct, single))
    numbers = {
        f"`predict` on the same texts, batches of {BATCH}": f"{speed.texts:,.0f} texts/s; {speed.cost:.2f} ms of processors a text",
        f"the SavedModel in a process, batches of {BATCH}": f"{saved_model.texts:,.0f} texts/s; {saved_model.cost:.2f} ms: "
        f"{saved_model.beside(speed)}",
        f"the server, {arguments.clients} good clients": f"{served.texts:,.0f} texts/s; {served.cost:.2f} ms: {served.beside(speed)}",
        "… what its clients take of the same processors": f"{asking:.2f} ms a text",
        "… p50, p99 of an answer": f"{percentile(clean.seconds, 0.5):.0f}, {percentile(clean.seconds, 0.99):.0f} ms",
        "… rows in a batch, on average": f"{rows:.1f}",
        f"the server, {sum(BAD.values())} of {arguments.clients} clients bad, {arguments.minutes:g} minutes": f"{besides:,.0f} "
        f"texts/s: {besides / speed.texts:.2f} of `predict` by the clock",
        "… p50, p99 of a good answer": f"{percentile(mixed.seconds, 0.5):.0f}, {percentile(mixed.seconds, 0.99):.0f} ms",
        "one client, one text: the SavedModel in a process, median": f"{direct:.2f} ms",
        "… the server, by turns with it, median": f"{single:.2f} ms: {single - direct:+.2f} ms",
        "good answers that differ from `predict` by more than 1e-4": f"{clean.wrong + mixed.wrong} of {clean.rows + mixed.rows:,}",
        "answers of a code that was not expected": f"{sum(wrong.values())} of {sum(mixed.codes.values()):,}",
        "memory, mean of the first tenth, of the middle, of the last": f"{np.mean(used[:tenth]):.0f}, "
        f"{np.mean(used[len(used) // 2 :][:tenth]):.0f}, {np.mean(used[-tenth:]):.0f} MiB",
        "exit code after SIGTERM; lines in the log of errors": f"{code}; {said.count('Error ')}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in numbers.items())
    codes = "\n".join(
        f"| {kind} | {found} | {count:,} | {EXPECTED[kind]} |" for (kind, found), count in sorted(mixed.codes.items())
    )
    return f"""# A server under load

{arguments.about} {len(mixed.texts):,} texts with {lengths[0]} to {lengths[2]} characters
(5 to 95 %; median {lengths[1]}), in requests of 1 to 4 texts. {arguments.clients} clients share {cores} cores
with the server and with other work: texts/s are by the clock, and lower for that; milliseconds are of the processors,
and of the process that answers alone. Python {platform.python_version()}. Made by

    python -m benchmarks.serve --model_dir=… --export_dir=… --texts=… --minutes={arguments.minutes:g}

| | |
| --- | --- |
{table}

| client | answer | how often | expected |
| --- | --- | --- | --- |
{codes}

`large` sends 100 MiB, `slow` a byte each half second, `leaves` closes its connection within 20 ms of the request.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--export_dir", required=True)
    parser.add_argument("--texts", required=True, help="a text a line")
    parser.add_argument("--num_texts", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--about", default="", help="a sentence about the network, for the page")
    parser.add_argument("--output_file")
    arguments = parser.parse_args()
    text = measure(arguments)
    print(text)
    if arguments.output_file:
        pathlib.Path(arguments.output_file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
