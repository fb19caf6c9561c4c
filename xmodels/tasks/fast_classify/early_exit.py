"""Early exit that saves its time: texts that are done leave the batch, and the layers above compute the others only.

The number of texts of a layer depends on what the one below said, so this is TensorFlow's, where shapes may be dynamic. The answers
are those of `FastClassify.select`.
"""

import tensorflow as tf

from xmodels.layers.attention.visible import Visible
from xmodels.layers.branches import leaves, uncertainty
from xmodels.tasks.fast_classify.task import FastClassify


def early_exit(backbone, task: FastClassify, features, speed) -> dict:
    """Works as `FastClassify.select` of `exits`, in the order of the texts.

    Layers that no text reaches get an empty batch, which costs next to nothing.

    Args:
        features: of B texts, as tensors.
        speed: a number or a tensor of one.
    """
    mask = features["padding_mask"]
    x, rows, gone = backbone.embed(features, False), tf.range(tf.shape(mask)[0]), []
    for index, (layer, branch) in enumerate(zip(backbone.passes, task.branches, strict=True)):
        x = layer(x, visible=Visible(mask), training=False)
        logits = branch(x, mask, training=False)  # (b, C)
        uncertainties = uncertainty(logits)  # (b,)
        done = leaves(uncertainties, speed)
        if branch is task.teacher:
            done = tf.ones_like(done)
        there, stay = tf.squeeze(tf.where(done), 1), tf.squeeze(tf.where(~done), 1)
        layers = tf.fill(tf.shape(there), index)
        gone.append((tf.gather(rows, there), tf.gather(logits, there), layers, tf.gather(uncertainties, there)))
        x, mask, rows = (tf.gather(each, stay) for each in (x, mask, rows))
    rows, *found = (tf.concat(each, axis=0) for each in zip(*gone, strict=True))
    places = tf.math.invert_permutation(rows)
    found = (tf.gather(each, places) for each in found)
    return dict(zip(("logits", "exit_layers", "uncertainties"), found, strict=True))
