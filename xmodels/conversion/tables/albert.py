"""ALBERT by the names that others use: Hugging Face's `AlbertForPreTraining` and Google's TensorFlow 1 code.

Axes as in `tables/bert.py`; E is the width of the tables.
"""

from xmodels.conversion import keras_hub_names as names
from xmodels.conversion.formats import Head, HuggingFace, KerasHub, Table, TensorFlow1, head_classes, numbered_blocks
from xmodels.conversion.tables import bert
from xmodels.models.albert import AlbertConfig
from xmodels.objectives.sentence_order import SentenceOrder

OURS = "backbone.groups.{group}.blocks.{inner}."
BLOCK = "backbone.blocks.{block}."

AXES = {
    "backbone.embedding.token.embeddings": "V E",
    "backbone.embedding.segment.embeddings": "S E",
    "backbone.embedding.position.embeddings": "L E",
    "backbone.embedding.norm.gamma": "E",
    "backbone.embedding.norm.beta": "E",
    "backbone.embedding_projection.kernel": "E D",
    "backbone.embedding_projection.bias": "D",
    **{name.replace(BLOCK, OURS): axes for name, axes in bert.AXES.items() if name.startswith(BLOCK)},
    "backbone.pooler.kernel": "D O",
    "backbone.pooler.bias": "O",
    "objective.masked_lm.head.dense.kernel": "D E",
    "objective.masked_lm.head.dense.bias": "E",
    "objective.masked_lm.head.norm.gamma": "E",
    "objective.masked_lm.head.norm.beta": "E",
    "objective.masked_lm.head.bias": "V",
    "objective.sentence_order.head.kernel": "D N",
    "objective.sentence_order.head.bias": "N",
    **{f"objective.{task}.head.kernel": "D C" for task in (*bert.ALIKE, "answer_span")},
    **{f"objective.{task}.head.bias": "C" for task in (*bert.ALIKE, "answer_span")},
}

SENTENCE_ORDER = Head(
    "sentence_order",
    lambda config, num_classes: SentenceOrder(config),
    lambda head, outputs, batch, backbone: head.head(outputs["pooled_output"]),
)

SETTINGS = bert.SETTINGS | {
    "embedding_size": "embedding_dim",
    "num_hidden_groups": "num_groups",
    "inner_group_num": "num_inner_layers",
}


def project_always(stored) -> dict[str, bool]:
    """Returns Hugging Face's networks project also where both widths are equal."""
    return {"force_projection": stored.get("embedding_size", AlbertConfig.embedding_dim) == stored.get("hidden_size")}


