"""What vectors of words know: neighbours, similarities and analogies."""

import dataclasses
import json

import numpy as np
import pytest

from data_pipelines.errors import CheckpointError, DataError, UsageError
from tests.helpers.invocation import invoke
from xmodels.conversion import word_vectors
from xmodels.jobs.early import check_evaluation
from xmodels.jobs.evaluate.options import Options
from xmodels.jobs.neighbours.picture import draw, places
from xmodels.retrieval.words import Analogies, Words, analogies, read_analogies, read_pairs, similarity

WORDS = ["man", "woman", "king", "queen", "fish", "boy"]
# The first number is a sex, the second a rank; a fish stands apart.
VECTORS = np.array([[1, 0, 1], [-1, 0, 1], [1, 2, 1], [-1, 2, 1], [0, -1, -3], [1, 0.1, 0.9]], np.float32)


@pytest.fixture
def words():
    return Words(WORDS, VECTORS)


def test_neighbours_are_those_of_the_largest_cosine_without_the_word_itself(words):
    nearest = words.neighbours("man", 2)
    assert nearest[0] == (
        "boy",
        pytest.approx(VECTORS[0] @ VECTORS[5] / np.linalg.norm(VECTORS[0]) / np.linalg.norm(VECTORS[5])),
    )
    assert nearest == word_vectors.nearest(WORDS, VECTORS, "man", 2)
    assert words.neighbours("horse", 2) is None and len(words.neighbours("man", 99)) == 5


@pytest.mark.parametrize("multiply", [False, True])
def test_analogies_are_answered_by_none_of_the_three_and_those_without_vectors_are_counted(words, multiply):
    questions = {
        "royal": [
            ("man", "woman", "king", "queen"),
            ("man", "king", "woman", "fish"),
            ("man", "horse", "king", "queen"),
        ]
    }
    assert analogies(words, questions, multiply) == {"royal": Analogies(right=1, asked=2, left_out=1)}
    # Of a restricted vocabulary the answer must be one of its words.
    assert analogies(Words(WORDS, VECTORS, limit=3), questions, multiply)["royal"].asked == 0


def test_both_methods_are_their_formulas():
    draw = np.random.default_rng(0)
    vectors, names = draw.normal(size=(30, 4)).astype(np.float32), [str(n) for n in range(30)]
    known = Words(names, vectors)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for multiply in (False, True):
        for a, b, c in draw.integers(0, 30, (20, 3)):
            near = [unit @ unit[i] for i in (a, b, c)]
            if multiply:
                x, y, z = ((1 + cosines) / 2 for cosines in near)
                scores = y * z / (x + 1e-3)
            else:
                scores = near[1] - near[0] + near[2]
            scores[[a, b, c]] = -9
            question = (names[a], names[b], names[c], names[int(scores.argmax())])
            assert analogies(known, {"": [question]}, multiply)[""].right == 1


def test_similarity_is_the_correlation_of_ranks(words):
    pairs = [("man", "boy", 9.0), ("man", "king", 5.0), ("man", "fish", 0.0), ("man", "horse", 3.0)]
    found = similarity(words, pairs)
    assert (found.spearman, found.pairs, found.left_out) == (pytest.approx(1.0), 3, 1)
    assert similarity(Words(WORDS, VECTORS, lower_case=True), [(a.upper(), b, s) for a, b, s in pairs]) == found
    with pytest.raises(DataError, match="needs three"):
        similarity(words, pairs[:2])


def test_files_and_commands(tmp_path, capsys):
    (tmp_path / "pairs.csv").write_text(",word1,word2,score\n0,man,boy,9\n1,man,king,5\n2,man,fish,0\n3,,,\n", "utf-8")
    (tmp_path / "pairs.txt").write_bytes(b"man\tboy\t9\r\nman\tking\t5")
    (tmp_path / "questions.txt").write_text(": royal\nman woman king queen\n", "utf-8")
    assert (
        read_pairs(str(tmp_path / "pairs.csv"))[1] == ("man", "king", 5.0)
        and len(read_pairs(str(tmp_path / "pairs.txt"))) == 2
    )
    assert read_analogies(str(tmp_path / "questions.txt")) == {"royal": [("man", "woman", "king", "queen")]}
    vectors = f"word2vec:{tmp_path}/vectors.txt"
    word_vectors.write_text(f"{tmp_path}/vectors.txt", WORDS, VECTORS)
    given = {"similarity_file": tmp_path / "pairs.csv", "analogy_file": tmp_path / "questions.txt"}
    assert invoke("evaluate_vectors", vectors=vectors, **given) == 0
    assert "Spearman 1.0000 of 3 pairs; 0 left out" in (out := capsys.readouterr().out) and "1 of 1 right" in out
    assert invoke("neighbours", vectors=vectors, words="man,king", top_k=1) == 0
    assert "boy" in capsys.readouterr().out
    (tmp_path / "bad.txt").write_text("man woman king\n", "utf-8")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\xff\n")
    for more, message in (
        ({"analogy_file": tmp_path / "bad.txt"}, "line 1: expected four words"), ({}, "Give --similarity_file"),
        ({"similarity_file": tmp_path / "none.txt"}, "no such file"), ({"similarity_file": tmp_path / "bytes.txt"}, "not valid UTF-8"),
    ):  # fmt: skip
        assert invoke("evaluate_vectors", vectors=vectors, **more) != 0
        assert message in capsys.readouterr().err
    assert invoke("neighbours", vectors=vectors, words="horse") == 2 and "has no vector" in capsys.readouterr().err


