"""Reformer by the names of Hugging Face's `ReformerModelWithLMHead`.

Layers of LSH have one projection for queries and keys, which is called `query_key` there and `query` here. Positions are
(rows, 1, width) and (1, columns, width) there.
"""

from collections.abc import Mapping
from typing import Any

from data_pipelines.text.frames import PLAIN
from xmodels.conversion.axes import counts_of
from xmodels.conversion.format_types import HuggingFace
from xmodels.conversion.formats import Head, Table, logits_of_states
from xmodels.conversion.naming import TORCH, repeat
from xmodels.models.reformer import LSH, ReformerConfig, default_dims, default_grid
from xmodels.objectives.chunked_lm import ChunkedLM

BLOCK, THEIRS = "backbone.blocks.{block}.", "reformer.encoder.layers.{block}."
HASHED, THEIR_HASHED = BLOCK.replace("block}", "lsh_block}"), THEIRS.replace("block}", "lsh_block}")
LAYERS = {
    "mixer_norm": "attention.layer_norm",
    "feedforward_norm": "feed_forward.layer_norm",
    "feedforward.expand": "feed_forward.dense.dense",
    "feedforward.contract": "feed_forward.output.dense",
}
KERNELS = {  # without biases
    "mixer.query.kernel": "attention.self_attention.query.weight",
    "mixer.key.kernel": "attention.self_attention.key.weight",
    "mixer.value.kernel": "attention.self_attention.value.weight",
    "mixer.merge.kernel": "attention.output.dense.weight",
}
DEFAULTS = {  # of their configuration, where a file leaves them out
    "is_decoder": False, "vocab_size": 320, "hidden_size": 256, "num_attention_heads": 12, "attention_head_size": 64,
    "feed_forward_size": 512, "max_position_embeddings": 4096, "hidden_dropout_prob": 0.05, "lsh_attention_probs_dropout_prob": 0.0,
    "local_attention_probs_dropout_prob": 0.05, "num_hashes": 1, "axial_norm_std": 1.0, "axial_pos_shape": [64, 64],
    "axial_pos_embds_dim": [64, 192], "attn_layers": ["local", "lsh"] * 3, "layer_norm_eps": 1e-12,
}  # fmt: skip


def has_row(config: ReformerConfig, ours: str, place: Mapping[str, int]) -> bool:
    """Returns whether a layer has the weight `ours`, by its kind of attention."""
    if "lsh_block" in place:
        return config.kinds[place["lsh_block"]] == LSH
    return not ours.endswith(("query.kernel", "key.kernel")) or config.kinds[place["block"]] != LSH


