"""The records that a pretraining reads: opened, checked against the flags and the system, and told from others.

`options` are the `Options` of `jobs.pretrain`.
"""

import contextlib
import dataclasses
import functools
import hashlib
import math

import tensorflow as tf

from data_pipelines import layout
from data_pipelines.corpora.files import expand
from data_pipelines.errors import DataError, UsageError
from data_pipelines.features import check
from data_pipelines.ops.framing import STARTS
from data_pipelines.options.create_pretraining_data import RecordOptions
from data_pipelines.records.checks import check_contents, count_all_ids
from data_pipelines.records.classic import classic_source
from data_pipelines.records.source import RecordSource
from data_pipelines.records.verification import verify
from data_pipelines.text.kinds import open_tokenizer, other_vocabulary, tokenizer_of_records
from data_pipelines.text.tokenizer import Tokenizer
from xmodels import systems
from xmodels.jobs.pretrain.network import small_numbers
from xmodels.jobs.pretrain.system_settings import parse_system_options
from xmodels.training.recipe import Records
from xmodels.training.watching.progress import print_status

SETTINGS = (  # what the manifest says of the records and a resumed run must find again
    "vocabulary_sha256", "max_sequence_length", "masking", "masked_lm_prob", "language", "segmenter",
    "do_whole_word_mask", "do_lower_case", "packing",
)  # fmt: skip


def open_records(options) -> tuple[RecordSource, Tokenizer]:
    """Returns the records and the tokenizer that made them."""
    if bool(options.data_dir) == bool(options.input_file):
        raise UsageError("Give either --data_dir (records of ours) or --input_file (records of Google's script).")
    if options.input_file:
        if not options.vocab_file:
            raise UsageError(
                "--input_file needs --vocab_file: records of Google's script do not name their vocabulary."
            )
        tokenizer = open_tokenizer(options.vocab_file)
        return classic_source(expand(options.input_file), len(tokenizer.vocabulary)), tokenizer
    source = RecordSource(options.data_dir, leave_out_damaged=options.on_corrupt_shard == "skip")
    if source.lost:
        print_status(f"Warning: {describe_lost_shards(source)}. {'; '.join(source.lost.values())}.")
    settings = source.manifest.settings
    if settings.task:
        raise UsageError(
            f"--data_dir={options.data_dir}: holds labelled records for {settings.task}, not text to pretrain on. Make "
            "some with `xmodels create_pretraining_data`."
        )
    if not options.vocab_file:
        return source, tokenizer_of_records(options.data_dir, settings)
    described = settings.tokenizer
    tokenizer = open_tokenizer(options.vocab_file, described["tokenizer"], described["do_lower_case"])
    if tokenizer.sha256 != settings.vocabulary_sha256:
        named = f"--vocab_file={options.vocab_file}"
        raise other_vocabulary(named, tokenizer, options.data_dir, settings, "Leave the flag out")
    return source, tokenizer


def units_of(source: RecordSource) -> tuple[str, ...]:
    """Returns the features of records that say where units of words open."""
    return tuple(name for name in STARTS if name in source.features)


def record_sizes(options, source: RecordSource, system=None) -> Records:
    """Lengths and masking of the records. Raises a UsageError where a flag contradicts them.

    Args:
        system: hides another share of the tokens than the records were made for, where --set or small networks ask for it.
    """
    settings = source.manifest.settings
    length, asked = settings.max_sequence_length, system and _masking_rate(options, settings, system)
    if options.max_seq_length not in (None, length):
        raise UsageError(
            f"--max_seq_length={options.max_seq_length}: the records were made for {length}. Leave the flag out, or "
            f"run create_pretraining_data with --max_seq_length={options.max_seq_length}."
        )
    static = settings.masking == "static"
    if static and asked:
        raise UsageError(
            f"--set=masking_rate={asked}: masks stand in the records already. Make records without --masking=static, or with "
            f"--masked_lm_prob={asked}."
        )
    if static:
        slots = source.features["masked_lm_ids"].shape[0]
        if options.max_predictions_per_seq not in (None, slots):
            raise UsageError(
                f"--max_predictions_per_seq={options.max_predictions_per_seq}: the records hold {slots}. Leave the flag out."
            )
        _check_slots(slots, length, settings.masked_lm_prob, settings.masked_lm_prob)
        return Records(length, slots, static=True)
    slots, rate = settings.max_predictions_per_seq, asked or settings.masked_lm_prob
    if asked:
        slots = max(slots, math.ceil(rate * length))
    slots = options.max_predictions_per_seq or systems.slots_of(system, rate, length, slots)
    kind = layout.find_or_none(settings.packing)
    if kind and kind.hides_share and hides_tokens(options, system):
        _check_slots(slots, length, rate, settings.masked_lm_prob)
    return Records(
        length, slots, rate, replace_unit=options.wwm_replace_unit,
        units=units_of(source), packing=settings.packing, language=settings.language,
        capitals=settings.do_lower_case is not False and settings.language != "zh",
        word_counts=functools.cache(lambda: count_all_ids(source, settings.vocabulary_size)),  # it reads all records
    )  # fmt: skip


