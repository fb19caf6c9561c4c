"""Cloud TPU jobs against a recorded stand-in for gcloud, whose hosts are folders of this machine."""

import contextlib
import json
import os
import pathlib
import shlex
import stat
import sys
import tarfile
import time

import pytest
import yaml

from data_pipelines.errors import UsageError
from tests.helpers import fake_gcloud
from tests.helpers.invocation import invoke
from xmodels.tpu import gcloud, gke, packing
from xmodels.tpu.gcloud import Job
from xmodels.tpu.job import CloudError, JobFailed, JobSupervisor
from xmodels.tpu.slices import RentedSlice

FLAGS = {"accelerator_type": "v5litepod-16", "zone": "us-west4-a", "project": "my-project"}
COMMAND = "pretrain --system=bert --model_dir='/mnt/xmodels/my run'"


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """A cloud with a slice of four hosts, and its gcloud on PATH."""
    folder, programs = tmp_path / "cloud", tmp_path / "bin"
    for path in (folder, programs, *(folder / f"host_{i}" for i in range(4))):
        path.mkdir()
    program = programs / "gcloud"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(fake_gcloud.__file__)} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CLOUD", str(folder))
    return folder


def calls(cloud):
    """The verbs of all calls in their order, without the looks at the state."""
    lines = (cloud / "calls.jsonl").read_text().splitlines()
    verbs = [fake_gcloud.parse(json.loads(line))[0][-1] for line in lines]  # raises for what gcloud would refuse
    return [verb for verb in verbs if verb != "describe"]


def keeper(cloud, states, restarts=3):
    """Keeps a job in a cloud of these states; the job itself is a script that sleeps."""
    (cloud / "states.json").write_text(json.dumps(states))
    script = cloud / gcloud.SCRIPT
    script.write_text("echo started\nsleep 30\n")
    package = cloud / gcloud.PACKAGE
    package.write_bytes(b"")
    said = []
    job = Job(
        "xmodels", RentedSlice.parse("v5litepod-16"), "us-west4-a", "p", "my-bucket", True, arguments=("pretrain",)
    )
    return JobSupervisor(job, (str(package), str(script)), restarts, 0.0, said.append, sleep=lambda seconds: None), said


@pytest.fixture(autouse=True)
def no_process_left(tmp_path):
    """Ends the jobs that hosts still run."""
    yield
    for path in tmp_path.glob("cloud/host_*/xmodels-job.pid"):
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.killpg(int(path.read_text()), 9)


def test_job_is_provided_installed_started_and_watched_to_its_end(cloud):
    keep, said = keeper(cloud, ["WAITING_FOR_RESOURCES", "PROVISIONING", "PROVISIONING", "ACTIVE", "ACTIVE", "EXIT 0"])
    keep.supervise()
    assert calls(cloud) == ["create", "ssh", "scp", "ssh", "ssh", "ssh", "ssh"]  # look, copy, install, start, two looks
    assert [line.split(": ")[1].rstrip(".") for line in said][1:3] == ["WAITING_FOR_RESOURCES", "PROVISIONING"]
    assert "done on all 4 host(s)" in said[-1]
    assert all((home / gcloud.LOG).read_text() == "started\n" for home in fake_gcloud.hosts(cloud))


def test_preempted_job_is_begun_anew_on_another_tpu(cloud):
    keep, said = keeper(cloud, ["ACTIVE", "ACTIVE", "SUSPENDING", "SUSPENDED", "PROVISIONING", "ACTIVE", "EXIT 0"])
    keep.supervise()
    begin = ["create", "ssh", "scp", "ssh", "ssh"]
    assert calls(cloud) == [*begin, "ssh", "delete", *begin, "ssh"]
    assert any("the TPU is gone (SUSPENDING)" in line and "2 restart(s) left" in line for line in said)


