"""The options of `xmodels compare`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """A plan, where everything goes, and which part of it runs."""

    JOB: ClassVar = "xmodels.jobs.compare:compare"
    EARLY: ClassVar = "xmodels.jobs.early:comparing"

    plan: str = option(REQUIRED, "YAML with systems, corpus, vocabulary, tasks, seeds, baselines and a budget; docs/compare.md explains each key.", section="Plan")  # fmt: skip
    set: str | None = option(None, "NAME=VALUE: what ${NAME} stands for in the plan, such as corpus=text/pretrain.txt; several parted by commas, or the flag again. What is not given is taken from the environment.", repeatable=True)  # fmt: skip
    output_dir: str = option(REQUIRED, "Folder for everything. What is there is used, and what is missing is made.", section="Work")  # fmt: skip
    dry_run: bool = option(False, "Check the plan, show all that would run with what it costs, about, and each command; write nothing.")  # fmt: skip
    only: str | None = option(None, "Arms, parted by commas: run these alone, with what they need.")
    steps: str | None = option(None, "Kinds of steps, parted by commas: vocabulary, records, probe, pretrain, finetune, predict, baseline. Default: all.")  # fmt: skip
    jobs: int | None = option(None, "Commands side by side, each on its share of the processor cores. Default: 2; 1 where there is a GPU, whose memory a command takes whole.", minimum=1)  # fmt: skip
    fail_fast: bool = option(False, "Begin nothing more once a command has failed. Default: all that does not need it goes on.")  # fmt: skip
