"""Flags of verbs whose work on a file several processes or machines can share."""

import dataclasses

from data_pipelines.options.declaration import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShareOptions:
    """Which share of a file is worked on."""

    task_index: int | None = option(None, "Number of this process or machine, from 0, where several share the work on a file. Each writes a part in output_file.parts; who ends last joins them. A part that is whole is not made again.", section="Many machines", minimum=0)  # fmt: skip
    num_tasks: int | None = option(None, "Number of processes or machines that share the work. Give all of them the same flags except task_index.", minimum=1)  # fmt: skip
