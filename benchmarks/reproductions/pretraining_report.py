"""The page and the picture of the reproduction of pretraining."""

import dataclasses
import math
import os
import shlex
import statistics

from benchmarks.measure import table
from benchmarks.reproductions.cloze import KINDS, SINGLE
from benchmarks.reproductions.pages import environment, mean_and_deviation, verdict, write_page, write_picture
from benchmarks.reproductions.pretraining_inputs import RATES, path, split_spec
from benchmarks.reproductions.pretraining_networks import PEER_ERNIE, Networks

GAIN = 0.02  # two points: what counts as a difference


@dataclasses.dataclass(frozen=True)
class Results:
    """What was found.

    Attributes:
        found, lengths: the numbers of a plan of `compare`; the latter of rows of one length, or None.
        gaps: arm -> for each of its pretrainings what `cloze.score` gives.
        peer: what Hugging Face's network scored on held-out text, or None.
    """

    found: dict
    lengths: dict | None
    gaps: dict[str, list[dict]]
    peer: dict[str, float] | None

    def filled(self, arm: str, kind: str) -> float:
        """The share of gaps of a kind that an arm fills, on average over its pretrainings."""
        return statistics.mean(each[kind] for each in self.gaps[arm])

    def right(self, arm: str) -> float:
        """The share of tokens of held-out text that an arm predicts, on average over its pretrainings."""
        return statistics.mean(self.found["objectives"][arm]["accuracies"])


def report(flags, chosen: Networks, results: Results) -> None:
    """The page and the picture."""
    name, found = f"{chosen.name}_{flags.language}", results.found
    parts = [
        f"Networks of 2 layers of 128, {pretrainings(flags)} {flags.million_tokens:g} million tokens in batches of "
        f"{128 * flags.train_batch_size:,}, of {corpus(flags)}. Fine-tuned with {len(flags.seeds)} seeds by Muon, mean and largest "
        f"values of all states side by side. The development file chooses the rate, of {RATES[0]:g} and {RATES[1]:g}, for each arm "
        "and task, and which of up to about ten saved states of a run is kept. Random weights get the same. The test file is read "
        "once. The neighbour baseline predicts tokens by counts of their neighbours in the training text.",
        verdict(claims(flags, chosen, results)),
        "## Tasks\n\nAccuracy on the test file in %, mean and standard deviation over seeds. The name of a task ends with its number "
        "of labelled rows.",
        accuracies(found),
        "Rates that the development file chose:",
        rates(found),
        *(peer_told(chosen, results) if results.peer else ()),
        "## Own objectives, on held-out text",
        objectives(found),
    ]
    if results.lengths:
        parts += [
            "## Rows of 32 tokens and then of 128, against rows of 128 alone, for as long\n\nThe latter, of one pretraining, gets the "
            "processor minutes that the steps of the former take.",
            objectives(both := with_first(found, results.lengths)) + "\n\n" + accuracies(both),
        ]
    if results.gaps:
        rows = [
            [arm, *(mean_and_deviation([each[kind] for each in runs], scale=100) for kind in KINDS)]
            for arm, runs in results.gaps.items()
        ]
        first = next(iter(results.gaps.values()))[0]
        rows.append(["always the most frequent one", *(f"{100 * first[f'commonest of {kind}']:.1f}" for kind in KINDS)])
        parts += [
            "## Gaps in held-out text\n\nOne word of two to four characters is hidden, or one character of it. Names are words that "
            "ERNIE hides as entities: what jieba's tagger takes for a name in the training text. Right, in %:",
            table(["", *KINDS], rows),
            "{gaps of whole words:,} words and {gaps of names:,} names, the same for all.".format_map(first),
        ]
    parts += [f"![Test accuracy by labelled rows]({name}.png)", environment(command(flags), flags.seeds, flags.jobs)]
    print(write_page(name, chosen.title, parts))
    print(write_picture(name, lambda figure: draw(figure, flags, found), width=4.5 * len(flags.task)))


def pretrainings(flags) -> str:
    number = len(flags.pretraining_seeds)
    if number == 1:
        return "each pretrained once on"
    return f"each pretrained {number} times (fine-tunings take these networks in turn) on"


def with_first(found: dict, lengths: dict) -> dict:
    """Numbers of BERT from the first plan beside those of the second."""
    scores = {task: {**arms, "bert": found["scores"][task]["bert"]} for task, arms in lengths["scores"].items()}
    return {part: {"bert": found[part]["bert"], **lengths[part]} for part in ("objectives", "costs")} | {
        "scores": scores
    }


def minutes(found: dict, arm: str) -> float:
    """Processor minutes of the steps of a pretraining."""
    cost = found["costs"][arm]
    return cost["num_steps"] * cost["step"]["processor_seconds"] / 60


