"""Perplexity and bits per character of a loss in nats."""

import math
from collections.abc import Mapping

NEXT_TOKEN = (
    "causal_lm",
    "adaptive_lm",
    "untied_lm",
    "bidirectional_lm",
)  # losses of next-token prediction, in nats per token
WORDS = "words", "word_characters"  # kinds of tokenizers whose tokens are words


def perplexity(loss: float, count: int) -> float | None:
    """Returns exp(loss / count) for a summed `loss`; None if `count` is 0 or the mean is 700 or more, where exp overflows."""
    return math.exp(loss / count) if count and loss / count < 700 else None


def of_training(means: Mapping[str, float], kind: str) -> dict[str, float]:
    """Returns the perplexity or the bits per character of next-token prediction; {} for other losses.

    Args:
        means: the mean losses and metrics of an evaluation. The loss of next tokens is used, without costs that layers add.
        kind: of the tokenizer. "characters" gives `bits_per_character`, "words" and "word_characters" give `word_perplexity`, and any
            other `token_perplexity`.
    """
    loss = next((means[name] for name in NEXT_TOKEN if name in means), None)
    if loss is None:
        return {}
    if kind == "characters":
        return {"bits_per_character": loss / math.log(2)}
    value = perplexity(loss, 1)
    return {} if value is None else {"word_perplexity" if kind in WORDS else "token_perplexity": value}
