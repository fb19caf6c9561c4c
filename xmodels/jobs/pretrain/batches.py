"""Batches of a pretraining: of a number of rows, by length, of a number of tokens, or packed."""

import numpy as np

from data_pipelines.batches.dataset import Batches
from data_pipelines.batches.grouping import Grouping, Rows, buckets, padding_share, slots
from data_pipelines.batches.token_buckets import token_buckets
from data_pipelines.errors import UsageError
from data_pipelines.ops.compose import compose
from data_pipelines.records.source import RecordSource
from xmodels import systems
from xmodels.layers import mixers
from xmodels.models.backbone import Backbone
from xmodels.objectives.base import Objective
from xmodels.training.recipe import Recipe, Records
from xmodels.training.watching.progress import print_status

SAMPLE = 20_000  # examples whose lengths decide how batches are formed


def make_batches(
    recipe: Recipe, backbone: Backbone, objective: Objective, source, batch_size: int, seed: int = 0,
    grouping: Grouping | None = None,
) -> Batches:  # fmt: skip
    """Returns records as the network reads them: framed by the recipe, and changed as the objective asks."""
    transform = compose(recipe.frame, objective.transform())
    return Batches(source, transform, batch_size, seed, objective.batch_features(backbone), grouping, recipe.num_steps)


def rows_per_batch(options, records: Records, replicas: int) -> int | None:
    """Returns rows of a batch of the longest examples; None keeps the recipe's number.

    Raises:
        UsageError: the flags contradict each other, or a batch cannot hold an example for each replica.
    """
    if not options.tokens_per_batch:
        return options.train_batch_size
    if options.train_batch_size:
        raise UsageError("--tokens_per_batch and --train_batch_size both say how large a batch is; choose one.")
    if options.pack_rows:
        raise UsageError("--pack_rows: rows are full already, so --train_batch_size says how many tokens they hold.")
    shares = replicas * options.gradient_accumulation_steps
    return token_buckets((records.sequence_length,), options.tokens_per_batch, shares).sizes[0]


def size_facts(options, batch_size: int, consumed: int) -> dict[str, str]:
    """Returns what a model card says about the size of batches."""
    if options.tokens_per_batch:
        return {"tokens per batch": f"{options.tokens_per_batch:,}, padding included"}
    seen = "rows seen" if options.pack_rows else "examples seen"
    return {"batch size": f"{batch_size:,}", seen: f"{consumed:,}"}


def check_grouping(options, recipe: Recipe, source: RecordSource) -> None:
    """Raises a UsageError where examples are to share batches by lengths that all have, or that the frame changes."""
    given = options.length_buckets or options.tokens_per_batch or options.pack_rows
    if source.is_stream and given:
        raise UsageError(
            f"--length_buckets, --tokens_per_batch and --pack_rows: the records of {source.name} are a stream, whose rows are full "
            "already. Leave them out; --train_batch_size is the number of rows."
        )
    if recipe.row_length and given:
        raise UsageError(
            f"--length_buckets, --tokens_per_batch and --pack_rows: --system={options.system} puts both texts of a pair into one row, "
            "which these do not know yet. Leave them out."
        )


def choose_grouping(
    options, source: RecordSource, records: Records, backbone, batch_size: int, replicas: int = 1
) -> Grouping | None:
    """Returns how examples share batches; says how much of these is padding.

    Raises:
        UsageError: the flags contradict each other, or the network does not read rows of several examples.
    """
    if not (options.pack_rows or options.length_buckets or options.tokens_per_batch):
        return None
    if options.pack_rows and options.length_buckets:
        raise UsageError("--pack_rows and --length_buckets both fight padding; choose one. Packing leaves less.")
    sample = next(source.in_order().map(lambda index, item: item).batch(SAMPLE).as_numpy_iterator())
    lengths = np.asarray(source.lengths(sample))
    length = records.sequence_length
    if options.tokens_per_batch:
        bounds = buckets(options.length_buckets or "auto", lengths, length).lengths
        grouping = token_buckets(bounds, options.tokens_per_batch, replicas * options.gradient_accumulation_steps)
        name = str(grouping)
    elif options.length_buckets:
        grouping = buckets(options.length_buckets, lengths, length)
        name = str(grouping)
    else:
        grouping = _rows(options, source, records, backbone, lengths)
        name = f"Rows of {grouping.length} with up to {grouping.most} examples"
    before, after = (padding_share(lengths, g, length, batch_size) for g in (None, grouping))
    print_status(f"{name}: padding {before:.1%} -> {after:.1%} (of {len(lengths):,} examples).")
    if options.pack_rows and after > 0.05:
        print_status(
            f"Most examples are too long to share a row of {grouping.length}; try --pack_row_length={2 * grouping.length}."
        )
    return grouping


def check_packing(system: str, backbone) -> None:
    """Raises a UsageError where the network, or its mixer, does not read rows of several examples."""
    if "pack_ids" not in backbone.may_read:
        raise UsageError(f"--pack_rows: the network of --system={system} does not read rows of several examples.")
    mixer = getattr(backbone.config, "mixer", None)
    if mixer and "packs" not in mixers.find(mixer).supports:
        able = [name for name in mixers.names() if "packs" in mixers.find(name).supports]
        raise UsageError(
            f"--pack_rows: the mixer {mixer} does not keep several examples of a row apart. Leave the flag out, or take --mixer="
            f"{' or '.join(able)}."
        )


def _rows(options, source: RecordSource, records: Records, backbone, lengths: np.ndarray) -> Rows:
    check_packing(options.system, backbone)
    length = options.pack_row_length or records.sequence_length
    if length < records.sequence_length:
        raise UsageError(f"--pack_row_length={length}: shorter than the examples, {records.sequence_length} tokens.")
    if source.manifest.settings.masked_lm_prob is None:
        raise UsageError(
            "--pack_rows: records of Google's script do not say how many tokens they hide; use --data_dir."
        )
    most = max(2, int(np.ceil(2 * length / lengths.mean())))
    needed = slots(length, most, records.masking_rate, records.num_predictions)
    return Rows(
        length, most, most_predictions(options, systems.load(options.system), records.masking_rate, length, needed)
    )


def most_predictions(options, system, rate: float | None, length: int, share: int) -> int:
    """Returns the most tokens to hide in a row of another length than the records.

    Args:
        share: what a row needs of which each example hides a share exactly.
    """
    return share if options.max_predictions_per_seq else systems.slots_of(system, rate, length, share)
