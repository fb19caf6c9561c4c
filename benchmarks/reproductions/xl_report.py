"""The page and the picture of what was found about Transformer-XL and a vanilla Transformer."""

import dataclasses

from benchmarks.reproductions.stream_models import Text


@dataclasses.dataclass(frozen=True)
class Found:
    """Of one text. Scores are those of `stream_scores`.

    Attributes:
        unknown_share: of the tested tokens.
        parameters: of the Transformer-XL and of the vanilla one.
        memory: by the length of the memory in segments, and whether distances beyond those of training are clamped.
        vanilla: by the length of its segments, in those of the Transformer-XL: in segments, and in windows that slide.
    """

    text: Text
    vocabulary_size: int
    steps: int
    train_tokens: int
    test_tokens: int
    unknown_share: float
    parameters: list[int]
    memory: dict[tuple[int, bool], dict]
    vanilla: dict[int, tuple[dict, dict]]


def report(found, fast, options, folder):
    return str(found)
