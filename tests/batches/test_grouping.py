"""Less padding: buckets by length and rows of several examples lose nothing, resume exactly, and change no answer."""

import collections
import dataclasses
import json
import os
import pathlib
import shutil
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.grouping import (
    Buckets,
    Rows,
    buckets,
    longest,
    pack,
    padding_share,
    shorten_features,
    slots,
)
from data_pipelines.batches.token_buckets import token_buckets
from data_pipelines.errors import UsageError
from data_pipelines.features import Feature
from data_pipelines.ops.compose import compose
from data_pipelines.ops.corruption import mask_whole_words
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.packing import pack_rows
from data_pipelines.ops.parallel import frame_parallel
from data_pipelines.records import shards as shard_files
from data_pipelines.records import source as source_files
from data_pipelines.records.manifest import Manifest, RecordSettings
from data_pipelines.records.shards import ShardWriter
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import Vocabulary
from tests.helpers.small_records import encode_example
from xmodels.jobs.finetune.batches import bucket_suggestion, choose_batches
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.models.backbone import Backbone
from xmodels.models.bert import Bert, BertConfig
from xmodels.models.folder import read_weights
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence

LENGTH = 24
VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(300))], "test")


def write_records(folder, counts=(40, 23, 37), seed=0):
    """Pairs of random lengths; the first id of an example tells it from all others."""
    rng, shards, number = np.random.default_rng(seed), [], 5
    for i, count in enumerate(counts):
        with ShardWriter(str(folder / f"records-{i}.tfrecord")) as writer:
            for _ in range(count):
                first, second = int(rng.integers(1, 12)), int(rng.integers(0, 10))
                ids = [number, *rng.integers(5, 305, first + second - 1).tolist()]
                example = {"token_ids": ids, "word_start": [1] * len(ids), "segment_lengths": [first, second]}
                writer.write(encode_example({**example, "next_sentence_labels": [number % 2]}))
                number += 1
        shards.append(writer.shard())
    names = {"token_ids": (None,), "word_start": (None,), "segment_lengths": (2,), "next_sentence_labels": ()}
    settings = {"max_sequence_length": LENGTH, "vocabulary_sha256": VOCABULARY.sha256}
    Manifest({name: Feature(shape) for name, shape in names.items()}, shards, RecordSettings.of(settings), {}).write(
        str(folder)
    )
    return RecordSource(str(folder))


@pytest.fixture
def source(tmp_path, monkeypatch):
    for module in (source_files, shard_files):
        monkeypatch.setattr(module, "CHUNK", 8)
    monkeypatch.setattr(source_files, "SHUFFLE_WINDOW", 32)
    return write_records(tmp_path)


MASK = mask_whole_words(VOCABULARY["[MASK]"], 305, num_predictions=4)
ROWS = Rows(LENGTH, 6, slots(LENGTH, 6, 0.15, 4))
BUCKETS = Buckets((8, 16, LENGTH))
TOKENS = token_buckets((12, 18, LENGTH), 100, shares=2)  # 8, 4 or 4 rows


def batches_of(source, grouping, batch_size=6, mask=None):
    frame = frame_pair(VOCABULARY, LENGTH)

    def unmasked(features):
        zeros = tf.zeros([tf.shape(features["token_ids"])[0], 4], tf.int32)
        return {**features, "mask_positions": zeros, "labels": zeros, "label_weights": tf.cast(zeros, tf.float32)}

    keep = (
        "token_ids", "segment_ids", "padding_mask", "mask_positions", "labels", "label_weights", "next_sentence_labels",
        "example_weights",
    )  # fmt: skip
    return Batches(source, compose(frame, mask or unmasked), batch_size, 5, keep, grouping)


def names_of(batch):
    """The first ids of the examples of a batch: they stand behind [CLS]."""
    row, place = np.nonzero((batch["token_ids"] == VOCABULARY["[CLS]"]) & batch["padding_mask"])
    return np.array(batch["token_ids"])[row, place + 1].tolist()


def same(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[n], second[n]) for n in first)


