"""Rents a Cloud TPU and runs a command of xmodels on it."""

import sys

from launch.command import Command

ACTIONS = ("create", "submit", "logs", "delete")


class Action(Command):
    """A command whose first word says what to do."""

    action = ""

    def parse(self, arguments: list[str]) -> None:
        self.action = arguments[0] if arguments and arguments[0] in ACTIONS else ""
        super().parse(arguments[1:] if self.action else arguments)
        if not self.action:
            print(f"xmodels {self.name}: say what to do: {', '.join(ACTIONS)}.", file=sys.stderr)
            raise SystemExit(2)


COMMAND = Action(
    "cloud_tpu",
    "Rents a Cloud TPU and runs a command of xmodels on it. ACTION is the first word: create asks for the TPU; submit asks for it if need be, "
    "installs the project on every host, starts the command there, and begins anew when the TPU is taken away; logs; delete. "
    "By default it only prints the gcloud commands (docs/tpu.md).",
    "xmodels cloud_tpu submit --accelerator_type=v5litepod-8 --zone=us-west4-a --project=my-project --bucket=my-bucket \\\n"
    "    --spot --command='pretrain --system=bert --data_dir=/mnt/xmodels/records --model_dir=/mnt/xmodels/run \\\n"
    "    --distribution_strategy=tpu'",
)
COMMAND.section("TPU")
COMMAND.string("accelerator_type", None, "Slice: v5litepod-8, v6e-8, v4-8, ... `tpu_preflight` tells which will do.", required=True)  # fmt: skip
COMMAND.string("zone", None, "Zone that has such slices.", required=True)
COMMAND.string("project", None, "Google Cloud project that pays.", required=True)
COMMAND.string("name", "xmodels", "Name of the queued resource and of its TPU.")
COMMAND.boolean("spot", False, "Take cheap capacity, which may be taken back at any moment.")
COMMAND.string("runtime_version", None, "TPU software version. Default: the usual one of the generation.")
COMMAND.string("service_account", None, "Account as which the hosts reach the bucket.")
COMMAND.section("Job (submit)")
COMMAND.string("bucket", None, "Name of a Cloud Storage bucket, without gs://. Every host mounts it at /mnt/xmodels; records and run folder belong there.")  # fmt: skip
COMMAND.string("command", None, "What xmodels shall do on every host: a verb and its flags. It must resume by itself, as pretrain does.")  # fmt: skip
COMMAND.integer("restarts", 10, "How often at most to begin anew after the TPU was taken away or a host stopped.")
COMMAND.integer("poll_seconds", 60, "Seconds between two looks at the TPU.", minimum=1)
COMMAND.section("Other")
COMMAND.integer("lines", 100, "Last lines of the log to begin with.", minimum=1)
COMMAND.boolean("gke", False, "Print a manifest for Kubernetes (GKE) instead.")
COMMAND.string("image", None, "Container image for gke, with the project and tensorflow-tpu in it.")
COMMAND.boolean("dry_run", True, "Print the commands, and run nothing.")


def run() -> None:
    from xmodels.jobs.cloud_tpu import Options, cloud_tpu

    cloud_tpu(COMMAND.action, Options(**COMMAND.options()))


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
