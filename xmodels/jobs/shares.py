"""Shares the work on a file among processes or machines that see the same folder: task I of N works on the I-th part of its rows.

A part is written to `OUTPUT.parts`, with a mark when it is whole. Who ends last joins the parts to `OUTPUT`, in the order of the rows,
and removes the folder. A task that is started again keeps what is whole.
"""

import dataclasses
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from data_pipelines import checksums
from data_pipelines.errors import UsageError
from data_pipelines.files import file_sha256, write_json
from data_pipelines.options.declaration import changed_options
from xmodels.models.folder import read_json

FOLDER, PLAN, MARK = ".parts", "plan.json", ".done"
OWN = (
    "task_index",
    "output_file",
    "overwrite",
    "batch_size",
    "distribution_strategy",
    "num_virtual_devices",
)  # flags in which tasks may differ


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of one task.

    Attributes:
        index: of the task, from 0.
        count: of tasks.
        output: the file that all of them make.
        plan: what all tasks must agree on, as JSON values.
        source: the flag of the file that is shared.
    """

    index: int
    count: int
    output: str
    plan: dict[str, Any]
    source: str = "input_file"

    @property
    def folder(self) -> str:
        return self.output + FOLDER

    @property
    def paths(self) -> list[str]:
        """Where the parts are written, in their order; they end as the output does."""
        ending = os.path.splitext(self.output)[1]
        names = (f"part-{index:05d}-of-{self.count:05d}{ending}" for index in range(self.count))
        return [os.path.join(self.folder, name) for name in names]

    def rows(self, total: int) -> slice:
        """Returns the rows of this task, of so many.

        Raises:
            UsageError: there are fewer rows than tasks.
        """
        if total < self.count:
            raise UsageError(f"--num_tasks={self.count}: --{self.source} has only {total:,} rows. Take fewer tasks.")
        return slice(total * self.index // self.count, total * (self.index + 1) // self.count)

    def work(self, make: Callable[[str], Any], join: Callable[[Sequence[str]], Any]) -> bool:
        """Makes the part of this task, unless it is whole, and the output if all parts are there. Returns whether the output is.

        Args:
            make: writes the part to a path.
            join: writes the output from the paths of all parts.

        Raises:
            UsageError: another task was given other flags.
        """
        os.makedirs(self.folder, exist_ok=True)
        self._agree()
        own = self.paths[self.index]
        if not os.path.isfile(own + MARK):
            make(own)
            write_json(own + MARK, {})
        missing = [str(index) for index, path in enumerate(self.paths) if not os.path.isfile(path + MARK)]
        if os.path.isfile(self.output):
            return True  # another task has joined them meanwhile
        if missing:
            print(
                f"{own}: the part of task {self.index}. {len(missing)} of {self.count} are missing (--task_index="
                f"{', '.join(missing[:10])}{', …' if missing[10:] else ''}); who ends last writes {self.output}."
            )
            return False
        try:
            join(self.paths)
        except FileNotFoundError:
            if not os.path.isfile(self.output):
                raise
            return True  # likewise, while these were read
        shutil.rmtree(self.folder, ignore_errors=True)
        print(f"{self.output}: joined from the parts of {self.count} tasks.")
        return True

    def _agree(self) -> None:
        path = os.path.join(self.folder, PLAN)
        if not os.path.isfile(path):
            write_json(path, self.plan)
        before = read_json(path)
        for name in sorted({*before, *self.plan}):
            if before.get(name) != self.plan.get(name):
                raise UsageError(
                    f"--output_file={self.output}: its parts were begun with another {name}: {before.get(name)!r} then, "
                    f"{self.plan.get(name)!r} now. Give all tasks the same, or remove {self.folder}."
                )


def share_of(options: Any, source: str = "input_file") -> Share | None:
    """Returns the share that options name; None where one process does all.

    Args:
        source: the flag of the file that is shared.

    Raises:
        UsageError: flags contradict each other.
    """
    index, count = options.task_index, options.num_tasks
    if index is None and count is None:
        return None
    if index is None or count is None:
        given, lacks = ("num_tasks", "task_index") if index is None else ("task_index", "num_tasks")
        raise UsageError(f"--{given}: give --{lacks} too; tasks are numbered from 0 to num_tasks - 1.")
    if index >= count:
        raise UsageError(f"--task_index={index}: --num_tasks={count} are numbered from 0 to {count - 1}.")
    path = getattr(options, source)
    if not path or not options.output_file:
        raise UsageError(f"--num_tasks: shares --{source} and joins --output_file. Give both.")
    if getattr(options, "overwrite", False):
        raise UsageError("--overwrite: a task would delete what others make. Remove --output_file before they start.")
    plan = {name: value for name, value in changed_options(options).items() if name not in OWN}
    sums = os.path.join(options.model_dir, checksums.FILE)
    if os.path.isfile(sums):
        plan["checksum of model_dir"] = file_sha256(sums)
    if os.path.isfile(path):
        plan[f"size of {source}"] = os.path.getsize(path)
    return Share(index, count, options.output_file, plan, source)


def count_rows(rows) -> int:
    """Returns how many rows there are, of which none is kept."""
    return sum(1 for _ in rows)
