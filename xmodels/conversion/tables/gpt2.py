"""GPT-2 by the names of Hugging Face's `GPT2LMHeadModel`, and by those of OpenAI's code.

Axes as in `tables/bert.py`. Kernels are [in, out], of OpenAI [1, in, out], and that of the attention holds query, key and
value side by side: `[0/3]` is the first third of the last axis.
"""

from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from data_pipelines.text.frames import PLAIN
from xmodels.conversion import keras_hub_names as names
from xmodels.conversion.formats import Head, HuggingFace, KerasHub, Table, TensorFlow1, numbered_blocks
from xmodels.models.gpt2 import Gpt2Config
from xmodels.objectives.causal_lm import CausalLM

BLOCK_AXES = {
    "mixer.query.kernel": "D H K",
    "mixer.query.bias": "H K",
    "mixer.key.kernel": "D H K",
    "mixer.key.bias": "H K",
    "mixer.value.kernel": "D H K",
    "mixer.value.bias": "H K",
    "mixer.merge.kernel": "H K D",
    "mixer.merge.bias": "D",
    "mixer_norm.gamma": "D",
    "mixer_norm.beta": "D",
    "feedforward.expand.kernel": "D F",
    "feedforward.expand.bias": "F",
    "feedforward.contract.kernel": "F D",
    "feedforward.contract.bias": "D",
    "feedforward_norm.gamma": "D",
    "feedforward_norm.beta": "D",
}

AXES = {
    "backbone.embedding.token.embeddings": "V D",
    "backbone.embedding.position.embeddings": "L D",
    **{f"backbone.blocks.{{block}}.{name}": axes for name, axes in BLOCK_AXES.items()},
    "backbone.norm.gamma": "D",
    "backbone.norm.beta": "D",
}

BLOCK = {
    "mixer.query.kernel": ("attn.c_attn.weight[0/3]", "D HK"),
    "mixer.query.bias": ("attn.c_attn.bias[0/3]", "HK"),
    "mixer.key.kernel": ("attn.c_attn.weight[1/3]", "D HK"),
    "mixer.key.bias": ("attn.c_attn.bias[1/3]", "HK"),
    "mixer.value.kernel": ("attn.c_attn.weight[2/3]", "D HK"),
    "mixer.value.bias": ("attn.c_attn.bias[2/3]", "HK"),
    "mixer.merge.kernel": ("attn.c_proj.weight", "HK D"),
    "mixer.merge.bias": ("attn.c_proj.bias", "D"),
    "mixer_norm.gamma": ("ln_1.weight", "D"),
    "mixer_norm.beta": ("ln_1.bias", "D"),
    "feedforward.expand.kernel": ("mlp.c_fc.weight", "D F"),
    "feedforward.expand.bias": ("mlp.c_fc.bias", "F"),
    "feedforward.contract.kernel": ("mlp.c_proj.weight", "F D"),
    "feedforward.contract.bias": ("mlp.c_proj.bias", "D"),
    "feedforward_norm.gamma": ("ln_2.weight", "D"),
    "feedforward_norm.beta": ("ln_2.bias", "D"),
}

SETTINGS = {
    "vocab_size": "vocabulary_size",
    "n_embd": "hidden_dim",
    "n_layer": "num_layers",
    "n_head": "num_heads",
    "n_positions": "max_sequence_length",
    "n_inner": "intermediate_dim",
    "embd_pdrop": "dropout",
    "resid_pdrop": "dropout",
    "attn_pdrop": "attention_dropout",
    "layer_norm_epsilon": "layer_norm_epsilon",
    "initializer_range": "initializer_stddev",
}


def axis_lengths(config) -> dict[str, int]:
    """Returns the length of every axis."""
    return {
        "D": config.hidden_dim,
        "H": config.num_heads,
        "K": config.hidden_dim // config.num_heads,
        "F": config.intermediate_dim,
        "V": config.vocabulary_size,
        "L": config.max_sequence_length,
    }


def complete(stored: dict) -> dict:
    """Fills in the inner width, four times the outer one, where the file does not say. The network has one rate of dropout for
    embeddings and residuals, so two are refused."""
    rates = {stored[key] for key in ("embd_pdrop", "resid_pdrop") if key in stored}
    if len(rates) > 1:
        raise CheckpointError(
            f"config.json: `embd_pdrop` and `resid_pdrop` differ ({', '.join(map(str, sorted(rates)))}), and our network has one rate "
            "for both. Write the one to fine-tune with into both; dropout changes no weight."
        )
    width = stored.get("n_embd")
    inner = stored.get("n_inner") or (4 * width if isinstance(width, int) else None)
    return {**stored, "n_inner": inner} if inner else stored