def _masking_rate(options, settings, system) -> float | None:
    """Returns the share of tokens to hide that --set asks for, or else the numbers of small networks; None for that of the
    records.

    What was chosen otherwise, by --masked_lm_prob of the records or by --max_predictions_per_seq, holds for small networks too. So do
    the masks of pairs of texts, and of labelled records of several tasks.
    """
    own = parse_system_options(options.set, system)
    rate = getattr(own, "masking_rate", None)
    kind = layout.find_or_none(settings.packing)
    usual = settings.masked_lm_prob == RecordOptions.masked_lm_prob and kind and kind.is_framed
    chosen = options.max_predictions_per_seq or options.task_data or settings.masking == "static" or not usual
    if rate is not None or not hasattr(own, "masking_rate") or chosen:
        return rate
    small = small_numbers(options, system) if options.size in system.SIZES else None
    return small and small.masking_rate


def hides_tokens(options, system) -> bool:
    """Returns whether a system hides tokens of the records, so that `max_predictions_per_seq` limits it."""
    return hasattr(system and parse_system_options(options.set, system), "masking_rate")


def _check_slots(slots: int, length: int, rate: float | None, usual: float | None) -> None:
    """Compares the most tokens that are hidden in an example with its length.

    Args:
        rate: the share that the training hides.
        usual: that of the records, which holds where --max_predictions_per_seq is given.
    """
    if slots > length - 2:
        raise UsageError(
            f"--max_predictions_per_seq={slots}: more than the {length - 2} tokens that an example of {length} has beside "
            f"[CLS] and [SEP]. A {usual or 0.15:.0%} share is --max_predictions_per_seq={max(1, round((usual or 0.15) * length))}."
        )
    wanted = round((rate or 0) * length)
    if slots < 0.9 * wanted:
        print_status(
            f"Warning: at most {slots} tokens of an example are masked, but {rate:.0%} of {length} are {wanted}, so long "
            f"examples teach less than they could. Use --max_predictions_per_seq={wanted}."
        )


def check_words(options, source: RecordSource, system) -> None:
    """Raises a DataError where a system hides whole words and the records cannot tell words."""
    settings = source.manifest.settings
    if system.NEEDS_WORDS and settings.language == "zh" and settings.segmenter == "none":
        raise DataError(
            f"--system={options.system} hides whole words, but the records in {options.data_dir} hold none: they were "
            "made with --segmenter=none. Make them again with --do_whole_word_mask --segmenter=jieba."
        )
    if not system.NEEDS_WORDS:
        return
    if settings.masking == "static" and not settings.do_whole_word_mask:
        if settings.do_whole_word_mask is not None:
            raise DataError(
                f"--system={options.system} hides whole words, but the masks in {options.data_dir} hide single tokens. "
                "Make the records again with --do_whole_word_mask, or use --system=bert."
            )
        print_status(
            "Warning: records of Google's script do not say whether whole words are masked in them. They should be."
        )
    elif source.manifest.statistics.get("long_words") == 0:
        print_status(
            "Warning: no word of these records has more than one token, so whole-word masking masks single tokens."
        )


def check_features(options, source: RecordSource, objective, packings) -> None:
    """Raises a DataError where the records lack what the objective learns from, or are not of `packings`."""
    packing = source.manifest.settings.packing
    if "input_ids" in source.features:  # static records hold what comes out of the objective's transform
        _check_static_labels(options, source, objective, packing)
        return
    missing = {name for name in objective.reads if name not in source.features}
    fitting = [name for name in packings if missing and missing <= set(layout.find(name).labels)]
    if packing and fitting:
        raise DataError(
            f"{source.name}: --system={options.system} learns from {', '.join(sorted(missing))}, which the records lack: "
            f"they were made with --packing={packing}. Make them with --packing={' or '.join(fitting)}."
        )
    if packing and packing not in packings:
        raise DataError(
            f"{source.name}: made with --packing={packing}, which --system={options.system} cannot frame. Make the records "
            f"with --packing={' or '.join(packings)}."
        )
    check(source.features, objective.reads, source.name)


