"""The page of a comparison: one HTML file that stands alone, and the same numbers as JSON."""

import dataclasses
import html
import os
import shlex
from collections.abc import Callable, Sequence

from data_pipelines import strict_json
from data_pipelines.files import whole_file, write_json
from xmodels.comparison import pictures
from xmodels.comparison.budget import UNITS
from xmodels.comparison.findings import Findings, Score
from xmodels.comparison.plan import BEST, Plan
from xmodels.comparison.planning import Agenda, format_numbers
from xmodels.comparison.runner import THREADS, environment, last_line, warnings_in
from xmodels.comparison.statistics import LEVEL, mean_and_spread
from xmodels.comparison.workspace import Workspace
from xmodels.runs import page
from xmodels.runs.reading import flatten

REPORT, RESULTS = "report.html", "results.json"
CONTROLS = ("majority", "bag_of_words")  # stand beside every row


def write(plan: Plan, known: Workspace, agenda: Agenda, findings: Findings, text: str, jobs: int) -> str:
    """Writes the page and results.json into the folder of the comparison. Returns the path of the page.

    Args:
        text: of the plan, as it was read.
    """
    path = os.path.join(known.folder, REPORT)
    sections: dict[str, Callable[[], str]] = {
        "": lambda: _opening(plan, findings, agenda),
        "Scores": lambda: pictures.scores(plan, findings) + _overview(plan, findings),
        **{f"Task: {task}": (lambda task=task: _task(task, findings)) for task in plan.tasks},
        "Each system's own objective": lambda: _objectives(plan, findings),
        "Cost": lambda: _costs(plan, findings),
        "Failed commands": lambda: _failures(known, findings),
        "Warnings": lambda: _warnings(known, agenda),
        "Commands": lambda: _commands(known, agenda),
        "Plan": lambda: f"<details><summary>the plan as read</summary><pre>{html.escape(text)}</pre></details>",
        "Machine and versions": lambda: _environment(known, agenda, jobs),
    }
    parts = ((title, make()) for title, make in sections.items())
    body = "".join(f"<h2>{html.escape(title)}</h2>{part}" if title else part for title, part in parts if part)
    with whole_file(path, "w") as file:
        file.write(page.document(plan.name, body, plan.language))
    write_json(os.path.join(known.folder, RESULTS), as_json(findings))
    return path


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _opening(plan: Plan, findings: Findings, agenda: Agenda) -> str:
    unit = UNITS[plan.budget.kind][0]
    text = (
        f"Each pretraining has a budget of {plan.budget.amount:,.6g} {unit}. {_finetunings(plan)}. The test data are "
        f"scored once. {_pretrainings(plan)}"
    )
    if agenda.waiting or findings.failed or len(findings.scores) < len(findings.arms) * len(plan.tasks):
        open_ = f" {len(findings.failed)} command(s) failed (see below)." if findings.failed else ""
        text += f" This page is not complete: rows are missing where nothing has been scored yet.{open_}"
    return _paragraph(text)


def _finetunings(plan: Plan) -> str:
    """Returns how the tasks were learnt."""
    own = [name for name, system in plan.systems.items() if system.finetune or system.tune_finetuning]
    same = (
        f"All systems are fine-tuned alike, except for the settings of {', '.join(own)}"
        if own
        else "All systems are fine-tuned alike"
    )
    of_arms = (name for system in plan.systems.values() for name in system.tune_finetuning or ())
    chosen = " and ".join([*dict.fromkeys([*plan.finetuning.tune, *of_arms]), "the epoch"]).replace("_", " ")
    return f"{same}: {len(plan.finetuning.seeds)} seed(s) per task, {chosen} chosen on development data for each arm and task"


def _pretrainings(plan: Plan) -> str:
    number = len(plan.pretraining.seeds)
    if number == 1:
        return (
            "There is one pretrained network per system. The spread is therefore that of fine-tuning only and does not show how "
            "much another pretraining would differ."
        )
    return (
        f"Each system is pretrained with {number} seeds, and fine-tunings use these networks in turn. The spread therefore "
        "includes both pretraining and fine-tuning."
    )


def percent(value: float | None, signed: bool = False) -> str:
    return "" if value is None else f"{100 * value:{'+' if signed else ''}.1f}"


def with_spread(score: Score | None) -> str:
    """Returns `71.2 ± 0.8`."""
    if score is None:
        return "–"
    mean, spread = score.summary
    return percent(mean) + ("" if spread is None else f" ± {percent(spread)}")


