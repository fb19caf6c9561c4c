"""A SavedModel is compared with its run: numbers up to rounding, everything else letter by letter, padding left out."""

import numpy as np
import pytest
import tensorflow as tf

from xmodels.export.readme import table
from xmodels.tasks.base.comparison import check_empty, compare_answers, compare_row
from xmodels.tasks.base.signatures import Column, Signature, by_rows, in_columns

FOUND = {"label": b"yes", "scores": np.array([0.5, 0.25, 0.0], np.float32), "words": np.array([b"a", b""], object)}


def test_rows_may_be_filled_up_and_numbers_rounded():
    assert compare_row(FOUND, {"label": "yes", "scores": [0.5, 0.2501], "words": ["a"]}) == pytest.approx(
        1e-4, rel=1e-3
    )
    large = {"scores": np.array([1000.5])}
    assert compare_row(large, {"scores": [1000.0]}) == pytest.approx(5e-4, rel=1e-3)  # of the largest number of the row


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"label": "no"}, "answers `label` otherwise than the run: 'yes' instead of 'no'"),
        ({"words": ["b"]}, r"answers `words` otherwise than the run: \['a'\] instead of \['b'\]"),
        ({"scores": [0.5, 0.26]}, r"numbers differ by up to 0\.01"),
        ({"scores": [0.5]}, "more values of `scores`"),
        ({"scores": [np.nan, 0.25]}, "numbers differ"),
    ],
)
def test_what_differs_is_named(expected, message):
    with pytest.raises(RuntimeError, match=message):
        compare_row(FOUND, expected)


def test_rows_are_asked_together_and_one_by_one():
    def longest(text):
        """Answers a row by the longest text of its batch, as a network would that reads padding."""
        length = tf.strings.length(text)
        return {"score": tf.cast(tf.fill(tf.shape(length), tf.reduce_max(length)), tf.float32)}

    rows = [("a",), ("abc",)]
    asked = lambda signature: compare_answers(  # noqa: E731
        signature, lambda some: in_columns(["text"], some), rows, lambda place, _: {"score": float(len(rows[place][0]))}
    )
    assert asked(lambda text: {"score": tf.cast(tf.strings.length(text), tf.float32)}) == 0.0
    with pytest.raises(RuntimeError, match="numbers differ by up to 2"):
        asked(longest)


class Served:
    """A function of a SavedModel that takes one text each."""

    structured_input_signature = (), {"text": tf.TensorSpec([None], tf.string, "text")}

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, text):
        return {"text": self.answer(text)}


def test_an_answer_to_nothing_is_refused():
    check_empty(Served(tf.identity))
    with pytest.raises(RuntimeError, match="empty batch"):
        check_empty(Served(lambda text: tf.constant(["a"])))


def test_a_table_knows_what_the_graph_knows():
    def answer(text, number):
        scores = tf.zeros([tf.size(text), 3]) + number
        return {"scores": scores, "other": tf.zeros([tf.size(text), tf.size(text)], tf.int32)}

    inputs = [Column("text", "B", "UTF-8"), Column("number", (), dtype=tf.float32)]
    signature = Signature(answer, inputs, [Column("scores", "BC", "of each label")], note="That is all.")
    assert table("serving_default", signature, signature.function()).splitlines() == [
        "| of the signature `serving_default` | |",
        "|---|---|",
        "| input `text` | string (B,), UTF-8 |",
        "| input `number` | float32 () |",
        "| output `scores` | float32 (B, 3), of each label |",
        "| output `other` | int32 (B, L) |",
        "",
        "That is all.",
    ]


def test_columns_are_filled_up_and_one_column_is_its_values():
    columns = in_columns(["query", "candidates"], [("a", ["b"]), ("c", ["d", "e"])])
    assert columns == {"query": ["a", "c"], "candidates": [["b", ""], ["d", "e"]]}
    assert by_rows(columns)[0] == {"query": "a", "candidates": ["b", ""]}
    assert by_rows({"text": ["a", "b"]}) == ["a", "b"]
