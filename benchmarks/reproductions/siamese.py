"""Siamese networks against one that reads both texts: accuracy, and the time of a query (Reimers and Gurevych, 2019).

    python -m benchmarks.reproductions.siamese --rows=lcqmc/dev.txt --test=lcqmc/test.txt --checkpoint=run --folder=siamese

Files have two texts and 1 or 0 for a match. Of `--rows` so many as `--dev_rows` choose rates, epochs and thresholds; the test file
chooses nothing. All arms begin with the same network, take equally many steps, and each has the rate that is best for it with the
first seed. What is asked:

1. the cross-encoder against Siamese networks, by label and by cosine, and what a query with 100 candidates costs either;
2. what the classifier of a Siamese network loses with other poolings, and without the difference of the vectors;
3. whether larger batches find matching texts better, where only matches are learnt.

`--peer` has Hugging Face's BERT learn the same from the same weights, at the rates that were best for ours.
Interrupted, the same command goes on: what is finished in `--folder` is not made again.
"""

import argparse
import csv
import json
import os
import random
import time

import numpy as np

from benchmarks.measure import table
from benchmarks.reproductions import peer_siamese
from benchmarks.reproductions.commands import fine_tuned, network_of, tuned
from benchmarks.reproductions.pages import RESULTS, environment, mean_and_deviation, verdict, write_page
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.files import write_json

CANDIDATES, QUERIES, ROUNDS = 100, 20, 3  # of the clock; the fastest round counts
BATCH = 32
LENGTHS = {False: 32, True: 64}  # of a text, and of both in one sequence
CROSS, LABELS, COSINE = "cross-encoder", "Siamese, classifier", "Siamese, cosine"
SIAMESE = {"task": "siamese", "siamese_loss": "classification", "pooling": "mean"}
ARMS = {
    CROSS: {"task": "classify", "pooling": "mean+max"},  # nothing has trained the first state of many networks
    LABELS: SIAMESE,
    COSINE: {"task": "siamese", "siamese_loss": "contrastive", "pooling": "mean"},
    "first token": SIAMESE | {"pooling": "first"},
    "largest": SIAMESE | {"pooling": "max"},
    "without the difference": SIAMESE | {"siamese_features": "u,v"},
}
BATCHES = (8, 32, 128)  # of matches alone
PEER = """Hugging Face's BERT in PyTorch (`benchmarks/reproductions/peer_siamese.py`) begins with the same weights, and reads the same
rows as often, by PyTorch's Muon and AdamW at the rates that are best for ours; dropout is 0 in both."""


def write(path: str, rows: list[Row], labels: bool = True) -> str:
    """Rows as a table without a header, with their labels or without. Returns its path."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        table_of = csv.writer(file, delimiter="\t", lineterminator="\n")
        table_of.writerow(["text", "text_pair", *(["label"] if labels else [])])
        table_of.writerows([*row.texts, *([row.label] if labels else [])] for row in rows)
    return path


def parts_of(options) -> dict[str, list[Row]]:
    """The rows of train, eval and test; no text stands in two: who knows it by heart would seem to compare."""
    columns = Columns("0", "1", "2")
    rows, test = (read_table(path, columns, bad_rows=[]) for path in (options.rows, options.test))
    random.Random(0).shuffle(test)
    test = test[: options.test_rows]
    asked = {text for row in test for text in row.texts}
    groups = groups_of([row for row in rows if asked.isdisjoint(row.texts)])
    random.Random(0).shuffle(groups)
    parts: dict[str, list[Row]] = {"train": [], "eval": [], "test": test}
    for group in groups:
        parts["eval" if len(parts["eval"]) < options.dev_rows else "train"] += group
    for rows in (parts["train"], parts["eval"]):
        random.Random(0).shuffle(rows)
    return parts


def groups_of(rows: list[Row]) -> list[list[Row]]:
    """Rows that share texts, also by way of others, stand together."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ids = {text: number for number, text in enumerate(dict.fromkeys(text for row in rows for text in row.texts))}
    ends = np.array([[ids[text] for text in row.texts] for row in rows]).T
    links = coo_array((np.ones(len(rows)), ends), shape=(len(ids), len(ids)))
    _, found = connected_components(links, directed=False)
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(found[ids[row.texts[0]]], []).append(row)
    return list(groups.values())