def epochs_of(batches, count, **kwargs):
    """The names in each of the first epochs, by the cursor of their batch or row."""
    found = [[] for _ in range(count)]
    for batch in batches.training(**kwargs):
        for row, (epoch, _, _) in enumerate(batch["cursor"].numpy().tolist()):
            if epoch == count:
                return found
            found[epoch] += names_of({n: v[row : row + 1].numpy() for n, v in batch.items()})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("grouping", [ROWS, BUCKETS, TOKENS], ids=["rows", "buckets", "tokens"])
def test_every_example_comes_exactly_once_an_epoch(source, grouping):
    epochs = epochs_of(batches_of(source, grouping), 3)
    for epoch in epochs:
        assert sorted(epoch) == list(range(5, 105))
    assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.long
@pytest.mark.parametrize("hosts", [2])
@pytest.mark.parametrize(
    "grouping",
    [ROWS, pytest.param(BUCKETS, marks=pytest.mark.long), pytest.param(TOKENS, marks=pytest.mark.long)],
    ids=["rows", "buckets", "tokens"],
)
def test_hosts_share_grouped_examples_without_loss(source, grouping, hosts):
    seen = []
    for host in range(hosts):
        epochs = epochs_of(batches_of(source, grouping), 2, host=host, num_hosts=hosts)
        assert sorted(epochs[0]) == sorted(epochs[1])
        seen += epochs[0]
    assert sorted(seen) == list(range(5, 105))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("grouping", "per_batch"),
    [
        (ROWS, 6),
        pytest.param(BUCKETS, 6, marks=pytest.mark.long),
        pytest.param(BUCKETS, 3, marks=pytest.mark.long),
        (TOKENS, 3),
    ],
    ids=["rows", "buckets", "half", "tokens"],
)
def test_reading_resumes_bitwise_from_any_cursor(source, grouping, per_batch):
    batches = batches_of(source, grouping, mask=MASK)
    whole = list(batches.training(per_batch=per_batch).take(60))
    for done in (2, 8, 50):
        cursor = tuple(whole[done - 1]["cursor"][-1].numpy().tolist())
        rest = list(batches.training(consumed=1, per_batch=per_batch, cursor=cursor).take(10))
        assert all(same(a, b) for a, b in zip(rest, whole[done:], strict=False))


def test_batches_of_buckets_have_few_shapes_and_keep_to_their_bucket(source):
    shapes, full = set(), 0
    for batch in batches_of(source, BUCKETS).training().take(60):
        longest, width = batch["padding_mask"].numpy().sum(axis=1).max(), batch["token_ids"].shape[1]
        assert width == min(b for b in BUCKETS.lengths if b >= longest)
        weights = batch["example_weights"].numpy()
        assert (weights == batch["padding_mask"].numpy().any(axis=1)).all()
        shapes.add(width)
        full += weights.all()
    assert shapes == set(BUCKETS.lengths) and full > 40


@pytest.mark.long
def test_replicas_get_the_halves_of_one_batch(source):
    batches = batches_of(source, BUCKETS)
    halves = list(batches.training(per_batch=3).take(20))
    for i, batch in enumerate(batches.training().take(10)):
        joined = {n: np.concatenate([halves[2 * i][n], halves[2 * i + 1][n]]) for n in batch}
        assert same(joined, {n: v.numpy() for n, v in batch.items()})


def test_batches_of_tokens_have_a_shape_for_each_bucket_and_about_equally_many_tokens(source):
    shapes, short = set(), 0
    for batch in batches_of(source, TOKENS).training().take(60):
        rows, width = batch["token_ids"].shape
        shapes.add((rows, width))
        assert batch["padding_mask"].numpy().sum(axis=1).max() <= width
        weights = batch["example_weights"].numpy()
        assert (weights == batch["padding_mask"].numpy().any(axis=1)).all()
        short += not weights.all()
    assert shapes == {(8, 12), (4, 18), (4, LENGTH)}
    assert all(rows * width <= 100 < (rows + 2) * width for rows, width in shapes)
    assert 0 < short < 16  # the last one of a window
    with pytest.raises(UsageError, match="so at least 48"):
        token_buckets((8, LENGTH), 40, shares=2)


