"""tensor2tensor's Universal Transformer at the budget of ours on bAbI: is an effect missing because of our code, or of the budget?

It reads the batches of our run in their order. Steps, blocks and halting are tensor2tensor's, with its numbers; the sum of a
sentence's words and the layer above the mean of places are a few lines here, as in its pipeline for bAbI. tensor2tensor 1.15.7 is a
package of TensorFlow 1 that is no longer kept, so only its modules are used, from a folder:

    pip download --no-deps tensor2tensor==1.15.7 && unzip tensor2tensor-1.15.7-py2.py3-none-any.whl -d FOLDER
"""

import dataclasses
import os
import sys
import types

import numpy as np
import tensorflow.compat.v1 as tf

from data_pipelines.batches.dataset import Batches
from xmodels.training.optimizers.optimization import Optimization

# Nothing of these is needed here, but they are imported.
NOT_NEEDED = ("tensorflow_addons", "tf_slim", "tensorflow_probability")
# `universal_transformer_tiny` and `adaptive_universal_transformer_tiny`, where shape and dropout are not given.
NUMBERS = {
    "layer_preprocess_sequence": "n", "layer_postprocess_sequence": "da", "norm_type": "layer", "norm_epsilon": 1e-6,
    "attention_dropout": 0.0, "relu_dropout": 0.0, "attention_key_channels": 0, "attention_value_channels": 0,
    "self_attention_type": "dot_product", "max_relative_position": 0, "hard_attention_k": 0, "ffn_layer": "dense_relu_dense",
    "use_pad_remover": True, "mix_with_transformer": None, "num_inrecurrence_layers": 1, "add_position_timing_signal": True,
    "pos": None, "position_start_index": None, "add_step_timing_signal": True, "step_timing_signal_type": "learned",
    "add_or_concat_timing_signal": "add", "add_sru": False, "transformer_ffn_type": "fc", "act_type": "basic", "act_epsilon": 0.01,
}  # fmt: skip


