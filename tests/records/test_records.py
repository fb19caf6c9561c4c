"""Records are read by TensorFlow as they were written, and damage is named."""

import json
import os
import pathlib
import struct

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import DataError
from data_pipelines.features import Feature
from data_pipelines.records.manifest import MANIFEST, Manifest, RecordSettings
from data_pipelines.records.shards import ShardWriter
from data_pipelines.records.verification import verify
from tests.helpers.small_records import encode_example

NAME = "records-00000-of-00002.tfrecord"


def write_shard(path, records):
    with ShardWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return writer.shard()


def read_example(record):
    features = tf.train.Example.FromString(record).features.feature
    return {name: list(getattr(f, f.WhichOneof("kind")).value) for name, f in features.items()}


NUMBERS = [0, 1, 127, 128, 129, 255, 16383, 16384, 65535, 65536, 65537, 2**21, 2**31, 2**32 + 1, 2**40]


def test_tensorflow_reads_the_numbers_that_were_written(tmp_path):
    rng = np.random.default_rng(0)
    examples = [{"a": [number], "b": NUMBERS[: i + 1]} for i, number in enumerate(NUMBERS)]
    examples += [{"a": [7], "b": rng.integers(0, 2**40, n).tolist()} for n in (0, 1, 127, 128, 1000, 20000)]
    write_shard(tmp_path / NAME, map(encode_example, examples))
    read = [read_example(record) for record in tf.data.TFRecordDataset(str(tmp_path / NAME)).as_numpy_iterator()]
    assert read == examples


def test_tensorflow_reads_floats_bit_for_bit():
    values = [0.0, -0.0, 1.0, 0.1, -1e30, 1e-40, float("inf"), 3.4028234663852886e38]
    read = read_example(encode_example({"weights": values}))["weights"]
    assert np.array(read, np.float32).tobytes() == np.array(values, np.float32).tobytes()


def test_an_example_is_the_bytes_that_protobuf_writes():
    values = {"token_ids": [5, 300, 2**40], "weights": [0.5, 1.0], "a name of some length " * 10: [1]}
    example = tf.train.Example()
    for name, value in values.items():
        feature = example.features.feature[name]
        (feature.float_list if isinstance(value[0], float) else feature.int64_list).value.extend(value)
    assert encode_example(values) == example.SerializeToString(deterministic=True)


def test_a_list_without_numbers_parses_as_an_empty_row():
    serialized = [encode_example({"token_ids": []}), encode_example({"token_ids": [4, 5]})]
    parsed = tf.io.parse_example(serialized, {"token_ids": tf.io.RaggedFeature(tf.int64)})
    assert parsed["token_ids"].to_list() == [[], [4, 5]]


def test_a_shard_is_what_tensorflow_would_write(tmp_path):
    records = [b"", b"x", os.urandom(100_000)]
    shard = write_shard(tmp_path / NAME, records)
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    ours = (tmp_path / NAME).read_bytes()
    assert ours == (tmp_path / "theirs").read_bytes()
    assert (shard.name, shard.examples, shard.bytes) == (NAME, 3, len(ours))


def test_an_exception_leaves_no_shard_under_the_final_name(tmp_path):
    with pytest.raises(KeyError), ShardWriter(str(tmp_path / NAME)) as writer:
        writer.write(b"half")
        raise KeyError
    assert not (tmp_path / NAME).exists()


def test_an_exception_leaves_an_older_shard_alone(tmp_path):
    write_shard(tmp_path / NAME, [b"old"])
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(KeyError), ShardWriter(str(tmp_path / NAME)) as writer:
        writer.write(b"new")
        raise KeyError
    assert (tmp_path / NAME).read_bytes() == before


def test_no_shard_has_its_name_before_it_is_whole(tmp_path):
    with ShardWriter(str(tmp_path / NAME)) as writer:
        writer.write(b"record")
        assert not (tmp_path / NAME).exists()
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.fixture
def folder(tmp_path):
    """Two shards of ten records and their manifest."""
    names = [NAME, NAME.replace("00000-", "00001-")]
    shards = [write_shard(tmp_path / name, [encode_example({"a": [i] * 50}) for i in range(10)]) for name in names]
    features = {"a": Feature((None,)), "b": Feature((2,), "float32"), "c": Feature(())}
    Manifest(features, shards, RecordSettings.of({"词": "字", "language": "zh"}), {"examples": 20}).write(str(tmp_path))
    return tmp_path


