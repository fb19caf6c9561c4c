"""Batches of labelled examples: of a number of rows, by length, or of a number of tokens."""

import tensorflow as tf

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.grouping import Grouping, buckets, padding_share
from data_pipelines.batches.token_buckets import token_buckets
from data_pipelines.errors import UsageError
from xmodels.training.watching.progress import print_status


def choose_batches(options, source: ArraySource, replicas: int) -> tuple[Grouping | None, int, float]:
    """Batches by length, where asked for; how many rows one has at least, and how many make an epoch.

    Says how much padding grouping saves.
    """
    if not options.length_buckets and not options.tokens_per_batch:
        return None, options.train_batch_size, source.num_examples / options.train_batch_size
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
    return grouping, rows, len(grouping.groups(tf.constant(lengths, tf.int64), rows))  # the last ones are filled up
