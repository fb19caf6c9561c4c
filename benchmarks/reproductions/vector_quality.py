"""What word vectors know, rare words apart: word2vec, fastText and GloVe of ours beside gensim and fastText's own program.

    python -m benchmarks.reproductions.vector_quality --runs=runs.txt --pairs=simlex.csv,wordsim.csv --analogies=questions-words.txt \
        --gensim=PYTHON --library=PYTHON --folder=work --output=benchmarks/results/vector_quality_en.md

`--runs` is a text whose words stand parted by blanks, the same for all; words that occur fewer than five times are left out. Width
100, window 5, 5 negatives, subsampling at 1e-3, five epochs; fastText with 200,000 buckets; GloVe with window 10 and 25 epochs. A pair
counts as rare where one of its words occurs fewer than `--rare_below` times. Analogies are those whose four words are among the 10,000
most frequent ones, by 3CosAdd. Runs that are done in the folder are not repeated.
"""

import collections
import json
import os
import statistics
import subprocess
import tempfile

import numpy as np

from benchmarks import measure, word_vectors
from benchmarks.reproductions.commands import kept, run
from benchmarks.reproductions.pages import mean_and_deviation

NAME = "benchmarks.reproductions.vector_quality"
SYSTEMS = ("skip_gram", "cbow", "fasttext")
XMODELS, GENSIM, LIBRARY = "xmodels", "gensim", "fastText"
EPOCHS, GLOVE_EPOCHS, GLOVE_WINDOW, FREQUENT = 5, 25, 10, 10_000
PAIRS_AT_ONCE = 4 * 1024  # of a step of GloVe
PROGRAM = """
import fasttext, numpy as np, sys
text, output, model, longest, buckets, names = sys.argv[1:]
found = fasttext.train_unsupervised(text, model=model, dim={width}, ws={window}, neg={negative}, t={sample}, epoch={epochs},
                                    minCount=1,
                                    minn=3 if int(longest) else 0, maxn=int(longest), bucket=int(buckets), thread=1,
                                    verbose=0, lr=0.05 if model == "cbow" else 0.025)
words = open(names, encoding="utf-8").read().split("\\n")
np.save(output, np.stack([found.get_word_vector(word) for word in words]).astype("float32"))
"""


class Text:
    """The words of the runs, without rare ones, in their order and by their frequency."""

    def __init__(self, path: str, least: int = 5):
        with open(path, encoding="utf-8") as file:
            words = file.read().split()
        counts = collections.Counter(words)
        self.words = [word for word in words if counts[word] >= least]
        self.counts = {word: count for word, count in counts.most_common() if count >= least}
        self.names = list(self.counts)


def scores(text: Text, names: list[str], vectors: np.ndarray, options) -> dict[str, float]:
    """Returns Spearman's correlations and the accuracy of analogies, with how many counted."""
    from xmodels.retrieval import words

    place = {name: i for i, name in enumerate(names)}
    known = words.Words(text.names, vectors[[place[name] for name in text.names]])
    found: dict[str, float] = {}
    for path in options.pairs.split(","):
        pairs = [(a.lower(), b.lower(), score) for a, b, score in words.read_pairs(path)]
        kept_pairs = [pair for pair in pairs if pair[0] in text.counts and pair[1] in text.counts]
        rare = [pair for pair in kept_pairs if min(text.counts[pair[0]], text.counts[pair[1]]) < options.rare_below]
        for kind, chosen in (("all", kept_pairs), ("rare", rare)):
            name = f"{os.path.splitext(os.path.basename(path))[0]}, {kind}"
            found[name] = 100 * words.similarity(known, chosen).spearman
            found[f"{name}: counted"] = len(chosen)
    sections = {
        name: [tuple(word.lower() for word in question) for question in questions]
        for name, questions in words.read_analogies(options.analogies).items()
    }
    frequent = words.Words(known.words, known.unit, FREQUENT)
    each = words.analogies(frequent, sections).values()
    found["analogies"] = 100 * sum(one.right for one in each) / max(1, sum(one.asked for one in each))
    found["analogies: counted"] = sum(one.asked for one in each)
    return found


def ours(text: Text, system: str, seed: int, options) -> tuple[list[str], np.ndarray]:
    """Returns the words and vectors of a system of ours."""
    from xmodels.conversion import word_vectors as files

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vectors.bin")
        if system != "glove":
            word_vectors.train(text.words, system, "", EPOCHS, path, seed=seed)
            return files.read_binary(path)
        return files.read(glove(text, seed, options.folder))


def glove(text: Text, seed: int, folder: str) -> str:
    """Trains GloVe by the commands that a user has. Returns the folder of its run."""
    runs, vocabulary, records = (os.path.join(folder, name) for name in ("runs.txt", "words", "records"))
    if not os.path.exists(records):
        with open(runs, "w", encoding="utf-8") as file:
            word_vectors.write_runs(file, text.words)
        own = {"input_file": runs, "input_format": "documents"}
        run(
            "train_vocabulary", **own, tokenizer="words", segmenter="presegmented", vocab_size=len(text.names) + 100,
            output_file=vocabulary, overwrite="true",
        )  # fmt: skip
        run(
            "create_pretraining_data", **own, vocab_file=vocabulary, packing="cooccurrence", set=f"window={GLOVE_WINDOW}",
            output_dir=records, resume="true",
        )  # fmt: skip
    with open(os.path.join(records, "manifest.json"), encoding="utf-8") as file:
        examples = json.load(file)["num_examples"]
    model, rows = os.path.join(folder, f"glove-{seed}"), PAIRS_AT_ONCE // 1024
    run(
        "pretrain", system="glove", size="base", data_dir=records, model_dir=model, seed=seed, set="x_max=10",
        num_train_steps=GLOVE_EPOCHS * examples // rows,
    )  # fmt: skip
    return model


