"""T5, versions 1.0 and 1.1, by the names of Hugging Face's `T5ForConditionalGeneration` and of KerasHub's `T5Backbone`.

Axes as in `tables/bert.py`; R counts the buckets of relative positions. The first layer of each stack holds their table.
"""

import dataclasses

import numpy as np

from data_pipelines.text.frames import T5 as FRAME
from data_pipelines.text.vocabulary import PAD
from xmodels.conversion.formats import HuggingFace, KerasHub, Table, Variables, numbered_blocks
from xmodels.conversion.tables.bart import HEADS, theirs_of
from xmodels.models.t5 import T5Config


def attention(ours: str, theirs: str) -> dict[str, tuple[str, str, str]]:
    """Returns our name -> (our axes, their name, their axes)."""
    rows = {
        f"{ours}.{name}.kernel": ("D H K", f"{theirs}.{name[0]}.weight", "HK D") for name in ("query", "key", "value")
    }
    return rows | {f"{ours}.merge.kernel": ("H K D", f"{theirs}.o.weight", "D HK")}


def norm(ours: str, theirs: str) -> dict[str, tuple[str, str, str]]:
    return {f"{ours}.scale": ("D", f"{theirs}.weight", "D")}


def feedforward(layer: str) -> dict[str, tuple[str, str, str]]:
    """Returns `expand` is that of version 1.0, `gate` and `linear` those of 1.1."""
    return {
        "feedforward.expand.kernel": ("D F", f"{layer}.DenseReluDense.wi.weight", "F D"),
        "feedforward.gate.kernel": ("D F", f"{layer}.DenseReluDense.wi_0.weight", "F D"),
        "feedforward.linear.kernel": ("D F", f"{layer}.DenseReluDense.wi_1.weight", "F D"),
        "feedforward.contract.kernel": ("F D", f"{layer}.DenseReluDense.wo.weight", "D F"),
        **norm("feedforward_norm", f"{layer}.layer_norm"),
    }


ENCODER = attention("mixer", "0.SelfAttention") | norm("mixer_norm", "0.layer_norm") | feedforward("1")
DECODER = {
    **attention("mixer", "0.SelfAttention"), **norm("mixer_norm", "0.layer_norm"),
    **attention("cross", "1.EncDecAttention"), **norm("cross_norm", "1.layer_norm"), **feedforward("2"),
}  # fmt: skip
SHARED = {
    "backbone.embedding.token.embeddings": ("V D", "shared.weight", "V D"),
    "backbone.embedding.output_matrix.embeddings": ("V D", "lm_head.weight", "V D"),
    **{
        f"backbone.{stack}_buckets.table": (
            "R H", f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", "R H",
        )
        for stack in ("encoder", "decoder")
    },
    **norm("backbone.encoder_norm", "encoder.final_layer_norm"),
    **norm("backbone.decoder_norm", "decoder.final_layer_norm"),
}  # fmt: skip
BLOCKS = {stack: f"backbone.{stack}_blocks.{{{stack}_block}}." for stack in ("encoder", "decoder")}
STACKS = (
    (BLOCKS["encoder"], "encoder.block.{encoder_block}.layer.", ENCODER),
    (BLOCKS["decoder"], "decoder.block.{decoder_block}.layer.", DECODER),
)
PROJECTIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "swish", "tanh": "tanh"}


def lacks(config: T5Config) -> tuple[str, ...]:
    parts = ("expand",) if config.gated else ("gate", "linear")
    output = ("backbone.embedding.output_matrix",) if config.tied_output else ()
    return (*output, *(f"{block}feedforward.{part}" for block in BLOCKS.values() for part in parts))


def fields_from(stored) -> dict:
    """Returns `gated-gelu` is the tanh form, as `transformers` reads it."""
    kind = str(stored.get("feed_forward_proj", "relu"))
    gated, name = kind.startswith("gated-"), kind.removeprefix("gated-")
    name = "gelu_new" if kind == "gated-gelu" else name
    tied = stored.get("tie_word_embeddings") is not False
    return {
        "gated": gated, "activation": PROJECTIONS.get(name, name), "tied_output": tied,
        "scaled_output": stored.get("scale_decoder_outputs", tied), "num_decoder_layers": stored.get("num_decoder_layers"),
    }  # fmt: skip


def fields_to(config: T5Config) -> dict:
    name = next((theirs for theirs, ours in PROJECTIONS.items() if ours == config.activation), config.activation)
    name = "gelu" if config.gated and name == "gelu_new" else name
    scaled = {} if config.scaled_output == config.tied_output else {"scale_decoder_outputs": config.scaled_output}
    return {
        "feed_forward_proj": f"gated-{name}" if config.gated else name, "tie_word_embeddings": config.tied_output, **scaled,
        "num_decoder_layers": config.num_decoder_layers or config.num_layers, "is_encoder_decoder": True,
    }  # fmt: skip


def refined(config: T5Config, found) -> T5Config:
    """Returns `transformers` 5 writes that all outputs are tied; the tensors tell it."""
    output, tokens = found.get("lm_head.weight"), found.get("shared.weight")
    if tokens is None:
        return config
    return dataclasses.replace(config, tied_output=output is None or np.array_equal(output, tokens))