def test_a_manifest_reads_back_as_it_was(folder):
    manifest = Manifest.read(str(folder))
    assert manifest.features == {"a": Feature((None,)), "b": Feature((2,), "float32"), "c": Feature(())}
    assert list(manifest.settings.to_json().items()) == [("词", "字"), ("language", "zh")]
    assert manifest.settings.language == "zh"
    assert manifest.statistics == {"examples": 20}
    assert manifest.num_examples == 20
    again = folder / "again"
    again.mkdir()
    manifest.write(str(again))
    assert Manifest.read(str(again)) == manifest
    assert sorted(p.name for p in again.iterdir()) == [MANIFEST]


def test_a_manifest_that_was_changed_is_refused(folder):
    path = folder / MANIFEST
    path.write_text(path.read_text().replace('"language": "zh"', '"language": "en"'))
    with pytest.raises(DataError, match="manifest.json: .*changed after it was written.*delete the line `sha256`"):
        Manifest.read(str(folder))
    path.write_text("".join(line for line in path.open() if not line.startswith('  "sha256"')))
    assert Manifest.read(str(folder)).settings.language == "en"


def test_a_manifest_may_be_laid_out_anew(folder):
    path, before = folder / MANIFEST, Manifest.read(str(folder))
    value = dict(sorted(json.loads(path.read_text()).items()))
    path.write_text(json.dumps(value, indent=None))
    assert Manifest.read(str(folder)) == before


def test_whole_shards_are_accepted(folder):
    read = []
    verify(str(folder), Manifest.read(str(folder)))
    verify(str(folder), Manifest.read(str(folder)), deep=True, progress=read.append)
    assert sum(read) == sum(shard.bytes for shard in Manifest.read(str(folder)).shards)


def complaint(folder, deep=False):
    with pytest.raises(DataError) as caught:
        verify(str(folder), Manifest.read(str(folder)), deep=deep)
    return str(caught.value)


def test_a_missing_shard_is_named(folder):
    (folder / NAME).unlink()
    assert f"{folder / NAME}: missing" in complaint(folder)


def test_a_shard_cut_within_a_record_is_named(folder):
    os.truncate(folder / NAME, os.path.getsize(folder / NAME) - 7)
    message = complaint(folder)
    assert f"{folder / NAME}: " in message and "cut" in message and "00001-of" not in message


def test_a_shard_cut_at_the_end_of_a_record_is_named(folder):
    length = struct.unpack("<Q", (folder / NAME).read_bytes()[:8])[0]
    os.truncate(folder / NAME, 3 * (length + 16))
    assert sum(1 for _ in tf.data.TFRecordDataset(str(folder / NAME))) == 3  # TensorFlow sees nothing wrong
    assert f"{folder / NAME}: " in complaint(folder)


@pytest.mark.parametrize("place", [0, 9, 40, -1])
def test_one_flipped_bit_is_found_by_a_deep_look(folder, place):
    data = bytearray((folder / NAME).read_bytes())
    data[place] ^= 1
    (folder / NAME).write_bytes(data)
    verify(str(folder), Manifest.read(str(folder)))
    assert f"{folder / NAME}: contents changed" in complaint(folder, deep=True)


