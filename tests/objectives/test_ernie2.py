"""ERNIE 2.0: the examples of its tasks, the schedule of a run, and what a run keeps when a task is added."""

import collections
import itertools
import json
import os
import random
import re
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.corpora.documents import Document
from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.features import IGNORED
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.paragraphs import frame_distance, frame_paragraph, frame_reordered, permutations
from data_pipelines.ops.seeds import example_seeds
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.pretraining.segments import open_words, segment_columns
from data_pipelines.pretraining.stages.paragraphs import OTHER_DOCUMENT, SAME_DOCUMENT, paragraphs
from data_pipelines.pretraining.stages.tokenize import tokenize
from data_pipelines.records.source import RecordSource
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from xmodels.jobs.pretrain import task_streams
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.jobs.pretrain.task_schedule import TaskSchedule, continual, joint, make_schedule, sequential
from xmodels.models.backbone import named_weights
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.ernie import Ernie, ErnieConfig
from xmodels.models.folder import read_weights
from xmodels.objectives.capitals import Capitals
from xmodels.systems import ernie2
from xmodels.training import loop
from xmodels.training.recipe import Records
from xmodels.training.schedules.schedules import make_schedule as make_rate
from xmodels.training.watching.progress import read_log

WORDS = [f"{a}{b}" for a in "bdfgklmn" for b in ("ala", "eno", "iru")]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def text_of(rng, sentences, topic):
    """Sentences of words of a topic, the first ones in capitals, some numbers, and full stops."""
    made = []
    for _ in range(sentences):
        words = [rng.choice(WORDS[topic : topic + 9]) for _ in range(rng.randint(3, 6))]
        words[0] = words[0].capitalize()
        words[rng.randrange(len(words))] = rng.choice(["7", words[-1].capitalize()])
        made.append(" ".join(words) + " .")
    return made


@pytest.fixture(scope="module")
def documents():
    rng = random.Random(3)
    return [text_of(rng, rng.choice([1, 5, 12, 14]), rng.randrange(15)) for _ in range(60)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, documents):
    """A folder with a text, its vocabulary, in which some words are two pieces, and records."""
    folder = tmp_path_factory.mktemp("ernie2")
    (folder / "corpus.txt").write_text("\n\n".join("\n".join(text) for text in documents) + "\n")
    pieces = [word for word in WORDS if not word.endswith("iru")] + [f"{c}i" for c in "bdfgklmn"] + ["##ru"]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in [*SPECIAL, ".", "7", *pieces]))
    values = {"packing": "paragraph", "max_seq_length": 32, "max_predictions_per_seq": 6, "num_shards": 2}
    create(
        Settings(input_file=str(folder / "corpus.txt"), vocab_file=str(folder / "vocab.txt"), **values),
        str(folder / "records"),
    )
    return folder


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return open_tokenizer(str(corpus / "vocab.txt"))


@pytest.fixture(scope="module")
def made(documents, tokenizer):
    """All examples of the documents, in order: Examples, and the pieces as tokens."""
    read = tokenize(tokenizer, None, collections.Counter(), letters=True)(
        Document(text, "a text") for text in documents
    )
    (examples,) = paragraphs(32, 2, random.Random(1))(read)
    return examples


def arrays_of(examples):
    """The examples as records give them, padded."""
    columns = segment_columns(
        examples, open_words(examples), (), ("sentence_start", "capital_labels", "repeated_labels")
    )
    found = {}
    for name, column in columns.items():
        if isinstance(column, tuple):
            flat, sizes = column
            rows = np.split(np.asarray(flat, np.int64), np.cumsum(sizes)[:-1])
            column = np.array([np.pad(row, (0, 64 - len(row))) for row in rows])
        found[name] = tf.constant(np.asarray(column, np.int64))
    found["distance_labels"] = found["distance_labels"][:, 0]
    count = len(examples)
    found["seed"] = example_seeds(7, tf.zeros(count, tf.int64), tf.range(count, dtype=tf.int64))
    return {**found, "example_weights": tf.ones(count)}


@pytest.fixture(scope="module")
def arrays(made):
    return arrays_of(made)


