"""Time and memory of every mixer over the length of the text: one layer, forward and backward, beside full attention.

    python -m benchmarks.efficient_attention --output=benchmarks/results/efficient_attention.md [--mixers=linear,performer]

Each measurement is a process of its own on one core: 4 heads of 64, one text, float32, compiled by XLA; causal where the mixer has
such a form. Time is that of the processor, the least of a few steps; memory is what the process holds at its peak beyond what it
held before the first step. A mixer is left out at lengths after its first step of more than `MOST_SECONDS`. Exponents are slopes over
log length from 2,048 tokens on: of log time, and of the log of the layer's matrix multiplications, counted in its graph, which have
terms of both theory and projections. With `--points` a file keeps what is measured, and the same command goes on.
"""

import json
import math
import os
import resource
import time

from benchmarks import measure

NAME = "benchmarks.efficient_attention"
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
HEADS, HEAD_DIM = 4, 64
FITTED = 2048  # tokens from which on the exponent is fitted
MOST_SECONDS = 8.0
# Numbers that differ from the defaults, and what theory says of the exponent.
WIDE = {"window": 128, "num_global": 16}
NUMBERS = {"local_window": {"window": 128}, "longformer": WIDE, "etc": WIDE, "linformer": {"rank": 256}}
SUMMARY = 8  # tokens of a block of `sparse` that all later ones see
QUADRATIC = "multi_head", "chunked", "disentangled", "memory_compressed", "synthesizer"
ROOT = "axial", "routing", "sparse"
THEORY = dict.fromkeys(QUADRATIC, 2.0) | dict.fromkeys(ROOT, 1.5)  # of others 1; Reformer sorts, L log L


REASONS = """Exponents below theory: up to 16,384 tokens the projections, which grow with L, take most of the products (`axial`,
`routing`, `memory_compressed`, `chunked`). Above it: what is kept of L x L numbers (`multi_head`, `disentangled`,
`synthesizer`) leaves the caches; a softmax of 4 x L x L numbers with its gradient, alone, has an exponent of 2.12 here.
`sinkhorn` moves blocks by a matrix of blocks times blocks, a part of L x L / 64 that the paper's limit of few blocks leaves out."""


def numbers_of(name: str, length: int) -> dict:
    """Returns the numbers of a mixer; blocks and rows of those in L times its root have the size that takes the least work."""
    if name == "sparse":
        return {"stride": 2 ** round(math.log2(SUMMARY * length) / 2), "summary": SUMMARY}
    if name == "axial":
        return {"columns": 2 ** round(math.log2(length) / 2)}
    return NUMBERS.get(name, {})


def layer_of(name: str, length: int):
    """Returns a mixer, whether it is causal, and an input of it."""
    import tensorflow as tf

    from xmodels.layers import mixers
    from xmodels.layers.attention.visible import Visible
    from xmodels.layers.initialization import gpt
    from xmodels.models.gpt import GptConfig

    kind, width = mixers.find(name), HEADS * HEAD_DIM
    numbers = {"max_sequence_length": length, "mixer": name, "mixer_numbers": numbers_of(name, length)}
    config = GptConfig(9, width, 1, HEADS, width, attention_dropout=0.0, **numbers)
    is_causal = "causal" in kind.supports
    mixer = mixers.mixer_for(config, gpt(), frozenset({"causal"} if is_causal else ()))
    x = tf.random.normal((1, length, width))
    mixer(x[:, :64], visible=Visible(causal=is_causal))
    return mixer, is_causal, x


def multiplications(name: str, length: int) -> float:
    """Returns the FLOPs of the matrix multiplications of a layer, forward."""
    from xmodels.layers.attention.visible import Visible
    from xmodels.training.watching import flops

    mixer, is_causal, x = layer_of(name, length)
    return flops.count(flops.trace(lambda batch: mixer(batch["x"], visible=Visible(causal=is_causal)), {"x": x}))


def step_of(name: str, length: int) -> dict:
    """Returns the processor seconds of a step and its megabytes."""
    import tensorflow as tf

    from xmodels.layers.attention.visible import Visible

    mixer, is_causal, x = layer_of(name, length)

    @tf.function(jit_compile=True)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(mixer(x, visible=Visible(causal=is_causal)) ** 2)
        return tape.gradient(loss, [x, *(weight.value for weight in mixer.trainable_variables)])

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step(x)  # compiles
    times: list[float] = []
    while len(times) < 2 or (sum(times) < 1.0 and len(times) < 10):
        start = time.process_time()
        step(x)[0].numpy()
        times.append(time.process_time() - start)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"processor": min(times), "megabytes": memory, "causal": is_causal}


