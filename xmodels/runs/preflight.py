"""What must hold before a training begins, whatever is trained: checked by the commands and by `xmodels doctor`.

Imports neither TensorFlow nor Keras, so that a wrong setting is told before either fails on it.
"""

import os
import shutil

from data_pipelines import strict_json
from data_pipelines.errors import DataError, UsageError

STATE_BYTES, HANDED_BYTES = 12, 4  # of a weight: in a state with two moments of the optimizer; in `backbone/`


def check_backend() -> str:
    """Returns the backend that Keras will take, which must be TensorFlow: the training step is written for it.

    Raises:
        UsageError: the environment or Keras' settings name another.
    """
    chosen, where = os.environ.get("KERAS_BACKEND"), "KERAS_BACKEND"
    if not chosen:
        home = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
        where = os.path.join(home, "keras.json")
        chosen = _setting(where, "backend") or "tensorflow"
    if chosen != "tensorflow":
        raise UsageError(
            f"{where}: Keras' backend is {chosen!r}, but the commands train and read data with TensorFlow. Run "
            "`unset KERAS_BACKEND`, or `export KERAS_BACKEND=tensorflow`. (A finished network loads with any backend.)"
        )
    return chosen


def _setting(path: str, name: str) -> str | None:
    """Returns a value of a JSON file, such as Keras' own settings; None where the file is missing or damaged, or has no such
    value."""
    try:
        value = strict_json.read(path)
    except (OSError, ValueError):
        return None
    return value.get(name) if isinstance(value, dict) else None


def find_existing_part(folder: str) -> str:
    """Returns the folder itself, or the nearest one above it that is there."""
    path = os.path.abspath(folder)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def check_writable(folder: str, flag: str = "model_dir") -> None:
    """Checks that a run folder can be made or written.

    Raises:
        DataError: it cannot.
        UsageError: it is that of a task of a joint run, which `multitask` writes.
    """
    found = find_existing_part(folder)
    if not os.path.isdir(found):
        raise DataError(f"--{flag}={folder}: {found} is a file, not a folder. Name a folder, or move the file away.")
    if not os.access(found, os.W_OK | os.X_OK):
        raise DataError(
            f"--{flag}={folder}: {found} may not be written by this user. Run `chmod u+w` on it, or name another folder."
        )
    _check_not_of_joint_run(folder, flag)


def _check_not_of_joint_run(folder: str, flag: str) -> None:
    """Raises a UsageError where the folder is, or will be, that of a task of a joint run: each would overwrite the other."""
    run, name = os.path.split(os.path.realpath(folder))
    config = os.path.join(run, "config.json")
    tasks = _setting(config, "tasks") if _setting(config, "job") == "multitask" else None
    if isinstance(tasks, dict) and name in tasks:
        raise UsageError(
            f"--{flag}={folder}: is the folder of the task {name} of the joint run {run}, which `xmodels multitask` writes. "
            f"Name another folder. (To go on with this task alone, add --init_checkpoint={folder} --init_head.)"
        )


def disk_need(num_parameters: int, kept_states: int) -> int:
    """Returns bytes that a run's folder grows to: its states, one more while it is written, and what is handed over, twice."""
    return num_parameters * ((kept_states + 1) * STATE_BYTES + 2 * HANDED_BYTES)


def check_space(folder: str, need: int, replaced: int = 0, flag: str = "model_dir") -> int:
    """Returns the free bytes of the disk on which a run folder lies or will lie.

    Args:
        need: what the run will write.
        replaced: what it has written already, and will replace.

    Raises:
        DataError: there is not enough room.
    """
    free = shutil.disk_usage(find_existing_part(folder)).free
    if free + replaced < need:
        raise DataError(
            f"--{flag}={folder}: the disk has {format_size(free)} free, but the states of this network need {format_size(need)}. Free "
            f"some space, name a --{flag} on another disk, or take a smaller --size."
        )
    return free


def count_held_bytes(model_dir: str) -> int:
    """Returns what a run folder holds already of what a run writes: its states and its network."""
    tops = [os.path.join(model_dir, name) for name in ("checkpoints", "backbone")]
    found = (os.path.join(folder, name) for top in tops for folder, _, names in os.walk(top) for name in names)
    return sum(os.path.getsize(path) for path in found)


def format_size(num_bytes: float) -> str:
    """Returns 512 B, 3.1 MB, 1.2 GB."""
    for unit in ("B", "kB", "MB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} B" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} GB"
