"""Mixes documents of several sources so that each gives its share of the text."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from data_pipelines.corpora.documents import Document


def mix(
    openers: Sequence[Callable[[bool], Iterator[Document]]],
    weights: Sequence[float],
    when_exhausted: str,
    counts: Counter,
) -> Iterator[Document]:
    """Yields the next document always comes from the source that is farthest behind its share of the bytes of text so far.

    So nothing is drawn at random, and after every document the shares differ from the weights by less than a document.

    Args:
        openers: for each source, a function that reads it from its beginning; its argument is True for the first time.
        weights: positive; only their ratios matter.
        when_exhausted: "repeat" reads a source again until each has been read whole at least once; "stop" ends at the
            end of the first.
        counts: gains for source i `mixture_i_documents`, `mixture_i_bytes` and `mixture_i_bytes_once`, the bytes
            without repetition.
    """
    readers = [opener(True) for opener in openers]
    given = [0] * len(readers)
    once: set[int] = set()  # sources that have been read whole
    alive = list(range(len(readers)))  # a source without any text takes no part
    while alive:
        index = min(alive, key=lambda i: given[i] / weights[i])
        document = next(readers[index], None)
        if document is None:
            if not given[index]:
                alive.remove(index)
                continue
            once.add(index)
            if when_exhausted == "stop" or all(i in once for i in alive):
                return
            readers[index] = openers[index](False)
            continue
        size = sum(len(sentence.encode()) for sentence in document.sentences)
        given[index] += size
        counts[f"mixture_{index}_documents"] += 1
        counts[f"mixture_{index}_bytes"] += size
        if index not in once:
            counts[f"mixture_{index}_bytes_once"] += size
        yield document
