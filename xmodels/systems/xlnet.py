"""XLNet (Yang et al., 2019): permutation language modelling with Transformer-XL's memory, reading in both directions.

Make its records with --packing=stream_bidirectional; its vocabulary is a SentencePiece model, but others are read as well.
"""

import dataclasses

from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.permutation import permute
from data_pipelines.text.frames import XLNET_STREAM
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.reading import XLNET_READING
from xmodels.models.xlnet import SIZES, XLNet, XLNetConfig
from xmodels.objectives.permutation_lm import PermutationLM
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = XLNet, False
READING, WRITING = XLNET_READING, None
SMALL = small.ONE_LENGTH


@dataclasses.dataclass(frozen=True)
class Options:
    """`partial_prediction` is K of section 2.3: one of K tokens is predicted, 85 of 512, in spans of n out of K n tokens."""

    partial_prediction: int = 6

    def __post_init__(self):
        if self.partial_prediction < 1:
            raise ValueError("`partial_prediction` must be at least 1.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: XLNetConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of section 3.1 and appendix A.4.1: batch 8,192 at length 512, Adam with epsilon 1e-6 and decay 0.01,
    peak 4e-4 after 40,000 of 500,000 steps, of the base network after 20,000. The number of predictions that the records name
    is not read."""
    options = options or Options()
    config = config or XLNetConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    length = records.sequence_length
    reused = length // 2  # of each row, as `stream_bidirectional` makes it: the next one begins behind it
    config = dataclasses.replace(config, reuse_length=reused)
    corrupt = permute(max(2, length // options.partial_prediction), reused, reused, context=options.partial_prediction)
    large = config.num_layers > SIZES["base"]["num_layers"]
    return Recipe(
        backbone=lambda: XLNet(config),
        objective=lambda: PermutationLM(config, corrupt),
        frame=frame_pair(vocabulary, length, XLNET_STREAM),
        batch_size=8192,
        num_steps=500_000,
        learning_rate=4e-4,
        num_warmup_steps=40_000 if large else 20_000,
        optimizer="adamw",
        schedule="linear",
        packings=("stream_bidirectional",),
    )
