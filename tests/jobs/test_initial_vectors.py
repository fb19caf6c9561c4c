"""Networks whose table of tokens begins with the vectors of a file."""

import numpy as np
import pytest

from data_pipelines.errors import UsageError
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from xmodels.conversion import convert, word_vectors
from xmodels.jobs.initial_vectors import fill

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "king", "##s", "queen", "un", "##known"]


def test_words_give_their_vectors_to_tokens_and_pieces_the_mean_of_their_words():
    values = np.full((len(TOKENS), 2), 9.0, np.float32)
    words = ["king", "kings", "queens", "King", "zebra", "queen"]
    vectors = np.arange(12, dtype=np.float32).reshape(6, 2)
    assert fill(values, WordPieceTokenizer(Vocabulary(TOKENS)), words, vectors) == (2, 1)
    np.testing.assert_array_equal(values[5], vectors[0])
    np.testing.assert_array_equal(values[7], vectors[5])
    np.testing.assert_array_equal(values[6], vectors[1:3].mean(axis=0))
    assert (values[[0, 1, 2, 3, 4, 8, 9]] == 9.0).all()


def pretrain(folder, records, **more):
    from xmodels.jobs.pretrain.run import Options
    from xmodels.jobs.pretrain.run import pretrain as run

    run(Options(system="skip_gram", model_dir=str(folder), size="tiny", data_dir=records, eval_steps=1, **more))
    return convert.load(str(folder))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("freeze", [False, True])
def test_a_training_begins_with_the_vectors_of_a_file(freeze, stream_records, zh_vocabulary, tmp_path):
    tokens = Vocabulary.read(zh_vocabulary).tokens
    words = [token for token in tokens if len(token) == 1 and "\u4e00" <= token <= "\u9fff"][:50]
    vectors = np.random.default_rng(0).normal(size=(50, 16)).astype(np.float32)
    word_vectors.write_text(str(tmp_path / "vectors.txt"), words, vectors)
    given = {"init_vectors": f"word2vec:{tmp_path}/vectors.txt", "freeze_vectors": freeze}
    trained = pretrain(tmp_path / "run", stream_records, num_train_steps=3, **given)
    found = trained.values["backbone.words.embeddings"][[tokens.index(word) for word in words]]
    assert np.any(trained.values["backbone.contexts.embeddings"])  # which learns in any case
    if freeze:
        np.testing.assert_allclose(found, vectors, atol=1e-6)
    else:
        assert 0 < np.abs(found - vectors).max() < 1.0
    for wrong, message in (
        ({"freeze_vectors": True}, "which is not given"),
        ({**given, "set": "hidden_dim=8"}, "vectors of 16 numbers; the tables of tokens of this skip_gram have 8"),
        ({**given, "init_checkpoint": str(tmp_path / "run")}, "is trained already"),
    ):
        with pytest.raises(UsageError, match=message):
            pretrain(tmp_path / "other", stream_records, num_train_steps=3, **wrong)