def peer_told(chosen: Networks, results: Results) -> list[str]:
    """What a known implementation gives at the same budget."""
    rows, pair, found = [], (chosen.measured, chosen.peer.name), results.found
    for task, scores in found["scores"].items():
        if chosen.peer.name in scores:
            mean = {arm: statistics.mean(score["test_accuracy"]) for arm, score in scores.items()}
            gains = [mean[arm] - mean[f"random-{arm}"] for arm in pair]
            ahead = [mean[arm] - mean["bag_of_words"] for arm in pair]
            rows.append([task, *(f"{100 * points:+.1f}" for points in (*gains, *ahead))])
    head = ["", "against random, ours", "Hugging Face", "against a bag of words, ours", "Hugging Face"]
    first = found["objectives"][chosen.measured]["accuracies"][0]
    return [
        f"## A known implementation at the same budget\n\nHugging Face's {chosen.measured.upper()} in PyTorch "
        f"(`benchmarks/reproductions/peer_{chosen.measured}.py`), from the same first weights, on the same batches as our first "
        "pretraining, by PyTorch's Muon and AdamW at the same rates. Of the held-out tokens that are asked for it predicts "
        f"{100 * results.peer['accuracy']:.1f} %, ours {100 * first:.1f} %. How far `{chosen.measured}` is ahead in accuracy, in "
        "points:",
        table(head, rows),
        *([of_masks(chosen, found)] if any(PEER_ERNIE in scores for scores in found["scores"].values()) else ()),
    ]


def of_masks(chosen: Networks, found: dict) -> str:
    """What ERNIE's masks gain over hidden characters in the tasks that a known implementation learns too."""
    rows = []
    for task, scores in found["scores"].items():
        if PEER_ERNIE in scores:
            mean = {arm: statistics.mean(score["test_accuracy"]) for arm, score in scores.items()}
            gains = mean["ernie"] - mean["bert"], mean[PEER_ERNIE] - mean[chosen.peer.name]
            rows.append([task, *(f"{100 * points:+.1f}" for points in gains)])
    return (
        "ERNIE's masks against hidden characters, Hugging Face's ERNIE on the batches of ours, in points:\n\n"
        + table(["", "ours", "Hugging Face"], rows)
    )


def claims(flags, chosen: Networks, results: Results) -> dict[str, bool]:
    """What the papers say -> whether it came out here."""
    found = results.found
    mean = {
        (arm, task): statistics.mean(score["test_accuracy"])
        for task, scores in found["scores"].items()
        for arm, score in scores.items()
    }
    tasks = list(found["scores"])
    answers = {}
    for arm, control in chosen.controls.items():
        answers[
            f"{arm}: pretrained is better than random weights by more than two points, on every task and number of rows"
        ] = all(mean[arm, task] > mean[control, task] + GAIN for task in tasks)
        answers[f"{arm}: pretrained is better than a bag of words on every task and number of rows"] = all(
            mean[arm, task] > mean["bag_of_words", task] for task in tasks
        )
        counted = found["objectives"][arm]["baselines"]
        answers[f"{arm}: predicts more tokens of held-out text than the neighbour baseline"] = (
            results.right(arm) > counted["neighbour_baseline"]
        )
        if (seen := counted["visible_baseline"]) is not None:
            answers[f"{arm}: predicts more of them than that baseline by the neighbours that are not hidden"] = (
                results.right(arm) > seen
            )
    if "gpt_lm" in chosen.systems:
        largest = [task for task in tasks if task.endswith(f"-{max(flags.rows)}")]
        answers["gpt: language modelling beside the task makes less than two points of difference with most rows"] = (
            all(abs(mean["gpt", task] - mean["gpt_lm", task]) < GAIN for task in largest)
        )
    for arm, kind, told in (each for each in HIDDEN if each[0] in results.gaps):
        answers[
            f"hiding {told}: predicts more hidden {kind} of held-out text than hiding characters, by more than two standard errors"
        ] = results.filled(arm, kind) - results.filled("bert", kind) > 2 * error(results, arm, "bert", kind)
        answers[f"hiding {told}: predicts more of those {kind} than always the most frequent one"] = (
            results.filled(arm, kind) > results.gaps[arm][0][f"commonest of {kind}"]
        )
        answers[
            f"hiding {told}: as good or better in the tasks as hiding characters, within two points on average over them"
        ] = statistics.mean(mean[arm, task] - mean["bert", task] for task in tasks) > -GAIN
    if "bert_wwm" in results.gaps:
        lead = results.filled("bert", SINGLE) - results.filled("bert_wwm", SINGLE)
        answers[
            "hiding characters: predicts more single characters than hiding whole words, by more than two standard errors"
        ] = lead > 2 * error(results, "bert_wwm", "bert", SINGLE)
    if results.lengths:
        own = results.lengths["objectives"]["one_length"]["losses"]
        answers[
            "short rows first, then long ones: a smaller loss at full length than with long rows alone, for as long"
        ] = statistics.mean(found["objectives"]["bert"]["losses"]) < statistics.mean(own)
    return answers


