"""The pretrained head of a language model learns beside a task, for every system that has one."""

import types

import numpy as np
import pytest

from data_pipelines.text.kinds import open_tokenizer
from xmodels import systems
from xmodels.conversion import convert
from xmodels.interfaces.reading import plain_reading
from xmodels.jobs.finetune.start import begin_language_model, finetuning_of, objective_of
from xmodels.models.folder import write_model
from xmodels.models.lstm_lm import LstmLM, LstmLMConfig
from xmodels.objectives.untied_lm import UntiedLM
from xmodels.tasks.classify.task import Classify
from xmodels.training.finetuning import AUXILIARY_LM


def options(**given):
    usual = {"task": "classify", "init_checkpoint": "a folder", "layerwise_lr_decay": 1.0, "auxiliary_lm_weight": None}
    return types.SimpleNamespace(
        **usual | {"freeze_backbone": False, "set": None, "language_model_epochs": 0.0} | given
    )


@pytest.fixture
def loaded(zh_vocabulary, tmp_path):
    """A model folder of an LSTM language model, whose output layer has a matrix of its own."""
    tokenizer = open_tokenizer(str(zh_vocabulary))
    config = LstmLMConfig(len(tokenizer.vocabulary), hidden_dim=8, num_layers=1)
    lm = UntiedLM(config)
    write_model(str(tmp_path), LstmLM(config).initialize(), lm, tokenizer.files(), tokenizer.describe(), "lstm_lm")
    return convert.load(str(tmp_path))


def test_the_head_of_the_pretraining_goes_on_beside_the_task(loaded):
    finetuning, same = finetuning_of(options(auxiliary_lm_weight=0.3), loaded)
    assert finetuning.loss_weights == {AUXILIARY_LM: 0.3} and same.config == loaded.config
    reading = plain_reading(LstmLM, loaded.tokenizer.open().vocabulary, True).with_pooling("mean")
    objective = objective_of(Classify(loaded.config, "ab", reading), finetuning, loaded)
    backbone = LstmLM(loaded.config).initialize()
    batch = {"token_ids": np.array([[5, 6, 3]]), "padding_mask": np.ones((1, 3), bool), "labels": np.array([1])}
    batch["example_weights"] = np.ones(1, "float32")
    losses, _ = objective.score(objective.forward(backbone, batch), batch, backbone)
    begin_language_model(objective, loaded, "a folder")
    head = objective.language_model.head
    np.testing.assert_array_equal(head.kernel, loaded.values["objective.untied_lm.head.kernel"])
    assert set(losses) == {"classify", AUXILIARY_LM} and objective.prefix == "objective"


@pytest.mark.parametrize(
    "given", [{}, {"auxiliary_lm_weight": 0.0}, {"auxiliary_lm_weight": 1.0, "freeze_backbone": True}]
)
def test_without_a_weight_or_with_a_frozen_network_the_task_stays_alone(given, loaded):
    task = Classify(loaded.config, "ab")
    assert objective_of(task, finetuning_of(options(**given), loaded)[0], loaded) is task


def test_networks_that_read_one_text_from_left_to_right_model_language():
    writing = {name: systems.load(name).WRITING for name in systems.names()}
    able = {name for name, each in writing.items() if each and each.models_language}
    assert {"gpt", "gpt2", "lstm_lm", "transformer_xl"} <= able
    assert not able & {"bert", "xlnet", "unilm", "transformer", "t5", "bart", "mass"}
