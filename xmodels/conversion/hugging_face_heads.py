"""Heads of Hugging Face that have one name and several meanings: `classifier.weight` is that of a classifier, a tagger, a regression,
or a chooser, and only config.json tells which."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion.formats import Table, Variables
from xmodels.models.checkpoint import Checkpoint
from xmodels.tasks.base.published_head import CHOICE, MULTI_LABEL, REGRESSION, SEQUENCE, SINGLE_LABEL

PROBLEMS = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)  # of classes `…ForSequenceClassification`
IDENTITY = "torch.nn.modules.linear.Identity"


def task_of_head(
    table: Table, stored: Mapping[str, Any], found: Mapping[str, np.ndarray], config_file: str
) -> str | None:
    """Returns the task that the head of a folder has learnt; None where the folder has no head whose meaning is in doubt.

    Args:
        stored: the contents of `config_file`.
        found: their tensors.

    Raises:
        CheckpointError: the class or the problem is unknown, or the outputs do not suit it.
    """
    form, names = table.hugging_face, table.shared_names
    told = {name for own in names.values() for name in own if name in found} - set(form.names.values())
    present = {name for name in told if not form.is_buffer(name)}
    if not present:
        return None
    known = [name for name, _ in table.classes]
    given = stored.get("architectures") or [None]
    name = given[0] if isinstance(given, list) else given
    if name is not None and name not in known:
        raise CheckpointError(
            f"{config_file}: `architectures` is {name!r:.60}, which does not tell what {min(present)} is for. Known: "
            f"{', '.join(dict.fromkeys(known))}."
        )
    of_class = {label for each, heads in table.classes if each == name for label in heads}
    tasks = [task for task in names if task in of_class and table.tasks[task].problem is None]
    task = tasks[0] if tasks else _task_of_sequences(table, stored, found, config_file)
    outputs = _num_outputs(table, table.tasks[task].kind, found)
    if table.tasks[task].has_one_output and outputs not in (None, 1):
        raise CheckpointError(
            f"{config_file}: the head has {outputs} outputs; expected one number, which is what --task={task} gives a text."
        )
    return task


def _task_of_sequences(table: Table, stored: Mapping[str, Any], found, config_file: str) -> str:
    """Returns the task of a head that reads whole texts."""
    problem = stored.get("problem_type")
    if problem is not None and (not isinstance(problem, str) or problem not in PROBLEMS):
        raise CheckpointError(
            f"{config_file}: unknown `problem_type` {problem!r:.60}; expected one of {', '.join(PROBLEMS)}."
        )
    if _num_outputs(table, SEQUENCE, found) == 1 and problem != MULTI_LABEL:
        problem = REGRESSION  # a softmax over one class would say nothing
    return next(task for task, head in table.tasks.items() if head.problem == (problem or SINGLE_LABEL))


def _num_outputs(table: Table, kind: str, found: Mapping[str, np.ndarray]) -> int | None:
    """Returns the number of outputs of a head of this kind; None where a damaged file does not tell."""
    theirs = table.hugging_face.heads[kind]["head.kernel"]
    return found[theirs].shape[0] if theirs in found and found[theirs].ndim else None


def variables_of(table: Table, task: str | None) -> Variables:
    """Returns the names of Hugging Face without the heads that other tasks than `task` would have under the same names.

    With None those of a classifier stay.
    """
    shared = table.shared_names
    meant = task or next((name for name in shared if table.tasks[name].problem == SINGLE_LABEL), None)
    others = tuple(f"objective.{name}." for name in shared if name != meant)
    return {ours: row for ours, row in table.variables(table.hugging_face).items() if not ours.startswith(others)}


def leave_out_absent(table: Table, variables: Variables, found: Mapping[str, np.ndarray]) -> Variables:
    """Returns the variables without the heads of which only tensors are found that other heads have under the same name."""
    heads: dict[str, set[str]] = {}
    for ours, (theirs, _) in variables.items():
        prefix = next((prefix for prefix in table.groups.values() if ours.startswith(prefix)), "")
        heads.setdefault(prefix, set()).add(theirs)
    absent = []
    for prefix, names in heads.items():
        shared = names & set().union(*(other for each, other in heads.items() if each != prefix))
        if prefix and shared and not (names - shared) & found.keys():
            absent.append(prefix)
    return {ours: row for ours, row in variables.items() if not ours.startswith(tuple(absent))}


def labels_of(table: Table, task: str | None, stored: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the labels that a config.json names; None for a task whose answers have no names, where `transformers` writes some
    nevertheless."""
    return None if task and table.tasks[task].has_one_output else _read_labels(stored)


def _read_labels(stored: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the labels of `id2label`, where it names each class once."""
    names = stored.get("id2label")
    if not isinstance(names, dict) or sorted(names) != sorted(map(str, range(len(names)))):
        return None
    labels = tuple(names[str(index)] for index in range(len(names)))
    return labels if all(isinstance(label, str) for label in labels) and len(set(labels)) == len(labels) else None


def warnings_of(table: Table, loaded: Checkpoint, stored: Mapping[str, Any], config_file: str) -> list[str]:
    """Returns what the reader of a head should know that its config.json does not tell.

    Raises:
        CheckpointError: the names of classes are missing, without which the head is of no use.
    """
    warnings = []
    for task in sorted(loaded.heads & set(table.tasks)):
        head = table.tasks[task]
        head.check_labels(loaded, config_file)
        if head.problem == REGRESSION:
            warnings += _warnings_of_scores(stored, config_file)
        elif head.problem and stored.get("id2label") and _read_labels(stored) is None:
            warnings.append(
                f"{config_file}: `id2label` must name the classes 0, 1, 2, …, each by a text of its own. Found: "
                f"{stored['id2label']!r:.80}. The names are left out."
            )
    return warnings


def _warnings_of_scores(stored: Mapping[str, Any], config_file: str) -> list[str]:
    """Returns that others put a function behind the one output of a head, where they do."""
    further = stored.get("sentence_transformers")
    named = further.get("activation_fn") if isinstance(further, dict) else None
    named = named or stored.get("sbert_ce_default_activation_function")
    if named == IDENTITY or (named is None and stored.get("problem_type") == REGRESSION):
        return []
    function = re.sub(r".*\.", "", str(named)) if named else "Sigmoid"
    return [
        f"{config_file}: the score is the output of the head as it stands; sentence-transformers puts {function} behind it. The "
        "order of scores is the same where that function rises, as a sigmoid does."
    ]


def settings_of(table: Table, loaded: Checkpoint, classes: int) -> dict[str, Any]:
    """Returns what the config.json of a folder says of the head.

    Raises:
        CheckpointError: there are several heads that would have one name.
    """
    heads = sorted(set(table.shared_names) & loaded.heads)
    if len(heads) > 1:
        raise CheckpointError(
            f"A folder of Hugging Face has one head of a task, and this checkpoint has {len(heads)}: {', '.join(heads)}."
        )
    head = table.tasks[heads[0]] if heads else None
    settings: dict[str, Any] = {}
    if classes and not (head and head.kind == CHOICE):
        labels = loaded.labels or [f"LABEL_{index}" for index in range(classes)]
        settings["id2label"] = {str(index): label for index, label in enumerate(labels)}
        settings["label2id"] = {label: index for index, label in enumerate(labels)}
    if head and not head.is_usual:
        settings["problem_type"] = head.problem
    if (
        head and head.problem == REGRESSION
    ):  # sentence-transformers puts a sigmoid behind one output where nothing is said
        settings["sentence_transformers"] = {"activation_fn": IDENTITY}
    return settings
