"""Flags of commands whose shards an Apache Beam pipeline can make."""

from data_pipelines.options.declaration import option

LOCAL, BEAM, DASK = "local", "beam", "dask"


def runner_option() -> str:
    """Returns the field that says who makes the shards."""
    return option(LOCAL, "local: processes on this machine. beam: an Apache Beam pipeline. dask: that pipeline on the workers of a Dask scheduler.", choices=(LOCAL, BEAM, DASK))  # fmt: skip


def dask_scheduler_option() -> str | None:
    """Returns the field for the address of a scheduler."""
    return option(None, "With --runner=dask: address of the scheduler, such as tcp://host:8786. Without it Dask starts workers on this machine.")  # fmt: skip


def beam_options_option() -> str:
    """Returns the field for the options of a pipeline."""
    return option("", "Options of the Beam pipeline in one string, such as '--runner=FlinkRunner --flink_master=host:8081'. Without --runner it runs on this machine.")  # fmt: skip
