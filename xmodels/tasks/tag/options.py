"""Flags of `--task=tag`."""

import dataclasses

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base

WORDS = "Words with tags (docs/tag.md)"  # a section of `--help`


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How a file of words with tags is read."""

    bad_tags: str | None = option(None, "What to do with impossible tags, such as I-X after O in BIO. repair: read them as conlleval does, and say how many. refuse: stop at the first and name its line. Default: repair.", section=WORDS, choices=("repair", "refuse"))  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(FileOptions, base.WindowOptions, base.FreezingOptions, base.FinetuneOptions):
    """A tag for every word."""

    crf: bool = option(False, "Predict the tags of a text jointly, by a linear-chain CRF over its words.", section=WORDS, structural=True)  # fmt: skip
    feature_layers: str | None = option(None, "Layers of a frozen network that the head reads, such as -1,-2,-3,-4; 0 is the embedding. Default: the output of the network.", structural=True)  # fmt: skip
    combine_layers: str | None = option(None, "How several layers are combined. concat: concatenated. mix: a learnt weighted sum. mix_both: another one beside the output of the BiLSTM too. Default: mix.", choices=("concat", "mix", "mix_both"), structural=True)  # fmt: skip
    bilstm_dim: int | None = option(None, "Width of each direction of a two-layer BiLSTM below the Dense layer. Default: no BiLSTM.", minimum=1, structural=True)  # fmt: skip
