"""Every row of docs/data.md works as it is written, and failures of the machine leave a folder that resumes."""

import bz2
import errno
import gzip
import json
import os
import pathlib
import re
import shlex
import signal
import threading
import time

import psutil
import pyarrow
import pyarrow.parquet
import pytest
from backports import zstd

from data_pipelines.errors import DataError, ReportedError, UsageError
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.records.manifest import MANIFEST, Manifest
from data_pipelines.records.shards import ShardWriter
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.helpers.invocation import invoke

ROOT = pathlib.Path(__file__).parents[2]
ROWS = [
    line.rpartition("| `")[2].removesuffix("` |")
    for line in (ROOT / "docs/data.md").read_text(encoding="utf-8").splitlines()
    if "| `--input_file" in line
]
TEXTS = [f"The {i}th text is short. It ends. Here." for i in range(30)]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A folder with every file that the page names."""
    import tensorflow_datasets as tfds

    folder = tmp_path_factory.mktemp("corpora")
    sentences = "\n\n".join(text.replace(". ", ".\n") for text in TEXTS)
    pairs = [(f"One {i}.", f"一 {i}。") for i in range(30)]
    pages = "".join(f'<doc id="{i}" title="T">\nT\n\n{text}\n</doc>\n' for i, text in enumerate(TEXTS))
    files = {
        "sentences.txt": sentences,
        "prose.txt": "\n\n".join(TEXTS),
        "documents.txt": "\n".join(TEXTS),
        "sentences.txt.gz": gzip.compress(sentences.encode()),
        "articles.jsonl.zst": zstd.compress("".join(json.dumps({"text": t}) + "\n" for t in TEXTS).encode()),
        "articles.jsonl": "".join(json.dumps({"body": t}) + "\n" for t in TEXTS),
        "pages.jsonl": "".join(json.dumps({"page": {"body": t}}) + "\n" for t in TEXTS),
        "reviews.csv": "id,review\n" + "".join(f'{i},"{t}"\n' for i, t in enumerate(TEXTS)),
        "bare.tsv": "".join(f"{i}\t{t}\n" for i, t in enumerate(TEXTS)),
        "extracted/AA/wiki_00": pages,
        "extracted/AA/wiki_01.bz2": bz2.compress(pages.encode()),
        "dialogues.txt": sentences,
        "novels/a.txt": sentences.replace("Here.", "Here 一。").encode("gb18030"),
        "corpus/prose/a.txt": "\n\n".join(TEXTS),
        "corpus/lists/a.txt": sentences,
        "train.en.gz": gzip.compress("\n".join(p[0] for p in pairs).encode()),
        "train.zh.gz": gzip.compress("\n".join(p[1] for p in pairs).encode()),
        "pairs.tsv": "\n".join("\t".join(p) for p in pairs),
        "vocab.txt": "\n".join([*SPECIAL_TOKENS, *"the text is short it ends here one . 一 。".split(), *"0123456789"]),
    }
    for name, contents in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS}), folder / "articles.parquet")

    class Articles(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, download_manager):
            return {"train": ((i, {"text": text}) for i, text in enumerate(TEXTS))}

        def _generate_examples(self):
            raise NotImplementedError

    Articles(data_dir=folder / "prepared").download_and_prepare()
    return folder


def test_the_page_has_all_its_rows():
    assert len(ROWS) == 18


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_the_page_makes_a_vocabulary(corpora, tmp_path, monkeypatch, row):
    monkeypatch.chdir(corpora)
    output = tmp_path / "vocab.txt"
    assert invoke("train_vocabulary", *shlex.split(row), f"--output_file={output}", "--vocab_size=120") == 0
    assert "##" in output.read_text() or "一" in output.read_text()


def test_each_row_of_the_page_makes_records(corpora, tmp_path, monkeypatch):
    """In this process: starting workers for every row would take a minute."""
    monkeypatch.chdir(corpora)
    monkeypatch.setattr("data_pipelines.pretraining.job.run_jobs", run_here)
    for number, row in enumerate(ROWS):
        folder = tmp_path / str(number)
        flags = ["--vocab_file=vocab.txt", f"--output_dir={folder}", "--num_shards=2", "--max_seq_length=32"]
        assert invoke("create_pretraining_data", *shlex.split(row), *flags, "--packing=doc_sentences") == 0, row
        manifest = Manifest.read(str(folder))
        documents = manifest.statistics["documents"]
        assert documents >= (1 if "prose" in row else 60 if "wiki" in row else 30), row
        assert manifest.settings.read_as


def run_here(function, jobs, num_workers, report, done=0):
    return {key: function(*arguments, lambda num_bytes: None) for key, arguments in jobs.items()}


@pytest.fixture
def settings(corpora):
    return Settings(
        input_file=str(corpora / "documents.txt"),
        vocab_file=str(corpora / "vocab.txt"),
        num_shards=4,
        packing="doc_sentences",
    )


def test_shards_of_every_input_are_the_same_for_any_number_of_workers(corpora, tmp_path):
    patterns = f"{corpora}/sentences.txt:0.6,{corpora}/articles.jsonl.zst:0.2,{corpora}/reviews.csv:0.2"
    renamed = corpora / "renamed.csv"
    renamed.write_text((corpora / "reviews.csv").read_text().replace("review", "text"))
    chosen = Settings(
        input_file=patterns.replace("reviews", "renamed"),
        vocab_file=str(corpora / "vocab.txt"),
        num_shards=3,
        packing="doc_sentences",
    )
    one, two = (create(chosen, str(tmp_path / str(n)), n) for n in (1, 2))
    assert one.shards == two.shards and one.statistics == two.statistics
    assert one.statistics["mixture_0_bytes"] == pytest.approx(0.6 * sum(
        one.statistics[f"mixture_{i}_bytes"] for i in range(3)), rel=0.1)  # fmt: skip


def test_a_full_disk_leaves_whole_shards_only_and_says_what_to_do(settings, tmp_path, monkeypatch):
    monkeypatch.setattr("data_pipelines.pretraining.job.run_jobs", run_here)
    whole = create(settings, str(tmp_path / "whole"))
    real, written = ShardWriter.write, []

    def write(self, *batch):
        written.append(self.path)
        real(self, *batch)
        if len(set(written)) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    folder = tmp_path / "records"
    monkeypatch.setattr(ShardWriter, "write", write)
    with pytest.raises(DataError, match="the disk is full .*free some space.*--resume") as caught:
        create(settings, str(folder))
    assert str(folder) in str(caught.value)
    held = sorted(os.listdir(folder))
    assert sum(name.endswith(".tfrecord") for name in held) == 2 and MANIFEST not in held
    assert not [name for name in held if name.endswith(".partial")]
    monkeypatch.setattr(ShardWriter, "write", real)
    assert create(settings, str(folder), resume=True).shards == whole.shards


def test_a_file_that_cannot_be_flushed_is_not_taken_for_whole(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        with ShardWriter(str(tmp_path / "a.tfrecord")) as writer:
            writer.write(b"a record")
    assert os.listdir(tmp_path) == []


def kill_a_worker(killed):
    """Kills the first worker process that this process starts, as a system without memory does."""
    me = psutil.Process()
    while not killed:
        for child in me.children():
            if "--multiprocessing-fork" in child.cmdline():
                os.kill(child.pid, signal.SIGKILL)
                killed.append(child.pid)
                return
        time.sleep(0.01)


def test_a_killed_worker_is_one_line_and_resume_goes_on(settings, tmp_path, capsys):
    flags = {"input_file": settings.input_file, "vocab_file": settings.vocab_file, "num_shards": 4}
    flags |= {"packing": "doc_sentences", "output_dir": tmp_path / "records"}
    flags = [f"--{name}={value}" for name, value in flags.items()]
    killed = []
    threading.Thread(target=kill_a_worker, args=(killed,), daemon=True).start()
    assert invoke("create_pretraining_data", *flags) == ReportedError.exit_code and killed
    lines = [line for line in capsys.readouterr().err.splitlines() if "records:" not in line]
    assert len(lines) == 1 and re.search("worker process ended before its work was done.*--resume", lines[0])
    assert invoke("create_pretraining_data", *flags, "--resume") == 0
    assert "30 examples in 4 shard" in capsys.readouterr().out


def test_a_mixture_that_repeats_is_not_deduplicated(corpora):
    patterns = f"{corpora}/sentences.txt:0.7,{corpora}/documents.txt:0.3"
    for way, error in (("repeat", True), ("stop", False)):
        chosen = Settings(input_file=patterns, vocab_file="vocab.txt", deduplicate="exact", when_exhausted=way)
        if error:
            with pytest.raises(UsageError, match="--when_exhausted=stop"):
                chosen.check()
        else:
            chosen.check()
