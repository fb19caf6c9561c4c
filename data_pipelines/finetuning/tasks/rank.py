"""Candidates of a query by their relevance.

Each candidate is framed with what it answers.
"""

from data_pipelines.corpora.labelled import RawExample, broken_examples
from data_pipelines.corpora.rankings import RankedList, read_rankings
from data_pipelines.features import Feature
from data_pipelines.finetuning.lists import Lists, parts
from data_pipelines.finetuning.task import cut


class Rank(Lists):
    """Candidates of a query with their relevance."""

    name = "rank"
    own_flags = ("relevant_label",)

    def examples(self, path):
        bad_rows = self.bad_rows()
        for ranked in read_rankings(path, self.settings.columns(), bad_rows, self.settings.relevant_label):
            problem = self._problem(ranked)
            value = {"query": ranked.query, "candidates": ranked.candidates, "labels": ranked.labels}
            yield RawExample(ranked.place, value, ranked.id, problem)
        yield from broken_examples(bad_rows)

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
                pairs = zip(queries, candidates, strict=True)
                kept = [cut(*pair, self.capacity(2), counts) for pair in pairs]  # (first, second, whether one was cut)
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
        """Returns the places of the candidates of each record of a list."""
        sample_by = None if self.settings.long_lists == "split" else f"{self.settings.random_seed} {index}"
        return parts([float(label) for label in labels], size, sample_by)

    def record_size(self, size):
        return self.settings.list_size or size

    @classmethod
    def describe(cls, settings, number, share):
        return [
            f"  lists {number('lists'):,} · without a relevant candidate {share('lists_without_relevant', 'lists')}"
            f" · of one candidate {share('lists_of_one_candidate', 'lists')}"
        ]

    @classmethod
    def mark(cls, record, row):
        return f"  {record['labels'][row]:g}"
