"""Tasks that share the work of a folder leave the bytes that one machine leaves."""

import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from data_pipelines.errors import DataError, UsageError
from data_pipelines.pretraining.job import Job, Settings, create
from data_pipelines.pretraining.tasks_split import create_share
from data_pipelines.records import folder as record_folder
from data_pipelines.records.manifest import MANIFEST, Manifest
from data_pipelines.text.vocabulary import SPECIAL_TOKENS
from tests.pretraining.test_pretraining_data import COMMAND, ROOT, hashes

NUM_SHARDS = 7  # not a multiple of the number of tasks


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Of a small corpus in which every fifth document stands twice."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(0)
    documents = ["".join(f"w{rng.randrange(200)} w{rng.randrange(200)} .\n" for _ in range(8)) for _ in range(400)]
    documents += documents[::5]
    (folder / "corpus.txt").write_text("\n".join(documents))
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, ".", *(f"w{i}" for i in range(200))]))
    return Settings(
        input_file=str(folder / "corpus.txt"),
        vocab_file=str(folder / "vocab.txt"),
        num_shards=NUM_SHARDS,
        max_seq_length=32,
    )


@pytest.fixture(scope="module")
def deduplicating(settings):
    return Settings(
        input_file=settings.input_file,
        vocab_file=settings.vocab_file,
        language="en",
        deduplicate="near",
        num_shards=NUM_SHARDS,
    )


@pytest.fixture(scope="module")
def alone(settings, tmp_path_factory):
    """What one machine makes."""
    folder = tmp_path_factory.mktemp("alone") / "records"
    create(settings, str(folder))
    return hashes(folder)


@pytest.fixture(scope="module")
def deduplicated_alone(deduplicating, tmp_path_factory):
    folder = tmp_path_factory.mktemp("deduplicated_alone") / "records"
    manifest = create(deduplicating, str(folder))
    assert manifest.statistics["exact_duplicates_dropped"] == 80
    return hashes(folder)


def start(settings, folder, task, *more):
    values = [f"--input_file={settings.input_file}", f"--vocab_file={settings.vocab_file}", f"--output_dir={folder}"]
    values += [f"--num_shards={NUM_SHARDS}", "--max_seq_length=32", f"--task={task}", "--num_tasks=3"]
    return subprocess.Popen(
        [*COMMAND, *values, *more], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(folder, index):
    return (folder / f"records-{index:05d}-of-{NUM_SHARDS:05d}.tfrecord.json").exists()


def test_processes_that_share_a_folder_leave_the_bytes_of_one_and_a_killed_one_goes_on(tmp_path, settings, alone):
    folder = tmp_path / "records"
    killed = start(settings, folder, 0)
    while not finished(folder, 0):
        assert killed.poll() is None
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (folder / f"records-00003-of-{NUM_SHARDS:05d}.tfrecord.0f0f.partial").write_text("what a killed task leaves")
    kept = (folder / f"records-00000-of-{NUM_SHARDS:05d}.tfrecord").stat().st_mtime_ns
    both = [start(settings, folder, 2), start(settings, folder, 1)]
    printed = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], printed
    # Unless the kill came after its last shard, a task is missing; what is called whole must be whole.
    assert not (folder / MANIFEST).exists() or hashes(folder) == alone
    last = start(settings, folder, 0, "--resume")
    output, errors = last.communicate()
    assert last.returncode == 0, errors
    assert hashes(folder) == alone
    assert f"examples in {NUM_SHARDS} shard(s)" in output
    assert (folder / f"records-00000-of-{NUM_SHARDS:05d}.tfrecord").stat().st_mtime_ns == kept


def test_a_task_makes_its_shards_and_says_whose_are_missing(tmp_path, settings, alone):
    folder = tmp_path / "records"
    waiting = create_share(settings, str(folder), "1", 3)
    assert [finished(folder, index) for index in range(NUM_SHARDS)] == [i % 3 == 1 for i in range(NUM_SHARDS)]
    assert "task 1 has made its 2 shard(s). the tasks 0, 2 have not" in waiting
    with pytest.raises(DataError, match="5 of 7 shards are missing.*00000.*00002.*00003.*the tasks 0, 2 again"):
        create_share(settings, str(folder), "merge", 3)
    create_share(settings, str(folder), "2", 3)
    manifest = create_share(settings, str(folder), "0", 3)
    assert isinstance(manifest, Manifest) and hashes(folder) == alone
    for task in ("0", "merge"):  # a finished folder stays as it is
        assert create_share(settings, str(folder), task, 3) == manifest
    assert hashes(folder) == alone


def test_folders_of_their_own_are_copied_together_and_merged(tmp_path, settings, alone):
    together = tmp_path / "together"
    for task in range(3):
        assert isinstance(create_share(settings, str(tmp_path / str(task)), str(task), 3), str)
        shutil.copytree(tmp_path / str(task), together, dirs_exist_ok=True)
    shard = together / f"records-00004-of-{NUM_SHARDS:05d}.tfrecord"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-7])
    with pytest.raises(DataError, match="1 of 7 shards are missing or cut, such as records-00004.*the tasks 1 again"):
        create_share(settings, str(together), "merge", 3)
    shard.write_bytes(whole)
    create_share(settings, str(together), "merge", None)
    assert hashes(together) == alone


