"""SiATL: a language model that is fine-tuned beside its own loss, layer after layer (Chronopoulou et al., 2019, tables 2 and 3).

    python -m benchmarks.reproductions.siatl --text=news.txt --train=train.tsv --dev=dev.tsv --test=test.tsv --folder=siatl

One language model learns from a text without labels. Four arms then take equally many steps on few labelled texts: random weights,
the pretrained network as it is (P-LM), that with the loss of the language model beside the task, and that with sequential unfreezing
too (SiATL). The first seed chooses the rate of the head on development rows, for random weights that of the whole network; the test
rows choose nothing. Beside them stand the commonest label and a bag of words. What the language model still knows of the texts of the
task is its own loss on them in the first and in the last epoch, also where it does not learn by it. Interrupted, the same command goes
on.
"""

import argparse
import glob
import json
import math
import os

from benchmarks.measure import table
from benchmarks.reproductions.commands import fine_tuned, is_finished, make_records, run, tuned
from benchmarks.reproductions.pages import RESULTS, environment, mean_and_deviation, verdict, write_page
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.finetuning.linear import bag_of_words, majority

WORDS, SEGMENT, BATCH, LENGTH = 3_000, 20, 32, 32
UNSEEN = 1e-6  # a weight of the language model's loss by which nothing learns, so that the log tells the loss
SCRATCH, PLAIN, BESIDE, WHOLE = "random weights", "P-LM", "P-LM + language model", "SiATL"
ARMS = {
    SCRATCH: {"random_init": True, "gradual_unfreezing": 0, "auxiliary_lm_weight": UNSEEN},
    PLAIN: {"gradual_unfreezing": 0, "auxiliary_lm_weight": UNSEEN},
    BESIDE: {"gradual_unfreezing": 0},
    WHOLE: {},
}


def pretrained(options) -> str:
    """The folder of the language model."""
    vocabulary, records, folder = (os.path.join(options.folder, name) for name in ("vocabulary", "records", "model"))
    if not os.path.exists(vocabulary):
        run("train_vocabulary", input_file=options.text, tokenizer="words", vocab_size=WORDS, output_file=vocabulary)
    make_records(records, input_file=options.text, vocab_file=vocabulary, packing="stream", max_seq_length=SEGMENT)
    if not is_finished(folder):
        run(
            "pretrain", system="siatl", size="tiny", data_dir=records, model_dir=folder, train_batch_size=BATCH,
            num_train_steps=options.pretraining_steps, learning_rate="5e-3", lr_schedule="bert_linear", seed=1,
        )  # fmt: skip
    return folder


def scores_of(options, checkpoint: str, name: str, rows: int) -> tuple[str, list[dict[str, float]]]:
    """The rate that the first seed chose, and the scores of all seeds."""

    def scored(rate: str, seed: int) -> dict[str, float]:
        flags = dict(ARMS[name])
        if flags.pop("random_init", False):
            rates = f"layers_rate={options.scratch_rate},embedding_rate={options.scratch_rate}"
            flags |= {"set": rates}
            switches = ["--random_init"]
        else:
            switches = []
        folder = os.path.join(options.folder, f"{name.replace(' ', '').replace('+', '-')}-{rate}-{seed}")
        found = fine_tuned(
            folder, *switches, task="classify", init_checkpoint=checkpoint, train_file=options.train, eval_file=options.dev,
            test_file=options.test, text_column="text", label_column="label", learning_rate=rate, seed=seed,
            num_train_epochs=options.epochs, train_batch_size=BATCH, max_seq_length=LENGTH,
            log_steps=math.ceil(rows / BATCH), **flags,
        )  # fmt: skip
        return found | language_model_losses(folder)

    return tuned(scored, options.rates, options.seeds, "evaluation accuracy")


def language_model_losses(folder: str) -> dict[str, float]:
    """The loss of the language model in nats a token over the first and the last steps that were logged together."""
    (path,) = glob.glob(os.path.join(folder, "log.jsonl"))
    with open(path, encoding="utf-8") as file:
        logged = [entry for entry in map(json.loads, file) if entry["kind"] == "train"]
    losses = [entry["auxiliary_lm"] / entry["auxiliary_lm/weight"] for entry in logged if "auxiliary_lm" in entry]
    return {"first nats": losses[0], "last nats": losses[-1]}


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    columns = Columns("text", None, "label")
    train, test = (read_table(path, columns) for path in (options.train, options.test))
    checkpoint = pretrained(options)
    rates, found = {}, {}
    for name in ARMS:
        rates[name], found[name] = scores_of(options, checkpoint, name, len(train))
    write_report(options, train, test, rates, found)


def write_report(options, train, test, rates, found) -> None:
    def percent(name: str) -> list[float]:
        return [100 * each["test accuracy"] for each in found[name]]

    means = {name: sum(percent(name)) / len(found[name]) for name in ARMS}
    first, last = (
        {name: sum(s[f"{end} nats"] for s in found[name]) / len(found[name]) for name in ARMS}
        for end in ("first", "last")
    )
    most = 100 * majority([row.label for row in train], [row.label for row in test])
    words = 100 * bag_of_words(train, test).accuracy
    claims = {
        "the pretrained network is better than random weights by more than two points": means[PLAIN] > means[SCRATCH] + 2,
        "its own loss beside the task makes it better by a point or more": means[BESIDE] >= means[PLAIN] + 1,
        "sequential unfreezing makes it no worse, within a point": means[WHOLE] >= means[BESIDE] - 1,
        "SiATL is better than the pretrained network as it is by a point or more": means[WHOLE] >= means[PLAIN] + 1,
        "SiATL is better than a bag of words": means[WHOLE] > words,
        "without its loss the language model forgets: 0.1 nats a token or more": last[PLAIN] > first[PLAIN] + 0.1,
        "with its loss it does not": last[BESIDE] < first[BESIDE] + 0.1,
    }  # fmt: skip
    rows = [["commonest label", f"{most:.1f}", "", "", ""], ["bag of words", f"{words:.1f}", "", "", ""]]
    rows += [
        [
            name, mean_and_deviation(percent(name)), f"{first[name]:.2f}", f"{last[name]:.2f}", rates[name],
        ]
        for name in ARMS
    ]  # fmt: skip
    pages = [
        verdict(claims),
        table(["arm", "accuracy", "language model, first epoch", "last epoch", "rate"], rows),
        f"Accuracy in percent on {len(test):,} rows, mean and deviation of {len(options.seeds)} seed(s); the loss of the "
        f"language model on the rows to learn from, in nats a token, with dropout. {len(train):,} rows to learn from, "
        f"{options.epochs} epochs of batches of {BATCH}. The best epoch and the rate (of {', '.join(options.rates)}) by the "
        "first seed on development rows; "
        f"random weights learn by plain gradient descent at {options.scratch_rate}, the head apart. The language model: "
        f"`siatl` tiny, {options.pretraining_steps:,} steps of {BATCH} x {SEGMENT} words, {WORDS:,} words known.",
        environment("python -m benchmarks.reproductions.from_shared_data siatl_en --work_dir=work", options.seeds),
    ]
    print(write_page("siatl_en", "SiATL: a language model beside its task", pages, folder=options.results))


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("text", "train", "dev", "test", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--pretraining_steps", type=int, default=1200)
    parser.add_argument("--rates", nargs="+", default=["1e-3", "4e-3"])
    parser.add_argument("--scratch_rate", default="0.1", help="of the layers and the embedding of random weights")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--results", default=RESULTS, help="Where the page goes.")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
