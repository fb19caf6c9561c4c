"""The page of `universal_transformer_babi`."""

import numpy as np

from benchmarks.measure import table
from benchmarks.reproductions import pages
from benchmarks.reproductions.babi_questions import DEV, SENTENCES, TASKS, Data
from benchmarks.reproductions.universal_transformer_networks import CASES

NAME = "universal_transformer_babi"


def held_out_error(run: dict) -> float:
    """In percent, the mean over the tasks, of questions that are kept from training: what rates are chosen by."""
    return float(np.mean([scores["error"] for scores in run["held_out"].values()]))


def best_rate(tried: dict[float, list[dict]]) -> float:
    return min(tried, key=lambda rate: held_out_error(tried[rate][0]))


def mean_of(runs: list[dict], task: str, score: str) -> float:
    """Over seeds."""
    return float(np.mean([each["scores"][task][score] for each in runs]))


def steps_and_errors(found: dict[str, list[dict]], tasks) -> tuple[dict, dict]:
    """By network and task, means over seeds: steps at facts of those that ponder, and errors."""
    steps = {name: {task: mean_of(found[name], task, "steps") for task in tasks} for name in ("adaptive", "frugal")}
    return steps, {name: {task: mean_of(runs, task, "error") for task in tasks} for name, runs in found.items()}


def claims_of(found: dict[str, list[dict]], tasks) -> dict[str, bool]:
    """Those that need no Transformer beside the Universal Transformer."""
    steps, error = steps_and_errors(found, tasks)
    return {
        "it fails no task: errors of 5 % or less": max(error["universal"].values()) <= 5,
        "adaptive computation keeps the mean error within 2 points of the fixed number of steps or below it": (
            sum(error["adaptive"].values()) <= sum(error["universal"].values()) + 6
        ),
        "the mean ponder time of a fact grows with the number of supporting facts, at one of the two ponder weights": any(
            each["qa1"] < each["qa2"] < each["qa3"] for each in steps.values()
        ),
    }


def claims_beside_transformers(found: dict[str, list[dict]], tasks) -> dict[str, bool]:
    _, error = steps_and_errors(found, tasks)
    return {
        "the Universal Transformer errs less than half as often on task 2 as the Transformer of equal parameters": (
            2 * error["universal"]["qa2"] < error["shallow"]["qa2"]
        ),
        "it is at least as good as the Transformer of equal compute, over the three tasks together": (
            sum(error["universal"].values()) <= sum(error["deep"].values())
        ),
    }


def errors_table(found: dict[str, list[dict]], tasks, *more: list[str]) -> str:
    rows = [
        [
            CASES[name].title,
            f"{runs[0]['parameters']:,}",
            *(pages.mean_and_deviation([e["scores"][task]["error"] for e in runs]) for task in tasks),
        ]
        for name, runs in found.items()
    ]
    return table(["network", "parameters", *tasks], [*rows, *more])


def ponder_table(found: dict[str, list[dict]], tasks, *more: list[str]) -> str:
    rows = [
        [
            CASES[name].title,
            *(
                "{:.2f} ± {:.2f} ({:.2f})".format(*(mean_of(found[name], t, n) for n in ("steps", "deviation", "all")))
                for t in tasks
            ),
        ]
        for name in ("adaptive", "frugal")
    ]
    return table(["network", *tasks], [*rows, *more])


def rates_table(tried: dict[str, dict[float, list[dict]]]) -> str:
    """Held-out errors of the first seed; the rate that was taken is in bold."""
    rates = sorted({rate for runs in tried.values() for rate in runs})

    def cell(runs: dict[float, list[dict]], rate: float) -> str:
        if rate not in runs:
            return ""
        error = f"{held_out_error(runs[rate][0]):.1f}"
        return f"**{error}**" if rate == best_rate(runs) else error

    rows = [[CASES[name].title, *(cell(runs, rate) for rate in rates)] for name, runs in tried.items()]
    return table(["network", *(f"rate {rate:g}" for rate in rates)], rows)


