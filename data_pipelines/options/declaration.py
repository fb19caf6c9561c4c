"""Options, declared once: flags, their help and the keyword arguments of Python all come from the fields of a dataclass.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options:
        JOB: ClassVar = "xmodels.jobs.average_checkpoints.run:average_checkpoints"

        model_dir: str = option(REQUIRED, "Folder of the run.", section="Run and output")
        last: int = option(5, "How many states.", minimum=1)

`section` opens a part of `--help`, to which the fields that follow belong. A subclass shows its own fields first, unless it says
INHERITED_FIRST. To change only the default of an inherited field it writes `last: int = 3`.
"""

import ast
import dataclasses
import difflib
import importlib.util
import os
import pkgutil
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from data_pipelines.errors import UsageError

REQUIRED = dataclasses.MISSING
SWITCH = ("auto", "true", "false")  # the choices of an option that is left to the machine, or forced
OPTION = "option"  # the key of the metadata of a field


@dataclasses.dataclass(frozen=True)
class Declared:
    """What a field says of itself beside its name, type and default.

    Attributes:
        section: opens a section of `--help`.
        minimum, maximum: bounds of a number; the minimum of one that names none is 0.
        choices: the values that there are; SWITCH makes `--NAME` and `--noNAME` mean true and false.
        structural: whether a run that is resumed must keep the value.
        flag: the name on the command line, where Python cannot have it.
        alias: another name of the flag.
        positional: whether the command line has the value as its first word.
        repeatable: whether the flag may be given several times; commas join its values.
        joint: what joins several of the choices to one value, such as +; None where one is taken alone.
        values: what each value means; `--help` lists them, one a line.
    """

    help: str
    _: dataclasses.KW_ONLY
    section: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    structural: bool = False
    flag: str | None = None
    alias: str | None = None
    positional: bool = False
    repeatable: bool = False
    joint: str | None = None
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option(Declared):
    """An option of a command.

    Attributes:
        name: of the field.
        type: bool, int, float or str.
        default: REQUIRED where there is none.
    """

    name: str
    type: type
    default: Any

    @property
    def shown(self) -> str:
        """The name on the command line."""
        return self.flag or self.name

    @property
    def note(self) -> str:
        """What `--help` says of the default."""
        if self.default is REQUIRED:
            return " (required)"
        shown = str(self.default).lower() if isinstance(self.default, bool) else self.default
        return "" if self.default is None else f" (default {shown})"

    @property
    def text(self) -> str:
        """The help with the default; where each value has a meaning, it ends with a colon."""
        return f"{self.help.removesuffix(':')}{self.note}:" if self.values else self.help + self.note

    def is_choice(self, value: Any) -> bool:
        """Returns whether a value is one of the choices, or several of them where these can be joined."""
        parts = value.split(self.joint) if self.joint and isinstance(value, str) else [value]
        return all(part in self.choices for part in parts)

    def checked(self, value: Any) -> Any:
        """Returns the value of a call from Python, as the job expects it.

        Raises:
            UsageError: it is of another type, out of bounds or none of the choices.
        """
        if value is None and self.default in (None, REQUIRED):
            return None
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        if self.choices == SWITCH and isinstance(value, bool):
            value = str(value).lower()
        if self.repeatable and isinstance(value, Mapping):
            value = ",".join(f"{name}={each}" for name, each in value.items())
        kinds = {float: (float, int), str: (str, int)}.get(self.type, (self.type,))
        if not isinstance(value, kinds) or (isinstance(value, bool) and self.type is not bool):
            raise UsageError(f"{self.name}={value!r}: expected {self.type.__name__}.")
        if self.choices and not self.is_choice(value):
            raise UsageError(f"{self.name}={value!r}: unknown value.{nearest(value, self.choices)}")
        too_small = self.minimum is not None and not isinstance(value, str) and value < self.minimum
        if too_small or (self.maximum is not None and value > self.maximum):
            bounds = [f"at least {self.minimum:g}"] + ([] if self.maximum is None else [f"at most {self.maximum:g}"])
            raise UsageError(f"{self.name}={value!r}: must be {' and '.join(bounds)}.")
        return self.type(value)


def option(default: Any, help: str, *, choices: Iterable[str] = (), **declared: Any) -> Any:
    """Returns a field of a dataclass of options.

    Args:
        default: REQUIRED where there is none.
        help, choices, declared: as of `Declared`.
    """
    return dataclasses.field(default=default, metadata={OPTION: Declared(help, choices=tuple(choices), **declared)})


