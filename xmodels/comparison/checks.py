"""Reads a plan and checks all of it before anything runs: keys, types, names, flags, files."""

import dataclasses
import difflib
import glob
import importlib
import os
import re
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from data_pipelines import layout, strict_yaml
from data_pipelines.errors import ReportedError, UsageError
from data_pipelines.files import file_sha256
from data_pipelines.options.declaration import Option, nearest, options_of
from data_pipelines.schema import Location, convert, fields
from xmodels import systems
from xmodels.comparison.arms import BAG, MAJORITY, RANDOM, VECTORS, list_arms
from xmodels.comparison.labelled import check_tasks, get_flag
from xmodels.comparison.plan import BEST, NAME, Plan, System
from xmodels.tasks.base import find

OPTIONS = {
    "train_vocabulary": "data_pipelines.options.train_vocabulary",
    "create_pretraining_data": "data_pipelines.options.create_pretraining_data",
    "pretrain": "xmodels.jobs.pretrain.options",
    "finetune": "xmodels.jobs.finetune.options",
}
# Flags that the comparison gives itself, and the key of the plan that decides them.
OWN = {
    "train_vocabulary": {
        "input_file": "corpus.train", "language": "language", "vocab_size": "vocabulary.size", "output_file": None,
        "tokenizer": "vocabulary.tokenizer", "overwrite": None,
    },
    "create_pretraining_data": {
        "input_file": "corpus.train", "language": "language", "vocab_file": "vocabulary", "output_dir": None, "resume": None,
        "max_seq_length": "pretraining.max_seq_length", "overwrite": None, "task": None, "num_tasks": None,
    },
    "pretrain": {
        "system": "systems.NAME.system", "size": "systems.NAME.size", "data_dir": "corpus", "eval_data_dir": "corpus",
        "model_dir": None, "num_train_steps": "budget", "resume": None, "seed": "pretraining.seeds",
        "eval_every": "pretraining.evaluations", "eval_steps": "pretraining.eval_steps", "dry_run": None,
        "max_seq_length": "pretraining.max_seq_length", "log_steps": None, "input_file": None, "vocab_file": None,
        "tokens_per_batch": "pretraining.train_batch_size",
    },
    "finetune": {
        "task": "tasks.NAME.task", "init_checkpoint": None, "random_init": "baselines.random", "train_file": "tasks.NAME.train",
        "eval_file": "tasks.NAME.dev", "test_file": "tasks.NAME.test", "model_dir": None, "resume": None, "dry_run": None,
        "seed": "finetuning.seeds", "data_dir": None, "text_column": "tasks.NAME.text_column",
        "delimiter": None, "text_pair_column": "tasks.NAME.text_pair_column", "label_column": "tasks.NAME.label_column",
    },
}  # fmt: skip
OF_COST = ("train_batch_size", "gradient_accumulation_steps", "length_schedule", "pack_row_length")
IN_PLAN = {"pretrain": {"train_batch_size": "pretraining.train_batch_size"}}  # a system may have another


@dataclasses.dataclass(frozen=True)
class Lined(Location):
    """A place in a plan, which knows the line of each key."""

    lines: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def fault(self, what: str) -> ReportedError:
        key = self.key
        while key and key not in self.lines:  # what is missing has the line of what should hold it
            key = key.rpartition(".")[0]
        where = f", line {self.lines[key]}" if key else ""
        return self.error(f"{self.file}{where}: {what} {self.advice}".rstrip())

    def unknown_key_error(self, name: str, known: Iterable[str]) -> ReportedError:
        """Returns the error about a key that there is not."""
        place = self.at(name)
        return place.fault(f"unknown key `{place.key}`.{nearest(name, known)}")


