"""Pairs and static masks are those of Google's `create_pretraining_data.py`, draw by draw."""

import json
import pathlib
import random

import pytest

from data_pipelines.stages.pairs import pairs, segment_pairs, shuffle
from data_pipelines.stages.static_masks import mask_statically
from data_pipelines.stages.tokenize import ids_of, mark, word_starts_of
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer

GOLDEN = pathlib.Path(__file__).parent / "golden" / "bert_create_pretraining_data"
CASES = ["create_data_plain", "create_data_whole_word"]


def read_golden(case):
    config, inputs, outputs = (
        json.loads((GOLDEN / case / f"{n}.json").read_text()) for n in ("config", "inputs", "outputs")
    )
    return config["hyperparameters"], inputs, outputs


def instances(documents, vocabulary, settings, whole_words):
    """What Google's script makes of tokenised documents, with one generator for everything."""
    rng = random.Random(settings["random_seed"])
    documents = list(documents)
    rng.shuffle(documents)
    made = []
    for _ in range(settings["duplicate_factor"]):
        for index in range(len(documents)):
            args = documents, index, settings["max_sequence_length"], settings["short_sequence_probability"], rng
            for pair in segment_pairs(*args):
                made.append(instance(pair, vocabulary, settings, whole_words, rng))
    rng.shuffle(made)
    return made


def instance(pair, vocabulary, settings, whole_words, rng):
    tokens = ["[CLS]", *pair.first, "[SEP]", *pair.second, "[SEP]"]
    special = ("[CLS]", "[SEP]")
    word_start = [None if token in special else not token.startswith("##") for token in tokens]
    rate, most = settings["masked_lm_probability"], settings["max_predictions"]
    masked = mask_statically(tokens, word_start, ("[MASK]", vocabulary), rate, most, whole_words, rng)
    return {
        "tokens": masked.tokens,
        "segment_ids": [0] * (len(pair.first) + 2) + [1] * (len(pair.second) + 1),
        "is_random_next": pair.is_random,
        "masked_positions": masked.positions,
        "masked_labels": masked.labels,
    }


@pytest.mark.parametrize("case", CASES)
def test_documents_are_tokenised_as_google_does(case):
    settings, inputs, outputs = read_golden(case)
    vocabulary = Vocabulary(inputs["vocabulary"])
    tokenizer = WordPieceTokenizer(vocabulary, settings["lower_case"])
    found = [[[vocabulary.tokens[i] for i in tokenizer.encode(s).ids] for s in d] for d in inputs["documents"]]
    assert found == outputs["tokenized_documents"]


@pytest.mark.parametrize("case", CASES)
def test_instances_are_those_of_google_draw_by_draw(case):
    settings, inputs, outputs = read_golden(case)
    found = instances(outputs["tokenized_documents"], inputs["vocabulary"], settings, settings["whole_word_mask"])
    assert len(outputs["instances"]) > 10
    assert found == outputs["instances"]


def test_whole_words_make_no_difference_to_text_without_words_of_many_pieces():
    settings, inputs, outputs = read_golden("create_data_plain")
    documents = [[[t for t in s if not t.startswith("##")] for s in d] for d in outputs["tokenized_documents"]]
    off, on = (instances(documents, inputs["vocabulary"], settings, whole_words) for whole_words in (False, True))
    assert on == off
    with_long_words = outputs["tokenized_documents"]
    off, on = (instances(with_long_words, inputs["vocabulary"], settings, whole_words) for whole_words in (False, True))
    assert on != off


def test_static_masks_hide_words_whole_and_never_more_than_wanted():
    rng = random.Random(0)
    seen = 0
    for _ in range(500):
        length = rng.randint(3, 60)
        starts = [None, *[rng.random() < 0.5 for _ in range(length - 2)], None]
        starts[1] = True
        words = [sum(s is True for s in starts[: i + 1]) if s is not None else None for i, s in enumerate(starts)]
        masked = mask_statically(list(range(length)), starts, (-1, [-2]), 0.15, 5, True, rng)
        assert len(masked.positions) <= min(5, max(1, round(0.15 * length)))
        hidden = {words[p] for p in masked.positions}
        assert None not in hidden
        assert masked.positions == [i for i, word in enumerate(words) if word is not None and word in hidden]
        assert masked.labels == masked.positions  # the tokens were their own places
        assert all(token == i for i, token in enumerate(masked.tokens) if i not in masked.positions)
        seen += len(masked.positions)
    assert seen > 1000


def documents_of(rng, count):
    return [
        [[rng.randrange(1000) for _ in range(rng.randint(1, 30))] for _ in range(rng.randint(1, 9))]
        for _ in range(count)
    ]


def test_pairs_fit_and_true_second_segments_follow_in_the_document():
    rng = random.Random(1)
    numbers = iter(range(10**6))
    documents = [[[next(numbers) for _ in sentence] for sentence in document] for document in documents_of(rng, 60)]
    of_document = {token: i for i, document in enumerate(documents) for sentence in document for token in sentence}
    both = set()
    for _ in range(3):
        for index in range(len(documents)):
            for pair in segment_pairs(documents, index, 40, 0.1, rng):
                assert pair.first and pair.second and len(pair.first) + len(pair.second) <= 37
                assert {of_document[token] for token in pair.first} == {index}
                if not pair.is_random:  # tokens are numbered through, and truncation only cuts at the ends
                    assert {of_document[token] for token in pair.second} == {index}
                    assert pair.second[0] > pair.first[-1]
                else:
                    assert {of_document[token] for token in pair.second} != {index}
                both.add(pair.is_random)
    assert both == {True, False}


def test_blocks_bound_the_memory_and_lose_no_document():
    documents = documents_of(random.Random(2), 200)
    for block_tokens in (1, 500, 10**9):
        taken = 0

        def counted():
            nonlocal taken
            for document in documents:
                taken += 1
                yield document

        stream = pairs(64, 0.1, 1, random.Random(3), block_tokens)(counted())
        next(stream)
        assert (taken < 60) == (block_tokens < 10**9)
        rest = list(stream)
        assert taken == 200 and len(rest) > 200


def test_shuffle_yields_every_item_once_in_an_order_of_the_seed():
    mixed = [list(shuffle(50, random.Random(seed))(iter(range(1000)))) for seed in (0, 0, 1)]
    assert mixed[0] == mixed[1] != mixed[2]
    assert sorted(mixed[0]) == list(range(1000)) != mixed[0]
    assert sorted(shuffle(50, random.Random(0))(iter(range(7)))) == list(range(7))  # fewer than the window


def test_a_marked_piece_keeps_its_id_and_its_word_start():
    marked = mark([0, 5, 21127, 119546], [1, 0, 1, 0])
    assert ids_of(marked) == [0, 5, 21127, 119546]
    assert word_starts_of(marked) == [1, 0, 1, 0]
