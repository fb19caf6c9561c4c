"""DeBERTa (He et al., 2020): masked LM with disentangled attention over relative positions, and absolute ones where it predicts.

Version 2 of the released networks, over a SentencePiece vocabulary: `xmodels train_vocabulary --tokenizer=sentencepiece`. Its records
are those of BERT, of one or two segments.
"""

import dataclasses

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.spans import mask_ngrams
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.encoder_readings import DEBERTA_READING
from xmodels.layers.initialization import gpt
from xmodels.models.deberta_v2 import SIZES, DebertaV2, DebertaV2Config, EnhancedMaskDecoder
from xmodels.objectives.base import together
from xmodels.objectives.enhanced_masked_lm import EnhancedMaskedLM
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = DebertaV2, False
SMALL = small.MASKED
READING, WRITING = DEBERTA_READING, None


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """What is hidden, and how it is predicted.

    Attributes:
        longest: the most words of an n-gram that is hidden; 3 in the released script of version 2.
        mask_decoder: whether the enhanced mask decoder predicts, with absolute positions, or the states of the last block.
    """

    longest: int = 3
    mask_decoder: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.longest < 1:
            raise ValueError("`longest` must be at least 1.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: DebertaV2Config | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of appendix A.3: batches of 2,048 rows, AdamW with epsilon 1e-6 and decay 0.01, 1,000,000 steps with
    10,000 of warmup, at 2e-4 (the largest network: 1.5e-4)."""
    options = options or Options()
    config = config or DebertaV2Config(vocabulary_size=len(vocabulary), **SIZES[size])
    corrupt = mask_ngrams(vocabulary, options.rate(records), records.num_predictions, options.longest)
    masked, initialization = None if records.static else corrupt, gpt(config.initializer_stddev)
    decodes = options.mask_decoder and not config.position_biased_input

    def objective():
        if decodes:
            decoder = EnhancedMaskDecoder(config, name="mask_decoder")
            return EnhancedMaskedLM(config, decoder, masked, initialization)
        return together(MaskedLM(config, masked, initialization))

    return Recipe(
        backbone=lambda: DebertaV2(config),
        objective=objective,
        frame=rename_classic() if records.static else frame_pair(vocabulary, records.sequence_length),
        batch_size=2048,
        num_steps=1_000_000,
        learning_rate=1.5e-4 if config.num_layers > SIZES["large"]["num_layers"] else 2e-4,
        num_warmup_steps=10_000,
        optimizer="adamw",
        schedule="linear",
        adam_epsilon=1e-6,
    )
