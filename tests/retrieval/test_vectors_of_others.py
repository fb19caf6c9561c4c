"""Files of vectors and indices that were damaged or made to mislead: each is refused by its name, soon and in little memory."""

import dataclasses
import json
import os
import pathlib

import numpy as np
import pytest

from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.files import file_sha256
from xmodels.retrieval import index, vectors
from xmodels.retrieval.encoder import Encoder

ENCODER = Encoder("a" * 64, "b" * 64, {"pooling": "mean"}, "net")


def drawn(count, width=8, seed=0):
    return np.random.default_rng(seed).normal(size=(count, width)).astype("float32")


def build(folder, values, kind="exact", texts=True):
    folder.mkdir()
    halves = np.array_split(np.arange(len(values)), 2)
    parts = [([f"text {row}\n北" for row in rows] if texts else None, values[rows]) for rows in halves]
    index.build(str(folder), ENCODER, kind, parts, values.shape[1], texts)
    return index.Index(str(folder))


def write_npy(path, array, count=2, width=8):
    """A .npy of any array beside a description that fits its bytes."""
    np.save(path, array, allow_pickle=False)
    describe(path, count, width)


def describe(path, count, width):
    made = vectors.Description(ENCODER, width, count, "0" * 64, file_sha256(str(path)))
    pathlib.Path(f"{path}.json").write_text(json.dumps(dataclasses.asdict(made)))


@pytest.mark.parametrize(
    "array",
    [np.array([["a"] * 8] * 2), np.zeros((2, 8), "i4"), np.zeros((2, 8), "f8"), np.zeros((2, 8), ">f4"), np.zeros((2, 2, 4), "f4"),
     np.zeros(2, [("x", "f4", 8)]), np.full((2, 8), np.nan, "f4"), np.full((2, 8), np.inf, "f4"), np.zeros((2, 8), bool)],
)  # fmt: skip
def test_an_array_that_is_no_vectors_is_refused(tmp_path, array):
    write_npy(tmp_path / "vectors.npy", array)
    with pytest.raises(DataError, match=r"vectors\.npy: "):
        list(vectors.read(str(tmp_path / "vectors.npy")).parts())


@pytest.mark.parametrize(
    "header",
    ["{'descr': '|O', 'fortran_order': False, 'shape': (2, 8)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 8)}",
     "{'descr': '<f4', 'fortran_order': False, 'shape': (10**9, 8)}", "{", "(" * 3000, "{'descr': [], 'shape': 3}", ""],
)  # fmt: skip
def test_a_header_that_promises_something_else_is_refused(tmp_path, header):
    path = tmp_path / "vectors.npy"
    text = (header + "\n").encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64))
    describe(path, 2, 8)
    with pytest.raises(DataError, match=r"vectors\.npy: "):
        vectors.read(str(path))
    path.write_bytes(b"PK\x05\x06" + bytes(18))  # an archive
    describe(path, 2, 8)
    with pytest.raises(DataError, match=r"vectors\.npy: "):
        vectors.read(str(path))


def test_what_is_no_file_is_said_to_be_none(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "zero.npy").symlink_to("/dev/zero")
    for name in ("pipe", "folder", "zero"):
        with pytest.raises(DataError, match=rf"{name}\.npy: is a folder, a pipe or a device, not a file"):
            vectors.read(str(tmp_path / f"{name}.npy"))
    with pytest.raises(DataError, match=r"absent\.npy: no such file"):
        vectors.read(str(tmp_path / "absent.npy"))


def test_parquet_of_other_types_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path, width = str(tmp_path / "vectors.parquet"), pyarrow.list_(pyarrow.float32(), 8)
    described = json.dumps(dataclasses.asdict(vectors.Description(ENCODER, 8)))
    rows = pyarrow.array(drawn(2).tolist(), width)
    wrong = {
        "structs": (pyarrow.array([{"a": 1}, {"a": 2}]), rows), "numbers": (pyarrow.array([1, 2]), rows),
        "strings": (pyarrow.array(["a", "b"]), pyarrow.array(["a", "b"])), "no text": (pyarrow.array(["a", None]), rows),
        "lists": (pyarrow.array(["a", "b"]), pyarrow.array(drawn(2).tolist(), pyarrow.list_(pyarrow.float32()))),
        "no vector": (pyarrow.array(["a", "b"]), pyarrow.array([drawn(1)[0].tolist(), None], width)),
        "nan": (pyarrow.array(["a", "b"]), pyarrow.array((drawn(2) * np.nan).tolist(), width)),
    }  # fmt: skip
    for texts, values in wrong.values():
        schema = pyarrow.schema([("text", texts.type), ("vector", values.type)], metadata={vectors.KEY: described})
        parquet.write_table(pyarrow.Table.from_arrays([texts, values], schema=schema), path)
        with pytest.raises(DataError, match=r"vectors\.parquet: "):
            list(vectors.read(path).parts())


def reversed_starts(folder):
    starts = np.fromfile(folder / "text_starts.i64", "<i8")
    starts[::-1].tofile(folder / "text_starts.i64")


def starts_beyond(folder):
    starts = np.fromfile(folder / "text_starts.i64", "<i8")
    starts[-1] = 10**15
    starts.tofile(folder / "text_starts.i64")


def starts_below_zero(folder):
    starts = np.fromfile(folder / "text_starts.i64", "<i8")
    starts[0] = -5
    starts.tofile(folder / "text_starts.i64")


def vectors_of_nan(folder):
    np.full(4 * 8, np.nan, "<f4").tofile(folder / "vectors.f32")


def texts_of_numbers(folder):
    path = folder / "texts.jsonl"
    path.write_text("".join("1" * (len(line) - 1) + "\n" for line in path.read_text().splitlines(keepends=True)))


def texts_that_are_no_json(folder):
    path = folder / "texts.jsonl"
    path.write_bytes(b"\xff" * path.stat().st_size)


def half_characters(folder):
    (folder / "texts.jsonl").write_text('"\\ud800"\n' * 4)
    np.arange(0, 40, 10).astype("<i8").tofile(folder / "text_starts.i64")


def a_pipe(folder):
    os.remove(folder / "texts.jsonl")
    os.mkfifo(folder / "texts.jsonl")


def endless_texts(folder):
    os.remove(folder / "texts.jsonl")
    os.symlink("/dev/zero", folder / "texts.jsonl")


def a_pipe_of_starts(folder):
    os.remove(folder / "text_starts.i64")
    os.mkfifo(folder / "text_starts.i64")


def a_wide_index(folder):
    path = folder / "index.json"
    path.write_text(path.read_text().replace('"width": 8', f'"width": {10**15}').replace('"count": 4', '"count": 0'))


@pytest.mark.parametrize(
    "change",
    [reversed_starts, starts_beyond, starts_below_zero, vectors_of_nan, texts_of_numbers, texts_that_are_no_json, half_characters,
     a_pipe, endless_texts, a_pipe_of_starts, a_wide_index],
)  # fmt: skip
def test_an_index_that_was_forged_is_refused(tmp_path, change):
    build(tmp_path / "index", drawn(4))
    os.remove(tmp_path / "index/SHA256SUMS")
    change(tmp_path / "index")
    with pytest.raises((CheckpointError, DataError), match=f"^{tmp_path / 'index'}"):
        found = index.Index(str(tmp_path / "index"))
        found.search(drawn(1), 2)
        list(found.texts(range(4)))
