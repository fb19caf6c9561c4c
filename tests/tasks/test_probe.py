"""A probe of a frozen network: every system, what is read of which layer, and the lines that need no network."""

import json
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.corpora.tables import Row
from data_pipelines.finetuning import linear
from tests.helpers.invocation import invoke
from tests.helpers.small_systems import is_table_of_words
from tests.layers.test_pooling import TOKENIZER, network
from xmodels import systems
from xmodels.models.backbone import named_weights
from xmodels.models.folder import read_model
from xmodels.runs import probe
from xmodels.runs.charts import grid
from xmodels.runs.loaded import load
from xmodels.tasks.base.readouts import Asked, Readouts, reading_of

WORDS = "met new in york rome too".split()


def rows_of(count, seed):
    """Texts of words in any order; the label is told by one of them, wherever it stands."""
    draw = random.Random(seed)
    for i in range(count):
        words = draw.choices(WORDS, k=draw.randint(2, 6))
        words.insert(draw.randint(0, len(words)), ("ann", "bob")[i % 2])
        yield Row((" ".join(words),), ("a", "b")[i % 2], i + 2)


NETWORKS = {systems.default_for(systems.model_of(systems.load(name))) for name in systems.names()}  # a system of each
TRAIN, TEST = list(rows_of(60, 0)), list(rows_of(40, 1))


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables")
    for name, rows in (("train", TRAIN), ("test", TEST)):
        (path / f"{name}.tsv").write_text(
            "text\tlabel\n" + "".join(f"{r.texts[0]}\t{r.label}\n" for r in rows), "utf-8"
        )
    return {"train_file": path / "train.tsv", "test_file": path / "test.tsv"}