def test_replicas_share_a_batch_of_tokens(source):
    batches = batches_of(source, TOKENS)
    halves = list(batches.training(per_batch=3).take(30))
    for i, batch in enumerate(batches.training().take(15)):
        joined = {n: np.concatenate([halves[2 * i][n], halves[2 * i + 1][n]]) for n in batch}
        assert same(joined, {n: v.numpy() for n, v in batch.items()})


def test_a_transform_that_lengthens_texts_loses_none_of_them(source):
    def doubled(features):
        ids, real = tf.repeat(features["token_ids"], 2, axis=1), tf.repeat(features["padding_mask"], 2, axis=1)
        return {**features, "token_ids": ids, "padding_mask": real}

    wide = token_buckets((8, 16, LENGTH, 2 * LENGTH), 150)
    plain = {id_: row for row, id_ in tokens_of(batches_of(source, None).training().take(40))}
    for row, id_ in tokens_of(batches_of(source, wide, mask=doubled).training().take(10)):
        assert row == np.repeat(plain[id_], 2).tolist()


def tokens_of(stream):
    """(the tokens of a row, the first id that tells its example)."""
    for batch in stream:
        for ids, real in zip(batch["token_ids"].numpy(), batch["padding_mask"].numpy(), strict=True):
            if real.any():
                yield ids[real].tolist(), next(i for i in ids.tolist() if i >= 5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("grouping", [BUCKETS, TOKENS], ids=["buckets", "tokens"])
def test_translations_are_grouped_by_their_longer_side_and_keep_both(source, grouping):
    settings = dataclasses.replace(source.manifest.settings, packing="parallel")
    source = RecordSource(source.name, dataclasses.replace(source.manifest, settings=settings))
    whole = Batches(source, frame_parallel(VOCABULARY, LENGTH), 6, 5)
    expected = {pair[0][0]: pair for batch in whole.once() for pair in pairs_of(batch)}
    found, wide = {}, 0
    for batch in dataclasses.replace(whole, grouping=grouping).training():
        if batch["cursor"][0, 0] > 0:
            break
        assert batch["token_ids"].shape == batch["labels"].shape == batch["target_ids"].shape
        assert batch["label_weights"].shape == batch["padding_mask"].shape
        wide += batch["token_ids"].shape[1] > 18
        found |= {pair[0][0]: pair for pair in pairs_of(batch)}
    assert found == expected and len(found) == 100 and wide <= 4  # the last one of each window


def pairs_of(batch):
    """The real tokens of both sides of every row."""
    sides = zip(*(batch[n].numpy() for n in ("token_ids", "padding_mask", "labels", "label_weights")), strict=True)
    return [(ids[real].tolist(), labels[weights > 0].tolist()) for ids, real, labels, weights in sides if real.any()]


@pytest.mark.parametrize("counts", [(0, 0, 3), (8, 0, 0), (5, 7, 1), (100, 31, 17)])
def test_groups_of_tokens_hold_every_example_once(counts):
    lengths = np.repeat([8, 13, 20], counts)
    table = TOKENS.table(np.random.default_rng(0).permutation(lengths))
    assert sorted(table[table >= 0].tolist()) == list(range(len(lengths)))
    bucket = -2 - table[:, -1]
    assert ((table >= -1).sum(axis=1) == np.array(TOKENS.sizes)[bucket]).all()
    assert (table == -1).sum() < TOKENS.sizes[-1]
    real = int(lengths.sum())
    assert padding_share(lengths, TOKENS, LENGTH, 6) == pytest.approx(
        1 - real / sum(TOKENS.sizes[b] * TOKENS.lengths[b] for b in bucket)
    )


def test_arrays_are_bucketed_too():
    lengths = np.random.default_rng(0).integers(2, 33, 101)
    mask = np.arange(32)[None] < lengths[:, None]
    ids = np.where(mask, np.arange(101)[:, None] + 1, 0)
    source = ArraySource({"token_ids": ids, "padding_mask": mask}, "arrays")
    grouping = buckets("auto", lengths, 32)
    found, computed = [], 0
    for batch in Batches(source, lambda features: features, 8, 1, grouping=grouping).training().take(13):
        found += batch["token_ids"].numpy()[:, 0].tolist()
        computed += batch["token_ids"].shape[0] * batch["token_ids"].shape[1]
    assert sorted(found) == [0] * 3 + list(range(1, 102))  # three rows fill up the last batch
    before, after = (padding_share(lengths, g, 32, 8) for g in (None, grouping))
    assert before == pytest.approx(1 - lengths.mean() / 32)
    assert after == pytest.approx(1 - lengths.sum() / computed) and after < 0.7 * before


@pytest.mark.parametrize("is_of_tokens", [False, True])
def test_an_evaluation_set_is_read_once_by_length_and_says_where_its_rows_stand(is_of_tokens):
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 17, 53)
    real = np.arange(20) < lengths[:, None]
    arrays = {"token_ids": (draw.integers(1, 99, (53, 20)) * real).astype("int32"), "padding_mask": real}
    arrays["labels"] = np.arange(53, dtype="int32")
    grouping = token_buckets((4, 9, 20), 80) if is_of_tokens else Buckets((4, 9, 20))
    batches = Batches(ArraySource(arrays, "set"), compose(), 8, grouping=grouping)
    found, places = batches.once_by_length()
    found = list(found)
    assert {batch["token_ids"].shape[1] for batch in found} == {4, 9, 20} and "cursor" not in found[0]
    weights = np.concatenate([batch["example_weights"] for batch in found])
    labels = np.concatenate([batch["labels"] for batch in found])[weights > 0]
    np.testing.assert_array_equal(labels, places)
    assert sorted(places) == list(range(53)) and all(batch["labels"].shape == (8,) for batch in found)
    rows = np.concatenate([np.pad(b["token_ids"], [(0, 0), (0, 20 - b["token_ids"].shape[1])]) for b in found])
    np.testing.assert_array_equal(rows[weights > 0], arrays["token_ids"][places])


