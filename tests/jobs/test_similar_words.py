"""MacBERT: a run that finds its similar words in a file, and what is refused."""

import numpy as np
import pytest

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.text.similar_words import NO_WORDS
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from tests.helpers.samples import make_records
from xmodels.conversion import convert, word_vectors
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.runs.folder import read_config
from xmodels.systems import macbert
from xmodels.training.recipe import Records


@pytest.fixture(scope="module")
def ordered(tmp_path_factory, zh_vocabulary):
    """Records of two segments with words."""
    folder = tmp_path_factory.mktemp("macbert") / "ordered"
    return make_records(folder, zh_vocabulary, packing="sentence_order", segmenter="jieba", do_whole_word_mask=True)


@pytest.fixture
def vectors(zh_vocabulary, tmp_path):
    """Vectors of 40 characters and of 20 words of two of them."""
    tokens = [t for t in Vocabulary.read(zh_vocabulary).tokens if len(t) == 1 and "\u4e00" <= t <= "\u9fff"][:40]
    words = [*tokens, *(a + b for a, b in zip(tokens[::2], tokens[1::2], strict=True))]
    values = np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float32)
    word_vectors.write_text(str(tmp_path / "vectors.txt"), words, values)
    return f"word2vec:{tmp_path}/vectors.txt"


def run(folder, records, **more):
    given = {"system": "macbert", "size": "tiny", "num_train_steps": 2, "train_batch_size": 8, "eval_steps": 1}
    given |= {"set": "num_layers=1,hidden_dim=16,intermediate_dim=32", "length_schedule": "none", "log_steps": 1}
    pretrain(Options(model_dir=str(folder), data_dir=records, **{**given, **more}))


@pytest.mark.long
def test_a_run_finds_similar_words_and_learns_the_order_of_segments(ordered, vectors, tmp_path, capsys):
    run(tmp_path / "run", ordered, similar_words=vectors)
    shown = capsys.readouterr().out
    assert "60 words are made of tokens of the vocabulary" in shown and "Without --similar_words" not in shown
    assert shown.count("Finding similar words") == 1
    loaded = convert.load(str(tmp_path / "run"))
    assert (loaded.model, loaded.heads) == ("bert", {"masked_lm", "sentence_order"})
    assert read_config(str(tmp_path / "run"))["flags"]["similar_words"] == vectors
    for more, message in (
        (
            {"similar_words": vectors, "system": "bert"},
            "--system=bert replaces no words by similar ones. Those that do: macbert",
        ),
        ({"similar_words": "vectors.txt"}, "--similar_words: vectors.txt: unknown format of word vectors"),
    ):
        with pytest.raises(UsageError, match=message):
            run(tmp_path / "other", ordered, **more)
    (tmp_path / "damaged.txt").write_text("2 3\n一 1 2\n")
    with pytest.raises(CheckpointError, match="--similar_words: .*damaged.txt, line 2"):
        run(tmp_path / "other", ordered, similar_words=f"word2vec:{tmp_path}/damaged.txt")
    assert not (tmp_path / "other").exists()


def test_without_vectors_a_note_says_what_becomes_of_words():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "a"])
    assert "words that would become similar ones become random" in macbert.recipe(vocabulary, Records(), "tiny").note
    given = Records(similar_words=lambda count, least: NO_WORDS)
    assert not macbert.recipe(vocabulary, given, "tiny").note


def test_a_file_of_other_words_is_refused(ordered, tmp_path):
    word_vectors.write_text(str(tmp_path / "v.txt"), ["☃☃", "ŧŧ"], np.ones((2, 3), np.float32))
    with pytest.raises(UsageError, match="none of its 2 words is made of tokens of the vocabulary"):
        run(tmp_path / "run", ordered, similar_words=f"word2vec:{tmp_path}/v.txt")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_similar": 0}, "`num_similar` must be at least 1"),
        ({"least_cosine": 2.0}, "`least_cosine` must lie between -1 and 1"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        macbert.Options(**values)


def test_records_whose_masks_stand_in_them_are_refused():
    with pytest.raises(UsageError, match="Make the records without --masking=static"):
        macbert.recipe(Vocabulary([*SPECIAL_TOKENS, "a"]), Records(static=True), "tiny")
