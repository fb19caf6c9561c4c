"""BERT by the names that others use: Hugging Face's `BertForPreTraining` and Google's TensorFlow 1 code.

A space stands between two axes of a variable, and merged axes stand together: our query kernel, `D H K`, is `HK D` in
Hugging Face's files and `D HK` in Google's. D hidden_dim, O the same as output of a square kernel, H num_heads,
K head_dim, F intermediate_dim, V vocabulary, L positions, S segments, N next sentence (2), C classes.
"""

from xmodels.conversion import keras_hub_names as names
from xmodels.conversion.formats import Head, HuggingFace, KerasHub, Table, TensorFlow1, head_classes, numbered_blocks
from xmodels.interfaces.reading import Reading
from xmodels.models.bert import BertConfig
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence
from xmodels.tasks.answer_span.task import AnswerSpan
from xmodels.tasks.choose.task import Choose
from xmodels.tasks.classify.task import Classify
from xmodels.tasks.multi_label.task import MultiLabel
from xmodels.tasks.regress.task import Regress
from xmodels.tasks.tag.task import Tag

ALIKE = (
    "classify",
    "multi_label",
    "regress",
    "choose",
    "tag",
)  # tasks whose heads have one name in Hugging Face's files

AXES = {
    "backbone.embedding.token.embeddings": "V D",
    "backbone.embedding.segment.embeddings": "S D",
    "backbone.embedding.position.embeddings": "L D",
    "backbone.embedding.norm.gamma": "D",
    "backbone.embedding.norm.beta": "D",
    "backbone.blocks.{block}.mixer.query.kernel": "D H K",
    "backbone.blocks.{block}.mixer.query.bias": "H K",
    "backbone.blocks.{block}.mixer.key.kernel": "D H K",
    "backbone.blocks.{block}.mixer.key.bias": "H K",
    "backbone.blocks.{block}.mixer.value.kernel": "D H K",
    "backbone.blocks.{block}.mixer.value.bias": "H K",
    "backbone.blocks.{block}.mixer.merge.kernel": "H K D",
    "backbone.blocks.{block}.mixer.merge.bias": "D",
    "backbone.blocks.{block}.mixer_norm.gamma": "D",
    "backbone.blocks.{block}.mixer_norm.beta": "D",
    "backbone.blocks.{block}.feedforward.expand.kernel": "D F",
    "backbone.blocks.{block}.feedforward.expand.bias": "F",
    "backbone.blocks.{block}.feedforward.contract.kernel": "F D",
    "backbone.blocks.{block}.feedforward.contract.bias": "D",
    "backbone.blocks.{block}.feedforward_norm.gamma": "D",
    "backbone.blocks.{block}.feedforward_norm.beta": "D",
    "backbone.pooler.kernel": "D O",
    "backbone.pooler.bias": "O",
    "objective.masked_lm.head.dense.kernel": "D O",
    "objective.masked_lm.head.dense.bias": "O",
    "objective.masked_lm.head.norm.gamma": "D",
    "objective.masked_lm.head.norm.beta": "D",
    "objective.masked_lm.head.bias": "V",
    "objective.next_sentence.head.kernel": "D N",
    "objective.next_sentence.head.bias": "N",
    **{f"objective.{task}.head.kernel": "D C" for task in ALIKE},
    **{f"objective.{task}.head.bias": "C" for task in ALIKE},
    "objective.answer_span.head.kernel": "D C",
    "objective.answer_span.head.bias": "C",
}


def axis_lengths(config: BertConfig) -> dict[str, int]:
    """Returns the length of every axis but C, which only a checkpoint knows."""
    return {
        "D": config.hidden_dim,
        "O": config.hidden_dim,
        "H": config.num_heads,
        "K": config.hidden_dim // config.num_heads,
        "F": config.intermediate_dim,
        "V": config.vocabulary_size,
        "L": config.max_sequence_length,
        "S": config.num_segments,
        "N": 2,
    }


def task_heads(reading: Reading) -> tuple[Head, ...]:
    """Returns the heads of tasks of a network that reads texts so."""

    def summarized(head, outputs, batch, backbone):
        return head.logits_of(head.reading.summary(outputs, batch))

    def of_tokens(head, outputs, batch, backbone):
        return head.head(outputs["sequence_output"])

    return (
        Head("classify", lambda config, num_classes: Classify(config, range(num_classes), reading), summarized),
        Head("multi_label", lambda config, num_classes: MultiLabel(config, range(num_classes), reading), summarized),
        Head("regress", lambda config, num_classes: Regress(config, (), reading), summarized),
        Head("choose", lambda config, num_classes: Choose(config, (), reading), summarized),
        Head("tag", lambda config, num_classes: Tag(config, range(num_classes), reading), of_tokens),
        Head("answer_span", lambda config, num_classes: AnswerSpan(config), of_tokens),
    )


