"""Raw text -> sharded, verified records for pretraining; many processes, bounded memory, resumable.

The corpus is cut into as many parts as there are shards, and one part makes one shard, from its own random generator.
So the bytes of a shard depend on the settings alone: not on the number of workers, nor on interruptions.
"""

import collections
import dataclasses
import errno
import functools
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator

from data_pipelines import paths
from data_pipelines.corpora.corpus import Corpus, Part, read_documents
from data_pipelines.corpora.layouts import VERBATIM
from data_pipelines.corpora.reading import Monitor
from data_pipelines.errors import DataError, UsageError
from data_pipelines.layout import Batch
from data_pipelines.lock import locked
from data_pipelines.pretraining import duplicates
from data_pipelines.pretraining.settings import Settings, open_lexicons
from data_pipelines.pretraining.stages import clean
from data_pipelines.pretraining.stages.pipe import pipe
from data_pipelines.pretraining.stages.tokenize import tokenize
from data_pipelines.pretraining.static_masking import StaticMasking
from data_pipelines.records import folder as record_folder
from data_pipelines.records.encoding import encode_examples
from data_pipelines.records.formats import static_features
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.shards import Shard, ShardWriter
from data_pipelines.records.workers import run_jobs
from data_pipelines.text import words
from data_pipelines.text.kinds import open_for_records, open_tokenizer
from data_pipelines.text.tokenizer import Tokenizer

ENCODED_TOGETHER = 1 << 18  # tokens of examples; enough for numpy, few enough for the cache of the processor


_opened = threading.local()


def _tools(settings: Settings) -> tuple[Tokenizer, words.Segment | None]:
    """Tokenizer and segmenter, which are dear to open, and learn: this thread keeps them for its next shard."""
    status = os.stat(settings.vocab_file)
    names = settings.vocab_file, settings.tokenizer, settings.do_lower_case, settings.segmenter, settings.lexicon
    key = *names, status.st_mtime_ns, status.st_size
    if getattr(_opened, "key", None) != key:
        tokenizer = open_tokenizer(settings.vocab_file, settings.tokenizer, settings.do_lower_case)
        _opened.tools = tokenizer, words.segmenter(settings.segmenter, settings.lexicon)
        _opened.key = key
    return _opened.tools


