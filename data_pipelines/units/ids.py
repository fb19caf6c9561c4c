"""Units: the ids of a tokenizer, one number for each token."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from data_pipelines.features import Feature, Features
from data_pipelines.text.tokenizer import Tokenizer


class Ids:
    """Cuts texts into the ids of a tokenizer, without special tokens.

    Args:
        tokenizer: of any kind.
        serving_ops: the ops of the graph, `core` or `text`; see `GraphTokenizer`.
    """

    features: ClassVar[Features] = {"token_ids": Feature((None,))}

    def __init__(self, tokenizer: Tokenizer, serving_ops: str = "core"):
        self.tokenizer, self.serving_ops = tokenizer, serving_ops

    def offline(self, text: str) -> dict[str, np.ndarray]:
        """Returns `token_ids`, int32 (L,)."""
        return {"token_ids": np.array(self.tokenizer.encode(text).ids, np.int32)}

    def graph(self) -> Callable:
        """Returns a function of texts, string (B,), that returns `token_ids`, ragged int32 (B, None)."""
        # TensorFlow, which the workers of records do without.
        from data_pipelines.ops.serving_text import GraphTokenizer

        return GraphTokenizer(self.tokenizer, self.serving_ops).units
