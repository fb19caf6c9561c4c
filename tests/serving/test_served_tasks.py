"""Tasks answer over HTTP as `predict` does, and as their README says; classes, tags and answers in texts: test_serve_http.py."""

import contextlib
import json
import re

import numpy as np
import pytest

for package in ("starlette", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(package)

from starlette.testclient import TestClient  # noqa: E402

from data_pipelines.corpora.choices import ChoiceQuestion  # noqa: E402
from data_pipelines.corpora.rankings import RankedList  # noqa: E402
from tests.helpers.served_app import app_of  # noqa: E402
from tests.helpers.small_served import small_export  # noqa: E402
from xmodels.runs.fine_tuned import load_predictor as load  # noqa: E402
from xmodels.serving.folder import find_model, labels_of  # noqa: E402
from xmodels.serving.limits import Limits  # noqa: E402
from xmodels.serving.model import Model  # noqa: E402
from xmodels.tasks.base.answer import without_padding  # noqa: E402

pytestmark = pytest.mark.extra("starlette", "uvicorn", "prometheus_client", "httpx")
TEXTS = ["Ann lives in York.", "Where does Bob live? 北京", "many words and more words"]
PAIRS = list(zip(TEXTS, reversed(TEXTS), strict=True))
LISTS = [("who lives in york ?", TEXTS), ("北京", TEXTS[:2])]


@contextlib.contextmanager
def asking(export):
    """What sends a request to a server of an export, and returns its answer, which must be a good one."""
    folder = find_model(str(export))
    with TestClient(app_of(Model(folder), Limits(), labels_of(folder))) as client:

        def ask(request):
            answer = client.post(f"/v1/models/{folder.name}:predict", json=request)
            assert answer.status_code == 200, answer.text
            return answer.json()

        yield ask


def columns(**values):
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def attention_is_that_of_the_run(ask, predictor, features, **inputs):
    """Of what the run reads of the inputs, features (1, L)."""
    for layer, heads in enumerate(predictor.backbone.attention_maps(without_padding(features)), 1):
        found = ask({"signature_name": "attention", "inputs": {**inputs, "layer": layer}})["outputs"]
        assert found["num_layers"] == 2 and found["token"][0] == "[CLS]"
        np.testing.assert_allclose(found["weight"], np.array(heads)[0].mean(axis=0), atol=1e-5)


def regress(ask, predictor):
    found = ask({"instances": TEXTS})["predictions"]
    assert found == pytest.approx(predictor.predict([(text,) for text in TEXTS]), abs=1e-4)


def multi_label(ask, predictor):
    for row, expected in zip(
        ask({"instances": TEXTS})["predictions"], predictor.predict([(t,) for t in TEXTS]), strict=True
    ):
        assert row["probabilities"] == pytest.approx(list(expected.probabilities.values()), abs=1e-5)
        chosen = [label for label, there in zip(row["labels"], row["chosen"], strict=True) if there]
        assert sorted(chosen) == sorted(expected.labels)


def rank(ask, predictor):
    expected = predictor.predict([RankedList(query, texts, [], "test") for query, texts in LISTS])
    for (query, texts), wanted in zip(LISTS, expected, strict=True):
        (found,) = ask({"instances": [{"query": query, "candidates": texts}]})["predictions"]
        assert found["order"] == wanted.order
        assert found["probabilities"] == pytest.approx(wanted.probabilities, abs=1e-5)
        pair = query, texts[1]
        attention_is_that_of_the_run(ask, predictor, predictor.features([pair]), query=query, candidate=texts[1])


def choose(ask, predictor):
    expected = predictor.predict([ChoiceQuestion("", query, texts, None, "test") for query, texts in LISTS])
    for (query, texts), wanted in zip(LISTS, expected, strict=True):
        (found,) = ask({"instances": [{"context": "", "question": query, "choices": texts}]})["predictions"]
        assert found["probabilities"] == pytest.approx(wanted.probabilities, abs=1e-5)
    for context, query, choice in (("", "北京", TEXTS[1]), ("Ann is here. " * 9, "who ?", TEXTS[0])):
        features = predictor.features([ChoiceQuestion(context, query, ["no", choice], None, "test")])
        second = {name: features[name][:, 1] for name in ("token_ids", "segment_ids", "padding_mask")}
        attention_is_that_of_the_run(ask, predictor, second, context=context, question=query, choice=choice)


def san(ask, predictor):
    instances = columns(text=[a for a, _ in PAIRS], text_pair=[b for _, b in PAIRS])
    for row, expected in zip(ask({"instances": instances})["predictions"], predictor.predict(PAIRS), strict=True):
        assert row["label"] == expected.label
        assert row["probabilities"] == pytest.approx(list(expected.probabilities.values()), abs=1e-5)
    first, second = PAIRS[0]
    attention_is_that_of_the_run(ask, predictor, predictor.features(PAIRS[:1]), text=first, text_pair=second)


def siamese(ask, predictor):
    inputs = {"text": [a for a, _ in PAIRS], "text_pair": [b for _, b in PAIRS]}
    found = ask({"signature_name": "similarity", "inputs": inputs})["outputs"]
    assert found == pytest.approx([each.similarity for each in predictor.predict(PAIRS)], abs=1e-5)
    for text in PAIRS[0]:
        attention_is_that_of_the_run(ask, predictor, predictor.features([(text,)]), text=text)


def fast_classify(ask, predictor):
    for speed in (0.0, 0.4, 0.9):
        predictor.adjust(speed=speed, exit_mode="exit")
        found = ask({"signature_name": "adaptive", "inputs": {"text": TEXTS, "speed": speed}})["outputs"]
        expected = predictor.predict([(text,) for text in TEXTS])
        assert found["label"] == [each.label for each in expected]
        assert found["layer"] == [each.layer for each in expected]


@pytest.mark.one_in(7)
@pytest.mark.parametrize("check", [choose, regress, multi_label, rank, san, siamese, fast_classify])
def test_answers_over_http_are_those_of_predict_and_of_the_readme(check, tmp_path):
    run, export = small_export(check.__name__, tmp_path)
    text = (export / "README.md").read_text("utf-8")
    body, answer = (
        re.search(r"<<'JSON'\n(.*?)\nJSON", text, re.DOTALL)[1],
        re.search(r"```json\n(.*?)\n```", text, re.DOTALL)[1],
    )
    with asking(export) as ask:
        check(ask, load(str(run)))
        found = ask(json.loads(body))
        found.pop("labels", None)  # which TensorFlow Serving, for which the README speaks too, does not add
        assert flat(found) == pytest.approx(flat(json.loads(answer)), abs=2e-3)


def flat(value):
    """All numbers and texts of an answer, in order."""
    if isinstance(value, dict):
        return [x for key in sorted(value) for x in flat(value[key])]
    return [x for each in value for x in flat(each)] if isinstance(value, list) else [value]
