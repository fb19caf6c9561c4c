"""How one part of a corpus becomes a shard of records, or gives its share to all shards."""

import collections
import functools
import os
import random
import threading
from collections.abc import Callable, Iterator

from data_pipelines.corpora.corpus import Part, read_documents
from data_pipelines.corpora.reading import Monitor
from data_pipelines.files import file_sha256
from data_pipelines.layout import Batch
from data_pipelines.pretraining import duplicates
from data_pipelines.pretraining.settings import Settings, open_lexicons
from data_pipelines.pretraining.stages import clean
from data_pipelines.pretraining.stages.pipe import pipe
from data_pipelines.pretraining.stages.tokenize import tokenize
from data_pipelines.pretraining.static_masking import StaticMasking
from data_pipelines.records import folder as record_folder
from data_pipelines.records.encoding import encode_examples
from data_pipelines.records.shards import Shard, ShardWriter
from data_pipelines.text import words
from data_pipelines.text.kinds import open_tokenizer
from data_pipelines.text.tokenizer import Tokenizer

ENCODED_TOGETHER = 1 << 18  # tokens of examples; enough for numpy, few enough for the cache of the processor


_opened = threading.local()


def _tools(settings: Settings) -> tuple[Tokenizer, words.Segment | None]:
    """Returns tokenizer and segmenter, which are dear to open, and learn: this thread keeps them for its next shard."""
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
        tokenize(
            tokenizer,
            segment,
            statistics,
            open_lexicons(settings),
            blank,
            bool(layout.token_labels),
            verbatim,
            layout.keeps_words,
        ),  # fmt: skip
        layout.stage(settings, tokenizer.vocabulary, rng),
    )


def _documents(settings, part, statistics, progress):
    """Returns the cleaned documents of a part; both passes over the corpus see the same."""
    return pipe(
        read_documents(part, Monitor(progress, statistics)),
        clean.clean(
            settings.clean, settings.min_sentence_chars, settings.min_document_chars, statistics,
            settings.layout.joining and settings.layout.joining(settings.language),
        ),
    )  # fmt: skip


def write_part(settings, part, path, seed, marks, plan, progress=lambda num_bytes: None) -> int:
    """Makes one shard and says so beside it; returns the number of its examples."""
    shard, statistics = write_shard(settings, part, path, seed, marks, progress)
    record_folder.store_shard(path, shard, statistics, plan)
    return shard.examples


def collect_part(settings, part, path, seed, marks, plan, progress=lambda num_bytes: None) -> None:
    """Collects what one part gives to all shards, and says so beside it."""
    statistics: collections.Counter = collections.Counter()
    made = _examples(settings, part, marks, statistics, progress, random.Random(seed))
    settings.layout.merge.collect(made, path, settings, statistics)
    written = Shard(os.path.basename(path), 0, os.path.getsize(path), file_sha256(path))
    record_folder.store_shard(path, written, dict(statistics), plan)


def merge_parts(settings, collected, index, path, plan, progress=lambda num_bytes: None) -> int:
    """Makes one shard from what all parts have given, and says so beside it; returns the number of its examples."""
    statistics, layout = collections.Counter(), settings.layout
    with ShardWriter(path) as writer:
        for batch in layout.merge.shard(collected, index, settings):
            writer.write(*encode_examples(layout.columns(settings, batch, statistics)))
    record_folder.store_shard(path, writer.shard(), dict(statistics), plan)
    return writer.num_examples


def fingerprint_part(settings, part, path, progress=lambda num_bytes: None) -> None:
    """Makes the first round of one part."""
    documents = _documents(settings, part, collections.Counter(), progress)
    near = settings.deduplicate == "near"
    duplicates.write_fingerprints(documents, path, near, settings.near_duplicate_ngram, settings.near_duplicate_seed)
