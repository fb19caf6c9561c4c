"""Features of `tf.train.Example`, as Classify and Regress have them, in the lists that a question holds."""

from typing import Any

from tensorflow_serving.apis import input_pb2

from xmodels.serving.examples import Example
from xmodels.serving.limits import RequestError

KINDS = ("bytes_list", "float_list", "int64_list")


def features_of(given: input_pb2.Input) -> tuple[list[Example], Example]:
    """Returns the examples of an input, and their context.

    Raises:
        RequestError: it has none, or a feature is not UTF-8.
    """
    kind = given.WhichOneof("kind")
    if kind is None:
        raise RequestError("Input is empty.")
    found = getattr(given, kind)
    context = _features(found.context, "context") if kind == "example_list_with_context" else {}
    return [_features(each, f"examples[{index}]") for index, each in enumerate(found.examples)], context


def _features(example: Any, place: str) -> Example:
    return {name: _values(feature, f"{place}.{name:.60}") for name, feature in example.features.feature.items()}


def _values(feature: Any, place: str) -> list:
    kind = feature.WhichOneof("kind")
    if kind is None:
        return []
    values = list(getattr(feature, kind).value)
    if kind != "bytes_list":
        return values
    try:
        return [value.decode("utf-8") for value in values]
    except UnicodeDecodeError as error:
        raise RequestError(f"{place} is not UTF-8 at byte {error.start}.") from None
