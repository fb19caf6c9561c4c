"""Sets of vectors from each kind of file, and what is wrong with them by line, row or place."""

import json

import numpy as np
import pytest

from data_pipelines.corpora import vector_sets
from data_pipelines.corpora.vector_sets import pad_sets, read_sets
from data_pipelines.errors import DataError, UsageError

SETS = [[[1.0, 2.0], [3.0, 4.0]], [[5, 6]], [[0.5, -1.0], [7.0, 8.0], [9.0, 10.0]]]
LABELS = ["a", "b", "a"]


def write(path, rows=None):
    """The same three sets in the form that the ending of a name says."""
    rows = rows or [{"points": points, "label": label} for points, label in zip(SETS, LABELS, strict=True)]
    if path.suffix == ".npz":
        flat = np.concatenate([np.array(each, np.float64) for each in SETS])
        np.savez(path, points=flat, sizes=[len(each) for each in SETS], labels=np.array(LABELS))
    elif path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["sets.jsonl", "sets.npz", "sets.parquet"])
def test_all_forms_hold_the_same_sets(tmp_path, name):
    found = list(read_sets(write(tmp_path / name)))
    assert [each.points.tolist() for each in found] == SETS and [each.label for each in found] == LABELS
    assert all(each.points.dtype == np.float32 for each in found)
    unlabelled = list(read_sets(str(tmp_path / name), with_labels=False))
    assert [each.points.tolist() for each in unlabelled] == SETS


def test_arrays_of_one_size_need_no_sizes_and_names_may_differ(tmp_path):
    points = np.arange(12, dtype=np.int32).reshape(2, 3, 2)
    np.save(tmp_path / "x.npy", points)
    np.savez(tmp_path / "x.npz", cloud=points, kind=np.array([4, 5]))
    plain = list(read_sets(str(tmp_path / "x.npy"), with_labels=False))
    named = list(read_sets(str(tmp_path / "x.npz"), "cloud", "kind"))
    assert [each.points.tolist() for each in plain] == [each.points.tolist() for each in named] == points.tolist()
    assert [each.label for each in named] == ["4", "5"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"points": [[1, 2], [3]], "label": "a"}, "line 2: ragged vectors, of 1, 2 numbers"),
        ({"points": [[1, "2"]], "label": "a"}, "line 2: a vector holds '2', which is no number"),
        ({"points": [[1, True]], "label": "a"}, "line 2: a vector holds True, which is no number"),
        ({"points": "1 2", "label": "a"}, "line 2: expected a list of vectors"),
        ({"points": [1, 2], "label": "a"}, "line 2: expected a list of vectors"),
        ({"points": [], "label": "a"}, "line 2: expected one vector at least"),
        ({"points": [[], []], "label": "a"}, "line 2: expected one vector at least"),
        ({"points": [[1, 1e300]], "label": "a"}, "line 2: number 2 of vector 1 is inf"),
        ({"points": [[1, 2, 3]], "label": "a"}, "line 2: vectors of 3 numbers, but those before have 2"),
        ({"points": [[1, 2]]}, "line 2: no label"),
        ({"points": [[1, 2]], "label": [1]}, "line 2: expected a text or a number as label"),
        ({"points": [[10**400, 2]], "label": "a"}, "line 2: numbers that cannot be read"),
        ({"label": "a"}, "line 2: no field 'points'"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path, row, message):
    path = write(tmp_path / "sets.jsonl", [{"points": SETS[0], "label": "a"}, row, {"points": SETS[2], "label": "b"}])
    with pytest.raises(DataError, match=message):
        list(read_sets(path))
    if "field" not in message:
        bad = []
        assert [each.label for each in read_sets(path, bad_rows=bad)] == ["a", "b"]
        assert [row.place for row in bad] == [f"{path}, line 2"]


def test_numbers_that_are_none_are_named(tmp_path):
    path = tmp_path / "sets.jsonl"
    path.write_text('{"points": [[NaN, 1]], "label": "a"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="line 1"):
        list(read_sets(str(path)))
    np.savez(tmp_path / "x.npz", points=np.array([[[1.0, np.nan]]]), labels=[1])
    with pytest.raises(DataError, match="set 1: number 2 of vector 1 is nan"):
        list(read_sets(str(tmp_path / "x.npz")))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"points": np.array([["1", "2"]]), "labels": [1]}, "holds <U1, expected numbers"),
        ({"points": np.zeros((2, 3)), "labels": [1, 2]}, "has the shape"),
        ({"points": np.zeros((2, 3)), "sizes": [1, 2], "labels": [1, 2]}, "'sizes'.* 2 in all"),
        ({"points": np.zeros((2, 3)), "sizes": [-1, 3], "labels": [1, 2]}, "'sizes'"),
        ({"points": np.zeros((2, 1, 3)), "labels": [1]}, "'labels' has the shape .1., but there are 2 sets"),
        ({"points": np.zeros((2, 1, 3))}, "no array 'labels'"),
        ({"x": np.zeros((2, 1, 3)), "labels": [1, 2]}, "no array 'points'. Found: x, labels"),
        ({"points": np.array([{}, {}], object), "labels": [1, 2]}, "no arrays of numbers that can be read"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataError, match=message):
        list(read_sets(str(tmp_path / "x.npz")))


def test_other_files_are_refused(tmp_path):
    for name, kind in (("x.txt", UsageError), ("missing.npz", DataError), ("missing.jsonl", (OSError, DataError))):
        with pytest.raises(kind):
            list(read_sets(str(tmp_path / name)))
    for name in ("x.npz", "x.npy", "x.parquet"):
        (tmp_path / name).write_bytes(b"no such thing")
        with pytest.raises((DataError, UsageError)):
            list(read_sets(str(tmp_path / name)))
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="holds no sets"):
        list(read_sets(str(tmp_path / "empty.jsonl")))


def test_sets_are_padded_within_bounds(monkeypatch):
    arrays = pad_sets([np.array(each, np.float32) for each in SETS])
    assert arrays["points"].shape == (3, 3, 2) and arrays["padding_mask"].sum(axis=1).tolist() == [2, 1, 3]
    assert not arrays["points"][~arrays["padding_mask"]].any()
    monkeypatch.setattr(vector_sets, "LARGEST", 17)
    with pytest.raises(DataError, match="3 sets of up to 3 vectors of 2 numbers: more than 17"):
        pad_sets([np.array(each, np.float32) for each in SETS])
