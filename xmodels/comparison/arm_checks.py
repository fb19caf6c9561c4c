"""What a plan says of its systems: names, keys that exclude each other, sizes, and the records that each can read."""

import difflib
import re
from types import SimpleNamespace

from data_pipelines import layout
from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import nearest
from data_pipelines.schema import Location
from xmodels import systems
from xmodels.comparison.arms import BAG, MAJORITY, RANDOM, VECTORS, list_arms
from xmodels.comparison.labelled import get_flag
from xmodels.comparison.plan import BEST, NAME, Plan, System

WITHOUT_PRETRAINING = (
    "system",
    "averaged",
    "corpus",
    "records",
    "flags",
    "tune",
    "max_steps",
)  # keys that `new` leaves idle


def check_arms(plan: Plan, place: Location) -> None:
    """Checks the names of systems and baselines, and what they say of each other.

    Raises:
        ReportedError: names the key, what was found and what is expected.
    """
    if not plan.systems:
        raise place.at("systems").fault("`systems` must name one system at least. Found: none.")
    known = systems.names()
    for name, system in plan.systems.items():
        here = place.at("systems").at(name)
        check_name(name, here)
        if name in (MAJORITY, BAG, VECTORS, BEST) or name.startswith(f"{RANDOM}-"):
            raise here.fault(f"`{here.key}`: this name is that of a baseline. Choose another.")
        _check_together(name, system, plan, here)
        if not system.new and (system.system or name) not in known:
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
        if plan.systems[name].new or plan.systems[name].averaged:
            here = place.at("baselines").at("random").at(i)
            raise here.fault(f"`{here.key}`: {name} has no pretrained network that is fine-tuned. Leave it out.")
    trained = systems.for_baseline(VECTORS)
    if plan.baselines.word_vectors and plan.baselines.word_vectors.system not in (None, trained):
        here = place.at("baselines").at("word_vectors").at("system")
        raise here.fault(f"`{here.key}`: word vectors are those of {trained}; leave the key out.")
    names = [arm.name for arm in list_arms(plan)]
    if plan.reference not in (BEST, *names):
        raise place.at("reference").fault(
            f"`reference`: there is no arm {plan.reference!r}.{nearest(plan.reference, (BEST, *names))}"
        )


def check_name(name: str, place: Location) -> None:
    """Checks that a name can be part of file names."""
    if not re.fullmatch(NAME, name):
        raise place.fault(
            f"`{place.key}`: a name is part of file names, so it holds letters, digits, `_`, `-` and `.` only. Found: {name!r:.60}."
        )


def _check_together(name: str, system: System, plan: Plan, place: Location) -> None:
    """Checks the keys of a system that need or exclude others."""
    if system.new:
        idle = [key for key in WITHOUT_PRETRAINING if getattr(system, key) not in (None, False, {})]
        if idle:
            here = place.at(idle[0])
            raise here.fault(
                f"`{here.key}`: is for pretraining, which a network with `new` does not have. Leave one of the two out."
            )
    if system.vectors is not None:
        here, giver = place.at("vectors"), plan.systems.get(system.vectors)
        if giver is None:
            raise here.fault(
                f"`{here.key}`: {system.vectors!r} is none of `systems`.{nearest(system.vectors, plan.systems)}"
            )
        if not giver.averaged or giver.vectors:
            raise here.fault(
                f"`{here.key}`: must name a system with `averaged: true` that has no `vectors` itself. Found: {system.vectors}."
            )
        if "init_vectors" in {**system.flags, **system.finetune}:
            raise here.fault(f"`{here.key}`: stands beside a flag init_vectors. Leave one of the two out.")
    for part in ("train", "heldout"):
        if system.corpus and (system.corpus.train_target is None) != (system.corpus.heldout_target is None):
            here = place.at("corpus").at(f"{part}_target")
            if getattr(system.corpus, f"{part}_target") is None:
                raise here.fault(f"`{here.key}`: missing; both parts of the text have translations, or none.")


def check_networks(plan: Plan, place: Location) -> None:
    """Checks what needs a look at the networks: sizes, records, and the lengths of texts.

    Raises:
        ReportedError: names the key, what was found and what is expected.
    """
    for name, system in plan.systems.items():
        here = place.at("systems").at(name)
        if system.new:
            _check_new(system, here)
        else:
            _check_system(name, system, here)
            _check_lengths(plan, name, system, place)
    if plan.baselines.word_vectors:
        trained, size = systems.for_baseline(VECTORS), plan.baselines.word_vectors.size
        _check_size(trained, size, place.at("baselines").at("word_vectors"))


def _check_new(system: System, place: Location) -> None:
    """Checks that there is such a network and size."""
    from xmodels.tasks.base import new

    try:
        new.network_of(SimpleNamespace(init_checkpoint=f"{new.NEW}{system.new}/{system.size}"))
    except UsageError as error:
        here = place.at("new")
        raise here.fault(f"`{here.key}`: {str(error).partition(': ')[2]}") from None


def _check_size(name: str, size: str, place: Location) -> None:
    sizes = systems.load(name).SIZES
    if size not in sizes:
        raise place.at("size").fault(f"`{place.at('size').key}`: {name} has no size {size!r}.{nearest(size, sizes)}")


def _check_lengths(plan: Plan, name: str, system: System, place: Location) -> None:
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


def _check_system(name: str, system: System, place: Location) -> None:
    """Checks that the size exists, that the system reads records of this kind, and that a task can be learnt."""
    from xmodels.comparison.networks import has_word_vectors, list_packings

    called = system.system or name
    _check_size(called, system.size, place)
    fitting, found = list_packings(called, system.size, system.flags.get("set")), system.records.get("packing")
    if found is not None and found not in fitting:
        here = place.at("records").at("packing")
        raise here.fault(f"`{here.key}`: {called} cannot frame records of {found}. Expected: {' or '.join(fitting)}.")
    if layout.find(found or fitting[0]).read_as and system.corpus is None:
        raise place.fault(
            f"`{place.key}`: {called} learns from {found or fitting[0]}, not from the text that all share. Give it a `corpus` of its "
            "own."
        )
    if system.averaged and not has_word_vectors(called):
        raise place.at("averaged").fault(
            f"`{place.at('averaged').key}`: {called} has no vectors of single words to average."
        )
