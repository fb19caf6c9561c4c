"""Siamese networks: losses in their limits, one encoder, what a run learns, predicts, is scored by and serves; bad rows."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES, TOKENIZER, network
from xmodels import systems
from xmodels.jobs.finetune.options import Options
from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer, reader_of
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.siamese import losses, measures
from xmodels.tasks.siamese.read import pack_sides
from xmodels.tasks.siamese.settings import LOSSES, PairLoss, Settings, loss_of, settings_of
from xmodels.tasks.siamese.task import Siamese
from xmodels.training.finetuning import FineTuning

QUICK = {
    "max_seq_length": 16, "train_batch_size": 16, "distribution_strategy": "one_device", "jit_compile": "false", "learning_rate": 2e-3,
}  # fmt: skip
CONFIG = BertConfig(
    len(TOKENIZER.vocabulary), 16, 1, 2, 32, max_sequence_length=16, dropout=0.0, attention_dropout=0.0, initializer_stddev=0.3
)  # fmt: skip
ONES = np.ones(32, "float32")
COMPILED_OFTEN = ("multiple_negatives", "online_contrastive")  # the two whose graphs are the least plain


def test_a_recipe_may_name_the_loss_and_flags_come_first():
    of_recipe = PairLoss("contrastive", margin=0.3, distance="euclidean")

    def read(**flags):
        reader = reader_of(Options(task="siamese", init_checkpoint="a folder", model_dir="run", **flags))
        reader.recipe = FineTuning(task_loss=of_recipe)
        return reader

    assert read().loss == LOSSES["contrastive"] and read().decisive == "average_precision"
    assert settings_of(read().options, of_recipe) == (Settings("contrastive"), of_recipe)
    assert loss_of(read(siamese_margin=0.7).options, of_recipe) == dataclasses.replace(of_recipe, margin=0.7)
    assert loss_of(read(siamese_loss="cosine").options, of_recipe) == PairLoss("cosine")
    assert read(siamese_loss="triplet").decisive == "triplet_accuracy"
    assert loss_of(read().options) == PairLoss("multiple_negatives", scale=20.0)
    with pytest.raises(UsageError, match="--siamese_scale: --siamese_loss=contrastive has no such number"):
        settings_of(read(siamese_scale=5.0).options, of_recipe)


def vectors(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def different(count, sides=2):
    """Tokens of texts, (B, S, L), no two of which are equal."""
    return np.arange(count * sides, dtype="int32").reshape(count, sides, 1)


def value(loss):
    total, weight = (float(each) for each in loss)
    return total / weight


def batch_of(rows, **more):
    """Texts, as a batch."""
    ids = [tuple(TOKENIZER.encode_batch(list(row))[i].ids for i in range(len(row))) for row in rows]
    from data_pipelines.text.frames import BERT

    arrays = pack_sides(ids, TOKENIZER.vocabulary, 16, BERT)
    return {**arrays, "example_weights": np.ones(len(rows), "float32"), **more}


def test_multiple_negatives_of_one_pair_is_nothing_and_of_random_vectors_the_logarithm():
    assert value(losses.multiple_negatives(vectors(1, 2, 8), different(1), ONES[:1], 20.0, True)) == 0
    for symmetric in (False, True):
        found = value(losses.multiple_negatives(vectors(32, 2, 768), different(32), ONES, 1.0, symmetric))
        assert found == pytest.approx(np.log(32), abs=0.1)
    found = value(losses.multiple_negatives(vectors(32, 3, 768), different(32, 3), ONES, 1.0, False))
    assert found == pytest.approx(np.log(64), abs=0.1)


def test_multiple_negatives_is_a_softmax_of_scaled_cosines_and_its_symmetric_form_the_mean_of_both_ways():
    given = vectors(4, 2, 8)
    units = given / np.linalg.norm(given, axis=-1, keepdims=True)
    scores = 20 * units[:, 0] @ units[:, 1].T
    there, back = (float(np.mean(np.log(np.exp(each).sum(axis=1)) - np.diag(each))) for each in (scores, scores.T))
    found = [value(losses.multiple_negatives(given, different(4), ONES[:4], 20.0, sym)) for sym in (False, True)]
    np.testing.assert_allclose(found, [there, (there + back) / 2], rtol=1e-4)


def test_an_equal_text_is_never_a_negative():
    """Of two rows with an equal text on either side, each alone is left beside rows that count for nothing."""
    for ids in ([[1, 2], [3, 2]], [[1, 2], [1, 4]], [[1, 2], [3, 1]]):
        tokens = np.array(ids, "int32")[..., None]
        single = value(losses.multiple_negatives(vectors(2, 2, 8), tokens, np.array([1.0, 0.0], "float32"), 20.0, True))
        assert single == 0  # the second row only fills the batch
        total, _ = losses.multiple_negatives(vectors(2, 2, 8), tokens, ONES[:2], 20.0, True)
        other, _ = losses.multiple_negatives(vectors(2, 2, 8), different(2), ONES[:2], 20.0, True)
        assert float(total) < float(other)
    both = np.array([[1, 2], [3, 2]], "int32")[..., None]
    assert value(losses.multiple_negatives(vectors(2, 2, 8), both, ONES[:2], 20.0, False)) == 0
    negative = np.array([[1, 2, 2], [3, 4, 3]], "int32")[
        ..., None
    ]  # hard negatives that are the right text, or the anchor
    with_them = value(losses.multiple_negatives(vectors(2, 3, 8), negative, np.array([1, 0], "float32"), 20.0, False))
    assert with_them == 0


def test_contrastive_is_nothing_where_texts_match_exactly_or_differ_enough():
    similarity, matches = np.array([1.0, 0.5, 0.2], "float32"), np.array([1, 0, 0], "float32")
    assert value(losses.contrastive(1 - similarity, matches, ONES[:3], 0.5)) == 0
    near = losses.contrastive(np.array([0.1], "float32"), np.zeros(1, "float32"), ONES[:1], 0.5)
    assert value(near) == pytest.approx(0.5 * 0.4**2, rel=1e-4)


def test_online_contrastive_chooses_hard_pairs_only():
    similarity = np.array([0.9, 0.4, 0.8, -0.5], "float32")
    matches = np.array([1, 1, 0, 0], "float32")
    # The second pair is farther apart than the third, which should be; the first and the last are told apart already.
    expected = 0.5 * (0.6**2 + 0.3**2) / 4
    assert value(losses.online_contrastive(1 - similarity, matches, ONES[:4], 0.5)) == pytest.approx(expected, rel=1e-4)
    every = value(losses.contrastive(1 - similarity, matches, ONES[:4], 0.5))
    assert expected < every
    filled = np.array([1, 1, 0, 1], "float32")  # the third only fills the batch: nothing is hard then
    assert value(losses.online_contrastive(1 - similarity, matches, filled, 0.5)) == 0


@pytest.mark.parametrize(("distance", "near", "far"), [("cosine", 1 - 0.6, 1.0), ("euclidean", 20**0.5, 5.0)])
def test_contrastive_losses_take_either_distance(distance, near, far):
    given = tf.constant([[[3, 4], [5, 0]], [[0, 4], [3, 0]]], tf.float32)  # a pair that matches, and one that does not
    outputs = {"vectors": given, "scores": losses.cosine(given[:, 0], given[:, 1])}
    batch = {"labels": np.array([1, 0], "float32"), "example_weights": ONES[:2]}
    for name, expected in (("contrastive", 0.5 * (near**2 + (6 - far) ** 2)), ("online_contrastive", 0.0)):
        task = Siamese(CONFIG, settings=Settings(name), training=PairLoss(name, margin=6.0, distance=distance))
        total, count = task.score(outputs, batch, None)[0][name]
        assert (float(total), float(count)) == (pytest.approx(expected, rel=1e-4), 2)


def test_triplets_are_nothing_beyond_the_margin_and_zero_vectors_have_gradients():
    given = np.zeros((1, 3, 4), "float32")
    given[0, 2, 0] = 1.5
    assert value(losses.triplet(given, ONES[:1], 1.0)) == 0
    with tf.GradientTape() as tape:
        zero = tf.Variable(tf.zeros([2, 3, 4]))
        total = (
            losses.triplet(zero, ONES[:2], 1.0)[0]
            + losses.multiple_negatives(zero, different(2, 3), ONES[:2], 20.0, True)[0]
        )
    assert float(total) == pytest.approx(2 + 2 * (np.log(4) + np.log(2)) / 2, rel=1e-4)
    assert np.isfinite(tape.gradient(total, zero).numpy()).all()


@pytest.mark.parametrize("features", [["u", "v", "difference"], ["difference", "product"]])
def test_one_encoder_reads_both_sides_and_only_u_and_v_know_their_order(features):
    backbone = Bert(CONFIG).initialize()
    task = Siamese(CONFIG, ["no", "yes"], settings=Settings("classification", features=features))
    rows = [("ann in york", "bob"), ("where does dan live ?", "in rome")]
    found = task.forward(backbone, batch_of(rows))
    turned = task.forward(backbone, batch_of([row[::-1] for row in rows]))
    head = len(features) * 16 * 2 + 2
    assert sum(int(np.prod(v.shape)) for v in task.trainable_variables) == head
    np.testing.assert_allclose(found["scores"], turned["scores"], atol=1e-6)
    apart = float(np.max(np.abs(np.array(found["logits"]) - turned["logits"])))
    assert apart < 1e-5 if "u" not in features else apart > 1e-3


def test_a_projection_and_a_length_of_one():
    task = Siamese(CONFIG, settings=Settings(normalize=True, projection_dim=6))
    found = np.array(task.forward(Bert(CONFIG).initialize(), batch_of([("ann", "bob")]))["vectors"])
    assert found.shape == (1, 2, 6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in COMPILED_OFTEN)) for name in LOSSES]
)
def test_every_loss_compiles_and_rows_that_fill_a_batch_count_for_nothing(name):
    backbone = Bert(CONFIG).initialize()
    task = Siamese(CONFIG, ["no", "yes"], settings=Settings(name), training=PairLoss(name))
    rows = [("ann", "bob", "rome"), ("in york", "bonn", "dan"), ("who", "live", "oslo")]
    numbers = {"classification": np.array([1, 0, 1], "int32")}.get(name, np.array([1, 0, 1], "float32"))

    @tf.function(jit_compile=True)
    def loss(batch):
        return task.score(task.forward(backbone, batch), batch, backbone)[0][name]

    weights = np.array([1, 1, 0], "float32")
    filled, weight = loss(batch_of(rows, labels=numbers) | {"example_weights": weights})
    other, _ = loss(batch_of([*rows[:2], ("car", "does", "car")], labels=numbers) | {"example_weights": weights})
    assert float(weight) == 2 and float(filled) == pytest.approx(float(other), rel=1e-5)


def test_ranks_know_equal_texts_and_thresholds_part_best():
    given = np.eye(4, dtype="float32")[[[0, 0], [0, 1], [2, 1], [3, 3]]]
    # The second row has the anchor of the first, so the first row's right text is no rival; the third finds its text last.
    texts = [("a", "x"), ("a", "y"), ("c", "z"), ("d", "w")]
    found, candidates = measures.ranks(given, texts)
    assert candidates == 4 and found[0] == found[3] == 1
    assert found[2] == 4  # all are as far, and equal cosines stand before
    assert measures.ranks(given, [("a", "x"), ("b", "x"), ("c", "x"), ("d", "x")]) == ([1, 1, 1, 1], 1)
    assert measures.best_threshold([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1]) == pytest.approx(0.5)
    scored = measures.match_scores([0.1, 0.9, 0.5], [0, 1, 1], 0.7)
    assert (scored["accuracy"], scored["average_precision"]) == (pytest.approx(2 / 3), 1.0)
    assert measures.triplet_accuracy(np.eye(2, dtype="float32")[[[0, 0, 1], [0, 1, 0]]]) == 0.5


def table(path, count, seed, kind):
    """Pairs that match where both hold the same name; scores, labels and triplets of them."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(count):
        first, second, other = (str(name) for name in rng.choice(NAMES, 3))
        places = [str(place) for place in rng.choice(PLACES, 3)]
        match = first == second
        if kind == "triplet":
            other = next(name for name in NAMES if name != first)
            rows.append(f"{first} in {places[0]}\t{places[1]} and {first}\t{other} in {places[2]}\n")
        else:
            rows.append(f"{first} in {places[0]}\t{places[1]} and {second}\t{int(match)}\n")
    header = "anchor\tpositive\tnegative\n" if kind == "triplet" else "text\ttext_pair\tlabel\n"
    path.write_text(header + "".join(rows), "utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs")
    for kind in ("match", "triplet"):
        table(path / f"{kind}_train.tsv", 160, 0, kind)
        table(path / f"{kind}_dev.tsv", 48, 1, kind)
    return path


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return network("bert", tmp_path_factory.mktemp("bert"))


