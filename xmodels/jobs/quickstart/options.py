"""The options of `xmodels quickstart`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The text to train on, and the output folder."""

    JOB: ClassVar = "xmodels.jobs.quickstart.run:quickstart"

    language: str = option("en", "en: docstrings of this Python installation. zh: the samples of the repository.", section="What to run", choices=("en", "zh"))  # fmt: skip
    output_dir: str | None = option(None, "New folder for all files. Default: quickstart-LANGUAGE.")
    samples_dir: str | None = option(None, "Folder `samples` of the repository, if it is not beside the package.")
