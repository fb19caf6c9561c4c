"""Encoders and decoders of Transformers that begin as BERT, RoBERTa, GPT or GPT-2 (Rothe et al., 2020, arXiv 1907.12461).

The attention of the decoder to the source, with its norm, is in none of them and begins at random (section 2).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xmodels.models.config import AttentionConfig
from xmodels.models.parts import ENCODER, Part

BERT_LIKE = ("bert", "roberta", "xlm_roberta")  # norms behind the sums, also of the embeddings


def from_bert(part: str, config: AttentionConfig, loaded: AttentionConfig, values: Mapping[str, Any]) -> Part:
    """Returns the weights of BERT or RoBERTa for a part of a network such as BART, which has no segments: positions take in the row
    of the first one. Arguments as those of `Backbone.adopt_part`."""
    side = "source" if part == ENCODER else "target"
    unused = getattr(loaded, "first_position", 0)  # rows that stand for no position
    positions = values["backbone.embedding.position.embeddings"][unused:][: config.max_sequence_length]
    positions = positions + values["backbone.embedding.segment.embeddings"][0]
    empty = np.zeros((config.first_position, positions.shape[1]), positions.dtype)
    taken = {
        "backbone.embedding.token.embeddings": values["backbone.embedding.token.embeddings"],
        f"backbone.embedding.{side}_position.embeddings": np.concatenate([empty, positions]),
        **{f"backbone.embedding.{side}_norm.{n}": values[f"backbone.embedding.norm.{n}"] for n in ("gamma", "beta")},
    }
    sizes = _sizes(part, config, loaded) | {"scale_embedding": (False, config.scale_embedding)}
    return Part(taken | _blocks(part, values), sizes, _settings(config, loaded))


def from_gpt(part: str, config: AttentionConfig, loaded: AttentionConfig, values: Mapping[str, Any]) -> Part:
    """Returns the weights of GPT or GPT-2 for a part of a Transformer with the same blocks, whose positions are one table for both
    parts. It multiplies vectors of tokens with sqrt(D), so they are divided by it; the output matrix of a decoder is not."""
    table = values["backbone.embedding.token.embeddings"]
    inputs = table / np.asarray(config.hidden_dim**0.5, table.dtype)
    positions = values["backbone.embedding.position.embeddings"][: config.max_sequence_length]
    taken = {"backbone.embedding.position.table.embeddings": positions}
    if part == ENCODER:
        taken["backbone.embedding.token.embeddings"] = inputs
    else:
        taken |= {
            "backbone.embedding.output_token.embeddings": inputs,
            "backbone.embedding.output_matrix.embeddings": table,
        }
    norm = "backbone.norm."  # GPT-2's, behind the last block
    taken |= {
        f"backbone.{part}_norm.{n.removeprefix(norm)}": value for n, value in values.items() if n.startswith(norm)
    }
    sizes = _sizes(part, config, loaded) | {
        "position": ("learned", config.position),
        "attention_bias": (True, config.attention_bias),
        "share_embeddings": ("none", config.share_embeddings),
    }
    settings = _settings(config, loaded)
    if part != ENCODER:
        settings["start"] = ("token", config.start)
    return Part(taken | _blocks(part, values), sizes, settings)


def _blocks(part: str, values: Mapping[str, Any]) -> dict[str, Any]:
    begin = "backbone.blocks."
    return {f"backbone.{part}_blocks.{n.removeprefix(begin)}": v for n, v in values.items() if n.startswith(begin)}


def _sizes(part: str, config: AttentionConfig, loaded: AttentionConfig) -> dict[str, tuple[Any, Any]]:
    """Returns {our field: (what the blocks need, what we have)}."""
    own = {
        "num_layers": "num_decoder_layers",
        "num_heads": "decoder_num_heads",
        "intermediate_dim": "decoder_intermediate_dim",
    }
    sizes = {"hidden_dim": (loaded.hidden_dim, config.hidden_dim), "mixer": (loaded.mixer, "multi_head")}
    for name, of_decoder in own.items():
        field = of_decoder if part != ENCODER and hasattr(config, of_decoder) else name
        sizes[field] = getattr(loaded, name), getattr(config, field) or getattr(config, name)
    if loaded.max_sequence_length < config.max_sequence_length:
        sizes["max_sequence_length"] = loaded.max_sequence_length, config.max_sequence_length
    return sizes


def _settings(config: AttentionConfig, loaded: AttentionConfig) -> dict[str, tuple[Any, Any]]:
    return {name: (getattr(loaded, name), getattr(config, name)) for name in ("activation", "layer_norm_epsilon")}
