"""SENNA's language model (Collobert et al., 2011): a window of text scores higher than the same with another word in its middle."""

import dataclasses

import numpy as np

from data_pipelines.errors import UsageError
from data_pipelines.ops.compose import compose
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.slots import other_words, rare_as_unknown
from data_pipelines.text.vocabulary import UNKNOWN, Vocabulary
from xmodels.interfaces.encoder_readings import STATES_READING
from xmodels.models.senna import SIZES, Senna, SennaConfig
from xmodels.objectives.word_ranking import WordRanking
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Senna, False
# Marks of beginning and end stand where the paper has its word for padding.
READING = STATES_READING
WRITING = None


@dataclasses.dataclass(frozen=True)
class Options:
    """`dictionary` is how many tokens of the vocabulary, the first ones, the network knows; 0 for all. Others count as unknown. The
    paper begins with 5,000 and goes on with 10,000, 30,000, 50,000 and 100,000."""

    dictionary: int = 0

    def __post_init__(self):
        if self.dictionary < 0:
            raise ValueError(f"`dictionary` must be 0 or more. Received: dictionary={self.dictionary}.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: SennaConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe: the network and the loss are those of section 4.2; the paper gives no rate, so Adam's numbers are ours."""
    options = options or Options()
    config = config or SennaConfig(len(vocabulary), **SIZES[size])
    length = records.sequence_length
    known = min(options.dictionary or len(vocabulary), len(vocabulary))
    unknown = vocabulary.roles.get(UNKNOWN)
    if unknown is None and known < len(vocabulary):
        raise UsageError(f"--set=dictionary={known}: {vocabulary.source} has no unknown word to stand for the others.")
    drawn = np.arange(len(vocabulary)) < known
    drawn[sorted(set(vocabulary.special_ids) - {unknown})] = False
    return Recipe(
        backbone=lambda: Senna(config),
        objective=lambda: WordRanking(config),
        frame=compose(
            frame_pair(vocabulary, length, READING.frame),
            rare_as_unknown(known, unknown),
            other_words(drawn / drawn.sum()),
        ),
        batch_size=32,
        num_steps=300_000,
        learning_rate=1e-3,
        num_warmup_steps=0,
        optimizer="adam",
        schedule="linear",
        packings=("sentences",),
    )
