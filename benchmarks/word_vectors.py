"""Words a second of word2vec, and how well its vectors tell which words are alike, beside gensim; one core each.

    python -m benchmarks.word_vectors --text 'shared/data/lm/gutenberg-en/*' --pairs 'shared/data/embeddings/word-similarity-en/*' \
        --gensim=PYTHON --output=benchmarks/results/word_vectors.md

Width 100, window 5, 5 negatives, subsampling at 1e-3. Both read the same runs of 512 words; ours reads two of them a step. Speed is
that of the training alone: of ours without tracing and compilation, of gensim without its vocabulary. gensim is counted where
`--gensim` names a Python that has it; `xmodels, operations` is ours without Numba, compiled by XLA.

For 65 MB of text where no corpus is at hand: `python -m benchmarks.docstrings --output=docstrings.txt`, then `--text=docstrings.txt`.
`--made_up=1000000` writes a text of so many different words in place of `--text`, for the memory of large vocabularies.
"""

import argparse
import collections
import csv
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from typing import TextIO

from benchmarks import measure

LENGTH, ROWS, WIDTH, WINDOW, NEGATIVES, SAMPLE = 512, 2, 100, 5, 5, 1e-3
GENSIM = """
import gensim, json, resource, sys, time
from gensim.models import FastText, Word2Vec
runs = [line.split() for line in open(sys.argv[1], encoding="utf-8")]
sg, hs, epochs, buckets, workers, seed = (int(x) for x in sys.argv[3:])
kind, more = (FastText, dict(bucket=buckets)) if buckets else (Word2Vec, dict())
model = kind(vector_size={width}, window={window}, negative=0 if hs else {negative}, hs=hs, sample={sample}, min_count=1, sg=sg,
                 alpha=0.025 if sg else 0.05, workers=workers, seed=seed, **more)
model.build_vocab(runs)
words = sum(map(len, runs))
begun, wall = time.process_time(), time.perf_counter()
model.train(runs, total_words=words, epochs=epochs)
took, wall = time.process_time() - begun, time.perf_counter() - wall
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
model.wv.save_word2vec_format(sys.argv[2], binary=True)
print(json.dumps({{"words": words * epochs, "processor": took, "wall": wall, "peak": peak, "vocabulary": len(model.wv)}}))
"""
BUCKETS, OPERATIONS = 200_000, "xmodels, operations"  # of fastText; the name of steps without Numba
METHODS = {
    "fastText, skip-gram": ("fasttext", ""),
    "skip-gram": ("skip_gram", ""), "CBOW": ("cbow", ""),
    "skip-gram, hierarchical softmax": ("skip_gram", "hierarchical"), "CBOW, hierarchical softmax": ("cbow", "hierarchical"),
}  # fmt: skip


def words_of(pattern: str, min_count: int) -> list[str]:
    """The words of files in lower case, without those that occur less often."""
    words = []
    for part in pattern.split(","):
        for path in sorted(glob.glob(part)):
            with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", errors="ignore") as file:
                words += re.findall(r"[a-z]+", file.read().lower())
    counts = collections.Counter(words)
    return [word for word in words if counts[word] >= min_count]


def write_runs(file: TextIO, words: list[str], first: int = 0) -> None:
    """Writes runs of words, a line each: those from the run `first` on, then those before it."""
    begins = [*range(0, len(words), LENGTH)]
    for begin in begins[first:] + begins[:first]:
        file.write(" ".join(words[begin : begin + LENGTH]) + "\n")


