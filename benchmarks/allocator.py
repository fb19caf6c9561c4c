"""A training step of ours with glibc's allocator as it is, and told to keep memory (`xmodels/training/devices/allocator.py`).

    python -m benchmarks.allocator --output=benchmarks/results/allocator.md [--sizes=tiny,mini,base --vocabularies=500,30522 --cores=1]

The networks and batches are those of `benchmarks/train_step.py`. Each method is a process of its own; they take turns, and
the round with the fewest processor seconds counts.
"""

import argparse
import dataclasses
import itertools
import json
import tempfile

from benchmarks import measure, train_step
from benchmarks.step_peers import PEERS
from xmodels.training.devices import allocator

SYSTEM = "bert"
METHODS = {"as it is": [], "keeps memory": ["--keep_memory"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", help="one size, in this process")
    parser.add_argument("--keep_memory", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--sizes", default="tiny,mini")
    parser.add_argument("--vocabularies", default="500,30522")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--output")
    given = parser.parse_args()
    if not given.size:
        compare(given)
    else:
        take_vocabulary(given.vocabulary)
        if given.keep_memory and not allocator.keep_memory():
            raise SystemExit("The allocator of this process cannot be set.")
        print(json.dumps(train_step.ours(SYSTEM, given.size, given.folder, False, False)))


def take_vocabulary(size: int) -> None:
    """Gives the networks of this process a vocabulary of another size."""
    PEERS[SYSTEM] = dataclasses.replace(PEERS[SYSTEM], vocabulary_size=size)


def compare(given) -> None:
    text = (
        "# The allocator\n\nMade by `python -m benchmarks.allocator`. One training step of BERT, 128 tokens a row.\n\n"
        f"{measure.machine(given.cores)}\n"
    )
    rows = []
    for size, vocabulary in itertools.product(given.sizes.split(","), map(int, given.vocabularies.split(","))):
        take_vocabulary(vocabulary)
        with tempfile.TemporaryDirectory() as folder:
            weights = f"{folder}/weights"
            train_step.make_weights(SYSTEM, weights, size)
            same = [f"--folder={weights}", f"--vocabulary={vocabulary}"]
            methods = {name: [size, *flags, *same] for name, flags in METHODS.items()}
            found = measure.rounds("benchmarks.allocator", methods, given.rounds, given.cores)
        for name, result in found.items():
            if "error" in result:
                rows.append([size, f"{vocabulary:,}", name, result["error"], "", "", ""])
                continue
            ratio = found["as it is"]["processor"] / result["processor"]
            rows.append([
                size, f"{vocabulary:,}", name, f"{result['processor']:.3f}", f"{ratio:.2f}", f"{result['peak_mb']:,.0f}",
                f"{result['loss']:.4f}",
            ])  # fmt: skip
    columns = ["BERT", "vocabulary", "allocator", "processor s / step", "times as fast", "peak MB", "first loss"]
    text += "\n" + measure.table(columns, rows)
    measure.publish(text, given.output)


if __name__ == "__main__":
    main()
