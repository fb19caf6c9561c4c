"""Packing whole sentences: the invariants of RoBERTa's inputs (Liu et al., 2019, section 4.2)."""

import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import DataError, UsageError
from data_pipelines.ops.compose import compose
from data_pipelines.ops.corruption import mask_whole_words
from data_pipelines.ops.framing import frame_pair
from data_pipelines.pretraining import job as pretraining_data
from data_pipelines.pretraining.job import Settings
from data_pipelines.pretraining.stages.sentences import doc_sentences, full_sentences
from data_pipelines.pretraining.stages.tokenize import Tokens
from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import CLS, MASK, SEP, Vocabulary
from xmodels.jobs.pretrain.run import Options, pretrain

SEPARATOR = np.array([7], np.int32)
LENGTH = 32


@pytest.fixture
def documents():
    """60 documents of sentences of 1 to 20 pieces, and now and then one that no example can hold."""
    rng = random.Random(5)
    numbers = iter(range(1000, 10**6))

    def sentence():
        return [next(numbers) for _ in range(rng.randint(1, 20) if rng.random() < 0.95 else 70)]

    return [[sentence() for _ in range(rng.randint(1, 12))] for _ in range(60)]


def tokens(documents):
    return [token for document in documents for sentence in document for token in sentence]


def segments(stage, documents):
    flat = (
        Tokens(np.array(tokens([d]), np.int32), list(itertools.accumulate(map(len, d), initial=0))) for d in documents
    )
    found = list(stage(flat))
    assert all(not examples.labels and examples.spans.shape[1:] == (1, 2) for examples in found)
    return [e.marked[a:b].tolist() for e in found for a, b in e.spans[:, 0]]


def test_full_sentences_hold_the_whole_corpus_in_order(documents):
    chunks = segments(full_sentences(LENGTH, SEPARATOR), documents)
    assert [t for chunk in chunks for t in chunk if t != 7] == tokens(documents)
    assert max(map(len, chunks)) <= LENGTH - 2
    assert all(chunk[0] != 7 and chunk[-1] != 7 for chunk in chunks)


def test_full_sentences_are_full(documents):
    """Every example but the last is too long for the sentence that opens the next one."""
    chunks = segments(full_sentences(LENGTH, SEPARATOR), documents)
    opening = {sentence[0]: len(sentence) for document in documents for sentence in document}
    for chunk, following in zip(chunks, chunks[1:], strict=False):
        if following[0] in opening:  # otherwise it goes on with a sentence that had to be cut
            assert len(chunk) + 1 + min(opening[following[0]], LENGTH - 2) > LENGTH - 2


def test_full_sentences_set_a_separator_exactly_where_a_document_ends(documents):
    chunks = segments(full_sentences(LENGTH, SEPARATOR), documents)
    of = {t: number for number, document in enumerate(documents) for t in tokens([document])}
    for chunk in chunks:
        for left, right in zip(chunk, chunk[1:], strict=False):
            if 7 not in (left, right):
                assert of[left] == of[right]
        for place, token in enumerate(chunk):
            assert token != 7 or of[chunk[place - 1]] + 1 == of[chunk[place + 1]]


def test_doc_sentences_never_mix_documents_and_lose_nothing(documents):
    chunks = segments(doc_sentences(LENGTH), documents)
    of = {t: number for number, document in enumerate(documents) for t in tokens([document])}
    assert all(len({of[t] for t in chunk}) == 1 and len(chunk) <= LENGTH - 2 for chunk in chunks)
    assert [t for chunk in chunks for t in chunk] == tokens(documents)


def test_passes_repeat_every_document(documents):
    found = [t for chunk in segments(doc_sentences(LENGTH, 3), documents) for t in chunk]
    assert found == [t for document in documents for t in 3 * tokens([document])]


def test_passes_over_full_rows_repeat_the_rows_so_that_none_holds_a_document_twice(documents):
    once, thrice = (segments(full_sentences(LENGTH, SEPARATOR, passes), documents) for passes in (1, 3))
    assert [list(chunk) for chunk in thrice] == 3 * [list(chunk) for chunk in once]


