"""The binary files of the fastText library, version 12 and 11, also quantized ones (`.ftz`): read; plain ones are written too."""

import dataclasses
import os
import struct
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.files import whole_file
from data_pipelines.text import huffman
from data_pipelines.text.subwords import RUN_PRIME, bucket_ids, whole_hash

MAGIC, VERSION = 793_712_314, 12
LOSSES = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}
ARGUMENTS = (
    "dim", "ws", "epoch", "minCount", "neg", "wordNgrams", "loss", "model", "bucket", "minn", "maxn", "lrUpdateRate",
)  # fmt: skip
WORD, LABEL = 0, 1
CENTROIDS = 256  # of each part of a row, where a matrix is quantized
END = "</s>"  # the end of a line, which is a word


@dataclasses.dataclass(frozen=True)
class FastTextFile:
    """What such a file holds.

    Attributes:
        arguments: {name: whole number} as `ARGUMENTS`, with "t".
        words, labels: in the order of their ids.
        word_counts, label_counts: int64.
        kept: {bucket: its row behind those of the words} where buckets were pruned; None where all are there.
        inputs: float32 (words and buckets, D).
        outputs: float32 (labels or words, D); of trees the inner nodes, the root last.
        num_tokens: of the training.
    """

    arguments: dict[str, float]
    words: list[str]
    word_counts: np.ndarray
    labels: list[str]
    label_counts: np.ndarray
    kept: dict[int, int] | None
    inputs: np.ndarray
    outputs: np.ndarray
    num_tokens: int = 0

    @property
    def model(self) -> str:
        return MODELS[int(self.arguments["model"])]

    @property
    def loss(self) -> str:
        return LOSSES[int(self.arguments["loss"])]


def is_binary(path: str) -> bool:
    """Returns whether a file begins as one of fastText's does."""
    with open(path, "rb") as file:
        return file.read(4) == struct.pack("<i", MAGIC)


def read(path: str) -> FastTextFile:
    """Reads a file.

    Raises:
        CheckpointError: it is no such file, of another version, cut off, or its parts do not fit each other.
    """
    if not os.path.isfile(path):
        raise CheckpointError(f"{path}: no such file. Name a .bin or .ftz file of fastText.")
    with open(path, "rb") as file:
        return _Reader(path, file, os.path.getsize(path)).read()


