"""The folder of an export: which version is served, under which name, and the labels of its probabilities."""

import dataclasses
import os
import re

from data_pipelines import strict_json
from data_pipelines.errors import DataError, UsageError

SAVED_MODEL = "saved_model.pb"
DESCRIPTION = "export.json"  # of an export whose network stands apart
SERVED = (SAVED_MODEL, DESCRIPTION)  # one of them is in the folder of a version
LABELS = os.path.join("assets.extra", "labels.json")  # TensorFlow Serving looks at no file there
NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
IN_README = re.compile(rf"/v1/models/({NAME.pattern}):predict")


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """Where an export lies.

    Attributes:
        path: the folder of the version.
        name: of the model, in addresses.
        version: a number.
    """

    path: str
    name: str
    version: str


def find_model(export_dir: str, name: str | None = None, said: str = "--export_dir=") -> ModelFolder:
    """Returns the highest version in a folder that `export_model` wrote.

    Args:
        said: how an error begins that names the folder.

    Raises:
        DataError: there is none.
        UsageError: `name` cannot stand in an address.
    """
    if not os.path.isdir(export_dir):
        raise DataError(f"{said}{export_dir}: no such folder. Write it with `xmodels export_model`.")
    versions = find_versions(export_dir)
    if not versions:
        is_version = any(_is_file(export_dir, name) for name in SERVED)
        hint = "This is a version; give the folder around it." if is_version else None
        hint = hint or "Export the run first: xmodels export_model --model_dir=RUN --export_dir=FOLDER."
        raise DataError(f"{said}{export_dir}: holds no SavedModel, such as 1/{SAVED_MODEL}. {hint}")
    version = max(versions)
    return ModelFolder(versions[version], model_name(export_dir, name), os.path.basename(versions[version]))


def find_versions(export_dir: str) -> dict[int, str]:
    """Returns the folder of each version that lies in an existing folder.

    Raises:
        OSError: the folder cannot be read.
    """
    names = sorted(each for each in os.listdir(export_dir) if each.isdecimal() and each.isascii())
    folders = {int(each): os.path.join(export_dir, each) for each in names}
    return {number: folder for number, folder in folders.items() if any(_is_file(folder, name) for name in SERVED)}


def model_name(export_dir: str, name: str | None = None) -> str:
    """Returns the name of a model in addresses: the one given, else that of the README of its export, else that of the folder.

    Raises:
        UsageError: the name that is given cannot stand in an address.
    """
    if name is None:
        base = os.path.basename(os.path.abspath(export_dir))
        name = _name_in_readme(export_dir) or re.sub("[^A-Za-z0-9_.-]", "_", base)[:100]
    if not NAME.fullmatch(name):
        raise UsageError(f"--name={name}: give letters of a to z, digits and any of _.- (100 at most).")
    return name


def labels_of(folder: ModelFolder) -> list[str] | None:
    """Returns the labels of `probabilities`, in their order; None where the export does not say.

    Raises:
        DataError: the file is damaged.
    """
    path = os.path.join(folder.path, LABELS)
    if not os.path.exists(path):
        return None
    try:
        labels = strict_json.read(path)
    except (ValueError, OSError) as error:
        raise DataError(f"{path}: not readable as JSON ({error}). Export the run again.") from None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise DataError(f"{path}: expected a list of texts. Export the run again.")
    return labels


def _name_in_readme(export_dir: str) -> str | None:
    if not _is_file(export_dir, "README.md"):
        return None
    with open(os.path.join(export_dir, "README.md"), encoding="utf-8", errors="replace") as file:
        found = IN_README.search(file.read(1 << 20))
    return found and found[1]


def _is_file(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))
