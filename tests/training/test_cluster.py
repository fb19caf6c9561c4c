"""Several processes on one machine: they equal one device, agree on when to stop, and notice when one dies."""

import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers import cluster_member
from tests.helpers.doctor_clinic import make_checkpoint
from tests.helpers.small_learner import largest_difference, make_learner, train, values
from xmodels.jobs.finetune import run as finetuning
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.models.folder import read_weights
from xmodels.training.devices import distribution
from xmodels.training.states import checkpoints
from xmodels.training.watching.progress import read_log

ROOT = pathlib.Path(__file__).parents[2]


def start(arguments, folder):
    """Starts two workers; what they say goes into files."""
    servers = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    processes = []
    for index in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CONFIG": json.dumps(config), "OMP_NUM_THREADS": "1"}
        with open(os.path.join(folder, f"said_{index}.txt"), "w") as said:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", *arguments], env=environment, cwd=ROOT, stdout=said, stderr=said
                )
            )
    return processes


def finish(processes, folder):
    """Waits for both. Returns their exit codes and what they said."""
    codes = [process.wait(timeout=240) for process in processes]
    return codes, [pathlib.Path(folder, f"said_{index}.txt").read_text() for index in range(2)]


def flags_of(options):
    return [f"--{name}={value}" for name, value in dataclasses.asdict(options).items() if value is not None]


TRAINING = Batches.training


