"""ELECTRA by the names of Hugging Face's `ElectraForPreTraining`, the network itself, and `ElectraForMaskedLM`, its generator."""

from xmodels.conversion.format_types import TASK_CLASSES, HuggingFace
from xmodels.conversion.formats import Head, Table
from xmodels.conversion.naming import TORCH
from xmodels.conversion.tables import bert
from xmodels.interfaces.encoder_readings import ELECTRA_READING
from xmodels.models.electra import ElectraConfig
from xmodels.objectives.replaced_tokens import ReplacedTokensHead
from xmodels.tasks.base.published_head import CHOICE, SEQUENCE, SPAN, TOKENS

PROJECTION, REPLACED = "backbone.embedding_projection", "objective.replaced_tokens.head"

HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            **{ours: theirs.replace("bert.", "electra.", 1) for ours, theirs in bert.ENCODER.items()},
            PROJECTION: "electra.embeddings_project",
            f"{REPLACED}.dense": "discriminator_predictions.dense",
            f"{REPLACED}.prediction": "discriminator_predictions.dense_prediction",
            "objective.masked_lm.head.dense": "generator_predictions.dense",
            "objective.masked_lm.head.norm": "generator_predictions.LayerNorm",
        }),
        "objective.masked_lm.head.bias": "generator_lm_head.bias",
    },
    heads={
        SEQUENCE: TORCH.weights({"dense": "classifier.dense", "head": "classifier.out_proj"}),
        TOKENS: TORCH.weights({"head": "classifier"}),
        # Of choices the Dense layer reads the first token, as that of texts does.
        CHOICE: TORCH.weights({"dense": "sequence_summary.summary", "head": "classifier"}),
        SPAN: TORCH.weights({"head": "qa_outputs"}),
    },
    settings=bert.HUGGING_FACE.settings | {"embedding_size": "embedding_dim"},
    activations=bert.ACTIVATIONS,
    fixed={
        "model_type": "electra", "position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False,
        "summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu",
    },
    family="Electra",
    architectures=(
        ("ElectraForPreTraining", frozenset({"replaced_tokens"})),
        ("ElectraForMaskedLM", frozenset({"masked_lm"})),
        TASK_CLASSES,
        ("ElectraModel", frozenset()),
    ),
    prefix="electra.",
    bare_parts=("embeddings", "embeddings_project", "encoder"),
    buffers=(r"electra\.embeddings\.(position_ids|token_type_ids)",),
    tied={
        "generator_lm_head.weight": "electra.embeddings.word_embeddings.weight",
        "generator_predictions.bias": "generator_lm_head.bias",
    },
)  # fmt: skip

TABLE = Table(
    config=ElectraConfig,
    objectives=(
        Head(
            "replaced_tokens",
            lambda config, num_classes: ReplacedTokensHead(config),
            lambda head, outputs, batch, backbone: head(outputs["sequence_output"]),
        ),
        bert.OBJECTIVES[0],
    ),
    reading=ELECTRA_READING,
    own_axes={f"{REPLACED}.prediction.kernel": "D I", f"{REPLACED}.prediction.bias": "I"},
    lacks=lambda config: () if config.has_projection else (f"{PROJECTION}.",),
    hugging_face=HUGGING_FACE,
)
