"""Sources for an encoder, and targets for a decoder."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from data_pipelines.errors import UsageError
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.folder import model_class
from xmodels.tasks.translate.task import Translate

GO_ON = "label_smoothing", "smoothing_over", "ponder_weight"  # of the options of a system


class TwoSides:
    """How an encoder-decoder learns from pairs of texts.

    Args:
        options: of `finetune`.
        writing: how the network writes.
        own: the `Options` of its system; None if it has none.

    Attributes:
        num_positions: as of a `Reader`.
        decisive: the score that chooses the best epoch; None for that of the task.
    """

    decisive: str | None = None

    def __init__(self, options, writing: Writing, vocabulary: Vocabulary, own: Any = None):
        self.options, self.writing, self.vocabulary, self.own = options, writing, vocabulary, own
        self.num_positions = max(options.max_seq_length, options.max_target_length or 0)

    def check(self, model: str, longest: int) -> None:
        """Raises a UsageError where flags do not suit the network, which has `longest` positions."""
        limit = self.options.max_target_length or 0
        if limit > longest and not model_class(model).any_length and not self.options.extend_positions:
            raise UsageError(
                f"--max_target_length={limit}: the network has {longest} positions. Give {longest} or less; longer targets are cut. "
                "--extend_positions makes more of them."
            )

    def arrays(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """Returns what is learnt from, of framed ids."""
        longest = self.options.max_seq_length
        token_ids, padding_mask = padded(sources, self.vocabulary.padding_id, longest)
        labels, used = padded(targets, self.vocabulary.padding_id, self.options.max_target_length or longest)
        starts = np.full((len(labels), 1), self.writing.start_id(self.vocabulary), np.int32)
        return {
            "token_ids": token_ids, "padding_mask": padding_mask, "labels": labels, "label_weights": used.astype("float32"),
            "target_ids": np.concatenate([starts, labels[:, :-1]], axis=1),
        }  # fmt: skip

    @property
    def identity(self) -> dict:
        """The numbers of pretraining that the objective goes on with, which must be the same when a run is resumed."""
        return {"as_pretrained": {name: getattr(self.own, name) for name in GO_ON if hasattr(self.own, name)}}

    def task(self, config):
        """Returns the objective with the weights of its own."""
        usual = self.writing.objective(config)
        numbers = {name: getattr(usual, name) for name in ("label_smoothing", "smoothing_over")}
        return Translate(config, [], prefix=self.options.prefix, **numbers | self.identity["as_pretrained"])

    def take_head(self, task, loaded) -> None:
        """Gives the task the weights that a checkpoint has for it; this one has none of its own."""


def padded(rows: Sequence[Sequence[int]], pad_id: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows of ids, of `most` at most, as int32 (N, L), with L the longest of them rounded up to a multiple of 8, and
    where they are real."""
    lengths = np.array([len(row) for row in rows])
    real = np.arange(min(-(-int(lengths.max()) // 8) * 8, most)) < lengths[:, None]
    ids = np.full(real.shape, pad_id, np.int32)
    ids[real] = np.concatenate([np.asarray(row, np.int32) for row in rows])
    return ids, real
