r"""Rents a Cloud TPU and runs a command of xmodels on it. ACTION is the first word: create requests the TPU; submit
requests it if need be, installs the project on every host, starts the command there, and starts again when the TPU
is taken away; logs shows the log; delete gives the TPU back. By default it only prints the gcloud commands
(docs/tpu.md).

    xmodels cloud_tpu submit --accelerator_type=v5litepod-8 --zone=us-west4-a --project=my-project --bucket=my-bucket \
        --spot --command='pretrain --system=bert --data_dir=/mnt/xmodels/records --model_dir=/mnt/xmodels/run \
        --distribution_strategy=tpu'
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The action, the TPU and the job."""

    SECTION: ClassVar = "TPUs"
    JOB: ClassVar = "xmodels.jobs.cloud_tpu.run:cloud_tpu"

    action: str = option(REQUIRED, "What to do: the first word of the command line.", section="TPU", choices=("create", "submit", "logs", "delete"), positional=True)  # fmt: skip
    accelerator_type: str = option(REQUIRED, "TPU slice: v5litepod-8, v6e-8, v4-8, ... `tpu_preflight` tells which is large enough.")  # fmt: skip
    zone: str = option(REQUIRED, "Google Cloud zone that has such slices.")
    project: str = option(REQUIRED, "Google Cloud project that is billed.")
    name: str = option("xmodels", "Name of the queued resource and of its TPU.")
    spot: bool = option(False, "Use spot capacity, which is cheap but may be taken back at any moment.")
    runtime_version: str | None = option(None, "TPU software version. Default: the usual one of the generation.")
    service_account: str | None = option(None, "Service account with which the hosts access the bucket.")
    bucket: str | None = option(None, "Name of a Cloud Storage bucket, without gs://. Every host mounts it at /mnt/xmodels; put records and run folder there.", section="Job (submit)")  # fmt: skip
    command: str | None = option(None, "The xmodels command to run on every host: a verb and its flags. It must resume by itself, as pretrain does.")  # fmt: skip
    restarts: int = option(10, "Maximum number of restarts after the TPU was taken away or a host stopped.")
    poll_seconds: int = option(60, "Seconds between two checks of the TPU.", minimum=1)
    lines: int = option(100, "For logs: how many of the last lines to show at first.", section="Other", minimum=1)
    gke: bool = option(False, "Print a manifest for Kubernetes (GKE) instead of gcloud commands.")
    image: str | None = option(None, "For gke: container image that contains the project and tensorflow-tpu.")
    dry_run: bool = option(True, "Print the commands and run nothing.")
