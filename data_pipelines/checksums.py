"""The checksums of a folder, in the file SHA256SUMS, as `sha256sum` writes and checks it.

They tell a file that was damaged, or edited without a thought, from one that was changed on purpose: who means the change
writes the file anew with `sha256sum`. A folder without the file is not checked.
"""

import os
import re
import shlex
from collections.abc import Iterable

from data_pipelines.errors import CheckpointError
from data_pipelines.files import file_sha256, whole_file

FILE = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\\\0]+)")


def record(folder: str, names: Iterable[str]) -> None:
    """Writes the checksums of these files; those of other files stay."""
    path = os.path.join(folder, FILE)
    sums = (_read(path) if os.path.isfile(path) else {}) | {n: file_sha256(os.path.join(folder, n)) for n in names}
    with whole_file(path, "w") as file:
        file.writelines(f"{sums[name]}  {name}\n" for name in sorted(sums))


def check(folder: str, names: Iterable[str]) -> None:
    """Compares files with their checksums, where the folder has some.

    Args:
        names: the files that matter. Those that are not there are not looked for, unless they have a checksum.

    Raises:
        CheckpointError: names the file that is missing or changed, or that has no checksum.
    """
    path = os.path.join(folder, FILE)
    if not os.path.lexists(path):
        return
    sums, names = _read(path), set(names)
    for name in sorted(names | set(sums)):
        file = os.path.join(folder, name)
        if not os.path.isfile(file):
            if name in sums and name in names:
                raise CheckpointError(f"{file}: missing; {FILE} names it. Copy it again{_kept(folder, sums, name)}.")
        elif name not in sums:
            raise CheckpointError(
                f"{file}: was not there when this folder was written ({FILE} does not name it). Remove it"
                f"{_kept(folder, sums, name)}."
            )
        elif name in names and file_sha256(file) != sums[name]:
            raise CheckpointError(
                f"{file}: changed since it was written (its SHA-256 is not that in {FILE}). Copy it again"
                f"{_kept(folder, sums, name)}."
            )


def _kept(folder: str, sums: dict[str, str], name: str) -> str:
    """Returns the command that accepts a change."""
    there = sorted(n for n in {*sums, name} if os.path.isfile(os.path.join(folder, n)))
    return f"; or, to keep the change: (cd {shlex.quote(folder)} && sha256sum {shlex.join(there)} > {FILE})"


def _read(path: str) -> dict[str, str]:
    wrong = CheckpointError(
        f"{path}: expected lines of a SHA-256, two blanks and the name of a file in this folder, as `sha256sum` writes. "
        "Copy it again, or remove it, and nothing is compared."
    )
    if not os.path.isfile(path):
        raise wrong
    try:
        with open(path, encoding="utf-8") as file:
            found = [_LINE.fullmatch(line.rstrip("\n")) for line in file]
    except UnicodeDecodeError:
        raise wrong from None
    if not found or not all(found):
        raise wrong
    return {line[2]: line[1] for line in found}
