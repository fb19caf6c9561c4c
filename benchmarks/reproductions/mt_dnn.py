"""Do tasks gain from each other, and does a new one with few labels? Is the answer network better than a linear head?
(Liu et al., 2019, arXiv 1901.11504, tables 2, 3 and 5)

    python -m benchmarks.reproductions.mt_dnn --tasks_file=samples/mt_dnn/tasks.yaml --set=DATA=data --target=snli \\
        --init_checkpoint=run --folder=work [--smoke]

The comparisons, all from one pretrained network, with equally many steps on either side:
1. all tasks together against each alone, with the same heads (MT-DNN against ST-DNN);
2. the target from a network that has learnt all other tasks against the pretrained one, with 0.1, 1, 10 and 100 % of its labels;
3. the target, a task of pairs, by a stochastic answer network against a linear head;
4. with `--other_pooling`, the first comparison again where heads of one state read that one.
Beside them stand the same networks from random weights, each task alone, at rates of their own.
Of several rates each arm takes the one that is best on its development rows with the first seed. Where the file of tasks names no
test_file, the eval_file is cut in two. Runs that are finished in the folder are not repeated.
"""

import argparse
import dataclasses
import json
import os
import random
import statistics
import sys

from benchmarks.reproductions import peer_mt_dnn
from benchmarks.reproductions.commands import fine_tuned, is_finished, results_of, run
from benchmarks.reproductions.mt_dnn_report import ALONE, OTHERS, PRETRAINED, RANDOM, TOGETHER, write_report
from benchmarks.reproductions.pages import RESULTS, take_further_flags

COLUMNS = ("text_column", "text_pair_column", "label_column")
OF_FILES = (*COLUMNS, "relevant_label", "train_file", "eval_file", "test_file", "data_dir")
SMOKE = {
    "rows": 48,
    "dev_rows": 24,
    "seeds": [1],
    "rates": [1e-3],
    "random_rates": [1e-3],
    "epochs": 1.0,
    "least_steps": 2,
    "fractions": [0.5, 1.0],
}
CANDIDATES = 5  # a list counts as so many rows


def main() -> None:
    flags = parse(sys.argv[1:])
    os.makedirs(flags.folder, exist_ok=True)
    given, target = write_tasks(flags)
    tasks = read_by(flags.pooling, given)
    scores = {TOGETHER: together(flags, tasks), ALONE: alone(flags, tasks), RANDOM: alone(flags, tasks, is_random=True)}
    other = read_by(flags.other_pooling, given) if flags.other_pooling else None
    others = other and {TOGETHER: together(flags, other), ALONE: alone(flags, other)}
    few = few_labels(flags, tasks, target)
    most = max(flags.fractions)
    heads = {
        f"answer network, {RANDOM}": few[RANDOM][most], f"linear head, {RANDOM}": linear(flags, target, is_random=True),
        "answer network": few[PRETRAINED][most], "linear head": linear(flags, target),
    }  # fmt: skip
    peer = None
    if flags.peer:
        poolings = [flags.pooling, *([flags.other_pooling] if flags.other_pooling else ())]
        peer = {
            each: peer_mt_dnn.scores(flags, tasks, target, flags.peer, each, few=each == flags.pooling)
            for each in poolings
        }
    write_report(flags, tasks, target, scores, others, few, heads, peer)


