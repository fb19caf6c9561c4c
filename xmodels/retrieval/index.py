"""A folder of vectors that are searched: the nearest to a vector, by cosine, exactly or by a graph; with the texts, where known."""

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data_pipelines import checksums, strict_json
from data_pipelines.errors import CheckpointError, DataError, UsageError
from data_pipelines.files import write_json
from data_pipelines.schema import Count, Location, Positive, convert, one_of
from xmodels.retrieval.encoder import Encoder
from xmodels.retrieval.vectors import Width, strict_json_of

INDEX, VECTORS, GRAPH, TEXTS, STARTS = "index.json", "vectors.f32", "graph.faiss", "texts.jsonl", "text_starts.i64"
FILES = {INDEX, VECTORS, GRAPH, TEXTS, STARTS, checksums.FILE}
EXACT, HNSW = "exact", "hnsw"
KINDS = (EXACT, HNSW)
BLOCK = 65536  # vectors whose scores are in memory at once
TINY = 1e-12
LONGEST = 1 << 28  # bytes of a text
SEARCH_DEPTH, BUILD_DEPTH = 64, 100  # of a graph (Malkov and Yashunin, 2016: ef and efConstruction)


@dataclasses.dataclass(frozen=True)
class Description:
    """What index.json says.

    Attributes:
        encoder: the network that made the vectors.
        kind: of `KINDS`.
        count, width: the shape of the vectors.
        has_texts: whether the folder holds the texts.
        neighbours: of each vector in the graph; None without one.
    """

    encoder: Encoder
    kind: one_of(*KINDS)
    count: Count
    width: Width
    has_texts: bool
    neighbours: Positive | None = None


def is_index(folder: str) -> bool:
    """Returns whether a folder holds an index, and nothing else."""
    return os.path.isfile(os.path.join(folder, INDEX)) and set(os.listdir(folder)) <= FILES


def build(
    folder: str, encoder: Encoder, kind: str, parts: Iterable[tuple[Sequence[str] | None, np.ndarray]], width: int,
    has_texts: bool, neighbours: int = 32,
) -> Description:  # fmt: skip
    """Fills an empty folder; memory does not grow with the vectors, but for a graph, which holds them.

    Args:
        parts: texts, where `has_texts`, and vectors float32 (N, D).

    Raises:
        UsageError: a graph is asked for, and its library is not there.
    """
    graph = _new_graph(width, neighbours) if kind == HNSW else None
    count = start = 0
    names = [VECTORS] + [TEXTS, STARTS] * has_texts
    files = {name: open(os.path.join(folder, name), "wb") for name in names}  # noqa: SIM115
    try:
        for texts, vectors in parts:
            units = normalize(vectors)
            files[VECTORS].write(units.tobytes())
            if graph is not None:
                graph.add(units)
            for text in texts if has_texts else ():
                line = json.dumps(text, ensure_ascii=False).encode() + b"\n"
                files[STARTS].write(np.int64(start).tobytes())
                files[TEXTS].write(line)
                start += len(line)
            count += len(vectors)
    finally:
        for file in files.values():
            file.close()
    if graph is not None:
        _faiss().write_index(graph, os.path.join(folder, GRAPH))
    made = Description(encoder, kind, count, width, has_texts, None if graph is None else neighbours)
    write_json(os.path.join(folder, INDEX), dataclasses.asdict(made))
    checksums.record(folder, [INDEX, *names, *([GRAPH] if graph is not None else [])])
    return made