@pytest.fixture
def without_graphs():
    """Here functions run operation by operation, which takes no trace."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.one_in(10)
@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize(
    "name", [n if n in NETWORKS else pytest.param(n, marks=pytest.mark.long) for n in systems.names()]
)
def test_every_system_is_read_layer_by_layer(name, tmp_path):
    loaded = load(str(network(tmp_path / "network", name)))
    readouts = Readouts(loaded, Asked(), 16)
    texts = [row.texts for row in TRAIN[:6]] + [("met",)]
    found = readouts.of_texts(texts, batch_size=3)
    width = 64 if name == "reformer" else 32  # its states are two streams side by side
    widths = {0: 12} if name == "cove" else {}  # of word vectors
    for (layer, _), states in found.items():
        assert states.shape == (7, widths.get(layer, width)) and np.isfinite(states).all()
    layers = {layer for layer, _ in found if layer is not None}
    has_one_layer = is_table_of_words(name) or name in ("nnlm", "senna", "awd_lstm")  # or shows one alone
    # An LSTM of a translator stands above that of its language model.
    assert layers == set(range(1 if has_one_layer else 3 if name == "lstm_seq2seq" else 2))
    last = max(layers)
    means = found[last, "mean"]
    alone = np.concatenate([readouts.of_texts([text], 1)[last, "mean"] for text in texts])
    np.testing.assert_allclose(means, alone, atol=2e-5)  # whatever shares its batch, in the order of the texts
    answers = (
        loaded.reading and reading_of(loaded)[1] and (name in ("bart",) or loaded.reading.summary.__name__ == "pooled")
    )
    assert ((None, "published") in found) == bool(answers)
    if is_table_of_words(name):  # whose words know nothing of each other
        ids = TOKENIZER.encode(texts[0][0]).ids
        weights = {f"backbone.{name}": np.array(weight) for name, weight in named_weights(loaded.backbone).items()}
        np.testing.assert_allclose(means[0], loaded.backbone.word_vectors(weights)[ids].mean(axis=0), atol=1e-6)


def test_the_states_are_those_of_the_network(tmp_path):
    path = str(network(tmp_path / "network", "bert"))
    backbone, _ = read_model(path)
    loaded, text = load(path), "ann met bob"
    found = Readouts(loaded, Asked(), 16).of_texts([(text,), (f"{text} in new york",)])
    ids = np.array([[2, *TOKENIZER.encode(text).ids, 3]])
    batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    outputs = {name: np.array(value) for name, value in backbone(batch).items()}
    for name, wanted in {"first": outputs["sequence_output"][0, 0], "last": outputs["sequence_output"][0, -1]}.items():
        np.testing.assert_allclose(found[1, name][0], wanted, atol=1e-5)
    np.testing.assert_allclose(found[None, "published"][0], outputs["pooled_output"][0], atol=1e-5)
    np.testing.assert_allclose(found[0, "mean"][0], np.array(backbone.embed(batch))[0].mean(axis=0), atol=1e-5)
    joint = Readouts(loaded, Asked("mean+max", "1"), 16).of_texts([(text,), (f"{text} in new york",)])[1, "mean+max"][0]
    states = outputs["sequence_output"][0]
    np.testing.assert_allclose(joint, np.concatenate([states.mean(axis=0), states.max(axis=0)]), atol=1e-5)


def test_the_verb_prints_a_table_and_writes_json(tmp_path, tables, capsys):
    path, scores = network(tmp_path / "network", "bert_wwm"), tmp_path / "scores.json"
    given = {"task": "probe", "model_dir": path, **tables}
    assert invoke("evaluate", output_file=scores, **given) == 0
    shown, found = capsys.readouterr().out, json.loads(scores.read_text())
    assert (
        "40 rows of" in shown
        and "most frequent label 0.5000, bag of words" in shown
        and "embedding" in shown
        and "published" in shown
    )
    assert found["majority"] == 0.5 and found["bag_of_words"] > 0.9 and len(found["readouts"]) == 7
    by_name = {(each["layer"], each["pooling"]): each for each in found["readouts"]}
    assert by_name[0, "first"]["accuracy"] == 0.5  # the embedding of [CLS] is the same in all texts
    assert by_name[0, "mean"]["accuracy"] > 0.9  # that of the words is a bag of them
    best = max(found["readouts"], key=lambda each: each["held_out_accuracy"])
    assert found["accuracy"] == best["accuracy"]
    assert invoke("evaluate", "--random_init", output_file=scores, layer="-1", pooling="mean", **given) == 0
    other = json.loads(scores.read_text())
    assert [(each["layer"], each["pooling"]) for each in other["readouts"]] == [(1, "mean")]
    assert "random weights" in other["network"]
    assert "1     0." in capsys.readouterr().out.replace("1          ", "1     ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"layer": "2"}, "--layer=2: the network shows 2 layers; expected numbers from 0, the embedding, to 1"),
        ({"train_file": ""}, "--train_file=ROWS: name labelled rows"),
        ({"max_seq_length": 9999}, "--max_seq_length=9999: the network reads at most 512 tokens"),
        ({"pooling": "attention"}, "attention"),
        ({"pooling": "mean+published"}, "--pooling=mean+published: expected one of"),
        ({"form": "choice"}, "--form: --task=probe has no such flag"),
    ],
)
def test_what_a_probe_cannot_do_is_said(tmp_path, tables, flags, message, capsys):
    given = {"task": "probe", "model_dir": network(tmp_path / "network", "bert"), **tables} | flags
    assert invoke("evaluate", **{name: value for name, value in given.items() if value}) == 2
    assert message in capsys.readouterr().err


def test_a_causal_network_without_its_added_tokens_is_read_plainly(tmp_path, tables, capsys):
    path = network(tmp_path / "network", "gpt")
    reading, answers = reading_of(load(str(path)))
    assert not answers and reading.frame.num_special(1) == 1
    assert invoke("evaluate", task="probe", model_dir=path, pooling="published", **tables) == 2
    assert "no paper says which state of a Gpt without fine-tuning answers" in capsys.readouterr().err


# What needs no network.


def test_logistic_regression_finds_a_linear_label_and_no_other():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(600, 20)) * np.logspace(-3, 3, 20)  # as differently wide as dimensions of networks are
    y = (x[:, 3] / x[:, 3].std() + x[:, 15] / x[:, 15].std() > 0).astype(int)
    found = linear.fit(x[:400], y[:400], x[400:], y[400:])
    assert found.accuracy > 0.93 and found.held_out_accuracy > 0.9
    noise = linear.fit(x[:400], draw.integers(0, 2, 400), x[400:], draw.integers(0, 2, 200))
    assert abs(noise.accuracy - 0.5) < 0.12
    constant = np.concatenate([x, np.ones((600, 1))], axis=1)
    assert linear.fit(constant[:400], y[:400], constant[400:], y[400:]).accuracy == found.accuracy


def test_rows_are_held_out_by_label_and_one_of_each_is_kept():
    labels = np.array([0] * 50 + [1] * 10 + [2] * 2 + [3])
    kept, held = linear.split_rows(labels, 7)
    assert sorted([*kept, *held]) == list(range(63))
    assert np.bincount(labels[held], minlength=4).tolist() == [10, 2, 1, 0]
    assert all(len(part) == 3 for part in linear.split_rows(np.arange(3)))


def test_terms_are_words_and_characters_and_pairs_of_neighbours():
    assert linear.terms("New York, 你好!") == ["new", "york", "你", "好", "new york", "york 你", "你 好"]
    assert linear.terms("") == []
    assert set(linear.terms_of(("a b", "b c"))) == {"0:a", "0:b", "0:a b", "1:b", "1:c", "1:b c", "both:b"}


def test_a_bag_of_words_tells_labels_of_texts_and_of_pairs():
    assert linear.bag_of_words(TRAIN, TEST).accuracy == 1.0
    draw = random.Random(3)

    def pairs(count):  # the label is whether the second text repeats a word of the first
        for i in range(count):
            first, other = draw.sample(WORDS, 2)
            yield Row((first, first if i % 2 else other), "ny"[i % 2], i)

    assert linear.bag_of_words(list(pairs(80)), list(pairs(40))).accuracy > 0.9
    assert linear.majority("aab", "abbb") == 0.25


def test_probing_leaves_the_network_as_it_is(tmp_path, tables):
    path = network(tmp_path / "network", "bert")
    before = (path / "weights.safetensors").read_bytes()
    files = sorted(file.name for file in path.iterdir())
    keras.utils.set_random_seed(1)
    assert invoke("evaluate", task="probe", model_dir=path, layer="0", pooling="max", **tables) == 0
    assert (path / "weights.safetensors").read_bytes() == before
    assert sorted(file.name for file in path.iterdir()) == files  # no run, so no report


def test_the_report_of_a_run_draws_its_probe(tmp_path):
    readouts = [{"layer": n, "pooling": p, "accuracy": 0.5 + n / 10} for p in ("mean", "first") for n in (1, 0)]
    readouts.append({"layer": None, "pooling": "published", "accuracy": 0.9})
    found = {"readouts": readouts, "majority": 0.5, "bag_of_words": 0.8, "test_file": "x/<test>.tsv"}
    (tmp_path / "probe.json").write_text(json.dumps(found))
    (chart,) = probe.charts(str(tmp_path))
    assert chart.levels == {"most frequent label": 0.5, "bag of words": 0.8}
    assert [(c.label, c.steps, c.values) for c in chart.curves] == [(p, [0, 1], [0.5, 0.6]) for p in ("mean", "first")]
    assert "&lt;test&gt;.tsv" in grid([chart]) and "<svg" in grid([chart])
    for damaged in ("", "[]", '{"readouts": [{}]}', '{"readouts": 3}'):
        (tmp_path / "probe.json").write_text(damaged)
        assert probe.charts(str(tmp_path)) == []
    (tmp_path / "probe.json").unlink()
    assert probe.charts(str(tmp_path)) == []
