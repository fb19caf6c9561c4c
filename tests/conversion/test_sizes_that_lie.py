"""Archives, pickles and settings that name huge sizes or other things than numbers are refused, in little memory."""

import io
import json
import pickle
import resource
import struct
import zipfile

import numpy as np
import pytest

from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.text import kinds, words
from xmodels.conversion import paddle
from xmodels.conversion.pickles import unpickle_arrays
from xmodels.runs import loaded


@pytest.fixture(autouse=True)
def little_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB


def header(shape, descr="<f4"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def test_arrays_of_an_archive_are_read_as_numpy_reads_them(tmp_path):
    wanted = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.asfortranarray(np.eye(3, 2)), "c": np.float32(3)}
    np.savez(tmp_path / "weights.npz", **wanted)
    found = paddle._of_file(str(tmp_path / "weights.npz"), False)
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(
    "contents",
    [
        header((10**12,)),
        header((10**6, 10**9)),
        header((4,)) + bytes(8),
        header((2,), "|O") + bytes(16),
        b"nothing",
        b"",
    ],
)
def test_an_array_that_promises_more_than_its_entry_holds_is_refused(tmp_path, contents):
    with zipfile.ZipFile(tmp_path / "weights.npz", "w") as archive:
        archive.writestr("a.npy", contents)
    with pytest.raises(CheckpointError, match="weights.npz: not a readable file of numpy arrays"):
        paddle._of_file(str(tmp_path / "weights.npz"), False)


def test_an_archive_that_unfolds_to_very_much_is_refused(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "weights.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w") as file,
    ):
        file.write(header((25 * 10**6,)))
        for _ in range(100):
            file.write(bytes(10**6))
    with pytest.raises(CheckpointError, match="unfold to"):
        paddle._of_file(str(tmp_path / "weights.npz"), False)


class Reduced:
    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


ARRAY = np.zeros(3, "f4").__reduce__()
HUGE = {
    "an array of terabytes": pickle.dumps({"a": Reduced(ARRAY[0], (np.ndarray, (10**12,), b"f"))}),
    "a state of terabytes": pickle.dumps(
        {"a": Reduced(ARRAY[0], ARRAY[1], (1, (10**12,), np.dtype("f4"), False, b"1234"))}
    ),
    "bytes of terabytes": b"\x80\x04}\x8c\x01a\x8e" + struct.pack("<Q", 10**12) + b"1234",
    "a text of gigabytes": b"\x80\x04}X" + struct.pack("<I", 4 * 10**9) + b"1234",
    "a place of gigabytes": b"\x80\x04}r" + struct.pack("<I", 2**32 - 2) + b".",
    "a codec": pickle.dumps({"a": Reduced(__import__("_codecs").encode, ("a" * 100, "punycode"))}, 2),
    "a function": pickle.dumps({"a": Reduced(__import__("os").system, ("true",))}),
    "a cut": pickle.dumps({"a": np.zeros(9)})[:-5],
    "no dictionary": pickle.dumps([1]),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_pickle_that_names_huge_sizes_or_code_is_refused(tmp_path, name):
    (tmp_path / "a.pdparams").write_bytes(HUGE[name])
    try:
        found = unpickle_arrays(str(tmp_path / "a.pdparams"))
    except CheckpointError as error:
        assert "a.pdparams: " in str(error)
    else:  # what an array is to be is said by its state alone
        assert name == "an array of terabytes" and found["a"].nbytes == 0


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickles_of_arrays_are_read(tmp_path, protocol):
    wanted = {
        "a": np.arange(6, dtype="f4").reshape(2, 3),
        "b": np.asfortranarray(np.eye(3, 2)),
        "n": {"x": "y"},
        "c": np.float64(2),
    }
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps(wanted, protocol))
    found = unpickle_arrays(str(tmp_path / "a.pdparams"))
    np.testing.assert_array_equal(found["a"], wanted["a"])
    np.testing.assert_array_equal(found["b"], wanted["b"])
    assert found["n"] == {"x": "y"} and found["c"] == 2


@pytest.mark.parametrize("kind", [[], {}, 3, True, "x", ["wordpiece"]])
def test_a_kind_of_tokenizer_that_is_none_is_named(tmp_path, kind):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer": kind}))
    with pytest.raises(CheckpointError, match="tokenizer_config.json"):
        loaded.read_tokenizer(str(tmp_path))
    with pytest.raises(DataError, match='"tokenizer": .* is unknown'):
        kinds.check_values({"tokenizer": kind}, "tokenizer_config.json")


def test_very_many_sentinels_are_refused():
    with pytest.raises(DataError, match="`num_sentinels` is too small or too large"):
        kinds.check_values({"tokenizer": "sentencepiece", "num_sentinels": 10**8}, "tokenizer_config.json")


@pytest.mark.parametrize(
    "name", ["os:system", "builtins:len", "builtins:eval", "builtins:print", "math:sqrt", "json:loads"]
)
def test_a_function_that_gives_no_words_is_refused_before_it_gets_a_text(name):
    with pytest.raises(UsageError, match=f"--segmenter={name}: "):
        words.segmenter(name)


def test_a_function_that_gives_words_cuts_by_them():
    assert words.segmenter("builtins:list")("ab") == [0, 1]
