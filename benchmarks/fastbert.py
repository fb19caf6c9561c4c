"""FastBERT: accuracy against layers and time at several speeds, beside networks of the first layers alone.

    python -m benchmarks.fastbert --rows=agnews/test.csv.gz --text_column=2 --label_column=0 --text='lm/*.txt' --folder=fastbert

The rows are parted once into training, evaluation and test. Without `--checkpoint` a network of 6 layers of 256 is pretrained on
`--text` and the training rows. Each arm is a fine-tuning of it: FastBERT (`--task=fast_classify`), and for each depth k an ordinary
classifier on its first k layers. The first seed chooses the rate of each arm on the evaluation rows; the test rows choose nothing.
Interrupted, the same command goes on: what is finished in `--folder` is not made again.
"""

import argparse
import functools
import glob
import json
import os
import random
import shutil
import time

import numpy as np

from benchmarks.measure import table
from benchmarks.reproductions.common import (
    environment,
    is_finished,
    mean_and_deviation,
    results_of,
    run,
    verdict,
    write_page,
    write_picture,
)
from data_pipelines.corpora.tables import Columns, Row, read_table
from data_pipelines.corpora.text_files import open_text
from data_pipelines.files import write_json
from data_pipelines.finetuning import linear

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
SPEEDS = (0.0, 0.1, 0.3, 0.5, 0.8)
CURVE = np.linspace(0.0, 1.0, 41)
BATCHES = (1, 32)  # texts at a time, of which time is measured
ROUNDS = 3  # of the clock; the fastest counts
BULKY = ("checkpoints", "tensorboard")
PRETRAINING_LENGTH = 128


def parted(options) -> dict[str, str]:
    """Files of training, evaluation and test rows, by name."""
    paths = {name: os.path.join(options.folder, f"{name}.tsv") for name in ("train", "eval", "test")}
    if all(os.path.isfile(path) for path in paths.values()):
        return paths
    os.makedirs(options.folder, exist_ok=True)
    rows = read_table(options.rows, Columns(options.text_column, None, options.label_column))
    rows = list({row.texts: row for row in rows}.values())  # none stands in two parts
    random.Random(0).shuffle(rows)
    held, tested = options.eval_rows, options.eval_rows + options.test_rows
    parts = {"eval": rows[:held], "test": rows[held:tested], "train": rows[tested:][: options.train_rows]}
    for name, part in parts.items():
        with open(paths[name], "w", encoding="utf-8") as file:
            file.write("text\tlabel\n")
            file.writelines(
                f"{' '.join(row.texts[0].split()).replace(chr(34), chr(39))}\t{row.label}\n" for row in part
            )
    return paths


def pretrained(options, files: dict[str, str]) -> str:
    """A run of 6 layers of 256 that has read `--text` and the training rows."""
    folder = os.path.join(options.folder, "pretraining")
    model_dir, text = os.path.join(folder, "run"), os.path.join(folder, "text.txt")
    if is_finished(model_dir):
        return model_dir
    os.makedirs(folder, exist_ok=True)
    if not os.path.isfile(text):
        with open(f"{text}.new", "w", encoding="utf-8") as file:
            for path in sorted(p for pattern in options.text for p in glob.glob(pattern)):
                with open_text(path) as lines:
                    file.writelines(f"{line.strip()}\n\n" for line in lines if len(line) > 40)
            file.writelines(f"{row.texts[0]}\n\n" for row in read_table(files["train"], Columns()))
        os.replace(f"{text}.new", text)
    vocabulary, records = os.path.join(folder, "vocab.txt"), os.path.join(folder, "records")
    if not os.path.isfile(vocabulary):
        run("train_vocabulary", input_file=text, language="en", vocab_size=8000, output_file=vocabulary)
    if not os.path.isfile(os.path.join(records, "manifest.json")):
        run(
            "create_pretraining_data", "--do_whole_word_mask", input_file=text, language="en", vocab_file=vocabulary,
            output_dir=records, max_seq_length=PRETRAINING_LENGTH, packing="full_sentences",
        )  # fmt: skip
    run(
        "pretrain", system="roberta_wwm", size="mini", set="num_layers=6", data_dir=records, model_dir=model_dir, recipe="small",
        num_train_steps=options.pretraining_steps, train_batch_size=16, seed=1,
    )  # fmt: skip
    return model_dir


def first_layers(options, checkpoint: str, depth: int) -> str:
    """A model folder with the first so many blocks."""
    from xmodels.conversion import convert

    path = os.path.join(options.folder, f"first-{depth}")
    if not os.path.isdir(path):
        loaded = convert.load(checkpoint)
        convert.save(shortened(loaded, depth), f"{path}.new")
        os.rename(f"{path}.new", path)
    return path