def read_plan(path: str, variables: Mapping[str, str]) -> tuple[Plan, Lined]:
    """Returns the plan of a file, whose keys, types and names are checked.

    Raises:
        DataError: names the file, the line, the key, what was found and what is expected.
    """
    value, lines = strict_yaml.read(path, variables, "--plan", "docs/compare.md shows one.")
    place = Lined(path, verdict="", lines=lines)
    _check_keys(value, Plan, place)
    plan = convert(value, Plan, place)
    _check_budget(plan, place.at("budget"))
    _check_arms(plan, place)
    _check_tasks(plan, place)
    _check_flags(plan, place)
    return plan, place


def check_surroundings(plan: Plan, place: Lined) -> list[str]:
    """Returns what needs files and the systems: corpora, labelled tables, records that each system can read. Returns warnings.

    Raises:
        ReportedError: of the kind that fits.
    """
    warnings = check_files(plan, place)
    for name, system in plan.systems.items():
        _check_system(name, system, place.at("systems").at(name))
        _check_lengths(plan, name, system, place)
    if plan.baselines.word_vectors:
        _check_size(
            systems.for_baseline(VECTORS), plan.baselines.word_vectors.size, place.at("baselines").at("word_vectors")
        )
    return warnings


def check_files(plan: Plan, place: Lined) -> list[str]:
    """Returns what is wrong with the corpora and tables, without a look at any system. Returns warnings."""
    for name in ("train", "heldout"):
        _check_corpus(getattr(plan.corpus, name), place.at("corpus").at(name))
    _check_apart(plan, place.at("corpus").at("heldout"))
    return check_tasks(plan, place.at("tasks"))


def _check_keys(value: Any, wanted: Any, place: Lined) -> None:
    """Raises where a key is unknown, with those that are like it."""
    if typing.get_origin(wanted) is Annotated:
        wanted = typing.get_args(wanted)[0]
    kinds = [wanted, *typing.get_args(wanted)]
    kind = next((each for each in kinds if dataclasses.is_dataclass(each)), None)
    if kind is None or not isinstance(value, dict):
        return
    if kind is not wanted and typing.get_origin(wanted) is dict:
        for name, inner in value.items():
            _check_keys(inner, kind, place.at(name))
        return
    known = fields(kind)
    for name, inner in value.items():
        if name not in known:
            raise place.unknown_key_error(name, known)
        _check_keys(inner, known[name], place.at(name))


def _check_budget(plan: Plan, place: Lined) -> None:
    if len(plan.budget.given) != 1:
        found = ", ".join(plan.budget.given) or "none"
        raise place.fault(
            f"`budget` must hold exactly one of {', '.join(vars(plan.budget))}, equal for all systems. Found: {found}."
        )


def _check_arms(plan: Plan, place: Lined) -> None:
    if not plan.systems:
        raise place.at("systems").fault("`systems` must name one system at least. Found: none.")
    known = systems.names()
    for name, system in plan.systems.items():
        here = place.at("systems").at(name)
        _check_name(name, here)
        if name in (MAJORITY, BAG, VECTORS, BEST) or name.startswith(f"{RANDOM}-"):
            raise here.fault(f"`{here.key}`: this name is that of a baseline. Choose another.")
        if (system.system or name) not in known:
            near = difflib.get_close_matches(system.system or name, known, 3) or known
            key = here.at("system").key if system.system else here.key
            raise here.at("system").fault(
                f"`{key}`: there is no system {system.system or name!r}. Did you mean {' or '.join(near)}? An arm of another "
                "name says which system it is with `system`."
            )
    for i, name in enumerate(plan.baselines.random):
        if name not in plan.systems:
            here = place.at("baselines").at("random").at(i)
            raise here.fault(f"`{here.key}`: {name!r} is none of `systems`.{nearest(name, plan.systems)}")
    trained = systems.for_baseline(VECTORS)
    if plan.baselines.word_vectors and plan.baselines.word_vectors.system not in (None, trained):
        here = place.at("baselines").at("word_vectors").at("system")
        raise here.fault(f"`{here.key}`: word vectors are those of {trained}; leave the key out.")
    names = [arm.name for arm in list_arms(plan)]
    if plan.reference not in (BEST, *names):
        raise place.at("reference").fault(
            f"`reference`: there is no arm {plan.reference!r}.{nearest(plan.reference, (BEST, *names))}"
        )


