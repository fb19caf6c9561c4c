"""Small networks of published systems, and learners of them that read records of the samples."""

import contextlib
import dataclasses

import keras
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.features import check
from data_pipelines.ops.compose import compose
from xmodels import systems
from xmodels.training.devices import distribution
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.recipe import Records
from xmodels.training.step.learner import Learner
from xmodels.training.step.streams import single

SMALL = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 64}
RECORDS = Records(sequence_length=32, num_predictions=6)


def small_sizes(network_config, sizes=SMALL):
    """Those of `sizes` that a network has."""
    return {f.name: sizes[f.name] for f in dataclasses.fields(network_config) if f.name in sizes}


def is_table_of_words(name):
    """Whether the network of a system is a table of words, which know nothing of each other, without layers."""
    network = systems.load(name).MODEL
    return "word_vectors" in vars(network) and bool(network.sparse_tables)


def small_recipe(name, vocabulary, batch_size):
    """The recipe of a system for a small network without dropout."""
    system = systems.load(name)
    network_config = system.MODEL.config_class
    rates = {f.name: 0.0 for f in dataclasses.fields(network_config) if f.name.endswith("dropout")}
    # Published weights begin so small that an LSTM of 16 would wait for hundreds of steps.
    rates |= {f.name: 0.6 for f in dataclasses.fields(network_config) if f.name == "initial_scale"}
    config = network_config(vocabulary_size=len(vocabulary), **small_sizes(network_config), **rates)
    return dataclasses.replace(system.recipe(vocabulary, RECORDS, "tiny", config), batch_size=batch_size)


def make_learner(recipe, source, jit_compile=False, strategy="one_device"):
    """A learner with the same weights at every call."""
    keras.utils.set_random_seed(1)
    strategy = distribution.choose(strategy)
    with strategy.scope():
        backbone, objective = recipe.backbone().initialize(), recipe.objective()
        check(source.features, objective.reads, source.name)
        transform = compose(recipe.frame, objective.transform())
        batches = Batches(source, transform, recipe.batch_size, 0, objective.batch_features(backbone))
        numbers = Optimization(optimizer="adamw", learning_rate=1e-2, num_warmup_steps=0, num_steps=1000)
        optimizer = numbers.make_optimizer()
        return Learner(strategy, backbone, single(objective, batches), optimizer, jit_compile=jit_compile)


@contextlib.contextmanager
def without_graphs():
    """Here functions run operation by operation, without a trace and without XLA."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)