def shortened(loaded, depth: int):
    """A checkpoint without the blocks above a depth, and without heads."""
    import dataclasses

    def stays(name: str) -> bool:
        lead, _, rest = name.partition("backbone.blocks.")
        return name.startswith("backbone.") and (bool(lead) or int(rest.partition(".")[0]) < depth)

    values = {name: value for name, value in loaded.values.items() if stays(name)}
    return dataclasses.replace(loaded, values=values, config=dataclasses.replace(loaded.config, num_layers=depth))


def fine_tuned(options, files, name: str, checkpoint: str, rate: str, seed: int) -> str:
    """The folder of a fine-tuning, which is made unless it is finished."""
    folder = os.path.join(options.folder, f"{name}-{rate}-{seed}")
    if not is_finished(folder):
        own = {"task": "classify"}
        if name == "fast":
            own = {
                "task": "fast_classify",
                "distill_epochs": options.distill_epochs,
                "distill_learning_rate": options.distill_rate,
            }
        run(
            "finetune", *options.more, init_checkpoint=checkpoint, model_dir=folder, learning_rate=rate, seed=seed,
            num_train_epochs=options.epochs, train_batch_size=32,
            max_seq_length=options.max_seq_length, save_checkpoints_steps=10**6, length_buckets="auto",
            **{f"{part}_file": path for part, path in files.items()}, **own,
        )  # fmt: skip
    for inner in (folder, os.path.join(folder, "teacher")):
        for part in BULKY:
            shutil.rmtree(os.path.join(inner, part), ignore_errors=True)
    return folder


def arm(options, files, name: str, checkpoint: str) -> list[str]:
    """The folders of all seeds, with the rate that the first one chose."""
    key = "evaluation teacher_accuracy" if name == "fast" else "evaluation accuracy"
    first, *others = options.seeds
    tried = {rate: fine_tuned(options, files, name, checkpoint, rate, first) for rate in options.rates}
    rate = max(tried, key=lambda each: results_of(tried[each])[key])
    return [tried[rate], *(fine_tuned(options, files, name, checkpoint, rate, seed) for seed in others)]


def exits_of(folder: str, rows: list[Row]):
    """What all classifiers of a FastBERT say of the test rows."""
    from xmodels.tasks.base.answer import load
    from xmodels.tasks.fast_classify.exits import Exits

    path = os.path.join(folder, "exits.npy")
    if not os.path.isfile(path):
        np.save(f"{path}.new.npy", Exits.of(load(folder), [row.texts for row in rows], 32).logits)
        os.replace(f"{path}.new.npy", path)
    return Exits(np.load(path))


def times(options, fast: str, plain: dict[int, str], rows: list[Row]) -> dict[str, dict[str, float]]:
    """{what: {batch: milliseconds a text}} of the first seed's networks, in turns."""
    from xmodels.tasks.base.answer import load

    path = os.path.join(options.folder, "times.json")
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    adaptive, texts = load(fast), [row.texts for row in rows][: options.timed_rows]

    def at(speed: float):
        def predictor():
            adaptive.adjust(speed=speed, exit_mode="exit")
            return adaptive

        return predictor

    def teacher():
        adaptive.speed, adaptive.exit_mode = 0.0, "full"
        return adaptive

    arms = {"teacher": teacher} | {f"speed {speed:g}": at(speed) for speed in SPEEDS}
    loaded = {f"first {depth}": load(folder) for depth, folder in plain.items()}
    arms |= {name: functools.partial(loaded.get, name) for name in loaded}
    found: dict[str, dict[str, float]] = {name: {} for name in arms}
    for batch in BATCHES:
        for make in arms.values():  # makes the graphs
            make().predict(texts[: 8 * batch + 1], batch)
        for _ in range(ROUNDS):
            for name, make in arms.items():
                predictor, started = make(), time.perf_counter()
                predictor.predict(texts, batch)
                spent = 1000 * (time.perf_counter() - started) / len(texts)
                found[name][str(batch)] = min(spent, found[name].get(str(batch), np.inf))
    write_json(path, found)
    return found


