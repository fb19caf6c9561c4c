"""The page and the picture of the reproduction of pretraining."""

import math
import os
import shlex
import statistics

from benchmarks.measure import table
from benchmarks.reproductions import peer_bert
from benchmarks.reproductions.pages import environment, mean_and_deviation, verdict, write_page, write_picture
from benchmarks.reproductions.pretraining_inputs import RATES, path, split_spec

TITLES = {
    "en": "BERT and GPT: pretraining against random weights, English",
    "zh": "BERT, BERT-wwm and ERNIE: pretraining against random weights, Chinese",
}
GAIN = 0.02  # two points: what counts as a difference
CONTROLS = {  # arm -> the same network from random weights
    "en": {"bert": "random-bert", "roberta_wwm": "random-bert", "gpt": "random-gpt"},
    "zh": {"bert": "random-bert", "bert_wwm": "random-bert"},
}


def report(flags, found: dict, lengths: dict, gaps: dict[str, dict], peer: dict[str, float] | None) -> None:
    """The page and the picture."""
    name, rates = f"pretraining_{flags.language}", RATES
    parts = [
        f"Networks of 2 layers of 128, each pretrained once on {flags.million_tokens:g} million tokens, of {corpus(flags)}. Seeds are "
        f"of the fine-tuning, {len(flags.seeds)} of them, by Muon, mean and largest values of all states side by side, each the epoch "
        f"that is best on the development file, at the rate of {rates[0]:g} and {rates[1]:g} that is best there for the arm and the "
        "task. Random weights get the same. The test file is read once. Counting names hidden tokens by their neighbours in the "
        "training text.",
        verdict(claims(flags, found, lengths, gaps)),
        "## Tasks\n\nAccuracy on the test file in %, mean and standard deviation over seeds. The name of a task ends with its number "
        "of labelled rows.",
        accuracies(found),
        *(peer_told(found, peer) if peer else ()),
        "## Own objectives, on held-out text\n\nOf one pretraining each: read differences below a point as none.",
        objectives(found),
        "## Rows of 32 tokens and then of 128, against rows of 128 alone, at equally many tokens",
        objectives(lengths) + "\n\n" + accuracies(lengths),
    ]
    if gaps:
        parts += [
            "## Gaps in held-out text\n\nOne word of two to four characters is hidden, or one character of it. Names are words that "
            "ERNIE hides as entities: what jieba's tagger takes for a name in the training text. Right, in %:",
            table(["", *KINDS], [[arm, *(f"{100 * each[kind]:.1f}" for kind in KINDS)] for arm, each in gaps.items()]),
            "{gaps of whole words:,} words and {gaps of names:,} names, the same for all.".format_map(
                next(iter(gaps.values()))
            ),
        ]
    parts += [f"![Test accuracy by labelled rows]({name}.png)", environment(command(flags), flags.seeds, flags.jobs)]
    print(write_page(name, TITLES[flags.language], parts))
    print(write_picture(name, lambda figure: draw(figure, flags, found), width=4.5 * len(flags.task)))


def peer_told(found: dict, peer: dict[str, float]) -> list[str]:
    """What a known implementation gives at the same budget."""
    rows, pair = [], ("bert", peer_bert.NAME)
    for task, scores in found["scores"].items():
        if peer_bert.NAME in scores:
            mean = {arm: statistics.mean(score["test_accuracy"]) for arm, score in scores.items()}
            gains = [mean[arm] - mean[f"random-{arm}"] for arm in pair]
            ahead = [mean[arm] - mean["bag_of_words"] for arm in pair]
            rows.append([task, *(f"{100 * points:+.1f}" for points in (*gains, *ahead))])
    head = ["", "against random, ours", "Hugging Face", "against a bag of words, ours", "Hugging Face"]
    return [
        "## A known implementation at the same budget\n\nHugging Face's BERT in PyTorch (`benchmarks/reproductions/peer_bert.py`), "
        "from the same first weights, on the same batches with the same masks, by PyTorch's Muon and AdamW at the same rates. Of the "
        f"hidden tokens of held-out text it names {100 * peer['accuracy']:.1f} %, ours "
        f"{100 * found['objectives']['bert']['accuracies'][0]:.1f} %. How far `bert` is ahead in accuracy, in points:",
        table(head, rows),
        *([of_masks(found)] if any(PEER_ERNIE in scores for scores in found["scores"].values()) else ()),
    ]


PEER_ERNIE = "hugging_face_ernie"


def of_masks(found: dict) -> str:
    """What ERNIE's masks gain over hidden characters in the tasks that a known implementation learns too."""
    rows = []
    for task, scores in found["scores"].items():
        if PEER_ERNIE in scores:
            mean = {arm: statistics.mean(score["test_accuracy"]) for arm, score in scores.items()}
            gains = mean["ernie"] - mean["bert"], mean[PEER_ERNIE] - mean[peer_bert.NAME]
            rows.append([task, *(f"{100 * points:+.1f}" for points in gains)])
    return (
        "ERNIE's masks against hidden characters, Hugging Face's ERNIE on the batches of ours, in points:\n\n"
        + table(["", "ours", "Hugging Face"], rows)
    )


KINDS = ("whole words", "names", "characters of whole words", "single characters")


