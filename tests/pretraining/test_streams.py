"""Streams, dialogues and parallel text: what stands in their examples."""

import collections
import itertools
import random

import numpy as np
import pytest

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import DataError, UsageError
from data_pipelines.pretraining import job as pretraining_data
from data_pipelines.pretraining.job import Settings
from data_pipelines.pretraining.stages.streams import stream, stream_bidirectional
from data_pipelines.pretraining.stages.tokenize import Tokens
from data_pipelines.pretraining.stages.turns import dialogue, parallel
from data_pipelines.records.source import RecordSource
from xmodels.jobs.pretrain.run import Options, pretrain

END = np.array([7], np.int32)


def numbered(rng, count, sentences=(1, 9), pieces=(1, 15)):
    """Documents whose pieces are numbered through from 1,000 on, as lists of sentences."""
    numbers = itertools.count(1000)
    return [
        [[next(numbers) for _ in range(rng.randint(*pieces))] for _ in range(rng.randint(*sentences))]
        for _ in range(count)
    ]


def tokens_of(documents):
    for document in documents:
        flat = [piece for sentence in document for piece in sentence]
        yield Tokens(np.array(flat, np.int32), list(itertools.accumulate(map(len, document), initial=0)))


def rows(made):
    """Each example as its segments, and the labels."""
    found, labels = [], collections.defaultdict(list)
    for examples in made:
        found += [[examples.marked[a:b].tolist() for a, b in spans] for spans in examples.spans]
        for name, values in examples.labels.items():
            labels[name] += values.tolist()
    return found, labels


@pytest.mark.parametrize("block_tokens", [50, 10**9])
def test_a_stream_holds_every_piece_once_and_each_run_goes_on_where_the_last_ended(block_tokens):
    documents = numbered(random.Random(0), 40)
    found, _ = rows(stream(16, END, block_tokens)(tokens_of(documents)))
    everything = [p for document in documents for p in [*itertools.chain(*document), 7]]
    runs = [segments[0] for segments in found]
    assert all(len(run) == 17 for run in runs[:-1]) and 1 < len(runs[-1]) <= 17
    assert all(before[-1] == after[0] for before, after in itertools.pairwise(runs))
    assert runs[0] + [p for run in runs[1:] for p in run[1:]] == everything


@pytest.mark.parametrize("is_reversed", [0, 1])
def test_xlnet_s_segments_follow_the_run_and_fill_the_length_in_both_directions(is_reversed):
    documents = numbered(random.Random(1), 200)
    length, reuse = 64, 32
    found, labels = rows(stream_bidirectional(length, reuse, END, random.Random(2))(tokens_of(documents)))
    mine = np.array(labels["is_reversed"]) == is_reversed
    assert mine.sum() > 200 and (np.diff(labels["is_reversed"]) >= 0).all()  # one direction after the other
    follows = np.array(labels["follows_labels"])[mine].tolist()
    everything = [p for document in documents for p in [*itertools.chain(*document), 7]]
    openings = {s[0] for d in documents for s in d}
    if is_reversed:
        everything = everything[::-1]
        openings = {s[-1] for d in documents for s in d} | {7}  # a document ends with its mark
    followed = 0
    rows_of_direction = itertools.compress(found, mine)
    for number, ((run, first, second), label) in enumerate(zip(rows_of_direction, follows, strict=True)):
        assert run == everything[number * reuse : (number + 1) * reuse]
        assert first == everything[(number + 1) * reuse :][: len(first)] and first
        assert len(first) + len(second) == length - reuse - 3
        assert second[0] in openings
        if label and second[0] != 7:  # the end of the first may have been cut off, but it began before the second
            place = everything.index(second[0])
            assert place >= (number + 1) * reuse + len(first)
            followed += place == (number + 1) * reuse + len(first)
    assert 0.3 < np.mean(follows) < 0.55 and followed > 0.4 * sum(follows)


def test_a_dialogue_has_two_or_three_turns_in_a_row_or_one_from_elsewhere():
    documents = numbered(random.Random(3), 150, sentences=(2, 8), pieces=(3, 12))
    of = {p: (d, s) for d, document in enumerate(documents) for s, turn in enumerate(document) for p in turn}
    found, labels = rows(dialogue(48, 1, random.Random(4))(tokens_of(documents)))
    sizes = collections.Counter()
    for turns, is_real, role in zip(found, labels["dialogue_labels"], labels["first_role"], strict=True):
        turns = [turn for turn in turns if turn]
        sizes[len(turns)] += 1
        assert 2 <= len(turns) <= 3 and sum(map(len, turns)) + len(turns) + 1 <= 48
        places = [{of[p] for p in turn} for turn in turns]
        assert all(len(place) == 1 for place in places)
        places = [place.pop() for place in places]
        dialogues = collections.Counter(d for d, _ in places)
        if is_real:
            assert len(dialogues) == 1 and [s for _, s in places] == list(
                range(places[0][1], places[0][1] + len(places))
            )
            assert role == places[0][1] % 2  # turns 0, 2, ... are those of the speaker who began
        else:
            assert len(dialogues) == 2 and 1 in dialogues.values()
    assert abs(np.mean(labels["dialogue_labels"]) - 0.5) < 0.1 and min(sizes.values()) > 50