# The output matrix is the table of tokens, so the head has no weights.
HEADS = (
    Head(
        "causal_lm",
        lambda config, num_classes: CausalLM(),
        lambda head, outputs, batch, backbone: head.logits(outputs["sequence_output"], backbone),
    ),
)

HUGGING_FACE = HuggingFace(
    variables={
        "backbone.embedding.token.embeddings": ("transformer.wte.weight", "V D"),
        "backbone.embedding.position.embeddings": ("transformer.wpe.weight", "L D"),
        "backbone.norm.gamma": ("transformer.ln_f.weight", "D"),
        "backbone.norm.beta": ("transformer.ln_f.bias", "D"),
    }
    | numbered_blocks("backbone.blocks.{block}.", "transformer.h.{block}.", BLOCK),
    settings=SETTINGS,
    activation_key="activation_function",
    activations={"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"},
    complete=complete,
    fixed={"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True},
    architectures=(("GPT2LMHeadModel", frozenset()),),
    prefix="transformer.",
    bare_parts=("wte", "wpe", "h", "ln_f"),  # a `GPT2Model` alone writes its names bare
    buffers=(r"transformer\.h\.\d+\.attn\.(masked_)?bias",),  # of older files
    tied={"lm_head.weight": "transformer.wte.weight"},
    continues=True,
    frame=PLAIN,
)


def openai(theirs: str, axes: str) -> tuple[str, str]:
    """Returns the name and axes of OpenAI for those of a row of `BLOCK`: `attn.c_attn.weight[0/3]` -> `attn/c_attn/w[0/3]`."""
    norm = theirs.startswith("ln_")
    for word, letter in (("weight", "g" if norm else "w"), ("bias", "b")):
        theirs = theirs.replace(f".{word}", f"/{letter}")
    return theirs.replace(".", "/"), f"I {axes}" if " " in axes else axes


def implied_by_openai(stored: Mapping[str, Any]) -> dict[str, Any]:
    width = stored.get("n_embd")
    inner = 4 * width if isinstance(width, int) else width  # of what is no number it is said where that is looked at
    return {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-5, "intermediate_dim": inner}


TENSORFLOW1 = TensorFlow1(
    variables={
        "backbone.embedding.token.embeddings": ("model/wte", "V D"),
        "backbone.embedding.position.embeddings": ("model/wpe", "L D"),
        "backbone.norm.gamma": ("model/ln_f/g", "D"),
        "backbone.norm.beta": ("model/ln_f/b", "D"),
    }
    | numbered_blocks(
        "backbone.blocks.{block}.", "model/h{block}/", {ours: openai(*row) for ours, row in BLOCK.items()}
    ),
    settings={
        "n_vocab": "vocabulary_size",
        "n_ctx": "max_sequence_length",
        "n_embd": "hidden_dim",
        "n_head": "num_heads",
        "n_layer": "num_layers",
    },
    implied=implied_by_openai,
    unsaid=("dropout", "attention_dropout", "initializer_stddev"),
    config_file="hparams.json",
    checkpoint="model.ckpt",
    vocabulary_files={"vocab.json": "encoder.json", "merges.txt": "vocab.bpe"},
)

KERAS_HUB = KerasHub(
    variables={
        "backbone.embedding.token.embeddings": ("layers/reversible_embedding/vars/0", "V D"),
        "backbone.embedding.position.embeddings": ("layers/position_embedding/vars/0", "L D"),
        **names.norm("backbone.norm", "layers/layer_normalization"),
        **names.blocks("backbone.blocks.{block}", names.DECODER + "{block}", names.block()),
    },
    settings={
        name: name
        for name in (
            "vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "dropout", "max_sequence_length",
        )
    },
    implied=lambda stored: {
        "activation": "gelu_tanh", "layer_norm_epsilon": 1e-5, "attention_dropout": stored.get("dropout", 0.1)
    },
    unsaid=("attention_dropout", "initializer_stddev"),
    class_name="GPT2Backbone",
    tokenizer_class="GPT2Tokenizer",
    byte_bpe=True,
)  # fmt: skip

TABLE = Table(
    config=Gpt2Config,
    axes=AXES,
    lengths=axis_lengths,
    counts=lambda config: {"block": config.num_layers},
    heads=HEADS,
    hugging_face=HUGGING_FACE,
    tensorflow1=TENSORFLOW1,
    keras_hub=KERAS_HUB,
)
