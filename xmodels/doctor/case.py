"""What the doctor knows: the flags of the training that is planned, and what the checks so far have opened."""

import dataclasses
import types
from typing import Any

PRETRAIN, FINETUNE = "pretrain", "finetune"
OF_FINETUNING = (
    "train_file",
    "eval_file",
    "test_file",
    "random_init",
    "text_column",
    "label_column",
    "num_train_epochs",
)


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


def case_of(given: dict[str, Any], defaults: dict[str, dict[str, Any]]) -> Case:
    """The case that the flags on the command line describe.

    Args:
        given: flags on the command line.
        defaults: of all flags of each command, by its name.
    """
    job = FINETUNE if any(name in given for name in OF_FINETUNING) else None
    if job is None and "init_checkpoint" in given and "system" not in given:
        job = FINETUNE
    if job is None and any(name in given for name in ("system", "data_dir", "input_file")):
        job = PRETRAIN
    every = {name: value for values in defaults.values() for name, value in values.items()}
    return Case(types.SimpleNamespace(**{**every, **defaults.get(job, {}), **given}), job)
