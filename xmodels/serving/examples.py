"""Questions by examples, as :classify and :regress of TensorFlow Serving take them, and their answers.

An example has features by name, each a value or a list of values: those of `tf.train.Example`. A feature feeds the input of its name;
features that a signature does not take are ignored, as parsers of examples do. A feature of the context is that of all examples.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodels.serving.answers import LABELS, PROBABILITIES, Outputs, check_finite, shortest
from xmodels.serving.limits import Limits, RequestError
from xmodels.serving.model import Signature
from xmodels.serving.questions import Question, check_widths, checked_value, find_signature, parse_object

CLASSIFY = ":classify"
KEYS = ("signature_name", "context", "examples")
Example = Mapping[str, Any]  # by the names of features
Classes = list[tuple[str, np.float32]]


def read_examples(body: bytes, signatures: Mapping[str, Signature], limits: Limits) -> Question:
    """Returns the question in the body of a request.

    Raises:
        RequestError: it says what is wrong and where.
    """
    request = parse_object(body, KEYS, '{"examples": [{"text": "..."}]}')
    signature = find_signature(request.get("signature_name"), signatures)
    if "examples" not in request:
        raise RequestError("When method is classify, key 'examples' is expected and was not found.")
    examples, context = request["examples"], request.get("context", {})
    if not isinstance(examples, list):
        raise RequestError("Expecting 'examples' value to be an list/array.")
    for place, each in [("context", context), *((f"examples[{index}]", each) for index, each in enumerate(examples))]:
        if not isinstance(each, dict):
            raise RequestError(f"Example must be JSON object: {place} is none. Expected features by name.")
    return from_examples(examples, context, signature, limits)


def from_examples(examples: Sequence[Example], context: Example, signature: Signature, limits: Limits) -> Question:
    """Returns the question of examples.

    Raises:
        RequestError: there are none, or they lack what the signature takes.
    """
    if not examples:
        raise RequestError("'examples' value is an empty array. Expected an example for each answer.")
    values: dict[str, Any] = {}
    for name, wanted in signature.inputs.items():
        if not wanted.is_column:
            found = _feature(context, name, wanted.shape, "context", signature)
            values[name] = checked_value(found, wanted, 0, f"context.{name}", limits)
            continue
        values[name] = column = []
        for index, example in enumerate(examples):
            place = f"examples[{index}]"
            found = _feature({**context, **example}, name, wanted.shape[1:], place, signature)
            column.append(checked_value(found, wanted, 1, f"{place}.{name}", limits))
        check_widths(column, wanted, "examples", name)
    return Question(signature, values, len(examples), by_rows=True)


def _feature(example: Example, name: str, shape: tuple, place: str, signature: Signature) -> Any:
    if name not in example:
        raise RequestError(f"Feature {name} is missing in {place}. Expected {', '.join(signature.inputs)}.")
    found = example[name]
    if len(shape) > 1:
        raise RequestError(f"Input `{name}` of `{signature.name}` has more axes than a feature. Ask by :predict.")
    if shape:
        return found if isinstance(found, list) else [found]
    if isinstance(found, list) and len(found) != 1:
        raise RequestError(f"{place}.{name} has {len(found)} values. Expected one.")
    return found[0] if isinstance(found, list) else found


def as_classes(outputs: Outputs, question: Question, labels: list[str] | None) -> list[Classes]:
    """Returns the labels with their probabilities, for each row. Where names are not known, they are the places, from 0.

    Raises:
        RequestError: the signature answers by no probabilities.
    """
    scores = outputs.get(PROBABILITIES)
    if scores is None or scores.ndim != 2 or len(scores) != question.num_rows:
        name = question.signature.name
        raise RequestError(
            f"Expected classification signature: `{name}` answers by no `{PROBABILITIES}`. Ask by :predict."
        )
    check_finite(PROBABILITIES, scores)
    count = scores.shape[1]
    if LABELS in outputs and outputs[LABELS].shape == scores.shape:
        names = [[each.decode("utf-8", errors="replace") for each in row] for row in outputs[LABELS]]
    else:
        known = labels if labels and len(labels) == count else [str(place) for place in range(count)]
        names = [known] * len(scores)
    return [list(zip(*row, strict=True)) for row in zip(names, scores, strict=True)]


def as_numbers(outputs: Outputs, question: Question) -> list[np.float32]:
    """Returns the number of each row.

    Raises:
        RequestError: the signature answers by anything else.
    """
    name, value = next(iter(outputs.items()))
    if len(outputs) != 1 or value.dtype.kind != "f" or value.shape != (question.num_rows,):
        raise RequestError(
            f"Expected regression signature: `{question.signature.name}` answers by other things than a number. Ask by :predict."
        )
    check_finite(name, value)
    return list(value)


def results_as_json(results: Sequence[Classes | np.float32]) -> bytes:
    """Returns the body of an answer."""
    plain = [
        [[label, shortest(score)] for label, score in row] if isinstance(row, list) else shortest(row)
        for row in results
    ]
    return json.dumps({"results": plain}, ensure_ascii=False, allow_nan=False).encode()
