"""RNNsearch (Bahdanau et al., 2015): translation by GRUs with additive attention."""

from data_pipelines.ops.parallel import frame_parallel
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.rnn_search import SIZES, RnnSearch, RnnSearchConfig
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = RnnSearch, False
READING = None
WRITING = Writing(objective=lambda config: Seq2Seq(0.0), task="translate", num_beams=12, length_penalty=0.0)


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: RnnSearchConfig | None = None
) -> Recipe:
    """Returns the recipe of appendix B: Adadelta (rho 0.95, epsilon 1e-6), 80 pairs, norm of gradients at most 1, 288,000
    updates (RNNsearch-50). The paper sorts every 20 batches by length and has a vocabulary of 30,000 words for each language;
    here there is one for both."""
    config = config or RnnSearchConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: RnnSearch(config),
        objective=lambda: Seq2Seq(0.0),
        frame=frame_parallel(vocabulary, records.sequence_length),
        batch_size=80,
        num_steps=288_000,
        learning_rate=1.0,
        num_warmup_steps=0,
        optimizer="adadelta",
        schedule="constant",
        packings=("parallel",),
    )
