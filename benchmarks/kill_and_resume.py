"""Kills one pretraining with SIGKILL again and again and resumes it; it must end as if nothing had happened.

    python -m benchmarks.kill_and_resume --kills=50

The moments are drawn between the start of a process and some seconds of training, so kills hit imports, reading of states,
training and writing of states. Busy processes beside it make things happen in other orders than usual.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter

import numpy as np
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).parent.parent
SAMPLES = ROOT / "samples/zh/corpus.txt"
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}


def verb(name: str, **flags) -> list[str]:
    return [sys.executable, "-m", "launch", name, *(f"--{flag}={value}" for flag, value in flags.items())]


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def prepare(folder: pathlib.Path) -> dict:
    """Makes vocabulary, records and a small network with dropout. Returns the flags of the run."""
    run(verb("train_vocabulary", input_file=SAMPLES, language="zh", vocab_size=1500, output_file=folder / "vocab.txt"))
    run(
        verb(
            "create_pretraining_data", input_file=SAMPLES, language="zh", vocab_file=folder / "vocab.txt",
            output_dir=folder / "records", do_whole_word_mask=True, segmenter="jieba", max_seq_length=32, max_predictions_per_seq=6,
        )
    )  # fmt: skip
    pieces = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    values = {"vocab_size": pieces, "max_position_embeddings": 32, "type_vocab_size": 2, "hidden_act": "gelu"}
    values |= {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "initializer_range": 0.02}
    (folder / "config.json").write_text(json.dumps(SIZES | values))
    return {
        "system": "bert_wwm", "data_dir": folder / "records", "bert_config_file": folder / "config.json",
        "optimizer": "bert_adamw", "learning_rate": 1e-3, "num_warmup_steps": 100, "train_batch_size": 8,
        "save_checkpoints_steps": 5, "log_steps": 5, "eval_steps": 2, "distribution_strategy": "one_device",
    }  # fmt: skip


def entries(folder: pathlib.Path) -> list[dict]:
    """The lines of a run's log about training, without times and speeds."""
    path = folder / "log.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    found = []
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):
            entry = json.loads(line)
            if entry["kind"] == "train":
                found.append({name: entry[name] for name in ("step", "loss", "masked_lm", "learning_rate")})
    return found


def newest(folder: pathlib.Path) -> int:
    """The step of the newest whole state; 0 if there is none."""
    return max((int(path.parent.name[5:]) for path in folder.glob("checkpoints/step_????????/state.json")), default=0)


def kill_once(command: list[str], folder: pathlib.Path, seconds: float) -> dict | None:
    """Starts or resumes the run and kills it after some seconds. Returns what it hit; None if the run was done."""
    before = newest(folder)
    lines = len(entries(folder))
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=seconds)
        if process.returncode:
            raise SystemExit(f"The run failed by itself:\n{output}")
        return None
    except subprocess.TimeoutExpired:
        writing = any(folder.glob("checkpoints/*.partial"))
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
    if process.returncode != -signal.SIGKILL:
        return None
    said = output.splitlines()
    if writing:
        phase = "writing a state"
    elif any(line.startswith("step ") for line in said) or len(entries(folder)) > lines:
        phase = "training"
    elif any(line.startswith("Resumed") or "parameters;" in line for line in said):
        phase = "reading a state, tracing"
    else:
        phase = "starting"
    reached = max((entry["step"] for entry in entries(folder)), default=0)
    return {
        "seconds": seconds,
        "phase": phase,
        "from": before,
        "reached": max(reached, before),
        "state": newest(folder),
    }


def equal(first: pathlib.Path, second: pathlib.Path) -> dict[str, bool]:
    """Whether two finished runs agree bit by bit."""
    found = {}
    for name in ("weights", "optimizer"):
        one, other = (load_file(r / f"checkpoints/step_{newest(r):08d}/{name}.safetensors") for r in (first, second))
        found[name] = one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)
    one, other = (load_file(r / "backbone/weights.safetensors") for r in (first, second))
    found["network handed over"] = one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)
    found["every line of the log, once"] = entries(first) == entries(second)
    return found


@contextlib.contextmanager
def load(count: int):
    """Busy processes beside the run."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()


def table(kills: list[dict], agreed: dict[str, bool], arguments) -> str:
    """The report in Markdown."""
    phases = Counter(kill["phase"] for kill in kills)
    lost = [kill["reached"] - kill["state"] for kill in kills]
    lines = [
        "# One run, killed again and again", "",
        f"`python -m benchmarks.kill_and_resume --kills={arguments.kills} --steps={arguments.steps} "
        f"--load={arguments.load} --seed={arguments.seed}`", "",
        f"{len(kills)} times SIGKILL in one run of {arguments.steps:,} steps, a state every 5 steps, with "
        f"{arguments.load} busy processes beside it: " + ", ".join(f"{n} while {p}" for p, n in phases.most_common())
        + f". At most {max(lost, default=0)} logged steps had to be done again.", "",
        "| beside a run that was never interrupted | |", "| --- | --- |",
        *(f"| {name} | {'equal, bit by bit' if same else '**differs**'} |" for name, same in agreed.items()), "",
        "| kill | after s | while | began at step | log reached | newest whole state |",
        "| --- | --- | --- | --- | --- | --- |",
        *(f"| {i} | {k['seconds']:.1f} | {k['phase']} | {k['from']} | {k['reached']} | {k['state']} |"
          for i, k in enumerate(kills, 1)), "",
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--load", type=int, default=2, help="busy processes beside the run")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--output", default=str(ROOT / "benchmarks/results/kill_and_resume.md"))
    arguments = parser.parse_args()
    draw, kills = random.Random(arguments.seed), []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flags = prepare(folder) | {"num_train_steps": arguments.steps}
        whole, killed = folder / "whole", folder / "killed"
        run(verb("pretrain", **flags, model_dir=whole))
        command = verb("pretrain", **flags, model_dir=killed)
        with load(arguments.load):
            began = time.monotonic()
            run(verb("pretrain", **{**flags, "num_train_steps": 5, "num_warmup_steps": 1}, model_dir=folder / "short"))
            longest = time.monotonic() - began
            while len(kills) < arguments.kills:
                found = kill_once(command, killed, draw.uniform(0, longest))
                if found is None:
                    print(f"The run was done after {len(kills)} kills; for more give it more --steps.")
                    break
                kills.append(found)
                print(len(kills), found, flush=True)
        run(command)
        agreed = equal(whole, killed)
        assert (killed / "results.json").is_file() and not any(killed.glob("checkpoints/*.partial"))
    pathlib.Path(arguments.output).write_text(table(kills, agreed, arguments), encoding="utf-8")
    print(agreed, os.path.relpath(arguments.output))
    return 0 if all(agreed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
