"""Model folders and runs of ours. A folder of a network for which there is a table is checked as those of others are."""

import dataclasses
import os
from typing import Any

from data_pipelines.errors import CheckpointError
from xmodels.conversion import formats, names, tensors, vocabularies
from xmodels.layers.mixers import DEFAULT
from xmodels.layers.poolings import parts
from xmodels.models import folder
from xmodels.models.checkpoint import Checkpoint
from xmodels.objectives.find import is_objective
from xmodels.tasks.base.find import JOINT_HEAD, task_class

MANIFEST = "manifest.json"  # what tells a folder of records
# In names of weights of heads, which no other format has: how tasks read states, and a network beside the head.
OF_PRETRAINING = ".generator.", ".mask_decoder."  # which heads of others do not need
OWN_PARTS = ".attention_pooling.", ".layer_mix.", *OF_PRETRAINING
TASK = "task.json"  # what says what a run has learnt
RUN_STATES = "checkpoints"  # and where the states from which it resumes


def read(path: str, allow_pickle: bool = False) -> Checkpoint:
    """Reads a model folder, or that of a run.

    Raises:
        CheckpointError: there is none, or its files do not fit each other.
    """
    path = _model_folder(path)
    folder.check_unchanged(path)
    config, network = folder.read_config(path)
    model, source = folder.name_of(network), os.path.join(path, folder.WEIGHTS)
    values = folder.read_weights(source)
    folder.check_tables(config, values, path)
    labels, tokenizer = folder.read_labels(path), vocabularies.read_ours(path)
    whole = Checkpoint(model, config, values, tokenizer, _labels_of_heads(values), labels, **_read_description(path))
    # Nobody else has a format for a network without a table, or with another mixer. Its weights are checked when they are assigned.
    if not formats.has_table(model) or getattr(config, "mixer", DEFAULT) != DEFAULT:
        return whole
    own = _own_weights(whole)
    loaded = tensors.make_checkpoint(
        {name: value for name, value in values.items() if name not in own},
        {name: (name, axes) for name, axes in formats.table_of(model).axes.items()},
        model,
        config,
        source,
        tokenizer=tokenizer,
        labels=labels,
    )
    return dataclasses.replace(
        whole,
        values=loaded.values | {name: values[name] for name in own},
        heads=loaded.heads | _labels_of_heads(own),
        labels=labels if own else loaded.labels,
        warnings=loaded.warnings,
    )


def write(path: str, loaded: Checkpoint) -> None:
    """Fills the existing folder `path`."""
    tokenizer = loaded.tokenizer
    files, settings = (tokenizer.files, None if tokenizer.unsure else tokenizer.settings) if tokenizer else (None, None)
    folder.write_values(
        path, loaded.model, loaded.config, loaded.values, files, settings, loaded.labels, loaded.system, loaded.pooling,
        loaded.settings.get("label_counts"),
    )  # fmt: skip


def _model_folder(path: str) -> str:
    """Returns the model folder that a path means: itself, or that of a run."""
    run_model = os.path.join(path, folder.BACKBONE_FOLDER)
    if os.path.isfile(os.path.join(run_model, folder.CONFIG)):
        return run_model
    if os.path.isdir(os.path.join(path, RUN_STATES)):
        raise CheckpointError(
            f"{path}: this run is not finished, so it has no {folder.BACKBONE_FOLDER}/ yet. The command that began it resumes it; its "
            f"flags stand in {path}/flags.txt."
        )
    names.check_folder(path)
    if os.path.isfile(os.path.join(path, MANIFEST)) and not os.path.isfile(os.path.join(path, folder.CONFIG)):
        raise CheckpointError(f"{path}: holds records, not a network. Records are named by --data_dir.")
    return path


def _own_weights(loaded: Checkpoint) -> set[str]:
    """Returns the names of the weights that no table says: those of heads that other formats do not have, or not all of."""
    table = formats.table_of(loaded.model)
    # A head that reads several poolings side by side is wider than the table says.
    is_wide = len(parts(loaded.pooling or "")) > 1
    known = {head.label for head in table.heads}
    known -= {label for label, head in table.tasks.items() if is_wide or head.own_flags(loaded)}
    return {
        name
        for name in loaded.values
        if _head_of(name) not in (None, *known) or any(part in name for part in OWN_PARTS)
    }


def _labels_of_heads(values) -> frozenset[str]:
    return frozenset(name.split(".")[1] for name in values if name.startswith("objective."))


def _read_description(path: str) -> dict[str, Any]:
    """Returns what a model folder says of itself beside its network, and the run that it lies in of its task."""
    task = os.path.join(os.path.dirname(os.path.abspath(path)), TASK)
    is_of_run = os.path.basename(os.path.abspath(path)) == folder.BACKBONE_FOLDER and os.path.isfile(task)
    settings = folder.read_json(task).get("settings") if is_of_run else None
    settings = settings if isinstance(settings, dict) else {}
    if not is_of_run and (counts := folder.read_label_counts(path)):
        settings = {"label_counts": counts}
    return {"system": folder.read_system(path), "pooling": folder.read_pooling(path), "settings": settings}


def _head_of(name: str) -> str | None:
    """Returns the label of the task or objective of ours to which a weight belongs; None for other weights."""
    prefix, _, rest = name.partition(".")
    label = rest.partition(".")[0]
    known = label.startswith(JOINT_HEAD) or task_class(label) is not None or is_objective(label)
    return label if prefix == "objective" and known else None
