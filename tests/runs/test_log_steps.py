"""Short runs have progress lines too."""

import types

import pytest

from xmodels.jobs.finetune.options import Options as Finetune
from xmodels.jobs.pretrain.options import Options as Pretrain
from xmodels.runs import training


@pytest.mark.parametrize(
    ("given", "num_steps", "interval"),
    [(None, 3, 1), (None, 39, 1), (None, 200, 10), (None, 2000, 100), (None, 10**6, 100), (7, 3, 7), (500, 10**6, 500)],
)
def test_lines_come_twenty_times_in_a_short_run_and_every_hundred_steps_in_a_long_one(given, num_steps, interval):
    options = types.SimpleNamespace(
        log_steps=given, save_checkpoints_steps=1000, keep_checkpoint_max=2, max_skipped_steps=20, seed=1
    )
    made = types.SimpleNamespace(options=options, learner=None, num_steps=num_steps, loop={})
    assert training._loop(made, "run", None).log_every == interval


@pytest.mark.parametrize("options", [Pretrain, Finetune])
def test_the_default_is_that_of_the_run(options):
    assert options.__dataclass_fields__["log_steps"].default is None
