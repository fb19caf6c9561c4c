"""How an export answers the rows of a file, beside the network and a SavedModel in float32: numbers, score, size and time."""

import contextlib
import dataclasses
import io
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xmodels.runs import exports
from xmodels.runs.exports import BATCH
from xmodels.serving.networks import num_threads
from xmodels.tasks.base.find import load_part
from xmodels.tasks.base.serve import Server
from xmodels.tasks.base.signatures import in_columns

OTHER_METRICS = (
    "accuracy",
    "spearman",
    "recall_1",
    "mrr",
    "f1",
)  # where the score that chooses an epoch is none of `evaluate`
ALONE = 100  # texts that are timed one by one
MOST_TIMED = 512  # texts that are timed in batches
CLOCK = time.perf_counter
Ask = Callable[[Sequence, Mapping], Mapping]  # (inputs, features) -> numbers
Answer = Callable[[Sequence], Any]  # inputs -> anything: what is timed


@dataclasses.dataclass(frozen=True)
class Row:
    """What was measured of one way to answer.

    Attributes:
        name: such as "onnx, int8".
        megabytes: of its files.
        milliseconds: of a text that is asked alone, from the string to the answer; the median.
        batched: of a text in batches of `BATCH`; the mean.
        difference: the largest of the probabilities, or of the numbers of tasks without, from those of the network.
        same: the share of rows with the answer of the network; None for tasks whose answers are numbers.
        score: that of `evaluate`.
        lost: points (hundredths) of this score that the network has more.
    """

    name: str
    megabytes: float
    milliseconds: float
    batched: float
    difference: float | None = None
    same: float | None = None
    score: float | None = None
    lost: float | None = None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What is written as comparison.json, and shown in README.md and in the report of the run."""

    file: str
    num_rows: int
    metric: str
    threads: int
    rows: list[Row]

    def as_dict(self) -> dict:
        """Returns it as JSON has it."""
        return dataclasses.asdict(self)


class Recorder:
    """A predictor of which is kept what it says of the rows of a file.

    Args:
        ask: what gives the numbers in the place of the network; None for the network.

    Attributes:
        batches: the numbers of each batch, as `Server.shares` has them.
        inputs, answers: of the predictor, as of `Predictor.predict`.
    """

    def __init__(self, server: Server, ask: Ask | None = None):
        self.server, self.ask = server, ask
        self.batches: list[Mapping] = []
        self.inputs: list = []
        self.answers: list = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[Any]:
        """Yields the predictor, which answers by `ask` as long as the body runs."""
        predictor = self.server.predictor
        predictions, predict, inside = predictor.predictions, predictor.predict, False

        def give(inputs, features, outputs):
            if self.ask is None:
                numbers = {name: outputs[name] for name in self.server.numbers}
            else:
                numbers = self.ask(inputs, features)
                outputs = self.server.completed(numbers)
            self.batches.append(self.server.shares(numbers, features))
            return predictions(inputs, features, outputs)

        def keep(inputs, *rest, **others):
            nonlocal inside
            outer, inside = not inside, True
            try:
                found = predict(inputs, *rest, **others)
            finally:
                inside = not outer
            if outer:
                self.inputs += list(inputs)
                self.answers += list(found)
            return found

        network = predictor._answer
        predictor.predictions, predictor.predict = give, keep
        if self.ask is not None:
            predictor._answer = lambda features: {}  # the network need not compute what others give
        try:
            yield predictor
        finally:
            predictor._answer = network
            del predictor.predictions, predictor.predict

    def score(self, evaluate: Callable[[Any], Mapping]) -> Mapping:
        """Returns what `evaluate` says of the predictor; what it prints is not shown."""
        with (
            self.watching() as predictor,
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            return evaluate(predictor)


def compare(
    server: Server, evaluate: Callable[[Any], Mapping], file: str, network_folder: str,
    others: Mapping[str, tuple[str, Ask | None, Answer]],
) -> Comparison:  # fmt: skip
    """Measures the network and others on a file: scores, size and time.

    Args:
        server: of the network, in float32.
        evaluate: predictor -> {name: score} of the file.
        file: its name.
        network_folder: the files of the network.
        others: {name: (its folder, what gives its numbers, what answers inputs)}; without numbers only time and size are measured.
    """
    network = Recorder(server)
    scores = network.score(evaluate)
    metric = metric_of(server, scores)
    rows = [
        measured("the network in Keras", network_folder, server.predictor.predict, network.inputs, score=scores[metric])
    ]
    for name, (folder, ask, answer) in others.items():
        found: dict[str, Any] = {}
        if ask is not None:
            recorder = Recorder(server, ask)
            score = recorder.score(evaluate)[metric]
            found = {
                "score": score,
                "lost": 100 * (scores[metric] - score),
                "difference": difference(network, recorder),
            }
            found["same"] = same(server, network, recorder)
        rows.append(measured(name, folder, answer, network.inputs, **found))
    return Comparison(file, len(network.inputs), metric, num_threads(), rows)


def metric_of(server: Server, scores: Mapping) -> str:
    """Returns the score that chooses an epoch of the task, or the first that is known, or any."""
    chooses = load_part(server.scored_as or server.predictor.task.label, "score").SELECTION_METRIC
    numbers = [name for name, value in scores.items() if isinstance(value, float)]
    return next((name for name in (chooses, *OTHER_METRICS) if name in numbers), numbers[0])


def difference(network: Recorder, other: Recorder) -> float:
    """Returns the largest difference between numbers for the same rows."""
    pairs = zip(network.batches, other.batches, strict=True)
    each = (np.abs(one[name] - two[name]).max(initial=0.0) for one, two in pairs for name in one)
    return float(max(each, default=0.0))


def same(server: Server, network: Recorder, other: Recorder) -> float | None:
    """Returns the share of rows with the same answer; None where answers are numbers."""
    names = [[server.named(answer) for answer in each.answers] for each in (network, other)]
    if not names[0] or any(name is None for name in names[0]):
        return None
    return sum(a == b for a, b in zip(*names, strict=True)) / len(names[0])


def measured(name: str, folder: str, answer: Answer, inputs: Sequence, **found) -> Row:
    """Returns a row with size and times."""
    alone = [inputs[:1]] * 3 + [[each] for each in inputs[:ALONE]]
    batches = [inputs[start : start + BATCH] for start in range(0, min(len(inputs), MOST_TIMED), BATCH)]
    single = [seconds(answer, each) for each in alone][3:]
    for each in batches[:2]:
        answer(each)
    together = sum(seconds(answer, each) for each in batches) / sum(map(len, batches))
    return Row(name, folder_size(folder) / 1e6, 1000 * float(np.median(single)), 1000 * together, **found)


def seconds(answer: Answer, inputs: Sequence) -> float:
    """Returns how long an answer takes."""
    began = CLOCK()
    answer(inputs)
    return CLOCK() - began


def folder_size(path: str) -> int:
    """Returns the bytes of the files of a folder, or of a file."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def saved_model_asker(server: Server, signature: Callable[[Mapping], Mapping]) -> tuple[Ask | None, Answer]:
    """Returns what gives the numbers of a SavedModel, and what is timed; of `serving_default`, from columns to outputs."""

    def answer(inputs):
        return signature(in_columns(server.names, server.served_rows(inputs)))

    def ask(inputs, features):
        return server.from_served(answer(inputs), inputs)

    gives = type(server).from_served is not Server.from_served
    return (ask if gives else None), answer


def as_markdown(found: Comparison) -> str:
    """Returns the section of README.md."""
    head, rows = exports.table(found.as_dict())
    lines = [head, ["---"] * len(head), *rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return COMPARED.format(
        rows=found.num_rows, file=os.path.basename(found.file), threads=found.threads, metric=found.metric, body=body
    )


def as_text(found: Comparison) -> str:
    """Returns the table as it is printed."""
    head, rows = exports.table(found.as_dict())
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = (map(str.ljust, line, widths) for line in (head, *rows))
    return "\n".join(f"  {'  '.join(line)}".rstrip() for line in lines)


COMPARED = """## Compared with the network

On the {rows:,} rows of `{file}`, from strings to answers, with {threads} processor(s). The largest difference is that of
probabilities, or of numbers where there are none. Points lost are hundredths of {metric}.

{body}
"""
