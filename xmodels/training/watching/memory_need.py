"""How much memory a training step takes, summary from the sizes of the network: an estimate, before anything is built.

Of BERT-mini and BERT-base on a CPU it was 3 to 11 % below the measured peaks of a prototype of the training step.
"""

import contextlib
import pathlib
import shutil
import subprocess

import psutil

from data_pipelines.errors import DeviceError
from xmodels.models.config import Config
from xmodels.training.watching.progress import print_status

CONTROL_GROUP = "/sys/fs/cgroup"
PROCESS_BYTES = 1_200_000_000  # Python with TensorFlow, before any network
STEP_BYTES = 16  # of a weight: itself, its gradient, two moments of the optimizer, in float32


def activation_bytes(
    config: Config,
    rows: int,
    length: int,
    num_predictions: int = 0,
    half: bool = False,
    rematerialize: bool = False,
) -> int:
    """Returns what a step keeps for its backward pass: what the network says of itself (`kept_bytes`), and behind its layers 12
    bytes, three values, for each piece of the vocabulary at each hidden token.

    Args:
        rows, length: of the batch of one device.
        num_predictions: hidden tokens in a row.
        half: whether activations are of 16 bits.
        rematerialize: whether layers are computed again, so that only their inputs and one of them are kept.
    """
    layers = rows * length * config.kept_bytes(length, rematerialize)
    pieces = config.values().get("vocabulary_size", 0)  # sets have none
    return (layers + 12 * rows * num_predictions * pieces) // (2 if half else 1)


def free_bytes(on_gpu: bool = False) -> int | None:
    """Returns free memory of the first GPU, or of this machine; less where a container has a limit. None if nobody says."""
    if on_gpu:
        return _free_on_gpu()
    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError, KeyError):  # version 2 of control groups; "max" means no limit
        group = pathlib.Path(CONTROL_GROUP)
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        files = int(statistics["inactive_file"]) + int(statistics["active_file"])  # given back when memory is short
        free = min(free, limit - used + files)
    return free


def process_bytes() -> int:
    """Returns what this process holds in memory now."""
    return psutil.Process().memory_info().rss


def _free_on_gpu() -> int | None:
    if not shutil.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=5)
        return int(done.stdout.split()[0]) * 1024**2
    except (OSError, subprocess.TimeoutExpired, IndexError, ValueError):
        return None


def check_memory(num_parameters: int, activations: int, free: int | None, on_gpu: bool = False, taken: int = 0) -> str:
    """Compares what a run needs with what is free.

    Args:
        num_parameters: of network and heads.
        activations: as `activation_bytes` tells.
        taken: what this process has already taken of it.

    Returns:
        What it needs, in words.

    Raises:
        DeviceError: weights, gradients and moments alone do not fit. (Where only the activations do not, a warning is
            said, since these are an estimate.)
    """
    lasting = STEP_BYTES * num_parameters + (0 if on_gpu else PROCESS_BYTES)
    need = lasting + activations
    where = "on the GPU" if on_gpu else "in memory"
    summary = f"about {need / 1e9:.1f} GB {where} ({num_parameters / 1e6:.1f} million weights, activations {activations / 1e9:.1f} GB)"
    if free is None or need <= free + taken:
        return summary
    available = f"{(free + taken) / 1e9:.1f} GB are free"
    if lasting > free + taken:
        raise DeviceError(
            f"A step needs {summary}, but {available}. Take a smaller --size, or a machine with more memory."
        )
    print_status(
        f"Warning: a step needs {summary}, but {available}. Take a smaller --train_batch_size or shorter examples."
    )
    return summary
