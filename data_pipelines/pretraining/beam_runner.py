"""The same shards, made by an Apache Beam pipeline whose elements are the parts of the corpus (extra `[beam]`).

Workers read the corpus and write the shards under the paths that the command names, so they must see the same folders.
What comes back is in the files; a part that a runner tries twice, even at the same time, leaves the same bytes.
"""

import importlib.util
import os
import shlex
from collections.abc import Callable

from data_pipelines.corpora.corpus import Corpus
from data_pipelines.errors import DataError, ReportedError, UsageError
from data_pipelines.files import whole_file
from data_pipelines.lock import hold_lock
from data_pipelines.options.runner import DASK, LOCAL
from data_pipelines.pretraining.job import ShardJob, prepare
from data_pipelines.pretraining.parts import collect_part, fingerprint_part
from data_pipelines.pretraining.settings import Settings
from data_pipelines.records.folder import PLAN, claim, read_stored_shard
from data_pipelines.records.manifest import Manifest

FAILED = ".failed"  # beside the shard that could not be made; holds the reason


def dask_options(scheduler: str | None) -> str:
    """Returns the options of a pipeline on the workers of a Dask scheduler, or without one on workers that Dask starts here.

    Raises:
        UsageError: Dask is not installed.
    """
    if not importlib.util.find_spec("distributed"):
        raise UsageError("--runner=dask: Dask is not installed. `pip install 'xmodels[dask]'`, or leave the flag out.")
    address = ["--dask_client_address", scheduler] if scheduler else []
    # Beam's default puts 128 parts together, so that one worker would do the work of all.
    return shlex.join(["--runner=apache_beam.runners.dask.dask_runner.DaskRunner", "--dask_partition_size=1", *address])


def options_of(options, shares: bool, flag: str) -> str | None:
    """Returns the options of a pipeline that flags ask for; None where the shards are made by processes here.

    Args:
        options: the flags `runner`, `dask_scheduler`, `beam_options` and `num_workers`.
        shares: whether the command is one of several tasks, by `flag`.

    Raises:
        UsageError: the flags contradict one another.
    """
    if options.dask_scheduler and options.runner != DASK:
        raise UsageError(f"--dask_scheduler={options.dask_scheduler}: needs --runner=dask.")
    if options.runner == LOCAL:
        if options.beam_options:
            raise UsageError(f"--beam_options={options.beam_options}: needs --runner=beam.")
        return None
    if shares:
        raise UsageError(f"{flag}: --runner={options.runner} shares the work out by itself. Leave one of the two out.")
    if options.num_workers != 1:
        raise UsageError(
            f"--num_workers={options.num_workers}: with --runner={options.runner} the pipeline says how many."
        )
    runner = dask_options(options.dask_scheduler) if options.runner == DASK else ""
    return f"{runner} {options.beam_options}".strip()


def create(
    settings: Settings,
    output_dir: str,
    resume: bool = False,
    overwrite: bool = False,
    options: str = "",
    corpus: Corpus | None = None,
) -> Manifest:
    """Writes the records of a corpus into `output_dir`, as `pretraining_data.create` does.

    Args:
        corpus: what `settings.open_corpus` gave, if it was called before.
        Others, and errors, as of `make_records`.
    """
    return make_records(lambda: prepare(settings, output_dir, corpus), resume, overwrite, options)


def make_records(prepared: Callable[[], ShardJob], resume: bool, overwrite: bool, options: str = "") -> Manifest:
    """Makes all shards of a job in its folder.

    Args:
        prepared: gives the job, once it is known that there is a pipeline.
        options: of the pipeline, as on a command line; without --runner it runs here.

    Raises:
        UsageError: Beam is not installed, the settings contradict one another, or the folder holds something else.
        DataError: the data or the vocabulary cannot be used.
        ReportedError: the pipeline failed.
    """
    try:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
    except ImportError:
        raise UsageError(
            "--runner=beam: Apache Beam is not installed. `pip install 'xmodels[beam]'`, or leave the flag out."
        ) from None
    try:
        pipeline = beam.Pipeline(options=PipelineOptions(shlex.split(options) or ["--runner=DirectRunner"]))
    except ValueError as error:
        raise UsageError(f"--beam_options={options}: {error}") from None
    job = prepared()
    with hold_lock(job.folder, "output_dir"):
        return _create(pipeline, job, resume, overwrite)


