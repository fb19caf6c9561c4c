"""The options of `xmodels report`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Runs and the page about them."""

    JOB: ClassVar = "xmodels.runs.report:report"

    model_dir: str = option(REQUIRED, "Run folder, or several, comma-separated.", section="Runs and output")
    output_file: str | None = option(
        None, "HTML file for the report. Default for a single run: report.html in its folder."
    )
