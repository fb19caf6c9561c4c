"""What a comparison would run, with what it costs, about, and each command. Writes nothing."""

import os
import shlex
from collections.abc import Callable

from data_pipelines.corpora.text_files import open_text
from xmodels.comparison import networks
from xmodels.comparison.budget import UNITS
from xmodels.comparison.plan import Plan
from xmodels.comparison.planning import ASSUMED_FLOPS, Agenda
from xmodels.comparison.stages import BASELINE, FINETUNE, PREDICT, PRETRAIN, PROBE, RECORDS, Stage
from xmodels.comparison.workspace import DONE, Workspace
from xmodels.training.watching.progress import duration, print_status

START = 15.0  # processor seconds in which a command imports, builds and traces
NOTES = {
    "fewer": "Numbers with ~ are estimates until the probes have run, and … stands for values that depend on them. "
    "Where development data will choose, the first candidate is shown.",
    "seconds": f"Times are estimates at {ASSUMED_FLOPS / 1e9:.0f} GFLOPs per second and process, plus {START:.0f} s for the start "
    "of each command.",
}


def show(plan: Plan, known: Workspace, found: Agenda, wanted: Callable[[Stage], bool], jobs: int) -> None:
    """Prints a table of the systems, of the kinds of commands, and every command."""
    stages = [one for one in found.stages if wanted(one)]
    unit = UNITS[plan.budget.kind][0]
    print_status(f"{plan.name}: a budget of {plan.budget.amount:,.6g} {unit} for each pretraining.\n")
    rows = [["system", "parameters (about)", "steps", "million tokens", "TFLOPs (about)"]]
    for name, each in found.pretrained.items():
        cost = _network(plan, each.arm)
        mark, number = ("~" if each.is_estimate else ""), each.num_steps or 0
        flops = each.cost.flops if each.cost and each.cost.flops else cost.flops_per_token * each.tokens
        rows.append([
            name, f"{cost.parameters:,.3g}", f"{mark}{number:,}", f"{mark}{number * each.tokens / 1e6:,.2f}",
            f"{mark}{number * flops / 1e12:,.3g}",
        ])  # fmt: skip
    print_status(_table(rows))
    seconds = {one: _seconds(plan, known, found, one) for one in stages}
    rows = [["commands", "number", "done", "remaining processor time (about)"]]
    for kind in dict.fromkeys(one.kind for one in stages):
        same = [one for one in stages if one.kind == kind]
        rest = [one for one in same if known.state(one) != DONE]
        rows.append([kind, f"{len(same)}", f"{len(same) - len(rest)}", duration(sum(seconds[one] for one in rest))])
    total = sum(value for one, value in seconds.items() if known.state(one) != DONE)
    print_status(
        f"\n{_table(rows)}\n\nIn total about {duration(total)} of processor time; {jobs} command(s) at a time."
    )
    print_status(f"{NOTES['fewer']} {NOTES['seconds']}\n")
    for one in stages:
        done = "  (done)" if known.state(one) == DONE else ""
        print_status(f"# {one.name}{done}\nxmodels {shlex.join(known.command(one))}")
    print_status("\nDry run: nothing was written.")


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def _network(plan: Plan, arm) -> networks.Estimate:
    return networks.estimate_system(plan, arm.called, arm.system)


def _seconds(plan: Plan, known: Workspace, found: Agenda, one: Stage) -> float:
    """Returns processor seconds of a command, about."""
    flags = known.values(one)
    if one.kind == RECORDS:
        return START + _bytes(flags["input_file"]) / 2e5
    if one.kind in (PROBE, PRETRAIN):
        each = found.pretrained[one.arm]
        cost = each.cost.processor_seconds if each.cost else 0.0
        cost = cost or _network(plan, each.arm).flops_per_token * each.tokens / ASSUMED_FLOPS
        return START + int(flags["num_train_steps"]) * cost
    if one.kind in (FINETUNE, PREDICT):
        arm = next(learnt.arm for learnt in found.learnt.values() if learnt.arm.name == one.arm)
        length = int(flags.get("max_seq_length", 128))
        flops = _network(plan, arm).flops_per_token * length
        if one.kind == PREDICT:
            return START + _rows(flags["input_file"]) * flops / 3 / ASSUMED_FLOPS
        return START + _rows(flags["train_file"]) * float(flags.get("num_train_epochs", 3)) * flops / ASSUMED_FLOPS
    return 5.0 if one.kind == BASELINE else START


def _rows(path: str) -> int:
    with open_text(path) as file:
        return sum(1 for _ in file)


def _bytes(text: str) -> int:
    return sum(os.path.getsize(path) for path in text.split(",") if os.path.isfile(path))
