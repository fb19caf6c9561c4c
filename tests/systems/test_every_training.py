"""Training of systems: resumed, shared by two devices, and by the command."""

import contextlib
import dataclasses
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

from data_pipelines.records.source import RecordSource
from data_pipelines.text.vocabulary import Vocabulary
from tests.helpers.small_systems import RECORDS, make_learner, small_recipe, small_sizes, without_graphs
from xmodels import systems
from xmodels.jobs.pretrain.run import Options, pretrain
from xmodels.models.folder import read_weights
from xmodels.training.loop import Loop
from xmodels.training.states import checkpoints

# Other tests show the same of BERT (`test_training`, `test_dry_run`), of Transformer-XL and of several streams.
NAMES = "ernie2", "xlnet"
OTHERS = (
    "bart",
    "roberta",
    "albert",
    "ernie",
    "spanbert",
    "unilm",
    "t5",
    "mass",
    "siatl",
)  # like BERT, like BART, and streams
SYSTEMS = *NAMES, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)
DRY_RUNS = NAMES[0], *(pytest.param(name, marks=pytest.mark.long) for name in (*NAMES[1:], *OTHERS))
NUMBERS = {"ernie2": {"num_segments": 3, "num_tasks": 16}}  # of networks of the command, besides those of all


def run(learner, folder, state=None):
    """Trains to the second step, with a state after each. Returns all that a state holds, by name."""
    # TensorFlow gathers the memories of replicas in graphs only.
    in_graphs = learner.backbone.carries_memory and learner.strategy.num_replicas_in_sync > 1
    with contextlib.nullcontext() if in_graphs else without_graphs():
        Loop(learner, str(folder), 2, 0, save_every=1, log_every=2).run(state or checkpoints.State())
    variables = learner.trained_weights() | checkpoints.optimizer_variables(learner) | learner.further_variables
    return {name: variable.numpy() for name, variable in variables.items()}


@pytest.fixture(scope="module", params=SYSTEMS)
def whole(request, zh_vocabulary, records_of, tmp_path_factory):
    """A system's recipe and records, and the folder and the values of a run of two steps on one device."""
    recipe = small_recipe(request.param, Vocabulary.read(zh_vocabulary), batch_size=4)
    source, folder = RecordSource(records_of(recipe.packings[0])), tmp_path_factory.mktemp(request.param)
    return recipe, source, folder, run(make_learner(recipe, source), folder)


@pytest.mark.long
@pytest.mark.one_in(2)
def test_a_resumed_run_equals_an_uninterrupted_one(whole, tmp_path):
    recipe, source, folder, values = whole
    learner = make_learner(recipe, source)
    state = checkpoints.restore(f"{folder}/checkpoints/step_00000001", learner)
    assert state.step == 1 and state.consumed == 4
    found = run(learner, tmp_path, state)
    assert found.keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.long
def test_two_devices_that_share_a_batch_equal_one(whole, tmp_path):
    recipe, source, _, values = whole
    found = run(make_learner(recipe, source, strategy="mirrored"), tmp_path)
    for name, value in values.items():
        np.testing.assert_allclose(found[name], value, atol=1e-4, err_msg=name)


@pytest.fixture
def options_of(zh_vocabulary, records_of, tmp_path):
    """A function: the options of four steps of a small network of a system, with dropout, and with a state after the second."""

    def make(name):
        system, vocabulary = systems.load(name), Vocabulary.read(zh_vocabulary)
        kind = system.MODEL.config_class
        config = kind(vocabulary_size=len(vocabulary), **small_sizes(kind), **NUMBERS.get(name, {}))
        path = tmp_path / "sizes.json"
        path.write_text(json.dumps({"model": systems.model_of(system), "config": config.to_json()}))
        return Options(
            system=name, model_dir=str(tmp_path / "run"), data_dir=records_of(system.recipe(vocabulary, RECORDS).packings[0]),
            model_config_file=str(path), num_train_steps=4, train_batch_size=4, save_checkpoints_steps=2, log_steps=2,
            eval_steps=1,
        )  # fmt: skip

    return make


@pytest.mark.long
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_resumed_command_gives_the_network_of_an_uninterrupted_one(name, options_of, tmp_path):
    options = options_of(name)
    pretrain(options)
    parted = dataclasses.replace(options, model_dir=str(tmp_path / "parted"), resume="must")
    shutil.copytree(options.model_dir, parted.model_dir)
    for gone in ("checkpoints/step_00000004", "backbone"):
        shutil.rmtree(f"{parted.model_dir}/{gone}")
    pretrain(parted)
    first, second = (read_weights(f"{each.model_dir}/backbone/weights.safetensors") for each in (options, parted))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[key], second[key]) for key in first)


def files(folder):
    return {path: path.stat().st_mtime_ns for path in pathlib.Path(folder).rglob("*")}


@pytest.mark.parametrize("name", DRY_RUNS)
def test_a_dry_run_shows_the_numbers_and_writes_nothing(name, options_of, tmp_path, monkeypatch, capsys):
    options = options_of(name)
    monkeypatch.chdir(tmp_path)
    before = [files(folder) for folder in (options.data_dir, tmp_path)]
    assert pretrain(dataclasses.replace(options, dry_run=True)) == {}
    assert [files(folder) for folder in (options.data_dir, tmp_path)] == before
    said = capsys.readouterr().out
    assert re.search(r"^  num_train_steps +4 +flag$", said, re.MULTILINE)
    assert re.search(r"^  max_seq_length +32 +records$", said, re.MULTILINE)
    assert re.search(rf"^  learning_rate +[\d.e-]+ +recipe of {name}$", said, re.MULTILINE)
    assert re.search(r"^  total +[\d,]{5,}$", said, re.MULTILINE) and "FLOPs a step of" in said
    assert re.search(r"^  token_ids +int32 \(4, \d+\)$", said, re.MULTILINE)
    assert said.endswith("Dry run: nothing was written.\n")
