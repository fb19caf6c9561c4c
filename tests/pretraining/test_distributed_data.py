"""The page on many machines, and paths that lie on others."""

import importlib
import pathlib
import re
import shlex

import pytest

from data_pipelines.errors import UsageError
from data_pipelines.paths import check_local
from xmodels.jobs.verbs import NOT_A_PATH

PAGE = pathlib.Path(__file__).parents[2] / "docs/distributed_data.md"
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
COMMANDS = [shlex.split(block[block.index("xmodels ") :].replace("\\\n", " "), comments=True) for block in BLOCKS]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[-1][:40])
def test_the_commands_of_the_page_are_understood(words):
    assert words[:2] == ["xmodels", "create_pretraining_data"]
    parsed = importlib.import_module(f"launch.{words[1]}").COMMAND.parse(words[2:])
    given = {name: value for name, value in vars(parsed).items() if isinstance(value, str) and name not in NOT_A_PATH}
    check_local(**given)
    assert (parsed.num_tasks is not None) != (parsed.runner in ("beam", "dask"))


def test_the_page_shows_every_way():
    beam = [word for words in COMMANDS for word in words if word.startswith("--beam_options")]
    for runner in ("--direct_running_mode", "FlinkRunner", "PortableRunner", "DataflowRunner"):
        assert any(runner in options for options in beam)
    assert len(COMMANDS) == 7


@pytest.mark.parametrize(
    ("value", "how"),
    [
        ("gs://bucket/corpus", "gcsfuse.*fsspec"),
        ("a.txt, s3://bucket/b.txt:0.3", "mount-s3"),
        ("hdfs://host/x", "NFS gateway"),
        ("ftp://host/x", "rclone mount"),
        ("file:///corpus.txt", "Leave out file://"),
    ],
)
def test_paths_on_other_machines_are_refused_with_a_way_out(value, how):
    with pytest.raises(UsageError, match=f"--input_file=.*remote paths are not supported.*{how}"):
        check_local(input_file=value)


def test_local_paths_and_prepared_data_sets_pass():
    check_local(input_file="a.txt:0.3,tfds:imdb/plain@train,/c/**/*.gz", vocab_file=None, output_dir="C:/x", seed="")


@pytest.mark.parametrize(
    ("verb", "flags"),
    [
        ("create_pretraining_data", ["--input_file=a", "--vocab_file=b", "--output_dir=gs://bucket/records"]),
        ("pretrain", ["--system=bert", "--data_dir=a", "--model_dir=gs://bucket/run"]),
    ],
)
def test_every_command_refuses_them_before_it_works(capsys, monkeypatch, verb, flags):
    monkeypatch.setattr("xmodels.jobs.verbs.resolve", lambda job: pytest.fail("worked"))
    assert importlib.import_module(f"launch.{verb}").COMMAND.main(flags) == 2
    assert "_dir=gs://bucket/r" in capsys.readouterr().err
