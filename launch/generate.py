"""Continues texts with a causal network; translates with an encoder-decoder."""

import sys

from launch.command import Command
from xmodels.jobs.quiet import quiet_start

COMMAND = Command(
    "generate",
    "Continues texts with a causal network, such as a GPT-2. An encoder-decoder, such as a Transformer, translates (see also "
    "`xmodels translate`).",
    "xmodels generate --model_dir=run --prompt='Once upon a time' --num_samples=3\n"
    "xmodels generate --model_dir=run --input_file=prompts.txt --num_beams=4 --output_file=texts.jsonl",
)
COMMAND.section("Model")
COMMAND.string("model_dir", None, "Run folder of pretrain, or a model folder.", required=True)
COMMAND.section("Prompts: one of these")
COMMAND.string("prompt", None, "The beginning of a text; may be empty.")
COMMAND.string("input_file", None, "Plain text with a prompt a line.")
COMMAND.section("How to go on")
COMMAND.integer("max_new_tokens", None, "Most tokens behind a prompt. Default: 64; of a translation 50 more than of its source.", minimum=1)  # fmt: skip
COMMAND.number("temperature", None, "0 takes the likeliest token; below 1 likely tokens grow likelier. Default: 1; translating 0, unless top_k or top_p is given.")  # fmt: skip
COMMAND.integer("top_k", None, "Draw from the k likeliest tokens; 0 for all. Default: 40; translating 0.")
COMMAND.number("top_p", None, "Draw from the likeliest tokens that have this probability together.", maximum=1.0)
COMMAND.number("repetition_penalty", 1.0, "Above 1, tokens of the text so far get less likely.")
COMMAND.integer("no_repeat_ngram_size", 0, "No run of so many tokens comes twice; 0 for no such rule.")
COMMAND.integer("num_beams", 1, "Above 1: the best text that a beam search finds, in place of draws.", minimum=1)
COMMAND.number("length_penalty", 0.6, "Of beam search: alpha of ((5 + length) / 6) ** alpha.")
COMMAND.integer("num_samples", 1, "Continuations of each prompt.", minimum=1)
COMMAND.integer("seed", 0, "Another seed draws other texts.")
COMMAND.section("Output")
COMMAND.string("output_file", None, "JSON lines with prompt and continuation. Default: print.")
COMMAND.boolean("overwrite", False, "Replace an existing output_file.")
COMMAND.integer("batch_size", 16, "Texts at a time.", minimum=1)


def run() -> None:
    with quiet_start():
        from xmodels.jobs.generate import generate

    generate(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
