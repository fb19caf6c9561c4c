"""What all classifiers of a network say of some texts, to be looked at for every speed."""

import dataclasses

import numpy as np
from keras import ops

from xmodels.layers.branches import uncertainty


@dataclasses.dataclass(frozen=True)
class Exits:
    """Logits float32 (N, layers, C)."""

    logits: np.ndarray

    @classmethod
    def of(cls, predictor, texts: list, batch_size: int) -> "Exits":
        """Returns that of texts, in their order."""
        from xmodels.tasks.base.answer import compile_answer, without_padding

        logits_of = compile_answer(lambda batch: {"exits": predictor.task.exits(predictor.backbone, batch)})
        found = []
        for start in range(0, len(texts), batch_size):
            features = without_padding(predictor.features(texts[start : start + batch_size]))
            found.append(logits_of(features)["exits"])
        return cls(np.concatenate(found))

    @property
    def uncertainties(self) -> np.ndarray:
        """float32 (N, layers)"""
        return np.asarray(ops.convert_to_numpy(uncertainty(ops.convert_to_tensor(self.logits))))

    @property
    def probabilities(self) -> np.ndarray:
        """float32 (N, layers, C)"""
        shares = np.exp(self.logits - self.logits.max(axis=-1, keepdims=True))
        return shares / shares.sum(axis=-1, keepdims=True)

    def accuracies(self, truth) -> np.ndarray:
        """Returns that of each classifier on all texts: (layers,)."""
        return (self.logits.argmax(axis=-1) == np.asarray(truth)[:, None]).mean(axis=0)

    def at(self, speed: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns the labels int (N,) at a speed, and the layers, from 0, behind which texts leave."""
        done = (self.uncertainties < speed) | (speed >= 1.0)
        done[:, -1] = True
        layers = done.argmax(axis=1)
        return self.logits.argmax(axis=-1)[np.arange(len(layers)), layers], layers
