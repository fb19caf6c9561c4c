"""What a loss in nats means: perplexities and bits."""

import math
from collections.abc import Mapping

NEXT_TOKEN = ("causal_lm", "adaptive_lm", "untied_lm")  # losses in nats a token, of networks that name the next one


def perplexity(loss: float, count: int) -> float | None:
    """exp of the mean of a sum over `count`."""
    return math.exp(loss / count) if count and loss / count < 700 else None


def of_training(means: Mapping[str, float], kind: str) -> dict[str, float]:
    """What the loss of a network that names the next token means, by the kind of its tokens; nothing for other losses.

    Args:
        means: of an evaluation; only its `loss` and names are looked at.
        kind: of the tokenizer.
    """
    if not means.keys() & set(NEXT_TOKEN):
        return {}
    if kind == "characters":
        return {"bits_per_character": means["loss"] / math.log(2)}
    value = perplexity(means["loss"], 1)
    return {} if value is None else {"word_perplexity" if kind == "words" else "token_perplexity": value}
