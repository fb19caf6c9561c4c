"""The family on one corpus: equal processor time for each system, then the same fine-tunings.

    python -m benchmarks.reproductions.family --language=en --output_dir=family-en --set=train=text.txt,heldout=heldout.txt,…

Runs `xmodels compare` on samples/compare/family_LANGUAGE.yaml, whose head names what `--set` gives, and writes its numbers as a page.
`--peers bert xlnet` trains Hugging Face's networks on the batches of ours, and fine-tunes them on the same tasks: what a known
implementation gives at this budget. Interrupted, the same command goes on.
"""

import argparse
import glob
import json
import os
import statistics
import string

import yaml

from benchmarks.measure import table
from benchmarks.reproductions import peer_bert, peer_xlnet
from benchmarks.reproductions.commands import run
from benchmarks.reproductions.pages import environment, verdict, write_page, write_picture
from benchmarks.reproductions.pretraining_report import GAIN, accuracies, objectives
from data_pipelines.strict_yaml import variables_of

PLANS = os.path.join("samples", "compare")
WITHOUT = "majority", "bag_of_words", "word_vectors"  # arms that are no network
RANDOM = "random-bert"
PEERS = {"bert": (peer_bert.BERT, "peer"), "xlnet": (peer_xlnet.XLNET, "peer_xlnet")}  # of ours: network and folder


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--peers", nargs="+", choices=tuple(PEERS), default=[],
        help="Hugging Face's networks too; needs torch and transformers",
    )  # fmt: skip
    flags = parser.parse_args()
    plan, values, found = compared("family", flags)
    report(flags, plan, values, found, {system: with_peer(flags, system, values, found) for system in flags.peers})


def with_peer(flags, system: str, values: dict, found: dict) -> dict[str, float]:
    """Puts the scores of Hugging Face's network beside ours. Returns what it scored on held-out text."""
    (ours,) = glob.glob(os.path.join(flags.output_dir, "pretrain", f"pretrain-{system}-????????"))
    peer, name = PEERS[system]
    folder = os.path.join(flags.output_dir, name)
    for task, arms in peer_bert.scores(ours, folder, values["tasks"], values["finetuning"], peer).items():
        found["scores"][task] |= arms
    return peer_bert.read_results(folder)


def compared(name: str, flags) -> tuple[str, dict, dict]:
    """Runs a plan of samples/compare for a language. Returns its path, what it says, and the numbers that came out."""
    plan = os.path.join(PLANS, f"{name}_{flags.language}.yaml")
    run("compare", plan=plan, output_dir=flags.output_dir, set=flags.set, jobs=flags.jobs)
    with open(os.path.join(flags.output_dir, "results.json"), encoding="utf-8") as file:
        found = json.load(file)
    with open(plan, encoding="utf-8") as file:
        values = yaml.safe_load(string.Template(file.read()).safe_substitute(variables_of(flags.set)))
    return plan, values, found


