"""Time and memory of the mixers over the length of the text, beside full attention: one layer, forward and backward.

    python -m benchmarks.mixers --output=benchmarks/results/mixers.md

Each measurement is a process of its own on one core: 4 heads of 64, one causal text, float32, compiled by XLA. Time is that of the
processor, the least of a few steps; memory is what the process holds at its peak beyond what it held before the first step.
"""

import argparse
import os
import resource
import subprocess
import sys
import time

LENGTHS = (512, 1024, 2048, 4096)
WINDOW, HEADS, HEAD_DIM = 128, 4, 64


def measure(name: str, length: int) -> tuple[float, float]:
    """Seconds of a step, and its megabytes."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    from xmodels.layers import mixers
    from xmodels.layers.attention.visible import Visible
    from xmodels.layers.initialization import gpt
    from xmodels.models.gpt import GptConfig

    width = HEADS * HEAD_DIM
    numbers = {"window": WINDOW} if name == "local_window" else {}
    config = GptConfig(9, width, 1, HEADS, width, attention_dropout=0.0, mixer=name, mixer_numbers=numbers)
    mixer = mixers.mixer_for(config, gpt(), frozenset({"causal"}))
    x = tf.random.normal((1, length, width))
    mixer(x[:, :2])

    @tf.function(jit_compile=True)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(mixer(x, visible=Visible(causal=True)) ** 2)
        return tape.gradient(loss, [x, *(weight.value for weight in mixer.trainable_variables)])

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step(x)  # compiles
    times = []
    while len(times) < 3 or (sum(times) < 1.0 and len(times) < 20):
        start = time.process_time()
        step(x)[0].numpy()
        times.append(time.process_time() - start)
    return min(times), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def run(name: str, length: int) -> tuple[float, float]:
    """`measure` in a process of its own, on one core."""
    command = [sys.executable, "-m", "benchmarks.mixers", f"--measure={name}", f"--length={length}"]
    core = {min(os.sched_getaffinity(0))}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, core)
    )  # fmt: skip
    seconds, megabytes = map(float, done.stdout.split()[-2:])
    return seconds, megabytes


def table(found: dict) -> str:
    names = list(found)
    lines = [
        "# Mixers over the length of the text", "",
        f"`python -m benchmarks.mixers`: one layer of {HEADS} heads of {HEAD_DIM}, causal, batch 1, float32, forward and backward,",
        f"XLA on one core, processor time; `local_window` of {WINDOW}. In brackets: how many times less than full attention.", "",
        "| L | " + " | ".join(f"{name}, ms | {name}, MB" for name in names) + " |",
        "| --- |" + " --- |" * 2 * len(names),
    ]  # fmt: skip
    for length in LENGTHS:
        full, cells = found["multi_head"][length], []
        for name in names:
            seconds, megabytes = found[name][length]
            more = [
                f" ({a / b:.1f})" if name != "multi_head" else ""
                for a, b in zip(full, (seconds, megabytes), strict=True)
            ]
            cells += [f"{1000 * seconds:.0f}{more[0]}", f"{megabytes:.0f}{more[1]}"]
        lines.append(f"| {length:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output")
    parser.add_argument("--measure")
    parser.add_argument("--length", type=int)
    args = parser.parse_args()
    if args.measure:
        print(*measure(args.measure, args.length))
        return
    text = table({n: {length: run(n, length) for length in LENGTHS} for n in ("multi_head", "local_window", "linear")})
    print(text)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
