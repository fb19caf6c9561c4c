"""RoBERTa by the names of Hugging Face's `RobertaForMaskedLM` and `RobertaForSequenceClassification`, and by those of KerasHub."""

from data_pipelines.text.frames import ROBERTA
from xmodels.conversion.format_types import TASK_CLASSES, HuggingFace, KerasHub, dropout_of_all
from xmodels.conversion.formats import Table
from xmodels.conversion.naming import KERAS, KERAS_HUB_BLOCK, KERAS_HUB_ENCODER, TORCH, repeat
from xmodels.conversion.tables import bert
from xmodels.interfaces.reading import ROBERTA_READING
from xmodels.models.roberta import RobertaConfig
from xmodels.tasks.base.published_head import CHOICE, SEQUENCE, SPAN, TOKENS


def read_positions(stored) -> dict[str, int]:
    """Returns how many positions there are: the table has a row for padding and those before it, which are never read."""
    padding = stored.get("pad_token_id", 1)
    if type(padding) is not int or type(stored.get("max_position_embeddings")) is not int:
        return {"first_position": padding}  # which is refused, with the name of the key
    return {"first_position": padding + 1, "max_sequence_length": stored["max_position_embeddings"] - padding - 1}


def write_positions(config: RobertaConfig) -> dict[str, int]:
    return {"pad_token_id": config.first_position - 1, "max_position_embeddings": config.num_positions}


HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            **{ours: theirs.replace("bert.", "roberta.", 1) for ours, theirs in bert.ENCODER.items()},
            "objective.masked_lm.head.dense": "lm_head.dense",
            "objective.masked_lm.head.norm": "lm_head.layer_norm",
        }),
        "objective.masked_lm.head.bias": "lm_head.bias",
    },
    heads={
        SEQUENCE: TORCH.weights({"dense": "classifier.dense", "head": "classifier.out_proj"}),
        TOKENS: TORCH.weights({"head": "classifier"}),
        # Of choices the Dense layer below the last is the pooler, which other files hold untrained.
        CHOICE: TORCH.weights({"dense": "roberta.pooler.dense", "head": "classifier"}),
        SPAN: TORCH.weights({"head": "qa_outputs"}),
    },
    settings={theirs: ours for theirs, ours in bert.SETTINGS.items() if theirs != "max_position_embeddings"}
    | {"layer_norm_eps": "layer_norm_epsilon"},
    complete=lambda stored: {"layer_norm_eps": 1e-12} | stored,
    activations={"gelu": "gelu"},  # that of the head of the masked LM, which is not of the configuration
    fixed=bert.HUGGING_FACE.fixed | {"model_type": "roberta"},
    infer_fields=read_positions,
    infer_settings=write_positions,
    frame=ROBERTA,
    byte_bpe_class="RobertaTokenizer",
    family="Roberta",
    architectures=(
        ("RobertaForMaskedLM", frozenset({"masked_lm"})),
        TASK_CLASSES,
        ("RobertaModel", frozenset()),
    ),
    prefix="roberta.",
    bare_parts=("embeddings", "encoder", "pooler"),
    old_endings=bert.HUGGING_FACE.old_endings,
    # Files hold a pooler that was never trained, and that the network of the paper does not have.
    buffers=(r"roberta\.embeddings\.position_ids", r"roberta\.pooler\.dense\.(weight|bias)"),
    tied={
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
)  # fmt: skip

POSITIONS = "layers/token_and_position_embedding/position_embedding"  # from that of the first token on
KERAS_HUB = KerasHub(
    names={
        **KERAS.weights({
            "backbone.embedding.token": "layers/token_and_position_embedding/token_embedding",
            "backbone.embedding.position": POSITIONS,
            "backbone.embedding.norm": "layers/layer_normalization",
            **repeat(bert.BLOCK, KERAS_HUB_ENCODER + "{block}/", KERAS_HUB_BLOCK),
            "objective.masked_lm.head.dense": "task/layers/masked_lm_head/_intermediate_dense",
            "objective.masked_lm.head.norm": "task/layers/masked_lm_head/_intermediate_layer_norm",
        }),
        "objective.masked_lm.head.bias": "task/layers/masked_lm_head/vars/0",
    },
    heads={SEQUENCE: KERAS.weights({"dense": "task/layers/dense", "head": "task/layers/dense_1"})},
    infer_fields=lambda stored: {
        "activation": "gelu", "layer_norm_epsilon": 1e-5, "num_segments": 1, "first_position": 2, **dropout_of_all(stored)
    },
    unsaid=(*bert.KERAS_HUB.unsaid, "first_position"),
    class_name="RobertaBackbone",
    tokenizer_class="RobertaTokenizer",
    byte_bpe=True,
    classifier="RobertaTextClassifier",
    masked_lm="RobertaMaskedLM",
    positions=(f"{POSITIONS}/vars/0",),
    folded={"backbone.embedding.segment.embeddings": "backbone.embedding.position.embeddings"},
)  # fmt: skip

TABLE = Table(
    config=RobertaConfig,
    objectives=tuple(head for head in bert.OBJECTIVES if head.label == "masked_lm"),
    reading=ROBERTA_READING,
    hugging_face=HUGGING_FACE,
    keras_hub=KERAS_HUB,
)
