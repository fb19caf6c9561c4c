"""XLNet by the names that others use: Hugging Face's `XLNetLMHeadModel` and `XLNetForSequenceClassification`, and the TensorFlow 1
code of the authors.

Axes as in `tables/bert.py`; S is 2, the same segment or another one; X and Y are 1; P is twice D.
"""

import numpy as np
from keras import ops

from data_pipelines.text.frames import XLNET
from xmodels.conversion.formats import Head, HuggingFace, Table, TensorFlow1, head_classes, numbered_blocks
from xmodels.conversion.tables import bert
from xmodels.interfaces.reading import XLNET_READING
from xmodels.models.xlnet import XLNetConfig
from xmodels.objectives.permutation_lm import PermutationLM
from xmodels.tasks.answer_beam.task import AnswerBeam

# Of the head that reads ends beside beginnings: our name -> Hugging Face's, our axes, theirs. P is twice D.
BEAM = {
    "start.kernel": ("start_logits.dense.weight", "D X", "X D"),
    "start.bias": ("start_logits.dense.bias", "X", "X"),
    "end_hidden.kernel": ("end_logits.dense_0.weight", "P D", "D P"),
    "end_hidden.bias": ("end_logits.dense_0.bias", "D", "D"),
    "end_norm.gamma": ("end_logits.LayerNorm.weight", "D", "D"),
    "end_norm.beta": ("end_logits.LayerNorm.bias", "D", "D"),
    "end.kernel": ("end_logits.dense_1.weight", "D X", "X D"),
    "end.bias": ("end_logits.dense_1.bias", "X", "X"),
    "null_hidden.kernel": ("answer_class.dense_0.weight", "P D", "D P"),
    "null_hidden.bias": ("answer_class.dense_0.bias", "D", "D"),
    "null.kernel": ("answer_class.dense_1.weight", "D X", "X D"),
}
SUMMARIZED = ("classify", "multi_label", "regress", "choose")  # whose heads have one name in Hugging Face's files
BLOCK = "backbone.blocks.{block}."
BIASES = {"content_bias": "r_w_bias", "position_bias": "r_r_bias", "segment_bias": "r_s_bias"}

AXES = {
    "backbone.embedding.token.embeddings": "V D",
    "backbone.embedding.query": "XYD",
    **{f"backbone.biases.{name}": "H K" for name in BIASES},
    **{f"{BLOCK}biases.{name}": "H K" for name in BIASES},
    **{f"{BLOCK}mixer.{name}.kernel": "D H K" for name in ("query", "key", "value", "position")},
    f"{BLOCK}mixer.merge.kernel": "H K D",
    f"{BLOCK}mixer.segment": "S H K",
    **{f"{BLOCK}{norm}.{part}": "D" for norm in ("mixer_norm", "feedforward_norm") for part in ("gamma", "beta")},
    f"{BLOCK}feedforward.expand.kernel": "D F",
    f"{BLOCK}feedforward.expand.bias": "F",
    f"{BLOCK}feedforward.contract.kernel": "F D",
    f"{BLOCK}feedforward.contract.bias": "D",
    "objective.permutation_lm.bias": "V",
    **{f"objective.{task}.dense.kernel": "D O" for task in SUMMARIZED},
    **{f"objective.{task}.dense.bias": "O" for task in SUMMARIZED},
    **{f"objective.{task}.head.kernel": "D C" for task in (*SUMMARIZED, "tag", "answer_span")},
    **{f"objective.{task}.head.bias": "C" for task in (*SUMMARIZED, "tag", "answer_span")},
    **{f"objective.answer_beam.head.{ours}": axes for ours, (_, axes, _) in BEAM.items()},
}


def axis_lengths(config: XLNetConfig) -> dict[str, int]:
    """Returns the length of every axis but C, which only a checkpoint knows."""
    return {
        "D": config.hidden_dim,
        "O": config.hidden_dim,
        "H": config.num_heads,
        "K": config.width_of_head,
        "F": config.intermediate_dim,
        "V": config.vocabulary_size,
        "S": 2,
        "P": 2 * config.hidden_dim,
        "X": 1,
        "Y": 1,
    }


def target_logits(head, outputs, batch, backbone):
    """Returns the logits at `mask_positions`, of a query stream that sees all tokens but its own."""
    itself = batch["mask_positions"][:, :, None] == np.arange(batch["padding_mask"].shape[1])  # (B, P, L)
    return head.logits(backbone({**batch, "query_mask": batch["padding_mask"][:, None] & ~itself}), backbone)


