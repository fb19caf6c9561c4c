"""A folder of records while it is made: whose it is, which of its shards are whole, and the step that ends it.

Everything appears under a temporary name of its own and is renamed when whole. So several processes, on one machine or
on many that share the folder, may make the same shard at once: whoever comes last replaces a file by equal bytes.
"""

import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence

from data_pipelines import schema, strict_json
from data_pipelines.errors import DataError, UsageError
from data_pipelines.features import Features
from data_pipelines.files import whole_file, write_json
from data_pipelines.lock import LOCK
from data_pipelines.records.manifest import MANIFEST, Manifest, RecordSettings
from data_pipelines.records.shards import Shard

PLAN = "plan.json"  # stands in an unfinished folder; holds the settings that whoever works on it must share
EXAMPLES = "examples.jsonl"  # labelled data after the first pass; beside it what that found
_ASSETS = r"vocab\.(txt|json)|merges\.txt|spiece\.model|examples\.jsonl(\.json)?"
_TEMPORARY = re.compile(rf"(records-\d{{5}}-of-\d{{5}}\..*|((manifest|plan)\.json|{_ASSETS})(\.[0-9a-f]+)?)\.partial")
_OURS = re.compile(
    rf"records-\d{{5}}-of-\d{{5}}\.(tfrecord(\.json|\.failed)?|duplicates(\.minhash|\.drop)?|collected(\.json|\.failed)?)|(manifest|plan)\.json|{_ASSETS}"
)
_UNFINISHED = re.compile(  # what a finished folder does not need
    r"records-.*\.(json|failed|duplicates.*|collected)|plan\.json|examples\.jsonl(\.json)?"
)


def shard_paths(folder: str, total: int) -> list[str]:
    """Returns the files of a folder of `total` shards, in order."""
    return [os.path.join(folder, f"records-{index:05d}-of-{total:05d}.tfrecord") for index in range(total)]