@pytest.fixture
def full_records(tmp_path, zh_vocabulary):
    text = tmp_path / "text.txt"
    text.write_text(
        "\n\n".join(f"今天天气很好。\n我们去公园散步。\n第{i}天下雨了。" for i in "一二三四五六七八九十" * 12), "utf-8"
    )
    settings = Settings(
        input_file=str(text), vocab_file=zh_vocabulary, language="zh", do_whole_word_mask=True, segmenter="jieba",
        packing="full_sentences", max_seq_length=40, max_predictions_per_seq=6,
    )  # fmt: skip
    folder = str(tmp_path / "full")
    pretraining_data.create(settings, folder)
    return folder


def test_separators_inside_an_example_are_neither_hidden_nor_hide_the_bounds_of_words(full_records, zh_vocabulary):
    vocabulary = Vocabulary.read(zh_vocabulary)
    source = RecordSource(full_records)
    assert "next_sentence_labels" not in source.features
    frame = frame_pair(vocabulary, 40)
    mask = mask_whole_words(vocabulary[MASK], len(vocabulary), 0.5, 20)
    framed = list(Batches(source, frame, 16).once())
    inner = sum(int(tf.reduce_sum(tf.cast(b["token_ids"] == vocabulary[SEP], tf.int32))) for b in framed)
    assert inner > 1.5 * source.num_examples  # one closes an example, the others stand between documents
    for batch, clean in zip(Batches(source, compose(frame, mask), 16).once(), framed, strict=True):
        special = np.isin(clean["token_ids"], [vocabulary[CLS], vocabulary[SEP]])
        np.testing.assert_array_equal(batch["token_ids"].numpy()[special], clean["token_ids"].numpy()[special])
        hidden = batch["label_weights"].numpy() > 0
        labels = batch["labels"].numpy()[hidden]
        assert len(labels) and not np.isin(labels, [vocabulary[CLS], vocabulary[SEP]]).any()
        assert (clean["segment_ids"].numpy() == 0).all()


def test_bert_says_which_packing_it_needs(full_records, small_config, tmp_path):
    options = Options(
        system="bert", model_dir=str(tmp_path / "run"), data_dir=full_records, model_config_file=small_config
    )
    with pytest.raises(DataError, match="next_sentence_labels.*Make them with --packing=segment_pair"):
        pretrain(options)
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_roberta_wwm_trains_on_full_sentences(full_records, small_config, tmp_path):
    options = Options(
        system="roberta_wwm", model_dir=str(tmp_path / "run"), data_dir=full_records, model_config_file=small_config,
        num_train_steps=150, train_batch_size=16, learning_rate=1e-2, num_warmup_steps=5, eval_steps=2,
    )  # fmt: skip
    means = pretrain(options)
    assert means["masked_lm_accuracy"] > 0.5 and "next_sentence" not in means


def test_static_records_of_full_sentences_hold_google_s_layout(full_records, tmp_path, zh_vocabulary):
    vocabulary = Vocabulary.read(zh_vocabulary)
    settings = Settings(
        input_file=str(tmp_path / "text.txt"), vocab_file=zh_vocabulary, language="zh", packing="full_sentences", masking="static",
        max_seq_length=40, max_predictions_per_seq=6,
    )  # fmt: skip
    pretraining_data.create(settings, str(tmp_path / "static"))
    source = RecordSource(str(tmp_path / "static"))
    for batch in Batches(source, lambda features: features, 16).once(2):
        sep, positions = batch["input_ids"].numpy() == vocabulary[SEP], batch["masked_lm_positions"].numpy()
        used = batch["masked_lm_weights"].numpy() > 0
        assert not np.isin(batch["masked_lm_ids"].numpy()[used], [vocabulary[CLS], vocabulary[SEP]]).any()
        assert (sep.sum(axis=1) >= 2).any() and (positions[used] > 0).all()
        assert (batch["segment_ids"].numpy() == 0).all() and (batch["next_sentence_labels"].numpy() == 0).all()


def test_an_unknown_packing_is_refused():
    with pytest.raises(UsageError, match="--packing=pairs: unknown. Known: .*segment_pair"):
        Settings(input_file="x", vocab_file="y", packing="pairs").check()