def test_second_segments_follow_or_stand_apart_and_are_balanced(made, documents, tokenizer):
    texts = [[tokenizer.encode(sentence).ids for sentence in text] for text in documents]
    ends = np.cumsum([sum(map(len, text)) for text in texts])
    (first, second, third), labels = made.spans.transpose(1, 0, 2), made.labels["distance_labels"]
    assert (first[:, 1] == second[:, 0]).all()
    bounds = set(np.cumsum([0, *(len(s) for text in texts for s in text)]).tolist())
    assert set(first[:, 1].tolist()) <= bounds and set(third[:, 0].tolist()) <= bounds
    of_document = np.searchsorted(ends, made.spans[..., 0], side="right")
    asked = second[:, 1] > second[:, 0]
    assert (third[asked, 1] > third[asked, 0]).all() and 0.8 < asked.mean() < 1  # some documents are one sentence
    same = labels == SAME_DOCUMENT
    assert (of_document[same & asked, 2] == of_document[same & asked, 0]).all()
    assert (of_document[~same & asked, 2] != of_document[~same & asked, 0]).all()
    begins, stops = third[same & asked].T
    assert ((begins >= second[same & asked, 1]) | (stops < first[same & asked, 0])).all()
    lengths = made.lengths()
    assert (lengths[:, 0] + np.maximum(lengths[:, 1], lengths[:, 2]) <= 29).all()
    counts = np.bincount(labels[asked])
    assert abs(int(counts[SAME_DOCUMENT]) - int(counts[OTHER_DOCUMENT])) <= 1


def test_labels_of_tokens_are_those_of_the_text(made, documents, tokenizer):
    """Recomputed from the words as they were written, and from the pieces of all paragraphs of the document."""
    columns = segment_columns(made, open_words(made), (), ("capital_labels", "repeated_labels", "sentence_start"))
    capitals, sentences = [], []
    for text in documents:
        for sentence in text:
            for number, word in enumerate(sentence.split()):
                label = IGNORED if not word[0].isalpha() else int(word[0].isupper())
                pieces = tokenizer.encode(word).ids
                capitals += [label] * len(pieces)
                sentences += [int(number == 0 and i == 0) for i in range(len(pieces))]
    places = np.concatenate([np.arange(*span) for span in made.spans.reshape(-1, 2)])
    np.testing.assert_array_equal(columns["capital_labels"][0], np.array(capitals)[places])
    opened = made.spans.reshape(-1, 2)
    expected = np.array(sentences)[places]
    expected[(np.cumsum(opened[:, 1] - opened[:, 0]) - (opened[:, 1] - opened[:, 0]))[opened[:, 1] > opened[:, 0]]] = 1
    np.testing.assert_array_equal(columns["sentence_start"][0], expected)

    ids = np.concatenate([tokenizer.encode(sentence).ids for text in documents for sentence in text])
    ends = np.cumsum([sum(len(tokenizer.encode(s).ids) for s in text) for text in documents])
    starts = np.concatenate([[0], ends[:-1]])
    runs = {(int(a), int(b)) for a, b in zip(made.spans[:, 0, 0], made.spans[:, 1, 1], strict=True)}
    labels = np.asarray(columns["repeated_labels"][0])
    stop = tokenizer.vocabulary["."]
    row = np.repeat(np.arange(len(made)), made.lengths().sum(axis=1))
    mine = np.concatenate([[True] * int(n[0] + n[1]) + [False] * int(n[2]) for n in made.lengths()])
    for example in range(0, len(made), 7):
        begin, end = int(made.spans[example, 0, 0]), int(made.spans[example, 1, 1])
        document = np.searchsorted(ends, begin, side="right")
        others = [ids[a:b] for a, b in runs if starts[document] <= a < ends[document] and (a, b) != (begin, end)]
        elsewhere = set(np.concatenate(others).tolist()) if others else set()
        expected = [IGNORED if not others or i == stop else int(i in elsewhere) for i in ids[begin:end].tolist()]
        assert labels[(row == example) & mine].tolist() == expected


def test_there_are_as_many_classes_as_the_paper_says_and_each_is_one_permutation():
    assert [len(permutations(m)) for m in (1, 2, 3, 4, 5)] == [1, 3, 9, 33, 153]
    for classes in (permutations(5), permutations(4), permutations(3)):
        assert len(set(classes)) == len(classes)
        for number, order in enumerate(classes):
            before = sum(len(list(itertools.permutations(range(n)))) for n in range(1, len(order)))
            assert number == before + sorted(itertools.permutations(range(len(order)))).index(order)
    with pytest.raises(UsageError, match="at least 1 part"):
        permutations(0)
    for wrong in (0, 5):  # a segment embedding is there for each of four parts
        with pytest.raises(UsageError, match="1 to 4 parts"):
            frame_reordered(open_stand_in(), 64, wrong)
        with pytest.raises(ValueError, match="`reordering_parts` must be 1 to 4"):
            ernie2.Options(reordering_parts=wrong)