def measured(options, files, checkpoint: str) -> dict:
    """All that stands in the page."""
    fast = arm(options, files, "fast", checkpoint)
    plain = {k: arm(options, files, f"first-{k}", first_layers(options, checkpoint, k)) for k in options.depths}
    rows, train = read_table(files["test"], Columns()), read_table(files["train"], Columns())
    with open(os.path.join(fast[0], "task.json"), encoding="utf-8") as file:
        labels = json.load(file)["labels"]
    truth = np.array([labels.index(row.label) for row in rows])
    exits = [exits_of(folder, rows) for folder in fast]
    return {
        "exits": exits,
        "truth": truth,
        "curve": [[point(each, truth, speed) for each in exits] for speed in CURVE],
        "speeds": {speed: [point(each, truth, speed) for each in exits] for speed in SPEEDS},
        "plain": {k: [results_of(folder)["test accuracy"] for folder in folders] for k, folders in plain.items()},
        "times": times(options, fast[0], {k: folders[0] for k, folders in plain.items()}, rows),
        "words": linear.bag_of_words(train, rows).accuracy,
        "majority": linear.majority(*([row.label for row in part] for part in (train, rows))),
        "config": config_of(fast[0]),
        "rows": {name: len(read_table(path, Columns())) for name, path in files.items()},
    }


def config_of(folder: str):
    from xmodels.models import folder as models

    return models.read_config(os.path.join(folder, "backbone"))[0]


def point(exits, truth, speed: float) -> tuple[float, float]:
    """Layers on average, and accuracy."""
    labels, layers = exits.at(speed)
    return float(layers.mean() + 1), float((labels == truth).mean())


def rows_of(options, found: dict) -> list[list[str]]:
    from xmodels.tasks.fast_classify.costs import full_flops, layer_flops

    config, length, clock = found["config"], options.max_seq_length, found["times"]
    whole = full_flops(config, length)

    def line(title, accuracies, layers, operations, key):
        cells = [f"{clock[key][str(b)]:.2f} ms, {clock['teacher'][str(b)] / clock[key][str(b)]:.2f}x" for b in BATCHES]
        return [title, mean_and_deviation(accuracies, scale=100), layers, f"{operations:.2f}x", *cells]

    teacher = [float(each.accuracies(found["truth"])[-1]) for each in found["exits"]]
    rows = [line("teacher, all layers", teacher, f"{config.num_layers}", 1.0, "teacher")]
    branch = whole - config.num_layers * layer_flops(config, length)
    for speed, points in found["speeds"].items():
        layers = [layers for layers, _ in points]
        cost = np.mean(layers) * (layer_flops(config, length) + branch)
        accuracies = [accuracy for _, accuracy in points]
        rows.append(
            line(
                f"FastBERT, speed {speed:g}",
                accuracies,
                mean_and_deviation(layers, ".2f"),
                whole / cost,
                f"speed {speed:g}",
            )
        )
    for depth, accuracies in found["plain"].items():
        cost = depth * layer_flops(config, length)
        rows.append(line(f"first {depth} layers alone", accuracies, f"{depth}", whole / cost, f"first {depth}"))
    return rows


def claims(found: dict) -> dict[str, bool]:
    """What the paper says, as it came out here."""
    teacher = np.mean([each.accuracies(found["truth"])[-1] for each in found["exits"]])
    clock = found["times"]
    quick = [
        speed
        for speed, points in found["speeds"].items()
        if np.mean([a for _, a in points]) >= teacher - 0.01
        and all(clock["teacher"][str(b)] >= 2 * clock[f"speed {speed:g}"][str(b)] for b in BATCHES)
    ]
    depths = sorted(found["plain"])
    curve = np.array([np.mean(points, axis=0) for points in found["curve"]])  # (speeds, 2), layers fall
    middle = [k for k in depths if curve[-1, 0] <= k <= curve[0, 0]]
    beaten = [np.interp(k, curve[::-1, 0], curve[::-1, 1]) >= np.mean(found["plain"][k]) for k in middle]
    return {
        "at some speed it is at least twice as fast by the clock as its teacher, at batches of 1 and 32, for at most a point": bool(
            quick
        ),
        "at equally many layers on average it is as accurate as the first layers alone, or better": bool(beaten)
        and all(beaten),
    }


