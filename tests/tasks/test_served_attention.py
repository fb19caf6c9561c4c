"""The attention that an export gives of one row of several: windows of answers, pairs in both orders; others: test_served_tasks.py."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.corpora.squad import Question
from tests.helpers.small_served import small_run
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.answer_span.windows import windows_of
from xmodels.tasks.base import find
from xmodels.tasks.base.answer import without_padding

CONTEXT = "Ann lives in York. Bob lives in Rome, and 北京 is where " + "many words and more " * 5


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    """What makes a predictor of a task, and functions that ask the signatures of its export, as they are before they are saved."""

    def asking(task):
        predictor = load(str(small_run(task, tmp_path_factory.mktemp(task))))
        server = find.load_part(task, "serve").Server(predictor, "core")
        return predictor, {name: concrete(signature) for name, signature in server.signatures().items()}

    return asking


def concrete(signature):
    graph = signature.function()
    return lambda *values: {name: value.numpy() for name, value in graph(*map(tf.constant, values)).items()}


def check(predictor, found, features, layer):
    """The weights are those of the network on what the run reads, features (1, L)."""
    maps = predictor.backbone.attention_maps(without_padding(features))
    np.testing.assert_allclose(found["weight"], np.array(maps[layer - 1])[0].mean(axis=0), atol=1e-5)
    assert found["num_layers"] == len(maps) and len(found["token"]) == len(found["weight"])


@pytest.mark.long
@pytest.mark.parametrize("task", ["answer_span", "answer_beam"])
def test_the_attention_of_an_answer_is_that_of_the_window_it_is_from(asking, task):
    predictor, ask = asking(task)
    reading = predictor.tokenizer, predictor.settings, predictor.max_sequence_length, predictor.task.reading.frame
    question = Question("", "who ?", CONTEXT, [], False, "")
    (windows,) = windows_of([question], *reading)
    assert len(windows) > 2
    begins = [window.spans[window.most_context, 0].tolist() for window in windows]
    for window, starts in zip(windows, begins, strict=True):
        for start in (starts[0], starts[-1]):
            check(predictor, ask["attention"]("who ?", CONTEXT, start, 2), predictor.features([window]), 2)
    for start in (-1, 0):
        check(predictor, ask["attention"]("who ?", CONTEXT, start, 1), predictor.features(windows[:1]), 1)
    (answered,) = predictor.predict([question])
    assert {each.start for each in answered.n_best} <= {-1, *(start for starts in begins for start in starts)}
    assert ask["attention"]("", "", -1, 1)["token"].tolist() == [b"[CLS]", b"[SEP]", b"[SEP]"]


@pytest.mark.long
def test_a_pair_that_is_read_in_both_orders_has_an_attention_of_each(asking):
    predictor, ask = asking("similarity")
    features = predictor.features([("Ann lives in York.", "who ?")])  # (1, 2, L)
    for order in (0, 1):
        read = {name: value[:, order] for name, value in features.items()}
        check(predictor, ask["attention"]("Ann lives in York.", "who ?", order, 2), read, 2)
    for order in (-1, 2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="`order` must be from 0 to 1"):
            ask["attention"]("a", "b", order, 1)