def test_evaluate_scores_vectors_as_a_task(tmp_path, capsys):
    (tmp_path / "pairs.csv").write_text("Man,boy,9\nman,king,5\nman,fish,0\nhorse,man,3\n", "utf-8")
    (tmp_path / "questions.txt").write_text(": royal\nman woman king queen\nman woman king fish\n", "utf-8")
    word_vectors.write_text(f"{tmp_path}/vectors.txt", WORDS, VECTORS)
    given = {"model_dir": f"word2vec:{tmp_path}/vectors.txt", "output_file": tmp_path / "scores.json"}
    pairs = {"task": "word_similarity", "test_file": tmp_path / "pairs.csv"}
    questions = {"task": "analogy", "test_file": tmp_path / "questions.txt"}
    assert invoke("evaluate", **given, **pairs, lower_case="true") == 0
    scores = json.loads((tmp_path / "scores.json").read_text("utf-8"))
    assert scores == {"spearman": pytest.approx(1.0), "pairs": 3, "pairs_left_out": 1}
    for more, right in (({"method": "multiply"}, [0.5, 2, 0]), ({"vocabulary_limit": 4}, [1.0, 1, 1])):
        assert invoke("evaluate", **given, **questions, **more) == 0
        assert [*json.loads((tmp_path / "scores.json").read_text("utf-8")).values()] == right
    capsys.readouterr()
    missing = {"model_dir": f"glove:{tmp_path}/none.txt"}
    for flags, message in (
        (given | pairs, "2 have vectors of both words"), (given | pairs | {"method": "multiply"}, "has no such flag"),
        (given | questions | missing, "No such file"), (given | pairs | {"test_file": tmp_path / "none.csv"}, "no such file"),
    ):  # fmt: skip
        assert invoke("evaluate", **flags) != 0
        assert message in capsys.readouterr().err


def test_the_early_check_of_evaluate_knows_files_of_vectors(tmp_path):
    (tmp_path / "vectors.txt").write_text("", "utf-8")
    asked = Options(model_dir=f"word2vec:{tmp_path}/vectors.txt", test_file=f"{tmp_path}/vectors.txt", task="analogy")
    check_evaluation(asked)
    with pytest.raises(UsageError, match="is a file of word vectors. Give --task=analogy or --task=word_similarity"):
        check_evaluation(dataclasses.replace(asked, task="auto"))
    with pytest.raises(UsageError, match="no format of word vectors. Known: fasttext:FILE, glove:FILE, word2vec:FILE"):
        check_evaluation(dataclasses.replace(asked, model_dir=f"wordvec:{tmp_path}/vectors.txt"))
    with pytest.raises(DataError, match="--model_dir=.*none.txt: no such file"):
        check_evaluation(dataclasses.replace(asked, model_dir=f"glove:{tmp_path}/none.txt"))
    with pytest.raises(DataError, match="--test_file=.*none.csv: no such file"):
        check_evaluation(dataclasses.replace(asked, test_file=f"{tmp_path}/none.csv"))
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        check_evaluation(dataclasses.replace(asked, model_dir=f"{tmp_path}/run"))


def test_a_map_keeps_near_what_is_near():
    draws = np.random.default_rng(0)
    centres = np.repeat(np.eye(3, 8) * 9, 10, axis=0)
    found = places((centres + draws.normal(size=(30, 8))).astype("float32"))
    apart = np.linalg.norm(found[:, None] - found[None], axis=-1) + np.eye(30) * 1e9
    nearest = apart.argmin(axis=1)
    assert (nearest // 10 == np.arange(30) // 10).all()
    assert np.isfinite(places(np.array([[1.0], [2.0]], "float32"))).all()


def test_a_word_that_several_are_near_has_the_colour_of_the_first_and_stands_once(words):
    figure = draw(words, {word: words.neighbours(word, 2) for word in ("man", "boy", "king")})
    texts = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert len(figure.axes[0].texts) == len(texts)
    assert len({tuple(texts[word]) for word in ("man", "boy", "king")}) == 3


def test_the_map_of_a_file_is_written(tmp_path, capsys):
    rows = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, VECTORS.tolist(), strict=True)]
    (tmp_path / "vectors.txt").write_text("".join(rows), "utf-8")
    flags = {"vectors": f"glove:{tmp_path}/vectors.txt", "words": "man,fish", "plots": tmp_path / "pictures"}
    assert invoke("neighbours", **flags) == 0
    assert (tmp_path / "pictures/neighbours.png").read_bytes()[:4] == b"\x89PNG"