def parser_of(description: str) -> argparse.ArgumentParser:
    """Returns the flags of a page that is made from a plan."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--language", choices=("en", "zh"), required=True)
    for name in ("output_dir", "set"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--about", default="", help="what the texts and tables are, for the page")
    parser.add_argument("--jobs", type=int, default=2)
    return parser


def means(found: dict) -> dict[tuple[str, str], float]:
    """Test accuracy of each arm and task."""
    return {
        (arm, task): statistics.mean(score["test_accuracy"])
        for task, arms in found["scores"].items()
        for arm, score in arms.items()
    }


def claims(found: dict) -> dict[str, bool]:
    """What one pretrains for -> whether it came out, for all systems together."""
    mean, tasks, systems = means(found), list(found["scores"]), systems_of(found)
    answers = {}
    for task in tasks:
        answers[f"{task}: every system is better than random weights by more than two points"] = all(
            mean[arm, task] > mean[control_of(arm, mean), task] + GAIN for arm in systems
        )
        best = max(mean[arm, task] for arm in systems)
        for baseline, told in (("bag_of_words", "a bag of words"), ("word_vectors", "averaged word vectors")):
            answers[f"{task}: the best system is better than {told}"] = best > mean[baseline, task]
    return answers


def control_of(arm: str, mean: dict[tuple[str, str], float]) -> str:
    """The same network from random weights; of networks that are built like BERT's, BERT's."""
    own = f"random-{arm}"
    return own if any(each == own for each, _ in mean) else RANDOM


def systems_of(found: dict) -> list[str]:
    """The pretrained networks."""
    arms = dict.fromkeys(arm for scores in found["scores"].values() for arm in scores)
    return [arm for arm in arms if arm not in WITHOUT and not is_random(arm) and not is_peer(arm)]


def is_random(arm: str) -> bool:
    """Whether an arm is a network that nothing has pretrained."""
    return arm.startswith("random-")


def is_peer(arm: str) -> bool:
    """Whether an arm is a known implementation, pretrained or not."""
    return arm.removeprefix("random-") in [peer.name for peer, _ in PEERS.values()]


def differences(found: dict) -> str:
    """How each arm differs from the reference, and how sure that is."""
    rows = []
    for task, arms in found["scores"].items():
        for arm, score in arms.items():
            if each := score.get("difference"):
                interval = f"{100 * each['low']:+.1f} to {100 * each['high']:+.1f}"
                rows.append(
                    [task, arm, f"{100 * each['mean']:+.1f}", interval, f"{each['p']:.3f}", f"{each['corrected']:.3f}"]
                )
    return table(["task", "arm", "points", "95 % interval", "p", "p, corrected"], rows)


def report(flags, plan: str, values: dict, found: dict, peers: dict[str, dict[str, float]]) -> None:
    name, budget = f"family_{flags.language}", values["budget"]
    seeds = values["finetuning"]["seeds"]
    (unit, amount), *_ = budget.items()
    rates = ", ".join(map(str, values["finetuning"]["tune"]["learning_rate"]))
    parts = [
        f"Systems of the size `tiny` (two layers of 128), each pretrained once with {amount:g} {unit.replace('_', ' ')} of training "
        f"steps{in_precision(values)} on the same text, with one vocabulary of {values['vocabulary']['size']:,} pieces; then "
        f"fine-tuned in {len(seeds)} seeds, with the rate of {rates} that is best on development rows for the arm and task. Test rows "
        "are read once. Deviations are those of fine-tunings; a second pretraining would differ too. "
        f"{flags.about}".strip(),
        verdict(claims(found)),
        "## Tasks\n\nTest accuracy in percent, mean and deviation over seeds.",
        accuracies(found),
        "## Own objectives, on held-out text\n\nThe losses of different objectives are not comparable: `gpt` sees only what stands "
        "before a token, and some hide whole words.",
        objectives({**found, "objectives": {a: o for a, o in found["objectives"].items() if o["baselines"]}}),
        *(of_peer(system, reached, values["finetuning"]["flags"], means(found)) for system, reached in peers.items()),
        f"## Differences from {found['reference']}\n\nA paired permutation test over test rows, two-sided, with Holm's correction "
        "over all rows of this table; it speaks of these networks, not of other pretrainings.",
        differences(found),
        f"![Test accuracy]({name}.png)",
        *([f"Failed: {', '.join(found['failed'])}."] if found["failed"] else ()),
        f"The plan is [{os.path.basename(plan)}](../../../{plan}).",
        environment(f"python -m benchmarks.reproductions.family --language={flags.language} …", seeds, flags.jobs),
    ]
    print(write_page(name, values["name"].split(":")[0], parts))
    print(write_picture(name, lambda figure: draw(figure, found), width=9.0))


def in_precision(values: dict) -> str:
    kind = values["pretraining"].get("flags", {}).get("mixed_precision")
    return f" in {kind}" if kind else ""


def of_peer(system: str, reached: dict[str, float], tuning: dict[str, str], mean: dict[tuple[str, str], float]) -> str:
    """What it is, what it reaches, and what its pretraining gains beside what that of ours gains."""
    way = f"{tuning['pooling']} of all states, {tuning['optimizer']}"
    theirs = PEERS[system][0].name
    tasks = [task for arm, task in mean if arm == theirs]
    gains = " and ".join(
        f"{100 * (mean[theirs, task] - mean[f'random-{theirs}', task]):+.1f} points in {task} "
        f"({100 * (mean[system, task] - mean[control_of(system, mean), task]):+.1f})"
        for task in tasks
    )
    return (
        f"`{theirs}` begins with the weights with which `{system}` began, and reads the same batches with the same masks; "
        f"network, derivatives, optimizer and fine-tuning ({way}) are Hugging Face's and PyTorch's. On held-out text "
        f"it reaches {reached['masked_lm']:.2f} nats, and names {100 * reached['accuracy']:.1f} % of the hidden tokens. Its "
        f"pretraining gains, against its random weights (in brackets `{system}`): {gains}."
    )


def draw(figure, found: dict) -> None:
    panels = figure.subplots(1, len(found["scores"]), squeeze=False)[0]
    for axes, (task, arms) in zip(panels, found["scores"].items(), strict=True):
        order = sorted(arms, key=lambda arm: statistics.mean(arms[arm]["test_accuracy"]))
        for place, arm in enumerate(order):
            values = [100 * value for value in arms[arm]["test_accuracy"]]
            ours = arm not in WITHOUT and not is_peer(arm)
            colour = "grey" if not ours else "#c83232" if is_random(arm) else "#1450c8"
            axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.5)
            axes.plot(statistics.mean(values), place, "|", color=colour, markersize=14)
        axes.set(title=task, xlabel="test accuracy, %")
        axes.set_yticks(range(len(order)), order)


if __name__ == "__main__":
    main()
