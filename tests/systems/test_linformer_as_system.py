"""Linformer as a system: RoBERTa with another mixer, from records to a classifier."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import Vocabulary
from tests.helpers.invocation import invoke
from tests.helpers.small_systems import RECORDS, make_learner, small_sizes
from xmodels import systems
from xmodels.jobs.tpu_preflight.step import make_placeholder_vocabulary
from xmodels.models.folder import read_model, write_model
from xmodels.training.recipe import Records


def small_config(vocabulary, **numbers):
    system = systems.load("linformer")
    config = systems.configuration(system, vocabulary, "tiny")
    numbers = {"rank": 8, **numbers}
    return dataclasses.replace(
        config, **small_sizes(type(config)), dropout=0.0, attention_dropout=0.0, mixer_numbers=numbers
    )


def test_the_system_is_roberta_with_this_mixer_and_fewer_steps():
    system, roberta, vocabulary = systems.load("linformer"), systems.load("roberta"), make_placeholder_vocabulary(200)
    ours, theirs = (systems.configuration(each, vocabulary, "base") for each in (system, roberta))
    assert ours.mixer == "linformer" and dataclasses.replace(ours, mixer="multi_head") == theirs
    recipes = [each.recipe(vocabulary, Records(512, 77, packing="full_sentences")) for each in (system, roberta)]
    assert recipes[0].num_steps == 250_000 and recipes[0].batch_size == recipes[1].batch_size == 8192
    assert recipes[0].learning_rate == recipes[1].learning_rate and recipes[0].frame is not None


@pytest.mark.long
def test_it_learns_a_batch_and_its_folder_gives_the_same_network(zh_vocabulary, records_of, tmp_path):
    vocabulary = Vocabulary.read(zh_vocabulary)
    config = small_config(vocabulary, sharing="layers")
    recipe = systems.load("linformer").recipe(vocabulary, RECORDS, "tiny", config)
    learner = make_learner(dataclasses.replace(recipe, batch_size=4), RecordSource(records_of("full_sentences")))
    batch = next(iter(learner.streams["training"].batches.once(1)))
    before = learner.evaluate([batch])["loss"]
    learner.train(iter(tf.data.Dataset.from_tensors(batch).repeat()), tf.constant(150))
    assert learner.evaluate([batch])["loss"] < 0.3 * before
    write_model(str(tmp_path), learner.backbone, learner.objective, system="linformer")
    stored = json.loads((tmp_path / "config.json").read_text())["config"]
    assert (stored["mixer"], stored["mixer.rank"], stored["mixer.sharing"]) == ("linformer", 8, "layers")
    again = read_model(str(tmp_path))[0]
    features = {name: batch[name] for name in again.reads}
    expected = learner.backbone(features)["sequence_output"]
    np.testing.assert_allclose(again(features)["sequence_output"], expected, atol=1e-5)


def test_packed_rows_and_longer_records_are_refused_in_one_line(zh_vocabulary, records_of, tmp_path, capsys):
    config = small_config(Vocabulary.read(zh_vocabulary))
    flags = {"system": "linformer", "data_dir": records_of("full_sentences"), "eval_steps": 1, "num_train_steps": 1}
    for length, more, message in (
        (64, {"pack_rows": True}, "--pack_rows: the mixer linformer does not keep several examples of a row apart."),
        (8, {}, "but the network has 8 positions."),
    ):
        path = tmp_path / f"{length}.json"
        values = dataclasses.replace(config, max_sequence_length=length).to_json()
        path.write_text(json.dumps({"config": values}))
        assert invoke("pretrain", **flags, model_config_file=path, model_dir=tmp_path / f"run{length}", **more) == 2
        assert message in capsys.readouterr().err
