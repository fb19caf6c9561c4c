"""`finetune --vocab_file` beside a checkpoint that has a vocabulary: the same pieces, or a refusal that names the first other one."""

import pytest

from data_pipelines.errors import UsageError
from data_pipelines.text.kinds import open_tokenizer
from xmodels.jobs.finetune.start import check_same_pieces

PIECES = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ann", "met", "bob"]


def vocabulary(path, pieces):
    path.write_text("\n".join(pieces) + "\n", "utf-8")
    return open_tokenizer(str(path))


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
