"""What is said of a wrong TF_CONFIG, of workers that do not come, and of TPUs that are not there."""

import json
import socket
import threading

import pytest
import tensorflow as tf

from data_pipelines.errors import DeviceError, UsageError
from tests.helpers.invocation import invoke
from xmodels.tpu.lowering import Slice
from xmodels.training.devices import rendezvous, tf_config, tpu
from xmodels.training.devices.distribution import choose, is_processor
from xmodels.training.devices.tf_config import Cluster
from xmodels.training.devices.tpu import Tpu

TWO = {"worker": ["a:1", "b:2"]}


def config(cluster=None, kind="worker", index=0):
    return json.dumps({"cluster": TWO if cluster is None else cluster, "task": {"type": kind, "index": index}})


def test_workers_are_numbered_from_the_chief():
    assert tf_config.read(config(index=1)) == Cluster(("a:1", "b:2"), 1)
    with_chief = {"worker": ["a:1", "b:2"], "chief": ["c:3"]}
    assert tf_config.read(config(with_chief, "chief")) == Cluster(("c:3", "a:1", "b:2"), 0)
    assert tf_config.read(config(with_chief, index=1)) == Cluster(("c:3", "a:1", "b:2"), 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "TF_CONFIG is not set. Every worker needs it"),
        ("{'cluster': 1}", "not JSON .*at character 1"),
        ("[]", '"cluster" must map job names to lists'),
        ('{"cluster": {"worker": "a:1"}, "task": {}}', '"cluster" must map'),
        ('{"cluster": {"worker": ["a:1"]}}', '"task" must hold'),
        (config(index="0"), '"task" must hold'),
        (config(index=2), "index is 2, but the cluster has 2 of type worker: 0 to 1"),
        (config(index=-1), "index is -1"),
        (config(kind="chief"), r"type is 'chief', but the cluster has worker \(2\)"),
        (config({"worker": ["a:1"], "ps": ["p:1"]}), "job 'ps' is not used here"),
        (config({"worker": ["a:1"], "chief": ["b:1", "c:1"]}), "2 chiefs"),
        (config({"worker": ["a", "b:2"]}), "'a' is no address"),
        (config({"worker": ["a:99999"]}), "'a:99999' is no address"),
        (config({"worker": ["a:1", "a:1"]}), "a:1 is named twice"),
        (config({}), "the cluster has none"),
    ],
)
def test_what_is_wrong_in_tf_config_is_said(text, message):
    with pytest.raises(UsageError, match=message):
        tf_config.read(text)


def test_commands_end_with_the_code_of_the_kind_of_error(records, tmp_path, capsys, monkeypatch):
    run = {"system": "bert", "data_dir": records, "model_dir": tmp_path / "run", "size": "tiny"}
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)  # the compiler of the TPU pre-flight sets it
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert invoke("pretrain", **run, distribution_strategy="multi_worker") == 2
    assert "TF_CONFIG is not set" in capsys.readouterr().err
    monkeypatch.setenv("TF_CONFIG", config(index=7))
    assert invoke("pretrain", **run) == 2
    assert "0 to 1" in capsys.readouterr().err
    assert invoke("pretrain", "--use_tpu", **run) == 5
    assert "tensorflow-tpu" in capsys.readouterr().err
    assert invoke("pretrain", **run, tpu="grpc://10.0.0.2:8470", tpu_zone="z", gcp_project="p") == 5
    assert "do not see the disk of this machine" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def addresses():
    servers = [socket.create_server(("localhost", 0)) for _ in range(3)]
    found = tuple(f"localhost:{server.getsockname()[1]}" for server in servers)
    for server in servers:
        server.close()
    return found


def meeting(clusters, patience):
    """What becomes of each worker: None, or its error."""
    outcomes = [None] * len(clusters)

    def wait_in_thread(place):
        try:
            rendezvous.wait_for_workers(clusters[place], patience)
        except (DeviceError, UsageError) as error:
            outcomes[place] = error

    threads = [threading.Thread(target=wait_in_thread, args=(place,)) for place in range(len(clusters))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return outcomes


def test_workers_meet_in_any_order(addresses):
    assert meeting([Cluster(addresses, index) for index in (2, 0, 1)], 20) == [None] * 3


def test_a_worker_that_does_not_come_is_named_in_time(addresses):
    chief, other = meeting([Cluster(addresses, 0), Cluster(addresses, 2)], 1)
    assert f"Worker 1 ({addresses[1]}) did not come within 1 s" in str(chief)
    assert "The chief" in str(other) and isinstance(other, DeviceError)
    assert "did not start within 0.5 s" in str(meeting([Cluster(addresses, 1)], 0.5)[0])


def test_two_workers_of_one_index_and_unequal_clusters_are_refused(addresses):
    outcomes = meeting([Cluster(addresses, index) for index in (0, 1, 1)], 20)
    assert all("two processes say that they are worker 1" in str(outcome) for outcome in outcomes)
    outcomes = meeting([Cluster(addresses, 0), Cluster(addresses[:2], 1)], 20)
    assert all("must name the same cluster" in str(outcome) for outcome in outcomes)


def test_a_taken_port_is_named(addresses):
    with socket.create_server(("", int(addresses[0].rpartition(":")[2]))):
        assert "cannot be used" in str(meeting([Cluster(addresses, 0)], 5)[0])


def test_a_tpu_needs_its_runtime_and_shared_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(tpu, "has_runtime", lambda: False)
    far = Tpu(tpu="pod", paths={"model_dir": str(tmp_path), "data_dir": None})
    with pytest.raises(DeviceError, match=r"(?s)tensorflow-tpu.*--model_dir=.*gs://"):
        tpu.connect(far)
    with pytest.raises(DeviceError) as here:
        tpu.connect(Tpu(use_tpu=True, paths={"model_dir": str(tmp_path)}))
    assert "gs://" not in str(here.value)

    class Mount:
        mountpoint, fstype = str(tmp_path), "fuse.gcsfuse"

    monkeypatch.setattr(tpu.psutil, "disk_partitions", lambda all: [Mount])
    monkeypatch.setattr(tpu, "has_runtime", lambda: True)
    monkeypatch.setattr(tpu.tf.distribute.cluster_resolver, "TPUClusterResolver", refuse)
    with pytest.raises(DeviceError, match="no TPU answers at --tpu=pod .no such TPU"):
        tpu.connect(far)


def refuse(**named):
    raise ValueError("no such TPU")


def test_which_strategies_compute_on_processors_alone():
    assert is_processor(tf.distribute.get_strategy()) and is_processor(choose("mirrored"))
    strategy = choose("one_device")
    with strategy.scope():
        assert is_processor(strategy)
    assert not is_processor(tf.distribute.OneDeviceStrategy("/gpu:0")) and not is_processor(Slice(8))
