"""Files of states, written as the states come; they appear when they are whole."""

import contextlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator

import numpy as np

from data_pipelines.corpora.parquet import import_pyarrow
from data_pipelines.errors import UsageError
from data_pipelines.files import whole_file
from xmodels.jobs.extract_features.texts import TextStates

JSON_LINES, NPY, NPZ, PARQUET = KINDS = (".jsonl", ".npy", ".npz", ".parquet")
DIGITS = 6  # of numbers in JSON lines, as in Google's script
ROWS = 64  # texts that Parquet gets at once


def check_kind(path: str, is_pooled: bool) -> None:
    """Raises a UsageError where the name does not end as one of the kinds does, or the kind cannot hold such states."""
    if not path.endswith(KINDS):
        raise UsageError(f"--output_file={path}: expected a name that ends in {', '.join(KINDS)}.")
    if path.endswith(NPY) and not is_pooled:
        raise UsageError(
            f"--output_file={path}: texts have different numbers of tokens, which one array cannot hold. Give --pooling, or take "
            f"{NPZ}, {JSON_LINES} or {PARQUET}."
        )
    if path.endswith(PARQUET):
        import_pyarrow(path)


def write(path: str, found: Iterable[TextStates], is_pooled: bool) -> int:
    """Writes states; returns the number of texts."""
    kinds = {JSON_LINES: _write_lines, NPY: _write_npy, NPZ: _write_npz, PARQUET: _write_parquet}
    return kinds[os.path.splitext(path)[1]](path, found, is_pooled)


def _write_lines(path: str, found: Iterable[TextStates], is_pooled: bool) -> int:
    """Returns a line for each text, laid out as in extract_features.py of google-research/bert, with the text and the places of
    tokens."""
    count = 0
    with whole_file(path, "w") as file:
        for count, each in enumerate(found, 1):  # noqa: B007
            line = {"linex_index": count - 1, "text": each.text}
            if is_pooled:
                line["layers"] = _layers(each.values)
            else:
                rows = zip(each.tokens, each.spans, strict=True)
                line["features"] = [
                    {
                        "token": token, "start": span and span[0], "end": span and span[1],
                        "layers": _layers({name: x[place] for name, x in each.values.items()}),
                    }
                    for place, (token, span) in enumerate(rows)
                ]  # fmt: skip
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return count


def _layers(values: dict[str, np.ndarray]) -> list[dict]:
    return [
        {
            "index": int(name) if name.lstrip("-").isdigit() else name,
            "values": [round(float(x), DIGITS) for x in vector],
        }
        for name, vector in values.items()
    ]


class GrowingArray:
    """A `.npy` file whose first axis grows: rows are appended, and the header is written anew at the end."""

    def __init__(self, file, dtype, shape: tuple[int, ...] = ()):
        self.file, self.dtype, self.shape, self.count = file, np.dtype(dtype).newbyteorder("<"), shape, 0
        self.begin = self._header()

    def _header(self) -> int:
        described = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.count, *self.shape)}
        np.lib.format.write_array_header_1_0(self.file, described)
        return self.file.tell()

    def append(self, rows) -> None:
        rows = np.ascontiguousarray(rows, self.dtype).reshape(-1, *self.shape)
        self.file.write(rows.tobytes())
        self.count += len(rows)

    def finish(self) -> None:
        self.file.seek(0)
        if self._header() != self.begin:  # numpy leaves room for a first axis that grows
            raise RuntimeError("The header of a .npy file changed its length. Please report this.")
        self.file.flush()


def _write_npy(path: str, found: Iterable[TextStates], is_pooled: bool) -> int:
    """Returns float32 (texts, D), of several layers (texts, layers, D)."""
    with whole_file(path) as file:
        array = None
        for each in found:
            row = np.stack(list(each.values.values()))  # (K, D)
            row = row[0] if len(row) == 1 else row
            array = array or GrowingArray(file, np.float32, row.shape)
            array.append(row[None])
        array.finish()
    return array.count


def _write_npz(path: str, found: Iterable[TextStates], is_pooled: bool) -> int:
    """Returns `layer_NAME` float32 (texts, D). Of tokens (tokens of all texts, D), with `offsets` int64 (texts + 1,), the first
    token of each text, and `starts` and `ends` int32 (tokens,), -1 of special tokens."""
    with (
        tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder,
        contextlib.ExitStack() as opened,
    ):
        arrays: dict[str, GrowingArray] = {}

        def append(name: str, dtype, shape, rows) -> None:
            if name not in arrays:
                file = opened.enter_context(open(os.path.join(folder, f"{len(arrays)}.npy"), "wb"))
                arrays[name] = GrowingArray(file, dtype, shape)
            arrays[name].append(rows)

        count = total = 0
        for count, each in enumerate(found, 1):  # noqa: B007
            for name, values in each.values.items():
                append(f"layer_{name}", np.float32, values.shape[-1:], values)
            if not is_pooled:
                places = np.array([span or (-1, -1) for span in each.spans], np.int32).reshape(-1, 2)
                append("starts", np.int32, (), places[:, 0])
                append("ends", np.int32, (), places[:, 1])
                append("offsets", np.int64, (), [total])
                total += len(each.tokens)
        if not is_pooled:
            append("offsets", np.int64, (), [total])
        with whole_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, array in arrays.items():
                array.finish()
                entry = zipfile.ZipInfo(f"{name}.npy")  # without the time of the file: equal states make equal files
                with open(array.file.name, "rb") as part, archive.open(entry, "w", force_zip64=True) as copy:
                    shutil.copyfileobj(part, copy, 1 << 20)
    return count


def _write_parquet(path: str, found: Iterable[TextStates], is_pooled: bool) -> int:
    """Returns columns `text` and `layer_NAME`, lists of float32. Of tokens lists of these, with `tokens`, `starts` and `ends`."""
    pyarrow = import_pyarrow(path)
    numbers, places = pyarrow.list_(pyarrow.float32()), pyarrow.list_(pyarrow.int32())
    count, writer = 0, None
    with whole_file(path) as file, contextlib.ExitStack() as opened:
        for rows in _several(found):
            columns = {"text": (pyarrow.string(), [each.text for each in rows])}
            if not is_pooled:
                spans = [[span or (-1, -1) for span in each.spans] for each in rows]
                columns["tokens"] = pyarrow.list_(pyarrow.string()), [each.tokens for each in rows]
                columns["starts"] = places, [[start for start, _ in row] for row in spans]
                columns["ends"] = places, [[end for _, end in row] for row in spans]
            for name in rows[0].values:
                values = [each.values[name].astype(np.float32) for each in rows]
                kind = numbers if is_pooled else pyarrow.list_(numbers)
                columns[f"layer_{name}"] = kind, values if is_pooled else [list(each) for each in values]
            schema = pyarrow.schema([(name, kind) for name, (kind, _) in columns.items()])
            if writer is None:
                writer = opened.enter_context(pyarrow.parquet.ParquetWriter(file, schema, write_page_checksum=True))
            filled = [pyarrow.array(values, kind) for kind, values in columns.values()]
            writer.write_table(pyarrow.Table.from_arrays(filled, schema=schema))
            count += len(rows)
        opened.close()  # writes the end of the file
    return count


def _several(found: Iterable[TextStates]) -> Iterator[list[TextStates]]:
    rows: list[TextStates] = []
    for each in found:
        rows.append(each)
        if len(rows) == ROWS:
            yield rows
            rows = []
    if rows:
        yield rows
