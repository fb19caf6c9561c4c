"""Reading goes on anywhere at the same cost, and damaged shards are named or left out."""

import dataclasses
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import DataError
from data_pipelines.features import Feature
from data_pipelines.records import shards as shard_files
from data_pipelines.records import source as source_files
from data_pipelines.records.manifest import Manifest, RecordSettings
from data_pipelines.records.shards import Shard, ShardWriter, chunk_offsets
from data_pipelines.records.source import RecordSource
from tests.helpers.small_records import encode_example
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.training.watching.progress import read_log

SHARDS = [300, 7, 0, 512, 181]  # 1,000 examples
WINDOW, CHUNK = 64, 16


@pytest.fixture
def small_chunks(monkeypatch):
    for module in (source_files, shard_files):
        monkeypatch.setattr(module, "CHUNK", CHUNK)
    monkeypatch.setattr(source_files, "SHUFFLE_WINDOW", WINDOW)


def write_folder(folder, counts=SHARDS):
    shards, number = [], 0
    for i, count in enumerate(counts):
        with ShardWriter(str(folder / f"records-{i}.tfrecord")) as writer:
            for _ in range(count):
                writer.write(encode_example({"number": [number], "token_ids": [1] * (number % 9)}))
                number += 1
        shards.append(writer.shard())
    features = {"number": Feature(()), "token_ids": Feature((None,))}
    Manifest(features, shards, RecordSettings.of({"max_sequence_length": 9}), {}).write(str(folder))
    return RecordSource(str(folder))


def batches_of(source, batch_size=10):
    return Batches(source, lambda features: features, batch_size, 3, keep=("number", "seed"))


def numbers(stream, count):
    found = []
    for batch in stream:
        found += batch["number"].numpy().tolist()
        if len(found) >= count:
            return found[:count]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "consumed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (63, 64, 500, 999, 1000, 1001)), 7_777]
)
def test_reading_goes_on_bitwise_over_many_windows(small_chunks, tmp_path, consumed):
    batches = batches_of(write_folder(tmp_path))
    whole = numbers(batches.training(), consumed + 300)
    assert numbers(batches.training(consumed=consumed), 300) == whole[consumed:]


def test_resuming_reads_at_most_two_windows_whatever_the_position(small_chunks, tmp_path, monkeypatch):
    source = write_folder(tmp_path)
    read, kernel = [], source_files._read_chunk

    def counting(*place):
        def count(index):
            read.append(int(index))
            return index

        return kernel(*place).map(lambda i, item: (tf.ensure_shape(tf.numpy_function(count, [i], tf.int64), []), item))

    monkeypatch.setattr(source_files, "_read_chunk", counting)
    costs = []
    for consumed in (0, 480, 930, 5_930, 999_930):
        read.clear()
        next(iter(batches_of(source, 1).training(consumed=consumed)))
        costs.append(len(read))
    # A window, one that is read ahead, and what interleaving and prefetching take of the next.
    assert max(costs) <= 5 * (WINDOW + CHUNK) < 1000, costs


