"""How texts leave a network that generates: where they begin and end, and what turns states into tokens."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data_pipelines.text.vocabulary import EOS, PAD, SEP, Vocabulary
from xmodels.interfaces.reading import BERT_NUMBERS
from xmodels.objectives.base import Objective


@dataclasses.dataclass(frozen=True)
class Writing:
    """How a system writes text, token by token.

    Attributes:
        objective: configuration of the network -> an objective with `logits(states (..., D), backbone) -> (..., V)`, whose
            weights stand in the model folder.
        task: the folder of `xmodels/tasks` whose `answer` generates: `language_model` continues a prompt, `translate` writes the
            target of a source.
        start: of a target: the role of the token that the decoder reads first.
        end: the roles of the token that ends a text; the first that a vocabulary has.
        opening: the role of the token with which sources and targets begin; None for none.
        opens_targets: whether targets begin with it too.
        hidden: the role of the token that stands where the next one is written, in networks that name it there; None for others.
        one_row: whether source and target share the positions of the network.
        ranked: whether beam search is that of `decoding.ranked_beam`.
        forces_end: whether a target that may not be longer is ended.
        num_beams, length_penalty: of an exported beam search, where nothing else is asked for.
        numbers: flags of `finetune --task=translate` and what holds where they are not given.
    """

    objective: Callable[[Any], Objective]
    task: str = "language_model"
    start: str = PAD
    end: tuple[str, ...] = (EOS, SEP)
    opening: str | None = None
    opens_targets: bool = True
    hidden: str | None = None
    one_row: bool = False
    ranked: bool = False
    forces_end: bool = False
    num_beams: int = 4
    length_penalty: float = 0.6
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=lambda: dict(BERT_NUMBERS))

    def start_id(self, vocabulary: Vocabulary) -> int:
        """The token that the decoder reads first."""
        return vocabulary[self.start]

    def end_id(self, vocabulary: Vocabulary) -> int:
        """The token that ends a text."""
        return vocabulary[next((role for role in self.end if role in vocabulary), self.end[-1])]

    def opening_ids(self, vocabulary: Vocabulary, of_target: bool = False) -> list[int]:
        """What stands before a source, or a target: one token or none."""
        return [vocabulary[self.opening]] if self.opening and (self.opens_targets or not of_target) else []

    def framed(self, ids: Sequence[int], vocabulary: Vocabulary, longest: int, of_target: bool = False) -> list[int]:
        """A source, or a target, with the tokens around it; one that would be longer than `longest` loses its end."""
        opening = self.opening_ids(vocabulary, of_target)
        return [*opening, *ids[: longest - len(opening) - 1], self.end_id(vocabulary)]
