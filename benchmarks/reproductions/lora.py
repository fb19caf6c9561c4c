"""LoRA against full fine-tuning at equal steps: points, memory, time and size of states (Hu et al., 2021, arXiv 2106.09685, table 2).

    python -m benchmarks.reproductions.lora --checkpoint=hf:minilm --train=train.tsv --dev=dev.tsv --test=test.tsv --folder=lora

All arms learn the same rows equally often: all weights; adapters of rank 1 and 8 beside queries and values; adapters of rank 8 beside
all kernels; the head alone; all weights from random ones. The first seed chooses the rate of each on the development rows; the test
rows choose nothing. Each fine-tuning is a process of its own, of which the system tells memory and time. Tables have the columns
`text` and `label`. Interrupted, the same command goes on.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from benchmarks.measure import table
from benchmarks.reproductions.commands import fine_tuned, kept, network_of, tuned
from benchmarks.reproductions.pages import (
    RESULTS,
    environment,
    mean_and_deviation,
    take_further_flags,
    verdict,
    write_page,
)
from benchmarks.reproductions.shared_inputs import write_table
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table
from data_pipelines.finetuning.linear import bag_of_words, majority
from xmodels.export.comparison import folder_size

BATCH, EVALUATIONS = 16, 3  # of a fine-tuning, which choose the state that is kept
FULL, HEAD, SCRATCH = "all weights", "the head alone", "all weights, from random ones"
LOW, USUAL, WIDE = "LoRA 1: query, value", "LoRA 8: query, value", "LoRA 8: all kernels"
KERNELS = "query,key,value,merge,expand,contract"
ARMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # flags, rates
    FULL: ((), ("5e-5", "1e-4")),
    LOW: (("--lora_rank=1",), ("1e-3", "3e-3")),
    USUAL: (("--lora_rank=8",), ("1e-3", "3e-3")),
    WIDE: (("--lora_rank=8", f"--lora_layers={KERNELS}"), ("5e-4", "1e-3")),
    HEAD: (("--freeze_backbone",), ("1e-2", "3e-2")),
    SCRATCH: (("--random_init",), ("1e-4", "3e-4")),
}


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    limits = {"train": options.train_rows, "dev": options.dev_rows, "test": options.test_rows}
    rows = {
        part: read_table(getattr(options, part), Columns("text", None, "label"))[:limit]
        for part, limit in limits.items()
    }
    files = {part: write_table(os.path.join(options.folder, f"{part}.tsv"), each) for part, each in rows.items()}
    found = {name: arm(options, files, name, len(rows["train"])) for name in ARMS}
    write_report(options, rows, found)


def arm(options, files: dict[str, str], name: str, count: int) -> tuple[str, list[dict[str, float]]]:
    """The rate of an arm, which the first seed chose, and what is known of its runs."""
    switches, rates = ARMS[name]

    def scored(rate: str, seed: int) -> dict[str, float]:
        folder = os.path.join(
            options.folder, "runs", f"{'-'.join(name.replace(',', '').replace(':', '').split())}-{rate}-{seed}"
        )
        flags = {
            "task": "classify", "init_checkpoint": options.checkpoint, "train_file": files["train"], "eval_file": files["dev"],
            "test_file": files["test"], "learning_rate": rate, "seed": seed, "num_train_epochs": options.epochs,
            "train_batch_size": BATCH, "eval_every": max(1, int(options.epochs * count // BATCH // EVALUATIONS)),
            "max_seq_length": options.max_seq_length, "length_buckets": "auto",
        }  # fmt: skip
        given = [*switches, *options.more, *(f"--{key}={value}" for key, value in flags.items())]
        used = kept(f"{folder}.json", used_by, folder, given)
        return used | fine_tuned(folder)

    return tuned(scored, rates, options.seeds, "evaluation accuracy")


def used_by(folder: str, flags: list[str]) -> dict[str, float]:
    """What a fine-tuning in a process of its own takes: GiB at most, processor seconds of all and of a step, MB of its last state."""
    process = subprocess.Popen([sys.executable, "-m", "launch.finetune", f"--model_dir={folder}", *flags])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"xmodels finetune {' '.join(flags)} ended with {os.waitstatus_to_exitcode(status)}.")
    state = max(os.scandir(os.path.join(folder, "checkpoints")), key=lambda each: each.name).path
    return {
        "GiB": usage.ru_maxrss / 2**20,
        "seconds": usage.ru_utime + usage.ru_stime,
        "a step": step_seconds(folder),
        "MB": folder_size(state) / 1e6,
    }


def step_seconds(folder: str) -> float:
    """The median of the processor seconds of a step, of those that the log tells."""
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
        logged = [json.loads(line) for line in file]
    return statistics.median(each["step_processor_seconds"] for each in logged if "step_processor_seconds" in each)


def write_report(options, rows, found: dict[str, tuple[str, list[dict[str, float]]]]) -> None:
    accuracies = {name: [100 * each["test accuracy"] for each in runs] for name, (_, runs) in found.items()}
    means = {name: statistics.mean(values) for name, values in accuracies.items()}
    typical = {name: {key: statistics.median(each[key] for each in runs) for key in ("GiB", "seconds", "a step", "MB")}
               for name, (_, runs) in found.items()}  # fmt: skip
    adapted = max((LOW, USUAL, WIDE), key=means.get)
    claims = {
        f"LoRA is within a point of full fine-tuning ({adapted})": means[adapted] >= means[FULL] - 1,
        "adapters beside queries and values are better than the head alone by two points or more": means[USUAL] >= means[HEAD] + 2,
        "rank 1 is within a point of rank 8": means[LOW] >= means[USUAL] - 1,
        "states are a tenth in size or less": typical[USUAL]["MB"] <= typical[FULL]["MB"] / 10,
        "it takes less memory": typical[USUAL]["GiB"] < typical[FULL]["GiB"],
        "a step takes less time": typical[USUAL]["a step"] < typical[FULL]["a step"],
    }  # fmt: skip
    baselines = (majority([row.label for row in rows["train"]], [row.label for row in rows["test"]]),
                 bag_of_words(rows["train"], rows["test"]).accuracy)  # fmt: skip
    names = ("commonest label", "bag of words")
    lines = [[name, f"{100 * value:.1f}", *[""] * 5] for name, value in zip(names, baselines, strict=True)]
    lines += [
        [name, mean_and_deviation(accuracies[name]), rate, f"{typical[name]['GiB']:.2f}", f"{typical[name]['a step']:.3f}"]
        + [f"{typical[name]['seconds']:.0f}", f"{typical[name]['MB']:.1f}"]
        for name, (rate, _) in found.items()
    ]  # fmt: skip
    parts = [
        verdict(claims),
        table(["arm", "accuracy", "rate", "GiB", "seconds a step", "seconds", "MB of a state"], lines),
        f"Accuracy in percent on {len(rows['test']):,} rows, mean and deviation of {len(options.seeds)} seeds; "
        f"{len(rows['train']):,} rows to learn from, {options.epochs:g} epochs in batches of {BATCH}"
        f"{''.join(f', `{flag}`' for flag in options.more)}. Of {EVALUATIONS} states the best on {len(rows['dev']):,} other rows is "
        f"kept. The network: {network_of(options.checkpoint)}.",
        "GiB and seconds of the processor are those of the whole process, with imports, tracing and evaluations, and those of a step "
        "of training: medians of the seeds, and of the steps. A state "
        "holds what learns and the slots of its optimizer.",
        "Rates to choose from: " + "; ".join(f"{name} {', '.join(rates)}" for name, (_, rates) in ARMS.items()) + ".",
        environment("python -m benchmarks.reproductions.lora …", options.seeds),
    ]  # fmt: skip
    print(write_page("lora_en", "Adapters in place of all weights", parts, folder=options.results))


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("checkpoint", "train", "dev", "test", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--train_rows", type=int, default=1000)
    parser.add_argument("--dev_rows", type=int, default=300)
    parser.add_argument("--test_rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--max_seq_length", type=int, default=64)
    parser.add_argument("--results", default=RESULTS, help="where the page goes")
    take_further_flags(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