def normalize(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1, float32; zeros stay zeros."""
    wide = np.asarray(vectors, np.float64)
    return (wide / np.sqrt(np.sum(np.square(wide), axis=1, keepdims=True) + TINY)).astype("<f4")


class Index:
    """An index that is searched.

    Args:
        folder: as `build` fills it.

    Raises:
        CheckpointError: a file is missing or was changed.
        DataError: index.json is damaged.
    """

    def __init__(self, folder: str):
        path = os.path.join(folder, INDEX)
        if not os.path.isfile(path):
            raise CheckpointError(f"{folder}: is no index: there is no {INDEX}. `xmodels index` makes one.")
        checksums.check(folder, FILES - {checksums.FILE})
        self.folder = folder
        self.description = found = convert(strict_json_of(path), Description, Location(path))
        expected = {VECTORS: found.count * found.width * 4} | ({STARTS: found.count * 8} if found.has_texts else {})
        for name, size in expected.items():
            file = os.path.join(folder, name)
            if not os.path.isfile(file) or os.path.getsize(file) != size:
                raise CheckpointError(
                    f"{file}: has not the {size:,} bytes that {INDEX} promises. Make the index again."
                )
        for name, needed in ((TEXTS, found.has_texts), (GRAPH, found.kind == HNSW)):
            if needed and not os.path.isfile(os.path.join(folder, name)):
                raise CheckpointError(f"{os.path.join(folder, name)}: no such file. Make the index again.")
        shape = (found.count, found.width)
        self._vectors = (
            np.memmap(os.path.join(folder, VECTORS), "<f4", "r", shape=shape) if found.count else np.zeros(shape)
        )
        self._graph = _read_graph(os.path.join(folder, GRAPH), shape) if found.kind == HNSW else None
        if found.has_texts:
            empty = np.zeros(0, np.int64)
            self._starts = (
                np.memmap(os.path.join(folder, STARTS), "<i8", "r", shape=(found.count,)) if found.count else empty
            )
            self._check_starts()

    def _check_starts(self) -> None:
        """Raises a CheckpointError unless texts begin one behind the other, the first one at the beginning of their file."""
        path, size = os.path.join(self.folder, STARTS), os.path.getsize(os.path.join(self.folder, TEXTS))
        before = -1
        for first in range(0, len(self._starts), BLOCK):
            part = np.asarray(self._starts[first : first + BLOCK])
            if part[0] <= before or (first == 0 and part[0]) or (np.diff(part) <= 0).any() or part[-1] >= size:
                raise CheckpointError(
                    f"{path}: expected ascending places from 0 in the {size:,} bytes of {TEXTS}, found others among rows {first:,} to "
                    f"{first + len(part) - 1:,}. Make the index again."
                )
            before = part[-1]

    def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the nearest vectors, the best first; of equal cosines the one that stands first in the index.

        Args:
            queries: float32 (Q, D).
            count: how many of each; all, where there are fewer.

        Returns:
            Rows int64 (Q, K) and cosines float32 (Q, K). A graph may find fewer: then -1 and -inf.
        """
        queries, count = normalize(queries), min(count, self.description.count)
        if self._graph is None:
            return self._exact(queries, count)
        self._graph.hnsw.efSearch = max(SEARCH_DEPTH, 2 * count)
        cosines, rows = self._graph.search(queries, count)
        if rows.size and (rows.max() >= self.description.count or not np.isfinite(cosines[rows >= 0]).all()):
            raise CheckpointError(
                f"{os.path.join(self.folder, GRAPH)}: holds other rows than the index. Make the index again."
            )
        return rows, np.where(rows < 0, -np.inf, cosines).astype(np.float32)

    def _exact(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        rows, cosines = np.zeros((len(queries), 0), np.int64), np.zeros((len(queries), 0), np.float32)
        for first in range(0, len(self._vectors), BLOCK):
            found = queries @ self._vectors[first : first + BLOCK].T  # (Q, N)
            if not np.isfinite(found).all():
                raise CheckpointError(
                    f"{os.path.join(self.folder, VECTORS)}: a vector holds NaN, infinity or too large numbers. Make it again."
                )
            here = np.broadcast_to(np.arange(first, first + found.shape[1]), found.shape)
            cosines, rows = _largest(
                np.concatenate([cosines, found], axis=1), np.concatenate([rows, here], axis=1), count
            )
        return rows, cosines

    def texts(self, rows: Iterable[int]) -> Iterator[str]:
        """Yields the texts of rows. Raises a UsageError where the index holds none."""
        if not self.description.has_texts:
            raise UsageError(
                f"{self.folder}: holds no texts. Make the index of a .parquet file, or give them: xmodels index --input_file=TEXTS."
            )
        path = os.path.join(self.folder, TEXTS)
        with open(path, "rb") as file:
            size = os.path.getsize(path)
            for row in rows:
                begin = int(self._starts[row])
                end = int(self._starts[row + 1]) if row + 1 < len(self._starts) else size
                if end - begin > LONGEST:
                    raise CheckpointError(
                        f"{path}, row {row}: {end - begin:,} bytes, more than {LONGEST:,}. Make the index again."
                    )
                file.seek(begin)
                yield self._text(file.read(end - begin), f"{path}, row {row}")

    def _text(self, line: bytes, where: str) -> str:
        try:
            text = strict_json.loads(line)
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise CheckpointError(f"{where}: not valid JSON ({error}). Make the index again.") from None
        if not isinstance(text, str):
            raise CheckpointError(f"{where}: expected a text, found {type(text).__name__}. Make the index again.")
        return text


def _largest(cosines: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the `count` largest of each line, sorted; rows that stand first win."""
    if cosines.shape[1] > count:
        # Equal cosines at the border would be drawn by chance, so all that reach the border are sorted.
        border = np.partition(cosines, cosines.shape[1] - count, axis=1)[:, cosines.shape[1] - count]
        kept = [np.flatnonzero(line >= least) for line, least in zip(cosines, border, strict=True)]
    else:
        kept = [np.arange(cosines.shape[1])] * len(cosines)
    found = np.zeros((2, len(cosines), min(count, cosines.shape[1])))
    for number, places in enumerate(kept):
        order = places[np.lexsort((rows[number, places], -cosines[number, places]))][:count]
        found[0, number], found[1, number] = cosines[number, order], rows[number, order]
    return found[0].astype(np.float32), found[1].astype(np.int64)


def _faiss():
    try:
        import faiss
    except ImportError:
        raise UsageError(
            "--kind=hnsw: a graph needs faiss. Install it: pip install 'xmodels[search]', or take --kind=exact, which needs nothing."
        ) from None
    return faiss


def _new_graph(width: int, neighbours: int):
    faiss = _faiss()
    graph = faiss.IndexHNSWFlat(width, neighbours, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = BUILD_DEPTH
    return graph


def _read_graph(path: str, shape: tuple[int, int]):
    faiss = _faiss()
    try:
        graph = faiss.read_index(path)
    except (RuntimeError, MemoryError) as error:
        raise DataError(f"{path}: not a readable graph of faiss ({str(error)[:100]}). Make the index again.") from None
    if not isinstance(graph, faiss.IndexHNSWFlat) or (graph.ntotal, graph.d) != shape:
        raise DataError(f"{path}: is no graph of {shape[0]:,} vectors of {shape[1]:,} numbers. Make the index again.")
    return graph
