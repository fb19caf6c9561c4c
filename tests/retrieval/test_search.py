"""Files of vectors, indices and search: order, fingerprints, exact answers, whole files, re-ranking; what does not belong together."""

import json
import os
import pathlib
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from data_pipelines.arrays import arrays_sha256
from data_pipelines.errors import CheckpointError, DataError, UsageError
from tests.conversion.test_sentence_transformers import folder_of
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES
from tests.tasks.test_siamese import QUICK
from xmodels.jobs.convert_checkpoint.sentence_transformers import to_run
from xmodels.jobs.predict.texts_of_files import texts_of
from xmodels.retrieval import index, vectors
from xmodels.retrieval.encoder import Encoder
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.classify.answer import Predictor

ENCODER = Encoder("a" * 64, "b" * 64, {"pooling": "mean"}, "net")


def drawn(count, width=8, seed=0):
    return np.random.default_rng(seed).normal(size=(count, width)).astype("float32")


def build(folder, values, kind="exact", texts=True):
    folder.mkdir()
    halves = np.array_split(np.arange(len(values)), 2)
    parts = [([f"text {row}\n北" for row in rows] if texts else None, values[rows]) for rows in halves]
    index.build(str(folder), ENCODER, kind, parts, values.shape[1], texts)
    return index.Index(str(folder))


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_a_file_of_vectors_gives_back_what_was_written(tmp_path, ending):
    path, values = str(tmp_path / f"vectors.{ending}"), drawn(5)
    texts = ["one", "", "two\nlines", "北京", "\u2028"]
    assert vectors.write(path, ENCODER, [(texts[:3], values[:3]), (texts[3:], values[3:])]) == 5
    found = vectors.read(path)
    assert found.description.encoder == ENCODER and (found.description.count, found.description.width) == (5, 8)
    parts = list(found.parts())
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in parts]), values)
    if ending == "npy":
        np.testing.assert_array_equal(np.load(path), values)  # an ordinary file of numpy
    else:
        assert [text for part, _ in parts for text in part] == texts


def test_vectors_that_stop_halfway_leave_no_file(tmp_path):
    def parts():
        yield ["a"], drawn(1)
        raise DataError("line 2 is bad")

    for ending in ("npy", "parquet"):
        with pytest.raises(DataError, match="line 2"):
            vectors.write(str(tmp_path / f"vectors.{ending}"), ENCODER, parts())
    assert not list(tmp_path.iterdir())


def test_vectors_without_a_network_or_of_another_file_are_refused(tmp_path):
    path = str(tmp_path / "vectors.npy")
    np.save(path, drawn(3))
    with pytest.raises(DataError, match="nothing says which network made"):
        vectors.read(path)
    vectors.write(path, ENCODER, [(["a", "b"], drawn(2))])
    np.save(path, drawn(2, seed=1))
    with pytest.raises(DataError, match="is not the file that .*json describes"):
        vectors.read(path)
    beside = pathlib.Path(path + ".json")
    beside.write_text(beside.read_text().replace('"width": 8', '"width": "8"'))
    with pytest.raises(DataError, match="`width` must be a whole number"):
        vectors.read(path)
    with pytest.raises(UsageError, match=r"ends in \.npy or \.parquet"):
        vectors.read(str(tmp_path / "vectors.txt"))


def test_parquet_that_was_damaged_is_named(tmp_path):
    path = tmp_path / "vectors.parquet"
    vectors.write(str(path), ENCODER, [(["one", "two"], drawn(2))])
    whole = path.read_bytes()
    place = whole.index(drawn(2).tobytes()[8:16])  # a number of a vector
    for damaged in (whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :], whole[:-20], whole[1:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"vectors\.parquet: "):
            list(vectors.read(str(path)).parts())


def test_an_exact_index_orders_as_all_cosines_do_and_equal_ones_by_their_place(tmp_path, monkeypatch):
    values = drawn(50)
    values[[7, 30, 31]] = values[3] * 2  # the same direction
    found = build(tmp_path / "index", values)
    queries = np.concatenate([drawn(4, seed=1), values[3:4]])
    units = values / np.linalg.norm(values, axis=1, keepdims=True)
    cosines = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ units.T
    for block in (7, 1000):
        monkeypatch.setattr(index, "BLOCK", block)
        rows, scores = found.search(queries, 6)
        assert rows[4, :4].tolist() == [3, 7, 30, 31]
        np.testing.assert_array_equal(rows[:4], np.argsort(-cosines[:4], axis=1, kind="stable")[:, :6])
        np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :6], atol=1e-5)
    assert found.search(queries, 80)[0].shape == (5, 50)  # all that there are
    assert list(found.texts([4, 0, 49])) == ["text 4\n北", "text 0\n北", "text 49\n北"]


