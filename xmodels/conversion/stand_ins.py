"""Heads that are written as those of another task, for which formats have a word: `WRITTEN_AS` in `convert.py` of a task."""

import dataclasses
import functools
from types import ModuleType

from data_pipelines.errors import UsageError
from xmodels.conversion import formats
from xmodels.models.checkpoint import Checkpoint
from xmodels.tasks.base import find


@functools.cache
def tasks() -> dict[str, ModuleType]:
    """Returns the tasks whose heads are written as those of others, and their `convert.py`."""
    files = {name: find.own(name, "convert") for name in find.names()}
    return {name: file for name, file in files.items() if hasattr(file, "WRITTEN_AS")}


def rename_heads(loaded: Checkpoint) -> Checkpoint:
    """Returns a checkpoint whose head has the name of the task that formats have a word for; others as they stand."""
    known = formats.table_of(loaded.model, loaded.config).tasks if formats.has_table(loaded.model) else ()
    for task in loaded.heads & set(tasks()):
        if tasks()[task].WRITTEN_AS in known:
            return _rename(loaded, task, tasks()[task].WRITTEN_AS)
    return loaded


def as_task(loaded: Checkpoint, task: str | None, source: str) -> Checkpoint:
    """Returns a checkpoint whose head is that of `task`, if this is one that is written as another; otherwise as it stands.

    Raises:
        UsageError: the checkpoint has no such head.
    """
    if task not in tasks() or task in loaded.heads:
        return loaded
    written, missing = tasks()[task].WRITTEN_AS, tasks()[task].MISSING
    if written not in loaded.heads:
        heads = ", ".join(sorted(loaded.heads)) or "none"
        raise UsageError(f"--task={task}: {source} has {missing}. Its heads: {heads}.")
    return _rename(loaded, written, task)


def lost_settings(loaded: Checkpoint) -> list[str]:
    """Returns what no other format has a place for of such heads."""
    lost = [tasks()[task].lost_settings(loaded) for task in loaded.heads & set(tasks())]
    return [each for each in lost if each]


def _rename(loaded: Checkpoint, old: str, new: str) -> Checkpoint:
    before, after = f"objective.{old}.", f"objective.{new}."
    values = {
        after + name.removeprefix(before) if name.startswith(before) else name: value
        for name, value in loaded.values.items()
    }
    return dataclasses.replace(loaded, values=values, heads=(loaded.heads - {old}) | {new})
