"""FastBERT: accuracy against layers and time at several speeds, beside networks of the first layers alone.

    python -m benchmarks.reproductions.fastbert --rows=agnews/test.csv.gz --text_column=2 --label_column=0 --text='lm/*.txt' \\
        --folder=fastbert
    python -m benchmarks.reproductions.fastbert --parts train.tsv dev.tsv test.tsv --checkpoint=hf:minilm --student_layers=2,4,6 \\
        --folder=fastbert -- --pooling=mean

The rows are parted once into training, evaluation and test. Without `--checkpoint` a network of 6 layers of 256 is pretrained on
`--text` and the training rows. Each arm is a fine-tuning of it: FastBERT (`--task=fast_classify`), and for each depth k an ordinary
classifier on its first k layers, and the deepest of these from random weights too, at `--random_rates`. `--student_layers` adds
students that begin with those layers, alone and taught, and ONNX files of 8 bits. The first seed chooses the rate of each arm on the
evaluation rows; the test rows choose nothing.
`--peer` has Hugging Face's BERT learn the same from the same first layers, at the rate that was best for ours: what depth is worth
there. Interrupted, the same command goes on: what is finished in `--folder` is not made again.
"""

import argparse
import functools
import glob
import json
import os
import random
import shutil
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.reproductions import peer_bert
from benchmarks.reproductions.commands import fine_tuned, is_finished, make_records, run, tuned
from benchmarks.reproductions.fastbert_report import BATCHES, ROUNDS, report
from benchmarks.reproductions.pages import RESULTS, take_further_flags
from benchmarks.reproductions.students import accuracies, exports_of, students
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.corpora.text_files import open_text
from data_pipelines.files import write_json
from data_pipelines.finetuning import linear

SPEEDS = (0.0, 0.1, 0.3, 0.5, 0.8)
CURVE = np.linspace(0.0, 1.0, 41)
PRETRAINING_LENGTH = 128


def parted(options) -> dict[str, str]:
    """Files of training, evaluation and test rows, by name."""
    paths = {name: os.path.join(options.folder, f"{name}.tsv") for name in ("train", "eval", "test")}
    if all(os.path.isfile(path) for path in paths.values()):
        return paths
    os.makedirs(options.folder, exist_ok=True)
    limits = {"train": options.train_rows, "eval": options.eval_rows, "test": options.test_rows}
    columns = Columns(options.text_column, None, options.label_column)
    if options.parts:
        tables = (read_table(path, columns) for path in options.parts)
        parts = {name: rows[:limit] for (name, limit), rows in zip(limits.items(), tables, strict=True)}
    else:
        rows = list({row.texts: row for row in read_table(options.rows, columns)}.values())  # none stands in two parts
        random.Random(0).shuffle(rows)
        parts = {}
        for name in ("eval", "test", "train"):
            parts[name], rows = rows[: limits[name]], rows[limits[name] :]
    for name, part in parts.items():
        with open(paths[name], "w", encoding="utf-8") as file:
            file.write("text\tlabel\n")
            file.writelines(
                f"{' '.join(row.texts[0].split()).replace(chr(34), chr(39))}\t{row.label}\n" for row in part
            )
    return paths


def pretrained(options, tables: Sequence[str]) -> str:
    """A run of 6 layers of 256 that has read `--text` and the rows of tables."""
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
            for path in tables:
                file.writelines(f"{row.texts[0]}\n\n" for row in read_table(path, Columns()))
        os.replace(f"{text}.new", text)
    vocabulary, records = os.path.join(folder, "vocab.txt"), os.path.join(folder, "records")
    if not os.path.isfile(vocabulary):
        run("train_vocabulary", input_file=text, language=options.language, vocab_size=8000, output_file=vocabulary)
    make_records(
        records, "--do_whole_word_mask", input_file=text, language=options.language, vocab_file=vocabulary,
        max_seq_length=PRETRAINING_LENGTH, packing="full_sentences",
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


def arm(options, files, name: str, checkpoint: str) -> list[str]:
    """The folders of all seeds, with the rate that the first one chose."""
    own, rates = {"task": "classify"}, options.rates
    if name == "fast":
        own = {
            "task": "fast_classify",
            "distill_epochs": options.distill_epochs,
            "distill_learning_rate": options.distill_rate,
        }
    if name == "random":
        own, rates = own | {"random_init": "true"}, options.random_rates

    def folder(rate: str, seed: int) -> str:
        return os.path.join(options.folder, f"{name}-{rate}-{seed}")

    def scored(rate: str, seed: int) -> dict[str, float]:
        found = fine_tuned(
            folder(rate, seed), *options.more, keep_weights=True, init_checkpoint=checkpoint, learning_rate=rate, seed=seed,
            num_train_epochs=options.epochs, train_batch_size=options.batch_size, max_seq_length=options.max_seq_length,
            length_buckets="auto", **{f"{part}_file": path for part, path in files.items()}, **own,
        )  # fmt: skip
        for part in ("checkpoints", "tensorboard"):
            shutil.rmtree(os.path.join(folder(rate, seed), "teacher", part), ignore_errors=True)
        return found

    key = "evaluation teacher_accuracy" if name == "fast" else "evaluation accuracy"
    rate, _ = tuned(scored, rates, options.seeds, key)
    return [folder(rate, seed) for seed in options.seeds]


def exits_of(folder: str, rows: list[Row]):
    """What all classifiers of a FastBERT say of the test rows."""
    from xmodels.runs.fine_tuned import load_predictor as load
    from xmodels.tasks.fast_classify.exits import Exits

    path = os.path.join(folder, "exits.npy")
    if not os.path.isfile(path):
        np.save(f"{path}.new.npy", Exits.of(load(folder), [row.texts for row in rows], 32).logits)
        os.replace(f"{path}.new.npy", path)
    return Exits(np.load(path))


def times(options, fast: str, plain: dict[str, str], rows: list[Row]) -> dict[str, dict[str, float]]:
    """{what: {batch: milliseconds a text}} of the first seed's networks, in turns."""
    from xmodels.runs.fine_tuned import load_predictor as load

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
    loaded = {name: load(folder) for name, folder in plain.items()}
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
    random_ones = arm(options, files, "random", first_layers(options, checkpoint, max(options.depths)))
    taught = students(options, files, checkpoint, plain[max(plain)]) if options.student_layers else {}
    peer = {k: peer_accuracies(options, files, k, plain[k][0]) for k in options.depths} if options.peer else {}
    networks = {f"first {k}": folders[0] for k, folders in plain.items()}
    networks |= {f"student {name}": folders[0] for name, folders in taught.items()}
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
        "plain": {k: accuracies(folders) for k, folders in plain.items()},
        "random": accuracies(random_ones),
        "peer": peer,
        "students": {name: accuracies(folders) for name, folders in taught.items()},
        "exports": exports_of(
            options, files, plain[max(plain)][0], {name: folders[0] for name, folders in taught.items()}
        ),
        "times": times(options, fast[0], networks, rows),
        "words": linear.bag_of_words(train, rows).accuracy,
        "majority": linear.majority(*([row.label for row in part] for part in (train, rows))),
        "config": config_of(fast[0]),
        "rows": {name: len(read_table(path, Columns())) for name, path in files.items()},
    }


