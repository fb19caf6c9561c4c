"""Whether the vocabulary of a checkpoint is that of the records."""

from data_pipelines.errors import UsageError
from data_pipelines.text.vocabulary import first_difference
from xmodels.models.checkpoint import Checkpoint


def check_vocabulary(loaded: Checkpoint, source: str, size: int, tokens: list[str] | None) -> None:
    """Raises a UsageError where a checkpoint has another vocabulary than the records, or its tokens in another order.

    Args:
        source: the flag that names the checkpoint, `--NAME=VALUE`.
        size: pieces of the vocabulary of the records.
        tokens: these, in order of their ids; None where they are not known.
    """
    if loaded.config.vocabulary_size != size:
        raise UsageError(
            f"{source}: its vocabulary has {loaded.config.vocabulary_size} pieces, that of the records {size}. Make the records with "
            "the vocabulary of the checkpoint."
        )
    known = tokens_of(loaded)
    place = first_difference(known, tokens) if known and tokens else None
    if place is None:
        return
    raise UsageError(
        f"{source}: its vocabulary has as many pieces as that of the records, but others or in another order: "
        f"id {place} is {known[place : place + 1]} there, {tokens[place : place + 1]} here. "
        "Make the records with the vocabulary of the checkpoint."
    )


def tokens_of(loaded: Checkpoint) -> list[str] | None:
    """Returns the tokens of a checkpoint's vocabulary, in order of their ids; None where it has none."""
    return loaded.tokenizer.open().vocabulary.tokens if loaded.tokenizer else None
