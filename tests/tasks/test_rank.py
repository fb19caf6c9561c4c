"""Rankings: both losses against plain loops, MRR, MAP and nDCG, lists of any length, files and records, what is served."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.rankings import RankedList
from data_pipelines.errors import DataError
from data_pipelines.ops.candidates import draw_candidates
from data_pipelines.ops.seeds import example_seeds
from tests.helpers.invocation import invoke
from tests.helpers.small_models import NAMES, PLACES, TOKENIZER, network
from xmodels.jobs.finetune.options import Options
from xmodels.jobs.finetune.start import load_checkpoint_and_tokenizer, reader_of
from xmodels.models.bert import Bert, BertConfig
from xmodels.runs.fine_tuned import choose_settings
from xmodels.runs.fine_tuned import load_predictor as load
from xmodels.tasks.rank.read import parts, read_lists, unlabelled, without_order
from xmodels.tasks.rank.score import average_precision, ndcg, order_relevances, reciprocal_rank, scores
from xmodels.tasks.rank.task import Rank, listwise, pairwise

QUICK = {
    "max_seq_length": 16, "train_batch_size": 8, "distribution_strategy": "one_device", "jit_compile": "false", "learning_rate": 2e-3,
    "list_size": 4,
}  # fmt: skip


def lists(count, seed):
    """JSON lines of queries: the candidate that names the place of an odd word is relevant."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        candidates = [f"{rng.choice(NAMES)} lives in {place}" for place in rng.permutation(PLACES)] + [
            "many words and more words"
        ]
        labels = [2 if "rome" in each else 1 if "york" in each else 0 for each in candidates]
        yield (
            json.dumps({"query": f"who lives {rng.choice(NAMES)} ?", "candidates": candidates, "labels": labels}) + "\n"
        )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("lists")
    for name, count, seed in (("train", 64, 0), ("dev", 16, 1)):
        (path / f"{name}.jsonl").write_text("".join(lists(count, seed)), "utf-8")
    return path


@pytest.fixture(scope="module")
def run(data, small_bert, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "ranker"
    files = {"train_file": data / "train.jsonl", "eval_file": data / "dev.jsonl"}
    assert (
        invoke(
            "finetune", task="rank", init_checkpoint=small_bert, model_dir=path, num_train_epochs=4, **files, **QUICK
        )
        == 0
    )
    return path


def test_losses_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 5)).astype(np.float32)
    labels = rng.integers(0, 3, (4, 5)).astype(np.float32)
    labels[2] = 0.0  # a list without a relevant candidate
    there = np.ones((4, 5), np.float32)
    there[1, 3:], there[3] = 0.0, 0.0
    total, count, pairs, number = 0.0, 0, 0.0, 0
    for row in range(4):
        real = [c for c in range(5) if there[row, c]]
        gains = sum(labels[row, c] for c in real)
        if gains:
            logs = values[row, real] - np.log(np.exp(values[row, real]).sum())
            total, count = total - sum(labels[row, c] * p for c, p in zip(real, logs, strict=True)) / gains, count + 1
        for a in real:
            for b in real:
                if labels[row, a] > labels[row, b]:
                    pairs, number = pairs + math.log1p(math.exp(values[row, b] - values[row, a])), number + 1
    for loss, expected in ((listwise, (total, count)), (pairwise, (pairs, number))):
        found = loss(tf.constant(values), tf.constant(labels), tf.constant(there))
        assert [float(x) for x in found] == pytest.approx(expected, rel=1e-5)


