"""RoBERTa by the names of Hugging Face's `RobertaForMaskedLM` and `RobertaForSequenceClassification`.

Axes as in `tables/bert.py`.
"""

from data_pipelines.text.frames import ROBERTA
from xmodels.conversion import keras_hub_names as names
from xmodels.conversion.formats import HuggingFace, KerasHub, Table, head_classes
from xmodels.conversion.tables import bert
from xmodels.interfaces.reading import ROBERTA_READING
from xmodels.models.roberta import RobertaConfig

SUMMARIZED = ("classify", "multi_label", "regress")  # whose heads have one name, and another Dense layer below the last
AXES = {
    **{name: axes for name, axes in bert.AXES.items() if not name.startswith(("backbone.pooler", "objective.next"))},
    **{f"objective.{task}.dense.kernel": "D O" for task in (*SUMMARIZED, "choose")},
    **{f"objective.{task}.dense.bias": "O" for task in (*SUMMARIZED, "choose")},
}

HEADS = (*(head for head in bert.HEADS if head.label == "masked_lm"), *bert.task_heads(ROBERTA_READING))

HEAD_NAMES = {
    "objective.masked_lm.head.dense.kernel": ("lm_head.dense.weight", "O D"),
    "objective.masked_lm.head.dense.bias": ("lm_head.dense.bias", "O"),
    "objective.masked_lm.head.norm.gamma": ("lm_head.layer_norm.weight", "D"),
    "objective.masked_lm.head.norm.beta": ("lm_head.layer_norm.bias", "D"),
    "objective.masked_lm.head.bias": ("lm_head.bias", "V"),
    **{f"objective.{task}.dense.kernel": ("classifier.dense.weight", "O D") for task in SUMMARIZED},
    **{f"objective.{task}.dense.bias": ("classifier.dense.bias", "O") for task in SUMMARIZED},
    **{f"objective.{task}.head.kernel": ("classifier.out_proj.weight", "C D") for task in SUMMARIZED},
    **{f"objective.{task}.head.bias": ("classifier.out_proj.bias", "C") for task in SUMMARIZED},
    # Of choices the Dense layer below the last is the pooler, which other files hold untrained.
    "objective.choose.dense.kernel": ("roberta.pooler.dense.weight", "O D"),
    "objective.choose.dense.bias": ("roberta.pooler.dense.bias", "O"),
    **{f"objective.{task}.head.kernel": ("classifier.weight", "C D") for task in ("choose", "tag")},
    **{f"objective.{task}.head.bias": ("classifier.bias", "C") for task in ("choose", "tag")},
    "objective.answer_span.head.kernel": ("qa_outputs.weight", "C D"),
    "objective.answer_span.head.bias": ("qa_outputs.bias", "C"),
}


def positions_from(stored) -> dict[str, int]:
    """Returns the table has a row for padding and those before it, which are never read."""
    padding = stored.get("pad_token_id", 1)
    if type(padding) is not int or type(stored.get("max_position_embeddings")) is not int:
        return {"first_position": padding}  # which is refused, with the name of the key
    return {"first_position": padding + 1, "max_sequence_length": stored["max_position_embeddings"] - padding - 1}


def positions_to(config: RobertaConfig) -> dict[str, int]:
    return {"pad_token_id": config.first_position - 1, "max_position_embeddings": config.num_positions}


HUGGING_FACE = HuggingFace(
    variables={
        ours: (theirs.replace("bert.", "roberta.", 1), axes)
        for ours, (theirs, axes) in bert.HUGGING_FACE.variables.items()
        if ours.startswith(("backbone.embedding", "backbone.blocks"))
    }
    | HEAD_NAMES,
    settings={theirs: ours for theirs, ours in bert.SETTINGS.items() if theirs != "max_position_embeddings"}
    | {"layer_norm_eps": "layer_norm_epsilon"},
    complete=lambda stored: {"layer_norm_eps": 1e-12} | stored,
    activations={"gelu": "gelu"},  # that of the head of the masked LM, which is not of the configuration
    fixed={
        "model_type": "roberta",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    },
    implied=positions_from,
    derived=positions_to,
    frame=ROBERTA,
    byte_bpe_class="RobertaTokenizer",
    architectures=(
        *head_classes("Roberta"),
        ("RobertaForMaskedLM", frozenset({"masked_lm"})),
        ("RobertaForSequenceClassification", frozenset({"classify"})),
        ("RobertaForQuestionAnswering", frozenset({"answer_span"})),
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
)

POSITIONS = "layers/token_and_position_embedding/position_embedding/vars/0"  # from that of the first token on
MASKED_LM = "task/layers/masked_lm_head"
KERAS_HUB = KerasHub(
    variables={
        "backbone.embedding.token.embeddings": ("layers/token_and_position_embedding/token_embedding/vars/0", "V D"),
        "backbone.embedding.position.embeddings": (POSITIONS, "L D"),
        **names.norm("backbone.embedding.norm", "layers/layer_normalization"),
        **names.blocks("backbone.blocks.{block}", names.ENCODER + "{block}", names.block()),
        **names.dense("objective.classify.dense", "task/layers/dense", "D O", "O"),
        **names.dense("objective.classify.head", "task/layers/dense_1", "D C", "C"),
        **names.dense("objective.masked_lm.head.dense", f"{MASKED_LM}/_intermediate_dense", "D O", "O"),
        **names.norm("objective.masked_lm.head.norm", f"{MASKED_LM}/_intermediate_layer_norm"),
        "objective.masked_lm.head.bias": (f"{MASKED_LM}/vars/0", "V"),
    },
    settings={name: name for name in bert.NUMBERS if name != "num_segments"},
    implied=lambda stored: {
        **bert.KERAS_HUB.implied(stored), "activation": "gelu", "layer_norm_epsilon": 1e-5, "num_segments": 1,
        "first_position": 2,
    },
    unsaid=(*bert.KERAS_HUB.unsaid, "first_position"),
    class_name="RobertaBackbone",
    tokenizer_class="RobertaTokenizer",
    byte_bpe=True,
    classifier="RobertaTextClassifier",
    masked_lm="RobertaMaskedLM",
    positions=(POSITIONS,),
    folded={"backbone.embedding.segment.embeddings": "backbone.embedding.position.embeddings"},
)  # fmt: skip

TABLE = Table(
    config=RobertaConfig,
    axes=AXES,
    lengths=lambda config: bert.axis_lengths(config) | {"L": config.num_positions},
    counts=lambda config: {"block": config.num_layers},
    heads=HEADS,
    hugging_face=HUGGING_FACE,
    keras_hub=KERAS_HUB,
)