def test_tpu_lost_while_the_project_is_installed_is_asked_for_anew(cloud):
    keep, _ = keeper(cloud, ["ACTIVE", "SUSPENDED", "SUSPENDED", "SUSPENDED", "ACTIVE", "EXIT 0"])
    original = keep.run

    def lost_on_copy(command):
        if command[4] == "scp" and not (cloud / "lost").exists():
            (cloud / "lost").touch()
            raise CloudError("connection refused")
        return original(command)

    keep.run = lost_on_copy
    keep.supervise()
    assert calls(cloud).count("create") == 2 and calls(cloud)[-1] == "ssh"


def test_interrupted_job_is_started_again_on_the_same_tpu(cloud):
    keep, said = keeper(cloud, ["ACTIVE", "EXIT 143", "ACTIVE", "EXIT 0"])
    keep.supervise()
    assert calls(cloud).count("create") == 1 and calls(cloud).count("scp") == 2
    assert any("a host stopped" in line for line in said)


def test_job_that_fails_is_not_tried_again(cloud):
    keep, _ = keeper(cloud, ["ACTIVE", "EXIT 3"])
    with pytest.raises(JobFailed, match="exit code 3.*cloud_tpu logs") as failed:
        keep.supervise()
    assert failed.value.exit_code == 3 and calls(cloud).count("create") == 1


def test_restarts_end(cloud):
    keep, _ = keeper(cloud, ["FAILED"], restarts=2)
    with pytest.raises(CloudError, match=r"gone \(FAILED\), and all 2 restarts"):
        keep.supervise()
    assert calls(cloud).count("create") == 3


def test_host_whose_script_vanished_is_noticed(cloud):
    keep, _ = keeper(cloud, ["ACTIVE"])
    keep._provide()
    for home in fake_gcloud.hosts(cloud):
        assert keep.run(gcloud.ask(keep.job)).split() == ["running"] * 4
        os.killpg(int((home / gcloud.PROCESS).read_text()), 9)
        break
    for _ in range(50):  # a killed process is there until its parent has noticed
        if (answers := keep.run(gcloud.ask(keep.job)).split()) != ["running"] * 4:
            break
        time.sleep(0.1)
    assert answers == ["lost", "running", "running", "running"]


def test_a_second_submit_leaves_the_running_job_alone(cloud):
    keep, said = keeper(cloud, ["ACTIVE"])
    keep._provide()
    before = [(home / gcloud.PROCESS).read_text() for home in fake_gcloud.hosts(cloud)]
    keep._provide()
    keep.run(gcloud.start(keep.job))
    assert [(home / gcloud.PROCESS).read_text() for home in fake_gcloud.hosts(cloud)] == before
    assert calls(cloud).count("scp") == 1 and "running already" in said[-1]


def test_what_gcloud_refuses_is_said_in_one_line(cloud, capsys):
    (cloud / "request").write_text("xmodels")
    assert invoke("cloud_tpu", "create", **FLAGS, dry_run="false") == 5
    said = capsys.readouterr().err
    assert "ALREADY_EXISTS" in said and said.count("\n") == 1
    with pytest.raises(CloudError, match="unrecognized arguments: --acelerator"):
        keeper(cloud, [])[0].run(["gcloud", "compute", "tpus", "queued-resources", "delete", "x", "--acelerator=1"])


def test_commands_create_log_and_delete(cloud, capfd):
    (cloud / "states.json").write_text('["ACTIVE"]')
    assert invoke("cloud_tpu", "create", **FLAGS, dry_run="false") == 0
    (cloud / "state").write_text("ACTIVE")
    for i, home in enumerate(fake_gcloud.hosts(cloud)):
        (home / gcloud.LOG).write_text(f"first of {i}\nlast of {i}\n")
    following = gcloud.logs(keeper(cloud, ["ACTIVE"])[0].job, 1)
    assert fake_gcloud.parse(following[1:])[2]["--command"] == "tail -n 1 -F ~/xmodels-job.log"
    assert (
        keeper(cloud, ["ACTIVE"])[0].run(gcloud.logs(keeper(cloud, ["ACTIVE"])[0].job, 1, follow=False))
        == "last of 0\n"
    )
    assert invoke("cloud_tpu", "delete", **FLAGS, dry_run="false") == 0
    assert not (cloud / "request").exists()