def test_a_list_is_scored_as_its_candidates_alone_and_missing_ones_count_for_nothing():
    config = BertConfig(20, 16, 1, 2, 32, max_sequence_length=8, dropout=0.0, attention_dropout=0.0)
    backbone, task = Bert(config).initialize(), Rank(config)
    ids = np.arange(48).reshape(2, 3, 8) % 20
    batch = {
        "token_ids": ids,
        "segment_ids": ids * 0,
        "padding_mask": ids >= 0,
        "labels": np.eye(3, dtype=np.float32)[:2],
    }
    batch |= {"choice_weights": np.array([[1, 1, 1], [1, 1, 0]], np.float32), "example_weights": np.ones(2, np.float32)}
    together = np.array(task.forward(backbone, batch)["scores"])
    flat = {name: batch[name].reshape(6, 8) for name in ("token_ids", "segment_ids", "padding_mask")}
    np.testing.assert_allclose(np.array(task.forward(backbone, flat)["scores"]), together.ravel(), atol=1e-6)
    losses = []
    for fill in (0, 7):
        changed = batch | {"token_ids": np.where(batch["choice_weights"][:, :, None] > 0, ids, fill)}
        losses.append(float(task.score(task.forward(backbone, changed), changed, backbone)[0]["rank"][0]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_measures():
    row = order_relevances([0.1, 0.9, 0.5, 0.3], [1, 0, 2, 0])  # relevances 0, 2, 0, 1 by score
    assert row.tolist() == [0, 2, 0, 1]
    assert reciprocal_rank(row) == 0.5 and average_precision(row) == pytest.approx((1 / 2 + 2 / 4) / 2)
    gains = 3 / math.log2(3) + 1 / math.log2(5)
    assert ndcg(row) == pytest.approx(gains / (3 + 1 / math.log2(3)))
    assert ndcg(np.array([0.0] * 10 + [1.0])) == 0.0
    found = scores([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], [[1, 0], [1, 0], [0, 0]])
    assert (
        found["mrr"] == 0.75 and found["lists_without_relevant"] == 1
    )  # equal scores win nothing by the order of the file


def test_measures_are_those_of_scikit_learn():
    from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

    rng = np.random.default_rng(1)
    for _ in range(20):
        values, labels = rng.normal(size=(1, 12)), rng.integers(0, 2, (1, 12))
        labels[0, 0] = 1
        row = order_relevances(values[0], labels[0])
        assert average_precision(row) == pytest.approx(label_ranking_average_precision_score(labels, values))
        assert ndcg(row) == pytest.approx(ndcg_score(labels, values, k=10))


def test_long_lists_keep_what_is_relevant_and_something_that_is_not():
    labels = [0.0] * 30
    labels[4], labels[20] = 1.0, 2.0
    (row,) = parts(labels, 8, "seed")
    assert len(row) == 8 and {4, 20} <= set(row) and parts(labels, 8, "seed") == [row] != parts(labels, 8, "other")
    (row,) = parts([1.0] * 9 + [0.0], 4, "seed")
    assert len(row) == 4 and 9 in row
    assert [place for part in parts(labels, 8, None) for place in part] == list(range(30))


def drawn(lists, size, epochs):
    """The places that `draw_candidates` takes of each list, epoch by epoch. A token is the number of a candidate."""
    relevance = [label for each in lists for label in each]
    arrays = {"token_ids": np.arange(len(relevance), dtype=np.int32)[:, None] + 1}
    op, count = draw_candidates(arrays, relevance, [len(each) for each in lists], size), len(lists)
    begins = np.cumsum([0, *map(len, lists)])
    for epoch in range(epochs):
        index = tf.range(count, dtype=tf.int64)
        features = {
            "list_ids": tf.range(count),
            "seed": example_seeds(3, tf.fill([count], tf.constant(epoch, tf.int64)), index),
        }
        made = {name: value.numpy() for name, value in op(features).items()}
        assert made["token_ids"].shape == (count, size, 1)
        rows = []
        for number, (ids, labels, weights) in enumerate(
            zip(made["token_ids"][:, :, 0], made["labels"], made["choice_weights"], strict=True)
        ):
            there = weights > 0
            rows.append((ids[there] - 1 - begins[number]).tolist())
            assert (
                labels[there].tolist() == [lists[number][place] for place in rows[-1]]
                and not ids[~there].any()
                and not labels[~there].any()
            )
        yield rows


def test_candidates_that_are_drawn_anew_are_those_that_could_be_drawn_once():
    lists = [[0, 1, 0, 0, 0, 0, 2], [1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 2, 0, 1, 0], [1, 0, 0]]
    epochs = list(drawn(lists, 3, 150))
    assert epochs == list(drawn(lists, 3, 150))
    seen = [{tuple(rows[number]) for rows in epochs} for number in range(len(lists))]
    possible = [{tuple(parts(each, 3, str(seed))[0]) for seed in range(400)} for each in lists]
    assert [len(each) for each in possible] == [5, 1, 10, 4, 6, 1]
    assert seen == possible
    op = draw_candidates({"token_ids": np.zeros((2, 1), np.int32)}, [1, 0], [2], 2)
    features = {"token_ids": tf.zeros([1, 2, 1], tf.int32)}
    assert op(features) is features  # of a set that is scored


@pytest.mark.long
def test_lists_are_drawn_anew_in_every_epoch_where_asked_for(data, small_bert, tmp_path, capsys):
    given = {
        "init_checkpoint": str(small_bert),
        "model_dir": "x",
        "train_file": str(data / "train.jsonl"),
        "max_seq_length": 16,
    }
    found = {}
    for redraw in (False, True):
        options = Options(task="rank", list_size=3, redraw_lists=redraw, **given)
        reader = reader_of(options)
        source = reader.read(load_checkpoint_and_tokenizer(options, reader)[1]).source
        batches = Batches(source, reader.draw or (lambda features: features), 64, seed=1)
        epochs = [next(iter(batches.training(first_epoch=epoch))) for epoch in (0, 0, 1)]
        found[redraw] = source, [np.sort(each["token_ids"].numpy().reshape(64, -1), axis=0).tolist() for each in epochs]
    (once, fixed), (anew, drawn_anew) = found[False], found[True]
    assert fixed[0] == fixed[1] == fixed[2] and drawn_anew[0] == drawn_anew[1] != drawn_anew[2]
    np.testing.assert_array_equal(once.arrays["labels"], anew.arrays["labels"])  # the same first draw
    np.testing.assert_array_equal(
        once.arrays["token_ids"], anew.arrays["token_ids"][:, :, : once.arrays["token_ids"].shape[2]]
    )
    flags = QUICK | {
        "list_size": 3,
        "num_train_epochs": 1,
        "train_file": data / "train.jsonl",
        "eval_file": data / "dev.jsonl",
    }
    assert (
        invoke(
            "finetune", "--redraw_lists", task="rank", init_checkpoint=small_bert, model_dir=tmp_path / "run", **flags
        )
        == 0
    )
    assert (
        invoke(
            "finetune",
            "--redraw_lists",
            task="classify",
            init_checkpoint=small_bert,
            model_dir=tmp_path / "no",
            train_file="x",
        )
        == 2
    )
    assert "--redraw_lists: --task=classify has no such flag" in capsys.readouterr().err


def test_a_run_ranks_and_is_scored_by_whole_lists(run, data, tmp_path, capsys):
    results = json.loads((run / "results.json").read_text())["results"]
    arguments = {
        "test_file": data / "dev.jsonl",
        "output_file": tmp_path / "scores.json",
        "plots": tmp_path / "pictures",
    }
    assert invoke("evaluate", model_dir=run, **arguments) == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found["ndcg_10"] == pytest.approx(results["evaluation ndcg_10"], abs=1e-3)  # lists of 5 in rows of 4
    assert found["ndcg_10"] > 0.8 and found["lists"] == 16
    assert (tmp_path / "pictures/ranks.png").exists() and (run / "pictures/ranks.png").exists()
    assert "random order: " in capsys.readouterr().out


def test_predict_from_the_command_line(run, tmp_path, capsys):
    rows = [
        {"id": "a", "query": "who lives ann ?", "candidates": ["ann lives in bonn", "bob lives in rome", "many words"]}
    ]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert (
        invoke("predict", model_dir=run, input_file=tmp_path / "asked.jsonl", output_file=tmp_path / "out.jsonl") == 0
    )
    (found,) = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert found["id"] == "a" and found["ranking"][0]["candidate"] == "bob lives in rome"
    assert sum(each["probability"] for each in found["ranking"]) == pytest.approx(1.0)
    (tmp_path / "asked.tsv").write_text("text\ttext_pair\nwho\tann in bonn\nwho\tbob in rome\nmore\tann\n", "utf-8")
    assert invoke("predict", model_dir=run, input_file=tmp_path / "asked.tsv") == 0
    assert len(capsys.readouterr().out.splitlines()) >= 2
    assert invoke("predict", model_dir=run, text="x") != 0
    assert "a query with candidates does not fit in a flag" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("serving_ops", ["core", "text"])
def test_what_is_served_is_what_the_run_says(run, tmp_path, serving_ops):
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops=serving_ops) == 0
    served = tf.saved_model.load(str(tmp_path / "served/1")).signatures["serving_default"]
    candidates = ["ann lives in bonn", "bob lives in rome", "many words"]
    found = served(query=tf.constant(["who"]), candidates=tf.constant([[*candidates, ""]]))
    (expected,) = load(str(run)).predict([RankedList("who", candidates, [], "")])
    assert found["order"].numpy()[0].tolist() == [*expected.order, 3]
    np.testing.assert_allclose(found["probabilities"].numpy()[0, :3], expected.probabilities, atol=1e-3)


@pytest.mark.long
def test_records_teach_what_their_file_teaches(data, small_bert, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENIZER.vocabulary.tokens) + "\n", "utf-8")
    flags = {
        "input_file": data / "train.jsonl",
        "vocab_file": tmp_path / "vocab.txt",
        "output_dir": tmp_path / "records",
    }
    assert invoke("create_finetuning_data", task="rank", max_seq_length=16, list_size=5, **flags) == 0
    losses = []
    for name, source in (
        ("file", {"train_file": data / "train.jsonl"}),
        ("records", {"data_dir": tmp_path / "records"}),
    ):
        path, numbers = tmp_path / f"run_{name}", QUICK | {"num_train_epochs": 1, "log_steps": 1, "list_size": 5}
        assert invoke("finetune", task="rank", init_checkpoint=small_bert, model_dir=path, **source, **numbers) == 0
        losses.append([json.loads(line).get("loss") for line in (path / "log.jsonl").read_text().splitlines()])
    assert losses[0] == losses[1] and any(losses[0])


