"""Tells labels of texts by logistic regression on the states of a frozen network, beside a bag of words."""

import dataclasses
import os

import keras
import numpy as np

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import Row, read_table
from data_pipelines.errors import UsageError
from data_pipelines.files import write_json
from data_pipelines.finetuning import linear
from data_pipelines.finetuning.row_checks import check_labels, check_texts, label_ids, label_names, shared_warning
from xmodels.interfaces.loaded import Loaded
from xmodels.layers.poolings import KNOWN, PUBLISHED, is_known
from xmodels.tasks.base.readouts import Asked, Readout, Readouts
from xmodels.tasks.base.source import Source
from xmodels.training.watching.progress import print_status

LENGTH = 128  # tokens of a text, as `finetune` reads
FILE = "probe.json"  # of a run folder, which its report draws (`xmodels.runs.probe`)


def evaluate(
    source: Source, train_file: str | None, test_file: str, text_column: str | None, text_pair_column: str | None,
    label_column: str | None, pooling: str | None, layer: str | None, max_seq_length: int | None, random_init: bool,
    seed: int, batch_size: int | None,
) -> dict:  # fmt: skip
    """Prints and returns accuracies; arguments as in `launch/evaluate.py`, scores as in `docs/probing.md`."""
    if not train_file:
        raise UsageError("--train_file=ROWS: name labelled rows on which the probe is fitted; --test_file scores it.")
    train, test, labels = _rows(train_file, test_file, Columns(text_column, text_pair_column, label_column))
    if pooling is not None and not is_known(pooling):
        raise UsageError(f"--pooling={pooling}: expected {KNOWN}.")
    loaded = source.load()
    if random_init:
        loaded = with_random_weights(loaded, seed)
    config = loaded.backbone.config
    if not config.reads(max_seq_length or 0):
        raise UsageError(f"--max_seq_length={max_seq_length}: the network reads at most {config.longest} tokens.")
    readouts = Readouts(loaded, Asked(pooling, layer), max_seq_length or config.cut(LENGTH))
    states = [readouts.of_texts([row.texts for row in rows], batch_size or 32) for rows in (train, test)]
    truth = [label_ids(path, rows, labels) for path, rows in ((train_file, train), (test_file, test))]
    fits = {key: linear.fit(states[0][key], truth[0], states[1][key], truth[1], seed) for key in states[0]}
    found = {
        "network": f"{loaded.system or type(loaded.backbone).__name__}{', random weights' if random_init else ''}",
        "train_file": train_file, "test_file": test_file, "train_rows": len(train), "test_rows": len(test),
        "labels": len(labels), **_chosen(fits, len(test)), **_without_a_network(train, test, seed),
        "readouts": [{"layer": n, "pooling": name, **dataclasses.asdict(fit)} for (n, name), fit in fits.items()],
    }  # fmt: skip
    model_dir = source.path
    report(model_dir, found)
    if not random_init and os.path.isfile(os.path.join(model_dir, "log.jsonl")):
        write_json(os.path.join(model_dir, FILE), found)
        print(f"`xmodels report --model_dir={model_dir}` draws it.")
    return found


def with_random_weights(loaded: Loaded, seed: int) -> Loaded:
    """Returns the same with a network that has learnt nothing."""
    keras.utils.set_random_seed(seed)
    backbone = loaded.network(loaded.backbone.config).initialize()
    return dataclasses.replace(loaded, backbone=backbone)


def _rows(train_file: str, test_file: str, columns: Columns) -> tuple[list[Row], list[Row], list[str]]:
    """Returns the rows of both files, and the labels in the order of their ids.

    Raises:
        DataError, UsageError: a file cannot be read, or the two do not fit each other.
    """
    train, test = read_table(train_file, columns), read_table(test_file, columns)
    labels = label_names(train)
    check_labels(train_file, labels, len(train), columns.label)
    label_ids(test_file, test, labels)  # says which label is unknown
    check_texts(test_file, len(test[0].texts), train_file, len(train[0].texts))
    shared = shared_warning(test_file, [row.texts for row in test], train_file, [row.texts for row in train])
    if shared:
        print_status(shared)
    return train, test, labels


def _chosen(fits: dict[Readout, linear.Fit], rows: int) -> dict:
    """Returns the readout that is best on the rows held out of the training, its accuracy, and how far chance moves that."""
    layer, pooling = max(fits, key=lambda key: fits[key].held_out_accuracy)
    accuracy = fits[layer, pooling].accuracy
    error = float(np.sqrt(accuracy * (1 - accuracy) / rows))
    return {"accuracy": accuracy, "standard_error": error, "layer": layer, "pooling": pooling}


def _without_a_network(train: list[Row], test: list[Row], seed: int) -> dict:
    majority = linear.majority([row.label for row in train], [row.label for row in test])
    return {"majority": majority, "bag_of_words": linear.bag_of_words(train, test, seed).accuracy}


def report(model_dir: str, found: dict) -> None:
    """Prints a table: a line for each layer, a column for each pooling."""
    accuracies = {(each["layer"], each["pooling"]): each["accuracy"] for each in found["readouts"]}
    best = found["layer"], found["pooling"]
    layers = sorted({n for n, _ in accuracies if n is not None})
    poolings = list(dict.fromkeys(name for n, name in accuracies if n is not None))
    print(
        f"{model_dir} ({found['network']}): {found['train_rows']:,} rows to train on, {found['test_rows']:,} rows of "
        f"{found['test_file']} to test on, {found['labels']} labels"
    )
    print(f"  without a network: most frequent label {found['majority']:.4f}, bag of words {found['bag_of_words']:.4f}")

    def cell(key: Readout) -> str:
        return f"{accuracies[key]:7.4f}{'*' if key == best else ' '}"

    if layers:
        print(f"  {'layer':10}{''.join(f'{name:>7} ' for name in poolings)}".rstrip())
    for layer in layers:
        print(f"  {layer or 'embedding':<10}{''.join(cell((layer, name)) for name in poolings)}".rstrip())
    if (None, PUBLISHED) in accuracies:
        print(f"  {PUBLISHED:10}{cell((None, PUBLISHED))}".rstrip())
    print(
        f"  * {found['accuracy']:.4f} ± {found['standard_error']:.4f} (standard error of so many test rows): the readout that is best "
        "on held-out training rows"
    )
