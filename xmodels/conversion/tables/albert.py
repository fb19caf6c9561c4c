"""ALBERT by the names that others use: Hugging Face's `AlbertForPreTraining`, Google's TensorFlow 1 code, and KerasHub."""

from xmodels.conversion.format_types import TASK_CLASSES, HuggingFace, KerasHub, TensorFlow1
from xmodels.conversion.formats import Head, Table, logits_of_pairs
from xmodels.conversion.naming import KERAS, KERAS_HUB_BLOCK, KERAS_HUB_ENCODER, TENSORFLOW, TORCH, repeat
from xmodels.conversion.tables import bert
from xmodels.models.albert import AlbertConfig
from xmodels.objectives.sentence_order import SentenceOrder
from xmodels.tasks.base.published_head import SEQUENCE

BLOCK = "backbone.groups.{group}.blocks.{inner}."
SENTENCE_ORDER = "objective.sentence_order.head"

OBJECTIVES = (
    bert.OBJECTIVES[0],
    Head("sentence_order", lambda config, num_classes: SentenceOrder(config), logits_of_pairs),
)

SETTINGS = bert.SETTINGS | {
    "embedding_size": "embedding_dim",
    "num_hidden_groups": "num_groups",
    "inner_group_num": "num_inner_layers",
}
PROJECTION = "backbone.embedding_projection"


def project_always(stored) -> dict[str, bool]:
    """Returns that Hugging Face's networks project also where both widths are equal."""
    return {"force_projection": stored.get("embedding_size", AlbertConfig.embedding_dim) == stored.get("hidden_size")}


HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            **{ours: theirs.replace("bert.", "albert.", 1) for ours, theirs in bert.EMBEDDING.items()},
            PROJECTION: "albert.encoder.embedding_hidden_mapping_in",
            **repeat(BLOCK, "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.", {
                "mixer.query": "attention.query",
                "mixer.key": "attention.key",
                "mixer.value": "attention.value",
                "mixer.merge": "attention.dense",
                "mixer_norm": "attention.LayerNorm",
                "feedforward.expand": "ffn",
                "feedforward.contract": "ffn_output",
                "feedforward_norm": "full_layer_layer_norm",
            }),
            "backbone.pooler": "albert.pooler",
            "objective.masked_lm.head.dense": "predictions.dense",
            "objective.masked_lm.head.norm": "predictions.LayerNorm",
            SENTENCE_ORDER: "sop_classifier.classifier",
        }),
        "objective.masked_lm.head.bias": "predictions.bias",
    },
    heads=bert.HUGGING_FACE.heads,
    complete=lambda stored: {"hidden_act": "gelu_new"} | stored,
    settings=SETTINGS | {"layer_norm_eps": "layer_norm_epsilon"},
    activations=bert.ACTIVATIONS,
    fixed={"model_type": "albert", "position_embedding_type": "absolute"},
    infer_fields=project_always,
    family="Albert",
    architectures=(
        ("AlbertForPreTraining", frozenset({"masked_lm", "sentence_order"})),
        ("AlbertForMaskedLM", frozenset({"masked_lm"})),
        TASK_CLASSES,
        ("AlbertModel", frozenset()),
    ),
    prefix="albert.",
    bare_parts=("embeddings", "encoder", "pooler"),
    buffers=(r"albert\.embeddings\.position_ids",),
    tied={
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
)  # fmt: skip

TENSORFLOW1 = TensorFlow1(
    names={
        **TENSORFLOW.weights({
            **bert.with_slashes(bert.EMBEDDING | bert.POOLER | bert.MASKED_LM),
            PROJECTION: "bert/encoder/embedding_hidden_mapping_in",
            **repeat(BLOCK, "bert/encoder/transformer/group_{group}/inner_group_{inner}/", {
                "mixer.query": "attention_1/self/query",
                "mixer.key": "attention_1/self/key",
                "mixer.value": "attention_1/self/value",
                "mixer.merge": "attention_1/output/dense",
                "mixer_norm": "LayerNorm",
                "feedforward.expand": "ffn_1/intermediate/dense",
                "feedforward.contract": "ffn_1/intermediate/output/dense",
                "feedforward_norm": "LayerNorm_1",
            }),
        }),
        "objective.masked_lm.head.bias": "cls/predictions/output_bias",
        **bert.output(SENTENCE_ORDER, "cls/seq_relationship/"),
    },
    heads={SEQUENCE: bert.output("head", "")},
    settings=SETTINGS,
    activations=bert.TENSORFLOW1.activations,
    infer_fields=lambda stored: {"layer_norm_epsilon": 1e-12, "force_projection": False},
    config_file="albert_config.json",
    checkpoint="model.ckpt-best",
    sentence_pieces={"do_lower_case": True, "keep_accents": False, "clean": True, "part_digits": True},
)  # fmt: skip

KERAS_HUB = KerasHub(
    names=KERAS.weights({
        **bert.KERAS_HUB_EMBEDDING,
        PROJECTION: "layers/dense",
        **repeat(BLOCK, KERAS_HUB_ENCODER + "{group}_{inner}/", KERAS_HUB_BLOCK),
        "backbone.pooler": "layers/dense_1",
    }),
    heads=bert.KERAS_HUB.heads,
    settings={
        **bert.KERAS_HUB.settings, "embedding_dim": "embedding_dim", "num_groups": "num_groups",
        "num_inner_repetitions": "num_inner_layers",
    },
    infer_fields=lambda stored: {
        **bert.KERAS_HUB.infer_fields(stored), "force_projection": stored.get("embedding_dim") == stored.get("hidden_dim")
    },
    class_name="AlbertBackbone",
    tokenizer_class="AlbertTokenizer",
    sentence_pieces=True,
    classifier="AlbertTextClassifier",
)  # fmt: skip


def lacks(config: AlbertConfig) -> tuple[str, ...]:
    """Returns the projection where there is none, and what later groups share with the first one."""
    projection = () if config.has_projection else (f"{PROJECTION}.",)
    if config.sharing == "all":
        return projection
    later = range(1, config.num_unlike_groups)
    return *projection, *(
        f"{BLOCK.format(group=group, inner=0)}{part}." for group in later for part in config.shared_half
    )


TABLE = Table(
    config=AlbertConfig,
    objectives=OBJECTIVES,
    counts=lambda config: {"group": config.num_unlike_groups, "inner": config.num_inner_layers},
    optional={"pooler": "backbone.pooler."},
    lacks=lacks,
    hugging_face=HUGGING_FACE,
    tensorflow1=TENSORFLOW1,
    keras_hub=KERAS_HUB,
)
