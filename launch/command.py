"""What all verbs share: flags in sections, `--help` that reads well, and exit codes."""

import copy
import difflib
import os
import sys
import textwrap
from collections.abc import Callable

from absl import flags

from data_pipelines.errors import ReportedError
from data_pipelines.paths import check_local

EXIT_USAGE, EXIT_DATA = 2, 3
EXIT_PIPE = 128 + 13  # what the shell says of a program that SIGPIPE ended


class Command:
    """One verb with its own set of flags.

    Args:
        name: the verb, such as `pretrain`.
        summary: what it does, in a sentence or two.
        example: a command that works.
    """

    def __init__(self, name: str, summary: str, example: str):
        self.name, self.summary, self.example = name, summary, example
        self.values = flags.FlagValues()
        self.sections: list[tuple[str, list[str]]] = []
        self.required: list[str] = []
        self.aliases: list[tuple[str, str]] = []

    def section(self, title: str) -> None:
        """Flags defined from here on are shown under `title`."""
        self.sections.append((title, []))

    def _define(self, define: Callable, name: str, *args, required: bool = False, **bounds) -> None:
        define(name, *args, flag_values=self.values, **bounds)
        self.sections[-1][1].append(name)
        if required:
            self.required.append(name)

    def string(self, name: str, default: str | None, text: str, required: bool = False) -> None:
        self._define(flags.DEFINE_string, name, default, text, required=required)

    def settings(self, name: str, text: str) -> None:
        """A string; given several times, the parts are joined by commas."""
        flags.DEFINE_multi_string(name, None, text, flag_values=self.values)
        self.sections[-1][1].append(name)

    def integer(self, name: str, default: int | None, text: str, minimum: int = 0) -> None:
        self._define(flags.DEFINE_integer, name, default, text, lower_bound=minimum)

    def number(
        self, name: str, default: float | None, text: str, minimum: float = 0.0, maximum: float | None = None
    ) -> None:
        self._define(flags.DEFINE_float, name, default, text, lower_bound=minimum, upper_bound=maximum)

    def boolean(self, name: str, default: bool, text: str) -> None:
        self._define(flags.DEFINE_boolean, name, default, text)

    def choice(self, name: str, default: str | None, values: list[str], text: str, required: bool = False) -> None:
        self._define(flags.DEFINE_enum, name, default, values, text, required=required)

    def switch(self, name: str, default: str, text: str) -> None:
        """auto, true or false; --NAME and --noNAME mean true and false, as of a boolean flag."""
        parser, serializer = (
            flags.EnumParser(["auto", "true", "false"], case_sensitive=False),
            flags.ArgumentSerializer(),
        )
        flag = flags.Flag(parser, serializer, name, default, text)
        flag.boolean = True
        flags.DEFINE_flag(flag, flag_values=self.values)
        self.sections[-1][1].append(name)

    def alias(self, name: str, original: str) -> None:
        """Another name for a flag, for those who know it from Google's scripts."""
        flags.DEFINE_alias(name, original, flag_values=self.values)
        self.aliases.append((name, original))

    def adopt(self, other: "Command") -> None:
        """Takes the flags of another verb that this one does not have yet; none of them is required here."""
        for title, names in other.sections:
            new = [name for name in names if name not in self.values]
            section = next((held for known, held in self.sections if known == title), None)
            if new and section is None:
                self.section(title)
                section = self.sections[-1][1]
            for name in new:
                self.values[name] = copy.deepcopy(other.values[name])
                section.append(name)
        for name, original in other.aliases:
            if name not in self.values:
                self.alias(name, original)

    def given(self) -> dict:
        """The flags on the command line and their values."""
        options = self.options().items()
        return {name: v for name, v in options if self.values[name].present or v != self.values[name].default}

    def defaults(self) -> dict:
        """All flags and their defaults."""
        return {name: self.values[name].default for _, names in self.sections for name in names}

    def __getitem__(self, name: str):
        value = self.values[name].value
        return ",".join(value) if isinstance(value, list) else value

    def options(self) -> dict:
        """All flags and their values."""
        return {name: self[name] for _, names in self.sections for name in names}

    def usage(self) -> str:
        """The text of `--help`."""
        lines = [*textwrap.wrap(f"xmodels {self.name}: {self.summary}", 100), "", "Example:"]
        lines += [f"  {line}" for line in self.example.strip().splitlines()]
        for title, names in self.sections:
            lines += ["", f"{title}:"]
            for name in names:
                lines += self._describe(name)
        lines += ["", "  --flagfile=FILE reads flags from a file, one a line. Exit codes: see the README."]
        return "\n".join(lines)

    def _describe(self, name: str) -> list[str]:
        flag = self.values[name]
        values = getattr(flag.parser, "enum_values", None)
        shape = "|".join(values) if values else {"bool": "true|false"}.get(flag.flag_type(), flag.flag_type().upper())
        default = "required" if name in self.required else f"default {_shown(flag.default)}"
        note = "" if flag.default is None and name not in self.required else f" ({default})"
        text = textwrap.wrap(f"{flag.help.removeprefix(f'<{shape}>: ')}{note}", 92)
        head = textwrap.wrap(f"--{name}={shape}".replace("|", "| "), 98)  # many values take several lines
        head = [line.replace("| ", "|") for line in head]
        return [f"  {head[0]}", *(f"      {line}" for line in [*head[1:], *text])]

    def parse(self, arguments: list[str]) -> None:
        """Parses the arguments behind the verb.

        Raises:
            SystemExit: after printing the help (0), or the error and the nearest known names (2).
        """
        if any(argument in ("--help", "-h", "-help", "--helpfull") for argument in arguments):
            print(self.usage(), flush=True)
            raise SystemExit(0)
        for name in self.values:
            self.values[name].unparse()  # a second call in one process begins anew
        try:
            rest = self.values([self.name, *arguments])[1:]
            if rest:
                raise flags.Error(f"unexpected argument {rest[0]!r}; flags are written --name=value")
            missing = [name for name in self.required if self[name] is None]
            if missing:
                raise flags.Error(f"missing: {', '.join(f'--{name}' for name in missing)}")
        except flags.Error as error:
            print(f"xmodels {self.name}: {self._hint(error)}", file=sys.stderr)
            print(f"Run `xmodels {self.name} --help` for all flags.", file=sys.stderr)
            raise SystemExit(EXIT_USAGE) from None

    def _hint(self, error: flags.Error) -> str:
        if isinstance(error, flags.UnrecognizedFlagError):
            known = [name for _, names in self.sections for name in names]
            near = difflib.get_close_matches(error.flagname, known, 3, 0.5)
            return f"unknown flag --{error.flagname}." + (f" Did you mean --{' or --'.join(near)}?" if near else "")
        text = str(error)
        if isinstance(error, flags.CantOpenFlagFileError):
            return f"--flagfile: {text.partition('] ')[2] or text}. Give a file with one flag a line."
        if isinstance(error, flags.IllegalFlagValueError) and "should be one of" in text:
            name, _, value = text.split()[1].partition("=")
            known = self.values[name.strip("-")].parser.enum_values
            near = difflib.get_close_matches(value.rstrip(":"), known, 1, 0.3)
            return (
                f"--{name.strip('-')}={value.rstrip(':')}: unknown value."
                + (f" Did you mean {near[0]}?" if near else "")
                + f" Known: {', '.join(known)}."
            )
        return text

    def main(self, run: Callable[[], None], arguments: list[str] | None = None) -> int:
        """Parses, runs, and returns the exit code."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

        def work() -> int:
            self.parse(sys.argv[1:] if arguments is None else arguments)
            texts = {name: value for name, value in self.options().items() if isinstance(value, str) and name != "tpu"}
            check_local(**texts)
            run()
            return 0

        return guarded(f"xmodels {self.name}", work)


def guarded(name: str, work: Callable[[], int]) -> int:
    """Runs `work` and returns its exit code, or that of the error it ends with, which becomes one line."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except ReportedError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # who read our output, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except OSError as error:  # a full disk, a folder that may not be written
        if error.strerror is None:
            raise
        print(f"{name}: {error.filename or 'file system'}: {error.strerror}.", file=sys.stderr)
        return EXIT_DATA
    except KeyboardInterrupt:
        print(f"{name}: interrupted.", file=sys.stderr)
        return 130


def _shown(default) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
