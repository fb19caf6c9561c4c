"""The job behind `create_finetuning_data`: work with a progress bar, then say what the records hold."""

import sys

from data_pipelines.errors import UsageError
from data_pipelines.finetuning import job as finetuning_data
from data_pipelines.finetuning.task import Settings
from data_pipelines.options.create_finetuning_data import Options
from data_pipelines.progress import reporting
from data_pipelines.records.manifest import Manifest

RARE = 0.1  # of the share that a label had if all were equally frequent
LISTED = 12  # labels


def create_finetuning_data(options: Options) -> Manifest | None:
    """Writes records and prints what they hold.

    Returns None from a task that leaves work to others.
    """
    output_dir, resume, overwrite = options.output_dir, options.resume, options.overwrite
    task_index, num_tasks, num_workers = options.task_index, options.num_tasks, options.num_workers
    shared = task_index is not None or num_tasks is not None
    if shared and overwrite:
        raise UsageError("--overwrite: a task would delete what others make. Empty --output_dir before they start.")
    chosen = Settings.of(vars(options))
    with reporting("records") as report:
        if shared:
            manifest = finetuning_data.create_share(chosen, output_dir, task_index, num_tasks, num_workers, report)
        else:
            manifest = finetuning_data.create(chosen, output_dir, num_workers, resume, overwrite, report)
    if isinstance(manifest, str):
        print(manifest)
        return None
    print(summary(manifest, output_dir))
    for message in warnings(manifest):
        print(f"Warning: {message}", file=sys.stderr)
    return manifest


def summary(manifest: Manifest, folder: str) -> str:
    """What the records hold, in a few lines."""
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
    lines += _about_length(settings, number, share)
    if settings.task == "tag":
        lines.append(
            f"  words {number('words'):,} · without a piece of their own {share('words_without_piece', 'words')} · "
            f"tags turned into BIO {share('changed_tags', 'words')} · impossible tags that were repaired "
            f"{share('repaired_tags', 'words')}"
        )
    if settings.task == "answer_span":
        lines += [
            f"  questions {number('questions'):,} · without an answer {share('without_answer', 'questions')} · windows with "
            f"the answer {share('windows_with_answer', 'examples')}",
            f"  answers that begin or end inside a token {share('answers_inside_tokens', 'questions')} · found elsewhere than "
            f"the file says {share('moved_answers', 'questions')} · in no window {share('answers_in_no_window', 'questions')}"
            f" · without tokens {share('answers_without_tokens', 'questions')}",
        ]
    if settings.task == "rank":
        lines.append(
            f"  lists {number('lists'):,} · without a relevant candidate {share('lists_without_relevant', 'lists')}"
            f" · of one candidate {share('lists_of_one_candidate', 'lists')}"
        )
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


def _about_length(settings, number, share) -> list[str]:
    if settings.task == "answer_span":
        return [
            f"  contexts in several windows {share('long_contexts', 'questions')} · questions cut at "
            f"{settings.max_query_length} {share('cut_questions', 'questions')}"
        ]
    whole = "texts" if settings.task in ("choose", "rank", "siamese") else "accepted"
    line = f"  longer than --max_seq_length={settings.max_sequence_length}: {share('cut', whole)}"
    if number("left_out_long"):
        return [f"{line}, left out {number('left_out_long'):,}"]
    if number("in_windows"):
        return [
            f"  longer than --max_seq_length={settings.max_sequence_length}, in windows: {share('in_windows', whole)}"
        ]
    return [f"{line}, cut by {number('cut_tokens'):,} tokens" if number("cut") else line]


def label_counts(counts: dict[str, int]) -> dict[str, int]:
    """How often each label occurs, the most frequent first."""
    found = {name.partition("=")[2]: count for name, count in counts.items() if name.startswith("label=")}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _about_labels(counts: dict[str, int]) -> list[str]:
    labels = label_counts(counts)
    if not labels:
        return []
    total = sum(labels.values())
    shown = [f"{name} {count / total:.1%}" for name, count in list(labels.items())[:LISTED]]
    more = f" · and {len(labels) - LISTED} more" if len(labels) > LISTED else ""
    return [f"  {len(labels)} labels: {' · '.join(shown)}{more}"]


def warnings(manifest: Manifest) -> list[str]:
    """What is likely to go wrong with these records."""
    counts, settings, messages = manifest.statistics, manifest.settings, []
    labels = label_counts(counts)
    names = settings.label_names or list(labels)
    if settings.task == "classify":
        total = sum(labels.values())
        rare = [name for name in names if labels.get(name, 0) < RARE * total / len(names)]
        if rare:
            messages.append(
                f"few examples of {', '.join(f'{n} ({labels.get(n, 0)})' for n in rare[:5])}. Accuracy will hide how the "
                "network does on them; look at each label's own score."
            )
    if counts.get("unknown_tokens", 0) > 0.2 * counts["tokens"]:
        messages.append("much of the text is [UNK]; is the vocabulary that of this text?")
    if counts.get("words_without_piece", 0) > 0.01 * counts.get("words", 0):
        messages.append(
            "pieces that cover several words hide the tags of some. A vocabulary of characters or word pieces parts them."
        )
    if counts.get("cut", 0) > 0.2 * counts.get("texts", counts["accepted"]) and settings.task != "answer_span":
        messages.append("more than a fifth is longer than --max_seq_length; raise it if the network has the positions.")
    return messages
