"""An Apache Beam pipeline leaves the bytes that processes leave. Beam runs here on its local runner."""

import pathlib
import sys

import pytest

from data_pipelines.errors import DataError, ReportedError, UsageError
from data_pipelines.pretraining import beam_runner
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.records.folder import PLAN
from data_pipelines.records.manifest import MANIFEST
from tests.pretraining.test_pretraining_data import hashes

SAMPLES = str(pathlib.Path(__file__).parents[2] / "samples/zh/corpus.txt")


needs_beam = pytest.mark.extra("apache_beam")


@pytest.fixture
def settings(zh_vocabulary):
    return Settings(input_file=SAMPLES, vocab_file=zh_vocabulary, language="zh", num_shards=4, max_seq_length=64)


PROCESSES = "--direct_running_mode=multi_processing --direct_num_workers=2"


@pytest.mark.one_in(3)
@needs_beam
@pytest.mark.parametrize(("deduplicate", "options"), [("near", PROCESSES), ("none", ""), ("exact", "")])
def test_a_pipeline_leaves_the_bytes_of_processes(tmp_path, zh_vocabulary, deduplicate, options):
    corpus = tmp_path / "corpus.txt"
    text = pathlib.Path(SAMPLES).read_text(encoding="utf-8")
    corpus.write_text(text + "\n" + text[: text.index("\n\n", 3000) + 2], encoding="utf-8")
    settings = Settings(
        input_file=str(corpus),
        vocab_file=zh_vocabulary,
        language="zh",
        do_lower_case=True,
        do_whole_word_mask=True,
        segmenter="jieba",
        deduplicate=deduplicate,
        num_shards=4,
        dupe_factor=2,
    )
    create(settings, str(tmp_path / "local"), num_workers=2)
    manifest = beam_runner.create(settings, str(tmp_path / "beam"), options=options)
    assert hashes(tmp_path / "beam") == hashes(tmp_path / "local")
    assert deduplicate == "none" or manifest.statistics["exact_duplicates_dropped"] > 5


@needs_beam
def test_shards_that_are_whole_are_kept_by_whoever_goes_on(tmp_path, settings):
    create(settings, str(tmp_path / "local"))
    job = beam_runner.prepare(settings, str(tmp_path / "beam"))
    beam_runner.claim(job.folder, job.described, False, False)
    job.write([2], 1, lambda done, total: None)
    kept = pathlib.Path(job.paths[2]).stat().st_mtime_ns
    with pytest.raises(UsageError, match="--resume"):
        beam_runner.create(settings, job.folder)
    beam_runner.create(settings, job.folder, resume=True, options="--runner=DirectRunner --direct_num_workers=2")
    assert hashes(job.folder) == hashes(tmp_path / "local")
    assert pathlib.Path(job.paths[2]).stat().st_mtime_ns == kept


@needs_beam
@pytest.mark.parametrize("deduplicate", ["none", "exact"])
def test_a_text_that_cannot_be_used_is_named_as_without_beam(tmp_path, zh_vocabulary, deduplicate):
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(b"Fine.\n\n" * 100 + b"\xff\n\n" + b"Fine.\n\n" * 100)
    settings = Settings(input_file=str(corpus), vocab_file=zh_vocabulary, deduplicate=deduplicate, num_shards=2)
    with pytest.raises(DataError, match="line 201: not valid UTF-8"):
        beam_runner.create(settings, str(tmp_path / "beam"))
    assert (tmp_path / "beam" / PLAN).exists() and not (tmp_path / "beam" / MANIFEST).exists()
    corpus.write_bytes(corpus.read_bytes().replace(b"\xff", b"A"))
    beam_runner.create(settings, str(tmp_path / "beam"), resume=True)
    create(settings, str(tmp_path / "local"))
    assert hashes(tmp_path / "beam") == hashes(tmp_path / "local")


@needs_beam
def test_workers_that_do_not_see_the_folder_say_so(tmp_path, settings, monkeypatch):
    monkeypatch.setattr(beam_runner, "PLAN", "on another machine")
    with pytest.raises(ReportedError, match="a Beam worker does not see this folder.*--resume"):
        beam_runner.create(settings, str(tmp_path / "beam"))


@needs_beam
@pytest.mark.parametrize("options", ["--runner=NoSuchRunner", "--runner='open quote"])
def test_options_that_beam_does_not_understand_are_named(tmp_path, settings, options):
    with pytest.raises(UsageError, match=f"--beam_options={options}"):
        beam_runner.create(settings, str(tmp_path / "beam"), options=options)
    assert not (tmp_path / "beam").exists()


def test_without_beam_the_error_says_what_to_install(tmp_path, settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(UsageError, match=r"xmodels\[beam\]"):
        beam_runner.create(settings, str(tmp_path / "beam"))
    assert not (tmp_path / "beam").exists()
