"""The tokens with which a decoder begins and ends are those that its folder of Hugging Face names."""

import json

import pytest

from data_pipelines.errors import CheckpointError
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.helpers.samples import SHARED
from xmodels.conversion import convert
from xmodels.conversion.vocabularies import TokenizerFiles
from xmodels.models import folder
from xmodels.models.bart import Bart, BartConfig
from xmodels.models.checkpoint import Checkpoint
from xmodels.runs.loaded import load

TOKENS = [*SPECIAL_TOKENS, *(f"w{i}" for i in range(11))]
IDS = ("decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id")


@pytest.fixture(scope="module")
def checkpoint():
    config = BartConfig(
        vocabulary_size=16, hidden_dim=8, num_layers=1, num_heads=2, intermediate_dim=8, max_sequence_length=16
    )
    files = {"vocab.txt": "".join(f"{token}\n" for token in TOKENS).encode()}
    held = TokenizerFiles(files, {"tokenizer": "wordpiece", "do_lower_case": True})
    return Checkpoint("bart", config, folder.values_of("backbone", Bart(config).initialize()), held)


def told(path, checkpoint, **ids):
    """A folder of Hugging Face whose files name these ids, or none where they are None."""
    convert.save(checkpoint, f"hf:{path}")
    for name in ("config.json", "generation_config.json"):
        values = {key: value for key, value in json.loads((path / name).read_text()).items() if key not in IDS}
        (path / name).write_text(json.dumps(values | ids))
    return f"hf:{path}"


@pytest.mark.parametrize(
    ("ids", "start", "first", "forces_end"),
    [
        ((2, None, 3), 2, None, True), ((3, 2, 3), 3, 2, True), ((0, 7, None), 0, 7, False), ((5, None, None), 5, None, False),
    ],
)  # fmt: skip
def test_a_folder_says_with_which_tokens_texts_begin_and_end(ids, start, first, forces_end, checkpoint, tmp_path):
    said = {key: value for key, value in zip(IDS, ids, strict=True) if value is not None}
    source = told(tmp_path / "theirs", checkpoint, **said)
    found = load(source)
    vocabulary = found.tokenizer.vocabulary
    assert found.writing.start_id(vocabulary) == start
    assert found.writing.first_id(vocabulary) == first and found.writing.forces_end == forces_end
    convert.save(convert.load(source), f"hf:{tmp_path / 'again'}")
    assert load(f"hf:{tmp_path / 'again'}").writing == found.writing


def test_what_another_format_cannot_name_is_said(checkpoint, tmp_path):
    source = told(tmp_path / "a", checkpoint, decoder_start_token_id=2, forced_eos_token_id=3)
    assert convert.lost_ids(convert.load(source), "ours") == "`decoder_start_token_id` 2"
    source = told(tmp_path / "b", checkpoint, decoder_start_token_id=3, forced_bos_token_id=2, forced_eos_token_id=3)
    assert convert.lost_ids(convert.load(source), "ours") == ""


def test_a_folder_that_says_nothing_is_read_as_the_paper_has_it(checkpoint, tmp_path):
    found = load(told(tmp_path / "theirs", checkpoint))
    assert (found.writing.start, found.writing.opens_targets, found.writing.forces_end) == ("[SEP]", True, True)


@pytest.mark.parametrize("value", [16, -1, "2", [2], True])
def test_an_id_of_no_token_is_named(value, checkpoint, tmp_path):
    with pytest.raises(
        CheckpointError, match="generation_config.json: `decoder_start_token_id` .* is the id of no token"
    ):
        load(told(tmp_path / "theirs", checkpoint, decoder_start_token_id=value))


@pytest.mark.shared_data
def test_a_start_token_from_the_field():
    found = load(f"hf:{SHARED / 'cases/decoder_start/bart'}")
    assert found.writing.start_id(found.tokenizer.vocabulary) == 2
    assert found.writing.first_id(found.tokenizer.vocabulary) is None
