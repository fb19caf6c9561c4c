"""BART by the names of Hugging Face's `BartForConditionalGeneration` and its classes for tasks, and by those of KerasHub."""

from data_pipelines.text.frames import ROBERTA
from data_pipelines.text.vocabulary import CLS, EOS
from xmodels.conversion.format_types import TASK_CLASSES, HuggingFace, KerasHub, dropout_of_all
from xmodels.conversion.formats import Head, Table, logits_of_states
from xmodels.conversion.naming import (
    KERAS,
    KERAS_HUB_BLOCK,
    KERAS_HUB_CROSSED_BLOCK,
    KERAS_HUB_DECODER,
    KERAS_HUB_ENCODER,
    TORCH,
    add_cross_attention,
    repeat,
)
from xmodels.interfaces.reading import BART_READING
from xmodels.models.bart import BartConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.tasks.base.published_head import SEQUENCE, SPAN

ENCODER_BLOCK, DECODER_BLOCK = "backbone.encoder_blocks.{encoder_block}.", "backbone.decoder_blocks.{decoder_block}."
BLOCK = {
    "mixer.query": "self_attn.q_proj",
    "mixer.key": "self_attn.k_proj",
    "mixer.value": "self_attn.v_proj",
    "mixer.merge": "self_attn.out_proj",
    "mixer_norm": "self_attn_layer_norm",
    "feedforward.expand": "fc1",
    "feedforward.contract": "fc2",
    "feedforward_norm": "final_layer_norm",
}
CROSSED_BLOCK = add_cross_attention(BLOCK, "self_", "encoder_")

DECODER_SETTINGS = {  # their key -> our field, and their key of the encoder
    "decoder_layers": ("num_decoder_layers", "encoder_layers"),
    "decoder_attention_heads": ("decoder_num_heads", "encoder_attention_heads"),
    "decoder_ffn_dim": ("decoder_intermediate_dim", "encoder_ffn_dim"),
}
ENCODER_FIELDS = {
    "encoder_layers": "num_layers", "encoder_attention_heads": "num_heads", "encoder_ffn_dim": "intermediate_dim",
}  # fmt: skip


def read_decoder(stored) -> dict[str, int]:
    return {ours: stored[theirs] for theirs, (ours, _) in DECODER_SETTINGS.items() if theirs in stored}


def write_decoder(config: BartConfig) -> dict[str, int]:
    return {
        theirs: getattr(config, ours) or getattr(config, ENCODER_FIELDS[like])
        for theirs, (ours, like) in DECODER_SETTINGS.items()
    } | {"is_encoder_decoder": True}  # fmt: skip


# The network has the output matrix, so the head has no weights.
OBJECTIVES = (Head("seq2seq", lambda config, num_classes: Seq2Seq(), logits_of_states),)

HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            "backbone.embedding.token": "model.shared",
            "backbone.embedding.source_position": "model.encoder.embed_positions",
            "backbone.embedding.target_position": "model.decoder.embed_positions",
            "backbone.embedding.source_norm": "model.encoder.layernorm_embedding",
            "backbone.embedding.target_norm": "model.decoder.layernorm_embedding",
            **repeat(ENCODER_BLOCK, "model.encoder.layers.{encoder_block}.", BLOCK),
            **repeat(DECODER_BLOCK, "model.decoder.layers.{decoder_block}.", CROSSED_BLOCK),
        }),
        "backbone.output_bias.bias": "final_logits_bias",
    },
    other_axes={"output_bias.bias": "I V"},
    heads={
        SEQUENCE: TORCH.weights({"dense": "classification_head.dense", "head": "classification_head.out_proj"}),
        SPAN: TORCH.weights({"head": "qa_outputs"}),
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
    infer_fields=read_decoder,
    infer_settings=write_decoder,
    family="Bart",
    architectures=(TASK_CLASSES, ("BartForConditionalGeneration", frozenset())),
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
)  # fmt: skip

SOURCE_POSITIONS, TARGET_POSITIONS = "layers/position_embedding", "layers/position_embedding_1"
KERAS_HUB = KerasHub(
    names=KERAS.weights({
        "backbone.embedding.token": "layers/reversible_embedding",
        "backbone.embedding.source_position": SOURCE_POSITIONS,
        "backbone.embedding.target_position": TARGET_POSITIONS,
        "backbone.embedding.source_norm": "layers/layer_normalization",
        "backbone.embedding.target_norm": "layers/layer_normalization_1",
        **repeat(ENCODER_BLOCK, KERAS_HUB_ENCODER + "{encoder_block}/", KERAS_HUB_BLOCK),
        **repeat(DECODER_BLOCK, KERAS_HUB_DECODER + "{decoder_block}/", KERAS_HUB_CROSSED_BLOCK),
    }),
    infer_fields=lambda stored: {"first_position": 2, **dropout_of_all(stored)},
    unsaid=("attention_dropout", "intermediate_dropout", "initializer_stddev", "first_position"),
    class_name="BartBackbone",
    tokenizer_class="BartTokenizer",
    byte_bpe=True,
    positions=(f"{SOURCE_POSITIONS}/vars/0", f"{TARGET_POSITIONS}/vars/0"),
)  # fmt: skip

TABLE = Table(
    config=BartConfig,
    objectives=OBJECTIVES,
    reading=BART_READING,
    hugging_face=HUGGING_FACE,
    keras_hub=KERAS_HUB,
    optional={"output_bias": "backbone.output_bias"},  # files of the bare network lack it
)
