"""Raw text -> sharded, verified records for pretraining; many processes, bounded memory, resumable.

The corpus is cut into as many byte ranges as there are shards, and one range makes one shard, from its own random
generator. So the bytes of a shard depend on the settings alone: not on the number of workers, nor on interruptions.
"""

import collections
import dataclasses
import json
import multiprocessing
import os
import random
import re
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait

from data_pipelines.corpora.plain_text import Corpus, open_corpus, read_documents
from data_pipelines.errors import DataError, UsageError
from data_pipelines.features import Feature
from data_pipelines.records import MANIFEST, Manifest, Shard, ShardWriter, encode_example, write_json
from data_pipelines.stages.pairs import Pair, pairs, shuffle
from data_pipelines.stages.pipe import pipe
from data_pipelines.stages.static_masks import mask_statically
from data_pipelines.stages.tokenize import ids_of, tokenize, word_starts_of
from data_pipelines.text import words
from data_pipelines.text.vocabulary import CLS, MASK, SEP, Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer

PLAN = "plan.json"  # stands in an unfinished folder; holds the settings that a resumed run must share
_OURS = re.compile(
    r"records-\d{5}-of-\d{5}\.tfrecord(\.json)?(\.partial)?|(manifest|plan)\.json(\.partial)?|vocab\.txt"
)
BLOCK_TOKENS = 1_000_000
SHUFFLE_WINDOW = 100_000


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that shapes the records; the fields are the flags of `create_pretraining_data`."""

    input_file: str
    vocab_file: str
    language: str = "en"
    do_lower_case: bool = True
    do_whole_word_mask: bool = False
    segmenter: str = "none"
    input_format: str = "auto"
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    dupe_factor: int = 1
    masking: str = "dynamic"
    num_shards: int = 0
    random_seed: int = 12345

    def check(self) -> None:
        """Raises a UsageError that says what to change."""
        if self.max_seq_length < 8:
            raise UsageError(f"--max_seq_length={self.max_seq_length}: must be at least 8.")
        if not 0 < self.masked_lm_prob < 1:
            raise UsageError(f"--masked_lm_prob={self.masked_lm_prob}: must lie between 0 and 1.")
        for name, least in (("max_predictions_per_seq", 1), ("dupe_factor", 1), ("num_shards", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"--{name}={getattr(self, name)}: must be at least {least}.")
        if self.language == "zh" and self.do_whole_word_mask and self.segmenter == "none":
            raise UsageError(
                "--do_whole_word_mask with --language=zh needs word boundaries, and Chinese text has none: every "
                "character would count as a word and the flag would do nothing. Add --segmenter=jieba, or "
                "--segmenter=presegmented where the words are already parted by blanks."
            )


FEATURES = {
    "dynamic": {
        "token_ids": Feature((None,)),
        "word_start": Feature((None,)),
        "segment_lengths": Feature((2,)),
        "next_sentence_labels": Feature(()),
    }
}


def static_features(length: int, num_predictions: int) -> dict[str, Feature]:
    """The record layout of Google's `create_pretraining_data.py`."""
    return {
        "input_ids": Feature((length,)),
        "input_mask": Feature((length,)),
        "segment_ids": Feature((length,)),
        "masked_lm_positions": Feature((num_predictions,)),
        "masked_lm_ids": Feature((num_predictions,)),
        "masked_lm_weights": Feature((num_predictions,), "float32"),
        "next_sentence_labels": Feature((1,)),
    }


def open_words(segments) -> list[int]:
    """Word starts of segments; truncation may have cut a word, so what is left of it opens the segment."""
    return [start for segment in segments for start in [1, *word_starts_of(segment)[1:]]]


def dynamic_example(pair: Pair) -> dict[str, list]:
    """Clean ids and word starts; special tokens, masks and padding come in the graph."""
    return {
        "token_ids": ids_of(pair.first) + ids_of(pair.second),
        "word_start": open_words((pair.first, pair.second)),
        "segment_lengths": [len(pair.first), len(pair.second)],
        "next_sentence_labels": [int(pair.is_random)],
    }


