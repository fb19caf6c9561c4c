"""T5, versions 1.0 and 1.1, by the names of Hugging Face's `T5ForConditionalGeneration` and of KerasHub's `T5Backbone`.

The first layer of each stack holds the table of its relative positions, R buckets.
"""

import dataclasses

import numpy as np

from data_pipelines.text.frames import T5 as FRAME
from data_pipelines.text.vocabulary import PAD
from xmodels.conversion.format_types import HuggingFace, KerasHub
from xmodels.conversion.formats import Table
from xmodels.conversion.naming import Naming, repeat
from xmodels.conversion.tables.bart import DECODER_BLOCK, ENCODER_BLOCK, OBJECTIVES
from xmodels.models.t5 import T5Config

# No layer has biases.
TORCH = Naming({"kernel": ".weight", "scale": ".weight", "embeddings": ".weight"})
KERAS = Naming({"kernel": "/vars/0", "scale": "/vars/0", "embeddings": "/vars/0"})


def attention(ours: str, theirs: str) -> dict[str, str]:
    parts = {f"{ours}.{name}": f"{theirs}.{name[0]}" for name in ("query", "key", "value")}
    return parts | {f"{ours}.merge": f"{theirs}.o"}


def feedforward(layer: str) -> dict[str, str]:
    """Returns names of layers, of which `expand` is that of version 1.0, `gate` and `linear` those of 1.1."""
    return {
        "feedforward.expand": f"{layer}.DenseReluDense.wi",
        "feedforward.gate": f"{layer}.DenseReluDense.wi_0",
        "feedforward.linear": f"{layer}.DenseReluDense.wi_1",
        "feedforward.contract": f"{layer}.DenseReluDense.wo",
        "feedforward_norm": f"{layer}.layer_norm",
    }


ENCODER = attention("mixer", "0.SelfAttention") | {"mixer_norm": "0.layer_norm"} | feedforward("1")
DECODER = {
    **attention("mixer", "0.SelfAttention"), "mixer_norm": "0.layer_norm",
    **attention("cross", "1.EncDecAttention"), "cross_norm": "1.layer_norm", **feedforward("2"),
}  # fmt: skip
PROJECTIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "swish", "tanh": "tanh"}


def lacks(config: T5Config) -> tuple[str, ...]:
    parts = ("expand",) if config.gated else ("gate", "linear")
    output = ("backbone.embedding.output_matrix",) if config.tied_output else ()
    return (*output, *(f"{block}feedforward.{part}" for block in (ENCODER_BLOCK, DECODER_BLOCK) for part in parts))


def read_fields(stored) -> dict:
    """Returns what the file says in other words; `gated-gelu` is the tanh form, as `transformers` reads it."""
    kind = str(stored.get("feed_forward_proj", "relu"))
    gated, name = kind.startswith("gated-"), kind.removeprefix("gated-")
    name = "gelu_new" if kind == "gated-gelu" else name
    tied = stored.get("tie_word_embeddings") is not False
    return {
        "gated": gated, "activation": PROJECTIONS.get(name, name), "tied_output": tied,
        "scaled_output": stored.get("scale_decoder_outputs", tied), "num_decoder_layers": stored.get("num_decoder_layers"),
    }  # fmt: skip


def write_fields(config: T5Config) -> dict:
    name = next((theirs for theirs, ours in PROJECTIONS.items() if ours == config.activation), config.activation)
    name = "gelu" if config.gated and name == "gelu_new" else name
    scaled = {} if config.scaled_output == config.tied_output else {"scale_decoder_outputs": config.scaled_output}
    return {
        "feed_forward_proj": f"gated-{name}" if config.gated else name, "tie_word_embeddings": config.tied_output, **scaled,
        "num_decoder_layers": config.num_decoder_layers or config.num_layers, "is_encoder_decoder": True,
    }  # fmt: skip


def refine(config: T5Config, found) -> T5Config:
    """Returns the configuration with what the tensors tell: `transformers` 5 writes of all outputs that they are tied."""
    output, tokens = found.get("lm_head.weight"), found.get("shared.weight")
    if tokens is None:
        return config
    return dataclasses.replace(config, tied_output=output is None or np.array_equal(output, tokens))


HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            "backbone.embedding.token": "shared",
            "backbone.embedding.output_matrix": "lm_head",
            "backbone.encoder_norm": "encoder.final_layer_norm",
            "backbone.decoder_norm": "decoder.final_layer_norm",
            **repeat(ENCODER_BLOCK, "encoder.block.{encoder_block}.layer.", ENCODER),
            **repeat(DECODER_BLOCK, "decoder.block.{decoder_block}.layer.", DECODER),
        }),
        **{
            f"backbone.{stack}_buckets.table": f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            for stack in ("encoder", "decoder")
        },
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
    infer_fields=read_fields,
    infer_settings=write_fields,
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
    refine=refine,
)  # fmt: skip

GELU_TANH = {
    "module": "builtins", "class_name": "function", "config": "keras_hub>gelu_approximate", "registered_name": "function",
}  # fmt: skip
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish", "tanh": "tanh"}  # KerasHub's -> ours
SIZES = (
    "vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "dropout", "layer_norm_epsilon",
)  # fmt: skip


def read_hub_fields(stored) -> dict:
    """Returns what the file says in other words; GELU with tanh stands there as a function of KerasHub's, with its module."""
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


def write_hub_fields(config: T5Config) -> dict:
    name = next((theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation), config.activation)
    return {
        "use_gated_activation": config.gated, "tie_embedding_weights": config.tied_output, "key_value_dim": config.head_dim,
        "activation": GELU_TANH if config.activation == "gelu_tanh" else name,
    }  # fmt: skip


def hub_attention(ours: str, theirs: str) -> dict[str, str]:
    parts = {f"{ours}.{name}": f"{theirs}/{name}_projector" for name in ("query", "key", "value")}
    return parts | {f"{ours}.merge": f"{theirs}/output_projector", f"{ours}_norm": f"{theirs}_layer_norm"}


# `input_projector` is the only one, or the one with the activation.
HUB_LAYER = {
    **hub_attention("mixer", "self_attention"),
    "feedforward.expand": "input_projector",
    "feedforward.gate": "input_projector",
    "feedforward.linear": "gate_projector",
    "feedforward.contract": "output_projector",
    "feedforward_norm": "layer_norm",
}
KERAS_HUB = KerasHub(
    names={
        **KERAS.weights({
            "backbone.embedding.token": "layers/reversible_embedding",
            "backbone.encoder_norm": "layers/t5_layer_norm",
            "backbone.decoder_norm": "layers/t5_layer_norm_1",
            **repeat(ENCODER_BLOCK, "layers/encoder_{encoder_block}/", HUB_LAYER),
            **repeat(DECODER_BLOCK, "layers/decoder_{decoder_block}/", HUB_LAYER | hub_attention("cross", "cross_attention")),
        }),
        "backbone.embedding.output_matrix.embeddings": "layers/reversible_embedding/vars/1",
        "backbone.encoder_buckets.table": "layers/encoder_0/self_attention/vars/0",
        "backbone.decoder_buckets.table": "layers/decoder_0/self_attention/vars/0",
    },
    heads_apart=False,
    other_axes={"output_matrix.embeddings": "E V"},
    settings={name: name for name in SIZES},
    infer_fields=read_hub_fields,
    infer_settings=write_hub_fields,
    unsaid=("max_sequence_length", "initializer_factor"),
    class_name="T5Backbone",
    tokenizer_class="T5Tokenizer",
    sentence_pieces=True,
    num_sentinels=100,
)  # fmt: skip

TABLE = Table(
    config=T5Config,
    objectives=OBJECTIVES,
    own_axes={"encoder_buckets.table": "R H", "decoder_buckets.table": "R H"},
    own_lengths=lambda config: {"R": config.num_buckets},
    hugging_face=HUGGING_FACE,
    keras_hub=KERAS_HUB,
    lacks=lacks,
)
