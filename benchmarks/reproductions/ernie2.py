"""What do the schedules of ERNIE 2.0 forget? Sequential, joint and continual learning of four tasks (Sun et al., 2020, table 7).

    python -m benchmarks.reproductions.ernie2 --text=train.txt --heldout=heldout.txt --work_dir=work

Texts are documents that are parted by blank lines, a paragraph a line. Runs of equally many steps of each task, which differ in
`--task_schedule` only, are scored on held-out text in every task. `--peer` has Hugging Face's ERNIE learn the order of parts alone.
Interrupted, the same command goes on.
"""

import argparse
import collections
import json
import os
import statistics

import numpy as np

from benchmarks.measure import table
from benchmarks.reproductions import commands, pages, peer_ernie
from benchmarks.reproductions.pretraining_inputs import numbers
from data_pipelines.batches.dataset import Batches
from data_pipelines.ops.paragraphs import frame_reordered, permutations
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import Vocabulary

NAME, LENGTH, VOCABULARY = "ernie2", 128, 4000
TASKS = ("masking", "capitals", "token_document", "reordering")
SCHEDULES = ("sequential", "joint", "continual")
LOSS, RIGHT = "masking/masked_lm", "masking/masked_lm_accuracy"
ORDER = "reordering/sentence_reordering_accuracy"
MEASURES = {  # measure -> what it is called, and how it is written
    LOSS: ("masking, nats", ".2f", 1),
    RIGHT: ("masking, right, %", ".1f", 100),
    "capitals/capitals_accuracy": ("capitals, right, %", ".1f", 100),
    "token_document/repeated_tokens_accuracy": ("token_document, right, %", ".1f", 100),
    ORDER: ("reordering, right, %", ".1f", 100),
}
SHARES = {  # measure -> the share of one of two classes
    "capitals/capitals_accuracy": "capitals/capitals_share",
    "token_document/repeated_tokens_accuracy": "token_document/repeated_tokens_share",
}
FORGETS, POINTS, EQUAL = 0.3, 0.03, 0.05  # nats, of 1, nats: set before any score was seen


def prepare(flags) -> dict[str, str]:
    """The folders of the records to learn from and to be scored on."""
    vocabulary, found = os.path.join(flags.work_dir, "vocab.txt"), {}
    if not os.path.exists(vocabulary):
        commands.run("train_vocabulary", input_file=flags.text, vocab_size=VOCABULARY, output_file=vocabulary)
    for part in ("text", "heldout"):
        found[part] = os.path.join(flags.work_dir, f"records-{part}")
        commands.make_records(
            found[part],
            input_file=getattr(flags, part),
            vocab_file=vocabulary,
            packing="paragraph",
            max_seq_length=LENGTH,
        )
    return found


def trained(flags, records: dict[str, str], schedule: str, seed: int) -> str:
    """The folder of a run."""
    folder = os.path.join(flags.work_dir, f"{schedule}-{seed}")
    if not commands.is_finished(folder):
        commands.run(
            "pretrain", system="ernie2", size="tiny", data_dir=records["text"], eval_data_dir=records["heldout"], model_dir=folder,
            task_schedule=schedule, task_steps=",".join(f"{task}:{flags.steps}" for task in TASKS), train_batch_size=flags.batch_size,
            num_warmup_steps=flags.steps // 5, log_steps=50, eval_every=flags.steps, eval_steps=40, save_checkpoints_steps=flags.steps,
            keep_checkpoint_max=1, seed=seed,
        )  # fmt: skip
    return folder


def orders(folder: str) -> tuple[float, float]:
    """How often the commonest order of reordering is right on these records, and one drawn from those of as many parts."""
    batches = Batches(
        RecordSource(folder), frame_reordered(Vocabulary.read(os.path.join(folder, "vocab.txt")), LENGTH), 64
    )
    labels = [batch["reordering_labels"].numpy()[batch["example_weights"].numpy() > 0] for batch in batches.once()]
    shares = collections.Counter(np.concatenate(labels).tolist())
    total, of_parts = sum(shares.values()), collections.defaultdict(list)
    for place, order in enumerate(permutations(3)):
        of_parts[len(order)].append(shares[place] / total)
    drawn = sum(sum(each) / len(each) for each in of_parts.values())
    return max(shares.values()) / total, drawn


def claims_of(found: dict[str, list[dict[str, float]]], drawn: float) -> dict[str, bool]:
    """What the paper's reasons for its schedule are, and whether they came out on average.

    Args:
        drawn: how often an order is right that is drawn from those of as many parts.
    """
    loss, capitals, order = (
        {schedule: statistics.mean(each[measure] for each in runs) for schedule, runs in found.items()}
        for measure in (LOSS, "capitals/capitals_accuracy", ORDER)
    )
    best = max(capitals["joint"], capitals["continual"])
    return {
        f"one task after the other forgets: {FORGETS} nats of masking or more against continual learning": (
            loss["sequential"] > loss["continual"] + FORGETS
        ),
        f"and {100 * POINTS:.0f} points of capitals": capitals["sequential"] < best - POINTS,
        f"continual learning is within {EQUAL} nats of joint learning in masking, or better": (
            loss["continual"] < loss["joint"] + EQUAL
        ),
        "and as good or better in reordering, which joins last, and there a point better than an order that is drawn": (
            order["continual"] >= max(order["joint"], drawn + 0.01)
        ),
    }


