"""How texts are continued: temperature, top-k, top-p, beams, penalties."""

import dataclasses
from collections.abc import Callable

from xmodels.decoding import filters
from xmodels.decoding.sampling import greedy, sample


@dataclasses.dataclass(frozen=True)
class Decoding:
    """Settings of a continuation.

    Attributes:
        temperature: 0 takes the likeliest token; otherwise logits are divided by it and a token is drawn.
        top_k: draw from the k likeliest tokens; 0 for all.
        top_p: draw from the likeliest tokens that have this probability together; 1 for all.
        repetition_penalty: above 1, tokens of the text so far get less likely.
        no_repeat_ngram_size: no run of so many tokens comes twice; 0 for no such rule.
        num_beams: above 1, beam search instead of drawing.
        length_penalty: of beam search, `alpha` of ((5 + length) / 6) ** alpha; where beams are ranked, the power of the length.
        forbidden: ids that are never taken.
        min_new_tokens: a target does not end before it has so many tokens.
        ranked: whether beam search is that of `ranked_beam`, as BART's, and not that of `beam`.
        early_stopping: of ranked beams; see there.
        first_id: the token with which each target begins, behind the one that the decoder reads first; None for any.
        forces_end: whether a target that may not be longer gets the token that ends it as its last one.

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
        """The same, where these ids are never taken either."""
        return dataclasses.replace(self, forbidden=(*self.forbidden, *token_ids))

    def target_filters(self, limits, end_id: int) -> list[Callable]:
        """`filters`, and what holds for targets.

        Args:
            limits: int (B,), most tokens of each target, with its end token.
        """
        found = self.filters()
        if self.min_new_tokens:
            found.append(filters.not_before(self.min_new_tokens + 1, end_id))
        if self.first_id is not None:
            found.append(filters.begin_with(1, self.first_id))
        if self.forces_end:
            found.append(filters.end_after(limits, end_id))
        return found

    def filters(self) -> list[Callable]:
        """Control of repetition first, then temperature, then what is left to draw from (as Hugging Face orders them)."""
        found = [filters.forbid(self.forbidden)] if self.forbidden else []
        if self.repetition_penalty != 1:
            found.append(filters.repetition_penalty(self.repetition_penalty))
        if self.no_repeat_ngram_size:
            found.append(filters.no_repeated_ngrams(self.no_repeat_ngram_size))
        if not self.temperature:
            return found
        if self.temperature != 1:
            found.append(filters.temperature(self.temperature))
        if self.top_k:
            found.append(filters.top_k(self.top_k))
        if self.top_p < 1:
            found.append(filters.top_p(self.top_p))
        return found

    def pick(self, seed) -> Callable:
        """The function that takes a token; `seed` is two integers."""
        return sample(seed) if self.temperature else greedy
