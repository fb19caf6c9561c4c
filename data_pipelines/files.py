"""Files that appear when they are whole, and their checksums."""

import contextlib
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from typing import IO, Any


def file_sha256(path: str, progress=lambda num_bytes: None) -> str:
    """The SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            progress(len(block))
    return digest.hexdigest()


def temporary_name(path: str) -> str:
    """A name beside `path` that no other writer of it takes, be it on another machine that shares the folder."""
    return f"{path}.{uuid.uuid4().hex[:12]}.partial"


def is_temporary(name: str) -> bool:
    """Whether a name is one that `temporary_name` gives."""
    return re.fullmatch(r".+\.[0-9a-f]{12}\.partial", name) is not None


def give_usual_mode(path: str) -> None:
    """Gives a file the permissions of new files; some libraries leave those of temporary ones, which nobody else may read."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def remove_own(folder: str, names: Iterable[str]) -> None:
    """Removes these files of a folder, and the folder where nothing else is left in it."""
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, name))
    with contextlib.suppress(OSError):  # it holds something else, or is not there
        os.rmdir(folder)


@contextlib.contextmanager
def whole_file(path: str, mode: str = "wb") -> Iterator[IO]:
    """A file that appears as `path` when it is whole, and not at all after an error."""
    temporary = temporary_name(path)
    try:
        with open(temporary, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def write_json(path: str, value: Any) -> None:
    """Writes JSON under a temporary name and renames it when whole."""
    with whole_file(path, "w") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")
