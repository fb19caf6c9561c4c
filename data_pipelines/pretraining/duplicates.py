"""Finds documents that stand in the corpus before, exactly or nearly, whatever the number of workers.

A first pass writes fingerprints of every part of the corpus (8 bytes a document, and 512 of MinHash for near
duplicates; Broder, 1997), one decision over all of them marks what is dropped, and the pass that makes the records
obeys. The decision holds about 25 bytes a document in memory (near: 60); the MinHashes
stay on disk.
"""

import collections
import hashlib
import importlib.metadata
import itertools
import os
from collections.abc import Iterator

import numpy as np

from data_pipelines.corpora.documents import Document
from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import whole_file
from data_pipelines.pretraining.stages.pipe import Stage
from data_pipelines.text.units import shingles, units

KEEP, EXACT, NEAR = range(3)
NUM_HASHES = 128  # estimates a Jaccard similarity of 0.8 with a standard deviation of 0.035
_BLOCK = 1 << 14  # signatures compared at a time
_ROUNDS = 32  # leaders tried in one bucket; those left over after that many are kept


def check(kind: str, threshold: float, ngram: int) -> None:
    """Raises a UsageError that names the flag that cannot work."""
    if kind not in ("none", "exact", "near"):
        raise UsageError(f"--deduplicate={kind}: unknown. Known: none, exact, near.")
    if not 0.1 <= threshold <= 1:
        raise UsageError(f"--near_duplicate_threshold={threshold}: a Jaccard similarity from 0.1 to 1.")
    if ngram < 1:
        raise UsageError(f"--near_duplicate_ngram={ngram}: must be at least 1.")


def describe(kind: str) -> dict:
    """Returns the version of the MinHash library, for the manifest."""
    return {"minhash_version": f"rensa {importlib.metadata.version('rensa')}" if kind == "near" else None}


def content(document: Document) -> list[str]:
    """Returns the units of a document; its text as it stands where it has none, so that not all such documents are equal."""
    text = "\n".join(document.sentences)
    return units(text) or [text]


def write_fingerprints(documents: Iterator[Document], path: str, near: bool, ngram: int, seed: int) -> None:
    """Writes `path` (uint64 a document) and, where `near`, `path`.minhash (uint32 [128] a document).

    Both appear when they are whole, `path` last.
    """
    with whole_file(path) as hashes, whole_file(f"{path}.minhash") as signatures:
        for document in documents:
            found = content(document)
            hashes.write(hashlib.blake2b(" ".join(found).encode(), digest_size=8).digest())
            if near:
                signatures.write(_signature(shingles(found, ngram), seed))


def _signature(tokens: list[str], seed: int) -> bytes:
    import rensa

    minhash = rensa.RMinHash(num_perm=NUM_HASHES, seed=seed)
    minhash.update(tokens)
    return np.asarray(minhash.digest(), "<u4").tobytes()


def decide(paths: list[str], near: bool, threshold: float) -> None:
    """Writes `path`.drop for every part: one of KEEP, EXACT and NEAR a document, as bytes."""
    parts = [np.fromfile(path, "<u8") for path in paths]
    ends = np.cumsum([len(part) for part in parts])
    verdicts = np.zeros(ends[-1], np.uint8)
    hashes = np.concatenate(parts)
    del parts
    order = np.argsort(hashes, kind="stable")  # equal ones stay in corpus order
    ordered = hashes[order]
    verdicts[order[1:][ordered[1:] == ordered[:-1]]] = EXACT
    del hashes, order, ordered
    if near:
        signatures = _Signatures([f"{path}.minhash" for path in paths], ends)
        _mark_near(signatures, verdicts, threshold)
    for path, verdict in zip(paths, np.split(verdicts, ends[:-1]), strict=True):
        with whole_file(f"{path}.drop") as file:
            file.write(verdict.tobytes())


