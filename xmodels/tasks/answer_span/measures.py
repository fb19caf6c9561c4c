"""Exact match and F1 of one answer, as the official scripts have them: SQuAD 1.1, SQuAD 2.0 (Rajpurkar et al., 2016 and 2018) and
CMRC 2018 (Cui et al., 2019)."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from data_pipelines.corpora.squad import Question
from xmodels.tasks.answer_span.spans import Found

SQUAD1, SQUAD2, CMRC2018 = "squad1", "squad2", "cmrc2018"
PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")
# Characters that CMRC's script leaves out. It lists the ellipsis as two characters in one string, which no character equals.
CMRC_PUNCTUATION = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
IDEOGRAPH = re.compile("[\u4e00-\u9fa5]")


def normalized(text: str) -> str:
    """Returns lower case, without punctuation, English articles and needless blanks."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def squad_exact(truth: str, found: str) -> float:
    return float(normalized(truth) == normalized(found))


def squad1_f1(truth: str, found: str) -> float:
    """Returns F1 of words, those of a bag; 0 where no word is shared."""
    right, words = normalized(truth).split(), normalized(found).split()
    shared = sum((Counter(right) & Counter(words)).values())
    return 2 * shared / (len(right) + len(words)) if shared else 0.0


def squad2_f1(truth: str, found: str) -> float:
    """Works as `squad1_f1`; where one of the two has no words, 1 if the other has none either."""
    if not normalized(truth) or not normalized(found):
        return float(normalized(truth) == normalized(found))
    return squad1_f1(truth, found)


def cmrc_exact(truth: str, found: str) -> float:
    left, right = ("".join(c for c in text.lower().strip() if c not in CMRC_PUNCTUATION) for text in (truth, found))
    return float(left == right)


def cmrc_f1(truth: str, found: str) -> float:
    """Returns F1 of the longest run of units that both have: ideographs, and words of what stands between them."""
    right, units = units_of(truth), units_of(found)
    shared = longest_run(right, units)
    return 2 * shared / (len(right) + len(units)) if shared else 0.0


def units_of(text: str) -> list[str]:
    """Returns the ideographs of a text, and the words between them."""
    found: list[str] = []
    between = ""
    for character in text.lower().strip():
        if character in CMRC_PUNCTUATION:
            continue
        if IDEOGRAPH.match(character):
            found += [*words_of(between), character]
            between = ""
        else:
            between += character
    return found + words_of(between)


SEPARATE = re.compile(r"\.{2,}|[;@#$%&?!()\[\]{}<>«»„‘\u2012-\u2015]|''|[:,](?!\d)")
OPENING_QUOTE = re.compile(r"(?<=[ (\[{<])(?:\"|'')")
OPENING_APOSTROPHE = re.compile(r"(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)")
LAST_STOP = re.compile(r"(?<=[^.])\.(?=[\])}>\"' »]*$)")
CLITIC = re.compile(r"(?<=[^' ])(?:'ll|'re|'ve|n't|'[smd]|') ")


def words_of(text: str) -> list[str]:
    """Returns words of Latin script and numbers, as the tokenizer of the Penn Treebank has them, which CMRC's script asks NLTK
    for.

    Sentences are not told apart: a full stop is a word of its own at the end only.
    """
    text = OPENING_QUOTE.sub(" `` ", re.sub('^"', " `` ", text))
    text = OPENING_APOSTROPHE.sub("' ", text)
    text = SEPARATE.sub(r" \g<0> ", LAST_STOP.sub(" . ", text)).replace('"', " '' ")
    text = re.sub(r"\s+", " ", f" {text} ")
    return CLITIC.sub(r" \g<0>", text).replace("cannot ", "can not ").split()


def longest_run(left: Sequence[str], right: Sequence[str]) -> int:
    """Returns the length of the longest run that stands in both."""
    best, before = 0, [0] * (len(right) + 1)
    for unit in left:
        row = [0] * (len(right) + 1)
        for place, other in enumerate(right):
            if unit == other:
                row[place + 1] = before[place] + 1
        best, before = max(best, *row), row
    return best


MEASURES: dict[str, tuple[Callable[[str, str], float], Callable[[str, str], float]]] = {
    SQUAD1: (squad_exact, squad1_f1),
    SQUAD2: (squad_exact, squad2_f1),
    CMRC2018: (cmrc_exact, cmrc_f1),
}


def measure(metric: str, truths: Sequence[str], found: str) -> tuple[float, float]:
    """Returns exact match and F1 of an answer: the best over all right answers, none of which are there where there is no
    answer."""
    if metric == SQUAD2:
        truths = [text for text in truths if normalized(text)] or [""]
    exact, f1 = (max((measure(text, found) for text in truths), default=0.0) for measure in MEASURES[metric])
    return exact, f1


def rights(question: Question) -> list[str]:
    """Returns the right answers; none of a question that the text does not answer."""
    return [] if question.is_impossible else [text for text, _ in question.answers]


def f1_by_difference(predictions: Sequence[Found], truth: Sequence[Question]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rising differences of the scores of no answer and of the best one, (N,), and the sums of F1 of SQuAD 2.0
    where the first 0 to N of these questions are answered, (N + 1,)."""
    differences = np.array([each.null_score_diff for each in predictions])
    answers = [each.answer_at(None).text for each in predictions]
    answered = np.array([measure(SQUAD2, rights(q), text)[1] for q, text in zip(truth, answers, strict=True)])
    silent = np.array([measure(SQUAD2, rights(q), "")[1] for q in truth])
    order = np.argsort(differences, kind="stable")
    return differences[order], silent.sum() + np.concatenate([[0.0], np.cumsum((answered - silent)[order])])


def metric_of(questions) -> str:
    """Returns the metric of the data set that questions look like: CMRC 2018 if most of their texts are Chinese, SQuAD 2.0 if
    some have no answer, else SQuAD 1.1."""
    if any(each.is_impossible or not each.answers for each in questions):
        return SQUAD2
    texts = [each.context for each in questions[:100]]
    chinese = sum(len(IDEOGRAPH.findall(text)) > 0.3 * len(text) for text in texts)
    return CMRC2018 if 2 * chinese > len(texts) else SQUAD1
