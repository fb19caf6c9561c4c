"""The engine: replicas, resuming, precision, and what a damaged run says."""

import dataclasses
import json
import os
import pathlib
import shutil

import keras
import numpy as np
import pytest

from data_pipelines.errors import CheckpointError, DataError, NonFiniteError, UsageError
from tests.helpers.samples import make_records
from xmodels.conversion import convert
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.layers.dropout import Dropout, dropout_seed
from xmodels.models.folder import read_weights
from xmodels.training.recipe import Recipe
from xmodels.training.states import checkpoints
from xmodels.training.watching.progress import read_log

ROOT = pathlib.Path(__file__).parents[2]


def make_options(records, config, folder):
    return Options(
        system="bert_wwm", model_dir=str(folder / "run"), data_dir=records, model_config_file=config,
        num_train_steps=8, train_batch_size=8, learning_rate=1e-2, num_warmup_steps=2, optimizer="bert_adamw",
        save_checkpoints_steps=4, log_steps=2, eval_steps=2,
    )  # fmt: skip


@pytest.fixture
def options(records, small_config, tmp_path):
    return make_options(records, small_config, tmp_path)


@pytest.fixture(scope="module")
def finished(records, small_config, tmp_path_factory):
    """The folder of a run with these options; tests change copies of it."""
    options = make_options(records, small_config, tmp_path_factory.mktemp("finished"))
    pretrain(options)
    return options.model_dir


@pytest.fixture
def trained(options, finished):
    """Options of a run that is finished."""
    shutil.copytree(finished, options.model_dir)
    return options


@pytest.fixture
def quiet_config(small_config, tmp_path):
    """The small network without dropout."""
    values = json.loads(pathlib.Path(small_config).read_text())
    path = tmp_path / "no_dropout.json"
    path.write_text(json.dumps(values | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}))
    return str(path)


def weights(run):
    return read_weights(os.path.join(run, "backbone", "weights.safetensors"))


def largest_difference(first, second):
    assert first.keys() == second.keys()
    return max(np.abs(first[name] - second[name]).max() for name in first)


def test_two_replicas_equal_one_device_on_the_same_global_batch(options, quiet_config, tmp_path):
    """Of the optimizers `test_layerwise` shows the same, of steps that are not compiled `test_learner`."""
    rates = {
        "learning_rate": 1e-3,
        "adam_epsilon": 1e-4,
    }  # a small epsilon makes much of the rounding of small gradients
    options = dataclasses.replace(options, model_config_file=quiet_config, optimizer="bert_adamw", **rates)
    pretrain(options)
    two = dataclasses.replace(
        options, model_dir=str(tmp_path / "two"), distribution_strategy="mirrored", jit_compile=True
    )
    pretrain(two)
    assert largest_difference(weights(options.model_dir), weights(two.model_dir)) < 1e-6


def test_replicas_draw_different_dropout():
    x = keras.ops.ones((4, 64))
    layer = Dropout(0.5)
    masks = []
    for seed in ([1, 2], [1, 3], [2, 2], [1, 2]):
        with dropout_seed(np.array(seed, "uint32")):
            masks.append(np.array(layer(x, training=True)))
    assert np.array_equal(masks[0], masks[3])
    assert not np.array_equal(masks[0], masks[1])
    assert not np.array_equal(masks[0], masks[2])


def test_layers_of_one_step_draw_different_dropout():
    x, layers = keras.ops.ones((4, 64)), (Dropout(0.5), Dropout(0.5))
    with dropout_seed(np.array([1, 2], "uint32")):
        first, second = (np.array(layer(x, training=True)) for layer in layers)
    assert not np.array_equal(first, second)


def test_resumed_run_equals_an_uninterrupted_one_bitwise(trained, tmp_path):
    resumed = dataclasses.replace(trained, model_dir=str(tmp_path / "resumed"))
    shutil.copytree(trained.model_dir, resumed.model_dir)
    shutil.rmtree(os.path.join(resumed.model_dir, "checkpoints", "step_00000008"))
    shutil.rmtree(os.path.join(resumed.model_dir, "backbone"))
    pretrain(dataclasses.replace(resumed, resume="must"))
    assert largest_difference(weights(trained.model_dir), weights(resumed.model_dir)) == 0.0
    log = read_log(os.path.join(resumed.model_dir, "log.jsonl"))
    steps = [entry["step"] for entry in log if entry["kind"] == "train"]
    assert steps == [2, 4, 6, 8]  # lines after the restored state were written again, not doubled


@pytest.mark.long
def test_the_best_state_is_kept_beside_the_newest(options, records):
    still = {"learning_rate": 0.0, "num_train_steps": 6, "eval_every": 2, "save_checkpoints_steps": 3}
    pretrain(dataclasses.replace(options, eval_data_dir=records, keep_checkpoint_max=1, **still))
    kept = checkpoints.complete(os.path.join(options.model_dir, "checkpoints"))
    assert [checkpoints.step_of(path) for path in kept] == [2, 6]  # no later evaluation was better


