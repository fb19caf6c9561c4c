"""Reads a plan and checks all of it before anything runs: keys, types, names, flags, files."""

import dataclasses
import glob
import importlib
import os
import re
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from data_pipelines import strict_yaml
from data_pipelines.errors import ReportedError, UsageError
from data_pipelines.files import file_sha256
from data_pipelines.options.declaration import Option, nearest, options_of
from data_pipelines.schema import Location, convert, fields
from xmodels.comparison.arm_checks import check_arms, check_name, check_networks
from xmodels.comparison.labelled import check_tasks
from xmodels.comparison.plan import Corpus, Plan
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
        "target_file": "corpus.train_target",
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
        "task": "tasks.NAME.task", "init_checkpoint": "systems.NAME.new", "vocab_file": "systems.NAME.vocabulary",
        "random_init": "baselines.random", "train_file": "tasks.NAME.train",
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
    check_arms(plan, place)
    _check_tasks(plan, place)
    _check_flags(plan, place)
    return plan, place


def check_surroundings(plan: Plan, place: Lined) -> list[str]:
    """Returns what needs files and the systems: corpora, labelled tables, records that each system can read. Returns warnings.

    Raises:
        ReportedError: of the kind that fits.
    """
    warnings = check_files(plan, place)
    check_networks(plan, place)
    return warnings


def check_files(plan: Plan, place: Lined) -> list[str]:
    """Returns what is wrong with the corpora and tables, without a look at any system. Returns warnings."""
    own = [(system.corpus, place.at("systems").at(name).at("corpus")) for name, system in plan.systems.items()]
    for corpus, here in [(plan.corpus, place.at("corpus")), *own]:
        if corpus is not None:
            for name in ("train", "heldout", "train_target", "heldout_target"):
                if getattr(corpus, name):
                    _check_corpus(getattr(corpus, name), here.at(name))
            _check_apart(corpus, here.at("heldout"))
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


def _check_tasks(plan: Plan, place: Lined) -> None:
    if not plan.tasks:
        raise place.at("tasks").fault("`tasks` must name one task at least. Found: none.")
    for name, task in plan.tasks.items():
        here = place.at("tasks").at(name)
        check_name(name, here)
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
    several = [(system, place.at("systems").at(name)) for name, system in plan.systems.items()]
    corpora = [
        (plan.corpus, place.at("corpus")),
        *((each.corpus, here.at("corpus")) for each, here in several if each.corpus),
    ]
    for corpus, here in corpora:
        for name in corpus.flags:
            if name not in shared:
                key = here.at("flags").at(name)
                raise key.fault(f"`{key.key}`: is not a flag of how text is read.{nearest(name, shared)}")
    found: list[tuple[str, Mapping[str, Any], Lined]] = [
        *(("create_pretraining_data", corpus.flags, here.at("flags")) for corpus, here in corpora),
        ("train_vocabulary", plan.vocabulary.flags, place.at("vocabulary").at("flags")),
        ("create_pretraining_data", plan.records, place.at("records")),
        ("pretrain", plan.pretraining.flags, place.at("pretraining").at("flags")),
        ("pretrain", plan.pretraining.tune, place.at("pretraining").at("tune")),
        ("finetune", plan.finetuning.flags, place.at("finetuning").at("flags")),
        ("finetune", plan.finetuning.tune, place.at("finetuning").at("tune")),
    ]
    for name, task in plan.tasks.items():
        found.append(("finetune", task.flags, place.at("tasks").at(name).at("flags")))
    if plan.baselines.word_vectors:
        several.append((plan.baselines.word_vectors, place.at("baselines").at("word_vectors")))
    for system, here in several:
        found += [
            ("create_pretraining_data", system.records, here.at("records")),
            ("pretrain", system.flags, here.at("flags")),
            ("pretrain", system.tune or {}, here.at("tune")),
            ("finetune", system.finetune, here.at("finetune")),
            ("finetune", system.tune_finetuning or {}, here.at("tune_finetuning")),
        ]
        if system.vocabulary:
            found.append(("train_vocabulary", system.vocabulary.flags, here.at("vocabulary").at("flags")))
    for verb, flags, here in found:
        of_all = here.key.startswith("pretraining.")
        for name, value in flags.items():
            _check_flag(verb, name, value, here.at(name), of_all)
            if name in OF_COST and here.key.endswith(("tune", "tune_finetuning")):
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


def _check_apart(corpus: Corpus, place: Lined) -> None:
    """Checks that the held-out text is not the one that is learnt: another file, and not a copy of one."""
    learnt, held_out = (_facts(text) for text in (corpus.train, corpus.heldout))
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
