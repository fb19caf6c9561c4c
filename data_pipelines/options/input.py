"""The options for reading raw text, shared by all commands that read it. docs/data.md shows examples."""

import dataclasses
from typing import ClassVar

from data_pipelines.corpora.reading import BAD_TEXT, EXHAUSTED
from data_pipelines.options.declaration import REQUIRED, option

LANGUAGES = ("en", "zh")


def encoding_option(section: str | None = None) -> str:
    """Returns the flag --encoding of all commands that read text files."""
    return option("utf-8", "Encoding of text files without a byte-order mark, such as gb18030, big5, utf-16, windows-1252; any name that Python knows. With encodings other than utf-8, a byte-order mark still takes precedence.", section=section)  # fmt: skip


def delimiter_option() -> str | None:
    """Returns the flag --delimiter of the commands that read labelled tables."""
    return option(None, "Character that parts the columns of tables, such as ; or |, or one of tab, comma, semicolon, pipe. Default: commas in .csv, tabs in other tables. In .csv fields may stand in quotes, whatever parts them.")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Files, their language and their layout."""

    INHERITED_FIRST: ClassVar = True

    input_file: str = option(REQUIRED, "Input files: comma-separated names or globs, also .gz .bz2 .xz .zst; or tfds:NAME or tfds:FOLDER, with @SPLIT. For a mixture, give each source its share of the text: wiki/*.txt:0.7,news/*.gz:0.3. Files of records may name their fields: a.jsonl{text=body},b.csv{text=review}", section="Input (docs/data.md shows a command for each kind of corpus)")  # fmt: skip
    language: str = option("en", "Language of the text.", choices=LANGUAGES)
    input_format: str = option("auto", "auto: detected from the ending of the name, else from the content. sentences: one a line, blank lines between documents. text: free prose, paragraphs separated by blank lines. documents: one a line. jsonl, tsv, csv, parquet: one document in a field of each record. wikiextractor: its output, <doc …> or JSON. dialogue: turns. parallel: a text and its translation. verbatim: each file, or each text of a record, as it is, with line ends and blanks (byte BPE, --packing=stream). Or by file name patterns: *.txt=text,wiki/*=documents; an entry without a pattern is for all other files.")  # fmt: skip
    text_field: str | None = option(None, "Field or column of the text (also --text_column): a name, meta.text for a nested field, or a number from 0 for tables without a header line. Default: the usual names, such as text.", alias="text_column")  # fmt: skip
    target_field: str | None = option(None, "Field or column of the translation in parallel text (also --target_column).", alias="target_column")  # fmt: skip
    target_file: str | None = option(None, "Files with the translations of those in --input_file, line by line.")
    on_bad_text: str = option("fail", "What to do with bytes that are invalid in the encoding, and NUL. fail: stop and name the place. replace: put U+FFFD in their place. drop: leave out the line, and endless lines too.", choices=BAD_TEXT)  # fmt: skip
    encoding: str = encoding_option()
    when_exhausted: str = option("repeat", "What to do when a source of a mixture ends. repeat: read it again until each has been read completely at least once. stop: stop.", choices=EXHAUSTED)  # fmt: skip
