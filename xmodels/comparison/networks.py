"""What a plan must know of a system before it runs: the records that it reads, and about what a step costs."""

import dataclasses
import functools

from data_pipelines.options import settings
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from xmodels import systems
from xmodels.comparison.plan import Plan, System
from xmodels.conversion import word_vectors
from xmodels.models.folder import model_class
from xmodels.tasks.base import new
from xmodels.training.recipe import Records
from xmodels.training.small import is_small

ROLES = ("<eop>", "<eod>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<unk>", "<mask>")


@dataclasses.dataclass(frozen=True)
class Estimate:
    """About what a network costs, before it has been built.

    Attributes:
        parameters: of blocks and token embeddings.
        flops_per_token: of training.
    """

    parameters: float
    flops_per_token: float


def _vocabulary(size: int) -> Vocabulary:
    """Returns a vocabulary of as many entries, which no text is read with."""
    special = dict.fromkeys((*SPECIAL_TOKENS, *ROLES))
    return Vocabulary([*special, *(f"piece{i}" for i in range(size - len(special)))], "the plan")


def usual_jobs() -> int:
    """Returns how many commands run side by side: one on a GPU, whose memory TensorFlow takes whole."""
    import tensorflow as tf

    return 1 if tf.config.list_physical_devices("GPU") else 2


@functools.cache
def list_packings(name: str, size: str, own: str | None = None) -> tuple[str, ...]:
    """Returns the values of `create_pretraining_data --packing` whose records a system reads, the usual one first.

    Args:
        own: `pretrain --set`.
    """
    system, vocabulary = systems.load(name), _vocabulary(100)
    kind, given = systems.options_class(system), settings.parse(own)
    options = kind and settings.apply(kind(), {name: given[name] for name in vars(kind()) if name in given})
    config = systems.configuration(system, vocabulary, size)
    return systems.recipe(system, vocabulary, Records(), config, options).packings


def has_word_vectors(name: str) -> bool:
    """Returns whether the network of a system has vectors of single words."""
    return word_vectors.has_vectors(systems.model_of(systems.load(name)))


def needs_words(name: str) -> bool:
    """Returns whether a system hides whole words, which the records must mark."""
    return systems.load(name).NEEDS_WORDS


def _configuration(name: str, size: str, vocabulary_size: int, own: str | None):
    """Returns that of a network, with what `pretrain --set` names of it."""
    config = systems.configuration(systems.load(name), _vocabulary(vocabulary_size), size)
    known = config.settings()
    return settings.apply_to_network(
        config, {name: value for name, value in settings.parse(own).items() if name in known}
    )


def num_positions(plan: Plan, name: str, system: System) -> int | None:
    """Returns the most tokens that the network of a system of a plan reads; None where there is no limit."""
    return _configuration(system.system or name, system.size, *_sizes(plan, system)).longest


def _sizes(plan: Plan, system: System) -> tuple[int, str | None]:
    """Returns the size of its vocabulary, and `pretrain --set`."""
    return (system.vocabulary or plan.vocabulary).size, {**plan.pretraining.flags, **system.flags}.get("set")


def estimate(name: str, size: str, vocabulary_size: int, length: int, own: str | None = None) -> Estimate:
    """Returns FLOPs by the usual count: 2 (4 D² + 2 D F) + 4 L D a layer, and the head at the tokens that are asked for.

    Args:
        own: `pretrain --set`; what it names of the network counts.
    """
    config = _configuration(name, size, vocabulary_size, own)
    width, layers = config.hidden_dim, getattr(config, "num_layers", 0)
    block = 4 * width**2 + 2 * width * getattr(config, "intermediate_dim", 0)
    head = vocabulary_size * getattr(config, "embedding_dim", width)
    system = systems.load(name)
    small = vars(system).get("SMALL") if is_small(system, size) else None
    asked = small and small.masking_rate or 1 / 6
    forward = layers * (2 * block + 4 * length * width) + 2 * head * asked
    return Estimate(getattr(config, "num_unlike_groups", layers) * block + head, 3 * forward)


def estimate_system(plan: Plan, name: str, system: System) -> Estimate:
    """Returns that of a system of a plan, which is called `name`; of a network without pretraining, of which less is known, its
    width and layers alone count."""
    size, own = _sizes(plan, system)
    if system.new:
        numbers = new.sizes_of(model_class(system.new))[system.size]
        block = 8 * numbers["hidden_dim"] ** 2 * numbers.get("num_layers", 1)
        return Estimate(block + size * numbers.get("embedding_dim", numbers["hidden_dim"]), 6 * block)
    return estimate(name, system.size, size, plan.pretraining.max_seq_length, own)
