"""BART by the names of Hugging Face's `BartForConditionalGeneration` and `BartForSequenceClassification`.

Axes as in `tables/bert.py`; the decoder has G heads of the width J and E numbers in its feed-forward layers. I is 1.
"""

from data_pipelines.text.frames import ROBERTA
from data_pipelines.text.vocabulary import CLS, EOS
from xmodels.conversion import keras_hub_names as names
from xmodels.conversion.formats import Head, HuggingFace, KerasHub, Table, numbered_blocks
from xmodels.interfaces.reading import BART_READING
from xmodels.models.bart import BartConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.tasks.answer_span.task import AnswerSpan
from xmodels.tasks.classify.task import Classify


def attention(ours: str, theirs: str, heads: str, width: str) -> dict[str, tuple[str, str, str]]:
    """Returns our name -> (our axes, their name, their axes)."""
    rows = {}
    for name, short in (("query", "q"), ("key", "k"), ("value", "v")):
        rows[f"{ours}.{name}.kernel"] = f"D {heads} {width}", f"{theirs}.{short}_proj.weight", f"{heads}{width} D"
        rows[f"{ours}.{name}.bias"] = f"{heads} {width}", f"{theirs}.{short}_proj.bias", f"{heads}{width}"
    rows[f"{ours}.merge.kernel"] = f"{heads} {width} D", f"{theirs}.out_proj.weight", f"D {heads}{width}"
    rows[f"{ours}.merge.bias"] = "D", f"{theirs}.out_proj.bias", "D"
    return rows


def norm(ours: str, theirs: str) -> dict[str, tuple[str, str, str]]:
    return {f"{ours}.gamma": ("D", f"{theirs}.weight", "D"), f"{ours}.beta": ("D", f"{theirs}.bias", "D")}


def feedforward(inner: str) -> dict[str, tuple[str, str, str]]:
    return {
        "feedforward.expand.kernel": (f"D {inner}", "fc1.weight", f"{inner} D"),
        "feedforward.expand.bias": (inner, "fc1.bias", inner),
        "feedforward.contract.kernel": (f"{inner} D", "fc2.weight", f"D {inner}"),
        "feedforward.contract.bias": ("D", "fc2.bias", "D"),
        **norm("feedforward_norm", "final_layer_norm"),
    }


ENCODER = attention("mixer", "self_attn", "H", "K") | norm("mixer_norm", "self_attn_layer_norm") | feedforward("F")
DECODER = {
    **attention("mixer", "self_attn", "G", "J"), **norm("mixer_norm", "self_attn_layer_norm"),
    **attention("cross", "encoder_attn", "G", "J"), **norm("cross_norm", "encoder_attn_layer_norm"), **feedforward("E"),
}  # fmt: skip
EMBEDDING = {
    "backbone.embedding.token.embeddings": ("V D", "model.shared.weight", "V D"),
    "backbone.embedding.source_position.embeddings": ("L D", "model.encoder.embed_positions.weight", "L D"),
    "backbone.embedding.target_position.embeddings": ("L D", "model.decoder.embed_positions.weight", "L D"),
    **norm("backbone.embedding.source_norm", "model.encoder.layernorm_embedding"),
    **norm("backbone.embedding.target_norm", "model.decoder.layernorm_embedding"),
    "backbone.output_bias.bias": ("V", "final_logits_bias", "I V"),
}
STACKS = (
    ("backbone.encoder_blocks.{encoder_block}.", "model.encoder.layers.{encoder_block}.", ENCODER),
    ("backbone.decoder_blocks.{decoder_block}.", "model.decoder.layers.{decoder_block}.", DECODER),
)


def theirs_of(rows) -> dict[str, tuple[str, str]]:
    return {ours: (theirs, axes) for ours, (_, theirs, axes) in rows.items()}


def axis_lengths(config: BartConfig) -> dict[str, int]:
    """Returns the length of every axis."""
    heads = config.decoder_num_heads or config.num_heads
    return {
        "D": config.hidden_dim, "H": config.num_heads, "K": config.hidden_dim // config.num_heads, "G": heads,
        "J": config.hidden_dim // heads, "F": config.intermediate_dim,
        "E": config.decoder_intermediate_dim or config.intermediate_dim, "V": config.vocabulary_size,
        "L": config.num_positions, "O": config.hidden_dim,
    }  # fmt: skip


DECODER_SETTINGS = {  # their key -> our field, and their key of the encoder
    "decoder_layers": ("num_decoder_layers", "encoder_layers"),
    "decoder_attention_heads": ("decoder_num_heads", "encoder_attention_heads"),
    "decoder_ffn_dim": ("decoder_intermediate_dim", "encoder_ffn_dim"),
}
ENCODER_FIELDS = {
    "encoder_layers": "num_layers", "encoder_attention_heads": "num_heads", "encoder_ffn_dim": "intermediate_dim",
}  # fmt: skip


def decoder_from(stored) -> dict[str, int]:
    return {ours: stored[theirs] for theirs, (ours, _) in DECODER_SETTINGS.items() if theirs in stored}


