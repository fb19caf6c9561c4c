"""Shows what records hold: decoded examples with their masks, statistics of a masking, and whether files are whole."""

import sys

import numpy as np
import tensorflow as tf
from tqdm.auto import tqdm

from data_pipelines.batches.dataset import Batches
from data_pipelines.errors import DataError
from data_pipelines.inspect.labelled import inspect_labelled
from data_pipelines.inspect.objectives import HIDDEN, OBJECTIVES
from data_pipelines.inspect.showcase import SHOW, Setting, prepare
from data_pipelines.ops.classic import rename_classic
from data_pipelines.options.inspect_data import Options
from data_pipelines.pretraining.command import summary
from data_pipelines.records.checks import check_contents, first_line
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.shards import check_lengths
from data_pipelines.records.source import RecordSource
from data_pipelines.records.verification import verify
from data_pipelines.text.kinds import tokenizer_of_records
from data_pipelines.text.vocabulary import MASK, Vocabulary


def inspect_records(options: Options) -> None:
    """Prints examples of records and statistics of their masking, and with `verify` whether their files are whole."""
    manifest = Manifest.read(options.data_dir)
    if options.verify:
        data_dir = options.data_dir
        with tqdm(total=sum(s.bytes for s in manifest.shards), desc="verify", unit="B", unit_scale=True) as progress:
            verify(data_dir, manifest, deep=True, progress=progress.update)
        print(f"All {len(manifest.shards)} shard(s) are whole and as the manifest says.")
    try:
        if manifest.settings.task:
            inspect_labelled(options.data_dir, manifest, options.num_examples)
        else:
            _inspect_unlabelled(options, manifest)
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
        raise DataError(
            f"{options.data_dir}: a record is damaged, or none of those that the manifest promises ({first_line(error)}). "
            "--verify names the file; copy it again, or make it anew."
        ) from None


def _inspect_unlabelled(options: Options, manifest: Manifest) -> None:
    data_dir, objective = options.data_dir, options.objective
    source = RecordSource(data_dir, manifest)
    vocabulary = tokenizer_of_records(data_dir, manifest.settings).vocabulary
    check_contents(source, len(vocabulary))
    print(summary(manifest, data_dir))
    if source.format.show:
        for path in source.paths:
            check_lengths(path, options.num_examples)
        for serialized in tf.data.TFRecordDataset(source.paths).take(options.num_examples).batch(1):
            record = {name: value[0].numpy() for name, value in source.parse(serialized).items()}
            print(f"\n{source.format.show(record, vocabulary.tokens)}")
        return
    if manifest.settings.masking == "static":
        op, tokens, shown = rename_classic(), vocabulary.tokens, HIDDEN
        print(f"The masks of these records are their own; `--objective={objective}` does not apply.")
    else:
        op, tokens = prepare(objective, setting_of(manifest, vocabulary, options.wwm_replace_unit))
        shown = OBJECTIVES[objective]
    batches = Batches(source, op, 64, options.seed)
    colours = sys.stdout.isatty()
    batch = next(iter(batches.once(1)))
    for row in range(min(options.num_examples, source.num_examples, 64)):
        print()
        print(SHOW[shown]({name: value[row].numpy() for name, value in batch.items()}, tokens, colours))
    if shown == HIDDEN:
        print()
        print(statistics(batches, vocabulary, options.num_statistics))


def setting_of(manifest: Manifest, vocabulary: Vocabulary, replace_unit: str = "token") -> Setting:
    """Returns what the manifest of records says to those who mask them."""
    values = manifest.settings
    sizes = values.max_sequence_length, values.masked_lm_prob, values.max_predictions_per_seq
    return Setting(vocabulary, *sizes, tuple(manifest.features), replace_unit)


def statistics(batches: Batches, vocabulary: Vocabulary, num_examples: int) -> str:
    """Rates of a masking over some examples, as text."""
    hidden = masked = kept = real = words = whole = examples = 0
    mask = vocabulary[MASK]
    for batch in batches.once(max(1, num_examples // batches.batch_size)):
        values = {name: value.numpy() for name, value in batch.items()}
        weights = values["label_weights"] > 0
        now = np.take_along_axis(values["token_ids"], values["mask_positions"], axis=1)
        hidden += weights.sum()
        masked += (weights & (now == mask)).sum()
        kept += (weights & (now == values["labels"])).sum()
        real += values["padding_mask"].sum()
        examples += int(values["example_weights"].sum())
        if "word_start" in values:
            chosen = np.zeros_like(values["padding_mask"])
            np.put_along_axis(chosen, values["mask_positions"], weights, axis=1)
            chosen[:, 0] = False  # unused slots point here; [CLS] is never hidden
            hidden_words, whole_words = _words(values, chosen)
            words, whole = words + hidden_words, whole + whole_words
    lines = [
        f"masking of {examples:,} examples: {hidden / max(1, real):.2%} of tokens hidden; of these "
        f"{masked / max(1, hidden):.1%} [MASK], {kept / max(1, hidden):.1%} kept, "
        f"{1 - (masked + kept) / max(1, hidden):.1%} replaced"
    ]
    if words:
        lines.append(f"  words with a hidden token: {words:,}, of which {whole / words:.1%} are hidden whole")
    return "\n".join(lines)


def _words(values, chosen) -> tuple[int, int]:
    """Counts words with a hidden token, and words hidden whole."""
    word = np.cumsum(values["word_start"], axis=1) + np.arange(len(chosen))[:, None] * (chosen.shape[1] + 1)
    real = values["padding_mask"]
    sizes = np.bincount(word[real])
    hits = np.bincount(word[real & chosen], minlength=len(sizes))
    return int((hits > 0).sum()), int(((hits > 0) & (hits == sizes)).sum())
