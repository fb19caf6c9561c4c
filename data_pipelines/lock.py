"""One process at a time in the folder of a run, or of records."""

import contextlib
import datetime
import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator

import psutil

from data_pipelines.errors import UsageError
from data_pipelines.files import open_own

LOCK = "run.lock"
ATTEMPTS = 1000  # to open a file that other runs remove when they end


@contextlib.contextmanager
def hold_lock(folder: str, flag: str = "model_dir") -> Iterator[None]:
    """Keeps other processes out of a folder until the body ends, or its process does, however that happens.

    The lock is that of the operating system on the file run.lock, which also tells host, process and time. It vanishes with
    the lock, and so does a folder that holds nothing else. A file system without locks is used as it is, and so is a folder
    in which this user cannot write, since whoever works there will be told so.

    Args:
        flag: which names the folder.

    Raises:
        UsageError: another process holds the lock, or a link, a pipe or the like has its name.
    """
    path = os.path.join(folder, LOCK)
    try:
        file = _own(path, flag)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        file = None
    if file is None:
        yield
        return
    try:
        owner = {"host": socket.gethostname(), "process": os.getpid(), "since": f"{datetime.datetime.now():%F %T}"}
        file.truncate(0)
        file.write(json.dumps(owner))
        file.flush()
        yield
    finally:
        with contextlib.suppress(OSError):
            os.remove(path)
        file.close()  # which gives the lock back
        with contextlib.suppress(OSError):  # is not empty
            os.rmdir(folder)


def check_free(folder: str, flag: str = "model_dir") -> None:
    """Raises a UsageError where another process on this machine holds the lock; takes and changes nothing.

    For a command that will take the lock later, and would only then be refused.
    """
    try:
        with open(open_own(os.path.join(folder, LOCK), os.O_RDONLY), encoding="utf-8") as file:
            owner = file.read()
            if _is_alive(owner):  # else the lock is not even tried, so that a run that begins now does not meet ours
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _taken(folder, flag, owner) from None
    except (OSError, UnicodeDecodeError):  # no lock, or one that `hold_lock` will look at
        return


def _is_alive(owner: str) -> bool:
    with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError):
        found = json.loads(owner)
        return found["host"] == socket.gethostname() and psutil.pid_exists(found["process"])
    return False


def _taken(folder: str, flag: str, owner: str) -> UsageError:
    return UsageError(
        f"--{flag}={folder}: another run works in it ({_described(owner)}). Wait until it ends, stop it, or choose another "
        "folder."
    )


def _own(path: str, flag: str):
    """Returns the file of the lock, open and locked."""
    for attempts_left in reversed(range(ATTEMPTS)):
        with contextlib.suppress(FileExistsError):  # a folder that vanishes at this moment is no folder to `makedirs`
            os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            file = open(open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+", encoding="utf-8")  # noqa: SIM115
        except FileNotFoundError:  # another run that ended has just removed the empty folder; or a link leads nowhere
            if not attempts_left:
                raise
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read()
            file.close()
            raise _taken(os.path.dirname(path), flag, owner) from None
        except OSError:  # no locks here
            return file
        if _is_still_there(file, path):
            return file
        file.close()  # its owner removed it between our two calls
    raise UsageError(
        f"--{flag}={os.path.dirname(path)}: other runs begin and end in it all the time; choose another folder."
    )


def _is_still_there(file, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _described(owner: str) -> str:
    try:
        found = json.loads(owner)
        return f"process {found['process']} on {found['host']}, since {found['since']}"
    except (ValueError, KeyError, TypeError):
        return "its owner has not written who it is yet"