def train(data, start, path, loss, **flags):
    kind = "triplet" if "negative_column" in flags else "match"
    files = {"train_file": data / f"{kind}_train.tsv", "eval_file": data / f"{kind}_dev.tsv"}
    numbers = QUICK | {"num_train_epochs": 6} | flags
    assert (
        invoke("finetune", task="siamese", siamese_loss=loss, init_checkpoint=start, model_dir=path, **files, **numbers)
        == 0
    )
    return json.loads((path / "results.json").read_text())["results"]


@pytest.fixture(scope="module")
def run(data, start, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "matches"
    assert train(data, start, path, "contrastive", num_train_epochs=4)["evaluation average_precision"] > 0.9
    return path


@pytest.mark.long
def test_a_run_is_scored_as_evaluate_scores_it_with_the_threshold_of_its_training(run, data, tmp_path, capsys):
    results = json.loads((run / "results.json").read_text())["results"]
    task = json.loads((run / "task.json").read_text())
    assert task["settings"]["loss"] == "contrastive" and 0 < task["settings"]["threshold"] < 1
    assert json.loads((run / "backbone/config.json").read_text())["pooling"] == "mean"  # the default
    arguments = {
        "test_file": data / "match_dev.tsv",
        "output_file": tmp_path / "scores.json",
        "plots": tmp_path / "plots",
    }
    assert invoke("evaluate", model_dir=run, **arguments) == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found["average_precision"] == pytest.approx(results["evaluation average_precision"], abs=1e-3)
    assert found["threshold"] == task["settings"]["threshold"] and found["accuracy"] > 0.9
    assert (tmp_path / "plots/similarities.png").exists() and (run / "pictures/similarities.png").exists()
    triplets = {"text_column": "anchor", "text_pair_column": "positive", "negative_column": "negative"}
    arguments = {"test_file": data / "triplet_dev.tsv", "output_file": tmp_path / "triplets.json", **triplets}
    assert invoke("evaluate", model_dir=run, **arguments) == 0
    found = json.loads((tmp_path / "triplets.json").read_text())
    assert found["triplet_accuracy"] > 0.9 and 0 < found["mrr"] <= 1
    assert "matching texts" in capsys.readouterr().out


@pytest.mark.long
def test_predict_answers_pairs_and_a_text_has_the_same_vector_alone_and_beside_longer_ones(run, tmp_path, capsys):
    assert invoke("predict", model_dir=run, text="ann in york", text_pair="rome and ann") == 0
    assert "match: yes" in capsys.readouterr().out
    (tmp_path / "pairs.tsv").write_text(
        "text\ttext_pair\nann in york\trome and ann\nann in york\trome and bob\n", "utf-8"
    )
    assert invoke("predict", model_dir=run, input_file=tmp_path / "pairs.tsv", output_file=tmp_path / "out.jsonl") == 0
    same, other = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert same["similarity"] > other["similarity"] and same["match"] and not other["match"]
    assert invoke("predict", model_dir=run, text="ann") == 2
    assert "xmodels encode" in capsys.readouterr().err
    predictor = load(str(run))
    texts = ["ann", "where does dan live in oslo and bonn ?", "", "many words " * 40]
    together = predictor.encode(texts)
    np.testing.assert_allclose(together, [predictor.encode([text])[0] for text in texts], atol=1e-5)
    first, second = predictor.encode(["ann in york", "rome and ann"])
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    assert cosine == pytest.approx(same["similarity"], abs=1e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("loss", "flags", "score", "least"),
    [
        ("multiple_negatives", {"siamese_symmetric": True}, "mrr", 0.3),
        pytest.param(
            "classification", {"siamese_features": "difference,product"}, "accuracy", 0.85, marks=pytest.mark.long
        ),
        pytest.param("cosine", {"pooling": "attention"}, "spearman", 0.5, marks=pytest.mark.long),
        pytest.param(
            "online_contrastive",
            {"pooling": "weighted_mean+last", "projection_dim": 32},
            "average_precision",
            0.8,
            marks=pytest.mark.long,
        ),
        pytest.param(
            "contrastive",
            {"siamese_distance": "euclidean", "normalize_vectors": True},
            "average_precision",
            0.8,
            marks=pytest.mark.long,
        ),  # fmt: skip
        (
            "triplet",
            {
                "negative_column": "negative",
                "text_column": "anchor",
                "text_pair_column": "positive",
                "projection_dim": 8,
            },
            "triplet_accuracy",
            0.9,
        ),
    ],
)
def test_every_loss_learns_and_its_score_chooses_the_epoch(loss, flags, score, least, data, start, tmp_path):
    assert train(data, start, tmp_path / "run", loss, **flags)[f"evaluation {score}"] > least
    assert load(str(tmp_path / "run")).encode(["ann", "bob"]).shape == (2, flags.get("projection_dim", 48))


@pytest.mark.long
def test_a_run_that_was_stopped_resumes_as_if_it_had_not_been(data, start, tmp_path):
    weights = []
    for name, epochs in (("whole", (2,)), ("resumed", (1, 2))):
        for count in epochs:
            flags = {"num_train_epochs": count, "lr_schedule": "constant", "warmup_proportion": 0.0}
            train(data, start, tmp_path / name, "multiple_negatives", save_checkpoints_steps=5, **flags)
        state = sorted((tmp_path / name / "checkpoints").iterdir())[-1]
        weights.append((state.name, (state / "weights.safetensors").read_bytes()))
    assert weights[0] == weights[1]


@pytest.mark.long
def test_records_teach_what_their_table_teaches(data, start, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENIZER.vocabulary.tokens) + "\n", "utf-8")
    flags = {
        "input_file": data / "match_train.tsv",
        "vocab_file": tmp_path / "vocab.txt",
        "output_dir": tmp_path / "records",
    }
    assert (
        invoke("create_finetuning_data", task="classify", max_seq_length=16, text_pair_column="text_pair", **flags) == 0
    )
    found = []
    for name, source in (
        ("file", {"train_file": data / "match_train.tsv"}),
        ("records", {"data_dir": tmp_path / "records"}),
    ):
        path, numbers = (
            tmp_path / f"run_{name}",
            QUICK | {"num_train_epochs": 0.5, "log_steps": 1, "siamese_loss": "contrastive"},
        )
        assert invoke("finetune", task="siamese", init_checkpoint=start, model_dir=path, **source, **numbers) == 0
        found.append([json.loads(line).get("loss") for line in (path / "log.jsonl").read_text().splitlines()])
    assert found[0] == found[1] and any(found[0])


