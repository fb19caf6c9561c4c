"""TensorCoder (Zhang et al., 2020): masked LM with attention between the dimensions of heads, in linear time.

The paper has no code, and only its abstract was at hand. Its shape is that of the Transformer's base. Records, vocabulary, masks and
fine-tuning are RoBERTa's.
"""

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models import bert
from xmodels.models.roberta import Roberta, RobertaConfig
from xmodels.systems import roberta
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Roberta, False
SMALL, Options = roberta.SMALL, roberta.Options
READING, WRITING = roberta.READING, None

# base: the shape of Vaswani et al., 2017. The others: those of the small BERTs, for trials.
SIZES = {name: bert.SIZES[name] for name in ("tiny", "mini")}
SIZES["base"] = {"num_layers": 6, "hidden_dim": 512, "num_heads": 8, "intermediate_dim": 2048}


def configuration(vocabulary: Vocabulary, size: str) -> RobertaConfig:
    """Returns a RoBERTa of a size above with this mixer."""
    return RobertaConfig(vocabulary_size=len(vocabulary), mixer="tensorcoder", **SIZES[size])


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: RobertaConfig | None = None,
    options: Options | None = None,
) -> Recipe:  # fmt: skip
    """Returns RoBERTa's recipe for this network."""
    return roberta.recipe(vocabulary, records, size, config or configuration(vocabulary, size), options)
