"""context2vec (Melamud et al., 2016): the vector of a place in a sentence, by LSTMs from both sides, near those of fitting words."""

import dataclasses

from data_pipelines.ops.compose import compose
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.slots import word_slots
from data_pipelines.ops.windows import noise_distribution
from data_pipelines.text.vocabulary import UNKNOWN, Vocabulary
from xmodels.interfaces.encoder_readings import STATES_READING
from xmodels.models.context2vec import SIZES, Context2Vec, Context2VecConfig
from xmodels.objectives.words_in_context import WordsInContext
from xmodels.systems.skip_gram import word_counts
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Context2Vec, False
# The paper fine-tunes nothing; tasks read what comes out as they read ELMo's states.
READING = STATES_READING
WRITING = None


@dataclasses.dataclass(frozen=True)
class Options:
    """`negatives` count for each word; they are `shared_negatives` words, drawn for each sentence, of which each counts as a share.
    `exponent` flattens the counts of which they are drawn."""

    negatives: int = 10
    shared_negatives: int = 32
    exponent: float = 0.75

    def __post_init__(self):
        if self.negatives < 1 or self.shared_negatives < 1:
            raise ValueError(
                "`negatives` and `shared_negatives` must be 1 or more. Received: "
                f"negatives={self.negatives}, shared_negatives={self.shared_negatives}."
            )


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: Context2VecConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of the released code: Adam at 1e-3, 100 sentences a step. Gradients are those of a mean over words, where the
    code has a sum, and their norm is at most 5. What the vocabulary lacks is predicted, and drawn, as one word. The number of steps is
    ours; the paper reads ukWaC three times."""
    options = options or Options()
    config = config or Context2VecConfig(len(vocabulary), **SIZES[size])
    length = records.sequence_length
    noise = noise_distribution(word_counts(vocabulary, records, (UNKNOWN,)), options.exponent)
    return Recipe(
        backbone=lambda: Context2Vec(config),
        objective=lambda: WordsInContext(options.negatives),
        frame=compose(frame_pair(vocabulary, length, READING.frame), word_slots(noise, options.shared_negatives)),
        batch_size=100,
        num_steps=300_000,
        learning_rate=1e-3,
        num_warmup_steps=0,
        optimizer="adam",
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        schedule="constant",
        clip_norm=5.0,
        packings=("sentences",),
    )
