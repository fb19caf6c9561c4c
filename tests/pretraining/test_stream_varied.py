"""Runs of different lengths of one stream, for AWD-LSTM."""

import random

import numpy as np
import pytest

from data_pipelines.pretraining.stages.streams import stream_varied
from data_pipelines.pretraining.stages.tokenize import Tokens, mark
from tests.helpers.invocation import invoke

END = mark([1], [1])


def runs(lengths, longest, passes=1, seed=0, **given):
    """The runs of documents of so many different ids, and the ids in their order."""
    ids = np.arange(2, sum(lengths) + 2)
    parts = np.split(ids, np.cumsum(lengths)[:-1])
    documents = [Tokens(mark(part, np.ones(len(part), int)), [0, len(part)]) for part in parts]
    found = [
        list(map(tuple, np.split(batch.flat, np.cumsum(batch.lengths())[:-1])))
        for batch in stream_varied(longest, passes, END, random.Random(seed), **given)(iter(documents))
    ]
    flat = np.concatenate([np.append(part.marked, END) for part in documents])
    return [list(run) for batch in found for run in batch], flat.tolist()


def test_every_piece_but_the_first_is_predicted_once_in_each_pass():
    found, flat = runs([400, 300], 20)
    assert [piece for run in found for piece in run[1:]] == flat[1:]
    assert all(before[-1] == after[0] for before, after in zip(found, found[1:], strict=False))
    twice, flat = runs([400, 300], 20, passes=2)
    assert [piece for run in twice for piece in run[1:]] == flat[1:] * 2
    bounds = np.cumsum([len(run) - 1 for run in twice])
    assert not set(bounds[bounds < len(flat) - 1]) >= set((bounds - len(flat) + 1)[bounds > len(flat) - 1]), "cut anew"


def test_lengths_are_those_of_the_paper():
    found, _ = runs([200_000], 85)
    inputs = np.array([len(run) - 1 for run in found[:-1]])
    assert inputs.max() <= 85 and inputs.min() >= 5
    halved = inputs < 52
    assert halved.mean() == pytest.approx(0.05, abs=0.02)
    assert inputs[~halved].mean() == pytest.approx(70, abs=0.5) and inputs[~halved].std() == pytest.approx(5, abs=0.5)
    assert inputs[halved].mean() == pytest.approx(35, abs=2)


@pytest.mark.parametrize(("lengths", "longest"), [([1], 1), ([1], 85), ([3, 1, 1], 1), ([6], 2)])
def test_short_texts_and_short_rows_lose_nothing(lengths, longest):
    found, flat = runs(lengths, longest)
    assert [found[0][0], *(piece for run in found for piece in run[1:])] == flat
    assert max(len(run) for run in found) <= longest + 1


def test_blocks_are_cut_apart_and_equal_seeds_cut_alike():
    found, flat = runs([50, 50, 50], 10, block_tokens=40)
    assert sorted({piece for run in found for piece in run}) == sorted(set(flat))
    assert runs([90], 10, seed=4) == runs([90], 10, seed=4) != runs([90], 10, seed=5)


def test_the_command_makes_records_that_the_recurrent_network_alone_reads(tmp_path, capsys):
    (tmp_path / "text.txt").write_text(
        "the king is here and no one was there to see him go home\n" * 30, encoding="utf-8"
    )
    text = {"input_file": tmp_path / "text.txt"}
    assert invoke("train_vocabulary", **text, tokenizer="words", vocab_size=30, output_file=tmp_path / "words") == 0
    made = {"vocab_file": tmp_path / "words", "packing": "stream_varied", "max_seq_length": 16, "dupe_factor": 2}
    assert invoke("create_pretraining_data", **text, **made, output_dir=tmp_path / "records") == 0
    run = {"data_dir": tmp_path / "records", "num_train_steps": 1, "model_dir": tmp_path / "run"}
    assert invoke("pretrain", system="lstm_lm", size="tiny", **run) == 3
    assert "--packing=stream_varied, which --system=lstm_lm cannot frame" in capsys.readouterr().err