@pytest.mark.parametrize(
    ("loss", "negative"), [("triplet", True), ("multiple_negatives", True), ("multiple_negatives", False)]
)
def test_records_of_texts_that_match_hold_what_their_table_holds(loss, negative, start, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENIZER.vocabulary.tokens) + "\n", "utf-8")
    rows = [("ann in rome", "ann " * 30, "bob"), ("bob", "bob " * 9, "ann"), ("york", "in york", "ann in rome")]
    texts = ["text\ttext_pair\tother", *("\t".join(row) for row in rows)]
    lines = texts if negative else [line.rpartition("\t")[0] for line in texts]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    third = {"negative_column": "other"} if negative else {}
    made = {
        "input_file": tmp_path / "rows.tsv",
        "vocab_file": tmp_path / "vocab.txt",
        "output_dir": tmp_path / "records",
    }
    assert invoke("create_finetuning_data", task="siamese", max_seq_length=16, **made, **third) == 0
    found = []
    for files in ({"train_file": str(tmp_path / "rows.tsv"), **third}, {"data_dir": str(tmp_path / "records")}):
        given = {"init_checkpoint": str(start), "model_dir": "x", "max_seq_length": 16, "siamese_loss": loss, **files}
        options = Options(task="siamese", **given, eval_file=next(iter(files.values())))
        reader = reader_of(options)
        tokenizer = load_checkpoint_and_tokenizer(options, reader)[1]
        read = reader.read(tokenizer)
        found.append((read.summary, read.source.arrays, read.evaluation_sets["evaluation"].arrays))
    assert found[0][0] == found[1][0] and reader.survey_records(tokenizer).num_rows == 3
    for expected, there in zip(found[0][1:], found[1][1:], strict=True):
        assert expected.keys() == there.keys() and expected["token_ids"].shape == (3, 2 + negative, 16)
        for name, values in expected.items():
            np.testing.assert_array_equal(there[name], values)
    if not negative:
        with pytest.raises(UsageError, match="siamese_loss=triplet needs records of three texts"):
            reader = reader_of(dataclasses.replace(options, siamese_loss="triplet"))
            reader.read(load_checkpoint_and_tokenizer(options, reader)[1])


