"""Transformer-XL by the names of Hugging Face's `TransfoXLLMHeadModel`, which `transformers` has had up to version 4.

Each cluster of tokens has axes of its own: its rows of the table, their width, and its tokens in the softmax. T are the clusters
behind the first. The columns of clusters stand in their order, which the authors' code turns around.
"""

from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from data_pipelines.text.frames import PLAIN
from xmodels.conversion.format_types import HuggingFace
from xmodels.conversion.formats import Head, Table, logits_of_states
from xmodels.conversion.naming import TORCH, repeat
from xmodels.layers.adaptive import cluster_sizes, widths_of
from xmodels.models.transformer_xl import TransformerXLConfig
from xmodels.objectives.adaptive_lm import AdaptiveLM

ROWS, WIDTHS, TOKENS = "abcdefghij", "klmnopqrst", "αβγδεζηθικ"  # the axes of each cluster
CLUSTERS = range(len(ROWS))  # at most; WikiText-103 has four
LAYERS = 100  # at most, for copies of shared biases

BLOCK = "backbone.blocks.{block}."
BIASES = {"content_bias": "r_w_bias", "position_bias": "r_r_bias"}
HEAD = "objective.adaptive_lm.head."

OWN_AXES = {
    **{f"embedding.table_{i}": f"{ROWS[i]} {WIDTHS[i]}" for i in CLUSTERS},
    **{f"projection_{i}": f"{WIDTHS[i]} D" for i in CLUSTERS},
    **{f"head.bias_{i}": TOKENS[i] for i in CLUSTERS},
    "cluster_weight": "T k",
    "cluster_bias": "T",
}


def cluster_lengths(config: TransformerXLConfig) -> dict[str, int]:
    """Returns the lengths of the axes of clusters."""
    widths, tokens = widths_of(config), cluster_sizes(config)
    rows = tokens if len(widths) > 1 else [config.vocabulary_size]
    return {
        "T": len(tokens) - 1,
        **dict(zip(ROWS, rows, strict=False)),
        **dict(zip(WIDTHS, widths if len(widths) > 1 else widths * len(tokens), strict=False)),
        **dict(zip(TOKENS, tokens, strict=False)),
    }


def lacks(config: TransformerXLConfig) -> tuple[str, ...]:
    """Returns weights of other clusters, projections of tables that are as wide as the network, and of the softmax those that
    are tied."""
    count, tied = len(widths_of(config)), ties(config)
    projected = count > 1 or config.embedding_dim != config.hidden_dim
    missing = [f"backbone.embedding.table_{i}" for i in CLUSTERS[count:]]
    missing += [f"backbone.embedding.projection_{i}" for i in CLUSTERS if i >= count or not projected]
    missing += [f"{HEAD}bias_{i}" for i in CLUSTERS[len(tied) :]]
    missing += [f"{HEAD}projection_{i}" for i in CLUSTERS if i >= len(tied) or tied[i] or not projected]
    missing += [] if len(tied) > 1 else [f"{HEAD}cluster_"]
    missing += ["backbone.biases."] if config.untied_biases else [f"{BLOCK}{name}" for name in BIASES]
    return tuple(missing)


def ties(config: TransformerXLConfig) -> list[bool]:
    """Returns of each cluster whether the softmax uses the projection of the table."""
    count = len(config.cutoffs) + 1
    return [letter == "T" for letter in config.tied_projections.ljust(count, "T")[:count]]


def complete(stored: dict) -> dict:
    """Refuses what has more clusters than there are axes for, and one table for several clusters, whose bias is one as well."""
    cutoffs = stored.get("cutoffs") or []
    if isinstance(cutoffs, list | tuple) and cutoffs and (len(cutoffs) >= len(ROWS) or stored.get("div_val", 1) == 1):
        raise CheckpointError(
            f"Cannot convert a Transformer-XL with `cutoffs` {list(cutoffs)} and `div_val` {stored.get('div_val', 1)}: only up to "
            f"{len(ROWS)} clusters whose tables get narrower (`div_val` above 1)."
        )
    return stored


