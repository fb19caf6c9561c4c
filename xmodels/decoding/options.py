"""The settings of text generation: temperature, top-k, top-p, beams, penalties."""

import dataclasses
from collections.abc import Callable

from xmodels.decoding import filters
from xmodels.decoding.sampling import greedy, sample


@dataclasses.dataclass(frozen=True)
class Decoding:
    """Settings of text generation.

    Attributes:
        temperature: 0 for greedy decoding; otherwise logits are divided by it and a token is sampled.
        top_k: sample from the k most probable tokens; 0 for all.
        top_p: sample from the most probable tokens whose probabilities sum to this; 1 for all.
        repetition_penalty: above 1, tokens of the text so far become less probable.
        no_repeat_ngram_size: no n-gram of this size is repeated; 0 for no such rule.
        num_beams: above 1, beam search instead of sampling.
        length_penalty: of beam search, `alpha` of ((5 + length) / 6) ** alpha; if `ranked`, the power of the length.
        forbidden: ids that are never generated.
        min_new_tokens: a target does not end before it has so many tokens.
        ranked: whether beam search is `ranked_beam`, as for BART, instead of `beam`.
        early_stopping: of `ranked_beam_search`; see there.
        first_id: the forced first token of each target, after the one that the decoder reads first; None for any.
        forces_end: whether a target that reaches its maximal length ends with the end token.

    Raises:
        ValueError: a setting is out of bounds.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    num_beams: int = 1
    length_penalty: float = 0.6
    forbidden: tuple[int, ...] = ()
    min_new_tokens: int = 0
    ranked: bool = False
    early_stopping: bool | str = False
    first_id: int | None = None
    forces_end: bool = False

    def __post_init__(self):
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.top_k < 0 or self.repetition_penalty <= 0:
            raise ValueError(
                "Expected temperature >= 0, 0 < top_p <= 1, top_k >= 0 and repetition_penalty > 0. "
                f"Received: {self.temperature}, {self.top_p}, {self.top_k} and {self.repetition_penalty}."
            )

    def forbidding(self, token_ids: tuple[int, ...]) -> "Decoding":
        """Returns a copy in which these ids are never generated either."""
        return dataclasses.replace(self, forbidden=(*self.forbidden, *token_ids))

    def target_filters(self, limits, end_id: int) -> list[Callable]:
        """Returns `filters` and those that apply only to targets.

        Args:
            limits: int (B,), most tokens of each target, including its end token.
            end_id: the token that ends a target.
        """
        found = self._before_draws()
        if self.min_new_tokens:
            found.append(filters.not_before(self.min_new_tokens + 1, end_id))
        if self.first_id is not None:
            found.append(filters.begin_with(1, self.first_id))
        if self.forces_end:
            found.append(filters.end_after(limits, end_id))
        return found + self._of_draws()

    def filters(self) -> list[Callable]:
        """Returns the filters in Hugging Face's order: forbidden ids, repetition, temperature, top-k, top-p."""
        return self._before_draws() + self._of_draws()

    def _before_draws(self) -> list[Callable]:
        found = [filters.forbid(self.forbidden)] if self.forbidden else []
        if self.repetition_penalty != 1:
            found.append(filters.repetition_penalty(self.repetition_penalty))
        if self.no_repeat_ngram_size:
            found.append(filters.no_repeated_ngrams(self.no_repeat_ngram_size))
        return found

    def _of_draws(self) -> list[Callable]:
        """Returns those that leave a few tokens, so what forbids a token comes before them."""
        if not self.temperature:
            return []
        found = []
        if self.temperature != 1:
            found.append(filters.temperature(self.temperature))
        if self.top_k:
            found.append(filters.top_k(self.top_k))
        if self.top_p < 1:
            found.append(filters.top_p(self.top_p))
        return found

    def pick(self, seed) -> Callable:
        """Returns the function that chooses a token from logits, as `generate` takes it; `seed` is two integers."""
        return sample(seed) if self.temperature else greedy