def test_rows_that_a_loss_cannot_use_are_named(data, start, tmp_path, capsys):
    text = (data / "match_train.tsv").read_text("utf-8") + "ann\tbob\tvery\nann\tbob\t3\n"
    (tmp_path / "bad.tsv").write_text(text, "utf-8")
    flags = {
        "task": "siamese",
        "init_checkpoint": start,
        "train_file": tmp_path / "bad.tsv",
        "model_dir": tmp_path / "run",
    }
    flags |= QUICK
    assert invoke("finetune", siamese_loss="contrastive", **flags) == 3
    assert "bad.tsv, line 162: no number: 'very'" in capsys.readouterr().err
    assert invoke("finetune", siamese_loss="cosine", max_score=2, on_bad_row="skip", dry_run=True, **flags) == 0
    assert "2 row(s) cannot be used" in capsys.readouterr().out
    assert invoke("finetune", siamese_loss="triplet", **flags) == 2
    assert "--negative_column" in capsys.readouterr().err
    assert invoke("finetune", siamese_loss="cosine", siamese_scale=3, **flags) == 2
    assert "--siamese_scale: --siamese_loss=cosine has no such number" in capsys.readouterr().err
    assert invoke("finetune", siamese_loss="cosine", siamese_distance="euclidean", **flags) == 2
    assert "--siamese_distance: --siamese_loss=cosine has no such" in capsys.readouterr().err
    assert invoke("finetune", siamese_loss="classification", siamese_features="u,w", **flags) == 2
    assert "expected some of u, v, difference, product" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("serving_ops", ["core", "text"])