def test_bad_lists_are_named(data, small_bert, tmp_path, capsys):
    flags = {"task": "rank", "init_checkpoint": small_bert, "model_dir": tmp_path / "run"} | QUICK
    for text, message in (
        ('{"query": "a", "candidates": ["b"], "labels": ["good"]}\n', "bad.jsonl, line 1: no relevance: 'good'"),
        ('{"query": "a", "candidates": ["b"], "labels": [2000]}\n', "bad.jsonl, line 1: relevance 2000: nDCG"),
        ('{"query": "a", "candidates": ["b", "c"], "labels": [1, 1]}\n', "nothing to learn"),
        ('{"query": "a", "candidates": ["b", " "], "labels": [1, 0]}\n', "line 1: empty text"),
    ):
        (tmp_path / "bad.jsonl").write_text(text, "utf-8")
        assert invoke("finetune", train_file=tmp_path / "bad.jsonl", **flags) != 0
        assert message in capsys.readouterr().err


def test_labels_may_be_names_of_which_one_means_relevant(tmp_path):
    columns, rows = Columns("question", "sentence"), [("who", "ann", "entailment"), ("who", "bob", "not_entailment")]
    table = "question\tsentence\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows)
    (tmp_path / "a.tsv").write_text(table, "utf-8")
    value = {"query": "who", "candidates": ["ann", "bob"], "labels": ["entailment", "not_entailment"]}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(value)}\n", "utf-8")
    (tmp_path / "b.jsonl").write_text('{"query": "who", "positives": ["ann"], "negatives": ["bob"]}\n', "utf-8")
    for name in ("a.tsv", "a.jsonl", "b.jsonl"):
        (found,) = read_lists(str(tmp_path / name), columns, relevant_label="entailment")
        assert (found.candidates, found.labels) == (["ann", "bob"], ["1", "0"])
    with pytest.raises(DataError, match=r"a\.tsv, line 2: no relevance: 'entailment'.*--relevant_label=entailment"):
        read_lists(str(tmp_path / "a.tsv"), columns)
    with pytest.raises(DataError, match=r"--relevant_label=yes\. Found: entailment, not_entailment\. Name one"):
        read_lists(str(tmp_path / "a.tsv"), columns, relevant_label="yes")
    (tmp_path / "a.tsv").write_text(table + "who\tcleo\t\n", "utf-8")
    with pytest.raises(DataError, match="no relevance: ''"):  # nobody says that it is not relevant
        read_lists(str(tmp_path / "a.tsv"), columns, relevant_label="entailment")


