"""Accuracy on questions that likelihoods answer: the last word of a passage, and one of several words for a gap."""

from data_pipelines.corpora import cloze
from data_pipelines.corpora.files import expand
from data_pipelines.errors import DataError
from data_pipelines.text.detokenize import DETOKENIZERS
from data_pipelines.text.spelling import spelling
from data_pipelines.text.stop_words import STOP_WORDS
from data_pipelines.text.tokenizer import Tokenizer
from xmodels.objectives.perplexity import perplexity
from xmodels.tasks.language_model.network import window_length
from xmodels.tasks.language_model.questions import Likelihood, likelihoods
from xmodels.tasks.language_model.scorer import Scorer
from xmodels.tasks.language_model.settings import Settings

ROWS_TOGETHER = 16
READ = {"last_word": cloze.last_words, "choice": cloze.choices}


def stop_word_ids(tokenizer: Tokenizer) -> list[int]:
    """Returns the tokens that are a stop word by themselves."""
    table = spelling(tokenizer)
    return [i for i, text in enumerate(table) if text.decode(errors="replace").strip().lower() in STOP_WORDS]


def read_questions(options: Settings) -> list[cloze.Question]:
    """Returns the questions of --test_file. Raises a DataError that names the line where one is none."""
    change = DETOKENIZERS[options.detokenize]
    paths = expand(options.test_file, "--test_file")
    questions = [question for path in paths for question in READ[options.form](path, change)]
    if not questions:
        raise DataError(f"--test_file={options.test_file}: holds no question.")
    return questions


def evaluate_questions(scorer: Scorer, options: Settings, questions: list[cloze.Question]) -> dict:
    """Prints and returns the scores of --form=last_word and --form=choice."""
    length = window_length(options.model_dir, scorer.backbone, options.max_seq_length)
    batch_size = options.batch_size or ROWS_TOGETHER
    found, cut = likelihoods(scorer, questions, length, batch_size, options.stop_word_filter)
    scores = {
        "test_file": options.test_file, "form": options.form, "detokenize": options.detokenize,
        "num_questions": len(questions), "num_contexts_cut": cut, "max_seq_length": length,
    }  # fmt: skip
    scores |= last_word(scorer, found, options) if options.form == "last_word" else choice(questions, found)
    print(f"{options.test_file}: {len(questions):,} questions · " + " · ".join(_summary_parts(scores)))
    if cut:
        print(f"  {cut:,} contexts were longer than {length:,} tokens and lost their beginning.")
    return scores


def last_word(scorer: Scorer, found: list[list[Likelihood]], options: Settings) -> dict:
    """Returns right where each token of the word is the likeliest; perplexity by word, over all of its tokens.

    With the filter no stop word is an answer (Radford et al., 2019, section 3.3): tokens that are one by themselves are passed
    over where the word begins.
    """
    words = [likelihood for (likelihood,) in found]
    stop = set(stop_word_ids(scorer.tokenizer)) if options.stop_word_filter else set()
    right = [w.is_greedy and not (len(w.tokens) == 1 and w.tokens[0] in stop) for w in words]
    loss = sum(w.loss for w in words)
    return {
        "stop_word_filter": options.stop_word_filter,
        "accuracy": sum(right) / len(words),
        "word_perplexity": perplexity(loss, len(words)),
        "nll": loss,
        "num_tokens": sum(len(w.tokens) for w in words),
    }


def choice(questions: list[cloze.Question], found: list[list[Likelihood]]) -> dict:
    """Returns right where the candidate with the rest of its sentence is the likeliest behind the context."""
    answers = [min(range(len(options)), key=lambda i: options[i].loss) for options in found]
    right = sum(answer == question.answer for answer, question in zip(answers, questions, strict=True))
    by_chance = sum(1 / len(question.options) for question in questions) / len(questions)
    return {"accuracy": right / len(questions), "chance": by_chance}


def _summary_parts(scores: dict) -> list[str]:
    titles = {"accuracy": "accuracy", "chance": "by chance", "word_perplexity": "perplexity by word"}
    parts = [f"{title} {scores[name]:.4f}" for name, title in titles.items() if scores.get(name) is not None]
    return parts + ["stop words passed over"] * scores.get("stop_word_filter", False)
