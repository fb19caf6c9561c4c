"""Damage as data: a mutation is a list that JSON can hold, so that a find is a small file, and can be made again."""

import json
import struct
from collections.abc import Callable, Iterator

import google_crc32c

Mutation = list  # the name of a function below, and its arguments

# What stands in place of a JSON value: as text, since most of it is no value that Python would write.
RAW = (
    "null", "true", "-1", "0", "1", "1.5", "1e400", "1e-400", "-0.0", "NaN", "-Infinity", "2147483647", "4294967296", "1000000007",
    "9223372036854775808", "1" + "0" * 5000, "[]", "{}", "[[]]", "[1]", '{"a": 1}', "[" * 50_000, "[" * 200 + "]" * 200,
    '""', '" "', '"x"', '"1"', '"\\ud800"', '"\\u0000"', '"\\u001b[31m"', '"\\u202e"', '"../../x"', '"/etc/passwd"',
    '"' + "a" * 100_000 + '"', ",", "}", "",
)  # fmt: skip
STRINGS = (
    "", " ", "\n", "\r", "\t", "\x00", "\x1b[31m", "\x85", "\u2028", "\u202e", "\ufeff", "\ufffd", "\ud7ff", "\u0300", "e\u0301",
    "\U0001f600", "\uff11", "\u22121", "\u2581", "##", "[MASK]", "a" * 100_000, "x" * 5000, "a " * 3000, "\u4e2d" * 400,
    ".", "..", "../x", "x/../y", "/etc/passwd", "*", "**", "[", "{a,b}", "~", "$HOME", "file:///x", "gs://x/y",
    "hf:", "tf1:", "new:", "word2vec:", "tfds:", "tfds:x/y@train", ":", "a:b", "@", "a@b", ",", ",,", '"', "'", "\\", "\\x",
    "-1", "1e309", "nan", "--help", "--", "true", "None", "=1+1", "<b>", "%s%n", "{}", "{0}",
)  # fmt: skip
LARGEST = 2_000_000  # bytes of a file; what larger ones need grows with them
CODECS = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "gb18030", "shift_jis")


def mutate(data: bytes, mutations: list[Mutation], other: Callable[[str], bytes]) -> bytes:
    """Applies mutations in order; `other` reads a file that takes the place of this one."""
    for name, *arguments in mutations:
        data = other(*arguments) if name == "other" else FUNCTIONS[name](data, *arguments)
        data = data[:LARGEST]
    return data


def flip(data, place, bit):
    return data and _put(data, place % len(data), bytes([data[place % len(data)] ^ (1 << bit)]))


def put(data, place, text):
    return data and _put(data, place % len(data), bytes.fromhex(text))


def _put(data, place, new):
    return data[:place] + new + data[place + len(new) :]


def cut(data, place):
    return data and data[: place % len(data)]


def drop(data, place, count):
    place %= len(data) + 1
    return data[:place] + data[place + count :]


def insert(data, place, text):
    place %= len(data) + 1
    return data[:place] + bytes.fromhex(text) + data[place:]


def repeat(data, place, count, times):
    place %= len(data) + 1
    return data[: place + count] + data[place : place + count] * times + data[place + count :]


def times(data, count):
    return data * count


def encode(data, codec):
    return data.decode("utf-8", "replace").encode(codec, "replace")


def line_ends(data, end):
    return data.replace(b"\n", end.encode())


def line(data, index, new):
    return _lines(data, index, lambda old: [new.encode("utf-8", "surrogatepass")])


def line_drop(data, index):
    return _lines(data, index, lambda old: [])


def line_repeat(data, index, count):
    return _lines(data, index, lambda old: [old] * count)


def line_move(data, index, target):
    lines = data.split(b"\n")
    lines.insert(target % len(lines), lines.pop(index % len(lines)))
    return b"\n".join(lines)


def field(data, index, place, new):
    """Replaces what stands between two tabs, commas or blanks."""

    def change(old):
        mark = next((mark for mark in (b"\t", b",", b" ") if mark in old), b" ")
        parts = old.split(mark)
        parts[place % len(parts)] = new.encode("utf-8", "surrogatepass")
        return [mark.join(parts)]

    return _lines(data, index, change)


def splice(data, place, new):
    text = data.decode("utf-8", "replace")
    place %= len(text) + 1
    return (text[:place] + new + text[place:]).encode("utf-8", "surrogatepass")