def test_many_problems_are_counted_and_five_are_listed(tmp_path):
    shards = [write_shard(tmp_path / f"{i}.tfrecord", [b"x"]) for i in range(8)]
    Manifest({}, shards, RecordSettings(), {}).write(str(tmp_path))
    for shard in shards:
        (tmp_path / shard.name).unlink()
    message = complaint(tmp_path)
    assert message.count(": missing") == 5 and "3 more" in message


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        (b'{"format_version": 99}', "format version 99"),
        (b'{"format_version": 1', "damaged"),
        (b"", "damaged"),
        (b"[]", "damaged"),
        (b"null", "damaged"),
        (b'{"format_version": 1, "features": {}}', "damaged"),
        (b'{"format_version": 1, "features": [], "shards": [], "settings": {}, "statistics": {}}', "damaged"),
        (b'{"format_version": 1, "features": {}, "shards": [{}], "settings": {}, "statistics": {}}', "damaged"),
        (b"\xff\xfe{}", "damaged"),
    ],
)
def test_a_damaged_manifest_is_named(folder, contents, says):
    (folder / MANIFEST).write_bytes(contents)
    with pytest.raises(DataError, match=says) as caught:
        Manifest.read(str(folder))
    assert str(folder / MANIFEST) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m["settings"].update(max_sequence_length="128"),
         "`settings.max_sequence_length` must be a whole number. Found: '128'"),
        (lambda m: m["settings"].update(label_names=["a", 1]), "`settings.label_names` must be a list of texts"),
        (lambda m: m["settings"].update(do_lower_case=1), "`settings.do_lower_case` must be true or false. Found: 1"),
        (lambda m: m["statistics"].update(examples=1.5), "`statistics` must be an object of whole numbers"),
        (lambda m: m["shards"][1].update(bytes=None), r"`shards\[1\].bytes` must be a whole number. Found: None"),
        (lambda m: m["shards"][0].pop("sha256"), r"`shards\[0\].sha256` is missing, expected a SHA-256"),
        (lambda m: m["features"]["a"].update(shape=["L"]), "`features.a.shape` must be a list of whole numbers and null"),
        (lambda m: m.pop("statistics"), "`statistics` is missing, expected an object of whole numbers"),
        (lambda m: m.update(words=1), "unknown `words`; known here: format_version, features"),
        (lambda m: m["shards"][0].update(name="../x"), r"`shards\[0\].name` must be the name of a file in this folder"),
        (lambda m: m["shards"][0].update(name=m["shards"][1]["name"]), r"`shards\[1\].name` .* stands there twice"),
        (lambda m: m["shards"][0].update(examples=-1), r"`shards\[0\].examples` must be a whole number from 0"),
        (lambda m: m["shards"][0].update(examples=10.0), r"`shards\[0\].examples` must be a whole number. Found: 10.0"),
        (lambda m: m["shards"][0].update(examples=10**4000), r"`shards\[0\].examples` must be a whole number from 0. Found: a wh"),
        (lambda m: m["shards"][0].update(examples=9), "`num_examples` is 20, but the shards hold 19"),
        (lambda m: m["statistics"].update(examples=21), "`statistics.examples` is 21, but the shards hold 20"),
        (lambda m: m["shards"][0].update(offsets=[7]), r"`shards\[0\].offsets` must be ascending numbers from 0"),
        (lambda m: m["settings"].update(packing="stream "), "`settings.packing` must be one of .*segment_pair, "),
        (lambda m: m["settings"].update(masked_lm_prob=float("nan")), "`settings.masked_lm_prob` must be a number above 0, at most 1"),
    ],
)  # fmt: skip
def test_a_manifest_with_a_value_of_another_type_names_the_key(folder, change, says):
    value = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    change(value)
    (folder / MANIFEST).write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(DataError, match=says) as caught:
        Manifest.read(str(folder))
    assert str(folder / MANIFEST) in str(caught.value)


def test_a_manifest_is_written_byte_for_byte_as_it_was_read(folder):
    before = (folder / MANIFEST).read_bytes()
    Manifest.read(str(folder)).write(str(folder))
    assert (folder / MANIFEST).read_bytes() == before


def test_a_missing_manifest_and_a_missing_folder_are_named(folder):
    (folder / MANIFEST).unlink()
    with pytest.raises(DataError, match="--resume") as caught:
        Manifest.read(str(folder))
    assert str(folder / MANIFEST) in str(caught.value)
    with pytest.raises(DataError, match="no such folder") as caught:
        Manifest.read(str(folder / "elsewhere"))
    assert str(folder / "elsewhere") in str(caught.value)


def test_a_manifest_is_plain_json_that_people_can_read(folder):
    text = pathlib.Path(folder, MANIFEST).read_text(encoding="utf-8")
    assert '"词": "字"' in text
    assert json.loads(text)["num_examples"] == 20
