"""Pictures of labels: what their numbers are, labels beyond the commonest, names that no font draws, and that runs have them."""

import pathlib
import warnings

import numpy as np
import pytest

from xmodels.tasks.base import pictures
from xmodels.tasks.base.find import load_part
from xmodels.tasks.choose.answer import Choice
from xmodels.tasks.classify.answer import Prediction
from xmodels.tasks.multi_label.score import confusion_of


@pytest.fixture
def drawn(monkeypatch):
    """What is handed to `confusions` and `by_threshold`."""
    calls, confusions, by_threshold = {}, pictures.confusions, pictures.by_threshold

    def spy_confusions(names, table, title):
        calls["confusions"] = list(names), table.tolist()
        return confusions(names, table, title)

    def spy_thresholds(panels):
        calls["thresholds"] = panels
        return by_threshold(panels)

    monkeypatch.setattr(pictures, "confusions", spy_confusions)
    monkeypatch.setattr(pictures, "by_threshold", spy_thresholds)
    return calls


def predictions(labels, said):
    """Whose answers have a probability of 0.9, the other labels the rest."""
    rest = 0.1 / (len(labels) - 1)
    return [Prediction(label, {name: 0.9 if name == label else rest for name in labels}) for label in said]


@pytest.mark.parametrize("task", ["classify", "san", "similarity"])
def test_two_labels_get_a_map_and_curves_of_the_second(task, drawn, tmp_path):
    truth, said = list("aaab") + ["b"], list("aabb") + ["b"]
    score = load_part(task, "score")
    assert score.DRAWS_LAST
    paths = score.draw(str(tmp_path / "new"), predictions(["a", "b"], said), truth, {})
    assert [path.rpartition("/")[2] for path in paths] == ["confusions.png", "thresholds.png"]
    assert all(pathlib.Path(path).read_bytes()[:4] == b"\x89PNG" for path in paths)
    assert drawn["confusions"] == (["a", "b"], [[2, 1], [0, 2]])
    ((title, probabilities, right, threshold),) = drawn["thresholds"]
    assert title == "b" and threshold == 0.5 and right.tolist() == [False, False, False, True, True]
    np.testing.assert_allclose(probabilities, [0.1, 0.1, 0.9, 0.9, 0.9])


def test_labels_beyond_the_commonest_are_one(drawn, tmp_path):
    labels = [f"l{number:02}" for number in range(15)]
    truth = [label for number, label in enumerate(labels) for _ in range(1 if number in (0, 4, 9) else 2)]
    said = ["l01" if label == "l00" else "l04" if label == "l09" else label for label in truth]
    (path,) = load_part("classify", "score").draw(str(tmp_path), predictions(labels, said), truth, {})
    names, table = drawn["confusions"]
    kept = [label for label in labels if label not in ("l00", "l04", "l09")]
    assert path.endswith("confusions.png") and names == [*kept, "others (3)"]
    expected = np.diag([2] * 12 + [2])  # of the three, one row is taken for l01, the others for each other
    expected[12, 0] = 1
    assert table == expected.tolist()


def test_measures_are_scikit_learns():
    from sklearn.metrics import f1_score, precision_score, recall_score

    draw = np.random.default_rng(0)
    probabilities, right = np.round(draw.random(80), 2), draw.random(80) < 0.4  # some lie on a threshold
    found = pictures.measures(probabilities, right)
    for name, theirs in (("precision", precision_score), ("recall", recall_score), ("F1", f1_score)):
        for threshold, value in zip(pictures.THRESHOLDS, found[name], strict=True):
            named = probabilities >= threshold
            if named.any():
                assert value == pytest.approx(theirs(right, named)), (name, threshold)
            else:
                assert np.isnan(value) if name == "precision" else value == 0


def test_measures_of_labels_that_nothing_has_or_that_are_never_named():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pictures.measures(np.array([0.2, 0.3]), np.array([False, False]))
        assert np.isnan(found["recall"]).all() and found["F1"][10] == 0.0
        pictures.by_threshold([("a", np.array([0.2, 0.3]), np.array([False, False]), 0.5)])


def test_missing_labels_are_taken_for_those_that_are_too_many_or_for_none():
    right = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]], bool)
    named = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0], [0, 1, 1]], bool)
    assert confusion_of(named, right).tolist() == [
        [1, 1, 2, 0],  # once right; in the second text taken for c, in the last for b and for c
        [0, 1, 0, 1],
        [0, 0, 0, 0],
        [0, 0, 1, 0],
    ]


def test_several_labels_get_a_panel_each_with_their_threshold(drawn, tmp_path):
    draw, labels = np.random.default_rng(0), [f"l{number}" for number in range(14)]
    right = draw.random((60, 14)) < np.where(np.arange(14) % 7 == 0, 0.05, 0.6)
    probabilities, thresholds = draw.random((60, 14)), [0.3] * 13 + [0.7]
    settings = {"labels": labels, "thresholds": thresholds, "label_separator": "|"}
    paths = load_part("multi_label", "score").draw(str(tmp_path), probabilities, right.astype("float32"), settings)
    assert len(paths) == 2 and load_part("multi_label", "score").DRAWS_LAST
    names, table = drawn["confusions"]
    assert len(names) == len(table) == 13 and names[-2:] == ["(none)", "others (3)"]
    titles = [title for title, *_ in drawn["thresholds"]]
    assert titles == ["all labels", *(label for label in labels if label not in ("l0", "l7"))]
    assert [each[3] for each in drawn["thresholds"]] == [None] + [0.3] * 11 + [0.7]


def test_choices_are_counted_by_their_places(drawn, tmp_path):
    outputs = {
        "choices": np.array([1, 0, 2]),
        "probabilities": np.array([[0.2, 0.8, 0], [0.9, 0.1, 0], [0.1, 0.2, 0.7]]),
    }
    examples = {"labels": np.array([1, 1, 2]), "choice_weights": np.array([[1, 1, 0], [1, 1, 0], [1, 1, 1]])}
    score = load_part("choose", "score")
    made, truth = score.from_arrays(outputs, examples, [])
    assert made[0] == Choice(1, "", [0.2, 0.8]) and len(made[2].probabilities) == 3
    assert len(score.draw(str(tmp_path), made, truth, {})) == 1
    assert drawn["confusions"] == (["0", "1", "2"], [[0, 0, 0], [1, 1, 0], [0, 0, 1]])


def test_names_that_no_font_draws_become_ids_and_no_formula_is_read(tmp_path):
    names = pictures.shorten_names(["a", "\U0001f9ff", "$x^{", "b" * 40])
    assert names == ["a", "[1]", "$x^{", "b" * 24]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as of a missing glyph
        figure = pictures.confusions(names, np.eye(4, dtype=int), "title")
        pictures.write(str(tmp_path), {"names": figure})
