"""Networks whose table of tokens was filled up are read with the vocabulary that they came with."""

import dataclasses

import pytest

from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.conversion.test_conversion import random_checkpoint
from tests.helpers.invocation import invoke
from tests.helpers.samples import SHARED
from xmodels.conversion import convert
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.runs.loaded import load
from xmodels.tasks.base.texts import with_rows as with_token_rows

TOKENS = [*SPECIAL_TOKENS, *(f"w{i}" for i in range(120))]


def with_rows(count):
    files = {"vocab.txt": "".join(f"{token}\n" for token in TOKENS).encode()}
    held = TokenizerFiles(files, {"tokenizer": "wordpiece", "do_lower_case": True})
    return dataclasses.replace(random_checkpoint(vocabulary_size=count), tokenizer=held)


@pytest.mark.parametrize(
    ("rows", "holds"),
    [(125, True), (128, True), (192, True), (1125, True), (126, False), (127, False), (264, False), (124, False)],
)
def test_a_table_is_filled_up_to_a_round_number(rows, holds):
    assert with_rows(rows).config.holds(len(TOKENS)) == holds
    assert with_rows(rows).config.suits(len(TOKENS)) == (rows == 125)  # what a new network is asked


def test_a_filled_up_network_is_converted_and_opened(tmp_path):
    convert.save(with_rows(128), f"hf:{tmp_path / 'theirs'}")
    convert.save(convert.load(f"hf:{tmp_path / 'theirs'}"), str(tmp_path / "ours"))
    assert convert.verify(f"hf:{tmp_path / 'theirs'}", str(tmp_path / "ours"))["sequence_output"] == 0
    loaded = load(str(tmp_path / "ours"))
    assert (len(loaded.tokenizer.vocabulary), loaded.backbone.config.vocabulary_size) == (125, 128)


def test_added_tokens_of_a_task_take_spare_rows_first():
    checkpoint = with_rows(128)
    assert with_token_rows(checkpoint, 127, seed=0) is checkpoint
    assert len(with_token_rows(checkpoint, 130, seed=0).values["backbone.embedding.token.embeddings"]) == 130


@pytest.mark.shared_data
def test_a_filled_up_network_from_the_field(capsys):
    assert invoke("predict", model_dir=f"hf:{SHARED / 'cases/bert_spare_rows/model'}", text="hello [MASK]") == 0
    assert "mask 1:" in capsys.readouterr().out
