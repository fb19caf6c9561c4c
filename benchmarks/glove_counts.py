"""Counting which words stand near each other, for GloVe, beside what GloVe's own program does.

    python -m benchmarks.glove_counts --text=docstrings.txt --times=8 --gigabytes=0.4 --output=benchmarks/results/glove_counts.md

The released program is in no package registry, so `glove_counts.c` does what it does, and is compiled here by `cc -O3`; the pairs
that it counts in the golden corpus are those of the released program (`tests/benchmarks/test_glove_counts.py`). `--gigabytes` is its
limit. Ours has none to be set: it sums frequent pairs in 32 MB and collects runs of half a million others. Both read the same lines of
512 lower-case words, of those that occur five times, with a window of 15 words to both sides, one core each. Ours also shuffles the
pairs and writes records for training, which the released code leaves to a second program. `--times` repeats the text, so that it is
larger than the memory.
"""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks import measure, word_vectors

SOURCE = pathlib.Path(__file__).with_suffix(".c")
PAIR = np.dtype([("first", "<i4"), ("second", "<i4"), ("value", "<f8")])
WINDOW, LEAST = 15, 5


def compile_program(folder: str) -> str:
    """Compiles the C program. Returns its path."""
    path = os.path.join(folder, "glove_counts")
    subprocess.run(["cc", "-O3", "-march=native", "-o", path, SOURCE, "-lm"], check=True)
    return path


def write_inputs(options: argparse.Namespace, folder: str) -> None:
    """Writes the text, its words by frequency, and how many it has. A process of its own does it: Linux counts the memory of a process
    that starts another one for that one too."""
    words = word_vectors.words_of(options.text, LEAST)
    with open(os.path.join(folder, "runs.txt"), "w", encoding="utf-8") as file:
        for _ in range(options.times):
            word_vectors.write_runs(file, words)
    names = [word for word, _ in collections.Counter(words).most_common()]
    with open(os.path.join(folder, "inputs.json"), "w", encoding="utf-8") as file:
        json.dump({"names": names, "count": len(words) * options.times}, file)


def count_by_program(
    program: str, words: list[str], text: str, window: int, gigabytes: float, folder: str
) -> tuple[np.ndarray, dict]:
    """Returns the pairs that the C program counts, with numbers of words from 1 on in the order of `words`, and what it took."""
    vocabulary, output, runs = (os.path.join(folder, name) for name in ("by_frequency.txt", "pairs.bin", "runs"))
    pathlib.Path(vocabulary).write_text("\n".join(words) + "\n", encoding="utf-8")
    os.makedirs(runs, exist_ok=True)
    command = [program, vocabulary, text, str(window), str(gigabytes), runs]
    took = measure.spent([*measure.ONE_CORE, *command], dict(os.environ), output)
    return np.fromfile(output, PAIR), took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="files of text")
    parser.add_argument("--times", type=int, default=1, help="how often the text is read")
    parser.add_argument("--gigabytes", type=float, default=0.4, help="the limit of the C program")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--output")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        writer = multiprocessing.get_context("spawn").Process(target=write_inputs, args=(options, folder))
        writer.start()
        writer.join()
        if writer.exitcode:
            raise SystemExit(f"The text was not written: {options.text}.")
        with open(os.path.join(folder, "inputs.json"), encoding="utf-8") as file:
            names, count = json.load(file).values()
        text = os.path.join(folder, "runs.txt")
        size = os.path.getsize(text) / 2**20
        own = {"input_file": text, "input_format": "documents"}
        measure.launch(
            "train_vocabulary", **own, tokenizer="words", segmenter="presegmented", vocab_size=len(names) + 100,
            output_file=f"{folder}/words",
        )  # fmt: skip
        program, best = compile_program(folder), {}
        for _ in range(options.rounds):
            pairs, of_program = count_by_program(program, names, text, WINDOW, options.gigabytes, folder)
            of_ours = measure.launch(
                "create_pretraining_data", **own, vocab_file=f"{folder}/words", packing="cooccurrence", set=f"window={WINDOW}",
                output_dir=f"{folder}/records", overwrite="true",
            )  # fmt: skip
            for name, took in (("as GloVe's program", of_program), ("xmodels", of_ours)):
                print(name, took, file=sys.stderr, flush=True)
                if name not in best or took["processor"] < best[name]["processor"]:
                    best[name] = took
        with open(f"{folder}/records/manifest.json", encoding="utf-8") as file:
            counted = json.load(file)["statistics"]["pairs"]
    if counted != len(pairs):
        raise SystemExit(f"{counted:,} pairs of ours, {len(pairs):,} of the program.")
    rows = [
        [name, f"{took['processor']:.1f}", f"{took['wall']:.1f}", f"{count / took['processor']:,.0f}", f"{took['peak']:,.0f}"]
        for name, took in best.items()
    ]  # fmt: skip
    columns = ["", "processor s", "s by the clock", "words a processor second", "peak, MB"]
    text = (
        f"# Counting for GloVe\n\n`python -m benchmarks.glove_counts --times={options.times} --gigabytes={options.gigabytes} "
        f"--rounds={options.rounds}`; its head says what is measured. {size:,.0f} MB of text, {count:,} words of "
        f"{len(names):,} kinds, {counted:,} pairs in both. {measure.machine(1)}\n\n{measure.table(columns, rows)}"
    )
    measure.publish(text, options.output)


if __name__ == "__main__":
    main()
