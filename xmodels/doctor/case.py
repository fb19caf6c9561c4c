"""What the doctor knows: the flags of the training that is planned, and what the checks so far have opened."""

import dataclasses
import types
from typing import Any

from data_pipelines.options.declaration import REQUIRED, options_of
from xmodels.jobs.finetune import options as finetune
from xmodels.jobs.pretrain import options as pretrain

PRETRAIN, FINETUNE = "pretrain", "finetune"
OF_PRETRAINING, OF_FINETUNING = ({o.name: o.default for o in options_of(verb.Options)} for verb in (pretrain, finetune))


@dataclasses.dataclass
class Case:
    """A planned training.

    Attributes:
        flags: all flags of the command by name, with its defaults; checks read them as its `Options`.
        job: PRETRAIN, FINETUNE, or None where only the machine is looked at.

    What a check opens stays for those behind it, and is None where that failed: `manifest` and `tokenizer` of the records,
    `source` and `records` (their sizes), `labels`, `num_rows`, some
    `texts`, `loaded` (the checkpoint), `config`, `recipe`,
    `num_replicas` and `num_parameters`.
    """

    flags: types.SimpleNamespace
    job: str | None = None
    manifest: Any = None
    tokenizer: Any = None
    source: Any = None
    records: Any = None
    labels: Any = None
    texts: list[str] | None = None
    num_rows: int | None = None
    loaded: Any = None
    config: Any = None
    recipe: Any = None
    num_replicas: int = 1
    num_parameters: int | None = None


def case_of(given: dict[str, Any]) -> Case:
    """Returns the case that the options given describe, those of `pretrain` or of `finetune`."""
    job = FINETUNE if given.keys() & (OF_FINETUNING.keys() - OF_PRETRAINING.keys()) else None
    if job is None and "init_checkpoint" in given and "system" not in given:
        job = FINETUNE
    if job is None and any(name in given for name in ("system", "data_dir", "input_file")):
        job = PRETRAIN
    every = {**OF_PRETRAINING, **OF_FINETUNING, **(OF_PRETRAINING if job == PRETRAIN else {})}
    unset = {name: None if default is REQUIRED else default for name, default in every.items()}
    return Case(types.SimpleNamespace(**unset | given), job)
