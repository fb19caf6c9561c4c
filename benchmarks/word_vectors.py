"""Words a second of skip-gram with negative sampling: sparse updates, dense updates, and gensim; one core each.

    python -m benchmarks.word_vectors --text 'shared/data/lm/gutenberg-en/*' --output=benchmarks/results/word_vectors.md

Width 100, window 5, 5 negatives, subsampling at 1e-3, with a small and a large vocabulary. Ours reads 8 runs of 128 words a step.
gensim is counted where `--gensim` names a Python that has it.
"""

import argparse
import collections
import glob
import gzip
import json
import re
import subprocess
import sys
import time

from benchmarks import measure

LENGTH, ROWS, WIDTH, WINDOW, NEGATIVES, SAMPLE = 128, 8, 100, 5, 5, 1e-3
GENSIM = """
import gensim, json, sys, time
from gensim.models import Word2Vec
runs = [line.split() for line in open(sys.argv[1], encoding="utf-8")]
model = Word2Vec(vector_size={width}, window={window}, negative={negatives}, sample={sample}, min_count=1, sg=1, workers=1)
model.build_vocab(runs)
begun = time.process_time()
model.train(runs, total_words=sum(map(len, runs)), epochs=1)
took = time.process_time() - begun
print(json.dumps({{"words": sum(map(len, runs)), "processor": took, "version": gensim.__version__}}))
"""


def words_of(pattern: str, min_count: int) -> list[str]:
    """The words of files in lower case, without those that occur less often."""
    words = []
    for part in pattern.split(","):
        for path in sorted(glob.glob(part)):
            with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", errors="ignore") as file:
                words += re.findall(r"[a-z]+", file.read().lower())
    counts = collections.Counter(words)
    return [word for word in words if counts[word] >= min_count]


def train(words: list[str], sparse: bool, num_steps: int) -> dict:
    """Words and processor seconds of some steps, the first of which, with its compilation, are not counted."""
    import numpy as np
    import tensorflow as tf

    from data_pipelines.batches.array_source import ArraySource
    from data_pipelines.batches.dataset import Batches
    from data_pipelines.ops.windows import keep_probabilities, noise_distribution, skip_gram_pairs
    from xmodels.models.skip_gram import SkipGram, SkipGramConfig
    from xmodels.objectives.skip_gram import NegativeSampling
    from xmodels.training.devices import distribution
    from xmodels.training.optimizers.optimization import Optimization
    from xmodels.training.step.learner import Learner
    from xmodels.training.step.streams import single

    names, ids = np.unique(np.array(words), return_inverse=True)
    counts = np.bincount(ids).astype(np.float64)
    runs = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
    runs = np.pad(runs, [[0, 0], [0, 1]])  # of which the last piece is only what follows
    lengths = np.tile([[LENGTH + 1, 0]], (len(runs), 1))
    source = ArraySource({"token_ids": runs, "segment_lengths": lengths}, "benchmark")
    draw = skip_gram_pairs(LENGTH, keep_probabilities(counts, SAMPLE), noise_distribution(counts), WINDOW, NEGATIVES)
    batches = Batches(source, draw, ROWS)
    strategy = distribution.choose("one_device")
    with strategy.scope():
        backbone = SkipGram(SkipGramConfig(len(names), WIDTH)).initialize()
        if not sparse:
            backbone.sparse_tables = ()
        numbers = Optimization(
            optimizer="sgd", schedule="linear", learning_rate=0.025, num_warmup_steps=0, num_steps=10 * num_steps
        )
        learner = Learner(strategy, backbone, single(NegativeSampling(), batches), numbers.make_optimizer(), 0.0)
    iterator = iter(strategy.distribute_datasets_from_function(lambda context: batches.training()))
    learner.train(iterator, tf.constant(20))
    begun, wall = measure.processor_seconds(), time.perf_counter()
    totals, _ = learner.train(iterator, tf.constant(num_steps))
    counted = learner.count_units(totals.numpy())
    took = {"processor": measure.processor_seconds() - begun, "wall": time.perf_counter() - wall}
    means = learner.means(totals.numpy())
    return {"words": counted["words"][0], "pairs": counted["pairs"][0], "vocabulary": len(names), **means, **took}


def of_gensim(python: str, words: list[str]) -> dict:
    """The same of one epoch of gensim; its words are those of the text before subsampling, as ours."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        for begin in range(0, len(words), LENGTH):
            file.write(" ".join(words[begin : begin + LENGTH]) + "\n")
        file.flush()
        program = GENSIM.format(width=WIDTH, window=WINDOW, negatives=NEGATIVES, sample=SAMPLE)
        command = ["taskset", "-c", "0", python, "-c", program, file.name]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def rows_of(options: argparse.Namespace, min_count: int) -> list[list[str]]:
    """Rows of the table, for the vocabulary of one `min_count`."""
    arguments = [f"--text={options.text}", f"--steps={options.steps}", f"--min_count={min_count}"]
    names = {"sparse": "xmodels, sparse updates", "dense": "xmodels, dense updates"}
    found = {
        title: measure.alone("benchmarks.word_vectors", [f"--measure={n}", *arguments]) for n, title in names.items()
    }
    if options.gensim:
        found["gensim"] = of_gensim(options.gensim, words_of(options.text, min_count))
    for title, values in found.items():
        print(title, values, file=sys.stderr)
    size = next(v["vocabulary"] for v in found.values() if "vocabulary" in v)
    return [
        [f"{size:,}", title, f"{v['words']:,.0f}", f"{v['processor']:.1f}", f"{v['words'] / v['processor']:,.0f}"]
        for title, v in found.items()
        if "words" in v
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", required=True)
    parser.add_argument("--output")
    parser.add_argument("--gensim", help="a Python that has gensim")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument(
        "--min_count", default="5,1", help="words that occur less often are left out; a vocabulary each"
    )
    parser.add_argument("--measure", choices=["sparse", "dense"])
    options = parser.parse_args()
    if options.measure:
        words = words_of(options.text, int(options.min_count))
        print(json.dumps(train(words, options.measure == "sparse", options.steps)))
        return
    rows = [row for count in options.min_count.split(",") for row in rows_of(options, int(count))]
    text = (
        "# Word vectors: words a second\n\n"
        f"Skip-gram with negative sampling, width {WIDTH}, window {WINDOW}, {NEGATIVES} negatives, subsampling at {SAMPLE:g}; "
        f"{ROWS} runs of {LENGTH} words a step. Words are those of the text, before subsampling. Seconds of one core's "
        f"processor.\n\n{measure.machine(1)}\n\n"
        + measure.table(["vocabulary", "", "words", "processor seconds", "words a second"], rows)
    )
    measure.publish(text, options.output)


if __name__ == "__main__":
    main()
