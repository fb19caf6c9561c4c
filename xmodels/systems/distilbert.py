"""DistilBERT (Sanh et al., 2019): BERT with half of the layers, without segments and without next sentences.

Its published weights are distilled from BERT's. Here it learns masked LM on its own, or goes on from those weights. Its records and
vocabulary are BERT's.
"""

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.corruption import mask_tokens
from data_pipelines.ops.framing import frame_pair
from data_pipelines.text.vocabulary import MASK, Vocabulary
from xmodels.interfaces.encoder_readings import DISTILBERT_READING
from xmodels.models.distilbert import SIZES, DistilBert, DistilBertConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = DistilBert, False
SMALL, Options = small.MASKED, bert.MaskingOptions
READING, WRITING = DISTILBERT_READING, None


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: DistilBertConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the numbers of section 3 and of the released script: batches of 4,000 texts, Adam at 5e-4 with epsilon 1e-6 and
    without weight decay, a twentieth of the steps for warmup. Three passes over Wikipedia and the book corpus are about 10,000
    steps."""
    options = options or Options()
    config = config or DistilBertConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    corrupt = mask_tokens(vocabulary[MASK], len(vocabulary), options.rate(records), records.num_predictions)
    masked = None if records.static else corrupt
    return Recipe(
        backbone=lambda: DistilBert(config),
        objective=lambda: together(MaskedLM(config, masked)),
        frame=rename_classic() if records.static else frame_pair(vocabulary, records.sequence_length),
        batch_size=4_000,
        num_steps=10_000,
        learning_rate=5e-4,
        num_warmup_steps=500,
        optimizer="adamw",
        schedule="linear",
        adam_epsilon=1e-6,
        weight_decay=0.0,
    )
