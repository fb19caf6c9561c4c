"""Transformer-XL (Dai et al., 2019): a causal language model over streams, with a memory of the previous segments."""

from data_pipelines.ops.runs import frame_run
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.layers.adaptive import cutoffs_of
from xmodels.models.transformer_xl import SIZES, TransformerXL, TransformerXLConfig
from xmodels.objectives.adaptive_lm import AdaptiveLM
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = TransformerXL, False
SMALL = small.ONE_LENGTH
READING, WRITING = None, Writing(objective=AdaptiveLM)

BUDGETS = {  # size -> streams of a batch, steps, those of the warm-up, and the peak of the learning rate
    "base": (60, 200_000, 0, 2.5e-4),
    "large": (128, 4_000_000, 16_000, 2.5e-4),
    "characters_12": (22, 400_000, 0, 2.5e-4),
    "characters_24": (64, 400_000, 4_000, 2.5e-4),
    "one_billion": (512, 1_200_000, 30_000, 1e-4),
}


def configuration(vocabulary: Vocabulary, size: str) -> TransformerXLConfig:
    """Returns the network of a size, with cutoffs for the vocabulary."""
    count = len(vocabulary)
    return TransformerXLConfig(count, cutoffs=cutoffs_of(count), **SIZES[size])


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: TransformerXLConfig | None = None
) -> Recipe:
    """Returns the scripts of the authors. `base` is that for WikiText-103: 60 streams in segments of 150, Adam, peak 2.5e-4
    without warm-up, cosine to 0 over 200,000 steps, norm of gradients at most 0.25. Vocabularies of words have the cutoffs of
    WikiText-103, in proportion; a config file may set others, which suit vocabularies that are not sorted by frequency: none."""
    config = config or configuration(vocabulary, size)
    batch_size, num_steps, num_warmup_steps, learning_rate = BUDGETS.get(size, BUDGETS["base"])
    return Recipe(
        backbone=lambda: TransformerXL(config),
        objective=lambda: AdaptiveLM(config),
        frame=frame_run(records.sequence_length),
        batch_size=batch_size,
        num_steps=num_steps,
        learning_rate=learning_rate,
        num_warmup_steps=num_warmup_steps,
        optimizer="adamw",
        weight_decay=0.0,
        adam_epsilon=1e-8,
        schedule="cosine",
        clip_norm=0.25,
        packings=("stream",),
    )
