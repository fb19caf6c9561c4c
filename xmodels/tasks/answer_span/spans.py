"""From the numbers of the tokens of windows to the likeliest answers, as run_squad.py of google-research/bert has them.

Answers are characters of the text, found by the places of tokens, so that nothing is put together again from pieces.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from data_pipelines.text.frames import Frame
from xmodels.tasks.answer_span.windows import Settings, Window, places

NOWHERE = -1  # the place of an answer that there is not


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer, `context[start:end]`, and how likely it is among the answers beside it. Without one: "", -1 and -1."""

    text: str
    start: int
    end: int
    score: float
    start_logit: float
    end_logit: float


@dataclasses.dataclass(frozen=True)
class Found:
    """What a question is answered.

    Attributes:
        answer: that with which the threshold ends up.
        n_best: the likeliest ones, the likeliest first; `score` is a softmax over them.
        null_score_diff: how much higher the score of having no answer is than that of the best answer.
    """

    answer: Answer
    n_best: list[Answer]
    null_score_diff: float

    def answer_at(self, threshold: float | None) -> Answer:
        """Returns the answer with which another threshold ends up; None names one wherever there is one."""
        return decide(self.n_best, self.null_score_diff, threshold)


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The spans of a window that may be the answer.

    Attributes:
        start_logits, end_logits: float64 (S,).
        starts, ends: int (S,), characters of the text.
        null_start, null_end: the numbers of having no answer.
    """

    start_logits: np.ndarray
    end_logits: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    null_start: float
    null_end: float


def candidates(
    window: Window, start_logits: np.ndarray, end_logits: np.ndarray, context: int, null: int, settings: Settings
) -> Candidates:
    """Returns the spans from one of the likeliest beginnings to one of the likeliest ends.

    Args:
        start_logits, end_logits: float (L,), of a row; -inf on padding.
        context, null: as `windows.places` gives them.
    """
    start_logits, end_logits = np.asarray(start_logits, np.float64), np.asarray(end_logits, np.float64)
    likely_starts, likely_ends = (
        np.argsort(-logits, kind="stable")[: settings.n_best_size] for logits in (start_logits, end_logits)
    )
    starts, ends = (x.ravel() for x in np.meshgrid(likely_starts, likely_ends, indexing="ij"))
    valid = can_be(starts - context, ends - context, window, settings)
    starts, ends = starts[valid], ends[valid]
    first, last = starts - context, ends - context
    return Candidates(
        start_logits[starts], end_logits[ends], window.spans[first, 0], window.spans[last, 1],
        float(start_logits[null]), float(end_logits[null]),
    )  # fmt: skip


def of_row(
    outputs: Mapping[str, np.ndarray], real: np.ndarray, window: Window, frame: Frame, settings: Settings
) -> Candidates:
    """Returns the same of what the network makes of a row.

    Args:
        outputs: start_logits and end_logits (L,).
        real: bool (L,), False on padding.
    """
    width = len(real)
    logits = (np.where(real, outputs[f"{name}_logits"][:width], -np.inf) for name in ("start", "end"))
    lengths = len(window.question_ids), len(window.context_ids)
    return candidates(window, *logits, *places(frame, *lengths, int(np.sum(~real)), settings.context_first), settings)


def can_be(first: np.ndarray, last: np.ndarray, window: Window, settings: Settings) -> np.ndarray:
    """Returns bool: where the tokens from `first` to `last`, of the text of a window, may be an answer that it shows best."""
    valid = (first >= 0) & (last < len(window.spans)) & (last >= first) & (last - first < settings.max_answer_length)
    return valid & window.most_context[np.where(valid, first, 0)] if len(window.spans) else valid & False


def find(text: str, found: Sequence[Candidates], settings: Settings) -> Found:
    """Returns the answer from the candidates of all windows of a text; equal texts count once."""
    start_logits, end_logits, starts, ends = (
        np.concatenate([getattr(each, name) for each in found])
        for name in ("start_logits", "end_logits", "starts", "ends")
    )
    null = min(found, key=lambda each: each.null_start + each.null_end)
    with_null = settings.null_score_diff_threshold is not None
    if with_null and not settings.null_alone:  # behind the others, as ties are settled by order
        start_logits, end_logits = np.append(start_logits, null.null_start), np.append(end_logits, null.null_end)
        starts, ends = np.append(starts, NOWHERE), np.append(ends, NOWHERE)
    listed: dict[str, tuple] = {}
    for place in np.argsort(-(start_logits + end_logits), kind="stable"):
        if len(listed) >= settings.n_best_size:
            break
        first, end = int(starts[place]), int(ends[place])
        words = "" if first == NOWHERE else text[first:end]
        listed.setdefault(words, (first, end, float(start_logits[place]), float(end_logits[place])))
    nothing = NOWHERE, NOWHERE, null.null_start, null.null_end
    if with_null or not listed:
        listed.setdefault("", nothing)
    scores = probabilities(np.array([a + b for _, _, a, b in listed.values()]), list(listed), settings)
    n_best = [
        Answer(words, first, end, float(score), a, b)
        for (words, (first, end, a, b)), score in zip(listed.items(), scores, strict=True)
    ]
    best = next((each for each in n_best if each.text), None)
    rival = 0.0 if best is None or settings.null_alone else best.start_logit + best.end_logit
    difference = math.inf if best is None else null.null_start + null.null_end - rival
    return Found(decide(n_best, difference, settings.null_score_diff_threshold), n_best, difference)


def probabilities(totals: np.ndarray, texts: Sequence[str], settings: Settings) -> np.ndarray:
    """Returns a softmax of the scores of answers. Where having none is scored alone, that is a logit, and the others share the
    rest."""
    alone = np.array([settings.null_alone and not text for text in texts])
    if alone.all():
        return np.ones(len(totals))
    spans = np.where(alone, -np.inf, totals)
    scores = np.exp(spans - spans.max())
    scores /= scores.sum()
    if not alone.any():
        return scores
    silent = 1 / (1 + np.exp(-totals[alone][0]))
    return np.where(alone, silent, (1 - silent) * scores)


def decide(n_best: list[Answer], null_score_diff: float, threshold: float | None) -> Answer:
    """Returns the likeliest answer, or that of having none where its score is higher by more than the threshold."""
    best = next((each for each in n_best if each.text), None)
    if best is None or (threshold is not None and null_score_diff > threshold):
        return next(each for each in n_best if not each.text)
    return best