class _Reader:
    def __init__(self, path: str, file: BinaryIO, size: int):
        self.path, self.file, self.left = path, file, size

    def read(self) -> FastTextFile:
        magic, version = self.numbers("<ii") if self.left >= 8 else (0, 0)
        if magic != MAGIC:
            raise CheckpointError(f"{self.path}: does not begin as a binary file of fastText does.")
        if version not in (11, VERSION):
            raise CheckpointError(f"{self.path}: is of version {version}; versions 11 and {VERSION} are read.")
        arguments: dict[str, float] = dict(zip(ARGUMENTS, self.numbers("<12i"), strict=True))
        (arguments["t"],) = self.numbers("<d")
        if arguments["model"] not in MODELS or arguments["loss"] not in LOSSES or arguments["dim"] < 1:
            raise CheckpointError(f"{self.path}: names a model, a loss or a width that fastText does not have.")
        if version == 11 and arguments["model"] == 3:
            arguments["maxn"] = 0  # as the library does
        words, labels, counts, num_tokens, kept = self.dictionary()
        quantized = self.flag()
        inputs = self.quantized() if quantized else self.dense()
        outputs = self.quantized() if self.flag() and quantized else self.dense()
        self.check(arguments, words, labels, kept, inputs, outputs)
        return FastTextFile(
            arguments, words, counts[: len(words)], labels, counts[len(words) :], kept, inputs, outputs, num_tokens
        )

    def check(self, arguments, words, labels, kept, inputs, outputs) -> None:
        rows = len(words) + (arguments["bucket"] if kept is None else len(kept))
        answers = len(labels) if arguments["model"] == 3 else len(words)
        if inputs.shape != (rows, arguments["dim"]) or outputs.shape != (answers, arguments["dim"]):
            raise CheckpointError(
                f"{self.path}: its matrices are {inputs.shape} and {outputs.shape}, but its words, buckets and labels ask for "
                f"{(rows, arguments['dim'])} and {(answers, arguments['dim'])}."
            )
        if not (np.isfinite(inputs).all() and np.isfinite(outputs).all()):
            raise CheckpointError(f"{self.path}: holds numbers that are not finite.")

    def bytes(self, count: int) -> bytes:
        if count < 0 or count > self.left:
            raise CheckpointError(f"{self.path}: ends too early, or is damaged. Copy the file again.")
        self.left -= count
        return self.file.read(count)

    def numbers(self, form: str) -> tuple:
        return struct.unpack(form, self.bytes(struct.calcsize(form)))

    def array(self, dtype: str, *shape: int) -> np.ndarray:
        count = int(np.prod(shape, dtype=object)) if min(shape) >= 0 else -1
        data = self.bytes(count * np.dtype(dtype).itemsize)
        return np.frombuffer(data, dtype).reshape(shape)

    def flag(self) -> bool:
        return self.bytes(1) != b"\0"

    def dictionary(self):
        size, num_words, num_labels, num_tokens, pruned = self.numbers("<iiiqq")
        if min(size, num_words, num_labels) < 0 or size != num_words + num_labels or size * 10 > self.left:
            raise CheckpointError(
                f"{self.path}: says {size} entries, {num_words} words and {num_labels} labels, which cannot be."
            )
        entries, counts = [], np.zeros(size, np.int64)
        for place in range(size):
            entries.append(self.text())
            counts[place], kind = self.numbers("<qb")
            if kind != (WORD if place < num_words else LABEL):
                raise CheckpointError(f"{self.path}, entry {place + 1}: expected words first, then labels.")
        kept = None
        if pruned >= 0:
            pairs = self.array("<i4", pruned, 2)
            kept = dict(zip(pairs[:, 0].tolist(), pairs[:, 1].tolist(), strict=True))
            if sorted(kept.values()) != list(range(pruned)):
                raise CheckpointError(f"{self.path}: its list of kept buckets does not number their rows.")
        return entries[:num_words], entries[num_words:], counts, num_tokens, kept

    def text(self) -> str:
        found = bytearray()
        while (byte := self.bytes(1)) != b"\0":
            found += byte
        return found.decode("utf-8", "surrogateescape")

    def dense(self) -> np.ndarray:
        rows, columns = self.numbers("<qq")
        return self.array("<f4", rows, columns).astype(np.float32)

    def quantized(self) -> np.ndarray:
        """Returns the matrix of a product quantization: each part of a row is a centroid, and rows may have a norm beside."""
        has_norms = self.flag()
        rows, columns = self.numbers("<qq")
        (size,) = self.numbers("<i")
        codes = self.array("u1", size)
        found = self.product(codes, rows, columns)
        if has_norms:
            found *= self.product(self.array("u1", rows), rows, 1)
        return found

    def product(self, codes: np.ndarray, rows: int, columns: int) -> np.ndarray:
        width, parts, part, last = self.numbers("<4i")
        if (
            width != columns
            or parts < 1
            or part < 1
            or last < 1
            or part * (parts - 1) + last != width
            or len(codes) != rows * parts
        ):
            raise CheckpointError(f"{self.path}: the parts of a quantized matrix do not fit its size.")
        centroids = self.array("<f4", width * CENTROIDS)
        codes, found = codes.reshape(rows, parts), np.zeros((rows, columns), np.float32)
        for number in range(parts):
            size = last if number == parts - 1 else part
            begin = number * CENTROIDS * part
            table = centroids[begin : begin + CENTROIDS * size].reshape(CENTROIDS, size)
            found[:, number * part : number * part + size] = table[codes[:, number]]
        return found


