"""Checks machine, versions, data, checkpoint and folders before a training begins, and says what to change. Takes the
flags of pretrain, finetune and multitask: put `doctor` in place of the verb. It trains and writes nothing.

    xmodels doctor
    xmodels doctor --system=bert_wwm --size=small --data_dir=records --model_dir=run --train_batch_size=64
    xmodels doctor --init_checkpoint=run --train_file=train.tsv --eval_file=dev.tsv --model_dir=classifier
"""

import dataclasses
from typing import Any

from data_pipelines.options.declaration import OPTION, REQUIRED, Declared, Option, options_of
from xmodels.jobs.finetune import options as finetune
from xmodels.jobs.multitask import options as multitask
from xmodels.jobs.pretrain import options as pretrain


# Those of `pretrain`, `finetune` and `multitask`, none of them required, and None if it is not given.
def _optional(option: Option) -> tuple[str, Any, dataclasses.Field]:
    declared = {field.name: getattr(option, field.name) for field in dataclasses.fields(Declared)}
    declared["help"] += "" if option.default is REQUIRED else option.note
    return option.name, option.type | None, dataclasses.field(default=None, metadata={OPTION: Declared(**declared)})


OPTIONS = {option.name: option for verb in (multitask, finetune, pretrain) for option in options_of(verb.Options)}
ORDER = dict.fromkeys(option.name for verb in (pretrain, finetune, multitask) for option in options_of(verb.Options))
Options = dataclasses.make_dataclass(
    "Options", [_optional(OPTIONS[name]) for name in ORDER], frozen=True, kw_only=True,
    namespace={"__module__": __name__, "SECTION": "Begin here", "JOB": "xmodels.doctor.examine:examine"},
)  # fmt: skip