@pytest.mark.long
def test_duplicates_are_removed_in_two_rounds(tmp_path, deduplicating, deduplicated_alone):
    folder = str(tmp_path / "records")
    first = [create_share(deduplicating, folder, task, 3) for task in ("2", "0", "1")]
    assert "Round one ends when the tasks 0, 1 have, too" in first[0] and "the tasks 1 have" in first[1]
    assert "task 1 has made its 2 shard(s). the tasks 0, 2 have not" in first[2]  # the last one goes straight on
    create_share(deduplicating, folder, "2", 3)
    assert isinstance(create_share(deduplicating, folder, "0", 3), Manifest)
    assert hashes(folder) == deduplicated_alone


def test_duplicates_are_removed_across_folders_of_their_own(tmp_path, deduplicating, deduplicated_alone):
    together = tmp_path / "together"

    def round_of_all():
        for task in range(2):
            create_share(deduplicating, str(tmp_path / str(task)), str(task), 2)
            shutil.copytree(tmp_path / str(task), together, dirs_exist_ok=True)

    create_share(deduplicating, str(tmp_path / "0"), "0", 2)
    shutil.copytree(tmp_path / "0", together)
    with pytest.raises(DataError, match="3 of 7 parts have not been read for duplicates; run the tasks 1 first"):
        create_share(deduplicating, str(together), "merge", 2)
    round_of_all()
    assert "Run every task once more" in create_share(deduplicating, str(together), "merge", 2)
    for task in range(2):
        shutil.copytree(together, tmp_path / str(task), dirs_exist_ok=True)
    round_of_all()
    create_share(deduplicating, str(together), "merge", 2)
    assert hashes(together) == deduplicated_alone


@pytest.mark.parametrize("moment", ["missing", "finish"])
def test_two_tasks_that_end_at_once_agree(tmp_path, settings, alone, monkeypatch, moment):
    folder = str(tmp_path / "records")
    create_share(settings, folder, "1", 2)
    original, interrupted = getattr(Job, moment), []

    def overtaken(job, *arguments):
        # Only a call that would see the folder whole: now the other task comes first.
        if not interrupted and all(finished(tmp_path / "records", i) for i in range(NUM_SHARDS)):
            interrupted.append(True)
            create_share(settings, folder, "1", 2)
        return original(job, *arguments)

    monkeypatch.setattr(Job, moment, overtaken)
    assert isinstance(create_share(settings, folder, "0", 2), Manifest)
    assert interrupted and hashes(folder) == alone


def test_shards_of_another_plan_are_refused(tmp_path, settings):
    create_share(settings, str(tmp_path / "records"), "0", 2)
    other = Settings(
        input_file=settings.input_file, vocab_file=settings.vocab_file, num_shards=NUM_SHARDS, max_seq_length=40
    )
    with pytest.raises(UsageError, match="max_seq_length: 32 then, 40 now"):
        create_share(other, str(tmp_path / "records"), "1", 2)
    create_share(other, str(tmp_path / "other"), "1", 2)
    for path in (tmp_path / "other").glob("records*"):
        shutil.copy(path, tmp_path / "records")
    with pytest.raises(DataError, match="records-00001.*made with other settings"):
        create_share(settings, str(tmp_path / "records"), "merge", 2)


@pytest.mark.parametrize(("task", "num_tasks"), [("2", 2), ("-1", 2), ("last", 2), ("0", None), (None, 2)])
def test_tasks_that_do_not_exist_are_named(tmp_path, settings, task, num_tasks):
    with pytest.raises(UsageError, match=f"--task={task} --num_tasks={num_tasks}"):
        create_share(settings, str(tmp_path / "records"), task, num_tasks)
    assert not (tmp_path / "records").exists()


def test_more_tasks_than_shards_and_nothing_to_merge_are_named(tmp_path, settings):
    with pytest.raises(UsageError, match="--num_tasks=8: there are only 7 shards"):
        create_share(settings, str(tmp_path / "records"), "0", 8)
    with pytest.raises(DataError, match="nothing to merge"):
        create_share(settings, str(tmp_path / "records"), "merge", None)
    assert not (tmp_path / "records").exists()


@pytest.mark.parametrize("flag", ["--overwrite", "--runner=beam"])
def test_flags_that_contradict_tasks_are_named(tmp_path, settings, flag):
    process = start(settings, tmp_path / "records", 0, flag)
    _, errors = process.communicate()
    assert process.returncode == 2 and "task" in errors and flag in errors and "Traceback" not in errors


def test_writers_of_the_same_file_do_not_meet(tmp_path):
    with record_folder.whole_file(tmp_path / "a") as one, record_folder.whole_file(tmp_path / "a") as two:
        one.write(b"first")
        two.write(b"second")
    assert (tmp_path / "a").read_bytes() == b"first" and os.listdir(tmp_path) == ["a"]
    with pytest.raises(OSError, match="full"), record_folder.whole_file(tmp_path / "b"):
        raise OSError("full")
    assert os.listdir(tmp_path) == ["a"]
