"""Compares models on a corpus of your own: pretrains each with an equal budget, fine-tunes all on the same tasks, and
writes one page.

    xmodels compare --plan=plan.yaml --set=corpus=text --output_dir=comparison --dry_run
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A plan, the output folder, and which part of the plan to run."""

    SECTION: ClassVar = "Training"
    JOB: ClassVar = "xmodels.jobs.compare.run:compare"
    EARLY: ClassVar = "xmodels.jobs.early:check_comparison"

    plan: str = option(REQUIRED, "YAML file with systems, corpus, vocabulary, tasks, seeds, baselines and a budget; docs/compare.md explains each key.", section="Plan")  # fmt: skip
    set: str | None = option(None, "NAME=VALUE: the value of ${NAME} in the plan, such as corpus=text/pretrain.txt. Separate several by commas, or repeat the flag. Names that are not given are taken from the environment.", repeatable=True)  # fmt: skip
    output_dir: str = option(REQUIRED, "Folder for all results. Results that are there already are used; the missing ones are made.", section="Work")  # fmt: skip
    dry_run: bool = option(False, "Check the plan, and show each command that would run and about what it costs. Writes nothing.")  # fmt: skip
    only: str | None = option(None, "Comma-separated arms (systems and baselines): run only these, with what they need.")  # fmt: skip
    steps: str | None = option(None, "Comma-separated kinds of steps to run: vocabulary, records, probe, pretrain, finetune, predict, baseline. Default: all.")  # fmt: skip
    jobs: int | None = option(None, "Number of commands to run in parallel, each on its share of the CPU cores. Default: 2; 1 if there is a GPU, since a command takes all of its memory.", minimum=1)  # fmt: skip
    fail_fast: bool = option(False, "Start nothing more once a command has failed. Default: everything that does not depend on it continues.")  # fmt: skip
