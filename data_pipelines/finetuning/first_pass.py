"""The first pass over labelled data: reads and checks all examples in order, and writes the good ones as JSON lines."""

import collections
import dataclasses
import hashlib
import itertools
import json
from typing import Any

from data_pipelines.errors import DataError
from data_pipelines.files import whole_file
from data_pipelines.finetuning.task import Task, label_counts

NAMED = 5  # bad examples that a message names


@dataclasses.dataclass(frozen=True)
class Found:
    """What the first pass found.

    Attributes:
        labels: the names of the labels in the order of their ids; empty for tasks without.
        size: texts a record, for tasks whose records hold several.
        counts: of examples, of labels (`label=NAME`), and of what was left out (`bad REASON`).
        bad: the first examples that cannot be used, as messages.
    """

    labels: list[str]
    size: int
    counts: dict[str, int]
    bad: list[str]


def gather(task: Task, paths: list[str], destination: str) -> Found:
    """Returns the first pass: checks all examples and writes the good ones, a line each, to `destination`.

    Raises:
        DataError: examples that cannot be used, unless they are to be dropped; or there is nothing to learn from.
    """
    counts: collections.Counter = collections.Counter()
    bad, ids, texts, size, width = [], {}, {}, 0, 0
    inputs = paths if task.settings.target_file is None else paths[:1]
    with whole_file(destination, "w") as file:
        for index, raw in enumerate(itertools.chain.from_iterable(map(task.examples, inputs))):
            counts["read"] += 1
            problem = raw.problem
            if raw.id is not None:
                first = ids.setdefault(raw.id, raw.place)
                if first is not raw.place:
                    problem = problem or f"duplicate id: {raw.id!r} stands at {first} already. Rename one"
            if problem:
                counts[f"bad {problem.partition(':')[0]}"] += 1
                if len(bad) < NAMED:
                    bad.append(f"{raw.place}: {f'(id {raw.id}) ' if raw.id is not None else ''}{problem}")
                continue
            counts.update(f"label={label}" for label in task.labels_of(raw.value))
            size, width = max(size, task.size_of(raw.value)), width + 1
            _count_repeats(task, raw.value, texts, counts)
            file.write(json.dumps([index, raw.value], ensure_ascii=False) + "\n")
        counts["accepted"] = width
        return _found(task, counts, size, bad, ",".join(inputs))


def _count_repeats(task: Task, value: dict[str, Any], seen: dict[int, tuple], counts: collections.Counter) -> None:
    text = task.text_of(value)
    if text is None:
        return
    key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    labels = tuple(task.labels_of(value))
    if key in seen:
        counts["repeated"] += 1
        counts["contradicting"] += seen[key] != labels
    else:
        seen[key] = labels


def _found(task: Task, counts: collections.Counter, size: int, bad: list[str], inputs: str) -> Found:
    """Returns what the first pass knows at its end, or the error that ends the run."""
    num_bad = counts["read"] - counts["accepted"]
    if num_bad and task.settings.on_bad_row == "fail":
        raise DataError(
            f"{bad[0]}. {num_bad} of {counts['read']} examples cannot be used"
            + (f"; also {'; '.join(bad[1:])}" if bad[1:] else "")
            + ". Or leave them out with --on_bad_row=skip."
        )
    if not counts["accepted"]:
        raise DataError(f"{inputs}: holds no examples" + (f" that can be used: {bad[0]}." if bad else "."))
    labels = task.labels
    if task.names_labels and labels is None:
        labels = task.sort_labels(label_counts(counts))
        task.check_labels(labels, counts["accepted"], inputs)
    return Found(labels or [], task.record_size(size), dict(counts), bad)
