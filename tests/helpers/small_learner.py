"""A learner that steps in milliseconds, on batches that are made up; for tests of the step."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from xmodels.models.bert import Bert, BertConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence
from xmodels.training.devices import distribution
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.step.learner import Learner, Memory
from xmodels.training.step.streams import single

VOCABULARY, LENGTH, ROWS, HIDDEN = 50, 8, 8, 3


@dataclasses.dataclass
class Rows:
    """Batches that repeat one."""

    batch: dict
    continues: bool = False
    grouping = None

    @property
    def source(self):
        return self

    @property
    def batch_size(self):
        return len(next(iter(self.batch.values())))

    num_examples = batch_size

    def zeros(self):
        return {name: tf.zeros_like(x) for name, x in self.batch.items()}

    def training(self, per_batch, **reading):
        return tf.data.Dataset.from_tensors({name: x[:per_batch] for name, x in self.batch.items()}).repeat()


def make_batches(count, seed=0, rows=ROWS):
    """Batches of masked tokens, of which every row hides another number."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        weights = (np.arange(HIDDEN) < draw.integers(0, HIDDEN + 1, (rows, 1))).astype("float32")
        weights[0, 0] = 1.0
        yield {
            "token_ids": draw.integers(0, VOCABULARY, (rows, LENGTH), "int32"),
            "segment_ids": np.zeros((rows, LENGTH), "int32"),
            "padding_mask": np.arange(LENGTH) < draw.integers(4, LENGTH + 1, (rows, 1)),
            "mask_positions": draw.integers(0, 4, (rows, HIDDEN), "int32"),
            "labels": draw.integers(0, VOCABULARY, (rows, HIDDEN), "int32"),
            "label_weights": weights,
            "next_sentence_labels": draw.integers(0, 2, (rows,), "int32"),
            "example_weights": np.ones((rows,), "float32"),
        }


def make_network(dropout=0.0, num_layers=1):
    """Bert of small blocks with both of its objectives, and weights that depend on nothing."""
    keras.utils.set_random_seed(1)
    config = BertConfig(
        VOCABULARY, 16, num_layers, 2, 32, max_sequence_length=LENGTH, dropout=dropout, attention_dropout=dropout
    )
    return Bert(config).initialize(), together(MaskedLM(config), NextSentence(config))


def make_optimizer(name):
    return Optimization(optimizer=name, learning_rate=1e-3, num_warmup_steps=0, num_steps=1000).make_optimizer()


def make_learner(
    strategy="one_device", dropout=0.0, optimizer="bert_adamw", num_layers=1, memory=None, batch=None, **settings
):
    """A learner of that network. `strategy` may be a name."""
    strategy = distribution.choose(strategy) if isinstance(strategy, str) else strategy
    with strategy.scope():
        backbone, objective = make_network(dropout, num_layers)
        streams = single(objective, Rows(batch or next(make_batches(1))))
        return Learner(strategy, backbone, streams, make_optimizer(optimizer), memory=memory or Memory(), **settings)


def train(learner, batches):
    """Steps once on each batch, of which each worker reads its share. Returns the (sum, weight) pairs of all of them."""
    batches = list(batches)
    columns = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    replicas = learner.strategy.num_replicas_in_sync
    dataset = tf.data.Dataset.from_tensor_slices(columns).batch(len(batches[0]["labels"]) // replicas, True)
    iterator = iter(
        learner.strategy.distribute_datasets_from_function(
            lambda context: dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
        )
    )
    return learner.train(iterator, tf.constant(len(batches)))[0].numpy()


def values(learner):
    """All trained weights by name."""
    return {name: weight.numpy() for name, weight in learner.trained_weights().items()}


def slots(learner):
    """The optimizer's variables, and all else that a state holds, but for the number of steps."""
    own = [v.numpy() for v in learner.optimizer.variables if v is not learner.optimizer.iterations]
    return own + [v.numpy() for v in learner.further_variables.values()]


def largest_difference(first, second):
    return max(np.abs(first[name] - second[name]).max() for name in first)
