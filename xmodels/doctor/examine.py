"""The doctor: looks at machine, data and plans of a training before it begins, and says what would go wrong.

What needs no TensorFlow comes first. What a training checks too is checked by the same functions, in the same words.
"""

import time
import types
from collections.abc import Iterator

from data_pipelines.errors import ReportedError, UsageError
from data_pipelines.options.declaration import changed_options
from data_pipelines.quiet import quiet_start
from xmodels.doctor import labels, machine, network, records, resources, tasks, versions, vocabulary
from xmodels.doctor.case import FINETUNE, Case, case_of
from xmodels.doctor.findings import PROBLEM, WARNING, Finding, findings
from xmodels.jobs.doctor.options import Options

ENVIRONMENT = [
    ("python", versions.python),
    ("packages", versions.packages),
    ("tensorflow", versions.tensorflow),
    ("keras", versions.keras),
]
FILES = [
    ("cluster", machine.cluster),
    ("run folder", resources.folder),
    ("records", records.shards),
    ("held out", records.held_out_shards),
    ("vocabulary", vocabulary.vocabulary),
]
TRAINING = [
    ("labels", labels.rows),
    ("devices", machine.devices),
    ("precision", machine.precision),
    ("data", records.fit),
    ("network", network.system),
    ("checkpoint", network.checkpoint),
    ("labels", labels.recorded),
    ("text", labels.known_text),
    ("run", network.run),
    ("memory", resources.memory),
    ("disk", resources.disk),
]


OF_A_TASK = [
    (name, check) for name, check in TRAINING if check not in (machine.devices, machine.precision, network.run)
]  # `run` compares a folder that only `multitask` writes


class ProblemsFound(ReportedError):
    """Something is wrong; the exit code is that of the first problem."""

    def __init__(self, found: list[Finding]):
        problems = [finding for finding in found if finding.status == PROBLEM]
        warnings = sum(finding.status == WARNING for finding in found)
        super().__init__(
            f"{len(problems)} problem(s), {warnings} warning(s). Mend the first problem ({problems[0].name}) and ask again."
        )
        self.exit_code = problems[0].exit_code


def examine(options: Options) -> list[Finding]:
    """Prints a line for every check.

    Raises:
        ProblemsFound: with the exit code of the first problem.
    """
    began = time.monotonic()
    found = []
    flags = changed_options(options)
    for finding in findings_of_tasks(flags) if options.tasks_file else all_findings(case_of(flags)):
        print(finding, flush=True)
        found.append(finding)
    if any(finding.status == PROBLEM for finding in found):
        raise ProblemsFound(found)
    warnings = sum(finding.status == WARNING for finding in found)
    verdict = f"{warnings} warning(s), no problem" if warnings else "All is well"
    print(f"{verdict}: {len(found)} checks in {time.monotonic() - began:.1f} s.", flush=True)
    return found


def all_findings(case: Case) -> Iterator[Finding]:
    """Runs all checks; without TensorFlow only those before it, where the installation cannot work."""
    broken = False
    for finding in findings(ENVIRONMENT, case):
        broken |= finding.status == PROBLEM
        yield finding
    if case.job is None and records.is_labelled(case.flags.data_dir):
        case.job = FINETUNE
    yield from findings(FILES, case)
    if broken:
        return
    failed = list(findings([("import", _import)], case))
    yield from failed or findings(TRAINING, case)


def findings_of_tasks(flags: dict) -> Iterator[Finding]:
    """Yields the same for `multitask`: what is of the machine once, the rest for each task as if it was learnt alone."""
    cases, failed = {}, False
    of_the_machine = Case(types.SimpleNamespace(**vars(case_of({}).flags) | {"model_dir": flags.get("model_dir")}))
    checks = [
        *ENVIRONMENT,
        ("run folder", resources.folder),
        ("tasks", lambda case: tasks.read(flags, cases)),
        ("import", _import),
    ]
    for finding in findings(checks, of_the_machine):
        failed |= finding.status == PROBLEM
        yield finding
    if not failed:
        yield from tasks.of_each(cases, OF_A_TASK)


def _import(case: Case) -> None:
    """Imports TensorFlow and Keras, once for all that follows."""
    try:
        with quiet_start():
            import xmodels.jobs.finetune.run
            import xmodels.jobs.pretrain.run  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"TensorFlow, Keras or what they need cannot be imported ({error}). Run `pip install --force-reinstall -e .` "
            "where setup.py lies, best in a new environment."
        ) from None
