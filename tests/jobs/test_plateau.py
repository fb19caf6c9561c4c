"""What a run says that has learnt nothing: the lines of counting, and what to change."""

import dataclasses

import pytest

from tests.helpers.invocation import invoke
from tests.helpers.samples import make_records
from tests.helpers.small_models import TOKENIZER
from xmodels import systems
from xmodels.jobs.pretrain import run as pretrain
from xmodels.jobs.pretrain.network import small_numbers_for
from xmodels.jobs.pretrain.run import Options, length_schedule, plateau
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

PUBLISHED = Recipe(
    num_steps=1000, learning_rate=1e-4, num_warmup_steps=10, backbone=None, objective=None, frame=None, batch_size=32
)
SMALL = dataclasses.replace(
    PUBLISHED, learning_rate=4e-3, optimizer="muon", origin="small", length_schedule="32:0.5,128:0.5"
)


@pytest.mark.parametrize(
    ("recipe", "known", "shorter", "expected"),
    [
        (PUBLISHED, small.MASKED, None, ["--recipe=small"]),
        (
            dataclasses.replace(PUBLISHED, learning_rate=2e-3),
            small.MASKED,
            None,
            ["--recipe=small", "--optimizer=adamw"],
        ),
        (PUBLISHED, None, None, ["--learning_rate", "--num_train_steps"]),
        (SMALL, small.MASKED, None, ["--num_train_steps"]),
        (
            dataclasses.replace(SMALL, learning_rate=1e-4),
            small.MASKED,
            None,
            ["is low for muon", "--learning_rate=0.002"],
        ),
        (
            dataclasses.replace(SMALL, learning_rate=0.1),
            small.MASKED,
            None,
            ["is high for muon", "--learning_rate=0.002"],
        ),
        (SMALL, small.MASKED, "32:0.5,128:0.5", ["--length_schedule=32:0.5,128:0.5"]),
        (
            dataclasses.replace(SMALL, num_warmup_steps=900),
            small.MASKED,
            None,
            ["still rising", "--num_warmup_steps=62"],
        ),
    ],
)
def test_the_cause_is_what_differs_from_the_numbers_of_small_networks(recipe, known, shorter, expected):
    causes = plateau.likely_causes(recipe, known, 256, shorter, 100)
    text = " ".join(causes)
    assert all(part in text for part in expected)
    assert text.count("--") == sum(part.startswith("--") for part in expected)


def test_a_network_is_small_by_its_width_wherever_its_configuration_comes_from():
    for name, width, expected in (("bert", 128, small.MASKED), ("bert", 768, None), ("lstm_lm", 64, None)):
        system = systems.load(name)
        config = dataclasses.replace(systems.configuration(system, TOKENIZER.vocabulary, "tiny"), hidden_dim=width)
        assert small_numbers_for(system, config) is expected


@pytest.mark.parametrize(
    ("length", "given", "allowed"),
    [(128, {}, True), (128, {"pack_rows": True}, False), (150, {}, False)],  # of 32, four rows are 128 tokens
)
def test_shorter_rows_are_advised_only_where_the_command_would_take_them(length, given, allowed):
    text, records = f"32:0.5,{length}:0.5", Records(length, packing="full_sentences")
    options = Options(system="bert", model_dir="run", **given)
    assert length_schedule.keep_if_possible(text, options, 1000, records, False) == (text if allowed else None)


@pytest.mark.long
def test_a_run_names_the_lines_of_counting_and_warns_once_and_its_card_and_report_show_them(
    zh_vocabulary, tmp_path, capsys
):
    records, run = make_records(tmp_path / "records", zh_vocabulary), str(tmp_path / "run")
    options = Options(
        system="bert", size="tiny", recipe="published", set="num_layers=1,hidden_dim=16,num_heads=2,intermediate_dim=32",
        data_dir=records, model_dir=run, num_train_steps=120, train_batch_size=4, learning_rate=1e-7, eval_steps=1, log_steps=20,
    )  # fmt: skip
    pretrain.pretrain(options)
    output = capsys.readouterr()
    said = output.out + output.err
    assert said.index("by always predicting the most frequent token") < said.index("step 20/120")
    assert "by counts of the true neighbouring tokens" in said
    assert said.count("does not use the context yet") == 1
    assert said.index("step 100/120") < said.index("does not use the context") < said.index("--recipe=small.")
    card = (tmp_path / "run/model_card.md").read_text("utf-8")
    assert "unigram_baseline" in card and "neighbour_baseline" in card
    invoke("report", model_dir=run)
    page = (tmp_path / "run/report.html").read_text("utf-8")
    assert "most frequent token" in page and "counts of the neighbours" in page
