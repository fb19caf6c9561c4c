"""Is a Star-Transformer better than a Transformer where labels are few? (Guo et al., 2019: tables 2 to 4 say so)

    python -m benchmarks.reproductions.star_transformer --folder=work --task=topics=train.tsv,dev.tsv,test.tsv

Both have as many layers of the same width, random weights and the same words, and learn from labelled rows alone. Further arms have
the links of the star in the Transformer's blocks (`--mixer=star`), and those of its ring alone. The first seed chooses the rate of
each network by development rows. Interrupted, the same command goes on.
"""

import argparse
import os
import statistics

from benchmarks.measure import table
from benchmarks.reproductions.commands import fine_tuned, run, tuned
from benchmarks.reproductions.pages import RESULTS, environment, mean_and_deviation, verdict, write_page
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.files import whole_file, write_json
from data_pipelines.finetuning.linear import bag_of_words, majority

NAME, LENGTH, BATCH, WORDS = "star_transformer", 64, 32, 8000
STAR, FULL = "Star-Transformer", "Transformer"
LINKS, RING = "Transformer with the links of the star", "Transformer that sees neighbours alone"
SIZES = {"num_layers": 2, "num_heads": 4, "hidden_dim": 128}
# Name -> system and what differs from its settings.
ARMS: dict[str, tuple[str, dict]] = {
    STAR: ("star_transformer", {}),
    FULL: ("bert", {"intermediate_dim": 512}),
    LINKS: ("bert", {"intermediate_dim": 512, "mixer": "star"}),
    RING: ("bert", {"intermediate_dim": 512, "mixer": "local_window", "mixer.window": 1}),
}
GAIN = 2.0  # points


def main() -> None:
    flags = parsed()
    os.makedirs(flags.folder, exist_ok=True)
    tasks = dict(each.split("=", 1) for each in flags.task)
    found: dict[tuple[str, int], dict[str, tuple[str, list[float]]]] = {}
    lines: dict[tuple[str, int], tuple[float, float]] = {}
    for task, files in tasks.items():
        whole = dict(zip(("train", "dev", "test"), files.split(","), strict=True))
        for count in flags.rows:
            given = {**whole, "train": first_rows(flags, task, whole["train"], count)}
            found[task, count] = {name: arm(flags, f"{task}-{count}", given, name) for name in ARMS}
            lines[task, count] = without_network(given)
    write_report(flags, found, lines)


def first_rows(flags, task: str, path: str, count: int) -> str:
    """A table of the head and the first rows of another."""
    with open(path, encoding="utf-8") as file:
        rows = file.readlines()
    if len(rows) <= count:
        raise SystemExit(f"--rows={count}: {path} has {len(rows) - 1:,}.")
    made = os.path.join(flags.folder, f"{task}-{count}.tsv")
    with whole_file(made, "w") as file:
        file.writelines(rows[: count + 1])
    return made


def rows_of(path: str) -> list:
    return read_table(path, Columns("text", None, "label"), bad_rows=[])


def without_network(files: dict[str, str]) -> tuple[float, float]:
    """The accuracy of the commonest label and of a bag of words."""
    train, test = (rows_of(files[part]) for part in ("train", "test"))
    return majority([row.label for row in train], [row.label for row in test]), bag_of_words(train, test).accuracy


def vocabulary(flags, label: str, files: dict[str, str]) -> str:
    """The file of the words of the rows that are learnt from."""
    path = os.path.join(flags.folder, f"words-{label}.txt")
    if not os.path.exists(path):
        source = os.path.join(flags.folder, f"texts-{label}.txt")
        with whole_file(source, "w") as file:
            file.writelines(f"{row.texts[0]}\n" for row in rows_of(files["train"]))
        run("train_vocabulary", input_file=source, tokenizer="words", vocab_size=WORDS, output_file=path)
    return path


def arm(flags, label: str, files: dict[str, str], name: str) -> tuple[str, list[float]]:
    """The rate of a network, which the first seed chose, and its accuracies on the test rows."""
    system, settings = ARMS[name]
    words, plain = vocabulary(flags, label, files), f"{label}-{name}".replace(" ", "_")
    sizes = os.path.join(flags.folder, f"{plain}.json")
    write_json(sizes, {**SIZES, "dropout": 0.1, **settings})

    def scored(rate: str, seed: int) -> dict[str, float]:
        return fine_tuned(
            os.path.join(flags.folder, "runs", f"{plain}-{rate}-{seed}"), task="classify", init_checkpoint=f"new:{system}",
            model_config_file=sizes, vocab_file=words, train_file=files["train"], eval_file=files["dev"], test_file=files["test"],
            learning_rate=rate, seed=seed, num_train_epochs=flags.epochs, train_batch_size=BATCH, max_seq_length=LENGTH,
        )  # fmt: skip

    rate, found = tuned(scored, flags.rates, flags.seeds, "evaluation accuracy")
    print(f"{label}, {name}: {rate}, {[each['test accuracy'] for each in found]}", flush=True)
    return rate, [each["test accuracy"] for each in found]


def claims_of(found: dict) -> dict[str, bool]:
    """What the paper says -> whether it came out here."""
    means = {
        where: {name: 100 * statistics.mean(values) for name, (_, values) in each.items()}
        for where, each in found.items()
    }
    claims = {
        f"{task}, {count:,} rows: the star is as good as the Transformer or better, within {GAIN:g} points": (
            each[STAR] > each[FULL] - GAIN
        )
        for (task, count), each in means.items()
    }
    average = {name: statistics.mean(each[name] for each in means.values()) for name in ARMS}
    claims["on average the star is better than the Transformer"] = average[STAR] > average[FULL]
    claims["in the Transformer's blocks the relay is worth something: better than neighbours alone"] = (
        average[LINKS] > average[RING]
    )
    return claims


def write_report(flags, found: dict, lines: dict) -> None:
    places = list(found)
    percent = [
        ["commonest label", *(f"{100 * lines[place][0]:.1f}" for place in places)],
        ["bag of words and pairs (TF-IDF)", *(f"{100 * lines[place][1]:.1f}" for place in places)],
    ]
    for name in ARMS:
        cells = [found[place][name] for place in places]
        percent.append([name, *(f"{mean_and_deviation(values, scale=100)} ({rate})" for rate, values in cells)])
    parts = [
        verdict(claims_of(found)),
        table(["accuracy (rate)", *(f"{task}, {count:,} rows" for task, count in places)], percent),
        f"Random weights; {SIZES['num_layers']} layers of {SIZES['hidden_dim']}, {SIZES['num_heads']} heads, texts of up to {LENGTH} "
        f"tokens, the {WORDS:,} commonest words of the rows. {flags.epochs:g} passes in batches of {BATCH}, each system by its own "
        f"recipe's optimizer, rates of {', '.join(flags.rates)}; the passes that are kept are the best on development rows.",
        environment(
            "python -m benchmarks.reproductions.from_shared_data star_transformer_en --work_dir=work", flags.seeds
        ),
    ]
    print(
        write_page(f"{NAME}_en", "A star of links beside a Transformer, with few labels", parts, folder=flags.results)
    )


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument(
        "--task", action="append", required=True, metavar="NAME=TRAIN,DEV,TEST", help="tables; may be repeated"
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rates", nargs="+", default=["1e-4", "3e-4", "1e-3", "3e-3"])
    parser.add_argument("--epochs", type=float, default=8)
    parser.add_argument("--results", default=RESULTS, help="where the page goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
