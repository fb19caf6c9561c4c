"""Scores a causal network on text: perplexity, the last word of passages, a word for a gap."""

from data_pipelines.corpora.files import expand
from xmodels.tasks.base.source import Source
from xmodels.tasks.language_model.cloze import evaluate_questions, read_questions, stop_word_ids
from xmodels.tasks.language_model.network import load_scorer
from xmodels.tasks.language_model.perplexity import evaluate_text
from xmodels.tasks.language_model.settings import Settings


def evaluate(
    source: Source, test_file: str, form: str, max_seq_length: int | None, stride: int | None, detokenize: str,
    input_format: str, stop_word_filter: bool, mem_length: str | None, same_length: str, clamp_length: int | None,
    batch_size: int | None,
) -> dict:  # fmt: skip
    """Prints and returns the scores; arguments as in `launch/evaluate.py`, scores as in `docs/evaluation.md`."""
    options = Settings(
        source.path, test_file, form, batch_size, max_seq_length, stride, detokenize, input_format, stop_word_filter,
        mem_length, same_length, clamp_length,
    )  # fmt: skip
    options.check()
    if form == "text":
        expand(test_file, "--test_file")  # says what is missing before the network is read
        scores = evaluate_text(load_scorer(source, options.fitted), options)
    else:
        questions = read_questions(options)
        scores = evaluate_questions(load_scorer(source, options.fitted, stop_word_ids), options, questions)
    return scores