def test_parts_put_back_by_their_class_are_the_paragraph(arrays, made, tokenizer):
    vocabulary = tokenizer.vocabulary
    sep, orders, seen = vocabulary["[SEP]"], permutations(4), collections.Counter()
    frame = tf.function(frame_reordered(vocabulary, 96, 4), autograph=False)
    for epoch in range(6):
        seeds = example_seeds(
            7, tf.fill([len(made)], tf.constant(epoch, tf.int64)), tf.range(len(made), dtype=tf.int64)
        )
        found = {name: value.numpy() for name, value in frame({**arrays, "seed": seeds}).items()}
        for row, label in enumerate(found["reordering_labels"].tolist()):
            real = found["token_ids"][row][found["padding_mask"][row]]
            ends = np.flatnonzero(real == sep)
            parts = [real[a + 1 : b].tolist() for a, b in itertools.pairwise([0, *ends])]
            order = orders[label]
            assert len(parts) == len(order) and real[0] == vocabulary["[CLS]"] and real[-1] == sep
            size = int(made.lengths()[row, :2].sum())
            whole = arrays["token_ids"][row].numpy()[:size].tolist()
            starts = np.flatnonzero(arrays["sentence_start"][row].numpy()[:size])
            back = [parts[order.index(i)] for i in range(len(order))]
            if all(len(part) < (95 - len(order)) // len(order) for part in parts):  # or it was cut to its share
                assert sum(back, []) == whole
            lengths = np.cumsum([0, *map(len, back)])[:-1]
            assert set(lengths.tolist()) <= set(starts.tolist()) or max(map(len, parts)) == (95 - len(order)) // len(
                order
            )
            segments = found["segment_ids"][row][found["padding_mask"][row]]
            assert segments.tolist() == [0] + [i for i, part in enumerate(parts) for _ in range(len(part) + 1)]
            seen[label] += 1
    assert set(seen) == set(range(33))


def test_a_third_of_the_second_segments_follow(arrays, made, tokenizer):
    vocabulary, counts = tokenizer.vocabulary, collections.Counter()
    frame = tf.function(frame_distance(vocabulary, 32), autograph=False)
    lengths = made.lengths()
    for epoch in range(60):
        seeds = example_seeds(
            9, tf.fill([len(made)], tf.constant(epoch, tf.int64)), tf.range(len(made), dtype=tf.int64)
        )
        found = {name: value.numpy() for name, value in frame({**arrays, "seed": seeds}).items()}
        labels, weights = found["distance_labels"], found["example_weights"]
        counts.update(labels[weights > 0].tolist())
        assert (weights == (lengths[:, 1] > 0)).all()
    ids = arrays["token_ids"].numpy()
    for row in np.flatnonzero(weights > 0):
        a, b, c = lengths[row]
        second = ids[row, a : a + b] if labels[row] == 0 else ids[row, a + b : a + b + c]
        expected = [vocabulary["[CLS]"], *ids[row, :a], vocabulary["[SEP]"], *second, vocabulary["[SEP]"]]
        assert found["token_ids"][row][found["padding_mask"][row]].tolist() == expected
    shares = np.array([counts[i] for i in range(3)]) / sum(counts.values())
    np.testing.assert_allclose(shares, 1 / 3, atol=0.02)


def test_a_paragraph_is_framed_as_one_segment(arrays, made, tokenizer):
    found = frame_paragraph(tokenizer.vocabulary, 32)(arrays)
    both = {
        **arrays,
        "segment_lengths": tf.constant(np.pad(made.lengths()[:, :2].sum(axis=1, keepdims=True), [[0, 0], [0, 1]])),
    }
    expected = frame_pair(tokenizer.vocabulary, 32)(both)
    assert all(np.array_equal(found[name], expected[name]) for name in expected if name != "segment_lengths")
    inside = found["maskable"].numpy()
    for name in ("capital_labels", "repeated_labels"):
        labels = found[name].numpy()
        assert (labels[~inside] == IGNORED).all() and set(labels[inside].tolist()) == {0, 1, IGNORED}


