"""What the benchmarks share: one process a measurement, pinned and counted in processor seconds; tables."""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Mapping

from xmodels.training.devices import processor

# Environments in which the libraries use no instructions beyond these, by their own switches; Eigen's code stays what it is.
LIMITS = {
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
}  # fmt: skip

ONE_CORE = ("taskset", "-c", "0")


class LimitInstructions(argparse.Action):
    """Lets this process and those that it starts use only the instructions of LIMITS, as on another kind of processor."""

    def __call__(self, parser, namespace, values, option_string=None):
        os.environ.update(LIMITS[values])
        setattr(namespace, self.dest, values)


def limited_to() -> str | None:
    """Returns the name of the limit that this process has; None without one."""
    return next((name for name, limit in LIMITS.items() if limit.items() <= os.environ.items()), None)


def processor_seconds() -> float:
    """Of this process and the children that have ended."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def spent(command: list[str], environment: dict[str, str], output: str = os.devnull) -> dict[str, float]:
    """Processor and wall seconds of a process and its children, and the peak of the largest in MB. What it prints goes to a file.

    Linux counts the memory of who starts it for its own. Ends the program where it fails.
    """
    begun = time.perf_counter()
    with open(output, "wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}.")
    return {
        "processor": usage.ru_utime + usage.ru_stime, "wall": time.perf_counter() - begun, "peak": usage.ru_maxrss / 1024
    }  # fmt: skip


def launch(verb: str, **flags) -> dict[str, float]:
    """Runs a command of ours on one core; returns what `spent` does."""
    given = [f"--{name}={value}" for name, value in flags.items()]
    environment = os.environ | {
        "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
    }  # fmt: skip
    return spent([*ONE_CORE, sys.executable, "-m", f"launch.{verb}", *given], environment)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(call, count: int) -> dict:
    """Processor and wall seconds of one of `count` calls, after they were made."""
    wall, processor = time.perf_counter(), processor_seconds()
    for _ in range(count):
        call()
    return {
        "processor": (processor_seconds() - processor) / count,
        "wall": (time.perf_counter() - wall) / count,
    }


def alone(
    module: str, arguments: list[str], cores: int = 1, limit: int = 900, more: Mapping[str, str] | None = None
) -> dict:
    """Runs `python -m module arguments` on some cores; returns the JSON object of its last line. `more` are further variables of its
    environment.

    A method that fails, or a library that is absent, gives {"error": its last line}.
    """
    threads = str(cores)
    environment = os.environ | {
        "OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads,
        "OMP_WAIT_POLICY": "passive", "TF_CPP_MIN_LOG_LEVEL": "3", "TOKENIZERS_PARALLELISM": "true" if cores > 1 else "false",
        "KERAS_BACKEND": "tensorflow", "HF_HUB_OFFLINE": "1",
        **(more or {}),
    }  # fmt: skip
    chosen = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
    command = ["taskset", "-c", chosen, sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {limit} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": ([line for line in done.stderr.splitlines() if line.strip()] or ["no result"])[-1][:200]}
    return json.loads(lines[-1])


def rounds(module: str, methods: dict[str, list[str]], count: int, cores: int = 1) -> dict[str, dict]:
    """All methods in turns, `count` times; of each the round with the fewest processor seconds."""
    best: dict[str, dict] = {}
    for number in range(count):
        for name, arguments in methods.items():
            result = alone(module, arguments, cores)
            print(f"round {number + 1}: {name}: {result}", file=sys.stderr, flush=True)
            if name not in best or result.get("processor", 1e9) < best[name].get("processor", 1e9):
                best[name] = result
    return best


def sgemm_peak() -> float:
    """GFLOP per processor second of a large float32 matrix product in TensorFlow, on the cores that this process has."""
    import tensorflow as tf

    a, b = tf.random.normal((1024, 768)), tf.random.normal((768, 3072))
    product = tf.function(lambda: tf.reduce_sum(tf.matmul(a, b)))
    product()
    best = min(timed(product, 20)["processor"] for _ in range(5))
    return 2 * 1024 * 768 * 3072 / best / 1e9


def kind_of_processor() -> str:
    """Returns the instruction sets that decide which kernels run, and whether TensorFlow uses oneDNN by itself."""
    found = processor.instruction_sets() or frozenset()
    known = [name for name in ("avx2", "avx512f", *processor.BRINGS_ONEDNN) if name in found]
    by_itself = "" if found.isdisjoint(processor.BRINGS_ONEDNN) else "; TensorFlow uses oneDNN here by itself"
    only = f"; the libraries limited to {limited_to()} by their own switches" if limited_to() else ""
    return f"Processor with {', '.join(known) or 'unknown instructions'}{by_itself}{only}."


def machine(cores: int) -> str:
    """Returns what was measured on, without names that tell whose machine it is."""
    import importlib.metadata

    found = []
    for package in ("tensorflow", "keras", "torch", "transformers", "keras-hub", "onnxruntime"):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"without {package}")
    versions = f"Python {platform.python_version()}, {', '.join(found)}; {cores} of {os.cpu_count()} cores."
    return f"{versions} {kind_of_processor()}"


def parser_of(description: str) -> argparse.ArgumentParser:
    """The flags of a benchmark whose methods are processes of their own: without a method it starts them all."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", nargs="?", help="one method, in this process")
    for name in ("--folder", "--size"):
        parser.add_argument(name, help="of one method")
    parser.add_argument("--rounds", type=int, default=2, help="in which the methods take turns")
    parser.add_argument("--cores", type=int, default=1, help="that each method may use")
    parser.add_argument(
        "--instructions", choices=LIMITS, action=LimitInstructions, help="measure as on a processor that has only these"
    )
    parser.add_argument("--output", help="file of the page")
    return parser


def prepare(module: str, arguments: list[str]) -> None:
    """Runs what the methods of a benchmark need; ends the program where that fails."""
    made = alone(module, arguments)
    if "error" in made:
        raise SystemExit(f"{arguments[0]}: {made['error']}")


def publish(text: str, output: str | None) -> None:
    """Prints a page, and writes it where a file is named."""
    print(text)
    if output:
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)


def table(columns: list[str], rows: list[list]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    return "\n".join(lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]) + "\n"
