"""--step_engine: which learner does the steps of a pretraining."""

import numpy as np
import pytest

from data_pipelines.errors import UsageError
from xmodels.jobs.pretrain import engine
from xmodels.jobs.pretrain.options import Options
from xmodels.kernels import word_learner
from xmodels.training.step.learner import Learner


def pretrain(folder, records, **more):
    from xmodels.jobs.pretrain.run import pretrain as run

    given = {"system": "skip_gram", "size": "tiny", "num_train_steps": 3, "eval_steps": 1} | more
    return run(Options(model_dir=str(folder), data_dir=records, **given))


def test_without_numba_steps_are_operations_unless_it_is_asked_for(stream_records, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(word_learner, "is_installed", lambda: False)
    with pytest.raises(UsageError, match=r"--step_engine=numba: Numba is not installed. Do: pip install"):
        pretrain(tmp_path / "run", stream_records, step_engine="numba")
    assert pretrain(tmp_path / "run", stream_records)["loss"] > 0
    assert "with Numba these steps take a fraction of the time" in capsys.readouterr().out
    pretrain(tmp_path / "other", stream_records, step_engine="tensorflow")
    assert "Numba" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"system": "gpt", "size": "tiny"}, "the system is none of skip_gram, cbow and fasttext"),
        ({"clip_norm": 1.0}, "gradients are clipped"),
        ({"ema_decay": 0.9}, "weights are averaged"),
        ({"log_norms_steps": 1}, "norms of gradients are logged"),
    ],
)
def test_what_compiled_steps_cannot_do_is_told(given, reason, stream_records, tmp_path, monkeypatch):
    monkeypatch.setattr(word_learner, "is_installed", lambda: True)
    with pytest.raises(UsageError, match=f"--step_engine=numba: {reason}. Choose auto or tensorflow."):
        pretrain(tmp_path / "run", stream_records, step_engine="numba", dry_run=True, **given)


def test_auto_takes_operations_where_compiled_steps_do_not_fit(monkeypatch):
    monkeypatch.setattr(word_learner, "reason_against", lambda *arguments: "it is a test")
    options = Options(system="skip_gram", model_dir="run")
    assert engine.choose_learner(options, None, None, None, None, None) is Learner


@pytest.mark.extra("numba")
@pytest.mark.parametrize("system", ["skip_gram", "cbow"])
def test_a_run_is_the_same_by_both_engines_and_goes_on_with_the_other(system, stream_records, tmp_path):
    from xmodels.conversion import convert

    found = {}
    for name in ("tensorflow", "numba"):
        means = pretrain(tmp_path / name, stream_records, system=system, step_engine=name, num_train_steps=6)
        found[name] = [means["loss"], *convert.load(str(tmp_path / name)).values.values()]
    for one, other in zip(found["tensorflow"], found["numba"], strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5, rtol=1e-4)
    pretrain(tmp_path / "numba", stream_records, system=system, step_engine="tensorflow", num_train_steps=8)