HUGGING_FACE = HuggingFace(
    variables=theirs_of(SHARED)
    | {
        name: row
        for ours, theirs, rows in STACKS
        for name, row in numbered_blocks(ours, theirs, theirs_of(rows)).items()
    },
    settings={
        "vocab_size": "vocabulary_size",
        "d_model": "hidden_dim",
        "d_kv": "head_dim",
        "d_ff": "intermediate_dim",
        "num_layers": "num_layers",
        "num_heads": "num_heads",
        "relative_attention_num_buckets": "num_buckets",
        "relative_attention_max_distance": "max_distance",
        "dropout_rate": "dropout",
        "layer_norm_epsilon": "layer_norm_epsilon",
        "initializer_factor": "initializer_factor",
        "n_positions": "max_sequence_length",
    },
    fixed={"model_type": "t5"},
    implied=fields_from,
    derived=fields_to,
    architectures=(("T5ForConditionalGeneration", frozenset()),),
    prefix="",
    bare_parts=(),
    # Of the first files; attention to the source has no bias in any network.
    buffers=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
    tied={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
    continues=True,
    frame=FRAME,
    sentence_piece_class="T5Tokenizer",
    decoder_start=PAD,
    refined=refined,
)

GELU_TANH = {
    "module": "builtins", "class_name": "function", "config": "keras_hub>gelu_approximate", "registered_name": "function",
}  # fmt: skip
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish", "tanh": "tanh"}  # KerasHub's -> ours
SIZES = (
    "vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "dropout", "layer_norm_epsilon",
)  # fmt: skip


def hub_fields_from(stored) -> dict:
    """Returns the form of GELU with tanh is a function of KerasHub's, which stands there with its module."""
    activation, tied = stored.get("activation", "relu"), stored.get("tie_embedding_weights") is not False
    if isinstance(activation, dict):
        activation = "gelu_tanh" if activation.get("config") == GELU_TANH["config"] else str(activation.get("config"))
    head_dim, heads, width = (stored.get(name) for name in ("key_value_dim", "num_heads", "hidden_dim"))
    if head_dim is None and type(heads) is int and heads > 0 and type(width) is int:
        head_dim = width // heads
    return {
        "gated": stored.get("use_gated_activation") is not False, "tied_output": tied, "scaled_output": tied,
        "activation": ACTIVATIONS.get(activation, activation), "head_dim": head_dim,
    }  # fmt: skip


def hub_fields_to(config: T5Config) -> dict:
    name = next((theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation), config.activation)
    return {
        "use_gated_activation": config.gated, "tie_embedding_weights": config.tied_output, "key_value_dim": config.head_dim,
        "activation": GELU_TANH if config.activation == "gelu_tanh" else name,
    }  # fmt: skip


def hub_layer(crossed: bool) -> Variables:
    """Returns one layer by KerasHub's names; `input_projector` is the only one, or the one with the activation."""

    def attention(ours: str, theirs: str) -> Variables:
        parts = ("query", "key", "value")
        rows = {f"{ours}.{part}.kernel": (f"{theirs}/{part}_projector/vars/0", "D HK") for part in parts}
        return rows | {f"{ours}.merge.kernel": (f"{theirs}/output_projector/vars/0", "HK D")}

    return {
        **attention("mixer", "self_attention"),
        "mixer_norm.scale": ("self_attention_layer_norm/vars/0", "D"),
        **(attention("cross", "cross_attention") if crossed else {}),
        **({"cross_norm.scale": ("cross_attention_layer_norm/vars/0", "D")} if crossed else {}),
        "feedforward.expand.kernel": ("input_projector/vars/0", "D F"),
        "feedforward.gate.kernel": ("input_projector/vars/0", "D F"),
        "feedforward.linear.kernel": ("gate_projector/vars/0", "D F"),
        "feedforward.contract.kernel": ("output_projector/vars/0", "F D"),
        "feedforward_norm.scale": ("layer_norm/vars/0", "D"),
    }


KERAS_HUB = KerasHub(
    variables={
        "backbone.embedding.token.embeddings": ("layers/reversible_embedding/vars/0", "V D"),
        "backbone.embedding.output_matrix.embeddings": ("layers/reversible_embedding/vars/1", "D V"),
        "backbone.encoder_buckets.table": ("layers/encoder_0/self_attention/vars/0", "R H"),
        "backbone.decoder_buckets.table": ("layers/decoder_0/self_attention/vars/0", "R H"),
        "backbone.encoder_norm.scale": ("layers/t5_layer_norm/vars/0", "D"),
        "backbone.decoder_norm.scale": ("layers/t5_layer_norm_1/vars/0", "D"),
        **numbered_blocks(BLOCKS["encoder"], "layers/encoder_{encoder_block}/", hub_layer(crossed=False)),
        **numbered_blocks(BLOCKS["decoder"], "layers/decoder_{decoder_block}/", hub_layer(crossed=True)),
    },
    settings={name: name for name in SIZES},
    implied=hub_fields_from,
    derived=hub_fields_to,
    unsaid=("max_sequence_length", "initializer_factor"),
    class_name="T5Backbone",
    tokenizer_class="T5Tokenizer",
    sentence_pieces=True,
    num_sentinels=100,
)  # fmt: skip

TABLE = Table(
    config=T5Config,
    axes={ours: axes for ours, (axes, _, _) in SHARED.items()}
    | {f"{ours}{name}": axes for ours, _, rows in STACKS for name, (axes, _, _) in rows.items()},
    lengths=lambda config: {
        "D": config.hidden_dim,
        "H": config.num_heads,
        "K": config.head_dim,
        "F": config.intermediate_dim,
        "V": config.vocabulary_size,
        "R": config.num_buckets,
    },
    counts=lambda config: {
        "encoder_block": config.num_layers,
        "decoder_block": config.num_decoder_layers or config.num_layers,
    },
    heads=HEADS,
    hugging_face=HUGGING_FACE,
    keras_hub=KERAS_HUB,
    lacks=lacks,
)
