"""How raw text is to be read: the flags that `create_pretraining_data` and `train_vocabulary` share."""

import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from data_pipelines.corpora import encodings
from data_pipelines.corpora.files import split_sources
from data_pipelines.errors import UsageError
from data_pipelines.text.sentences import SPLITTERS

FORMATS = (
    "auto", "sentences", "text", "documents", "jsonl", "tsv", "csv", "parquet", "wikiextractor", "dialogue", "parallel",
    "verbatim",
)  # fmt: skip
BAD_TEXT = ("fail", "replace", "drop")
EXHAUSTED = ("repeat", "stop")


@dataclasses.dataclass(frozen=True)
class Reading:
    """Choices that hold for all files of a corpus.

    Attributes:
        language: "en" or "zh", for splitting and joining.
        text_field: field or column that holds the text; None tries the usual names. A field of a field is `meta.text`;
            digits alone count the columns of a table without a header line from 0.
        target_field: the same for the translation in parallel text.
        on_bad_text: one of `BAD_TEXT`: what to do with bytes that are not UTF-8, with NUL, with endless lines (these
            are dropped or an error, never replaced).
        when_exhausted: one of `EXHAUSTED`: what happens in a mixture at the end of the first source.
        encoding: of text files without a byte-order mark.
        verbatim: whether documents keep their line ends and blanks; their `sentences` are then lines that begin with what stands
            between them.
    """

    language: str = "en"
    text_field: str | None = None
    target_field: str | None = None
    on_bad_text: str = "fail"
    when_exhausted: str = "repeat"
    encoding: str = encodings.UTF_8
    verbatim: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Reading":
        """Returns the choices among settings, such as those of a manifest; what they lack keeps its default."""
        return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls) if field.name in values})

    def check(self) -> None:
        """Raises a UsageError that says what to change."""
        encodings.check_name(self.encoding)
        for name, known in (("on_bad_text", BAD_TEXT), ("when_exhausted", EXHAUSTED)):
            if getattr(self, name) not in known:
                raise UsageError(f"--{name}={getattr(self, name)}: unknown. Known: {', '.join(known)}.")

    @property
    def codec(self) -> str:
        """The name of the encoding as Python has it."""
        return encodings.check_name(self.encoding)

    @property
    def split(self) -> Callable[[str], list[str]]:
        return SPLITTERS[self.language]


@dataclasses.dataclass
class Monitor:
    """Progress and counts of a reader.

    Attributes:
        progress: called with numbers of bytes; they add up to the size of the corpus over all of its parts.
        counts: gains `empty_files`, `empty_documents`, `bad_text_replaced`, `bad_text_dropped`, ...
    """

    progress: Callable[[int], None] = lambda num_bytes: None
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)


def report(counts: Mapping[str, int], input_file: str) -> list[str]:
    """Returns lines for the end of a command: text that was left out or mended, and the shares of a mixture."""
    names = {
        "bad_text_replaced": "lines with bad text mended with U+FFFD",
        "bad_text_dropped": "lines with bad text dropped",
        "empty_files": "empty files",
        "empty_documents": "documents without text",
    }
    found = [f"{words} {counts[name]:,}" for name, words in names.items() if counts.get(name)]
    lines = [" · ".join(found)] if found else []
    sources = split_sources(input_file)
    total = sum(counts.get(f"mixture_{i}_bytes", 0) for i in range(len(sources)))
    for index, (pattern, _) in enumerate(sources if len(sources) > 1 else []):
        given, once = (counts.get(f"mixture_{index}_{name}", 0) for name in ("bytes", "bytes_once"))
        lines.append(f"{pattern}: {given / max(1, total):.2%} of the text, read {given / max(1, once):.2f} times")
    return lines
