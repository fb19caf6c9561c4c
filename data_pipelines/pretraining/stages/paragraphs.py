"""Stage: documents -> paragraphs of whole sentences in two parts, each with a text from farther away; for ERNIE 2.0."""

import random
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from data_pipelines.pretraining.stages.blocks import Block, blocks
from data_pipelines.pretraining.stages.example import Examples
from data_pipelines.pretraining.stages.pipe import Stage
from data_pipelines.pretraining.stages.sentences import gather
from data_pipelines.pretraining.stages.tokenize import MARKS, REPEATABLE, REPEATED, WORDLIKE, ids_of

SAME_DOCUMENT, OTHER_DOCUMENT = 1, 2
Span = tuple[int, int]


def paragraphs(max_sequence_length: int, num_passes: int, rng: random.Random) -> Stage:
    """Returns three segments: A and B, which are whole sentences side by side, and C, which may stand in place of B.

    All tasks of ERNIE 2.0 that plain text can give learn from these (Sun et al., 2020, arXiv 1907.12412, section 3.2). A and B,
    or A and C, fit with `[CLS]` and two `[SEP]`. B is empty where a paragraph is one sentence. C is from the same document
    and stands beside A nowhere (`distance_labels` 1), or from another one (2): equally often, where documents are long enough.

    Marks: sentence_start; REPEATED where a piece with letters or digits stands in another paragraph of its document too, REPEATABLE
    where the document has another one.
    """
    capacity = max_sequence_length - 3

    def stage(documents):
        counts = {SAME_DOCUMENT: 0, OTHER_DOCUMENT: 0}
        for block in blocks(documents):
            marked, found, labels = block.marked.copy(), [], []
            for index, bounds in enumerate(block.documents):
                runs = list(gather(bounds, capacity))
                _mark(marked, bounds, runs)
                for run in num_passes * runs:
                    first, second = _split(run, bounds, rng)
                    room = capacity - (first[1] - first[0])
                    elsewhere, label = _elsewhere(block, index, first, run, room, counts, rng)
                    counts[label] += second[1] > second[0]  # only then the pair is asked about
                    found.append((first, second, elsewhere))
                    labels.append(label)
            yield Examples.of(marked, found, {"distance_labels": labels}, 3)

    return stage


def _mark(marked: np.ndarray, bounds: list[int], runs: list[Span]) -> None:
    """Sets the marks of one document, in place."""
    marked[bounds[:-1]] |= MARKS["sentence_start"]
    if len(runs) < 2:
        return
    begin, end = bounds[0], bounds[-1]
    of_document, numbers = np.unique(ids_of(marked[begin:end]), return_inverse=True)
    total = np.bincount(numbers, minlength=len(of_document))
    for start, stop in runs:
        own = numbers[start - begin : stop - begin]
        repeated = (total - np.bincount(own, minlength=len(total)))[own] > 0
        piece = marked[start:stop]
        piece |= np.where(piece & WORDLIKE > 0, REPEATABLE | REPEATED * repeated, 0).astype(np.int32)


def _split(run: Span, bounds: list[int], rng: random.Random) -> tuple[Span, Span]:
    """Returns a run in two parts, at the end of a sentence that is drawn; the second is empty where there is one sentence only."""
    begin, end = run
    inner = bounds[bisect_left(bounds, begin + 1) : bisect_left(bounds, end)]
    middle = rng.choice(inner) if inner else end
    return (begin, middle), (middle, end)


def _elsewhere(
    block: Block, index: int, first: Span, run: Span, room: int, counts: dict[int, int], rng: random.Random
) -> tuple[Span, int]:
    """Returns a text of up to `room` pieces that does not stand beside `first`, and its label."""
    bounds = block.documents[index]
    near = list(_distant(bounds, first, run))
    wanted = SAME_DOCUMENT if counts[SAME_DOCUMENT] < counts[OTHER_DOCUMENT] else OTHER_DOCUMENT
    if counts[SAME_DOCUMENT] == counts[OTHER_DOCUMENT]:
        wanted = rng.choice((SAME_DOCUMENT, OTHER_DOCUMENT))
    if near and (wanted == SAME_DOCUMENT or len(block.documents) == 1):
        start, last = rng.choice(near)
        return _sentences(bounds, start, last, room), SAME_DOCUMENT
    if len(block.documents) == 1:
        return (first[0], first[0]), OTHER_DOCUMENT  # there is nothing else
    bounds = block.another_document(index, rng)
    start = rng.randrange(len(bounds) - 1)
    return _sentences(bounds, start, len(bounds) - 1, room), OTHER_DOCUMENT


def _distant(bounds: list[int], first: Span, run: Span) -> Iterator[tuple[int, int]]:
    """Yields (sentence at which a text may begin, sentence before which it must end) of texts beside which `first` does not
    stand."""
    last = len(bounds) - 1
    end = bisect_left(bounds, run[1]) + (run[1] == first[1])  # where the run is one part, what follows touches it
    yield from ((start, last) for start in range(end, last))
    before = bisect_left(bounds, first[0]) - 1
    yield from ((start, before) for start in range(before))


def _sentences(bounds: list[int], start: int, last: int, room: int) -> Span:
    """Returns whole sentences from `start` on, at most to the bound `last`; one that is too long is cut."""
    begin, stop = bounds[start], start + 1
    while stop < last and bounds[stop + 1] - begin <= room:
        stop += 1
    return begin, min(bounds[stop], begin + room)