def test_submit_packs_the_project_and_runs_it_to_its_end(cloud, capsys):
    (cloud / "states.json").write_text('["ACTIVE", "ACTIVE", "EXIT 0"]')
    assert invoke("cloud_tpu", "submit", **FLAGS, command=COMMAND, poll_seconds=1, dry_run="false") == 0
    assert "done on all 4 host(s)" in capsys.readouterr().out
    home = fake_gcloud.hosts(cloud)[0]
    with tarfile.open(home / gcloud.PACKAGE) as archive:
        names = archive.getnames()
        usual = archive.extractfile("requirements.txt").read().decode().splitlines()
        alone = archive.extractfile("requirements-alone.txt").read().decode().splitlines()
    assert {"setup.py", "launch/pretrain.py", "xmodels/tpu/job.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    assert not [line for line in usual if line.startswith(("tensorflow>", "tensorflow-text"))]
    assert [line for line in usual if line.startswith("keras>=")] and "tensorflow-text==2.20.*" in alone
    script = (home / gcloud.SCRIPT).read_text()
    assert script.endswith("bin/xmodels pretrain --system=bert '--model_dir=/mnt/xmodels/my run'\n")


@pytest.mark.parametrize("action", ["create", "submit", "logs", "delete"])
def test_by_default_commands_are_printed_and_nothing_is_run(action, cloud, capsys):
    assert invoke("cloud_tpu", action, "--spot", **FLAGS, bucket="my-bucket", command=COMMAND) == 0
    shown = capsys.readouterr().out
    lines = [line for line in shown.splitlines() if line.startswith("gcloud ")]
    for line in lines:
        fake_gcloud.parse(shlex.split(line)[1:])
    assert len(lines) == (7 if action == "submit" else 1) and "Nothing was run" in shown
    assert not (cloud / "calls.jsonl").exists()


def test_no_gcloud_is_a_device_error(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    assert invoke("cloud_tpu", "delete", **FLAGS, dry_run="false") == 5
    assert "Install the Google Cloud CLI" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, flags, message",
    [
        ([], {}, "say what to do: create, submit, logs, delete"),
        (["destroy"], {}, "unexpected argument 'destroy'"),
        (["submit"], {}, "--command: missing"),
        (["submit"], {"command": "xmodels pretrain"}, "leave out the leading"),
        (["submit"], {"command": "predict --text='open"}, "cannot be read as a shell reads it"),
        (["create"], {"accelerator_type": "h100-8"}, "v5litepod-N"),
        (["create"], {"accelerator_type": "v5litepod-7"}, "comes in sizes 1, 4, 8"),
        (["create"], {"accelerator_type": "v4-4"}, "comes in sizes 8, 16"),
        (["create"], {"name": "My TPU"}, "small letters"),
        (["create"], {"zone": ""}, "missing: --zone"),
        (["create"], {"bucket": "gs://b"}, "gs://b"),
        (["create", "--gke"], {"accelerator_type": "v2-8", "command": "pretrain"}, "GKE has no nodes"),
    ],
)
def test_flags_that_cannot_work(arguments, flags, message, capsys):
    assert invoke("cloud_tpu", *arguments, **FLAGS | flags) == 2
    assert message in capsys.readouterr().err


def test_slices_have_hosts():
    expected = {"v5litepod-1": (1, 1), "v5litepod-8": (1, 8), "v5litepod-16": (4, 4), "v4-8": (1, 4), "v5p-16": (2, 4),
                "v3-8": (1, 4), "v2-32": (4, 4), "v6e-256": (64, 4)}  # fmt: skip
    for name, (num_hosts, per_host) in expected.items():
        rented = RentedSlice.parse(name)
        assert (rented.num_hosts, rented.chips_per_host) == (num_hosts, per_host), name
        assert rented.topology.accelerator_type == name


@pytest.mark.parametrize(
    "accelerator, hosts, shape", [("v5litepod-16", 4, "4x4"), ("v5litepod-8", 1, "2x4"), ("v4-16", 2, "2x2x2")]
)
def test_manifest_for_kubernetes(accelerator, hosts, shape, capsys):
    flags = FLAGS | {"accelerator_type": accelerator, "bucket": "my-bucket", "service_account": "trainer"}
    assert invoke("cloud_tpu", "create", "--gke", "--spot", **flags, command=COMMAND, restarts=5, image="r/x:1") == 0
    service, job = yaml.safe_load_all(capsys.readouterr().out)
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == hosts and job["spec"]["backoffLimit"] == 5
    assert pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == shape
    assert pod["nodeSelector"]["cloud.google.com/gke-spot"] == "true" and pod["serviceAccountName"] == "trainer"
    topology = RentedSlice.parse(accelerator).topology
    assert container["resources"]["limits"]["google.com/tpu"] * hosts == topology.num_chips
    assert shlex.split(container["command"][2])[1:] == ["xmodels", *shlex.split(COMMAND)]
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert pod["volumes"][0]["csi"]["volumeAttributes"]["bucketName"] == "my-bucket"


TRAPS = [
    "yes", "null", "1e3", "0x10", "012", "1:30", "~", "a: b", "#x", "x #y", "- a", "*a", "&a", "!a", "%a", "'", '"', "a\\nb", "a\nb",
    "\t", " a ", "{a}", "[a]", "é 😀", "\x7f\x85\u2028\ufeff",
]  # fmt: skip


@pytest.mark.parametrize("text", TRAPS)
def test_a_text_in_a_manifest_stays_that_text(text):
    job = Job(
        "yes", RentedSlice.parse("v4-8"), "z", "p", text, service_account=text, arguments=("pretrain", text), mount=text
    )
    service, found = yaml.safe_load_all(gke.manifest(job, text, 1))
    pod = found["spec"]["template"]["spec"]
    container, (volume,) = pod["containers"][0], pod["volumes"]
    names = (
        service["metadata"]["name"],
        found["metadata"]["name"],
        service["spec"]["selector"]["job-name"],
        pod["subdomain"],
    )
    assert names == ("yes",) * 4
    assert pod["serviceAccountName"] == container["image"] == container["volumeMounts"][0]["mountPath"] == text
    assert volume["csi"]["volumeAttributes"]["bucketName"] == text
    assert shlex.split(container["command"][2]) == ["exec", "xmodels", "pretrain", text]
    assert gke.quote(text)[0] == gke.quote(text)[-1] == '"'  # so no reader of YAML takes it for anything else


def test_arguments_of_a_job_survive_the_shell(tmp_path):
    program = tmp_path / gcloud.ENVIRONMENT / "bin/xmodels"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    arguments = ("predict", "--text=It's $HOME; `rm`", "--n=1")
    job = Job("x", RentedSlice.parse("v4-8"), "z", "p", arguments=arguments)
    path = tmp_path / "job.sh"
    path.write_text(gcloud.script(job))
    said = os.popen(f"HOME={shlex.quote(str(tmp_path))} bash {shlex.quote(str(path))}").read()
    assert said.splitlines() == list(arguments)


def test_unknown_slice_is_a_usage_error():
    with pytest.raises(UsageError, match="v5litepod-8"):
        RentedSlice.parse("8")


def test_project_is_packed_from_where_it_stands():
    assert (packing.ROOT / "setup.py").is_file() and pathlib.Path(__file__).parents[2] == packing.ROOT
