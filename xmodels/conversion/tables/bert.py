"""BERT by the names that others use: Hugging Face's `BertForPreTraining` and Google's TensorFlow 1 code.

A space stands between two axes of a variable; letters without one are merged. Our query kernel, `D H K`, is `HK D` in
torch and `D HK` in TensorFlow 1. D hidden_dim, H num_heads, K head_dim, F intermediate_dim, V vocabulary, L positions,
S segments, N next sentence (2), C classes. `{layer}` counts the layers.
"""

from xmodels.conversion.formats import Format
from xmodels.models.bert import BertConfig

MODEL = "bert"
CONFIG = BertConfig

VARIABLES = {
    "backbone.embedding.token.embeddings": "V D",
    "backbone.embedding.segment.embeddings": "S D",
    "backbone.embedding.position.embeddings": "L D",
    "backbone.embedding.norm.gamma": "D",
    "backbone.embedding.norm.beta": "D",
    "backbone.blocks.{layer}.mixer.query.kernel": "D H K",
    "backbone.blocks.{layer}.mixer.query.bias": "H K",
    "backbone.blocks.{layer}.mixer.key.kernel": "D H K",
    "backbone.blocks.{layer}.mixer.key.bias": "H K",
    "backbone.blocks.{layer}.mixer.value.kernel": "D H K",
    "backbone.blocks.{layer}.mixer.value.bias": "H K",
    "backbone.blocks.{layer}.mixer.merge.kernel": "H K D",
    "backbone.blocks.{layer}.mixer.merge.bias": "D",
    "backbone.blocks.{layer}.mixer_norm.gamma": "D",
    "backbone.blocks.{layer}.mixer_norm.beta": "D",
    "backbone.blocks.{layer}.feedforward.expand.kernel": "D F",
    "backbone.blocks.{layer}.feedforward.expand.bias": "F",
    "backbone.blocks.{layer}.feedforward.contract.kernel": "F D",
    "backbone.blocks.{layer}.feedforward.contract.bias": "D",
    "backbone.blocks.{layer}.feedforward_norm.gamma": "D",
    "backbone.blocks.{layer}.feedforward_norm.beta": "D",
    "backbone.pooler.kernel": "D D",
    "backbone.pooler.bias": "D",
    "objective.masked_lm.head.dense.kernel": "D D",
    "objective.masked_lm.head.dense.bias": "D",
    "objective.masked_lm.head.norm.gamma": "D",
    "objective.masked_lm.head.norm.beta": "D",
    "objective.masked_lm.head.bias": "V",
    "objective.next_sentence.head.kernel": "D N",
    "objective.next_sentence.head.bias": "N",
    "objective.classify.head.kernel": "D C",
    "objective.classify.head.bias": "C",
}

# What a published checkpoint may lack as a whole; a part of it alone is an error.
GROUPS = {
    "pooler": "backbone.pooler.",
    "masked_lm": "objective.masked_lm.",
    "next_sentence": "objective.next_sentence.",
    "classify": "objective.classify.",
}


def axis_sizes(config: BertConfig) -> dict[str, int]:
    """The length of every axis but C, which only a checkpoint knows."""
    return {
        "D": config.hidden_dim,
        "H": config.num_heads,
        "K": config.hidden_dim // config.num_heads,
        "F": config.intermediate_dim,
        "V": config.vocabulary_size,
        "L": config.max_sequence_length,
        "S": config.num_segments,
        "N": 2,
    }


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

HUGGING_FACE = Format(
    variables={
        "backbone.embedding.token.embeddings": ("bert.embeddings.word_embeddings.weight", "V D"),
        "backbone.embedding.segment.embeddings": ("bert.embeddings.token_type_embeddings.weight", "S D"),
        "backbone.embedding.position.embeddings": ("bert.embeddings.position_embeddings.weight", "L D"),
        "backbone.embedding.norm.gamma": ("bert.embeddings.LayerNorm.weight", "D"),
        "backbone.embedding.norm.beta": ("bert.embeddings.LayerNorm.bias", "D"),
        "backbone.blocks.{layer}.mixer.query.kernel": ("bert.encoder.layer.{layer}.attention.self.query.weight", "HK D"),
        "backbone.blocks.{layer}.mixer.query.bias": ("bert.encoder.layer.{layer}.attention.self.query.bias", "HK"),
        "backbone.blocks.{layer}.mixer.key.kernel": ("bert.encoder.layer.{layer}.attention.self.key.weight", "HK D"),
        "backbone.blocks.{layer}.mixer.key.bias": ("bert.encoder.layer.{layer}.attention.self.key.bias", "HK"),
        "backbone.blocks.{layer}.mixer.value.kernel": ("bert.encoder.layer.{layer}.attention.self.value.weight", "HK D"),
        "backbone.blocks.{layer}.mixer.value.bias": ("bert.encoder.layer.{layer}.attention.self.value.bias", "HK"),
        "backbone.blocks.{layer}.mixer.merge.kernel": ("bert.encoder.layer.{layer}.attention.output.dense.weight", "D HK"),
        "backbone.blocks.{layer}.mixer.merge.bias": ("bert.encoder.layer.{layer}.attention.output.dense.bias", "D"),
        "backbone.blocks.{layer}.mixer_norm.gamma": ("bert.encoder.layer.{layer}.attention.output.LayerNorm.weight", "D"),
        "backbone.blocks.{layer}.mixer_norm.beta": ("bert.encoder.layer.{layer}.attention.output.LayerNorm.bias", "D"),
        "backbone.blocks.{layer}.feedforward.expand.kernel": ("bert.encoder.layer.{layer}.intermediate.dense.weight", "F D"),
        "backbone.blocks.{layer}.feedforward.expand.bias": ("bert.encoder.layer.{layer}.intermediate.dense.bias", "F"),
        "backbone.blocks.{layer}.feedforward.contract.kernel": ("bert.encoder.layer.{layer}.output.dense.weight", "D F"),
        "backbone.blocks.{layer}.feedforward.contract.bias": ("bert.encoder.layer.{layer}.output.dense.bias", "D"),
        "backbone.blocks.{layer}.feedforward_norm.gamma": ("bert.encoder.layer.{layer}.output.LayerNorm.weight", "D"),
        "backbone.blocks.{layer}.feedforward_norm.beta": ("bert.encoder.layer.{layer}.output.LayerNorm.bias", "D"),
        "objective.masked_lm.head.dense.bias": ("cls.predictions.transform.dense.bias", "D"),
        "objective.masked_lm.head.norm.gamma": ("cls.predictions.transform.LayerNorm.weight", "D"),
        "objective.masked_lm.head.norm.beta": ("cls.predictions.transform.LayerNorm.bias", "D"),
        "objective.masked_lm.head.bias": ("cls.predictions.bias", "V"),
        "objective.next_sentence.head.kernel": ("cls.seq_relationship.weight", "N D"),
        "objective.next_sentence.head.bias": ("cls.seq_relationship.bias", "N"),
        "objective.classify.head.kernel": ("classifier.weight", "C D"),
        "objective.classify.head.bias": ("classifier.bias", "C"),
    },
    transposed={
        "backbone.pooler.kernel": "bert.pooler.dense.weight",
    },
    settings=SETTINGS | {"layer_norm_eps": "layer_norm_epsilon"},
)
