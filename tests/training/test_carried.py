"""The memory of a Transformer-XL goes from step to step, with its rows, into states and back."""

import dataclasses
import json
import math
import os
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import UsageError
from data_pipelines.ops.runs import frame_run
from data_pipelines.records.source import RecordSource
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.models.folder import read_weights
from xmodels.models.transformer_xl import TransformerXL, TransformerXLConfig
from xmodels.objectives.adaptive_lm import AdaptiveLM
from xmodels.training.devices import distribution
from xmodels.training.optimizers.optimization import Optimization
from xmodels.training.states import checkpoints
from xmodels.training.states.checkpoints import State
from xmodels.training.step.learner import Learner, Memory
from xmodels.training.step.streams import single


def config_of(source):
    size = source.manifest.settings.vocabulary_size
    return TransformerXLConfig(size, 16, 2, 2, 32, dropout=0.0, memory_length=40)


def learner_of(source, strategy="one_device", batch_size=4, learning_rate=1e-2, **memory):
    keras.utils.set_random_seed(0)
    with (chosen := distribution.choose(strategy)).scope():
        config = config_of(source)
        backbone, objective = TransformerXL(config).initialize(), AdaptiveLM(config)
        batches = Batches(source, frame_run(32), batch_size, keep=objective.batch_features(backbone))
        optimizer = Optimization(
            num_steps=100, learning_rate=learning_rate, num_warmup_steps=0, optimizer="sgd", schedule="constant"
        )
        learner = Learner(
            chosen, backbone, single(objective, batches), optimizer.make_optimizer(), 0.0, memory=Memory(**memory)
        )
    return learner, batches


def train(learner, batches, steps):
    replicas = learner.strategy.num_replicas_in_sync
    data = learner.strategy.distribute_datasets_from_function(
        lambda context: batches.training(per_batch=batches.batch_size // replicas)
    )
    learner.train(iter(data), tf.constant(steps))


def test_a_step_sees_what_the_steps_before_have_left(stream_records):
    source = RecordSource(stream_records)
    learner, batches = learner_of(source, learning_rate=0.0)  # so that the network stays what it is
    train(learner, batches, 3)
    past = learner.backbone.initial_memory(4)
    for batch in batches.training().take(3):
        outputs = learner.backbone({**batch, **past})
        past = {name: outputs[name] for name in past}
    for name, variable in learner.passes["training"].carried.memory.items():
        np.testing.assert_allclose(variable, past[name], atol=1e-5)
    assert learner.passes["training"].carried.memory["memory_filled"].numpy().tolist() == [40] * 4


@pytest.mark.long
def test_two_replicas_with_their_own_rows_equal_one(stream_records):
    source = RecordSource(stream_records)
    found = []
    for strategy in ("one_device", "mirrored"):
        learner, batches = learner_of(source, strategy)
        train(learner, batches, 3)
        carried = [v.numpy() for v in learner.passes["training"].carried.memory.values()]
        found.append([*(np.array(v) for v in learner.backbone.trainable_variables), *carried])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, atol=2e-6)


@pytest.mark.long
def test_an_evaluation_covers_every_token_once_and_with_its_past(stream_records):
    source = RecordSource(stream_records)
    labels = sum(int(b["label_weights"].numpy().sum()) for b in Batches(source, frame_run(32), 1).once())
    learner, batches = learner_of(source, batch_size=7)
    held = list(batches.once())
    assert sum(float(tf.reduce_sum(b["label_weights"])) for b in held) == labels > 1000
    first = np.concatenate([b["token_ids"].numpy()[0] for b in held])
    stream = np.concatenate([b["token_ids"].numpy()[0] for b in Batches(source, frame_run(32), 1).once()])
    np.testing.assert_array_equal(first[: 32 * (len(held) - 1)], stream[: 32 * (len(held) - 1)])
    past, total = learner.backbone.initial_memory(7), np.zeros(2)
    for batch in held:
        outputs = learner.backbone({**batch, **past})
        past = {name: outputs[name] for name in past}
        (pair,) = learner.objective.score(outputs, batch, learner.backbone)[0].values()
        total += [float(x) for x in pair]
    assert learner.evaluate(held)["adaptive_lm"] == pytest.approx(total[0] / total[1], rel=1e-5)


def test_other_rows_begin_with_an_empty_memory(stream_records, tmp_path, capsys):
    source = RecordSource(stream_records)
    path = checkpoints.save(str(tmp_path), learner_of(source)[0], State(1))
    learner, _ = learner_of(source, batch_size=2)
    assert checkpoints.restore(path, learner).step == 1
    assert "they begin with an empty memory" in capsys.readouterr().out
    for variable in learner.passes["training"].carried.memory.values():
        assert variable.shape[0] == 2 and not variable.numpy().any()


def test_micro_batches_are_refused(stream_records):
    with pytest.raises(UsageError, match="--gradient_accumulation_steps=2: a TransformerXL carries a memory"):
        learner_of(RecordSource(stream_records), micro_batches=2)


@pytest.mark.long
def test_a_resumed_run_equals_an_uninterrupted_one(stream_records, tmp_path):
    numbers = dataclasses.asdict(config_of(RecordSource(stream_records)))
    (tmp_path / "sizes.json").write_text(json.dumps({"model": "transformer_xl", "config": numbers}))
    options = Options(
        system="transformer_xl", model_dir=str(tmp_path / "whole"), data_dir=stream_records, num_train_steps=6,
        model_config_file=str(tmp_path / "sizes.json"), train_batch_size=4, eval_steps=2, save_checkpoints_steps=3,
    )  # fmt: skip
    means = pretrain(options)
    assert means["token_perplexity"] == pytest.approx(math.exp(means["loss"]))
    parted = dataclasses.replace(options, model_dir=str(tmp_path / "parted"), resume="must")
    shutil.copytree(options.model_dir, parted.model_dir)
    for gone in ("checkpoints/step_00000006", "backbone"):
        shutil.rmtree(os.path.join(parted.model_dir, gone))
    pretrain(parted)
    first, second = (read_weights(os.path.join(o.model_dir, "backbone/weights.safetensors")) for o in (options, parted))
    assert all(np.array_equal(first[name], second[name]) for name in first)
