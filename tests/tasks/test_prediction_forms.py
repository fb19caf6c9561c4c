"""What `predict` prints and writes of a prediction, task by task: the line, the cells of a table, the JSON record."""

import json
import types

import numpy as np
import pytest

from data_pipelines.corpora.choices import ChoiceQuestion
from data_pipelines.corpora.squad import Question
from xmodels.tasks.answer_span.spans import Answer, Found
from xmodels.tasks.answer_story.answer import StoryAnswer
from xmodels.tasks.base.find import load_part
from xmodels.tasks.choose.answer import Choice
from xmodels.tasks.classify.answer import Prediction as Label
from xmodels.tasks.fast_classify.answer import Prediction as Exit
from xmodels.tasks.multi_label.answer import Prediction as Labels
from xmodels.tasks.siamese.answer import Prediction as Similar

PAIR, POINTS = ("a", "b"), np.zeros((2, 3), np.float32)
SHARES = {"no": 0.25, "yes": 0.75}

BEST, NONE = Answer("b", 1, 2, 0.75, 0.0, 0.0), Answer("", -1, -1, 0.25, 0.0, 0.0)
CASES = {  # {name: (task, attributes of its predictor, an input, a prediction)}
    "classify": ("classify", {}, PAIR, Label("yes", SHARES)),
    "sets": ("classify_sets", {}, POINTS, Label("yes", SHARES)),
    "early": ("fast_classify", {}, PAIR, Exit("yes", SHARES, 2, 0.5)),
    "several": ("multi_label", {"separator": ";"}, PAIR, Labels(["yes", "no"], SHARES)),
    "none": ("multi_label", {"separator": ";"}, PAIR, Labels([], SHARES)),
    "number": ("regress", {}, PAIR, 1 / 3),
    "number_of_set": ("regress_sets", {}, POINTS, 1 / 3),
    "cosine": ("siamese", {"settings": types.SimpleNamespace(threshold=None)}, PAIR, Similar(0.5)),
    "match": ("siamese", {"settings": types.SimpleNamespace(threshold=0.4)}, PAIR, Similar(0.5, True)),
    "inference": ("siamese", {"settings": types.SimpleNamespace(threshold=None)}, PAIR, Similar(0.5, None, SHARES)),
    "story": ("answer_story", {}, (["a b", "c"], "d"), StoryAnswer("yes", SHARES, np.array([1.0, 2.0, 1.0]))),
    "steps": ("answer_story", {}, (["a b", "c"], "d"), StoryAnswer("yes", SHARES, None)),
    "span": ("answer_span", {}, Question("7", "q", "ab", [], False, ""), Found(BEST, [BEST, NONE], -1.5)),
    "no_span": ("answer_span", {}, Question("", "q", "ab", [], False, ""), Found(NONE, [NONE], np.inf)),
    "choice": ("choose", {}, ChoiceQuestion("c", "q", ["a", "b"], None, ""), Choice(1, "b", [0.25, 0.75])),
}


