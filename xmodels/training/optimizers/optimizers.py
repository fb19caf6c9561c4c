"""Optimizers by name, as used in papers, for any `tf.distribute` strategy. docs/optimizers.md has a table of them."""

import keras
import tensorflow as tf
from keras.optimizers import Optimizer

from xmodels.models.backbone import named_weights
from xmodels.training.optimizers import adafactor, adam, lamb, muon
from xmodels.training.optimizers.grouped import GroupedOptimizer
from xmodels.training.optimizers.kinds import OPTIMIZERS
from xmodels.training.optimizers.layerwise import Layerwise
from xmodels.training.optimizers.synced import Synced
from xmodels.training.step.sparse import of_values

# Google excludes names that contain LayerNorm, layer_norm or bias from weight decay. In Keras the names of such variables end like
# this; `norm.scale` is that of RMSNormalization, the last two are angles of complex words, of which zero is no smaller than others.
NOT_DECAYED = ("bias", "gamma", "beta", "norm.scale", "words.frequency", "words.phase")


@keras.saving.register_keras_serializable("xmodels")
class Adam(Synced, adam.FusedAdam, keras.optimizers.Adam):
    """Keras' Adam (Kingma and Ba, 2015)."""


@keras.saving.register_keras_serializable("xmodels")
class LazyAdam(adam.LazyAdam, Synced, adam.FusedAdam, keras.optimizers.Adam):
    """Adam that leaves alone the rows of tables that a step does not read: their moments do not fade, and they do not move on."""


@keras.saving.register_keras_serializable("xmodels")
class AdamW(Synced, adam.FusedAdam, keras.optimizers.AdamW):
    """Keras' AdamW (Loshchilov and Hutter, 2019), with bias correction."""


@keras.saving.register_keras_serializable("xmodels")
class Adamax(Synced, keras.optimizers.Adamax):
    """Keras' Adamax (Kingma and Ba, 2015, section 7.1)."""


@keras.saving.register_keras_serializable("xmodels")
class Sgd(Synced, keras.optimizers.SGD):
    """Keras' SGD. The learning rate is part of the momentum, so after a change of the rate it moves on with the old one."""

    @property
    def updates_rows(self):
        return not self.momentum

    def update_rows(self, gradient, variable, learning_rate):
        variable.scatter_sub(of_values(gradient, lambda values: learning_rate * values))


@keras.saving.register_keras_serializable("xmodels")
class Adagrad(Synced, keras.optimizers.Adagrad):
    """Keras' AdaGrad (Duchi et al., 2011)."""

    updates_rows = True

    def update_rows(self, gradient, variable, learning_rate):
        sums = self._accumulators[self._get_variable_index(variable)].value
        sums.scatter_add(of_values(gradient, tf.square))
        deviations = tf.sqrt(tf.gather(sums, gradient.indices) + self.epsilon)
        variable.scatter_sub(of_values(gradient, lambda values: learning_rate * values / deviations))


@keras.saving.register_keras_serializable("xmodels")
class Adadelta(Synced, keras.optimizers.Adadelta):
    """Keras' Adadelta (Zeiler, 2012). The learning rate is 1 in the paper."""


@keras.saving.register_keras_serializable("xmodels")
class BertAdamW(Synced, adam.FusedBertAdam):
    """BERT's AdamW, without bias correction."""


@keras.saving.register_keras_serializable("xmodels")
class MtDnnAdamax(Synced, adam.MtDnnAdamax):
    """MT-DNN's Adamax, without bias correction."""


@keras.saving.register_keras_serializable("xmodels")
class BertLamb(Synced, lamb.AlbertLamb):
    """ALBERT's LAMB, without bias correction."""


@keras.saving.register_keras_serializable("xmodels")
class Lamb(Synced, lamb.CorrectedLamb):
    """LAMB with bias correction, as in its paper."""


@keras.saving.register_keras_serializable("xmodels")
class Adafactor(Synced, adafactor.Adafactor):
    """T5's Adafactor, without momentum."""


@keras.saving.register_keras_serializable("xmodels")
class Muon(Synced, muon.Muon):
    """Keras' Muon, also for kernels of attention, which have three axes."""


def make_optimizer(name: str, **values) -> Optimizer:
    """Returns the optimizer of a name in `OPTIMIZERS`; `values` are arguments of its class."""
    kind = OPTIMIZERS[name]
    return globals()[kind.class_name](**kind.fixed, **values)


def prepare(optimizer: Optimizer | GroupedOptimizer, backbone, objective) -> None:
    """Sets, before an optimizer is built, which weights do not decay and the learning rate of each.

    Weights with a rate of 0 become non-trainable, so that no gradient is computed for them.
    """
    if isinstance(optimizer, GroupedOptimizer):
        parts = ("backbone", backbone), (objective.prefix, objective)
        names = {f"{prefix}.{n}": v for prefix, part in parts for n, v in named_weights(part).items()}
        optimizer.prepare(names, NOT_DECAYED)
        return
    exclude_from_decay(optimizer, named_weights(backbone) | named_weights(objective))
    rates = getattr(optimizer, "layerwise", Layerwise()).rates(backbone)
    for variable, rate in rates:
        if not rate.factor:
            variable.trainable = False
    optimizer.set_rates(rates)


def exclude_from_decay(optimizer, named_variables) -> None:
    """Excludes biases and weights of norms, found by the ends of their names, from weight decay."""
    excluded = [variable for name, variable in named_variables.items() if name.endswith(NOT_DECAYED)]
    optimizer.exclude_from_weight_decay(var_list=excluded)