@pytest.mark.long
def test_a_resumed_run_says_what_changed_and_does_not_begin_with_its_own_weights(trained, capsys):
    pretrain(dataclasses.replace(trained, num_train_steps=9, log_steps=3))
    said = capsys.readouterr().out
    assert "num_train_steps: 8 then, 9 now" in said
    assert "num_train_steps: the new schedule applies" in said
    assert "log_steps, model_dir: the new value applies from now on" in said
    for origin in (trained.model_dir, os.path.join(trained.model_dir, "backbone")):
        with pytest.raises(UsageError, match="is the run of --model_dir itself. To resume it"):
            pretrain(dataclasses.replace(trained, init_checkpoint=origin))


def test_unfinished_states_are_not_read_and_the_last_good_one_stays(trained):
    folder = os.path.join(trained.model_dir, "checkpoints")
    newest = checkpoints.complete(folder)[-1]
    os.remove(os.path.join(newest, "state.json"))
    assert [os.path.basename(path) for path in checkpoints.complete(folder)] == ["step_00000004"]


def test_a_damaged_state_is_named_and_the_one_before_it_is_used(trained, capsys):
    before = weights(trained.model_dir)

    def damage(step):
        path = os.path.join(trained.model_dir, "checkpoints", f"step_{step:08d}", "optimizer.safetensors")
        with open(path, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"\x00\x01\x02\x03")

    damage(8)
    shutil.rmtree(os.path.join(trained.model_dir, "backbone"))
    capsys.readouterr()
    pretrain(trained)
    said = capsys.readouterr().out
    assert "step_00000008/optimizer.safetensors: damaged" in said and "step_00000004: step 4 of 8" in said
    assert largest_difference(before, weights(trained.model_dir)) == 0.0
    damage(4)
    damage(8)
    with pytest.raises(CheckpointError, match="optimizer.safetensors: damaged.*No other state is left"):
        pretrain(dataclasses.replace(trained, num_train_steps=10))


@pytest.mark.long
def test_a_run_resumes_on_equal_records_only(trained, records, static_records, zh_vocabulary, tmp_path, capsys):
    copy = str(shutil.copytree(records, tmp_path / "copy"))
    pretrain(dataclasses.replace(trained, data_dir=copy, num_train_steps=10))
    assert "data_dir: nothing; the records were checked to be the same" in capsys.readouterr().out
    with pytest.raises(UsageError, match="records.masking: 'dynamic' then, 'static' now") as refused:
        pretrain(dataclasses.replace(trained, data_dir=static_records, num_train_steps=12))
    assert "vocabulary" not in str(refused.value)
    other = make_records(tmp_path / "other", zh_vocabulary, random_seed=1)
    with pytest.raises(UsageError, match="records.contents_sha256: "):
        pretrain(dataclasses.replace(trained, data_dir=other, num_train_steps=12))


def test_a_message_about_another_network_names_what_differs_only(trained, small_config, tmp_path):
    wider = tmp_path / "wider.json"
    wider.write_text(json.dumps(json.loads(pathlib.Path(small_config).read_text()) | {"hidden_size": 32}))
    with pytest.raises(UsageError, match=r"settings \(config.hidden_dim: 16 then, 32 now\)"):
        pretrain(dataclasses.replace(trained, model_config_file=str(wider), num_train_steps=10))


def test_warm_up_keeps_its_share_of_other_numbers_of_steps():
    recipe = Recipe(None, None, None, batch_size=8, num_steps=1000, learning_rate=1e-4, num_warmup_steps=100)
    assert recipe.override(num_steps=50).num_warmup_steps == 5
    assert recipe.override(num_steps=50, num_warmup_steps=7).num_warmup_steps == 7
    assert recipe.override(learning_rate=1.0, num_steps=None).num_warmup_steps == 100


def test_lamb_of_a_recipe_gives_way_below_the_batches_that_it_is_for():
    recipe = Recipe(
        None, None, None, batch_size=384, num_steps=10, learning_rate=2e-3, num_warmup_steps=1, optimizer="lamb"
    )
    assert recipe.adapt_to_batch(None) is recipe
    small = recipe.override(batch_size=383, weight_decay=0.1)
    suited = small.adapt_to_batch(None)
    assert (suited.optimizer, suited.learning_rate, suited.weight_decay) == ("bert_adamw", 1e-4, 0.1)
    assert small.adapt_to_batch(3e-4).learning_rate == 3e-4
    adamw = small.override(optimizer="adamw")
    assert adamw.adapt_to_batch(None) is adamw


