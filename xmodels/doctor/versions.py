"""Versions of Python and of packages, without importing any of them."""

import importlib.metadata
import os
import sys

from packaging.requirements import Requirement
from packaging.version import Version

from data_pipelines.errors import UsageError
from xmodels.runs.preflight import check_backend
from xmodels.training.watching.progress import print_status

TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "tf-nightly")  # all put `tensorflow` in the same place


def version(package: str) -> Version | None:
    """Returns the installed version, or None."""
    try:
        return Version(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return None


def requirements() -> list[Requirement]:
    """Returns what setup.py asks for, extras aside."""
    try:
        lines = importlib.metadata.requires("xmodels") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [r for r in map(Requirement, lines) if r.marker is None or r.marker.evaluate({"extra": ""})]


def python(case) -> str:
    """Returns the interpreter's version."""
    found = Version(".".join(map(str, sys.version_info[:3])))
    if not Version("3.11") <= found < Version("3.14"):
        raise UsageError(f"Python {found}: 3.11 to 3.13 are supported. Make an environment with `python3.12 -m venv`.")
    return str(found)


def packages(case) -> str:
    """Returns every package against setup.py, which leaves out releases that are known to be broken."""
    wanted = requirements()
    if not wanted:
        print_status(
            "Warning: xmodels is not installed, so nothing says what it needs. Run `pip install -e .` where setup.py lies."
        )
    wrong = []
    for requirement in wanted:
        found = version(requirement.name)
        if requirement.name == "tensorflow":
            found = found or next(filter(None, map(version, TENSORFLOW)), None)
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            wrong.append(f"{requirement.name} {found or 'is not installed'}, needed {requirement.specifier}")
    if wrong:
        listed = "; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if len(wrong) > 5 else "")
        raise UsageError(f"{listed}. Run `pip install --upgrade -e .` where setup.py lies.")
    return f"{len(wanted)} as setup.py asks for, such as keras {version('keras')}, numpy {version('numpy')}"


def tensorflow(case) -> str:
    """Returns one TensorFlow, and a tensorflow-text made for it."""
    there = {name: found for name in TENSORFLOW if (found := version(name))}
    if len(there) > 1:
        named = " and ".join(f"{name} {found}" for name, found in there.items())
        raise UsageError(
            f"{named} are both installed and overwrite each other's files. Run `pip uninstall {' '.join(there)}`, then "
            "install the one that you want."
        )
    if not there:
        raise UsageError("tensorflow is not installed. Run `pip install -e .` where setup.py lies.")
    name, found = next(iter(there.items()))
    text = version("tensorflow-text")
    if text and text.release[:2] != found.release[:2]:
        raise UsageError(
            f"tensorflow-text {text} was built for TensorFlow {text.major}.{text.minor}, but {name} is {found}: its library "
            f'does not load. Run `pip install "tensorflow-text=={found.major}.{found.minor}.*"`.'
        )
    return f"{name} {found}, tensorflow-text {text}"


def keras(case) -> str:
    """Returns what decides which Keras runs, and on what."""
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "")
    if legacy.lower() in ("1", "true"):
        print_status(
            f"Warning: TF_USE_LEGACY_KERAS={legacy} gives TensorFlow's own libraries Keras 2 (tf_keras), whose layers and files "
            "do not mix with those of our Keras 3. Run `unset TF_USE_LEGACY_KERAS`."
        )
    found = version("keras")
    if found and found.major < 3:
        raise UsageError(f"keras {found}: these networks are written for Keras 3. Run `pip install --upgrade keras`.")
    return f"Keras {found} on {check_backend()}"
