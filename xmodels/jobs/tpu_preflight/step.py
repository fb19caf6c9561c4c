"""What is compiled for a TPU: network, objective, optimizer and a row of zeros, made without records."""

import contextlib
import dataclasses
import math

import keras
import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import options_of
from data_pipelines.pretraining.settings import Settings
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.vocabulary import SPELLINGS, Vocabulary
from xmodels import systems
from xmodels.jobs.pretrain import network
from xmodels.jobs.pretrain.batches import make_batches
from xmodels.jobs.pretrain.length_schedule import NONE
from xmodels.jobs.pretrain.options import Options as PretrainingOptions
from xmodels.jobs.pretrain.system_settings import apply_network_settings, parse_system_options
from xmodels.jobs.tpu_preflight.options import Options
from xmodels.models.backbone import Backbone
from xmodels.models.config import TokenConfig
from xmodels.objectives.base import Objective
from xmodels.tpu.lowering import Slice
from xmodels.training.recipe import Recipe, Records
from xmodels.training.step.learner import Learner, Memory
from xmodels.training.step.streams import single

DTYPES = {"int32": np.int64, "float32": np.float32}  # how records of a feature are parsed


def make_recipe(options: Options, config: TokenConfig | None) -> tuple[Recipe, Records]:
    """Returns the recipe of `xmodels pretrain` with the same flags, and the records that it would read.

    Args:
        config: of the network, in place of --size; the numbers of its training are those of the paper then.
    """
    system, asked = systems.load(options.system), pretraining_options(options)
    network.check_size(asked, system)
    vocabulary = (
        open_tokenizer(options.vocab_file).vocabulary
        if options.vocab_file
        else make_placeholder_vocabulary(options.vocab_size)
    )
    if config is None:
        config = network.make_config(asked, system, vocabulary)
    else:
        config = apply_network_settings(options.set, system, config)
        asked = dataclasses.replace(asked, recipe="published")
    small, own = network.small_numbers(asked, system), parse_system_options(options.set, system)
    rate = getattr(own, "masking_rate", None) or (small and small.masking_rate) or Records.masking_rate
    slots = options.max_predictions_per_seq or _num_predictions(options, system, rate)
    records = Records(options.max_seq_length, slots)
    return network.make_recipe(asked, system, vocabulary, records, config), records


def pretraining_options(options: Options) -> PretrainingOptions:
    """Returns the options of `xmodels pretrain` for the same step, of rows of one length; they name no folder."""
    shared = {each.name for each in options_of(PretrainingOptions)} & {each.name for each in options_of(Options)}
    values = {name: getattr(options, name) for name in shared}
    return PretrainingOptions(**values, model_dir="", length_schedule=NONE)


def _num_predictions(options, system, rate: float) -> int:
    """Returns the slots of the default records, or those that the training needs where it hides another share of the tokens."""
    needed = 0 if rate == Records.masking_rate else math.ceil(rate * options.max_seq_length)
    return systems.slots_of(system, rate, options.max_seq_length, max(Records.num_predictions, needed))


def make_placeholder_vocabulary(size: int) -> Vocabulary:
    """Returns a vocabulary of `size` pieces without meaning: the step depends on their number only."""
    roles = list(SPELLINGS)
    if size <= len(roles):
        raise UsageError(f"--vocab_size={size}: the special tokens alone are {len(roles)}. BERT's has 30522 pieces.")
    return Vocabulary([*roles, *(f"piece{i}" for i in range(size - len(roles)))], f"--vocab_size={size}")


def make_learner(
    recipe: Recipe, records: Records, num_devices: int, mixed_precision: str = "none", memory: Memory | None = None
) -> Learner:  # fmt: skip
    """Returns the learner of one of `num_devices` replicas, with random weights, built without records."""
    with precision(mixed_precision):
        backbone, objective = recipe.backbone().initialize(), recipe.objective()
        streams = single(objective, make_row_of_zeros(recipe, backbone, objective, records))
        return Learner(
            Slice(num_devices), backbone, streams, recipe.make_optimizer(), recipe.clip_norm, memory=memory or Memory()
        )


@contextlib.contextmanager
def precision(mixed_precision: str):
    """Sets the precision of --mixed_precision for what is made inside."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16" if mixed_precision == "bfloat16" else "float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def make_row_of_zeros(recipe: Recipe, backbone: Backbone, objective: Objective, records: Records) -> Batches:
    """Batches of one row of zeros, as the network reads it."""
    return make_batches(recipe, backbone, objective, _nothing(_settings(recipe, objective, records)), batch_size=1)


def _settings(recipe: Recipe, objective: Objective, records: Records) -> Settings:
    """Returns the settings of records with the first layout of the recipe that holds what the objective reads."""
    length = records.sequence_length
    every = [Settings(input_file="", vocab_file="", packing=name, max_seq_length=length) for name in recipe.packings]
    return next(each for each in every if set(objective.reads) <= set(each.layout.features(each)))


def _nothing(settings: Settings) -> ArraySource:
    """Returns one example of zeros, with the features that records of these settings have."""
    width = settings.layout.width(settings.max_seq_length)
    arrays = {
        name: np.zeros((1, *(width if axis is None else axis for axis in feature.shape)), DTYPES[feature.dtype])
        for name, feature in settings.layout.features(settings).items()
    }
    source = ArraySource(arrays, settings.packing)
    source.is_stream = settings.layout.is_stream
    return source