def _check_name(name: str, place: Lined) -> None:
    if not re.fullmatch(NAME, name):
        raise place.fault(
            f"`{place.key}`: a name is part of file names, so it holds letters, digits, `_`, `-` and `.` only. Found: {name!r:.60}."
        )


def _check_tasks(plan: Plan, place: Lined) -> None:
    if not plan.tasks:
        raise place.at("tasks").fault("`tasks` must name one task at least. Found: none.")
    for name, task in plan.tasks.items():
        here = place.at("tasks").at(name)
        _check_name(name, here)
        if task.task in find.able("NEEDS_PAIRS") and task.text_pair_column is None:
            raise here.fault(f"`{here.key}`: {task.task} compares two texts; name the second with text_pair_column.")
        paths = [task.train, task.dev, task.test]
        if len(set(paths)) < 3:
            raise here.fault(f"`{here.key}`: train, dev and test must be different files. Found: {', '.join(paths)}.")
    if plan.finetuning.tuning_seeds > len(plan.finetuning.seeds):
        here = place.at("finetuning").at("tuning_seeds")
        raise here.fault(
            f"`{here.key}`: {plan.finetuning.tuning_seeds}, but there are {len(plan.finetuning.seeds)} seeds."
        )


def _check_flags(plan: Plan, place: Lined) -> None:
    """Checks that every flag of the plan is one of its verb, and none that the comparison gives itself."""
    shared = set(_options("train_vocabulary")) & set(_options("create_pretraining_data"))
    for name in plan.corpus.flags:
        if name not in shared:
            here = place.at("corpus").at("flags")
            raise here.at(name).fault(
                f"`{here.at(name).key}`: is not a flag of how text is read.{nearest(name, shared)}"
            )
    found: list[tuple[str, Mapping[str, Any], Lined]] = [
        ("create_pretraining_data", plan.corpus.flags, place.at("corpus").at("flags")),
        ("train_vocabulary", plan.vocabulary.flags, place.at("vocabulary").at("flags")),
        ("create_pretraining_data", plan.records, place.at("records")),
        ("pretrain", plan.pretraining.flags, place.at("pretraining").at("flags")),
        ("pretrain", plan.pretraining.tune, place.at("pretraining").at("tune")),
        ("finetune", plan.finetuning.flags, place.at("finetuning").at("flags")),
        ("finetune", plan.finetuning.tune, place.at("finetuning").at("tune")),
    ]
    for name, task in plan.tasks.items():
        found.append(("finetune", task.flags, place.at("tasks").at(name).at("flags")))
    several = [(system, place.at("systems").at(name)) for name, system in plan.systems.items()]
    if plan.baselines.word_vectors:
        several.append((plan.baselines.word_vectors, place.at("baselines").at("word_vectors")))
    for system, here in several:
        found += [
            ("create_pretraining_data", system.records, here.at("records")),
            ("pretrain", system.flags, here.at("flags")),
            ("pretrain", system.tune or {}, here.at("tune")),
            ("finetune", system.finetune, here.at("finetune")),
        ]
        if system.vocabulary:
            found.append(("train_vocabulary", system.vocabulary.flags, here.at("vocabulary").at("flags")))
    for verb, flags, here in found:
        of_all = here.key.startswith("pretraining.")
        for name, value in flags.items():
            _check_flag(verb, name, value, here.at(name), of_all)
            if name in OF_COST and here.key.endswith("tune"):
                raise here.at(name).fault(
                    f"`{here.at(name).key}`: --{name} changes what a step costs, so it cannot be tuned within one budget. Name two "
                    "systems with different `flags` instead."
                )