def decoder_to(config: BartConfig) -> dict[str, int]:
    return {
        theirs: getattr(config, ours) or getattr(config, ENCODER_FIELDS[like])
        for theirs, (ours, like) in DECODER_SETTINGS.items()
    } | {"is_encoder_decoder": True}  # fmt: skip


# The network has the output matrix, so the head has no weights.
HEADS = (
    Head(
        "seq2seq",
        lambda config, num_classes: Seq2Seq(),
        lambda head, outputs, batch, backbone: head.logits(outputs["sequence_output"], backbone),
    ),
)

CLASSIFY = Head(
    "classify",
    lambda config, num_classes: Classify(config, range(num_classes), BART_READING),
    lambda head, outputs, batch, backbone: head.answer(outputs, batch),
)

ANSWER_SPAN = Head(
    "answer_span",
    lambda config, num_classes: AnswerSpan(config),
    lambda head, outputs, batch, backbone: head.head(outputs["sequence_output"]),
)

CLASSIFIER = {
    "objective.classify.dense.kernel": ("D O", "classification_head.dense.weight", "O D"),
    "objective.classify.dense.bias": ("O", "classification_head.dense.bias", "O"),
    "objective.classify.head.kernel": ("D C", "classification_head.out_proj.weight", "C D"),
    "objective.classify.head.bias": ("C", "classification_head.out_proj.bias", "C"),
    "objective.answer_span.head.kernel": ("D C", "qa_outputs.weight", "C D"),
    "objective.answer_span.head.bias": ("C", "qa_outputs.bias", "C"),
}

HUGGING_FACE = HuggingFace(
    variables=theirs_of(EMBEDDING | CLASSIFIER)
    | {
        name: row
        for ours, theirs, rows in STACKS
        for name, row in numbered_blocks(ours, theirs, theirs_of(rows)).items()
    },
    settings={
        "vocab_size": "vocabulary_size",
        "d_model": "hidden_dim",
        **ENCODER_FIELDS,
        "max_position_embeddings": "max_sequence_length",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "activation_dropout": "intermediate_dropout",
        "init_std": "initializer_stddev",
        "scale_embedding": "scale_embedding",
    },
    activation_key="activation_function",
    activations={"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu", "silu": "swish"},
    fixed={
        "model_type": "bart",
        "tie_word_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": True,
        "add_final_layer_norm": False,
    },
    implied=decoder_from,
    derived=decoder_to,
    architectures=(
        ("BartForSequenceClassification", frozenset({"classify"})),
        ("BartForQuestionAnswering", frozenset({"answer_span"})),
        ("BartForConditionalGeneration", frozenset()),
    ),
    prefix="model.",
    bare_parts=("shared", "encoder", "decoder"),
    buffers=(r"model\.(encoder|decoder)\.version",),
    tied={
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
        "lm_head.weight": "model.shared.weight",
    },
    continues=True,
    frame=ROBERTA,
    byte_bpe_class="BartTokenizer",
    decoder_start=EOS,
    forced={"forced_bos_token_id": CLS, "forced_eos_token_id": EOS},
)

SOURCE_POSITIONS, TARGET_POSITIONS = "layers/position_embedding/vars/0", "layers/position_embedding_1/vars/0"
KERAS_HUB = KerasHub(
    variables={
        "backbone.embedding.token.embeddings": ("layers/reversible_embedding/vars/0", "V D"),
        "backbone.embedding.source_position.embeddings": (SOURCE_POSITIONS, "L D"),
        "backbone.embedding.target_position.embeddings": (TARGET_POSITIONS, "L D"),
        **names.norm("backbone.embedding.source_norm", "layers/layer_normalization"),
        **names.norm("backbone.embedding.target_norm", "layers/layer_normalization_1"),
        **names.blocks("backbone.encoder_blocks.{encoder_block}", names.ENCODER + "{encoder_block}", names.block()),
        **names.blocks(
            "backbone.decoder_blocks.{decoder_block}", names.DECODER + "{decoder_block}", names.block("E", "G", "J", crossed=True)
        ),
    },
    settings={
        name: name
        for name in (
            "vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "dropout", "max_sequence_length",
        )
    },
    implied=lambda stored: {"attention_dropout": stored.get("dropout", 0.1), "first_position": 2},
    unsaid=("attention_dropout", "intermediate_dropout", "initializer_stddev", "first_position"),
    class_name="BartBackbone",
    tokenizer_class="BartTokenizer",
    byte_bpe=True,
    positions=(SOURCE_POSITIONS, TARGET_POSITIONS),
)  # fmt: skip

TABLE = Table(
    config=BartConfig,
    axes={ours: axes for ours, (axes, _, _) in (EMBEDDING | CLASSIFIER).items()}
    | {f"{ours}{name}": axes for ours, _, rows in STACKS for name, (axes, _, _) in rows.items()},
    lengths=axis_lengths,
    counts=lambda config: {
        "encoder_block": config.num_layers,
        "decoder_block": config.num_decoder_layers or config.num_layers,
    },
    heads=(*HEADS, CLASSIFY, ANSWER_SPAN),
    hugging_face=HUGGING_FACE,
    keras_hub=KERAS_HUB,
    optional={"output_bias": "backbone.output_bias"},  # files of the bare network lack it
)
