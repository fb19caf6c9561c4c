"""Transformer-XL against a vanilla Transformer: what a memory is worth, and what it saves (Dai et al., 2019).

    python -m benchmarks.reproductions.transformer_xl --workdir=/tmp/xl          # about 45 minutes on one core
    python -m benchmarks.reproductions.transformer_xl --workdir=/tmp/mine --text=mine:words:train.txt:test.txt

Both networks have equally many parameters, read the same tokens in the same order and number, and are trained by `xmodels
pretrain`. Finished runs in --workdir are taken as they are. Writes benchmarks/results/reproductions/transformer_xl.md and .png.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import math
import os
import pathlib
import platform

from xmodels.jobs.quiet import quiet_start

with quiet_start():
    import tensorflow as tf

    from benchmarks.reproductions import stream_models, stream_scores, window_speed
    from benchmarks.reproductions.xl_report import Found, draw, report

ROOT = pathlib.Path(__file__).parent.parent.parent
TIMES = (0, 1, 2, 4, 8)  # lengths of the memory at evaluation, in segments
ATTENTION = (128, 200, 400, 800, 1600)  # keys that a token sees, where speed is measured


def texts(options) -> list[tuple[stream_models.Text, int]]:
    """What to learn from, with the number of steps."""
    if options.text:
        return [(stream_models.Text(*t.split(":"), segmenter=options.segmenter), options.steps) for t in options.text]
    folder = pathlib.Path(options.data)
    words = [str(folder / "wikitext-2" / f"{part}.txt.gz") for part in ("valid", "test")]
    characters = str(folder / "tinyshakespeare/input.txt.gz")
    return [
        (stream_models.Text("WikiText-2", "words", *words, segmenter="presegmented"), options.steps * 13 // 30),
        (stream_models.Text("tinyshakespeare", "characters", characters), options.steps),
    ]


def compare(text: stream_models.Text, steps: int, options) -> Found:
    """Trains on a text, or takes what was trained before, and scores."""
    n, rows, seed = options.length, options.rows, options.seed
    folder = os.path.join(options.workdir, text.name)
    train, test = stream_models.make_records(text, n, folder)
    settings = json.loads(pathlib.Path(train, "manifest.json").read_text())
    size = settings["settings"]["vocabulary_size"]
    both = stream_models.configs(size, n)
    xl = stream_models.train("transformer_xl", both["transformer_xl"], train, test, steps, rows, seed, f"{folder}/xl")
    memory = {}
    for times in TIMES:
        for clamp in (None, 2 * n) if times > 1 else (None,):
            memory[times, clamp is not None] = stream_scores.with_memory(xl, test, times * n, clamp)
            print(f"{text.name}: memory {times} x {n}, clamp {clamp}: {total(memory[times, clamp is not None]):.4f} nats")
    vanilla = {}
    for times in (1, 2):
        held = stream_models.make_records(text, times * n, folder)
        config = dataclasses.replace(both["gpt"], max_sequence_length=times * n)
        run = stream_models.train("gpt", config, *held, steps, rows // times, seed, f"{folder}/vanilla_{times}")
        segments = stream_scores.in_segments(run, held[1])
        vanilla[times] = segments, stream_scores.in_windows(run, held[1], times * n // 4)
        print(f"{text.name}: vanilla {times} x {n}: {total(segments):.4f} nats, sliding {vanilla[times][1]:.4f}")
    counts = json.loads(pathlib.Path(test, "manifest.json").read_text())["statistics"]
    return Found(
        text, size, steps, int(settings["statistics"]["tokens"]), int(counts["tokens"]),
        counts["unknown_tokens"] / counts["tokens"], [stream_scores.parameters(r) for r in (xl, f"{folder}/vanilla_1")],
        {key: total(value) for key, value in memory.items()}, memory[1, False][0],
        {times: (total(segments), sliding) for times, (segments, sliding) in vanilla.items()}, vanilla[1][0][0],
    )  # fmt: skip


def total(scored) -> float:
    """The mean over all places of a segment."""
    means, weights = scored
    return float((means * weights).sum() / weights.sum())


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


def environment(options) -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("tensorflow", "keras", "numpy"))
    return (
        f"Python {platform.python_version()}, {versions}; {platform.machine()}, one core, no accelerator. Seed {options.seed}."
    )


def main(options) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    os.makedirs(options.workdir, exist_ok=True)
    fast = speeds(options)
    found = [compare(text, steps, options) for text, steps in texts(options)]
    output = pathlib.Path(options.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    draw(found, fast, options.length, str(output.with_suffix(".png")))
    output.write_text(report(found, fast, options, environment(options), output.with_suffix(".png").name), "utf-8")
    print(output.read_text("utf-8"))
    assert all(math.isfinite(value) for one in found for value in one.memory.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workdir", required=True, help="Records, runs and timings; kept.")
    parser.add_argument("--data", default=str(ROOT.parent / "shared/data/lm"), help="Folder of wikitext-2 and tinyshakespeare.")
    parser.add_argument("--text", action="append", help="NAME:words|characters:TRAIN[:TEST] in place of these; may be repeated.")
    parser.add_argument("--segmenter", default=None, help="Of the words of --text: none, jieba or presegmented.")
    parser.add_argument("--length", type=int, default=32, help="Tokens of a segment, and of the memory in training.")
    parser.add_argument("--rows", type=int, default=32, help="Segments of a batch; even.")
    parser.add_argument("--steps", type=int, default=3000, help="Of characters and of --text; words get 13/30 of them.")
    parser.add_argument("--rounds", type=int, default=7, help="Of the timings.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default=str(ROOT / "benchmarks/results/reproductions/transformer_xl.md"))
    main(parser.parse_args())