def majority(folder: str, scores: dict[str, float]) -> dict[str, float]:
    """What always naming the commonest token or class gets right, by measure, where the run has counted it."""
    with open(os.path.join(folder, "baseline.json"), encoding="utf-8") as file:
        found = {RIGHT: json.load(file)["unigram_baseline"]}
    return found | {measure: max(scores[share], 1 - scores[share]) for measure, share in SHARES.items()}


def of_peer(flags, run: str) -> str:
    unused = os.path.join(flags.work_dir, "peer-unused")
    found = [peer_ernie.right(run, unused, flags.steps, seed) for seed in flags.seeds]
    return (
        f"{peer_ernie.NAME} in PyTorch (`benchmarks/reproductions/peer_ernie.py`), with random weights and {flags.steps:,} steps of "
        f"the batches of reordering alone, names {pages.mean_and_deviation(found, '.1f', 100)} % of the orders."
    )


def write(flags, runs: dict[str, list[str]], heldout: str) -> None:
    found = {schedule: [commands.results_of(run) for run in folders] for schedule, folders in runs.items()}
    print(json.dumps(found), flush=True)
    first = runs[SCHEDULES[0]][0]
    commonest, drawn = orders(heldout)
    common_ones = majority(first, commands.results_of(first)) | {ORDER: commonest}
    rows = [
        [
            title,
            *(pages.mean_and_deviation([each[measure] for each in found[name]], form, scale) for name in SCHEDULES),
            format(scale * common_ones[measure], form) if measure in common_ones else "",
        ]
        for measure, (title, form, scale) in MEASURES.items()
    ]
    parts = [
        f"ERNIE 2.0 (Sun et al., 2020), `--size=tiny` with the numbers of small networks, {flags.steps:,} steps of "
        f"{flags.batch_size} rows of {LENGTH} for each of {', '.join(TASKS)}, in this order. Scores on held-out text after the last "
        f"step, means and sample standard deviations of {len(flags.seeds)} seeds.",
        pages.verdict(claims_of(found, drawn)),
        table(["held-out", *SCHEDULES, "the commonest"], rows),
        "The network sees into how many parts a paragraph was cut; an order drawn from those of as many parts is right "
        f"{100 * drawn:.1f} % of the time.",
        *([of_peer(flags, first)] if flags.peer else ()),
        "The paper compares fine-tuned tasks (GLUE), which want far larger networks to differ; what a schedule keeps of each task is "
        "its reason for them. No bag of words stands beside the rows: three tasks ask about tokens, and another order of the parts "
        "changes no word.",
        f"![Masking after each stage]({NAME}.png)",
        pages.environment(command(flags), flags.seeds),
    ]
    pages.write_page(NAME, "ERNIE 2.0: what schedules of tasks forget", parts, flags.output_dir)
    pages.write_picture(NAME, lambda figure: draw(figure, runs), 5.0, 3.2, flags.output_dir)


def curve(folder: str) -> list[tuple[int, float]]:
    """(step, held-out nats of masking) of a run's evaluations."""
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    return [(each["step"], each[LOSS]) for each in entries if each["kind"] == "evaluation" and LOSS in each]


def draw(figure, runs: dict[str, list[str]]) -> None:
    axes = figure.add_subplot()
    for place, (schedule, folders) in enumerate(runs.items()):
        for number, folder in enumerate(folders):
            axes.plot(
                *zip(*curve(folder), strict=True), marker="o", color=f"C{place}", linewidth=1.2, label=None if number else schedule
            )  # fmt: skip
    axes.set(title="masking, a line for each seed", xlabel="step", ylabel="held-out nats of a hidden token")
    axes.legend(frameon=False)


def command(flags) -> str:
    files = ["--text=…", "--heldout=…", "--work_dir=work"]
    changed = pages.changed(flags, parser().parse_args(files), ("steps", "batch_size"))
    return " ".join([f"python -m benchmarks.reproductions.{NAME}", *files, *changed, *["--peer"] * flags.peer])


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--text", required=True, help="to learn from")
    made.add_argument("--heldout", required=True, help="to be scored on")
    made.add_argument("--work_dir", required=True, help="of records and runs; kept")
    made.add_argument("--steps", type=int, default=1000, help="of each task")
    made.add_argument("--batch_size", type=int, default=16)
    made.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    made.add_argument("--peer", action="store_true", help="Hugging Face's ERNIE too; needs torch and transformers")
    made.add_argument("--output_dir", default=pages.RESULTS, help="for the page and the picture")
    return made


def main() -> None:
    flags = parser().parse_args()
    os.makedirs(flags.work_dir, exist_ok=True)
    records = prepare(flags)
    runs = {schedule: [trained(flags, records, schedule, seed) for seed in flags.seeds] for schedule in SCHEDULES}
    write(flags, runs, records["heldout"])


if __name__ == "__main__":
    main()
