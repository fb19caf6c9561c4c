"""Labelled data -> sharded, verified records for fine-tuning; many processes, resumable.

Two passes. The first reads and checks the files in order and writes what it accepts as JSON lines, since only then the
labels are known, and since formats such as SQuAD's cannot be cut. The second cuts these lines into as many ranges as
there are shards, and tokenizes each. So a shard depends on the settings only, and records stand in the order of the input.
"""

import collections
import dataclasses
import functools
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from data_pipelines import schema, strict_json
from data_pipelines.corpora.files import expand
from data_pipelines.errors import DataError, ReportedError, UsageError
from data_pipelines.features import Features
from data_pipelines.files import file_sha256, write_json
from data_pipelines.finetuning.first_pass import Found, gather
from data_pipelines.finetuning.listing import TASKS, owner_of, task_class
from data_pipelines.finetuning.task import WINDOW_NUMBERS, Settings, Task, columns_of
from data_pipelines.paths import check_not_input
from data_pipelines.pretraining import tasks_split
from data_pipelines.pretraining.job import Report, ShardJob, default_num_shards, make_records
from data_pipelines.records import folder as record_folder
from data_pipelines.records.encoding import encode_examples
from data_pipelines.records.manifest import MANIFEST, Manifest
from data_pipelines.records.shards import ShardWriter
from data_pipelines.records.workers import run_jobs
from data_pipelines.text.tokenizer import Tokenizer

TOGETHER = 256  # examples that are tokenized in one call
INDEX_FLAG = "--task_index"  # --task names the kind of task here


def complete_settings(settings: Settings) -> Settings:
    """Returns the settings with the numbers of windows that were not given. Raises a UsageError that says what to change."""
    if settings.task not in TASKS:
        raise UsageError(f"--task={settings.task}: unknown. Known: {', '.join(TASKS)}.")
    if settings.max_seq_length < 8:
        raise UsageError(f"--max_seq_length={settings.max_seq_length}: must be at least 8.")
    for name in ("num_choices", "list_size", "num_shards"):
        if getattr(settings, name) < 0:
            raise UsageError(f"--{name}={getattr(settings, name)}: must be at least 0.")
    task = task_class(settings.task)
    if task.needs_vocabulary and not settings.vocab_file:
        raise UsageError(f"missing: --vocab_file, which --task={settings.task} needs.")
    if settings.labels and settings.labels_from:
        raise UsageError("--labels and --labels_from both name the labels; give one of them.")
    if (settings.labels or settings.labels_from) and not task.names_labels:
        raise UsageError(f"--labels and --labels_from are for tasks with named labels, not for --task={settings.task}.")
    for name in vars(settings):
        if getattr(settings, name) is not None and (only := owner_of(name)) not in (None, settings.task):
            raise UsageError(f"--{name} is for --task={only}, not for --task={settings.task}.")
    if settings.label_separator == "":
        raise UsageError("--label_separator=: is empty. Give what stands between two labels, such as |.")
    if settings.on_long_text == "windows" and not task.has_windows:
        raise UsageError(f"--on_long_text=windows: --task={settings.task} reads each text once. Take cut or drop.")
    for name in WINDOW_NUMBERS:
        if (value := getattr(settings, name)) is not None and value < 1:
            raise UsageError(f"--{name}={value}: must be at least 1.")
    settings = dataclasses.replace(settings, **task.window_numbers(settings))
    task(settings).check()
    return settings


def parse_labels(settings: Settings) -> list[str] | None:
    """Returns the labels that the flags name; None where they are to be found in the data."""
    if settings.labels_from:
        labels = Manifest.read(settings.labels_from).settings.label_names
        if not labels:
            raise UsageError(f"--labels_from={settings.labels_from}: these records have no labels.")
        return labels
    labels = [name.strip() for name in (settings.labels or "").split(",") if name.strip()]
    if len(set(labels)) < len(labels):
        raise UsageError(f"--labels={settings.labels}: a label stands twice.")
    return labels or None


