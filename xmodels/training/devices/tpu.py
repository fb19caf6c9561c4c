"""TPUs: finds what is missing before a TPU is asked for anything, and connects to it."""

import dataclasses
import importlib.metadata
import os

import psutil
import tensorflow as tf

from data_pipelines.errors import DeviceError

LOCAL = ("", "local")  # names of the TPU that belongs to this machine
# File systems that all hosts of a slice may share; anything else is taken for a disk of this machine.
SHARED = ("fuse", "nfs", "lustre", "ceph", "cifs", "smb", "gpfs", "beegfs", "9p")


@dataclasses.dataclass(frozen=True)
class Tpu:
    """The flags that name a TPU, with the names of Google's scripts.

    Attributes:
        use_tpu: ask for one.
        tpu: its name, or grpc://ADDRESS; "local", which is the default, for the TPU of the machine this runs on.
        tpu_zone, gcp_project: where a TPU of that name is.
        paths: {flag: path} of what all its hosts must be able to reach.
    """

    use_tpu: bool = False
    tpu: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    paths: dict[str, str | None] = dataclasses.field(default_factory=dict)

    @property
    def asked_for(self) -> bool:
        return self.use_tpu or self.tpu is not None

    @property
    def is_local(self) -> bool:
        return (self.tpu or "") in LOCAL


def check(flags: Tpu) -> None:
    """Looks at what can be known before a TPU is asked for anything.

    Raises:
        DeviceError: lists all that is missing.
    """
    if problems := [*_runtime_problems(), *_path_problems(flags)]:
        raise DeviceError("--distribution_strategy=tpu: " + " ".join(problems))


def connect(flags: Tpu) -> tf.distribute.Strategy:
    """Returns the strategy for all cores of a TPU.

    Raises:
        DeviceError: lists all that is missing.
    """
    check(flags)
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=flags.tpu or "local", zone=flags.tpu_zone, project=flags.gcp_project
        )
        if not flags.is_local:
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError, OSError, KeyError, TypeError, ImportError) as error:
        where = f"--tpu={flags.tpu}" if flags.tpu else "this machine"
        raise DeviceError(
            f"--distribution_strategy=tpu: no TPU answers at {where} ({str(error).splitlines()[0]:.200}). On a TPU VM "
            "leave out --tpu; of another machine give --tpu=NAME --tpu_zone=ZONE --gcp_project=PROJECT."
        ) from None


def has_runtime() -> bool:
    """Returns whether this TensorFlow can drive a TPU: only the package tensorflow-tpu can; libtpu alone serves other
    libraries."""
    if os.environ.get("TPU_LIBRARY_PATH"):
        return True
    try:
        return bool(importlib.metadata.version("tensorflow-tpu"))
    except importlib.metadata.PackageNotFoundError:
        return False


def _runtime_problems() -> list[str]:
    if has_runtime():
        return []
    return [
        f"This TensorFlow, {tf.__version__}, holds no runtime for TPUs; it is in the package tensorflow-tpu, whose newest "
        "version is 2.20. docs/training.md says how to install it in place of tensorflow."
    ]


def _path_problems(flags: Tpu) -> list[str]:
    """Returns a TPU that is not of this machine reads through its own hosts, which do not see our disks."""
    if flags.is_local:
        return []
    local = [f"--{name}={path}" for name, path in flags.paths.items() if path and not _is_shared(path)]
    if not local:
        return []
    return [
        f"The hosts of --tpu={flags.tpu} do not see the disk of this machine, where {', '.join(local)} lies. Put it into "
        "a bucket (gs://...) that every host mounts at the same path (gcsfuse), and name that path."
    ]


def _is_shared(path: str) -> bool:
    """Returns whether a path lies on a file system that other machines may mount too."""
    path = os.path.realpath(path)
    mounts = [m for m in psutil.disk_partitions(all=True) if os.path.commonpath([path, m.mountpoint]) == m.mountpoint]
    kind = max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else ""
    return kind.startswith(SHARED)
