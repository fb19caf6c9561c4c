"""Whole training steps of a language model of four layers with every causal mixer, over the length of the text.

    python -m benchmarks.mixer_steps --output=benchmarks/results/mixer_steps.md [--mixers=linear,performer]

One text of bytes a step, 4 layers of 256 with 4 heads, AdamW, float32, without dropout, on one core, with XLA and without. Each mixer
and way is a process of its own, which goes from the shortest text to the longest; time is that of the processor, the least of a few
steps, memory the peak of the process so far. A mixer is left out at lengths after its first step of more than `MOST_SECONDS`.

`--folder` keeps what is measured, so an interrupted run goes on. With libtpu installed, the TPU pre-flight compiles the same step in
bfloat16 for one v5e chip at the longest text: whether it compiles, what memory it takes, and what it can be no faster than.
"""

import functools
import importlib.util
import json
import os
import statistics

import numpy as np

from benchmarks import measure
from benchmarks.efficient_attention import numbers_of
from benchmarks.mixer_quality import learner_of, names_for, network
from benchmarks.mixer_tasks import BYTES, FIRST, VOCABULARY, language
from benchmarks.reproductions.commands import kept

NAME = "benchmarks.mixer_steps"
LENGTHS, MOST_SECONDS = (512, 2048, 8192), 20.0
SIZES = {"num_layers": 4, "num_heads": 4, "hidden_dim": 256, "intermediate_dim": 1024}
TOPOLOGY = "v5e:1x1"
WAYS = {"plain": False, "xla": True}


def steps_of(mixer: str, jit_compile: bool) -> dict:
    """Returns {length: processor seconds of a step and megabytes at the peak}."""
    import tensorflow as tf

    from xmodels.training.devices import allocator

    allocator.keep_memory()
    found = {}
    for length in LENGTHS:
        tokens = np.random.default_rng(0).integers(0, 256, (2, length)).astype("int32") + FIRST
        made = functools.partial(network, BYTES, mixer, length, sizes=SIZES)
        learner, iterator = learner_of(made, language(tokens), batch=1, jit_compile=jit_compile)
        one, seconds = tf.constant(1), []
        learner.train(iterator, one)  # traces
        while len(seconds) < 2 or (sum(seconds) < 3.0 and len(seconds) < 8):
            start = measure.processor_seconds()
            learner.train(iterator, one)
            seconds.append(measure.processor_seconds() - start)
        found[length] = {"processor": min(seconds), "megabytes": measure.peak_megabytes()}
        if min(seconds) > MOST_SECONDS:
            break
    return found


def preflight_of(mixer: str) -> dict:
    """Returns what the compiler of the TPU says of the step at the longest text."""
    from xmodels.jobs.tpu_preflight.options import Options
    from xmodels.jobs.tpu_preflight.run import preflight
    from xmodels.models.gpt2 import Gpt2Config

    length = LENGTHS[-1]
    config = Gpt2Config(
        VOCABULARY, **SIZES, max_sequence_length=length, mixer=mixer, mixer_numbers=numbers_of(mixer, length)
    )
    options = Options(
        system="gpt2", vocab_size=VOCABULARY, topology=TOPOLOGY, train_batch_size=1, max_seq_length=length, max_compiles=1
    )  # fmt: skip
    report = preflight(options, config)
    if report.cost is None or report.limits is None:
        return {"error": "does not fit"}
    limits = report.limits
    return {
        "gigabytes": report.cost.memory / 2**30,
        "milliseconds": 1e3 * getattr(limits, limits.holds),
        "holds": limits.holds,
        "seconds": report.cost.seconds,
    }


def page(found: dict[str, dict[str, dict]], compiled: dict[str, dict]) -> str:
    """Returns the tables, as Markdown."""
    longest = LENGTHS[-1]
    parts = [
        "# Training steps over the length of the text", "",
        f"`python -m {NAME}`: a causal language model of {SIZES['num_layers']} layers of {SIZES['hidden_dim']} with "
        f"{SIZES['num_heads']} heads, one text of bytes a step, AdamW, float32, without dropout, one core, processor time. Numbers of "
        "the mixers are those of [efficient_attention.md](efficient_attention.md). " + measure.machine(1), "",
        "Milliseconds of a step, without XLA and with it:", "",
        shown(found, lambda each: f"{1000 * each['processor']:,.0f}"),
        "Megabytes at the peak of the process, without XLA and with it:", "",
        shown(found, lambda each: f"{each['megabytes']:,.0f}"),
    ]  # fmt: skip
    if compiled:
        rows = []
        for name, each in compiled.items():
            if "error" in each:
                rows.append([f"`{name}`", f"no: {each['error']}", "", ""])
            else:
                bound = f"{each['milliseconds']:.2f} ({each['holds']})"
                rows.append([f"`{name}`", "yes", f"{each['gigabytes']:.2f}", bound])
        fits = [each["milliseconds"] for each in compiled.values() if "error" not in each]
        middle = f" The median bound is {statistics.median(fits):.1f} ms." if fits else ""
        parts += [
            f"The same step in bfloat16 with {longest:,} tokens, compiled for a chip of `{TOPOLOGY}` by libtpu without a TPU at "
            "hand (`xmodels tpu_preflight`); dropout is the recipe's. A bound says what no step can be faster than, by what holds "
            f"it.{middle}", "",
            measure.table(["mixer", "compiles", "GiB of HBM", "no faster than, ms"], rows),
        ]  # fmt: skip
    return "\n".join(parts)


def shown(found: dict[str, dict[str, dict]], show) -> str:
    """Returns a table of mixers by length, a cell for both ways."""
    rows = []
    for name, ways in found.items():
        row = [f"`{name}`"]
        for length in LENGTHS:
            cells = [ways[way].get(str(length)) for way in WAYS]
            row.append(" / ".join(show(cell) if cell else "–" for cell in cells))
        rows.append(row)
    return measure.table(["mixer", *(f"{length:,}" for length in LENGTHS)], rows)


def main() -> None:
    parser = measure.parser_of(__doc__)
    parser.add_argument("--mixer", help="of one measurement")
    parser.add_argument("--way", choices=tuple(WAYS), help="of one measurement")
    parser.add_argument("--mixers", help="names parted by commas; by default all causal ones")
    args = parser.parse_args()
    if args.method == "steps":
        print(json.dumps(steps_of(args.mixer, WAYS[args.way])))
        return
    if args.method == "preflight":
        print(json.dumps(preflight_of(args.mixer)))
        return
    names = args.mixers.split(",") if args.mixers else names_for(BYTES)
    found = {name: {way: alone(args.folder, "steps", name, way) for way in WAYS} for name in names}
    compiled = (
        {name: alone(args.folder, "preflight", name) for name in names} if importlib.util.find_spec("libtpu") else {}
    )
    measure.publish(page(found, compiled), args.output)


def alone(folder: str | None, method: str, mixer: str, way: str | None = None) -> dict:
    """Returns what a process of its own measures, from a file where it has done so before."""

    def measured() -> dict:
        return measure.alone(NAME, [method, f"--mixer={mixer}", *([f"--way={way}"] if way else [])])

    found = kept(os.path.join(folder, f"{method}-{mixer}-{way}.json"), measured) if folder else measured()
    print(f"{method}, {mixer}, {way}: {found}", flush=True)
    return found


if __name__ == "__main__":
    main()
