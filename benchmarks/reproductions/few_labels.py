"""How many labels a published network needs: fine-tunes it on few and on many rows, beside what can do without it.

    python -m benchmarks.reproductions.few_labels --checkpoint=minilm --text='lm/*.txt' --folder=few-labels \\
        --task=sentiment:sst2/train.tsv,sst2/dev.tsv,sst2/test.tsv

Tables have the columns `label`, `text` and for pairs `text_pair`. For each number of rows and each seed so many rows are drawn, the
same ones for all arms: the published network; the same network with random weights; a small one that is pretrained here for minutes
on `--text` and the rows of the tables; fastText's classifier; a bag of words; the commonest label. The first seed chooses the rate of
each arm on the development rows, for up to `--tuned_rows` rows; more rows take the rate of those. The test rows choose nothing.
Interrupted, the same command goes on.
"""

import argparse
import os
import random
import statistics

from benchmarks.measure import table
from benchmarks.reproductions.commands import fine_tuned, network_of, run, tuned
from benchmarks.reproductions.fastbert import pretrained
from benchmarks.reproductions.pages import (
    RESULTS,
    environment,
    mean_and_deviation,
    take_further_flags,
    verdict,
    write_page,
    write_picture,
)
from benchmarks.reproductions.shared_inputs import write_table
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.files import whole_file, write_json
from data_pipelines.finetuning.linear import bag_of_words, majority

BATCH, EVALUATIONS = 16, 3  # of a fine-tuning, which choose the state that is kept
EPOCHS = {32: 15, 100: 10, 1000: 3, 5000: 1}
PUBLISHED, RANDOM, OWN, WORDS = "published", "its random weights", "pretrained here", "fastText's classifier"
BAG, COMMONEST = "bag of words", "commonest label"
RATES = {
    PUBLISHED: ["5e-5", "1e-4"], RANDOM: ["1e-4", "3e-4"], OWN: ["1e-4", "3e-4"], WORDS: ["3e-3", "1e-2", "3e-2"],
}  # fmt: skip


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    tables = {name: shortened(options, name, paths) for name, paths in map(tables_of, options.task)}
    own = pretrained(options, [paths["train"] for paths in tables.values()])
    found = {
        task: {count: scores_of(options, own, task, paths, count) for count in options.rows}
        for task, paths in tables.items()
    }
    write_report(options, own, tables, found)


def tables_of(task: str) -> tuple[str, dict[str, str]]:
    """The name of a task, and its files by what they are for."""
    name, _, files = task.partition(":")
    return name, dict(zip(("train", "dev", "test"), files.split(","), strict=True))


def shortened(options, task: str, paths: dict[str, str]) -> dict[str, str]:
    """The same files with at most `--dev_rows` and `--test_rows` rows."""
    limits = {"dev": options.dev_rows, "test": options.test_rows}
    made = {
        part: write_table(os.path.join(options.folder, f"{task}-{part}.tsv"), rows_of(paths[part])[:limit])
        for part, limit in limits.items()
    }
    return paths | made


def rows_of(path: str) -> list[Row]:
    with open(path, encoding="utf-8") as file:
        is_pair = "text_pair" in file.readline().split()
    return read_table(path, Columns("text", "text_pair" if is_pair else None, "label"))


def scores_of(options, own: str, task: str, paths: dict[str, str], count: int) -> dict[str, tuple[str, list[float]]]:
    """The rate of each arm and its accuracies on the test rows, by seed."""
    rows, test = rows_of(paths["train"]), rows_of(paths["test"])
    drawn = {seed: random.Random(seed).sample(rows, min(count, len(rows))) for seed in options.seeds}
    files = {
        seed: write_table(os.path.join(options.folder, f"{task}-{count}-{seed}.tsv"), each)
        for seed, each in drawn.items()
    }
    truth = [row.label for row in test]
    found = {
        COMMONEST: ("", [majority([row.label for row in each], truth) for each in drawn.values()]),
        BAG: ("", [bag_of_words(each, test).accuracy for each in drawn.values()]),
    }
    for name in RATES:
        found[name] = arm(options, own, name, task, paths, files, count)
        print(task, count, name, found[name], flush=True)
    return found