def plan_sha256(described: dict) -> str:
    """Tells plans apart; every finished shard carries it."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class _StoredShard:
    """What stands beside a shard."""

    plan: schema.Sha256
    shard: Shard
    statistics: dict[str, int]


def store_shard(path: str, shard: Shard, statistics: dict[str, int], plan: str) -> None:
    """Writes beside a shard that it is whole, and what it holds."""
    write_json(f"{path}.json", {"plan": plan, "shard": dataclasses.asdict(shard), "statistics": statistics})


def read_stored_shard(path: str, plan: str) -> tuple[Shard, dict[str, int]] | None:
    """Returns what `store_shard` wrote; None where the shard is missing, or shorter than it was (a copy that broke off).

    Raises:
        DataError: the shard was made by another plan, or what was written is no longer what it was.
    """
    note = f"{path}.json"
    try:
        value = strict_json.read(note)
        size = os.path.getsize(path)
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
        return None
    place = schema.Location(note, advice="Remove it; --resume makes its shard again.")
    stored = schema.convert(value, _StoredShard, place)
    shard = stored.shard
    if shard.name != os.path.basename(path):
        raise place.at("shard").at("name").misfit(os.path.basename(path), shard.name)
    if stored.plan != plan:
        raise DataError(
            f"{path}: was made with other settings, another corpus or other versions of libraries than these. All tasks "
            "need the same; remove this file and its .json, and make it again."
        )
    return (shard, stored.statistics) if size == shard.bytes else None


def claim(output_dir: str, described: dict, resume: bool, overwrite: bool) -> Manifest | None:
    """Makes the folder ours, or returns the manifest of a finished one that `resume` accepts."""
    if resume and overwrite:
        raise UsageError("--resume and --overwrite contradict each other: keep what is there, or replace it?")
    names = os.listdir(output_dir) if os.path.isdir(output_dir) else []
    if overwrite and names:
        foreign = [
            name for name in names if name != LOCK and not _OURS.fullmatch(name) and not _TEMPORARY.fullmatch(name)
        ]
        if foreign:
            raise UsageError(
                f"--output_dir={output_dir}: --overwrite refuses to delete files that are not records: "
                f"{', '.join(sorted(foreign)[:5])}. Choose another folder."
            )
        _remove(output_dir, [name for name in names if name != LOCK])
        names = []
    names = [name for name in names if name != LOCK and not _TEMPORARY.fullmatch(name)]
    stored = None
    if MANIFEST in names:
        stored = Manifest.read(output_dir).settings.to_json()
    elif PLAN in names:
        plan = os.path.join(output_dir, PLAN)
        stored = schema.read(dict, schema.Location(plan, advice="Begin anew with --overwrite."))
    if names and not resume:
        state = "holds finished records" if MANIFEST in names else "is not empty"
        raise UsageError(
            f"--output_dir={output_dir}: {state}. Add --resume to continue it or --overwrite to replace it."
        )
    if names and stored is None:
        raise UsageError(f"--output_dir={output_dir}: --resume found other files there; choose an empty folder.")
    # A finished folder has more settings: what was found in the data.
    changed = sorted(name for name in described if stored is not None and stored.get(name) != described[name])
    if changed:
        raise UsageError(
            f"--output_dir={output_dir}: was begun with other settings, so --resume would mix two kinds of records. "
            + "; ".join(f"{name}: {stored.get(name)!r} then, {described[name]!r} now" for name in changed)
            + ". Use the old settings, another folder, or --overwrite."
        )
    if MANIFEST in names:
        return Manifest.read(output_dir)
    os.makedirs(output_dir, exist_ok=True)
    if stored is None:
        write_json(os.path.join(output_dir, PLAN), described)
    return None


def abandon(output_dir: str) -> None:
    """Gives a folder back in which nothing was made, because its input cannot be used."""
    _remove(output_dir, [PLAN])
    with contextlib.suppress(OSError):  # it may have been there before, with something in it
        os.rmdir(output_dir)


def remove_leftovers(paths: Iterable[str]) -> None:
    """Removes the temporary files of shards that nobody else is making; killed processes leave them."""
    paths = list(paths)
    begun = tuple(os.path.basename(path).partition(".")[0] for path in paths)
    for folder in {os.path.dirname(path) for path in paths}:
        _remove(folder, [name for name in os.listdir(folder) if name.startswith(begun) and _TEMPORARY.fullmatch(name)])


def finish(
    output_dir: str, paths: Sequence[str], described: dict, features: Features, files: dict[str, bytes],
    counts: dict[str, int], learnt: dict | None = None,
) -> Manifest:  # fmt: skip
    """Writes the vocabulary and, last, the manifest of a folder whose shards are all whole; removes what led there.

    Args:
        files: those of the tokenizer, name -> contents.
        counts: statistics of the corpus as a whole; those of the shards are added.
        learnt: what the manifest says beside the plan, found in the data.

    Raises:
        DataError: a shard is missing, or all are empty.
        FileNotFoundError: another process finished the folder at the same time.
    """
    plan, missing = plan_sha256(described), []
    shards, statistics = [], collections.Counter(counts)
    for path in paths:
        if found := read_stored_shard(path, plan):
            shards.append(found[0])
            statistics.update(found[1])
        else:
            missing.append(os.path.basename(path))
    if missing and os.path.isfile(os.path.join(output_dir, MANIFEST)):
        return Manifest.read(output_dir)  # another task finished it meanwhile
    if missing:
        raise DataError(f"{output_dir}: {len(missing)} shard(s) missing or cut, such as {', '.join(missing[:3])}.")
    if not statistics["examples"]:
        _remove(output_dir, map(os.path.basename, paths))
        abandon(output_dir)
        raise DataError(f"--input_file={described['input_file']}: no example came out; is there text in the files?")
    manifest = Manifest(features, shards, RecordSettings.of({**described, **(learnt or {})}), dict(statistics))
    for name, contents in files.items():
        with whole_file(os.path.join(output_dir, name), "wb") as file:
            file.write(contents)
    manifest.write(output_dir)
    names = os.listdir(output_dir)
    _remove(output_dir, [name for name in names if _UNFINISHED.fullmatch(name) or _TEMPORARY.fullmatch(name)])
    return manifest


def _remove(folder: str, names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, name))
