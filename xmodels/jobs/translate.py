"""Translates texts with the network of a run."""

import os
import sys
from collections.abc import Sequence

from tqdm import tqdm

from data_pipelines.corpora.lines import ENDLESS, Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError, UsageError
from xmodels.decoding.options import Decoding
from xmodels.export.translator import Translator
from xmodels.jobs.options.translate import Options
from xmodels.jobs.predict import check_output


def translate(options: Options) -> list[str]:
    """Prints or writes translations, and returns them. A blank line stays blank."""
    text, input_file, output_file = options.text, options.input_file, options.output_file
    if (text is None) == (input_file is None):
        raise UsageError("Give either --text or --input_file.")
    if output_file and os.path.exists(output_file) and not options.overwrite:
        raise UsageError(f"--output_file={output_file}: exists. Choose another name or add --overwrite.")
    check_output(output_file)
    texts = [text] if input_file is None else lines_of(input_file)
    translator = Translator.load(options.model_dir)
    decoding = Decoding(temperature=0.0, num_beams=options.num_beams, length_penalty=options.length_penalty)
    found = translations(translator, texts, decoding, options.batch_size, options.max_new_tokens)
    if output_file:
        write_lines(output_file, found)
        print(f"{output_file}: {len(found):,} translations.")
        return found
    for each in found:
        print(each)
    return found


def translations(
    translator: Translator, texts: Sequence[str], decoding: Decoding, batch_size: int, max_new_tokens: int | None = None
) -> list[str]:
    """The translation of each text, with a bar of progress where there are many; says where sources were cut."""
    with tqdm(total=len(texts), desc="texts", unit="text", disable=len(texts) < 200) as progress:
        found = translator.generate(texts, decoding, max_new_tokens, 0, batch_size, progress.update)
    if translator.num_cut:
        print(
            f"Note: {translator.num_cut:,} text(s) have more than the {translator.longest} tokens that the network reads, "
            "and lost their end. Translate sentence by sentence.", file=sys.stderr,
        )  # fmt: skip
    return [one_line(each) for each in found]


def one_line(text: str) -> str:
    """A translation without line breaks, which would be taken for its end."""
    return " ".join(text.split("\n")).replace("\r", " ")


def write_lines(path: str, lines: Sequence[str]) -> None:
    """Writes a text a line; the file is there whole or not at all."""
    with open(f"{path}.partial", "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)
    os.replace(f"{path}.partial", path)


def lines_of(path: str) -> list[str]:
    """The lines of a text file, also compressed. Raises a DataError where there is none, or one is not UTF-8."""
    if not os.path.isfile(path):
        raise DataError(f"--input_file={path}: no such file.")
    lines = list(Lines(Piece(path, "documents", 0, ENDLESS, ENDLESS), "file", Reading(), Monitor()))
    if not any(lines):
        raise DataError(f"--input_file={path}: holds no text.")
    return lines
