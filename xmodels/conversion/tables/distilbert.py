"""DistilBERT by the names of Hugging Face's `DistilBertForMaskedLM`."""

from xmodels.conversion.format_types import TASK_CLASSES, HuggingFace
from xmodels.conversion.formats import Table
from xmodels.conversion.naming import TORCH, repeat
from xmodels.conversion.tables import bert
from xmodels.interfaces.encoder_readings import DISTILBERT_READING
from xmodels.models.distilbert import DistilBertConfig
from xmodels.tasks.base.published_head import CHOICE, SEQUENCE, SPAN, TOKENS

TEXT = TORCH.weights({"dense": "pre_classifier", "head": "classifier"})

HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            "backbone.embedding.token": "distilbert.embeddings.word_embeddings",
            "backbone.embedding.position": "distilbert.embeddings.position_embeddings",
            "backbone.embedding.norm": "distilbert.embeddings.LayerNorm",
            **repeat(bert.BLOCK, "distilbert.transformer.layer.{block}.", {
                "mixer.query": "attention.q_lin",
                "mixer.key": "attention.k_lin",
                "mixer.value": "attention.v_lin",
                "mixer.merge": "attention.out_lin",
                "mixer_norm": "sa_layer_norm",
                "feedforward.expand": "ffn.lin1",
                "feedforward.contract": "ffn.lin2",
                "feedforward_norm": "output_layer_norm",
            }),
            "objective.masked_lm.head.dense": "vocab_transform",
            "objective.masked_lm.head.norm": "vocab_layer_norm",
        }),
        "objective.masked_lm.head.bias": "vocab_projector.bias",
    },
    heads={
        SEQUENCE: TEXT,
        TOKENS: TORCH.weights({"head": "classifier"}),
        CHOICE: TEXT,
        SPAN: TORCH.weights({"head": "qa_outputs"}),
    },
    settings={
        "vocab_size": "vocabulary_size",
        "dim": "hidden_dim",
        "n_layers": "num_layers",
        "n_heads": "num_heads",
        "hidden_dim": "intermediate_dim",
        "max_position_embeddings": "max_sequence_length",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "initializer_range": "initializer_stddev",
    },
    activations={name: ours for name, ours in bert.ACTIVATIONS.items() if ours in ("gelu", "relu")},
    activation_key="activation",
    infer_fields=lambda stored: {"layer_norm_epsilon": 1e-12},
    fixed={"model_type": "distilbert"},
    family="DistilBert",
    architectures=(
        ("DistilBertForMaskedLM", frozenset({"masked_lm"})),
        TASK_CLASSES,
        ("DistilBertModel", frozenset()),
    ),
    prefix="distilbert.",
    bare_parts=("embeddings", "transformer"),
    buffers=(r"distilbert\.embeddings\.position_ids",),
    tied={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
)  # fmt: skip

TABLE = Table(
    config=DistilBertConfig,
    objectives=(bert.OBJECTIVES[0],),
    reading=DISTILBERT_READING,
    hugging_face=HUGGING_FACE,
)
