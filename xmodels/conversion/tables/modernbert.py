"""ModernBERT by the names of Hugging Face's `ModernBertForMaskedLM` and `ModernBertForSequenceClassification`.

Query, key and value stand in one kernel, and so do the two inner layers of a gated feed-forward network.
"""

from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from data_pipelines.text.frames import MODERNBERT
from xmodels.conversion.format_types import TASK_CLASSES, HuggingFace
from xmodels.conversion.formats import Head, Table
from xmodels.conversion.naming import TORCH, TORCH_WITHOUT_BIASES, repeat
from xmodels.conversion.tables import bert
from xmodels.interfaces.encoder_readings import MODERNBERT_READING
from xmodels.models.modernbert import ModernBertConfig
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.tasks.base.published_head import SEQUENCE

LAYERS = {
    "mixer.query": "attn.Wqkv.weight[:0/3]",
    "mixer.key": "attn.Wqkv.weight[:1/3]",
    "mixer.value": "attn.Wqkv.weight[:2/3]",
    "mixer.merge": "attn.Wo.weight",
    "feedforward.gate": "mlp.Wi.weight[:0/2]",
    "feedforward.linear": "mlp.Wi.weight[:1/2]",
    "feedforward.contract": "mlp.Wo.weight",
}
THEIRS = "model.layers.{block}."
GLOBAL, LOCAL = "full_attention", "sliding_attention"


def read_layers(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns which layers attend to all tokens and their angles, as files of 2024 or those of `transformers` 5 say it.

    Raises:
        CheckpointError: layers with local attention do not recur evenly, or angles are scaled.
    """
    found = {"window": _half(stored.get("local_attention", 128))}
    kinds, angles = stored.get("layer_types"), stored.get("rope_parameters")
    if isinstance(kinds, list):
        places = [index for index, kind in enumerate(kinds) if kind == GLOBAL]
        every = places[1] if len(places) > 1 else len(kinds)
        if kinds != [LOCAL if index % every else GLOBAL for index in range(len(kinds))]:
            raise CheckpointError(
                f"config.json: `layer_types` must have {GLOBAL!r} at every so many layers from the first on, {LOCAL!r} elsewhere. "
                f"Found: {kinds!r:.200}."
            )
        found["global_every"] = every
    for name, key, old in (("global_theta", GLOBAL, "global_rope_theta"), ("local_theta", LOCAL, "local_rope_theta")):
        own = angles.get(key) if isinstance(angles, dict) else None
        own = own if isinstance(own, dict) else {}
        if own.get("rope_type", "default") != "default":
            raise CheckpointError(f"config.json: `rope_type` {own['rope_type']!r:.40}; only 'default' is supported.")
        theta = own.get("rope_theta", stored.get(old))
        found |= {} if theta is None else {name: theta}
    if "global_attn_every_n_layers" in stored and "global_every" not in found:
        found["global_every"] = stored["global_attn_every_n_layers"]
    return found


def write_layers(config: ModernBertConfig) -> dict[str, Any]:
    """Returns the inverse of `read_layers`, in the words of both."""
    kinds = [LOCAL if index % config.global_every else GLOBAL for index in range(config.num_layers)]
    thetas = {GLOBAL: config.global_theta, LOCAL: config.local_theta}
    return {
        "local_attention": 2 * config.window,
        "global_attn_every_n_layers": config.global_every,
        "layer_types": kinds,
        "global_rope_theta": config.global_theta,
        "local_rope_theta": config.local_theta,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in thetas.items()},
    }


def _half(window):
    return window // 2 if type(window) is int else window


HUGGING_FACE = HuggingFace(
    names={
        **TORCH_WITHOUT_BIASES.weights({
            "backbone.embedding.token": "model.embeddings.tok_embeddings",
            "backbone.embedding.norm": "model.embeddings.norm",
            **repeat(bert.BLOCK, THEIRS, {"mixer_norm": "attn_norm", "feedforward_norm": "mlp_norm"}),
            "backbone.norm": "model.final_norm",
            "objective.masked_lm.head.dense": "head.dense",
            "objective.masked_lm.head.norm": "head.norm",
        }),
        **{f"{bert.BLOCK}{ours}.kernel": THEIRS + theirs for ours, theirs in LAYERS.items()},
        "objective.masked_lm.head.bias": "decoder.bias",
    },
    heads={
        SEQUENCE: TORCH_WITHOUT_BIASES.weights({"dense.dense": "head.dense", "dense.norm": "head.norm"})
        | TORCH.weights({"head": "classifier"})
    },
    settings={
        "vocab_size": "vocabulary_size",
        "hidden_size": "hidden_dim",
        "num_hidden_layers": "num_layers",
        "num_attention_heads": "num_heads",
        "intermediate_size": "intermediate_dim",
        "max_position_embeddings": "max_sequence_length",
        "embedding_dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "norm_eps": "layer_norm_epsilon",
        "initializer_range": "initializer_stddev",
    },
    activations=bert.ACTIVATIONS,
    activation_key="hidden_activation",
    infer_fields=read_layers,
    infer_settings=write_layers,
    fixed={
        "model_type": "modernbert", "attention_bias": False, "mlp_bias": False, "norm_bias": False, "decoder_bias": True,
        "classifier_bias": False, "classifier_activation": "gelu", "classifier_pooling": "cls",
    },
    family="ModernBert",
    architectures=(
        ("ModernBertForMaskedLM", frozenset({"masked_lm"})),
        TASK_CLASSES,
        ("ModernBertModel", frozenset()),
    ),
    prefix="model.",
    bare_parts=("embeddings", "layers", "final_norm"),
    tied={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
    frame=MODERNBERT,
)  # fmt: skip

TABLE = Table(
    config=ModernBertConfig,
    objectives=(Head("masked_lm", lambda config, num_classes: MaskedLM(config, use_bias=False), MaskedLM.logits),),
    reading=MODERNBERT_READING,
    lacks=lambda config: (f"{bert.BLOCK.format(block=0)}mixer_norm.",),  # the norm of the embeddings is the first one
    hugging_face=HUGGING_FACE,
)
