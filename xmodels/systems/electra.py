"""ELECTRA (Clark et al., 2020): tells for each token whether a small masked language model has replaced it.

The network learns from all tokens in place of the masked ones. Its records and vocabulary are BERT's, of one or two segments; what
follows what is not predicted.
"""

import dataclasses

from data_pipelines.errors import UsageError
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.sampled_masks import mask_for_samples
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.encoder_readings import ELECTRA_READING
from xmodels.models.electra import SIZES, Electra, ElectraConfig, Generator
from xmodels.objectives.replaced_tokens import ReplacedTokens
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Electra, False
SMALL = dataclasses.replace(small.MASKED, masking_rate=None)  # where much is masked, samples are easily told
READING, WRITING = ELECTRA_READING, None
HEAD_DIM = 64  # of the generator's attention, as in the released code


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """Numbers of the generator and of the losses.

    Attributes:
        generator_size: the width of the generator relative to that of the network; None for that of table 6.
        discriminator_weight: of the loss of the network, beside 1 of the generator.
    """

    generator_size: float | None = None
    discriminator_weight: float = 50.0

    def __post_init__(self):
        super().__post_init__()
        if self.generator_size is not None and not 0 < self.generator_size <= 1:
            raise ValueError("`generator_size` must lie between 0 and 1.")
        if self.discriminator_weight <= 0:
            raise ValueError("`discriminator_weight` must be above 0.")


def generator_of(config: ElectraConfig, share: float | None = None) -> ElectraConfig:
    """Returns the configuration of the generator of a network: as deep, and narrower by `share`; a third at a width of 768, else a
    quarter (table 6)."""
    share = share or (1 / 3 if config.hidden_dim == 768 else 1 / 4)
    width = max(1, round(config.hidden_dim * share))
    heads = max(1, width // HEAD_DIM)
    width -= width % heads
    return dataclasses.replace(config, hidden_dim=width, num_heads=heads, intermediate_dim=4 * width)


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: ElectraConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of table 6: 766,000 steps of 256 texts at 2e-4, of the large network 400,000 of 2,048 with a quarter of
    the tokens masked, of the small one 1,000,000 of 128 at 5e-4; weight decay 0.01, 10,000 steps of warmup.

    Raises:
        UsageError: the records are static.
    """
    if records.static:
        raise UsageError("--system=electra: hides tokens while it trains. Make the records without --masking=static.")
    options = options or Options()
    config = config or ElectraConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    large, base = config.num_layers > SIZES["base"]["num_layers"], config.hidden_dim >= SIZES["base"]["hidden_dim"]
    generator = generator_of(config, options.generator_size)
    corrupt = mask_for_samples(vocabulary, options.rate(records), records.num_predictions)
    return Recipe(
        backbone=lambda: Electra(config),
        objective=lambda: ReplacedTokens(
            config, Generator(generator, name="generator"), corrupt, options.discriminator_weight
        ),
        frame=frame_pair(vocabulary, records.sequence_length),
        batch_size=2048 if large else 256 if base else 128,
        num_steps=400_000 if large else 766_000 if base else 1_000_000,
        learning_rate=2e-4 if base else 5e-4,
        num_warmup_steps=10_000,
        optimizer="bert_adamw",
    )
