"""XLNet by the names that others use: Hugging Face's `XLNetLMHeadModel` and its classes for tasks, and the TensorFlow 1 code of the
authors. Of its segments there are two: the same one or another."""

import numpy as np

from data_pipelines.text.frames import XLNET
from xmodels.conversion.format_types import ENDINGS, TASK_CLASSES, HuggingFace, TensorFlow1
from xmodels.conversion.formats import Head, Table
from xmodels.conversion.naming import TENSORFLOW, TORCH, repeat
from xmodels.conversion.tables import bert
from xmodels.interfaces.reading import XLNET_READING
from xmodels.models.xlnet import XLNetConfig
from xmodels.objectives.permutation_lm import PermutationLM
from xmodels.tasks.base.published_head import CHOICE, SEQUENCE, SPAN, SPAN_BEAM, TOKENS

BLOCK = "backbone.blocks.{block}."
BIASES = {"content_bias": "r_w_bias", "position_bias": "r_r_bias", "segment_bias": "r_s_bias"}

LAYERS = {
    "mixer_norm": "rel_attn.layer_norm",
    "feedforward.expand": "ff.layer_1",
    "feedforward.contract": "ff.layer_2",
    "feedforward_norm": "ff.layer_norm",
}
# Names of the attention's kernels, which have no biases and stand as here but for the last one.
ATTENTION = {"query": "q", "key": "k", "value": "v", "position": "r", "merge": "o"}
OTHER_AXES = {"merge.kernel": "D H K", "embedding.query": "I I D"}


def target_logits(head, outputs, batch, backbone):
    """Returns the logits at `mask_positions`, of a query stream that sees all tokens but its own."""
    itself = batch["mask_positions"][:, :, None] == np.arange(batch["padding_mask"].shape[1])  # (B, P, L)
    return head.logits(backbone({**batch, "query_mask": batch["padding_mask"][:, None] & ~itself}), backbone)


def infer_fields(stored) -> dict:
    """Returns what the file says in other words: one rate of dropout is that of everything; what is switched off may be null, 0 or
    -1."""
    found = {"attention_dropout": stored["dropout"]} if "dropout" in stored else {}
    numbers = {"mem_len": "memory_length", "reuse_len": "reuse_length", "clamp_len": "clamp_length"}
    return found | {ours: stored[key] for key, ours in numbers.items() if stored.get(key) not in (None, 0, -1)}


def infer_settings(config: XLNetConfig) -> dict:
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
    names={
        **TORCH.weights({
            "backbone.embedding.token": "transformer.word_embedding",
            **repeat(BLOCK, "transformer.layer.{block}.", LAYERS),
        }),
        **repeat(BLOCK, "transformer.layer.{block}.rel_attn.", {
            **{f"mixer.{ours}.kernel": theirs for ours, theirs in ATTENTION.items()},
            **{f"biases.{ours}": theirs for ours, theirs in BIASES.items()},
            "mixer.segment": "seg_embed",
        }),
        "backbone.embedding.query": "transformer.mask_emb",
        "objective.permutation_lm.bias": "lm_loss.bias",
    },
    heads={
        SEQUENCE: TORCH.weights({"dense": "sequence_summary.summary", "head": "logits_proj"}),
        CHOICE: TORCH.weights({"dense": "sequence_summary.summary", "head": "logits_proj"}),
        TOKENS: TORCH.weights({"head": "classifier"}),
        SPAN: TORCH.weights({"head": "qa_outputs"}),
        SPAN_BEAM: {
            **TORCH.weights({
                "head.start": "start_logits.dense",
                "head.end_hidden": "end_logits.dense_0",
                "head.end_norm": "end_logits.LayerNorm",
                "head.end": "end_logits.dense_1",
                "head.null_hidden": "answer_class.dense_0",
            }),
            "head.null.kernel": "answer_class.dense_1.weight",
        },
    },
    heads_apart=True,
    other_axes=OTHER_AXES,
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
    activations=bert.ACTIVATIONS,
    activation_key="ff_activation",
    fixed={"model_type": "xlnet", "summary_type": "last", "summary_use_proj": True, "summary_activation": "tanh"},
    infer_fields=infer_fields,
    infer_settings=infer_settings,
    frame=XLNET,
    sentence_piece_class="XLNetTokenizer",
    family="XLNet",
    endings=ENDINGS | {SPAN: "ForQuestionAnsweringSimple", SPAN_BEAM: "ForQuestionAnswering"},
    architectures=(
        TASK_CLASSES,
        ("XLNetLMHeadModel", frozenset({"permutation_lm"})),
        ("XLNetModel", frozenset()),
    ),
    prefix="transformer.",
    bare_parts=("word_embedding", "mask_emb", "layer"),
    tied={"lm_loss.weight": "transformer.word_embedding.weight"},
)  # fmt: skip

TENSORFLOW1 = TensorFlow1(
    names={
        **TENSORFLOW.weights(repeat(BLOCK, "model/transformer/layer_{block}/", {
            "mixer_norm": "rel_attn/LayerNorm",
            "feedforward.expand": "ff/layer_1",
            "feedforward.contract": "ff/layer_2",
            "feedforward_norm": "ff/LayerNorm",
        })),
        **repeat(f"{BLOCK}mixer.", "model/transformer/layer_{block}/rel_attn/", {
            f"{ours}.kernel": f"{theirs}/kernel" for ours, theirs in ATTENTION.items()
        }),
        **repeat("backbone.biases.", "model/transformer/", BIASES),
        # Those of all layers stand in one tensor.
        **{f"{BLOCK}biases.{ours}": f"model/transformer/{theirs}[{{block}}]" for ours, theirs in BIASES.items()},
        f"{BLOCK}mixer.segment": "model/transformer/seg_embed[{block}]",
        "backbone.embedding.token.embeddings": "model/transformer/word_embedding/lookup_table",
        "backbone.embedding.query": "model/transformer/mask_emb/mask_emb",
        "objective.permutation_lm.bias": "model/lm_loss/bias",
    },
    heads={
        SEQUENCE: TENSORFLOW.weights(
            {"dense": "model/sequnece_summary/summary", "head": "model/classification_classify/logit"}
        ),
    },
    heads_apart=True,
    other_axes=OTHER_AXES,
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
    infer_settings=lambda config: {"d_head": config.width_of_head},
    unsaid=("memory_length", "reuse_length", "dropout", "attention_dropout", "initializer_stddev"),
    # Its flag `cls_scope`, or the task.
    renamed={r"model/classification_\w+/logit/": "model/classification_classify/logit/"},
    config_file="xlnet_config.json",
    checkpoint="xlnet_model.ckpt",
    sentence_pieces={"do_lower_case": False, "keep_accents": False, "clean": True, "part_digits": True},
)  # fmt: skip

TABLE = Table(
    config=XLNetConfig,
    objectives=(Head("permutation_lm", lambda config, num_classes: PermutationLM(config), target_logits),),
    reading=XLNET_READING,
    own_axes={"embedding.query": "D", "mixer.segment": "S H K"},
    lacks=lambda config: ("backbone.biases.",) if config.untied_biases else (f"{BLOCK}biases.",),
    hugging_face=HUGGING_FACE,
    tensorflow1=TENSORFLOW1,
)