def measure_all(names: list[str], path: str | None) -> dict[str, dict[int, dict]]:
    """Returns {mixer: {length: what `step_of` gives}} of processes of their own; what the file of points has is not measured again."""
    known = {}
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = {(each.pop("mixer"), each.pop("length")): each for each in map(json.loads, file)}
    found: dict[str, dict[int, dict]] = {}
    for name in names:
        found[name] = {}
        for length in LENGTHS:
            result = known.get((name, length))
            if result is None:
                result = measure.alone(NAME, ["step", f"--mixer={name}", f"--length={length}"])
                print(f"{name}, {length}: {result}", flush=True)
                if "error" in result:
                    break
                if path:
                    with open(path, "a", encoding="utf-8") as file:
                        file.write(json.dumps({"mixer": name, "length": length, **result}) + "\n")
            found[name][length] = result
            if result["processor"] > MOST_SECONDS:
                break
    return found


def exponent(values: dict[int, float]) -> float | None:
    """Returns the slope of the log of values over log length from `FITTED` on; None for fewer than two."""
    pairs = [(math.log(length), math.log(value)) for length, value in values.items() if length >= FITTED]
    if len(pairs) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in pairs) / sum((x - mean_x) ** 2 for x, _ in pairs)


def overtaken_at(points: dict[int, dict], full: dict[int, dict]) -> str:
    """Returns the first length from which on a mixer takes less time than full attention at all lengths measured."""
    shared = sorted(points.keys() & full.keys())
    slower = [length for length in shared if points[length]["processor"] >= full[length]["processor"]]
    after = [length for length in shared if not slower or length > slower[-1]]
    return f"{after[0]:,}" if after else "not up to here"


def page(found: dict[str, dict[int, dict]]) -> str:
    """Returns the tables, as Markdown."""
    full = found["multi_head"]
    summary = []
    for name, points in found.items():
        fitted = exponent({length: each["processor"] for length, each in points.items()})
        counted = exponent({length: multiplications(name, length) for length in points if length >= FITTED})
        form = "causal" if next(iter(points.values()))["causal"] else "two-sided"
        last = max(points.keys() & full.keys())
        ratio = full[last]["processor"] / points[last]["processor"]
        summary.append([
            f"`{name}`", form, *("" if each is None else f"{each:.2f}" for each in (fitted, counted)),
            f"{THEORY.get(name, 1.0):g}", overtaken_at(points, full), f"{ratio:.1f} at {last:,}",
        ])  # fmt: skip
    parts = [
        "# Mixers over the length of the text", "",
        f"`python -m {NAME}`: one layer of {HEADS} heads of {HEAD_DIM}, batch 1, float32, forward and backward, XLA, one core,",
        "processor time. Windows of 128, 16 global tokens, rank 256, 266 random features, 2 rounds of hashing, chunks of 64,",
        "blocks of 64 with 3 random ones; `sparse` has blocks of about the root of 8 L and 8 summaries of each, `axial` rows of",
        "about the root of L. " + measure.machine(1), "",
        measure.table(
            [
                "mixer", "form", f"exponent of time from {FITTED:,} on", "of its matrix products", "theory",
                "faster than full attention from", "times as fast",
            ],
            summary,
        ),
        REASONS, "", "![Time over length](efficient_attention.png)", "", "Milliseconds of a step:", "",
        values_of(found, lambda each: f"{1000 * each['processor']:,.0f}"), "Megabytes at the peak:", "",
        values_of(found, lambda each: f"{each['megabytes']:,.0f}"),
    ]  # fmt: skip
    return "\n".join(parts)


def values_of(found, show) -> str:
    rows = [[f"{length:,}", *(show(p[length]) if length in p else "" for p in found.values())] for length in LENGTHS]
    return measure.table(["L", *(f"`{name}`" for name in found)], rows)


def draw(found: dict[str, dict[int, dict]], path: str) -> None:
    """Draws time over length with logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for number, (name, points) in enumerate(found.items()):
        style = (
            {"color": "black", "linewidth": 2.5}
            if name == "multi_head"
            else {"linestyle": ["-", "--", ":"][number % 3]}
        )
        seconds = [each["processor"] for each in points.values()]
        axes.plot(list(points), seconds, marker="o", markersize=3, label=name, **style)
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="processor seconds of a step")
    axes.set_xticks(LENGTHS, [f"{length:,}" for length in LENGTHS])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = measure.parser_of(__doc__)
    parser.add_argument("--mixer", help="of one step")
    parser.add_argument("--length", type=int, help="of one step")
    parser.add_argument("--points", help="file that keeps what is measured")
    parser.add_argument("--mixers", help="names parted by commas; by default all")
    args = parser.parse_args()
    if args.method == "step":
        print(json.dumps(step_of(args.mixer, args.length)))
        return
    from xmodels.layers import mixers

    names = args.mixers.split(",") if args.mixers else mixers.names()
    found = measure_all(["multi_head", *(name for name in names if name != "multi_head")], args.points)
    if args.output:
        draw(found, os.path.splitext(args.output)[0] + ".png")
    measure.publish(page(found), args.output)


if __name__ == "__main__":
    main()
