"""Finds the files of a corpus, decides how to read each, and cuts them into parts of about equal size.

A part is read independently of the others, as a stream, and the parts hold each document once. Plain lines are cut at
bytes, Parquet and tensorflow-datasets at rows. Of a compressed file or of CSV that is larger than a part, each of
several parts reads all, and keeps every so many blocks.
"""

import bisect
import dataclasses
import itertools
import re
from array import array
from collections.abc import Iterator, Mapping

from data_pipelines.corpora import (
    dialogue,
    encodings,
    json_lines,
    parallel,
    parquet,
    plain_text,
    separated,
    tfds,
    wikiextractor,
)
from data_pipelines.corpora.compression import beginning, is_compressed
from data_pipelines.corpora.documents import Document
from data_pipelines.corpora.files import expand_with_sizes, split_patterns, split_sources
from data_pipelines.corpora.layouts import AUTO, VERBATIM, Layout, format_of, parse
from data_pipelines.corpora.lines import Piece
from data_pipelines.corpora.mixture import mix
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.corpora.source_fields import fields_of_files, split_fields
from data_pipelines.errors import DataError, UsageError

READERS = {
    "sentences": plain_text.read_sentences,
    "text": plain_text.read_text,
    "documents": plain_text.read_documents,
    VERBATIM: plain_text.read_verbatim,
    "jsonl": json_lines.read,
    "tsv": separated.read_tsv,
    "csv": separated.read_csv,
    "parquet": parquet.read,
    "wikiextractor": wikiextractor.read,
    "wikiextractor_json": wikiextractor.read_json,
    "dialogue": dialogue.read,
    "parallel": parallel.read,
    "tfds": tfds.read,
}
PLAIN = "sentences", "text", "documents"
MOST_SHARES = 16  # parts that read the same file whole, each for its share
_LOOKED_AT = 16  # files whose beginnings are looked at before the work


