"""What a manifest says is bounded, and compared with the records, before anything of that size is made."""

import json
import resource

import pytest

from data_pipelines.errors import DataError
from data_pipelines.records.checks import check_contents
from data_pipelines.records.source import RecordSource
from tests.helpers.samples import make_records


@pytest.fixture(scope="module")
def original(tmp_path_factory, zh_vocabulary):
    return make_records(tmp_path_factory.mktemp("promises") / "records", zh_vocabulary, num_shards=1)


def dropped(name):
    return lambda m: m["features"].pop(name)


CHANGES = {
    "a shape of a billion": (lambda m: m["features"]["segment_lengths"].update(shape=[10**9]), "segment_lengths.shape` must be"),
    "a shape below zero": (lambda m: m["features"]["segment_lengths"].update(shape=[-1]), "segment_lengths.shape` must be"),
    "many axes": (lambda m: m["features"]["token_ids"].update(shape=[10**6] * 4), "`features.token_ids.shape` must be"),
    "a shape that is possible": (lambda m: m["features"]["segment_lengths"].update(shape=[3]), "`segment_lengths` holds 2 whole"),
    "another kind of number": (lambda m: m["features"]["token_ids"].update(dtype="float32"), "record 0: `token_ids` holds"),
    "rows of three": (lambda m: m["features"]["segment_lengths"].update(shape=[None, 3]), "`segment_lengths` holds 2 whole"),
    "a feature that is not there": (lambda m: m["features"].update(more={"shape": [1], "dtype": "int32"}), "`more` holds nothing"),
    "a feature dropped": (dropped("segment_lengths"), "which the manifest of .* does not name"),
    "the ids dropped": (dropped("token_ids"), "holds `token_ids`, which the manifest of .* does not name"),
    "all features dropped": (lambda m: m["features"].clear(), "does not name"),
    "a length of a billion": (lambda m: m["settings"].update(max_sequence_length=10**9), "max_sequence_length` must be"),
    "a length of a million": (lambda m: m["settings"].update(max_sequence_length=10**6), "up to 1,000,000 tokens"),
    "no length": (lambda m: m["settings"].pop("max_sequence_length"), "says no `settings.max_sequence_length`"),
    "predictions": (lambda m: m["settings"].update(max_predictions_per_seq=10**9), "_seq` must be"),
    "predictions, few": (lambda m: m["settings"].update(max_predictions_per_seq=10**5), "`max_sequence_length` 32"),
    "examples": (
        lambda m: [m["shards"][0].update(examples=10**12), m.pop("num_examples"), m.pop("statistics"), m.update(statistics={})],
                 r"`shards\[0\].examples` must be records of 16 bytes"),
    "texts of a record": (lambda m: m["settings"].update(texts_per_record=10**9), "texts_per_record` must be"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_manifest_says_wrongly_is_said_in_little_memory(original, tmp_path, name):
    change, said = CHANGES[name]
    folder = tmp_path / "records"
    folder.mkdir()
    for path in (tmp_path / original).iterdir():
        (folder / path.name).symlink_to(path)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"]  # as who means it does
    change(manifest)
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=said):
        check_contents(RecordSource(str(folder)), 1500)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB


def test_records_as_they_were_written_are_read(original):
    assert check_contents(RecordSource(original), 1500) > 0