def test_knowledge_units_are_phrases_and_entities_together():
    rows = {"word_start": [1, 1, 1, 1, 0, 1], "phrase_start": [1, 0, 1, 1, 0, 1], "entity_start": [1, 1, 1, 0, 0, 1]}
    features = {name: tf.constant([row]) for name, row in rows.items()}
    assert ernie2.knowledge_units(features)["word_start"].numpy().tolist() == [[1, 0, 1, 0, 0, 1]]
    words = {"word_start": tf.constant([[1, 0, 1, 0, 1]]), "entity_start": tf.constant([[1, 1, 1, 0, 0]])}
    assert ernie2.knowledge_units(words)["word_start"].numpy().tolist() == [[1, 0, 1, 0, 0]]
    assert ernie2.knowledge_units({"word_start": tf.constant([[1, 0]])})["word_start"].numpy().tolist() == [[1, 0]]


def count(size, vocabulary=30_522, **changes):
    numbers = {**ernie2.SIZES[size], **changes}
    width, inner, rows = numbers["hidden_dim"], numbers["intermediate_dim"], numbers["num_tasks"] or 0
    tables = vocabulary + numbers["max_sequence_length"] + numbers["num_segments"] + rows
    block = 4 * width * (width + 1) + 2 * width * inner + inner + width + 4 * width
    return (tables + 2) * width + numbers["num_layers"] * block + width * (width + 1)


def test_sizes_have_the_published_numbers_of_parameters():
    assert (count("base"), count("base", num_tasks=None)) == (109_496_064, 109_483_776)
    assert (count("large"), count("large", num_tasks=None)) == (335_160_320, 335_143_936)
    tiny = ErnieConfig(vocabulary_size=50, **ernie2.SIZES["tiny"])
    assert Ernie(tiny).initialize().count_params() == count("tiny", 50)
    width = 768  # the heads: H^2 + H + 2H + V, 2 (H + 1) for each token, C (H + 1) of a pooled state
    config = ErnieConfig(vocabulary_size=100, **{**ernie2.SIZES["base"], "num_layers": 1, "intermediate_dim": 8})
    head = Capitals(config).head
    head.build((None, None, width))
    assert head.count_params() == 2 * (width + 1)


def test_the_rate_peaks_at_the_step_of_the_paper():
    recipe = ernie2.recipe(open_stand_in(), Records())
    assert (recipe.num_steps, recipe.batch_size * 512) == (200_000, 393_216)
    rate = make_rate(recipe.schedule, recipe.learning_rate, recipe.num_warmup_steps, recipe.num_steps)
    values = [float(rate(step)) for step in (3_998, 3_999, 4_000)]  # of the updates 3,999 to 4,001
    assert values[1] == pytest.approx(5e-5, rel=1e-6) and max(values) == values[1]
    assert float(rate(15_999)) == pytest.approx(2.5e-5, rel=1e-5)
    peaks = [ernie2.recipe(open_stand_in(), Records(language=each)).learning_rate for each in ("en", "zh")]
    assert peaks == [5e-5, 1.28e-4]


@pytest.mark.parametrize(("rows", "fitting", "first"), [(3, 3, "reordering"), (1, 1, "capitals"), (4, 4, "distance")])
def test_a_table_without_a_row_for_a_task_is_refused_before_the_run(rows, fitting, first):
    config = ErnieConfig(vocabulary_size=200, **SMALL, num_segments=4, num_tasks=rows)
    tasks = list(ernie2.recipe(open_stand_in(), Records(), config=config).curriculum.tasks.values())
    for task in tasks[:fitting]:
        task.objective()
    with pytest.raises(
        UsageError, match=f"{first} has row {rows} .*`num_tasks` of the network is {rows}.*{rows + 1} at least"
    ):
        tasks[fitting].objective()
    without = ErnieConfig(vocabulary_size=200, **SMALL, num_segments=4, num_tasks=None)
    for task in ernie2.recipe(open_stand_in(), Records(), config=without).curriculum.tasks.values():
        task.objective()


def open_stand_in():
    from xmodels.jobs.tpu_preflight.step import make_placeholder_vocabulary

    return make_placeholder_vocabulary(200)


SMALL = {"num_layers": 2, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 32}


def batch_of(task=None):
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 60, (3, 12)).astype("int32")
    batch = {
        "token_ids": ids, "segment_ids": np.repeat([[0] * 7 + [1] * 5], 3, 0).astype("int32"),
        "padding_mask": np.arange(12)[None] < np.array([[12], [9], [7]]), "example_weights": np.ones(3, "float32"),
        "capital_labels": rng.integers(0, 3, (3, 12)).astype("int32"),
    }  # fmt: skip
    return batch if task is None else {**batch, "task_ids": np.full((3, 12), task, "int32")}