def _lines(data, index, change):
    lines = data.split(b"\n")
    index %= len(lines)
    return b"\n".join([*lines[:index], *change(lines[index]), *lines[index + 1 :]])


def json_set(data, path, raw, how="set"):
    """Puts `raw` where `path` leads to; `how` also deletes it, adds a key beside it, or writes it twice."""
    try:
        value = json.loads(data)
    except ValueError:
        return data
    mark, inner = "\x01mark\x01", value
    try:
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] if path else None
    except (LookupError, TypeError):
        return data  # what came before has taken it away
    if not path:
        value = mark
    elif how == "delete":
        del inner[path[-1]]
    elif isinstance(inner, dict) and how == "add":
        inner["added"] = mark
    elif isinstance(inner, list) and how == "add":
        inner.append(mark)
    elif isinstance(inner, dict) and how == "twice":
        written = json.dumps(path[-1], ensure_ascii=False)
        old, inner[path[-1]] = json.dumps(inner[path[-1]], ensure_ascii=False), mark
        raw = f"{old}, {written}: {raw}"
    else:
        inner[path[-1]] = mark
    return json.dumps(value, ensure_ascii=False).replace(json.dumps(mark), raw).encode("utf-8", "surrogatepass")


def json_line(data, index, path, raw, how="set"):
    return _lines(data, index, lambda old: [json_set(old, path, raw, how)])


def json_paths(data: bytes) -> list[list]:
    """The ways to all values of a JSON text, its own first; none where it is no JSON."""
    try:
        value = json.loads(data)
    except ValueError:
        return []
    return list(_paths(value, []))[:500]


def _paths(value, path) -> Iterator[list]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _paths(each, [*path, key])


def header(data, path, raw, how="set"):
    """The same in the header of a safetensors file, with its length as it then is."""
    length = int.from_bytes(data[:8], "little")
    changed = json_set(data[8 : 8 + length], path, raw, how)
    return struct.pack("<Q", len(changed)) + changed + data[8 + length :]


def header_length(data, length):
    return struct.pack("<Q", length % 2**64) + data[8:]


def record(data, index, place, text):
    """Changes bytes of a TFRecord, and its checksum with it."""
    parts = list(_records(data))
    if not parts:
        return data
    parts[index % len(parts)] = put(parts[index % len(parts)], place, text)
    return b"".join(map(_framed, parts))


def record_move(data, index, target):
    parts = list(_records(data))
    if parts:
        parts.insert(target % len(parts), parts.pop(index % len(parts)))
    return b"".join(map(_framed, parts))


def record_length(data, length):
    """States another length of the first record, with the checksum of that."""
    frame = struct.pack("<Q", length % 2**64)
    return frame + struct.pack("<I", _checksum(frame)) + data[12:]


def feature(data, index, name, values):
    """Gives a feature of an example in a TFRecord other values, whole numbers or texts, or none; writes the checksum."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.example import example_pb2

    parts = list(_records(data))
    if not parts:
        return data
    try:
        example = example_pb2.Example.FromString(parts[index % len(parts)])
    except DecodeError:
        return data
    names = sorted(example.features.feature)
    if not names:
        return data
    chosen = example.features.feature[names[name % len(names)]]
    chosen.Clear()
    if values and isinstance(values[0], str):
        chosen.bytes_list.value.extend(value.encode() for value in values)
    elif values:
        chosen.int64_list.value.extend(values)
    parts[index % len(parts)] = example.SerializeToString()
    return b"".join(map(_framed, parts))


def _records(data: bytes) -> Iterator[bytes]:
    place = 0
    while place + 12 <= len(data):
        length = int.from_bytes(data[place : place + 8], "little")
        if length > len(data):
            return
        yield data[place + 12 : place + 12 + length]
        place += length + 16


def _framed(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", _checksum(length)) + payload + struct.pack("<I", _checksum(payload))


def _checksum(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


FUNCTIONS = {
    each.__name__: each for each in (
        flip, put, cut, drop, insert, repeat, times, encode, line_ends, line, line_drop, line_repeat, line_move, field, splice,
        json_set, json_line, header, header_length, record, record_move, record_length, feature,
    )
}  # fmt: skip
FORGED = {
    "record",
    "record_move",
    "record_length",
    "feature",
}  # change checksums that stand in the file itself along with it