@pytest.mark.extra("faiss")
def test_a_graph_finds_most_of_the_nearest(tmp_path):
    values, queries = drawn(500, 16), drawn(20, 16, seed=1)
    exact, graph = (build(tmp_path / kind, values, kind, texts=False).search(queries, 10)[0] for kind in index.KINDS)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact, graph, strict=True)]) > 0.95
    (tmp_path / "hnsw/graph.faiss").write_bytes(b"nothing")
    os.remove(tmp_path / "hnsw/SHA256SUMS")
    with pytest.raises(DataError, match="not a readable graph"):
        index.Index(str(tmp_path / "hnsw"))


def test_an_index_that_was_changed_is_named(tmp_path):
    build(tmp_path / "index", drawn(4))
    file = tmp_path / "index/vectors.f32"
    file.write_bytes(file.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(CheckpointError, match=r"vectors\.f32: changed"):
        index.Index(str(tmp_path / "index"))
    os.remove(tmp_path / "index/SHA256SUMS")
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match="has not the 128 bytes"):
        index.Index(str(tmp_path / "index"))
    with pytest.raises(CheckpointError, match="is no index"):
        index.Index(str(tmp_path))


def test_the_weights_the_tokenizer_and_each_setting_make_another_encoder():
    values = {"a": drawn(2), "b": drawn(1)}
    assert arrays_sha256(values) == arrays_sha256(dict(reversed(values.items())))
    assert arrays_sha256(values) != arrays_sha256(values | {"b": drawn(1, seed=1)})
    ENCODER.check(Encoder("a" * 64, "b" * 64, {"pooling": "mean"}, "elsewhere"), "index", "--model_dir=elsewhere")
    other = Encoder("c" * 64, "b" * 64, {"pooling": "max"}, "other")
    with pytest.raises(
        UsageError,
        match=r"another network \(net\) than --model_dir=other.*weights aaaaaaaa there, cccccccc here; pooling mean",
    ):
        ENCODER.check(other, "index", "--model_dir=other")


def test_texts_are_the_lines_of_a_file_or_a_column(tmp_path):
    (tmp_path / "a.txt").write_bytes("one \r\n\n北京".encode())
    (tmp_path / "a.tsv").write_text("id\ttitle\n1\tone\n2\ttwo\n", "utf-8")
    assert list(texts_of(str(tmp_path / "a.txt"))) == ["one", "", "北京"]
    assert list(texts_of(str(tmp_path / "a.tsv"), "title")) == ["one", "two"]
    (tmp_path / "long.txt").write_text("x" * 1_000_002)
    with pytest.raises(DataError, match=r"long\.txt, line 1: more than"):
        list(texts_of(str(tmp_path / "long.txt")))
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(DataError, match="holds no text"):
        list(texts_of(str(tmp_path / "empty.txt")))


