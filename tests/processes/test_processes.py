"""Commands that a server starts: forked ones are as good as programs of their own, and nothing outlives who asked."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from xmodels.processes.commands import Commands

ROOT = pathlib.Path(__file__).parents[2]
SLEEPS = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel of Linux tells a process that its parent is gone"
)


def wait_until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    status = pathlib.Path(f"/proc/{pid}/status")
    try:
        return "zombie" not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_in(path: pathlib.Path) -> int:
    wait_until(lambda: path.exists() and path.read_text())
    return int(path.read_text())


def test_codes_output_and_costs_of_programs_side_by_side(tmp_path):
    log = str(tmp_path / "log")
    with Commands({**os.environ, "COLOUR": "green"}) as commands:
        slow = commands.start(["-c", "import time; time.sleep(1)"], log)
        fast = commands.start(
            ["-c", "import os, sys; print(os.environ['COLOUR']); sum(range(10**6)); sys.exit(3)"], log
        )
        killed = commands.start(["-c", SLEEPS, str(tmp_path / "pid")], log)
        assert commands.wait() is fast and fast.code == 3 and fast.processor_seconds > 0.01
        assert commands.wait(0.01) is None
        assert commands.wait() is slow and slow.code == 0
        pid_in(tmp_path / "pid")
        commands.send_signal(killed, signal.SIGKILL)
        assert commands.wait() is killed and killed.code == -signal.SIGKILL
        assert commands.wait() is None  # nothing runs
    assert pathlib.Path(log).read_text() == "green\n"


def test_what_still_runs_at_the_end_is_told_to_stop(tmp_path):
    with Commands() as commands:
        commands.start(["-c", SLEEPS, str(tmp_path / "pid")])
        pid = pid_in(tmp_path / "pid")
    assert not is_running(pid)


@linux_only
@pytest.mark.parametrize("victim", ["who asked", "the server"])
def test_commands_end_with_who_asked_and_with_the_server(tmp_path, victim):
    program = (
        "import pathlib, sys\nfrom xmodels.processes.commands import Commands\nwith Commands() as commands:\n"
        "    commands.start(['-c', *sys.argv[2:]])\n    pathlib.Path(sys.argv[1]).write_text(str(commands._server.pid))\n"
        "    sys.exit(commands.wait().code != 0 and 7)\n"
    )
    server, child = tmp_path / "server", tmp_path / "child"
    process = subprocess.Popen([sys.executable, "-c", program, str(server), SLEEPS, str(child)], cwd=ROOT)
    pids = pid_in(server), pid_in(child)
    if victim == "who asked":
        process.kill()
        process.wait()
    else:
        os.kill(pids[0], signal.SIGKILL)
        assert process.wait(60) == 7
    wait_until(lambda: not any(map(is_running, pids)))


@linux_only
def test_a_server_that_imports_ends_with_who_asked(tmp_path):
    program = (
        "import os, signal, sys\nfrom xmodels.processes.commands import Commands\nwith Commands() as commands:\n"
        "    commands.start(['-m', 'launch', 'finetune', '--help'])\n    print(commands._server.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    server = int(process.communicate()[0])
    wait_until(lambda: not is_running(server), 3)  # the import takes longer


@linux_only
@pytest.mark.long
def test_a_forked_fine_tuning_equals_a_program_and_a_wrong_flag_ends_alike(tmp_path, small_bert):
    rows = "".join(f"{label}\t{text}\n" for text, label in [("good small text", "yes"), ("bad long words", "no")] * 8)
    table = tmp_path / "train.tsv"
    table.write_text("label\ttext\n" + rows)

    def command(name, **more):
        flags = {
            "init_checkpoint": small_bert, "train_file": table, "eval_file": table, "model_dir": tmp_path / name,
            "num_train_epochs": 1, "max_seq_length": 16, "train_batch_size": 4, **more,
        }  # fmt: skip
        return ["-m", "launch", "finetune", *(f"--{flag}={value}" for flag, value in flags.items())]

    logs = {name: tmp_path / f"{name}.log" for name in ("forked", "again", "wrong")}
    with Commands() as commands:
        runs = {
            name: commands.start(command(name, **more), str(logs[name]))
            for name, more in (("forked", {}), ("again", {}), ("wrong", {"num_train_epochs": 0}))
        }
        while commands.wait():
            pass
    assert {name: run.code for name, run in runs.items()} == {"forked": 0, "again": 0, "wrong": 2}, logs[
        "forked"
    ].read_text()
    assert "num_train_epochs" in logs["wrong"].read_text()
    subprocess.run([sys.executable, *command("program")], check=True, capture_output=True, cwd=ROOT)
    scores = [
        json.loads((tmp_path / name / "results.json").read_text())["results"] for name in ("forked", "again", "program")
    ]
    assert scores[0] == scores[1] == scores[2]
    assert "Report: " in logs["forked"].read_text() and "oneDNN" not in logs["forked"].read_text()
