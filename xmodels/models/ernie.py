"""ERNIE: Enhanced Representation through Knowledge Integration (Sun et al., 2019, arXiv 1904.09223), and the network of ERNIE 2.0
(Sun et al., 2020, arXiv 1907.12412): BERT with additional embeddings of the task and, in dialogues, of the speaker.
"""

import dataclasses
from typing import ClassVar

import keras

from data_pipelines.features import Feature
from xmodels.layers.embeddings import ErnieEmbedding
from xmodels.models import bert
from xmodels.models.bert import Bert, BertConfig


@dataclasses.dataclass(frozen=True)
class ErnieConfig(BertConfig):
    """BERT's configuration with the defaults of Baidu's Chinese ERNIE 1.0, which has one position more than a row has tokens.

    Attributes:
        num_tasks: rows of the task embedding of ERNIE 2.0; None for no such embedding.
        num_roles: rows of the speaker embedding that replaces that of segments in dialogues; None for no such embedding.
    """

    spare_rows: ClassVar[bool] = True  # Baidu's vocabulary has 17,964 tokens

    max_sequence_length: int = 513
    activation: str = "relu"
    layer_norm_epsilon: float = 1e-5
    num_tasks: int | None = None
    num_roles: int | None = None


@keras.saving.register_keras_serializable("xmodels")
class Ernie(Bert):
    """BERT's encoder over the sum of token, segment or speaker, position and task embeddings.

    Call arguments:
        features: as in `Bert`; optionally `task_ids` int (B, L), by default 0, and for dialogues `role_ids` int (B, L), the
            speakers, which replace `segment_ids`.
    """

    config_class = ErnieConfig
    may_read = {**Bert.may_read, "task_ids": Feature((None,)), "role_ids": Feature((None,))}

    def make_embedding(self, config):
        return ErnieEmbedding(config, name="embedding")

    def embed(self, features, training=None):
        """Returns the embeddings, (B, L, D)."""
        further = {name: features.get(name) for name in ("position_ids", "task_ids", "role_ids")}
        return self.embedding(features["token_ids"], features["segment_ids"], **further, training=training)


# base: ERNIE 1.0. The smaller ones, for trials, and large have BERT's shapes.
SIZES = dict(bert.SIZES)
