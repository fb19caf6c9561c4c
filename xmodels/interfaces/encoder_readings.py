"""How encoders read texts where several systems, or a system and the folders of others, have it in common."""

from data_pipelines.text.frames import MODERNBERT, Frame
from data_pipelines.text.vocabulary import CLS, SEP
from xmodels.interfaces.reading import (
    BERT_NUMBERS,
    Reading,
    as_published,
    dense_with,
    first_token,
    mean_of_states,
    normal,
)
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

# A Dense layer with GELU on the state of `[CLS]`, without dropout before it, as in the released classifiers. He et al., 2020, appendix
# A.4, search rates between 1.5e-5 and 4e-5 for base networks.
DEBERTA_READING = Reading(
    summary=first_token, has_dense=True, make_dense=dense_with("gelu"), drops_state=False, make_initializer=normal,
    numbers={
        "learning_rate": 2e-5, "warmup_proportion": 0.1, "optimizer": "adamw", "lr_schedule": "linear", "adam_epsilon": 1e-6,
    },
)  # fmt: skip

# Tasks read the states of words, of whose networks the papers fine-tune none: context2vec, SENNA, and with more ELMo. Each text stands
# between its own marks.
STATES_READING = Reading(
    frame=Frame.of(f"{CLS} A {SEP} ({CLS} B {SEP})"),
    summary=mean_of_states,
    make_initializer=normal,
    default_pooling=as_published,
    numbers={"learning_rate": 1e-3, "warmup_proportion": 0.0, "optimizer": "adam", "lr_schedule": "linear"},
)
