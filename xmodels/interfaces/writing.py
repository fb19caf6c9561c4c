"""How a network generates texts: the tokens around them, and the objective that computes logits from states."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data_pipelines.errors import CheckpointError
from data_pipelines.text.frames import Frame
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import EOS, PAD, SEP, Vocabulary
from xmodels.interfaces.reading import BERT_NUMBERS
from xmodels.objectives.base import Objective


@dataclasses.dataclass(frozen=True)
class Writing:
    """How a system generates text, token by token.

    Attributes:
        objective: configuration of the network -> an objective with `logits(states (..., D), backbone) -> (..., V)`, whose
            weights are in the model folder.
        task: the folder of `xmodels/tasks` whose `answer` generates: `language_model` continues a prompt, `translate` generates
            the target of a source.
        start: the role of the first token that the decoder reads; None for the token that ends a text.
        end: roles of the token that ends a text; the first one that the vocabulary has is used.
        opening: the role of the token with which sources and targets begin; None for none.
        opens_targets: whether targets begin with it too.
        first: the token with which targets begin instead, where a folder forces another one.
        hidden: the role of the mask token, for networks that predict the next token at a mask; None for others.
        one_row: whether source and target share the positions of the network.
        ranked: whether beam search is `decoding.ranked_beam` instead of `decoding.beam`.
        forces_end: whether a target that reaches its maximal length ends with the end token.
        num_beams, length_penalty: defaults of an exported beam search.
        numbers: {flag of `finetune --task=translate`: default}.
    """

    objective: Callable[[Any], Objective]
    task: str = "language_model"
    start: str | None = PAD
    end: tuple[str, ...] = (EOS, SEP)
    opening: str | None = None
    opens_targets: bool = True
    first: str | None = None
    hidden: str | None = None
    one_row: bool = False
    ranked: bool = False
    forces_end: bool = False
    num_beams: int = 4
    length_penalty: float = 0.6
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=lambda: dict(BERT_NUMBERS))

    @property
    def models_language(self) -> bool:
        """Whether `objective` predicts each token of a plain text from those before it, as the auxiliary loss of a task does."""
        return self.task == "language_model" and self.hidden is None and not self.one_row

    def start_id(self, vocabulary: Vocabulary) -> int:
        """Returns the id of the first token that the decoder reads."""
        return self.end_id(vocabulary) if self.start is None else vocabulary[self.start]

    def end_id(self, vocabulary: Vocabulary) -> int:
        """Returns the id of the token that ends a text."""
        return vocabulary[next((role for role in self.end if role in vocabulary), self.end[-1])]

    def opening_ids(self, vocabulary: Vocabulary, of_target: bool = False) -> list[int]:
        """Returns the ids before a source, or a target: one or none."""
        return [vocabulary[self.opening]] if self.opening and (self.opens_targets or not of_target) else []

    def first_id(self, vocabulary: Vocabulary) -> int | None:
        """Returns the id of the token with which each generated text begins; None for any."""
        if self.first is not None:
            return vocabulary.ids[self.first]
        return next(iter(self.opening_ids(vocabulary, of_target=True)), None)

    def as_told(self, decoder_ids: Mapping[str, int | None], vocabulary: Vocabulary) -> "Writing":
        """Returns how a folder of Hugging Face generates text, given its `Checkpoint.decoder_ids`.

        Raises:
            CheckpointError: one is the id of no token.
        """
        if not decoder_ids:
            return self
        for key, value in decoder_ids.items():
            if value is not None and value >= len(vocabulary):
                raise CheckpointError(f"{vocabulary.source}: `{key}` {value} is a row without a token.")
        start, first, end = (
            decoder_ids[key] for key in ("decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id")
        )
        tokens = vocabulary.tokens
        return dataclasses.replace(
            self, start=self.start if start is None else tokens[start], opens_targets=first is not None,
            first=None if first is None else tokens[first], forces_end=end is not None,
        )  # fmt: skip

    def with_frame_of(self, tokenizer: Tokenizer) -> "Writing":
        """Returns a copy whose sources begin with the token that a tokenizer says itself stands before one text, if it says one.

        Targets do so where they did before: what a decoder begins with stands in the settings of a folder, not in its tokenizer.
        """
        if tokenizer.frame is None:
            return self
        before = list(itertools.takewhile(lambda part: part.text is None, Frame.of(tokenizer.frame).of_texts(1)))
        if len(before) != 1 or before[0].role == self.opening:
            return self
        opens_targets = self.opening is not None and self.opens_targets
        return dataclasses.replace(self, opening=before[0].role, opens_targets=opens_targets)

    def add_special_tokens(
        self, ids: Sequence[int], vocabulary: Vocabulary, longest: int, of_target: bool = False
    ) -> list[int]:
        """Returns the ids of a source, or a target, with the tokens around it, truncated to `longest` ids."""
        opening = self.opening_ids(vocabulary, of_target)
        return [*opening, *ids[: longest - len(opening) - 1], self.end_id(vocabulary)]
