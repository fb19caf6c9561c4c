"""Records of two streams of sentences: each word is named once in either direction, and unknown words keep their characters."""

import numpy as np
import pytest

from data_pipelines.batches.dataset import Batches
from data_pipelines.layouts.sentence_streams import both_ways
from data_pipelines.ops.sentence_streams import frame_streams
from data_pipelines.pretraining import job
from data_pipelines.pretraining.settings import Settings
from data_pipelines.records.checks import check_contents
from data_pipelines.records.source import RecordSource
from data_pipelines.text.kinds import tokenizer_of_records
from data_pipelines.text.open_words import OpenVocabulary
from data_pipelines.text.vocabulary import CLS, PAD, SEP, SPECIAL_TOKENS, UNKNOWN, Vocabulary
from data_pipelines.units.characters import BEGIN_SENTENCE, END_SENTENCE, spell, spell_mark

SENTENCES = [
    ["the", "cat", "sat"],
    ["a", "dog", "ran", "to", "the", "cat"],
    ["no"],
    ["天气", "很好", "the", "xylophone"],
] * 6
LENGTH = 8


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("streams")
    (path / "vocabulary").mkdir()
    words = Vocabulary([*SPECIAL_TOKENS, "the", "cat", "a", "to", "sat", "ran"])
    (path / "vocabulary/vocab.txt").write_text(words.text())
    (path / "vocabulary/tokenizer_config.json").write_text(
        '{"tokenizer": "word_characters", "do_lower_case": false, "segmenter": "presegmented"}'
    )
    (path / "text.txt").write_text("".join(" ".join(words) + "\n" for words in SENTENCES))
    settings = Settings(
        input_file=str(path / "text.txt"), vocab_file=str(path / "vocabulary"), packing="sentence_streams",
        max_seq_length=LENGTH, input_format="sentences", num_shards=1,
    )  # fmt: skip
    job.create(settings, str(path / "records"))
    return RecordSource(str(path / "records"))


def rows_of(source):
    """The records in order, without padding: the features of all steps side by side."""
    parsed = source.parse([item.numpy() for _, item in source.in_order()])
    real = np.array(parsed["character_ids"]).any(axis=-1)
    return {name: np.array(value)[real] for name, value in parsed.items()}


def test_a_sentence_both_ways():
    found = both_ways(np.array([7, 8]), 2, 3)
    assert found.tolist() == [[2, 7, 8], [7, 8, 3], [3, 8, 7], [8, 7, 2]]


def test_each_sentence_stands_once_in_either_stream_at_the_same_steps(source):
    vocabulary: OpenVocabulary = tokenizer_of_records(source.name, source.manifest.settings).vocabulary
    found, begin, end = rows_of(source), vocabulary[CLS], vocabulary[SEP]
    starts = np.flatnonzero(found["token_ids"] == begin)
    assert len(starts) == len(SENTENCES) and starts[0] == 0
    lines = {tuple(words) for words in SENTENCES}
    for first, last in zip(starts, [*starts[1:], len(found["token_ids"])], strict=True):
        spelled = found["character_ids"][first:last]
        words = next(w for w in lines if len(w) == last - first - 1 and np.array_equal(spell(w), spelled[1:]))
        np.testing.assert_array_equal(spelled[0], spell_mark(BEGIN_SENTENCE))
        behind = found["reversed_character_ids"][first:last]
        np.testing.assert_array_equal(behind[0], spell_mark(END_SENTENCE))
        np.testing.assert_array_equal(behind[1:], spell(words)[::-1])
        ids = [vocabulary.ids.get(word, vocabulary[UNKNOWN]) for word in words]
        assert found["labels"][first:last].tolist() == [*ids, end]
        assert found["reversed_labels"][first:last].tolist() == [*ids[::-1], begin]


def test_batches_go_on_row_by_row_and_hold_no_unreal_word(source):
    batches = Batches(source, frame_streams(LENGTH), 2)
    assert batches.continues and batches.zeros()["reversed_character_ids"].shape == (2, LENGTH, 50)
    first, second = list(batches.once().take(2))
    whole = rows_of(source)["labels"]
    both = np.concatenate([first["labels"][0], second["labels"][0]])
    np.testing.assert_array_equal(both, whole[: 2 * LENGTH])
    for batch in batches.once():
        np.testing.assert_array_equal(batch["padding_mask"], batch["label_weights"] > 0)
        assert not batch["labels"].numpy()[~batch["padding_mask"].numpy()].any()


def test_records_say_what_they_hold(source):
    manifest = source.manifest
    steps = sum(len(words) + 1 for words in SENTENCES)
    assert manifest.statistics["example_tokens"] == steps and manifest.num_examples == -(-steps // LENGTH)
    unknown = sum(word in ("dog", "no", "天气", "很好", "xylophone") for words in SENTENCES for word in words)
    assert manifest.statistics["unknown_tokens"] == unknown
    check_contents(source, len(SPECIAL_TOKENS) + 6)
    assert source.lengths([item.numpy() for _, item in source.in_order()]).numpy().sum() == steps


def test_word_pieces_have_the_characters_of_their_tokens():
    pieces = Vocabulary([*SPECIAL_TOKENS, "ab", "##c"])
    ids, characters = OpenVocabulary(pieces.tokens, "", (), True).of_numbers(np.array([5, 6, 5, pieces[PAD]]))
    assert ids.tolist() == [5, 6, 5, 0]
    np.testing.assert_array_equal(characters[:3], spell(["ab", "##c", "ab"]))
    assert not characters[3].any()
