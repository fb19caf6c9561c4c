"""Rows of numbers beside words, as many as each word has: records hold no more, and batches have one shape."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

from data_pipelines import layout, layouts
from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.grouping import Buckets, Rows
from data_pipelines.batches.token_buckets import token_buckets
from data_pipelines.errors import DataError
from data_pipelines.features import Feature, lengths_of
from data_pipelines.records.encoding import encode_examples, ragged_columns
from data_pipelines.records.manifest import MANIFEST, Manifest, RecordSettings
from data_pipelines.records.shards import ShardWriter
from data_pipelines.records.source import RecordSource
from data_pipelines.text.plain_units import WordTokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from data_pipelines.units.ngrams import NGrams
from xmodels.models.elmo import SIZES, ElmoConfig
from xmodels.objectives.base import Objective
from xmodels.training.watching.flops import forward_flops
from xmodels.training.watching.memory_need import activation_bytes

MOST, LENGTH = 9, 6
TEXTS = ["the cat sat", "a", "hello sat a cat", "", "the hello cat a sat the", "cat the"] * 4
LAYOUT = f'''"""Words with the rows of their parts."""

import numpy as np

from data_pipelines.features import Feature
from data_pipelines.layout import Layout

LAYOUT = Layout(
    features=lambda settings: {{
        "token_ids": Feature((None,)), "ngram_ids": Feature((None, {MOST}), is_ragged=True), "num_words": Feature((1,)),
    }},
    stage=None, columns=None, lengths=lambda parsed: parsed["num_words"][:, 0], measured=("num_words",),
    width=lambda length: length, ids=("token_ids",), show=None,
)
'''


def units():
    return NGrams(WordTokenizer(Vocabulary([*SPECIAL_TOKENS, "the", "cat", "sat", "a", "hello"])), 3, 4, buckets=500)


def columns_of(texts):
    """The columns of texts: the parts of each word, without what fills up."""
    found = [units().offline(text) for text in texts]
    words = [each["token_ids"] for each in found]
    parts = [[row[row > 0] for row in each["ngram_ids"]] for each in found]
    counts = np.array(list(map(len, words)))
    return {
        "token_ids": (np.concatenate(words), counts), "num_words": counts[:, None], **ragged_columns("ngram_ids", parts, MOST),
    }  # fmt: skip


def expected(texts):
    """The same as arrays (N, LENGTH, MOST)."""
    arrays = np.zeros((len(texts), LENGTH, MOST), np.int64)
    for row, text in zip(arrays, texts, strict=True):
        found = units().offline(text)["ngram_ids"][:, :MOST]
        row[: len(found), : found.shape[1]] = found
    return arrays


@pytest.fixture
def source(tmp_path, monkeypatch):
    (tmp_path / "parts_of_words.py").write_text(LAYOUT)
    monkeypatch.setattr(layouts, "__path__", [*layouts.__path__, str(tmp_path)])
    monkeypatch.setattr(layouts.__spec__, "submodule_search_locations", layouts.__path__)
    with ShardWriter(str(tmp_path / "records-00000-of-00001.tfrecord")) as writer:
        writer.write(*encode_examples(columns_of(TEXTS)))
    settings = RecordSettings.of({"max_sequence_length": LENGTH, "packing": "parts_of_words", "masking": "dynamic"})
    Manifest(layout.find("parts_of_words").features(None), [writer.shard()], settings, {}).write(str(tmp_path))
    yield RecordSource(str(tmp_path))
    sys.modules.pop("data_pipelines.layouts.parts_of_words", None)


def test_records_hold_the_numbers_that_there_are_and_give_arrays_of_one_width(source):
    assert source.features["ngram_ids"] == Feature((None, MOST), is_ragged=True), "also after the manifest"
    record = next(iter(tf.data.TFRecordDataset(source.paths)))
    held = tf.train.Example.FromString(record.numpy()).features.feature
    assert len(held["ngram_ids"].int64_list.value) == (expected(TEXTS[:1]) > 0).sum()
    assert (
        list(held[lengths_of("ngram_ids")].int64_list.value) == (expected(TEXTS[:1]) > 0).sum(axis=-1)[0, :3].tolist()
    )
    parsed = next(iter(tf.data.TFRecordDataset(source.paths).batch(len(TEXTS)).map(source.parse)))
    np.testing.assert_array_equal(parsed["ngram_ids"], expected(TEXTS))
    np.testing.assert_array_equal((parsed["ngram_ids"].numpy() > 0).any(axis=-1), parsed["token_ids"].numpy() > 0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("grouping", [None, Buckets((2, 4, LENGTH)), token_buckets((3, LENGTH), 24), Rows(12, 4, 12)])
def test_rows_stay_beside_their_words_in_batches_and_zeros_have_their_shape(source, grouping):
    def op(features):
        ids = tf.cast(features["token_ids"], tf.int32)
        return {
            "token_ids": ids, "segment_ids": tf.zeros_like(ids), "padding_mask": ids > 0, "ngram_ids": features["ngram_ids"],
            "labels": ids, "label_weights": tf.cast(ids > 0, tf.float32), "mask_positions": tf.zeros_like(ids),
        }  # fmt: skip

    batches = Batches(source, op, 4, grouping=grouping)
    assert batches.zeros()["ngram_ids"].shape[2:] == (MOST,)
    of_word = {}
    for text in TEXTS:
        found = units().offline(text)
        of_word |= {int(i): [r for r in row if r][:MOST] for i, row in zip(*found.values(), strict=True)}
    seen = 0
    for batch in batches.training().take(6):
        for word, row in zip(
            batch["token_ids"].numpy().ravel(), batch["ngram_ids"].numpy().reshape(-1, MOST), strict=True
        ):
            assert row[row > 0].tolist() == of_word.get(int(word), [])
            seen += bool(word)
    assert seen


class Parts(Objective):
    """A score of each part of each word."""

    def __init__(self):
        super().__init__()
        self.score_of = layers.Dense(5)

    def forward(self, backbone, batch, training=None):
        return self.score_of(ops.one_hot(batch["ngram_ids"] % 7, 7))

    def score(self, outputs, batch, backbone):
        return {"parts": (ops.sum(outputs), ops.sum(ops.cast(batch["padding_mask"], "float32")))}, {}


def test_estimates_grow_with_the_numbers_beside_a_word():
    def flops(most):
        batch = {"ngram_ids": tf.zeros((2, 3, most), tf.int32), "padding_mask": tf.ones((2, 3), tf.bool)}
        return forward_flops(None, Parts(), batch)

    assert flops(MOST) == 2 * 2 * 3 * MOST * 7 * 5 and flops(2 * MOST) == 2 * flops(MOST)
    config = ElmoConfig(50, **SIZES["tiny"])
    more = dataclasses.replace(config, num_filters=tuple(2 * number for number in config.num_filters))
    difference = activation_bytes(more, 4, LENGTH) - activation_bytes(config, 4, LENGTH)
    assert difference == 4 * 4 * LENGTH * 50 * sum(config.num_filters), "of each of the 50 characters of a word"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c | {lengths_of("ngram_ids"): (c[lengths_of("ngram_ids")][0] * 0, c[lengths_of("ngram_ids")][1])}, "its rows 0"),
        (lambda c: {name: value for name, value in c.items() if name != lengths_of("ngram_ids")}, "its rows 0"),
        (lambda c: c | ragged_columns("ngram_ids", [[[1] * (MOST + 1)]] * len(TEXTS), MOST + 1), "has a row of 10"),
    ],
)  # fmt: skip
def test_rows_that_are_not_what_the_manifest_says_are_named(source, tmp_path, change, says):
    folder = tmp_path / "wrong"
    folder.mkdir()
    with ShardWriter(str(folder / "records-00000-of-00001.tfrecord")) as writer:
        writer.write(*encode_examples(change(columns_of(TEXTS))))
    dataclasses.replace(source.manifest, shards=[writer.shard()]).write(str(folder))
    with pytest.raises(DataError, match=f"record 0: `ngram_ids` .*{says}"):
        RecordSource(str(folder))


def test_a_manifest_whose_ragged_feature_has_no_bound_is_refused(source, tmp_path):
    path = tmp_path / MANIFEST
    value = {key: each for key, each in json.loads(path.read_text()).items() if key != "sha256"}
    value["features"]["ngram_ids"]["shape"] = [None, None]
    path.write_text(json.dumps(value))
    with pytest.raises(DataError, match="`features.ngram_ids.shape` must be null and a size, as it is ragged"):
        Manifest.read(str(tmp_path))
