"""Trained networks get other mixers and more positions: what stays equal, what begins as copies, and what is refused."""

import json

import numpy as np
import pytest

from data_pipelines.errors import UsageError
from tests.helpers.invocation import invoke
from xmodels.conversion import convert
from xmodels.conversion.mixers import change_mixer
from xmodels.models.backbone import named_weights
from xmodels.models.checkpoint import Checkpoint
from xmodels.models.folder import assign, read_model, write_model
from xmodels.models.roberta import Roberta, RobertaConfig
from xmodels.models.transformer import Transformer, TransformerConfig

CONFIG = RobertaConfig(50, 16, 2, 2, 32, max_sequence_length=12, dropout=0.0, attention_dropout=0.0)


@pytest.fixture(scope="module")
def trained():
    network = Roberta(CONFIG).initialize()
    for index, variable in enumerate(network.weights):
        variable.assign_add(np.random.default_rng(index).normal(0, 0.3, variable.shape))
    return network


@pytest.fixture(scope="module")
def checkpoint(trained):
    values = {f"backbone.{name}": variable.numpy() for name, variable in named_weights(trained).items()}
    return Checkpoint("roberta", CONFIG, values, system="roberta")


def network_of(checkpoint):
    network = Roberta(checkpoint.config).initialize()
    assign("backbone", network, checkpoint.values, "test")
    return network


def batch(length=12):
    return {
        "token_ids": np.arange(2 * length, dtype="int32").reshape(2, -1) % 50,
        "padding_mask": np.ones((2, length), bool),
    }


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["longformer", "bigbird", "local_window"])
def test_texts_that_the_mixer_sees_whole_are_read_as_before(trained, checkpoint, name):
    changed = change_mixer(checkpoint, name, length=40)
    expected = trained(batch())["sequence_output"]
    np.testing.assert_allclose(network_of(changed)(batch())["sequence_output"], expected, atol=1e-5)
    assert changed.config.max_sequence_length == 40 and changed.config.mixer == name
    assert network_of(changed)(batch(40))["sequence_output"].shape == (2, 40, 16)


def test_projections_of_global_tokens_begin_as_copies(checkpoint):
    changed = change_mixer(checkpoint, "longformer", "mixer.window=3,mixer.num_global=2")
    assert changed.config.mixer_numbers.window == 3 and changed.config.mixer_numbers.num_global == 2
    for weight in ("kernel", "bias"):
        own = changed.values[f"backbone.blocks.1.mixer.key_global.{weight}"]
        np.testing.assert_array_equal(own, checkpoint.values[f"backbone.blocks.1.mixer.key.{weight}"])
    assert "its mixer multi_head is changed to longformer" in changed.warnings
    assert "12 weights begin as copies, such as blocks.0.mixer.query_global.kernel" in changed.warnings
    back = change_mixer(changed, "multi_head")
    assert back.values.keys() == checkpoint.values.keys() and "12 weights are left out" in back.warnings[-1]


def test_weights_that_nothing_is_like_begin_with_random_values(checkpoint):
    changed = change_mixer(checkpoint, "linformer", "mixer.rank=4")
    assert changed.values["backbone.blocks.0.mixer.mix_positions.keys"].std() > 0
    assert any("4 weights begin with random values" in warning for warning in changed.warnings)


def test_what_cannot_be_is_refused_in_one_line(checkpoint):
    config = TransformerConfig(50, 16, 1, 2, 32)
    other = Checkpoint("transformer", config, {})
    assert Transformer.config_class is TransformerConfig
    for arguments, message in (
        ((other, "linear"), "--to_mixer=linear: the attention of the network transformer cannot be chosen."),
        ((checkpoint, "linaer"), "--to_mixer=linaer: Unknown mixer 'linaer'. Known: axial, bigbird,"),
        ((checkpoint, "sparse"), "--to_mixer=sparse: SparseAttention requires `causal`"),
        (
            (checkpoint, "longformer", "mixer.windwo=3"),
            "--set=mixer.windwo=3: unknown name. Did you mean mixer.window?",
        ),
        (
            (checkpoint, "longformer", None, 8),
            "--max_sequence_length=8: the network has 12 positions. Give so many or more.",
        ),
    ):
        with pytest.raises(UsageError) as caught:
            change_mixer(*arguments)
        assert message in str(caught.value)


def test_the_command_writes_a_folder_that_computes_the_same(trained, tmp_path, capsys):
    (tmp_path / "short").mkdir()
    write_model(str(tmp_path / "short"), trained, system="roberta")
    flags = {"to_mixer": "longformer", "max_sequence_length": 40, "set": "mixer.window=16"}
    assert invoke("convert_checkpoint", **{"from": tmp_path / "short"}, to=tmp_path / "long", **flags) == 0
    assert "Note: its mixer multi_head is changed to longformer" in capsys.readouterr().out
    stored = json.loads((tmp_path / "long/config.json").read_text())["config"]
    assert (stored["mixer"], stored["mixer.window"], stored["max_sequence_length"]) == ("longformer", 16, 40)
    network = read_model(str(tmp_path / "long"))[0]
    np.testing.assert_allclose(network(batch())["sequence_output"], trained(batch())["sequence_output"], atol=1e-5)
    again = convert.load(str(tmp_path / "long"))  # what pretrain, finetune and others open
    assert again.config == network.config and again.values.keys() >= {"backbone.blocks.1.mixer.key_global.bias"}
    assert invoke("convert_checkpoint", **{"from": tmp_path / "long"}, to=f"hf:{tmp_path}/theirs") == 0
    assert json.loads((tmp_path / "theirs/config.json").read_text())["model_type"] == "longformer"


def test_flags_that_do_not_go_together_are_named(tmp_path, capsys):
    for flags, message in (
        (
            {"set": "mixer.window=3", "to": tmp_path / "x"},
            "--set=mixer.window=3: is for another mixer. Add --to_mixer=NAME",
        ),
        ({"to_mixer": "longformer", "to": f"hf:{tmp_path}/x"}, "has no place for --to_mixer=longformer."),
    ):
        assert invoke("convert_checkpoint", **{"from": tmp_path}, **flags) == 2
        assert message in capsys.readouterr().err
