"""Embedding of stories, whose sentences are the positions of the sequence."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout


class StoryEmbedding(keras.layers.Layer):
    """Embeds a sentence as sqrt(D) times the sum of its words, each multiplied by a learned vector of its position in it.

    The vectors are initialized to ones, so that a sentence starts as a bag of words; the question has vectors of its own
    (Dehghani et al., 2018, section 3.1; Henaff et al., 2016, section 2.1).

    Call arguments:
        token_ids: int (B, S, W), S sentences of at most W words; 0 after the last word of a sentence.
        segment_ids: int (B, S), 1 for the question.

    Returns:
        (B, S, D)
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.shape_of_places = config.hidden_dim**0.5, (config.max_sentence_length, config.hidden_dim)
        initializer = keras.initializers.RandomNormal(stddev=config.hidden_dim**-0.5)
        self.token = keras.layers.Embedding(
            config.vocabulary_size, config.hidden_dim, embeddings_initializer=initializer, name="token"
        )
        self.dropout = Dropout(config.dropout)

    def build(self, token_ids_shape, segment_ids_shape=None):
        self.token.build(token_ids_shape)
        self.sentence_places = self.add_weight(shape=self.shape_of_places, initializer="ones", name="sentence_places")
        self.question_places = self.add_weight(shape=self.shape_of_places, initializer="ones", name="question_places")
        self.built = True

    def call(self, token_ids, segment_ids, training=None):
        length, real = ops.shape(token_ids)[-1], ops.expand_dims(ops.not_equal(token_ids, 0), -1)
        words = self.token(token_ids) * ops.cast(real, self.compute_dtype)  # (B, S, W, D)
        sentences, questions = (
            ops.einsum("bswd,wd->bsd", words, ops.cast(places[:length], words.dtype))
            for places in (self.sentence_places, self.question_places)
        )
        x = ops.where(ops.expand_dims(ops.equal(segment_ids, 1), -1), questions, sentences) * self.scale  # (B, S, D)
        return self.dropout(x, training=training)