def test_a_foreign_turn_is_of_the_other_one_of_two_dialogues():
    documents = numbered(random.Random(7), 2, sentences=(6, 6), pieces=(3, 5))
    of = {p: d for d, document in enumerate(documents) for turn in document for p in turn}
    found, labels = rows(dialogue(48, 300, random.Random(8))(tokens_of(documents)))
    for turns, is_real in zip(found, labels["dialogue_labels"], strict=True):
        assert len({of[turn[0]] for turn in turns if turn}) == (1 if is_real else 2)
    assert abs(np.mean(labels["dialogue_labels"]) - 0.5) < 0.04


def test_too_long_turns_are_shortened_the_longest_first():
    (document,) = numbered(random.Random(5), 1, sentences=(2, 2), pieces=(30, 30))
    document[1] = document[1][:4]
    found, labels = rows(dialogue(20, 1, random.Random(0))(tokens_of([document])))
    assert [list(map(len, turns)) for turns in found] == [[13, 4, 0]] and labels["dialogue_labels"] == [1]


def test_parallel_text_keeps_whole_pairs_only():
    documents = [*numbered(random.Random(6), 50, sentences=(2, 2), pieces=(1, 14)), [[1, 2]], [[1] * 20, [2]]]
    found, _ = rows(parallel(12)(tokens_of(documents)))
    assert found == [d for d in documents[:50] if max(map(len, d)) < 12] and 10 < len(found) < 50


def test_records_of_dialogues_and_translations_are_read_as_such(tmp_path, zh_vocabulary):
    (tmp_path / "talk.txt").write_text("你好。\n你也好。\n再见。\n\n吃了吗？\n吃了。\n", "utf-8")
    (tmp_path / "pairs.tsv").write_text("今天很好\ta fine day\n你好\thello\n", "utf-8")
    for name, packing, widths in (("talk.txt", "dialogue", 3), ("pairs.tsv", "parallel", 2)):
        source = {"input_file": str(tmp_path / name), "vocab_file": zh_vocabulary, "language": "zh"}
        settings = Settings(**source, packing=packing, max_seq_length=32)
        manifest = pretraining_data.create(settings, str(tmp_path / packing))
        assert manifest.settings.read_as == packing
        source = RecordSource(str(tmp_path / packing))
        lengths = np.stack([source.parse(item[None])["segment_lengths"][0] for _, item in source.in_order()])
        assert lengths.shape == (2, widths) and (lengths[:, :2] > 0).all()
        assert ("first_role" in source.features) == (packing == "dialogue")


def test_streams_stand_in_order_and_have_no_static_masks(tmp_path, zh_vocabulary):
    (tmp_path / "text.txt").write_text("\n\n".join("今天天气很好。\n我们去公园散步。" for _ in range(100)), "utf-8")
    settings = Settings(
        input_file=str(tmp_path / "text.txt"),
        vocab_file=zh_vocabulary,
        language="zh",
        do_lower_case=True,
        do_whole_word_mask=True,
        segmenter="jieba",
        packing="stream",
        max_seq_length=16,
    )
    pretraining_data.create(settings, str(tmp_path / "records"))
    source = RecordSource(str(tmp_path / "records"))
    ids = [source.parse(item[None])["token_ids"][0].numpy() for _, item in source.in_order()]
    assert len(ids) > 50 and all(a[-1] == b[0] for a, b in itertools.pairwise(ids))
    options = Options(
        system="roberta_wwm", model_dir=str(tmp_path / "run"), data_dir=str(tmp_path / "records"), size="tiny"
    )
    with pytest.raises(DataError, match="--packing=stream, which --system=roberta_wwm cannot frame"):
        pretrain(options)
    with pytest.raises(UsageError, match="--packing=stream does not fit"):
        Settings(input_file="x", vocab_file=zh_vocabulary, packing="stream", masking="static").check()


def test_rows_of_a_batch_go_on_where_they_ended_and_an_epoch_holds_all(tmp_path, zh_vocabulary):
    (tmp_path / "text.txt").write_text(
        "\n\n".join(f"今天{n}天气很好。\n我们去公园散步。" for n in "一二三四五六七八九" * 30), "utf-8"
    )
    settings = Settings(
        input_file=str(tmp_path / "text.txt"),
        vocab_file=zh_vocabulary,
        language="zh",
        packing="stream",
        max_seq_length=16,
        num_shards=3,
    )
    pretraining_data.create(settings, str(tmp_path / "records"))
    source = RecordSource(str(tmp_path / "records"))
    size, total = 4, source.num_examples
    batches = Batches(source, lambda features: features, size, seed=3)

    def read(consumed, count):
        found = batches.training(consumed).take(count).as_numpy_iterator()
        return [(batch["token_ids"], batch["segment_lengths"][:, 0]) for batch in found]

    steps = total // size + 3
    whole = read(0, steps)
    everything = [source.parse(item[None])["token_ids"][0].numpy() for _, item in source.in_order()]
    for row in range(size):
        first = row * total // size
        for step, (ids, lengths) in enumerate(whole):
            expected = everything[(first + step) % total]
            assert ids[row, : lengths[row]].tolist() == expected[: lengths[row]].tolist()
    seen = {(row * total // size + step) % total for row in range(size) for step in range(-(-total // size))}
    assert seen == set(range(total))
    later = read(7 * size, steps - 7)  # resumed
    assert all((a[0] == b[0]).all() for a, b in zip(later, whole[7:], strict=True))
    with pytest.raises(DataError, match="runs cannot fill 5000 rows"):
        Batches(source, lambda features: features, 5000).training()
