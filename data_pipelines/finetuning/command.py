"""The job behind `create_finetuning_data`: work with a progress bar, then say what the records hold."""

import functools
import sys

from data_pipelines.finetuning import job as finetuning_data
from data_pipelines.finetuning.listing import task_class
from data_pipelines.finetuning.task import Settings, label_counts
from data_pipelines.options.create_finetuning_data import Options
from data_pipelines.pretraining import beam_runner, tasks_split
from data_pipelines.progress import reporting
from data_pipelines.records.manifest import Manifest

LISTED = 12  # labels


def create_finetuning_data(options: Options) -> Manifest | None:
    """Writes records and prints what they hold.

    Returns None from a task that leaves work to others.
    """
    output_dir, num_workers = options.output_dir, options.num_workers
    shared = tasks_split.is_shared(options.task_index, options.num_tasks, options.overwrite)
    pipeline = beam_runner.options_of(options, shared, finetuning_data.INDEX_FLAG)
    chosen = Settings.of(vars(options))
    with reporting("records") as report:
        if shared:
            task = options.task_index, options.num_tasks
            manifest = finetuning_data.create_share(chosen, output_dir, *task, num_workers, report)
        elif pipeline is not None:
            prepared = functools.partial(finetuning_data.prepare, chosen, output_dir)
            manifest = beam_runner.make_records(prepared, options.resume, options.overwrite, pipeline)
        else:
            how = num_workers, options.resume, options.overwrite
            manifest = finetuning_data.create(chosen, output_dir, *how, report)
    if isinstance(manifest, str):
        print(manifest)
        return None
    print(summary(manifest, output_dir))
    for message in warnings(manifest):
        print(f"Warning: {message}", file=sys.stderr)
    return manifest


def summary(manifest: Manifest, folder: str) -> str:
    """Returns what the records hold, in a few lines."""
    counts, settings = manifest.statistics, manifest.settings

    def number(name: str) -> int:
        return counts.get(name, 0)

    def share(part: str, whole: str) -> str:
        return f"{number(part):,} ({number(part) / max(1, number(whole)):.2%})"

    lines = [
        f"{folder}: {manifest.num_examples:,} records in {len(manifest.shards)} shard(s) from {number('accepted'):,} "
        f"examples, for --task={settings.task}",
        f"  tokens {number('tokens'):,} · [UNK] {share('unknown_tokens', 'tokens')}",
    ]
    task = task_class(settings.task)
    lines += task.describe_length(settings, number, share) + task.describe(settings, number, share)
    if number("repeated"):
        lines.append(
            f"  texts that stand before: {share('repeated', 'accepted')}, of these with another label "
            f"{share('contradicting', 'repeated')}"
        )
    lines += _about_labels(counts)
    if settings.bad_examples:
        reasons = sorted(name for name in counts if name.startswith("bad "))
        lines.append("  left out: " + " · ".join(f"{name[4:]} {share(name, 'read')}" for name in reasons))
        lines += [f"    {message}" for message in settings.bad_examples]
    return "\n".join(lines)


def _about_labels(counts: dict[str, int]) -> list[str]:
    labels = label_counts(counts)
    if not labels:
        return []
    total = sum(labels.values())
    shown = [f"{name} {count / total:.1%}" for name, count in list(labels.items())[:LISTED]]
    more = f" · and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
    return [f"  {len(labels)} labels: {' · '.join(shown)}{more}"]


def warnings(manifest: Manifest) -> list[str]:
    """Returns what is likely to go wrong with these records."""
    counts, settings, messages = manifest.statistics, manifest.settings, []
    task = task_class(settings.task)
    messages += task.warnings(counts, settings.label_names or list(label_counts(counts)))
    spelled = "character_ids" in manifest.features  # then unknown words differ
    if counts.get("unknown_tokens", 0) > 0.2 * counts["tokens"] and not spelled:
        messages.append("much of the text is [UNK]; is the vocabulary that of this text?")
    if counts.get("words_without_piece", 0) > 0.01 * counts.get("words", 0):
        messages.append(
            "pieces that cover several words hide the tags of some. A vocabulary of characters or word pieces parts them."
        )
    if counts.get("cut", 0) > 0.2 * counts.get("texts", counts["accepted"]):
        messages.append("more than a fifth is longer than --max_seq_length; raise it if the network has the positions.")
    return messages
