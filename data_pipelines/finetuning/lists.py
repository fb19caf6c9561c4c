"""Records of several sequences, (N, L)."""

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from data_pipelines.features import Feature
from data_pipelines.finetuning.shown import pair
from data_pipelines.finetuning.task import Row, Task, count_tokens
from data_pipelines.text.framing import max_text_tokens

Texts = Sequence[Sequence[int]]  # the ids of one text or of two


class Lists(Task):
    """Examples of several sequences, each of one text or of two."""

    texts_are_counted = True

    def features(self, size):
        return {
            "token_ids": Feature((size, self.settings.max_seq_length)),
            "segment_lengths": Feature((size, 2)),
            "example_ids": Feature(()),
        }

    def capacity(self, num_texts: int) -> int:
        """Returns the ids for which a sequence of so many texts has room."""
        return max_text_tokens(num_texts, self.settings.max_seq_length)

    def rows(self, sequences: Sequence[Texts], size: int, tokenizer, counts: Counter) -> Row:
        """Returns the ids of sequences as the rows of a record, padded with empty rows up to `size`."""
        token_ids, lengths = np.zeros((size, self.settings.max_seq_length), np.int64), np.zeros((size, 2), np.int64)
        for row, texts in enumerate(sequences):
            ids = list(itertools.chain(*texts))
            token_ids[row, : len(ids)] = ids
            lengths[row, : len(texts)] = [len(text) for text in texts]
            counts.update(texts=1, example_tokens=len(ids) + 1 + len(texts))
            count_tokens(ids, tokenizer, counts)
        return {"token_ids": token_ids, "segment_lengths": lengths}

    def is_left_out(self, any_cut: bool, counts: Counter) -> bool:
        """Counts an example, and says whether it is left out, since a text of it was cut."""
        counts["cut_examples"] += any_cut
        if any_cut and self.leaves_out_long:
            counts["left_out_long"] += 1
            return True
        return False

    @classmethod
    def mark(cls, record: Mapping[str, np.ndarray], row: int) -> str:
        """Returns what is shown before a sequence; by default whether it is the right one."""
        return "  *" if row == record["labels"] else "  -"

    @classmethod
    def render(cls, record, tokens, labels):
        rows = list(zip(record["token_ids"], record["segment_lengths"], strict=True))
        shown = [(row, pair(ids, lengths, tokens)) for row, (ids, lengths) in enumerate(rows) if lengths.any()]
        return "\n".join(f"{cls.mark(record, row)} {text}" for row, text in shown)


def parts(labels: Sequence[float], size: int, sample_by: str | None) -> list[list[int]]:
    """Returns the places of the candidates of each row of a list.

    A list that is too long becomes several rows; or one, with the relevant candidates first and others drawn at random.

    Args:
        sample_by: what the draw depends on; None makes several rows.
    """
    every = list(range(len(labels)))
    if len(every) <= size:
        return [every]
    if sample_by is None:
        return [every[first : first + size] for first in range(0, len(every), size)]
    rng = random.Random(sample_by)
    order = sorted(every, key=lambda place: (-labels[place], rng.random()))
    relevant = sum(label > 0 for label in labels)
    kept = order[: min(relevant, size - 1)] if relevant < len(every) else order[:size]
    return [sorted(kept + order[max(relevant, len(kept)) :][: size - len(kept)])]
