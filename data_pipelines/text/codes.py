"""Numbers of the different tokens of many texts, in place of all that the vocabulary knows of each."""

from collections.abc import Mapping, Sequence

import numpy as np

from data_pipelines.arrays import CodedArray
from data_pipelines.text.vocabulary import Vocabulary

TOGETHER = 1 << 16  # tokens that are asked for at a time: fewer than a vocabulary keeps the spelling of


class Codes:
    """Numbers the tokens of a vocabulary as they come, from 1 on.

    Words that the vocabulary lacks have numbers of their own, where it tells them apart.
    """

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.code_of: dict[int | str, int] = {}
        self.tokens: list[int] = []

    def of(self, ids: Sequence[int]) -> dict[str, list[int]]:
        """Returns the numbers of the tokens of a text for each feature that the vocabulary knows of them."""
        if not self.vocabulary.features:
            return {}
        keys = self.vocabulary.keys_of(ids)
        for key, token in zip(keys, ids, strict=True):
            if key not in self.code_of:
                self.tokens.append(token)
                self.code_of[key] = len(self.tokens)
        return dict.fromkeys(self.vocabulary.features, [self.code_of[key] for key in keys])

    def arrays(self, codes: Mapping[str, np.ndarray]) -> dict[str, CodedArray]:
        """Returns the features of all tokens that were numbered, by arrays (N, L) of their numbers."""
        features = self.vocabulary.features.items()
        tables = {name: np.zeros((len(self.tokens) + 1, *each.shape[1:]), np.int32) for name, each in features}
        for first in range(0, len(self.tokens), TOGETHER):
            tokens = self.tokens[first : first + TOGETHER]
            for name, rows in self.vocabulary.token_features(tokens).items():
                tables[name][first + 1 : first + 1 + len(tokens)] = rows
        return {name: CodedArray(codes[name], table) for name, table in tables.items()}
