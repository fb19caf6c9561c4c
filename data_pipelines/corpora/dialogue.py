"""Dialogues: a document for each, a "sentence" for each turn.

Three ways to write them are told apart by the first line of a file: one turn a line with blank lines between dialogues;
one dialogue a line with its turns parted by tabs or `__eou__` (as in DailyDialog); JSON lines with a list of turns.
"""

from collections.abc import Iterator
from typing import Any

from data_pipelines.corpora.compression import beginning
from data_pipelines.corpora.documents import Document, kept_lines, lines_of, split_long
from data_pipelines.corpora.json_lines import DROPPED, field, parse
from data_pipelines.corpora.lines import LONGEST_RECORD, Lines, Piece
from data_pipelines.corpora.plain_text import read_sentences
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError

LIST_NAMES = ("turns", "messages", "dialogue", "dialog", "conversation", "conversations", "utterances")
TURN_NAMES = ("text", "message", "content", "value", "utterance", "sentence")
SPEAKER_NAMES = ("speaker", "role", "from")
END_OF_TURN = "__eou__"


def read(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields the turns of each dialogue in order.

    Raises:
        DataError: JSON without turns; names the file and the line.
    """
    head = beginning(piece.path, 1 << 16, reading.codec).removeprefix(b"\xef\xbb\xbf").lstrip()
    first = head.split(b"\n", 1)[0].decode("utf-8", "replace")
    separator = END_OF_TURN if END_OF_TURN in first else "\t"
    is_json = first[:1] in ("{", "[")
    if not is_json and separator not in first:
        yield from read_sentences(piece, reading, monitor)
        return
    lines = Lines(piece, "line", reading, monitor, LONGEST_RECORD)
    for line in lines:
        if line:
            if not is_json:
                turns = line.split(separator)
            elif (value := parse(line, lines)) is not DROPPED:
                turns = _turns(value, reading, lines)
            else:
                continue
            turns = [
                " ".join(kept_lines(lines_of(turn.strip()), reading, monitor, lambda: lines.place)) for turn in turns
            ]
            yield from split_long(alternate(turns, "" if reading.language == "zh" else " "), lines.source)


def _turns(value: Any, reading: Reading, lines: Lines) -> list[str]:
    """Returns the texts of the turns; what one speaker says in a row is one turn, so that speakers alternate."""
    if isinstance(value, dict):
        value = field(value, reading.text_field, LIST_NAMES, lambda: lines.place)
    if not isinstance(value, list):
        raise DataError(f"{lines.place}: expected a list of turns, found {type(value).__name__}.")
    turns: list[str] = []
    before = None
    for turn in value:
        speaker = None
        if isinstance(turn, dict):
            speaker = next((turn[name] for name in SPEAKER_NAMES if name in turn), None)
            turn = field(turn, None, TURN_NAMES, lambda: lines.place)
        if not isinstance(turn, str):
            raise DataError(f"{lines.place}: a turn holds {type(turn).__name__}, expected text.")
        if speaker is not None and speaker == before and turns:
            turns[-1] += ("" if reading.language == "zh" else " ") + turn
        else:
            turns.append(turn)
        before = speaker
    return turns


def alternate(turns: list[str], blank: str = " ") -> list[str]:
    """Returns the turns without empty ones. What one speaker says before and behind an empty turn of the other is one turn, so
    that speakers go on to alternate."""
    found: list[str] = []
    last = None
    for number, turn in enumerate(turns):
        if not turn:
            continue
        if found and number % 2 == last:
            found[-1] += blank + turn
        else:
            found.append(turn)
        last = number % 2
    return found