def test_what_is_served_is_what_the_run_says(run, tmp_path, serving_ops):
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops=serving_ops) == 0
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures
    texts, predictor = ["ann in york", "", "where does dan live ?"], load(str(run))
    found = served["serving_default"](text=tf.constant(texts))["vector"].numpy()
    np.testing.assert_allclose(found, predictor.encode(texts), atol=1e-3)
    pair = {"text": tf.constant(texts), "text_pair": tf.constant(texts[::-1])}
    expected = [each.similarity for each in predictor.predict(list(zip(texts, texts[::-1], strict=True)))]
    np.testing.assert_allclose(served["similarity"](**pair)["similarity"].numpy(), expected, atol=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["roberta", "xlnet", "gpt"])
def test_every_family_learns_and_serves_it(kind, data, tmp_path):
    path = tmp_path / kind
    path.mkdir()
    flags = {"num_train_epochs": 10} | ({"auxiliary_lm_weight": 0} if kind == "gpt" else {})
    found = train(data, network(kind, path), tmp_path / "run", "contrastive", **flags)
    assert found["evaluation average_precision"] > 0.6
    assert invoke("export_model", model_dir=tmp_path / "run", export_dir=tmp_path / "served", serving_ops="core") == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["t5", "bart", "albert"])
def test_encoder_decoders_and_shared_layers_encode_too(name, data, tmp_path):
    system = systems.load(name)
    config = system.MODEL.config_class(
        len(TOKENIZER.vocabulary), hidden_dim=32, num_layers=1, num_heads=2, intermediate_dim=64
    )
    (tmp_path / "start").mkdir()
    backbone = system.MODEL(config).initialize()
    folder.write_model(str(tmp_path / "start"), backbone, None, TOKENIZER.files(), TOKENIZER.describe(), name)
    train(data, tmp_path / "start", tmp_path / "run", "contrastive", num_train_epochs=1)
    texts = ["ann in york", "where does dan live in oslo and bonn ?"]
    predictor = load(str(tmp_path / "run"))
    together = predictor.encode(texts)
    np.testing.assert_allclose(together, [predictor.encode([text])[0] for text in texts], atol=1e-5)
