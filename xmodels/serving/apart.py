"""An export whose network stands apart, in a format of its own: `text` reads strings and writes answers, as SavedModels do."""

import os
from collections.abc import Mapping
from typing import Any

from data_pipelines import strict_json
from data_pipelines.errors import DataError
from data_pipelines.files import file_sha256
from xmodels.serving.folder import DESCRIPTION, ModelFolder
from xmodels.serving.kinds import FILES
from xmodels.serving.model import Model, Signature
from xmodels.serving.networks import Network, open_network

TEXT = "text"  # the folder of the SavedModel
READ, WRITE = "read_", "write_"  # what the names of its signatures begin with
AGAIN = "Export the run again."


class ApartSignature(Signature):
    """A signature in three parts: strings to features, features to numbers, numbers to answers."""

    def __init__(self, name: str, read: Signature, write: Signature, network: Network):
        self.name, self.read, self.write, self.network = name, read, write, network
        self.inputs, self.outputs = read.inputs, write.outputs
        self.joins = self.can_join()

    def __call__(self, values):
        given = {**values, **self.network(self.read(values))}
        return self.write({name: given[name] for name in self.write.inputs})


class ApartModel(Model):
    """An export whose network stands apart; used as a `Model`.

    Raises:
        DataError: the folder is damaged, or its text part does what no export of ours does.
        UsageError: the package that reads the network is missing.
    """

    def __init__(self, folder: ModelFolder, trusted: bool = False):
        self._open(folder, read_description(folder.path)["format"], trusted)

    @classmethod
    def of_parts(cls, folder: ModelFolder, kind: str) -> "ApartModel":
        """Returns the model of a folder that has no description yet."""
        made = cls.__new__(cls)
        made._open(folder, kind, False)
        return made

    def _open(self, folder: ModelFolder, kind: str, trusted: bool) -> None:
        self.folder = folder
        self.network = open_network(os.path.join(folder.path, FILES[kind]), kind)
        text = Model(ModelFolder(os.path.join(folder.path, TEXT), folder.name, folder.version), trusted)
        self._text = text  # holds the tables
        self.signatures: dict[str, Signature] = {}
        self.metadata = {}
        for name in sorted(each.removeprefix(READ) for each in text.signatures if each.startswith(READ)):
            if WRITE + name not in text.signatures:
                raise DataError(f"{text.folder.path}: has no signature {WRITE}{name}. {AGAIN}")
            read, write = text.signatures[READ + name], text.signatures[WRITE + name]
            if missing := set(self.network.inputs) - set(read.outputs):
                raise DataError(
                    f"{self.network.path}: reads {', '.join(sorted(missing))}, which {READ}{name} does not give. {AGAIN}"
                )
            self.signatures[name] = ApartSignature(name, read, write, self.network)
            self.metadata[name] = {
                **text.metadata[WRITE + name],
                "inputs": text.metadata[READ + name].get("inputs", {}),
            }
        for name in (each for each in text.signatures if not each.startswith((READ, WRITE))):
            self.signatures[name], self.metadata[name] = text.signatures[name], text.metadata[name]
        if not self.signatures:
            raise DataError(f"{text.folder.path}: has no signatures. {AGAIN}")


def open_model(folder: ModelFolder, trusted: bool = False) -> Model:
    """Returns the model of a folder, a SavedModel or one whose network stands apart."""
    apart = os.path.isfile(os.path.join(folder.path, DESCRIPTION))
    return (ApartModel if apart else Model)(folder, trusted)


def read_description(path: str) -> Mapping[str, Any]:
    """Returns what the folder of a version says of itself, after its files were compared with their checksums.

    Raises:
        DataError: it is damaged, or names a format that is not known.
    """
    file = os.path.join(path, DESCRIPTION)
    try:
        found = strict_json.read(file)
    except (ValueError, OSError) as error:
        raise DataError(f"{file}: not readable as JSON ({str(error):.200}). {AGAIN}") from None
    if not isinstance(found, dict) or found.get("format") not in FILES or not isinstance(found.get("sha256"), dict):
        raise DataError(f"{file}: expected `format`, one of {', '.join(FILES)}, and `sha256` of the files. {AGAIN}")
    wanted = {FILES[found["format"]], f"{TEXT}/saved_model.pb"}
    if missing := wanted - set(found["sha256"]):
        raise DataError(f"{file}: `sha256` does not name {', '.join(sorted(missing))}. {AGAIN}")
    for name, digest in sorted(found["sha256"].items()):
        part = os.path.join(path, *name.split("/"))
        if os.path.isabs(name) or ".." in name.split("/") or not os.path.isfile(part):
            raise DataError(f"{part}: missing; {DESCRIPTION} names it. {AGAIN}")
        if file_sha256(part) != digest:
            raise DataError(f"{part}: changed since it was written (its SHA-256 is not that in {DESCRIPTION}). {AGAIN}")
    return found