def write(path: str, found: FastTextFile) -> None:
    """Writes a plain file of version 12.

    Raises:
        CheckpointError: buckets were pruned, which only quantized files express.
    """
    if found.kept is not None:
        raise CheckpointError(
            f"{path}: of this network buckets were pruned, which only quantized files of fastText express."
        )
    with whole_file(path) as file:
        file.write(struct.pack("<ii", MAGIC, VERSION))
        file.write(struct.pack("<12id", *(int(found.arguments[name]) for name in ARGUMENTS), found.arguments["t"]))
        entries = [*((w, WORD) for w in found.words), *((w, LABEL) for w in found.labels)]
        counts = np.concatenate([found.word_counts, found.label_counts]).astype(np.int64)
        file.write(struct.pack("<iiiqq", len(entries), len(found.words), len(found.labels), found.num_tokens, -1))
        for (entry, kind), count in zip(entries, counts.tolist(), strict=True):
            file.write(entry.encode("utf-8", "surrogateescape") + b"\0" + struct.pack("<qb", count, kind))
        for matrix in (found.inputs, found.outputs):
            file.write(b"\0" + struct.pack("<qq", *matrix.shape) + np.ascontiguousarray(matrix, "<f4").tobytes())


def word_vectors(found: FastTextFile, words: Sequence[str] | None = None) -> np.ndarray:
    """Returns the vectors of words, float32 (N, D), by default of all that the file has: the means of the rows of each word and of its
    parts (`get_word_vector`)."""
    ids = {word: place for place, word in enumerate(found.words)}
    vectors = np.zeros((len(found.words if words is None else words), found.inputs.shape[1]), np.float32)
    for place, word in enumerate(found.words if words is None else words):
        if rows := rows_of(found, word, ids):
            vectors[place] = found.inputs[rows].mean(axis=0)
    return vectors


def rows_of(found: FastTextFile, word: str, ids: dict[str, int]) -> list[int]:
    """Returns the rows of a word and of its parts."""
    rows = [ids[word]] if word in ids else []
    shortest, longest = int(found.arguments["minn"]), int(found.arguments["maxn"])
    if longest > 0 and word != END:
        buckets = bucket_ids(word, shortest, longest, int(found.arguments["bucket"]))
        rows += [
            len(found.words) + (b if found.kept is None else found.kept[b])
            for b in buckets
            if found.kept is None or b in found.kept
        ]
    return rows


def classify(found: FastTextFile, text: str, count: int = 1) -> list[tuple[str, float]]:
    """Returns the likeliest labels of a text, words parted by blanks, with their probabilities, as the library's `predict` does.

    It is for files of hierarchical softmax, too, such as `lid.176.ftz`.

    Raises:
        CheckpointError: the file holds no classifier.
    """
    if found.model != "supervised":
        raise CheckpointError("The file holds vectors of words, not a classifier.")
    ids = {word: place for place, word in enumerate(found.words)}
    words = [*text.split(), END]
    rows = [row for word in words for row in rows_of(found, word, ids)]
    rows += _runs(found, words)
    state = found.inputs[rows].mean(axis=0) if rows else np.zeros(found.inputs.shape[1], np.float32)
    probabilities = _probabilities(found, found.outputs @ state)
    best = np.argsort(-probabilities, kind="stable")[:count]
    return [(found.labels[label], float(probabilities[label])) for label in best]


def _runs(found: FastTextFile, words: Sequence[str]) -> list[int]:
    """Returns the rows of runs of words."""
    longest, buckets, mask = int(found.arguments["wordNgrams"]), int(found.arguments["bucket"]), (1 << 64) - 1
    if longest < 2 or not buckets:
        return []
    hashes = [value - (1 << 32) if value >= 1 << 31 else value for value in map(whole_hash, words)]
    rows = []
    for place, first in enumerate(hashes):
        value = first
        for following in hashes[place + 1 : place + longest]:
            value = (value * RUN_PRIME + following) & mask
            bucket = value % buckets
            if found.kept is None:
                rows.append(len(found.words) + bucket)
            elif bucket in found.kept:
                rows.append(len(found.words) + found.kept[bucket])
    return rows


def _probabilities(found: FastTextFile, scores: np.ndarray) -> np.ndarray:
    scores = scores.astype(np.float64)
    if found.loss == "ova":
        return 1.0 / (1.0 + np.exp(-scores))
    if found.loss != "hs":
        powers = np.exp(scores - scores.max())
        return powers / powers.sum()
    nodes, codes = huffman.paths(np.maximum(found.label_counts, 1))
    signs = 2.0 * codes - 1.0  # fastText goes to the second child where the score is positive
    ways = 1.0 / (1.0 + np.exp(-signs * scores[nodes]))
    return np.where(codes >= 0, ways, 1.0).prod(axis=1)