def write_shard(
    settings: Settings, part: Part, path: str, seed: str, marks: str | None,
    progress: Callable[[int], None],
) -> tuple[Shard, dict[str, int]]:  # fmt: skip
    """Makes one shard from one part of the corpus. Returns it and its counts.

    Args:
        marks: where it stands which documents of the part are dropped; None keeps all.
    """
    statistics: collections.Counter = collections.Counter()
    rng = random.Random(seed)
    layout, vocabulary = settings.layout, _tools(settings)[0].vocabulary
    together = max(1, ENCODED_TOGETHER // settings.max_seq_length)
    columns = functools.partial(layout.columns, settings)
    if settings.masking == "static":
        columns = StaticMasking(settings, layout.static, vocabulary, f"masks {seed}").columns

    def encode(made: Iterator[Batch]) -> Iterator[list[bytes]]:
        for examples in made:
            ordered = examples if layout.is_stream else examples.shuffled(rng.getrandbits(32))
            for batch in ordered.batches(together):
                yield encode_examples(columns(batch, statistics))

    records = pipe(_examples(settings, part, marks, statistics, progress, rng), encode)
    with ShardWriter(path) as writer:
        for batch in records:
            writer.write(*batch)
    return writer.shard(), dict(statistics)


def _examples(
    settings: Settings, part: Part, marks: str | None, statistics, progress, rng: random.Random
) -> Iterator[Batch]:
    """Returns what the stage of the layout makes of one part of the corpus."""
    layout, (tokenizer, segment), verbatim = settings.layout, _tools(settings), part.reading.verbatim
    blank = tokenizer.blank if layout.read_as is None and settings.language != "zh" and not verbatim else ""
    return pipe(
        _documents(settings, part, statistics, progress),
        duplicates.drop_duplicates(marks, statistics) if marks else lambda documents: documents,
        tokenize(tokenizer, segment, statistics, open_lexicons(settings), blank, bool(layout.token_labels), verbatim),
        layout.stage(settings, tokenizer.vocabulary, rng),
    )


def _documents(settings, part, statistics, progress):
    """The cleaned documents of a part; both passes over the corpus see the same."""
    return pipe(
        read_documents(part, Monitor(progress, statistics)),
        clean.clean(
            settings.clean, settings.min_sentence_chars, settings.min_document_chars, statistics,
            settings.layout.joining and settings.layout.joining(settings.language),
        ),
    )  # fmt: skip


def default_num_shards(num_bytes: int) -> int:
    """One a megabyte up to 16, then one for 64 MB: enough to shuffle and to share out, few enough to handle."""
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
    job = prepare(settings, output_dir, corpus)
    with locked(output_dir, "output_dir"):
        return _create(job, num_workers, resume, overwrite, report)


def _create(job: "Job", num_workers: int, resume: bool, overwrite: bool, report: Report) -> Manifest:
    output_dir = job.folder
    if manifest := record_folder.claim(output_dir, job.described, resume, overwrite):
        return manifest
    record_folder.remove_leftovers(job.paths)
    everything = range(len(job.paths))
    try:
        job.fingerprint(everything, num_workers, report)
        job.decide()
        job.write(everything, num_workers, report)
        return job.finish()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError(
            f"--output_dir={output_dir}: the disk is full ({error.strerror}). The shards that are whole are kept: free some "
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


@dataclasses.dataclass(frozen=True)
class Job:
    """The records of one folder as parts, one a shard, that may be made anywhere and in any order.

    With `deduplicate` there are two rounds with one decision between them: every part is fingerprinted before any is
    written. What is whole in the folder is not made again.
    """

    settings: Settings
    corpus: Corpus
    tokenizer: Tokenizer
    folder: str

    @functools.cached_property
    def described(self) -> dict:
        return describe(self.settings, self.corpus, self.tokenizer)

    @functools.cached_property
    def plan(self) -> str:
        return record_folder.plan_sha256(self.described)

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
        """Where the fingerprints of a part stand, and beside them what is dropped; None where nothing is."""
        return self.paths[index].replace(".tfrecord", ".duplicates") if self.deduplicates else None

    def decided(self, indices: Iterable[int]) -> bool:
        """Whether these parts may be written: it is known which of their documents are dropped."""
        return not self.deduplicates or all(os.path.isfile(f"{self.marks(index)}.drop") for index in indices)

    def missing(self, indices: Iterable[int]) -> list[int]:
        """The shards that are not there whole."""
        return [index for index in indices if record_folder.stored_shard(self.paths[index], self.plan) is None]

    def unmarked(self, indices: Iterable[int]) -> list[int]:
        """The parts that have no fingerprints yet."""
        return [index for index in indices if not os.path.isfile(self.marks(index))]

    def fingerprint_jobs(self, indices: Iterable[int]) -> dict[int, tuple]:
        """The arguments of `fingerprint_part` for each part that has no fingerprints yet."""
        if self.decided(indices := list(indices)):
            return {}
        return {i: (self.settings, self.parts[i], self.marks(i)) for i in self.unmarked(indices)}

    def shard_jobs(self, indices: Iterable[int]) -> dict[int, tuple]:
        """The arguments of `write_part` for each shard that is missing."""
        return {
            i: (self.settings, self.parts[i], self.paths[i], f"{self.settings.random_seed}-{i}", self.marks(i), self.plan)
            for i in self.missing(indices)
        }  # fmt: skip

    def fingerprint(self, indices: Iterable[int], num_workers: int, report: Report) -> None:
        """The first round of these parts."""
        jobs, total = self.fingerprint_jobs(indices), self._num_bytes(indices)
        done = total - self._num_bytes(jobs)
        run_jobs(fingerprint_part, jobs, num_workers, lambda read: report(read, 2 * total), done)

    def decide(self) -> None:
        """What stands between the rounds; needs the fingerprints of all parts."""
        everything = range(len(self.paths))
        if not self.decided(everything):
            marks = [self.marks(index) for index in everything]
            duplicates.decide(marks, self.settings.deduplicate == "near", self.settings.near_duplicate_threshold)

    def write(self, indices: Iterable[int], num_workers: int, report: Report) -> None:
        """The second round of these parts, or the only one."""
        jobs, total = self.shard_jobs(indices), (2 if self.deduplicates else 1) * self._num_bytes(indices)
        run_jobs(write_part, jobs, num_workers, lambda read: report(read, total), total - self._num_bytes(jobs))
        report(total, total)

    def finish(self) -> Manifest:
        """Joins what all parts have given."""
        settings = self.settings
        if settings.masking == "static":
            sizes = settings.max_seq_length, settings.max_predictions_per_seq
            features = static_features(*sizes, settings.layout.static.marks_words)
        else:
            features = settings.layout.features(settings)
        counts = {"empty_files": self.corpus.num_empty_files} if self.corpus.num_empty_files else {}
        return record_folder.finish(self.folder, self.paths, self.described, features, self.tokenizer.files(), counts)

    def _num_bytes(self, indices: Iterable[int]) -> int:
        return sum(self.parts[index].num_bytes for index in indices)


def write_part(settings, part, path, seed, marks, plan, progress=lambda num_bytes: None) -> int:
    """Makes one shard and says so beside it; returns the number of its examples."""
    shard, statistics = write_shard(settings, part, path, seed, marks, progress)
    record_folder.store_shard(path, shard, statistics, plan)
    return shard.examples


def fingerprint_part(settings, part, path, progress=lambda num_bytes: None) -> None:
    """The first round of one part."""
    documents = _documents(settings, part, collections.Counter(), progress)
    near = settings.deduplicate == "near"
    duplicates.write_fingerprints(documents, path, near, settings.near_duplicate_ngram, settings.near_duplicate_seed)


def describe(settings: Settings, corpus: Corpus, tokenizer: Tokenizer) -> dict:
    """What the manifest says of the making of the records."""
    values = dataclasses.asdict(settings)
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
