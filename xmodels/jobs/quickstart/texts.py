"""The text of a quickstart: what this machine has of it, parted into what is learnt, held out and labelled."""

import csv
import glob
import os
import pathlib
import random
import shutil

from data_pipelines.corpora import docstrings
from data_pipelines.errors import UsageError
from data_pipelines.files import whole_file
from data_pipelines.text.sentences import split_english


def collect_english(folder: str, samples_dir: str | None) -> None:
    """Collects pretraining text, held-out text, and a task: to which package does a sentence of documentation belong?

    Modules, not sentences, are divided: one in eight is kept for testing and one in sixteen for choosing the epoch,
    and neither is pretrained on. Texts that name a package are left out of the task.
    """
    modules = docstrings.collect(900_000)
    random.Random(0).shuffle(modules)
    parts = {"test": modules[::8], "dev": modules[1::16]}
    taken = {module.path for part in parts.values() for module in part}
    parts["train"] = [module for module in modules if module.path not in taken]
    os.makedirs(folder)
    _write_documents(os.path.join(folder, "heldout.txt"), parts["test"] + parts["dev"])
    _write_documents(os.path.join(folder, "pretrain.txt"), parts["train"])
    for name, each in (("train", 40), ("dev", 40), ("test", 200)):
        _write_rows(os.path.join(folder, f"{name}.tsv"), parts[name], each)


def _write_documents(path: str, modules: list[docstrings.Module]) -> None:
    with whole_file(path, "w") as file:
        for module in modules:
            for paragraph in module.paragraphs:
                file.write("\n".join(split_english(paragraph)) + "\n")
            file.write("\n")
    characters = sum(len(p) for module in modules for p in module.paragraphs)
    print(f"    {path}: {len(modules):,} modules, {characters / 1e6:.1f} MB", flush=True)


def _tells_nothing(text: str) -> bool:
    """Returns whether a text is long enough to be told apart by its words, but does not name the package it comes from."""
    names = (*docstrings.PACKAGES, "np.", "plt.", "tf.", "axes")
    return len(text.split()) >= 12 and "\t" not in text and not any(name in text.lower() for name in names)


def _write_rows(path: str, modules: list[docstrings.Module], each: int) -> None:
    rows = []
    for package in docstrings.PACKAGES:
        texts = [text for m in modules if m.package == package for text in m.paragraphs if _tells_nothing(text)]
        random.Random(package).shuffle(texts)
        rows += [(package, text) for text in texts[:each]]
    random.Random(0).shuffle(rows)
    with whole_file(path, "w", newline="") as file:
        csv.writer(
            file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None, escapechar="\\"
        ).writerows([("label", "text"), *rows])
    print(f"    {path}: {len(rows)} rows", flush=True)


def collect_chinese(folder: str, samples_dir: str | None) -> None:
    """Takes the samples written for this project; one document in ten of the text is held out."""
    source = os.path.join(samples_dir or os.path.join(pathlib.Path(__file__).parents[3], "samples"), "zh")
    paths = sorted(glob.glob(os.path.join(source, "*.txt")))
    if not paths:
        raise UsageError(f"{source}: no samples there. Name the folder `samples` of the repository with --samples_dir.")
    os.makedirs(folder)
    documents = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            documents += file.read().strip().split("\n\n")
    for name, part in (("heldout", documents[::10]), ("pretrain", [d for i, d in enumerate(documents) if i % 10])):
        with whole_file(os.path.join(folder, f"{name}.txt"), "w") as file:
            file.write("\n\n".join(part) + "\n")
    for name in ("train", "dev", "test"):
        shutil.copyfile(os.path.join(source, f"{name}.tsv"), os.path.join(folder, f"{name}.tsv"))
    print(f"    {folder}: {len(documents)} documents and a labelled task", flush=True)