def test_offsets_of_the_manifest_are_those_of_the_file(small_chunks, tmp_path):
    source = write_folder(tmp_path)
    for path, shard in zip(source.paths, source.manifest.shards, strict=True):
        assert len(shard.offsets) == -(-shard.examples // CHUNK)
        assert chunk_offsets(path, dataclasses.replace(shard, offsets=[])) == shard.offsets


def test_folders_without_offsets_give_the_same_stream(small_chunks, tmp_path):
    expected = numbers(batches_of(write_folder(tmp_path)).training(consumed=123), 1500)
    path = tmp_path / "manifest.json"
    values = json.loads(path.read_text())
    for shard in values["shards"]:
        del shard["offsets"]
    del values["sha256"]
    path.write_text(json.dumps(values))
    source = RecordSource(str(tmp_path))
    assert not source.manifest.shards[0].offsets
    assert numbers(batches_of(source).training(consumed=123), 1500) == expected


def test_a_file_whose_records_do_not_fit_its_shard_is_refused(tmp_path):
    source = write_folder(tmp_path, [20])
    path, shard = source.paths[0], source.manifest.shards[0]
    assert chunk_offsets(path, Shard(shard.name, 20, 0, "")) == [0]
    with pytest.raises(DataError, match="its 19 records end at byte"):
        chunk_offsets(path, Shard(shard.name, 19, 0, ""))
    with pytest.raises(DataError, match="no record begins there"):
        chunk_offsets(path, Shard(shard.name, 21, 0, ""))


@pytest.mark.parametrize("hosts", [2, pytest.param(3, marks=pytest.mark.long)])
def test_hosts_lose_nothing_over_epochs_and_overlap_nowhere(small_chunks, tmp_path, hosts):
    batches = batches_of(write_folder(tmp_path, [40, 33, 21, 58, 7, 90, 12]))
    seen = []
    for host in range(hosts):
        mine = batches.source.part(host, hosts).num_examples
        stream = numbers(batches.training(host=host, num_hosts=hosts), 3 * mine)  # whole batches; epochs end inside
        epochs = [stream[i * mine : (i + 1) * mine] for i in range(3)]
        assert [sorted(epoch) for epoch in epochs] == [sorted(epochs[0])] * 3
        assert epochs[0] != epochs[1] != epochs[2]
        again = numbers(batches.training(consumed=mine + 13, host=host, num_hosts=hosts), mine)
        assert again == stream[mine + 13 : 2 * mine + 13]
        seen += epochs[0]
    assert sorted(seen) == list(range(261))


def damage(folder, shard, kind):
    path = folder / f"records-{shard}.tfrecord"
    if kind == "missing":
        path.unlink()
    elif kind == "truncated":
        os.truncate(path, path.stat().st_size - 5)
    else:
        contents = bytearray(path.read_bytes())
        contents[len(contents) // 2] ^= 4
        path.write_bytes(contents)
    return path.name


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["missing", "truncated", "flipped bit"])
def test_a_damaged_shard_is_left_out_and_named(small_chunks, tmp_path, kind):
    write_folder(tmp_path)
    name = damage(tmp_path, 3, kind)
    source = RecordSource(str(tmp_path), leave_out_damaged=True)
    assert list(source.lost) == [name] and source.num_examples == 488
    stream = numbers(batches_of(source).training(), 976)
    kept = [*range(307), *range(819, 1000)]
    assert sorted(stream[:488]) == sorted(stream[488:]) == kept
    assert numbers(batches_of(RecordSource(str(tmp_path), leave_out_damaged=True)).training(), 976) == stream


def test_all_shards_damaged_is_an_error(tmp_path):
    write_folder(tmp_path, [4])
    damage(tmp_path, 0, "flipped bit")
    with pytest.raises(DataError, match="contents changed"):
        RecordSource(str(tmp_path), leave_out_damaged=True)


@pytest.fixture
def options(records, small_config, tmp_path):
    copy = tmp_path / "records"
    shutil.copytree(records, copy)
    return Options(
        system="bert", model_dir=str(tmp_path / "run"), data_dir=str(copy), model_config_file=small_config,
        num_train_steps=6, train_batch_size=8, learning_rate=1e-3, num_warmup_steps=1, optimizer="bert_adamw",
        save_checkpoints_steps=3, log_steps=3, eval_steps=1,
    )  # fmt: skip


def shard_of(options, number):
    return sorted(name for name in os.listdir(options.data_dir) if name.endswith(".tfrecord"))[number]


def flip(options, name, eighths=(4,)):
    path = os.path.join(options.data_dir, name)
    with open(path, "r+b") as file:
        for eighth in eighths:
            file.seek(os.path.getsize(path) * eighth // 8)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))


def test_training_leaves_a_damaged_shard_out_and_says_what_is_lost(options, capfd):
    name = shard_of(options, 1)
    flip(options, name)
    skip = dataclasses.replace(options, on_corrupt_shard="skip")
    pretrain(skip)
    lost = [entry for entry in read_log(os.path.join(skip.model_dir, "log.jsonl")) if entry["kind"] == "lost"]
    assert [entry["shards"] for entry in lost] == [[name]]
    output = capfd.readouterr().out
    assert "Damaged shards: 1 of 2 shards left out" in output and name in "".join(
        line for line in output.splitlines() if line.startswith("Damaged shards: ")
    )


@pytest.mark.long
def test_a_shard_that_breaks_while_reading_is_left_out_from_the_next_epoch_on(
    options, small_chunks, monkeypatch, tmp_path, capfd
):
    from xmodels.jobs.pretrain import evaluation
    from xmodels.runs.baselines import Baselines

    broken, last = shard_of(options, 0), []

    def breaks(*arguments):
        flip(options, broken, range(1, 8))
        return Baselines(0.5)

    monkeypatch.setattr(evaluation, "count_baselines", breaks)  # the last thing before training
    for number in range(2):
        run = dataclasses.replace(options, on_corrupt_shard="skip", model_dir=str(tmp_path / f"run{number}"))
        run = dataclasses.replace(run, num_train_steps=15, log_steps=5, save_checkpoints_steps=5)
        assert np.isfinite(pretrain(run)["loss"])
        assert f"examples: {broken}" in capfd.readouterr().out
        log = read_log(os.path.join(run.model_dir, "log.jsonl"))
        assert [entry["shards"] for entry in log if entry["kind"] == "lost"] == [[broken]]
        assert [entry["step"] for entry in log if entry["kind"] == "train"] == [5, 10, 15]
        with open(os.path.join(run.model_dir, "checkpoints", "step_00000015", "state.json")) as file:
            last.append(json.load(file))
        del last[number]["run_id"], last[number]["sha256"]["state.json"]
        assert last[number]["first_epoch"] == 1 and last[number]["lost"] == [broken]
        assert 0 < last[number]["first_consumed"] < 120
        flip(options, broken, range(1, 8))  # whole again
    assert last[0] == last[1]