class Empty(types.ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def tensor2tensor(folder: str):
    """`universal_transformer_util` of tensor2tensor, which runs as a graph of TensorFlow 1."""
    sys.path.insert(0, folder)
    sys.modules.update({name: Empty(name) for name in NOT_NEEDED})
    models = sys.modules["tensor2tensor.models"] = Empty(
        "tensor2tensor.models"
    )  # the package imports all of its models
    models.__path__ = [os.path.join(folder, "tensor2tensor/models")]
    tf.disable_control_flow_v2()
    from tensor2tensor.layers import common_layers, transformer_layers
    from tensor2tensor.utils import contrib

    common_layers.dense = dense
    contrib.summary = lambda: types.SimpleNamespace(scalar=lambda *_: None)
    models.transformer = types.SimpleNamespace(transformer_ffn_layer=transformer_layers.transformer_ffn_layer)
    from tensor2tensor.models.research import universal_transformer_util

    return universal_transformer_util


def dense(x, units, activation=None, use_bias=True, bias_initializer=None, name=None, **_):
    """`tf.layers.dense`, which TensorFlow with Keras 3 does not have."""
    with tf.variable_scope(name, default_name="dense"):
        kernel = tf.get_variable("kernel", [x.shape[-1], units])
        y = tf.tensordot(x, kernel, axes=1)
        if use_bias:
            y += tf.get_variable("bias", [units], initializer=bias_initializer or tf.zeros_initializer())
    return activation(y) if activation else y


@dataclasses.dataclass(frozen=True)
class Shape:
    """Numbers of the network, as ours has them."""

    vocabulary_size: int
    hidden_dim: int
    num_heads: int
    intermediate_dim: int
    max_sentence_length: int
    dropout: float
    num_labels: int
    num_steps: int  # the most, where places halt
    ponder_weight: float  # 0: places do not halt
    halting_bias: float


class Peer:
    """The network, its loss and a session."""

    def __init__(self, folder: str, shape: Shape, seed: int):
        util, self.graph = tensor2tensor(folder), tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(seed)
            self.given = {
                "token_ids": tf.placeholder(tf.int32, [None, None, None]), "segment_ids": tf.placeholder(tf.int32, [None, None]),
                "padding_mask": tf.placeholder(tf.bool, [None, None]), "labels": tf.placeholder(tf.int32, [None]),
                "example_weights": tf.placeholder(tf.float32, [None]),
            }  # fmt: skip
            self.rate, glorot = (
                tf.placeholder(tf.float32, []),
                tf.variance_scaling_initializer(1.0, "fan_avg", "uniform"),
            )
            with tf.variable_scope("universal_transformer", initializer=glorot, use_resource=True):
                self.loss, _ = self._loss(util, shape, shape.dropout)
                tf.get_variable_scope().reuse_variables()
                _, self.outputs = self._loss(util, shape, 0.0)
            self.update = self._updated()
            self.session = tf.Session(
                config=tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
            )
            self.session.run(tf.global_variables_initializer())

    def _loss(self, util, shape: Shape, dropout: float):
        numbers = NUMBERS | {
            "hidden_size": shape.hidden_dim, "filter_size": shape.intermediate_dim, "num_heads": shape.num_heads,
            "layer_prepostprocess_dropout": dropout, "recurrence_type": "act" if shape.ponder_weight else "basic",
            "num_rec_steps": shape.num_steps, "act_max_steps": shape.num_steps, "act_halting_bias_init": shape.halting_bias,
        }  # fmt: skip
        real = tf.cast(self.given["padding_mask"], tf.float32)  # (B, S)
        x = tf.nn.dropout(self._sentences(shape), rate=dropout)
        bias = (1.0 - real)[:, None, None, :] * -1e9
        x, halting = util.universal_transformer_encoder(
            x, bias, types.SimpleNamespace(**numbers), nonpadding=real, make_image_summary=False
        )
        pooled = tf.reduce_sum(x * real[:, :, None], axis=1) / tf.maximum(
            tf.reduce_sum(real, axis=1, keepdims=True), 1.0
        )
        logits, weights = dense(pooled, shape.num_labels, name="head"), self.given["example_weights"]
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.given["labels"], logits=logits)
        loss, outputs = tf.reduce_sum(nats * weights) / tf.reduce_sum(weights), {"labels": tf.argmax(logits, axis=-1)}
        if shape.ponder_weight:
            times, remainders = halting
            loss += shape.ponder_weight * tf.reduce_mean(times + remainders)
            outputs["ponder_times"] = times
        return loss, outputs

    def _sentences(self, shape: Shape):
        """(B, S, D): words, each times the vector of its place, which begins as ones; a question has vectors of its own."""
        ids, d = self.given["token_ids"], shape.hidden_dim
        table = tf.get_variable(
            "token", [shape.vocabulary_size, d], initializer=tf.random_normal_initializer(stddev=d**-0.5)
        )
        words = tf.gather(table, ids) * tf.cast(ids > 0, tf.float32)[..., None]  # (B, S, W, D)
        sentences, questions = (
            tf.reduce_sum(words * tf.get_variable(name, [shape.max_sentence_length, d], initializer=tf.ones_initializer())
                          [: tf.shape(ids)[2]], axis=2)
            for name in ("story_places", "question_places")
        )  # fmt: skip
        x = tf.where_v2((self.given["segment_ids"] > 0)[..., None], questions, sentences)
        return tf.reshape(x * d**0.5, [tf.shape(ids)[0], tf.shape(ids)[1], d])

    def _updated(self):
        optimizer = tf.train.AdamOptimizer(self.rate, beta1=0.9, beta2=0.98, epsilon=1e-9)
        derivatives, variables = zip(*optimizer.compute_gradients(self.loss), strict=True)
        clipped, _ = tf.clip_by_global_norm(derivatives, 1.0)
        return optimizer.apply_gradients(zip(clipped, variables, strict=True))

    @property
    def parameters(self) -> int:
        with self.graph.as_default():
            return sum(int(np.prod(each.shape)) for each in tf.trainable_variables())

    def train(self, batches: Batches, numbers: Optimization) -> None:
        """Trains by the numbers of our run; speaks every tenth of it."""
        schedule, source = numbers.make_schedule(), iter(batches.training())
        for step in range(numbers.num_steps):
            fed = self._fed(next(source)) | {self.rate: float(schedule(step))}
            loss, _ = self.session.run([self.loss, self.update], fed)
            if (step + 1) % (numbers.num_steps // 10) == 0:
                print(f"tensor2tensor's: step {step + 1:,}/{numbers.num_steps:,} · loss {loss:.3f}", flush=True)

    def answers(self, batch) -> dict[str, np.ndarray]:
        """`labels` (B,), and where places halt `ponder_times` (B, S)."""
        return self.session.run(self.outputs, self._fed(batch))

    def _fed(self, batch) -> dict:
        return {placeholder: batch[name].numpy() for name, placeholder in self.given.items()}
