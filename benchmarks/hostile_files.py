"""What files cost that name huge sizes, lead elsewhere or never end: processor seconds and memory of the verb that reads each of them.

    python -m benchmarks.hostile_files --report=benchmarks/results/hostile_files.md

Each case is a verb on the small files of the fuzzer, one of which was changed on purpose. It runs as the fuzzer's do: forked from a
process that has imported everything, so that time and memory are those of its work alone. It fails where one takes more than
docs/guarantees.md promises, ends in a traceback, or is answered as if nothing were wrong.
"""

import argparse
import gzip
import importlib
import json
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}

import h5py
import numpy as np

from data_pipelines.files import file_sha256
from launch.command import Command
from tests.fuzz import base, oracle
from tests.fuzz.imports import import_everything
from tests.fuzz.sandbox import Limits, Outcome, run

LITTLE = Limits(seconds=20, megabytes=200)  # of archives, pickles and settings
USUAL, NETWORK = oracle.LIMITS[False], oracle.LIMITS[True]
CONVERT = "convert_checkpoint --to=out/model --from="
INDEX = "index --output_dir=out/index --vectors_file="
PRETRAIN = (
    "pretrain --dry_run --system=bert_wwm --data_dir=records --model_config_file=config.json --model_dir=out/run "
    "--num_train_steps=1 --train_batch_size=4"
)
COMPARE = "compare --dry_run --plan=plan.yaml --output_dir=out/c"
CORPUS = "create_pretraining_data --output_dir=out/records --max_seq_length=32 --num_shards=1 --vocab_file="


class Case(NamedTuple):
    """A verb with its flags, and what is done to the files that it reads."""

    what: str
    line: str
    change: Callable[[Path], object]
    limits: Limits = USUAL


def edit(name: str, change: Callable[[dict], object]) -> Callable[[Path], None]:
    """Changes a JSON file, without a checksum of its own."""

    def changed(folder: Path) -> None:
        value = json.loads((folder / name).read_text())
        value.pop("sha256", None)
        change(value)
        (folder / name).write_text(json.dumps(value))

    return changed


def written(name: str, contents: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(contents)


def pipe(folder: Path) -> None:
    (folder / "vectors.npy").unlink()
    os.mkfifo(folder / "vectors.npy")


def endless(folder: Path) -> None:
    (folder / "vectors.npy").unlink()
    (folder / "vectors.npy").symlink_to("/dev/zero")


def weights_of_terabytes(folder: Path) -> None:
    with h5py.File(folder / "preset/model.weights.h5", "w") as file:
        file.create_dataset("layers/a", (10**12,), "f4", chunks=(1024,))


def weights_elsewhere(folder: Path) -> None:
    with h5py.File(folder / "preset/model.weights.h5", "w") as file:
        file.create_dataset("layers/a", (8,), "f4", external=[("/etc/hostname", 0, h5py.h5f.UNLIMITED)])


class _Code:
    def __reduce__(self):
        return os.system, ("true",)


def sentinels(folder: Path) -> None:
    edit("pieces/tokenizer_config.json", lambda found: found.update(num_sentinels=10**8))(folder)


def pickled(folder: Path) -> None:
    (folder / "paddle/model.safetensors").unlink()
    (folder / "paddle/model_state.pdparams").write_bytes(pickle.dumps({"a": _Code()}))


def vectors_of_gigabytes(folder: Path) -> None:
    """Of a .npy whose description fits its bytes."""
    path = folder / "vectors.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(HEADER).to_bytes(2, "little") + HEADER + bytes(64))
    edit("vectors.npy.json", lambda m: m.update(vectors_sha256=file_sha256(str(path))))(folder)


def header_of_terabytes(folder: Path) -> None:
    path = folder / "hf/model.safetensors"
    path.write_bytes((2**62).to_bytes(8, "little") + path.read_bytes()[8:])


def gigabyte_of_one_line(folder: Path) -> None:
    with gzip.open(folder / "bomb.txt.gz", "wb", 9) as file:
        for _ in range(1000):
            file.write(b"x" * 10**6)


def index_backwards(folder: Path) -> None:
    starts = np.fromfile(folder / "index/text_starts.i64", "i8")
    starts[::-1].tofile(folder / "index/text_starts.i64")
    (folder / "index/SHA256SUMS").unlink()


MANIFEST, NAMED = "records/manifest.json", "hf/config.json"
HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 8)}\n"
LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{y}: &{y} [{','.join([f'*{x}'] * 10)}]\n" for x, y in zip("abcdefgh", "bcdefghi", strict=True)
)
SEGMENTED = f"{CORPUS}vocab.txt --input_file=chinese.txt --language=zh --do_whole_word_mask --segmenter=os:system"
SEARCH = "search --index=index --model_dir=siamese --input_file=prose.txt"


def setting(name: str, value: int) -> Callable[[Path], None]:
    return edit(MANIFEST, lambda found: found["settings"].update({name: value}))


def shape_of_a_billion(manifest: dict) -> None:
    manifest["features"]["segment_lengths"]["shape"] = [10**9]


def without_a_feature(manifest: dict) -> None:
    del manifest["features"]["token_ids"]


