"""Shares the work of one folder of records among machines that need nothing in common but the files.

Task I of N makes the shards I, I + N, I + 2N and so on. The tasks share `output_dir`, or each has its own and these are
copied together afterwards. Since a shard depends on the settings alone, the folder comes out as from one machine.

Layouts that merge all parts, such as counts over the corpus, take two rounds likewise: in the first every task collects its parts.

Removing duplicates takes two rounds, because what is dropped depends on the whole corpus: in the first every task leaves
fingerprints of its parts and ends; when all are there, one decision is made; in the second every task makes its shards.
"""

import os

from data_pipelines.corpora.corpus import Corpus
from data_pipelines.errors import DataError, UsageError
from data_pipelines.pretraining.job import Job, Report, prepare
from data_pipelines.pretraining.settings import Settings
from data_pipelines.records.folder import PLAN, claim, remove_leftovers
from data_pipelines.records.manifest import MANIFEST, Manifest

MERGE = "merge"


def is_shared(task: str | None, num_tasks: int | None, overwrite: bool) -> bool:
    """Returns whether flags make a command one of several tasks. Raises a UsageError where it would delete what others make."""
    shared = task is not None or num_tasks is not None
    if shared and overwrite:
        raise UsageError("--overwrite: a task would delete what others make. Empty --output_dir before they start.")
    return shared


def create_share(
    settings: Settings,
    output_dir: str,
    task: str,
    num_tasks: int | None,
    num_workers: int = 1,
    report: Report = lambda done, total: None,
    corpus: Corpus | None = None,
) -> Manifest | str:
    """Makes the shards of one task; what of them is whole in the folder is kept.

    Args:
        task: from "0" to "N-1", or "merge" to join what all tasks have made.
        corpus: what `settings.open_corpus` gave, if it was called before.

    Returns:
        The manifest if the folder is finished now, else what is left to do, for people.

    Raises:
        UsageError: the task does not fit, or the folder was begun with other settings.
        DataError: the corpus or the vocabulary cannot be used, or there is not yet all to merge.
    """
    check(task, num_tasks, num_workers)
    return make_share(prepare(settings, output_dir, corpus), task, num_tasks, num_workers, report)


def make_share(
    job, task: str, num_tasks: int | None, num_workers: int, report: Report, flag: str = "--task"
) -> Manifest | str:
    """Returns the same for any job of shards, such as `pretraining_data.Job`, whose task `flag` numbers."""
    try:
        if task == MERGE:
            return _merge(job, num_tasks, flag)
        return _work(job, int(task), num_tasks, num_workers, report, flag)
    except FileNotFoundError:
        if not os.path.isfile(os.path.join(job.folder, MANIFEST)):
            raise
        return claim(job.folder, job.described, resume=True, overwrite=False)  # another task finished it meanwhile


def check(task: str | None, num_tasks: int | None, num_workers: int, flag: str = "--task") -> None:
    """Raises a UsageError that names the flag that cannot work."""
    if num_workers < 1:
        raise UsageError(f"--num_workers={num_workers}: must be at least 1.")
    if task == MERGE:
        return
    if task is None or num_tasks is None or not task.isdecimal() or not int(task) < num_tasks:
        raise UsageError(
            f"{flag}={task} --num_tasks={num_tasks}: give both, tasks are numbered from 0 to num_tasks - 1; or "
            f"{flag}={MERGE} to join what they have made."
        )


def _work(job: Job, task: int, num_tasks: int, num_workers: int, report: Report, flag: str) -> Manifest | str:
    everything = range(len(job.paths))
    if num_tasks > len(everything):
        raise UsageError(
            f"--num_tasks={num_tasks}: there are only {len(everything)} shards to make. Raise --num_shards (for every "
            "task alike), or take fewer tasks."
        )
    mine = everything[task::num_tasks]
    if manifest := claim(job.folder, job.described, resume=True, overwrite=False):
        return manifest
    remove_leftovers(job.paths[index] for index in mine)
    job.fingerprint(mine, num_workers, report)
    if not job.decided(mine):
        if waiting := job.unmarked(everything):
            return (
                f"{job.folder}: task {task} has read its parts for duplicates. Round one ends when {_tasks(waiting, num_tasks)} "
                "have, too; then run every task once more with the same command. (Folders of their own: copy them "
                f"together, run {flag}={MERGE}, and give each task a copy of the result.)"
            )
        job.decide()
    if job.merges:
        job.collect(mine, num_workers, report)
    if job.merges and job.missing(mine) and (waiting := job.uncollected(everything)):
        return (
            f"{job.folder}: task {task} has collected its parts. Shards are made when {_tasks(waiting, num_tasks)} have, too; then "
            "run every task once more with the same command. (Folders of their own: copy them together, and give each task a copy.)"
        )
    job.write(mine, num_workers, report)
    if missing := job.missing(everything):
        if os.path.isfile(os.path.join(job.folder, MANIFEST)):
            return Manifest.read(job.folder)
        return (
            f"{job.folder}: task {task} has made its {len(mine)} shard(s). {_tasks(missing, num_tasks)} have not; who ends "
            f"last writes the manifest. (Folders of their own: copy them together and run {flag}={MERGE}.)"
        )
    return job.finish()


def _merge(job: Job, num_tasks: int | None, flag: str) -> Manifest | str:
    everything = range(len(job.paths))
    if not any(os.path.isfile(os.path.join(job.folder, name)) for name in (PLAN, MANIFEST)):
        raise DataError(f"--output_dir={job.folder}: no task has left anything there, so there is nothing to merge.")
    if manifest := claim(job.folder, job.described, resume=True, overwrite=False):
        return manifest
    missing = job.missing(everything)
    if not missing:
        return job.finish()
    if not job.decided(missing):
        if waiting := job.unmarked(everything):
            raise DataError(
                f"{job.folder}: {len(waiting)} of {len(everything)} parts have not been read for duplicates; run "
                f"{_tasks(waiting, num_tasks)} first."
            )
        job.decide()
        return (
            f"{job.folder}: it is decided which documents are dropped. Run every task once more with the same command "
            "(where it works in a folder of its own, copy this one there before)."
        )
    if job.merges:
        if waiting := job.uncollected(everything):
            raise DataError(
                f"{job.folder}: {len(waiting)} of {len(everything)} parts have not been collected; run "
                f"{_tasks(waiting, num_tasks)} first."
            )
        return (
            f"{job.folder}: all parts are collected. Run every task once more with the same command (where it works in a folder of "
            "its own, copy this one there before)."
        )
    names = ", ".join(os.path.basename(job.paths[index]) for index in missing[:3])
    raise DataError(
        f"{job.folder}: {len(missing)} of {len(everything)} shards are missing or cut, such as {names}. Run "
        f"{_tasks(missing, num_tasks)} again, or copy the missing files (each .tfrecord and its .json) there."
    )


def _tasks(indices: list[int], num_tasks: int | None) -> str:
    """Returns whose shards these are: "the tasks 0, 2"."""
    if num_tasks is None:
        return "the tasks that make them"
    return f"the tasks {', '.join(str(task) for task in sorted({index % num_tasks for index in indices}))}"
