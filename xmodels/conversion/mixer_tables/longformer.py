"""Longformer by the names of Hugging Face's `LongformerForMaskedLM`: RoBERTa's, and three projections more.

Their `attention_window` is twice our window, one number or one for each layer. Which tokens are global is no number of the network
there: `LongformerForMaskedLM` and `LongformerForTokenClassification` have none unless they are given, and here the first token is
global unless `global_ids` says otherwise.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from data_pipelines.text.vocabulary import SEP
from xmodels.conversion.naming import TORCH, repeat
from xmodels.conversion.tables import bert, roberta
from xmodels.models.roberta import RobertaConfig
from xmodels.tasks.base.published_head import CHOICE

GLOBAL = {f"mixer.{name}_global": f"attention.self.{name}_global" for name in ("query", "key", "value")}


def rename(names: Mapping[str, str]) -> dict[str, str]:
    """Returns RoBERTa's names as those of this network."""
    return {ours: theirs.replace("roberta.", "longformer.", 1) for ours, theirs in names.items()}


def read(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns our fields that they say otherwise. What is of a wrong kind is passed on, and refused."""
    given = stored.get("attention_window", 512)
    sizes = given if isinstance(given, list) else [given]
    windows = [
        size // 2 if type(size) is int and size > 1 and size % 2 == 0 else f"half of {size!r:.20}" for size in sizes
    ]
    one = len(set(map(str, windows))) == 1
    own = {"mixer.window": windows[0]} if one else {"mixer.windows": windows}
    return roberta.read_positions(stored) | {"mixer": "longformer"} | own


def write(config: RobertaConfig) -> dict[str, Any]:
    numbers = config.mixer_numbers
    windows = numbers.windows or (numbers.window,) * config.num_layers
    return roberta.write_positions(config) | {"attention_window": [2 * window for window in windows]}


OF_ROBERTA = roberta.HUGGING_FACE
HUGGING_FACE = dataclasses.replace(
    OF_ROBERTA,
    names=rename(OF_ROBERTA.names) | TORCH.weights(repeat(bert.BLOCK, "longformer.encoder.layer.{block}.", GLOBAL)),
    heads={kind: rename(names) if kind == CHOICE else names for kind, names in OF_ROBERTA.heads.items()},
    fixed=OF_ROBERTA.fixed | {"model_type": "longformer"},
    infer_fields=read,
    infer_settings=write,
    unsaid=("mixer.num_global",),
    family="Longformer",
    architectures=tuple((name.replace("Roberta", "Longformer"), heads) for name, heads in OF_ROBERTA.architectures),
    prefix="longformer.",
    buffers=tuple(pattern.replace("roberta", "longformer") for pattern in OF_ROBERTA.buffers),
    tied={copy: name.replace("roberta.", "longformer.", 1) for copy, name in OF_ROBERTA.tied.items()},
    forced={"sep_token_id": SEP},  # after which questions end there
)  # fmt: skip

MODEL, MIXER = "roberta", "longformer"
TABLE = dataclasses.replace(
    roberta.TABLE,
    hugging_face=HUGGING_FACE,
    keras_hub=None,
    own_axes={
        f"{name}_global.{weight}": axes
        for name in ("query", "key", "value")
        for weight, axes in (("kernel", "D H K"), ("bias", "H K"))
    },
)  # fmt: skip