class _Signatures:
    """The MinHashes of all parts, read from disk by row."""

    def __init__(self, paths: list[str], ends: np.ndarray):
        self.ends = ends
        shape = (-1, NUM_HASHES)
        empty = np.zeros((0, NUM_HASHES), "<u4")
        self.parts = [np.memmap(p, "<u4", "r").reshape(shape) if os.path.getsize(p) else empty for p in paths]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Returns (N,) row numbers -> uint32 (N, 128)."""
        found = np.empty((len(rows), NUM_HASHES), np.uint32)
        part_of = np.searchsorted(self.ends, rows, side="right")
        for part in np.unique(part_of):
            here = part_of == part
            start = self.ends[part - 1] if part else 0
            found[here] = self.parts[part][rows[here] - start]
        return found


def bands_of(threshold: float) -> list[slice]:
    """Cuts a MinHash into bands, so that two texts just at the threshold share a band with a chance of 99 %."""
    for rows in range(NUM_HASHES, 0, -1):
        bands = NUM_HASHES // rows
        if rows == 1 or 1 - (1 - threshold**rows) ** bands >= 0.99:
            return [slice(band * rows, (band + 1) * rows) for band in range(bands)]


def _mark_near(signatures: _Signatures, verdicts: np.ndarray, threshold: float) -> None:
    """Marks with NEAR each document that is similar to an earlier one, be that one kept or not."""
    rows = np.flatnonzero(verdicts == KEEP)
    wanted = int(np.ceil(threshold * NUM_HASHES - 1e-9))
    for band in bands_of(threshold):
        keys = np.concatenate(
            [_hash_rows(signatures[block][:, band]) for block in np.array_split(rows, len(rows) // _BLOCK + 1)]
        )
        order = np.argsort(keys, kind="stable")
        members, keys = rows[order], keys[order]
        for _ in range(_ROUNDS):
            opens = np.r_[True, keys[1:] != keys[:-1]][: len(keys)]
            leader = members[np.maximum.accumulate(np.where(opens, np.arange(len(keys)), 0))]
            followers = np.flatnonzero(~opens)
            if not len(followers):
                break
            # Those unlike their leader form the bucket of the next round.
            similar = _similar(signatures, leader[followers], members[followers], wanted)
            verdicts[members[followers[similar]]] = NEAR
            left = followers[~similar]
            members, keys = members[left], keys[left]


def _similar(signatures, first: np.ndarray, second: np.ndarray, wanted: int) -> np.ndarray:
    """Returns bool (N,): whether at least `wanted` of the hashes of the two rows agree."""
    blocks = range(0, len(first), _BLOCK)
    return np.concatenate(
        [(signatures[first[i : i + _BLOCK]] == signatures[second[i : i + _BLOCK]]).sum(1) >= wanted for i in blocks]
    )


def _hash_rows(values: np.ndarray) -> np.ndarray:
    """Returns uint32 (N, R) -> uint64 (N,)."""
    key = np.full(len(values), 0x9E3779B97F4A7C15, np.uint64)
    for column in values.T:
        key = (key ^ column) * np.uint64(0xFF51AFD7ED558CCD)
        key ^= key >> np.uint64(32)
    return key


def drop_duplicates(path: str, statistics: collections.Counter) -> Stage:
    """Returns a stage that leaves out the documents of a part that `decide` marked, and counts them.

    Args:
        path: of the fingerprints of the part.
        statistics: counts `exact_duplicates_dropped` and `near_duplicates_dropped`.
    """

    def stage(documents: Iterator[Document]) -> Iterator[Document]:
        verdicts = np.fromfile(f"{path}.drop", np.uint8)
        for document, verdict in itertools.zip_longest(documents, verdicts):
            if document is None or verdict is None:
                raise DataError(
                    f"{path}: does not fit its part of the corpus: the text has changed since its documents were looked "
                    "at, or a copy broke off. Make the records anew with --overwrite."
                )
            if verdict == KEEP:
                yield document
        statistics["exact_duplicates_dropped"] += int((verdicts == EXACT).sum())
        statistics["near_duplicates_dropped"] += int((verdicts == NEAR).sum())

    return stage


def report(statistics: dict[str, int]) -> list[str]:
    """Returns how many documents were dropped, in a line for people; none where nothing was looked for."""
    if "exact_duplicates_dropped" not in statistics:
        return []
    exact, near = (statistics[f"{kind}_duplicates_dropped"] for kind in ("exact", "near"))
    return [f"duplicates dropped: exact {exact:,} · near {near:,} documents"]
