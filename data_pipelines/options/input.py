"""The options that say what raw text to read; all commands that read it share them. docs/data.md shows examples."""

import dataclasses
from typing import ClassVar

from data_pipelines.corpora.reading import BAD_TEXT, EXHAUSTED
from data_pipelines.options.declaration import REQUIRED, option

LANGUAGES = ("en", "zh")


def encoding_option(section: str | None = None) -> str:
    """The flag --encoding, which all commands share that read text files."""
    return option("utf-8", "Encoding of text files without a byte-order mark, such as gb18030, big5, utf-16, windows-1252: a name that Python knows. With another than utf-8, byte-order marks still go first.", section=section)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Files, their language and their layout."""

    INHERITED_FIRST: ClassVar = True

    input_file: str = option(REQUIRED, "Files: comma-separated names or globs, also .gz .bz2 .xz .zst; tfds:NAME or tfds:FOLDER, with @SPLIT. For a mixture give each its share of the text: wiki/*.txt:0.7,news/*.gz:0.3", section="Input (docs/data.md shows a command for each kind of corpus)")  # fmt: skip
    language: str = option("en", "Language of the text.", choices=LANGUAGES)
    input_format: str = option("auto", "auto: by the ending of the name, then by looking. sentences: one a line, blank lines between documents. text: free prose, paragraphs parted by blank lines. documents: one a line. jsonl, tsv, csv, parquet: one in a field of each record. wikiextractor: its output, <doc …> or JSON. dialogue: turns. parallel: a text and its translation. Or by patterns of names: *.txt=text,wiki/*=documents, and one without a pattern for all others.")  # fmt: skip
    text_field: str | None = option(None, "Field or column that holds the text (also --text_column): a name, meta.text for a field inside another, or a number from 0 for tables without a header line. Default: the usual names.", alias="text_column")  # fmt: skip
    target_field: str | None = option(None, "The same for the translation in parallel text (also --target_column).", alias="target_column")  # fmt: skip
    target_file: str | None = option(None, "Files that hold the translations of those of --input_file, line by line.")
    on_bad_text: str = option("fail", "Bytes that are not of the encoding, and NUL: stop and name the place, put U+FFFD in their place, or drop the line (also endless lines).", choices=BAD_TEXT)  # fmt: skip
    encoding: str = encoding_option()
    when_exhausted: str = option("repeat", "When a source of a mixture ends: read it again until each has been read whole at least once, or stop.", choices=EXHAUSTED)  # fmt: skip
