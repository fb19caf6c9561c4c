"""Heads of Hugging Face that have one name and several meanings: `classifier.weight` is that of a classifier, a tagger, a regression,
or a chooser, and only config.json tells which."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from data_pipelines.errors import CheckpointError
from xmodels.conversion.formats import HuggingFace, Variables
from xmodels.models.checkpoint import Checkpoint
from xmodels.tasks.base.find import task_class

PROBLEMS = {  # of classes `…ForSequenceClassification`
    "single_label_classification": "classify",
    "multi_label_classification": "multi_label",
    "regression": "regress",
}
ONE_OUTPUT = ("regress", "choose")
IDENTITY = "torch.nn.modules.linear.Identity"


def names_of_heads(form: HuggingFace) -> dict[str, set[str]]:
    """Returns their names of the weights of each task of ours whose head has a name in common with that of another task."""
    names: dict[str, set[str]] = {}
    for ours, (theirs, _) in form.variables.items():
        label = ours.split(".")[1]
        if ours.startswith("objective.") and task_class(label):
            names.setdefault(label, set()).add(theirs)
    return {
        label: own
        for label, own in names.items()
        if any(own & other for another, other in names.items() if another != label)
    }


def task_of_head(
    form: HuggingFace, stored: Mapping[str, Any], found: Mapping[str, np.ndarray], config_file: str
) -> str | None:
    """Returns the task that the head of a folder has learnt; None where the folder has no head whose meaning is in doubt.

    Args:
        stored: the contents of `config_file`.
        found: their tensors.

    Raises:
        CheckpointError: the class or the problem is unknown, or the outputs do not suit it.
    """
    names = names_of_heads(form)
    present = {name for own in names.values() for name in own if name in found and not form.is_buffer(name)}
    if not present:
        return None
    known = [name for name, _ in form.architectures]
    given = stored.get("architectures") or [None]
    name = given[0] if isinstance(given, list) else given
    if name is not None and name not in known:
        raise CheckpointError(
            f"{config_file}: `architectures` is {name!r:.60}, which does not tell what {min(present)} is for. Known: "
            f"{', '.join(dict.fromkeys(known))}."
        )
    of_class = {label for each, heads in form.architectures if each == name for label in heads}
    tasks = of_class & set(names) - set(PROBLEMS.values())
    task = tasks.pop() if tasks else _problem(stored, _num_outputs(form, "classify", found), config_file)
    outputs = _num_outputs(form, task, found)
    if task in ONE_OUTPUT and outputs not in (None, 1):
        raise CheckpointError(
            f"{config_file}: the head has {outputs} outputs; expected one number, which is what --task={task} gives a text."
        )
    return task


def _problem(stored: Mapping[str, Any], outputs: int | None, config_file: str) -> str:
    """Returns the task of a classifier of texts."""
    problem = stored.get("problem_type")
    if problem is not None and (not isinstance(problem, str) or problem not in PROBLEMS):
        raise CheckpointError(
            f"{config_file}: unknown `problem_type` {problem!r:.60}; expected one of {', '.join(PROBLEMS)}."
        )
    if outputs == 1 and problem != "multi_label_classification":
        return "regress"  # a softmax over one class would say nothing
    return PROBLEMS[problem] if problem else "classify"


def _num_outputs(form: HuggingFace, task: str, found: Mapping[str, np.ndarray]) -> int | None:
    """Returns the number of outputs of the head of a task; None where a damaged file does not tell."""
    theirs, _ = form.variables[f"objective.{task}.head.kernel"]
    return found[theirs].shape[0] if theirs in found and found[theirs].ndim else None


def variables_of(form: HuggingFace, task: str | None) -> Variables:
    """Returns the names of a format without the heads that other tasks than `task` would have under the same names.

    With None those of a classifier stay.
    """
    others = set(names_of_heads(form)) - {task or "classify"}
    return {ours: row for ours, row in form.variables.items() if _label(ours) not in others}


def _label(ours: str) -> str | None:
    return ours.split(".")[1] if ours.startswith("objective.") else None


def labels_of(task: str | None, labels: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Returns the labels that `id2label` names; None for a task whose answers have no names, where `transformers` writes some
    nevertheless."""
    return None if task in ONE_OUTPUT else labels


def check_tags(loaded: Checkpoint, config_file: str) -> None:
    """Raises a CheckpointError where the tags of a tagger have no names, without which no span can be read from them."""
    if "tag" in loaded.heads and loaded.labels is None:
        raise CheckpointError(
            f"{config_file}: `id2label` must give each of the {len(loaded.values['objective.tag.head.bias'])} tags a name of its "
            "own, such as O, B-PER and I-PER."
        )


def notes(task: str | None, stored: Mapping[str, Any], config_file: str) -> tuple[str, ...]:
    """Returns what the reader of a head with one output should know: others may put a function behind it."""
    further = stored.get("sentence_transformers")
    named = further.get("activation_fn") if isinstance(further, dict) else None
    named = named or stored.get("sbert_ce_default_activation_function")
    if task != "regress" or named == IDENTITY or (named is None and stored.get("problem_type") == "regression"):
        return ()
    function = re.sub(r".*\.", "", str(named)) if named else "Sigmoid"
    return (
        f"{config_file}: the score is the output of the head as it stands; sentence-transformers puts {function} behind it. The "
        "order of scores is the same where that function rises, as a sigmoid does.",
    )


def settings_of(form: HuggingFace, loaded: Checkpoint, classes: int) -> dict[str, Any]:
    """Returns what the config.json of a folder says of the head.

    Raises:
        CheckpointError: there are several heads that would have one name.
    """
    heads = sorted(set(names_of_heads(form)) & loaded.heads)
    if len(heads) > 1:
        raise CheckpointError(
            f"A folder of Hugging Face has one head of a task, and this checkpoint has {len(heads)}: {', '.join(heads)}."
        )
    settings: dict[str, Any] = {}
    if classes and "choose" not in heads:
        labels = loaded.labels or [f"LABEL_{index}" for index in range(classes)]
        settings["id2label"] = {str(index): label for index, label in enumerate(labels)}
        settings["label2id"] = {label: index for index, label in enumerate(labels)}
    if heads and heads[0] in ("multi_label", "regress"):
        settings["problem_type"] = next(problem for problem, task in PROBLEMS.items() if task == heads[0])
    if "regress" in heads:  # for sentence-transformers, which puts a sigmoid behind one output where nothing is said
        settings["sentence_transformers"] = {"activation_fn": IDENTITY}
    return settings