def _check_flag(verb: str, name: str, value: Any, place: Lined, of_all: bool) -> None:
    known, own = _options(verb), OWN[verb] | (IN_PLAN.get(verb, {}) if of_all else {})
    if name in own:
        instead = f"; `{own[name]}` of the plan decides it" if own[name] else ""
        raise place.fault(f"`{place.key}`: the comparison gives --{name} itself{instead}.")
    if name not in known:
        usable = [each for each in known if each not in own]
        raise place.fault(f"`{place.key}`: `xmodels {verb}` has no flag --{name}.{nearest(name, usable)}")
    for each in value if isinstance(value, list) else [value]:
        try:
            known[name].checked(each)
        except UsageError as error:
            raise place.fault(f"`{place.key}`: {error}") from None


def _options(verb: str) -> dict[str, Option]:
    return {each.shown: each for each in options_of(importlib.import_module(OPTIONS[verb]).Options)}


def _check_corpus(text: str, place: Lined) -> None:
    for part in text.split(","):
        pattern = re.sub(r":[0-9.]+$", "", part.strip())
        if not pattern.startswith("tfds:") and not glob.glob(pattern):
            raise place.fault(f"`{place.key}`: {pattern}: no such file. Check the path.")


def _check_apart(plan: Plan, place: Lined) -> None:
    """Checks that the held-out text is not the one that is learnt: another file, and not a copy of one."""
    learnt, held_out = (_facts(text) for text in (plan.corpus.train, plan.corpus.heldout))
    for path, found in held_out.items():
        for other, facts in learnt.items():
            if found[0] == facts[0] or (found[1] == facts[1] and file_sha256(path) == file_sha256(other)):
                raise place.fault(
                    f"`{place.key}`: {path} is {'a copy of ' + other if path != other else 'in `corpus.train` too'}. "
                    "Hold out text that is not learnt."
                )


def _facts(text: str) -> dict[str, tuple[str, int]]:
    """Returns {file: (what it is, its size)} of the patterns of a corpus."""
    patterns = (re.sub(r":[0-9.]+$", "", part.strip()) for part in text.split(","))
    names = [name for pattern in patterns if not pattern.startswith("tfds:") for name in glob.glob(pattern)]
    return {name: (os.path.realpath(name), os.path.getsize(name)) for name in names if os.path.isfile(name)}


def _check_size(name: str, size: str, place: Lined) -> None:
    sizes = systems.load(name).SIZES
    if size not in sizes:
        raise place.at("size").fault(f"`{place.at('size').key}`: {name} has no size {size!r}.{nearest(size, sizes)}")


def _check_lengths(plan: Plan, name: str, system: System, place: Lined) -> None:
    """Checks that the network has positions for the texts of every task."""
    from xmodels.comparison.networks import num_positions

    longest = num_positions(plan, name, system)
    for task, each in plan.tasks.items():
        length = system.finetune.get("max_seq_length", get_flag(plan, each, "max_seq_length", 0))
        longer = system.finetune.get("extend_positions", get_flag(plan, each, "extend_positions", False))
        if longest and isinstance(length, int) and length > longest and not longer:
            here = place.at("tasks").at(task)
            raise here.fault(
                f"`{here.key}`: max_seq_length is {length}, but the network of `systems.{name}` has {longest} positions. Give "
                f"finetuning.flags a max_seq_length of {longest} or less."
            )


def _check_system(name: str, system: System, place: Lined) -> None:
    """Checks that the size exists, that the system reads records of this kind, and that a task can be learnt."""
    from xmodels.comparison.networks import list_packings

    called = system.system or name
    _check_size(called, system.size, place)
    fitting, found = list_packings(called, system.size, system.flags.get("set")), system.records.get("packing")
    if found is not None and found not in fitting:
        here = place.at("records").at("packing")
        raise here.fault(f"`{here.key}`: {called} cannot frame records of {found}. Expected: {' or '.join(fitting)}.")
    if layout.find(found or fitting[0]).read_as:
        raise place.fault(
            f"`{place.key}`: {called} learns from {found or fitting[0]}, not from the text that all share."
        )
