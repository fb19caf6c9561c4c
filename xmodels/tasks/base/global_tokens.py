"""Which tokens of a text attend to all others and are attended by them, where a network has such tokens.

Beltagy et al., 2020 (arXiv 2004.05150, section 3.1), mark them by the task: the first token of a text to classify, the tokens of a
question, and none where every token is asked about. The first one is what mixers do without marks.
"""

from collections.abc import Callable, Mapping
from typing import Any

from keras import ops

from data_pipelines.text.frames import Frame
from xmodels.layers import mixers

Marks = Callable[[Mapping[str, Any]], Any]


def mark(backbone, batch: Mapping[str, Any], marks: Marks | None) -> Mapping[str, Any]:
    """Returns a batch with `global_ids`, where the mixer of the network has global tokens and the batch does not name them.

    Args:
        marks: a batch -> int (B, L), 1 for global tokens; None leaves the choice to the mixer.
    """
    mixer = mixers.find(getattr(backbone.config, "mixer", mixers.DEFAULT))
    if marks is None or not mixer.has_global_tokens or "global_ids" not in backbone.may_read:
        return batch
    return batch if {"global_ids", "pack_ids"} & set(batch) else {**batch, "global_ids": marks(batch)}


def nothing(batch: Mapping[str, Any]):
    """Marks no token."""
    return ops.zeros_like(batch["token_ids"])


def of_question(frame: Frame) -> Marks | None:
    """Returns marks for what stands before the first separator: the question with its class token. None if the frame does not tell it.

    The separator is the token with which a text ends, so no vocabulary is needed.
    """
    parts = frame.of_texts(2)
    behind = next((after for part, after in zip(parts, parts[1:], strict=False) if part.text == 0), None)
    if behind is None or behind.role is None or behind.role != parts[-1].role or frame.pads_left or frame.context_first:
        return None

    def marks(batch):
        token_ids, real = batch["token_ids"], ops.cast(batch["padding_mask"], "int32")
        last = ops.expand_dims(ops.maximum(ops.sum(real, axis=1) - 1, 0), 1)  # (B, 1)
        separator = ops.take_along_axis(token_ids, last, axis=1)
        ends = ops.cast(ops.equal(token_ids, separator), "int32") * real
        return ops.cast(ops.equal(ops.cumsum(ends, axis=1), 0), "int32") * real

    return marks