def arm(options, own: str, name: str, task: str, paths, files, count: int) -> tuple[str, list[float]]:
    """The rate of an arm, which the first seed chose, and its accuracies on the test rows."""
    flags = {"init_checkpoint": options.checkpoint, "pooling": "mean"}
    switches = list(options.more)
    if name == RANDOM:
        switches.append("--random_init")
    elif name == OWN:
        flags["init_checkpoint"] = own
    elif name == WORDS:
        flags = {"init_checkpoint": "new:fasttext_classifier", **files_of_words(options, task, paths["train"])}
        switches = []
    epochs = EPOCHS[count] * (5 if name == WORDS else 1)  # of 5,000 rows as many as the library's

    def scored(rate: str, seed: int) -> dict[str, float]:
        folder = os.path.join(options.folder, "runs", f"{task}-{count}-{name.replace(' ', '-')}-{rate}-{seed}")
        return fine_tuned(
            folder, *switches, task="classify", train_file=files[seed], eval_file=paths["dev"], test_file=paths["test"],
            learning_rate=rate, seed=seed, num_train_epochs=epochs, train_batch_size=BATCH,
            eval_every=max(1, epochs * count // BATCH // EVALUATIONS), max_seq_length=options.max_seq_length,
            length_buckets="auto", **flags,
        )  # fmt: skip

    tried = RATES[name] if count <= options.tuned_rows else [options.chosen[task, name]]
    rate, found = tuned(scored, tried, options.seeds, "evaluation accuracy")
    options.chosen[task, name] = rate
    return rate, [each["test accuracy"] for each in found]


def files_of_words(options, task: str, train: str) -> dict[str, str]:
    """The vocabulary of fastText's classifier, words of all rows to learn from, and its sizes."""
    vocabulary, texts, sizes = (
        os.path.join(options.folder, f"{task}-{name}") for name in ("words", "texts.txt", "sizes.json")
    )
    if not os.path.exists(vocabulary):
        with whole_file(texts, "w") as file:
            file.writelines(f"{text}\n" for row in rows_of(train) for text in row.texts)
        run(
            "train_vocabulary", input_file=texts, tokenizer="word_characters", vocab_size=30_000, output_file=vocabulary
        )
    write_json(sizes, {"hidden_dim": 100, "word_ngrams": 2, "buckets": 100_000})
    return {"vocab_file": vocabulary, "model_config_file": sizes}


def claims_of(means: dict) -> dict[str, bool]:
    """What transfer promises -> whether it came out here."""
    found = {}
    for task, by_count in means.items():
        few, most = min(by_count), max(by_count)
        for count in (few, most):
            others = max(by_count[count][name] for name in (RANDOM, WORDS, BAG))
            claim = "is better than all that has no pretraining, by two points or more"
            found[f"{task}: with {count:,} labels the published network {claim}"] = (
                by_count[count][PUBLISHED] >= others + 2
            )
        found[f"{task}: it is better than the small network pretrained here, at every number of labels"] = all(
            each[PUBLISHED] > each[OWN] for each in by_count.values()
        )
        fewer = max(count for count in by_count if count < most)
        found[f"{task}: with {fewer:,} labels it is as good as a bag of words with {most:,}, or better"] = (
            by_count[fewer][PUBLISHED] >= by_count[most][BAG]
        )
    return found


def write_report(options, own: str, tables, found) -> None:
    means = {
        task: {count: {name: 100 * statistics.mean(values) for name, (_, values) in arms.items()} for count, arms in by_count.items()}
        for task, by_count in found.items()
    }  # fmt: skip
    parts = [
        verdict(claims_of(means)),
        "Accuracy in percent on the test rows, mean and deviation over seeds, each of which draws rows of its own, as long as "
        "there are more, and else takes all; the rate that the first seed chose in brackets.",
        "![Accuracy by the number of labels](few_labels_en.png)",
    ]
    for task, by_count in found.items():
        names = list(next(iter(by_count.values())))
        rows = [[name, *(cell(*arms[name]) for arms in by_count.values())] for name in names]
        counts = {part: len(rows_of(path)) for part, path in tables[task].items()}
        parts += [
            f"## {task}",
            table(["arm", *(f"{count:,} labels" for count in by_count)], rows),
            f"{counts['train']:,} rows to draw from, {counts['dev']:,} development rows, {counts['test']:,} test rows.",
        ]
    rates = "; ".join(f"{name} {', '.join(tried)}" for name, tried in RATES.items())
    epochs = ", ".join(f"{EPOCHS[count]} epochs of {count:,}" for count in options.rows)
    parts += [
        f"Published: {network_of(options.checkpoint)}; the mean of its last states is read. Pretrained here: {network_of(own)}, "
        f"{options.pretraining_steps:,} steps of 16 rows of 128 tokens. {epochs} rows in batches of {BATCH}"
        f"{''.join(f', `{flag}`' for flag in options.more)}; fastText's classifier (width 100, pairs of words) reads the "
        f"rows five times as often. Of {EVALUATIONS} states of a fine-tuning the best one on the development rows is kept. More than "
        f"{options.tuned_rows:,} rows take the rate of those.",
        f"Rates to choose from: {rates}.",
        environment(command_of(options), options.seeds),
    ]
    write_picture("few_labels_en", lambda figure: draw(figure, means), width=9.0, height=3.2, folder=options.results)
    print(write_page("few_labels_en", "How many labels a published network needs", parts, folder=options.results))


def command_of(options) -> str:
    """The command, with the names of tasks and without paths."""
    tasks = " ".join(f"--task={name.partition(':')[0]}:…" for name in options.task)
    rows = " ".join(map(str, options.rows))
    more = f" -- {' '.join(options.more)}" if options.more else ""
    return (
        f"python -m benchmarks.reproductions.few_labels {tasks} --checkpoint=… --text=… --folder=… --rows {rows} "
        f"--pretraining_steps={options.pretraining_steps}{more}"
    )


def cell(rate: str, values: list[float]) -> str:
    """Mean and deviation, and the rate in brackets where there is one."""
    return f"{mean_and_deviation(values, scale=100)} ({rate})" if rate else mean_and_deviation(values, scale=100)


def draw(figure, means) -> None:
    axes = figure.subplots(1, len(means), squeeze=False)[0]
    for place, (task, by_count) in zip(axes, means.items(), strict=True):
        for name in (PUBLISHED, OWN, RANDOM, WORDS, BAG, COMMONEST):
            style = {"linestyle": "--"} if name in (BAG, COMMONEST) else {"marker": "o", "markersize": 3}
            place.plot(list(by_count), [arms[name] for arms in by_count.values()], label=name, **style)
        place.set(xscale="log", title=task, xlabel="labels")
    axes[0].set_ylabel("accuracy, %")
    axes[0].legend(frameon=False, fontsize=7)


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", required=True, help="NAME:TRAIN,DEV,TEST; again for another task")
    parser.add_argument("--checkpoint", required=True, help="run or folder of the published network")
    parser.add_argument("--text", nargs="*", default=[], help="files that the small network is pretrained on")
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    parser.add_argument("--folder", required=True, help="of all that is made on the way")
    parser.add_argument("--pretraining_steps", type=int, default=2000)
    parser.add_argument("--rows", type=int, nargs="+", choices=tuple(EPOCHS), default=list(EPOCHS))
    parser.add_argument("--tuned_rows", type=int, default=1000)
    parser.add_argument("--dev_rows", type=int, default=300)
    parser.add_argument("--test_rows", type=int, default=1000)
    parser.add_argument("--max_seq_length", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--results", default=RESULTS, help="folder of page and picture")
    take_further_flags(parser)
    options = parser.parse_args(arguments)
    options.rows.sort()
    options.chosen = {}
    return options


if __name__ == "__main__":
    main()