def static_example(pair: Pair, settings: Settings, vocabulary: Vocabulary, rng, statistics) -> dict[str, list]:
    """Masked ids in the layout of Google's script."""
    cls, sep = vocabulary[CLS], vocabulary[SEP]
    ids = [cls, *ids_of(pair.first), sep, *ids_of(pair.second), sep]
    starts = [None, *word_starts_of(pair.first), None, *word_starts_of(pair.second), None]
    everything = (vocabulary[MASK], range(len(vocabulary)))
    masked = mask_statically(
        ids, starts, everything, settings.masked_lm_prob, settings.max_predictions_per_seq,
        settings.do_whole_word_mask, rng,
    )  # fmt: skip
    statistics["predictions"] += len(masked.positions)
    length, slots = settings.max_seq_length, settings.max_predictions_per_seq

    def padded(values, size, zero=0):
        return values + [zero] * (size - len(values))

    return {
        "input_ids": padded(masked.tokens, length),
        "input_mask": padded([1] * len(ids), length),
        "segment_ids": padded([0] * (len(pair.first) + 2) + [1] * (len(pair.second) + 1), length),
        "masked_lm_positions": padded(masked.positions, slots),
        "masked_lm_ids": padded(masked.labels, slots),
        "masked_lm_weights": padded([1.0] * len(masked.positions), slots, 0.0),
        "next_sentence_labels": [int(pair.is_random)],
    }


def _count(pair: Pair, statistics: collections.Counter) -> None:
    starts = open_words((pair.first, pair.second))
    statistics["examples"] += 1
    statistics["example_tokens"] += len(starts) + 3
    statistics["random_next"] += pair.is_random
    num_words = sum(starts)
    statistics["words"] += num_words
    # A word has several tokens where an opening token is followed by a continuing one.
    statistics["long_words"] += sum(a > b for a, b in zip(starts, starts[1:], strict=False))


def write_shard(
    settings: Settings, corpus: Corpus, part: tuple[int, int], path: str, seed: str, progress: Callable[[int], None]
) -> tuple[Shard, dict[str, int]]:
    """Makes one shard from one byte range of the corpus. Returns it and its counts."""
    statistics: collections.Counter = collections.Counter()
    rng = random.Random(seed)
    vocabulary = Vocabulary.read(settings.vocab_file)
    tokenizer = WordPieceTokenizer(vocabulary, settings.do_lower_case)
    segment = words.segmenter(settings.segmenter)

    def encode(examples):
        for pair in examples:
            _count(pair, statistics)
            if settings.masking == "static":
                yield encode_example(static_example(pair, settings, vocabulary, rng, statistics))
            else:
                yield encode_example(dynamic_example(pair))

    records = pipe(
        read_documents(corpus, *part, progress),
        tokenize(tokenizer, segment, statistics),
        pairs(settings.max_seq_length, settings.short_seq_prob, settings.dupe_factor, rng, BLOCK_TOKENS),
        encode,
        shuffle(SHUFFLE_WINDOW, rng),
    )
    with ShardWriter(path) as writer:
        for record in records:
            writer.write(record)
    return writer.shard(), dict(statistics)


_progress_counter = None


