"""The tasks of a run as streams of its learner: each with batches, a head and a forward pass of its own."""

import dataclasses
import functools
import os
from collections.abc import Mapping

from data_pipelines import layout
from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import DataError, UsageError
from data_pipelines.ops.compose import compose
from data_pipelines.records.checks import check_contents
from data_pipelines.records.source import RecordSource
from xmodels.jobs.pretrain import records as pretraining_records
from xmodels.jobs.pretrain.task_schedule import TaskSchedule, make_schedule
from xmodels.runs import folder as run_folder
from xmodels.training.recipe import Pairs, Recipe, Records
from xmodels.training.states import checkpoints
from xmodels.training.step.streams import Stream, seed_of

FLAGS = ("task_steps", "task_data", "eval_task_data")
LONGER = ("length_schedule", "pack_rows", "length_buckets", "tokens_per_batch")


def check_flags(options, recipe: Recipe) -> None:
    """Raises a UsageError where tasks are asked for that the system does not have, or their batches cannot be made so."""
    given = [name for name in FLAGS if getattr(options, name)]
    # flags.txt of older runs says --task_schedule=continual for every system.
    given += ["task_schedule"] * (options.task_schedule not in (None, "continual"))
    if not recipe.curriculum and given:
        raise UsageError(
            f"--{given[0]}: --system={options.system} has no tasks to choose from. It is there for ernie2, for ernie with "
            "--task_data=dialogue:FOLDER, and for lstm_seq2seq with --task_data=source:FOLDER,target:FOLDER."
        )
    for name in LONGER if recipe.curriculum else ():
        if getattr(options, name) not in (None, False, "none"):
            raise UsageError(
                f"--{name}: rows of --system={options.system} differ from task to task, so it does not know this yet. Leave it out."
            )


def _are_labelled(pairs: RecordSource) -> bool:
    """Returns whether each record has one label, of two or more, for a text or a pair."""
    shapes = {name: feature.shape for name, feature in pairs.features.items()}
    is_text, has_one_label = shapes.get("token_ids") == (None,), shapes.get("labels") == ()
    return is_text and has_one_label and len(pairs.manifest.settings.label_names or ()) >= 2


def open_pairs(options, source: RecordSource, vocabulary_size: int, flag: str = "task_data") -> dict[str, RecordSource]:
    """Returns the records of --task_data, or of another flag, by the name of their task.

    Raises:
        UsageError: the flag is no `NAME:FOLDER,...`.
        DataError: records are neither of `create_finetuning_data --task=classify` nor dialogues or streams, of another vocabulary,
            longer, or of one label.
    """
    found: dict[str, RecordSource] = {}
    given = getattr(options, flag)
    for part in filter(None, (given or "").split(",")):
        name, _, folder = part.partition(":")
        if not name or not folder or name in found:
            raise UsageError(f"--{flag}={given}: expected NAME:FOLDER, such as discourse:pairs; each name once.")
        pairs = RecordSource(folder)
        theirs, ours = pairs.manifest.settings, source.manifest.settings
        if not (are_dialogues(pairs) or are_plain(pairs) or _are_labelled(pairs)):
            kind = f"task {theirs.task}, labels {theirs.label_names}" if theirs.task else f"--packing={theirs.packing}"
            raise DataError(
                f"--{flag}={part}: expected records of `create_finetuning_data --task=classify` with two labels or more, or of "
                f"`create_pretraining_data --packing=dialogue` or stream. Found: {kind}."
            )
        if theirs.vocabulary_sha256 != ours.vocabulary_sha256:
            raise DataError(
                f"--{flag}={part}: made with another vocabulary than {source.name}. Make them with that one."
            )
        if theirs.max_sequence_length > ours.max_sequence_length:
            raise DataError(
                f"--{flag}={part}: rows of {theirs.max_sequence_length} tokens, but those of {source.name} are of "
                f"{ours.max_sequence_length}. Make them with --max_seq_length={ours.max_sequence_length} or less."
            )
        if "input_ids" in pairs.features:
            raise DataError(
                f"--{flag}={part}: static records, whose masks stand in them. Make them with --masking=dynamic."
            )
        check_contents(pairs, vocabulary_size)
        found[name] = pairs
    return found


def are_plain(records: RecordSource) -> bool:
    """Returns whether they are streams of plain text, which need no labels."""
    return records.manifest.settings.packing == "stream"


def are_dialogues(records: RecordSource) -> bool:
    """Returns whether they are threads of turns, which need no labels."""
    kind = layout.find_or_none(records.manifest.settings.packing)
    return kind is not None and kind.read_as == "dialogue"