def _create(pipeline, job: ShardJob, resume: bool, overwrite: bool) -> Manifest:
    if manifest := claim(job.folder, job.described, resume, overwrite):
        return manifest
    job.gather()
    collected = [job.collected(index) for index in range(len(job.paths))] if job.merges else []
    reasons = [f"{path}{FAILED}" for path in [*job.paths, *collected]]
    for path in filter(os.path.isfile, reasons):
        os.remove(path)
    build(pipeline, job)
    try:
        running = pipeline.run()
        running.wait_until_finish()
        if client := getattr(running, "client", None):  # Dask's, whose connection would stay open
            client.close()
    except Exception as error:  # each runner has its own
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise ReportedError(
            f"the Beam pipeline failed: {lines[-1].rstrip('.')}. Shards that are whole are kept; run the same command with "
            "--resume."
        ) from error
    for path in filter(os.path.isfile, reasons):
        with open(path, encoding="utf-8") as file:
            raise DataError(file.read())
    return job.finish()


def build(pipeline, job: ShardJob) -> None:
    """Adds what is left to do of `job` to a `beam.Pipeline`."""
    import apache_beam as beam

    everything = range(len(job.paths))
    ready = []
    if not job.decided(everything):
        decided = (
            pipeline
            | "parts to read for duplicates" >> beam.Create(list(job.fingerprint_jobs(everything).items()))
            | "spread them" >> beam.Reshuffle()
            | "fingerprint" >> beam.Map(_fingerprint, job.paths)
            | "wait for all" >> beam.combiners.Count.Globally()
            | "decide" >> beam.Map(_decide, job)
        )
        ready = [beam.pvalue.AsSingleton(decided)]
    if job.merges:
        collected = (
            pipeline
            | "parts to collect" >> beam.Create(list(job.collect_jobs(everything).items()))
            | "share them out" >> beam.Reshuffle()
            | "collect" >> beam.Map(_collect, job, *ready)
            | "wait for parts" >> beam.combiners.Count.Globally()
            | "all collected" >> beam.Map(lambda count, job: not job.uncollected(range(len(job.paths))), job)
        )
        ready = [beam.pvalue.AsSingleton(collected)]
    _ = (
        pipeline
        | "parts" >> beam.Create(list(job.shard_jobs(everything).items()))
        | "spread" >> beam.Reshuffle()
        | "write shards" >> beam.Map(_write, job, *ready)
    )


def _fingerprint(numbered: tuple[int, tuple], paths: list[str]) -> None:
    index, arguments = numbered
    _guarded(paths[index], lambda: fingerprint_part(*arguments))


def _decide(count: int, job: ShardJob) -> bool:
    """Returns whether the shards may be written; not if a part could not be read."""
    if job.unmarked(range(len(job.paths))):
        return False
    job.decide()
    return True


def _collect(numbered: tuple[int, tuple], job: ShardJob, ready: bool = True) -> None:
    index, arguments = numbered
    path = job.collected(index)
    if ready:
        _guarded(path, lambda: read_stored_shard(path, job.plan) or collect_part(*arguments))


def _write(numbered: tuple[int, tuple], job: ShardJob, ready: bool = True) -> None:
    index, arguments = numbered
    path = job.paths[index]
    if ready:
        # Whole where a runner that heard nothing of the first try tries again.
        _guarded(path, lambda: read_stored_shard(path, job.plan) or job.write_shard(*arguments))


def _guarded(path: str, work: Callable) -> None:
    """Does the work of one part; a text that cannot be used is noted beside the shard, since trying again is useless."""
    folder = os.path.dirname(path)
    if not os.path.isfile(os.path.join(folder, PLAN)):
        raise FileNotFoundError(
            f"{folder}: a Beam worker does not see this folder. All must share it and the corpus; name absolute paths."
        )
    try:
        work()
    except ReportedError as error:
        with whole_file(f"{path}{FAILED}", "w") as file:
            file.write(str(error))
