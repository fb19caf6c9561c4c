"""--step_engine: which learner does the steps of a training."""

import numpy as np
import pytest

from data_pipelines.errors import UsageError
from xmodels.jobs import engine
from xmodels.jobs.pretrain.options import Options
from xmodels.kernels import compiled_learner
from xmodels.kernels.word_learner import WordLearner
from xmodels.training.step.learner import Learner


def pretrain(folder, records, **more):
    from xmodels.jobs.pretrain.run import pretrain as run

    given = {"system": "skip_gram", "size": "tiny", "num_train_steps": 3, "eval_steps": 1} | more
    return run(Options(model_dir=str(folder), data_dir=records, **given))


def test_without_numba_steps_are_operations_unless_it_is_asked_for(stream_records, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compiled_learner, "is_installed", lambda: False)
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
    monkeypatch.setattr(compiled_learner, "is_installed", lambda: True)
    with pytest.raises(UsageError, match=f"--step_engine=numba: {reason}. Choose auto or tensorflow."):
        pretrain(tmp_path / "run", stream_records, step_engine="numba", dry_run=True, **given)


def test_auto_takes_operations_where_compiled_steps_do_not_fit():
    assert engine.choose_learner("auto", "it is a test", WordLearner) is Learner


@pytest.mark.extra("numba")
@pytest.mark.one_in(2)
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


def finetune(folder, **more):
    from xmodels.jobs.finetune.options import Options
    from xmodels.jobs.finetune.run import finetune as run

    given = {
        "task": "classify", "init_checkpoint": "new:fasttext_classifier", "model_config_file": str(folder / "sizes.json"),
        "vocab_file": str(folder / "words"), "train_file": str(folder / "train.tsv"), "max_seq_length": 16, "train_batch_size": 4,
        "length_buckets": "auto", "learning_rate": 0.05, "num_train_epochs": 3.0, "model_dir": str(folder / "run"),
    }  # fmt: skip
    return run(Options(**given | more))


@pytest.fixture
def labelled_folder(tmp_path):
    """Texts of letters, with the first of them as the label."""
    draw = np.random.default_rng(0)
    rows = [" ".join(draw.choice(list("abcdef"), draw.integers(2, 9))) for _ in range(30)]
    (tmp_path / "train.tsv").write_text("label\ttext\n" + "".join(f"{text[0] > 'c'}\t{text}\n" for text in rows))
    (tmp_path / "words").mkdir()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcde"]
    (tmp_path / "words/vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (tmp_path / "words/tokenizer_config.json").write_text('{"tokenizer": "word_characters", "do_lower_case": false}')
    (tmp_path / "sizes.json").write_text('{"hidden_dim": 8, "word_ngrams": 2, "buckets": 50}')
    return tmp_path


@pytest.mark.extra("numba")
def test_a_fine_tuning_is_the_same_by_both_engines_and_goes_on_where_it_was_killed(labelled_folder):
    from xmodels.conversion import convert

    found = {}
    for name, more in {"tensorflow": {}, "numba": {}, "killed": {"num_train_epochs": 1.5}}.items():
        run = str(labelled_folder / name)
        engine_of = "tensorflow" if name == "tensorflow" else "numba"
        finetune(labelled_folder, model_dir=run, step_engine=engine_of, lr_schedule="constant", **more)
        if more:
            finetune(labelled_folder, model_dir=run, step_engine=engine_of, lr_schedule="constant")
        found[name] = convert.load(run).values
    for name, expected in found["tensorflow"].items():
        np.testing.assert_allclose(found["numba"][name], expected, atol=2e-5, rtol=1e-4)
        np.testing.assert_array_equal(found["killed"][name], found["numba"][name])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"clip_norm": 1.0}, "gradients are clipped"),
        ({"optimizer": "adam"}, "the optimizer is neither lazy_adam nor sgd, plain ones"),
        ({"task_dropout": 0.1}, "the task is not --task=classify with one linear layer"),
        ({"init_checkpoint": "new:text_cnn", "model_config_file": None}, "the network is no whole fasttext_classifier"),
    ],
)
def test_what_compiled_steps_of_texts_cannot_do_is_told(given, reason, labelled_folder, monkeypatch):
    monkeypatch.setattr(compiled_learner, "is_installed", lambda: True)
    with pytest.raises(UsageError, match=f"--step_engine=numba: {reason}"):
        finetune(labelled_folder, step_engine="numba", dry_run=True, **given)
