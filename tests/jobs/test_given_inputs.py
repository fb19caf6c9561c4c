"""What a Python program may hand over to be answered."""

from typing import ClassVar

import numpy as np
import pytest

from data_pipelines.errors import DataError
from xmodels.jobs.given_inputs import as_list, as_texts
from xmodels.jobs.open_run import OpenRun


class Column:
    """As a Series of pandas."""

    ndim, dtype = 1, np.dtype(object)

    def __init__(self, *values):
        self.values = values

    def __iter__(self):
        return iter(self.values)


class Table:
    """As a DataFrame of pandas, which iterates over the names of its columns."""

    def __iter__(self):
        return iter(("first", "second"))

    def itertuples(self, index, name):
        assert not index and name is None
        return iter([("a", "b"), ("c", "d")])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("one text", ["one text"]), (["a", "b"], ["a", "b"]), (("a", "b"), ["a", "b"]), (np.array(["a", "b"]), ["a", "b"]),
        (np.array(["a", "b"], object), ["a", "b"]), (Column("a", "b"), ["a", "b"]), (Table(), [("a", "b"), ("c", "d")]),
        (np.array([["a", "b"], ["c", "d"]]), [("a", "b"), ("c", "d")]), ([("a", "b")], [("a", "b")]), ([], []),
        (iter(["a"]), ["a"]),
    ],
)  # fmt: skip
def test_inputs_are_taken_one_by_one(given, found):
    assert as_list(given) == found


def test_arrays_of_numbers_stay_inputs():
    (found,) = as_list(np.zeros((1, 3, 2)))
    assert found.shape == (3, 2)


@pytest.mark.parametrize(
    "bad", [None, float("nan"), np.float64("nan"), 3, 0.5, True, b"text", ("a", None), ("a", float("nan"))]
)
def test_missing_and_numeric_inputs_are_named(bad):
    with pytest.raises(DataError, match="Input 1: expected a text"):
        as_list(["a", bad])


@pytest.mark.parametrize("bad", [None, 3, b"text", {"text": "a"}])
def test_what_is_no_list_is_refused(bad):
    with pytest.raises(DataError, match="Expected a text or a list of inputs"):
        as_list(bad)


def test_prompts_are_texts():
    assert as_texts(np.array(["a"])) == ["a"] and type(as_texts(np.array(["a"]))[0]) is str
    with pytest.raises(DataError, match="Input 0: expected a text. Found: tuple"):
        as_texts([("a", "b")])


class Echo:
    """A predictor and a generator that give back what they were asked."""

    defaults: ClassVar[dict] = {"temperature": 1.0, "top_k": 40}

    def adjust(self, **flags):
        pass

    def as_input(self, text):
        return (text,)

    def predict(self, asked, batch_size):
        return asked

    def penalty(self, given):
        return 1.0

    def generate(self, prompts, *settings, **more):
        return prompts


def test_an_open_run_says_what_it_is():
    answers = Echo()
    answers.backbone, answers.labels, answers.task = {}, tuple("abcdef"), type("Task", (), {"label": "classify"})
    assert repr(OpenRun("run", answers, None)) == "<run: dict, task=classify, labels=a, b, c, d, e, …; predict>"
    assert repr(OpenRun("run", None, answers)) == "<run: dict; generate>"


def test_one_string_is_one_text():
    run = OpenRun("run", Echo(), Echo())
    assert run.predict("abc") == [("abc",)] and run.generate("abc") == ["abc"]
    assert run.predict(Column("a", "b")) == [("a",), ("b",)]
    with pytest.raises(DataError, match="Input 0"):
        run.predict([None])
