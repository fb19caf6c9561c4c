"""Reads TF_CONFIG, which tells a process who the workers of a job are and which of them it is."""

import dataclasses
import json
from typing import Any

from data_pipelines import strict_json
from data_pipelines.errors import UsageError

EXAMPLE = '{"cluster": {"worker": ["host0:12345", "host1:12345"]}, "task": {"type": "worker", "index": 0}}'
ROLES = ("chief", "worker")  # in this order they are numbered


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a job.

    Attributes:
        addresses: "host:port" of each worker; the chief comes first.
        index: which of them this process is.
    """

    addresses: tuple[str, ...]
    index: int


def read(text: str | None) -> Cluster:
    """Returns the cluster that a value of TF_CONFIG describes.

    Raises:
        UsageError: it is missing, is not such JSON, or names a task that is not in its cluster.
    """
    if not text:
        raise UsageError(
            "--distribution_strategy=multi_worker: the environment variable TF_CONFIG is not set. Every worker needs it, "
            f"with an index of its own: TF_CONFIG='{EXAMPLE}'"
        )
    try:
        value = strict_json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"TF_CONFIG: not JSON ({error.msg} at character {error.pos}): {text:.80}. Expected: {EXAMPLE}"
        ) from None
    jobs, task = _parts(value)
    addresses = [address for role in ROLES for address in jobs.get(role, [])]
    for address in addresses:
        _check_address(address)
    if twice := sorted({a for a in addresses if addresses.count(a) > 1}):
        raise UsageError(f"TF_CONFIG: {twice[0]} is named twice; every worker needs an address of its own.")
    return Cluster(tuple(addresses), _index(jobs, task))


def _parts(value) -> tuple[dict[str, list], dict]:
    """Returns the jobs and the task of a TF_CONFIG, with their types checked."""
    jobs, task = (value.get(name) if isinstance(value, dict) else None for name in ("cluster", "task"))
    if not isinstance(jobs, dict) or not all(isinstance(hosts, list) for hosts in jobs.values()):
        raise UsageError(f'TF_CONFIG: "cluster" must map job names to lists of addresses. Expected: {EXAMPLE}')
    if not isinstance(task, dict) or not isinstance(task.get("index"), int) or isinstance(task.get("index"), bool):
        raise UsageError(f'TF_CONFIG: "task" must hold a "type" and a whole number "index". Expected: {EXAMPLE}')
    if others := [name for name in jobs if name not in ROLES]:
        raise UsageError(
            f"TF_CONFIG: job {others[0]!r} is not used here; all machines train. Name them under "
            f"{' and '.join(ROLES)} only: evaluation is done by the chief, and there are no parameter servers."
        )
    if len(jobs.get("chief", [])) > 1:
        raise UsageError(f"TF_CONFIG: {len(jobs['chief'])} chiefs; there is one at most.")
    return jobs, task


def _check_address(address) -> None:
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"TF_CONFIG: {address!r} is no address; expected host:port, such as host0:12345.")


def _index(jobs: dict[str, list], task: dict) -> int:
    role: Any = task.get("type")  # what the user wrote
    index = task["index"]
    if not jobs.get(role):
        known = " and ".join(f"{name} ({len(hosts)})" for name, hosts in jobs.items() if hosts) or "none"
        raise UsageError(f"TF_CONFIG: the task's type is {role!r}, but the cluster has {known}.")
    if not 0 <= index < len(jobs[role]):
        raise UsageError(
            f"TF_CONFIG: the task's index is {index}, but the cluster has {len(jobs[role])} of type {role}: "
            f"0 to {len(jobs[role]) - 1}."
        )
    return index + (len(jobs.get("chief", [])) if role == "worker" else 0)
