"""Short rows first: cutting records, the phases of a run, and resuming within them."""

import os

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.cutting import cut_pairs, cut_runs, without_lost
from data_pipelines.ops.seeds import example_seeds
from tests.helpers.samples import make_records
from xmodels.jobs.pretrain.run import Options, length_schedule, pretrain
from xmodels.models.folder import read_weights
from xmodels.training import loop
from xmodels.training.watching.progress import read_log


def runs(lengths, width=20):
    """Records whose tokens are 100 times the record and the place, so that each tells where it comes from."""
    ids = np.array([[100 * (r + 1) + i if i < n else 0 for i in range(width)] for r, n in enumerate(lengths)])
    return {
        "token_ids": tf.constant(ids), "word_start": tf.constant((ids % 3 == 0).astype(np.int64)),
        "segment_lengths": tf.constant([[n, 0] for n in lengths], tf.int64),
        "seed": example_seeds(7, tf.zeros(len(lengths), tf.int64), tf.range(len(lengths), dtype=tf.int64)),
        "example_weights": tf.ones(len(lengths)), "progress": tf.range(len(lengths), dtype=tf.float32),
    }  # fmt: skip


def test_records_are_cut_into_rows_that_follow_one_another_and_nothing_is_left_out_of_all_epochs():
    cut = cut_runs(6, 6, 3)
    features, seen = runs([20, 7, 3]), set()
    for epoch in range(30):
        seeds = example_seeds(7, tf.fill([3], tf.constant(epoch, tf.int64)), tf.range(3, dtype=tf.int64))
        made = {n: v.numpy() for n, v in cut({**features, "seed": seeds}).items()}
        ids, lengths = made["token_ids"], made["segment_lengths"][:, 0]
        assert ids.shape == made["word_start"].shape == (9, 6)
        assert lengths.tolist() == [6, 6, 6, 6, 1, 0, 3, 0, 0]
        assert made["example_weights"].tolist() == [1, 1, 1, 1, 1, 0, 1, 0, 0]
        assert made["progress"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert (np.diff(ids[:3].ravel()) == 1).all()  # 18 of the 20, one behind the other
        assert ids[3:5].ravel()[:7].tolist() == list(range(200, 207)) and not ids[4, 1:].any()
        inner = lengths[:, None] > np.arange(6)
        starts = np.where(np.arange(6) == 0, 1, ids % 3 == 0)
        np.testing.assert_array_equal(made["word_start"][inner], starts[inner])
        assert len(set(made["seed"].tolist())) == 9
        seen |= set(ids[:3].ravel().tolist())
    assert seen == set(range(100, 120))


def test_runs_of_a_causal_model_share_the_token_that_is_a_label_here_and_an_input_there():
    made = cut_runs(5, 4, 5)({n: v for n, v in runs([20, 9, 5, 1]).items() if n != "word_start"})
    ids, weights = made["token_ids"].numpy().reshape(4, 5, 5), made["example_weights"].numpy().reshape(4, 5)
    assert (ids[0, 1:4, 0] == ids[0, :3, 4]).all()
    assert weights.tolist() == [[1] * 5, [1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0] * 5]  # one token names no other
    labels = np.concatenate([row[1:] for row in ids[1, :2]])
    assert labels.tolist() == list(range(201, 209))


def test_pairs_keep_what_stands_side_by_side():
    features = runs([20, 20, 20, 20])
    features["segment_lengths"] = tf.constant([[12, 8], [2, 18], [17, 3], [20, 0]], tf.int64)
    made = {n: v.numpy() for n, v in cut_pairs(10)(features).items()}
    assert made["token_ids"].shape == (4, 10)
    assert made["segment_lengths"].tolist() == [[5, 5], [2, 8], [7, 3], [10, 0]]
    assert made["token_ids"][0].tolist() == list(range(107, 117))
    assert made["token_ids"][1].tolist() == list(range(200, 210))
    assert made["token_ids"][2].tolist() == list(range(310, 320))
    assert (np.diff(made["token_ids"][3]) == 1).all()


def test_the_order_of_swapped_pairs_cannot_be_told_from_what_is_cut():
    """A pair and the same pair swapped keep the same tokens, which stood side by side in the text."""
    text, half = np.arange(20)[None] + 1, [10, 10]
    both = np.concatenate([text, np.roll(text, 10)])
    features = {
        "token_ids": tf.constant(both), "word_start": tf.constant(np.zeros_like(both)), "seed": tf.constant([1, 2], tf.uint64),
        "segment_lengths": tf.constant([half, half]), "sentence_order_labels": tf.constant([0, 1]),
    }  # fmt: skip
    made = {n: v.numpy() for n, v in cut_pairs(8)(features).items()}
    assert made["token_ids"].tolist() == [[7, 8, 9, 10, 11, 12, 13, 14], [11, 12, 13, 14, 7, 8, 9, 10]]
    assert made["segment_lengths"].tolist() == [[4, 4], [4, 4]]
    assert made["word_start"].tolist() == [[1, 0, 0, 0, 1, 0, 0, 0]] * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("128", "'128' is no LENGTH:SHARE"),
        ("32:0.7,x:0.3", "'x:0.3' is no LENGTH:SHARE"),
        ("32:0.7,128:0.4", "add up to 1.1; expected 1"),
        ("128:0.7,32:0.3", "lengths must rise"),
        ("4:0.5,128:0.5", "lengths must rise, from 8 on"),
        ("32:0.7,64:0.3", "ends with rows of 64 tokens, but the records are of 128"),
        ("32:0.999,128:0.001", "no step of 10 is of length 128. Train longer"),
        ("32:nan,128:0.5", "'32:nan' is no LENGTH:SHARE"),
        (
            "48:0.5,128:0.5",
            "fit 2 of 48, which are 96 tokens, but batches .* Take such as 32 or 64",
        ),
    ],
)
def test_a_wrong_schedule_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        length_schedule.parse_phases(text, 10, 128)


