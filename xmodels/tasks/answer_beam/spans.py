"""From the beams of windows to the likeliest answers."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from data_pipelines.schema import Positive
from data_pipelines.text.frames import Frame
from xmodels.tasks.answer_beam.task import ENDS, NULL, STARTS, TEXT
from xmodels.tasks.answer_span.spans import Candidates, can_be
from xmodels.tasks.answer_span.windows import Settings, Window, places


@dataclasses.dataclass(frozen=True)
class BeamSettings(Settings):
    """With the sizes of the beam.

    Attributes:
        start_n_top: likeliest beginnings.
        end_n_top: likeliest ends beside each.
    """

    null_alone: ClassVar[bool] = True
    start_n_top: Positive = STARTS
    end_n_top: Positive = ENDS


def roles_of(padding_mask: np.ndarray, lengths: list[tuple[int, int]], frame: Frame, context_first: bool) -> np.ndarray:
    """Returns `span_roles` int32 (N, L): TEXT where an answer may stand, NULL at the token that stands for having none, else 0."""
    found = np.zeros(padding_mask.shape, np.int32)
    for row, (question, context) in enumerate(lengths):
        begin, null = places(frame, question, context, int(np.sum(~padding_mask[row])), context_first)
        found[row, begin : begin + context] = TEXT
        found[row, null] = NULL
    return found


def of_row(
    outputs: Mapping[str, np.ndarray], real: np.ndarray, window: Window, frame: Frame, settings: BeamSettings
) -> Candidates:
    """Works as `answer_span.spans.of_row`, from the outputs of the task for a row, whose places count from the first real
    token."""
    begin, _ = places(frame, len(window.question_ids), len(window.context_ids), 0, settings.context_first)
    ends = outputs["top_ends"].astype(np.int64) - begin  # (K, E)
    starts = np.broadcast_to(outputs["top_starts"].astype(np.int64)[:, None] - begin, ends.shape)
    scores = np.broadcast_to(np.float64(outputs["top_start_scores"])[:, None], ends.shape)
    valid = can_be(starts, ends, window, settings)
    first, last = starts[valid], ends[valid]
    return Candidates(
        scores[valid], np.float64(outputs["top_end_scores"])[valid], window.spans[first, 0], window.spans[last, 1],
        float(outputs["null_logits"]), 0.0,
    )  # fmt: skip
