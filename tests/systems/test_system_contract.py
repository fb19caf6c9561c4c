"""What a system says of itself: its own numbers by --set, its name in the model folder, how it reads and writes."""

import dataclasses
import json
import pathlib
import types

import numpy as np
import pytest

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.options import settings
from data_pipelines.text.frames import ROBERTA
from data_pipelines.text.kinds import open_tokenizer
from tests.helpers.invocation import invoke
from xmodels import systems
from xmodels.interfaces import reading
from xmodels.jobs.pretrain.network import make_config
from xmodels.jobs.pretrain.system_settings import apply_network_settings, parse_system_options
from xmodels.jobs.tpu_preflight.step import make_placeholder_vocabulary
from xmodels.models import folder
from xmodels.models.bert import Bert, BertConfig
from xmodels.runs.loaded import identify, load

SAMPLES = pathlib.Path(__file__).parents[2] / "samples/zh"
SMALL = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32, "max_sequence_length": 32}


@pytest.mark.parametrize("name", systems.names())
def test_every_system_says_how_it_reads_and_writes(name):
    system = systems.load(name)
    assert system.READING is None or isinstance(system.READING, reading.Reading)
    assert not system.WRITING or {"start", "decode"} <= set(dir(system.MODEL))
    assert systems.name_of(system) == name and systems.of_model(name, systems.model_of(system), "a folder") is system
    assert systems.mentions(name, systems.model_of(system))  # or `default_for` would pass it by
    own = parse_system_options(None, system)
    config = systems.configuration(system, make_placeholder_vocabulary(200), "tiny")
    assert apply_network_settings("hidden_dim=512", system, config) == dataclasses.replace(config, hidden_dim=512)
    assert own is None or dataclasses.is_dataclass(own)


def test_a_network_that_names_no_system_has_that_of_its_own_name():
    assert [systems.default_for(name) for name in ("bert", "gpt2", "story_transformer")] == ["bert", "gpt2", None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label_smothing=0.2", "Did you mean label_smoothing. Known of --system=transformer: label_smoothing, smoothing_over; its"),
        ("label_smoothing", "expected NAME=VALUE"),
        ("label_smoothing=high", "expected a number"),
        ("label_smoothing=1.5", "from 0 to below 1"),
        ("label_smoothing=0.1,label_smoothing=0.2", "given twice"),
        ("vocabulary_size=7", "unknown name"),
        ("num_layers=0", "must be a whole number from 1"),
        ("attention_bias=perhaps", "expected true or false"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_in_one_line(text, message):
    system = systems.load("transformer")
    options = types.SimpleNamespace(set=text, size="tiny", model_config_file=None, mixer=None, recipe="published")
    with pytest.raises(UsageError, match=message):
        parse_system_options(text, system)
        make_config(options, system, range(200))


def test_settings_are_typed_by_the_fields_that_they_name():
    system = systems.load("transformer_xl")
    config = systems.configuration(system, make_placeholder_vocabulary(200), "tiny")
    changed = apply_network_settings(
        "cutoffs=20,50,memory_length=7, clamp_length=none,same_length=true", system, config
    )
    assert (changed.cutoffs, changed.memory_length, changed.clamp_length, changed.same_length) == (
        (20, 50),
        7,
        None,
        True,
    )
    own = parse_system_options("ponder_weight=0.5,label_smoothing=0", systems.load("adaptive_universal_transformer"))
    assert (own.ponder_weight, own.label_smoothing) == (0.5, 0.0)
    assert settings.parse(None) == settings.parse("") == {}


def test_own_numbers_reach_the_objective():
    system = systems.load("adaptive_universal_transformer")
    config = systems.configuration(system, make_placeholder_vocabulary(200), "tiny")
    records = types.SimpleNamespace(sequence_length=16)
    vocabulary = open_tokenizer(str(SAMPLES / "vocab.txt")).vocabulary if (SAMPLES / "vocab.txt").exists() else None
    if vocabulary is None:
        vocabulary = {"[SEP]": 1, "[PAD]": 0, "[EOS]": 2}
    objective = systems.recipe(
        system, vocabulary, records, config, parse_system_options("ponder_weight=0.5", system)
    ).objective()
    assert (objective.ponder_weight, objective.label_smoothing) == (0.5, 0.1)


ROBERTA_ON_BERT = '''"""A trial: RoBERTa's frame on BERT."""

from data_pipelines.text.frames import ROBERTA
from xmodels.interfaces.reading import Reading, first_token
from xmodels.models.bert import SIZES, Bert
from xmodels.systems import bert

MODEL, NEEDS_WORDS = Bert, False
READING, WRITING = Reading(frame=ROBERTA, summary=first_token), None
recipe = bert.recipe
__all__ = ["SIZES"]
'''


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """A listing with one more system."""
    listing = tmp_path / "listing"
    listing.mkdir()
    (listing / "trial_roberta.py").write_text(ROBERTA_ON_BERT)
    monkeypatch.setattr(systems, "__path__", [*systems.__path__, str(listing)])
    yield "trial_roberta"
    systems.default_for.cache_clear()


@pytest.fixture
def model(tmp_path, zh_vocabulary):
    """A function that writes a tiny BERT as a model folder of some system."""
    tokenizer = open_tokenizer(str(zh_vocabulary))

    def make(system):
        path = tmp_path / f"model_{system}"
        path.mkdir()
        backbone = Bert(BertConfig(len(tokenizer.vocabulary), **SMALL)).initialize()
        folder.write_model(str(path), backbone, None, tokenizer.files(), tokenizer.describe(), system)
        return path

    return make


def test_the_frame_of_a_system_lives_from_the_model_folder_to_the_fine_tuned_run(trial, model, tmp_path):
    start, run, again = model(trial), tmp_path / "run", tmp_path / "converted"
    flags = {"init_checkpoint": start, "train_file": SAMPLES / "train.tsv", "max_seq_length": 16, "train_batch_size": 8}
    assert invoke("finetune", model_dir=run, num_train_epochs=0.02, jit_compile="false", **flags) == 0
    assert json.loads((run / "backbone/config.json").read_text())["system"] == trial
    assert invoke("convert_checkpoint", **{"from": run / "backbone", "to": again}) == 0
    for path in (start, run, again):
        found = identify(str(path))
        assert (found.system, found.reading.frame, found.reading.summary) == (trial, ROBERTA, reading.first_token)


def test_folders_of_before_are_told_by_their_network_and_bad_names_are_refused(model):
    path = model(None)
    assert set(json.loads((path / "config.json").read_text())) == {"model", "config"}
    loaded = load(str(path))
    assert (loaded.system, loaded.reading, loaded.writing) == ("bert", systems.load("bert").READING, None)
    for name, message in (
        ("bertt", "'bertt', which is unknown. Known: ada"),
        ("gpt2", "trains 'gpt2'; `model` is 'bert'"),
    ):
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(config | {"system": name}))
        with pytest.raises(CheckpointError, match=message):
            identify(str(path))


def test_the_last_token_is_the_last_real_one():
    states = np.arange(12.0).reshape(2, 3, 2)
    mask = np.array([[True, True, False], [False, False, False]])
    found = reading.last_token({"sequence_output": states}, {"padding_mask": mask})
    assert np.array(found).tolist() == [[2.0, 3.0], [6.0, 7.0]]