def open_held_out_pairs(
    options, pairs: Mapping[str, RecordSource], source: RecordSource, size: int
) -> dict[str, RecordSource]:
    """Returns the labelled records of --eval_task_data, by the name of their task.

    Raises:
        UsageError, DataError: as of `open_pairs`; or a task has no training records, or these have other labels or rows.
    """
    found = open_pairs(options, source, size, "eval_task_data")
    for name, theirs in found.items():
        if name not in pairs:
            raise UsageError(f"--eval_task_data={name}:...: --task_data names no records of {name} to learn from.")
        ours, other = pairs[name].manifest.settings, theirs.manifest.settings
        for each in ("label_names", "max_sequence_length"):
            if getattr(ours, each) != getattr(other, each):
                raise DataError(
                    f"--eval_task_data={name}:{theirs.name}: {each} {getattr(other, each)}, but those that are learnt from have "
                    f"{getattr(ours, each)}. Make both with the same flags, and --labels where a file lacks one."
                )
    return found


def add_pairs(records: Records, pairs: Mapping[str, RecordSource]) -> Records:
    """Returns the records with what the recipe must know of labelled ones."""
    settings = {name: source.manifest.settings for name, source in pairs.items()}
    labelled = {
        name: Pairs(
            tuple(s.label_names or ()),
            s.max_sequence_length,
            pretraining_records.units_of(pairs[name]),
            are_plain(pairs[name]),
        )
        for name, s in settings.items()
    }
    return dataclasses.replace(records, labelled=labelled)


def apply_schedule(
    options, recipe: Recipe, source: RecordSource, pairs: Mapping[str, RecordSource]
) -> tuple[Recipe, TaskSchedule | None]:
    """Returns the recipe with the steps of its schedule; None for one without tasks.

    Tasks that usually are learnt together have steps in proportion to their examples (ERNIE's text and dialogues), unless the recipe
    says otherwise.

    Raises:
        UsageError: the flags contradict each other, or the run that --model_dir holds.
    """
    check_flags(options, recipe)
    curriculum = recipe.curriculum
    if curriculum is None:
        return recipe, None
    sizes = {name: pairs.get(name, source).num_examples for name in curriculum.usual}
    schedule = make_schedule(
        options.task_schedule or curriculum.schedule, options.task_steps, options.num_train_steps, curriculum.tasks,
        curriculum.usual, recipe.num_steps, options.seed, curriculum.missing,
        sizes if curriculum.schedule == "joint" and curriculum.by_examples else None,
    )  # fmt: skip
    before = _read_stored_settings(options.model_dir)
    _check_resume(options, before, schedule, pairs)
    warmup = before.get("num_warmup_steps") if options.num_warmup_steps is None else options.num_warmup_steps
    # That of a small network is not for rows of tasks. Runs of older versions name it all the same.
    recipe = dataclasses.replace(recipe, length_schedule=before.get("length_schedule"))
    return recipe.override(num_steps=schedule.num_steps, num_warmup_steps=warmup), schedule


def _read_stored_settings(folder: str) -> dict:
    """Returns the settings of the run in a folder; nothing where it has no state to go on from."""
    if not checkpoints.complete(os.path.join(folder, "checkpoints")):
        return {}
    return run_folder.read_config(folder).get("settings", {})


def _check_resume(options, before: dict, schedule: TaskSchedule, pairs: Mapping[str, RecordSource]) -> None:
    """Raises a UsageError where the stages of the run so far are not the first ones of the schedule, or pairs are others."""
    stages = before.get("task_schedule")
    if stages and not schedule.extends(stages):
        raise UsageError(
            f"--model_dir={options.model_dir}: the stages of this run are {stages}, and {schedule} does not begin with them. "
            f"To add tasks or steps to it, give --task_schedule={stages}/NAME:STEPS,..., without --task_steps and --num_train_steps."
        )
    for name, now in _identities(pairs).items():
        if before.get("task_records", {}).get(name, now) != now:
            raise UsageError(
                f"--task_data={name}:{pairs[name].name}: this run was begun with other records of {name}. Give these to resume it."
            )


def _identities(pairs: Mapping[str, RecordSource]) -> dict[str, str]:
    return {name: pretraining_records.identity(source)["contents_sha256"] for name, source in pairs.items()}


def settings(schedule: TaskSchedule | None, pairs: Mapping[str, RecordSource]) -> dict:
    """Returns what config.json says of the tasks of a run."""
    return {"task_schedule": str(schedule), "task_records": _identities(pairs)} if schedule else {}


def make_streams(
    options, recipe: Recipe, schedule: TaskSchedule, source: RecordSource, pairs: Mapping[str, RecordSource], backbone
) -> dict[str, Stream]:
    """Returns the streams of a learner, in the order in which the tasks join. Call it inside of the scope of the strategy."""
    found = {}
    for name in schedule.tasks:
        task = recipe.curriculum.tasks[name]
        objective, own = task.objective(), pairs[name] if task.labelled else source
        if not task.labelled or are_dialogues(own) or are_plain(own):
            pretraining_records.check_features(options, own, objective, task.packings or recipe.packings)
        seed = seed_of(options.seed, list(recipe.curriculum.tasks).index(name))
        batches = Batches(
            own, compose(task.frame, objective.transform()), recipe.batch_size, seed, objective.batch_features(backbone),
            None, schedule.totals[name],
        )  # fmt: skip
        found[name] = Stream(objective, batches, functools.partial(schedule.share, name))
    return found
