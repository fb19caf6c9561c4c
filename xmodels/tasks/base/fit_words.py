"""The words whose vectors are nearest to those of the masked places of a text (Melamud et al., 2016, section 4)."""

import dataclasses

import numpy as np
from keras import ops

from data_pipelines.text.vocabulary import UNKNOWN
from xmodels.layers.rows import take_rows
from xmodels.objectives.base import Objective
from xmodels.tasks.base import fill_mask

NOWHERE = -2.0  # below any cosine


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A word for a mask, as it is shown, and the cosine of its vector and that of the place."""

    token: str
    cosine: float

    @property
    def score(self) -> float:
        """What candidates are compared by."""
        return self.cosine


class Predictor(fill_mask.Predictor):
    """Fills the masks of texts with the words that fit best. A network that `fits_words` has no head for it."""

    candidate = Candidate

    def heads_of(self, loaded):
        return {}

    def make_task(self, run):
        return Objective()

    def prepare(self):
        super().prepare()
        is_word = np.ones(len(self.tokenizer.vocabulary), bool)
        is_word[sorted(self.tokenizer.vocabulary.special_ids)] = False
        self.is_word, self.unknown_id = is_word, self.tokenizer.vocabulary[UNKNOWN]

    def answer(self, features):
        # Other masks stand for words that are not known, as they never stood in the texts that were learnt.
        token_ids = ops.where(ops.equal(features["token_ids"], self.mask_id), self.unknown_id, features["token_ids"])
        states = self.backbone({"token_ids": token_ids, "padding_mask": features["padding_mask"]})["sequence_output"]
        places = take_rows(states, features["mask_positions"])  # (B, P, D)
        table = self.backbone.targets.embeddings[: len(self.is_word)]
        cosines = ops.matmul(unit(places), ops.transpose(unit(table)))  # (B, P, V)
        learnt = ops.any(ops.not_equal(table, 0), axis=-1)  # words that were never predicted have no vector
        cosines = ops.where(ops.logical_and(self.is_word, learnt), cosines, NOWHERE)
        scores, tokens = ops.top_k(cosines, min(fill_mask.SHOWN, int(self.is_word.sum())))
        return {"scores": scores, "tokens": tokens}


def unit(x):
    """Returns vectors (..., D) of length 1, float32; zeros stay as they are."""
    x = ops.cast(x, "float32")
    return x / ops.maximum(ops.sqrt(ops.sum(x * x, axis=-1, keepdims=True)), 1e-12)