def options_of(cls: type) -> list[Option]:
    """Returns all options of a dataclass in the order of `--help`."""
    fields, hints, found = {f.name: f for f in dataclasses.fields(cls)}, typing.get_type_hints(cls), {}
    owners = [owner for owner in cls.__mro__ if dataclasses.is_dataclass(owner)]
    for owner in reversed(owners) if getattr(cls, "INHERITED_FIRST", False) else owners:
        section = None
        for name in owner.__dict__.get("__annotations__", {}):
            metadata = owner.__dataclass_fields__[name].metadata
            if OPTION not in metadata:
                continue
            section = metadata[OPTION].section or section
            if name not in found:
                found[name] = _option(metadata[OPTION], section, name, hints[name], fields[name].default)
    titles = list(dict.fromkeys(each.section for each in found.values()))
    return sorted(found.values(), key=lambda each: titles.index(each.section))


def _option(declared: Declared, section: str | None, name: str, hint: Any, default: Any) -> Option:
    kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType] if _is_union(hint) else [hint]
    stated = {**vars(declared), "section": section}
    if kinds[0] in (int, float) and declared.minimum is None:
        stated["minimum"] = 0
    return Option(**stated, name=name, type=kinds[0], default=default)


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union)


def merge_options(name: str, classes: Iterable[type]) -> type:
    """Returns a frozen dataclass with all options of several, each once; an option of several takes the choices of each.

    Raises:
        TypeError: an option has another type or default in one than in another.
    """
    found: dict[str, Option] = {}
    hints: dict[str, Any] = {}
    for cls in classes:
        for each in options_of(cls):
            other = found.setdefault(each.name, each)
            if (other.type, other.default, other.structural) != (each.type, each.default, each.structural):
                raise TypeError(f"{cls.__module__}.{cls.__qualname__}: {each.name} is another option elsewhere.")
            choices = tuple(dict.fromkeys(other.choices + each.choices))
            found[each.name] = dataclasses.replace(other, choices=choices)
            hints.setdefault(each.name, typing.get_type_hints(cls)[each.name])
    described = [(each.name, hints[each.name], _field(each)) for each in found.values()]
    return dataclasses.make_dataclass(name, described, frozen=True, kw_only=True)


def _field(declared: Option) -> Any:
    metadata = {OPTION: Declared(**{each.name: getattr(declared, each.name) for each in dataclasses.fields(Declared)})}
    return dataclasses.field(default=declared.default, metadata=metadata)


def structural(cls: type) -> tuple[str, ...]:
    """Returns the names of the options that a run which is resumed must keep."""
    return tuple(each.name for each in options_of(cls) if each.structural)


def values_of(options: Any, cls: type) -> dict[str, Any]:
    """Returns the values of the options that `cls`, a base of the class of `options`, declares."""
    return {each.name: getattr(options, each.name) for each in options_of(cls)}


def changed_options(options: Any) -> dict[str, Any]:
    """Returns the options that differ from their defaults."""
    values = {each.name: (getattr(options, each.name), each.default) for each in options_of(type(options))}
    return {name: value for name, (value, default) in values.items() if value != default}


def create(cls: type, values: Mapping[str, Any]) -> Any:
    """Returns options of keyword arguments.

    Raises:
        UsageError: a name is unknown, a required one is missing, or a value is out of its bounds.
    """
    known = {each.name: each for each in options_of(cls)}
    for name in values:
        if name not in known:
            raise UsageError(f"unknown argument `{name}`.{nearest(name, known)}")
    missing = [name for name, each in known.items() if each.default is REQUIRED and values.get(name) in (None, "")]
    if missing:
        raise UsageError(f"missing: {', '.join(missing)}.")
    return cls(**{name: known[name].checked(value) for name, value in values.items()})


def nearest(name: Any, known: Iterable[str]) -> str:
    """Returns the known names most like one that is unknown, as a sentence; all of them where none is like it."""
    near = difflib.get_close_matches(str(name), list(known), 3, 0.5)
    return f" Did you mean {' or '.join(near)}?" if near else f" Known: {', '.join(known)}."


def modules_of(package: str, *, but: Iterable[str] = ()) -> tuple[str, ...]:
    """Lists the modules and folders of a package that are registered by being there, none of a module. Imports none of them."""
    path = importlib.util.find_spec(package).submodule_search_locations or ()
    return tuple(module.name for module in pkgutil.iter_modules(path) if module.name not in but)


def summary_of(module: str) -> str:
    """Returns the first paragraph of the docstring of a module, in one line. Does not import it."""
    with open(importlib.util.find_spec(module).origin, encoding="utf-8") as file:
        text = ast.get_docstring(ast.parse(file.read())) or ""
    return " ".join(text.partition("\n\n")[0].split())
