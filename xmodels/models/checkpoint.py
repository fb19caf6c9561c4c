"""A checkpoint in memory, whoever wrote it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodels.models.config import TokenConfig


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory.

    Attributes:
        model: the file in `xmodels/models`, such as "bert".
        config: the configuration of that network.
        values: our flat names, `backbone.…` and `objective.…`, -> float32 arrays.
        tokenizer: the files of the vocabulary and what is known of them, a `TokenizerFiles`, if there are any.
        heads: the labels of the heads that `values` holds, such as "masked_lm".
        labels: the names of the classes, where the checkpoint names them.
        warnings: what the reader should know, such as heads that are absent.
        system: the file in `xmodels/systems`; None where the checkpoint names none.
        special_ids: the ids that a config.json of Hugging Face gives to tokens, such as `eos_token_id`.
        generation: what its generation_config.json says; None where there is none.
        decoder_ids: how a folder of Hugging Face begins and ends what its decoder writes: `decoder_start_token_id`,
            `forced_bos_token_id` and `forced_eos_token_id`, None for those that it does not force; empty where it does not say it.
        form: the `Format` in which it was read; None for ours.
        pooling: what the head of a task reads; None for what the paper of the system reads.
        settings: of the task, as the run that has learnt it keeps them.
    """

    model: str
    config: TokenConfig
    values: dict[str, np.ndarray]
    tokenizer: Any = None
    heads: frozenset[str] = frozenset()
    labels: tuple[str, ...] | None = None
    warnings: tuple[str, ...] = ()
    system: str | None = None
    special_ids: Mapping[str, int] = dataclasses.field(default_factory=dict)
    generation: Mapping[str, Any] | None = None
    decoder_ids: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    form: Any = None
    pooling: str | None = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def without_heads(self) -> "Checkpoint":
        """Returns the network alone."""
        values = {name: value for name, value in self.values.items() if name.startswith("backbone.")}
        return dataclasses.replace(self, values=values, heads=frozenset(), labels=None, pooling=None)