@pytest.mark.parametrize("loss", [listwise, pairwise])
def test_of_two_candidates_the_loss_is_binary_and_the_scale_multiplies_their_difference(loss):
    config = BertConfig(20, 16, 1, 2, 32, max_sequence_length=8, dropout=0.0, attention_dropout=0.0)
    task, scores = Rank(config, loss=loss, scale=2.5), np.array([[0.3, -0.9], [0.2, 1.0]], np.float32)
    there, labels = np.ones((2, 2), np.float32), np.array([[1, 0], [0, 1]], np.float32)
    batch = {"labels": labels, "choice_weights": there, "example_weights": there[:, 0]}
    total, count = task.score({"scores": tf.constant(scores)}, batch, None)[0]["rank"]
    expected = sum(math.log1p(math.exp(-2.5 * difference)) for difference in (1.2, 0.8))
    assert (float(total), float(count)) == (pytest.approx(expected, rel=1e-5), 2)
    assert task.settings == {"scale": 2.5} and Rank(config).settings == {}


@pytest.mark.long
def test_a_scaled_run_says_probabilities_by_its_scale(data, small_bert, tmp_path, capsys):
    run, flags = (
        tmp_path / "run",
        {"task": "rank", "init_checkpoint": small_bert, "train_file": data / "dev.jsonl"} | QUICK,
    )
    assert invoke("finetune", model_dir=run, rank_scale=0, **flags) != 0
    assert "--rank_scale=0: makes all candidates of a list equal" in capsys.readouterr().err
    assert invoke("finetune", model_dir=run, rank_scale=3, num_train_epochs=1, **flags) == 0
    (found,) = load(str(run)).predict([RankedList("who", ["ann lives in rome", "bob", "many words"], [], "")])
    shares = np.exp(3 * np.array(found.scores))
    np.testing.assert_allclose(found.probabilities, shares / shares.sum(), rtol=1e-6)
    choose_settings(str(run), {"scale": -1.0})
    with pytest.raises(DataError, match="a number above 0"):
        load(str(run))