def beam_logits(head, outputs, batch, backbone):
    """Returns (B, L, 3): of beginnings, of ends beside the first place, and of having no answer, which the last place stands
    for."""
    states, everywhere = outputs["sequence_output"], ops.ones(outputs["sequence_output"].shape[:2], "bool")
    starts = head.head.starts(states, everywhere)
    nothing = ops.broadcast_to(head.head.nothing(states, starts, states[:, -1])[:, None], starts.shape)
    return ops.stack([starts, head.head.ends(states, states[:, :1], everywhere)[:, 0], nothing], axis=-1)


HEADS = (
    Head("permutation_lm", lambda config, num_classes: PermutationLM(config), target_logits),
    *bert.task_heads(XLNET_READING),
    Head("answer_beam", lambda config, num_classes: AnswerBeam(config, reading=XLNET_READING), beam_logits),
)

# From names that both formats share to ours.
ATTENTION = {"q": "query", "k": "key", "v": "value", "r": "position"}


def implied(stored) -> dict:
    """Returns one rate of dropout is that of everything; what is switched off may be null, 0 or -1."""
    found = {"attention_dropout": stored["dropout"]} if "dropout" in stored else {}
    numbers = {"mem_len": "memory_length", "reuse_len": "reuse_length", "clamp_len": "clamp_length"}
    return found | {ours: stored[key] for key, ours in numbers.items() if stored.get(key) not in (None, 0, -1)}


def derived(config: XLNetConfig) -> dict:
    return {
        "untie_r": True,
        "bi_data": False,  # which rows of a batch read backwards is said by the batch
        "mem_len": config.memory_length,
        "reuse_len": config.reuse_length,
        "clamp_len": config.clamp_length or -1,
        "summary_type": "last",
        "summary_use_proj": True,
        "summary_activation": "tanh",
        "summary_last_dropout": config.dropout,
    }


HUGGING_FACE = HuggingFace(
    variables={
        "backbone.embedding.token.embeddings": ("transformer.word_embedding.weight", "V D"),
        "backbone.embedding.query": ("transformer.mask_emb", "X Y D"),
        "objective.permutation_lm.bias": ("lm_loss.bias", "V"),
        **{f"objective.{task}.dense.kernel": ("sequence_summary.summary.weight", "O D") for task in SUMMARIZED},
        **{f"objective.{task}.dense.bias": ("sequence_summary.summary.bias", "O") for task in SUMMARIZED},
        **{f"objective.{task}.head.kernel": ("logits_proj.weight", "C D") for task in SUMMARIZED},
        **{f"objective.{task}.head.bias": ("logits_proj.bias", "C") for task in SUMMARIZED},
        "objective.tag.head.kernel": ("classifier.weight", "C D"),
        "objective.tag.head.bias": ("classifier.bias", "C"),
        "objective.answer_span.head.kernel": ("qa_outputs.weight", "C D"),
        "objective.answer_span.head.bias": ("qa_outputs.bias", "C"),
        **{f"objective.answer_beam.head.{ours}": (theirs, axes) for ours, (theirs, _, axes) in BEAM.items()},
    }
    | numbered_blocks(
        BLOCK,
        "transformer.layer.{block}.",
        {
            **{f"mixer.{ours}.kernel": (f"rel_attn.{theirs}", "D H K") for theirs, ours in ATTENTION.items()},
            "mixer.merge.kernel": ("rel_attn.o", "D H K"),
            "mixer.segment": ("rel_attn.seg_embed", "S H K"),
            **{f"biases.{ours}": (f"rel_attn.{theirs}", "H K") for ours, theirs in BIASES.items()},
            "mixer_norm.gamma": ("rel_attn.layer_norm.weight", "D"),
            "mixer_norm.beta": ("rel_attn.layer_norm.bias", "D"),
            "feedforward.expand.kernel": ("ff.layer_1.weight", "F D"),
            "feedforward.expand.bias": ("ff.layer_1.bias", "F"),
            "feedforward.contract.kernel": ("ff.layer_2.weight", "D F"),
            "feedforward.contract.bias": ("ff.layer_2.bias", "D"),
            "feedforward_norm.gamma": ("ff.layer_norm.weight", "D"),
            "feedforward_norm.beta": ("ff.layer_norm.bias", "D"),
        },
    ),
    settings={
        "vocab_size": "vocabulary_size",
        "d_model": "hidden_dim",
        "n_layer": "num_layers",
        "n_head": "num_heads",
        "d_inner": "intermediate_dim",
        "dropout": "dropout",
        "attn_type": "attention_type",
        "same_length": "same_length",
        "initializer_range": "initializer_stddev",
        "layer_norm_eps": "layer_norm_epsilon",
    },
    activations={
        "gelu": "gelu",
        "gelu_new": "gelu_tanh",
        "gelu_pytorch_tanh": "gelu_tanh",
        "relu": "relu",
        "silu": "swish",
        "swish": "swish",
        "tanh": "tanh",
    },
    activation_key="ff_activation",
    fixed={"model_type": "xlnet", "summary_type": "last", "summary_use_proj": True, "summary_activation": "tanh"},
    implied=implied,
    derived=derived,
    frame=XLNET,
    sentence_piece_class="XLNetTokenizer",
    architectures=(
        *head_classes("XLNet"),
        ("XLNetForSequenceClassification", frozenset({"classify"})),
        ("XLNetForQuestionAnsweringSimple", frozenset({"answer_span"})),
        ("XLNetForQuestionAnswering", frozenset({"answer_beam"})),
        ("XLNetLMHeadModel", frozenset({"permutation_lm"})),
        ("XLNetModel", frozenset()),
    ),
    prefix="transformer.",
    bare_parts=("word_embedding", "mask_emb", "layer"),
    tied={"lm_loss.weight": "transformer.word_embedding.weight"},
)

