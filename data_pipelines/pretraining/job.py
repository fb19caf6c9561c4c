"""Raw text -> sharded, verified records for pretraining; many processes, bounded memory, resumable.

The corpus is cut into as many parts as there are shards, and one part makes one shard, from its own random generator; or each
shard is made from what all parts give, where the layout merges them. So the bytes of a shard depend on the settings alone: not on the
number of workers, nor on interruptions.
"""

import collections
import dataclasses
import errno
import functools
import os
from collections.abc import Callable, Iterable

from data_pipelines import paths
from data_pipelines.corpora.corpus import Corpus, Part
from data_pipelines.corpora.layouts import VERBATIM
from data_pipelines.errors import DataError, UsageError
from data_pipelines.lock import hold_lock
from data_pipelines.pretraining import duplicates
from data_pipelines.pretraining.parts import collect_part, fingerprint_part, merge_parts, write_part
from data_pipelines.pretraining.settings import Settings, open_lexicons
from data_pipelines.pretraining.stages import clean
from data_pipelines.records import folder as record_folder
from data_pipelines.records.formats import static_features
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.workers import run_jobs
from data_pipelines.text import words
from data_pipelines.text.kinds import open_for_records
from data_pipelines.text.tokenizer import Tokenizer


def default_num_shards(num_bytes: int) -> int:
    """Returns one a megabyte up to 16, then one for 64 MB: enough to shuffle and to share out, few enough to handle."""
    return max(1, min(16, num_bytes >> 20), num_bytes >> 26)


Report = Callable[[int, int], None]  # called now and then with (bytes read, bytes in all)


def create(
    settings: Settings,
    output_dir: str,
    num_workers: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    report: Report = lambda done, total: None,
    corpus: Corpus | None = None,
) -> Manifest:
    """Writes the records of a corpus into `output_dir`.

    Args:
        resume: continue an unfinished folder made with equal settings; its whole shards are kept.
        overwrite: throw away what the folder holds.
        corpus: what `settings.open_corpus` gave, if it was called before.

    Raises:
        UsageError: the settings contradict one another, or the folder holds something else.
        DataError: the corpus or the vocabulary cannot be used.
    """
    if num_workers < 1:
        raise UsageError(f"--num_workers={num_workers}: must be at least 1.")
    return make_records(prepare(settings, output_dir, corpus), num_workers, resume, overwrite, report)


def make_records(job: "ShardJob", num_workers: int, resume: bool, overwrite: bool, report: Report) -> Manifest:
    """Makes all shards of a job in its folder, which nobody else may work in; arguments and errors as of `create`."""
    with hold_lock(job.folder, "output_dir"):
        if manifest := record_folder.claim(job.folder, job.described, resume, overwrite):
            return manifest
        return _make_rounds(job, num_workers, report)


def _make_rounds(job: "ShardJob", num_workers: int, report: Report) -> Manifest:
    try:
        job.gather()
        record_folder.remove_leftovers(job.paths)
        everything = range(len(job.paths))
        job.fingerprint(everything, num_workers, report)
        job.decide()
        job.collect(everything, num_workers, report)
        job.write(everything, num_workers, report)
        return job.finish()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError(
            f"--output_dir={job.folder}: the disk is full ({error.strerror}). The shards that are whole are kept: free some "
            "space and run the same command with --resume."
        ) from None


def prepare(settings: Settings, output_dir: str, corpus: Corpus | None = None) -> "Job":
    """Checks the settings, looks at the corpus and decides how it is cut; writes nothing."""
    paths.check_local(input_file=settings.input_file, vocab_file=settings.vocab_file, output_dir=output_dir)
    settings.check()
    tokenizer = open_for_records(settings.vocab_file, settings.tokenizer, settings.do_lower_case)
    if settings.input_format == VERBATIM:
        _check_verbatim(tokenizer)
    corpus = corpus or settings.open_corpus()
    lexicons = {name: getattr(settings, name) for name in ("lexicon", "phrase_lexicon", "entity_lexicon")}
    paths.check_not_input(corpus.paths, output_dir, vocab_file=settings.vocab_file, **lexicons)
    num_shards = settings.num_shards or min(default_num_shards(corpus.num_bytes), corpus.most_parts)
    settings = dataclasses.replace(
        settings, num_shards=num_shards, tokenizer=tokenizer.kind, do_lower_case=tokenizer.do_lower_case
    )
    return Job(settings, corpus, tokenizer, output_dir)


