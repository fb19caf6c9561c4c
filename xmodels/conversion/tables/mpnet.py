"""MPNet by the names of Hugging Face's `MPNetForMaskedLM`."""

from xmodels.conversion.format_types import TASK_CLASSES, HuggingFace
from xmodels.conversion.formats import Table
from xmodels.conversion.naming import TORCH, repeat
from xmodels.conversion.tables import bert, roberta
from xmodels.interfaces.reading import ROBERTA_READING
from xmodels.models.mpnet import MpnetConfig

HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            "backbone.embedding.token": "mpnet.embeddings.word_embeddings",
            "backbone.embedding.position": "mpnet.embeddings.position_embeddings",
            "backbone.embedding.norm": "mpnet.embeddings.LayerNorm",
            **repeat(bert.BLOCK, "mpnet.encoder.layer.{block}.", {
                "mixer.query": "attention.attn.q",
                "mixer.key": "attention.attn.k",
                "mixer.value": "attention.attn.v",
                "mixer.merge": "attention.attn.o",
                "mixer_norm": "attention.LayerNorm",
                "feedforward.expand": "intermediate.dense",
                "feedforward.contract": "output.dense",
                "feedforward_norm": "output.LayerNorm",
            }),
            "objective.masked_lm.head.dense": "lm_head.dense",
            "objective.masked_lm.head.norm": "lm_head.layer_norm",
        }),
        "backbone.buckets.table": "mpnet.encoder.relative_attention_bias.weight",
        "objective.masked_lm.head.bias": "lm_head.bias",
    },
    heads={
        kind: {ours: theirs.replace("roberta.", "mpnet.", 1) for ours, theirs in names.items()}
        for kind, names in roberta.HUGGING_FACE.heads.items()
    },
    settings={
        **{name: ours for name, ours in roberta.HUGGING_FACE.settings.items() if ours != "num_segments"},
        "relative_attention_num_buckets": "num_buckets",
    },
    activations=bert.ACTIVATIONS,
    infer_fields=lambda stored: {**roberta.read_positions(stored), "max_distance": 128},
    infer_settings=roberta.write_positions,
    fixed={"model_type": "mpnet"},
    family="MPNet",
    architectures=(
        ("MPNetForMaskedLM", frozenset({"masked_lm"})),
        TASK_CLASSES,
        ("MPNetModel", frozenset()),
    ),
    prefix="mpnet.",
    bare_parts=("embeddings", "encoder", "pooler"),
    buffers=(r"mpnet\.embeddings\.position_ids", r"mpnet\.pooler\.dense\.(weight|bias)"),
    tied={
        "lm_head.decoder.weight": "mpnet.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
)  # fmt: skip

TABLE = Table(
    config=MpnetConfig,
    objectives=(bert.OBJECTIVES[0],),
    reading=ROBERTA_READING,
    own_axes={"buckets.table": "R H"},
    own_lengths=lambda config: {"R": config.num_buckets},
    hugging_face=HUGGING_FACE,
)
