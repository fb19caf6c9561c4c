"""Records that say they are longer than their file: TensorFlow would take them at their word, and end the process."""

import shutil

import pytest
import tensorflow as tf

from data_pipelines.errors import DataError
from data_pipelines.records.shards import check_lengths
from tests.fuzz import mutations
from tests.helpers.invocation import invoke


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(5):
            writer.write(b"x" * number)
    return path


@pytest.mark.parametrize("length", [2**62, 2**40, 200])
def test_lengths_beyond_the_file_are_named(path, length):
    check_lengths(str(path))
    check_lengths(str(path), 2)
    whole, third = path.read_bytes(), 16 + 17  # the byte at which the third record begins
    path.write_bytes(whole[:third] + mutations.record_length(whole[third:], length))
    check_lengths(str(path), 2)
    for most in (3, 100, None):
        with pytest.raises(
            DataError, match=r"a.tfrecord: damaged or cut TFRecord file \(its (last record|record 3) ends at byte"
        ):
            check_lengths(str(path), most)


def test_a_file_that_goes_on_behind_its_last_record_is_damaged(path):
    path.write_bytes(path.read_bytes() + b"\0" * 8)
    with pytest.raises(DataError, match="its last record ends at byte"):
        check_lengths(str(path))


@pytest.fixture
def damaged(records, tmp_path):
    shutil.copytree(records, tmp_path / "damaged")
    shard = sorted((tmp_path / "damaged").glob("*.tfrecord"))[0]
    shard.write_bytes(mutations.record_length(shard.read_bytes(), 2**62))
    return tmp_path / "damaged"


def test_verbs_say_so_and_do_not_end_by_a_signal(records, damaged, tmp_path, capsys):
    run = {"system": "bert", "size": "tiny", "model_dir": tmp_path / "run", "num_train_steps": 2}
    for verb, flags in (
        ("inspect_data", {"data_dir": damaged}),
        ("pretrain", {"data_dir": damaged, **run}),
        ("pretrain", {"data_dir": records, "eval_data_dir": damaged, **run}),
    ):
        assert invoke(verb, **flags) == 3
        assert "damaged or cut TFRecord file (its record 1 ends at byte" in capsys.readouterr().err