def _overview(plan: Plan, findings: Findings) -> str:
    rows = []
    for arm in findings.arms:
        scores = [findings.scores.get((arm.name, task)) for task in plan.tasks]
        cells = [with_spread(score) for score in scores]
        mean = sum(score.summary[0] for score in scores) / len(scores) if all(scores) else None
        rows.append([arm.name, *cells, percent(mean)])
    return page.table(["arm", *plan.tasks, "mean"], rows) + _paragraph(
        "Accuracy on the test file in %: mean and sample standard deviation over seeds. Arms without randomness have no spread."
    )


def _task(task: str, findings: Findings) -> str:
    found = {arm.name: findings.scores[arm.name, task] for arm in findings.arms if (arm.name, task) in findings.scores}
    if not found:
        return ""
    beside = [name for name in CONTROLS if name in found]
    rows = []
    for name, score in found.items():
        difference = score.difference
        cells = ["the reference", "", ""] if name == findings.reference else ["", "", ""]
        if difference is not None:
            cells = [
                f"{percent(difference.mean, True)} ({percent(difference.low, True)} to {percent(difference.high, True)})",
                f"{difference.p:.4f}", f"{difference.corrected:.4f}" + (" *" if difference.corrected < LEVEL else ""),
            ]  # fmt: skip
        chosen = ", ".join(format_numbers(score.chosen)).replace("_", " ")
        lines = [with_spread(found[each]) for each in beside]
        rows.append([name, with_spread(score), *lines, *cells, percent(score.dev), chosen])
    head = [
        "arm", "accuracy, %", *(name.replace("_", " ") for name in beside), f"difference to {findings.reference} (95 % interval)", "p",
        "p, Holm", "development accuracy, %", "chosen",
    ]  # fmt: skip
    return page.table(head, rows) + _paragraph(in_words(task, findings))


def in_words(task: str, findings: Findings) -> str:
    """Returns what the test says."""
    if findings.reference is None:
        return "No arm can be compared with the reference yet."
    compared = {a: s.difference for (a, t), s in findings.scores.items() if t == task and s.difference is not None}
    better = [a for a, d in compared.items() if d.corrected < LEVEL and d.mean > 0]
    worse = [a for a, d in compared.items() if d.corrected < LEVEL and d.mean < 0]
    alike = [a for a in compared if a not in better + worse]
    parts = [
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {what} {findings.reference}."
        for names, what in ((better, "better than"), (worse, "worse than"), (alike, "not significantly different from"))
        if names
    ]
    examples = next(score.right.shape[1] for (_, t), score in findings.scores.items() if t == task)
    return (
        f"{' '.join(parts)} The test: for each of the {examples:,} examples, the share of seeds that are right is compared with that "
        "of the reference, by a two-sided paired permutation test that exchanges signs at random. Holm's correction covers all "
        f"{findings.num_tests} comparisons on this page; * marks corrected p-values below {LEVEL:g}. The interval is a bootstrap over "
        "examples. Neither accounts for how much other seeds would differ."
    )


def _objectives(plan: Plan, findings: Findings) -> str:
    if not findings.objectives:
        return ""
    rows = []
    for name, found in findings.objectives.items():
        levels = found.baselines
        rows.append([
            name, _several(found.losses, "{:.3f}"), _several(found.token_losses, "{:.3f}"), (found.measure or "").replace("_", " "),
            _several([100 * accuracy for accuracy in found.accuracies], "{:.1f}"),
            percent(levels and levels.unigram_baseline), percent(levels and levels.neighbour_baseline),
            percent(levels and levels.visible_baseline),
        ])  # fmt: skip
    head = [
        "system",
        "held-out loss",
        "part of it for the measure",
        "measure",
        "network, %",
        "most frequent token, %",
        "by counts of the neighbours, %",
        "by counts of unmasked neighbours, %",
    ]
    tuned = (
        " Where pretraining was tuned, the candidate was chosen on the same text."
        if plan.pretraining.tune or any(system.tune for system in plan.systems.values())
        else ""
    )
    return (
        page.table(head, rows)
        + _paragraph(
            "Objectives differ, so these numbers show how well each system learnt its own objective. They do not compare systems. "
            f"The last three columns are baselines without a network.{tuned}"
        )
        + pictures.objectives(plan, findings)
    )


def _several(values: Sequence[float], form: str) -> str:
    """Returns mean and standard deviation; nothing where there is no value."""
    if not values:
        return ""
    mean, spread = mean_and_spread(values)
    return form.format(mean) + ("" if spread is None else f" ± {form.format(spread)}")


