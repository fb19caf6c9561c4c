"""Rents a Cloud TPU, runs a command of xmodels on all its hosts, and begins anew when it is taken away."""

import os
import re
import shlex
import subprocess
import tempfile

from data_pipelines.errors import UsageError
from xmodels.jobs.cloud_tpu.options import Options
from xmodels.tpu import gcloud, gke
from xmodels.tpu.gcloud import Job
from xmodels.tpu.job import CloudError, JobSupervisor, run
from xmodels.tpu.packing import pack
from xmodels.tpu.slices import RentedSlice

NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


def cloud_tpu(options: Options) -> None:
    """Prints the commands of an action, or with dry_run=False runs them.

    Raises:
        UsageError: a flag cannot work. CloudError: gcloud failed. JobFailed: the job did; carries its exit code.
    """
    action, job = options.action, _job(options)
    if options.gke:
        print(gke.manifest(job, options.image or "IMAGE", options.restarts), end="")
    elif options.dry_run:
        _show(job, options)
    elif action == "submit":
        with tempfile.TemporaryDirectory() as folder:
            files = os.path.join(folder, gcloud.PACKAGE), os.path.join(folder, gcloud.SCRIPT)
            pack(files[0])
            with open(files[1], "w", encoding="utf-8") as file:
                file.write(gcloud.script(job))
            JobSupervisor(job, files, options.restarts, options.poll_seconds).supervise()
    elif action == "logs":  # shown while it comes
        if subprocess.run(gcloud.logs(job, options.lines), check=False).returncode:
            raise CloudError(f"{job.name}: no log could be read.")
    else:
        print(run({"create": gcloud.create, "delete": gcloud.delete}[action](job)), end="")


def _job(options: Options) -> Job:
    try:
        arguments = tuple(shlex.split(options.command or ""))
    except ValueError as error:
        raise UsageError(f"--command={options.command}: cannot be read as a shell reads it ({error}).") from None
    if not NAME.fullmatch(options.name):
        raise UsageError(f"--name={options.name}: must be small letters, digits and hyphens, and begin with a letter.")
    if not arguments and (options.action == "submit" or options.gke):
        raise UsageError(
            "--command: missing; what xmodels shall do on the hosts, such as 'pretrain --system=bert ...'."
        )
    if arguments[:1] == ("xmodels",):
        raise UsageError("--command: leave out the leading `xmodels`.")
    return Job(
        options.name, RentedSlice.parse(options.accelerator_type), options.zone, options.project, options.bucket,
        options.spot, options.runtime_version, options.service_account, arguments,
    )  # fmt: skip


def _show(job: Job, options: Options) -> None:
    """Prints what would be run, as a shell would take it."""
    action = options.action
    if action != "submit":
        make = {"create": gcloud.create, "delete": gcloud.delete, "logs": lambda job: gcloud.logs(job, options.lines)}
        _print(f"{action}:", make[action](job))
    else:
        _print("Ask for the TPU, if there is none of that name:", gcloud.create(job))
        _print(f"Until it is ACTIVE, every {options.poll_seconds} s:", gcloud.describe(job))
        _print("Copy the project and the script to every host:", gcloud.copy(job, gcloud.PACKAGE, gcloud.SCRIPT))
        _print("Install:", gcloud.install(job))
        _print("Start the script, unless it runs:", gcloud.start(job))
        _print(f"Every {options.poll_seconds} s, beside the state:", gcloud.ask(job))
        _print(f"When it is SUSPENDED or FAILED, {options.restarts} times at most, and begin anew:", gcloud.delete(job))
        print(f"\n# {gcloud.SCRIPT}, on every host:\n{gcloud.script(job)}")
    print("# Nothing was run. --dry_run=false runs it.")


def _print(why: str, command: list[str]) -> None:
    print(f"# {why}\n{shlex.join(command)}")
