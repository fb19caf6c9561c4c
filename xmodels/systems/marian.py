"""Marian (Junczys-Dowmunt et al., 2018): the Transformer of the published translation models of OPUS-MT.

Those can be fine-tuned here, and this system's own networks share their format.
"""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.marian import SIZES, Marian, MarianConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.systems import transformer
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Marian, False
READING, Options = None, transformer.Options
WRITING = Writing(
    objective=lambda config: Seq2Seq(),
    task="translate",
    ranked=True,
    forces_end=True,
    length_penalty=1.0,
    # Hugging Face's course, on translation.
    numbers={
        "learning_rate": 2e-5,
        "warmup_proportion": 0.0,
        "optimizer": "adamw",
        "lr_schedule": "linear",
        "weight_decay": 0.01,
        "adam_epsilon": 1e-8,
    },
)


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: MarianConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the numbers of Marian's example of a Transformer: 3e-4 after 16,000 steps, which then falls with the root of the
    step, Adam with .9, .98 and 1e-9, gradients clipped at 5. Batches and steps are those of the Transformer."""
    options = options or Options()
    config = config or MarianConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    like = transformer.recipe(vocabulary, records, size, None, options)
    return dataclasses.replace(
        like,
        backbone=lambda: Marian(config),
        learning_rate=3e-4,
        num_warmup_steps=16_000,
        schedule="inverse_sqrt",
        clip_norm=5.0,
    )
