"""Questions and texts in, answers out, as of `answer_span`, from beams."""

import tensorflow as tf

from data_pipelines.ops.length_sorting import answer_in_parts
from xmodels.tasks.answer_beam.task import NULL, TEXT
from xmodels.tasks.answer_span import serve


class Server(serve.Server):
    numbers = ()  # the ends of a beam follow from its beginnings inside the network

    def score_stretches(self, found, features, given=None):
        mask = features["padding_mask"]
        begin, null = self.places(found, tf.reduce_sum(tf.cast(~mask, tf.int32), axis=1))
        place = tf.range(tf.shape(mask)[1])[None, :]
        text = (place >= begin[:, None]) & (place < (begin + found["count"])[:, None])
        roles = tf.where(place == null[:, None], NULL, tf.where(text, TEXT, 0))
        outputs = answer_in_parts(self.ends, {**features, "span_roles": roles})
        begin, _ = self.places(found, tf.zeros_like(begin))  # places of beams count from the first real token
        last = outputs["top_ends"] - begin[:, None, None]  # (W, K, E)
        first = (outputs["top_starts"] - begin[:, None])[:, :, None] + tf.zeros_like(last)
        totals = outputs["top_start_scores"][:, :, None] + outputs["top_end_scores"]
        return first, last, totals, outputs["null_logits"]

    def ends(self, features):
        return self.task.predict(self.task.forward(self.backbone, features, training=False))
