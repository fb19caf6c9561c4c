"""Scores a fine-tuned network on labelled rows, or a causal one on text."""

import sys

from launch.command import Command
from xmodels.jobs.quiet import quiet_start
from xmodels.runs.preflight import check_backend
from xmodels.tasks.base import find

COMMAND = Command(
    "evaluate",
    "Scores a fine-tuned network on labelled rows (accuracy, F1 of each label, confusions), or a causal one on text "
    "(perplexity, bits per byte, last words, words for gaps), or translations (BLEU, chrF).",
    "xmodels evaluate --model_dir=classifier --test_file=test.tsv\n"
    "xmodels evaluate --model_dir=hf:gpt2 --test_file=wiki.test.tokens --detokenize=wikitext --stride=512\n"
    "xmodels evaluate --model_dir=run --test_file=test.de --target_file=test.en --num_beams=4",
)
COMMAND.section("Model and data")
COMMAND.choice("task", "auto", ["auto", *sorted({*find.names(), "language_model", "translate"})], "What to score; auto: what the run was trained for.")  # fmt: skip
COMMAND.string(
    "model_dir",
    None,
    "Run folder, a model folder that convert_checkpoint wrote, or hf:FOLDER.",
    required=True,
)
COMMAND.string("test_file", None, "Labelled rows: TSV, CSV or JSON lines. Of language_model: text, passages or questions; names or globs.", required=True)  # fmt: skip
COMMAND.string("text_column", None, "Column of the text: its name, or its position from 0 in a file without header. Default: as given to finetune.")  # fmt: skip
COMMAND.string("text_pair_column", None, "Column of the second text, for pairs.")
COMMAND.string("label_column", None, "Column of the label.")
COMMAND.integer("batch_size", None, "Rows or windows at a time; with a memory, streams (default 1, which cuts nothing). Default: as fits.", minimum=1)  # fmt: skip
COMMAND.section("Language models (docs/evaluation.md)")
COMMAND.choice("form", "text", ["text", "last_word", "choice"], "text: perplexity of running text. last_word: find the last word of each passage, as in LAMBADA. choice: which candidate fits the gap XXXXX, as in the Children's Book Test.")  # fmt: skip
COMMAND.choice("detokenize", "none", ["none", "wikitext", "ptb"], "Undo the tokenization of such a corpus before the network reads it; perplexity by word still counts its own words and line ends.")  # fmt: skip
COMMAND.choice("input_format", "auto", ["auto", "verbatim", "sentences", "text", "documents", "jsonl", "tsv", "csv", "parquet"], "How to read running text. verbatim: files, or the texts of JSON lines, as they are. Others: documents, as create_pretraining_data reads them. auto: as the records of the run were made; without such, verbatim.")  # fmt: skip
COMMAND.integer("max_seq_length", None, "Tokens that the network reads at once. Default: the length it was trained on, or all it can read.", minimum=1)  # fmt: skip
COMMAND.integer("stride", None, "Tokens from one window to the next; only what no window before has scored is scored. Default: half a window.", minimum=1)  # fmt: skip
COMMAND.boolean("stop_word_filter", False, "With last_word: no English stop word is an answer.")
COMMAND.string("mem_length", None, "Transformer-XL: states that it remembers of each layer; several, such as 0,64,128, give a table. Default: as in training.")  # fmt: skip
COMMAND.switch("same_length", "auto", "Transformer-XL: every token sees equally many before it. auto: as in training.")
COMMAND.integer("clamp_length", None, "Transformer-XL: distances beyond it count as it; 0 for no bound. Default: as in training.")  # fmt: skip
COMMAND.section("Stories (docs/universal_transformer.md)")
COMMAND.string("tasks", None, "Numbers of the tasks, such as 1,2,3. Default: all that are there.")
COMMAND.string("plots", None, "Folder for pictures of steps and attention, one of the first question of each task.")
COMMAND.section("Translations (docs/translation.md)")
COMMAND.string("target_file", None, "References for test_file, line by line. Else test_file is a table: source and reference, by default its first two columns.")  # fmt: skip
COMMAND.string("target_column", None, "Column of the reference: its name, or its position from 0 in a file without header.")  # fmt: skip
COMMAND.integer("num_beams", 1, "Above 1: beam search; 4 in the paper. 1: the likeliest token each time.", minimum=1)
COMMAND.number("length_penalty", 0.6, "Of beam search: alpha of ((5 + length) / 6) ** alpha.")
COMMAND.integer("max_new_tokens", None, "Most tokens of a translation. Default: 50 more than of its source.", minimum=1)
COMMAND.choice("bleu_tokenize", "auto", ["auto", "13a", "intl", "zh", "char", "none"], "How sacreBLEU cuts texts into words. auto: zh for Chinese references, else 13a.")  # fmt: skip
COMMAND.boolean("lowercase", False, "Compare without regard to case.")
COMMAND.string("translations_file", None, "Also write the translations, one a line.")
COMMAND.section("Output")
COMMAND.string("output_file", None, "Also write the scores as JSON.")


def run() -> None:
    check_backend()
    with quiet_start():
        from xmodels.jobs.evaluate import evaluate

    given, options = COMMAND.given(), COMMAND.options()
    evaluate(options.pop("task"), given, options)


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
