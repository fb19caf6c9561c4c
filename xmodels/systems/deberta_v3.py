"""DeBERTaV3 (He et al., 2021): tells which tokens a masked language model has replaced, with DeBERTa's network.

The generator is as wide and half as deep. The network reads the embeddings of the generator, which learn from its loss only, plus
differences of its own. The vocabulary is SentencePiece's, and records are those of BERT, of one or two segments.
"""

import dataclasses

from data_pipelines.errors import UsageError
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.sampled_masks import mask_for_samples
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.encoder_readings import DEBERTA_READING
from xmodels.models.deberta_v2 import SIZES_3 as SIZES
from xmodels.models.deberta_v2 import DebertaV2, DebertaV2Config, Generator
from xmodels.objectives.replaced_tokens_in_context import ReplacedTokensInContext
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = DebertaV2, False
SMALL = dataclasses.replace(small.MASKED, masking_rate=None)  # where much is masked, samples are easily told
PUBLISHED_BELOW_BASE = ("xsmall",)
READING, WRITING = DEBERTA_READING, None


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """Numbers of the generator and of the losses.

    Attributes:
        generator_layers: blocks of the generator; None for half of those of the network.
        discriminator_weight: of the loss of the network, beside 1 of the generator.
    """

    generator_layers: int | None = None
    discriminator_weight: float = 50.0

    def __post_init__(self):
        super().__post_init__()
        if self.generator_layers is not None and self.generator_layers < 1:
            raise ValueError("`generator_layers` must be at least 1.")
        if self.discriminator_weight <= 0:
            raise ValueError("`discriminator_weight` must be above 0.")


def generator_of(config: DebertaV2Config, num_layers: int | None = None) -> DebertaV2Config:
    """Returns the configuration of the generator of a network."""
    return dataclasses.replace(config, num_layers=num_layers or max(1, config.num_layers // 2))


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: DebertaV2Config | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of the released script: 1,000,000 steps of 256 rows at 1e-4 with 10,000 of warmup; networks that are narrower
    than base 64 rows at 3e-4. All chosen tokens are masked, and none is replaced or kept.

    Raises:
        UsageError: the records are static.
    """
    if records.static:
        raise UsageError(
            "--system=deberta_v3: hides tokens while it trains. Make the records without --masking=static."
        )
    options = options or Options()
    config = config or DebertaV2Config(vocabulary_size=len(vocabulary), **SIZES[size])
    generator = generator_of(config, options.generator_layers)
    corrupt = mask_for_samples(vocabulary, options.rate(records), records.num_predictions, masked=1.0)
    wide = config.hidden_dim >= SIZES["base"]["hidden_dim"]
    return Recipe(
        backbone=lambda: DebertaV2(config),
        objective=lambda: ReplacedTokensInContext(
            config, Generator(generator, name="generator"), corrupt, options.discriminator_weight
        ),
        frame=frame_pair(vocabulary, records.sequence_length),
        batch_size=256 if wide else 64,
        num_steps=1_000_000,
        learning_rate=1e-4 if wide else 3e-4,
        num_warmup_steps=10_000,
        optimizer="adamw",
        schedule="linear",
        adam_epsilon=1e-6,
    )
