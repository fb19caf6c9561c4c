"""Which of the versions that lie in the folder of a model are served: the version policies of TensorFlow Serving."""

import dataclasses
import re
from collections.abc import Iterable

from data_pipelines.errors import UsageError

ALL = "all"
LATEST = re.compile(r"latest(?::([1-9][0-9]{0,5}))?")
SPECIFIC = re.compile(r"specific:([0-9]{1,18}(?:,[0-9]{1,18})*)")
EXPECTED = "latest, latest:N for the N highest, all, or specific:3,5"


@dataclasses.dataclass(frozen=True)
class Policy:
    """Chooses versions.

    Attributes:
        latest: how many of the highest; None for all.
        specific: the numbers, where these are chosen and not the highest.
    """

    latest: int | None = 1
    specific: tuple[int, ...] = ()

    def wanted(self, found: Iterable[int]) -> list[int]:
        """Returns those of the versions found that are to be served, the highest first."""
        if self.specific:
            return sorted(set(self.specific).intersection(found), reverse=True)
        return sorted(found, reverse=True)[: self.latest]


def read_policy(text: str) -> Policy:
    """Returns the policy that a flag describes. Raises a UsageError where it describes none."""
    if text == ALL:
        return Policy(latest=None)
    if found := LATEST.fullmatch(text):
        return Policy(latest=int(found[1] or 1))
    if found := SPECIFIC.fullmatch(text):
        return Policy(specific=tuple(map(int, found[1].split(","))))
    raise UsageError(f"--version_policy={text:.100}: unknown policy. Expected {EXPECTED}.")
