"""GloVe: co-occurrences out of core, against the released code; its objective and its AdaGrad, pair by pair; vectors in and out."""

import collections
import dataclasses
import hashlib
import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.ops.pair_counts import frame_pairs
from data_pipelines.pretraining import beam_runner, sorted_sums, tasks_split
from data_pipelines.pretraining.job import Settings, create, prepare
from data_pipelines.pretraining.parts import collect_part
from data_pipelines.pretraining.stages.pair_counts import (
    FrequentPairs,
    both_ways,
    count_pairs,
    keys_of,
    pair_counts,
    pairs_of,
)
from data_pipelines.pretraining.stages.tokenize import Tokens, mark
from data_pipelines.records import folder as record_folder
from data_pipelines.records.checks import check_contents
from data_pipelines.records.source import RecordSource
from data_pipelines.text.kinds import tokenizer_of_records
from tests.helpers.invocation import invoke
from xmodels.conversion import convert, word_vectors
from xmodels.conversion.vectors import glove
from xmodels.models.backbone import named_weights
from xmodels.models.glove import Glove, GloveConfig
from xmodels.objectives.co_occurrence import CoOccurrence
from xmodels.training.optimizers.optimizers import Adagrad
from xmodels.training.step.sparse import merge_duplicates

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/glove/small"
EXPECTED = np.load(GOLDEN / "outputs.npz")
ALL = 1 << 20


def lines():
    """The ids, from 1 on, of the known words of each line of the golden corpus."""
    known = {word: n for n, (word, _) in enumerate(json.loads((GOLDEN / "outputs.json").read_text())["vocabulary"], 1)}
    texts = json.loads((GOLDEN / "inputs.json").read_text())["lines"]
    return [np.array([known.get(word, 0) for word in text.split()], np.int32) for text in texts]


def counts_of(documents, at_once=ALL, places=ALL, **numbers):
    """{(word, context): how much the pair counts}."""
    numbers = {"window": 4, "symmetric": True, "weighted": True, **numbers}
    stage = pair_counts(**numbers, left_out=np.array([0]), num_ids=1000, at_once=at_once, places=places)
    found = collections.Counter()
    for entries in stage(Tokens(mark(ids, 0), [0, len(ids)]) for ids in documents):
        entries = both_ways(entries) if numbers["symmetric"] else entries
        found.update(
            dict(zip(zip(*map(np.ndarray.tolist, pairs_of(entries["key"])), strict=True), entries["sum"], strict=True))
        )
    return found


@pytest.mark.parametrize(
    ("case", "numbers"), [("symmetric", {}), ("left_only", {"symmetric": False}), ("unweighted", {"weighted": False})]
)
@pytest.mark.parametrize("at_once", [ALL, 24])
@pytest.mark.parametrize("places", [ALL, 500, 0])  # for all pairs, some and none
def test_co_occurrences_are_those_of_the_released_code(case, numbers, at_once, places):
    found = counts_of(lines(), at_once, places, **numbers)
    pairs = zip(EXPECTED[f"{case}/row"].tolist(), EXPECTED[f"{case}/column"].tolist(), strict=True)
    expected = dict(zip(pairs, EXPECTED[f"{case}/weight"].tolist(), strict=True))
    expected[1, 2] /= 2  # the first record of all, which the program counts twice where its file of rare pairs is empty
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(weight, abs=1e-9) for pair, weight in expected.items())


def test_counts_of_a_b_a_by_hand():
    a, b = 1, 2
    assert counts_of([np.array([a, b, a], np.int32)]) == {(a, b): 2.0, (b, a): 2.0, (a, a): 1.0}
    # An unknown word takes no place, and windows end with a document.
    assert counts_of([np.array([a, 0, b], np.int32), np.array([a], np.int32)], window=1) == {(a, b): 1.0, (b, a): 1.0}