def test_a_batch_teaches_the_row_of_its_task_only():
    config = ErnieConfig(vocabulary_size=60, **SMALL, num_segments=4, num_tasks=16, activation="gelu")
    network, objective, batch = Ernie(config).initialize(), Capitals(config), batch_of(3)
    with tf.GradientTape() as tape:
        total, weight = objective.score(network(batch), batch, network)[0]["capitals"]
        value = total / weight
    assert float(weight) == (batch["capital_labels"] < 2).sum()
    gradient = np.array(tf.convert_to_tensor(tape.gradient(value, network.embedding.task.embeddings.value)))
    assert np.abs(gradient[3]).min() > 0
    assert not gradient[np.arange(16) != 3].any()


def test_without_tasks_it_is_bert_whose_segments_are_the_first_two_of_four():
    keras.utils.set_random_seed(1)
    bert = Bert(BertConfig(vocabulary_size=60, **SMALL)).initialize()
    numbers = {"activation": "gelu", "layer_norm_epsilon": bert.config.layer_norm_epsilon}
    ernie = Ernie(ErnieConfig(vocabulary_size=60, **SMALL, num_segments=4, **numbers)).initialize()
    theirs = named_weights(bert)
    for name, weight in named_weights(ernie).items():
        value = np.array(theirs[name])
        if weight.shape != value.shape:
            value = np.concatenate([value, np.array(weight)[2:]])
        weight.assign(value)
    batch = batch_of()
    for name, value in bert(batch).items():
        np.testing.assert_allclose(np.array(value), np.array(ernie(batch)[name]), atol=2e-6)  # sums in another order


TASKS = dict.fromkeys(ernie2.TASKS[:4])
PAPER = {"masking": 50_000, "capitals": 50_000, "token_document": 50_000, "reordering": 50_000}


def test_stages_are_those_of_the_paper():
    expected = [[20_000], [10_000, 30_000], [10_000, 10_000, 40_000], [10_000, 10_000, 10_000, 50_000]]
    assert [list(stage.values()) for stage in continual(PAPER)] == expected
    assert sequential(PAPER) == [{name: 50_000} for name in PAPER] and joint(PAPER) == [PAPER]
    for kind in ("continual", "sequential", "joint"):
        schedule = make_schedule(kind, "50000", None, TASKS, tuple(TASKS), 7)
        assert schedule.totals == PAPER and schedule.num_steps == 200_000
    for total in (1, 2, 3, 5, 7, 23):  # what does not go even is shared out
        schedule = make_schedule("continual", None, total, TASKS, tuple(TASKS), 7)
        assert schedule.num_steps == total and max(schedule.totals.values()) - min(schedule.totals.values()) <= 1


def test_tasks_that_are_learnt_together_have_steps_by_their_examples():
    usual, examples = ("text", "dialogue"), {"text": 990, "dialogue": 10}

    def totals(steps, num_steps):
        return make_schedule("joint", steps, num_steps, usual, usual, 7, examples=examples).totals

    assert totals(None, 1000) == {"text": 989, "dialogue": 11} and totals("5", None) == {"text": 5, "dialogue": 5}
    for num_steps in (2, 3, 10):
        assert sum(totals(None, num_steps).values()) == num_steps and totals(None, num_steps)["dialogue"] >= 1


