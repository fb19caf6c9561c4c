"""A configuration names only the sizes that its network has, and reads the folders of earlier versions, which named others."""

import dataclasses

import pytest

from data_pipelines.errors import CheckpointError, UsageError
from tests.helpers.small_systems import small_sizes
from xmodels.models.bert import BertConfig
from xmodels.models.bilstm import BiLstmConfig
from xmodels.models.config import Config
from xmodels.models.folder import model_class
from xmodels.models.set_transformer import SetTransformerConfig
from xmodels.runs import changed_flags
from xmodels.tasks.base.new import names
from xmodels.training.watching.memory_need import activation_bytes

SIZES = {
    "vocabulary_size": 50, "hidden_dim": 32, "num_layers": 2, "num_heads": 2, "intermediate_dim": 64, "input_dim": 4,
}  # fmt: skip
# What config.json held of each network before, as folders of that time have it.
EARLIER = {
    "lstm_lm": {
        "num_layers": 2, "num_heads": 1, "intermediate_dim": 64, "max_sequence_length": 65536, "dropout": 0.1,
        "initial_scale": 0.1,
    },
    "skip_gram": {"num_layers": 1, "num_heads": 1, "intermediate_dim": 1, "max_sequence_length": 65536, "dropout": 0.1},
    "text_cnn": {
        "num_layers": 1, "num_heads": 1, "intermediate_dim": 1, "max_sequence_length": 65536, "dropout": 0.5,
        "embedding_dim": 6, "kernel_sizes": [3, 4],
    },
    "bilstm": {
        "num_layers": 2, "num_heads": 1, "intermediate_dim": 1, "max_sequence_length": 65536, "dropout": 0.3,
        "embedding_dim": 6,
    },
    "bigru": {
        "num_layers": 2, "num_heads": 1, "intermediate_dim": 1, "max_sequence_length": 65536, "dropout": 0.3,
        "embedding_dim": 6, "reset_after": False,
    },
    "gated_convolution": {
        "num_layers": 3, "num_heads": 1, "intermediate_dim": 1, "max_sequence_length": 512, "dropout": 0.2,
        "kernel_size": 3, "dilation_base": 1, "initializer_stddev": 0.1,
    },
    "rnn_search": {
        "num_layers": 1, "num_heads": 1, "intermediate_dim": 9, "max_sequence_length": 65536, "dropout": 0.0,
        "embedding_dim": 6, "maxout_dim": 4, "output_state": "previous",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", EARLIER)
def test_a_folder_of_an_earlier_version_is_read_and_its_made_up_sizes_are_dropped(name):
    kind = model_class(name).config_class
    values = {"vocabulary_size": 50, "hidden_dim": 16, **EARLIER[name]}
    config = kind.from_json(values)
    own = {field.name for field in dataclasses.fields(kind)}
    assert config.to_json() == {key: value for key, value in values.items() if key in own}
    assert kind.retired and not kind.retired & own
    with pytest.raises(CheckpointError, match="Unknown keys: num_head;"):
        kind.from_json({**values, "num_head": 1})


@pytest.mark.parametrize("name", EARLIER)
def test_a_run_of_an_earlier_version_resumes_unless_a_size_changes(name, tmp_path):
    values = {"vocabulary_size": 50, "hidden_dim": 16, **EARLIER[name]}
    stored = {"model": name, "config": values, "flags": {}, "settings": {}}
    now = {**stored, "config": model_class(name).config_class.from_json(values).to_json()}
    assert changed_flags.compare(str(tmp_path), stored, now, ()) == {}
    now["config"]["hidden_dim"] = 18
    with pytest.raises(UsageError, match="config.hidden_dim: 16 then, 18 now"):
        changed_flags.compare(str(tmp_path), stored, now, ())


def test_a_run_with_the_earlier_name_of_a_number_resumes_unless_it_changes(tmp_path):
    old = {**BertConfig(50, 16, 2, 2, 32).to_json(), "mixer": "local_window", "attention_window": 7}
    now = {"model": "bert", "config": BertConfig(50, 16, 2, 2, 32, mixer="local_window").to_json()}
    with pytest.raises(UsageError, match=r"config.mixer.window: 7 then, 128 now"):
        changed_flags.compare(str(tmp_path), {"model": "bert", "config": old}, now, ())
    now["config"]["mixer.window"] = 7
    assert changed_flags.compare(str(tmp_path), {"model": "bert", "config": old}, now, ()) == {}


CLAIMED = "vocabulary_size", "hidden_dim", "num_layers", "num_heads", "intermediate_dim", "max_sequence_length"


@pytest.mark.parametrize("name", names())
def test_every_size_that_a_configuration_claims_is_one_of_its_fields(name):
    kind = model_class(name).config_class
    assert {size for size in CLAIMED if hasattr(kind(**small_sizes(kind, SIZES)), size)} == {
        field.name for field in dataclasses.fields(kind) if field.name in CLAIMED
    }


@pytest.mark.parametrize("name", names())
def test_every_configuration_says_how_long_rows_may_be_and_what_a_step_keeps(name):
    kind = model_class(name).config_class
    config = kind(**small_sizes(kind, SIZES))
    assert config.longest == (getattr(config, "max_sequence_length", None) or None)
    if config.longest is None:
        assert config.reads(10**6) and config.cut(10**6) == 10**6
    else:
        assert config.reads(config.longest) and not config.reads(config.longest + 1)
        assert config.cut(10**6) == config.longest and config.cut(3) == 3
    assert 0 < config.kept_bytes(16, rematerialize=True) <= config.kept_bytes(16)
    assert isinstance(config, Config) and config.settings().keys() >= {"hidden_dim"}


def test_the_estimate_of_a_transformer_is_that_of_its_paper():
    """By hand: Korthikanti et al., 2022, section 4.1, and 12 bytes for each piece at each hidden token."""
    config = BertConfig(50, 16, 3, 2, 64)
    token, pairs = 35 * 16 + 8 * 64, 9 * 2 * 32
    assert activation_bytes(config, 4, 32, 5) == 3 * 4 * 32 * (token + pairs) + 12 * 4 * 5 * 50
    assert activation_bytes(config, 4, 32, rematerialize=True) == 4 * 32 * (token + pairs + 4 * 3 * 16)
    assert activation_bytes(config, 4, 32, half=True) == activation_bytes(config, 4, 32) // 2


def test_damaged_sizes_are_refused_before_anything_is_built():
    with pytest.raises(CheckpointError, match="`hidden_dim` times `hidden_dim` must be at most"):
        BiLstmConfig.from_json({"vocabulary_size": 9, "hidden_dim": 9_999_998})
    with pytest.raises(CheckpointError, match="`hidden_dim` must be a multiple of `num_heads`"):
        BertConfig.from_json(
            {"vocabulary_size": 9, "hidden_dim": 9, "num_layers": 1, "num_heads": 2, "intermediate_dim": 4}
        )


def test_the_estimate_of_a_set_transformer_has_no_vocabulary():
    config = SetTransformerConfig(input_dim=4, hidden_dim=16, num_layers=3, num_heads=2, num_inducing=8)
    assert activation_bytes(config, 4, 32, 5) == 3 * 4 * 32 * (35 * 16 + 9 * 2 * 8)
    assert activation_bytes(dataclasses.replace(config, num_inducing=0), 4, 32) == 3 * 4 * 32 * (35 * 16 + 9 * 2 * 32)
    with pytest.raises(CheckpointError, match="`hidden_dim` must be a multiple of `num_heads`"):
        SetTransformerConfig.from_json({**config.to_json(), "num_heads": 3})
    with pytest.raises(CheckpointError, match="Unknown keys: vocabulary_size;"):
        SetTransformerConfig.from_json({**config.to_json(), "vocabulary_size": 0})
