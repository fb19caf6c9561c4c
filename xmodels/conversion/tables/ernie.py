"""ERNIE by the names that others use: Hugging Face's `ErnieForPreTraining` and Baidu's PaddlePaddle code.

Axes as in `tables/bert.py`; T tasks, R roles of dialogues.
"""

from xmodels.conversion.formats import HuggingFace, Paddle, Table, numbered_blocks
from xmodels.conversion.tables import bert
from xmodels.models.ernie import ErnieConfig

AXES = bert.AXES | {
    "backbone.embedding.task.embeddings": "T D",
    "backbone.embedding.role.embeddings": "R D",
}

HUGGING_FACE_TASKS = 3  # `task_type_vocab_size` where the table is not used


def tasks_from(stored) -> dict[str, int | None]:
    """Returns the table of tasks is there where `use_task_id` says so."""
    tasks = stored.get("task_type_vocab_size", HUGGING_FACE_TASKS)
    return {"num_tasks": tasks if stored.get("use_task_id") else None}


def tasks_to(config: ErnieConfig) -> dict[str, int | bool]:
    return {"use_task_id": bool(config.num_tasks), "task_type_vocab_size": config.num_tasks or HUGGING_FACE_TASKS}


def lacks(config: ErnieConfig) -> tuple[str, ...]:
    tables = {"backbone.embedding.task.": config.num_tasks, "backbone.embedding.role.": config.num_roles}
    return tuple(prefix for prefix, rows in tables.items() if not rows)


HUGGING_FACE = HuggingFace(
    variables={
        ours: (theirs.replace("bert.", "ernie.", 1), axes)
        for ours, (theirs, axes) in bert.HUGGING_FACE.variables.items()
    }
    | {"backbone.embedding.task.embeddings": ("ernie.embeddings.task_type_embeddings.weight", "T D")},
    settings=bert.HUGGING_FACE.settings,
    activations=bert.HUGGING_FACE.activations,
    fixed=bert.HUGGING_FACE.fixed | {"model_type": "ernie"},
    complete=lambda stored: {"layer_norm_eps": 1e-12} | stored,
    implied=tasks_from,
    derived=tasks_to,
    left_out=frozenset({"num_roles"}),
    architectures=tuple((name.replace("Bert", "Ernie"), heads) for name, heads in bert.HUGGING_FACE.architectures),
    prefix="ernie.",
    bare_parts=bert.HUGGING_FACE.bare_parts,
    old_endings=bert.HUGGING_FACE.old_endings,
    buffers=(r"ernie\.embeddings\.position_ids",),
    tied={
        "cls.predictions.decoder.weight": "ernie.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)

# ERNIE/model/ernie.py and transformer_encoder.py of 2019-03; matrices are (in, out). `next_sent_fc` says 1 where the second segment
# follows, as we say 0.
PADDLE = Paddle(
    variables={
        "backbone.embedding.token.embeddings": ("word_embedding", "V D"),
        "backbone.embedding.position.embeddings": ("pos_embedding", "L D"),
        "backbone.embedding.segment.embeddings": ("sent_embedding", "S D"),
        "backbone.embedding.task.embeddings": ("task_embedding", "T D"),
        "backbone.embedding.norm.gamma": ("pre_encoder_layer_norm_scale", "D"),
        "backbone.embedding.norm.beta": ("pre_encoder_layer_norm_bias", "D"),
        "backbone.pooler.kernel": ("pooled_fc.w_0", "D O"),
        "backbone.pooler.bias": ("pooled_fc.b_0", "O"),
        "objective.masked_lm.head.dense.kernel": ("mask_lm_trans_fc.w_0", "D O"),
        "objective.masked_lm.head.dense.bias": ("mask_lm_trans_fc.b_0", "O"),
        "objective.masked_lm.head.norm.gamma": ("mask_lm_trans_layer_norm_scale", "D"),
        "objective.masked_lm.head.norm.beta": ("mask_lm_trans_layer_norm_bias", "D"),
        "objective.masked_lm.head.bias": ("mask_lm_out_fc.b_0", "V"),
        "objective.next_sentence.head.kernel": ("next_sent_fc.w_0", "D N"),
        "objective.next_sentence.head.bias": ("next_sent_fc.b_0", "N"),
        "objective.classify.head.kernel": ("cls_out_w", "D C"),
        "objective.classify.head.bias": ("cls_out_b", "C"),
    }
    | numbered_blocks(
        "backbone.blocks.{block}.",
        "encoder_layer_{block}_",
        {
            "mixer.query.kernel": ("multi_head_att_query_fc.w_0", "D HK"),
            "mixer.query.bias": ("multi_head_att_query_fc.b_0", "HK"),
            "mixer.key.kernel": ("multi_head_att_key_fc.w_0", "D HK"),
            "mixer.key.bias": ("multi_head_att_key_fc.b_0", "HK"),
            "mixer.value.kernel": ("multi_head_att_value_fc.w_0", "D HK"),
            "mixer.value.bias": ("multi_head_att_value_fc.b_0", "HK"),
            "mixer.merge.kernel": ("multi_head_att_output_fc.w_0", "HK D"),
            "mixer.merge.bias": ("multi_head_att_output_fc.b_0", "D"),
            "mixer_norm.gamma": ("post_att_layer_norm_scale", "D"),
            "mixer_norm.beta": ("post_att_layer_norm_bias", "D"),
            "feedforward.expand.kernel": ("ffn_fc_0.w_0", "D F"),
            "feedforward.expand.bias": ("ffn_fc_0.b_0", "F"),
            "feedforward.contract.kernel": ("ffn_fc_1.w_0", "F D"),
            "feedforward.contract.bias": ("ffn_fc_1.b_0", "D"),
            "feedforward_norm.gamma": ("post_ffn_layer_norm_scale", "D"),
            "feedforward_norm.beta": ("post_ffn_layer_norm_bias", "D"),
        },
    ),
    settings=bert.SETTINGS,
    activations={"relu": "relu", "gelu": "gelu", "tanh": "tanh"},
    implied=lambda stored: (
        {"layer_norm_epsilon": 1e-5}
        | ({"num_tasks": stored.get("task_type_vocab_size", 3)} if stored.get("use_task_id") else {})
    ),
    derived=lambda config: {"use_task_id": True, "task_type_vocab_size": config.num_tasks} if config.num_tasks else {},
    # A feed-forward layer is four times as wide as the network; ERNIE 2.0 has another name for the segments.
    complete=lambda stored: (
        {
            "intermediate_size": 4 * stored["hidden_size"] if type(stored.get("hidden_size")) is int else None,
            "type_vocab_size": stored.get("sent_type_vocab_size", 2),
        }
        | stored
    ),
    left_out=frozenset({"num_roles"}),
    config_file="ernie_config.json",
    reversed_classes=frozenset({"objective.next_sentence.head.kernel", "objective.next_sentence.head.bias"}),
    other_heads=r"(?!encoder_layer_|mask_lm_|pooled_)\w+_fc\.[wb]_0",  # `<task>_fc`, of the tasks of ERNIE 2.0
)

TABLE = Table(
    config=ErnieConfig,
    axes=AXES,
    lengths=lambda config: bert.axis_lengths(config) | {"T": config.num_tasks or 0, "R": config.num_roles or 0},
    counts=lambda config: {"block": config.num_layers},
    heads=bert.HEADS,
    optional={"pooler": "backbone.pooler."},
    lacks=lacks,
    hugging_face=HUGGING_FACE,
    paddle=PADDLE,
)
