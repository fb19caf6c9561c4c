"""Special tokens stand where the originals put them, offline, in records' graphs and in served graphs alike."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.serving_text import GraphTokenizer
from data_pipelines.text import frames
from data_pipelines.text.framing import max_text_tokens, pack, pack_ids, pack_texts
from data_pipelines.text.vocabulary import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNKNOWN, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer

PAIRS = pathlib.Path(__file__).parents[1] / "golden/tokenizers/pairs.jsonl"
ORIGINALS = {  # golden -> our frame, and the ids of special tokens there
    "bert_slow_uncased": (frames.BERT, {CLS: 3, SEP: 4, PAD: 0}),
    "roberta_byte_bpe": (frames.ROBERTA, {CLS: 0, SEP: 2, PAD: 1}),
    "roberta_slow": (frames.ROBERTA, {CLS: 0, SEP: 2, PAD: 1}),
    "xlnet_slow": (frames.XLNET, {CLS: 3, SEP: 4, PAD: 5}),
    "albert_slow": (frames.BERT, {CLS: 2, SEP: 3, PAD: 0}),
    "t5_slow": (frames.T5, {EOS: 1, PAD: 0}),
}
FRAMES = {"bert": frames.BERT, "roberta": frames.ROBERTA, "xlnet": frames.XLNET, "t5": frames.T5, "gpt": frames.GPT}
ROLES = (PAD, UNKNOWN, CLS, SEP, MASK, BOS, EOS, *frames.GPT_TOKENS)
TOKENS = Vocabulary([*ROLES, *(f"t{i}" for i in range(90))])


def vocabulary_of(roles):
    tokens = [f"t{i}" for i in range(500)]
    for role, place in roles.items():
        tokens[place] = role
    return Vocabulary(tokens, required=())


@pytest.mark.parametrize(
    "case", [json.loads(line) for line in PAIRS.open()], ids=lambda c: f"{c['made_by']}-{len(c['ids'])}"
)
def test_pairs_are_framed_shortened_and_padded_as_the_originals_do(case):
    frame, roles = ORIGINALS[case["made_by"]]
    first, second, vocabulary = case["first"], case["second"], vocabulary_of(roles)
    ids, segments = pack(first, second, vocabulary, 512, frame)
    assert ids == case["ids"] and segments == case.get("segment_ids", [0] * len(ids))
    if "truncated8_ids" in case:
        assert pack(first, second, vocabulary, 8, frame)[0] == case["truncated8_ids"]
    if "padded12_ids" in case:
        padded = {
            name: value[1] for name, value in pack_ids([[9] * 9, first], [[9], second], vocabulary, 12, frame).items()
        }
        assert padded["token_ids"].tolist() == case["padded12_ids"]
        assert padded["padding_mask"].tolist() == case["padded12_mask"]
        assert padded["segment_ids"].tolist() == case.get("padded12_segment_ids", [0] * 12)


def rows_of_texts(num_texts, rng, count=40, most=6):
    return [
        [rng.integers(10, 90, rng.integers(k < 1, most + 1)).tolist() for k in range(num_texts)] for _ in range(count)
    ]


@pytest.mark.parametrize("name", FRAMES)
def test_records_are_framed_in_the_graph_as_texts_are(name):
    frame, length = FRAMES[name], 18
    rows = rows_of_texts(2, np.random.default_rng(0))
    joined = tf.ragged.constant([[*a, *b] for a, b in rows]).to_tensor(shape=(None, 12))
    features = {"token_ids": joined, "segment_lengths": tf.constant([[len(a), len(b)] for a, b in rows])}
    features["word_start"] = tf.ones_like(joined)
    found = {key: value.numpy() for key, value in frame_pair(TOKENS, length, frame)(features).items()}
    for row, (first, second) in enumerate(rows):
        ids, segments = pack(first, second or None, TOKENS, length, frame)
        place = slice(length - len(ids), None) if frame.pads_left else slice(len(ids))
        assert found["padding_mask"][row].sum() == len(ids) and found["padding_mask"][row, place].all()
        assert found["token_ids"][row, place].tolist() == ids
        assert found["segment_ids"][row, place].tolist() == segments
        assert found["token_ids"][row][~found["padding_mask"][row]].tolist() == [0] * (length - len(ids))
        special = [i < len(ROLES) for i in ids]
        assert (~found["maskable"][row, place]).tolist() == special and found["word_start"][row, place].all()


@pytest.mark.parametrize(
    ("frame", "expected", "segments"),
    [
        (frames.XLNET_STREAM, [10, 11, 12, 3, 13, 14, 3, 2], [0, 0, 0, 0, 1, 1, 1, 2]),
        (frames.DIALOGUE, [2, 10, 11, 3, 12, 3, 13, 14, 3], [0, 0, 0, 0, 1, 1, 0, 0, 0]),
    ],
)
def test_records_of_three_segments_have_a_frame(frame, expected, segments):
    features = {"token_ids": tf.constant([[10, 11, 12, 13, 14]]), "segment_lengths": tf.constant([[2, 1, 2]])}
    starts = {"word_start": tf.constant([[1, 0, 0, 1, 0]])}
    found = {
        key: value.numpy()[0].tolist() for key, value in frame_pair(TOKENS, 10, frame)({**features, **starts}).items()
    }
    rest = 10 - len(expected)
    assert found["token_ids"] == expected + [0] * rest and found["segment_ids"] == segments + [0] * rest
    opens = [int(i < 10 or k == 0 or expected[k - 1] < 10 or i in (10, 12, 13)) for k, i in enumerate(expected)]
    assert found["word_start"] == opens + [0] * rest  # a piece that opens a segment opens a word


def test_a_dialogue_of_two_turns_has_two_separators():
    features = {"token_ids": tf.constant([[10, 11, 12, 0]]), "segment_lengths": tf.constant([[2, 1, 0]])}
    found = frame_pair(TOKENS, 8, frames.DIALOGUE)(features)
    assert found["token_ids"].numpy().tolist() == [[2, 10, 11, 3, 12, 3, 0, 0]]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("num_texts", [1, 2])
def test_a_served_graph_frames_as_the_run_does(name, num_texts):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, BOS, EOS, *frames.GPT_TOKENS, *"abcd"])
    tokenizer = WordPieceTokenizer(vocabulary)
    texts = [("a b c d a", "b c"), ("a", ""), ("a b", "c d a b c d")]
    rows = [row[:num_texts] for row in texts]
    expected = pack_texts(rows, tokenizer, 8, FRAMES[name])
    columns = [tf.constant(column) for column in zip(*rows, strict=True)]
    found = GraphTokenizer(tokenizer, "core", FRAMES[name]).features(columns, 8)
    for key, value in found.items():
        width = value.shape[1]
        kept = expected[key][:, -width:] if FRAMES[name].pads_left else expected[key][:, :width]
        np.testing.assert_array_equal(value.numpy(), kept, err_msg=key)


def test_a_frame_counts_its_special_tokens():
    assert [frames.ROBERTA.num_special(n) for n in (1, 2)] == [2, 4]
    assert [frames.XLNET.num_special(n) for n in (1, 2)] == [2, 3] and frames.DIALOGUE.num_texts == 3
    assert max_text_tokens(2, 10, frames.ROBERTA) == 6
    with pytest.raises(UsageError, match="at least 4"):
        max_text_tokens(2, 3, frames.ROBERTA)
