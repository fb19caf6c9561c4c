"""Labels of texts, or of pairs, with their probabilities."""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.text.framing import pack_texts
from xmodels.tasks.base import answer
from xmodels.tasks.base.description import TASK_FILE
from xmodels.tasks.base.forms import PLAIN_CELL, SHOWN, LabelForms
from xmodels.tasks.classify import row_sums

ADVICE = {  # for inputs of another number of texts than the key
    1: ("single texts", "give one text, without --text_pair or --text_pair_column"),
    2: ("pairs of texts", "give the second text with --text_pair, or its column with --text_pair_column"),
}
OF_TWO = ("threshold", "positive_label")  # settings of runs that tell two labels apart
MATCHING = ("1", "yes", "true", "match", "relevant", "entailment")  # of two labels, how one says that texts match


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The most probable label of one input, or that of the threshold, and the probability of each label, in the order of their ids."""

    label: str
    probabilities: dict[str, float]


class Predictions(Sequence):
    """Predictions of many inputs; each is made when it is asked for.

    Args:
        outputs: of the network, `label_ids` (N,) and `probabilities` (N, C).
        labels: the names of all.
    """

    def __init__(self, outputs: dict, labels: Sequence[str]):
        self.label_ids, self.probabilities, self.labels = outputs["label_ids"], outputs["probabilities"], labels

    def __len__(self) -> int:
        return len(self.label_ids)

    def __getitem__(self, place):
        outputs = {"label_ids": self.label_ids[place, None], "probabilities": self.probabilities[place, None]}
        return predictions_of(outputs, self.labels)[0]

    def __iter__(self):
        return iter(predictions_of(vars(self), self.labels))

    def plain_rows(self, delimiter: str) -> str | None:
        """Returns a line for each: its label and all probabilities. None where a label is more than a plain cell."""
        if not all(map(re.compile(PLAIN_CELL).fullmatch, self.labels)):
            return None
        numbers = f"{delimiter}%.6f" * len(self.labels)
        rows = np.array([f"{label}{numbers}\n" for label in self.labels], object)[self.label_ids]
        return "".join(rows) % tuple(self.probabilities.ravel().tolist())


def predictions_of(outputs: dict, labels: Sequence[str]) -> list[Prediction]:
    """Returns the predictions of outputs of the network, `label_ids` (N,) and `probabilities` (N, C)."""
    rows = zip(outputs["label_ids"].tolist(), outputs["probabilities"].tolist(), strict=True)
    return [Prediction(labels[label], dict(zip(labels, row, strict=True))) for label, row in rows]


class TextPredictor(answer.Predictor):
    """Answers tuples of `num_texts` strings; of one or two where `num_texts` is 0."""

    def example(self):
        return ("",) * (self.num_texts or 1)

    def features(self, inputs):
        """Returns token_ids and segment_ids int32, padding_mask bool, (B, L); of a task that reads pairs in both orders (B, 2,
        L)."""
        self._check(inputs)
        return pack_texts(
            inputs, self.tokenizer, self.max_sequence_length, self.task.reading.frame, self.task.orders
        )  # fmt: skip

    def size(self, asked):
        return sum(map(len, asked))

    def predict(self, inputs, batch_size=32, progress=lambda count: None):
        self._check(inputs)  # of all of them, before the first is answered
        return super().predict(inputs, batch_size, progress)

    def _check(self, inputs) -> None:
        num_texts = self.num_texts or (len(inputs[0]) if inputs and not isinstance(inputs[0], str) else 1)
        for index, row in enumerate(inputs):
            if isinstance(row, str) or len(row) != num_texts:
                found = "is a string, not a tuple of texts" if isinstance(row, str) else f"has {len(row)} text(s)"
                wanted, advice = ADVICE[num_texts]
                raise DataError(f"Input {index + 1} {found}, but this run was fine-tuned on {wanted}: {advice}.")

    def inputs(self, question):
        if question.text is not None:
            return [(question.text,) if question.text_pair is None else (question.text, question.text_pair)]
        if not question.input_file.endswith(".txt"):
            return (row.texts for row in self.table_rows(question))
        return ((line,) if line else None for line in answer.each_line(question.input_file))

    def name_input(self, asked):
        return " | ".join(asked)

    def repeat_input(self, asked):
        return {"texts": list(asked)}


class Predictor(LabelForms, TextPredictor):
    """Labels texts, or pairs."""

    def make_task(self, run):
        labels, given = run.description.labels, {n: v for n, v in run.description.settings.items() if n in OF_TWO}
        number, positive = given.get("threshold", 0.5), given.get("positive_label", next(iter(labels), None))
        if given and (
            len(labels) != 2 or positive not in labels or not isinstance(number, int | float) or not 0 <= number <= 1
        ):
            raise CheckpointError(
                f"{TASK_FILE}: `settings` must hold `threshold`, a number from 0 to 1, and `positive_label`, one of two labels. "
                f"Found: {given!r:.80}, labels {', '.join(labels)!r:.80}."
            )
        counts = run.description.settings.get("label_counts")
        if counts is not None and not (
            isinstance(counts, list) and len(counts) == len(labels) and all(type(n) is int and n > 0 for n in counts)
        ):
            raise CheckpointError(
                f"{TASK_FILE}: `settings` must hold as `label_counts` a number above 0 for each of the {len(labels)} labels. "
                f"Found: {counts!r:.80}."
            )
        return run.make_task(**given, **({"label_counts": counts} if counts else {}))

    @functools.cached_property
    def sums(self) -> row_sums.RowSums | None:
        """What finds the logits of many texts by sums of rows, for the networks that have such."""
        return row_sums.find(self.backbone, self.task, self.tokenizer, self.max_sequence_length)

    @property
    def stream_size(self):
        return row_sums.AT_ONCE if vars(self).get("sums") else super().stream_size

    @functools.cached_property
    def _answer_logits(self) -> Callable[[dict], dict]:
        return answer.compile_answer(self.task.predict)

    def predict(self, inputs, batch_size=32, progress=lambda count: None):
        if not self._has_sums(inputs):
            return super().predict(inputs, batch_size, progress)
        found = []
        for asked, outputs in self._outputs_by_sums(inputs):
            found += self.predictions(asked, {}, outputs)
            progress(len(asked))
        return found

    def predict_stream(self, inputs, batch_size):
        if not self._has_sums(inputs) or type(self).predictions is not Predictor.predictions:
            return self.predict(inputs, batch_size)
        outputs = [outputs for _, outputs in self._outputs_by_sums(inputs)]
        return Predictions({name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}, self.labels)

    def _has_sums(self, inputs: Sequence) -> bool:
        few = len(inputs) < row_sums.FEWEST and "sums" not in vars(self)  # sums that are there serve one text too
        return len(inputs) > 0 and not few and len(inputs[0]) == 1 and self.sums is not None

    def _outputs_by_sums(self, inputs: Sequence) -> Iterator[tuple[Sequence, dict]]:
        self._check(inputs)  # of all of them, before the first is answered
        for first in range(0, len(inputs), row_sums.AT_ONCE):
            asked = inputs[first : first + row_sums.AT_ONCE]
            yield asked, self._answer_logits({"logits": self.sums.logits([text for (text,) in asked])})

    def plain_rows(self, predictions, delimiter):
        if isinstance(predictions, Predictions) and self.table is LabelForms.table:
            return predictions.plain_rows(delimiter)
        return None

    def predictions(self, inputs, features, outputs):
        return predictions_of(outputs, self.labels)

    def pair_scores(self, query, texts, label=None):
        """Returns the probability of a label, of pairs of the query and a text."""
        if self.num_texts == 1:
            raise UsageError(
                "The run that orders texts was fine-tuned on single texts, so it cannot say how well a text suits a query: name one "
                "of pairs or of --task=rank with --rerank_model_dir."
            )
        label = self.matching_label(label)
        return [each.probabilities[label] for each in self.predict([(query, text) for text in texts])]

    def matching_label(self, given: str | None) -> str:
        """Returns the label of pairs that match: the one that is given, or of two the one that says so by its name.

        Raises:
            UsageError: there is no such label, or none or both of them say so.
        """
        usual = [name for name in self.labels if name.lower() in MATCHING and len(self.labels) == 2]
        if given in self.labels or (given is None and len(usual) == 1):
            return usual[0] if given is None else given
        found = (
            f"={given}: is no label of this run"
            if given
            else ": the labels do not say by their names which one means a match"
        )
        shown = ", ".join(self.labels[:SHOWN]) + (", …" if self.labels[SHOWN:] else "")
        raise UsageError(f"--rerank_label{found}. Name the one whose probability orders texts: {shown}.")