TENSORFLOW1 = TensorFlow1(
    variables={
        "backbone.embedding.token.embeddings": ("model/transformer/word_embedding/lookup_table", "V D"),
        "backbone.embedding.query": ("model/transformer/mask_emb/mask_emb", "X Y D"),
        **{f"backbone.biases.{ours}": (f"model/transformer/{theirs}", "H K") for ours, theirs in BIASES.items()},
        # Those of all layers stand in one tensor.
        **{
            f"{BLOCK}biases.{ours}": (f"model/transformer/{theirs}[{{block}}]", "H K")
            for ours, theirs in BIASES.items()
        },
        f"{BLOCK}mixer.segment": ("model/transformer/seg_embed[{block}]", "S H K"),
        "objective.permutation_lm.bias": ("model/lm_loss/bias", "V"),
        "objective.classify.dense.kernel": ("model/sequnece_summary/summary/kernel", "D O"),
        "objective.classify.dense.bias": ("model/sequnece_summary/summary/bias", "O"),
        "objective.classify.head.kernel": ("model/classification_classify/logit/kernel", "D C"),
        "objective.classify.head.bias": ("model/classification_classify/logit/bias", "C"),
    }
    | numbered_blocks(
        BLOCK,
        "model/transformer/layer_{block}/",
        {
            **{f"mixer.{ours}.kernel": (f"rel_attn/{theirs}/kernel", "D H K") for theirs, ours in ATTENTION.items()},
            "mixer.merge.kernel": ("rel_attn/o/kernel", "D H K"),
            "mixer_norm.gamma": ("rel_attn/LayerNorm/gamma", "D"),
            "mixer_norm.beta": ("rel_attn/LayerNorm/beta", "D"),
            "feedforward.expand.kernel": ("ff/layer_1/kernel", "D F"),
            "feedforward.expand.bias": ("ff/layer_1/bias", "F"),
            "feedforward.contract.kernel": ("ff/layer_2/kernel", "F D"),
            "feedforward.contract.bias": ("ff/layer_2/bias", "D"),
            "feedforward_norm.gamma": ("ff/LayerNorm/gamma", "D"),
            "feedforward_norm.beta": ("ff/LayerNorm/beta", "D"),
        },
    ),
    settings={
        "n_token": "vocabulary_size",
        "d_model": "hidden_dim",
        "n_layer": "num_layers",
        "n_head": "num_heads",
        "d_head": "head_dim",
        "d_inner": "intermediate_dim",
        "untie_r": "untied_biases",
    },
    activations={"gelu": "gelu_tanh", "relu": "relu"},  # its "gelu" is the tanh approximation
    activation_key="ff_activation",
    derived=lambda config: {"d_head": config.width_of_head},
    unsaid=("memory_length", "reuse_length", "dropout", "attention_dropout", "initializer_stddev"),
    renamed={
        r"model/classification_\w+/logit/": "model/classification_classify/logit/"
    },  # its flag `cls_scope`, or the task
    config_file="xlnet_config.json",
    checkpoint="xlnet_model.ckpt",
    sentence_pieces={"do_lower_case": False, "keep_accents": False, "clean": True, "part_digits": True},
)

TABLE = Table(
    config=XLNetConfig,
    axes=AXES,
    lengths=axis_lengths,
    counts=lambda config: {"block": config.num_layers},
    heads=HEADS,
    lacks=lambda config: ("backbone.biases.",) if config.untied_biases else (f"{BLOCK}biases.",),
    hugging_face=HUGGING_FACE,
    tensorflow1=TENSORFLOW1,
)
