"""What hypothesis draws: which files or flags of a target are changed, and how."""

import re
from pathlib import Path

from hypothesis import strategies as st

from data_pipelines.options.declaration import Option
from tests.fuzz.mutations import CODECS, RAW, STRINGS, json_paths
from tests.fuzz.targets import OUTPUTS, UNTRIED, Target

WHOLE = ("-1", "0", "1", "2", "3", "", "x", "1.5", "1_0", "0x10", " 7", "1e3", "\uff11", "nan", "--1")
HUGE = ("65536", "2147483648", "9223372036854775808", "1" + "0" * 5000)
REAL = ("-1", "0", "0.5", "1", "2", "1e308", "1e400", "-1e400", "nan", "inf", "-inf", "1e-320", "", "x", "1,5")
# Flags by which a user asks for much work: large numbers there are no fault of ours.
WORK = re.compile(
    "num_|steps|epochs|batch|factor|size|length|last|lines|restarts|seconds|tokens|stride|row|ngram|devices|bytes|predictions|max_"
)
PLACES = ("/dev/null", "/dev/zero", "/proc/self/environ", "/")  # none is ever an output

hexadecimal = st.binary(min_size=1, max_size=8).map(bytes.hex)
strings = st.sampled_from(STRINGS) | st.text(max_size=20)
number = st.integers(0, 2**31)
large = st.sampled_from((-(2**63), -1, 0, 1, 2, 255, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1)) | st.integers(
    -(2**63), 2**63 - 1
)
how = st.sampled_from(("set", "set", "delete", "add", "twice"))


def of(name, *arguments):
    """The strategy of a mutation."""
    return st.tuples(st.just(name), *arguments).map(list)


BYTES = [
    of("flip", number, st.integers(0, 7)), of("put", number, hexadecimal), of("cut", number), of("drop", number, st.integers(1, 64)),
    of("insert", number, hexadecimal), of("repeat", number, st.integers(1, 64), st.sampled_from((1, 10, 10_000))),
    of("times", st.sampled_from((0, 2, 50))),
]  # fmt: skip
LINES = [
    of("line", number, strings), of("line_drop", number), of("line_repeat", number, st.sampled_from((2, 500))),
    of("line_move", number, number), of("field", number, st.integers(0, 5), strings), of("splice", number, strings),
    of("encode", st.sampled_from(CODECS)), of("line_ends", st.sampled_from(("\r\n", "\r", "", "\n\n", "\n\ufeff", "\u2028"))),
]  # fmt: skip
SHARDS = [
    of("record", number, number, hexadecimal), of("record_move", number, number), of("record_length", large),
    of("feature", number, st.integers(0, 9), st.lists(large, max_size=4) | st.lists(st.just("x"), min_size=1, max_size=2)),
]  # fmt: skip


def mutations(path: Path, others: list[str], turn: int = 0):
    """The strategy of a mutation of a file, by its kind; another one is the simplest at each turn."""
    data = path.read_bytes()
    ways = [*BYTES, of("other", st.sampled_from(others))] if others else BYTES
    kind = path.name.rpartition(".")[2]
    if kind == "tfrecord":
        ways = [*BYTES[:3], *SHARDS]
    elif kind == "safetensors":
        paths = json_paths(data[8 : 8 + int.from_bytes(data[:8], "little")])
        ways = [
            *ways,
            of("header_length", large),
            *[of("header", st.sampled_from(paths), st.sampled_from(RAW), how)] * 6,
        ]
    elif kind == "jsonl":
        rows = [(index, json_paths(row)) for index, row in enumerate(data.splitlines())]
        places = [(index, path) for index, paths in rows for path in paths]
        edits = st.tuples(st.sampled_from(places), st.sampled_from(RAW), how)
        ways = [*ways, *LINES, *[edits.map(lambda x: ["json_line", *x[0], *x[1:]])] * 8]
    elif paths := json_paths(data):
        ways = [
            *ways,
            of("splice", number, strings),
            *[of("json_set", st.sampled_from(paths), st.sampled_from(RAW), how)] * 10,
        ]
    elif b"\x00" not in data:
        ways = [*ways, *LINES, *LINES]
    return st.one_of(_turned(ways, turn))


def values(option: Option, target: Target, names: list[str]):
    """The strategy of the value of a flag, as text."""
    if option.type in (int, float):
        texts = REAL if option.type is float else WHOLE
        return st.sampled_from(texts if WORK.search(option.shown) else (*texts, *HUGE))
    # Neither a NUL nor half a character can come from a shell, but bytes that are not UTF-8 can: Python reads \udc80 to \udcff.
    shell = st.sampled_from([*STRINGS, "a\udcff"]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    shell = shell.filter(lambda text: "\x00" not in text)
    if option.shown in OUTPUTS:
        return (shell | st.sampled_from(names)).filter(stays_inside)
    return shell | st.sampled_from([*names, *PLACES, *option.choices])


def stays_inside(value: str) -> bool:
    """Whether an output that is called so lies in the folder of the case: it is written by programs that no hook stops."""
    return not any(part.startswith(("/", "~")) for part in re.split("[:,=@]", value)) and value.count("..") < 2


def _turned(ways: list, turn: int) -> list:
    """The same in another order: hypothesis begins with what stands first."""
    turn = 7919 * turn % max(1, len(ways))
    return ways[turn:] + ways[:turn]


@st.composite
def cases(draw, target: Target, base: Path, turn: int = 0):
    """A case: {"target": name, "files": {path: mutations}, "flags": {name: value}}; another one is the simplest at each turn."""
    case = {"target": target.name, "files": {}, "flags": {}}
    files = [path for pattern in target.reads for path in sorted(base.glob(pattern)) if path.is_file()]
    beside = sorted(base.iterdir())  # in an order that is the same everywhere
    names, others = [each.name for each in beside], [each.name for each in beside if each.is_file()]
    declared = [each for each in target.command.declared if each.shown not in UNTRIED and not each.positional]
    if files and draw(st.sampled_from(_turned([True, True, True, False], turn))):
        for path in draw(st.lists(st.sampled_from(_turned(files, turn)), min_size=1, max_size=2, unique=True)):
            way = mutations(path, others, turn)
            case["files"][str(path.relative_to(base))] = draw(st.lists(way, min_size=1, max_size=3))
    else:
        for option in draw(
            st.lists(st.sampled_from(_turned(declared, turn)), min_size=1, max_size=2, unique_by=lambda o: o.name)
        ):
            case["flags"][option.shown] = draw(values(option, target, names))
    return case
