"""The options of `xmodels report`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Runs and the page about them."""

    JOB: ClassVar = "xmodels.runs.report:report"

    model_dir: str = option(REQUIRED, "Folder of a run, or several with commas.", section="Runs and output")
    output_file: str | None = option(None, "The page. Default, of a single run: report.html in its folder.")
