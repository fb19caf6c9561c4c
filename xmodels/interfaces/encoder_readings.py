"""How ELECTRA, DistilBERT and ModernBERT read texts: what their systems and the folders of others have in common."""

from data_pipelines.text.frames import MODERNBERT
from xmodels.interfaces.reading import BERT_NUMBERS, Reading, dense_with, first_token
from xmodels.models.modernbert import PredictionHead

# A Dense layer with GELU on the state of `[CLS]`, as Hugging Face has it, and the rate of Clark et al., 2020, table 7.
ELECTRA_READING = Reading(
    summary=first_token, has_dense=True, make_dense=dense_with("gelu"), numbers=BERT_NUMBERS | {"learning_rate": 1e-4}
)

# A Dense layer with ReLU on the state of `[CLS]`, and dropout of 0.2 behind it, as in the released classifiers.
DISTILBERT_READING = Reading(
    summary=first_token, has_dense=True, make_dense=dense_with("relu"), drops_state=False, head_dropout=0.2
)

# A Dense layer, GELU and a norm on the state of `[CLS]`. Warner et al., 2024, appendix D, search rates around 5e-5 and weight decays
# around 1e-5.
MODERNBERT_READING = Reading(
    frame=MODERNBERT, summary=first_token, has_dense=True, make_dense=PredictionHead, drops_state=False, head_dropout=0.0,
    numbers={
        "learning_rate": 5e-5, "warmup_proportion": 0.1, "optimizer": "adamw", "lr_schedule": "linear", "weight_decay": 1e-5,
        "adam_beta2": 0.98,
    },
)  # fmt: skip