def _start_worker(counter) -> None:
    global _progress_counter
    _progress_counter = counter
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _end_with_parent() -> None:
    """Ends a worker whose parent was killed; it would write on, into the files of the run that resumes."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _run_part(settings, corpus, part, path, seed):
    def progress(num_bytes):
        with _progress_counter.get_lock():
            _progress_counter.value += num_bytes

    result = write_shard(settings, corpus, part, path, seed, progress)
    write_json(f"{path}.json", {"shard": dataclasses.asdict(result[0]), "statistics": result[1]})
    return result


def default_num_shards(num_bytes: int) -> int:
    """One a megabyte up to 16, then one for 64 MB: enough to shuffle and to share out, few enough to handle."""
    return max(1, min(16, num_bytes >> 20), num_bytes >> 26)


def create(
    settings: Settings,
    output_dir: str,
    num_workers: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Manifest:
    """Writes the records of a corpus into `output_dir`.

    Args:
        resume: continue an unfinished folder made with equal settings; its whole shards are kept.
        overwrite: throw away what the folder holds.
        report: called now and then with (bytes read, bytes in all).

    Raises:
        UsageError: the settings contradict one another, or the folder holds something else.
        DataError: the corpus or the vocabulary cannot be used.
    """
    settings.check()
    if num_workers < 1:
        raise UsageError(f"--num_workers={num_workers}: must be at least 1.")
    vocabulary = Vocabulary.read(settings.vocab_file)
    corpus = open_corpus(settings.input_file, settings.language, settings.input_format)
    settings = dataclasses.replace(
        settings, input_format=corpus.layout, num_shards=settings.num_shards or default_num_shards(corpus.num_bytes)
    )
    described = describe(settings, corpus, vocabulary)
    if manifest := _claim_folder(output_dir, described, resume, overwrite):
        return manifest
    total = settings.num_shards
    paths = [os.path.join(output_dir, f"records-{i:05d}-of-{total:05d}.tfrecord") for i in range(total)]
    results = _run_parts(settings, corpus, paths, num_workers, report)
    statistics: collections.Counter = collections.Counter()
    for _, counts in results:
        statistics.update(counts)
    if not statistics["examples"]:
        raise DataError(f"--input_file={settings.input_file}: no example came out; is there text in the files?")
    if settings.masking == "static":
        features = static_features(settings.max_seq_length, settings.max_predictions_per_seq)
    else:
        features = FEATURES["dynamic"]
    manifest = Manifest(features, [shard for shard, _ in results], described, dict(statistics))
    with open(os.path.join(output_dir, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write(vocabulary.text())
    manifest.write(output_dir)
    for path in [*(f"{path}.json" for path in paths), os.path.join(output_dir, PLAN)]:
        os.remove(path)
    return manifest


def describe(settings: Settings, corpus: Corpus, vocabulary: Vocabulary) -> dict:
    """What the manifest says of the making of the records."""
    values = dataclasses.asdict(settings)
    return {
        **values,
        **words.describe(settings.segmenter),
        "max_sequence_length": settings.max_seq_length,
        "input_bytes": corpus.num_bytes,
        "input_files": len(corpus.paths),
        "vocabulary_size": len(vocabulary),
        "vocabulary_sha256": vocabulary.sha256,
        "tokenizer": WordPieceTokenizer(vocabulary, settings.do_lower_case).describe(),
    }


def _claim_folder(output_dir: str, described: dict, resume: bool, overwrite: bool) -> Manifest | None:
    """Makes the folder ours, or returns the manifest of a finished one that `resume` accepts."""
    if resume and overwrite:
        raise UsageError("--resume and --overwrite contradict each other: keep what is there, or replace it?")
    held = os.listdir(output_dir) if os.path.isdir(output_dir) else []
    if overwrite and held:
        foreign = [name for name in held if not _OURS.fullmatch(name)]
        if foreign:
            raise UsageError(
                f"--output_dir={output_dir}: --overwrite refuses to delete files that are not records: "
                f"{', '.join(sorted(foreign)[:5])}. Choose another folder."
            )
        for name in held:
            os.remove(os.path.join(output_dir, name))
        held = []
    stored = None
    if MANIFEST in held:
        stored = Manifest.read(output_dir).settings
    elif PLAN in held:
        with open(os.path.join(output_dir, PLAN), encoding="utf-8") as file:
            stored = json.load(file)
    if held and not resume:
        state = "holds finished records" if MANIFEST in held else "is not empty"
        raise UsageError(
            f"--output_dir={output_dir}: {state}. Add --resume to continue it or --overwrite to replace it."
        )
    if held and stored is None:
        raise UsageError(f"--output_dir={output_dir}: --resume found other files there; choose an empty folder.")
    if stored is not None and stored != described:
        changed = sorted(name for name in described if stored.get(name) != described[name])
        raise UsageError(
            f"--output_dir={output_dir}: was begun with other settings, so --resume would mix two kinds of records. "
            + "; ".join(f"{name}: {stored.get(name)!r} then, {described[name]!r} now" for name in changed)
            + ". Use the old settings, another folder, or --overwrite."
        )
    if MANIFEST in held:
        return Manifest.read(output_dir)
    os.makedirs(output_dir, exist_ok=True)
    write_json(os.path.join(output_dir, PLAN), described)
    return None


def _run_parts(settings, corpus, paths, num_workers, report) -> list[tuple[Shard, dict]]:
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    parts = corpus.cut(len(paths))
    results: dict[int, tuple[Shard, dict]] = {}
    waiting = []
    for index, path in enumerate(paths):
        if os.path.isfile(f"{path}.json") and os.path.isfile(path):
            with open(f"{path}.json", encoding="utf-8") as file:
                stored = json.load(file)
            results[index] = Shard(**stored["shard"]), stored["statistics"]
            counter.value += parts[index][1] - parts[index][0]
        else:
            waiting.append(index)
    with ProcessPoolExecutor(num_workers, context, _start_worker, (counter,)) as pool:
        jobs = {
            pool.submit(_run_part, settings, corpus, parts[i], paths[i], f"{settings.random_seed}-{i}"): i
            for i in waiting
        }
        pending = set(jobs)
        try:
            while pending:
                done, pending = wait(pending, timeout=0.3, return_when=FIRST_EXCEPTION)
                results |= {jobs[job]: job.result() for job in done}
                report(counter.value, corpus.num_bytes)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    report(corpus.num_bytes, corpus.num_bytes)
    return [results[index] for index in range(len(paths))]