def _check_verbatim(tokenizer: Tokenizer) -> None:
    """Raises a UsageError if texts that are cut at blanks have other pieces than whole ones."""
    advice = "Take a vocabulary of --tokenizer=byte_bpe as train_vocabulary makes it, or leave the flag out."
    if not tokenizer.keeps_blanks:
        raise UsageError(
            f"--input_format={VERBATIM}: a vocabulary of --tokenizer={tokenizer.kind} has no pieces for line ends and runs of "
            f"blanks. {advice}"
        )
    if tokenizer.options().get("add_prefix_space"):
        raise UsageError(f"--input_format={VERBATIM}: this vocabulary puts a blank before every text. {advice}")


class ShardJob:
    """The records of one folder as parts, one a shard, that may be made anywhere and in any order.

    A job has `folder`, `described` (what the manifest says of it), `paths` of its shards, `write` and `finish`; for pipelines also
    `write_shard`, the function that makes a shard, and `shard_jobs`, its arguments for each shard that is missing. Of the rounds
    before `write` it overrides those that it needs.
    """

    merges = False  # whether shards are made from what all parts give, in a round of its own

    @functools.cached_property
    def plan(self) -> str:
        return record_folder.plan_sha256(self.described)

    def missing(self, indices: Iterable[int]) -> list[int]:
        """Returns the shards that are not there whole."""
        return [index for index in indices if record_folder.read_stored_shard(self.paths[index], self.plan) is None]

    def gather(self) -> None:
        """Finds out what must be known before the data are cut into parts."""

    def fingerprint(self, indices: Iterable[int], num_workers: int, report: Report) -> None:
        """Reads these parts for duplicates."""

    def decided(self, indices: Iterable[int]) -> bool:
        """Returns whether these parts may be written."""
        return True

    def decide(self) -> None:
        """Decides what is dropped, when all parts have been read for duplicates."""

    def collect(self, indices: Iterable[int], num_workers: int, report: Report) -> None:
        """Reads these parts for shards that are merged."""