CASES = [
    Case("manifest: `segment_lengths.shape` [10⁹]", PRETRAIN, edit(MANIFEST, shape_of_a_billion), NETWORK),
    Case("manifest: `max_sequence_length` 10⁹", PRETRAIN, setting("max_sequence_length", 10**9), NETWORK),
    Case("manifest: `max_predictions_per_seq` 10⁹", PRETRAIN, setting("max_predictions_per_seq", 10**9), NETWORK),
    Case("manifest: a feature is missing", "inspect_data --data_dir=records", edit(MANIFEST, without_a_feature)),
    Case("vectors: a header of 32 GB", f"{INDEX}vectors.npy", vectors_of_gigabytes),
    Case("vectors: /dev/zero", f"{INDEX}vectors.npy", endless),
    Case("vectors: a pipe that nobody writes", f"{INDEX}vectors.npy", pipe),
    Case("index: places of texts descend", SEARCH, index_backwards, NETWORK),
    Case("HDF5: an array of 4 TB", f"{CONVERT}keras_hub:preset", weights_of_terabytes, NETWORK),
    Case("HDF5: an array in /etc/hostname", f"{CONVERT}keras_hub:preset", weights_elsewhere, NETWORK),
    Case("pickle: a function of the system", f"{CONVERT}paddle:paddle --allow_pickle", pickled, LITTLE),
    Case("safetensors: a header of 4 EB", f"{CONVERT}hf:hf", header_of_terabytes, LITTLE),
    Case("config.json: 10¹² tokens", f"{CONVERT}hf:hf", edit(NAMED, lambda m: m.update(vocab_size=10**12)), NETWORK),
    Case(
        "config.json: 10⁹ layers", f"{CONVERT}hf:hf", edit(NAMED, lambda m: m.update(num_hidden_layers=10**9)), NETWORK
    ),
    Case("tokenizer: `num_sentinels` 10⁸", f"{CORPUS}pieces --input_file=prose.txt", sentinels, LITTLE),
    Case("`--segmenter=os:system`", SEGMENTED, lambda folder: None, LITTLE),
    Case("YAML: nine levels of ten aliases", COMPARE, written("plan.yaml", LAUGHS.encode()), NETWORK),
    Case("JSON: 100,000 levels", f"{CONVERT}hf:hf", written(NAMED, b"[" * 100_000), NETWORK),
    Case("text: a line of 1 GB in 1 MB of gzip", f"{CORPUS}vocab.txt --input_file=bomb.txt.gz", gigabyte_of_one_line),
]


def measure(case: Case, files: Path, rooms: Path) -> tuple[Outcome, list[str]]:
    """Returns how a case ended, and what is wrong with that."""
    room = rooms / "room"
    shutil.rmtree(room, ignore_errors=True)
    shutil.copytree(files, room / "case")
    (room / "case/out").mkdir()
    case.change(room / "case")
    verb, _, flags = case.line.partition(" ")
    outcome = run(command_of(verb), flags.split(), room, case.limits)
    faults = []
    if outcome.late or outcome.seconds > case.limits.seconds:
        faults.append("time")
    if outcome.megabytes > case.limits.megabytes:
        faults.append("memory")
    if outcome.trace or outcome.code not in oracle.CODES:
        faults.append("traceback")
    if outcome.code == 0:
        faults.append("answered")
    return outcome, faults


def command_of(verb: str) -> Command:
    return importlib.import_module(f"launch.{verb}").COMMAND


ABOUT = (
    "Time and memory of the verb that reads a file made to mislead, beside what its process has, and what docs/guarantees.md allows. "
    "Each is refused in one line that names the file or the flag. Made by "
    "`python -m benchmarks.hostile_files --report=benchmarks/results/hostile_files.md`."
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile_files", description=__doc__)
    parser.add_argument("--report", help="where to write the page")
    options, rows, failed = parser.parse_args(), [], False
    import_everything()
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        files, rooms = Path(folder, "files"), Path(folder, "rooms")
        files.mkdir()
        rooms.mkdir()
        base.make(files)
        for case in CASES:
            outcome, faults = measure(case, files, rooms)
            failed |= bool(faults)
            seconds, megabytes = f"{outcome.seconds:.1f}", f"{outcome.megabytes:.0f}"
            said = (outcome.errors.strip() or outcome.output.strip()).splitlines()[-1:] or [""]
            print(
                f"{case.what}: exit {outcome.code}, {seconds} s, {megabytes} MB {faults or ''}\n  {said[0]:.160}",
                flush=True,
            )
            verb, promised = case.line.partition(" ")[0], f"{case.limits.seconds} s, {case.limits.megabytes} MB"
            rows.append(
                (case.what, f"`{verb}`", outcome.code, seconds, megabytes, promised, ", ".join(faults) or "kept")
            )
    if options.report:
        Path(options.report).write_text(page(rows), encoding="utf-8")
    return int(failed)


def page(rows: list[tuple]) -> str:
    """Returns the page of results."""
    head = ("what was done to a file", "verb", "exit code", "processor s", "MB", "promised", "")
    lines = ["# What hostile files cost", "", ABOUT, ""]
    table = [head, tuple("---" for _ in head), *rows]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in table), ""])


if __name__ == "__main__":
    sys.exit(main())
