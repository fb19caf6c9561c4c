"""Forward time of one layer of each kind over the length of the text, beside what `cost_model` counts.

    python -m benchmarks.layer_costs --output=benchmarks/results/layer_costs.md

One core, batch 1, float32, compiled by XLA; time is that of the processor, the least of some passes. With all lengths it takes about
two minutes on a core of 2026, most of it compiling; --lengths=32,64 takes less.
"""

import argparse
import functools
import math
import time

from benchmarks.measure import publish

WIDTH, HEADS, KERNEL, WINDOW = 128, 4, 3, 64
LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)


def layers() -> dict:
    """A layer of each kind of `cost_model`, as a function of (1, n, d)."""
    import keras

    from xmodels.layers.attention.local_window import LocalWindow
    from xmodels.layers.attention.multi_head import MultiHeadAttention
    from xmodels.layers.convolution import GatedConvolution
    from xmodels.layers.initialization import glorot
    from xmodels.layers.recurrent import GruCell, LstmCell, Recurrent
    from xmodels.layers.separable_convolution import SeparableConvolution

    return {
        "self_attention": MultiHeadAttention(HEADS, WIDTH, 0.0, glorot()),
        "local_attention": LocalWindow(HEADS, WIDTH, 0.0, glorot(), window=WINDOW // 2),
        "lstm": Recurrent(LstmCell(WIDTH)),
        "gru": Recurrent(GruCell(WIDTH)),
        "convolution": keras.layers.Conv1D(WIDTH, KERNEL, padding="same"),
        "gated_convolution": GatedConvolution(WIDTH, KERNEL),
        "separable_convolution": SeparableConvolution(WIDTH, KERNEL, False, "glorot_uniform"),
    }


def measure(layer, length: int) -> float:
    """Seconds of a forward pass: the least of some."""
    import tensorflow as tf

    x = tf.random.normal((1, length, WIDTH))
    layer(x[:, :2])
    forward = tf.function(layer, jit_compile=True)
    forward(x)  # compiles
    times: list[float] = []
    while len(times) < 5 or (sum(times) < 0.5 and len(times) < 200):
        start = time.process_time()
        forward(x).numpy()
        times.append(time.process_time() - start)
    return min(times)


def slope(times: dict[int, float]) -> float:
    """The exponent of the length between the two largest lengths: 1 for linear time, 2 for square."""
    short, long = sorted(times)[-2:]
    return math.log(times[long] / times[short]) / math.log(long / short)


def crossover(first: dict[int, float], second: dict[int, float]) -> str:
    """From which length on the first layer is slower than the second."""
    slower = [length for length in sorted(first) if first[length] > second[length]]
    return f"slower from n = {slower[0]:,} on" if slower else "slower at none of these lengths"


def table(found: dict[str, dict[int, float]], lengths) -> str:
    from xmodels.layers.complexity import cost_model

    cost = functools.partial(cost_model, d=WIDTH, kernel_size=KERNEL, window=WINDOW, num_heads=HEADS)
    lines = [
        "# Forward time of one layer over the length of the text", "",
        f"`python -m benchmarks.layer_costs`: width {WIDTH}, {HEADS} heads, kernel {KERNEL}, window {WINDOW} (32 on each side);",
        "batch 1, float32, XLA on one core, processor time in milliseconds; in brackets the GFLOP/s that `cost_model` counts.", "",
        "| n | " + " | ".join(found) + " |", "| --- |" + " --- |" * len(found),
    ]  # fmt: skip
    for n in lengths:
        cells = [f"{1e3 * times[n]:.2f} ({cost(name, n).flops / times[n] / 1e9:.1f})" for name, times in found.items()]
        lines.append(f"| {n:,} | " + " | ".join(cells) + " |")
    if len(lengths) > 1:
        lines.append("| exponent | " + " | ".join(f"{slope(times):.2f}" for times in found.values()) + " |")
    for name in ("lstm", "gru"):
        lines += [
            "",
            f"Beside {name}, self-attention is {crossover(found['self_attention'], found[name])}.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    args = parser.parse_args()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    lengths = [int(each) for each in args.lengths.split(",")]
    text = table({name: {n: measure(layer, n) for n in lengths} for name, layer in layers().items()}, lengths)
    publish(text, args.output)


if __name__ == "__main__":
    main()
