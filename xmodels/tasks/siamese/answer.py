"""How similar two texts are; the vectors of texts."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from data_pipelines.errors import UsageError
from data_pipelines.text.framing import pack_texts
from xmodels.models import folder
from xmodels.tasks.base.answer import NO_PAIRS, compile_answer
from xmodels.tasks.base.forms import LabelForms, likeliest
from xmodels.tasks.classify import answer
from xmodels.tasks.siamese.read import pack_sides
from xmodels.tasks.siamese.settings import Settings


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What is said of a pair.

    Attributes:
        similarity: the cosine of both vectors.
        match: whether it reaches the threshold; None where no evaluation file has chosen one.
        probabilities: of each label, where the network was trained on labels; else None.
    """

    similarity: float
    match: bool | None = None
    probabilities: dict[str, float] | None = None

    @property
    def label(self) -> str | None:
        return max(self.probabilities, key=self.probabilities.get) if self.probabilities else None


def check_pair(texts: tuple[str, ...]) -> None:
    """Raises a UsageError where there is one text only."""
    if len(texts) == 1:
        raise UsageError(
            "One text has nothing that it is similar to. Give the second one with --text_pair or --text_pair_column; `xmodels "
            "encode` gives vectors of single texts."
        )


class Predictor(answer.TextPredictor):
    """Compares tuples of two texts, and encodes tuples of one: those get their vector, float32 (D,)."""

    answers = "similarities"

    def __init__(self, run, columns=None):
        self.settings = run.settings(Settings)
        super().__init__(run, columns)
        graphs = {
            2: self._answer,
            3: compile_answer(self.answer),
        }  # of texts and of pairs: one of both would know no rank
        self._answer = lambda features: graphs[features["token_ids"].ndim](features)

    def make_task(self, run):
        return run.make_task(settings=self.settings)

    def features(self, inputs):
        """Returns that of pairs (N, 2, L), of single texts (N, L)."""
        frame, length = self.task.reading.frame, self.max_sequence_length
        if len(inputs[0]) == 1:
            return pack_texts(inputs, self.tokenizer, length, frame)
        columns = [
            [pieces.ids for pieces in self.tokenizer.encode_batch(column)] for column in zip(*inputs, strict=True)
        ]
        return pack_sides(list(zip(*columns, strict=True)), self.tokenizer.vocabulary, length, frame)

    def _check(self, inputs) -> None:
        if any(isinstance(row, str) or len(row) != 1 for row in inputs):
            super()._check(inputs)

    def encode(self, texts: Sequence[str], batch_size=32, progress=lambda count: None) -> np.ndarray:
        """Returns the vectors of texts, float32 (N, D)."""
        return np.stack(self.predict([(text,) for text in texts], batch_size, progress))

    def pair_scores(self, query, texts, label=None):
        raise self._cannot(*NO_PAIRS)  # it reads texts apart

    def encoder_weights(self):
        """Returns those of the network, the pooling and the projection; a classifier's head is not among them."""
        head = f"{self.task.prefix}.head."
        of_task = folder.values_of(self.task.prefix, self.task)
        kept = {name: value for name, value in of_task.items() if not name.startswith(head)}
        return folder.values_of("backbone", self.backbone) | kept

    def encoder_settings(self):
        kept = {name: getattr(self.settings, name) for name in ("normalize", "projection_dim", "projection_activation")}
        return {"pooling": self.task.reading.pooling, "max_sequence_length": self.max_sequence_length, **kept}

    def predictions(self, inputs, features, outputs):
        if "scores" not in outputs:
            return list(outputs["vectors"])
        threshold, names = self.settings.threshold, self.labels
        shares = outputs.get("probabilities", [[]] * len(inputs))
        return [
            Prediction(
                float(score),
                None if threshold is None else bool(score >= threshold),
                dict(zip(names, map(float, row), strict=True)) if names else None,
            )
            for score, row in zip(outputs["scores"], shares, strict=True)
        ]

    def inputs(self, question):
        if question.text is not None:
            asked = super().inputs(question)
            check_pair(asked[0])
            return asked
        return self._rows(question)

    def _rows(self, question) -> Iterator[tuple[str, ...]]:
        """Yields the pairs of a table, row by row."""
        for row in self.table_rows(question):
            check_pair(row.texts)
            yield row.texts

    def describe_prediction(self, asked, prediction):
        yield f"similarity: {prediction.similarity:.4f}"
        if prediction.match is not None:
            yield f"match: {'yes' if prediction.match else 'no'} (from {self.settings.threshold:.4f} on)"
        yield from likeliest(prediction.probabilities or {})

    def line(self, asked, prediction):
        return f"{prediction.similarity:.4f}\t{self.name_input(asked)}"

    @property
    def table(self):
        match = ["match"] if self.settings.threshold is not None else []
        return ["similarity", *match, *LabelForms.table] if self.labels else ["similarity", *match]

    def record(self, asked, prediction):
        found = {**self.repeat_input(asked), "similarity": prediction.similarity}
        found |= {} if prediction.match is None else {"match": prediction.match}
        return found | ({"label": prediction.label, "probabilities": prediction.probabilities} if self.labels else {})
