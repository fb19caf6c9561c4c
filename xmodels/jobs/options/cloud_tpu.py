"""The options of `xmodels cloud_tpu`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What to do with which TPU."""

    JOB: ClassVar = "xmodels.jobs.cloud_tpu:cloud_tpu"

    action: str = option(REQUIRED, "The first word of the command line.", section="TPU", choices=("create", "submit", "logs", "delete"), positional=True)  # fmt: skip
    accelerator_type: str = option(
        REQUIRED, "Slice: v5litepod-8, v6e-8, v4-8, ... `tpu_preflight` tells which will do."
    )
    zone: str = option(REQUIRED, "Zone that has such slices.")
    project: str = option(REQUIRED, "Google Cloud project that pays.")
    name: str = option("xmodels", "Name of the queued resource and of its TPU.")
    spot: bool = option(False, "Take cheap capacity, which may be taken back at any moment.")
    runtime_version: str | None = option(None, "TPU software version. Default: the usual one of the generation.")
    service_account: str | None = option(None, "Account as which the hosts reach the bucket.")
    bucket: str | None = option(None, "Name of a Cloud Storage bucket, without gs://. Every host mounts it at /mnt/xmodels; records and run folder belong there.", section="Job (submit)")  # fmt: skip
    command: str | None = option(None, "What xmodels shall do on every host: a verb and its flags. It must resume by itself, as pretrain does.")  # fmt: skip
    restarts: int = option(10, "How often at most to begin anew after the TPU was taken away or a host stopped.")
    poll_seconds: int = option(60, "Seconds between two checks of the TPU.", minimum=1)
    lines: int = option(100, "Last lines of the log to begin with.", section="Other", minimum=1)
    gke: bool = option(False, "Print a manifest for Kubernetes (GKE) instead.")
    image: str | None = option(None, "Container image for gke, with the project and tensorflow-tpu in it.")
    dry_run: bool = option(True, "Print the commands, and run nothing.")
