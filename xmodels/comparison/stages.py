"""A stage: one command with what it reads and writes. Its fingerprint tells whether what is there is what is asked for."""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence

VOCABULARY, RECORDS, PROBE, PRETRAIN = "vocabulary", "records", "probe", "pretrain"
FINETUNE, PREDICT, BASELINE = "finetune", "predict", "baseline"
KINDS = (VOCABULARY, RECORDS, PROBE, PRETRAIN, FINETUNE, PREDICT, BASELINE)
OUTPUT = {  # the flag that says where each kind writes
    VOCABULARY: "output_file", RECORDS: "output_dir", PROBE: "model_dir", PRETRAIN: "model_dir", FINETUNE: "model_dir",
    PREDICT: "output_file", BASELINE: "output_file",
}  # fmt: skip
ENDINGS = {PREDICT: ".jsonl", BASELINE: ".json"}
RESUMABLE = (PROBE, PRETRAIN, FINETUNE)  # the same command goes on
SHORT = 8  # characters of a fingerprint in a name
FILES = (  # flags of a plan that name files or folders
    "lexicon", "phrase_lexicon", "entity_lexicon", "vocab_file", "model_config_file", "init_checkpoint", "distill_file",
    "unlabelled_file", "task_data", "eval_task_data", "init_vectors",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Input:
    """Files of the user, told by their contents and not by their names."""

    path: str


@dataclasses.dataclass(frozen=True)
class Stage:
    """One command.

    Attributes:
        kind: one of KINDS.
        name: for people and for the name of what it writes.
        verb: of `xmodels`; "" for baselines, which the comparison computes itself.
        flags: (name, value) without the output; a value is a text, an Input, or the Stage whose output it is.
        arm: the row of the tables; "" where several share the stage.
        tentative: whether a number in it is an estimate, which a probe or development data will replace.
    """

    kind: str
    name: str
    verb: str
    flags: tuple[tuple[str, "str | Input | Stage"], ...]
    arm: str = ""
    tentative: bool = dataclasses.field(default=False, compare=False)

    @property
    def needs(self) -> tuple["Stage", ...]:
        """The stages whose output it reads."""
        return tuple(value for _, value in self.flags if isinstance(value, Stage))

    @property
    def uncertain(self) -> bool:
        """Whether it, or what it reads, rests on an estimate."""
        return self.tentative or any(make_stage.uncertain for make_stage in self.needs)


def make_stage(kind: str, name: str, verb: str, flags: dict, arm: str = "", tentative: bool = False) -> Stage:
    """Returns a stage with the flags as the command line has them; flags that are None are left out."""
    found = ((n, _value(n, v)) for n, v in flags.items() if v is not None)
    return Stage(kind, name, verb, tuple(found), arm, tentative)


def _value(name: str, value: object) -> "str | Input | Stage":
    if isinstance(value, Input | Stage):
        return value
    return Input(str(value)) if name in FILES else as_text(value)


def as_text(value: object) -> str:
    """Returns a value of a flag."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def closure(stages: list[Stage]) -> list[Stage]:
    """Returns the stages and all that they need, each once, what is needed first."""
    found: dict[Stage, None] = {}

    def visit(one: Stage) -> None:
        for each in one.needs:
            if each not in found:
                visit(each)
        found.setdefault(one)

    for one in stages:
        visit(one)
    return list(found)


class Naming:
    """Fingerprints of stages and the names of what they write.

    Args:
        folder: of the comparison.
        contents: gives the SHA-256 of the files that an Input names.
        own: the verb and the flags of the comparison itself, which computes baselines.
    """

    def __init__(self, folder: str, contents: Callable[[str], str], own: Sequence[str]):
        self.folder, self.contents, self.own, self._known = folder, contents, list(own), {}

    def fingerprint(self, one: Stage) -> str:
        """Returns that of the command, the contents of its inputs, and the fingerprints of what it needs; not of where these
        lie."""
        if one not in self._known:
            flags = [(name, self._description(value)) for name, value in one.flags]
            text = json.dumps([one.kind, one.verb, sorted(flags)])
            self._known[one] = hashlib.sha256(text.encode()).hexdigest()
        return self._known[one]

    def _description(self, value: "str | Input | Stage") -> str:
        if isinstance(value, Stage):
            return f"stage {self.fingerprint(value)}"
        return f"contents {self.contents(value.path)}" if isinstance(value, Input) else value

    def name(self, one: Stage) -> str:
        """Returns that of its mark and its log: what it is, and the beginning of its fingerprint."""
        plain = re.sub(r"[^\w.=-]+", "-", one.name).strip("-")
        return f"{plain}-{'…' if one.uncertain else self.fingerprint(one)[:SHORT]}"

    def output(self, one: Stage) -> str:
        """Returns the path that it writes."""
        return os.path.join(self.folder, one.kind, self.name(one) + ENDINGS.get(one.kind, ""))

    def command(self, one: Stage) -> list[str]:
        """Returns the verb and its flags, as a user types them behind `xmodels`."""
        if one.kind == BASELINE:
            return [*self.own, f"--only={one.arm}", f"--steps={BASELINE}"]
        return [one.verb, *self._flags(one), f"--{OUTPUT[one.kind]}={self.output(one)}"]

    def values(self, one: Stage) -> dict[str, str]:
        """Returns the flags by name, with paths."""
        return {name: self._path(value) for name, value in one.flags}

    def _flags(self, one: Stage) -> Iterator[str]:
        return (f"--{name}={value}" for name, value in self.values(one).items())

    def _path(self, value: "str | Input | Stage") -> str:
        if isinstance(value, Stage):
            return self.output(value)
        return value.path if isinstance(value, Input) else value