def test_rows_of_a_query_need_not_be_neighbours(tmp_path):
    rows = [("who", "ann", 0), ("where", "rome", 1), ("who", "bob", 1), ("where", "oslo", 0), ("when", "now", 1)]
    table = "text\ttext_pair\tlabel\n" + "".join(f"{a}\t{b}\t{c}\n" for a, b, c in rows)
    (tmp_path / "a.tsv").write_text(table, "utf-8")
    found = read_lists(str(tmp_path / "a.tsv"), Columns())
    assert [(each.query, each.candidates, each.labels) for each in found] == [
        ("who", ["ann", "bob"], ["0", "1"]), ("where", ["rome", "oslo"], ["1", "0"]), ("when", ["now"], ["1"])
    ]  # fmt: skip
    assert [each.place.rpartition(" ")[2] for each in found] == ["2", "3", "6"]
    asked = list(unlabelled(str(tmp_path / "a.tsv"), Columns()))
    assert [each.candidates for each in asked] == [each.candidates for each in found]


def test_lists_that_teach_no_order_are_counted(data, small_bert, tmp_path, capsys):
    assert without_order(
        np.array([[1, 0], [1, 1], [1, 0], [0, 0]]), np.array([[1, 1], [1, 1], [1, 0], [1, 1]]) > 0
    ) == (1, 2)
    values, labels, there = (
        np.zeros((2, 2), np.float32),
        np.array([[1, 0], [1, 0]], np.float32),
        np.ones((2, 2), np.float32),
    )
    there[1, 1] = 0.0  # one candidate: its softmax is 1, whatever the network says
    assert [float(x) for x in listwise(*map(tf.constant, (values, labels, there)))] == pytest.approx([math.log(2), 1])
    alone = json.dumps({"query": "who", "candidates": ["ann"], "labels": [1]}) + "\n"
    same = json.dumps({"query": "where", "candidates": ["rome", "oslo"], "labels": [0, 0]}) + "\n"
    for text, code, message in (
        (alone * 3, 3, "nothing to learn: 3 have one candidate, 0 several"),
        (
            (data / "train.jsonl").read_text("utf-8") + alone + same * 2,
            0,
            "3 of 67 lists teach no order: 1 have one candidate, 2",
        ),
    ):
        (tmp_path / "some.jsonl").write_text(text, "utf-8")
        flags = {"model_dir": tmp_path / "run", "init_checkpoint": small_bert, "dry_run": True} | QUICK
        assert invoke("finetune", task="rank", train_file=tmp_path / "some.jsonl", **flags) == code
        said = capsys.readouterr()
        assert message in said.out + said.err
    found = scores([[0.5], [1.0, 2.0]], [[1], [0, 1]])
    assert (found["lists"], found["lists_of_one_candidate"]) == (2, 1)


