"""Batches of labelled examples: of a number of rows, by length, or of a number of tokens."""

import tensorflow as tf

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.grouping import Grouping, buckets, padding_share
from data_pipelines.batches.token_buckets import token_buckets
from data_pipelines.errors import UsageError
from xmodels.training.watching.progress import print_status

MUCH_PADDING = 0.5  # share of the places of all batches


def bucket_suggestion(source: ArraySource, batch_size: int) -> str | None:
    """Returns what to say where batches by length would save most of the padding, which is most of the work."""
    if source.arrays["padding_mask"].ndim != 2 or "segment_lengths" in source.arrays:  # which take no batches by length
        return None
    lengths, width = source.num_tokens, source.arrays["padding_mask"].shape[1]
    before, after = (padding_share(lengths, g, width, batch_size) for g in (None, buckets("auto", lengths, width)))
    if before < MUCH_PADDING or after > before / 2:
        return None
    return f"Note: {before:.0%} of all batches are padding; --length_buckets=auto makes batches by length, with {after:.0%}."


def choose_batches(options, source: ArraySource, replicas: int) -> tuple[Grouping | None, int, float]:
    """Batches by length, where asked for; how many rows one has at least, and how many make an epoch.

    Says how much padding grouping saves. `auto` saves nothing where few examples leave most of the last batches empty; then they are
    not grouped.
    """
    ungrouped = None, options.train_batch_size, source.num_examples / options.train_batch_size
    if not options.length_buckets and not options.tokens_per_batch:
        if suggestion := bucket_suggestion(source, options.train_batch_size):
            print_status(suggestion)
        return ungrouped
    if source.arrays["padding_mask"].ndim > 2:
        flag = "tokens_per_batch" if options.tokens_per_batch else "length_buckets"
        raise UsageError(
            f"--{flag}: an example of --task={options.task} is several sequences, which share a batch whatever their lengths. "
            "Leave it out."
        )
    lengths, width = source.num_tokens, max(mask.shape[1] for mask in source.masks)
    grouping, rows = buckets(options.length_buckets or "auto", lengths, width), options.train_batch_size
    if options.tokens_per_batch:
        shares = replicas * options.gradient_accumulation_steps
        grouping = token_buckets(grouping.lengths, options.tokens_per_batch, shares)
        rows = grouping.sizes[-1]
    before, after = (padding_share(lengths, g, width, rows) for g in (None, grouping))
    print_status(f"{grouping}: padding {before:.1%} -> {after:.1%}.")
    if after >= before and options.length_buckets == "auto" and not options.tokens_per_batch:
        print_status("Batches are not formed by length.")
        return ungrouped
    return grouping, rows, len(grouping.groups(tf.constant(lengths, tf.int64), rows))  # the last ones are filled up
