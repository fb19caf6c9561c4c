"""ERNIE by the names that others use: Hugging Face's `ErnieForPreTraining` and Baidu's PaddlePaddle code."""

import dataclasses

from xmodels.conversion.format_types import Paddle
from xmodels.conversion.formats import Table
from xmodels.conversion.naming import PADDLE as NAMING
from xmodels.conversion.naming import repeat
from xmodels.conversion.tables import bert
from xmodels.models.ernie import ErnieConfig
from xmodels.tasks.base.published_head import SEQUENCE

HUGGING_FACE_TASKS = 3  # `task_type_vocab_size` where the table is not used
NOT_WRITTEN = ("num_roles",)  # of dialogues, for which no other format has a table


def read_tasks(stored) -> dict[str, int | None]:
    """Returns how many tasks the table of tasks has, which is there where `use_task_id` says so."""
    tasks = stored.get("task_type_vocab_size", HUGGING_FACE_TASKS)
    return {"num_tasks": tasks if stored.get("use_task_id") else None}


def write_tasks(config: ErnieConfig) -> dict[str, int | bool]:
    return {"use_task_id": bool(config.num_tasks), "task_type_vocab_size": config.num_tasks or HUGGING_FACE_TASKS}


def lacks(config: ErnieConfig) -> tuple[str, ...]:
    tables = {"backbone.embedding.task.": config.num_tasks, "backbone.embedding.role.": config.num_roles}
    return tuple(prefix for prefix, rows in tables.items() if not rows)


def rename(theirs: str) -> str:
    return theirs.replace("bert.", "ernie.", 1)


BERT = bert.HUGGING_FACE
HUGGING_FACE = dataclasses.replace(
    BERT,
    names={
        **{ours: rename(theirs) for ours, theirs in BERT.names.items()},
        "backbone.embedding.task.embeddings": "ernie.embeddings.task_type_embeddings.weight",
    },
    fixed=BERT.fixed | {"model_type": "ernie"},
    complete=lambda stored: {"layer_norm_eps": 1e-12} | stored,
    infer_fields=read_tasks,
    infer_settings=write_tasks,
    left_out=frozenset(NOT_WRITTEN),
    family="Ernie",
    architectures=tuple((name.replace("Bert", "Ernie"), heads) for name, heads in BERT.architectures),
    prefix="ernie.",
    buffers=(r"ernie\.embeddings\.position_ids",),
    tied={copy: rename(original) for copy, original in BERT.tied.items()},
    untyped=False,
)

# ERNIE/model/ernie.py and transformer_encoder.py of 2019-03; matrices are (in, out). `next_sent_fc` says 1 where the second segment
# follows, as we say 0.
PADDLE = Paddle(
    names={
        **NAMING.weights({
            "backbone.embedding.token": "word_embedding",
            "backbone.embedding.position": "pos_embedding",
            "backbone.embedding.segment": "sent_embedding",
            "backbone.embedding.task": "task_embedding",
            "backbone.embedding.norm": "pre_encoder_layer_norm",
            **repeat(bert.BLOCK, "encoder_layer_{block}_", {
                "mixer.query": "multi_head_att_query_fc",
                "mixer.key": "multi_head_att_key_fc",
                "mixer.value": "multi_head_att_value_fc",
                "mixer.merge": "multi_head_att_output_fc",
                "mixer_norm": "post_att_layer_norm",
                "feedforward.expand": "ffn_fc_0",
                "feedforward.contract": "ffn_fc_1",
                "feedforward_norm": "post_ffn_layer_norm",
            }),
            "backbone.pooler": "pooled_fc",
            "objective.masked_lm.head.dense": "mask_lm_trans_fc",
            "objective.masked_lm.head.norm": "mask_lm_trans_layer_norm",
            "objective.next_sentence.head": "next_sent_fc",
        }),
        "objective.masked_lm.head.bias": "mask_lm_out_fc.b_0",
    },
    heads={SEQUENCE: {"head.kernel": "cls_out_w", "head.bias": "cls_out_b"}},
    settings=bert.SETTINGS,
    activations={"relu": "relu", "gelu": "gelu", "tanh": "tanh"},
    infer_fields=lambda stored: (
        {"layer_norm_epsilon": 1e-5}
        | ({"num_tasks": stored.get("task_type_vocab_size", 3)} if stored.get("use_task_id") else {})
    ),
    infer_settings=lambda config: {"use_task_id": True, "task_type_vocab_size": config.num_tasks} if config.num_tasks else {},
    # A feed-forward layer is four times as wide as the network; ERNIE 2.0 has another name for the segments.
    complete=lambda stored: (
        {
            "intermediate_size": 4 * stored["hidden_size"] if type(stored.get("hidden_size")) is int else None,
            "type_vocab_size": stored.get("sent_type_vocab_size", 2),
        }
        | stored
    ),
    left_out=frozenset(NOT_WRITTEN),
    config_file="ernie_config.json",
    reversed_classes=frozenset({"objective.next_sentence.head.kernel", "objective.next_sentence.head.bias"}),
    other_heads=r"(?!encoder_layer_|mask_lm_|pooled_)\w+_fc\.[wb]_0",  # `<task>_fc`, of the tasks of ERNIE 2.0
)  # fmt: skip

TABLE = Table(
    config=ErnieConfig,
    objectives=bert.OBJECTIVES,
    further=("backbone.embedding.role.embeddings",),
    own_axes={"task.embeddings": "T D", "role.embeddings": "R D"},
    own_lengths=lambda config: {"T": config.num_tasks or 0, "R": config.num_roles or 0},
    optional={"pooler": "backbone.pooler."},
    lacks=lacks,
    hugging_face=HUGGING_FACE,
    paddle=PADDLE,
)