def written_of_peer(of: dict[str, list[dict]], tasks) -> list[str]:
    return [
        "## A known implementation at the same budget\n\ntensor2tensor 1.15.7 (`benchmarks/reproductions/"
        "peer_universal_transformer.py`), of the same shape, on the same batches and at the same rates as the runs of the first seed. "
        "Its blocks norm before attention and transition, its signals of steps are learnt, and its ponder loss counts padding. "
        "Errors:",
        errors_table(of, tasks),
        "Ponder time, as above:",
        ponder_table(of, tasks),
        pages.listed(claims_of(of, tasks)),
    ]


def write(options, command: str, data: Data, tried: dict, baselines: dict[str, dict[str, float]], peer: dict) -> None:
    """`tried`: what the runs have found by network and rate; `peer`: by network; `baselines`: errors by name and task."""
    tasks = tuple(data.test)
    found = {name: runs[best_rate(runs)] for name, runs in tried.items()}
    simple = [[name, "", *(f"{errors[task]:.1f}" for task in tasks)] for name, errors in baselines.items()]
    pages.write_page(
        NAME,
        "Universal Transformer on bAbI 1, 2 and 3",
        [
            pages.verdict(claims_beside_transformers(found, tasks) | claims_of(found, tasks)),
            "Test error in percent, mean and standard deviation over seeds; 1,000 questions of each task. One network learns all "
            "three tasks.",
            errors_table(found, tasks, *simple),
            "Errors on held-out training questions by the peak of the rate, the mean over the tasks, of the first seed. The best "
            "rate is taken for all seeds.",
            rates_table(tried),
            "Ponder time: steps at the sentences that the answer follows from, in the test data, mean and standard deviation over "
            "all of them, averaged over seeds; in brackets the mean over all sentences and questions.",
            ponder_table(found, tasks, ["paper, all tasks of as many facts", "2.3 ± 0.8", "3.1 ± 1.1", "3.8 ± 2.2"]),
            f"![curves]({NAME}.png)",
            *(written_of_peer(peer, tasks) if peer else ()),
            about(options, data),
            pages.environment(command, options.seeds),
        ],
        options.results,
    )
    pages.write_picture(NAME, lambda figure: draw(figure, found), 10.0, 3.2, options.results)


def about(options, data: Data) -> str:
    made_up = (
        " Its folder had no training file of task 3, so its training stories were made up by "
        "`benchmarks/reproductions/moved_things.py` in the manner of the task and about as long; the test stories are bAbI's own. "
        "So errors on task 3 are not comparable with published ones."
    )
    return (
        f"{options.questions:,} training questions of each task, of task 3 {options.questions_3:,}, of which one in {DEV} is "
        "held out for rates and curves; the last weights are tested. Sentences are places, the question is the "
        f"last one; at most {SENTENCES} sentences. Width {options.hidden_dim}, 4 heads, {options.num_steps:,} updates of "
        f"{options.batch_size} questions, Adam with its peak after 200 steps, falling to 0; halting "
        f"bias {options.halting_bias:g}, halting as in tensor2tensor, whose ponder weight is 0.01."
        + (made_up if data.made_up else "")
    )


def draw(figure, found: dict) -> None:
    axes = figure.subplots(1, 3)
    for axis, task in zip(axes, ("qa2", "qa3"), strict=False):
        for name, case in CASES.items():
            points = [(line["step"], line[f"{task} error"]) for line in found[name][0]["curve"]]
            axis.plot(
                *zip(*points, strict=True),
                label=case.title.replace("Universal Transformer", "UT").replace(", at most", ","),
            )
        axis.set(title=f"{task}: error on held-out questions, %", xlabel="updates", ylim=(0, 90))
    axes[1].legend(loc="lower center", fontsize=7)
    for place, name in enumerate(("adaptive", "frugal")):
        means, deviations = (
            [mean_of(found[name], task, part) for task in found[name][0]["scores"]] for part in ("steps", "deviation")
        )
        places, label = [i + 0.4 * place for i in range(len(means))], f"ponder weight {CASES[name].ponder_weight:g}"
        axes[2].bar(places, means, 0.35, yerr=deviations, capsize=4, label=label)
    axes[2].set_xticks([i + 0.2 for i in range(len(TASKS))], [f"qa{task}" for task in TASKS])
    axes[2].set(title="adaptive: steps of a fact")
    axes[2].legend(fontsize=7)
