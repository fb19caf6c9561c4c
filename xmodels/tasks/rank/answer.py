"""Candidates of queries in the order of their scores."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from data_pipelines.corpora.rankings import RankedList
from data_pipelines.errors import UsageError
from data_pipelines.text.framing import pack_texts
from xmodels.tasks.base import answer
from xmodels.tasks.rank.read import unlabelled
from xmodels.tasks.rank.settings import Settings

POOL = 64  # lists whose candidates are in memory at once


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The candidates of a query.

    Attributes:
        order: the places of the candidates, the best first.
        scores: of each candidate, in the order of the list; any number.
        probabilities: a softmax over these, times the scale of the run.
    """

    order: list[int]
    scores: list[float]
    probabilities: list[float]

    @classmethod
    def of(cls, scores: Sequence[float], scale: float = 1.0) -> "Ranking":
        values = np.asarray(scores, np.float64)
        shares = np.exp(scale * (values - values.max()))
        order = np.argsort(-values, kind="stable").tolist()
        return cls(order, values.tolist(), (shares / shares.sum()).tolist())


class Predictor(answer.Predictor):
    """Ranks the candidates of `RankedList`s, whose labels are not read."""

    unit, answers = "list", "rankings"

    def make_task(self, run):
        return run.make_task(scale=run.settings(Settings).scale)

    def example(self):
        return "", ""

    def features(self, inputs):
        return pack_texts(inputs, self.tokenizer, self.max_sequence_length, self.task.reading.frame)

    def size(self, asked):
        return len(asked[0]) + len(asked[1])

    def predict(
        self, inputs: Sequence[RankedList], batch_size: int = 32, progress: Callable[[int], None] = lambda count: None
    ) -> list[Ranking]:
        """Ranks lists; each of their candidates is a row of a batch."""
        found = []
        for first in range(0, len(inputs), POOL):
            asked = inputs[first : first + POOL]
            pairs = [(each.query, candidate) for each in asked for candidate in each.candidates]
            scores = iter(super().predict(pairs, batch_size))
            found += [Ranking.of([next(scores) for _ in each.candidates], self.task.scale) for each in asked]
            progress(len(asked))
        return found

    def pair_scores(self, query, texts, label=None):
        self.refuse_label(label)
        return self.predict([RankedList(query, list(texts), [], "")])[0].scores if texts else []

    def predictions(self, inputs, features, outputs):
        return outputs["scores"].tolist()

    def inputs(self, question):
        if question.text is not None:
            raise UsageError(
                "--text: a query with candidates does not fit in a flag. Give a file: --input_file=LISTS, of JSON lines such as "
                '{"query": "…", "candidates": ["…", "…"]}, or a table of queries and candidates.'
            )
        self.refuse(question, ("text_pair",), "candidates stand in the file")
        return unlabelled(question.input_file, self.columns_of(question.text_column, question.text_pair_column))

    def line(self, asked, prediction):
        best = prediction.order[0]
        return f"{best}\t{prediction.scores[best]:.4f}\t{asked.candidates[best]}\t{asked.query}"

    def header(self):
        return ["query", "order", "scores", "best"]

    def row(self, asked, prediction):
        scores = " ".join(f"{score:.6f}" for score in prediction.scores)
        return [asked.query, " ".join(map(str, prediction.order)), scores, asked.candidates[prediction.order[0]]]

    def record(self, asked, prediction):
        ranking = [
            {"place": place, "candidate": asked.candidates[place], "score": prediction.scores[place],
             "probability": prediction.probabilities[place]}
            for place in prediction.order
        ]  # fmt: skip
        return {**({"id": asked.id} if asked.id else {}), "query": asked.query, "ranking": ranking}
