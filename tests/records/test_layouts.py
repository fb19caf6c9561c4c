"""Layouts: found by listing the folder, light to list, and what their features keep on the way through records."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from data_pipelines import layout, layouts
from data_pipelines.errors import DataError, UsageError
from data_pipelines.features import Feature
from data_pipelines.records.checks import check_contents, count_all_ids
from data_pipelines.records.encoding import encode_examples
from data_pipelines.records.manifest import Manifest, RecordSettings
from data_pipelines.records.shards import ShardWriter
from data_pipelines.records.source import RecordSource

ROOT = pathlib.Path(__file__).parent.parent.parent
WORDS = '''"""Words with their letters."""

from data_pipelines.features import Feature
from data_pipelines.layout import Layout


def lengths(parsed):
    return parsed["num_words"]


def show(record, tokens):
    return f"{record['num_words']} words"


LAYOUT = Layout(
    features=lambda settings: {"letters": Feature((None, 3)), "weights": Feature((None,), "float32"), "num_words": Feature(())},
    stage=None,
    columns=None,
    lengths=lengths,
    measured=("num_words",),
    width=lambda max_sequence_length: max_sequence_length - 2,
    ids=("letters",),
    show=show,
)
'''


def test_listing_imports_nothing_heavy():
    program = (
        "import sys\n"
        "from data_pipelines.options import create_pretraining_data\n"
        "from data_pipelines import layout\n"
        "assert layout.names() and all(layout.summaries().values())\n"
        "assert not {'numpy', 'tensorflow'} & set(sys.modules), sorted(sys.modules)\n"
        "for name in layout.names():\n"
        "    layout.find(name)\n"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UsageError, match="--packing=strem: unknown. Known: .*segment_pair, .*stream,"):
        layout.find("strem")


@pytest.fixture
def words(tmp_path, monkeypatch):
    """A layout of a file of its own, and the source of two of its records, of two words and of one."""
    (tmp_path / "lettered_words.py").write_text(WORDS)
    monkeypatch.setattr(layouts, "__path__", [*layouts.__path__, str(tmp_path)])
    monkeypatch.setattr(layouts.__spec__, "submodule_search_locations", layouts.__path__)
    found = layout.find("lettered_words")
    columns = {
        "letters": (np.arange(9).reshape(3, 3), np.array([2, 1])),
        "weights": (np.array([0.5, 0.25, 2.0], np.float32), np.array([2, 1])),
        "num_words": np.array([[2], [1]]),
    }
    with ShardWriter(str(tmp_path / "records-00000-of-00001.tfrecord")) as writer:
        writer.write(*encode_examples(columns))
    settings = RecordSettings(max_sequence_length=6, packing="lettered_words", masking="dynamic")
    manifest = Manifest(found.features(None), [writer.shard()], settings, {})
    yield RecordSource(str(tmp_path), manifest)
    sys.modules.pop("data_pipelines.layouts.lettered_words", None)


def test_inner_axes_and_floats_survive_records(words):
    parsed = next(iter(tf.data.TFRecordDataset(words.paths).batch(2).map(words.parse)))
    assert parsed["letters"].shape == (2, 4, 3)  # padded to the width of the layout
    np.testing.assert_array_equal(parsed["letters"][0, :2], np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(parsed["letters"][1, 0], [6, 7, 8])
    assert not np.any(parsed["letters"][0, 2:]) and not np.any(parsed["letters"][1, 1:])
    np.testing.assert_array_equal(parsed["weights"], [[0.5, 0.25, 0, 0], [2, 0, 0, 0]])


def test_records_without_token_ids_are_measured_checked_and_counted_by_their_own_features(words):
    serialized = tf.constant(list(tf.data.TFRecordDataset(words.paths).as_numpy_iterator()))
    assert words.lengths(serialized).numpy().tolist() == [2, 1]
    assert check_contents(words, 9) == 2
    np.testing.assert_array_equal(count_all_ids(words, 9)[1:], np.ones(8))
    with pytest.raises(DataError, match="record 1: holds the id 8, but the vocabulary has 8 pieces"):
        check_contents(words, 8)


def test_encoded_matrices_are_rows_side_by_side():
    (record,) = encode_examples({"x": np.arange(6, dtype=np.float32).reshape(1, 2, 3)})
    parsed = tf.io.parse_example([record], {"x": tf.io.FixedLenFeature((2, 3), tf.float32)})
    np.testing.assert_array_equal(parsed["x"][0], np.arange(6).reshape(2, 3))
    assert Feature((None, 3)).fits(Feature((2, 3)))