def bags(parts: dict[str, list[Row]]) -> dict[str, float]:
    """Accuracies without a network: the commonest label, a regression on the words of both texts, and the cosine of their words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from data_pipelines.finetuning.linear import MOST_TERMS
    from xmodels.comparison.arms import BAG, MAJORITY
    from xmodels.comparison.baselines import answers
    from xmodels.tasks.siamese.measures import best_threshold

    truth = [row.label for row in parts["test"]]
    found = {}
    for title, name in (("majority", MAJORITY), ("words of both, logistic regression", BAG)):
        given = answers(name, *parts.values())["labels"]
        found[title] = float(np.mean([a == b for a, b in zip(given, truth, strict=True)]))
    words = TfidfVectorizer(token_pattern=r"(?u)\w", sublinear_tf=True, max_features=MOST_TERMS)
    words.fit([text for row in parts["train"] for text in row.texts])

    def cosines(rows: list[Row]) -> np.ndarray:
        sides = [words.transform([row.texts[side] for row in rows]) for side in (0, 1)]
        return np.asarray(sides[0].multiply(sides[1]).sum(axis=1)).ravel()

    matches = [row.label == "1" for row in parts["eval"]]
    threshold = best_threshold(cosines(parts["eval"]), matches)
    called = cosines(parts["test"]) >= threshold
    found["cosine of the characters"] = float(np.mean(called == np.array([label == "1" for label in truth])))
    return found


def scores_of(options, files: dict[str, str], name: str, flags: dict, batch: int = BATCH, decisive: str = "accuracy"):
    """The rate that was chosen, and the scores of all seeds."""

    def scored(rate: str, seed: int) -> dict[str, float]:
        return fine_tuned(
            folder_of(options, name, rate, seed), *options.more, keep_weights=name in (CROSS, LABELS),
            init_checkpoint=options.checkpoint, learning_rate=rate, seed=seed, num_train_epochs=options.epochs, train_batch_size=batch,
            max_seq_length=LENGTHS[name == CROSS], **files, **flags,
        )  # fmt: skip

    return tuned(scored, options.rates, options.seeds, f"evaluation {decisive}")


def folder_of(options, name: str, rate: str, seed: int) -> str:
    return os.path.join(options.folder, f"{name.replace(', ', '-').replace(' ', '-')}-{rate}-{seed}")


def clock(options, folders: dict[str, str], texts: list[str]) -> dict[str, float]:
    """Milliseconds of a query with 100 candidates: of the cross-encoder, and of the Siamese network whose candidates are vectors."""
    from xmodels.runs.fine_tuned import load_predictor as load

    path = os.path.join(options.folder, "times.json")
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    cross, siamese = load(folders[CROSS]), load(folders[LABELS])
    candidates, queries = texts[:CANDIDATES], texts[CANDIDATES : CANDIDATES + QUERIES]
    vectors = siamese.encode(candidates, CANDIDATES)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    def by_pairs(query: str) -> int:
        return int(np.argmax(cross.pair_scores(query, candidates, "1")))

    def by_vectors(query: str) -> int:
        return int(np.argmax(vectors @ siamese.encode([query])[0]))

    found: dict[str, float] = {}
    for turn in range(ROUNDS + 1):  # the first makes the graphs
        for name, answer in ((CROSS, by_pairs), (LABELS, by_vectors)):
            started = time.perf_counter()
            for query in queries:
                answer(query)
            spent = 1000 * (time.perf_counter() - started) / len(queries)
            if turn:
                found[name] = min(spent, found.get(name, np.inf))
    write_json(path, found)
    return found


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    parts = parts_of(options)
    files = {f"{name}_file": write(os.path.join(options.folder, f"{name}.tsv"), rows) for name, rows in parts.items()}
    matching = {
        f"{name}_file": write(
            os.path.join(options.folder, f"{name}-matches.tsv"), [r for r in rows if r.label == "1"], labels=False
        )
        for name, rows in parts.items()
    }
    found, rates = {}, {}
    for name, flags in ARMS.items():
        decisive = "average_precision" if name == COSINE else "accuracy"
        rates[name], found[name] = scores_of(options, files, name, flags, decisive=decisive)
    recalls = {}
    for batch in BATCHES:
        name = f"matches of {batch}"
        flags = {"task": "siamese", "siamese_loss": "multiple_negatives", "pooling": "mean"}
        rates[name], scores = scores_of(options, matching, name, flags, batch, "mrr")
        recalls[batch] = [(each["test recall_1"], each["test mrr"]) for each in scores]
    texts = list(dict.fromkeys(text for row in parts["test"] for text in row.texts))
    times = clock(
        options, {name: folder_of(options, name, rates[name], options.seeds[0]) for name in (CROSS, LABELS)}, texts
    )
    accuracies = {name: [each["test accuracy"] for each in scores] for name, scores in found.items()}
    held = {name: [each["evaluation accuracy"] for each in scores] for name, scores in found.items()}
    peer = peer_siamese.scores(options, parts, peer_arms(), rates) if options.peer else {}
    write_report(options, parts, bags(parts), accuracies, held, rates, recalls, times, peer)


def peer_arms() -> dict[str, peer_siamese.Arm]:
    """Those that a peer learns too: all that read the difference, and matches."""
    arms = {CROSS: peer_siamese.Arm("pair", ARMS[CROSS]["pooling"], BATCH, LENGTHS[True])}
    for name in (LABELS, "first token", "largest"):
        arms[name] = peer_siamese.Arm("siamese", ARMS[name]["pooling"], BATCH, LENGTHS[False])
    return arms | {
        f"matches of {batch}": peer_siamese.Arm("matches", "mean", batch, LENGTHS[False]) for batch in BATCHES
    }


def claims_of(accuracies, recalls, ratio: float) -> dict[str, bool]:
    """What the paper and its kin say -> whether it came out here."""
    means = {name: float(np.mean(values)) for name, values in accuracies.items()}
    first = {batch: float(np.mean([recall for recall, _ in values])) for batch, values in recalls.items()}
    return {
        "the cross-encoder is better than the Siamese classifier by two points or more": means[CROSS] >= means[LABELS] + 0.02,
        f"a query with {CANDIDATES} candidates is 20 times as fast with their vectors at hand": ratio >= 20,
        "the mean of all states is as good as the first one, and that as good as the largest values": (
            means[LABELS] >= means["first token"] >= means["largest"]
        ),
        "without the difference of the vectors the classifier loses two points or more": (
            means[LABELS] - means["without the difference"] >= 0.02
        ),
        "larger batches of matches find the right text more often": sorted(first.values()) == [first[b] for b in BATCHES],
    }  # fmt: skip


def write_report(options, parts, without, accuracies, held, rates, recalls, times, peer) -> None:
    elsewhere = {name: mean_and_deviation(values, scale=100) for name, values in peer.items()}
    column, ratio = ["Hugging Face"] if peer else [], times[CROSS] / times[LABELS]

    def beside(name: str) -> list[str]:
        return [elsewhere.get(name, "")] if peer else []

    rows = [[name, f"{100 * value:.1f}", *beside(name), "", ""] for name, value in without.items()]
    rows += [
        [name, mean_and_deviation(accuracies[name], scale=100), *beside(name), mean_and_deviation(held[name], scale=100), rates[name]]
        for name in accuracies
    ]  # fmt: skip
    matches = [
        [
            str(batch),
            *(mean_and_deviation([each[place] for each in values], scale=100) for place in (0, 1)),
            *beside(f"matches of {batch}"),
            rates[f"matches of {batch}"],
        ]
        for batch, values in recalls.items()
    ]
    name = f"siamese_{options.language}"
    counted = {part: len(rows_of) for part, rows_of in parts.items()}
    pages = [
        verdict(claims_of(accuracies, recalls, ratio)),
        f"The network: {network_of(options.checkpoint)}. {counted['train']:,} pairs to learn from, "
        f"{counted['eval']:,} to choose rates, epochs and thresholds, "
        f"{counted['test']:,} to test on. {options.epochs:g} epochs, batches of {BATCH}"
        f"{''.join(f', `{flag}`' for flag in options.more)}. Accuracy in percent, mean and deviation of "
        f"{len(options.seeds)} seed(s). A Siamese classifier reads both vectors and the size of their difference, and the mean of all "
        "states is the vector unless another pooling is named; the cross-encoder reads mean and maximum of both texts. "
        "`Siamese, cosine` learns by a contrastive loss, and a threshold tells matches. No text of the training rows stands in the "
        "others; the evaluation rows are of the same file as these, the test rows of another one.",
        table(["arm", "test", *column, "evaluation", "rate"], rows),
        f"A query with {CANDIDATES} candidates: {times[CROSS]:.1f} ms by the cross-encoder, {times[LABELS]:.2f} ms by the Siamese "
        f"network with the vectors of the candidates at hand, {ratio:.0f} times as fast. The fastest of {ROUNDS} rounds of {QUERIES} "
        "queries, one at a time, tokenizer included.",
        "## Matches alone",
        "The other second texts of a batch are what a text is told from. How often the right text stands first among all second texts "
        f"of the {sum(row.label == '1' for row in parts['test']):,} matches to test on, and the mean of its inverse rank, in percent.",
        table(["batch", "first", "inverse rank", *(f"{name}, first" for name in column), "rate"], matches),
        *([PEER] if peer else []),
        environment(
            f"python -m benchmarks.reproductions.siamese --language={options.language} …",
            options.seeds,
            os.cpu_count() or 1,
        ),
    ]
    print(write_page(name, "One network for both texts, or one for each", pages, folder=options.results))


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("rows", "test", "checkpoint", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--language", choices=("en", "zh"), default="zh", help="part of the name of the page")
    parser.add_argument("--dev_rows", type=int, default=1000)
    parser.add_argument("--test_rows", type=int, default=4000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rates", nargs="+", default=["2e-4", "5e-4", "1e-3"])
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument(
        "--peer", action="store_true", help="Hugging Face's BERT too; needs torch, and --optimizer=muon"
    )
    parser.add_argument("--results", default=RESULTS, help="where the page goes")
    parser.add_argument("more", nargs="*", help="behind `--`: further flags of finetune, such as --optimizer=muon")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