@dataclasses.dataclass(frozen=True)
class Source:
    """The files of one weight.

    Attributes:
        paths: sorted; without empty ones.
        targets: the translations of `paths`, if they lie in files of their own.
        sizes, offsets: of each file, and where it begins, with all files one behind the other; last of `offsets` stands the end.
        layout: how to read each file.
        is_utf8: whether text files may be cut at bytes.
        fields: file -> {choice of `Reading`: value}, for files that have fields of their own.
    """

    weight: float
    paths: list[str]
    targets: list[str] | None
    sizes: array
    offsets: array
    layout: Layout
    is_utf8: bool = True
    fields: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def reading_of(self, path: str, reading: Reading) -> Reading:
        """Returns how a file is read: with the fields that `--input_file` gives it."""
        return dataclasses.replace(reading, **self.fields[path]) if path in self.fields else reading

    def share(self, part: int, num_parts: int) -> "Share":
        total = self.offsets[-1]
        low, high = total * part // num_parts, total * (part + 1) // num_parts
        first = max(0, bisect.bisect_right(self.offsets, low) - 1)
        last = bisect.bisect_left(self.offsets, high)
        held = dataclasses.replace(
            self,
            paths=self.paths[first:last],
            targets=self.targets and self.targets[first:last],
            sizes=self.sizes[first:last],
            offsets=self.offsets[first : last + 1],
            fields={path: self.fields[path] for path in self.paths[first:last] if path in self.fields},
        )
        return Share(held, low, high, total // num_parts)

    def files(self) -> Iterator[tuple[Piece, bool]]:
        """Yields each file as a whole, and whether several parts can share it without reading all of it."""
        for index, (path, size) in enumerate(zip(self.paths, self.sizes, strict=True)):
            kind, target = self.layout.of(path), self.targets[index] if self.targets else None
            is_plain = target is None and self.is_utf8 and not is_compressed(path)
            can_cut = kind in ("parquet", "tfds") or (kind not in ("csv", VERBATIM) and is_plain)
            yield Piece(path, kind, 0, size, size, target), can_cut


@dataclasses.dataclass(frozen=True)
class Share:
    """What one part holds of one source: the bytes [low, high) of its files, one behind the other.

    Attributes:
        source: with no other files than those that lie there.
        capacity: size of a part; files below it that cannot be cut belong to one part as a whole.
    """

    source: Source
    low: int
    high: int
    capacity: int

    def pieces(self) -> Iterator[Piece]:
        for begin, (whole, can_cut) in zip(self.source.offsets, self.source.files(), strict=False):
            start, end = max(self.low, begin) - begin, min(self.high, begin + whole.size) - begin
            if (whole.size <= self.capacity or whole.format == VERBATIM) and not can_cut:
                here = self.low <= begin + whole.size // 2 < self.high
                start, end = (0, whole.size) if here else (0, 0)
            if start < end:
                yield whole._replace(start=start, end=end)


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a corpus: all that a worker needs to read it."""

    shares: list[Share]
    reading: Reading

    @property
    def num_bytes(self) -> int:
        return sum(share.high - share.low for share in self.shares)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A mixture of sources; mostly one.

    Attributes:
        num_empty_files: files of no bytes, which were left out.
    """

    sources: list[Source]
    reading: Reading
    num_empty_files: int

    @property
    def language(self) -> str:
        return self.reading.language

    @property
    def num_bytes(self) -> int:
        return sum(source.offsets[-1] for source in self.sources)

    @property
    def num_files(self) -> int:
        return sum(len(source.paths) for source in self.sources)

    @property
    def paths(self) -> Iterator[str]:
        """All files that are read, also those of translations."""
        for source in self.sources:
            yield from source.paths
            yield from source.targets or ()

    @property
    def layout(self) -> str:
        """The formats of the files, such as "jsonl", or "jsonl+sentences"."""
        return "+".join(sorted({source.layout.of(path) for source in self.sources for path in source.paths}))

    @property
    def most_parts(self) -> int:
        """More parts than this would only read the same files again and again."""
        most = 0
        for whole, can_cut in itertools.chain.from_iterable(source.files() for source in self.sources):
            if can_cut:
                return 1 << 30
            most += 1 if whole.format == VERBATIM else MOST_SHARES
        return most

    def cut(self, num_parts: int) -> list[Part]:
        """Parts of about equal size. In each, every source has its share."""
        return [self.part(index, num_parts) for index in range(num_parts)]

    def part(self, index: int, num_parts: int) -> Part:
        return Part([source.share(index, num_parts) for source in self.sources], self.reading)

    def whole(self) -> Part:
        return self.part(0, 1)


def read_documents(part: Part, monitor: Monitor | None = None) -> Iterator[Document]:
    """Returns the documents of a part, in order.

    Raises:
        DataError: bad text, a damaged file, a missing field; names the file and the line.
    """
    monitor = monitor or Monitor()
    if len(part.shares) == 1:
        return _read_share(part.shares[0], part.reading, monitor)

    def opener(share: Share):
        return lambda first: _read_share(share, part.reading, monitor if first else Monitor())

    weights = [share.source.weight for share in part.shares]
    return mix([opener(share) for share in part.shares], weights, part.reading.when_exhausted, monitor.counts)


def _read_share(share: Share, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    for piece in share.pieces():
        yield from READERS[piece.format](piece, share.source.reading_of(piece.path, reading), monitor)


def open_corpus(
    patterns: str, language: str, layout: str = "auto", reading: Reading | None = None, target_file: str | None = None
) -> Corpus:
    """Finds the files and decides how to read them.

    Args:
        patterns: comma-separated names or globs, `tfds:NAME` or `tfds:FOLDER`; or each with a weight, `*.txt:0.7`.
        language: "en" or "zh".
        layout: one of `FORMATS`; "auto" goes by the endings of the names, then, for each of several patterns, by the
            beginning of its first file with text. Or formats by patterns of names, "*.txt=text,wiki/*=documents", with or
            without one for all others.
        reading: further choices; its language is replaced by `language`.
        target_file: names or globs of as many files with the translations.

    Raises:
        DataError: no file matches, or none holds any text.
        UsageError: the choices contradict one another.
    """
    reading = dataclasses.replace(reading or Reading(), language=language, verbatim=layout == VERBATIM)
    reading.check()
    asked = Layout("parallel") if target_file and layout == AUTO else parse(layout)
    sources = split_sources(patterns)
    if target_file and (asked != Layout("parallel") or len(sources) > 1):
        raise UsageError("--target_file goes with --input_format=parallel and --input_file without weights.")
    opened, num_empty = [], 0
    for pattern, weight in sources:
        source, empty = _open_source(pattern, weight, asked, reading, target_file)
        opened.append(source)
        num_empty += empty
    used = {source.layout.rule_of(path) for source in opened for path in source.paths} if asked.rules else set()
    if unused := [pattern for i, (pattern, _) in enumerate(asked.rules) if i not in used]:
        raise UsageError(
            f"--input_format: {unused[0]} is for no file with text that --input_file names, or a pattern before it takes them all. "
            "Mend it or leave it out."
        )
    return Corpus(opened, reading, num_empty)


def _open_source(pattern, weight, asked: Layout, reading, target_file) -> tuple[Source, int]:
    given = [split_fields(part) for part in split_patterns(pattern)]
    sets = [part for part, _ in given if part.startswith(tfds.PREFIX)]
    rest = ",".join(part for part, _ in given if not part.startswith(tfds.PREFIX))
    if sets and not asked.otherwise.startswith(AUTO):
        raise UsageError(f"{sets[0]}: leave out --input_format={asked.otherwise}; a prepared data set knows its own.")
    paths, sizes = expand_with_sizes(rest) if rest.strip() else ([], array("q"))
    targets = None
    if target_file:
        targets = expand_with_sizes(target_file, "--target_file")[0]
        if len(targets) != len(paths):
            raise UsageError(f"--target_file: {len(targets)} file(s) for {len(paths)} of --input_file; give as many.")
    paths = [*paths, *sets]
    sizes = sizes + array("q", (tfds.size(name) for name in sets))
    full = [index for index, size in enumerate(sizes) if size]
    num_empty = len(paths) - len(full)
    if num_empty and not targets:
        paths, sizes = [paths[index] for index in full], array("q", (sizes[index] for index in full))
    offsets = array("q", itertools.accumulate(sizes, initial=0))
    if asked == Layout(AUTO) and not targets:
        asked = _by_pattern(rest, asked)
    layout = _found(paths, asked, reading)
    if layout is None:
        raise DataError(f"--input_file={pattern}: the {num_empty + len(paths)} file(s) hold no text.")
    fields = fields_of_files(given, layout)
    return Source(weight, paths, targets, sizes, offsets, layout, reading.codec == encodings.UTF_8, fields), num_empty


def _by_pattern(patterns: str, asked: Layout) -> Layout:
    """Returns a rule for each of several names or globs, so that one file does not decide how all others are read."""
    parts = split_patterns(patterns)
    plain = [part for part in parts if format_of(part, "auto:?") == "?"]
    return Layout(asked.otherwise, tuple((part, AUTO) for part in plain)) if len(plain) > 1 else asked


def _found(paths: list[str], asked: Layout, reading: Reading) -> Layout | None:
    """Returns what is asked for with what is found in the files; None where none of them holds any text."""
    if not asked.rules:
        _check_plain(paths, asked.otherwise, reading)
        kind = _detect_format(paths, asked.otherwise, reading)
        return kind and Layout(kind)
    rules = [asked.rule_of(path) for path in paths]
    kinds = [
        _detect_format([path for path, rule in zip(paths, rules, strict=True) if rule == index], name, reading)
        for index, name in [*enumerate(name for _, name in asked.rules), (None, asked.otherwise)]
    ]
    if not any(kinds):
        return None
    patterns = (pattern for pattern, _ in asked.rules)
    found = (
        kind or f"auto:{name}".replace("auto:auto", "auto:sentences")
        for kind, (_, name) in zip(kinds, asked.rules, strict=False)
    )
    return Layout(kinds[-1] or "auto:sentences", tuple(zip(patterns, found, strict=True)))


def _check_plain(paths: list[str], layout: str, reading: Reading) -> None:
    """Raises a UsageError where one format of plain text is given for all files, and one of them holds JSON."""
    named = [path for path in paths if format_of(path, "auto:?") == "jsonl"] if layout in PLAIN else []
    for path in named[:_LOOKED_AT]:
        if re.match(rb'\s*\{\s*"', beginning(path, encodings.LOOKED_AT, reading.codec)):
            raise UsageError(
                f"--input_format={layout}: {path} holds JSON, by its name and its beginning. Leave the flag out, or name the "
                f"format of the others by a pattern, such as --input_format='*.txt={layout},auto'."
            )


def _detect_format(paths: list[str], layout: str, reading: Reading) -> str | None:
    """Returns how to read the files, as `format_of` understands it; None without any text."""
    plain = [path for path in paths if format_of(path, "auto:?") == "?"] if layout.startswith(AUTO) else paths
    for path in plain[:_LOOKED_AT]:
        if layout == "parquet":
            break
        head = beginning(path, encodings.LOOKED_AT, reading.codec)
        if name := encodings.wide(head):
            raise DataError(encodings.wide_message(path, head, name))
        if message := encodings.binary_message(path, head):
            raise DataError(
                f"{message}. Parquet files and prepared data sets are known by the ending .parquet and by tfds:FOLDER."
            )
    if layout not in ("auto", "wikiextractor"):
        return layout if paths else None
    if len(plain) < len(paths) and not plain:
        return "auto:sentences"
    samples = (beginning(path, 1 << 17, reading.codec).removeprefix(b"\xef\xbb\xbf") for path in plain)
    sample = next((s for s in samples if s.strip()), None)
    if sample is None:
        return "auto:sentences" if len(plain) < len(paths) else None
    text = sample.decode("utf-8", errors="ignore")
    if layout == "wikiextractor":
        return "wikiextractor_json" if text.lstrip().startswith("{") else "wikiextractor"
    if text.lstrip().startswith("<doc id="):
        return "auto:wikiextractor"
    if re.match(r'\s*\{\s*"', text):
        return "auto:jsonl"
    return f"auto:{plain_text.guess_layout(text, reading.language)}"
