"""A verb on the command line: flags out of a dataclass of options, `--help` that reads well, and exit codes."""

import collections
import contextlib
import difflib
import importlib
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Mapping

from absl import flags

from data_pipelines.errors import ReportedError
from data_pipelines.escaping import TerminalStream, for_terminal
from data_pipelines.options.declaration import REQUIRED, SWITCH, Option, options_of
from xmodels.jobs.verbs import options_module, run

EXIT_USAGE, EXIT_DATA = 2, 3
EXIT_PIPE = 128 + 13  # what the shell says of a program that SIGPIPE ended
SECTIONS = (
    "Begin here", "Text and labelled data", "Training", "Using a network", "Vectors of texts", "Checkpoints and serving",
    "TPUs",
)  # fmt: skip
DEFINE = {
    str: flags.DEFINE_string, bool: flags.DEFINE_boolean, int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
}  # fmt: skip


class Command:
    """One verb with its own set of flags.

    Args:
        options: its dataclass, in a module of the verb's name or in `options.py` of its folder; each field is a flag. `SECTION` is the
            one of SECTIONS under which `xmodels --help` lists the verb. The docstring of the module says what the verb does; what is
            indented there is an example.
    """

    def __init__(self, options: type):
        self.name = options.__module__.removesuffix(".options").rpartition(".")[2]
        self.options = options
        summary, _, example = inspect.getdoc(sys.modules[options.__module__]).partition("\n\n")
        self.summary, self.example = " ".join(summary.split()), textwrap.dedent(example)
        self.values = flags.FlagValues()
        self.declared = options_of(options)
        for option in self.declared:
            if not option.positional:
                self._define(option)

    def _define(self, option: Option) -> None:
        name, default = option.shown, None if option.default is REQUIRED else option.default
        if option.choices == SWITCH:
            parser = flags.EnumParser(list(SWITCH), case_sensitive=False)
            flag = flags.Flag(parser, flags.ArgumentSerializer(), name, default, option.help)
            flag.boolean = True  # --NAME and --noNAME mean true and false
            flags.DEFINE_flag(flag, flag_values=self.values)
        elif option.repeatable:
            flags.DEFINE_multi_string(name, default, option.help, flag_values=self.values)
        elif option.choices and option.joint:
            flags.DEFINE_string(name, default, option.help, flag_values=self.values)
            known = f"expected some of {', '.join(option.choices)}; {option.joint} joins several."
            flags.register_validator(name, lambda value: value is None or option.is_choice(value), known, self.values)
        elif option.choices:
            flags.DEFINE_enum(name, default, list(option.choices), option.help, flag_values=self.values)
        else:
            bounds = (
                {"lower_bound": option.minimum, "upper_bound": option.maximum} if option.type in (int, float) else {}
            )
            DEFINE[option.type](name, default, option.help, flag_values=self.values, **bounds)
        if option.alias:  # for those who know it from Google's scripts
            flags.DEFINE_alias(option.alias, name, flag_values=self.values)

    def shown(self, task: str | None) -> list[Option]:
        """Returns the options that `--help` shows: those of single tasks only for the task that is named."""
        if not hasattr(self.options, "own_flags"):
            return self.declared
        own = self.options.own_flags(task) if task else {}
        hidden = {each.name for each in options_of(self.options.TASK_OPTIONS)} - own.keys()
        shown = [own.get(each.name, each) for each in self.declared if each.name not in hidden]
        titles = list(dict.fromkeys(each.section for each in shown))
        return sorted(shown, key=lambda each: titles.index(each.section))

    def usage(self, task: str | None = None) -> str:
        """Returns the text of `--help`, with the flags of a task where one is named."""
        lines = [*textwrap.wrap(f"xmodels {self.name}: {self.summary}", 100), "", "Example:"]
        lines += [f"  {line}" for line in self.example.splitlines()]
        section = None
        for option in self.shown(task):
            if option.section != section:
                section = option.section
                lines += ["", f"{section}:"]
            lines += _described(option)
        if hasattr(self.options, "own_flags") and not task:
            lines += ["", f"  Each task has flags of its own: xmodels {self.name} --help --task=NAME shows them, too."]
        lines += ["", "  --flagfile=FILE reads flags from a file, one a line. Exit codes: see the README."]
        return "\n".join(lines)

    def parse(self, arguments: list[str]):
        """Returns the options that the arguments behind the verb give.

        Raises:
            SystemExit: after printing the help (0), or the error and the nearest known names (2).
        """
        if any(argument in ("--help", "-h", "-help", "--helpfull") for argument in arguments):
            print(self.usage(self._task_of(arguments)), flush=True)
            raise SystemExit(0)
        for name in self.values:
            self.values[name].unparse()  # a second call in one process begins anew
        try:
            values = {}
            for option in self.declared:
                if option.positional:
                    if not arguments or arguments[0] not in option.choices:
                        found = (
                            f"unexpected argument {arguments[0]!r}; " if arguments and arguments[0][0] != "-" else ""
                        )
                        raise flags.Error(found + f"say what to do: {', '.join(option.choices)}")
                    values[option.name], *arguments = arguments
            given = arguments  # without those of a --flagfile, which a flag beside it may override
            try:
                arguments = self.values.read_flags_from_files(arguments, force_gnu=False)
            except UnicodeDecodeError as error:
                raise flags.Error(f"--flagfile: not UTF-8 ({error}). Save the file as UTF-8.") from None
            _check_names(arguments)
            self._warn_of_repeated(given)
            if rest := self.values([self.name, *arguments])[1:]:
                raise flags.Error(f"unexpected argument {rest[0]!r}; flags are written --name=value")
            for option in self.declared:
                if not option.positional:
                    value = self.values[option.shown].value
                    values[option.name] = ",".join(value) if isinstance(value, list) else value
                    _check_characters(option.shown, values[option.name])
            missing = [o.shown for o in self.declared if o.default is REQUIRED and values[o.name] in (None, "")]
            if missing:
                raise flags.Error(f"missing: {', '.join(f'--{name}' for name in missing)}")
        except flags.Error as error:
            print(f"xmodels {self.name}: {self._hint(error, self._task_of(arguments))}", file=sys.stderr)
            print(f"Run `xmodels {self.name} --help` for all flags.", file=sys.stderr)
            raise SystemExit(EXIT_USAGE) from None
        return self.options(**values)

    def _task_of(self, arguments: list[str]) -> str | None:
        """Returns the task that the arguments name; None if there is none of that name."""
        known = next((each.choices for each in self.declared if each.name == "task"), ())
        words = " ".join(arguments).replace("--task ", "--task=").split()
        named = (word.removeprefix("--task=") for word in words if word.startswith("--task="))
        return next((name for name in named if name in known and name != "auto"), None)

    def _warn_of_repeated(self, arguments: list[str]) -> None:
        """Warns of a flag that is given twice: the last value counts, as with Google's scripts, and a text would be lost."""
        aliases = {option.alias: option.shown for option in self.declared if option.alias}
        single = {o.shown for o in self.declared if not (o.positional or o.repeatable or o.type is bool)}
        names = [argument.lstrip("-").partition("=")[0] for argument in arguments if argument.startswith("--")]
        for name, count in collections.Counter(aliases.get(name, name) for name in names).items():
            if name in single and count > 1:
                print(f"Warning: --{name} is given {count} times; the last one counts.", file=sys.stderr)

    def _hint(self, error: flags.Error, task: str | None = None) -> str:
        """Returns what to say of an error of parsing, with the values that a flag has for the task."""
        if isinstance(error, flags.UnrecognizedFlagError):
            near = difflib.get_close_matches(error.flagname, [option.shown for option in self.declared], 3, 0.5)
            return f"unknown flag --{error.flagname}." + (f" Did you mean --{' or --'.join(near)}?" if near else "")
        text = str(error)
        if isinstance(error, flags.CantOpenFlagFileError):
            return f"--flagfile: {text.partition('] ')[2] or text}. Give a file with one flag a line."
        if isinstance(error, flags.IllegalFlagValueError) and "should be one of" in text:
            name, _, value = text.split()[1].partition("=")
            known = self._known(name.strip("-"), task)
            near = difflib.get_close_matches(value.rstrip(":"), known, 1, 0.3)
            return (
                f"--{name.strip('-')}={value.rstrip(':')}: unknown value."
                + (f" Did you mean {near[0]}?" if near else "")
                + f" Known: {', '.join(known)}."
            )
        return text

    def _known(self, name: str, task: str | None) -> list[str]:
        """Returns the values of a flag; of a flag of tasks those that it has for the task that is named, or the usual one."""
        usual = next((each.default for each in self.declared if each.name == "task"), None)
        own = self.options.own_flags(task or usual) if hasattr(self.options, "own_flags") and (task or usual) else {}
        found = own[name].choices if name in own else ()
        return list(found) or self.values[name].parser.enum_values

    def main(self, arguments: list[str] | None = None) -> int:
        """Parses, works, and returns the exit code."""

        def work() -> int:
            run(self.parse(sys.argv[1:] if arguments is None else arguments), own_process=True)
            return 0

        return guarded(f"xmodels {self.name}", work)