def peer_accuracies(options, files, depth: int, ours: str) -> list[float]:
    """Test accuracies of Hugging Face's BERT with the first so many layers, by seed, at the rate of a run of ours."""
    from xmodels.conversion import convert

    start = os.path.join(options.folder, f"first-{depth}-hf")
    with open(os.path.join(ours, "config.json"), encoding="utf-8") as file:
        rate = float(json.load(file)["flags"]["learning_rate"])
    if not os.path.isdir(start):
        convert.save(convert.load(os.path.join(options.folder, f"first-{depth}")), f"hf:{start}")
    way = peer_bert.Way(muon=True, pooling=options.peer)
    tables = {"train": files["train"], "dev": files["eval"], "test": files["test"]}
    return [
        peer_bert.finetuned(
            os.path.join(options.folder, "peer"), f"first-{depth}", peer_bert.NAME, start,
            {**tables, "flags": {"num_train_epochs": round(options.epochs)}}, rate, seed, way,
        )["test"]
        for seed in options.seeds
    ]  # fmt: skip


def config_of(folder: str):
    from xmodels.models import folder as models

    return models.read_config(os.path.join(folder, "backbone"))[0]


def point(exits, truth, speed: float) -> tuple[float, float]:
    """Layers on average, and accuracy."""
    labels, layers = exits.at(speed)
    return float(layers.mean() + 1), float((labels == truth).mean())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--rows", help="labelled table, which is parted")
    given.add_argument("--parts", nargs=3, help="labelled tables of training, evaluation and test, in place of --rows")
    parser.add_argument("--text_column")
    parser.add_argument("--label_column")
    parser.add_argument("--text", nargs="*", default=[], help="files to pretrain on")
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    parser.add_argument("--checkpoint", help="in place of pretraining")
    parser.add_argument("--folder", required=True, help="of all that is made on the way")
    parser.add_argument("--pretraining_steps", type=int, default=800)
    parser.add_argument("--train_rows", type=int, default=5000)
    parser.add_argument("--eval_rows", type=int, default=600)
    parser.add_argument("--test_rows", type=int, default=1000)
    parser.add_argument("--timed_rows", type=int, default=500)
    parser.add_argument("--depths", default="1,2,3,6", help="of the networks of first layers")
    parser.add_argument("--rates", default="3e-4", help="in rising order")
    parser.add_argument("--random_rates", default="1e-4,3e-4,1e-3", help="of the network of random weights")
    parser.add_argument("--distill_rate", default="1e-3")
    parser.add_argument(
        "--student_layers", help="of the network with which students begin, counted from 1, such as 2,4,6"
    )
    parser.add_argument(
        "--student_epochs", type=float, default=5, help="in which a student learns the teacher's layers"
    )
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--distill_epochs", type=float, default=5)
    parser.add_argument("--max_seq_length", type=int, default=64)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--name", default="fastbert", help="of the page")
    parser.add_argument("--results", default=RESULTS, help="folder of page and picture")
    parser.add_argument("--peer", choices=("first", "mean", "max", "mean+max"), help="Hugging Face's BERT too, by Muon, with this "
                        "pooling, which should be that of ours; needs torch and transformers")  # fmt: skip
    take_further_flags(parser)
    options = parser.parse_args()
    options.depths, options.seeds = ([int(x) for x in text.split(",")] for text in (options.depths, options.seeds))
    options.rates, options.random_rates = options.rates.split(","), options.random_rates.split(",")
    return options


def main() -> None:
    options = arguments()
    files = parted(options)
    report(options, measured(options, files, options.checkpoint or pretrained(options, [files["train"]])))


if __name__ == "__main__":
    main()
