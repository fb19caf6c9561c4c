"""What newcomers ran into: each is a trap that no error told."""

import importlib
import json
import os

import pytest

import xmodels
from data_pipelines.corpora.squad import read_squad
from data_pipelines.errors import DataError, UsageError
from data_pipelines.text.frames import BERT
from data_pipelines.text.kinds import open_tokenizer
from xmodels import api
from xmodels.jobs.finetuning_start import check_same_pieces
from xmodels.tasks.answer_span.windows import Settings, check, fitting

PIECES = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ann", "met", "bob"]


def vocabulary(path, pieces):
    path.write_text("\n".join(pieces) + "\n", "utf-8")
    return open_tokenizer(str(path))


def test_no_package_hides_a_verb():
    """An import of `xmodels.VERB` would put a module in the place of the function."""
    root = os.path.dirname(xmodels.__file__)
    for verb in api.verbs():
        assert not os.path.exists(os.path.join(root, verb)) and not os.path.exists(os.path.join(root, f"{verb}.py")), (
            verb
        )
    importlib.import_module("xmodels.jobs.search")
    assert callable(xmodels.search)


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([*PIECES[:6], "bob", "met", "ann"], "has 'bob' at the place 6, where that of the checkpoint has 'ann'"),
        ([*PIECES, "eve"], "has 10 pieces, and that of the checkpoint 9"),
        (PIECES[:-1], "has 8 pieces, and that of the checkpoint 9"),
    ],
)
def test_another_vocabulary_than_the_checkpoints_is_refused(pieces, said, tmp_path):
    own, given = vocabulary(tmp_path / "own.txt", PIECES), vocabulary(tmp_path / "given.txt", pieces)
    with pytest.raises(UsageError, match=said):
        check_same_pieces(own, given, "given.txt", "run")


def test_pieces_that_are_unused_may_get_a_name(tmp_path):
    renamed = [PIECES[0], "eve", *PIECES[2:]]
    own = vocabulary(tmp_path / "own.txt", PIECES)
    for pieces in (PIECES, renamed):
        check_same_pieces(own, vocabulary(tmp_path / "given.txt", pieces), "given.txt", "run")


@pytest.mark.parametrize("length", [16, 32, 64, 128, 192, 256, 384, 512])
def test_windows_of_any_length_fit_without_flags(length):
    found = fitting({}, length, BERT)
    check(Settings(**found), length, BERT)
    if length >= 384:
        assert found == {"max_query_length": 64, "doc_stride": 128}


def test_what_is_given_stays_and_is_checked():
    assert fitting({"doc_stride": 7, "n_best_size": 3}, 64, BERT)["doc_stride"] == 7
    with pytest.raises(UsageError, match="or raise --max_seq_length"):
        check(Settings(**fitting({"doc_stride": 60}, 64, BERT)), 64, BERT)


def test_a_flat_list_of_questions_is_told_the_layout(tmp_path):
    path = tmp_path / "flat.json"
    path.write_text(json.dumps([{"context": "Ann met Bob.", "question": "Who?", "answer": "Ann"}]), "utf-8")
    with pytest.raises(DataError, match="'data', articles with 'paragraphs'.*Found: context, question, answer"):
        list(read_squad(str(path)))