def entry_point(module: str, name: str) -> Command:
    """Returns the command of a module `launch.VERB`; runs it where the module is the program, as with `python -m launch.VERB`.

    Args:
        name: the module's `__name__`.
    """
    command = Command(importlib.import_module(options_module(module.rpartition(".")[2])).Options)
    if name == "__main__":
        sys.exit(command.main())
    return command


def _described(option: Option) -> list[str]:
    """Returns the lines of `--help` about an option."""
    kind = {bool: "true|false", int: "INT", float: "FLOAT", str: "STRING"}[option.type]
    shape = kind if option.values else "|".join(option.choices) or kind
    name = option.name.upper() if option.positional else f"--{option.shown}"
    head = textwrap.wrap(f"{name}={shape}".replace("|", "| "), 98)  # many values take several lines
    head = [line.replace("| ", "|") for line in head]
    rest = [*head[1:], *textwrap.wrap(option.text, 92), *listed(option.values, 92)]
    return [f"  {head[0]}", *(f"      {line}" for line in rest)]


def listed(meanings: Mapping[str, str], width: int) -> list[str]:
    """Returns names with their meanings beside them, as lines."""
    column = max(map(len, meanings), default=0) + 2
    return [
        line
        for name, meaning in meanings.items()
        for line in textwrap.wrap(f"{name:{column}}{meaning}", width, subsequent_indent=" " * column)
    ]