@pytest.mark.extra("numba")
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("places", [3000, 1])
def test_numba_counts_the_same_to_the_bit(symmetric, weighted, places):
    from data_pipelines.pretraining.stages import pairs_compiled

    words = np.random.default_rng(0).zipf(1.2, 4000).astype(np.int32) % 500
    positions = np.concatenate([np.arange(n) for n in (1, 3, 1996, 2000)])
    sums = []
    for name in ("operations", "numba"):
        frequent, found = FrequentPairs(500, places, symmetric), []
        for begin, end in ((0, 700), (700, 4000)):
            numbers = words, positions, begin, end, 7, symmetric, weighted
            if name == "operations":
                found.append(count_pairs(*numbers, frequent))
            else:
                first, *pairs = pairs_compiled.count_pairs(*numbers, frequent.limits, frequent.offsets, frequent.sums)
                found.append(sorted_sums.sort_by_key(keys_of(first, pairs[0]), pairs[1]))
        sums.append([*found, frequent.sums])
    for one, other in zip(*sums, strict=True):
        assert len(one)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("ordered", "places"), [(False, 27), (True, 15)])
def test_an_array_of_sums_holds_pairs_of_a_small_product(ordered, places):
    pairs = FrequentPairs(10, places, ordered)
    grid = np.triu_indices(10) if ordered else tuple(map(np.ravel, np.indices((10, 10))))
    rest = set(zip(*map(np.ndarray.tolist, pairs.add(*grid, 0.5)), strict=True))
    first, second, sums = map(np.concatenate, zip(*pairs.found(at_once=4), strict=True))
    kept = set(zip(first.tolist(), second.tolist(), strict=True))
    every = set(zip(*map(np.ndarray.tolist, grid), strict=True))
    assert len(pairs.sums) == places and kept == {(a, b) for a, b in every if (a + 1) * (b + 1) <= 10}
    assert kept | rest == every and not kept & rest
    assert (sums == 0.5).all()


def test_keys_tell_all_pairs_apart_and_give_them_back():
    rng = np.random.default_rng(0)
    rows, columns = (np.concatenate([rng.integers(0, 2**31, 1000), np.arange(40)]) for _ in range(2))
    for found, expected in zip(pairs_of(keys_of(rows, columns)), (rows, columns), strict=True):
        np.testing.assert_array_equal(found, expected)
    shares = np.bincount((keys_of(np.zeros(4000, int), np.arange(4000)) >> np.uint64(62)).astype(int))
    np.testing.assert_allclose(shares / 4000, 0.25, atol=0.03)  # the keys of one word are spread evenly


