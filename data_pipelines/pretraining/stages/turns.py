"""Stages: dialogues and parallel texts -> examples."""

import random

from data_pipelines.pretraining.stages.blocks import blocks
from data_pipelines.pretraining.stages.example import Examples
from data_pipelines.pretraining.stages.pipe import Stage

TURNS = 3  # of a dialogue, at most, in one example


def dialogue(max_sequence_length: int, num_passes: int, rng: random.Random) -> Stage:
    """Returns two or three turns in a row of a dialogue; in half of the examples one turn comes from another dialogue.

    For the dialogue language model of ERNIE 1.0 (Sun et al., 2019, arXiv 1904.09223, section 3.3.2). Each example holds
    three segments, `[CLS] Q [SEP] R [SEP] Q [SEP]` or `[CLS] R [SEP] Q [SEP] R [SEP]`, of which the last may be empty;
    `dialogue_labels` is 1 where all are real, and `first_role` is 1 where the first turn is one of the speaker who answers: the
    one who did not begin the dialogue. The longest turn is shortened at its end until they fit.
    """

    def stage(documents):
        for block in blocks(documents):
            rng.shuffle(block.documents)
            found, labels, roles = [], [], []
            for _ in range(num_passes):
                for index, bounds in enumerate(block.documents):
                    turns = list(zip(bounds, bounds[1:], strict=False))
                    start = 0
                    while start + 2 <= len(turns):
                        size = min(rng.choice((2, TURNS)), len(turns) - start)
                        chosen = turns[start : start + size]
                        is_real = rng.random() < 0.5 or len(block.documents) == 1
                        if not is_real:
                            other = block.another_document(index, rng)
                            place = rng.randrange(len(other) - 1)
                            chosen[rng.randrange(size)] = other[place], other[place + 1]
                        found.append(_fitted(chosen, max_sequence_length - 1 - size))
                        labels.append(int(is_real))
                        roles.append(start % 2)
                        start += size
            yield Examples.of(block.marked, found, {"dialogue_labels": labels, "first_role": roles}, TURNS)

    return stage


def _fitted(turns: list[tuple[int, int]], capacity: int) -> list[tuple[int, int]]:
    sizes = [end - begin for begin, end in turns]
    while sum(sizes) > capacity:
        longest = sizes.index(max(sizes))
        sizes[longest] -= 1
    fitted = [(begin, begin + size) for (begin, _), size in zip(turns, sizes, strict=True)]
    return fitted + [(0, 0)] * (TURNS - len(fitted))


def parallel(max_sequence_length: int) -> Stage:
    """Returns a text and its translation, in the order of the corpus.

    A pair of which either side has more than `max_sequence_length` - 1 pieces, one place being kept for the end token, is
    dropped: a shortened translation would teach to stop early (as in fairseq and tensor2tensor). So is one of which a
    side gives no pieces.
    """

    def stage(documents):
        for block in blocks(documents):
            found = []
            for bounds in block.documents:
                if len(bounds) == 3 and max(bounds[1] - bounds[0], bounds[2] - bounds[1]) < max_sequence_length:
                    found.append([(bounds[0], bounds[1]), (bounds[1], bounds[2])])
            yield Examples.of(block.marked, found, {}, 2)

    return stage
