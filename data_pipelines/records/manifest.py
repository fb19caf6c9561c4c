"""The manifest of a folder of records: what it holds and how it was made. It is plain JSON, and checked when it is read."""

import dataclasses
import json
import os
import types
import typing
from collections.abc import Mapping
from typing import Any

from data_pipelines import strict_json
from data_pipelines.errors import DataError
from data_pipelines.features import Feature, Features
from data_pipelines.files import write_json
from data_pipelines.records.shards import Shard

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
KINDS = {
    int: "a whole number", float: "a number", str: "a text", bool: "true or false", dict: "an object", list: "a list",
    list[str]: "a list of texts", list[int]: "a list of whole numbers", dict[str, int]: "an object of whole numbers",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RecordSettings:
    """What shaped the records. None stands for what a manifest does not say.

    Attributes:
        max_sequence_length: with special tokens.
        vocabulary_size, vocabulary_sha256: of the vocabulary, which lies beside the manifest.
        tokenizer: what `text.kinds.read_tokenizer` needs.
        input_file: the files that the records were made from.
        language, read_as, packing, masking, masked_lm_prob, max_predictions_per_seq, segmenter, do_whole_word_mask,
            do_lower_case: of records for pretraining; see `pretraining.settings.Settings`.
        task: of labelled records, one of `finetuning.listing.TASKS`.
        label_names: the labels, in the order of their ids.
        texts_per_record: the texts that a record chooses from or ranks.
        bad_examples: the first examples that were left out, as messages.
        max_query_length: see `finetuning.task.Settings`.
        others: all else that the manifest says, by its key.
        keys: all keys, in the order of the file.
    """

    max_sequence_length: int | None = None
    vocabulary_size: int | None = None
    vocabulary_sha256: str | None = None
    tokenizer: dict | None = None
    input_file: str | None = None
    language: str | None = None
    read_as: str | None = None
    packing: str | None = None
    masking: str | None = None
    masked_lm_prob: float | None = None
    max_predictions_per_seq: int | None = None
    segmenter: str | None = None
    do_whole_word_mask: bool | None = None
    do_lower_case: bool | None = None
    task: str | None = None
    label_names: list[str] | None = None
    texts_per_record: int | None = None
    bad_examples: list[str] | None = None
    max_query_length: int | None = None
    others: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = MANIFEST) -> "RecordSettings":
        """From what a manifest says under `settings`.

        Raises:
            DataError: a value is of another type.
        """
        wanted = {name: kind for name, kind in typing.get_type_hints(cls).items() if name not in ("others", "keys")}
        known = {
            name: typed(value, wanted[name], f"settings.{name}", where)
            for name, value in values.items()
            if name in wanted
        }
        others = {name: value for name, value in values.items() if name not in wanted}
        return cls(**known, others=others, keys=tuple(values))

    def to_json(self) -> dict[str, Any]:
        """What `of` was given."""
        return {name: self.others[name] if name in self.others else getattr(self, name) for name in self.keys}


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a folder of records holds and how it was made.

    Attributes:
        features: the schema of an example; None stands for a free length.
        shards: the files, in order.
        settings: everything that shaped the records.
        statistics: counts over all records.
    """

    features: Features
    shards: list[Shard]
    settings: RecordSettings
    statistics: dict[str, int]

    @property
    def num_examples(self) -> int:
        return sum(shard.examples for shard in self.shards)

    def write(self, folder: str) -> None:
        """Writes manifest.json; it comes last, so a folder with a manifest is whole."""
        value = {
            "format_version": FORMAT_VERSION,
            "features": {n: {"shape": list(f.shape), "dtype": f.dtype} for n, f in self.features.items()},
            "settings": self.settings.to_json(),
            "statistics": self.statistics,
            "num_examples": self.num_examples,
            "shards": [dataclasses.asdict(shard) for shard in self.shards],
        }
        write_json(os.path.join(folder, MANIFEST), value)

    @classmethod
    def read(cls, folder: str) -> "Manifest":
        """Reads the manifest of a data folder.

        Raises:
            DataError: the folder or its manifest is missing, of another version or damaged.
        """
        path = os.path.join(folder, MANIFEST)
        if not os.path.isdir(folder):
            raise DataError(f"{folder}: no such folder of records. Make one with `xmodels create_pretraining_data`.")
        try:
            with open(path, encoding="utf-8") as file:
                return cls.of(strict_json.load(file), path)
        except FileNotFoundError:
            raise _missing(folder, path) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: damaged ({type(error).__name__}: {error}); make the records again.") from None

    @classmethod
    def of(cls, value: Any, path: str) -> "Manifest":
        """From the JSON of a manifest.

        Raises:
            DataError: names the file and the key, what was found, and what was expected.
        """
        version = entry(typed(value, dict, "the manifest", path), "format_version", int, "", path)
        if version != FORMAT_VERSION:
            raise DataError(
                f"{path}: format version {version}, this program reads {FORMAT_VERSION}. Make the records "
                "again with this program, or read them with the one that made them."
            )
        features = {
            name: _feature(found, f"features.{name}", path)
            for name, found in entry(value, "features", dict, "", path).items()
        }
        shards = [
            _shard(found, f"shards[{number}]", path)
            for number, found in enumerate(entry(value, "shards", list, "", path))
        ]
        settings = RecordSettings.of(entry(value, "settings", dict, "", path), path)
        return cls(features, shards, settings, entry(value, "statistics", dict[str, int], "", path))


def _feature(value: Any, key: str, path: str) -> Feature:
    shape = entry(typed(value, dict, key, path), "shape", list, key, path)
    if not all(size is None or type(size) is int for size in shape):
        raise _damaged(path, f"{key}.shape", "a list of whole numbers and null", shape)
    return Feature(tuple(shape), entry(value, "dtype", str, key, path))


def _shard(value: Any, key: str, path: str) -> Shard:
    kinds = typing.get_type_hints(Shard)
    typed(value, dict, key, path)
    optional = {"offsets"} - set(value)
    return Shard(**{name: entry(value, name, kind, key, path) for name, kind in kinds.items() if name not in optional})


def entry(values: dict, name: str, wanted: Any, key: str, path: str) -> Any:
    """The value of `name`, which must be there and of a type of KINDS; `key` leads to `values`."""
    key = f"{key}.{name}" if key else name
    if name not in values:
        raise DataError(f"{path}: damaged: `{key}` is missing, expected {KINDS[wanted]}. Make the records again.")
    return typed(values[name], wanted, key, path)


def typed(value: Any, wanted: Any, key: str, path: str) -> Any:
    """The value, which must be of a type of KINDS, or None where `wanted` allows it.

    Raises:
        DataError: names the file and the key, what was found, and what was expected.
    """
    kinds = typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    if not any(_is(value, kind) for kind in kinds):
        raise _damaged(path, key, KINDS[kinds[0]], value)
    return value


def _is(value: Any, kind: Any) -> bool:
    plain = typing.get_origin(kind) or kind
    if plain is float:
        return type(value) in (int, float)
    if type(value) is not plain:
        return False
    inner = typing.get_args(kind)
    items = value.values() if plain is dict else value
    return not inner or all(type(item) is inner[-1] for item in items)


def _damaged(path: str, key: str, expected: str, found: Any) -> DataError:
    return DataError(f"{path}: damaged: `{key}` must be {expected}. Found: {found!r:.60}. Make the records again.")


def _missing(folder: str, path: str) -> DataError:
    if os.path.isfile(os.path.join(folder, "data_manifest.json")):
        return DataError(
            f"{folder}: is the folder of a run, not of records. Its records are named by --data_dir in "
            f"{os.path.join(folder, 'flags.txt')}."
        )
    return DataError(
        f"{path}: missing, so the records are unfinished or not ours. Finish them with the same "
        "`create_pretraining_data` command and --resume. (Records of Google's script: use --input_file.)"
    )