HEADS = (
    Head(
        "masked_lm",
        lambda config, num_classes: MaskedLM(config),
        lambda head, outputs, batch, backbone: head.logits(outputs, batch, backbone),
    ),
    Head(
        "next_sentence",
        lambda config, num_classes: NextSentence(config),
        lambda head, outputs, batch, backbone: head.head(outputs["pooled_output"]),
    ),
    *task_heads(Reading()),
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

HUGGING_FACE = HuggingFace(
    variables={
        "backbone.embedding.token.embeddings": ("bert.embeddings.word_embeddings.weight", "V D"),
        "backbone.embedding.segment.embeddings": ("bert.embeddings.token_type_embeddings.weight", "S D"),
        "backbone.embedding.position.embeddings": ("bert.embeddings.position_embeddings.weight", "L D"),
        "backbone.embedding.norm.gamma": ("bert.embeddings.LayerNorm.weight", "D"),
        "backbone.embedding.norm.beta": ("bert.embeddings.LayerNorm.bias", "D"),
        "backbone.pooler.kernel": ("bert.pooler.dense.weight", "O D"),
        "backbone.pooler.bias": ("bert.pooler.dense.bias", "O"),
        "objective.masked_lm.head.dense.kernel": ("cls.predictions.transform.dense.weight", "O D"),
        "objective.masked_lm.head.dense.bias": ("cls.predictions.transform.dense.bias", "O"),
        "objective.masked_lm.head.norm.gamma": ("cls.predictions.transform.LayerNorm.weight", "D"),
        "objective.masked_lm.head.norm.beta": ("cls.predictions.transform.LayerNorm.bias", "D"),
        "objective.masked_lm.head.bias": ("cls.predictions.bias", "V"),
        "objective.next_sentence.head.kernel": ("cls.seq_relationship.weight", "N D"),
        "objective.next_sentence.head.bias": ("cls.seq_relationship.bias", "N"),
        **{f"objective.{task}.head.kernel": ("classifier.weight", "C D") for task in ALIKE},
        **{f"objective.{task}.head.bias": ("classifier.bias", "C") for task in ALIKE},
        "objective.answer_span.head.kernel": ("qa_outputs.weight", "C D"),
        "objective.answer_span.head.bias": ("qa_outputs.bias", "C"),
    }
    | numbered_blocks(
        "backbone.blocks.{block}.",
        "bert.encoder.layer.{block}.",
        {
            "mixer.query.kernel": ("attention.self.query.weight", "HK D"),
            "mixer.query.bias": ("attention.self.query.bias", "HK"),
            "mixer.key.kernel": ("attention.self.key.weight", "HK D"),
            "mixer.key.bias": ("attention.self.key.bias", "HK"),
            "mixer.value.kernel": ("attention.self.value.weight", "HK D"),
            "mixer.value.bias": ("attention.self.value.bias", "HK"),
            "mixer.merge.kernel": ("attention.output.dense.weight", "D HK"),
            "mixer.merge.bias": ("attention.output.dense.bias", "D"),
            "mixer_norm.gamma": ("attention.output.LayerNorm.weight", "D"),
            "mixer_norm.beta": ("attention.output.LayerNorm.bias", "D"),
            "feedforward.expand.kernel": ("intermediate.dense.weight", "F D"),
            "feedforward.expand.bias": ("intermediate.dense.bias", "F"),
            "feedforward.contract.kernel": ("output.dense.weight", "D F"),
            "feedforward.contract.bias": ("output.dense.bias", "D"),
            "feedforward_norm.gamma": ("output.LayerNorm.weight", "D"),
            "feedforward_norm.beta": ("output.LayerNorm.bias", "D"),
        },
    ),
    settings=SETTINGS | {"layer_norm_eps": "layer_norm_epsilon"},
    activations={
        "gelu": "gelu",
        "gelu_new": "gelu_tanh",
        "gelu_pytorch_tanh": "gelu_tanh",
        "relu": "relu",
        "silu": "swish",
        "swish": "swish",
        "tanh": "tanh",
    },
    fixed={
        "model_type": "bert",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    },
    architectures=(
        *head_classes("Bert"),
        ("BertForPreTraining", frozenset({"masked_lm", "next_sentence"})),
        ("BertForMaskedLM", frozenset({"masked_lm"})),
        ("BertForNextSentencePrediction", frozenset({"next_sentence"})),
        ("BertForSequenceClassification", frozenset({"classify"})),
        ("BertForQuestionAnswering", frozenset({"answer_span"})),
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

TENSORFLOW1 = TensorFlow1(
    variables={
        "backbone.embedding.token.embeddings": ("bert/embeddings/word_embeddings", "V D"),
        "backbone.embedding.segment.embeddings": ("bert/embeddings/token_type_embeddings", "S D"),
        "backbone.embedding.position.embeddings": ("bert/embeddings/position_embeddings", "L D"),
        "backbone.embedding.norm.gamma": ("bert/embeddings/LayerNorm/gamma", "D"),
        "backbone.embedding.norm.beta": ("bert/embeddings/LayerNorm/beta", "D"),
        "backbone.pooler.kernel": ("bert/pooler/dense/kernel", "D O"),
        "backbone.pooler.bias": ("bert/pooler/dense/bias", "O"),
        "objective.masked_lm.head.dense.kernel": ("cls/predictions/transform/dense/kernel", "D O"),
        "objective.masked_lm.head.dense.bias": ("cls/predictions/transform/dense/bias", "O"),
        "objective.masked_lm.head.norm.gamma": ("cls/predictions/transform/LayerNorm/gamma", "D"),
        "objective.masked_lm.head.norm.beta": ("cls/predictions/transform/LayerNorm/beta", "D"),
        "objective.masked_lm.head.bias": ("cls/predictions/output_bias", "V"),
        "objective.next_sentence.head.kernel": ("cls/seq_relationship/output_weights", "N D"),
        "objective.next_sentence.head.bias": ("cls/seq_relationship/output_bias", "N"),
        "objective.classify.head.kernel": ("output_weights", "C D"),
        "objective.classify.head.bias": ("output_bias", "C"),
        "objective.answer_span.head.kernel": ("cls/squad/output_weights", "C D"),
        "objective.answer_span.head.bias": ("cls/squad/output_bias", "C"),
    }
    | numbered_blocks(
        "backbone.blocks.{block}.",
        "bert/encoder/layer_{block}/",
        {
            "mixer.query.kernel": ("attention/self/query/kernel", "D HK"),
            "mixer.query.bias": ("attention/self/query/bias", "HK"),
            "mixer.key.kernel": ("attention/self/key/kernel", "D HK"),
            "mixer.key.bias": ("attention/self/key/bias", "HK"),
            "mixer.value.kernel": ("attention/self/value/kernel", "D HK"),
            "mixer.value.bias": ("attention/self/value/bias", "HK"),
            "mixer.merge.kernel": ("attention/output/dense/kernel", "HK D"),
            "mixer.merge.bias": ("attention/output/dense/bias", "D"),
            "mixer_norm.gamma": ("attention/output/LayerNorm/gamma", "D"),
            "mixer_norm.beta": ("attention/output/LayerNorm/beta", "D"),
            "feedforward.expand.kernel": ("intermediate/dense/kernel", "D F"),
            "feedforward.expand.bias": ("intermediate/dense/bias", "F"),
            "feedforward.contract.kernel": ("output/dense/kernel", "F D"),
            "feedforward.contract.bias": ("output/dense/bias", "D"),
            "feedforward_norm.gamma": ("output/LayerNorm/gamma", "D"),
            "feedforward_norm.beta": ("output/LayerNorm/beta", "D"),
        },
    ),
    settings=SETTINGS,
    activations={"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"},  # Google's "gelu" is the tanh approximation
    implied=lambda stored: {"layer_norm_epsilon": 1e-12},
    config_file="bert_config.json",
    checkpoint="bert_model.ckpt",
)
NUMBERS = (
    "vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "dropout", "max_sequence_length", "num_segments",
)  # fmt: skip

KERAS_HUB = KerasHub(
    variables={
        "backbone.embedding.token.embeddings": ("layers/reversible_embedding/vars/0", "V D"),
        "backbone.embedding.segment.embeddings": ("layers/embedding/vars/0", "S D"),
        "backbone.embedding.position.embeddings": ("layers/position_embedding/vars/0", "L D"),
        **names.norm("backbone.embedding.norm", "layers/layer_normalization"),
        **names.dense("backbone.pooler", "layers/dense", "D O", "O"),
        **names.blocks("backbone.blocks.{block}", names.ENCODER + "{block}", names.block()),
        **names.dense("objective.classify.head", "task/layers/dense", "D C", "C"),
    },
    settings={name: name for name in NUMBERS},
    implied=lambda stored: {
        "activation": "gelu_tanh", "layer_norm_epsilon": 1e-12, "attention_dropout": stored.get("dropout", 0.1)
    },
    unsaid=("attention_dropout", "initializer_stddev"),
    class_name="BertBackbone",
    tokenizer_class="BertTokenizer",
    word_pieces=True,
    classifier="BertTextClassifier",
)  # fmt: skip

TABLE = Table(
    config=BertConfig,
    axes=AXES,
    lengths=axis_lengths,
    counts=lambda config: {"block": config.num_layers},
    heads=HEADS,
    optional={"pooler": "backbone.pooler."},
    hugging_face=HUGGING_FACE,
    tensorflow1=TENSORFLOW1,
    keras_hub=KERAS_HUB,
)
