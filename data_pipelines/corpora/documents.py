"""What the readers of raw text give to the stages, and the stages to one another."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Document:
    """Sentences that belong together, in order.

    Attributes:
        sentences: the text of each sentence; never empty strings.
        source: file and byte offset where the document begins, for messages.
    """

    sentences: list[str]
    source: str
