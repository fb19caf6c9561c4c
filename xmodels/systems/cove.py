"""CoVe (McCann et al., 2017): word vectors in context, from the encoder of a translator, and a biattentive network on top."""

import dataclasses

from data_pipelines.errors import UsageError
from data_pipelines.ops.parallel import frame_parallel
from data_pipelines.text.frames import Frame
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.reading import Reading, as_published, mean_of_states
from xmodels.layers.biattentive import NORMS, BiattentiveNetwork
from xmodels.layers.initialization import fan_in_uniform
from xmodels.models.cove import SIZES, Cove, CoveConfig
from xmodels.objectives.translation import Translation
from xmodels.training.finetuning import FineTuning
from xmodels.training.optimizers.groups import Group
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Cove, False
# Section 5. The encoder read no special tokens, so there are none around texts.
READING = Reading(
    frame=Frame.of("A (B:1)"),
    summary=mean_of_states,
    make_network=lambda config: BiattentiveNetwork(config.encoder_dim // 2, norm=config.maxout_norm),
    make_initializer=lambda stddev: fan_in_uniform(),
    head_dropout=0.2,
    default_pooling=as_published,
    numbers={
        "learning_rate": 1e-3,
        "warmup_proportion": 0.0,
        "optimizer": "adam",
        "lr_schedule": "constant",
        "clip_norm": 5.0,
    },
)
WRITING = None


@dataclasses.dataclass(frozen=True)
class FineTuningOptions:
    """Numbers of the fine-tuning, of which `finetune --set` gives others.

    Attributes:
        freeze: keeps word vectors and encoder as they are, and without dropout, as in the paper.
        maxout_norm: see `CoveConfig`.
    """

    freeze: bool = True
    maxout_norm: str = "batch"


def recipe(vocabulary: Vocabulary, records: Records, size: str = "base", config: CoveConfig | None = None) -> Recipe:
    """Returns the recipe of section 3 and the released code: gradient descent at a rate of 1, 64 pairs a step, norm of gradients at
    most 5. The code halves the rate after each epoch, once one has not bettered the perplexity of its validation set; here it falls
    in a line. The number of steps is ours. The paper has a vocabulary for each language, and for the source vectors of GloVe, which
    do not learn (`--init_vectors`, `--freeze_vectors`)."""
    config = config or CoveConfig(len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: Cove(config),
        objective=lambda: Translation(config),
        frame=frame_parallel(vocabulary, records.sequence_length, ends_source=False),
        batch_size=64,
        num_steps=100_000,
        learning_rate=1.0,
        num_warmup_steps=0,
        optimizer="sgd",
        schedule="linear",
        clip_norm=5.0,
        packings=("parallel",),
    )


def finetuning(task: str, network: CoveConfig, options, own: FineTuningOptions | None = None) -> FineTuning:
    """Returns the new layers learn, while word vectors and encoder stay as they are.

    Raises:
        UsageError: there is no such `maxout_norm`.
    """
    own = own or FineTuningOptions()
    if own.maxout_norm not in NORMS:
        raise UsageError(f"--set=maxout_norm={own.maxout_norm}: must be one of: {', '.join(NORMS)}.")
    changed = {"maxout_norm": own.maxout_norm}
    if not own.freeze or options.freeze_backbone:
        return FineTuning(network=changed)
    return FineTuning((Group("encoder", r"^backbone\.", begins=None),), network=changed | {"dropout": 0.0})