def test_sums_out_of_core_are_those_in_memory(tmp_path):
    rng = np.random.default_rng(1)
    pieces = [
        sorted_sums.sum_by_key(rng.integers(0, 500, 300).astype(np.uint64) << np.uint64(55), rng.random(300))
        for _ in range(20)
    ]
    files = []
    for name, in_memory in (("whole", ALL), ("parted", 700)):
        files.append(str(tmp_path / name))
        count = sorted_sums.write(iter(pieces), files[-1], in_memory)
        assert count * 16 == (tmp_path / name).stat().st_size
    whole, parted = (np.fromfile(path, sorted_sums.ENTRY) for path in files)
    assert (np.diff(whole["key"].astype(float)) > 0).all() and sorted(tmp_path.iterdir()) == sorted(
        map(pathlib.Path, files)
    )
    np.testing.assert_array_equal(whole["key"], parted["key"])
    np.testing.assert_allclose(whole["sum"], parted["sum"], rtol=1e-12)
    shares = [np.concatenate(list(sorted_sums.merge(files, share, 3, in_memory=64))) for share in range(3)]
    np.testing.assert_array_equal(np.concatenate(shares)["key"], whole["key"])
    np.testing.assert_array_equal(np.concatenate(shares)["sum"], whole["sum"] + parted["sum"])
    in_one = np.concatenate(list(sorted_sums.merge(files)))
    np.testing.assert_array_equal(in_one["sum"], np.concatenate(shares)["sum"])  # whatever is in memory at once


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Settings of three shards of the golden corpus, a line a document, with a vocabulary of its words."""
    folder = tmp_path_factory.mktemp("glove")
    text = "\n".join(json.loads((GOLDEN / "inputs.json").read_text())["lines"]) + "\n"
    (folder / "corpus.txt").write_text(text * 3, encoding="utf-8")
    flags = {"input_file": folder / "corpus.txt", "input_format": "documents"}
    code = invoke("train_vocabulary", **flags, tokenizer="words", vocab_size=120, output_file=folder / "vocabulary")
    assert code == 0
    return Settings(
        input_file=str(folder / "corpus.txt"), input_format="documents", vocab_file=str(folder / "vocabulary"),
        packing="cooccurrence", set="window=4", num_shards=3,
    )  # fmt: skip


@pytest.fixture(scope="module")
def records(settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records") / "one"
    create(settings, str(folder))
    return folder


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def parsed(folder):
    source = RecordSource(str(folder))
    records = list(tf.data.TFRecordDataset(source.paths).as_numpy_iterator())
    return {name: value.numpy() for name, value in source.parse(tf.constant(records)).items()}


def test_records_hold_the_counts_of_the_whole_corpus(settings, records):
    tokenizer = tokenizer_of_records(str(records), RecordSource(str(records)).manifest.settings)
    special = sorted(tokenizer.vocabulary.special_ids)
    expected: collections.Counter = collections.Counter()
    for line in pathlib.Path(settings.input_file).read_text(encoding="utf-8").splitlines():
        ids = [i for i in tokenizer.encode(line).ids if i not in special]
        for place, word in enumerate(ids):
            for distance in range(1, min(4, place) + 1):
                expected[word, ids[place - distance]] += 1 / distance
                expected[ids[place - distance], word] += 1 / distance
    values = parsed(records)
    there = values["pair_weights"] > 0
    pairs = zip(values["center_ids"][there].tolist(), values["context_ids"][there].tolist(), strict=True)
    found = dict(zip(pairs, values["pair_weights"][there].tolist(), strict=True))
    assert len(found) == there.sum() == len(expected)  # no pair stands there twice
    assert all(found[pair] == pytest.approx(weight, rel=1e-6) for pair, weight in expected.items())


def test_workers_tasks_and_resuming_give_the_same_bytes(settings, records, tmp_path):
    expected = digests(records)
    several = tmp_path / "workers"
    create(settings, str(several), num_workers=2)
    assert digests(several) == expected
    shared = tmp_path / "tasks"
    first = tasks_split.create_share(settings, str(shared), "0", 2)
    assert "Shards are made when the tasks 1 have, too" in first
    with pytest.raises(DataError, match="1 of 3 parts have not been collected; run the tasks 1 first"):
        tasks_split.create_share(settings, str(shared), "merge", 2)
    assert "the tasks 0 have not" in tasks_split.create_share(settings, str(shared), "1", 2)
    tasks_split.create_share(settings, str(shared), "0", 2)
    assert digests(shared) == expected
    create(settings, str(several), resume=True)
    assert digests(several) == expected


@pytest.mark.extra("apache_beam")
def test_a_beam_pipeline_leaves_the_same_bytes(settings, records, tmp_path):
    beam_runner.create(settings, str(tmp_path / "beam"))
    assert digests(tmp_path / "beam") == digests(records)
    once = dataclasses.replace(settings, deduplicate="exact")  # three rounds: what is dropped, the parts, the shards
    beam_runner.create(once, str(tmp_path / "once"))
    create(once, str(tmp_path / "local"), num_workers=2)
    assert digests(tmp_path / "once") == digests(tmp_path / "local") != digests(records)


def test_a_collection_that_broke_off_is_made_anew(settings, tmp_path, records):
    folder = tmp_path / "broken"
    job = prepare(settings, str(folder))
    record_folder.claim(str(folder), job.described, resume=False, overwrite=False)
    for arguments in job.collect_jobs([0, 1, 2]).values():
        collect_part(*arguments)
    whole = pathlib.Path(job.collected(1))
    whole.write_bytes(whole.read_bytes()[:-16])
    create(settings, str(folder), resume=True)
    assert digests(folder) == digests(records)


def test_records_are_checked_and_shown_by_their_pairs(records, settings, capsys):
    source = RecordSource(str(records))
    assert check_contents(source, source.manifest.settings.vocabulary_size) == source.num_examples
    with pytest.raises(DataError, match="but the vocabulary has 20 pieces"):
        check_contents(source, 20)
    assert invoke("inspect_data", data_dir=records, num_examples=1) == 0
    said = capsys.readouterr().out
    assert "pairs of words" in said and " · " in said.splitlines()[-2] and "pairs more" in said
    with pytest.raises(UsageError, match="`window` must be 1 or more"):
        dataclasses.replace(settings, set="window=0").check()


class ReleasedAdagrad(Adagrad):
    """The released code divides by the sums before they grow by the step; ours, as AdaGrad's paper, by those behind it."""

    def update_rows(self, gradient, variable, learning_rate):
        sums = self._accumulators[self._get_variable_index(variable)].value
        before = tf.sqrt(tf.gather(sums, gradient.indices))
        sums.scatter_add(tf.IndexedSlices(tf.square(gradient.values), gradient.indices))
        variable.scatter_sub(tf.IndexedSlices(learning_rate * gradient.values / before, gradient.indices))


