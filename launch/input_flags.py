"""The flags that say what raw text to read; the same for all commands that read it."""

from launch.command import Command


def add(command: Command) -> None:
    """Adds a section of flags, which `docs/data.md` explains with examples."""
    command.section("Input (docs/data.md shows a command for each kind of corpus)")
    command.string("input_file", None, "Files: comma-separated names or globs, also .gz .bz2 .xz .zst; tfds:NAME or tfds:FOLDER, with @SPLIT. For a mixture give each its share of the text: wiki/*.txt:0.7,news/*.gz:0.3", required=True)  # fmt: skip
    command.choice("language", "en", ["en", "zh"], "Language of the text.")
    command.choice("input_format", "auto", ["auto", "sentences", "text", "documents", "jsonl", "tsv", "csv", "parquet", "wikiextractor", "dialogue", "parallel"], "auto: by the ending of the name, then by looking. sentences: one a line, blank lines between documents. text: free prose, paragraphs parted by blank lines. documents: one a line. jsonl, tsv, csv, parquet: one in a field of each record. wikiextractor: its output, <doc …> or JSON. dialogue: turns. parallel: a text and its translation.")  # fmt: skip
    command.string("text_field", None, "Field or column that holds the text (also --text_column): a name, meta.text for a field inside another, or a number from 0 for tables without a header line. Default: the usual names.")  # fmt: skip
    command.string("target_field", None, "The same for the translation in parallel text (also --target_column).")
    command.string("target_file", None, "Files that hold the translations of those of --input_file, line by line.")
    command.choice("on_bad_text", "fail", ["fail", "replace", "drop"], "Bytes that are not UTF-8, and NUL: stop and name the place, put U+FFFD in their place, or drop the line (also endless lines).")  # fmt: skip
    command.choice("when_exhausted", "repeat", ["repeat", "stop"], "When a source of a mixture ends: read it again until each has been read whole at least once, or stop.")  # fmt: skip
    command.alias("text_column", "text_field")
    command.alias("target_column", "target_field")