def as_two_hosts(batches, consumed=0, host=0, num_hosts=1, per_batch=0, **reading):
    """What two hosts read together, on one; in place of `Batches.training`."""
    part_size = batches.batch_size // 2
    parts = [dataclasses.replace(batches, source=batches.source.part(n, 2), batch_size=part_size) for n in range(2)]
    halves = [TRAINING(part, consumed // 2, per_batch=per_batch // 2, **reading) for part in parts]
    return tf.data.Dataset.zip(*halves).map(lambda a, b: {name: tf.concat([a[name], b[name]], 0) for name in a})


@pytest.mark.long
def test_two_workers_equal_one_device_and_agree(tmp_path):
    (tmp_path / "run").mkdir()
    codes, said = finish(start(["tests.helpers.cluster_member", str(tmp_path)], tmp_path), tmp_path)
    assert codes == [0, 0], said
    chief, other = (dict(np.load(tmp_path / f"worker_{index}.npz")) for index in range(2))

    def of(results, name):
        return {n.removeprefix(f"{name}/"): value for n, value in results.items() if n.startswith(f"{name}/")}

    for name in ("plain", "compiled"):
        learner = cluster_member.trained("one_device", name)
        assert largest_difference(values(learner), of(chief, name)) < 1e-6
        assert largest_difference(of(chief, name), of(other, name)) == 0.0
    # Equal halves with equal dropout would sum up to the gradients of one half.
    half = make_learner(**cluster_member.COMBINATIONS["dropout"])
    train(half, [{name: x[:4] for name, x in batch.items()} for batch in cluster_member.batches_of("dropout")])
    assert largest_difference(values(half), of(chief, "dropout")) > 1e-4
    assert largest_difference(of(chief, "shared"), of(other, "shared")) == 0.0
    assert largest_difference(of(chief, "shared"), of(chief, "dropout")) == 0.0
    assert chief["step"] == other["step"] >= 4
    assert chief["exit_code"] == other["exit_code"] == 128 + signal.SIGTERM
    assert chief["told"] == other["told"] == "the chief's disk is full (3)"
    state = checkpoints.newest(str(tmp_path / "run" / "checkpoints"))
    assert checkpoints.step_of(state) == chief["step"]


@pytest.mark.long
def test_a_dead_worker_ends_the_others_and_the_same_command_resumes(records, small_config, tmp_path, monkeypatch):
    config = tmp_path / "no_dropout.json"
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config.write_text(json.dumps(json.loads(pathlib.Path(small_config).read_text()) | quiet))
    options = Options(
        system="bert_wwm", model_dir=str(tmp_path / "run"), data_dir=records, model_config_file=str(config),
        num_train_steps=60, train_batch_size=8, learning_rate=1e-3, num_warmup_steps=2, optimizer="bert_adamw",
        adam_epsilon=1e-4, save_checkpoints_steps=5, log_steps=5, eval_steps=2,
    )  # fmt: skip
    flags = flags_of(options)
    processes = start(["launch", "pretrain", *flags], tmp_path)
    while not checkpoints.complete(os.path.join(options.model_dir, "checkpoints")) and processes[0].poll() is None:
        time.sleep(0.02)
    processes[1].kill()
    killed = time.monotonic()
    codes, said = finish(processes, tmp_path)
    assert codes == [5, -signal.SIGKILL], said
    assert time.monotonic() - killed < 60
    assert "has ended or cannot be reached" in said[0] and "Traceback" not in said[0]
    assert not os.path.exists(os.path.join(options.model_dir, "results.json"))

    codes, said = finish(start(["launch", "pretrain", *flags], tmp_path), tmp_path)
    assert codes == [0, 0], said
    assert "Resumed from" in said[0] and "step 60/60" in said[0]
    assert "chief" in said[1] and "step 60/60" not in said[1]

    monkeypatch.setattr(Batches, "training", as_two_hosts)
    alone = dataclasses.replace(options, model_dir=str(tmp_path / "alone"), distribution_strategy="one_device")
    pretrain(alone)
    weights = [read_weights(os.path.join(o.model_dir, "backbone", "weights.safetensors")) for o in (options, alone)]
    assert largest_difference(*weights) < 1e-6


@pytest.mark.long
def test_two_workers_fine_tune_evaluate_and_hand_over_the_best_epoch_of_one_device(
    zh_vocabulary, tmp_path, monkeypatch
):
    """Equal texts with each of the labels: the accuracy on them never rises, so the first epoch of three is the best one."""
    quiet = {"dropout": 0.0, "attention_dropout": 0.0}
    begun = make_checkpoint(tmp_path / "checkpoint", open_tokenizer(zh_vocabulary), **quiet)
    (tmp_path / "equal.tsv").write_text(
        "label\ttext\n" + "".join(f"{x}\t今天\n" for x in "体育 旅行 科技 美食".split())
    )
    options = finetuning.Options(
        init_checkpoint=str(begun), model_dir=str(tmp_path / "run"), train_file=str(ROOT / "samples/zh/train.tsv"),
        eval_file=str(tmp_path / "equal.tsv"), test_file=str(ROOT / "samples/zh/dev.tsv"), max_seq_length=32,
        train_batch_size=16, num_train_epochs=3, learning_rate=1e-3, adam_epsilon=1e-4, log_steps=5, ema_decay=0.5, log_norms_steps=6,
    )  # fmt: skip
    codes, said = finish(start(["launch", "finetune", *flags_of(options)], tmp_path), tmp_path)
    assert codes == [0, 0], said
    assert "evaluation at step 15" in said[0] and "evaluation at step" not in said[1]

    monkeypatch.setattr(Batches, "training", as_two_hosts)
    alone = dataclasses.replace(options, model_dir=str(tmp_path / "alone"), distribution_strategy="one_device")
    finetuning.finetune(alone)
    together, one = ({name: read(o.model_dir) for name, read in HANDED_OVER.items()} for o in (options, alone))
    assert largest_difference(together["weights"], one["weights"]) < 1e-6
    assert together["results"].pop("results") == pytest.approx(one["results"].pop("results"), abs=1e-6)
    assert together["results"] == one["results"] == {"num_train_steps": 15, "kept_step": 5}
    assert [norms for _, norms in together["norms"]] == pytest.approx([norms for _, norms in one["norms"]], abs=1e-4)
    assert largest_difference(read_weights(str(begun / "weights.safetensors")), together["weights"]) > 1e-3


HANDED_OVER = {
    "weights": lambda run: read_weights(os.path.join(run, "backbone", "weights.safetensors")),
    "results": lambda run: json.loads(pathlib.Path(run, "results.json").read_text()),
    "norms": lambda run: [
        (e["step"], e["update_norm/embedding"]) for e in read_log(f"{run}/log.jsonl") if e["kind"] == "norms"
    ],
}


def test_another_number_of_machines_goes_on_with_the_next_epoch():
    state = checkpoints.Position(consumed=250, hosts=2)
    assert state.read_by(2, 100) == state
    other = state.read_by(3, 100)
    assert (other.hosts, other.reading()) == (3, {"consumed": 0, "first_epoch": 3, "cursor": None})
    assert checkpoints.Position().read_by(4, 100).reading()["first_epoch"] == 0


def test_xla_is_the_default_on_accelerators_only():
    strategy = distribution.choose("one_device")
    assert not distribution.compiles("auto", strategy)
    assert distribution.compiles("true", strategy) and distribution.compiles(True, strategy)
    assert not distribution.compiles("False", strategy)

    class OnGpus:
        class extended:
            worker_devices = ("/device:GPU:0", "/device:GPU:1")

    assert distribution.compiles("auto", OnGpus()) and not distribution.compiles(False, OnGpus())
