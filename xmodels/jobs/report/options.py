"""Writes report.html: curves, speed, configuration and predictions of a run, whether it is finished, running or
killed. With several runs, their curves are drawn over each other.

    xmodels report --model_dir=run
    xmodels report --model_dir=run_a,run_b,run_c --output_file=comparison.html
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Runs and the page about them."""

    SECTION: ClassVar = "Training"
    JOB: ClassVar = "xmodels.runs.report:report"

    model_dir: str = option(REQUIRED, "Run folder, or several, comma-separated.", section="Runs and output")
    output_file: str | None = option(None, "HTML file for the report. Default for a single run: report.html in its folder.")  # fmt: skip
