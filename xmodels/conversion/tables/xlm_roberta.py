"""XLM-R by the names of Hugging Face's `XLMRobertaForMaskedLM`, which are RoBERTa's."""

import dataclasses

from xmodels.conversion.format_types import TASK_CLASSES
from xmodels.conversion.tables import roberta
from xmodels.models.xlm_roberta import XlmRobertaConfig

HUGGING_FACE = dataclasses.replace(
    roberta.HUGGING_FACE,
    fixed=roberta.HUGGING_FACE.fixed | {"model_type": "xlm-roberta"},
    family="XLMRoberta",
    architectures=(
        ("XLMRobertaForMaskedLM", frozenset({"masked_lm"})),
        TASK_CLASSES,
        ("XLMRobertaModel", frozenset()),
    ),
    sentence_piece_class="XLMRobertaTokenizer",
)

TABLE = dataclasses.replace(roberta.TABLE, config=XlmRobertaConfig, hugging_face=HUGGING_FACE, keras_hub=None)