def create(
    settings: Settings,
    output_dir: str,
    num_workers: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    report: Report = lambda done, total: None,
) -> Manifest:
    """Writes the records of labelled data into `output_dir`.

    Args:
        resume: continue an unfinished folder made with equal settings; its whole shards are kept.
        overwrite: throw away what the folder holds.
        report: called now and then with (bytes done, bytes in all) of the second pass.

    Raises:
        UsageError: the settings contradict one another, or the folder holds something else.
        DataError: the data or the vocabulary cannot be used; names the file and the line.
    """
    return make_records(prepare(settings, output_dir, num_workers), num_workers, resume, overwrite, report)


def create_share(
    settings: Settings, output_dir: str, task_index: str | None, num_tasks: int | None, num_workers: int = 1,
    report: Report = lambda done, total: None,
) -> Manifest | str:  # fmt: skip
    """Returns the shards of one of several tasks; see `tasks_split`. Each task checks all of the examples, then makes its
    share.

    Args:
        task_index: from "0" to "N-1", or "merge" to join what all tasks have made.

    Returns:
        The manifest if the folder is finished now, else what is left to do, for people.
    """
    tasks_split.check(task_index, num_tasks, num_workers, INDEX_FLAG)
    job = prepare(settings, output_dir, num_workers)
    begun = any(os.path.isfile(os.path.join(output_dir, name)) for name in (record_folder.PLAN, MANIFEST))
    if task_index == tasks_split.MERGE and not begun:
        raise DataError(f"--output_dir={output_dir}: no task has left anything there, so there is nothing to merge.")
    if manifest := record_folder.claim(output_dir, job.described, resume=True, overwrite=False):
        return manifest
    job.gather()
    return tasks_split.make_share(job, task_index, num_tasks, num_workers, report, INDEX_FLAG)


def prepare(settings: Settings, output_dir: str, num_workers: int = 1) -> "Job":
    """Returns what there is to do, from settings that are checked here."""
    settings = complete_settings(settings)
    if num_workers < 1:
        raise UsageError(f"--num_workers={num_workers}: must be at least 1.")
    task = task_class(settings.task)(settings, parse_labels(settings))
    tokenizer = task.open_tokenizer()
    if tokenizer.is_open and task.features(1)["token_ids"].shape != (None,):
        raise UsageError(
            f"--vocab_file={settings.vocab_file}: --tokenizer={tokenizer.kind} keeps the characters of words, for which records of "
            f"--task={settings.task} have no place. Give the file itself to `xmodels finetune --train_file`."
        )
    settings = dataclasses.replace(settings, tokenizer=tokenizer.kind, do_lower_case=tokenizer.do_lower_case)
    inputs = _paths(task)
    check_not_input(inputs, output_dir, vocab_file=settings.vocab_file)
    described = {
        **dataclasses.asdict(settings),
        "known_labels": task.labels,
        "input_sha256": hashlib.sha256("".join(map(file_sha256, inputs)).encode()).hexdigest(),
        "max_sequence_length": settings.max_seq_length,
        "vocabulary_size": len(tokenizer.vocabulary),
        "vocabulary_sha256": tokenizer.sha256,
        "tokenizer": tokenizer.describe(),
    }
    return Job(settings, task, tokenizer, inputs, output_dir, described)