def _check_static_labels(options, source: RecordSource, objective, packing: str | None) -> None:
    """Checks the label of two segments, which has one name in this layout, whatever it means; the packing tells which it is."""
    labels_of_packing = layout.find(packing).labels if packing else ()
    for name in layout.names():
        wanted = set(layout.find(name).labels) & set(objective.reads)
        if labels_of_packing and wanted and not wanted & set(labels_of_packing):
            raise DataError(
                f"{source.name}: --system={options.system} learns from {', '.join(wanted)}, but the records hold "
                f"{', '.join(labels_of_packing)}: they were made with --packing={packing}. Make them with --packing={name}."
            )


def open_held_out(options, source: RecordSource) -> RecordSource | None:
    """Returns the records of --eval_data_dir, which must be like those of the training; None without the flag.

    Raises:
        DataError: they have another vocabulary, length, masking or packing, or other words or units of words, or are damaged.
    """
    if not options.eval_data_dir:
        return None
    held_out = RecordSource(options.eval_data_dir)
    for name in ("vocabulary_sha256", "do_lower_case", "max_sequence_length", "masking", "packing", "segmenter"):
        found, wanted = (getattr(s.manifest.settings, name) for s in (held_out, source))
        if found != wanted and None not in (found, wanted):  # Google's script does not say all
            raise DataError(
                f"--eval_data_dir={options.eval_data_dir}: {name} is {found}, that of the records {wanted}. Make both with the "
                "same flags."
            )
    if missing := set(units_of(source)) - set(units_of(held_out)):
        raise DataError(
            f"--eval_data_dir={options.eval_data_dir}: lacks {', '.join(sorted(missing))}, which the records have. Make both with the "
            "same flags."
        )
    if shared := {s.sha256 for s in held_out.manifest.shards} & {s.sha256 for s in source.manifest.shards}:
        print_status(
            f"Warning: --eval_data_dir={options.eval_data_dir} holds {len(shared)} shard(s) that are also trained on, so the "
            "evaluation also measures memorization. Make records of held-out text."
        )
    if size := held_out.manifest.settings.vocabulary_size:
        check_contents(held_out, size)
    return held_out


def identity(source: RecordSource) -> dict:
    """Returns what tells these records from others, wherever they lie. Records of Google's script are told by their sizes."""
    shards = [(shard.examples, shard.bytes, shard.sha256) for shard in source.manifest.shards]
    return {
        **{name: getattr(source.manifest.settings, name) for name in SETTINGS},
        "examples": source.manifest.num_examples,
        "contents_sha256": hashlib.sha256(repr(shards).encode()).hexdigest()[:16],
    }


def describe_lost_shards(source: RecordSource) -> str:
    """Returns what is left out, counted and named."""
    names = set(source.lost)
    count = sum(shard.examples for shard in source.manifest.shards if shard.name in names)
    return (
        f"{len(names)} of {len(source.manifest.shards)} shards left out, {count:,} of "
        f"{source.manifest.num_examples:,} examples: {', '.join(sorted(names))}"
    )


def leave_out_damaged(options, source: RecordSource, position) -> tuple[RecordSource, object]:
    """Returns the records without shards that cannot be read any more, and the position from which reading goes on.

    Raises:
        DataError: no shard differs from the manifest, so leaving one out would not help.
    """
    found = RecordSource(options.data_dir, source.manifest, leave_out_damaged=True)
    if set(found.lost) == set(position.lost):
        raise DataError(
            f"{options.data_dir}: a record cannot be read, though all other shards are as they were written."
        )
    print_status(
        f"Warning: {describe_lost_shards(found)}. {'; '.join(found.lost.values())}. Reading continues without them."
    )
    return found, adapt_position(position, found)


@contextlib.contextmanager
def report_damaged_shard(options, source: RecordSource):
    """Turns TensorFlow's message about a record that cannot be read into one that names the shard."""
    try:
        yield
    except tf.errors.DataLossError:
        if options.data_dir:
            verify(options.data_dir, source.manifest, deep=True)
        raise


def skip_damaged_shards(options, learner):
    """Returns what the loop calls when a record cannot be read; None where that ends the run."""
    if options.on_corrupt_shard != "skip" or not options.data_dir:
        return None

    def leave_out(stream, position):
        batches = learner.streams[stream].batches
        source, position = leave_out_damaged(options, batches.source, position)
        return dataclasses.replace(batches, source=source), position

    return leave_out


def adapt_position(position, source: RecordSource):
    """Returns the position, if need be with reading begun anew, because other shards are left out than when it was written."""
    if set(position.lost) == set(source.lost):
        return position
    if not position.consumed:
        return dataclasses.replace(position, lost=tuple(sorted(source.lost)))
    before = sum(shard.examples for shard in source.manifest.shards if shard.name not in position.lost)
    return position.without(source.lost, before)
