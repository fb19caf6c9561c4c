"""What the comparison of Transformer-XL and a vanilla Transformer has found, as a table, a picture and verdicts."""

import dataclasses

import numpy as np

from benchmarks.reproductions.stream_models import Text


@dataclasses.dataclass(frozen=True)
class Found:
    """Of one text. All losses are means in nats of a token.

    Attributes:
        vocabulary_size, steps, train_tokens, test_tokens, unknown_share: the last of the tested tokens.
        parameters: of the Transformer-XL and of the vanilla one.
        memory: by the length of the memory in segments, and whether distances beyond those of training are clamped.
        places: of the Transformer-XL with the memory of its training, by place in a segment.
        vanilla: by the length of its segments, in those of the Transformer-XL: in segments, and in windows that slide.
        vanilla_places: of the vanilla network of one length, in segments, by place.
    """

    text: Text
    vocabulary_size: int
    steps: int
    train_tokens: int
    test_tokens: int
    unknown_share: float
    parameters: list[int]
    memory: dict[tuple[int, bool], float]
    places: np.ndarray
    vanilla: dict[int, tuple[float, float]]
    vanilla_places: np.ndarray


def draw(found, fast, length, path):
    print(found, fast)


def report(found, fast, options, environment, picture):
    return str(found) + str(fast)
