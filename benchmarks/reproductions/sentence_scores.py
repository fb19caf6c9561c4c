"""Vectors of sentences against a network that reads both, on graded pairs (Reimers and Gurevych, 2019, tables 2, 6 and 7).

    python -m benchmarks.reproductions.sentence_scores --published=minilm --train=stsb/train.csv --dev=stsb/dev.csv \\
        --test=stsb/test.csv --folder=sentence-scores

Files are tables without a header: two texts and a score. `--published` is a folder of sentence-transformers (`xmodels fetch`). What is
asked:

1. the published vectors as they are, by each pooling, and fine-tuned as a Siamese network;
2. the same network and that of random weights as cross-encoder, which reads both texts at once;
3. what 100 candidates cost a query either way;
4. whether more negatives in a batch find the second text more often, where only pairs of the highest scores are learnt.

The first seed chooses the rate of each arm on development rows; the test rows choose nothing. Cosines of counted words need no
network; `--peer` has Hugging Face's BERT learn as cross-encoder too. Interrupted, the same command goes on.
"""

import argparse
import json
import os
import random
import shutil
import time

import numpy as np

from benchmarks.measure import table
from benchmarks.reproductions import peer_sentence_scores
from benchmarks.reproductions.commands import fine_tuned, kept, network_of, run, tuned
from benchmarks.reproductions.pages import (
    RESULTS,
    environment,
    mean_and_deviation,
    take_further_flags,
    verdict,
    write_page,
)
from benchmarks.reproductions.shared_inputs import write_table
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.files import write_json