def _costs(plan: Plan, findings: Findings) -> str:
    if not findings.costs:
        return ""
    rows = []
    for name, cost in findings.costs.items():
        step, most = cost.step, next(arm.system.max_steps for arm in findings.arms if arm.name == name)
        rows.append([
            name, f"{cost.parameters:,}", f"{cost.num_steps:,}" + (" (max_steps)" if most == cost.num_steps else ""),
            f"{cost.tokens / 1e6:,.2f}",
            f"{step.flops * cost.num_steps / 1e12:,.3g}" if step.flops else "",
            f"{step.processor_seconds * cost.num_steps / 60:.2f}", f"{step.seconds * cost.num_steps / 60:.2f}",
            f"{cost.processor_minutes:.1f}", f"{cost.minutes:.1f}", f"{findings.finetuning_minutes.get(name, 0.0):.1f}",
        ])  # fmt: skip
    for name, minutes in findings.finetuning_minutes.items():  # random weights
        if name not in findings.costs:
            rows.append([name, *[""] * 8, f"{minutes:.1f}"])
    head = [
        "system", "parameters", "steps", "million tokens", "TFLOPs", "steps: processor minutes", "steps: wall-clock minutes",
        "total: processor minutes", "total: wall-clock minutes", "fine-tuning: processor minutes",
    ]  # fmt: skip
    how = {
        "processor_minutes": "A short probe of each system measured the processor seconds of a step, next to other probes where "
        "several run at once. The budget divided by it is the number of steps, which stays the same when the comparison is resumed.",
        "device_minutes": "A short probe of each system measured the seconds of a step. The budget divided by it is the number of "
        "steps, which stays the same when the comparison is resumed.",
        "flops": "A short probe counted the FLOPs of the matrix products in a step, at the length of the records.",
        "tokens": "The number of steps follows from the tokens in a batch, including padding.",
    }[plan.budget.kind]
    return page.table(head, rows) + _paragraph(
        f"{how} The columns `steps` are measured by the run itself, without graph tracing and evaluations. The columns `total` "
        "include these, the start-up of each command, the probe, all tuning candidates and all seeds. Attempts that were killed "
        "are not included."
    )


def _failures(known: Workspace, findings: Findings) -> str:
    rows = [
        [one.name, known.failure(one)["exit_code"], last_line(known.log(one)), known.log(one)]
        for one in findings.failed
    ]
    head = ["command", "exit code", "last line of its log", "log"]
    note = "Run the same comparison again to retry them. Commands that depend on them are left out."
    return page.table(head, rows) + _paragraph(note) if rows else ""


def _warnings(known: Workspace, agenda: Agenda) -> str:
    """Returns what the commands warned of, and which of them."""
    found: dict[str, list[str]] = {}
    for one in agenda.stages:
        for warning in [] if one.uncertain else warnings_in(known.log(one)):
            found.setdefault(warning.removeprefix("Warning: "), []).append(one.name)
    rows = [
        [warning, names[0] + (f" and {len(names) - 1} more" if names[1:] else "")] for warning, names in found.items()
    ]
    return page.table(["warning", "command"], rows) if rows else ""


def _commands(known: Workspace, agenda: Agenda) -> str:
    lines = [f"xmodels {shlex.join(known.command(one))}" for one in agenda.stages if not one.uncertain]
    if not lines:
        return ""
    return (
        _paragraph("Each can be run again by hand, in this order. Their output is in the folder logs/.")
        + f"<details><summary>{len(lines)} commands</summary><pre>{html.escape(chr(10).join(lines))}</pre></details>"
    )


def _environment(known: Workspace, agenda: Agenda, jobs: int) -> str:
    for each in agenda.pretrained.values():
        if each.runs and known.mark(each.runs[0]):
            found = strict_json.read(os.path.join(known.output(each.runs[0]), "environment.json"))
            return page.facts(
                {**flatten(found), "parallel commands": jobs, "threads per command": environment(jobs)[THREADS[0]]}
            )
    return ""


def as_json(findings: Findings) -> dict:
    """Returns the numbers of the page."""
    scores: dict[str, dict] = {}
    for (arm, task), score in findings.scores.items():
        scores.setdefault(task, {})[arm] = {
            "test_accuracy": score.accuracies, "seeds": score.seeds, "dev_accuracy": score.dev, "chosen": score.chosen,
            "difference": score.difference and dataclasses.asdict(score.difference),
        }  # fmt: skip
    objectives = {
        name: {
            "losses": found.losses, "token_losses": found.token_losses, "measure": found.measure, "accuracies": found.accuracies,
            "baselines": found.baselines and dataclasses.asdict(found.baselines),
        }
        for name, found in findings.objectives.items()
    }  # fmt: skip
    return {
        "reference": findings.reference or BEST, "scores": scores, "objectives": objectives,
        "costs": {name: dataclasses.asdict(cost) for name, cost in findings.costs.items()},
        "failed": [one.name for one in findings.failed],
    }  # fmt: skip