FORMS = {  # of each case
    "classify": {
        "printed": ["label: yes", "  0.7500  yes", "  0.2500  no"],
        "line": "yes\t0.7500\ta | b",
        "header": ["label", "no", "yes"],
        "row": ["yes", "0.250000", "0.750000"],
        "record": {"texts": ["a", "b"], "label": "yes", "probabilities": {"no": 0.25, "yes": 0.75}},
    },
    "sets": {
        "printed": None,
        "line": "yes\t0.7500\t2 vectors",
        "header": ["label", "no", "yes"],
        "row": ["yes", "0.250000", "0.750000"],
        "record": {"label": "yes", "probabilities": {"no": 0.25, "yes": 0.75}},
    },
    "early": {
        "printed": ["label: yes", "  0.7500  yes", "  0.2500  no", "layer: 2 of 3, uncertainty 0.5000"],
        "line": "yes\t0.7500\tlayer 2\ta | b",
        "header": ["label", "no", "yes", "layer", "uncertainty"],
        "row": ["yes", "0.250000", "0.750000", "2", "0.500000"],
        "record": {
            "texts": ["a", "b"],
            "label": "yes",
            "probabilities": {"no": 0.25, "yes": 0.75},
            "layer": 2,
            "uncertainty": 0.5,
        },
    },
    "several": {
        "printed": ["labels: yes, no", "  0.7500  yes", "  0.2500  no"],
        "line": "yes;no\ta | b",
        "header": ["labels", "no", "yes"],
        "row": ["yes;no", "0.250000", "0.750000"],
        "record": {"texts": ["a", "b"], "labels": ["yes", "no"], "probabilities": {"no": 0.25, "yes": 0.75}},
    },
    "none": {
        "printed": ["labels: none", "  0.7500  yes", "  0.2500  no"],
        "line": "\ta | b",
        "header": ["labels", "no", "yes"],
        "row": ["", "0.250000", "0.750000"],
        "record": {"texts": ["a", "b"], "labels": [], "probabilities": {"no": 0.25, "yes": 0.75}},
    },
    "number": {
        "printed": ["score: 0.3333"],
        "line": "0.3333\ta | b",
        "header": ["score"],
        "row": ["0.333333"],
        "record": {"texts": ["a", "b"], "score": 0.3333333333333333},
    },
    "number_of_set": {
        "printed": None,
        "line": "0.3333\t2 vectors",
        "header": ["score"],
        "row": ["0.333333"],
        "record": {"score": "0.333333"},
    },
    "cosine": {
        "printed": ["similarity: 0.5000"],
        "line": "0.5000\ta | b",
        "header": ["similarity"],
        "row": ["0.500000"],
        "record": {"texts": ["a", "b"], "similarity": 0.5},
    },
    "match": {
        "printed": ["similarity: 0.5000", "match: yes (from 0.4000 on)"],
        "line": "0.5000\ta | b",
        "header": ["similarity", "match"],
        "row": ["0.500000", "1"],
        "record": {"texts": ["a", "b"], "similarity": 0.5, "match": True},
    },
    "inference": {
        "printed": ["similarity: 0.5000", "  0.7500  yes", "  0.2500  no"],
        "line": "0.5000\ta | b",
        "header": ["similarity", "label", "no", "yes"],
        "row": ["0.500000", "yes", "0.250000", "0.750000"],
        "record": {"texts": ["a", "b"], "similarity": 0.5, "label": "yes", "probabilities": {"no": 0.25, "yes": 0.75}},
    },
    "story": {
        "printed": ["answer: yes", "  0.7500  yes", "  0.2500  no", "steps:", "  1  a b", "  2  c", "  1  d"],
        "line": "yes\t0.7500\td",
        "header": ["question", "label", "no", "yes"],
        "row": ["d", "yes", "0.250000", "0.750000"],
        "record": {
            "story": ["a b", "c"],
            "question": "d",
            "answer": "yes",
            "probabilities": {"no": 0.25, "yes": 0.75},
            "steps": [1.0, 2.0, 1.0],
        },
    },
    "steps": {
        "printed": ["answer: yes", "  0.7500  yes", "  0.2500  no"],
        "line": "yes\t0.7500\td",
        "header": ["question", "label", "no", "yes"],
        "row": ["d", "yes", "0.250000", "0.750000"],
        "record": {"story": ["a b", "c"], "question": "d", "answer": "yes", "probabilities": {"no": 0.25, "yes": 0.75}},
    },
    "span": {
        "printed": ["answer: b", "  0.7500  1-2  b", "  0.2500  (no answer)"],
        "line": "b\t0.7500\tq",
        "header": ["id", "question", "answer", "start", "end", "score"],
        "row": ["7", "q", "b", "1", "2", "0.750000"],
        "record": {
            "id": "7",
            "question": "q",
            "answer": "b",
            "start": 1,
            "end": 2,
            "score": 0.75,
            "null_score_diff": -1.5,
            "n_best": [
                {"answer": "b", "start": 1, "end": 2, "score": 0.75},
                {"answer": "", "start": -1, "end": -1, "score": 0.25},
            ],
        },
    },
    "no_span": {
        "printed": ["no answer", "  0.2500  (no answer)"],
        "line": "\t0.2500\tq",
        "header": ["id", "question", "answer", "start", "end", "score"],
        "row": ["", "q", "", "-1", "-1", "0.250000"],
        "record": {
            "question": "q",
            "answer": "",
            "start": -1,
            "end": -1,
            "score": 0.25,
            "null_score_diff": None,
            "n_best": [{"answer": "", "start": -1, "end": -1, "score": 0.25}],
        },
    },
    "choice": {
        "printed": None,
        "line": "1\t0.7500\tb\tq",
        "header": ["question", "choice", "text", "probabilities"],
        "row": ["q", "1", "b", "0.250000 0.750000"],
        "record": {"question": "q", "choice": 1, "text": "b", "probabilities": [0.25, 0.75]},
    },
}


def forms(case: str) -> dict:
    """Returns the lines, the table and the record of a prediction of a predictor without a network."""
    task, attributes, asked, prediction = CASES[case]
    predictor_class = load_part(task, "answer").Predictor
    predictor = predictor_class.__new__(predictor_class)
    named = case not in ("cosine", "match", "choice")
    predictor.task = types.SimpleNamespace(label_names=tuple(SHARES) if named else (), branches=[None] * 3)
    vars(predictor).update(attributes)
    described = None if task in ("classify_sets", "regress_sets", "choose") else predictor.describe_prediction
    return {
        "printed": list(described(asked, prediction)) if described else None,
        "line": predictor.line(asked, prediction),
        "header": predictor.header(),
        "row": [str(cell) for cell in predictor.row(asked, prediction)],
        "record": predictor.record(asked, prediction),
    }


@pytest.mark.parametrize("case", CASES)
def test_a_prediction_has_the_same_line_table_and_record(case):
    # As text, since the order of the keys of a record is part of a JSON line.
    assert json.dumps(forms(case)) == json.dumps(FORMS[case])
