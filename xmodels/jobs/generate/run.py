"""Continues prompts with the network of a run, or translates them where that is what it learnt."""

import dataclasses
import json
import sys

from tqdm.auto import tqdm

from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import whole_file
from data_pipelines.paths import check_output
from xmodels.decoding.options import Decoding
from xmodels.jobs.generate.options import Options
from xmodels.runs.fine_tuned import generator_class, load_generator
from xmodels.tasks.base.generation import pays_to_compile

SETTINGS = tuple(field.name for field in dataclasses.fields(Decoding) if field.name in Options.__dataclass_fields__)

DRAWS = "temperature", "top_k", "top_p"  # settings of draws, which beam search makes none of


def generate(options: Options) -> list[str]:
    """Prints or writes continuations, and returns them."""
    prompt, input_file, output_file = options.prompt, options.input_file, options.output_file
    if (prompt is None) == (input_file is None):
        raise UsageError("Give either --prompt or --input_file.")
    check_output(output_file, overwrite=options.overwrite)
    settings = {name: getattr(options, name) for name in SETTINGS}
    decoding = decoding_of(settings, generator_class(options.model_dir).defaults)
    if options.num_samples > 1 and (decoding.num_beams > 1 or not decoding.temperature):
        raise UsageError(
            f"--num_samples={options.num_samples}: beam search and --temperature=0 find the same text every time."
        )
    if decoding.num_beams > 1 and (
        drawn := [name for name in DRAWS if settings[name] is not None and settings[name] != 0]
    ):
        raise UsageError(
            f"--{drawn[0]}={settings[drawn[0]]:g}: beam search draws nothing. Leave it out, or --num_beams."
        )
    prompts = [prompt] if input_file is None else lines_of(input_file)
    generator = load_generator(options.model_dir)
    decoding = dataclasses.replace(decoding, length_penalty=generator.penalty(options.length_penalty))
    asked = [each for each in prompts for _ in range(options.num_samples)]
    generator.jit_compile = pays_to_compile(options.jit_compile, len(asked))
    with tqdm(total=len(asked), desc="texts", unit="text", disable=len(asked) < 20) as progress:
        limit = {} if options.max_new_tokens is None else {"max_new_tokens": options.max_new_tokens}
        found = generator.generate(
            asked, decoding, seed=options.seed, batch_size=options.batch_size, progress=progress.update, **limit
        )
    if lost := generator.truncation_note():
        print(f"Note: {lost}", file=sys.stderr)
    if output_file:
        with whole_file(output_file, "w") as file:
            for text, more in zip(asked, found, strict=True):
                file.write(json.dumps({"prompt": text, "continuation": more}, ensure_ascii=False) + "\n")
        print(f"{output_file}: {len(found):,} texts.")
        return found
    for number, (text, more) in enumerate(zip(asked, found, strict=True)):
        print(f"{'-' * 20}\n" * bool(number) + f"{text}▸{more}")
    return found


def decoding_of(settings: dict, defaults: dict) -> Decoding:
    """Returns the settings of flags, those that were not given by `defaults`; raises a UsageError where they contradict each
    other.

    Who gives `top_k` or `top_p` alone wants draws.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    drawn = {"temperature": 1.0} if given.keys() & {"top_k", "top_p"} else {}
    try:
        return Decoding(**{**defaults, **drawn, **given})
    except ValueError as error:
        raise UsageError(str(error)) from None


def lines_of(path: str) -> list[str]:
    """Returns the lines of a plain text file. Raises a DataError where there is none, or it is not UTF-8."""
    with open_text(path) as file:
        lines = [line.rstrip("\r\n") for line in file]
    if not lines:
        raise DataError(f"{path}: holds no prompt.")
    return lines
