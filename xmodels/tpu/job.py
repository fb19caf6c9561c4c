"""Keeps a TPU job going: waits for the TPU, installs, starts, watches, and begins anew when the TPU is taken away."""

import dataclasses
import shlex
import subprocess
import time
from collections.abc import Callable

from data_pipelines.errors import DeviceError, ReportedError
from xmodels.tpu import gcloud
from xmodels.tpu.gcloud import Job

# cloud.google.com/tpu/docs/queued-resources: what each state of a request means for us.
WAITING = ("ACCEPTED", "WAITING_FOR_RESOURCES", "CREATING", "PROVISIONING")
LOST = ("SUSPENDING", "SUSPENDED", "FAILED", "DELETING")
ACTIVE = "ACTIVE"
ABSENT = "absent"  # there is no such request
INTERRUPTED = (130, 143)  # exit codes of a training that SIGINT or SIGTERM stopped, and that saved its state


class CloudError(DeviceError):
    """A gcloud command failed."""


class JobFailed(ReportedError):
    """The job itself ended with an error on a host; trying again would not help."""

    def __init__(self, code: int, name: str):
        super().__init__(f"{name}: the job ended with exit code {code}. `xmodels cloud_tpu logs` shows why.")
        self.exit_code = code


def run(command: list[str]) -> str:
    """Runs a command and returns what it prints.

    Raises:
        CloudError: it failed; carries the last lines that it wrote to stderr. Or there is no gcloud.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CloudError(
            "gcloud: not found. Install the Google Cloud CLI, and log in with `gcloud auth login`."
        ) from None
    if done.returncode:
        message = " ".join(done.stderr.split()[-60:]) or "no message"
        raise CloudError(f"`{shlex.join(command[:5])} …` failed with code {done.returncode}: {message}")
    return done.stdout


@dataclasses.dataclass
class JobSupervisor:
    """Runs a job to its end.

    Attributes:
        job: the TPU and what runs on it.
        files: what every host needs: the packed project and the script.
        restarts: how often at most the TPU is asked for anew, or the job is started anew after an interruption.
        poll_seconds: between two looks.
        run, print_status, sleep: what touches the world.
    """

    job: Job
    files: tuple[str, ...]
    restarts: int = 10
    poll_seconds: float = 60.0
    print_status: Callable[[str], None] = print
    run: Callable[[list[str]], str] = run
    sleep: Callable[[float], None] = time.sleep

    def state(self) -> str:
        """Returns the state of the request; `ABSENT` where there is none."""
        try:
            return self.run(gcloud.describe(self.job)).strip()
        except CloudError as error:
            if "NOT_FOUND" in str(error):
                return ABSENT
            raise

    def supervise(self) -> None:
        """Returns when the job has ended well on all hosts.

        Raises:
            JobFailed: it ended with an error. CloudError: gcloud failed, or all restarts are used up.
        """
        left = self.restarts
        while True:
            self._provide()
            end = self._attend()
            if end == "done":
                self.print_status(f"{self.job.name}: done on all {self.job.rented.num_hosts} host(s).")
                return
            if left == 0:
                raise CloudError(f"{self.job.name}: {end}, and all {self.restarts} restarts (--restarts) are used up.")
            left -= 1
            self.print_status(
                f"{self.job.name}: {end}. Starting again ({left} restart(s) left); the job resumes from its last state."
            )

    def _provide(self) -> None:
        """Waits until the TPU is there with the job running on it; asks for the TPU, if there is none."""
        state = self.state()
        if state in LOST:
            self.run(gcloud.delete(self.job))
            state = ABSENT
        if state == ABSENT:
            self.run(gcloud.create(self.job))
            self.print_status(f"{self.job.name}: asked for {self.job.rented.accelerator_type}.")
            state = self.state()
        shown = ""
        while state in WAITING:
            if state != shown:
                self.print_status(f"{self.job.name}: {state}.")
            shown = state
            self.sleep(self.poll_seconds)
            state = self.state()
        if state != ACTIVE:
            return  # lost before it was used; who attends will see it
        if self._answers() == ["running"] * self.job.rented.num_hosts:
            self.print_status(f"{self.job.name}: the job is running already.")
            return
        try:
            for command in (gcloud.copy(self.job, *self.files), gcloud.install(self.job), gcloud.start(self.job)):
                self.run(command)
        except CloudError:
            if self.state() == ACTIVE:
                raise
        else:
            self.print_status(f"{self.job.name}: the job is running on {self.job.rented.num_hosts} host(s).")

    def _attend(self) -> str:
        """Watches the job. Returns "done", or why it must be started again. Raises JobFailed."""
        while True:
            state = self.state()
            if state != ACTIVE:
                return f"the TPU is gone ({state})"
            answers = self._answers()
            codes = [int(answer) for answer in answers if answer.isdigit()]
            failed = [code for code in codes if code and code not in INTERRUPTED]
            if failed:
                raise JobFailed(failed[0], self.job.name)
            if any(codes) or "lost" in answers:
                return "a host stopped"
            if len(codes) == self.job.rented.num_hosts:
                return "done"
            self.sleep(self.poll_seconds)

    def _answers(self) -> list[str]:
        """Returns what each host says of its script; nothing where one cannot be reached, as while a TPU is taken away."""
        try:
            return self.run(gcloud.ask(self.job)).split()
        except CloudError as error:
            self.print_status(f"{self.job.name}: {error}")
            return []
