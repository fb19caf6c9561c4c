"""The project as one file that hosts of a TPU can install from."""

import importlib.metadata
import io
import pathlib
import re
import tarfile

ROOT = pathlib.Path(__file__).parents[2]
PARTS = ("xmodels", "data_pipelines", "launch", "setup.py", "pyproject.toml", "README.md")
REPLACED = ("tensorflow",)  # tensorflow-tpu takes its place, under another name that pip does not know to be the same
# These require the package `tensorflow` by name, so they are installed without what they require.
ALONE = ("tensorflow-text", "keras-nlp")
ALONE_TOO = ("keras-hub",)  # what keras-nlp stands for


def requirements() -> tuple[list[str], list[str]]:
    """Returns what the project requires: what is installed as usual, and what is installed alone."""
    usual, alone = [], list(ALONE_TOO)
    for requirement in importlib.metadata.requires("xmodels") or []:
        name = re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower()
        if "extra ==" in requirement or name in REPLACED:
            continue
        if name == "tensorflow-text":
            requirement = "tensorflow-text==2.20.*"  # as tensorflow-tpu
        (alone if name in ALONE else usual).append(requirement)
    return usual, alone


def pack(path: str) -> None:
    """Writes the sources, without caches, and the two lists of requirements as a .tar.gz."""
    with tarfile.open(path, "w:gz") as archive:
        for part in PARTS:
            archive.add(ROOT / part, part, filter=lambda item: None if "__pycache__" in item.name else item)
        for name, lines in zip(("requirements.txt", "requirements-alone.txt"), requirements(), strict=True):
            text = "".join(f"{line}\n" for line in lines).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
