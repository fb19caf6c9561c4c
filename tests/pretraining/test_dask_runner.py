"""A Dask cluster leaves the bytes that processes leave, also where a worker is killed on the way."""

import os
import pathlib
import signal
import sys
import threading
import time

import pytest

from data_pipelines.errors import UsageError
from data_pipelines.pretraining import beam_runner
from data_pipelines.pretraining.job import Settings, create
from tests.helpers.invocation import invoke
from tests.pretraining.test_pretraining_data import hashes

SAMPLES = str(pathlib.Path(__file__).parents[2] / "samples/zh/corpus.txt")
needs_dask = pytest.mark.extra("apache_beam", "distributed")


@pytest.fixture(scope="module")
def cluster():
    """A scheduler and two workers, each a process that is started again when it ends."""
    import distributed

    with distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        yield cluster


@needs_dask
def test_a_cluster_leaves_the_bytes_of_processes_though_a_worker_is_killed(cluster, tmp_path, zh_vocabulary, capfd):
    corpus = tmp_path / "corpus.txt"
    text = pathlib.Path(SAMPLES).read_text(encoding="utf-8")
    corpus.write_text(text + "\n" + text[: text.index("\n\n", 3000) + 2], encoding="utf-8")
    numbers = {"num_shards": 8, "dupe_factor": 3, "max_seq_length": 64, "deduplicate": "exact"}
    given = {"input_file": str(corpus), "vocab_file": zh_vocabulary, "language": "zh", **numbers}
    create(Settings(**given), str(tmp_path / "local"))
    killed, output = [], tmp_path / "dask"

    def kill():
        while not list(output.glob("*.tfrecord*")):
            time.sleep(0.01)
        busy = next(worker for worker in cluster.scheduler.workers.values() if worker.processing)
        killed.append(next(each.pid for each in cluster.workers.values() if each.worker_address == busy.address))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    flags = {"runner": "dask", "dask_scheduler": cluster.scheduler_address}
    assert invoke("create_pretraining_data", **given, **flags, output_dir=output) == 0, capfd.readouterr().err
    killer.join()
    assert killed and hashes(output) == hashes(tmp_path / "local")


@needs_dask
def test_labelled_data_and_counted_neighbours_are_the_same_on_a_cluster(cluster, tmp_path, zh_vocabulary, capfd):
    rows = "".join(f"{'好坏'[n % 2]}\t这家店{'很好' if n % 2 == 0 else '不行'}，第{n}次来。\n" for n in range(200))
    (tmp_path / "rows.tsv").write_text("label\ttext\n" + rows, encoding="utf-8")
    dask = {"runner": "dask", "dask_scheduler": cluster.scheduler_address}
    labelled = {"task": "classify", "input_file": tmp_path / "rows.tsv", "max_seq_length": 32}
    counted = {"packing": "cooccurrence", "input_file": SAMPLES, "language": "zh", "deduplicate": "exact"}
    for verb, given in (("create_finetuning_data", labelled), ("create_pretraining_data", counted)):
        given = {**given, "vocab_file": zh_vocabulary, "num_shards": 4}
        assert invoke(verb, **given, output_dir=tmp_path / f"{verb}-here") == 0
        assert invoke(verb, **given, **dask, output_dir=tmp_path / verb) == 0, capfd.readouterr().err
        assert hashes(tmp_path / verb) == hashes(tmp_path / f"{verb}-here")
        assert len(list((tmp_path / verb).glob("*.tfrecord*"))) >= 4


@needs_dask
def test_parts_are_shared_out(cluster):
    assert "--dask_partition_size=1" in beam_runner.dask_options(cluster.scheduler_address)
    assert cluster.scheduler_address in beam_runner.dask_options(cluster.scheduler_address)


def test_flags_of_dask_without_dask_say_what_to_do(tmp_path, zh_vocabulary, capsys, monkeypatch):
    flags = {"input_file": SAMPLES, "vocab_file": zh_vocabulary, "output_dir": tmp_path / "records"}
    assert invoke("create_pretraining_data", **flags, dask_scheduler="tcp://host:1") == 2
    assert "--dask_scheduler=tcp://host:1: needs --runner=dask." in capsys.readouterr().err
    assert invoke("create_pretraining_data", **flags, runner="dask", num_workers=2) == 2
    assert "--num_workers=2: with --runner=dask the pipeline says how many." in capsys.readouterr().err
    rows = {**flags, "task": "classify", "num_tasks": 2, "task_index": 0}
    assert invoke("create_finetuning_data", **rows, runner="dask") == 2
    assert "--task_index: --runner=dask shares the work out by itself." in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'xmodels\[dask\]'"):
        beam_runner.dask_options(None)
    assert not (tmp_path / "records").exists()
