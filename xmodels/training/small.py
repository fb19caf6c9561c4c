"""The numbers with which networks below `base` learn from megabytes of text, in minutes.

Those of the papers are for billions of tokens and hundreds of millions of weights: at them a network of a few million weights sits for
hours where it names the commonest tokens. `benchmarks/small_networks.py` compares both; docs/small_networks.md has its tables.
"""

import dataclasses
from typing import Any

from keras import ops

from xmodels.layers.positions import interleaved_sinusoid
from xmodels.models.backbone import Backbone, named_weights
from xmodels.models.config import TokenConfig
from xmodels.training.recipe import Recipe

WIDTH = 128  # of `tiny`, which was measured
FEWEST_ROWS = 8  # of a batch: what several devices share
ADAMW_RATE = 2e-3  # at that width, of who asks for AdamW
POSITIONS = "embedding.position.embeddings"  # the table of networks that learn one row for each position


@dataclasses.dataclass(frozen=True)
class Small:
    """How a system trains networks that are narrower than `base`.

    Attributes:
        network: fields of the configuration that differ from those of the paper.
        gain: weights are drawn with a standard deviation of `gain` / sqrt(hidden_dim), where the configuration has one.
        rate: the peak of the learning rate at a width of `WIDTH`. Wider networks have one that is as much smaller as they are wider
            (Yang et al., 2022, arXiv 2203.03466, table 3).
        position_gain: how large a position is in the sum with a token, relative to it, at the beginning; None draws positions
            as tokens are drawn.
        training: fields of the recipe.
        tokens: of a batch, which has `FEWEST_ROWS` rows at least.
        shorter: the length and the share of the steps of rows that come first, where records are at least four times as long.
        masking_rate: the share of tokens to hide in training (Wettig et al., 2022, arXiv 2202.08005); None for that of the records.
    """

    network: dict[str, Any]
    gain: float
    rate: float
    training: dict[str, Any]
    position_gain: float | None = 1.0
    tokens: int = 2048
    shorter: tuple[int, float] | None = None
    masking_rate: float | None = None

    def shrink_config(self, config: TokenConfig) -> TokenConfig:
        """Returns the configuration with the numbers of small networks."""
        own = {field.name for field in dataclasses.fields(config)}
        changes = {name: value for name, value in self.network.items() if name in own}
        if "initializer_stddev" in own:
            changes["initializer_stddev"] = round(self.gain / config.hidden_dim**0.5, 4)
        return dataclasses.replace(config, **changes)

    def build_backbone(self, backbone: Backbone) -> Backbone:
        """Returns the network with weights, whose learned table of positions begins with the sinusoids of Vaswani et al. (2017,
        section 3.5).

        Their inner products tell distances, so that "the token before" is one thing to learn; of drawn rows it is as many as there are
        positions. A network without such a table stays as it is.
        """
        table = named_weights(backbone.initialize()).get(POSITIONS)
        if table is None or self.position_gain is None:
            return backbone
        rows, width = table.shape
        config: Any = backbone.config  # of a network with learned positions
        scale = self.position_gain * config.initializer_stddev * 2**0.5  # of a sine to its root mean square
        signal = interleaved_sinusoid(ops.arange(rows), width - width % 2)
        table.assign(ops.pad(scale * signal, [[0, 0], [0, width % 2]]))
        return backbone

    def recipe(self, recipe: Recipe, sequence_length: int, hidden_dim: int, optimizer: str | None = None) -> Recipe:
        """Returns the recipe with the numbers of small networks, of a network of that width on records of that length.

        Args:
            optimizer: the one that is asked for in place of that of small networks.
        """
        rate = ADAMW_RATE if optimizer == "adamw" else self.rate

        def backbone():
            return self.build_backbone(recipe.backbone())

        return dataclasses.replace(
            recipe, backbone=backbone, batch_size=max(FEWEST_ROWS, self.tokens // sequence_length),
            learning_rate=rate * min(1.0, WIDTH / hidden_dim), length_schedule=self.length_schedule(sequence_length),
            origin="small", **self.training,
        )  # fmt: skip

    def length_schedule(self, sequence_length: int) -> str | None:
        """Returns the value of --length_schedule; None where the records are short already."""
        if self.shorter is None or sequence_length < 4 * self.shorter[0]:
            return None
        length, share = self.shorter
        return f"{length}:{share:g},{sequence_length}:{1 - share:g}"


def is_small(system: Any, size: str) -> bool:
    """Returns whether a size of a system is one of ours: narrower than its `base`, and not of its paper all the same."""
    if size in vars(system).get("PUBLISHED_BELOW_BASE", ()):
        return False
    return system.SIZES[size]["hidden_dim"] < system.SIZES["base"]["hidden_dim"]


# Muon moves all directions of a matrix alike, and learns what stands side by side in half to four fifths of AdamW's steps. Both
# correct the bias of their moments: without it (bert_adamw) the first steps are several times as long as the rate says, and the
# network is lost.
MASKED = Small(
    network={"dropout": 0.0, "attention_dropout": 0.0},
    gain=0.68,
    rate=4e-3,
    training={
        "num_steps": 20_000, "num_warmup_steps": 1_200, "optimizer": "muon", "schedule": "linear",
        **dict.fromkeys(("weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "momentum")),
    },
    shorter=(32, 0.5),
    masking_rate=0.4,
)  # fmt: skip
# Positions are drawn, or told by the attention; and streams are not cut. What writes a text has been measured so too. In GPT,
# positions that begin as sinusoids make no difference.
ONE_LENGTH = dataclasses.replace(MASKED, position_gain=None, shorter=None, masking_rate=None)
# A rate that knows no end, since a task may join a finished run of ERNIE 2.0, whose paragraphs are not cut.
CONTINUAL = dataclasses.replace(
    MASKED, training={**MASKED.training, "schedule": "noam"}, shorter=None, masking_rate=None
)
