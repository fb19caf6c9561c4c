"""GPT-2 by the names of Hugging Face's `GPT2LMHeadModel`, and by those of OpenAI's code and of KerasHub.

Kernels are [in, out], of OpenAI [1, in, out], and that of the attention holds query, key and value side by side: `[0/3]` is the first
third of the last axis.
"""

from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from data_pipelines.text.frames import PLAIN
from xmodels.conversion.format_types import HuggingFace, KerasHub, TensorFlow1, dropout_of_all
from xmodels.conversion.formats import Head, Table, logits_of_states
from xmodels.conversion.naming import KERAS, KERAS_HUB_BLOCK, KERAS_HUB_DECODER, OPENAI, TORCH, Naming, repeat
from xmodels.models.gpt2 import Gpt2Config
from xmodels.objectives.causal_lm import CausalLM

BLOCK = "backbone.blocks.{block}."
LAYERS = {
    "mixer.merge": "attn.c_proj",
    "mixer_norm": "ln_1",
    "feedforward.expand": "mlp.c_fc",
    "feedforward.contract": "mlp.c_proj",
    "feedforward_norm": "ln_2",
}


def block_names(naming: Naming, theirs: str, separator: str) -> dict[str, str]:
    """Returns the names of all blocks.

    Args:
        theirs: stands before the names of a block.
        separator: stands between the parts of a name.
    """
    layers = {ours: name.replace(".", separator) for ours, name in LAYERS.items()}
    names = naming.weights(repeat(BLOCK, theirs, layers))
    for part, ours in enumerate(("query", "key", "value")):
        fused = naming.weights({f"{BLOCK}mixer.{ours}": f"{theirs}attn{separator}c_attn"})
        names |= {name: f"{whole}[{part}/3]" for name, whole in fused.items()}
    return names


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
OBJECTIVES = (Head("causal_lm", lambda config, num_classes: CausalLM(), logits_of_states),)

HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            "backbone.embedding.token": "transformer.wte",
            "backbone.embedding.position": "transformer.wpe",
            "backbone.norm": "transformer.ln_f",
        }),
        **block_names(TORCH, "transformer.h.{block}.", "."),
    },
    transposed="",
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
)  # fmt: skip


def read_openai(stored: Mapping[str, Any]) -> dict[str, Any]:
    width = stored.get("n_embd")
    inner = 4 * width if isinstance(width, int) else width  # of what is no number it is said where that is looked at
    return {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-5, "intermediate_dim": inner}


TENSORFLOW1 = TensorFlow1(
    names={
        **OPENAI.weights({
            "backbone.embedding.token": "model/wte",
            "backbone.embedding.position": "model/wpe",
            "backbone.norm": "model/ln_f",
        }),
        **block_names(OPENAI, "model/h{block}/", "/"),
    },
    other_axes={
        **{f"{name}.kernel": "I D HK" for name in ("query", "key", "value")},
        "merge.kernel": "I HK D",
        "expand.kernel": "I D F",
        "contract.kernel": "I F D",
    },
    settings={
        "n_vocab": "vocabulary_size",
        "n_ctx": "max_sequence_length",
        "n_embd": "hidden_dim",
        "n_head": "num_heads",
        "n_layer": "num_layers",
    },
    infer_fields=read_openai,
    unsaid=("dropout", "attention_dropout", "initializer_stddev"),
    config_file="hparams.json",
    checkpoint="model.ckpt",
    vocabulary_files={"vocab.json": "encoder.json", "merges.txt": "vocab.bpe"},
)  # fmt: skip

KERAS_HUB = KerasHub(
    names=KERAS.weights({
        "backbone.embedding.token": "layers/reversible_embedding",
        "backbone.embedding.position": "layers/position_embedding",
        "backbone.norm": "layers/layer_normalization",
        **repeat(BLOCK, KERAS_HUB_DECODER + "{block}/", KERAS_HUB_BLOCK),
    }),
    infer_fields=lambda stored: {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-5, **dropout_of_all(stored)},
    class_name="GPT2Backbone",
    tokenizer_class="GPT2Tokenizer",
    byte_bpe=True,
)  # fmt: skip

TABLE = Table(
    config=Gpt2Config,
    objectives=OBJECTIVES,
    hugging_face=HUGGING_FACE,
    tensorflow1=TENSORFLOW1,
    keras_hub=KERAS_HUB,
)