def test_training_pair_by_pair_is_that_of_the_released_code():
    """Three passes over the shuffled pairs: vectors, biases and the sums of AdaGrad."""
    count, width = len(EXPECTED["initial"]) // 2, EXPECTED["initial"].shape[1] - 1
    backbone, objective = Glove(GloveConfig(count, width)).initialize(), CoOccurrence(x_max=5.0)
    weights = named_weights(backbone)

    def parts(values):
        tables = {"words": values[:count], "contexts": values[count:]}
        vectors = {f"{name}.embeddings": table[:, :-1] for name, table in tables.items()}
        return vectors | {f"{name[:-1]}_biases.embeddings": table[:, -1:] for name, table in tables.items()}

    for name, value in parts(EXPECTED["initial"]).items():
        weights[name].assign(value)
    optimizer = ReleasedAdagrad(learning_rate=1.0, initial_accumulator_value=1.0, epsilon=0.0)
    variables = list(weights.values())
    optimizer.build(variables)
    assert set(backbone.sparse_tables) == set(weights)

    @tf.function
    def train(centers, contexts, counts):
        for i in tf.range(len(counts)):
            pair = {"center_ids": centers[i], "context_ids": contexts[i], "pair_weights": counts[i]}
            batch = {name: value[None, None] for name, value in pair.items()}
            with tf.GradientTape() as tape:
                losses, _ = objective.score(objective.forward(backbone, batch), batch, backbone)
                loss = losses["co_occurrence"][0]
            gradients = tape.gradient(loss, [variable.value for variable in variables])
            for gradient, variable in zip(gradients, variables, strict=True):
                optimizer.update_rows(merge_duplicates(gradient), variable.value, 1.0)

    pairs = [tf.constant(EXPECTED[f"shuffled/{name}"] - 1, tf.int32) for name in ("row", "column")]
    for _ in range(3):
        train(*pairs, tf.constant(EXPECTED["shuffled/weight"], tf.float32))
    for name, value in parts(EXPECTED["final"]).items():
        np.testing.assert_allclose(np.array(weights[name]), value, atol=2e-5, err_msg=name)
    sums = dict(zip(weights, optimizer._accumulators, strict=True))
    for name, value in parts(EXPECTED["final_gradient_sums"]).items():
        np.testing.assert_allclose(np.array(sums[name]), value, rtol=1e-4, err_msg=name)


