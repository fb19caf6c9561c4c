"""Files that appear when they are whole and are never written through a link, and their checksums."""

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import uuid
from collections.abc import Iterable, Iterator
from typing import IO, Any

from data_pipelines.errors import UsageError


def file_sha256(path: str, progress=lambda num_bytes: None) -> str:
    """Returns the SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            progress(len(block))
    return digest.hexdigest()


def temporary_name(path: str) -> str:
    """Returns a name beside `path` that no other writer of it takes, be it on another machine that shares the folder."""
    return f"{path}.{uuid.uuid4().hex[:12]}.partial"


def is_temporary(name: str) -> bool:
    """Returns whether a name is one that `temporary_name` gives."""
    return re.fullmatch(r".+\.[0-9a-f]{12}\.partial", name) is not None


def give_usual_mode(path: str) -> None:
    """Gives a file the permissions of new files; some libraries leave those of temporary ones, which nobody else may read."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def remove_own(folder: str, names: Iterable[str]) -> None:
    """Removes these files of a folder, and the folder where nothing else is left in it. What a link leads to stays as it is."""
    if os.path.islink(folder):
        return
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, name))
    with contextlib.suppress(OSError):  # it holds something else, or is not there
        os.rmdir(folder)


@contextlib.contextmanager
def whole_file(path: str, mode: str = "wb", newline: str | None = None) -> Iterator[IO]:
    """Yields a file that appears as `path` when it is whole, and not at all after an error. It takes the place of a link."""
    temporary = temporary_name(path)
    try:
        new = mode.replace("w", "x")  # a link that lies there already is no new file
        with open(temporary, new, encoding=None if "b" in mode else "utf-8", newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        # Such as a full disk, which names no file.
        if isinstance(error, OSError) and error.errno and error.filename is None:
            raise OSError(error.errno, error.strerror, path) from None
        raise


def write_json(path: str, value: Any) -> None:
    """Writes JSON under a temporary name and renames it when whole."""
    with whole_file(path, "w") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def own_folder(path: str) -> None:
    """Makes a folder inside of one of ours, unless it is there.

    Raises:
        UsageError: a link has its name, or something else that is no folder.
    """
    check_own(path)
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"{path}: is no folder, but one is to be made there. Remove it.") from None


def check_own(path: str) -> None:
    """Raises a UsageError where a name inside of a folder of ours is a link: what it leads to is not ours to write."""
    if os.path.islink(path):
        raise UsageError(
            f"{path}: is a link, and nothing is written through a link. Remove it, or put there what it leads to."
        )


def open_own(path: str, flags: int) -> int:
    """Returns a descriptor of a regular file inside of a folder of ours; one that lies there as a link, a pipe or a device is
    refused.

    Args:
        flags: of `os.open`.

    Raises:
        UsageError: it is none, or the file has further names elsewhere.
    """
    check_own(path)
    no_file = UsageError(f"{path}: is no regular file, so it is not written. Remove it.")
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)  # a pipe would wait
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ENXIO, errno.ELOOP):  # a folder; a pipe or socket; a link
            raise no_file from None
        raise
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise no_file
    raise UsageError(f"{path}: has another name elsewhere, so it is not written. Remove it.")


def append_to(path: str, mode: str = "a") -> IO:
    """Opens a file of ours to write at its end; a link or a pipe is refused, as `open_own` does."""
    descriptor = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return open(descriptor, mode, encoding=None if "b" in mode else "utf-8")
