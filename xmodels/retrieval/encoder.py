"""Which network made vectors. Vectors of different networks cannot be compared, whatever their widths."""

import dataclasses
import hashlib
from typing import Any

from data_pipelines.arrays import arrays_sha256
from data_pipelines.errors import UsageError
from data_pipelines.schema import Sha256


@dataclasses.dataclass(frozen=True)
class Encoder:
    """What the vector of a text depends on. Equal where equal texts have equal vectors.

    Attributes:
        weights_sha256: of all weights that a vector depends on.
        tokenizer_sha256: of the vocabulary and of what the tokenizer does with letters.
        settings: further numbers, such as the pooling and the longest text.
        name: what the network was called; not compared.
    """

    weights_sha256: Sha256
    tokenizer_sha256: Sha256
    settings: dict
    name: str = dataclasses.field(default="", compare=False)

    @classmethod
    def of(cls, predictor: Any, name: str) -> "Encoder":
        """Returns that of a predictor which encodes texts.

        Args:
            predictor: has `encoder_weights()`, `encoder_settings()` and a `tokenizer`.
        """
        tokenizer = f"{predictor.tokenizer.sha256} {sorted(predictor.tokenizer.describe().items())}"
        made = hashlib.sha256(tokenizer.encode()).hexdigest()
        return cls(arrays_sha256(predictor.encoder_weights()), made, predictor.encoder_settings(), name)

    def check(self, other: "Encoder", what: str, asked: str) -> None:
        """Raises a UsageError, which says in what they differ, unless `other` is the same network.

        Args:
            what: holds the vectors of this one, such as the path of an index.
            asked: names the other one, such as a flag with its value.
        """
        if self == other:
            return
        differences = [
            f"{title} {mine} there, {theirs} here"
            for title, mine, theirs in (
                ("weights", self.weights_sha256[:8], other.weights_sha256[:8]),
                ("tokenizer", self.tokenizer_sha256[:8], other.tokenizer_sha256[:8]),
                *(
                    (key, self.settings.get(key), other.settings.get(key))
                    for key in sorted({*self.settings, *other.settings})
                ),
            )
            if mine != theirs
        ]
        raise UsageError(
            f"{what}: its vectors were made by another network ({self.name}) than {asked}, so they cannot be compared: "
            f"{'; '.join(differences)}. Take that network, or encode the texts again."
        )
