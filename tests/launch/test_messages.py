"""Messages about what new users often give."""

import pytest

from data_pipelines.errors import CheckpointError, DataError, UsageError, name_source
from data_pipelines.finetuning.row_checks import check_labels
from data_pipelines.records.classic import classic_source
from data_pipelines.records.manifest import Manifest
from launch.command import Command
from launch.evaluate import COMMAND as EVALUATE
from launch.finetune import COMMAND as FINETUNE
from xmodels.conversion.names import check_there
from xmodels.jobs import early
from xmodels.jobs.evaluate.options import Options as Evaluation
from xmodels.jobs.index.options import Options as Index
from xmodels.runs.fine_tuned import read_task


@pytest.mark.parametrize(
    "text", ["Once upon a time.\nThere was\ta king.\n", "从前有座山，山里有座庙。\n" * 900, "{}", "a"]
)
def test_text_is_no_damaged_record(tmp_path, text):
    (tmp_path / "a.txt").write_text(text, "utf-8")
    with pytest.raises(DataError, match=r"a\.txt: holds text \('.*'\), not records\. `xmodels create_pretraining_data"):
        classic_source([str(tmp_path / "a.txt")], 100)
    with pytest.raises(DataError, match=r"a\.txt: is a file, not a folder of records.*create_pretraining_data"):
        Manifest.read(str(tmp_path / "a.txt"))


@pytest.mark.parametrize("name", ["bert-base-uncased", "google/bert_uncased_L-2"])
def test_nothing_is_downloaded(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = name.rpartition("/")[2]
    with pytest.raises(
        CheckpointError, match=f"nothing is downloaded.*`hf download {name} --local-dir {folder}`.*hf:{folder}"
    ):
        check_there(f"hf:{name}")
    with pytest.raises(CheckpointError, match="nothing is downloaded"):
        check_there(name)
    with pytest.raises(CheckpointError, match="no such folder on this machine, and nothing is downloaded"):
        check_there("keras_hub:/nowhere/at all")


@pytest.mark.parametrize(
    ("command", "task", "known", "unknown"),
    [
        (FINETUNE, "classify", "macro_f1", "entity_f1"), (FINETUNE, "multi_label", "macro_f1", "mcc"),
        (FINETUNE, None, "macro_f1", "entity_f1"),
    ],
)  # fmt: skip
def test_a_suggested_value_is_one_of_the_task(command: Command, task, known, unknown, capsys):
    given = ["--init_checkpoint=x", "--model_dir=y", *([f"--task={task}"] if task else []), "--best_metric=f1"]
    with pytest.raises(SystemExit):
        command.parse(given)
    said = capsys.readouterr().err
    assert "--best_metric=f1: unknown value. Did you mean" in said and known in said and unknown not in said


def test_values_of_flags_of_all_tasks_are_named_as_before(capsys):
    with pytest.raises(SystemExit):
        EVALUATE.parse(["--model_dir=x", "--test_file=y", "--task=clasify"])
    assert "Did you mean classify?" in capsys.readouterr().err


def test_errors_name_what_was_given():
    with (
        pytest.raises(CheckpointError, match="^hf:bert/config.json: damaged$"),
        name_source("/tmp/abc/model", "hf:bert"),
    ):
        raise CheckpointError("/tmp/abc/model/config.json: damaged")


def test_an_empty_folder_is_no_run(tmp_path):
    with pytest.raises(CheckpointError, match="is no run and no model folder; it holds nothing"):
        read_task(str(tmp_path))
    (tmp_path / "notes.md").touch()
    with pytest.raises(CheckpointError, match="it holds notes.md"):
        read_task(str(tmp_path))


def test_one_label_is_a_matter_of_the_data():
    with pytest.raises(DataError, match="holds one label only"):
        check_labels("a.tsv", ["x"], 9)
    with pytest.raises(UsageError, match="different labels"):
        check_labels("a.tsv", list("abcdefghijklmnopqrstuvwxyz"), 26)


def test_missing_files_are_found_before_tensorflow_starts(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(DataError, match="--test_file=/nowhere.tsv: no such file"):
        early.check_usage(Evaluation(model_dir=str(tmp_path / "run"), test_file="/nowhere.tsv"))
    early.check_usage(Evaluation(model_dir=str(tmp_path / "run"), test_file="a*.txt,b.txt"))  # globs are for the job
    with pytest.raises(DataError, match="--vectors_file=/nowhere.npy: no such file"):
        early.check_indexing(Index(vectors_file="/nowhere.npy", output_dir=str(tmp_path / "i")))
