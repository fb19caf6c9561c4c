"""A layout that merges all parts of a corpus: rounds, resuming, counts, and numbers of its own. Here in one process; the layout of
co-occurrences goes through workers, tasks and Beam."""

import dataclasses
import json
import os
import pathlib
import sys

import pytest
import tensorflow as tf

from data_pipelines import layouts
from data_pipelines.errors import DataError, UsageError
from data_pipelines.pretraining import tasks_split
from data_pipelines.pretraining.job import Settings, prepare
from data_pipelines.pretraining.parts import collect_part
from data_pipelines.records import folder as record_folder
from data_pipelines.records.source import RecordSource

COUNTS = '''"""How often each id occurs in the whole corpus."""

import dataclasses

import numpy as np

from data_pipelines.features import Feature
from data_pipelines.files import whole_file
from data_pipelines.layout import Layout, Merge
from data_pipelines.pretraining.stages.tokenize import ids_of


@dataclasses.dataclass(frozen=True)
class Numbers:
    """`least` is the smallest count that is kept."""

    least: int = 1


def collect(batches, path, settings, statistics):
    found = np.zeros(2000, np.int64)
    for ids in batches:
        found += np.bincount(ids, minlength=len(found))
    statistics["collected_tokens"] += int(found.sum())
    with whole_file(path) as file:
        np.save(file, found)


def shard(paths, index, settings):
    total = sum(np.load(path) for path in paths)
    ids = np.flatnonzero(total >= settings.numbers.least)
    ids = ids[ids % len(paths) == index]
    yield np.stack([ids, total[ids]], axis=1)


def columns(settings, rows, statistics):
    statistics["examples"] += len(rows)
    return {"token_ids": rows[:, :1], "num_tokens": rows[:, 1:]}


LAYOUT = Layout(
    features=lambda settings: {"token_ids": Feature((1,)), "num_tokens": Feature(())},
    stage=lambda settings, vocabulary, rng: lambda documents: (ids_of(document.marked) for document in documents),
    columns=columns,
    merge=Merge(collect, shard),
    lengths=lambda parsed: parsed["num_tokens"],
    measured=("num_tokens",),
    numbers=Numbers,
    report=lambda manifest: [f"collected tokens: {manifest.statistics['collected_tokens']}"],
)
'''


@pytest.fixture
def settings(tmp_path, monkeypatch, zh_vocabulary):
    """Settings of three shards with the layout of a file of its own."""
    listing = tmp_path / "listing"
    listing.mkdir()
    (listing / "id_counts.py").write_text(COUNTS)
    monkeypatch.setattr(layouts, "__path__", [*layouts.__path__, str(listing)])
    monkeypatch.setattr(layouts.__spec__, "submodule_search_locations", layouts.__path__)
    corpus = pathlib.Path(__file__).parents[2] / "samples/zh/corpus.txt"
    yield Settings(input_file=str(corpus), vocab_file=zh_vocabulary, language="zh", packing="id_counts", num_shards=3)
    sys.modules.pop("data_pipelines.layouts.id_counts", None)


def begun(settings, folder):
    job = prepare(settings, str(folder))
    record_folder.claim(str(folder), job.described, resume=True, overwrite=False)
    return job


def counts_of(folder):
    source = RecordSource(str(folder))
    parsed = source.parse(tf.constant(list(tf.data.TFRecordDataset(source.paths).as_numpy_iterator())))
    return dict(zip(parsed["token_ids"][:, 0].numpy().tolist(), parsed["num_tokens"].numpy().tolist(), strict=True))


def test_every_shard_holds_what_all_parts_give(settings, tmp_path):
    job = begun(settings, tmp_path / "records")
    assert job.merges and job.uncollected(range(3)) == [0, 1, 2]
    for arguments in job.collect_jobs([0, 2]).values():
        collect_part(*arguments)
    assert job.uncollected(range(3)) == [1]
    with pytest.raises(DataError, match="1 of 3 parts have not been collected; run the tasks 1 first"):
        tasks_split.make_share(job, "merge", 3, 1, lambda done, total: None)
    for arguments in job.collect_jobs(range(3)).values():
        collect_part(*arguments)
    assert "all parts are collected" in tasks_split.make_share(job, "merge", 3, 1, lambda done, total: None)
    for arguments in job.shard_jobs(range(3)).values():
        job.write_shard(*arguments)
    first = pathlib.Path(job.paths[1]).read_bytes()
    os.remove(job.paths[1])  # a resumed job makes only what is missing, from what is collected
    again = begun(settings, tmp_path / "records")
    assert list(again.shard_jobs(range(3))) == [1] and not again.collect_jobs(range(3))
    again.write_shard(*again.shard_jobs(range(3))[1])
    assert pathlib.Path(job.paths[1]).read_bytes() == first
    manifest = again.finish()
    found = counts_of(tmp_path / "records")
    assert sum(found.values()) == manifest.statistics["collected_tokens"] == manifest.statistics["tokens"]
    assert manifest.statistics["examples"] == len(found) == manifest.num_examples
    assert not [name for name in os.listdir(tmp_path / "records") if "collected" in name]


def test_numbers_of_a_layout_stand_in_the_manifest_and_are_checked(settings, tmp_path):
    some = dataclasses.replace(settings, set="least=5")
    some.check()
    assert begun(some, tmp_path / "records").described["numbers"] == {"least": 5}
    assert json.loads((tmp_path / "records/plan.json").read_text())["set"] == "least=5"
    with pytest.raises(UsageError, match="--set=leest=5: unknown name. Did you mean least"):
        dataclasses.replace(settings, set="leest=5").check()
    with pytest.raises(UsageError, match="--set=window=3: unknown name. Known of --packing=stream: none"):
        dataclasses.replace(settings, packing="stream", set="window=3").check()
    assert "set" not in begun(dataclasses.replace(settings, packing="stream"), tmp_path / "others").described