@dataclasses.dataclass(frozen=True)
class Job(ShardJob):
    """The records of a corpus.

    With `deduplicate` there are two rounds with one decision between them: every part is fingerprinted before any is
    written. If the layout merges, every part is collected before any shard is made. What is whole in the folder is not made again.
    """

    settings: Settings
    corpus: Corpus
    tokenizer: Tokenizer
    folder: str

    @functools.cached_property
    def described(self) -> dict:
        return describe(self.settings, self.corpus, self.tokenizer)

    @functools.cached_property
    def parts(self) -> list[Part]:
        return self.corpus.cut(self.settings.num_shards)

    @functools.cached_property
    def paths(self) -> list[str]:
        return record_folder.shard_paths(self.folder, self.settings.num_shards)

    @property
    def deduplicates(self) -> bool:
        return self.settings.deduplicate != "none"

    def marks(self, index: int) -> str | None:
        """Returns where the fingerprints of a part stand, and beside them what is dropped; None where nothing is."""
        return self.paths[index].replace(".tfrecord", ".duplicates") if self.deduplicates else None

    def decided(self, indices: Iterable[int]) -> bool:
        """Returns whether it is known which documents of these parts are dropped."""
        return not self.deduplicates or all(os.path.isfile(f"{self.marks(index)}.drop") for index in indices)

    @property
    def merges(self) -> bool:
        return self.settings.layout.merge is not None

    def collected(self, index: int) -> str:
        """Returns where it stands what a part gives to all shards."""
        return self.paths[index].replace(".tfrecord", ".collected")

    def uncollected(self, indices: Iterable[int]) -> list[int]:
        """Returns the parts that shards wait for."""
        if not self.merges:
            return []
        return [i for i in indices if record_folder.read_stored_shard(self.collected(i), self.plan) is None]

    def unmarked(self, indices: Iterable[int]) -> list[int]:
        """Returns the parts that have no fingerprints yet."""
        return [index for index in indices if not os.path.isfile(self.marks(index))]

    def fingerprint_jobs(self, indices: Iterable[int]) -> dict[int, tuple]:
        """Returns the arguments of `fingerprint_part` for each part that has no fingerprints yet."""
        if self.decided(indices := list(indices)):
            return {}
        return {i: (self.settings, self.parts[i], self.marks(i)) for i in self.unmarked(indices)}

    def collect_jobs(self, indices: Iterable[int]) -> dict[int, tuple]:
        """Returns the arguments of `collect_part` for each part that is not collected, if a shard needs it."""
        if not self.missing(range(len(self.paths))):
            return {}
        return {i: self._of_part(i, self.collected(i)) for i in self.uncollected(indices)}

    @property
    def write_shard(self) -> Callable:
        """The function that makes a shard: `merge_parts` or `write_part`."""
        return merge_parts if self.merges else write_part

    def shard_jobs(self, indices: Iterable[int]) -> dict[int, tuple]:
        """Returns the arguments of `write_shard` for each shard that is missing."""
        if not self.merges:
            return {i: self._of_part(i, self.paths[i]) for i in self.missing(indices)}
        collected = [self.collected(i) for i in range(len(self.paths))]
        return {i: (self.settings, collected, i, self.paths[i], self.plan) for i in self.missing(indices)}

    def _of_part(self, i: int, path: str) -> tuple:
        return self.settings, self.parts[i], path, f"{self.settings.random_seed}-{i}", self.marks(i), self.plan

    def fingerprint(self, indices: Iterable[int], num_workers: int, report: Report) -> None:
        """Makes the first round of these parts."""
        jobs, total = self.fingerprint_jobs(indices), self._num_bytes(indices)
        done = total - self._num_bytes(jobs)
        run_jobs(fingerprint_part, jobs, num_workers, lambda read: report(read, 2 * total), done)

    def decide(self) -> None:
        """Decides between the rounds what is dropped; needs the fingerprints of all parts."""
        everything = range(len(self.paths))
        if not self.decided(everything):
            marks = [self.marks(index) for index in everything]
            duplicates.decide(marks, self.settings.deduplicate == "near", self.settings.near_duplicate_threshold)

    def collect(self, indices: Iterable[int], num_workers: int, report: Report) -> None:
        """Reads these parts for shards that are merged; does nothing for others."""
        self._read(collect_part, self.collect_jobs(indices), indices, num_workers, report)

    def write(self, indices: Iterable[int], num_workers: int, report: Report) -> None:
        """Makes the shards of these numbers, which is the last round, or the only one."""
        jobs = self.shard_jobs(indices)
        self._read(self.write_shard, jobs, indices, num_workers, report, reads=not self.merges)
        total = self._total(indices)
        report(total, total)

    def _read(self, function, jobs, indices, num_workers: int, report: Report, reads: bool = True) -> None:
        total = self._total(indices)
        done = total - (self._num_bytes(jobs) if reads else 0)
        run_jobs(function, jobs, num_workers, lambda read: report(read, total), done)

    def _total(self, indices: Iterable[int]) -> int:
        return (2 if self.deduplicates else 1) * self._num_bytes(indices)

    def finish(self) -> Manifest:
        """Joins what all parts have given."""
        settings = self.settings
        if settings.masking == "static":
            sizes = settings.max_seq_length, settings.max_predictions_per_seq
            features = static_features(*sizes, settings.layout.static.marks_words)
        else:
            features = settings.layout.features(settings)
        counts = collections.Counter(
            {"empty_files": self.corpus.num_empty_files} if self.corpus.num_empty_files else {}
        )
        if self.merges:
            for index in range(len(self.paths)):
                if found := record_folder.read_stored_shard(self.collected(index), self.plan):
                    counts.update(found[1])
        return record_folder.finish(self.folder, self.paths, self.described, features, self.tokenizer.files(), counts)

    def _num_bytes(self, indices: Iterable[int]) -> int:
        return sum(self.parts[index].num_bytes for index in indices)


def describe(settings: Settings, corpus: Corpus, tokenizer: Tokenizer) -> dict:
    """Returns what the manifest says of the making of the records."""
    values = dataclasses.asdict(settings)
    if settings.layout.numbers is None:
        del values["set"]
    else:
        values["numbers"] = dataclasses.asdict(settings.numbers)
    return {
        **values,
        **clean.describe(settings.clean),
        **duplicates.describe(settings.deduplicate),
        **words.describe(settings.segmenter, settings.lexicon),
        "unit_lexicons_sha256": {name: lexicon.sha256 for name, lexicon in open_lexicons(settings).items()},
        "max_sequence_length": settings.max_seq_length,
        "input_bytes": corpus.num_bytes,
        "input_files": corpus.num_files,
        "read_as": corpus.layout,
        "vocabulary_size": len(tokenizer.vocabulary),
        "vocabulary_sha256": tokenizer.sha256,
        "tokenizer": tokenizer.describe(),
    }
