"""Numbers of tokens in place of their spelling: they become what they stand for, and nobody sees a difference."""

import numpy as np
import pytest

from data_pipelines.arrays import CodedArray, arrays_sha256
from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.grouping import Buckets
from data_pipelines.text import codes
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.open_words import OpenWordTokenizer
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXTS = [("a new word", "a"), ("", "old"), ("word other new new", "日本"), ("a", "")]


@pytest.fixture
def tokenizer():
    return OpenWordTokenizer(Vocabulary([*SPECIAL_TOKENS, "a", "word"]))


def packed(tokenizer, coded: bool) -> dict:
    return pack_texts(TEXTS, tokenizer, 9, coded=coded)


def test_codes_are_the_spelling_of_each_token_once(tokenizer, monkeypatch):
    whole = packed(tokenizer, False)
    monkeypatch.setattr(codes, "TOGETHER", 3)
    found = packed(tokenizer, True)
    characters = found["character_ids"]
    assert isinstance(characters, CodedArray) and characters.shape == whole["character_ids"].shape
    for name, value in whole.items():
        np.testing.assert_array_equal(np.asarray(found[name]), value)
        assert np.asarray(found[name]).dtype == value.dtype
    assert len(np.unique(characters.table, axis=0)) == len(characters.table)
    np.testing.assert_array_equal(np.asarray(characters[1::2]), whole["character_ids"][1::2])


def test_their_sha256_is_that_of_the_whole_arrays(tokenizer, monkeypatch):
    expected = arrays_sha256(packed(tokenizer, False))
    assert arrays_sha256(packed(tokenizer, True)) == expected
    monkeypatch.setattr("data_pipelines.arrays.TOGETHER", 3)
    assert arrays_sha256(packed(tokenizer, True)) == expected == arrays_sha256(packed(tokenizer, False))


@pytest.mark.parametrize("grouping", [None, Buckets((5, 8))])
def test_batches_of_codes_are_those_of_the_whole_arrays(tokenizer, grouping):
    found = []
    for coded in (False, True):
        source = ArraySource({**packed(tokenizer, coded), "labels": np.arange(4, dtype=np.int32)}, "texts")
        batches = Batches(source, lambda features: features, 3, grouping=grouping)
        read = [*batches.training().take(4), *batches.once(), *([*batches.once_by_length()[0]] if grouping else [])]
        found.append([{name: value.numpy() for name, value in batch.items()} for batch in read])
    for whole, coded in zip(*found, strict=True):
        assert whole.keys() == coded.keys()
        for name, value in whole.items():
            np.testing.assert_array_equal(coded[name], value)


def test_a_vocabulary_without_features_has_no_codes():
    assert not codes.Codes(Vocabulary([*SPECIAL_TOKENS, "a"])).of([5])
