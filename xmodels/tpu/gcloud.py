"""The gcloud commands of a TPU job, as lists of words; nothing here runs them.

Grammar: cloud.google.com/sdk/gcloud/reference/compute/tpus/queued-resources (create, describe, delete) and
.../tpu-vm (ssh, scp); tests/helpers/fake_gcloud.py holds the part of it that is used here.
"""

import dataclasses
import shlex

from data_pipelines.errors import UsageError
from xmodels.tpu.slices import RentedSlice

QUEUED = ["gcloud", "compute", "tpus", "queued-resources"]
VM = ["gcloud", "compute", "tpus", "tpu-vm"]
PACKAGE, SCRIPT, ENVIRONMENT = "xmodels.tar.gz", "xmodels-job.sh", "xmodels-env"
LOG, EXIT, PROCESS = "xmodels-job.log", "xmodels-job.exit", "xmodels-job.pid"


@dataclasses.dataclass(frozen=True)
class Job:
    """A TPU and what runs on it.

    Attributes:
        name: of the queued resource and of its TPU.
        rented: the slice.
        zone, project: where.
        bucket: a Cloud Storage bucket that every host mounts at `mount`; None for none.
        spot: take cheap capacity that may be taken back at any moment.
        runtime_version: None for the usual one of the generation.
        service_account: as which the hosts reach the bucket; None for the project's default.
        arguments: of xmodels, such as ("pretrain", "--system=bert", ...).
        mount: the folder of the bucket on the hosts.
        tensorflow: the requirement to install there.
        python: the interpreter to install and use; Ubuntu 22.04 has 3.10, which is too old.
    """

    name: str
    rented: RentedSlice
    zone: str
    project: str
    bucket: str | None = None
    spot: bool = False
    runtime_version: str | None = None
    service_account: str | None = None
    arguments: tuple[str, ...] = ()
    mount: str = "/mnt/xmodels"
    tensorflow: str = "tensorflow-tpu==2.20.*"
    python: str = "python3.11"

    def __post_init__(self):
        for flag, value in (("zone", self.zone), ("project", self.project)):
            if not value:
                raise UsageError(f"--{flag}: missing; gcloud needs it.")

    @property
    def place(self) -> list[str]:
        return [f"--zone={self.zone}", f"--project={self.project}"]


def create(job: Job) -> list[str]:
    """Asks for the slice; returns when the request is accepted, long before there is a TPU."""
    chip = job.rented.topology.chip
    return [
        *QUEUED, "create", job.name, f"--node-id={job.name}", f"--accelerator-type={job.rented.accelerator_type}",
        f"--runtime-version={job.runtime_version or chip.runtime}", *job.place, *(["--spot"] if job.spot else []),
        *([f"--service-account={job.service_account}"] if job.service_account else []),
    ]  # fmt: skip


def describe(job: Job) -> list[str]:
    """Prints the state of the request: one of `job.STATES`."""
    return [*QUEUED, "describe", job.name, *job.place, "--format=value(state.state)"]


def delete(job: Job) -> list[str]:
    """Gives back the TPU and removes the request."""
    return [*QUEUED, "delete", job.name, *job.place, "--force", "--quiet"]


def copy(job: Job, *paths: str) -> list[str]:
    """Copies files into the home folder of every host."""
    return [*VM, "scp", *paths, f"{job.name}:", "--worker=all", *job.place]


def on_hosts(job: Job, command: str, worker: str = "all") -> list[str]:
    """Runs a shell command on all hosts, or on one."""
    return [*VM, "ssh", job.name, f"--worker={worker}", *job.place, f"--command={command}"]


def install(job: Job) -> list[str]:
    """Makes an environment on every host: TensorFlow for TPUs first, then the project without the usual TensorFlow.

    What would bring the usual TensorFlow along is installed without its requirements. `packing` writes both lists.
    """
    steps = [
        "set -e",
        f"command -v {job.python} >/dev/null || (sudo apt-get update && sudo apt-get install -y {job.python} {job.python}-venv)",
        f"{job.python} -m venv ~/{ENVIRONMENT}",
        f"~/{ENVIRONMENT}/bin/pip install --quiet {shlex.quote(job.tensorflow)}",
        f"rm -rf ~/xmodels-source && mkdir ~/xmodels-source && tar xzf ~/{PACKAGE} -C ~/xmodels-source",
        f"~/{ENVIRONMENT}/bin/pip install --quiet -r ~/xmodels-source/requirements.txt",
        f"~/{ENVIRONMENT}/bin/pip install --quiet --no-deps -r ~/xmodels-source/requirements-alone.txt",
        f"~/{ENVIRONMENT}/bin/pip install --quiet --no-deps ~/xmodels-source",
    ]
    if job.bucket:
        steps += [
            "command -v gcsfuse >/dev/null || (sudo apt-get update && sudo apt-get install -y gcsfuse)",
            f"sudo mkdir -p {job.mount} && sudo chown $(id -u):$(id -g) {job.mount}",
        ]
    return on_hosts(job, "; ".join(steps))


def script(job: Job) -> str:
    """Returns what runs on every host. The same command resumes, so it may be started again at any time."""
    lines = ["#!/bin/bash", "set -eu"]
    if job.bucket:
        lines.append(f"mountpoint -q {job.mount} || gcsfuse --implicit-dirs {shlex.quote(job.bucket)} {job.mount}")
    lines.append(f"exec ~/{ENVIRONMENT}/bin/xmodels {shlex.join(job.arguments)}")
    return "\n".join(lines) + "\n"


def start(job: Job) -> list[str]:
    """Starts the script on every host, so that it outlives the connection; its exit code goes into a file.

    Does nothing where it runs already.
    """
    run = f"bash ~/{SCRIPT} >> ~/{LOG} 2>&1; echo $? > ~/{EXIT}"
    running = f"test -f ~/{PROCESS} && kill -0 $(cat ~/{PROCESS}) 2>/dev/null"
    begin = f"rm -f ~/{EXIT}; nohup setsid bash -c {shlex.quote(run)} > /dev/null 2>&1 & echo $! > ~/{PROCESS}"
    return on_hosts(job, f"{running} || {{ {begin}; }}")


def ask(job: Job) -> list[str]:
    """Prints one line a host: the exit code of the script, `running`, or `lost` where neither is there."""
    running = f"kill -0 $(cat ~/{PROCESS}) 2>/dev/null && echo running || echo lost"
    return on_hosts(job, f"cat ~/{EXIT} 2>/dev/null || {{ {running}; }}")


def logs(job: Job, lines: int = 100, follow: bool = True, worker: str = "0") -> list[str]:
    """Shows the end of the log of a host, and goes on showing it."""
    return on_hosts(job, f"tail -n {lines} {'-F ' if follow else ''}~/{LOG}", worker)