def infer_fields(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns which projections are tied, and the largest distance, which 0 and less switch off."""
    clamp, cutoffs = stored.get("clamp_len"), stored.get("cutoffs") or ()
    but_first = [not stored.get("proj_share_all_but_first", True), *(True for _ in cutoffs)]
    tied = stored.get("tie_projs", but_first)
    found = {"tied_projections": "".join("T" if each else "F" for each in tied)} if isinstance(tied, list) else {}
    return found | {"clamp_length": None if isinstance(clamp, int) and clamp <= 0 else clamp}


def infer_settings(config: TransformerXLConfig) -> dict[str, Any]:
    return {"clamp_len": config.clamp_length or -1, "tie_projs": ties(config), "tie_word_embeddings": True}


HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            **repeat(BLOCK, "transformer.layers.{block}.", {
                "mixer_norm": "dec_attn.layer_norm",
                "feedforward.expand": "pos_ff.CoreNet.0",
                "feedforward.contract": "pos_ff.CoreNet.3",
                "feedforward_norm": "pos_ff.layer_norm",
            }),
        }),
        **repeat(f"{BLOCK}mixer.", "transformer.layers.{block}.dec_attn.", {
            "query.kernel": "qkv_net.weight[:0/3]",
            "key.kernel": "qkv_net.weight[:1/3]",
            "value.kernel": "qkv_net.weight[:2/3]",
            "position.kernel": "r_net.weight",
            "merge.kernel": "o_net.weight",
        }),
        **repeat("backbone.biases.", "transformer.", BIASES),
        **repeat(BLOCK, "transformer.layers.{block}.dec_attn.", BIASES),
        **{f"backbone.embedding.table_{i}": f"transformer.word_emb.emb_layers.{i}.weight" for i in CLUSTERS},
        **{f"backbone.embedding.projection_{i}": f"transformer.word_emb.emb_projs.{i}" for i in CLUSTERS},
        **repeat(HEAD, "crit.", {name: name for name in ("cluster_weight", "cluster_bias")}),
        **{f"{HEAD}bias_{i}": f"crit.out_layers.{i}.bias" for i in CLUSTERS},
        **{f"{HEAD}projection_{i}": f"crit.out_projs.{i}" for i in CLUSTERS},
    },
    other_axes={
        **dict.fromkeys(BIASES, "H K"),
        **{f"projection_{i}": f"D {WIDTHS[i]}" for i in CLUSTERS},
    },
    settings={
        "vocab_size": "vocabulary_size",
        "d_model": "hidden_dim",
        "n_layer": "num_layers",
        "n_head": "num_heads",
        "d_head": "head_dim",
        "d_inner": "intermediate_dim",
        "d_embed": "embedding_dim",
        "cutoffs": "cutoffs",
        "div_val": "embedding_division",
        "mem_len": "memory_length",
        "same_length": "same_length",
        "pre_lnorm": "pre_norm",
        "untie_r": "untied_biases",
        "dropout": "dropout",
        "dropatt": "attention_dropout",
        "layer_norm_epsilon": "layer_norm_epsilon",
        "init_std": "initializer_stddev",
    },
    fixed={"model_type": "transfo-xl", "attn_type": 0, "adaptive": True, "tie_word_embeddings": True},
    infer_fields=infer_fields,
    infer_settings=infer_settings,
    complete=complete,
    unsaid=("max_sequence_length", "activation", "tied_projections"),  # no limit; relu; `infer_settings` says it in other words
    frame=PLAIN,
    architectures=(("TransfoXLLMHeadModel", frozenset()),),
    prefix="transformer.",
    bare_parts=("word_emb", "layers", *BIASES.values()),
    buffers=(r"transformer\.pos_emb\.inv_freq",),
    tied={
        **{f"crit.out_layers.{i}.weight": f"transformer.word_emb.emb_layers.{i}.weight" for i in CLUSTERS},
        **{f"crit.out_projs.{i}": f"transformer.word_emb.emb_projs.{i}" for i in CLUSTERS},
        **{
            f"transformer.layers.{i}.dec_attn.{name}": f"transformer.{name}"
            for i in range(LAYERS)
            for name in BIASES.values()
        },
    },
    continues=True,
)  # fmt: skip

TABLE = Table(
    config=TransformerXLConfig,
    own_axes=OWN_AXES,
    own_lengths=cluster_lengths,
    objectives=(Head("adaptive_lm", lambda config, num_classes: AdaptiveLM(config), logits_of_states),),
    lacks=lacks,
    hugging_face=HUGGING_FACE,
)
