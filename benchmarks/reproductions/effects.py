"""What single ideas of the BERT family are worth at a small size: masks drawn anew, sharing weights, the order of segments.

    python -m benchmarks.reproductions.effects --effect=masks --language=en --text=news.txt --work_dir=work \\
        --task=topics:0:2=test.csv.gz --rows=1000

`--effect` is one of masks (RoBERTa, section 4.1), sharing (ALBERT, table 4) and order (ALBERT, table 5). The other flags are
those of `benchmarks.reproductions.pretraining`, which says what a task is. Each is a plan of `xmodels compare`, or two: the networks
differ in what is compared only. `--peer` has Hugging Face's ALBERT read the same batches (sharing, order). Interrupted, the same
command goes on; effects may share a work folder.
"""

import dataclasses
import glob
import os
import shlex
import statistics
import sys
from collections.abc import Callable

from benchmarks.measure import table
from benchmarks.reproductions import peer_albert, pretraining_report
from benchmarks.reproductions.pages import environment, listed, mean_and_deviation, verdict, write_page, write_picture
from benchmarks.reproductions.pretraining_inputs import RATES, compare, parser_of, path, plan_of, prepare, write_once
from benchmarks.reproductions.pretraining_report import GAIN

PASSES = 40  # that a budget makes over the little text on which masks are repeated
PASSES_OF_PAIRS = 6  # over the text, each with other pairs: few pairs are learnt by heart
CHARACTERS_A_TOKEN = {"en": 3.5, "zh": 1.2}  # about, which decides the size of that text


@dataclasses.dataclass(frozen=True)
class Effect:
    """An idea and how it is tried.

    Attributes:
        systems: of the plan.
        claims: from the numbers of the plans, by name, what the paper says -> whether it came out.
        repeated: whether the systems are compared on a little text that is read often, and on a text that is read once.
        records: further flags of the records of all arms.
        has_peer: whether `--peer` knows its networks.
        pretrained_by_seed: whether each of the seeds is a pretraining of its own, where networks differ by little.
    """

    title: str
    source: str
    systems: dict[str, dict]
    claims: Callable[[dict[str, dict]], dict[str, bool]]
    repeated: bool = False
    records: dict = dataclasses.field(default_factory=dict)
    has_peer: bool = False
    pretrained_by_seed: bool = False


def loss(found: dict, arm: str) -> float:
    """Nats of a held-out token that was hidden, without what else is learnt."""
    return statistics.mean(found["objectives"][arm]["token_losses"])


def mean(found: dict, arm: str) -> float:
    """Test accuracy, over tasks and seeds."""
    return statistics.mean(statistics.mean(each[arm]["test_accuracy"]) for each in found["scores"].values())


def of_masks(found: dict[str, dict]) -> dict[str, bool]:
    many, once = found["plan"], found["once"]
    return {
        "over many passes, masks drawn anew name held-out tokens better than masks drawn once, by more than 0.05 nats": (
            loss(many, "static") - loss(many, "dynamic") > 0.05
        ),
        "over many passes, ten drawings are at least as good as one": loss(many, "static_ten") <= loss(many, "static"),
        "over many passes, masks drawn anew are as good as ten drawings or better, within 0.05 nats": (
            loss(many, "dynamic") < loss(many, "static_ten") + 0.05
        ),
        "over one pass there is no difference, within 0.05 nats": abs(loss(once, "static") - loss(once, "dynamic")) < 0.05,
        "over many passes, masks drawn anew are as good or better in the tasks, within two points": (
            mean(many, "dynamic") > mean(many, "static") - GAIN
        ),
    }  # fmt: skip


def of_sharing(found: dict[str, dict]) -> dict[str, bool]:
    plan = found["plan"]
    cost = {arm: loss(plan, arm) - loss(plan, "none") for arm in ("all", "attention", "feedforward")}
    return {
        "sharing all weights names held-out tokens worse than sharing none, by more than 0.05 nats": cost["all"] > 0.05,
        "sharing attention alone costs less than sharing the feed-forward layers alone, by more than 0.05 nats": (
            cost["feedforward"] - cost["attention"] > 0.05
        ),
        "sharing attention alone costs less than half of what sharing all costs": cost["attention"] < cost["all"] / 2,
        "sharing none is as good or better in the tasks, within two points": mean(plan, "none") > mean(plan, "all") - GAIN,
    }  # fmt: skip


