"""Batches: every example once an epoch, in an order and with draws of the seed, from any place on."""

import collections
import dataclasses
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import DataError
from data_pipelines.features import Feature
from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.compose import compose
from data_pipelines.records import shards as shard_files
from data_pipelines.records import source as source_files
from data_pipelines.records.classic import classic_source
from data_pipelines.records.manifest import Manifest, RecordSettings
from data_pipelines.records.shards import ShardWriter
from data_pipelines.records.source import RecordSource
from tests.fuzz.mutations import record_length
from tests.helpers.small_records import encode_example

SHARDS = [7, 1, 12, 5, 9]  # 34 examples
TOTAL = sum(SHARDS)


def write_folder(folder, counts):
    """Records whose `number` runs through all shards."""
    shards, number = [], 0
    for i, count in enumerate(counts):
        with ShardWriter(str(folder / f"records-{i}.tfrecord")) as writer:
            for _ in range(count):
                writer.write(
                    encode_example(
                        {"number": [number], "token_ids": [number + 1] * (number % 5), "weight": [number / 8]}
                    )
                )
                number += 1
        shards.append(writer.shard())
    features = {"number": Feature(()), "token_ids": Feature((None,)), "weight": Feature((), "float32")}
    Manifest(features, shards, RecordSettings.of({"max_sequence_length": 6}), {}).write(str(folder))
    return RecordSource(str(folder))


@pytest.fixture(scope="module")
def records_source(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("records"), SHARDS)


@pytest.fixture(params=["records", "arrays"])
def source(request, records_source):
    if request.param == "records":
        return records_source
    return ArraySource({"number": np.arange(TOTAL), "pair": np.arange(2 * TOTAL).reshape(-1, 2)}, "numbers")


def nothing(features):
    return features


def batches_of(source, batch_size=4, seed=0, **kwargs):
    return Batches(source, nothing, batch_size, seed, keep=("number", "seed", "example_weights"), **kwargs)


def take(stream, count):
    """(number, seed) of the next `count` examples; whole batches are read."""
    found = []
    for batch in stream:
        found += zip(batch["number"].numpy().tolist(), batch["seed"].numpy().tolist(), strict=True)
        if len(found) >= count:
            return found[:count]
    return found


def numbers(examples):
    return [number for number, _ in examples]


def test_every_example_comes_once_an_epoch_and_the_order_differs(source):
    assert source.num_examples == TOTAL
    stream = numbers(take(batches_of(source).training(), 4 * TOTAL))
    epochs = [stream[i : i + TOTAL] for i in range(0, 4 * TOTAL, TOTAL)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(TOTAL)) != epoch
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_each_example_draws_anew_in_every_epoch(source):
    stream = take(batches_of(source).training(), 4 * TOTAL)
    assert len({seed for _, seed in stream}) == 4 * TOTAL


@pytest.mark.one_in(2)
def test_the_order_and_the_draws_are_those_of_the_seed_whatever_the_global_seed(source):
    streams = []
    try:
        for global_seed in (None, 1, 2):
            tf.random.set_seed(global_seed)
            streams.append(take(batches_of(source).training(), 2 * TOTAL))
    finally:
        tf.random.set_seed(None)
    assert streams[0] == streams[1] == streams[2]
    other = take(batches_of(source, seed=1).training(), 2 * TOTAL)
    assert numbers(other) != numbers(streams[0])
    assert not {seed for _, seed in other} & {seed for _, seed in streams[0]}


@pytest.mark.one_in(2)
def test_the_order_does_not_depend_on_the_batch_size(source):
    streams = [take(batches_of(source, batch_size=size).training(), 3 * TOTAL) for size in (3, 64)]
    assert streams[0] == streams[1]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("consumed", [0, 1, 4, TOTAL - 1, TOTAL, TOTAL + 1, 2 * TOTAL + 17, 3 * TOTAL])
def test_reading_goes_on_behind_the_examples_that_were_consumed(source, consumed):
    whole = take(batches_of(source).training(), consumed + 2 * TOTAL)
    assert take(batches_of(source).training(consumed=consumed), 2 * TOTAL) == whole[consumed:]


