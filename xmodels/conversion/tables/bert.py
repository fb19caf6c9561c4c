"""BERT by the names that others use: Hugging Face's `BertForPreTraining`, Google's TensorFlow 1 code, and KerasHub."""

from xmodels.conversion.format_types import (
    KERAS_HUB_NUMBERS,
    TASK_CLASSES,
    HuggingFace,
    KerasHub,
    TensorFlow1,
    dropout_of_all,
)
from xmodels.conversion.formats import Head, Table, logits_of_pairs
from xmodels.conversion.naming import KERAS, KERAS_HUB_BLOCK, KERAS_HUB_ENCODER, TENSORFLOW, TORCH, repeat
from xmodels.models.bert import BertConfig
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence
from xmodels.tasks.base.published_head import CHOICE, SEQUENCE, SPAN, TOKENS

BLOCK = "backbone.blocks.{block}."
# Our layers -> Hugging Face's. Those of Google's code have the same names, with slashes.
EMBEDDING = {
    "backbone.embedding.token": "bert.embeddings.word_embeddings",
    "backbone.embedding.segment": "bert.embeddings.token_type_embeddings",
    "backbone.embedding.position": "bert.embeddings.position_embeddings",
    "backbone.embedding.norm": "bert.embeddings.LayerNorm",
}
ENCODER = {
    **EMBEDDING,
    **repeat(BLOCK, "bert.encoder.layer.{block}.", {
        "mixer.query": "attention.self.query",
        "mixer.key": "attention.self.key",
        "mixer.value": "attention.self.value",
        "mixer.merge": "attention.output.dense",
        "mixer_norm": "attention.output.LayerNorm",
        "feedforward.expand": "intermediate.dense",
        "feedforward.contract": "output.dense",
        "feedforward_norm": "output.LayerNorm",
    }),
}  # fmt: skip
POOLER = {"backbone.pooler": "bert.pooler.dense"}
MASKED_LM = {
    "objective.masked_lm.head.dense": "cls.predictions.transform.dense",
    "objective.masked_lm.head.norm": "cls.predictions.transform.LayerNorm",
}

OBJECTIVES = (
    Head("masked_lm", lambda config, num_classes: MaskedLM(config), MaskedLM.logits),
    Head("next_sentence", lambda config, num_classes: NextSentence(config), logits_of_pairs),
)

SETTINGS = {
    "vocab_size": "vocabulary_size",
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "initializer_range": "initializer_stddev",
}
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
    "tanh": "tanh",
}

HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights(ENCODER | POOLER | MASKED_LM | {"objective.next_sentence.head": "cls.seq_relationship"}),
        "objective.masked_lm.head.bias": "cls.predictions.bias",
    },
    heads={
        **{kind: TORCH.weights({"head": "classifier"}) for kind in (SEQUENCE, TOKENS, CHOICE)},
        SPAN: TORCH.weights({"head": "qa_outputs"}),
    },
    settings=SETTINGS | {"layer_norm_eps": "layer_norm_epsilon"},
    activations=ACTIVATIONS,
    fixed={
        "model_type": "bert",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    },
    family="Bert",
    architectures=(
        ("BertForPreTraining", frozenset({"masked_lm", "next_sentence"})),
        ("BertForMaskedLM", frozenset({"masked_lm"})),
        ("BertForNextSentencePrediction", frozenset({"next_sentence"})),
        TASK_CLASSES,
        ("BertModel", frozenset()),
    ),
    prefix="bert.",
    bare_parts=("embeddings", "encoder", "pooler"),
    old_endings={".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"},
    buffers=(r"bert\.embeddings\.position_ids",),
    tied={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    untyped=True,
)


def with_slashes(layers: dict[str, str]) -> dict[str, str]:
    """Returns layers by the names of Google's code: `bert.encoder.layer.{block}.output` -> `bert/encoder/layer_{block}/output`."""
    return {ours: theirs.replace(".layer.", ".layer_").replace(".", "/") for ours, theirs in layers.items()}


def output(ours: str, theirs: str) -> dict[str, str]:
    """Returns the names of a last layer in Google's code."""
    return {f"{ours}.kernel": f"{theirs}output_weights", f"{ours}.bias": f"{theirs}output_bias"}


TENSORFLOW1 = TensorFlow1(
    names={
        **TENSORFLOW.weights(with_slashes(ENCODER | POOLER | MASKED_LM)),
        "objective.masked_lm.head.bias": "cls/predictions/output_bias",
        **output("objective.next_sentence.head", "cls/seq_relationship/"),
    },
    heads={SEQUENCE: output("head", ""), SPAN: output("head", "cls/squad/")},
    settings=SETTINGS,
    activations={"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"},  # Google's "gelu" is the tanh approximation
    infer_fields=lambda stored: {"layer_norm_epsilon": 1e-12},
    config_file="bert_config.json",
    checkpoint="bert_model.ckpt",
)
KERAS_HUB_EMBEDDING = {
    "backbone.embedding.token": "layers/reversible_embedding",
    "backbone.embedding.segment": "layers/embedding",
    "backbone.embedding.position": "layers/position_embedding",
    "backbone.embedding.norm": "layers/layer_normalization",
}
KERAS_HUB = KerasHub(
    names=KERAS.weights({
        **KERAS_HUB_EMBEDDING,
        **repeat(BLOCK, KERAS_HUB_ENCODER + "{block}/", KERAS_HUB_BLOCK),
        "backbone.pooler": "layers/dense",
    }),
    heads={SEQUENCE: KERAS.weights({"head": "task/layers/dense"})},
    settings={name: name for name in (*KERAS_HUB_NUMBERS, "num_segments")},
    infer_fields=lambda stored: {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12, **dropout_of_all(stored)},
    class_name="BertBackbone",
    tokenizer_class="BertTokenizer",
    word_pieces=True,
    classifier="BertTextClassifier",
)  # fmt: skip

TABLE = Table(
    config=BertConfig,
    objectives=OBJECTIVES,
    optional={"pooler": "backbone.pooler."},
    hugging_face=HUGGING_FACE,
    tensorflow1=TENSORFLOW1,
    keras_hub=KERAS_HUB,
)