def claims(flags, found: dict, lengths: dict, gaps: dict) -> dict[str, bool]:
    """What the papers say -> whether it came out here."""
    mean = {
        (arm, task): sum(score["test_accuracy"]) / len(score["test_accuracy"])
        for task, scores in found["scores"].items()
        for arm, score in scores.items()
    }
    tasks = list(found["scores"])
    answers = {}
    for arm, control in CONTROLS[flags.language].items():
        answers[
            f"{arm}: pretrained is better than random weights by more than two points, on every task and number of rows"
        ] = all(mean[arm, task] > mean[control, task] + GAIN for task in tasks)
        answers[f"{arm}: pretrained is better than a bag of words on every task and number of rows"] = all(
            mean[arm, task] > mean["bag_of_words", task] for task in tasks
        )
        learnt = found["objectives"][arm]
        right, counted = learnt["accuracies"][0], learnt["baselines"]
        answers[f"{arm}: names more tokens of held-out text than counting the neighbours does"] = (
            right > counted["neighbour_baseline"]
        )
        if (seen := counted["visible_baseline"]) is not None:
            answers[f"{arm}: names more of them than counting those of the neighbours that are not hidden too"] = (
                right > seen
            )
    if flags.language == "en":
        largest = [task for task in tasks if task.endswith(f"-{max(flags.rows)}")]
        answers["gpt: language modelling beside the task makes less than two points of difference with most rows"] = (
            all(abs(mean["gpt", task] - mean["gpt_lm", task]) < GAIN for task in largest)
        )
    else:
        for arm, kind, told in (
            ("bert_wwm", "whole words", "whole words"),
            ("ernie", "whole words", "characters, then words, then names (ERNIE)"),
            ("ernie", "names", "characters, then words, then names (ERNIE)"),
        ):
            answers[
                f"hiding {told}: names more hidden {kind} of held-out text than hiding characters, by more than two standard errors"
            ] = gaps[arm][kind] - gaps["bert"][kind] > 2 * error(gaps[arm], gaps["bert"], kind)
            answers[f"hiding {told}: as good or better in the tasks as hiding characters, on average over them"] = (
                sum(mean[arm, task] - mean["bert", task] for task in tasks) >= 0
            )
    own = lengths["objectives"]
    answers["short rows first, then long ones: a smaller loss at full length than with long rows alone"] = (
        own["bert"]["losses"][0] < own["one_length"]["losses"][0]
    )
    return answers


def error(one: dict, other: dict, kind: str) -> float:
    """The standard error of the difference of two shares of the same gaps, as if they were independent."""
    return math.sqrt(sum(each[kind] * (1 - each[kind]) / each[f"gaps of {kind}"] for each in (one, other)))


def accuracies(found: dict) -> str:
    tasks = list(found["scores"])
    arms = list(dict.fromkeys(arm for scores in found["scores"].values() for arm in scores))

    def cell(task, arm):
        score = found["scores"][task].get(arm)
        return mean_and_deviation(score["test_accuracy"], scale=100) if score else ""

    return table(["", *tasks], [[arm, *(cell(task, arm) for task in tasks)] for arm in arms])


def objectives(found: dict) -> str:
    rows = []
    for arm, each in found["objectives"].items():
        base, cost = each["baselines"], found["costs"][arm]
        seen = base["visible_baseline"]
        rows.append([
            arm, mean_and_deviation(each["token_losses"], ".2f"), mean_and_deviation(each["accuracies"], scale=100),
            f"{100 * base['neighbour_baseline']:.1f}",
            "" if seen is None else f"{100 * seen:.1f}", f"{100 * base['unigram_baseline']:.1f}", f"{cost['num_steps']:,}",
            f"{cost['num_steps'] * cost['step']['processor_seconds'] / 60:.1f}",
        ])  # fmt: skip
    head = [
        "",
        "tokens, nats",
        "tokens right, %",
        "counting neighbours, %",
        "… where they are not hidden too, %",
        "commonest token, %",
        "steps",
        "processor minutes",
    ]
    return table(head, rows)


def corpus(flags) -> str:
    characters = os.path.getsize(path(flags, "train.jsonl"))
    return f"{characters / 1e6:.1f} MB of text, that of the training rows without labels among it"


def command(flags) -> str:
    """The command without the places of the files."""
    tasks = []
    for spec in flags.task:
        *names, files = split_spec(spec)
        tasks.append(f"--task={':'.join(names)}={','.join(map(os.path.basename, files))}")
    text = ",".join(map(os.path.basename, flags.text.split(",")))
    given = {name: getattr(flags, name, None) for name in ("rows", "seeds", "peer_rows")}
    numbers = [f"--{name}={','.join(map(str, each))}" for name, each in given.items() if each]
    numbers += [f"--mixed_precision={flags.mixed_precision}"] if flags.mixed_precision else []
    return shlex.join([
        "python", "-m", "benchmarks.reproductions.pretraining", f"--language={flags.language}", f"--text={text}",
        f"--paragraphs={flags.paragraphs}",
        "--work_dir=work", *tasks, *numbers, f"--million_tokens={flags.million_tokens:g}",
    ])  # fmt: skip


def draw(figure, flags, found: dict) -> None:
    names = [split_spec(spec)[0] for spec in flags.task]
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    arms = list(dict.fromkeys(arm for scores in found["scores"].values() for arm in scores))
    for panel, name in zip(axes, names, strict=True):
        for arm in arms:
            scores = {size: found["scores"][f"{name}-{size}"].get(arm) for size in flags.rows}
            means = {size: 100 * statistics.mean(each["test_accuracy"]) for size, each in scores.items() if each}
            dashed = "--" if arm in ("majority", "bag_of_words") or "random" in arm else "-"
            panel.plot(list(means), list(means.values()), dashed, marker="o", markersize=3, label=arm, linewidth=1.2)
        panel.set_xscale("log")
        panel.set_xticks(flags.rows, [f"{size:,}" for size in flags.rows])
        panel.set(title=f"{name}: test accuracy, %", xlabel="labelled rows")
    axes[0].legend(frameon=False, fontsize=7)