def read(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns our fields that they say otherwise. What is of a wrong kind is passed on, and refused by its name."""
    layers, buckets, heads = stored["attn_layers"], stored.get("num_buckets"), stored["num_attention_heads"]
    named = isinstance(layers, list) and layers and all(isinstance(kind, str) for kind in layers)
    shape, dims, length = stored["axial_pos_shape"], stored["axial_pos_embds_dim"], stored["max_position_embeddings"]
    size, width = stored["attention_head_size"], stored["hidden_size"]
    numbers = all(type(each) is int and each > 0 for each in (length, width, size, heads))
    is_grid = numbers and isinstance(shape, list) and tuple(shape) == default_grid(length)
    is_dims = numbers and isinstance(dims, list) and tuple(dims) == default_dims(width)
    return {
        "num_layers": len(layers) if named else layers,
        "attention": ",".join(shortest(layers)) if named else layers,
        "num_buckets": [] if buckets is None else [buckets] if isinstance(buckets, int) else buckets,
        "axial_shape": [] if is_grid else shape,
        "axial_dims": [] if is_dims else dims,
        "head_dim": None if numbers and size * heads == width else size,
    }


def shortest(kinds: list[str]) -> list[str]:
    """Returns the shortest beginning that the list repeats, the last time perhaps in part."""
    counts = range(1, len(kinds) + 1)
    period = next(n for n in counts if all(kind == kinds[i % n] for i, kind in enumerate(kinds)))
    return kinds[:period]


def write(config: ReformerConfig) -> dict[str, Any]:
    buckets = list(config.num_buckets)
    return {
        "attn_layers": config.kinds,
        "num_hidden_layers": config.num_layers,
        "num_buckets": buckets[0] if len(buckets) == 1 else buckets or None,
        "axial_pos_shape": list(config.grid),
        "axial_pos_embds_dim": list(config.position_dims),
        "attention_head_size": config.head_dim or config.hidden_dim // config.num_heads,
    }


HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            "backbone.embedding.token": "reformer.embeddings.word_embeddings",
            **repeat(BLOCK, THEIRS, LAYERS),
            "backbone.norm": "reformer.encoder.layer_norm",
        }),
        **repeat(BLOCK, THEIRS, KERNELS),
        HASHED + "mixer.query.kernel": THEIR_HASHED + "attention.self_attention.query_key.weight",
        "backbone.embedding.position.rows.embeddings": "reformer.embeddings.position_embeddings.weights.0",
        "backbone.embedding.position.columns.embeddings": "reformer.embeddings.position_embeddings.weights.1",
        "objective.chunked_lm.head.kernel": "lm_head.decoder.weight",
        "objective.chunked_lm.head.bias": "lm_head.decoder.bias",
    },
    other_axes={"rows.embeddings": "R I T", "columns.embeddings": "I U W"},
    settings={
        "vocab_size": "vocabulary_size", "hidden_size": "hidden_dim", "num_attention_heads": "num_heads",
        "feed_forward_size": "intermediate_dim", "max_position_embeddings": "max_sequence_length", "hidden_dropout_prob": "dropout",
        "lsh_attention_probs_dropout_prob": "attention_dropout", "local_attention_probs_dropout_prob": "local_attention_dropout",
        "local_attn_chunk_length": "local_chunk_size", "lsh_attn_chunk_length": "lsh_chunk_size", "num_hashes": "num_hashes",
        "axial_norm_std": "position_stddev", "chunk_size_feed_forward": "feedforward_chunk_size",
        "chunk_size_lm_head": "head_chunk_size", "attn_layers": "attention", "attention_head_size": "head_dim",
        "num_buckets": "num_buckets", "axial_pos_shape": "axial_shape", "axial_pos_embds_dim": "axial_dims",
        "layer_norm_eps": "layer_norm_epsilon", "initializer_range": "initializer_stddev",
    },
    activations={"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh"},
    complete=lambda stored: DEFAULTS | stored,
    fixed={
        "model_type": "reformer", "is_decoder": True, "axial_pos_embds": True, "tie_word_embeddings": False,
        "local_num_chunks_before": 1, "lsh_num_chunks_before": 1, "lsh_num_chunks_after": 0,
    },
    infer_fields=read,
    infer_settings=write,
    architectures=(("ReformerModelWithLMHead", frozenset({"chunked_lm"})), ("ReformerModel", frozenset())),
    prefix="reformer.",
    bare_parts=("embeddings", "encoder"),
    spares={"lm_head.bias": "lm_head.decoder.bias"},  # the same weight until transformers 4, and one without a use in 5
    continues=True,
    frame=PLAIN,
    sentence_piece_class="ReformerTokenizer",
)  # fmt: skip

TABLE = Table(
    config=ReformerConfig,
    objectives=(Head("chunked_lm", lambda config, num_classes: ChunkedLM(config), logits_of_states),),
    hugging_face=HUGGING_FACE,
    own_axes={
        "rows.embeddings": "R T", "columns.embeddings": "U W", "backbone.norm.gamma": "P", "backbone.norm.beta": "P",
        "chunked_lm.head.kernel": "P V", "chunked_lm.head.bias": "V",
    },
    own_lengths=lambda config: dict(zip("RUTW", (*config.grid, *config.position_dims), strict=True)),
    counts=lambda config: {**counts_of(config), "lsh_block": config.num_layers},
    has_row=has_row,
)  # fmt: skip