def test_batches_are_whole_and_cross_epochs(source):
    batches = batches_of(source, batch_size=5).training().take(14)
    assert batches.element_spec["number"].shape == (5,)
    weights = [batch["example_weights"].numpy().tolist() for batch in batches]
    assert weights == [[1.0] * 5] * 14


def test_a_batch_may_be_larger_than_the_data(source):
    first = numbers(take(batches_of(source, batch_size=100).training(), 100))
    assert set(collections.Counter(first[: 2 * TOTAL]).values()) == {2}


@pytest.mark.one_in(2)
def test_hosts_share_the_examples_without_overlap(source):
    seen, seeds = [], []
    for host in range(3):
        mine = source.part(host, 3).num_examples
        stream = take(batches_of(source).training(host=host, num_hosts=3), 2 * mine)
        assert sorted(numbers(stream[:mine])) == sorted(numbers(stream[mine:]))
        seen += numbers(stream[:mine])
        seeds += [seed for _, seed in stream[:mine]]
    assert sorted(seen) == list(range(TOTAL))
    assert len(set(seeds)) == TOTAL


@pytest.mark.one_in(2)
def test_a_host_resumes_at_its_own_examples(source):
    def host(consumed):
        return batches_of(source).training(consumed=consumed, host=1, num_hosts=2, per_batch=2)

    assert host(0).element_spec["number"].shape == (2,)
    assert take(host(21), 50) == take(host(0), 71)[21:]


