"""What a command checks before TensorFlow is imported, which takes many seconds: names of systems, files, columns, folders.

The jobs check all of it again, with more; the messages are theirs.
"""

import importlib.util
import os

from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.lock import check_free
from data_pipelines.options.declaration import modules_of
from data_pipelines.paths import check_output
from data_pipelines.records.manifest import Manifest
from data_pipelines.strict_yaml import variables_of
from xmodels import systems
from xmodels.comparison.checks import check_files, read_plan
from xmodels.conversion import names, vectors
from xmodels.export import formats
from xmodels.jobs.multitask.tasks_file import read_tasks_file as read_tasks
from xmodels.runs import preflight
from xmodels.serving import kinds
from xmodels.serving.folder import find_versions
from xmodels.serving.sources import find_sources
from xmodels.tasks.base import find

SEVERAL = set("*?[,:")  # in names of several files, or of no file
SERVING = ("starlette", "uvicorn", "prometheus_client")  # the extra `serve`
GRPC = ("grpc", "grpc_health", "tensorflow_serving")  # the extra `grpc`


def check_pretraining(options) -> None:
    """Raises what is wrong with the system, the folders of records, the run folder or the checkpoint to start from."""
    systems.check_known(options.system)
    _check_run_folder(options)
    for folder in (options.data_dir, options.eval_data_dir):
        if folder:
            Manifest.read(folder)
    for given in (options.init_checkpoint, options.init_encoder, options.init_decoder):
        if given:
            check_checkpoint(given)


def check_finetuning(options) -> None:
    """Raises what is wrong with the checkpoint, the run folder, records, or tables of texts with labels."""
    _check_run_folder(options)
    if not options.init_checkpoint.startswith("new:"):
        check_checkpoint(options.init_checkpoint)
    if options.data_dir:
        Manifest.read(options.data_dir)
    for name in ("train_file", "eval_file", "test_file"):
        _check_file(name, getattr(options, name))
    if check := find.own(options.task, "early"):
        check.check(options)


def check_multitask(options) -> None:
    """Raises what is wrong with the file of tasks, the files that it names, the checkpoint or the run folder."""
    _check_run_folder(options)
    read_tasks(options.tasks_file, variables_of(options.set))
    if not options.init_checkpoint.startswith("new:"):
        check_checkpoint(options.init_checkpoint)


def check_comparison(options) -> None:
    """Raises what is wrong with the plan and the files that it names, as far as no system is looked at."""
    check_files(*read_plan(options.plan, variables_of(options.set)))


def check_evaluation(options) -> None:
    """Raises what `check_usage` does. Some tasks take a file of word vectors in place of a run."""
    kind, _, path = options.model_dir.partition(":")
    reads_vectors = getattr(find.options_class(options.task, find.EVALUATE), "READS_VECTORS", False)
    formats_of_vectors = modules_of(vectors.__name__)
    if path and reads_vectors and not os.path.isdir(options.model_dir):
        if kind not in formats_of_vectors:
            known = ", ".join(f"{each}:FILE" for each in formats_of_vectors)
            raise UsageError(
                f"--model_dir={options.model_dir}: no format of word vectors. Known: {known}; or name a run."
            )
        _check_file("model_dir", path)
        check_paths(options)
    elif path and kind in formats_of_vectors and kind not in names.FORMATS:
        wanted = [n for n in find.names() if getattr(find.options_class(n, find.EVALUATE), "READS_VECTORS", False)]
        raise UsageError(
            f"--model_dir={options.model_dir}: is a file of word vectors. Give --task={' or --task='.join(wanted)}."
        )
    else:
        check_usage(options)


def check_usage(options) -> None:
    """Raises what is wrong with the folder of a finished run, or with files to read or write."""
    check_checkpoint(options.model_dir)
    check_paths(options)


def check_paths(options) -> None:
    """Raises what is wrong with files to read or write, or with folders of vectors."""
    check_output(getattr(options, "output_file", None), overwrite=getattr(options, "overwrite", True))
    for name in ("input_file", "train_file", "test_file", "target_file"):
        if not SEVERAL.intersection(path := getattr(options, name, None) or ""):
            _check_file(name, path)
    for name in ("index", "rerank_model_dir"):
        if (path := getattr(options, name, None)) and not os.path.isdir(path.partition(":")[2] or path):
            raise CheckpointError(f"--{name}={path}: no such folder. Check the path.")


def check_export(options) -> None:
    """Raises what is wrong with the run, the file of the comparison, or a format and its precision."""
    check_usage(options)
    _check_file("eval_file", options.eval_file)
    formats.check(options.format, options.precision)


def check_serving(options) -> None:
    """Raises what is wrong with the folders of exports, or a UsageError where packages of a server or of a format are missing."""
    sources = find_sources(options.export_dir, options.name, options.model_config_file, options.version_policy)
    for path in (path for source in sources for path in find_versions(source.folder).values()):
        for kind, name in kinds.FILES.items():
            if os.path.isfile(os.path.join(path, name)):
                kinds.check_packages(kind)
    if missing := [name for name in SERVING if not importlib.util.find_spec(name)]:
        raise UsageError(f"`serve` needs {', '.join(missing)}. Install what is missing: pip install 'xmodels[serve]'.")
    if options.grpc_port is None:
        return
    if missing := [name for name in GRPC if not importlib.util.find_spec(name)]:
        raise UsageError(
            f"--grpc_port needs {', '.join(missing)}. Install what is missing: pip install 'xmodels[serve,grpc]'."
        )
    if options.grpc_port == options.port != 0:
        raise UsageError(
            f"--grpc_port={options.grpc_port}: --port has the same. Give REST and gRPC ports of their own."
        )


def check_checkpoint(name: str) -> None:
    """Raises a CheckpointError where a checkpoint is not there; the readers look at what it holds."""
    names.check_there(name)


def check_conversion(options) -> None:
    """Raises what is wrong with the name of the checkpoint that is read."""
    if not options.source.startswith("sentence_transformers:"):
        check_checkpoint(options.source)


def check_averaging(options) -> None:
    """Raises a CheckpointError where there is no such run."""
    names.check_folder(options.model_dir)


def check_indexing(options) -> None:
    """Raises a DataError where a file is missing."""
    for name in ("vectors_file", "input_file"):
        _check_file(name, getattr(options, name))


def _check_file(name: str, path: str | None) -> None:
    if path and not os.path.exists(path):  # which may be a pipe
        raise DataError(f"--{name}={path}: no such file. Check the path.")


def _check_run_folder(options) -> None:
    preflight.check_writable(options.model_dir)
    if not options.dry_run and "TF_CONFIG" not in os.environ:  # of several machines the first one holds the lock
        check_free(options.model_dir)