@pytest.mark.long
def test_a_run_remembers_which_label_means_relevant(data, small_bert, tmp_path, capsys):
    lists = [json.loads(line) for line in (data / "dev.jsonl").read_text("utf-8").splitlines()]
    for names, path in ((("no", "yes"), "names.jsonl"), ((0, 1), "numbers.jsonl")):
        changed = [each | {"labels": [names[label > 1] for label in each["labels"]]} for each in lists]
        (tmp_path / path).write_text("".join(json.dumps(each) + "\n" for each in changed), "utf-8")
    run, files = tmp_path / "run", dict.fromkeys(("train_file", "eval_file"), tmp_path / "names.jsonl")
    flags = QUICK | {"relevant_label": "yes", "num_train_epochs": 1}
    assert invoke("finetune", task="rank", init_checkpoint=small_bert, model_dir=run, **files, **flags) == 0
    assert invoke("evaluate", model_dir=run, test_file=tmp_path / "names.jsonl", output_file=tmp_path / "a.json") == 0
    given = {"test_file": tmp_path / "numbers.jsonl", "output_file": tmp_path / "b.json"}
    assert invoke("evaluate", model_dir=run, **given) != 0 and "Found: 0, 1" in capsys.readouterr().err
    assert invoke("evaluate", model_dir=run, relevant_label=1, **given) == 0
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()
    assert invoke("finetune", relevant_label="yes", init_checkpoint=small_bert, model_dir=tmp_path / "x", **files) != 0
    assert "--task=classify has no such flag" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "loss"), [("bert", "pairwise"), ("roberta", "listwise"), ("xlnet", "pairwise"), ("gpt", "listwise")]
)
def test_every_family_learns_and_serves_it(kind, loss, data, tmp_path):
    path = tmp_path / kind
    path.mkdir()
    files = {"train_file": data / "train.jsonl", "eval_file": data / "dev.jsonl"}
    begin, run, numbers = network(kind, path), tmp_path / "run", QUICK | {"rank_loss": loss, "num_train_epochs": 8}
    assert invoke("finetune", task="rank", init_checkpoint=begin, model_dir=run, **files, **numbers) == 0
    assert json.loads((run / "results.json").read_text())["results"]["evaluation ndcg_10"] > 0.8
    assert invoke("export_model", model_dir=run, export_dir=tmp_path / "served", serving_ops="core") == 0
