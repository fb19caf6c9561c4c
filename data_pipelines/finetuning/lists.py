"""Records of several sequences, (N, L); and texts to rank, each framed with what it answers."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np

from data_pipelines.corpora.labelled import RawExample, broken
from data_pipelines.corpora.rankings import RankedList, read_rankings
from data_pipelines.features import Feature
from data_pipelines.finetuning.task import Row, Task, count_tokens, cut
from data_pipelines.text.framing import max_text_tokens

Texts = Sequence[Sequence[int]]  # the ids of one text or of two


class Lists(Task):
    """Examples of several sequences, each of one text or of two."""

    def features(self, size):
        return {
            "token_ids": Feature((size, self.settings.max_seq_length)),
            "segment_lengths": Feature((size, 2)),
            "example_ids": Feature(()),
        }

    def capacity(self, num_texts: int) -> int:
        """The ids for which a sequence of so many texts has room."""
        return max_text_tokens(num_texts, self.settings.max_seq_length)

    def rows(self, sequences: Sequence[Texts], size: int, tokenizer, counts: Counter) -> Row:
        """The ids of sequences as the rows of a record, padded with empty rows up to `size`."""
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


class Rank(Lists):
    """Candidates of a query with their relevance."""

    name = "rank"

    def examples(self, path):
        bad_rows = self.bad_rows()
        for ranked in read_rankings(path, self.settings.columns(), bad_rows, self.settings.relevant_label):
            problem = self._problem(ranked)
            value = {"query": ranked.query, "candidates": ranked.candidates, "labels": ranked.labels}
            yield RawExample(ranked.place, value, ranked.id, problem)
        yield from broken(bad_rows)

    def _problem(self, ranked: RankedList) -> str | None:
        if not ranked.query.strip() or any(not text.strip() for text in ranked.candidates):
            return "empty text: the query or a candidate says nothing"
        if not ranked.candidates:
            return "no candidates: give at least one"
        for label in ranked.labels:
            if not label.replace(".", "", 1).isdigit():
                return (
                    f"no relevance: {label!r}, expected a number from 0 (not relevant). Name its column with --label_column, or "
                    "where labels are names the one that means relevant, such as --relevant_label=entailment"
                )
        return None

    def labels_of(self, value):
        return value["labels"]

    def size_of(self, value):
        return len(value["candidates"])

    def features(self, size):
        return {
            **super().features(size),
            "labels": Feature((size,), "float32"),
            "label_weights": Feature((size,), "float32"),
            "candidate_ids": Feature((size,)),
        }

    def encode(self, indices, values, tokenizer, size, counts):
        for index, value in zip(indices, values, strict=True):
            counts["lists"] += 1
            counts["lists_of_one_candidate"] += len(value["labels"]) == 1
            counts["lists_without_relevant"] += not any(float(label) for label in value["labels"])
            for places in self._records(index, value["labels"], size):
                queries = tokenizer.encode_batch([value["query"]] * len(places))
                candidates = tokenizer.encode_batch([value["candidates"][place] for place in places])
                kept = [
                    cut(*pair, self.capacity(2), counts) for pair in zip(queries, candidates, strict=True)
                ]  # (first, second, whether one was cut)
                row = self.rows([texts for *texts, _ in kept], size, tokenizer, counts)
                if self.is_left_out(any(is_cut for *_, is_cut in kept), counts):
                    continue
                nothing = [0] * (size - len(places))
                labels = [float(value["labels"][place]) for place in places]
                yield {
                    **row,
                    "labels": labels + nothing,
                    "label_weights": [1] * len(places) + nothing,
                    "candidate_ids": places + nothing,
                    "example_ids": [index],
                }

    def _records(self, index: int, labels: list[str], size: int) -> list[list[int]]:
        """The places of the candidates of each record of a list."""
        sample_by = None if self.settings.long_lists == "split" else f"{self.settings.random_seed} {index}"
        return parts([float(label) for label in labels], size, sample_by)


def parts(labels: Sequence[float], size: int, sample_by: str | None) -> list[list[int]]:
    """The places of the candidates of each row of a list.

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
