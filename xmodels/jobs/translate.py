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
from xmodels.jobs.predict import check_output


def translate(
    model_dir: str, text: str | None, input_file: str | None, num_beams: int, length_penalty: float,
    max_new_tokens: int | None, output_file: str | None, overwrite: bool, batch_size: int,
) -> None:  # fmt: skip
    """Prints or writes translations; arguments as in `launch/translate.py`. A blank line stays blank."""
    if (text is None) == (input_file is None):
        raise UsageError("Give either --text or --input_file.")
    if output_file and os.path.exists(output_file) and not overwrite:
        raise UsageError(f"--output_file={output_file}: exists. Choose another name or add --overwrite.")
    check_output(output_file)
    texts = [text] if input_file is None else lines_of(input_file)
    translator = Translator.load(model_dir)
    decoding = Decoding(temperature=0.0, num_beams=num_beams, length_penalty=length_penalty)
    found = translations(translator, texts, decoding, batch_size, max_new_tokens)
    if output_file:
        write_lines(output_file, found)
        print(f"{output_file}: {len(found):,} translations.")
        return
    for each in found:
        print(each)


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