def test_more_hosts_than_shards_are_refused(records_source):
    with pytest.raises(DataError, match="5 shards cannot be shared by 6 hosts"):
        records_source.part(0, 6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("batch_size", [1, 4, 17, 34, 100])
def test_reading_once_is_in_order_and_fills_the_last_batch_without_weight(source, batch_size):
    batches = list(batches_of(source, batch_size).once())
    assert len(batches) == -(-TOTAL // batch_size)
    for batch in batches:
        assert batch["number"].shape == (batch_size,)
    found, weights = (np.concatenate([batch[name] for batch in batches]) for name in ("number", "example_weights"))
    assert found[:TOTAL].tolist() == list(range(TOTAL))
    assert weights.tolist() == [1.0] * TOTAL + [0.0] * (len(weights) - TOTAL)
    assert not found[TOTAL:].any()


def test_reading_once_may_stop_early(source):
    batches = list(batches_of(source).once(max_batches=2))
    assert [batch["number"].numpy().tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_free_lengths_are_padded_to_the_length_of_the_records(records_source):
    batch = next(iter(Batches(records_source, nothing, 5).once()))
    assert batch["token_ids"].shape == (5, 6)
    assert batch["token_ids"].numpy().tolist() == [[i + 1] * i + [0] * (6 - i) for i in range(5)]
    assert batch["weight"].numpy().tolist() == [i / 8 for i in range(5)]


def test_examples_of_arrays_keep_their_columns_together():
    source = ArraySource(
        {"number": np.arange(9), "pair": np.arange(18).reshape(9, 2), "flag": np.arange(9) > 4}, "arrays"
    )
    assert source.features["pair"] == Feature((2,), "int64")
    for batch in Batches(source, nothing, 4).training().take(5):
        assert (batch["pair"].numpy() // 2 == batch["number"].numpy()[:, None]).all()
        assert (batch["flag"].numpy() == (batch["number"].numpy() > 4)).all()
    last = list(Batches(source, nothing, 4).once())[-1]
    assert last["flag"].numpy().tolist() == [True, False, False, False] and last["pair"].shape == (4, 2)


@pytest.mark.one_in(2)
def test_datasets_of_equal_features_share_one_trace_of_the_transform(source):
    """A training makes six datasets before its first step, and tracing took most of its start."""
    traced = []

    def op(features):
        traced.append(1)
        return features

    batches = Batches(source, op, 4)
    other = dataclasses.replace(batches, batch_size=5, seed=3)
    for made in (batches.zeros, batches.once, lambda: other.once(2), other.zeros):
        made()
    assert len(traced) == 1
    plain = [batches_of(source).training(), batches_of(source).once()]
    for dataset_of, expected in zip((batches.training(), batches.once()), plain, strict=True):
        for batch, same in zip(dataset_of.take(5), expected, strict=False):
            assert all(np.array_equal(batch[name], same[name]) for name in same)
    assert len(traced) == 1


def test_the_transform_runs_on_batches_and_only_kept_features_leave(source):
    def double(features):
        return {**features, "double": 2 * features["number"]}

    batches = Batches(source, compose(double), 4, keep=("double",))
    assert set(batches.training().element_spec) == set(batches.once().element_spec) == {"double"}
    assert next(iter(batches.once()))["double"].numpy().tolist() == [0, 2, 4, 6]


def test_a_small_shuffle_window_still_mixes_shards_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(source_files, "SHUFFLE_WINDOW", 5)
    monkeypatch.setattr(source_files, "CHUNK", 2)
    monkeypatch.setattr(shard_files, "CHUNK", 2)
    records_source = write_folder(tmp_path, SHARDS)
    stream = numbers(take(batches_of(records_source).training(), 2 * TOTAL))
    for epoch in (stream[:TOTAL], stream[TOTAL:]):
        assert sorted(epoch) == list(range(TOTAL))
    assert len({sum(n >= start for start in records_source.starts) for n in stream[:10]}) > 2


def test_the_order_is_even(records_source):
    """Every example comes first about equally often."""
    wide = dataclasses.replace(batches_of(ArraySource({"number": np.arange(10)}, "ten")), batch_size=10)
    firsts = [batch["number"].numpy()[0] for batch in wide.training().take(1000)]
    counts = np.bincount(firsts, minlength=10)
    assert ((counts - 100) ** 2 / 100).sum() < 35  # 9 degrees of freedom


def test_a_missing_or_cut_shard_is_refused_before_reading(tmp_path):
    write_folder(tmp_path, [3, 3])
    os.truncate(tmp_path / "records-1.tfrecord", 50)
    with pytest.raises(DataError, match=r"records-1\.tfrecord: 50 bytes"):
        RecordSource(str(tmp_path))
    (tmp_path / "records-1.tfrecord").unlink()
    with pytest.raises(DataError, match=r"records-1\.tfrecord: missing"):
        RecordSource(str(tmp_path))


def classic_example(rng, length=16, predictions=3):
    real = int(rng.integers(6, length + 1))
    hidden = int(rng.integers(1, predictions + 1))
    ids = np.zeros(length, int)
    ids[:real] = rng.integers(1, 100, real)
    places = np.sort(rng.choice(np.arange(1, real), hidden, replace=False))
    return {
        "input_ids": ids.tolist(),
        "input_mask": [1] * real + [0] * (length - real),
        "segment_ids": [0] * 3 + [1] * (real - 3) + [0] * (length - real),
        "masked_lm_positions": places.tolist() + [0] * (predictions - hidden),
        "masked_lm_ids": rng.integers(1, 100, hidden).tolist() + [0] * (predictions - hidden),
        "masked_lm_weights": [1.0] * hidden + [0.0] * (predictions - hidden),
        "next_sentence_labels": [int(rng.integers(2))],
    }


def write_google(path, examples):
    """As Google's script does it, with TensorFlow's own writer."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for values in examples:
            example = tf.train.Example()
            for name, value in values.items():
                feature = example.features.feature[name]
                (feature.float_list if isinstance(value[0], float) else feature.int64_list).value.extend(value)
            writer.write(example.SerializeToString())
    return str(path)


def classic_examples(count, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    return [classic_example(rng, **kwargs) for _ in range(count)]


@pytest.mark.parametrize("length", [-1, 2**62, 10**6])
def test_records_of_googles_script_that_state_another_length_are_refused(length, tmp_path):
    path = write_google(tmp_path / "a.tfrecord", classic_examples(2))
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(path).write_bytes(record_length(data, length))  # with the checksum of that length
    with pytest.raises(DataError, match="a.tfrecord: damaged or cut"):
        classic_source([str(path)], 100)


def test_records_of_googles_script_are_read_under_our_names(tmp_path):
    examples = classic_examples(11)
    paths = [write_google(tmp_path / "a.tfrecord", examples[:6]), write_google(tmp_path / "b.tfrecord", examples[6:])]
    source = classic_source(paths, vocabulary_size=100)
    assert source.num_examples == 11
    assert source.manifest.settings.max_sequence_length == 16 and source.manifest.settings.masking == "static"
    batches = list(Batches(source, rename_classic(), 4).once())
    ours = {name: np.concatenate([batch[name] for batch in batches])[:11] for name in batches[0]}
    for name, theirs in {
        "token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "segment_ids", "labels": "masked_lm_ids",
        "mask_positions": "masked_lm_positions", "label_weights": "masked_lm_weights",
    }.items():  # fmt: skip
        np.testing.assert_array_equal(ours[name], [example[theirs] for example in examples])
    assert ours["next_sentence_labels"].tolist() == [example["next_sentence_labels"][0] for example in examples]
    assert ours["padding_mask"].dtype == bool and ours["token_ids"].dtype == ours["labels"].dtype == np.int32
    epoch = take(Batches(source, nothing, 11, keep=("input_ids", "seed")).training().map(
        lambda batch: {"number": batch["input_ids"][:, 1], "seed": batch["seed"]}), 11)  # fmt: skip
    assert sorted(numbers(epoch)) == sorted(example["input_ids"][1] for example in examples)


def test_our_static_records_are_read_as_googles(static_records):
    source = RecordSource(static_records)
    paths = [
        os.path.join(static_records, name) for name in sorted(os.listdir(static_records)) if name.endswith(".tfrecord")
    ]
    foreign = classic_source(paths, source.manifest.settings.vocabulary_size)
    assert foreign.features == source.features and foreign.num_examples == source.num_examples
    with pytest.raises(DataError, match="--vocab_file has 100 pieces"):
        classic_source(paths, 100)


def read(path):
    return pathlib.Path(path).read_bytes()


def refusal(paths):
    with pytest.raises(DataError) as caught:
        classic_source(paths, 100)
    return str(caught.value)


def test_damaged_and_foreign_files_are_refused_by_name(tmp_path):
    good = write_google(tmp_path / "good.tfrecord", classic_examples(3))
    bad = str(tmp_path / "bad.tfrecord")

    def wrong(data):
        with open(bad, "wb") as file:
            file.write(data)
        message = refusal([good, bad])
        assert bad in message and good not in message
        return message

    whole = read(good)
    assert "damaged or cut" in wrong(whole[:-5])
    assert "damaged or cut" in wrong(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    assert "holds text" in wrong(b"plain text, and quite a lot of it\n" * 9)
    with ShardWriter(bad) as writer:
        writer.write(b"\xff\xff no example")
    assert "no tf.train.Example" in wrong(read(bad))
    lacking = [{k: v for k, v in example.items() if k != "masked_lm_ids"} for example in classic_examples(2)]
    assert "missing ['masked_lm_ids']" in wrong(read(write_google(bad, lacking)))
    longer = classic_examples(2, length=32)
    message = wrong(read(write_google(bad, longer)))
    assert "[32]" in message and "[16]" in message
    os.unlink(bad)
    assert f"{bad}: no such file" in refusal([good, bad])


def test_files_without_records_are_refused(tmp_path):
    empty = write_google(tmp_path / "empty.tfrecord", [])
    assert f"{empty}: no records" in refusal([empty])


def test_reading_from_a_place_goes_round(source):
    found = [int(index) for index, _ in source.read_from(tf.constant(TOTAL - 2, tf.int64)).take(4)]
    assert found == [TOTAL - 2, TOTAL - 1, 0, 1]
