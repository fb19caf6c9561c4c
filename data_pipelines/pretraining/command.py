"""The jobs behind the data commands: check, work with a progress bar, report."""

import sys

from data_pipelines import layout
from data_pipelines.corpora.corpus import Corpus
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.language import language_warning
from data_pipelines.corpora.reading import report as reading_report
from data_pipelines.errors import UsageError
from data_pipelines.options import inspect_data
from data_pipelines.options.create_pretraining_data import Options
from data_pipelines.pretraining import beam_runner, contamination, duplicates, tasks_split
from data_pipelines.pretraining import job as pretraining_data
from data_pipelines.pretraining.settings import Settings
from data_pipelines.pretraining.stages import clean
from data_pipelines.pretraining.warnings import manifest_warnings
from data_pipelines.progress import bar, reporting
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.kinds import open_for_records
from data_pipelines.text.letter_case import case_warning


def warn_of_language(corpus: Corpus) -> Corpus:
    """Returns the corpus, with a warning where it looks like another language."""
    if warning := language_warning(corpus):
        print(warning, file=sys.stderr)
    return corpus


def create_pretraining_data(options: Options) -> Manifest | None:
    """Writes records and prints what they hold.

    Returns None from a task that leaves work to others.
    """
    output_dir, num_workers = options.output_dir, options.num_workers
    shared = tasks_split.is_shared(options.task, options.num_tasks, options.overwrite)
    pipeline = beam_runner.options_of(options, shared, "--task")
    chosen = Settings.chosen(options)
    chosen.check()
    tokenizer = open_for_records(chosen.vocab_file, chosen.tokenizer, chosen.do_lower_case)
    if warning := case_warning(tokenizer, chosen.vocab_file):
        print(warning, file=sys.stderr)
    corpus = warn_of_language(chosen.open_corpus())
    with reporting("records") as report:
        if shared:
            task = options.task, options.num_tasks
            made = tasks_split.create_share(chosen, output_dir, *task, num_workers, report, corpus)
        elif pipeline is not None:
            made = beam_runner.create(chosen, output_dir, options.resume, options.overwrite, pipeline, corpus)
        else:
            how = num_workers, options.resume, options.overwrite
            made = pretraining_data.create(chosen, output_dir, *how, report, corpus)
    if isinstance(made, str):
        print(made)
        return None
    print(summary(made, output_dir))
    return made


def check_contamination(options: inspect_data.Options) -> None:
    """Prints how much of test files stands in a corpus."""
    input_file, data_dir = options.input_file, options.data_dir
    if not input_file:
        if not data_dir:
            raise UsageError(
                "--contamination: name the corpus with --input_file, or records made from it with --data_dir."
            )
        made = Settings.of(Manifest.read(data_dir).settings.to_json())
    else:
        read_as = {name: getattr(options, name) for name in ("language", "input_format", "encoding", "text_field")}
        made = Settings(input_file=input_file, vocab_file="", **read_as)
    corpus = made.open_corpus()
    columns = Columns(options.text_column, options.text_pair_column)
    with bar(corpus.num_bytes, "contamination") as progress:
        files = contamination.check(options.contamination, corpus, columns, progress.update)
    print(contamination.report(files, options.num_worst))


def summary(manifest: Manifest, folder: str) -> str:
    """Returns what the records hold, in a few lines."""
    counts, settings = manifest.statistics, manifest.settings

    def share(part: str, whole: float) -> str:
        return f"{counts.get(part, 0) / max(1, whole):.2%}"

    positions = counts["examples"] * settings.max_sequence_length
    kind = layout.find(settings.packing)
    lines = [
        f"{folder}: {manifest.num_examples:,} examples in {len(manifest.shards)} shard(s), read as {settings.read_as}",
        f"  documents {counts['documents']:,} · sentences {counts['sentences']:,} · tokens {counts['tokens']:,}",
        f"  [UNK] {share('unknown_tokens', counts['tokens'])} of tokens · packed as {settings.packing}"
        + (f" · padding {1 - counts['example_tokens'] / positions:.2%} of positions" if kind.is_framed else ""),
    ]
    if kind.report:
        lines += [f"  {line}" for line in kind.report(manifest)]
    else:
        masked = " (masked whole)" if settings.do_whole_word_mask else ""
        lines.append(f"  words of more than one token: {share('long_words', counts['words'])} of words{masked}")
    lines += [f"  {line}" for line in reading_report(counts, settings.input_file)]
    lines += [f"  {line}" for line in clean.report(counts) + duplicates.report(counts)]
    labels = sorted(name for name in counts if "=" in name)
    if labels:
        lines.append("  " + " · ".join(f"{name} {share(name, counts['examples'])}" for name in labels))
    if settings.segmenter != "none":
        lines.append(
            f"  sentences whose words and pieces disagree: {counts.get('misaligned_sentences', 0):,} "
            "(there each word piece group counts as a word)"
        )
    for name in ("phrase", "entity"):
        if f"{name}_matches" in counts:
            left_out = counts[f"misaligned_{name}_matches"]
            lines.append(
                f"  {name} lexicon: {counts[f'{name}_matches']:,} matches, {left_out:,} of them across pieces (left out)"
            )
    if settings.masking == "static":
        lines.append(f"  hidden tokens: {share('predictions', counts['example_tokens'])} of tokens")
    if kind.draws_documents and counts["documents"] < 2 * len(manifest.shards):
        lines.append(
            "  Warning: few documents. Random second segments need other documents: part them with blank lines, or "
            "lower --num_shards."
        )
    lines += [f"  Warning: {doubt}" for doubt in manifest_warnings(manifest)]
    return "\n".join(lines)
