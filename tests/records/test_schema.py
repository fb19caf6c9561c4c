"""Values of JSON become dataclasses, and whatever is wrong with one is a line with its file, its key and what was found."""

import dataclasses

import pytest

from data_pipelines.errors import CheckpointError, DataError
from data_pipelines.schema import Count, FileName, Finite, Location, Sha256, convert, one_of, whole

Colour = one_of("red", "blue")


@dataclasses.dataclass(frozen=True)
class Part:
    name: FileName
    size: Count = 0


@dataclasses.dataclass(frozen=True)
class Whole:
    parts: list[Part]
    rates: dict[str, Finite]
    pair: tuple[int, int] | None = None
    sides: tuple[str, ...] = ()
    level: whole(1, 9) = 1
    colour: Colour = "red"
    sum: Sha256 | None = None


PLACE = Location("here.json", advice="Write it again.")
GOOD = {"parts": [{"name": "a"}], "rates": {"x": 1, "y": 0.5}, "pair": [1, 2], "sides": ["l", "r"]}


def test_a_value_becomes_what_it_says():
    found = convert(GOOD, Whole, PLACE)
    assert found == Whole([Part("a")], {"x": 1, "y": 0.5}, (1, 2), ("l", "r"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"parts": [{"name": "a"}, {"name": "../b"}]}, "`parts[1].name` must be the name of a file in this folder. Found: '../b'."),
        ({"parts": [{"name": ".."}]}, "`parts[0].name` must be the name of a file"),
        ({"parts": [{"name": "a\0b"}]}, "`parts[0].name` must be the name of a file"),
        ({"parts": [{"name": "a", "size": True}]}, "`parts[0].size` must be a whole number. Found: True."),
        ({"parts": [{"name": "a", "size": 1.0}]}, "`parts[0].size` must be a whole number. Found: 1.0."),
        ({"parts": [{"name": "a", "size": -1}]}, "`parts[0].size` must be a whole number from 0. Found: -1."),
        ({"parts": [{"name": "a", "size": 10**5000}]}, "Found: a whole number of more than 60 digits."),
        ({"parts": [{}]}, "`parts[0].name` is missing, expected the name of a file in this folder."),
        ({"parts": [[]]}, "`parts[0]` must be an object. Found: []."),
        ({"parts": {}}, "`parts` must be a list. Found: {}."),
        ({"rates": {"x": float("nan")}}, "`rates.x` must be a finite number. Found: nan."),
        ({"rates": {"x": 10**400}}, "`rates.x` must be a finite number."),
        ({"rates": [[10**5000]]}, "`rates` must be an object. Found: a list with a number of thousands of digits."),
        ({"pair": [1]}, "`pair` must be a list of 2 entries. Found: [1]."),
        ({"pair": "12"}, "`pair` must be a list. Found: '12'."),
        ({"sides": ["l", 2]}, "`sides[1]` must be a text. Found: 2."),
        ({"level": 10}, "`level` must be a whole number from 1 to 9. Found: 10."),
        ({"colour": "green"}, "`colour` must be one of red, blue. Found: 'green'."),
        ({"sum": "00"}, "`sum` must be a SHA-256"),
        ({"colours": 1}, "unknown `colours`; known here: parts, rates, pair"),
    ],
)  # fmt: skip
def test_a_fault_names_the_file_the_key_what_was_found_and_what_to_do(change, says):
    with pytest.raises(DataError) as caught:
        convert({**GOOD, **change}, Whole, PLACE)
    message = str(caught.value)
    assert message.startswith("here.json: damaged: ") and says in message and message.endswith(" Write it again.")
    assert "\n" not in message


def test_the_error_is_that_of_the_place():
    with pytest.raises(CheckpointError, match=r"^x: expected an object. Found: None.$"):
        convert(None, Whole, Location("x", error=CheckpointError, verdict=""))