def test_steps_of_a_stage_are_drawn_in_proportion_and_add_up_exactly():
    stages = ({"masking": 300}, {"masking": 100, "capitals": 300}, {"masking": 50, "capitals": 50, "reordering": 400})
    schedule = TaskSchedule(stages, seed=5)
    drawn = [schedule.task_at(step) for step in range(schedule.num_steps)]
    for begin, end, stage in ((0, 300, stages[0]), (300, 700, stages[1]), (700, 1200, stages[2])):
        assert collections.Counter(drawn[begin:end]) == stage
        for name, steps in stage.items():  # also in each half, but for chance
            half = collections.Counter(drawn[begin : (begin + end) // 2])[name]
            assert abs(half - steps / 2) < 5 * (steps / 4) ** 0.5 + 1
    assert [sum(schedule.share(name, step) for name in schedule.tasks) for step in (0, 699, 1199)] == [1, 1, 1]
    assert drawn != [TaskSchedule(stages, seed=6).task_at(step) for step in range(1200)]
    longer = TaskSchedule((*stages, {"distance": 9, "masking": 3}), seed=5)
    assert [longer.task_at(step) for step in range(1200)] == drawn
    assert longer.extends(str(schedule)) and not schedule.extends(str(longer)) and schedule.extends(str(schedule))
    assert not TaskSchedule(({"masking": 3000},)).extends("masking:300")


@pytest.mark.parametrize(
    ("schedule", "steps", "num_steps", "said"),
    [
        ("round_robin", None, 10, "expected continual, sequential, joint, or stages, such as"),
        ("masking:x", None, None, "'masking:x' is no NAME:STEPS"),
        ("masking:0", None, None, "'masking:0' is no NAME:STEPS"),
        ("masking:3//capitals:2", None, None, "'' is no NAME:STEPS"),
        ("masking:3,masking:4", None, None, "masking stands twice"),
        (
            "mask:3",
            None,
            None,
            "no task 'mask' is there for these records. Did you mean masking? Known: masking, capitals",
        ),
        (
            "masking:3/capitals:2",
            "3",
            None,
            "capitals 2 in the stages, 3 in --task_steps; token_document 0 in the stages",
        ),
        ("masking:3/capitals:2", "masking:3,capitals:4", None, "capitals 2 in the stages, 4 in --task_steps"),
        (
            "masking:3/capitals:2",
            None,
            6,
            "--num_train_steps=6: the steps of --task_schedule and --task_steps add up to 5",
        ),
        ("continual", "0", None, "--task_steps=0: must be at least 1"),
        ("masking:3/capitols:2", None, None, "no task 'capitols' is there for these records. Did you mean capitals?"),
        ("masking:3/distance:2", None, None, "no task 'distance' is there for these records. It wants paragraphs."),
        ("continual", "masking", None, "'masking' is no NAME:STEPS"),
    ],
)
def test_a_wrong_schedule_is_refused(schedule, steps, num_steps, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        make_schedule(schedule, steps, num_steps, TASKS, tuple(TASKS), 7, missing={"distance": "paragraphs"})


OWN = "num_layers=1,hidden_dim=16,num_heads=2,intermediate_dim=32,max_sequence_length=32"


def options(corpus, folder, **changes):
    values = {
        "system": "ernie2", "size": "tiny", "set": OWN, "model_dir": str(folder), "data_dir": str(corpus / "records"),
        "train_batch_size": 4, "learning_rate": 1e-2, "num_warmup_steps": 2, "save_checkpoints_steps": 3, "log_steps": 1,
        "eval_steps": 1, "jit_compile": "false",
    }  # fmt: skip
    return Options(**{**values, **changes})


def weights(folder):
    return read_weights(os.path.join(folder, "backbone", "weights.safetensors"))


def train_lines(folder):
    return [entry for entry in read_log(os.path.join(folder, "log.jsonl")) if entry["kind"] == "train"]


STAGES = "masking:3/masking:1,capitals:3"
ADDED = f"{STAGES}/masking:1,capitals:1,reordering:2"


@pytest.mark.long
def test_a_finished_run_grows_and_is_then_what_it_would_have_been(corpus, tmp_path, capsys):
    """One task becomes two: weights are bit for bit those of a run that had both in its schedule from the beginning."""
    given = {"save_checkpoints_steps": 0, "num_warmup_steps": None}
    longer = "capitals:2/capitals:1,distance:2"
    whole, parted = str(tmp_path / "whole"), str(tmp_path / "parted")
    pretrain(options(corpus, whole, task_schedule=longer, **given, num_train_steps=5))
    pretrain(options(corpus, parted, task_schedule="capitals:2", **given | {"num_warmup_steps": 0}))
    assert set(weights(whole)) - set(weights(parted)) == {
        f"objective.sentence_distance.head.{part}" for part in ("kernel", "bias")
    }
    capsys.readouterr()
    pretrain(options(corpus, parted, task_schedule=longer, **given))
    assert "New heads, which begin with random weights: sentence_distance." in capsys.readouterr().out
    first, second = weights(whole), weights(parted)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    with pytest.raises(UsageError, match="does not begin with them"):
        pretrain(options(corpus, parted, task_schedule="capitals:3/distance:9", **given))


@pytest.mark.long
def test_a_task_that_is_added_to_a_finished_run_is_learnt_as_if_it_had_been_planned(corpus, tmp_path, monkeypatch):
    """With a kill in the middle of the added stage: weights, losses and tasks of all steps are the same."""
    whole = options(corpus, tmp_path / "whole", task_schedule=ADDED)
    means = pretrain(whole)
    assert {"masking/masked_lm", "capitals/capitals", "reordering/sentence_reordering_accuracy", "loss"} <= set(means)

    parted = tmp_path / "parted"
    pretrain(options(corpus, parted, task_schedule=STAGES))
    assert not any("reordering" in name for name in weights(parted))
    save = loop.checkpoints.save

    def save_and_die(folder, learner, state, keep):
        save(folder, learner, state, keep)
        if state.step == 9:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop.checkpoints, "save", save_and_die)
        with pytest.raises(KeyboardInterrupt):
            pretrain(options(corpus, parted, task_schedule=ADDED))
    pretrain(options(corpus, parted, task_schedule=ADDED))
    first, second = weights(whole.model_dir), weights(parted)
    assert set(first) == set(second) and any("sentence_reordering" in name for name in first)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    logged = [{e["step"]: e for e in train_lines(folder)} for folder in (whole.model_dir, parted)]
    assert sorted(logged[0]) == sorted(logged[1]) == list(range(1, 12))
    assert all(logged[0][step]["loss"] == logged[1][step]["loss"] for step in logged[0])
    taken = [next(n.split("/")[0] for n in line if n.endswith("/skipped")) for line in train_lines(whole.model_dir)]
    assert [collections.Counter(taken[a:b]) for a, b in ((0, 3), (3, 7), (7, 11))] == [
        {"masking": 3}, {"masking": 1, "capitals": 3}, {"masking": 1, "capitals": 1, "reordering": 2},
    ]  # fmt: skip
    config = json.loads((parted / "config.json").read_text())
    assert config["settings"]["task_schedule"] == ADDED
    assert "reordering 2" in (parted / "model_card.md").read_text("utf-8")


@pytest.mark.long
def test_a_run_of_one_task_grows_too_and_a_new_run_may_start_from_its_weights(corpus, tmp_path, capsys):
    one = tmp_path / "one"
    pretrain(options(corpus, one, task_schedule="capitals:3", num_warmup_steps=None))
    before = weights(one)
    pretrain(options(corpus, one, task_schedule="capitals:3/distance:2,token_document:1", num_warmup_steps=None))
    assert "New heads, which begin with random weights: " in capsys.readouterr().out
    assert set(weights(one)) - set(before) == {
        f"objective.{head}.head.{part}"
        for head in ("sentence_distance", "repeated_tokens")
        for part in ("kernel", "bias")
    }
    new = options(corpus, tmp_path / "new", init_checkpoint=str(one), task_steps="capitals:1,reordering:1")
    pretrain(new)
    told = capsys.readouterr().out
    assert (
        "with heads capitals" in told
        and "Heads that start with random weights" in told
        and "sentence_reordering" in told
    )
    with pytest.raises(CheckpointError, match="holds heads that this run has not: objective.capitals"):
        state = json.loads((one / "config.json").read_text())
        state["settings"]["task_schedule"] = "distance:3"
        (one / "config.json").write_text(json.dumps(state))
        pretrain(options(corpus, one, task_schedule="distance:3/masking:9", num_warmup_steps=None))


def labelled_pairs(corpus, name, labels, seed=5):
    rng = random.Random(seed)
    rows = [(*text_of(rng, 2, 3), rng.choice(labels)) for _ in range(24)]
    (corpus / f"{name}.tsv").write_text("text_a\ttext_b\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
    flags = {"task": "classify", "input_file": corpus / f"{name}.tsv", "vocab_file": corpus / "vocab.txt"}
    assert invoke("create_finetuning_data", output_dir=corpus / name, max_seq_length=24, num_shards=1, **flags) == 0
    return corpus / name


@pytest.fixture(scope="module")
def pairs(corpus):
    """Labelled pairs of sentences, as records."""
    return labelled_pairs(corpus, "pairs", ["but", "so", "then"])


@pytest.fixture(scope="module")
def held_pairs(corpus):
    """Others, of two labels."""
    return labelled_pairs(corpus, "held", ["but", "so"])


@pytest.mark.long
def test_tasks_of_pairs_are_scored_on_held_out_ones(corpus, pairs, tmp_path):
    others = labelled_pairs(corpus, "others", ["but", "so", "then"], seed=6)
    given = {"task_data": f"discourse:{pairs}", "task_schedule": "discourse:3"}
    seen = pretrain(options(corpus, tmp_path / "seen", **given))
    held = pretrain(options(corpus, tmp_path / "held", **given, eval_task_data=f"discourse:{others}"))
    again = pretrain(options(corpus, tmp_path / "again", **given, eval_task_data=f"discourse:{pairs}"))
    assert again == seen and held["loss"] != seen["loss"]


@pytest.mark.long
def test_relations_are_learnt_from_labelled_records(corpus, pairs, tmp_path):
    given = {"task_data": f"discourse:{pairs},relevance:{pairs}", "task_schedule": "masking:1/discourse:2,relevance:1"}
    pretrain(options(corpus, tmp_path / "run", **given))
    found = weights(tmp_path / "run")
    assert found["objective.discourse_relation.head.kernel"].shape == (16, 3)
    lines = train_lines(tmp_path / "run")
    assert sum("discourse/discourse_relation" in line for line in lines) == 2
    samples = [e for e in read_log(tmp_path / "run/log.jsonl") if e["kind"] == "samples"][-1]
    answers = {title for example in samples["examples"] for title in example["answers"]}
    assert {"connective", "relevance"} <= answers


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task_data": "discourse"}, "expected NAME:FOLDER"),
        ({"task_data": "entailment:{pairs}"}, "no such task. Known: discourse, relevance"),
        ({"task_data": "discourse:{records}"}, "expected records of `create_finetuning_data --task=classify`"),
        ({"eval_task_data": "discourse:{pairs}"}, "--task_data names no records of discourse to learn from"),
        (
            {"task_data": "discourse:{pairs}", "eval_task_data": "discourse:{held}"},
            r"label_names \['but', 'so'\], but those that are",
        ),
        ({"task_schedule": "discourse:3"}, "no task 'discourse' is there for these records"),
        ({"set": f"{OWN},num_segments=2"}, "3 parts of a paragraph need 3 segments"),
        ({"set": f"{OWN},num_tasks=3"}, "--set=num_tasks=4"),
        ({"length_schedule": "16:0.5,32:0.5"}, "continue or belong to one another, which are not cut"),
        ({"system": "bert", "task_steps": "3"}, "--task_steps: --system=bert has no tasks"),
        (
            {"system": "bert"},
            "made with --packing=paragraph, which --system=bert cannot frame|learns from next_sentence",
        ),
    ],
)
def test_what_does_not_fit_is_refused(corpus, pairs, held_pairs, tmp_path, changes, said):
    places = {"pairs": pairs, "held": held_pairs, "records": corpus / "records"}
    changes = {n: v.format(**places) for n, v in changes.items()}
    with pytest.raises((UsageError, DataError), match=said):
        pretrain(options(corpus, tmp_path / "run", **({"num_train_steps": 4} | changes)))


def test_capitals_need_records_in_lower_case(corpus, tmp_path):
    flags = {"packing": "paragraph", "max_seq_length": 32, "max_predictions_per_seq": 6, "num_shards": 1}
    text = {"input_file": str(corpus / "corpus.txt"), "vocab_file": str(corpus / "vocab.txt"), "do_lower_case": False}
    create(Settings(**text, **flags), str(tmp_path / "cased"))
    given = {"data_dir": str(tmp_path / "cased"), "task_schedule": "capitals:2"}
    with pytest.raises(UsageError, match="no task 'capitals' is there for these records"):
        pretrain(options(corpus, tmp_path / "run", **given))
    assert "capitals" not in ernie2.recipe(open_stand_in(), Records(capitals=False)).curriculum.usual


def test_records_of_paragraphs_hold_what_the_manifest_says(corpus):
    source = RecordSource(str(corpus / "records"))
    (index, item), *_ = source.in_order().batch(8).as_numpy_iterator()
    parsed = source.parse(tf.constant(item))
    assert parsed["capital_labels"].shape == parsed["token_ids"].shape == (8, 64)
    with pytest.raises(UsageError, match="--masking=static writes the records of BERT"):
        Settings(input_file="x", vocab_file="y", packing="paragraph", masking="static").check()


def test_a_run_of_another_system_goes_on_by_its_flags_of_before():
    """Its flags.txt says --task_schedule=continual, which was the default of all systems."""
    flags = dict.fromkeys((*task_streams.FLAGS, *task_streams.LONGER)) | {"system": "bert"}
    task_streams.check_flags(SimpleNamespace(**flags, task_schedule="continual"), SimpleNamespace(curriculum=None))
    with pytest.raises(UsageError, match="--task_schedule: --system=bert has no tasks"):
        task_streams.check_flags(SimpleNamespace(**flags, task_schedule="joint"), SimpleNamespace(curriculum=None))
