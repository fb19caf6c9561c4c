"""Transformer-XL against a vanilla Transformer: what a memory is worth, and what it saves (Dai et al., 2019).

    python -m benchmarks.reproductions.transformer_xl --workdir=xl         # about 45 minutes on one free core
    python -m benchmarks.reproductions.transformer_xl --workdir=mine --text=mine:words:train.txt:test.txt --steps=3000

Both networks have equally many parameters, read the same tokens in the same order, and are trained by `xmodels pretrain`.
What is finished in --workdir is taken as it is. Writes benchmarks/results/reproductions/transformer_xl.md and .png.
"""

import argparse
import dataclasses
import json
import os
import pathlib

from xmodels.jobs.quiet import quiet_start

with quiet_start():
    import tensorflow as tf

    from benchmarks.reproductions import stream_models, stream_scores, window_speed
    from benchmarks.reproductions.common import RESULTS
    from benchmarks.reproductions.stream_scores import kept
    from benchmarks.reproductions.xl_report import Found, report

ROOT = pathlib.Path(__file__).parent.parent.parent
TIMES = (0, 1, 2, 4, 8)  # lengths of the memory at evaluation, in segments
ATTENTION = (128, 200, 400, 800, 1600)  # keys that a token sees, where speed is measured
STEPS = {"words": 1300, "characters": 1600}
VANILLA = {"words": (1,), "characters": (1, 2)}  # lengths of its segments, in those of the Transformer-XL


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


def compare(text: stream_models.Text, options) -> Found:
    """Trains on a text, or takes what was trained before, and scores."""
    n, rows, steps = options.length, options.rows, options.steps or STEPS[text.units]
    folder = os.path.join(options.workdir, text.name)
    train, test = stream_models.make_records(text, n, folder)
    held, tested = (json.loads(pathlib.Path(path, "manifest.json").read_text()) for path in (train, test))
    size = held["settings"]["vocabulary_size"]
    both = stream_models.configs(size, n)
    xl = stream_models.train(
        "transformer_xl", both["transformer_xl"], train, test, steps, rows, options.seed, f"{folder}/xl"
    )
    memory = {}
    for times in TIMES:
        for clamp in (None, 2 * n) if times > 1 else (None,):
            path = f"{xl}/memory_{times}{'_clamped' if clamp else ''}.json"
            scored = kept(path, stream_scores.with_memory, xl, test, times * n, clamp)
            memory[times, clamp is not None] = scored
            print(f"{text.name}: memory of {times} segments, clamp {clamp}: {scored['nats']:.4f} nats", flush=True)
    vanilla = {}
    for times in VANILLA[text.units]:
        records = stream_models.make_records(text, times * n, folder)
        config = dataclasses.replace(both["gpt"], max_sequence_length=times * n)
        run = f"{folder}/vanilla_{times}"
        stream_models.train("gpt", config, *records, steps, rows // times, options.seed, run)
        segments = kept(f"{run}/segments.json", stream_scores.in_segments, run, records[1])
        windows = kept(f"{run}/windows.json", stream_scores.in_windows, run, records[1], times * n // 4)
        vanilla[times] = segments, windows
        print(
            f"{text.name}: vanilla, {times} x {n}: {segments['nats']:.4f} nats, in windows {windows['nats']:.4f}",
            flush=True,
        )
    return Found(
        text, size, steps, held["statistics"]["tokens"], tested["statistics"]["tokens"],
        tested["statistics"]["unknown_tokens"] / tested["statistics"]["tokens"],
        [stream_scores.parameters(run) for run in (xl, f"{folder}/vanilla_1")], memory, vanilla,
    )  # fmt: skip


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
    fast = speeds(options)
    found = [compare(text, options) for text in texts(options)]
    print(report(found, fast, options, options.output))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--workdir", required=True, help="Records, runs, scores and timings; kept.")
    add("--data", default=str(ROOT.parent / "shared/data/lm"), help="Folder that holds wikitext-2 and tinyshakespeare.")
    add("--text", action="append", help="NAME:words|characters:TRAIN[:TEST] in place of these; may be repeated.")
    add("--segmenter", help="Of the words of --text: none, jieba or presegmented.")
    add("--length", type=int, default=32, help="Tokens of a segment, and of the memory in training.")
    add("--rows", type=int, default=32, help="Segments of a batch; even.")
    add("--steps", type=int, help="Of training. Default: 1,300 on words, 1,600 on characters.")
    add("--rounds", type=int, default=7, help="Of the timings.")
    add("--seed", type=int, default=1)
    add("--output", default=RESULTS, help="Folder of the page.")
    main(parser.parse_args())
