"""NNLM (Bengio et al., 2003), the first neural language model: each word from the four before it, by one hidden layer."""

from data_pipelines.ops.runs import frame_run
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.nnlm import SIZES, Nnlm, NnlmConfig
from xmodels.objectives.untied_lm import UntiedLM
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Nnlm, False
READING, WRITING = None, Writing(objective=UntiedLM)


def recipe(vocabulary: Vocabulary, records: Records, size: str = "base", config: NnlmConfig | None = None) -> Recipe:
    """Returns the recipe of section 4.2: gradient descent with weight decay of 1e-4.

    The paper takes a step of 1e-3 for each word and makes it smaller by 1 / (1 + 1e-8 t). A step is one of the mean of a batch
    here, so the rate is that of all its words, which is the same to first order; it falls in a line.
    """
    config = config or NnlmConfig(len(vocabulary), **SIZES[size])
    length, batch_size = records.sequence_length, 20
    return Recipe(
        backbone=lambda: Nnlm(config),
        objective=lambda: UntiedLM(config),
        frame=frame_run(length),
        batch_size=batch_size,
        num_steps=50_000,
        learning_rate=1e-3 * batch_size * length,
        num_warmup_steps=0,
        optimizer="sgd",
        weight_decay=1e-4,
        schedule="linear",
        packings=("stream",),
    )