def draw(figure, found: dict) -> None:
    left, right = figure.subplots(1, 2)
    curve = 100 * np.array([np.mean(points, axis=0) for points in found["curve"]])
    left.plot(curve[:, 0] / 100, curve[:, 1], color="#1450c8", label="FastBERT, speed 0 to 1")
    for speed, points in found["speeds"].items():
        layers, accuracy = np.mean(points, axis=0)
        left.annotate(f"{speed:g}", (layers, 100 * accuracy), textcoords="offset points", xytext=(2, -10), fontsize=7)
    means = {k: (100 * np.mean(values), 100 * np.std(values)) for k, values in found["plain"].items()}
    heights, spread = zip(*means.values(), strict=True)
    left.errorbar(list(means), heights, spread, fmt="o", color="#c83232", capsize=2, label="first layers alone")
    left.axhline(100 * found["words"], color="grey", linewidth=0.8, linestyle="--", label="bag of words")
    left.set(xlabel="layers on average", ylabel="accuracy, %")
    left.legend(frameon=False)
    edges = np.array([0.0, 0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0])
    depth = found["exits"][0].logits.shape[1]
    for layer in range(depth):
        unsure = np.concatenate([each.uncertainties[:, layer] for each in found["exits"]])
        right_ones = np.concatenate(
            [each.logits[:, layer].argmax(axis=-1) == found["truth"] for each in found["exits"]]
        )
        groups = [right_ones[np.digitize(unsure, edges[1:-1]) == k] for k in range(len(edges) - 1)]
        there = [((edges[k] + edges[k + 1]) / 2, 100 * g.mean()) for k, g in enumerate(groups) if len(g) >= 30]
        right.plot(
            *zip(*there, strict=True),
            marker=".",
            color="#1450c8",
            alpha=0.3 + 0.7 * layer / (depth - 1),
            label=f"layer {layer + 1}",
        )
    right.set(xlabel="uncertainty", ylabel="accuracy, %")
    right.legend(frameon=False, fontsize=7)


def report(options, found: dict) -> None:
    sizes, config = found["rows"], found["config"]
    write_picture(options.name, lambda figure: draw(figure, found), width=8.0, folder=options.output)
    parts = [
        f"{config.num_layers} layers of {config.hidden_dim}, {sizes['train']:,} rows to learn from, {sizes['eval']:,} to choose "
        f"the rate and the epoch by, {sizes['test']:,} to test on; texts of at most {options.max_seq_length} tokens. Accuracy in "
        f"percent, mean and standard deviation over {len(options.seeds)} seeds. Operations as the paper counts them. Milliseconds a "
        f"text, tokenizer included, at batches of {BATCHES[0]} and {BATCHES[1]}: the fastest of {ROUNDS} rounds over "
        f"{min(options.timed_rows, sizes['test']):,} texts, first seed; behind them, how many times as fast as the teacher.",
        table(["network", "accuracy", "layers", "operations", *(f"batch {b}" for b in BATCHES)], rows_of(options, found)),
        f"Without a network: commonest label {100 * found['majority']:.1f}, bag of words {100 * found['words']:.1f}.",
        verdict(claims(found)),
        f"![Accuracy by layers, and by uncertainty]({options.name}.png)",
        "Right: accuracy of the labels of each layer by their uncertainty, of all seeds.",
        environment("python -m benchmarks.fastbert …", options.seeds, os.cpu_count() or 1),
    ]  # fmt: skip
    print(write_page(options.name, "FastBERT", parts, options.output))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", required=True, help="labelled table, which is parted")
    parser.add_argument("--text_column")
    parser.add_argument("--label_column")
    parser.add_argument("--text", nargs="*", default=[], help="files to pretrain on")
    parser.add_argument("--checkpoint", help="in place of pretraining")
    parser.add_argument("--folder", required=True, help="of all that is made on the way")
    parser.add_argument("--pretraining_steps", type=int, default=800)
    parser.add_argument("--train_rows", type=int, default=5000)
    parser.add_argument("--eval_rows", type=int, default=600)
    parser.add_argument("--test_rows", type=int, default=1000)
    parser.add_argument("--timed_rows", type=int, default=500)
    parser.add_argument("--depths", default="1,2,3,6", help="of the networks of first layers")
    parser.add_argument("--rates", default="3e-4", help="in rising order")
    parser.add_argument("--distill_rate", default="1e-3")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--distill_epochs", type=float, default=5)
    parser.add_argument("--max_seq_length", type=int, default=64)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--name", default="fastbert", help="of the page")
    parser.add_argument("--output", default=RESULTS, help="folder of page and picture")
    parser.add_argument("more", nargs="*", help="behind `--`: further flags of finetune, such as --pooling=mean")
    options = parser.parse_args()
    options.depths, options.seeds = ([int(x) for x in text.split(",")] for text in (options.depths, options.seeds))
    options.rates = options.rates.split(",")
    return options


def main() -> None:
    options = arguments()
    files = parted(options)
    report(options, measured(options, files, options.checkpoint or pretrained(options, files)))


if __name__ == "__main__":
    main()