def _check_names(arguments: list[str], longest: int = 100) -> None:
    """Raises a flags.Error where the name of a flag is far too long: absl would look for one like it, and never end."""
    for argument in arguments:
        name = argument.lstrip("-").partition("=")[0]
        if argument.startswith("-") and len(name) > longest:
            raise flags.Error(f"unknown flag --{name[:longest]}… ({len(name):,} characters)")


def _check_characters(name: str, value) -> None:
    """Raises a flags.Error where a flag holds bytes that are not UTF-8, which Python reads as half characters."""
    try:
        str(value).encode()
    except UnicodeEncodeError as error:
        byte = ord(value[error.start]) - 0xDC00
        raise flags.Error(f"--{name}: not UTF-8 (byte 0x{byte:02x} behind {value[: error.start]!r:.40})") from None


def guarded(name: str, work: Callable[[], int]) -> int:
    """Runs `work` and returns its exit code, or that of the error it ends with, which becomes one line.

    What it prints holds no controls that a terminal would obey, whoever wrote them: a flag, a file, a network.
    """
    with contextlib.redirect_stdout(TerminalStream(sys.stdout)), contextlib.redirect_stderr(TerminalStream(sys.stderr)):
        return _guarded(name, work)


def _guarded(name: str, work: Callable[[], int]) -> int:
    try:
        code = work()
        sys.stdout.flush()
        return code
    except ReportedError as error:
        print(for_terminal(f"{name}: {error}"), file=sys.stderr)
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
        # Where Ctrl-C fell into code that Python compiles from a string, as dataclasses are, `python -m` remembers it as unhandled
        # and ends by the signal, whatever is returned. The next string that is executed makes it forget.
        exec("")
        print(f"{name}: interrupted.", file=sys.stderr)
        return 130
