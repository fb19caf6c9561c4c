"""ELMo (Peters et al., 2018): two LSTM language models over words that are made of their characters, one for each direction."""

import dataclasses

from data_pipelines.ops.sentence_streams import frame_streams
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.encoder_readings import STATES_READING
from xmodels.models.elmo import SIZES, Elmo, ElmoConfig
from xmodels.objectives.bidirectional_lm import NUM_SAMPLED, BidirectionalLM
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Elmo, False
# Section 3.3: a task learns how it mixes the layers, of which dropout leaves out half. The marks of sentences stand around each text.
READING = dataclasses.replace(STATES_READING, head_dropout=0.5, mixes=True)
WRITING = None


@dataclasses.dataclass(frozen=True)
class Options:
    """`num_sampled` words of the vocabulary stand for all others in a step of the training."""

    num_sampled: int = NUM_SAMPLED

    def __post_init__(self):
        if self.num_sampled < 1:
            raise ValueError(f"`num_sampled` must be 1 or more. Received: {self.num_sampled}.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: ElmoConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of section 3.4 and bilm-tf: AdaGrad at a rate of 0.2, 3 devices with 128 streams of 20 words, ten
    epochs of a billion words, norm of the gradients at most 10."""
    options = options or Options()
    config = config or ElmoConfig(len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: Elmo(config),
        objective=lambda: BidirectionalLM(config, options.num_sampled),
        frame=frame_streams(records.sequence_length),
        batch_size=384,
        num_steps=1_000_000,
        learning_rate=0.2,
        num_warmup_steps=0,
        optimizer="adagrad",
        schedule="constant",
        clip_norm=10.0,
        packings=("sentence_streams",),
    )