def parse(arguments) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tasks_file", "target", "init_checkpoint", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--set", default=None)
    parser.add_argument("--seeds", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 3])
    numbers = lambda text: [float(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--rates", type=numbers, default=[5e-5, 2e-4, 8e-4])
    parser.add_argument(
        "--random_rates", type=numbers, default=[1e-4, 3e-4, 1e-3], help="of networks of random weights"
    )
    parser.add_argument("--optimizer", default="mt_dnn_adamax", help="muon where it has trained the network")
    parser.add_argument("--fractions", type=numbers, default=[0.001, 0.01, 0.1, 1.0])
    parser.add_argument(
        "--pooling", default="published", help="state that the heads of one state read, as in `finetune`"
    )
    parser.add_argument("--other_pooling", default=None, help="the first comparison by this one too")
    parser.add_argument("--epochs", type=float, default=5.0)
    parser.add_argument("--least_steps", type=int, default=150, help="of a run with few labels")
    parser.add_argument("--rows", type=int, default=None, help="at most so many to learn from, of each task")
    parser.add_argument("--target_rows", type=int, default=None, help="those of the target in 2 and 3, if not --rows")
    parser.add_argument("--dev_rows", type=int, default=None, help="at most so many to choose a rate by")
    parser.add_argument("--test_rows", type=int, default=None, help="at most so many to score, if not --dev_rows")
    parser.add_argument(
        "--peer", type=float, default=None, help="rate at which Hugging Face's BERT learns the tasks too"
    )
    parser.add_argument("--peer_seeds", type=int, nargs="+", default=[1], help="of its runs")
    parser.add_argument("--smoke", action="store_true", help="a few rows and steps: whether all of it works")
    parser.add_argument("--results", default=RESULTS, help="where the page goes")
    take_further_flags(parser)
    flags = parser.parse_args(arguments)
    if flags.smoke:
        vars(flags).update(SMOKE)
    return flags


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of the file: its kind, its score, the flags of `finetune` but for files, and the files of the folder."""

    kind: str
    score: str
    flags: dict
    files: dict[str, str]
    count: int


def write_tasks(flags) -> tuple[dict[str, Task], Task]:
    """All tables in one form, cut to what is asked for, and the target with the labels of which shares are taken."""
    from data_pipelines.strict_yaml import variables_of
    from xmodels.jobs.multitask.tasks_file import read_tasks_file
    from xmodels.tasks.base.find import load_part

    plan, found, target = read_tasks_file(flags.tasks_file, variables_of(flags.set)), {}, None
    for name, own in plan.tasks.items():
        values = plan.defaults | own
        kind = values.pop("task", "classify")
        parts = {each: examples(kind, values, values.get(f"{each}_file")) for each in ("train", "eval", "test")}
        if not parts["test"]:
            parts["eval"], parts["test"] = halves(parts["eval"])
        limits = {"train": flags.rows, "eval": flags.dev_rows, "test": flags.test_rows or flags.dev_rows}
        if kind == "rank":
            limits = {part: limit and limit // CANDIDATES for part, limit in limits.items()}
        files = {f"{each}_file": write(flags, name, each, rows[: limits[each]]) for each, rows in parts.items()}
        score = values.get("best_metric") or load_part(kind, "score").SELECTION_METRIC
        kept = {key: value for key, value in values.items() if key not in OF_FILES}
        found[name] = Task(kind, score, kept, files, len(parts["train"][: limits["train"]]))
        if name == flags.target and kind == "san":
            rows = parts["train"][: flags.target_rows or flags.rows]
            own = files | {"train_file": write(flags, name, "shares", rows)}
            target = dataclasses.replace(found[name], files=own, count=len(rows))
    if target is None:
        raise SystemExit(f"--target={flags.target}: must be a task of {flags.tasks_file} with `task: san`.")
    return found, target


def read_by(pooling: str, tasks: dict[str, Task]) -> dict[str, Task]:
    """The tasks with that pooling, where a head reads one state; an answer network reads all words."""
    return {
        name: task if task.kind == "san" else dataclasses.replace(task, flags=task.flags | {"pooling": pooling})
        for name, task in tasks.items()
    }


def label_of(arm: str, task: Task) -> str:
    """What the folders of its runs are named after."""
    return "_".join([arm, *([task.flags["pooling"]] if "pooling" in task.flags else ())])


def pooling_in(tasks: dict[str, Task]) -> str:
    """That of the tasks that have one."""
    return next((task.flags["pooling"] for task in tasks.values() if "pooling" in task.flags), "published")


def examples(kind: str, values: dict, path: str | None) -> list[dict]:
    """The rows or lists of a file, shuffled by a fixed seed; none without a file."""
    from data_pipelines.corpora.tables import Columns, read_table
    from xmodels.tasks.rank.read import read_lists, relevances

    if path is None:
        return []
    columns = Columns(*(None if values.get(name) is None else str(values[name]) for name in COLUMNS))
    if kind == "rank":
        lists = read_lists(path, columns, [], values.get("relevant_label"))
        rows = [{"query": e.query, "candidates": e.candidates, "labels": relevances(e)} for e in lists]
        rows = [row for row in rows if len(set(row["labels"])) > 1]  # others have nothing to order
    else:
        names = ("text", "text_pair")
        rows = [
            dict(zip(names, row.texts, strict=False)) | {"label": row.label} for row in read_table(path, columns, bad_rows=[])
        ]  # fmt: skip
    random.Random(0).shuffle(rows)
    return rows


def halves(rows: list) -> tuple[list, list]:
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def write(flags, name: str, part: str, rows: list[dict]) -> str:
    """Rows as JSON lines of the folder. Returns their path."""
    path = os.path.join(flags.folder, f"{name}_{part}.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path


def shared(flags, seed: int, rate: float, epochs: float) -> dict:
    """The flags that all runs have."""
    return {
        "seed": seed, "learning_rate": rate, "num_train_epochs": epochs, "optimizer": flags.optimizer, "warmup_proportion": 0.1,
        "lr_schedule": "bert_linear", "save_checkpoints_steps": 10_000, "keep_checkpoint_max": 1,
    }  # fmt: skip


def best_rate(rates: list[float], scored) -> float:
    """The rate with which `scored` gives most; it is not asked where there is one only."""
    return rates[0] if len(rates) == 1 else max(rates, key=scored)


def multitask(flags, tasks: dict[str, Task], label: str, seed: int, rate: float) -> str:
    """The folder of a run of several tasks."""
    folder = os.path.join(flags.folder, f"{label}_{seed}_{rate:g}")
    if not is_finished(folder):
        path = os.path.join(flags.folder, f"{label}.yaml")
        with open(path, "w", encoding="utf-8") as file:  # JSON is YAML
            json.dump({"tasks": {n: {"task": t.kind, **t.flags, **t.files} for n, t in tasks.items()}}, file, indent=1)
        given = {"tasks_file": path, "init_checkpoint": flags.init_checkpoint, "model_dir": folder}
        run("multitask", *flags.more, **given, **shared(flags, seed, rate, flags.epochs))
    return folder


def finetune(
    flags, task: Task, label: str, seed: int, rate: float, origin: str, epochs: float | None = None, **others
) -> dict[str, float]:
    """The scores of a run of one task."""
    return fine_tuned(
        os.path.join(flags.folder, f"{label}_{seed}_{rate:g}"), *flags.more,
        **shared(flags, seed, rate, epochs or flags.epochs), init_checkpoint=origin, task=task.kind, **task.flags, **task.files,
        **others,
    )  # fmt: skip


def together(flags, tasks: dict[str, Task]) -> dict[str, list[float]]:
    """{task: test scores} of all tasks learnt at once."""

    label = f"joint_{pooling_in(tasks)}"

    def scored(rate):
        results = results_of(multitask(flags, tasks, label, flags.seeds[0], rate))
        return statistics.mean(results[f"{name} evaluation {task.score}"] for name, task in tasks.items())

    rate, found = best_rate(flags.rates, scored), {name: [] for name in tasks}
    for seed in flags.seeds:
        results = results_of(multitask(flags, tasks, label, seed, rate))
        for name, task in tasks.items():
            found[name].append(results[f"{name} test {task.score}"])
    return found


def over_seeds(
    flags, task: Task, label: str, origins: dict[int, str], is_random: bool = False, **others
) -> list[float]:
    """The test scores of one task from `origins`, {seed: checkpoint}, or their random weights, with the best rate."""
    if is_random:
        others["random_init"] = "true"

    def results(seed, rate):
        return finetune(flags, task, label, seed, rate, origins[seed], **others)

    rates = flags.random_rates if is_random else flags.rates
    rate = best_rate(rates, lambda rate: results(flags.seeds[0], rate)[f"evaluation {task.score}"])
    return [results(seed, rate)[f"test {task.score}"] for seed in flags.seeds]


def alone(flags, tasks: dict[str, Task], is_random: bool = False) -> dict[str, list[float]]:
    """{task: test scores} of each task learnt alone, with the same heads."""
    origins = dict.fromkeys(flags.seeds, flags.init_checkpoint)
    arm = "random" if is_random else "alone"
    return {
        name: over_seeds(flags, task, label_of(f"{arm}_{name}", task), origins, is_random)
        for name, task in tasks.items()
    }


def few_labels(flags, tasks: dict[str, Task], target: Task) -> dict[str, dict[float, list[float]]]:
    """{beginning: {share of the labels: test scores}} of the target."""
    others = {name: task for name, task in tasks.items() if name != flags.target}
    beginning = f"others_{pooling_in(others)}"

    def scored(rate):
        results = results_of(multitask(flags, others, beginning, flags.seeds[0], rate))
        return statistics.mean(results[f"{name} evaluation {task.score}"] for name, task in others.items())

    rate = best_rate(flags.rates, scored)
    origins = {
        RANDOM: dict.fromkeys(flags.seeds, flags.init_checkpoint),
        PRETRAINED: dict.fromkeys(flags.seeds, flags.init_checkpoint),
        OTHERS: {seed: multitask(flags, others, beginning, seed, rate) for seed in flags.seeds},
    }
    found = {}
    for label, each in origins.items():
        found[label] = {}
        for fraction in flags.fractions:
            name = f"few_{label.split()[0]}_{fraction:g}"
            if label == OTHERS:
                name += f"_{pooling_in(others)}"
            given = {
                "epochs": epochs_of(flags, target, fraction),
                "train_fraction": fraction,
                "is_random": label == RANDOM,
            }
            found[label][fraction] = over_seeds(flags, target, name, each, **given)
    return found


def epochs_of(flags, target: Task, fraction: float) -> float:
    """As many passes as make `least_steps` updates, of few rows."""
    batches = max(1.0, fraction * target.count / target.flags.get("train_batch_size", 32))
    return max(flags.epochs, flags.least_steps / batches)


def linear(flags, target: Task, is_random: bool = False) -> list[float]:
    """Test scores of the target with a linear head, all labels, and as many steps."""
    target = dataclasses.replace(target, kind="classify", flags=target.flags | {"pooling": flags.pooling})
    origins = dict.fromkeys(flags.seeds, flags.init_checkpoint)
    label = label_of("random_linear" if is_random else "linear", target)
    return over_seeds(flags, target, label, origins, is_random, epochs=epochs_of(flags, target, 1.0))


if __name__ == "__main__":
    main()