@pytest.mark.parametrize(("text", "longest", "border"), [("32:0.7,128:0.3", 128, 1120), ("128:0.9,512:0.1", 512, 1440)])
def test_phases_divide_all_steps(text, longest, border):
    found = length_schedule.parse_phases(text, 1600, longest)
    assert [(p.length, p.first, p.last) for p in found] == [(longest // 4, 0, border), (longest, border, 1600)]
    assert [sum(p.share(step) for p in found) for step in range(1600)] == [1.0] * 1600


def options(folder, records, config, **changes):
    return Options(
        **{
            "system": "roberta_wwm", "model_dir": str(folder), "data_dir": records, "model_config_file": config, "num_train_steps": 8,
            "train_batch_size": 4, "learning_rate": 1e-2, "save_checkpoints_steps": 3, "log_steps": 1, "eval_steps": 1,
            "length_schedule": "8:0.5,32:0.5", "distribution_strategy": "one_device", "jit_compile": "false", **changes,
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def full_sentences(tmp_path_factory, zh_vocabulary):
    return make_records(tmp_path_factory.mktemp("records") / "full", zh_vocabulary, packing="full_sentences")


def weights(folder):
    return read_weights(os.path.join(folder, "backbone", "weights.safetensors"))


@pytest.fixture(scope="module")
def uninterrupted(full_sentences, small_config, tmp_path_factory):
    """The folder of a run in two phases of four steps."""
    folder = tmp_path_factory.mktemp("phases") / "whole"
    pretrain(options(folder, full_sentences, small_config))
    return folder


@pytest.mark.long
def test_a_run_in_phases_logs_each(uninterrupted):
    lines = [entry for entry in read_log(uninterrupted / "log.jsonl") if entry["kind"] == "train"]
    lengths = [[int(name.split("/")[0][7:]) for name in line if name.endswith("/masked_lm")] for line in lines]
    assert lengths == [[8]] * 4 + [[32]] * 4
    assert "8 tokens in steps 1 to 4 (16 rows)" in (uninterrupted / "model_card.md").read_text("utf-8")


@pytest.mark.long
@pytest.mark.parametrize(
    ("every", "step"), [(4, 4), pytest.param(3, 3, marks=pytest.mark.long), pytest.param(3, 6, marks=pytest.mark.long)]
)
def test_a_run_killed_between_phases_or_inside_of_one_resumes_exactly(
    every, step, uninterrupted, full_sentences, small_config, tmp_path, monkeypatch
):
    parted = options(tmp_path / "parted", full_sentences, small_config, save_checkpoints_steps=every)
    save = loop.checkpoints.save

    def save_and_die(folder, learner, state, keep):
        save(folder, learner, state, keep)
        if state.step == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop.checkpoints, "save", save_and_die)
        with pytest.raises(KeyboardInterrupt):
            pretrain(parted)
    pretrain(parted)
    first, second = weights(uninterrupted), weights(parted.model_dir)
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pack_rows": True}, "both say how long rows are"),
        ({"length_buckets": "auto"}, "both say how long rows are"),
        ({"data_dir": "static"}, "masks stand in the records already"),
        ({"data_dir": "stream", "system": "transformer_xl"}, "which are not cut. Train twice"),
    ],
)
def test_what_cannot_be_cut_is_refused(
    records, static_records, zh_vocabulary, small_config, full_sentences, tmp_path, changes, said
):
    values = {"data_dir": full_sentences, "config": small_config, **changes}
    if values["data_dir"] == "static":
        values |= {"data_dir": static_records, "system": "bert"}
    if values["data_dir"] == "stream":
        streams = make_records(tmp_path / "stream", zh_vocabulary, packing="stream", do_whole_word_mask=False)
        values |= {"data_dir": streams, "config": None, "size": "tiny"}
    folder, config = tmp_path / "run", values.pop("config")
    with pytest.raises(UsageError, match=said):
        pretrain(options(folder, values.pop("data_dir"), config, **values))


@pytest.mark.long
@pytest.mark.parametrize(
    "system", ["bert", *(pytest.param(name, marks=pytest.mark.long) for name in ("gpt2", "albert"))]
)
def test_pairs_and_streams_are_cut_too(system, records, zh_vocabulary, tmp_path):
    packing = {"gpt2": "stream", "albert": "sentence_order"}.get(system)
    if packing:
        records = make_records(tmp_path / "records", zh_vocabulary, packing=packing, do_whole_word_mask=False)
    own = "num_layers=1,hidden_dim=16,num_heads=2,intermediate_dim=32" + (
        ",embedding_dim=8" if system == "albert" else ""
    )
    changes = {"system": system, "size": "base", "set": own, "length_schedule": "16:0.5,32:0.5", "num_train_steps": 4}
    means = pretrain(options(tmp_path / "run", records, None, **changes))
    assert np.isfinite(means["loss"])
    names = [set(entry) for entry in read_log(tmp_path / "run/log.jsonl") if entry["kind"] == "train"]
    assert ["length_16/skipped" in each for each in names] == [True, True, False, False], names


def test_rows_for_which_a_record_is_too_short_teach_nothing():
    """An empty text still has an end, which a decoder would learn."""
    features = {"label_weights": tf.ones([2, 3]), "example_weights": tf.constant([1.0, 0.0])}
    assert without_lost(features)["label_weights"].numpy().tolist() == [[1, 1, 1], [0, 0, 0]]
    assert without_lost({"example_weights": tf.ones(2)}).keys() == {"example_weights"}
