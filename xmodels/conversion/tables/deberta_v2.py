"""DeBERTa, of versions 2 and 3, by the names of Hugging Face's `DebertaV2Model` and of the heads in the released files."""

from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError
from xmodels.conversion.format_types import TASK_CLASSES, HuggingFace
from xmodels.conversion.formats import Head, Table
from xmodels.conversion.naming import TORCH, repeat
from xmodels.conversion.tables import bert
from xmodels.interfaces.encoder_readings import DEBERTA_READING
from xmodels.models.deberta_v2 import DebertaV2Config
from xmodels.objectives.replaced_tokens_in_context import ContextHead
from xmodels.tasks.base.published_head import CHOICE, SEQUENCE, SPAN, TOKENS

REPLACED, MASKED = ContextHead.prefix, "objective.masked_lm.head"
LM_HEAD = "lm_predictions.lm_head."
LEGACY = {  # `transformers`' other names of the head of the masked LM
    "cls.predictions.transform.dense.": f"{LM_HEAD}dense.",
    "cls.predictions.transform.LayerNorm.": f"{LM_HEAD}LayerNorm.",
}
NORMS, KINDS = {"layer_norm": True, "none": False}, DebertaV2Config.choices["pos_att_type"]


def read_positions(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what their config.json says of positions, convolution and widths.

    Raises:
        CheckpointError: our network has no such attention or width.
    """
    width, heads = stored.get("hidden_size"), stored.get("num_attention_heads")
    if type(width) is int and type(heads) is int and heads > 0:
        for key, only in (
            ("embedding_size", width),
            ("pooler_hidden_size", width),
            ("attention_head_size", width // heads),
        ):
            if stored.get(key) not in (None, only):
                raise CheckpointError(
                    f"config.json: `{key}` = {stored[key]!r:.40}; only {only} is supported beside `hidden_size` = {width}."
                )
    kinds, norm = stored.get("pos_att_type"), stored.get("norm_rel_ebd", "none")
    kinds = kinds.split("|") if isinstance(kinds, str) else kinds
    kinds = [each.strip().lower() for each in kinds if isinstance(each, str)] if isinstance(kinds, list) else []
    found = "|".join(sorted(kinds))
    if found not in KINDS:
        raise CheckpointError(
            f"config.json: cannot convert `pos_att_type` = {stored.get('pos_att_type')!r:.60}. Known: {', '.join(KINDS)}."
        )
    if not isinstance(norm, str) or norm.strip().lower() not in NORMS:
        raise CheckpointError(f"config.json: cannot convert `norm_rel_ebd` = {norm!r:.40}. Known: {', '.join(NORMS)}.")
    return {
        "pos_att_type": found,
        "norm_rel_ebd": NORMS[norm.strip().lower()],
        "position_buckets": _or_none(stored.get("position_buckets", -1)),
        "max_relative_positions": _or_none(stored.get("max_relative_positions", -1)),
    }


def write_positions(config: DebertaV2Config) -> dict[str, Any]:
    """Returns the inverse of `read_positions`."""
    return {
        "pos_att_type": config.pos_att_type,
        "norm_rel_ebd": next(name for name, value in NORMS.items() if value == config.norm_rel_ebd),
        "position_buckets": config.position_buckets or -1,
        "max_relative_positions": config.max_relative_positions or -1,
        "attention_head_size": config.hidden_dim // config.num_heads,
        "pooler_hidden_size": config.hidden_dim,
        "legacy": False,
    }


def _or_none(value):
    """Returns 0 for the -1 of their files, which says that there is none."""
    return 0 if value == -1 else value


# What `transformers` means where a file says nothing.
DEFAULTS = {
    "relative_attention": False, "position_biased_input": True, "share_att_key": False, "type_vocab_size": 0, "conv_act": "tanh",
    "layer_norm_eps": 1e-7,
}  # fmt: skip

HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            "backbone.embedding.token": "deberta.embeddings.word_embeddings",
            "backbone.embedding.position": "deberta.embeddings.position_embeddings",
            "backbone.embedding.segment": "deberta.embeddings.token_type_embeddings",
            "backbone.embedding.norm": "deberta.embeddings.LayerNorm",
            "backbone.positions.norm": "deberta.encoder.LayerNorm",
            "backbone.convolution.layer": "deberta.encoder.conv.conv",
            "backbone.convolution.norm": "deberta.encoder.conv.LayerNorm",
            **repeat(bert.BLOCK, "deberta.encoder.layer.{block}.", {
                "mixer.query": "attention.self.query_proj",
                "mixer.key": "attention.self.key_proj",
                "mixer.value": "attention.self.value_proj",
                "mixer.position_key": "attention.self.pos_key_proj",
                "mixer.position_query": "attention.self.pos_query_proj",
                "mixer.merge": "attention.output.dense",
                "mixer_norm": "attention.output.LayerNorm",
                "feedforward.expand": "intermediate.dense",
                "feedforward.contract": "output.dense",
                "feedforward_norm": "output.LayerNorm",
            }),
            f"{MASKED}.dense": f"{LM_HEAD}dense",
            f"{MASKED}.norm": f"{LM_HEAD}LayerNorm",
            f"{REPLACED}.norm": "mask_predictions.LayerNorm",
            f"{REPLACED}.dense": "mask_predictions.dense",
            f"{REPLACED}.prediction": "mask_predictions.classifier",
        }),
        "backbone.positions.table": "deberta.encoder.rel_embeddings.weight",
        f"{MASKED}.bias": f"{LM_HEAD}bias",
    },
    heads={
        SEQUENCE: TORCH.weights({"dense": "pooler.dense", "head": "classifier"}),
        TOKENS: TORCH.weights({"head": "classifier"}),
        CHOICE: TORCH.weights({"dense": "pooler.dense", "head": "classifier"}),
        SPAN: TORCH.weights({"head": "qa_outputs"}),
    },
    settings={
        **bert.SETTINGS,
        "type_vocab_size": "num_segments",
        "layer_norm_eps": "layer_norm_epsilon",
        "position_biased_input": "position_biased_input",
        "share_att_key": "share_att_key",
        "conv_kernel_size": "conv_kernel_size",
        "conv_act": "conv_act",
    },
    complete=lambda stored: DEFAULTS | stored,
    activations=bert.ACTIVATIONS,
    infer_fields=read_positions,
    infer_settings=write_positions,
    fixed={
        "model_type": "deberta-v2", "relative_attention": True, "pooler_hidden_act": "gelu", "conv_groups": 1,
    },
    family="DebertaV2",
    architectures=(
        ("DebertaV2ForMaskedLM", frozenset({"masked_lm"})),
        TASK_CLASSES,
        ("DebertaV2Model", frozenset()),
    ),
    prefix="deberta.",
    bare_parts=("embeddings", "encoder"),
    old_endings={
        **{old + end: new + end for old, new in LEGACY.items() for end in ("weight", "bias")},
        "cls.predictions.bias": f"{LM_HEAD}bias",
        "mask_predictions.classifer.weight": "mask_predictions.classifier.weight",  # as the released code spells it
        "mask_predictions.classifer.bias": "mask_predictions.classifier.bias",
    },
    # Positions of the enhanced mask decoder, which no class of `transformers` has, lie under the name of those of the input.
    buffers=(r"deberta\.embeddings\.(position_ids|position_embeddings\.weight)",),
    tied={
        "cls.predictions.decoder.weight": "deberta.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": f"{LM_HEAD}bias",
    },
    sentence_piece_class="DebertaV2Tokenizer",
)  # fmt: skip


def lacks(config: DebertaV2Config) -> tuple[str, ...]:
    """Returns prefixes of what networks of a configuration do not have."""
    mixer = f"{bert.BLOCK}mixer."
    absent = {
        "backbone.embedding.position.": not config.position_biased_input,
        "backbone.embedding.segment.": not config.num_segments,
        "backbone.positions.norm.": not config.norm_rel_ebd,
        "backbone.convolution.": not config.conv_kernel_size,
        f"{mixer}position_key.": config.share_att_key or "c2p" not in config.pos_att_type,
        f"{mixer}position_query.": config.share_att_key or "p2c" not in config.pos_att_type,
    }
    return tuple(prefix for prefix, is_absent in absent.items() if is_absent)


TABLE = Table(
    config=DebertaV2Config,
    objectives=(
        bert.OBJECTIVES[0],
        Head(
            "replaced_tokens",
            lambda config, num_classes: ContextHead(config),
            lambda head, outputs, batch, backbone: head(outputs["sequence_output"]),
        ),
    ),
    reading=DEBERTA_READING,
    own_axes={
        "positions.table": "R D",
        "convolution.layer.kernel": "W D O",
        "convolution.layer.bias": "O",
        **{f"position_{name}.kernel": "D H K" for name in ("key", "query")},
        **{f"position_{name}.bias": "H K" for name in ("key", "query")},
        f"{REPLACED}.prediction.kernel": "D I",
        f"{REPLACED}.prediction.bias": "I",
    },
    own_lengths=lambda config: {"R": config.num_relative_positions, "W": config.conv_kernel_size},
    lacks=lacks,
    hugging_face=HUGGING_FACE,
)