def of_library(text: Text, system: str, seed: int, options) -> tuple[list[str], np.ndarray]:
    """Returns the words and vectors of fastText's own program; without parts of words it is word2vec.

    Its Python package takes no seed, so each seed begins to read elsewhere in the text: three seeds, a third of it apart.
    """
    with tempfile.TemporaryDirectory() as folder:
        runs, names, output = (os.path.join(folder, name) for name in ("runs.txt", "names.txt", "vectors.npy"))
        with open(runs, "w", encoding="utf-8") as file:
            runs_of_text = -(-len(text.words) // word_vectors.LENGTH)
            word_vectors.write_runs(file, text.words, (seed - 1) * runs_of_text // 3 % runs_of_text)
        with open(names, "w", encoding="utf-8") as file:
            file.write("\n".join(text.names))
        program = PROGRAM.format(
            width=word_vectors.WIDTH, window=word_vectors.WINDOW, negative=word_vectors.NEGATIVES, sample=word_vectors.SAMPLE,
            epochs=EPOCHS,
        )  # fmt: skip
        kind = "cbow" if system == "cbow" else "skipgram"
        numbers = (kind, 6 if system == "fasttext" else 0, word_vectors.BUCKETS, names)
        subprocess.run([options.library, "-c", program, runs, output, *map(str, numbers)], check=True)
        return text.names, np.load(output)


def of_gensim(text: Text, system: str, seed: int, options) -> tuple[list[str], np.ndarray]:
    """Returns the words and vectors of gensim."""
    from xmodels.conversion import word_vectors as files

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vectors.bin")
        word_vectors.of_gensim(options.gensim, text.words, system, "", EPOCHS, path, 1, seed)
        return files.read_binary(path)


MAKERS = {XMODELS: ours, GENSIM: of_gensim, LIBRARY: of_library}


def page(found: dict[tuple[str, str], list[dict]], text: Text, options) -> str:
    """Returns the table, as Markdown."""
    columns = [name for name in next(iter(found.values()))[0] if not name.endswith(": counted")]
    rows = [
        [f"`{system}`", program, *(mean_and_deviation([each[name] for each in runs]) for name in columns)]
        for (system, program), runs in found.items()
    ]
    counted = next(iter(found.values()))[0]
    how_many = ["", "counted", *(f"{counted[f'{name}: counted']:,.0f}" for name in columns)]
    best = {
        name: max(found, key=lambda key, name=name: statistics.mean(each[name] for each in found[key]))
        for name in columns
    }
    told = "; ".join(f"{name}: `{system}` of {program}" for name, (system, program) in best.items())
    return "\n".join([
        "# What word vectors know",
        "",
        f"`python -m {NAME}`; its head says what is measured. {len(text.words):,} words of {len(text.names):,} kinds. Spearman's "
        f"correlation with people, and the share of analogies, in percent, over {len(options.seeds)} seeds; rare: a word occurs "
        f"fewer than {options.rare_below} times. {options.about} {measure.machine(1)}",
        "",
        measure.table(["", "", *columns], [*rows, how_many]),
        f"Best: {told}.",
        "",
    ])  # fmt: skip


def main() -> None:
    parser = measure.parser_of(__doc__)
    parser.add_argument("--runs", required=True, help="a text whose words are parted by blanks")
    parser.add_argument("--pairs", required=True, help="files of pairs of words with scores, parted by commas")
    parser.add_argument("--analogies", required=True, help="four words a line")
    parser.add_argument("--gensim", help="a Python that has gensim")
    parser.add_argument("--library", help="a Python that has fasttext")
    parser.add_argument("--rare_below", type=int, default=100)
    parser.add_argument("--about", default="", help="what the text is, for the page")
    parser.add_argument("--seeds", type=lambda value: [int(part) for part in value.split(",")], default=[1, 2, 3])
    parser.add_argument("--system", help="of one run")
    parser.add_argument("--program", default=XMODELS, help="of one run")
    options = parser.parse_args()
    if not options.folder:
        parser.error("--folder: missing. It keeps the runs that are done.")
    text = Text(options.runs)
    if options.method == "one":
        made = MAKERS[options.program](text, options.system, options.seeds[0], options)
        print(json.dumps(scores(text, *made, options)))
        return
    found: dict[tuple[str, str], list[dict]] = {}
    peers = {name: value for name, value in ((GENSIM, options.gensim), (LIBRARY, options.library)) if value}
    for system in (*SYSTEMS, "glove"):
        for program in (XMODELS, *(peers if system != "glove" else ())):
            found[system, program] = [alone(options, system, program, seed) for seed in options.seeds]
    measure.publish(page(found, text, options), options.output)


def alone(options, system: str, program: str, seed: int) -> dict:
    """Returns the scores of one run, a process of its own, from a file where it has been made before."""

    def made() -> dict:
        names = ("runs", "pairs", "analogies", "gensim", "library", "rare_below", "folder")
        given = [f"--{name}={value}" for name in names if (value := getattr(options, name)) is not None]
        result = measure.alone(
            NAME, ["one", *given, f"--system={system}", f"--program={program}", f"--seeds={seed}"], limit=3600
        )
        if "error" in result:
            raise SystemExit(f"{system}, {program}, seed {seed}: {result['error']}")
        return result

    found = kept(os.path.join(options.folder, f"{program}-{system}-{seed}.json"), made)
    print(system, program, seed, found, flush=True)
    return found


if __name__ == "__main__":
    main()
