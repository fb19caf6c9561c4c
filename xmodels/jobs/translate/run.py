"""Writes the targets of texts with the network of a run: translations, where it learnt to translate."""

from data_pipelines.errors import UsageError
from data_pipelines.paths import check_output
from xmodels.decoding.options import Decoding
from xmodels.jobs.translate.options import Options
from xmodels.runs.fine_tuned import Source
from xmodels.tasks.base.find import load_part
from xmodels.tasks.base.generation import pays_to_compile

TASK = __name__.split(".")[-2]  # the verb has the name of the task


def translate(options: Options) -> list[str]:
    """Prints or writes translations, and returns them. A blank line stays blank."""
    text, input_file, output_file = options.text, options.input_file, options.output_file
    if (text is None) == (input_file is None):
        raise UsageError("Give either --text or --input_file.")
    check_output(output_file, overwrite=options.overwrite)
    answer, read = load_part(TASK, "answer"), load_part(TASK, "read")
    if options.max_new_tokens is not None and options.min_new_tokens > options.max_new_tokens:
        raise UsageError(
            f"--min_new_tokens={options.min_new_tokens}: more than --max_new_tokens={options.max_new_tokens}. Lower the one or "
            "raise the other."
        )
    if input_file is None and options.text_column is not None:
        raise UsageError("--text_column: names a column of --input_file. Leave it out, or give a table.")
    texts = [text] if input_file is None else read.texts_of(input_file, options.text_column)
    generator = answer.load(Source(options.model_dir))
    generator.jit_compile = pays_to_compile(options.jit_compile, len(texts))
    names = "num_beams", "no_repeat_ngram_size", "min_new_tokens"
    numbers = {name: getattr(options, name) for name in names}
    decoding = Decoding(temperature=0.0, length_penalty=generator.penalty(options.length_penalty), **numbers)
    found = answer.translations(generator, texts, decoding, options.batch_size, options.max_new_tokens)
    if output_file:
        read.write_lines(output_file, found)
        print(f"{output_file}: {len(found):,} translations.")
        return found
    for each in found:
        print(each)
    return found
