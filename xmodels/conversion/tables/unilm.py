"""UniLM by the names of Hugging Face's `BertForPreTraining`, which are those of its own release: a BERT with six segments.

Axes as in `tables/bert.py`.
"""

import dataclasses

from xmodels.conversion.tables import bert
from xmodels.models.unilm import UnilmConfig

NUM_SEGMENTS = UnilmConfig.num_segments

TABLE = dataclasses.replace(
    bert.TABLE,
    config=UnilmConfig,
    hugging_face=dataclasses.replace(
        bert.HUGGING_FACE,
        claims=lambda stored: (
            stored.get("model_type") in (None, "bert") and stored.get("type_vocab_size") == NUM_SEGMENTS
        ),
        implied=lambda stored: {} if "layer_norm_eps" in stored else {"layer_norm_epsilon": 1e-5},
    ),
    tensorflow1=None,
    keras_hub=None,
)
