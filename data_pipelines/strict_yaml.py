"""Reads a YAML file with the line of each key, so that a message can name it, and fills in `${name}`."""

import difflib
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import yaml

from data_pipelines.errors import DataError, UsageError

LARGEST, MOST_VALUES = 1 << 20, 10_000  # bytes of a file; values, since aliases may repeat one another without end
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


_CORE = "tag:yaml.org,2002:"
_INT, _FLOAT, _STR = f"{_CORE}int", f"{_CORE}float", f"{_CORE}str"


class _Loader(yaml.SafeLoader):
    """Reads 1e-4 as a number, as YAML 1.2 does, and `no` as a text."""

    num_nodes = 0

    def compose_node(self, parent, index):
        """Counts the values while it reads, so that a file of very many ends soon."""
        self.num_nodes += 1
        if self.num_nodes > 2 * MOST_VALUES:  # names and values
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem=f"more than {MOST_VALUES:,} values", problem_mark=mark)
        return super().compose_node(parent, index)


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
    """Returns the value of a file, and the line of each dotted key.

    Args:
        variables: what `${name}` stands for; what is not in it is looked for in the environment.
        flag: that names the file.
        advice: where an example stands.

    Raises:
        DataError: there is no such file, it is not YAML, a key stands twice, or a name has no value.
    """
    if not os.path.isfile(path):
        what = "it is no regular file" if os.path.exists(path) else "no such file"
        raise DataError(f"{path}: {what}. Name one by {flag}; {advice}")
    if os.path.getsize(path) > LARGEST:
        raise DataError(
            f"{path}: {os.path.getsize(path):,} bytes, but a file of {flag} has at most {LARGEST:,}. Is it the right one?"
        )
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    loader, node = _parsed(path, text)
    if node is None:
        raise DataError(f"{path}: is empty. {advice}")
    return _Reading(path, loader, variables).value(node, ""), _lines(node)


def _parsed(path: str, text: str) -> tuple[_Loader, yaml.Node | None]:
    """Returns the reader of a text and its tree.

    Raises:
        DataError: the text is not YAML; names the line.
    """
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DataError(
            f"{path}, line {line}: not YAML: the character U+{error.character:04X} is not allowed."
        ) from None
    try:
        return loader, loader.get_single_node()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None) or loader.get_mark()
        problem = getattr(error, "problem", None) or str(error)
        raise DataError(f"{path}, line {mark.line + 1}: not YAML: {problem}.") from None
    except (ValueError, OverflowError):  # an escape beyond the last character, a version of thousands of digits
        raise DataError(
            f"{path}, line {loader.line + 1}: not YAML: an escape names no character, or a number is too long."
        ) from None
    except RecursionError:
        raise DataError(f"{path}, line {loader.line + 1}: not YAML: nested too deep.") from None


class _Reading:
    """Turns nodes into values."""

    def __init__(self, path: str, loader: yaml.SafeLoader, variables: Mapping[str, str]):
        self.path, self.loader, self.variables, self.count = path, loader, variables, 0
        self.around: list[yaml.Node] = []  # the nodes that hold the one which is read

    def value(self, node: yaml.Node, key: str) -> Any:
        self.count += 1
        if self.count > MOST_VALUES:
            raise self._fault(node, f"more than {MOST_VALUES:,} values; aliases (*) repeat what they name")
        if any(node is each for each in self.around):
            raise self._fault(node, f"`{key}`: nested too deep, since an alias (*) holds itself")
        self.around.append(node)
        try:
            return self._value(node, key)
        finally:
            self.around.pop()

    def _value(self, node: yaml.Node, key: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            self._check_tag(node, key, "map")
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            self._check_tag(node, key, "seq")
            return [self.value(each, f"{key}[{i}]") for i, each in enumerate(node.value)]
        return self._scalar(node, key)

    def _scalar(self, node: yaml.ScalarNode, key: str) -> Any:
        self._check_tag(node, key, "null", "bool", "int", "float", "str")
        if node.tag == _STR:
            return self._filled(self._whole(node, key), node, key)
        natural = self.loader.resolve(yaml.ScalarNode, node.value, (True, False))
        wrong = self._fault(node, f"`{key}`: {node.value!r:.60} cannot be read; put texts in quotes")
        if natural != node.tag and (natural, node.tag) != (_INT, _FLOAT):  # such as !!bool foo
            raise wrong
        try:
            found = self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError):
            raise wrong from None
        if isinstance(found, float) and not math.isfinite(found):
            raise wrong
        return found

    def _check_tag(self, node: yaml.Node, key: str, *names: str) -> None:
        if node.tag not in [f"{_CORE}{name}" for name in names]:
            tag = node.tag.replace(_CORE, "!!")
            raise self._fault(
                node,
                f"`{key}`: the tag {tag!r:.60} is not known; expected {' or '.join(f'!!{name}' for name in names)}",
            )

    def _whole(self, node: yaml.ScalarNode, key: str) -> str:
        """Returns the text of a node; two escapes such as \\ud83d\\ude00 are one character, and a half is a fault."""
        try:
            return node.value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise self._fault(node, f"`{key}`: an escape such as \\ud800 is half of a character") from None

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name_node, inner in node.value:
            if not isinstance(name_node, yaml.ScalarNode):
                raise self._fault(name_node, f"`{key}`: a key must be a text")
            self._check_tag(name_node, key, "null", "bool", "int", "float", "str")
            name = name_node.value = self._whole(name_node, key)
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
            if any("\ud800" <= character <= "\udfff" for character in value):  # bytes of the environment
                raise self._fault(node, f"`{key}`: the value of ${{{name}}} is not UTF-8")
            return value

        return VARIABLE.sub(replacement, text)

    def _fault(self, node: yaml.Node, what: str) -> DataError:
        what = what.removeprefix("``: ").encode("utf-8", "backslashreplace").decode()
        return DataError(
            f"{self.path}, line {node.start_mark.line + 1}: {what}" + ("" if what.endswith((".", "?")) else ".")
        )


def _dotted(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _lines(node: yaml.Node, key: str = "") -> dict[str, int]:
    """Returns {dotted key: its line}, of a tree that `_Reading` has found to be small."""
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
    """Returns what `--set=NAME=VALUE,…` says.

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
