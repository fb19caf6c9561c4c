"""Flags of `--task=probe`."""

import dataclasses

from data_pipelines.options.declaration import option
from xmodels.layers.poolings import JOINT, POOLINGS
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(base.LengthOptions):
    """What is fitted, on which states."""

    train_file: str | None = option(None, "Labelled rows on which the probe is fitted. It is scored on test_file.", section="Probes of frozen networks (docs/probing.md)")  # fmt: skip
    pooling: str | None = option(None, "State of a layer that represents a text. published: the one that the system's paper reads. Several side by side: mean+max, which finetune reads of small masked language models. Default: first, last and mean, and published.", choices=tuple(p for p in POOLINGS if p != "attention"), joint=JOINT)  # fmt: skip
    layer: str | None = option(None, "Layers to probe, such as 0,6,-1: 0 is the embedding, -1 the last layer. Default: all.")  # fmt: skip
    random_init: bool = option(
        False, "Control experiment: use random weights, and take only sizes and vocabulary from model_dir."
    )
    seed: int = option(12345, "Random seed of random weights, and of the rows that are held out from train_file.")
