"""Reformer (Kitaev et al., 2020): a causal language model for long texts, with reversible blocks and hashed attention.

The memory of training does not grow with the number of layers, and time grows with L log L.
"""

from data_pipelines.ops.runs import frame_run
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.reformer import SIZES, Reformer, ReformerConfig
from xmodels.objectives.chunked_lm import ChunkedLM
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Reformer, False
SMALL = small.ONE_LENGTH
READING, WRITING = None, Writing(objective=ChunkedLM)


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: ReformerConfig | None = None
) -> Recipe:
    """Returns the authors' configuration for enwik8: one text for each of 8 devices, Adam with beta2 0.98 and epsilon 1e-9, a peak of
    0.03125 / sqrt(2,000) after 2,000 steps, then falling with the root of the steps; 100,000 steps."""
    config = config or ReformerConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: Reformer(config),
        objective=lambda: ChunkedLM(config),
        frame=frame_run(records.sequence_length),
        batch_size=8,
        num_steps=100_000,
        learning_rate=7e-4,
        num_warmup_steps=2_000,
        optimizer="adam",
        adam_beta2=0.98,
        adam_epsilon=1e-9,
        schedule="noam",
        packings=("stream",),
    )
