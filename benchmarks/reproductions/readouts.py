"""Which state should answer: fine-tunes pretrained runs with each pooling, and writes a table.

    python -m benchmarks.reproductions.readouts --run small=runs/bert_small --run gpt=runs/gpt2 --train_file=train.tsv \\
        --eval_file=dev.tsv --test_file=test.tsv --folder=readouts --output=benchmarks/results/readouts.md

For each run and pooling the first seed chooses the rate, by the accuracy on `--eval_file`; the other seeds keep it. What stands in
the table is the mean over seeds on `--test_file`, which chooses nothing. Every fine-tuning keeps its best epoch on `--eval_file`.
Interrupted, the same command goes on: fine-tunings that are finished are not repeated.
"""

import argparse
import os
import statistics

from benchmarks.measure import publish, table
from benchmarks.reproductions.commands import fine_tuned, tuned
from benchmarks.reproductions.pages import environment, mean_and_deviation
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.finetuning import linear
from xmodels.layers.poolings import POOLINGS
from xmodels.runs.loaded import identify


def row_of(options, checkpoint: str, name: str, pooling: str) -> dict:
    """Rate, accuracy on the evaluation file, and accuracies on the test file of all seeds."""

    def scored(rate: str, seed: int) -> dict[str, float]:
        return fine_tuned(
            os.path.join(options.folder, f"{name}-{pooling}-{rate}-{seed}"),
            *(["--random_init"] if options.random_init else []), *options.more,
            init_checkpoint=checkpoint, pooling=pooling, learning_rate=rate, seed=seed,
            train_file=options.train_file, eval_file=options.eval_file, test_file=options.test_file,
            text_column=options.text_column, text_pair_column=options.text_pair_column, label_column=options.label_column,
            num_train_epochs=options.epochs, train_batch_size=options.batch_size, max_seq_length=options.max_seq_length,
        )  # fmt: skip

    rate, found = tuned(scored, options.rates, options.seeds, "evaluation accuracy")
    return {
        "rate": rate,
        "edge": len(options.rates) > 1 and rate in (options.rates[0], options.rates[-1]),
        "evaluation": [each["evaluation accuracy"] for each in found],
        "test": [each["test accuracy"] for each in found],
    }


def poolings_of(checkpoint: str, wanted: list[str]) -> list[str]:
    """Those of a network; one that is asked about no texts has no published one."""
    return [name for name in wanted if name != "published" or identify(checkpoint).reading is not None]


def page(options, found: dict[tuple[str, str], dict]) -> str:
    """The table, what it was made of, and what a bag of words scores."""
    columns = Columns(options.text_column, options.text_pair_column, options.label_column)
    train, test = (read_table(path, columns) for path in (options.train_file, options.test_file))
    best = {}  # by the evaluation file: the test file chooses nothing
    for (name, pooling), each in found.items():
        if statistics.mean(each["evaluation"]) > best.get(name, (-1.0, ""))[0]:
            best[name] = statistics.mean(each["evaluation"]), pooling
    rows = [
        [
            name, f"**{pooling}**" if best[name][1] == pooling else pooling, f"{each['rate']}{' (edge)' * each['edge']}",
            mean_and_deviation(each["evaluation"], scale=100), mean_and_deviation(each["test"], scale=100),
        ]
        for (name, pooling), each in found.items()
    ]  # fmt: skip
    words, majority = (
        linear.bag_of_words(train, test).accuracy,
        linear.majority(*([r.label for r in x] for x in (train, test))),
    )
    return "\n\n".join([
        f"# {options.title}",
        f"Accuracy in percent, mean and standard deviation over {len(options.seeds)} seeds; bold: the best of the network on the "
        f"evaluation file. The rate was chosen there by the first seed from {', '.join(options.rates)}; `edge`: the best one is the "
        "smallest or the largest, so others may be better.",
        table(["network", "pooling", "rate", "evaluation", "test"], rows),
        f"{len(train):,} rows to learn from ({os.path.basename(options.train_file)}), {len(test):,} to test on "
        f"({os.path.basename(options.test_file)}). Without a network: "
        f"commonest label {100 * majority:.1f}, bag of words {100 * words:.1f}."
        + (" All networks begin with random weights." if options.random_init else ""),
        environment("python -m benchmarks.reproductions.readouts …", options.seeds),
    ]) + "\n"  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--run", action="append", required=True, help="NAME=RUN_OR_CHECKPOINT; again for another network"
    )
    for name in ("train", "eval", "test"):
        parser.add_argument(f"--{name}_file", required=True)
    for name in ("text_column", "text_pair_column", "label_column"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--folder", required=True, help="of the fine-tunings")
    parser.add_argument("--poolings", default=",".join(POOLINGS))
    parser.add_argument("--rates", default="3e-5,1e-4,3e-4,1e-3", help="in rising order")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--random_init", action="store_true")
    parser.add_argument("--output", help="default: print")
    parser.add_argument("--title", default="Which state answers", help="of the page")
    parser.add_argument("more", nargs="*", help="behind `--`: further flags of finetune, such as --length_buckets=auto")
    options = parser.parse_args()
    options.poolings, options.rates = options.poolings.split(","), options.rates.split(",")
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    return options


def main() -> None:
    options, found = arguments(), {}
    for name, _, checkpoint in (each.partition("=") for each in options.run):
        for pooling in poolings_of(checkpoint, options.poolings):
            found[name, pooling] = row_of(options, checkpoint, name, pooling)
            print(name, pooling, found[name, pooling], flush=True)
    text = page(options, found)
    publish(text, options.output)


if __name__ == "__main__":
    main()
