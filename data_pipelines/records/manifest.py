"""The manifest of a folder of records: what it holds and how it was made. It is plain JSON, and checked when it is read."""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Mapping
from typing import Annotated, Any

from data_pipelines import layout, schema, strict_json
from data_pipelines.errors import DataError
from data_pipelines.features import Feature, Features
from data_pipelines.files import write_json
from data_pipelines.records.shards import Shard
from data_pipelines.schema import Count, Positive, Sha256, Share, one_of, whole

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
ADVICE = "Make the records again."
OneOfPackings = Annotated[
    str, schema.Constraint(lambda value: value in layout.names(), f"one of {', '.join(layout.names())}")
]
OneOfMaskings = one_of("dynamic", "static")
OneOfDtypes = one_of("int32", "int64", "float32", "bool")
MOST_TOKENS, MOST_NUMBERS = 1 << 20, 1 << 24  # of an example, and of one of its features
LEAST_BYTES = 16  # of a record, beside what it holds
Length, Axis = whole(1, MOST_TOKENS), whole(0, MOST_TOKENS)
FEW_PREDICTIONS = 512  # so many places to predict are believed whatever the length


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

    max_sequence_length: Length | None = None
    vocabulary_size: Positive | None = None
    vocabulary_sha256: Sha256 | None = None
    tokenizer: dict | None = None
    input_file: str | None = None
    language: str | None = None
    read_as: str | None = None
    packing: OneOfPackings | None = None
    masking: OneOfMaskings | None = None
    masked_lm_prob: Share | None = None
    max_predictions_per_seq: Axis | None = None
    segmenter: str | None = None
    do_whole_word_mask: bool | None = None
    do_lower_case: bool | None = None
    task: str | None = None
    label_names: list[str] | None = None
    texts_per_record: Axis | None = None
    bad_examples: list[str] | None = None
    max_query_length: Axis | None = None
    others: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = MANIFEST) -> "RecordSettings":
        """Returns the settings that a manifest states under `settings`.

        Raises:
            DataError: a value is of another type.
        """
        wanted = schema.fields(cls)
        for own in ("others", "keys"):
            del wanted[own]
        place = schema.Location(where, "settings", advice=ADVICE)
        known = {
            name: schema.convert(value, wanted[name], place.at(name))
            for name, value in values.items()
            if name in wanted
        }
        others = {name: value for name, value in values.items() if name not in wanted}
        return cls(**known, others=others, keys=tuple(values))

    def to_json(self) -> dict[str, Any]:
        """Returns what `of` was given."""
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
            "features": {name: _described(feature) for name, feature in self.features.items()},
            "settings": self.settings.to_json(),
            "statistics": self.statistics,
            "num_examples": self.num_examples,
            "shards": [dataclasses.asdict(shard) for shard in self.shards],
        }
        # The checksum has a line of its own that is not the last: who means a change deletes it.
        write_json(
            os.path.join(folder, MANIFEST), {"format_version": FORMAT_VERSION, "sha256": _digest(value), **value}
        )

    @classmethod
    def read(cls, folder: str) -> "Manifest":
        """Reads the manifest of a data folder.

        Raises:
            DataError: the folder or its manifest is missing, of another version or damaged.
        """
        path = os.path.join(folder, MANIFEST)
        if not os.path.isdir(folder):
            found = "is a file, not a" if os.path.isfile(folder) else "no such"
            raise DataError(f"{folder}: {found} folder of records. Make one with `xmodels create_pretraining_data`.")
        try:
            return cls.of(strict_json.read(path), path)
        except FileNotFoundError:
            raise _missing(folder, path) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: damaged ({type(error).__name__}: {error}); make the records again.") from None

    @classmethod
    def of(cls, value: Any, path: str) -> "Manifest":
        """Returns the manifest that its JSON states.

        Raises:
            DataError: names the file and the key, what was found, and what was expected.
        """
        place = schema.Location(path, advice=ADVICE)
        version = schema.convert(
            schema.convert(value, dict, place).get("format_version"), int, place.at("format_version")
        )
        if version != FORMAT_VERSION:
            raise DataError(
                f"{path}: format version {version}, this program reads {FORMAT_VERSION}. Make the records "
                "again with this program, or read them with the one that made them."
            )
        found = schema.convert(value, _Entries, place)
        manifest = cls(
            {n: Feature(tuple(f.shape), f.dtype, is_ragged=f.is_ragged) for n, f in found.features.items()}, found.shards,
            RecordSettings.of(found.settings, path), found.statistics,
        )  # fmt: skip
        _check_counts(manifest, found.num_examples, place)
        if found.sha256 not in (None, _digest({name: value[name] for name in value if name != "sha256"})):
            raise DataError(
                f"{path}: expected the values that its `sha256` belongs to, found others: it was changed after it was written. "
                "Make the records again; or, to keep the change, delete the line `sha256`."
            )
        return manifest


