"""Records: whole, readable, of this vocabulary, and fit for the system. Until `fit` without TensorFlow."""

import os

from data_pipelines.pretraining.warnings import manifest_warnings
from data_pipelines.records.manifest import MANIFEST, Manifest
from data_pipelines.records.verification import damage, verify
from xmodels.doctor.case import PRETRAIN, Case
from xmodels.runs.preflight import format_size
from xmodels.training.watching.progress import print_status

DEEP = 1_000_000_000  # bytes that are hashed in about a second; of more only the sizes are compared


def shards(case: Case) -> str | None:
    """Returns the manifest and the files that it names."""
    if not case.flags.data_dir:
        return None
    case.manifest, report = _whole(case.flags.data_dir, case.flags.on_corrupt_shard == "skip")
    return report


def held_out_shards(case: Case) -> str | None:
    """Returns the same of --eval_data_dir."""
    return _whole(case.flags.eval_data_dir)[1] if case.flags.eval_data_dir else None


def _whole(folder: str, may_skip: bool = False) -> tuple[Manifest, str]:
    manifest = Manifest.read(folder)
    total = sum(shard.bytes for shard in manifest.shards)
    deep = total <= DEEP
    lost = damage(folder, manifest, deep) if may_skip else {}
    if 0 < len(lost) < len(manifest.shards):
        print_status(
            f"Warning: {'; '.join(lost.values())}. --on_corrupt_shard=skip leaves out what cannot be read; copy it again."
        )
    else:
        verify(folder, manifest, deep)
    for doubt in manifest_warnings(manifest):
        print_status(f"Warning: {folder}: {doubt}")
    how = "checksums right" if deep else "sizes right (`xmodels inspect_data --verify` reads them all)"
    return (
        manifest,
        f"{manifest.num_examples:,} examples in {len(manifest.shards)} shard(s), {format_size(total)}, {how}",
    )


def fit(case: Case) -> str | None:
    """Returns what `pretrain` checks of records before it builds a network."""
    from data_pipelines.records.checks import check_contents
    from xmodels import systems
    from xmodels.jobs.pretrain import records as pretraining_records

    flags = case.flags
    broken = flags.data_dir and case.manifest is None  # its own check said so
    if case.job != PRETRAIN or broken or not (flags.data_dir or flags.input_file):
        return None
    source, case.tokenizer = pretraining_records.open_records(flags)
    system = systems.load(flags.system) if flags.system in systems.names() else None
    records = pretraining_records.record_sizes(flags, source, system)
    if system:
        pretraining_records.check_words(flags, source, system)
    looked = check_contents(source, len(case.tokenizer.vocabulary))
    pretraining_records.open_held_out(flags, source)
    case.source, case.records = source, records
    if source.format.show:  # no text in rows
        return f"{source.manifest.settings.packing}; {looked} looked at"
    masking = "masked already" if records.static else "masked while training"
    return f"length {records.sequence_length}, up to {records.num_predictions} hidden tokens, {masking}; {looked} looked at"


def is_labelled(folder: str | None) -> bool:
    """Returns whether a folder holds records of labelled data."""
    return (
        bool(folder)
        and os.path.isfile(os.path.join(folder, MANIFEST))
        and Manifest.read(folder).settings.task is not None
    )
