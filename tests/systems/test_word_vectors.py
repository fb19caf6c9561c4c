"""Skip-gram and CBOW: windows that are drawn, probabilities against gensim's, file formats, and a run from text to vectors."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.ops.windows import WordWindows, keep_probabilities, noise_distribution, num_slots
from tests.helpers.invocation import invoke
from xmodels.conversion import convert, word_vectors
from xmodels.conversion.vectors import glove, word2vec

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
LENGTH, WORDS = 40, 9


def drawn(token_ids, keep=None, window=5, negatives=2, ends=(), seed=0):
    rows = len(token_ids)
    noise = np.arange(1, WORDS + 1) / np.arange(1, WORDS + 1).sum()
    shares, keep = np.full(WORDS, 1 / WORDS), np.ones(WORDS) if keep is None else keep
    op = WordWindows(LENGTH, shares, keep, noise, window, negatives, ends)
    lengths = np.tile([[LENGTH + 1, 0]], (rows, 1))
    seeds = tf.cast(tf.range(rows) + 1000 * seed, tf.uint64)
    found = op({"token_ids": tf.constant(token_ids), "segment_lengths": tf.constant(lengths), "seed": seeds})
    return {name: value.numpy() for name, value in found.items()}


def pairs_of(found, row):
    words = found["center_ids"][row].tolist()
    windows = zip(found["window_starts"][row].tolist(), found["window_ends"][row].tolist(), strict=True)
    return [(words[i], words[j]) for i, (a, b) in enumerate(windows) for j in range(a, b) if i != j]


def test_probabilities_are_those_of_gensim():
    golden = json.loads((GOLDEN / "word2vec_training/vocabulary.json").read_text("utf-8"))
    counts, settings = np.array(golden["counts"]), golden["config"]["hyperparameters"]
    np.testing.assert_allclose(keep_probabilities(counts, settings["sample"]), golden["keep_probability"], atol=1e-4)
    noise = noise_distribution(counts, settings["ns_exponent"])
    np.testing.assert_allclose(noise, golden["sampling_probability"], atol=1e-4)


def test_a_pair_at_distance_k_is_kept_in_c_minus_k_plus_1_of_c_windows():
    text = np.zeros((400, LENGTH + 1), "int32")
    text[:, 20] = 1  # one word among others: how often is the word at distance k its context?
    text[:, 21:] = np.minimum(np.arange(LENGTH - 20) + 2, WORDS - 1)
    found = drawn(text, window=4)
    counts = np.zeros(6)
    for row in range(400):
        for center, context in pairs_of(found, row):
            if center == 1 and context >= 2:
                counts[context - 1] += 1
    np.testing.assert_allclose(counts[1:5] / 400, [1.0, 0.75, 0.5, 0.25], atol=0.08)
    assert counts[5] == 0


def test_pairs_stand_in_reach_inside_of_texts_and_none_is_lost():
    draw = np.random.default_rng(0)
    text = draw.integers(1, WORDS, (64, LENGTH + 1), "int32")
    text[:, 17] = 0  # an end of text, which is no word
    keep = np.ones(WORDS)
    keep[0] = 0.0
    found = drawn(text, keep, window=5, ends=(0,))
    # Of a text of n words 6 n pairs, less the 14 that would reach beyond its ends; here of 17 and 22 words.
    sizes = np.maximum(found["window_ends"] - found["window_starts"] - 1, 0)
    assert sizes.sum(axis=1).mean() == pytest.approx(6 * 39 - 2 * 14, rel=0.02)
    marked = text.copy()
    marked[:, :17], marked[:, 18:] = 1, 2
    for row, each in enumerate(pairs_of(drawn(marked, keep, ends=(0,)), row) for row in range(64)):
        assert set(each) <= {(1, 1), (2, 2)}, row


def test_windows_reach_across_words_that_are_left_out():
    text = np.tile(np.array([[1, 3] * (LENGTH // 2) + [1]], "int32"), (8, 1))
    keep = np.ones(WORDS)
    keep[3] = 0.0
    assert {pair for row in range(8) for pair in pairs_of(drawn(text, keep, window=1), row)} == {(1, 1)}


def test_there_is_room_for_all_words_that_stay():
    keep = np.full(WORDS, 0.5)
    text = np.random.default_rng(0).integers(0, WORDS, (200, 513), "int32")
    op = WordWindows(512, np.full(WORDS, 1 / WORDS), keep, np.full(WORDS, 1 / WORDS))
    lengths = np.tile([[513, 0]], (200, 1))
    found = op({"token_ids": text, "segment_lengths": lengths, "seed": tf.cast(tf.range(200), tf.uint64)})
    slots = found["center_ids"].shape[1]
    assert slots == num_slots(512, np.full(WORDS, 1 / WORDS), keep) == 320
    there = tf.reduce_sum(tf.cast(found["window_ends"] > 0, tf.int32), axis=1).numpy()
    assert there.max() < slots and there.mean() == pytest.approx(256, abs=3)
    assert found["negative_ids"].shape == (200, slots // 32 * 32)


def test_negatives_follow_the_distribution_and_draws_belong_to_examples():
    text = np.random.default_rng(0).integers(0, WORDS, (50, LENGTH + 1), "int32")
    found, again, other = drawn(text, negatives=400), drawn(text, negatives=400), drawn(text, negatives=400, seed=1)
    shares = np.bincount(found["negative_ids"].ravel(), minlength=WORDS) / found["negative_ids"].size
    np.testing.assert_allclose(shares, np.arange(1, WORDS + 1) / 45, atol=0.01)
    np.testing.assert_array_equal(found["negative_ids"], again["negative_ids"])
    assert (found["negative_ids"] != other["negative_ids"]).any()
    np.testing.assert_array_equal(drawn(text[:3])["center_ids"], found["center_ids"][:3])


def test_files_are_those_of_gensim(tmp_path):
    folder = GOLDEN / "word2vec_format"
    expected = json.loads((folder / "outputs.json").read_text("utf-8"))
    vectors = np.load(folder / "outputs.npz")["vectors"]
    for name, read, write in (
        ("vectors.txt", word_vectors.read_text, word_vectors.write_text),
        ("vectors.bin", word_vectors.read_binary, word_vectors.write_binary),
    ):
        words, found = read(str(folder / name))
        assert words == expected["words"]
        np.testing.assert_allclose(found, vectors, atol=1e-6)
        write(str(tmp_path / name), words, found)
        again = read(str(tmp_path / name))
        assert again[0] == words
        np.testing.assert_array_equal(again[1], found)
    near = word_vectors.nearest(words, vectors, "king", 5)
    assert [word for word, _ in near] == [word for word, _ in expected["queries"]["most_similar_king"]]
    np.testing.assert_allclose(
        [c for _, c in near], [c for _, c in expected["queries"]["most_similar_king"]], atol=1e-5
    )
    (tmp_path / "cut.bin").write_bytes((folder / "vectors.bin").read_bytes()[:300])
    with pytest.raises(CheckpointError, match="its first line says 14"):
        word_vectors.read_binary(str(tmp_path / "cut.bin"))


@pytest.mark.parametrize(
    "write", [glove.write, word2vec.write_text, word2vec.write_binary], ids=["glove", "text", "binary"]
)
def test_a_file_of_vectors_is_written_whole_or_not_at_all(write, tmp_path):
    path = tmp_path / "vectors"
    path.write_bytes(b"what was there")
    with pytest.raises(ValueError):  # one vector is missing
        write(str(path), ["a", "b"], np.ones((1, 3), np.float32))
    assert path.read_bytes() == b"what was there" and list(tmp_path.iterdir()) == [path]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("system", "numbers"),
    [("skip_gram", "hierarchical_softmax=true"), ("cbow", "")],
)
def test_from_text_to_vectors(system, numbers, stream_records, tmp_path):
    from xmodels.jobs.pretrain.run import Options, pretrain
    from xmodels.training.watching.progress import read_log

    run = str(tmp_path / "run")
    means = pretrain(
        Options(
            system=system, model_dir=run, size="tiny", data_dir=stream_records, num_train_steps=4, log_steps=2, eval_steps=1,
            set=numbers,
        )
    )  # fmt: skip
    assert means["loss"] > 0
    entry = [e for e in read_log(f"{run}/log.jsonl") if e["kind"] == "train"][-1]
    assert entry["words_per_second"] >= entry["real_words_per_second"] > 0 and "tokens_per_second" not in entry
    assert invoke("convert_checkpoint", **{"from": run, "to": f"word2vec:{tmp_path}/vectors.txt"}) == 0
    words, vectors = word_vectors.read_text(f"{tmp_path}/vectors.txt")
    assert len(words) == len(vectors) > 100 and vectors.shape[1] == 16
    assert not {"[PAD]", "[UNK]"} & set(words)  # whose vectors are not learnt
    with pytest.raises(UsageError, match="exists already"):
        convert.save(convert.load(run), f"word2vec:{tmp_path}/vectors.txt")
    with pytest.raises(UsageError, match="without `negatives`"):
        pretrain(Options(system=system, model_dir=f"{run}-2", size="tiny", data_dir=stream_records, set="negatives=0"))