HIDDEN = (  # arm, what it is asked for, what it hides in training
    ("bert_wwm", "whole words", "whole words"),
    ("ernie", "whole words", "characters, then words, then names (ERNIE)"),
    ("ernie", "names", "characters, then words, then names (ERNIE)"),
)


def error(results: Results, one: str, other: str, kind: str) -> float:
    """The standard error of the difference of two shares of the same gaps, as if they were independent: that of so many gaps, and that
    of so many pretrainings."""
    shares = [results.filled(arm, kind) for arm in (one, other)]
    of_gaps = sum(share * (1 - share) for share in shares) / results.gaps[one][0][f"gaps of {kind}"]
    runs = [[each[kind] for each in results.gaps[arm]] for arm in (one, other)]
    return math.sqrt(of_gaps + sum(statistics.variance(each) / len(each) for each in runs if len(each) > 1))


def arms_of(found: dict) -> list[str]:
    """What was fine-tuned on any task, and the baselines."""
    return list(dict.fromkeys(arm for scores in found["scores"].values() for arm in scores))


def accuracies(found: dict) -> str:
    tasks = list(found["scores"])

    def cell(task, arm):
        score = found["scores"][task].get(arm)
        return mean_and_deviation(score["test_accuracy"], scale=100) if score else ""

    return table(["", *tasks], [[arm, *(cell(task, arm) for task in tasks)] for arm in arms_of(found)])


def rates(found: dict) -> str:
    """The learning rate of each arm and task; those of a known implementation stand beside its scores."""
    tasks = list(found["scores"])

    def cell(score: dict) -> str:
        rate = score.get("chosen", score).get("learning_rate")
        return f"{rate:g}" if rate else ""

    arms = {arm: [cell(scores.get(arm, {})) for scores in found["scores"].values()] for arm in arms_of(found)}
    return table(["", *tasks], [[arm, *cells] for arm, cells in arms.items() if any(cells)])


def objectives(found: dict) -> str:
    rows = []
    for arm, each in found["objectives"].items():
        base, cost = each["baselines"], found["costs"][arm]
        seen = base["visible_baseline"]
        rows.append([
            arm, mean_and_deviation(each["token_losses"], ".2f"), mean_and_deviation(each["accuracies"], scale=100),
            f"{100 * base['neighbour_baseline']:.1f}",
            "" if seen is None else f"{100 * seen:.1f}", f"{100 * base['unigram_baseline']:.1f}", f"{cost['num_steps']:,}",
            f"{minutes(found, arm):.1f}",
        ])  # fmt: skip
    head = [
        "",
        "tokens, nats",
        "tokens right, %",
        "neighbour baseline, %",
        "… by neighbours that are not hidden, %",
        "most frequent token, %",
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
    given = {name: getattr(flags, name, None) for name in ("rows", "pretraining_seeds", "seeds", "peer_rows")}
    numbers = [f"--{name}={','.join(map(str, each))}" for name, each in given.items() if each]
    numbers += [f"--mixed_precision={flags.mixed_precision}"] if flags.mixed_precision else []
    numbers += [f"--train_batch_size={flags.train_batch_size}"]
    return shlex.join([
        "python", "-m", "benchmarks.reproductions.pretraining", f"--language={flags.language}", f"--text={text}",
        *([f"--networks={flags.networks}"] if getattr(flags, "networks", "bert") != "bert" else []),
        f"--paragraphs={flags.paragraphs}", "--work_dir=work", *tasks, *numbers, f"--million_tokens={flags.million_tokens:g}",
    ])  # fmt: skip


def draw(figure, flags, found: dict) -> None:
    names = [split_spec(spec)[0] for spec in flags.task]
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, name in zip(axes, names, strict=True):
        for arm in arms_of(found):
            scores = {size: found["scores"][f"{name}-{size}"].get(arm) for size in flags.rows}
            means = {size: 100 * statistics.mean(each["test_accuracy"]) for size, each in scores.items() if each}
            dashed = "--" if arm in ("majority", "bag_of_words") or "random" in arm else "-"
            panel.plot(list(means), list(means.values()), dashed, marker="o", markersize=3, label=arm, linewidth=1.2)
        panel.set_xscale("log")
        panel.set_xticks(flags.rows, [f"{size:,}" for size in flags.rows])
        panel.set(title=f"{name}: test accuracy, %", xlabel="labelled rows")
    axes[0].legend(frameon=False, fontsize=7)