def test_altered_vocabularies_and_masks_of_single_tokens_are_refused(options, records, zh_vocabulary, tmp_path):
    copy = shutil.copytree(records, tmp_path / "copy")
    with open(copy / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("another\n")
    with pytest.raises(DataError, match="copy/vocab.txt was changed.*Put the old file back"):
        pretrain(dataclasses.replace(options, data_dir=str(copy)))
    flags = {"masking": "static", "do_whole_word_mask": False}
    single = make_records(tmp_path / "single", zh_vocabulary, **flags)
    with pytest.raises(DataError, match="the masks in .* hide single tokens"):
        pretrain(dataclasses.replace(options, data_dir=single))


@pytest.mark.long
def test_a_shard_damaged_inside_is_named(options, records, tmp_path):
    copy = tmp_path / "damaged"
    shutil.copytree(records, copy)
    shard = sorted(copy.glob("*.tfrecord"))[0]
    contents = bytearray(shard.read_bytes())
    contents[-210:-200] = bytes(10)  # behind the records that are looked at before training
    shard.write_bytes(contents)
    with pytest.raises(DataError, match=f"{shard.name}: contents changed"):
        pretrain(dataclasses.replace(options, data_dir=str(copy), eval_steps=1, train_batch_size=64))


def test_resume_flags(options, finished):
    with pytest.raises(CheckpointError, match="--resume=must"):
        pretrain(dataclasses.replace(options, resume="must"))
    shutil.copytree(finished, options.model_dir)
    before = weights(options.model_dir)
    with pytest.raises(UsageError, match="holds a run already"):
        pretrain(dataclasses.replace(options, resume="never"))
    with pytest.raises(UsageError, match="seed: 12345 then, 7 now"):
        pretrain(dataclasses.replace(options, seed=7))
    assert largest_difference(before, weights(options.model_dir)) == 0.0


@pytest.mark.long
def test_records_of_google_need_no_manifest_and_mixed_precision_trains(options, static_records, zh_vocabulary):
    os.makedirs(options.model_dir)
    leftover = pathlib.Path(options.model_dir, "config.json.0123456789ab.partial")
    leftover.write_text("{")  # of a run that was killed before it had a configuration
    source = {"data_dir": None, "input_file": os.path.join(static_records, "*.tfrecord"), "vocab_file": zh_vocabulary}
    means = pretrain(dataclasses.replace(options, **source, mixed_precision="bfloat16"))
    assert keras.config.dtype_policy().name == "float32"  # of what is made behind it
    assert np.isfinite(means["loss"]) and not leftover.exists()
    assert {v.dtype for v in weights(options.model_dir).values()} == {np.dtype("float32")}


def test_pretraining_starts_from_a_checkpoint(trained, tmp_path):
    start = dataclasses.replace(trained, model_dir=str(tmp_path / "next"), init_checkpoint=trained.model_dir)
    pretrain(dataclasses.replace(start, learning_rate=0.0))
    assert largest_difference(weights(trained.model_dir), weights(start.model_dir)) == 0.0


def test_run_folder_explains_itself(trained):
    held = set(os.listdir(trained.model_dir))
    assert held >= {
        "config.json", "flags.txt", "environment.json", "data_manifest.json", "vocab.txt", "checkpoints", "backbone",
        "tensorboard", "log.jsonl", "model_card.md",
    }  # fmt: skip
    loaded = convert.load(trained.model_dir)
    assert loaded.heads == {"masked_lm", "next_sentence"}
    assert "--system=bert_wwm\n" in pathlib.Path(trained.model_dir, "flags.txt").read_text()


def test_numbers_that_are_not_finite_end_the_run(trained):
    changes = {"learning_rate": 1e38, "num_warmup_steps": 0, "num_train_steps": 24, "max_skipped_steps": 3}
    with pytest.raises(NonFiniteError, match="steps in a row .*Last good state: .*run/checkpoints/step_00000008"):
        pretrain(dataclasses.replace(trained, **changes))
    assert len(os.listdir(os.path.join(trained.model_dir, "nonfinite"))) >= 6  # batch and norms of each


def test_wrong_combinations_are_refused_before_anything_is_written(options, tmp_path, zh_vocabulary, small_config):
    other = tmp_path / "other.txt"
    lines = pathlib.Path(zh_vocabulary).read_text(encoding="utf-8").splitlines()
    other.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    smaller = tmp_path / "smaller.json"
    smaller.write_text(json.dumps(json.loads(pathlib.Path(small_config).read_text()) | {"vocab_size": 77}))
    wrong = [
        ({"vocab_file": str(other)}, DataError, "made with another vocabulary"),
        ({"model_config_file": str(smaller)}, UsageError, "vocabulary of 77"),
        ({"max_seq_length": 64}, UsageError, "the records were made for 32"),
        ({"train_batch_size": 7, "distribution_strategy": "mirrored"}, UsageError, "multiple of the 2 devices"),
        ({"num_warmup_steps": 9}, UsageError, "num_warmup_steps=9 is more than"),
        ({"system": "brt"}, UsageError, "Did you mean bert"),
        ({"data_dir": str(tmp_path / "nothing")}, DataError, "no such folder of records"),
        ({"init_checkpoint": str(tmp_path / "nothing")}, CheckpointError, "nothing"),
    ]
    for changes, error, message in wrong:
        with pytest.raises(error, match=message):
            pretrain(dataclasses.replace(options, **changes))
    for name in ("weights.safetensors", "log.jsonl", "backbone"):
        assert not os.path.exists(os.path.join(options.model_dir, name))