@dataclasses.dataclass
class Job(ShardJob):
    """The records of labelled data. The first pass, `gather`, tells how they are cut; there is no other round."""

    settings: Settings
    task: Task
    tokenizer: Tokenizer
    inputs: list[str]
    folder: str
    described: dict

    def gather(self) -> None:
        """Makes the first pass, unless the folder holds what it gives."""
        if os.path.isfile(f"{self.lines}.json"):  # written behind the lines
            return
        try:
            write_json(f"{self.lines}.json", dataclasses.asdict(gather(self.task, self.inputs, self.lines)))
        except ReportedError:
            record_folder.abandon(self.folder)
            raise

    @property
    def lines(self) -> str:
        return os.path.join(self.folder, record_folder.EXAMPLES)

    @functools.cached_property
    def found(self) -> Found:
        return schema.read(Found, schema.Location(f"{self.lines}.json", advice="Begin anew with --overwrite."))

    @functools.cached_property
    def paths(self) -> list[str]:
        shards = self.settings.num_shards or default_num_shards(os.path.getsize(self.lines))
        return record_folder.shard_paths(self.folder, shards)

    @property
    def write_shard(self) -> Callable:
        return write_part

    @functools.cached_property
    def parts(self) -> list[tuple[int, int]]:
        """The ranges of bytes of the lines, one a shard."""
        return list(itertools.pairwise(cut_lines(self.lines, len(self.paths))))

    def shard_jobs(self, indices: Iterable[int]) -> dict[int, tuple]:
        """Returns the arguments of `write_part` for each shard that is missing."""
        given = self.settings, self.found, self.lines
        return {i: (*given, self.parts[i], self.paths[i], self.plan) for i in self.missing(indices)}

    def write(self, indices: Iterable[int], num_workers: int, report: Report) -> None:
        """Makes those of these shards that are missing."""
        indices = list(indices)
        jobs = self.shard_jobs(indices)
        sizes = {index: self.parts[index][1] - self.parts[index][0] for index in indices}
        total = sum(sizes.values())
        done = total - sum(sizes[index] for index in jobs)
        run_jobs(write_part, jobs, num_workers, lambda read: report(read, total), done)
        report(total, total)

    def finish(self) -> Manifest:
        """Joins what all parts have given."""
        found = self.found
        learnt = {"label_names": found.labels, "texts_per_record": found.size, "bad_examples": found.bad}
        task = task_class(self.settings.task)(self.settings, found.labels)
        features, files = all_features(task, self.tokenizer, found.size), self.tokenizer.files()
        return record_folder.finish(self.folder, self.paths, self.described, features, files, found.counts, learnt)


def _paths(task: Task) -> list[str]:
    """Returns the input files, and behind them the one with translations."""
    settings, paths = task.settings, task.paths()
    if settings.target_file is None:
        return paths
    if len(paths) > 1:
        raise UsageError(f"--target_file: belongs to one --input_file, found {len(paths)}.")
    return [*paths, *expand(settings.target_file, "--target_file")]


def cut_lines(path: str, count: int) -> list[int]:
    """Returns the bytes at which a file is cut into `count` ranges of whole lines; some may be empty."""
    size, cuts = os.path.getsize(path), [0]
    with open(path, "rb") as file:
        for index in range(1, count):
            position = max(cuts[-1], size * index // count)
            if position:
                file.seek(position - 1)
                file.readline()
            cuts.append(file.tell())
    return [*cuts, size]


def write_part(
    settings: Settings,
    found: Found,
    lines: str,
    part: tuple[int, int],
    path: str,
    plan: str,
    progress: Callable[[int], None] = lambda num_bytes: None,
) -> None:
    """Makes one shard from one range of the checked examples, and says so beside it."""
    task = task_class(settings.task)(settings, found.labels)
    tokenizer = task.open_tokenizer()
    features, counts = all_features(task, tokenizer, found.size), collections.Counter()
    with ShardWriter(path) as writer:
        for batch in _batches(lines, part, progress):
            indices, values = zip(*batch, strict=True)
            rows = list(task.encode(list(indices), list(values), tokenizer, found.size, counts))
            counts["examples"] += len(rows)
            rows = [{**row, **tokenizer.vocabulary.token_features(row["token_ids"])} for row in rows]
            if rows:
                writer.write(*encode_examples(columns_of(rows, features)))
    record_folder.store_shard(path, writer.shard(), dict(counts), plan)


def all_features(task: Task, tokenizer: Tokenizer, size: int) -> Features:
    """Returns what a record holds: the features of the task, and what the network reads of each token beside its id."""
    return {**task.features(size), **tokenizer.vocabulary.features}


def _batches(path: str, part: tuple[int, int], progress) -> Iterator[list]:
    with open(path, "rb") as file:
        file.seek(part[0])
        while file.tell() < part[1]:
            batch, start = [], file.tell()
            while file.tell() < part[1] and len(batch) < TOGETHER:
                batch.append(_example(file.readline(), path))
            progress(file.tell() - start)
            yield batch


def _example(line: bytes, path: str) -> Any:
    """Returns an example as the first pass wrote it."""
    try:
        return strict_json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: a line is not valid JSON ({error}). Begin anew with --overwrite.") from None
