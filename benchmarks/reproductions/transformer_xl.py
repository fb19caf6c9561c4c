"""Transformer-XL against a vanilla Transformer: what a memory is worth, and what it saves (Dai et al., 2019).

    python -m benchmarks.reproductions.transformer_xl --workdir=xl --jobs=2
    python -m benchmarks.reproductions.transformer_xl --workdir=mine --text=mine:words:train.txt:test.txt --run=32,3000

Both networks have equally many parameters, read the same tokens in the same order, and are trained by `xmodels pretrain`, each at
the rate that is best for it on held-out text with the first seed.
What is finished in --workdir is taken as it is. Writes benchmarks/results/reproductions/transformer_xl.md and .png.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys

from data_pipelines.quiet import quiet_start

with quiet_start():
    import tensorflow as tf

    from benchmarks.reproductions import peer_transformer_xl, stream_models, stream_scores, window_speed
    from benchmarks.reproductions.commands import bracketed, kept, results_of, side_by_side
    from benchmarks.reproductions.pages import RESULTS
    from benchmarks.reproductions.stream_models import REMEMBERED
    from benchmarks.reproductions.stream_scores import over_seeds
    from benchmarks.reproductions.xl_report import CLAMPED, EQUAL, Found, report

ROOT = pathlib.Path(__file__).parent.parent.parent
TIMES = (0, 1, 2, 4, 8, 16)  # lengths of the memory at evaluation, in segments
ATTENTION = (128, 200, 400, 800, 1600)  # keys that a token sees, where speed is measured
# What the page does not name: folders of a machine, and its cores.
PRIVATE = ("--workdir", "--output", "--data", "--text", "--jobs")
RUNS = {"words": ((32, 1000),), "characters": ((32, 1500),)}  # lengths of segments, and steps
RATES, FIRST = (5e-4, 1e-3, 2e-3, 4e-3), slice(1, 3)  # and those that are tried in any case
VANILLA = {"words": (1,), "characters": (1, 2)}  # lengths of vanilla segments, in that of the first of these runs
WAYS = {  # how distances beyond those of training are read -> settings of the network, by the length of a segment
    "": lambda length: {},
    CLAMPED: lambda length: {"clamp_length": (REMEMBERED + 1) * length},
    EQUAL: lambda length: {"clamp_length": (REMEMBERED + 1) * length, "same_length": True},
}


def texts(options) -> list[stream_models.Text]:
    """What to learn from."""
    if options.text:
        return [stream_models.Text(*text.split(":"), segmenter=options.segmenter) for text in options.text]
    folder = pathlib.Path(options.data)
    words = [str(folder / "wikitext-2" / f"{part}.txt.gz") for part in ("valid", "test")]
    return [
        stream_models.Text("WikiText-2", "words", *words, segmenter="presegmented"),
        stream_models.Text("tinyshakespeare", "characters", str(folder / "tinyshakespeare/input.txt.gz")),
    ]


def compare(text: stream_models.Text, length: int, steps: int, vanilla: tuple[int, ...], options) -> Found:
    """Trains on a text, or takes what was trained before, and scores.

    Args:
        vanilla: the lengths of the segments of vanilla networks, in `length`.
    """
    folder = os.path.join(options.workdir, text.name)
    records = stream_models.make_records(text, length, folder)
    held, tested = (json.loads(pathlib.Path(records[part], "manifest.json").read_text()) for part in ("train", "test"))
    size = held["settings"]["vocabulary_size"]
    both = stream_models.configs(size, length)

    def trained(system: str, config, records: dict[str, str], length: int) -> list[str]:
        """Runs of the seeds at the rate that is best with the first one."""

        def made(rate: float, seed: int) -> str:
            run = f"{folder}/{system}_{length}_{steps}_{rate:g}_{seed}"
            return stream_models.train(system, config, records, steps, options.tokens // length, rate, seed, run)

        tried = bracketed(lambda rate: made(rate, options.seeds[0]), dev_loss, RATES, FIRST)
        rates.append(min(tried, key=lambda rate: dev_loss(tried[rate])))
        runs = [made(rates[-1], seed) for seed in options.seeds]
        sizes.append(stream_scores.parameters(runs[0]))
        return runs

    def scored(runs: list[str], name: str, score, *arguments) -> dict:
        found = over_seeds([kept(f"{run}/{name}.json", score, run, *arguments) for run in runs])
        print(f"{text.name}: {name}: {found['nats']:.4f} nats", flush=True)
        return found

    memory, others, rates, sizes = {}, {}, [], []
    runs = trained("transformer_xl", both["transformer_xl"], records, length)
    ways = {(times, way): WAYS[way](length) for times in TIMES for way in (WAYS if times > REMEMBERED else ("",))}
    for (times, way), changes in ways.items():
        name = f"memory_{times}{way and '_'}{way.replace(' ', '_')}"
        memory[times, way] = scored(runs, name, stream_scores.with_memory, records["test"], times * length, changes)
    peer = peer_transformer_xl.scores(runs[0], records["test"], length, ways) if options.peer else {}
    for times in vanilla:
        longer = stream_models.make_records(text, times * length, folder)
        config = dataclasses.replace(both["gpt"], max_sequence_length=times * length)
        runs = trained("gpt", config, longer, times * length)
        segments = scored(runs, "segments", stream_scores.in_segments, longer["test"])
        windows = scored(runs, "windows", stream_scores.in_windows, longer["test"], times * length // 4)
        others[times] = segments, windows
    return Found(
        text, length, size, steps, held["statistics"]["tokens"], tested["statistics"]["tokens"],
        tested["statistics"]["unknown_tokens"] / tested["statistics"]["tokens"], sizes, rates, memory, others, peer,
    )  # fmt: skip


def dev_loss(run: str) -> float:
    return results_of(run)["loss"]


def speeds(options) -> dict[int, dict[str, float]]:
    """Processor seconds for a token by attention length and way; kept in --workdir."""
    path = pathlib.Path(options.workdir, "speed.json")
    if not path.exists():
        found = {
            length: window_speed.seconds(length, {"segments of 64": 64, "segments as long": length}, options.rounds)
            for length in ATTENTION
        }
        path.write_text(json.dumps(found))
    return {int(length): ways for length, ways in json.loads(path.read_text()).items()}


def main(options) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    os.makedirs(options.workdir, exist_ok=True)
    names = [text.name for text in texts(options)]
    if options.jobs > 1 and not options.only:
        side_by_side("transformer_xl", [[*sys.argv[1:], f"--only={name}"] for name in names], options.jobs)
    found = [
        compare(text, *run, () if number else VANILLA[text.units], options)
        for text in texts(options)
        if options.only in (None, text.name)
        for number, run in enumerate(options.run or RUNS[text.units])
    ]
    if not options.only:
        print(report(found, speeds(options), options))


def pair(text: str) -> tuple[int, int]:
    length, steps = text.split(",")
    return int(length), int(steps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--workdir", required=True, help="Records, runs, scores and timings; kept.")
    add("--data", default=str(ROOT.parent / "shared/data/lm"), help="Folder that holds wikitext-2 and tinyshakespeare.")
    add("--text", action="append", help="NAME:words|characters:TRAIN[:TEST] in place of these; may be repeated.")
    add("--segmenter", help="Of the words of --text: none, jieba or presegmented.")
    add(
        "--run",
        action="append",
        type=pair,
        help="LENGTH,STEPS: segments of this length, so many steps; may be repeated.",
    )
    add("--tokens", type=int, default=1024, help="Of a batch.")
    add("--peer", action="store_true", help="Train Hugging Face's network on the batches of the first seed, too.")
    add("--jobs", type=int, default=1, help="Texts side by side.")
    add("--only", help="Name of a text: train and score on it, and write no page.")
    add("--rounds", type=int, default=5, help="Of the timings.")
    add("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add("--output", default=RESULTS, help="Folder of the page.")
    given = parser.parse_args()
    given.rates = ", ".join(f"{rate:g}" for rate in RATES)
    given.flags = "--workdir=WORKDIR" + "".join(f" {arg}" for arg in sys.argv[1:] if not arg.startswith(PRIVATE))
    main(given)
