"""UniLM by the names of Hugging Face's `BertForPreTraining`, which are those of its own release: a BERT with six segments."""

import dataclasses

from xmodels.conversion.tables import bert
from xmodels.models.unilm import UnilmConfig

NUM_SEGMENTS = UnilmConfig.num_segments
BERTS_EPSILON = 1e-12


def warnings(stored) -> tuple[str, ...]:
    """Returns a doubt about the epsilon: released checkpoints come without a config.json, and that of BERT has another one."""
    if stored.get("layer_norm_eps") != BERTS_EPSILON:
        return ()
    return (
        f"`layer_norm_eps` is {BERTS_EPSILON}, as BERT has it; the released UniLM has {UnilmConfig.layer_norm_epsilon}. Set that, or "
        "leave the key out, if the weights are the released ones.",
    )


TABLE = dataclasses.replace(
    bert.TABLE,
    config=UnilmConfig,
    hugging_face=dataclasses.replace(
        bert.HUGGING_FACE,
        claims=lambda stored: (
            stored.get("model_type") in (None, "bert") and stored.get("type_vocab_size") == NUM_SEGMENTS
        ),
        infer_fields=lambda stored: {} if "layer_norm_eps" in stored else {"layer_norm_epsilon": 1e-5},
        warnings=warnings,
    ),
    tensorflow1=None,
    keras_hub=None,
)