def test_targets_that_are_longer_than_all_sources_are_bucketed_by_their_own_length():
    rng = np.random.default_rng(0)
    source, target = rng.integers(2, 9, 40), rng.integers(2, 25, 40)
    mask, used = np.arange(8)[None] < source[:, None], np.arange(24)[None] < target[:, None]
    labels = np.where(used, np.arange(40)[:, None] + 1, 0)
    arrays = ArraySource(
        {"token_ids": mask * 1, "padding_mask": mask, "labels": labels, "target_ids": labels, "label_weights": used * 1.0}, "arrays"
    )  # fmt: skip
    for options in (
        {"length_buckets": "8,16", "tokens_per_batch": None},
        {"length_buckets": None, "tokens_per_batch": 96},
    ):
        given = types.SimpleNamespace(**options, train_batch_size=4, gradient_accumulation_steps=1, task="translate")
        grouping, rows, per_epoch = choose_batches(given, arrays, 1)
        found = collections.Counter()
        for batch in Batches(arrays, lambda features: features, rows, 1, grouping=grouping).training().take(per_epoch):
            found.update(batch["labels"].numpy()[batch["label_weights"].numpy() > 0].tolist())
        assert [found[number + 1] for number in range(40)] == target.tolist()


def test_lengths_that_are_found_form_batches_only_where_that_saves_padding(capsys):
    def chosen(rows, length_buckets):
        mask = np.arange(16)[None] < np.random.default_rng(0).integers(1, 17, rows)[:, None]
        arrays = ArraySource({"token_ids": mask * 1, "padding_mask": mask}, "arrays")
        given = types.SimpleNamespace(
            length_buckets=length_buckets, tokens_per_batch=None, train_batch_size=32, gradient_accumulation_steps=1, task="classify"
        )  # fmt: skip
        return choose_batches(given, arrays, 1)

    assert chosen(4000, "auto")[0] is not None
    assert chosen(40, "auto") == (None, 32, 40 / 32) and "not formed by length" in capsys.readouterr().out
    assert chosen(40, "8")[0] is not None  # who names lengths gets them


