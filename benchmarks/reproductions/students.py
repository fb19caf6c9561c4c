"""Students of FastBERT's page: fewer layers, taught by the network of all layers (TinyBERT, arXiv 1909.10351), and 8 bits."""

import functools
import json
import os
import shutil
from collections.abc import Callable, Sequence

from benchmarks.reproductions.commands import fine_tuned, results_of, run, tuned

ALONE, ANSWERS, LAYERS = "alone", "taught by answers", "taught by layers and answers"
EXPORTS = ("float32", "int8")


def arms_of(layers: str, epochs: float) -> dict[str, dict]:
    """The flags of each way to teach a student, without those that name its teacher."""
    taught = {"distill_share": 1, "distill_temperature": 1}
    by_layers = {"distill_layers": "all", "distill_layers_epochs": epochs}
    arms = {ALONE: {}, ANSWERS: taught, LAYERS: taught | by_layers}
    return {name: {"init_layers": layers} | flags for name, flags in arms.items()}


def students(options, files: dict[str, str], checkpoint: str, teachers: Sequence[str]) -> dict[str, list[str]]:
    """{way: folders of all seeds}, each at the rate that the first seed chose on the development rows.

    Args:
        teachers: a fine-tuned run of all layers for each seed.
    """
    teacher = dict(zip(options.seeds, teachers, strict=True))

    def folder(name: str, rate: str, seed: int) -> str:
        return os.path.join(options.folder, f"student-{name.replace(' ', '-')}-{rate}-{seed}")

    def scored(name: str, flags: dict, rate: str, seed: int) -> dict[str, float]:
        taught = {"teacher": teacher[seed]} if "distill_share" in flags else {}
        return fine_tuned(
            folder(name, rate, seed), *options.more, keep_weights=True, task="classify", init_checkpoint=checkpoint,
            learning_rate=rate, seed=seed, num_train_epochs=options.epochs, train_batch_size=options.batch_size,
            max_seq_length=options.max_seq_length, length_buckets="auto", **taught, **flags,
            **{f"{part}_file": path for part, path in files.items()},
        )  # fmt: skip

    found = {}
    for name, flags in arms_of(options.student_layers, options.student_epochs).items():
        run_of: Callable = functools.partial(scored, name, flags)
        rate, _ = tuned(run_of, options.rates, options.seeds, "evaluation accuracy")
        found[name] = [folder(name, rate, seed) for seed in options.seeds]
    return found


def accuracies(folders: Sequence[str]) -> list[float]:
    """The accuracy of each run on the test rows."""
    return [results_of(folder)["test accuracy"] for folder in folders]


def exports_of(options, files: dict[str, str], teacher: str, taught: dict[str, str]) -> dict[str, dict[str, dict]]:
    """{network: {precision: a row of the export's own comparison}} of the teacher and the best student, on the test rows.

    Args:
        teacher: the folder of a run.
        taught: {way: folder of a run}; without any there is nothing to compare.
    """
    if not taught:
        return {}
    best = max(taught, key=lambda name: results_of(taught[name])["evaluation accuracy"])
    found: dict[str, dict[str, dict]] = {}
    for name, folder in {"all layers": teacher, f"student {best}": taught[best]}.items():
        for precision in EXPORTS:
            path = os.path.join(options.folder, "exports", f"{name.replace(' ', '-')}-{precision}")
            table = os.path.join(path, "1", "assets.extra", "comparison.json")
            if not os.path.isfile(table):
                shutil.rmtree(path, ignore_errors=True)
                given = {"model_dir": folder, "export_dir": path, "format": "onnx", "precision": precision}
                run("export_model", **given, eval_file=files["test"])
            with open(table, encoding="utf-8") as file:
                found.setdefault(name, {})[precision] = json.load(file)["rows"][-1]
    return found
