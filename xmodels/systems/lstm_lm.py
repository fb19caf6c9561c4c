"""LSTM language model (Zaremba et al., 2014): stacked LSTMs over streams, whose states are carried from batch to batch."""

from data_pipelines.ops.runs import frame_run
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.lstm_lm import SIZES, LstmLM, LstmLMConfig
from xmodels.objectives.untied_lm import UntiedLM
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = LstmLM, False
READING, WRITING = None, Writing(objective=UntiedLM)


def recipe(vocabulary: Vocabulary, records: Records, size: str = "base", config: LstmLMConfig | None = None) -> Recipe:
    """Returns the recipe of section 4.1: 20 streams, gradient descent at rate 1, norm of gradients at most 5, of `large` 10.
    The paper sums the loss over the L steps of a segment (20 or 35) where we take the mean, so the rate is L and the norm is
    divided by L, which is the same. It halves the rate (or divides it by 1.2) after every epoch from the fifth (seventh) on;
    here it falls in a line."""
    config = config or LstmLMConfig(len(vocabulary), **SIZES[size])
    length = records.sequence_length
    return Recipe(
        backbone=lambda: LstmLM(config),
        objective=lambda: UntiedLM(config),
        frame=frame_run(length),
        batch_size=20,
        num_steps=50_000,
        learning_rate=1.0 * length,
        num_warmup_steps=0,
        optimizer="sgd",
        schedule="linear",
        clip_norm=(10.0 if size == "large" else 5.0) / length,
        packings=("stream",),
    )
