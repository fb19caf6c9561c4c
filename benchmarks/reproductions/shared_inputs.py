"""Texts and tables of the development data of this project, as pages of reproductions read them."""

import csv
import dataclasses
import gzip
import io
import json
import os
import random
from collections.abc import Iterable, Iterator

from benchmarks.reproductions.pretraining_inputs import DEV, HELD_OUT, TEST, write_once
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import read_table

FOLLOWED = 4  # paragraphs without a mark between stories that are taken as one document


@dataclasses.dataclass(frozen=True)
class Place:
    """Where data is and where work goes."""

    data: str
    work: str
    jobs: int

    def given(self, name: str) -> str:
        """A file of the shared data."""
        return os.path.join(self.data, name)

    def made(self, name: str) -> str:
        """A file of the work folder."""
        path = os.path.join(self.work, "inputs", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path


# --- texts: documents, each of lines


def text_of(path: str) -> str:
    """A file with line ends of one kind; science.txt is of another encoding than the rest."""
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
        raw = file.read()
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return raw.decode("windows-1252").replace("\r\n", "\n")


def paragraphs(path: str, together: int = 1) -> Iterator[str]:
    """Documents of so many paragraphs, a line each."""
    parts = [" ".join(part.split()) for part in text_of(path).split("\n\n") if part.strip()]
    return ("\n".join(parts[first : first + together]) for first in range(0, len(parts), together))


def lines(path: str, together: int = 1) -> Iterator[str]:
    """Documents of so many lines."""
    found = [line.strip() for line in text_of(path).splitlines() if line.strip()]
    return ("\n".join(found[first : first + together]) for first in range(0, len(found), together))


def english(place: Place) -> Iterator[str]:
    """News, books, encyclopedia, captions and dialogues."""
    for name in ("rural", "science"):
        yield from paragraphs(place.given(f"lm/abc-news-en/{name}.txt.gz"), FOLLOWED)
    folder = place.given("lm/gutenberg-en")
    for name in sorted(os.listdir(folder)):
        yield from paragraphs(os.path.join(folder, name), FOLLOWED)
    for part in ("valid", "test"):
        yield from lines(place.given(f"lm/wikitext-2-raw/wiki.{part}.raw.gz"), FOLLOWED)
    yield from lines(place.given("translation/multi30k-en-de/train.en.gz"))
    for line in lines(place.given("dialogue/dailydialog-en/dialogues_validation.txt")):
        yield "\n".join(turn.strip() for turn in line.split("__eou__") if turn.strip())


def chinese(place: Place) -> Iterator[str]:
    """The web, novels and dialogues."""
    yield from (
        part.strip() for part in text_of(place.given("lm/cluecorpussmall-zh/sentences_by_doc.txt.gz")).split("\n\n")
    )
    for name in ("hongloumeng", "sanguoyanyi"):
        yield from lines(place.given(f"lm/novels-zh/{name}.txt.gz"), FOLLOWED)
    for name in ("film_dev.json.gz", "film_test.json.gz", "travel_dev.json", "travel_test.json.gz"):
        for dialogue in json.loads(text_of(place.given(f"dialogue/kdconv-zh/{name}"))):
            yield "\n".join(turn["message"] for turn in dialogue["messages"])


def write_text(place: Place, folder: str, documents: Iterable[str]) -> dict[str, str]:
    """Files of a text to learn from and of one that is held out; documents are parted by blank lines."""
    drawn = [document for document in documents if document.strip()]
    random.Random(0).shuffle(drawn)
    held_out = round(HELD_OUT * len(drawn))
    found = {name: place.made(f"{folder}/{name}.txt") for name in ("heldout", "train")}
    for path, part in zip(found.values(), (drawn[:held_out], drawn[held_out:]), strict=True):
        write_once(path, ["\n\n".join(part)])
    return found


# --- tables


def parted(place: Place, folder: str, files: list[str], columns: Columns, train_rows: int) -> dict[str, str]:
    """Tables `train`, `dev` and `test` of one file, of which rows are drawn, or of two: the second one is the test."""
    tables = [read_table(place.given(file), columns, bad_rows=[]) for file in files]
    for rows in tables:
        random.Random(0).shuffle(rows)
    test = tables[1][:TEST] if len(tables) > 1 else tables[0][DEV : DEV + TEST]
    known = {row.texts for row in test}
    rest = [row for row in tables[0] if row.texts not in known]
    parts = {"train": rest[DEV : DEV + train_rows], "dev": rest[:DEV], "test": test}
    return {name: write_table(place.made(f"{folder}/{name}.tsv"), rows) for name, rows in parts.items()}


def write_table(path: str, rows) -> str:
    """Rows with their labels, tab-separated. Returns its path."""
    names = ["label", "text", "text_pair"][: 1 + len(rows[0].texts)]
    written = io.StringIO()
    table = csv.writer(written, delimiter="\t", lineterminator="\n")
    table.writerows([names, *([row.label, *(" ".join(text.split()) for text in row.texts)] for row in rows)])
    write_once(path, written.getvalue().splitlines())
    return path
