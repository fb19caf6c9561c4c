"""ELMo's pretraining by commands: an interrupted run goes on with the states of both directions."""

import shutil

import numpy as np
import pytest

from tests.helpers.invocation import invoke
from xmodels.models.folder import read_weights

WORDS = "the a king queen is was here there no one good bad day night".split()


@pytest.mark.long
def test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not(tmp_path):
    draw = np.random.default_rng(0)
    lines = [" ".join(draw.choice(WORDS, draw.integers(3, 9))) + ("\n" if i % 5 else "\n\n") for i in range(300)]
    (tmp_path / "corpus.txt").write_text("".join(lines), encoding="utf-8")
    text = {"input_file": tmp_path / "corpus.txt"}
    vocabulary = {"tokenizer": "word_characters", "vocab_size": 30, "output_file": tmp_path / "words"}
    assert invoke("train_vocabulary", **text, **vocabulary) == 0
    made = {"vocab_file": tmp_path / "words", "output_dir": tmp_path / "streams", "packing": "sentence_streams"}
    assert invoke("create_pretraining_data", **text, **made, max_seq_length=8) == 0
    run = {
        "system": "elmo",
        "size": "tiny",
        "set": "num_sampled=8",
        "data_dir": tmp_path / "streams",
        "num_train_steps": 4,
    }
    run |= {"train_batch_size": 4, "save_checkpoints_steps": 2}
    assert invoke("pretrain", **run, model_dir=tmp_path / "whole") == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "parted")
    for gone in ("checkpoints/step_00000004", "backbone"):
        shutil.rmtree(tmp_path / "parted" / gone)
    assert invoke("pretrain", **run, model_dir=tmp_path / "parted", resume="must") == 0
    states = "checkpoints/step_00000004/optimizer.safetensors", "backbone/weights.safetensors"
    for file in states:
        first, second = (read_weights(tmp_path / folder / file) for folder in ("whole", "parted"))
        assert first.keys() == second.keys()
        for name, value in first.items():
            np.testing.assert_array_equal(second[name], value, err_msg=name)
    assert any(
        np.abs(value).max() > 0
        for name, value in read_weights(tmp_path / "whole" / states[0]).items()
        if "carried" in name
    )
