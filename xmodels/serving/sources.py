"""Where models lie: the folders that a server watches, and what lies there at the moment."""

import dataclasses
import os
from collections.abc import Mapping

from data_pipelines.errors import DataError, UsageError
from xmodels.serving.config_file import read_config_file
from xmodels.serving.folder import ModelFolder, find_model, find_versions, model_name
from xmodels.serving.policies import Policy, read_policy

Stamp = tuple[tuple[str, int, int, int], ...]  # path, inode, size and time of each file of a version


@dataclasses.dataclass(frozen=True)
class Found:
    """A version that lies in a folder.

    Attributes:
        stamp: another one where its files are others.
    """

    folder: ModelFolder
    stamp: Stamp


@dataclasses.dataclass(frozen=True)
class Source:
    """The folder of a model.

    Attributes:
        name: of the model, in addresses.
        folder: with a folder for each version.
        policy: which versions are served.
        labels: the version that each label stands for.
    """

    name: str
    folder: str
    policy: Policy = Policy()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def look(self) -> dict[int, Found]:
        """Returns the versions that lie in the folder, by their numbers.

        Raises:
            OSError: the folder is not there, or cannot be read.
        """
        found = {}
        for number, path in find_versions(self.folder).items():
            try:
                found[number] = Found(ModelFolder(path, self.name, os.path.basename(path)), stamp_of(path))
            except FileNotFoundError:  # it went while it was looked at
                continue
        return found

    def check(self, said: str) -> None:
        """Raises a DataError where no version lies there that is to be served.

        Args:
            said: how it begins.
        """
        find_model(self.folder, self.name, said)
        found = find_versions(self.folder)
        if not self.policy.wanted(found):
            known = ", ".join(map(str, sorted(found)))
            raise DataError(
                f"{self.folder}: none of the versions {', '.join(map(str, self.policy.specific))} lies there. Found: {known}."
            )
        for label, number in self.labels.items():
            if number not in self.policy.wanted(found):
                raise DataError(f"{self.name}: the label {label} stands for version {number}, which is not served.")


def stamp_of(path: str) -> Stamp:
    """Returns what tells whether the files of a version are others than before."""
    found = []
    for folder, folders, names in os.walk(path, onerror=_raise):
        folders.sort()
        for name in sorted(names):
            state = os.stat(os.path.join(folder, name))
            found.append((os.path.join(folder, name), state.st_ino, state.st_size, state.st_mtime_ns))
    return tuple(found)


def _raise(error: OSError) -> None:
    raise error


def find_sources(
    export_dir: str | None, name: str | None = None, config_file: str | None = None, policy: str = "latest"
) -> list[Source]:
    """Returns the models that flags name.

    Args:
        export_dir: folders, joined by commas.
        name: of each of them, joined by commas; None for the names of the exports.
        config_file: a file in the place of the folders.
        policy: of the folders.

    Raises:
        UsageError: the flags contradict each other.
        DataError: the file is wrong, or a folder holds no version that is to be served.
    """
    if bool(export_dir) == bool(config_file):
        raise UsageError("Give either --export_dir=FOLDER or --model_config_file=FILE.")
    if config_file:
        if name or policy != "latest":
            raise UsageError("--name and --version_policy go with --export_dir; --model_config_file names both itself.")
        sources = [Source(each.name, each.folder, each.policy, each.labels) for each in read_config_file(config_file)]
    else:
        folders = _split(export_dir)
        names = name.split(",") if name else [None] * len(folders)
        if len(names) != len(folders):
            raise UsageError(
                f"--name: {len(names)} names for {len(folders)} folders. Give one for each --export_dir, or none."
            )
        for folder in folders:
            find_model(folder)
        found = zip((model_name(*each) for each in zip(folders, names, strict=True)), folders, strict=True)
        sources = [Source(each, folder, read_policy(policy)) for each, folder in found]
    _check_names(sources)
    for source in sources:
        source.check(f"{config_file}: {source.name}: " if config_file else "--export_dir=")
    return sources


def _split(folders: str) -> list[str]:
    return [folders] if os.path.isdir(folders) else folders.split(",")  # a folder may have a comma in its name


def _check_names(sources: list[Source]) -> None:
    folders: dict[str, str] = {}
    for source in sources:
        if source.name in folders:
            raise UsageError(
                f"{folders[source.name]} and {source.folder} both hold a model named {source.name}. Give each a name of its own, "
                "such as --name=first --name=second."
            )
        folders[source.name] = source.folder