def test_places_of_tokens_move_where_padding_before_them_is_cut():
    mask = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]], bool)
    features = {"token_ids": np.arange(12).reshape(2, 6), "padding_mask": mask, "span_roles": mask * 1}
    features |= {"start_positions": np.array([4, 2], np.int32), "end_positions": np.array([5, 5], np.int32)}
    found = shorten_features(
        {name: tf.constant(value) for name, value in features.items()}, longest({"padding_mask": tf.constant(mask)})
    )
    assert found["span_roles"].shape == found["token_ids"].shape == (2, 4)
    for name in ("start_positions", "end_positions"):
        asked = features["token_ids"][np.arange(2), features[name]]
        assert found["token_ids"].numpy()[np.arange(2), found[name].numpy()].tolist() == asked.tolist()


@pytest.mark.long
def test_hosts_share_the_tokens_of_a_batch(source):
    sizes = {len(b["token_ids"]) for b in batches_of(source, TOKENS).training(host=1, num_hosts=2).take(8)}
    assert sizes == {4, 2}  # of 8, 4 and 4


@pytest.mark.long
def test_a_run_whose_batches_are_grouped_otherwise_goes_on_with_the_next_epoch(options, tmp_path, capfd):
    given = dataclasses.replace(options, length_buckets="24", num_train_steps=3)
    pretrain(given)
    for size, said in ((4, False), (8, True)):
        pretrain(dataclasses.replace(given, train_batch_size=size, num_train_steps=given.num_train_steps + size // 4))
        out = capfd.readouterr()
        assert ("grouped otherwise than before: reading goes on with the next epoch" in out.out + out.err) == said
    cursor = json.loads(pathlib.Path(given.model_dir, "checkpoints/step_00000005/state.json").read_text())["cursors"]
    assert cursor == [[1, 0, 1]]


def test_buckets_of_a_flag():
    lengths = np.array([3, 9, 30, 60])
    assert buckets("64,32,256", lengths, 128) == Buckets((32, 64, 128))
    assert buckets("auto", lengths, 128).lengths[-1] == 128
    for wrong in ("32,x", "0,8", ""):
        with pytest.raises(UsageError, match="--length_buckets"):
            buckets(wrong, lengths, 128)


@pytest.mark.parametrize("seed", range(5))
def test_packing_puts_every_example_into_one_row_that_holds_it(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 65, 500)
    rows = pack(lengths, 64, 8)
    placed = rows[rows >= 0]
    assert sorted(placed.tolist()) == list(range(500))
    assert (np.where(rows >= 0, lengths[rows], 0).sum(axis=1) <= 64).all()
    assert (pack(lengths, 64, 8) == rows).all()
    assert (np.diff(np.where(rows >= 0, 0, 1), axis=1) >= 0).all()  # a row is filled from the left
    # Half of these are longer than half a row of 64, so little fits beside them; in longer rows nearly nothing is lost.
    assert padding_share(lengths, Rows(128, 16, 9), 64, 8) < 0.03 < 0.4 < padding_share(lengths, None, 64, 8)


def test_rows_hold_several_examples_and_little_padding(source):
    real = total = 0
    rows = Rows(2 * LENGTH, 12, slots(2 * LENGTH, 12, 0.15, 4))
    for batch in batches_of(source, rows).training().take(20):
        real += batch["padding_mask"].numpy().sum()
        total += batch["padding_mask"].numpy().size
        assert batch["token_ids"].shape == (6, 2 * LENGTH) and batch["next_sentence_labels"].shape == (6, 12)
    assert real / total > 0.85  # a window of 32 examples fills nine rows, and the last one only in part


@pytest.fixture
def network():
    keras.utils.set_random_seed(0)
    config = BertConfig(
        vocabulary_size=305, hidden_dim=32, num_layers=2, num_heads=4, intermediate_dim=64, max_sequence_length=LENGTH,
        initializer_stddev=0.2,
    )  # fmt: skip
    return Bert(config).initialize(), config


def packed_and_alone(source):
    """The same masked examples one in a row, and packed in this order."""
    alone = next(iter(batches_of(source, None, 40, MASK).training()))
    lengths = tf.reduce_sum(tf.cast(alone["padding_mask"], tf.int64), axis=1).numpy()
    rows = pack(lengths, 2 * LENGTH, 7)
    order = rows[rows >= 0]
    alone = {name: tf.gather(value, order) for name, value in alone.items()}
    op = pack_rows(2 * LENGTH, 7, slots(2 * LENGTH, 7, 0.15, 4))
    return alone, op(alone, tf.constant(np.nonzero(rows >= 0)[0]), len(rows)), rows


def test_packed_rows_give_the_outputs_of_the_same_examples_alone(source, network):
    """Rows are longer than the table of positions, which start anew in each example."""
    backbone, _ = network
    alone, packed, rows = packed_and_alone(source)
    one, many = backbone(alone), backbone(packed)
    np.testing.assert_allclose(
        np.array(many["sequence_output"])[packed["padding_mask"].numpy()],
        np.array(one["sequence_output"])[alone["padding_mask"].numpy()], atol=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose(np.array(many["pooled_output"])[rows >= 0], np.array(one["pooled_output"]), atol=1e-5)
    assert (rows >= 0).sum(axis=1).max() > 2


def test_packed_rows_give_the_losses_of_the_same_examples_alone(source, network):
    backbone, config = network
    alone, packed, _ = packed_and_alone(source)
    for objective in (MaskedLM(config), NextSentence(config)):
        results = [objective.score(backbone(batch), batch, backbone) for batch in (alone, packed)]
        for kind in range(2):
            for name, (total, weight) in results[0][kind].items():
                np.testing.assert_allclose(float(results[1][kind][name][0]), float(total), rtol=1e-5)
                assert float(results[1][kind][name][1]) == float(weight) > 30


def test_no_hidden_token_is_lost_where_rows_are_full(source):
    alone, packed, _ = packed_and_alone(source)
    assert packed["label_weights"].numpy().sum() == alone["label_weights"].numpy().sum()
    used = packed["label_weights"].numpy() > 0
    assert sorted(packed["labels"].numpy()[used]) == sorted(alone["labels"].numpy()[alone["label_weights"].numpy() > 0])


@pytest.fixture
def options(records, small_config, tmp_path):
    return Options(
        system="bert", model_dir=str(tmp_path / "run"), data_dir=records, model_config_file=small_config,
        num_train_steps=6, train_batch_size=4, learning_rate=1e-3, num_warmup_steps=1, optimizer="bert_adamw",
        save_checkpoints_steps=3, log_steps=3, eval_steps=1,
    )  # fmt: skip


def weights(run):
    return read_weights(os.path.join(run, "backbone", "weights.safetensors"))


def difference(first, second):
    return max(np.abs(a - b).max() for a, b in zip(weights(first).values(), weights(second).values(), strict=True))


def no_dropout(options, tmp_path):
    path = tmp_path / "no_dropout.json"
    with open(options.model_config_file) as file:
        path.write_text(file.read().replace('_prob": 0.1', '_prob": 0.0'))
    return dataclasses.replace(options, model_config_file=str(path))


@pytest.mark.long
def test_training_on_packed_rows_resumes_bitwise(options, tmp_path, capfd):
    resumes_bitwise(dataclasses.replace(options, pack_rows=True, pack_row_length=64), tmp_path)
    assert "padding" in capfd.readouterr().out


@pytest.mark.long
def test_training_on_buckets_gives_the_same_with_two_replicas_as_with_one(options, tmp_path, capfd):
    # With BERT's 1e-6 the rounding of gradients near zero grew to 9e-7 in the weights.
    options = no_dropout(dataclasses.replace(options, adam_epsilon=1e-4, length_buckets="24"), tmp_path)
    pretrain(options)
    assert "padding" in capfd.readouterr().out
    two = dataclasses.replace(
        options, model_dir=str(tmp_path / "two"), distribution_strategy="mirrored", jit_compile=True
    )
    pretrain(two)
    assert difference(options.model_dir, two.model_dir) < 1e-6


@pytest.mark.long
def test_training_on_batches_of_tokens_resumes_bitwise(options, tmp_path, capfd):
    resumes_bitwise(dataclasses.replace(options, train_batch_size=None, tokens_per_batch=200), tmp_path)
    assert "Batches of " in capfd.readouterr().out


def resumes_bitwise(options, tmp_path):
    pretrain(options)
    halved = dataclasses.replace(options, model_dir=str(tmp_path / "halved"))
    shutil.copytree(options.model_dir, halved.model_dir)
    for gone in ("checkpoints/step_00000006", "backbone"):
        shutil.rmtree(os.path.join(halved.model_dir, gone))
    pretrain(dataclasses.replace(halved, resume="must"))
    assert difference(options.model_dir, halved.model_dir) == 0.0


@pytest.mark.long
def test_packing_says_what_it_cannot_do(options, static_records, zh_vocabulary, monkeypatch):
    wrong = [
        ({"pack_rows": True, "length_buckets": "auto"}, "choose one"),
        ({"pack_rows": True, "pack_row_length": 16}, "shorter than the examples"),
        ({"tokens_per_batch": 512}, "both say how large a batch is"),
        ({"tokens_per_batch": 512, "pack_rows": True, "train_batch_size": None}, "rows are full already"),
        ({"tokens_per_batch": 16, "train_batch_size": None}, "must hold one example of 32 tokens"),
        ({"pack_rows": True, "data_dir": None, "input_file": os.path.join(static_records, "*.tfrecord"),
          "vocab_file": zh_vocabulary}, "do not say how many tokens"),
    ]  # fmt: skip
    for changes, message in wrong:
        with pytest.raises(UsageError, match=message):
            pretrain(dataclasses.replace(options, **changes))
    monkeypatch.setattr(Bert, "may_read", Backbone.may_read)
    with pytest.raises(UsageError, match="does not read rows of several examples"):
        pretrain(dataclasses.replace(options, pack_rows=True))


def with_characters(count=40):
    """A source of words with their characters, int32 (N, L, 50): three times the id of the word, and its place."""
    rng = np.random.default_rng(0)
    real = np.arange(12) < rng.integers(2, 13, count)[:, None]
    token_ids = rng.integers(1, 90, (count, 12)) * real
    characters = (3 * token_ids[..., None] + np.arange(50)) * real[..., None]
    return ArraySource(
        {
            "token_ids": token_ids.astype(np.int32), "segment_ids": np.zeros_like(token_ids, np.int32), "padding_mask": real,
            "character_ids": characters.astype(np.int32), "label_weights": real.astype(np.float32),
            "labels": token_ids.astype(np.int32), "mask_positions": np.arange(12, dtype=np.int32) * real,
        },
        "words",
    )  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("grouping", [None, Buckets((4, 8, 12)), token_buckets((6, 12), 48), Rows(24, 4, 24)])
def test_what_stands_beside_each_word_stays_beside_it(grouping):
    batches = Batches(with_characters(), lambda features: features, 4, grouping=grouping)
    assert batches.zeros()["character_ids"].shape == (4, 12, 50)
    for batch in batches.training().take(12):
        ids, real = batch["token_ids"].numpy(), batch["padding_mask"].numpy()
        expected = (3 * ids[..., None] + np.arange(50)) * real[..., None]
        assert real.any()
        np.testing.assert_array_equal(batch["character_ids"], expected)


def test_much_padding_without_groups_suggests_them():
    def suggested(lengths, **more):
        mask = np.arange(64)[None] < np.asarray(lengths)[:, None]
        return bucket_suggestion(ArraySource({"token_ids": mask * 1, "padding_mask": mask, **more}, "arrays"), 8)

    short = [8] * 900 + [64] * 20
    assert "86% of all batches are padding; --length_buckets=auto makes batches by length, with " in suggested(short)
    assert suggested([40] * 400 + [64] * 20) is None  # padding is the smaller part
    assert suggested([8] * 6 + [64]) is None  # no groups save much of so few
    assert suggested(short, segment_lengths=np.zeros((920, 2))) is None  # rows that take no groups