def test_pairs_weigh_as_in_the_paper_and_an_exact_network_has_no_loss():
    objective = CoOccurrence()
    np.testing.assert_allclose(objective.importance(np.array([0.0, 100.0, 1e6, 50.0])), [0, 1, 1, 0.5**0.75], rtol=1e-6)
    backbone = Glove(GloveConfig(4, 3)).initialize()
    for name, weight in named_weights(backbone).items():
        weight.assign(np.full(weight.shape, 0.25 if "biases" in name else 0.5))
    estimate = 3 * 0.5 * 0.5 + 0.25 + 0.25
    batch = {
        "center_ids": np.array([[0, 1, 3]]), "context_ids": np.array([[1, 2, 3]]),
        "pair_weights": np.array([[np.exp(estimate), np.exp(estimate), 0.0]], np.float32),
    }  # fmt: skip
    losses, _ = objective.score(objective.forward(backbone, batch), batch, backbone)
    loss, weight = map(float, losses["co_occurrence"])
    assert loss == pytest.approx(0, abs=1e-10) and weight == 2  # the last slot is empty
    framed = frame_pairs()({name: tf.constant(value) for name, value in batch.items()})
    assert framed["padding_mask"].numpy().tolist() == [[True, True, False]]
    np.testing.assert_allclose(backbone({"token_ids": framed["token_ids"]})["sequence_output"], np.ones((1, 3, 3)))


def test_files_of_vectors_are_read_as_they_are_written(tmp_path):
    rng = np.random.default_rng(2)
    words, vectors = ["the", ". . .", "é"], rng.normal(size=(3, 5)).astype(np.float32)
    path = tmp_path / "vectors.txt"
    glove.write(str(path), words, vectors)
    assert path.read_text(encoding="utf-8").startswith("the 0.")  # no line with numbers of words stands before
    again = word_vectors.read(f"glove:{path}")
    assert again[0] == words
    np.testing.assert_array_equal(again[1], vectors)
    path.write_text("the 1.0 2.0\nof 1.0\n")
    with pytest.raises(CheckpointError, match="line 2: expected a word and 2 numbers. Found: of 1.0"):
        word_vectors.read(f"glove:{path}")
    path.write_bytes(b"the 1.0 2.0\nof\xff 1.0 2.0\n")
    with pytest.raises(CheckpointError, match="line 2: not valid UTF-8 at byte 3"):
        word_vectors.read(f"glove:{path}")
    path.write_text("the 1.0 2e99\n")
    with pytest.raises(CheckpointError, match="line 1: numbers that are not finite"):
        word_vectors.read(f"glove:{path}")
    with pytest.raises(UsageError, match="Known: fasttext:FILE, glove:FILE, word2vec:FILE"):
        word_vectors.read(f"glov:{path}")


def test_from_text_to_vectors(records, tmp_path, capsys):
    run = tmp_path / "run"
    flags = {"system": "glove", "size": "tiny", "data_dir": records, "model_dir": run}
    assert invoke("doctor", **flags) == 0
    assert "cooccurrence; 3 looked at" in capsys.readouterr().out
    assert invoke("pretrain", **flags, num_train_steps=30, dry_run="true") == 0 and not run.exists()
    assert re.search(r"center_ids +int32 \(4, 1024\)", capsys.readouterr().out)
    assert invoke("pretrain", **flags, num_train_steps=30, log_steps=15, eval_steps=1, set="x_max=10") == 0
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if entry["kind"] == "train"]
    assert losses[-1] < 0.7 * losses[0]
    assert invoke("convert_checkpoint", **{"from": run, "to": f"glove:{tmp_path}/vectors.txt"}) == 0
    words, vectors = word_vectors.read(f"glove:{tmp_path}/vectors.txt")
    values = convert.load(str(run)).values
    table = values["backbone.words.embeddings"] + values["backbone.contexts.embeddings"]
    vocabulary = tokenizer_of_records(str(records), RecordSource(str(records)).manifest.settings).vocabulary
    kept = sorted(set(range(len(vocabulary))) - set(vocabulary.special_ids))  # the others are not learnt
    assert words == [vocabulary.tokens[i] for i in kept] and vectors.shape == (len(kept), 16)
    np.testing.assert_allclose(vectors, table[kept], rtol=1e-6)