def made_up(count: int) -> list[str]:
    """Three million words, or as many as there are different ones: each of these once, and others by Zipf's law."""
    import numpy as np

    draw = np.random.default_rng(0)
    chances = 1.0 / np.arange(1, count + 1)
    ids = np.concatenate([np.arange(count), draw.choice(count, max(0, 3_000_000 - count), p=chances / chances.sum())])
    draw.shuffle(ids)
    letters = "abcdefghijklmnopqrst"
    names = ["".join(letters[number // 20**place % 20] for place in range(6)) for number in range(count)]
    return [names[i] for i in ids]


def train(
    words: list[str], system: str, loss: str, epochs: int, output: str, compiled: bool = True, seed: int = 0
) -> dict:
    """Words and processor seconds of a training; the first steps, with their compilation, are not counted."""
    import keras
    import numpy as np
    import tensorflow as tf

    from data_pipelines.batches.array_source import ArraySource
    from data_pipelines.batches.dataset import Batches
    from data_pipelines.text.vocabulary import Vocabulary
    from xmodels import systems
    from xmodels.conversion import word_vectors
    from xmodels.conversion.sources import fasttext
    from xmodels.kernels.word_learner import WordLearner
    from xmodels.models.backbone import named_weights
    from xmodels.training.devices import distribution
    from xmodels.training.recipe import Records
    from xmodels.training.step.learner import Learner
    from xmodels.training.step.streams import single

    keras.utils.set_random_seed(seed)
    names, ids = np.unique(np.array(words), return_inverse=True)
    runs = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
    runs = np.pad(runs, [[0, 0], [0, 1]])  # of which the last piece is only what follows
    lengths = np.tile([[LENGTH + 1, 0]], (len(runs), 1))
    source = ArraySource({"token_ids": runs, "segment_lengths": lengths}, "benchmark")
    rows = ROWS
    steps = epochs * len(runs) // rows
    records = Records(sequence_length=LENGTH, word_counts=lambda: np.bincount(ids))
    module = systems.load(system)
    options = module.Options(
        negatives=0 if loss else NEGATIVES, hierarchical_softmax=bool(loss), sample=SAMPLE, exponent=0.75
    )
    own = {"buckets": BUCKETS, "unknown_id": len(names)} if system == "fasttext" else {}
    config = module.MODEL.config_class(len(names), hidden_dim=WIDTH, **own)
    vocabulary = Vocabulary([*names], required=())
    recipe = module.recipe(vocabulary, records, config=config, options=options).override(
        num_steps=steps, learning_rate=0.05 if system == "cbow" else 0.025
    )
    recipe.frame.is_compiled = compiled
    batches = Batches(source, recipe.frame, rows, seed=seed)
    strategy = distribution.choose("one_device")
    with strategy.scope():
        backbone = recipe.backbone().initialize()
        learner = (WordLearner if compiled else Learner)(
            strategy, backbone, single(recipe.objective(), batches), recipe.make_optimizer(), 0.0, jit_compile=True
        )
    iterator = iter(
        strategy.distribute_datasets_from_function(
            lambda context: batches.training(per_batch=rows * learner.batches_at_once)
        )
    )
    first = min(20, steps // 2)
    learner.train(iterator, tf.constant(first))
    begun, wall = measure.processor_seconds(), time.perf_counter()
    totals, _ = learner.train(iterator, tf.constant(steps - first))
    took = {"processor": measure.processor_seconds() - begun, "wall": time.perf_counter() - wall}
    took["peak"] = measure.peak_megabytes()  # before the vectors are written, as of gensim
    values = {f"backbone.{name}": weight.numpy() for name, weight in named_weights(backbone).items()}
    found = fasttext.vectors_of_words(config, values, names) if own else backbone.word_vectors(values)
    word_vectors.write_binary(output, list(names), found)
    words_read = learner.count_units(totals.numpy())["words"][0]
    return {"words": words_read, "vocabulary": len(names), **took}


def of_gensim(
    python: str, words: list[str], system: str, loss: str, epochs: int, output: str, cores: int, seed: int = 1
) -> dict:
    """The same of gensim; its words are those of the text before subsampling, as ours."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        write_runs(file, words)
        file.flush()
        program = GENSIM.format(width=WIDTH, window=WINDOW, negative=NEGATIVES, sample=SAMPLE)
        numbers = [int(system != "cbow"), int(bool(loss)), epochs, BUCKETS if system == "fasttext" else 0, cores, seed]
        command = ["taskset", "-c", f"0-{cores - 1}", python, "-c", program, file.name, output, *map(str, numbers)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def correlation(path: str, pairs: str) -> tuple[float, int]:
    """Spearman's correlation of cosines with what people say of the pairs of all files, and how many pairs have vectors."""
    import numpy as np
    from scipy.stats import spearmanr

    from xmodels.conversion import word_vectors

    words, vectors = word_vectors.read_binary(path)
    places = {word: place for place, word in enumerate(words)}
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    found = []
    for name in sorted(glob.glob(pairs)):
        with open(name, encoding="utf-8") as file:
            rows = [(row[-3].lower(), row[-2].lower(), float(row[-1])) for row in list(csv.reader(file))[1:] if row[-1]]
        kept = [(unit[places[a]] @ unit[places[b]], score) for a, b, score in rows if a in places and b in places]
        found.append((spearmanr(*zip(*kept, strict=True)).statistic, len(kept)))
    return float(np.mean([value for value, _ in found])), sum(count for _, count in found)


def rows_of(options: argparse.Namespace, title: str) -> list[list[str]]:
    """Rows of the table, for one method: each program on one core and on two."""
    system, loss = METHODS[title]
    found: dict[str, dict[int, dict]] = {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = [f"--text={options.text}", f"--epochs={options.epochs}", f"--min_count={options.min_count}"]
        arguments += [f"--made_up={options.made_up}"]
        words = read_words(options) if options.gensim else []
        for number in range(options.rounds):
            for cores in options.cores:
                for name in options.programs.split(";"):
                    path = os.path.join(folder, f"{name}.bin")
                    if name == "gensim":
                        values = of_gensim(options.gensim, words, system, loss, options.epochs, path, cores)
                    else:
                        own = [f"--measure={title}", f"--vectors={path}", *arguments]
                        own += ["--operations"] if name == OPERATIONS else []
                        values = measure.alone("benchmarks.word_vectors", own, cores, more={"OMP_WAIT_POLICY": ""})
                    print(title, name, cores, values, file=sys.stderr, flush=True)
                    best = found.setdefault(name, {})
                    if number == 0 or values["wall"] < best[cores]["wall"]:
                        best[cores] = values
        return [
            [title, name, f"{each[options.cores[0]]['vocabulary']:,}"]
            + [f"{v['words'] / (v['processor'] if cores == 1 else v['wall']):,.0f}" for cores, v in each.items()]
            + [f"{each[options.cores[0]]['peak']:,.0f}"]
            + ([f"{100 * correlation(f'{folder}/{name}.bin', options.pairs)[0]:.1f}"] if options.pairs else [])
            for name, each in found.items()
        ]  # fmt: skip


def read_words(options: argparse.Namespace) -> list[str]:
    return made_up(options.made_up) if options.made_up else words_of(options.text, options.min_count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="")
    parser.add_argument("--made_up", type=int, default=0, help="different words of a text that is made up")
    parser.add_argument("--pairs", help="CSV files of pairs of words with scores")
    parser.add_argument("--output")
    parser.add_argument("--gensim", help="a Python that has gensim")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--min_count", type=int, default=5, help="words that occur less often are left out")
    parser.add_argument("--methods", default=";".join(METHODS))
    parser.add_argument("--programs", default=f"xmodels;{OPERATIONS};gensim")
    parser.add_argument("--cores", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--measure", choices=METHODS)
    parser.add_argument("--operations", action="store_true", help="measure steps without Numba")
    parser.add_argument("--vectors")
    options = parser.parse_args()
    if options.measure:
        given = (*METHODS[options.measure], options.epochs, options.vectors, not options.operations)
        print(json.dumps(train(read_words(options), *given)))
        return
    rows = [row for title in options.methods.split(";") for row in rows_of(options, title)]
    last = ["mean correlation with people, %"] if options.pairs else []
    speeds = {1: "words a second of one core's processor", 2: "on two cores, by the clock"}
    columns = ["", "", "vocabulary", *(speeds[cores] for cores in options.cores), "peak, MB", *last]
    text = (
        "# Word vectors: words a second\n\n"
        f"Width {WIDTH}, window {WINDOW}, {NEGATIVES} negatives, subsampling at {SAMPLE:g}; runs of {LENGTH} words; {options.epochs} "
        "epochs. Words are those of the text, before subsampling. Speeds are those of the training alone, the best of "
        f"{options.rounds} round(s). The peak is that of the process, with all it imports.\n\n"
        f"{measure.machine(max(options.cores))}\n\n" + measure.table(columns, rows)
    )
    measure.publish(text, options.output)


if __name__ == "__main__":
    main()
