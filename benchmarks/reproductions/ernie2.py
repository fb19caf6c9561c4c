"""Sequential, joint and continual learning of four tasks of ERNIE 2.0 on WikiText-2 (Sun et al., 2020, arXiv 1907.12412, table 7).

Three runs of equally many steps of each task, which differ in --task_schedule only, are scored on held-out text in every task.

    python -m benchmarks.reproductions.ernie2 --train wiki.valid.raw.gz --test wiki.test.raw.gz --folder /tmp/ernie2
"""

import argparse
import gzip
import os
import re

from benchmarks.measure import table
from benchmarks.reproductions.common import RESULTS, is_finished, results_of, run, verdict

TASKS = ("masking", "capitals", "token_document", "reordering")
SCHEDULES = ("sequential", "joint", "continual")
NETWORK = "num_layers=4,hidden_dim=128,num_heads=4,intermediate_dim=512,max_sequence_length=128"
MEASURES = {
    "masking, loss": "masking/masked_lm",
    "capitals, accuracy": "capitals/capitals_accuracy",
    "token_document, loss": "token_document/repeated_tokens",
    "reordering, accuracy": "reordering/sentence_reordering_accuracy",
}
TITLE = re.compile(r"= [^=].*[^=] =")  # of an article; those of sections have more signs


def write_articles(source: str, path: str) -> None:
    """The articles of a raw WikiText file, parted by empty lines, a paragraph a line."""
    opened = gzip.open if source.endswith(".gz") else open
    articles: list[list[str]] = []
    with opened(source, "rt", encoding="utf-8") as file:
        for line in map(str.strip, file):
            if TITLE.fullmatch(line):
                articles.append([])
            elif line and not line.startswith("=") and articles:
                articles[-1].append(line)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n\n".join("\n".join(article) for article in articles if article) + "\n")


def make_records(arguments) -> dict[str, str]:
    """The folders of the records to learn from and to be scored on."""
    os.makedirs(arguments.folder, exist_ok=True)
    vocabulary = os.path.join(arguments.folder, "vocab.txt")
    found = {}
    for part in ("train", "test"):
        text, found[part] = (os.path.join(arguments.folder, name) for name in (f"{part}.txt", f"records_{part}"))
        if not os.path.isdir(found[part]):
            write_articles(getattr(arguments, part), text)
            if part == "train":
                run("train_vocabulary", input_file=text, vocab_size=8000, output_file=vocabulary)
            run(
                "create_pretraining_data", input_file=text, input_format="text", vocab_file=vocabulary, packing="paragraph",
                max_seq_length=128, max_predictions_per_seq=28, num_shards=2, output_dir=found[part],
            )  # fmt: skip
    return found


def train(arguments, records: dict[str, str], schedule: str) -> dict[str, float]:
    """What a run of one schedule scores on the held-out text at its end."""
    folder = os.path.join(arguments.folder, schedule)
    if not is_finished(folder):
        run(
            "pretrain", system="ernie2", size="tiny", set=NETWORK, data_dir=records["train"], eval_data_dir=records["test"],
            model_dir=folder, task_schedule=schedule, task_steps=arguments.steps, train_batch_size=32, learning_rate=5e-4,
            num_warmup_steps=arguments.steps // 5, eval_every=arguments.steps, eval_steps=40, seed=arguments.seed,
        )  # fmt: skip
    return results_of(folder)


def page(found: dict[str, dict[str, float]], steps: int) -> str:
    """The numbers of all runs and what they say."""
    rows = [[title, *(f"{found[name][measure]:.3f}" for name in SCHEDULES)] for title, measure in MEASURES.items()]
    loss, capitals, order = (
        {name: found[name][MEASURES[title]] for name in SCHEDULES}
        for title in ("masking, loss", "capitals, accuracy", "reordering, accuracy")
    )
    best = max(capitals["joint"], capitals["continual"])
    claims = {
        "one task after the other forgets: its loss of masking is 0.3 nats above continual learning or more": loss[
            "sequential"
        ]
        > loss["continual"] + 0.3,
        "its accuracy of capitals is 3 points below": capitals["sequential"] < best - 0.03,
        "continual learning is within 0.05 nats of joint learning in masking": loss["continual"] < loss["joint"] + 0.05,
        "and as good or better in reordering, which joins last": order["continual"] >= order["joint"],
    }
    head = ["held-out", *SCHEDULES]
    intro = f"# ERNIE 2.0: schedules of tasks\n\nFour layers of 128 on WikiText-2, {steps:,} steps of each of {', '.join(TASKS)}."
    return f"{intro}\n\n{table(head, rows)}\n\n{verdict(claims)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, about in (("train", "to learn from"), ("test", "to be scored on"), ("folder", "of records and runs")):
        parser.add_argument(f"--{name}", required=True, help=about)
    parser.add_argument("--steps", type=int, default=1500, help="of each task")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", default=os.path.join(RESULTS, "ernie2.md"))
    arguments = parser.parse_args()
    records = make_records(arguments)
    found = {schedule: train(arguments, records, schedule) for schedule in SCHEDULES}
    with open(arguments.page, "w", encoding="utf-8") as file:
        file.write(page(found, arguments.steps))


if __name__ == "__main__":
    main()
