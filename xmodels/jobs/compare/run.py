"""Compares the systems of a plan: checks it, runs what is missing, and writes one page."""

import os
import shlex
from collections.abc import Sequence

from data_pipelines.errors import ReportedError, UsageError
from data_pipelines.lock import hold_lock
from data_pipelines.options.declaration import nearest
from data_pipelines.strict_yaml import variables_of
from xmodels.comparison import dry_run, findings, networks, report
from xmodels.comparison.arms import list_arms
from xmodels.comparison.checks import check_surroundings, read_plan
from xmodels.comparison.plan import Plan
from xmodels.comparison.planning import Agenda, make_agenda
from xmodels.comparison.runner import Runner, in_kinds
from xmodels.comparison.stages import KINDS
from xmodels.comparison.workspace import DONE, LOGS, Assumed, Workspace
from xmodels.jobs.compare.options import Options
from xmodels.training.watching.progress import print_status

FOLDERS = (*KINDS, DONE, LOGS)


def compare(options: Options) -> str | None:
    """Runs the plan, and returns the path of the page; None of a dry run.

    Raises:
        ReportedError: the plan is wrong, or commands have failed. The page is written then too.
    """
    variables, jobs = variables_of(options.set), options.jobs or networks.usual_jobs()
    plan, place = read_plan(options.plan, variables)
    for warning in check_surroundings(plan, place):
        print_status(warning)
    only = _parse_names("--only", options.only, [arm.name for arm in list_arms(plan)])
    kinds = _parse_names("--steps", options.steps, KINDS)
    own = ["compare", f"--plan={options.plan}", *([f"--set={options.set}"] if options.set else [])]
    own.append(f"--output_dir={options.output_dir}")
    _check_folder(options.output_dir)
    if options.dry_run:
        known = Assumed(options.output_dir, own)
        dry_run.show(plan, known, make_agenda(plan, known, only), in_kinds(kinds), jobs)
        return None
    with hold_lock(options.output_dir, "output_dir"):
        return _run(options, plan, Workspace(options.output_dir, own), only, kinds, jobs)


def _run(options: Options, plan: Plan, known: Workspace, only: Sequence[str], kinds: Sequence[str], jobs: int) -> str:
    wanted = in_kinds(kinds)

    def now() -> Agenda:
        return make_agenda(plan, known, only)

    begun = sum(known.state(one) == DONE for one in now().stages)
    if begun:
        print_status(f"{options.output_dir}: {begun} steps are done already and are used.")
    failures = Runner(known, now, wanted, jobs, options.fail_fast).run()
    whole = make_agenda(plan, known)  # the page shows all arms, whatever ran now
    found = findings.gather(plan, known, whole)
    with open(options.plan, encoding="utf-8") as file:
        path = report.write(plan, known, whole, found, file.read(), jobs)
    print_status(f"\n{summary(plan, found)}\nReport: {path}")
    if failures:
        logs = "".join(f"\n  {one.name}: {known.log(one)}" for one in failures)
        flags = {"only": options.only, "steps": options.steps, "jobs": options.jobs}
        again = shlex.join([*known.own, *(f"--{name}={value}" for name, value in flags.items() if value)])
        raise ReportedError(
            f"{len(failures)} command(s) failed; the others are done. Logs:{logs}\nTry them again: xmodels {again}"
        )
    return path


def summary(plan: Plan, found: findings.Findings) -> str:
    """Returns the table of all arms and tasks as text."""
    rows = [["", *plan.tasks]]
    for arm in found.arms:
        rows.append([arm.name, *(report.with_spread(found.scores.get((arm.name, task))) for task in plan.tasks)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _parse_names(flag: str, text: str | None, known: Sequence[str]) -> list[str]:
    """Returns the names of a flag that are parted by commas."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UsageError(f"{flag}={text}: {name!r} is unknown.{nearest(name, known)}")
    return names


def _check_folder(path: str) -> None:
    """Raises a UsageError where the folder holds something else."""
    if os.path.lexists(path) and not os.path.isdir(path):
        raise UsageError(f"--output_dir={path}: is a file. Name a folder.")
    if os.path.isdir(path) and (names := os.listdir(path)) and not any(name in FOLDERS for name in names):
        shown = ", ".join(sorted(names)[:3])
        raise UsageError(
            f"--output_dir={path}: holds something else ({shown}). Name a new folder, or that of a comparison."
        )