CANDIDATES, QUERIES, ROUNDS = 100, 20, 3  # of the clock; the fastest round counts
BATCH, MATCH = 32, 4.0  # a pair of at least this score is a match
POOLINGS = {"mean": "pooling_mode_mean_tokens", "first": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens"}
SIAMESE, CROSS = "Siamese", "cross-encoder"
COSINE = {"task": "siamese", "siamese_loss": "cosine", "max_score": 5}
ARMS = {
    SIAMESE: COSINE | {"pooling": "mean"},
    "Siamese, first state": COSINE | {"pooling": "first"},
    "Siamese, largest values": COSINE | {"pooling": "max"},
    "Siamese of random weights": COSINE | {"pooling": "mean", "random_init": True},
    CROSS: {"task": "regress", "pooling": "mean"},
    "cross-encoder of random weights": {"task": "regress", "pooling": "mean", "random_init": True},
}
BATCHES = (8, 32, 128)  # of matches alone


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    rows = {part: read_table(getattr(options, part), Columns("0", "1", "2")) for part in ("train", "dev", "test")}
    random.Random(0).shuffle(rows["train"])
    matching = {part: [row for row in each if float(row.label) >= MATCH] for part, each in rows.items()}
    matching["train"] = matching["train"][: options.match_rows]
    rows["train"], rows["dev"] = rows["train"][: options.train_rows], rows["dev"][: options.dev_rows]
    files = {part: write_table(os.path.join(options.folder, f"{part}.tsv"), each) for part, each in rows.items()}
    untuned = {name: kept(os.path.join(options.folder, f"published-{name}.json"), as_published, options, name, files["test"])
               for name in POOLINGS}  # fmt: skip
    found = {name: scores_of(options, files, name, dict(flags)) for name, flags in ARMS.items()}
    matches = {
        part: write_table(os.path.join(options.folder, f"{part}-matches.tsv"), each) for part, each in matching.items()
    }
    negatives = {
        batch: scores_of(
            options, matches, f"matches of {batch}",
            {"task": "siamese", "siamese_loss": "multiple_negatives", "pooling": "mean", "label_column": None}, batch, "mrr",
        )
        for batch in BATCHES
    }  # fmt: skip
    times = clock(options, found, [text for row in rows["test"] for text in row.texts])
    rate, peer = float(found[CROSS][0]), None
    if options.peer:
        peer = kept(
            os.path.join(options.folder, f"peer-{rate:g}.json"), peer_sentence_scores.score, options, rows, rate
        )
    write_report(options, rows, matching, untuned, found, negatives, times, peer)


def as_published(options, pooling: str, test: str) -> dict[str, float]:
    """The scores of the published network with a pooling, which has learnt nothing of these rows."""
    copied, model = (os.path.join(options.folder, f"published-{pooling}{end}") for end in ("", "-run"))
    if not os.path.isdir(model):
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(options.published, copied)
        settings = os.path.join(copied, "1_Pooling", "config.json")
        with open(settings, encoding="utf-8") as file:
            modes = json.load(file)
        write_json(
            settings, modes | {mode: mode == POOLINGS[pooling] for mode in modes if mode.startswith("pooling_mode")}
        )
        run("convert_checkpoint", **{"from": f"sentence_transformers:{copied}", "to": model})
    scores = os.path.join(options.folder, f"published-{pooling}-scores.json")
    run("evaluate", model_dir=model, test_file=test, output_file=scores, label_column="label")
    with open(scores, encoding="utf-8") as file:
        return json.load(file)


def folder_of(options, name: str, rate: str, seed: int) -> str:
    return os.path.join(options.folder, "runs", f"{name.replace(', ', '-').replace(' ', '-')}-{rate}-{seed}")


def scores_of(options, files, name: str, flags: dict, batch: int = BATCH, decisive: str = "spearman"):
    """The rate that the first seed chose, and the scores of all seeds."""
    switches = [*options.more, *(["--random_init"] if flags.pop("random_init", False) else [])]
    columns = {"text_column": "text", "text_pair_column": "text_pair", "label_column": "label"} | flags

    def scored(rate: str, seed: int) -> dict[str, float]:
        return fine_tuned(
            folder_of(options, name, rate, seed), *switches, keep_weights=name in (SIAMESE, CROSS) and seed == options.seeds[0],
            init_checkpoint=f"hf:{options.published}", train_file=files["train"], eval_file=files["dev"], test_file=files["test"],
            learning_rate=rate, seed=seed, num_train_epochs=options.epochs, train_batch_size=batch,
            max_seq_length=64 if flags["task"] == "regress" else 32,
            length_buckets="auto" if flags["task"] == "regress" else None, **columns,
        )  # fmt: skip

    return tuned(scored, options.rates, options.seeds, f"evaluation {decisive}")


def clock(options, found, texts: list[str]) -> dict[str, float]:
    """Milliseconds of a query with 100 candidates: of the cross-encoder, and of the Siamese network whose candidates are vectors."""
    from xmodels.runs.fine_tuned import load_predictor

    path = os.path.join(options.folder, "times.json")
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    siamese, cross = (
        load_predictor(folder_of(options, name, found[name][0], options.seeds[0])) for name in (SIAMESE, CROSS)
    )
    candidates, queries = texts[:CANDIDATES], texts[CANDIDATES : CANDIDATES + QUERIES]
    vectors = siamese.encode(candidates, CANDIDATES)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

    def by_pairs(query: str) -> int:
        return int(np.argmax(cross.pair_scores(query, candidates)))

    def by_vectors(query: str) -> int:
        return int(np.argmax(vectors @ siamese.encode([query])[0]))

    spent: dict[str, float] = {}
    for turn in range(ROUNDS + 1):  # the first makes the graphs
        for name, answer in ((CROSS, by_pairs), (SIAMESE, by_vectors)):
            started = time.perf_counter()
            for query in queries:
                answer(query)
            if turn:
                spent[name] = min(1000 * (time.perf_counter() - started) / len(queries), spent.get(name, np.inf))
    write_json(path, spent)
    return spent


def cosine_of_words(rows: dict[str, list[Row]]) -> float:
    """Spearman's correlation of the cosines of counted words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from xmodels.tasks.regress.score import scores

    words = TfidfVectorizer(sublinear_tf=True).fit([text for row in rows["train"] for text in row.texts])
    sides = [words.transform([row.texts[side] for row in rows["test"]]) for side in (0, 1)]
    cosines = np.asarray(sides[0].multiply(sides[1]).sum(axis=1)).ravel()
    return scores(cosines, np.array([float(row.label) for row in rows["test"]]))["spearman"]


def claims_of(untuned, means, recalls, ratio: float, words: float) -> dict[str, bool]:
    """What the papers say -> whether it came out here."""
    return {
        "as published, the mean of all states is the best pooling": max(untuned, key=untuned.get) == "mean",
        "the published vectors are better than the cosine of counted words by ten points or more": untuned["mean"] >= words + 10,
        "fine-tuning makes them better": means[SIAMESE] > untuned["mean"],
        "the cross-encoder is better than the Siamese network": means[CROSS] > means[SIAMESE],
        "fine-tuned, the mean is as good as the first state and the largest values, or better": means[SIAMESE] >= max(
            means["Siamese, first state"], means["Siamese, largest values"]
        ),
        "random weights are worse by ten points or more, as Siamese network and as cross-encoder": all(
            means[f"{name} of random weights"] <= means[name] - 10 for name in (SIAMESE, CROSS)
        ),
        f"a query with {CANDIDATES} candidates is 20 times as fast with their vectors at hand": ratio >= 20,
        "larger batches of matches find the right text more often": sorted(recalls.values()) == [recalls[b] for b in BATCHES],
    }  # fmt: skip


def write_report(options, rows, matching, untuned, found, negatives, times, peer) -> None:
    spearman = {name: [100 * each["test spearman"] for each in scores] for name, (_, scores) in found.items()}
    published = {name: 100 * scores["spearman"] for name, scores in untuned.items()}
    words, ratio = 100 * cosine_of_words(rows), times[CROSS] / times[SIAMESE]
    means = {name: float(np.mean(values)) for name, values in spearman.items()}
    recalls = {
        batch: float(np.mean([each["test recall_1"] for each in scores])) for batch, (_, scores) in negatives.items()
    }
    lines = [["one number for all", "0.0", ""], ["cosine of counted words (TF-IDF)", f"{words:.1f}", ""]]
    lines += [[f"as published, {name}", f"{value:.1f}", ""] for name, value in published.items()]
    lines += [[name, mean_and_deviation(values), found[name][0]] for name, values in spearman.items()]
    if peer is not None:
        lines.append(["Hugging Face's BERT as cross-encoder, one seed", f"{100 * peer:.1f}", found[CROSS][0]])
    matches = [
        [str(batch), *(mean_and_deviation([each[f"test {key}"] for each in scores], scale=100) for key in ("recall_1", "mrr")), rate]
        for batch, (rate, scores) in negatives.items()
    ]  # fmt: skip
    parts = [
        verdict(claims_of(published, means, recalls, ratio, words)),
        table(["arm", "Spearman", "rate"], lines),
        f"Spearman's correlation with the scores of {len(rows['test']):,} pairs, times 100, mean and deviation of "
        f"{len(options.seeds)} seeds. {len(rows['train']):,} pairs to learn from, {options.epochs:g} epochs of batches of {BATCH}"
        f"{''.join(f', `{flag}`' for flag in options.more)}; rates by the first seed of {', '.join(options.rates)} on "
        f"{len(rows['dev']):,} other pairs, which also choose the epoch. The network: {network_of(f'hf:{options.published}')}, "
        "trained on a billion pairs of sentences, read as the mean of its states.",
        f"A query with {CANDIDATES} candidates: {times[CROSS]:.1f} ms by the cross-encoder, {times[SIAMESE]:.2f} ms by the Siamese "
        f"network with the vectors of the candidates at hand, {ratio:.0f} times as fast. The fastest of {ROUNDS} rounds of {QUERIES} "
        "queries, one at a time, tokenizer included.",
        "## More negatives",
        f"Pairs with a score of {MATCH:g} or more, {len(matching['train']):,} to learn from; the other second texts of a batch are "
        f"what a text is told from. How often the right one of all second texts of {len(matching['test']):,} such pairs stands first, "
        "and the mean of its inverse rank, in percent.",
        table(["batch", "first", "inverse rank", "rate"], matches),
        environment(
            "python -m benchmarks.reproductions.from_shared_data sentence_scores_en --work_dir=work -- --published=minilm --peer -- …",
            options.seeds,
        ),
    ]
    print(
        write_page("sentence_scores_en", "Vectors of sentences, or both in one network", parts, folder=options.results)
    )


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("published", "train", "dev", "test", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--train_rows", type=int, default=1500)
    parser.add_argument("--match_rows", type=int, default=800, help="pairs to learn from in the part on negatives")
    parser.add_argument("--dev_rows", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rates", nargs="+", default=["5e-5", "1e-4"])
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument(
        "--peer", action="store_true", help="Hugging Face's BERT as cross-encoder too, at the rate of ours"
    )
    parser.add_argument("--results", default=RESULTS, help="where the page goes")
    take_further_flags(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
