"""Reads a YAML file with the line of each key, so that a message can name it, and fills in `${name}`."""

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any

import yaml

from data_pipelines.errors import DataError, UsageError

LARGEST, MOST_VALUES = 1 << 20, 10_000  # bytes of a file; values, since aliases may repeat one another without end
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _Loader(yaml.SafeLoader):
    """Reads 1e-4 as a number, as YAML 1.2 does, and `no` as a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("null", "int")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false|True|False)$"), list("tfTF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$"),
    list("-+.0123456789"),
)


def read(path: str, variables: Mapping[str, str], flag: str, advice: str) -> tuple[Any, dict[str, int]]:
    """The value of a file, and the line of each dotted key.

    Args:
        variables: what `${name}` stands for; what is not in it is looked for in the environment.
        flag: that names the file.
        advice: where an example stands.

    Raises:
        DataError: there is no such file, it is not YAML, a key stands twice, or a name has no value.
    """
    if not os.path.isfile(path):
        raise DataError(f"{path}: no such file. Name one by {flag}; {advice}")
    if os.path.getsize(path) > LARGEST:
        raise DataError(
            f"{path}: {os.path.getsize(path):,} bytes, but a file of {flag} has at most {LARGEST:,}. Is it the right one?"
        )
    try:
        with open(path, encoding="utf-8") as file:
            loader = _Loader(file.read())
        node = loader.get_single_node()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise DataError(f"{path}{where}: not YAML: {problem}.") from None
    except RecursionError:
        raise DataError(f"{path}: not YAML: nested too deep.") from None
    if node is None:
        raise DataError(f"{path}: is empty. {advice}")
    try:
        return _Reading(path, loader, variables).value(node, ""), _lines(node)
    except RecursionError:  # of an alias that holds itself
        raise DataError(f"{path}: not YAML: nested too deep.") from None


class _Reading:
    """Turns nodes into values."""

    def __init__(self, path: str, loader: yaml.SafeLoader, variables: Mapping[str, str]):
        self.path, self.loader, self.variables, self.count = path, loader, variables, 0

    def value(self, node: yaml.Node, key: str) -> Any:
        self.count += 1
        if self.count > MOST_VALUES:
            raise DataError(f"{self.path}: more than {MOST_VALUES:,} values. Does an alias (*) hold itself?")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, f"{key}[{i}]") for i, each in enumerate(node.value)]
        try:
            found = self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError):
            raise self._fault(node, f"`{key}`: {node.value!r:.60} cannot be read; put texts in quotes") from None
        return self._filled(found, node, key) if isinstance(found, str) else found

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name_node, inner in node.value:
            name = name_node.value
            if not isinstance(name, str):
                raise self._fault(name_node, f"`{key}`: a key must be a text")
            if name in found:
                raise self._fault(name_node, f"`{_dotted(key, name)}` stands twice")
            found[name] = self.value(inner, _dotted(key, name))
        return found

    def _filled(self, text: str, node: yaml.Node, key: str) -> str:
        def replacement(match: re.Match) -> str:
            name = match[1]
            value = self.variables.get(name, os.environ.get(name))
            if value is None:
                near = difflib.get_close_matches(name, self.variables, 1, 0.6)
                hint = f" --set has {near[0]}; is that meant?" if near else ""
                raise self._fault(
                    node, f"`{key}`: ${{{name}}} has no value. Give it with --set={name}=VALUE or export it.{hint}"
                )
            return value

        return VARIABLE.sub(replacement, text)

    def _fault(self, node: yaml.Node, what: str) -> DataError:
        return DataError(
            f"{self.path}, line {node.start_mark.line + 1}: {what}" + ("" if what.endswith((".", "?")) else ".")
        )


def _dotted(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _lines(node: yaml.Node, key: str = "") -> dict[str, int]:
    """{dotted key: its line}, of a tree that `_Reading` has found to be small."""
    found = {key: node.start_mark.line + 1} if key and not isinstance(node, yaml.MappingNode) else {}
    if isinstance(node, yaml.MappingNode):
        for name, inner in node.value:
            dotted = _dotted(key, name.value)
            found |= _lines(inner, dotted)
            found[dotted] = name.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for i, each in enumerate(node.value):
            found |= _lines(each, f"{key}[{i}]")
    return found


def variables_of(text: str | None) -> dict[str, str]:
    """What `--set=NAME=VALUE,…` says.

    Raises:
        UsageError: a part is no NAME=VALUE.
    """
    found: dict[str, str] = {}
    for part in (text or "").split(",") if text else []:
        name, sign, value = part.partition("=")
        if sign and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.strip()):
            found[name.strip()] = value
        elif found and not sign:  # a comma inside a value, such as a list of files
            found[next(reversed(found))] += f",{part}"
        else:
            raise UsageError(f"--set={part}: expected NAME=VALUE, such as --set=corpus=text/pretrain.txt.")
    return found