def _digest(value: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of JSON, however it is laid out."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _described(feature: Feature) -> dict[str, Any]:
    return {"shape": list(feature.shape), "dtype": feature.dtype} | ({"is_ragged": True} if feature.is_ragged else {})


@dataclasses.dataclass(frozen=True)
class _FeatureEntry:
    shape: list[int | None]
    dtype: OneOfDtypes
    is_ragged: bool = False


@dataclasses.dataclass(frozen=True)
class _Entries:
    """What manifest.json holds."""

    format_version: int
    features: dict[str, _FeatureEntry]
    settings: dict
    statistics: dict[str, int]
    shards: list[Shard]
    num_examples: Count | None = None
    sha256: Sha256 | None = None


def _check_counts(manifest: Manifest, num_examples: int | None, place: schema.Location) -> None:
    """Raises a DataError where numbers contradict each other, or two shards are one file."""
    stated = {"num_examples": num_examples, "statistics.examples": manifest.statistics.get("examples")}
    for key, number in stated.items():
        if number not in (None, manifest.num_examples):
            raise place.fault(f"`{key}` is {number:,}, but the shards hold {manifest.num_examples:,} examples.")
    predictions, length = manifest.settings.max_predictions_per_seq, manifest.settings.max_sequence_length
    if predictions is not None and predictions > max(FEW_PREDICTIONS, length or 0):
        here = place.at("settings").at("max_predictions_per_seq")
        raise here.misfit(f"at most `max_sequence_length` {length}", predictions)
    for name, feature in manifest.features.items():
        sizes = [size for size in feature.shape if size is not None]
        if feature.is_ragged and (len(feature.shape) != 2 or feature.shape[0] is not None or None in feature.shape[1:]):
            raise (
                place.at("features")
                .at(name)
                .at("shape")
                .misfit("null and a size, as it is ragged", list(feature.shape))
            )
        if min(sizes, default=0) < 0 or max(sizes, default=0) > MOST_TOKENS or math.prod(sizes) > MOST_NUMBERS:
            what = f"sizes of 0 to {MOST_TOKENS:,}, {MOST_NUMBERS:,} numbers in all"
            raise place.at("features").at(name).at("shape").misfit(what, list(feature.shape))
    for number, shard in enumerate(manifest.shards):
        here, offsets = place.at("shards").at(number), shard.offsets
        if shard.name in {other.name for other in manifest.shards[:number]}:
            raise place.fault(f"`{here.key}.name` {shard.name} stands there twice.")
        if shard.examples * LEAST_BYTES > shard.bytes:
            raise here.at("examples").misfit(
                f"records of {LEAST_BYTES} bytes or more in {shard.bytes:,} bytes", shard.examples
            )
        if offsets and (offsets[0] or offsets != sorted(set(offsets)) or offsets[-1] >= shard.bytes):
            raise here.at("offsets").misfit(f"ascending numbers from 0, below `bytes` {shard.bytes:,}", offsets)


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
