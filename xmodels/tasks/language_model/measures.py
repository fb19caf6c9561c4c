"""What a negative log-likelihood says of a text: perplexities and bits."""

import math

from data_pipelines.batches.running_text import RunningText
from xmodels.objectives.perplexity import perplexity


def of_text(loss: float, text: RunningText, words: int) -> dict[str, float | None]:
    """Returns both from the sum of -log p in nats; None where there is nothing to divide by, or too large a number to write."""
    bits = loss / math.log(2)
    return {
        "nll": loss,
        "token_perplexity": perplexity(loss, len(text.ids) - 1),
        "word_perplexity": perplexity(loss, words),
        "bits_per_byte": bits / text.bytes,
        "bits_per_character": bits / text.characters,
    }