def of_order(found: dict[str, dict]) -> dict[str, bool]:
    plan, claims = found["plan"], {}
    for other, words in (("next_sentence", "next sentences"), ("neither", "neither")):
        gains = {
            task: statistics.mean(each["order"]["test_accuracy"]) - statistics.mean(each[other]["test_accuracy"])
            for task, each in plan["scores"].items()
        }
        for task, gain in (gains | {"the tasks on average": statistics.mean(gains.values())}).items():
            claims[f"the order of two segments is better for {task} than {words}, by more than two points"] = (
                gain > GAIN
            )
    return claims


def static(copies: int) -> dict:
    return {
        "system": "roberta_wwm",
        "records": {"masking": "static", "dupe_factor": copies},
        "flags": {"length_schedule": "none"},
    }


EFFECTS = {
    "masks": Effect(
        "Masks drawn anew against masks drawn once", "RoBERTa (Liu et al., 2019), section 4.1",
        {
            # Records with masks have as many as they were made for.
            "dynamic": {"system": "roberta_wwm", "flags": {"length_schedule": "none", "set": "masking_rate=0.15"}},
            "static_ten": static(10),
            "static": static(1),
        },
        of_masks, repeated=True,
    ),
    "sharing": Effect(
        "What passes may share", "ALBERT (Lan et al., 2019), table 4",
        {
            mode: {"system": "albert", "flags": {"set": f"num_layers=4,sharing={mode}"}}
            for mode in ("all", "attention", "feedforward", "none")
        },
        of_sharing, has_peer=True, pretrained_by_seed=True,
    ),
    "order": Effect(
        "The order of segments against next sentences", "ALBERT (Lan et al., 2019), table 5",
        {
            "order": {"system": "albert"},
            "next_sentence": {"system": "albert", "flags": {"set": "second_objective=next_sentence"}},
            "neither": {"system": "albert", "flags": {"set": "second_objective=none"}},
        },
        of_order, records={"dupe_factor": PASSES_OF_PAIRS}, has_peer=True,
    ),
}  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--effect", choices=tuple(EFFECTS), required=True)
    parser.add_argument("--peer", action="store_true", help="Hugging Face's ALBERT too; needs torch and transformers")
    flags = parser.parse_args()
    effect = EFFECTS[flags.effect]
    if flags.peer and not effect.has_peer:
        parser.error(f"--peer: --effect={flags.effect} has none. Leave the flag out.")
    os.makedirs(flags.work_dir, exist_ok=True)
    tasks = prepare(flags)
    plan = plan_of(flags, tasks, effect.title, effect.systems)
    plan["records"] |= effect.records
    if effect.pretrained_by_seed:
        plan["pretraining"]["seeds"] = flags.seeds
    plans = {"plan": plan}
    if effect.repeated:
        plans = {"plan": with_little_text(flags, plan), "once": read_once(flags, plan)}
    found = {name: compare(flags, f"{flags.effect}-{name}", each) for name, each in plans.items()}
    report(flags, effect, found, with_peer(flags, plan) if flags.peer else None)


def with_peer(flags, plan: dict) -> dict:
    """What Hugging Face's ALBERT reaches on the batches of ours."""
    runs = {}
    for arm in plan["systems"]:
        made = glob.glob(path(flags, f"comparison/pretrain/pretrain-{arm}-????????"))
        runs[arm] = max(made, key=os.path.getmtime)  # of several budgets the last one
    folder = path(flags, f"peer_{flags.effect}")
    return peer_albert.results(flags.effect, runs, folder, plan["tasks"], plan["finetuning"])


def with_little_text(flags, plan: dict) -> dict:
    """The plan on so much of the text that the budget reads it `PASSES` times."""
    with open(path(flags, "train.jsonl"), encoding="utf-8") as stream:
        lines = stream.read().splitlines()
    wanted, taken, size = plan["budget"]["tokens"] / PASSES * CHARACTERS_A_TOKEN[flags.language], [], 0
    for line in lines:
        if size >= wanted:
            break
        taken.append(line)
        size += len(line)
    write_once(path(flags, "little.jsonl"), taken)
    return {**plan, "corpus": {**plan["corpus"], "train": path(flags, "little.jsonl")}}