HUGGING_FACE = HuggingFace(
    complete=lambda stored: {"hidden_act": "gelu_new"} | stored,
    variables={
        "backbone.embedding.token.embeddings": ("albert.embeddings.word_embeddings.weight", "V E"),
        "backbone.embedding.segment.embeddings": ("albert.embeddings.token_type_embeddings.weight", "S E"),
        "backbone.embedding.position.embeddings": ("albert.embeddings.position_embeddings.weight", "L E"),
        "backbone.embedding.norm.gamma": ("albert.embeddings.LayerNorm.weight", "E"),
        "backbone.embedding.norm.beta": ("albert.embeddings.LayerNorm.bias", "E"),
        "backbone.embedding_projection.kernel": ("albert.encoder.embedding_hidden_mapping_in.weight", "D E"),
        "backbone.embedding_projection.bias": ("albert.encoder.embedding_hidden_mapping_in.bias", "D"),
        "backbone.pooler.kernel": ("albert.pooler.weight", "O D"),
        "backbone.pooler.bias": ("albert.pooler.bias", "O"),
        "objective.masked_lm.head.dense.kernel": ("predictions.dense.weight", "E D"),
        "objective.masked_lm.head.dense.bias": ("predictions.dense.bias", "E"),
        "objective.masked_lm.head.norm.gamma": ("predictions.LayerNorm.weight", "E"),
        "objective.masked_lm.head.norm.beta": ("predictions.LayerNorm.bias", "E"),
        "objective.masked_lm.head.bias": ("predictions.bias", "V"),
        "objective.sentence_order.head.kernel": ("sop_classifier.classifier.weight", "N D"),
        "objective.sentence_order.head.bias": ("sop_classifier.classifier.bias", "N"),
        **{f"objective.{task}.head.kernel": ("classifier.weight", "C D") for task in bert.ALIKE},
        **{f"objective.{task}.head.bias": ("classifier.bias", "C") for task in bert.ALIKE},
        "objective.answer_span.head.kernel": ("qa_outputs.weight", "C D"),
        "objective.answer_span.head.bias": ("qa_outputs.bias", "C"),
    }
    | numbered_blocks(
        OURS,
        "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.",
        {
            "mixer.query.kernel": ("attention.query.weight", "HK D"),
            "mixer.query.bias": ("attention.query.bias", "HK"),
            "mixer.key.kernel": ("attention.key.weight", "HK D"),
            "mixer.key.bias": ("attention.key.bias", "HK"),
            "mixer.value.kernel": ("attention.value.weight", "HK D"),
            "mixer.value.bias": ("attention.value.bias", "HK"),
            "mixer.merge.kernel": ("attention.dense.weight", "D HK"),
            "mixer.merge.bias": ("attention.dense.bias", "D"),
            "mixer_norm.gamma": ("attention.LayerNorm.weight", "D"),
            "mixer_norm.beta": ("attention.LayerNorm.bias", "D"),
            "feedforward.expand.kernel": ("ffn.weight", "F D"),
            "feedforward.expand.bias": ("ffn.bias", "F"),
            "feedforward.contract.kernel": ("ffn_output.weight", "D F"),
            "feedforward.contract.bias": ("ffn_output.bias", "D"),
            "feedforward_norm.gamma": ("full_layer_layer_norm.weight", "D"),
            "feedforward_norm.beta": ("full_layer_layer_norm.bias", "D"),
        },
    ),
    settings=SETTINGS | {"layer_norm_eps": "layer_norm_epsilon"},
    activations=bert.HUGGING_FACE.activations,
    fixed={"model_type": "albert", "position_embedding_type": "absolute"},
    implied=project_always,
    architectures=(
        *head_classes("Albert"),
        ("AlbertForPreTraining", frozenset({"masked_lm", "sentence_order"})),
        ("AlbertForMaskedLM", frozenset({"masked_lm"})),
        ("AlbertForSequenceClassification", frozenset({"classify"})),
        ("AlbertForQuestionAnswering", frozenset({"answer_span"})),
        ("AlbertModel", frozenset()),
    ),
    prefix="albert.",
    bare_parts=("embeddings", "encoder", "pooler"),
    buffers=(r"albert\.embeddings\.position_ids",),
    tied={
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
)


TENSORFLOW1 = TensorFlow1(
    variables={
        "backbone.embedding.token.embeddings": ("bert/embeddings/word_embeddings", "V E"),
        "backbone.embedding.segment.embeddings": ("bert/embeddings/token_type_embeddings", "S E"),
        "backbone.embedding.position.embeddings": ("bert/embeddings/position_embeddings", "L E"),
        "backbone.embedding.norm.gamma": ("bert/embeddings/LayerNorm/gamma", "E"),
        "backbone.embedding.norm.beta": ("bert/embeddings/LayerNorm/beta", "E"),
        "backbone.embedding_projection.kernel": ("bert/encoder/embedding_hidden_mapping_in/kernel", "E D"),
        "backbone.embedding_projection.bias": ("bert/encoder/embedding_hidden_mapping_in/bias", "D"),
        "backbone.pooler.kernel": ("bert/pooler/dense/kernel", "D O"),
        "backbone.pooler.bias": ("bert/pooler/dense/bias", "O"),
        "objective.masked_lm.head.dense.kernel": ("cls/predictions/transform/dense/kernel", "D E"),
        "objective.masked_lm.head.dense.bias": ("cls/predictions/transform/dense/bias", "E"),
        "objective.masked_lm.head.norm.gamma": ("cls/predictions/transform/LayerNorm/gamma", "E"),
        "objective.masked_lm.head.norm.beta": ("cls/predictions/transform/LayerNorm/beta", "E"),
        "objective.masked_lm.head.bias": ("cls/predictions/output_bias", "V"),
        "objective.sentence_order.head.kernel": ("cls/seq_relationship/output_weights", "N D"),
        "objective.sentence_order.head.bias": ("cls/seq_relationship/output_bias", "N"),
        "objective.classify.head.kernel": ("output_weights", "C D"),
        "objective.classify.head.bias": ("output_bias", "C"),
    }
    | numbered_blocks(
        OURS,
        "bert/encoder/transformer/group_{group}/inner_group_{inner}/",
        {
            "mixer.query.kernel": ("attention_1/self/query/kernel", "D HK"),
            "mixer.query.bias": ("attention_1/self/query/bias", "HK"),
            "mixer.key.kernel": ("attention_1/self/key/kernel", "D HK"),
            "mixer.key.bias": ("attention_1/self/key/bias", "HK"),
            "mixer.value.kernel": ("attention_1/self/value/kernel", "D HK"),
            "mixer.value.bias": ("attention_1/self/value/bias", "HK"),
            "mixer.merge.kernel": ("attention_1/output/dense/kernel", "HK D"),
            "mixer.merge.bias": ("attention_1/output/dense/bias", "D"),
            "mixer_norm.gamma": ("LayerNorm/gamma", "D"),
            "mixer_norm.beta": ("LayerNorm/beta", "D"),
            "feedforward.expand.kernel": ("ffn_1/intermediate/dense/kernel", "D F"),
            "feedforward.expand.bias": ("ffn_1/intermediate/dense/bias", "F"),
            "feedforward.contract.kernel": ("ffn_1/intermediate/output/dense/kernel", "F D"),
            "feedforward.contract.bias": ("ffn_1/intermediate/output/dense/bias", "D"),
            "feedforward_norm.gamma": ("LayerNorm_1/gamma", "D"),
            "feedforward_norm.beta": ("LayerNorm_1/beta", "D"),
        },
    ),
    settings=SETTINGS,
    activations=bert.TENSORFLOW1.activations,
    implied=lambda stored: {"layer_norm_epsilon": 1e-12, "force_projection": False},
    config_file="albert_config.json",
    checkpoint="model.ckpt-best",
    sentence_pieces={"do_lower_case": True, "keep_accents": False, "clean": True, "part_digits": True},
)

KERAS_HUB = KerasHub(
    variables={
        "backbone.embedding.token.embeddings": ("layers/reversible_embedding/vars/0", "V E"),
        "backbone.embedding.segment.embeddings": ("layers/embedding/vars/0", "S E"),
        "backbone.embedding.position.embeddings": ("layers/position_embedding/vars/0", "L E"),
        **names.norm("backbone.embedding.norm", "layers/layer_normalization", "E"),
        **names.dense("backbone.embedding_projection", "layers/dense", "E D", "D"),
        **names.dense("backbone.pooler", "layers/dense_1", "D O", "O"),
        **names.blocks(OURS.rstrip("."), names.ENCODER + "{group}_{inner}", names.block()),
        **names.dense("objective.classify.head", "task/layers/dense", "D C", "C"),
    },
    settings={name: name for name in (*bert.NUMBERS, "embedding_dim", "num_groups")}
    | {"num_inner_repetitions": "num_inner_layers"},
    implied=lambda stored: {
        **bert.KERAS_HUB.implied(stored), "force_projection": stored.get("embedding_dim") == stored.get("hidden_dim")
    },
    unsaid=bert.KERAS_HUB.unsaid,
    class_name="AlbertBackbone",
    tokenizer_class="AlbertTokenizer",
    sentence_pieces=True,
    classifier="AlbertTextClassifier",
)  # fmt: skip


def lacks(config: AlbertConfig) -> tuple[str, ...]:
    """Returns the projection where there is none, and what later groups share with the first one."""
    projection = () if config.has_projection else ("backbone.embedding_projection.",)
    if config.sharing == "all":
        return projection
    later = range(1, config.num_unlike_groups)
    return *projection, *(
        f"{OURS.format(group=group, inner=0)}{part}." for group in later for part in config.shared_half
    )


TABLE = Table(
    config=AlbertConfig,
    axes=AXES,
    lengths=lambda config: bert.axis_lengths(config) | {"E": config.embedding_dim},
    counts=lambda config: {"group": config.num_unlike_groups, "inner": config.num_inner_layers},
    heads=tuple(SENTENCE_ORDER if head.label == "next_sentence" else head for head in bert.HEADS),
    optional={"pooler": "backbone.pooler."},
    lacks=lacks,
    hugging_face=HUGGING_FACE,
    tensorflow1=TENSORFLOW1,
    keras_hub=KERAS_HUB,
)