FLAGS = QUICK | {"num_train_epochs": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of random weights."""
    path = tmp_path_factory.mktemp("run")
    to_run(str(folder_of(path / "made", dense=False)), str(path / "siamese"))
    return path / "siamese"


TEXTS = [
    "ann in york",
    "bob in rome",
    "",
    "dan and car in oslo and many words more and more",
    "北京",
    "who does live in bonn ?",
]


def test_search_finds_what_direct_scoring_finds(run, tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS), "utf-8")
    encode = {"model_dir": run, "input_file": tmp_path / "texts.txt", "output_file": tmp_path / "vectors.npy"}
    assert invoke("encode", batch_size=2, **encode) == 0
    held = np.load(tmp_path / "vectors.npy")
    made = vectors.read(str(tmp_path / "vectors.npy")).description.encoder
    vectors.write(str(tmp_path / "vectors.parquet"), made, [(TEXTS, held)])
    predictor = load(str(run))
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), predictor.encode(TEXTS), atol=1e-5)
    assert invoke("index", vectors_file=tmp_path / "vectors.parquet", output_dir=tmp_path / "parquet") == 0
    npy = {"vectors_file": tmp_path / "vectors.npy", "output_dir": tmp_path / "npy"}
    assert invoke("index", input_file=tmp_path / "texts.txt", **npy) == 0
    both = [index.Index(str(tmp_path / name)) for name in ("parquet", "npy")]
    assert [list(each.texts(range(6))) for each in both] == [TEXTS, TEXTS]
    np.testing.assert_array_equal(*(each.search(held, 6)[0] for each in both))
    (tmp_path / "queries.txt").write_text("ann and rome\nwho\n", "utf-8")
    asked = {"index": tmp_path / "npy", "model_dir": run, "input_file": tmp_path / "queries.txt", "top_k": 4}
    assert invoke("search", output_file=tmp_path / "npy.jsonl", **asked) == 0
    for line in (tmp_path / "npy.jsonl").read_text().splitlines():
        answer = json.loads(line)
        direct = np.array([each.similarity for each in predictor.predict([(answer["query"], text) for text in TEXTS])])
        assert [each["row"] for each in answer["results"]] == np.argsort(-direct, kind="stable")[:4].tolist()
        np.testing.assert_allclose(
            [each["similarity"] for each in answer["results"]], np.sort(direct)[::-1][:4], atol=1e-5
        )
        assert all(each["text"] == TEXTS[each["row"]] for each in answer["results"])


@pytest.mark.long
@pytest.mark.parametrize("task", ["regress", "rank"])
def test_a_cross_encoder_orders_what_was_found_anew(task, run, small_bert, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("".join(f"{text or 'more'}\n" for text in TEXTS), "utf-8")
    rows = [f"{name}\t{place} and {name}\t1\n{name}\t{place}\t0\n" for name in NAMES for place in PLACES]
    (tmp_path / "train.tsv").write_text("text\ttext_pair\tlabel\n" + "".join(rows), "utf-8")
    train = {"init_checkpoint": small_bert, "train_file": tmp_path / "train.tsv", "task": task} | FLAGS
    assert invoke("finetune", model_dir=tmp_path / "cross", **train) == 0
    made = {"model_dir": run, "input_file": tmp_path / "texts.txt", "output_file": tmp_path / "vectors.parquet"}
    assert invoke("encode", **made) == 0
    assert invoke("index", vectors_file=tmp_path / "vectors.parquet", output_dir=tmp_path / "index") == 0
    asked = {"index": tmp_path / "index", "model_dir": run, "text": "ann and rome", "top_k": 4}
    rerank = {"rerank_model_dir": tmp_path / "cross", "rerank_depth": 6, "output_file": tmp_path / "out.jsonl"}
    assert invoke("search", **asked | rerank) == 0
    answer = json.loads((tmp_path / "out.jsonl").read_text())
    assert len(answer["results"]) == 4
    capsys.readouterr()
    assert invoke("search", **asked | {"text": "ann in york", "top_k": 1}) == 0
    assert "\t0\tann in york" in capsys.readouterr().out
    cross = load(str(tmp_path / "cross"))
    scores = sorted(
        (cross.pair_scores("ann and rome", [text])[0] for text in (t or "more" for t in TEXTS)), reverse=True
    )
    np.testing.assert_allclose([each["score"] for each in answer["results"]], scores[:4], atol=1e-4)
    if task == "regress":  # as a cross-encoder of somebody else
        there = f"hf:{tmp_path}/theirs"
        assert invoke("convert_checkpoint", **{"from": tmp_path / "cross", "to": there}) == 0
        assert invoke("search", **asked | rerank | {"rerank_model_dir": there}, overwrite=True) == 0
        again = json.loads((tmp_path / "out.jsonl").read_text())
        assert [each["row"] for each in again["results"]] == [each["row"] for each in answer["results"]]
        capsys.readouterr()
    assert invoke("search", **asked | rerank | {"rerank_depth": 3}) == 2
    assert "must be at least --top_k=4" in capsys.readouterr().err
    assert invoke("search", **asked | rerank | {"rerank_model_dir": run}, overwrite=True) == 2
    assert "--task=siamese, which gives pairs of texts no scores" in capsys.readouterr().err
    assert invoke("encode", **made | {"model_dir": tmp_path / "cross"}, overwrite=True) == 2
    assert f"--task={task}, which gives texts no vectors" in capsys.readouterr().err


@pytest.mark.long
def test_a_classifier_of_pairs_orders_by_the_probability_of_a_label(run, small_bert, tmp_path, capsys):
    rows = [
        f"{name}\t{place} and {name}\tentailment\n{name}\t{place}\tnot_entailment\n"
        for name in NAMES
        for place in PLACES
    ]
    (tmp_path / "train.tsv").write_text("text\ttext_pair\tlabel\n" + "".join(rows), "utf-8")
    (tmp_path / "texts.txt").write_text("ann in york\nmany words\nbob\nrome\n", "utf-8")
    train = {"init_checkpoint": small_bert, "train_file": tmp_path / "train.tsv"} | FLAGS
    assert invoke("finetune", model_dir=tmp_path / "cross", **train) == 0
    vectors = {"input_file": tmp_path / "texts.txt", "output_file": tmp_path / "vectors.parquet"}
    assert invoke("encode", model_dir=run, **vectors) == 0
    assert invoke("index", vectors_file=tmp_path / "vectors.parquet", output_dir=tmp_path / "index") == 0
    cross, texts = load(str(tmp_path / "cross")), (tmp_path / "texts.txt").read_text("utf-8").splitlines()
    asked = {"index": tmp_path / "index", "model_dir": run, "text": "ann", "top_k": 4}
    for label, place in ((None, 0), ("entailment", 0), ("not_entailment", 1)):
        flags = {"rerank_model_dir": tmp_path / "cross"} | ({"rerank_label": label} if label else {})
        assert invoke("search", "--overwrite", output_file=tmp_path / "out.jsonl", **asked | flags) == 0
        found = json.loads((tmp_path / "out.jsonl").read_text())["results"]
        expected = [
            list(each.probabilities.values())[place] for each in cross.predict([("ann", text) for text in texts])
        ]
        assert [each["row"] for each in found] == np.argsort(-np.array(expected), kind="stable").tolist()
        np.testing.assert_allclose([each["score"] for each in found], sorted(expected, reverse=True), atol=1e-5)
    capsys.readouterr()
    assert invoke("search", rerank_label="maybe", rerank_model_dir=tmp_path / "cross", **asked) == 2
    assert (
        "=maybe: is no label of this run. Name the one whose probability orders texts: entailment, not_"
        in capsys.readouterr().err
    )
    assert invoke("search", rerank_label="entailment", **asked) == 2
    assert "belongs to --rerank_model_dir" in capsys.readouterr().err
    assert cross.pair_scores("ann", []) == []


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(("0", "1"), "1"), (("no", "Yes"), "Yes"), (("1", "yes"), None), (("a", "b"), None), (("1", "2", "3"), None)],
)
def test_the_label_of_a_match_is_found_by_its_name_or_asked_for(labels, expected):
    predictor = Predictor.__new__(Predictor)
    predictor.task, predictor.num_texts = SimpleNamespace(label_names=labels), 2
    if expected:
        assert predictor.matching_label(None) == expected
    else:
        with pytest.raises(UsageError, match=f"do not say by their names which one.*: {', '.join(labels)}"):
            predictor.matching_label(None)
    assert predictor.matching_label(labels[0]) == labels[0]
    predictor.num_texts = 1
    with pytest.raises(UsageError, match="fine-tuned on single texts"):
        predictor.pair_scores("", [])


def test_what_does_not_belong_together_is_refused(run, small_bert, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("ann\nbob\n", "utf-8")
    encode = {
        "model_dir": run,
        "input_file": tmp_path / "texts.txt",
        "output_file": tmp_path / "vectors.npy",
    }
    assert invoke("encode", **encode) == 0
    assert invoke("encode", **encode) == 2 and "add --overwrite" in capsys.readouterr().err
    made = {"vectors_file": tmp_path / "vectors.npy", "output_dir": tmp_path / "index"}
    (tmp_path / "others.txt").write_text("bob\nann\n", "utf-8")
    assert invoke("index", input_file=tmp_path / "others.txt", **made) == 3
    assert "holds not the texts" in capsys.readouterr().err and not (tmp_path / "index").exists()
    assert invoke("index", **made) == 0
    asked = {"index": tmp_path / "index", "text": "ann"}
    shutil.copytree(run, tmp_path / "other")
    os.remove(tmp_path / "other/SHA256SUMS")
    task = json.loads((tmp_path / "other/task.json").read_text())
    (tmp_path / "other/task.json").write_text(json.dumps(task | {"max_sequence_length": 12}))
    assert invoke("search", model_dir=tmp_path / "other", **asked) == 2
    assert "another network" in (said := capsys.readouterr().err) and "max_sequence_length 16 there, 12 here" in said
    assert invoke("search", model_dir=run, rerank_model_dir=run, **asked) == 2
    assert "holds no texts" in capsys.readouterr().err
    assert invoke("search", model_dir=small_bert, **asked) == 4
    assert "Fine-tune it first" in capsys.readouterr().err
    assert invoke("index", "--overwrite", **made) == 0
    (tmp_path / "index/notes.txt").write_text("mine")
    assert invoke("index", "--overwrite", **made) == 2
    assert "is no index, or holds more than one" in capsys.readouterr().err