def read_once(flags, plan: dict) -> dict:
    """The plan with the whole text and a budget that reads it about once. One task is enough to be a plan."""
    with open(path(flags, "train.jsonl"), encoding="utf-8") as stream:
        tokens = len(stream.read()) / CHARACTERS_A_TOKEN[flags.language]
    name, task = next(iter(plan["tasks"].items()))
    systems = {arm: plan["systems"][arm] for arm in ("dynamic", "static")}
    return {**plan, "budget": {"tokens": int(tokens)}, "systems": systems, "tasks": {name: task}}


PARTS = {
    "plan": "",
    "once": "## The whole text, read about once",
}


def report(flags, effect: Effect, found: dict[str, dict], peer: dict | None) -> None:
    name = f"effect_{flags.effect}_{flags.language}"
    times = f" The text is read about {PASSES} times." if effect.repeated else ""
    pretrainings = "A pretraining for each seed" if effect.pretrained_by_seed else "One pretraining each"
    parts = [
        f"{effect.source}. Networks of {' and '.join(systems_of(effect))}, width 128, pretrained on {flags.million_tokens:g} million "
        f"tokens of {pretraining_report.corpus(flags)}.{times} {pretrainings}, fine-tuned by Muon in {len(flags.seeds)} seeds at the "
        f"one of the rates {RATES[0]:g} and {RATES[1]:g} that is best on the development file. Differences below two points, and "
        "below 0.05 nats, are read as none.",
        verdict(effect.claims(found)),
    ]
    for part, each in found.items():
        parts += [PARTS[part], pretraining_report.objectives(each) + "\n\n" + pretraining_report.accuracies(each)]
    if peer:
        parts.append(of_peer(effect, peer))
    parts += [f"![Held-out loss]({name}.png)", environment(command(flags), flags.seeds, flags.jobs)]
    print(write_page(name, effect.title, [part for part in parts if part]))
    print(write_picture(name, lambda figure: draw(figure, found)))


def systems_of(effect: Effect) -> list[str]:
    """The systems of its arms, each once."""
    return list(dict.fromkeys(f"`{arm['system']}`" for arm in effect.systems.values()))


def of_peer(effect: Effect, peer: dict) -> str:
    """What the known implementation gives: its numbers, and which claims come out there."""
    tasks = peer["scores"]
    rows = [
        [
            arm, f"{each['token_losses'][0]:.2f}", f"{100 * each['accuracies'][0]:.1f}",
            *(mean_and_deviation(tasks[task][arm]["test_accuracy"], scale=100) for task in tasks),
        ]
        for arm, each in peer["objectives"].items()
    ]  # fmt: skip
    claims = listed(effect.claims({"plan": peer}))
    return (
        f"## A known implementation at the same budget\n\n{peer_albert.NAME} in PyTorch (`benchmarks/reproductions/peer_albert.py`), "
        "on the same batches with the same masks, by PyTorch's Muon and AdamW at the same rates, fine-tuned alike:\n\n"
        f"{table(['', 'tokens, nats', 'tokens right, %', *tasks], rows)}\n\nThe same claims, there:\n\n{claims}"
    )


def draw(figure, found: dict[str, dict]) -> None:
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (part, each) in zip(panels, found.items(), strict=True):
        arms = list(each["objectives"])
        axes.barh(arms, [loss(each, arm) for arm in arms], color="#4878a8")
        for place, arm in enumerate(arms):
            axes.text(loss(each, arm), place, f" {loss(each, arm):.2f}", va="center", fontsize=8)
        axes.set(title="read once" if part == "once" else "", xlabel="nats of a hidden token of held-out text")
        axes.margins(x=0.15)
        axes.invert_yaxis()


def command(flags) -> str:
    words = shlex.split(pretraining_report.command(flags))
    own = [f"--effect={flags.effect}", *["--peer"] * flags.peer]
    return shlex.join([*words[:2], "benchmarks.reproductions.effects", *own, *words[3:]])


if __name__ == "__main__":
    sys.exit(main())
