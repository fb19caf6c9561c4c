"""The jobs behind the data commands: check, work with a progress bar, report."""

import os
import sys

from tqdm import tqdm

from data_pipelines import pretraining_data
from data_pipelines.corpora.plain_text import open_corpus
from data_pipelines.errors import UsageError
from data_pipelines.pretraining_data import Settings
from data_pipelines.records import Manifest
from data_pipelines.text.train import train_wordpiece


def bar(total: int, title: str) -> tqdm:
    """A progress bar over bytes; in a log file, a line every half minute."""
    seconds = 0.5 if sys.stderr.isatty() else 30
    return tqdm(total=total, desc=title, unit="B", unit_scale=True, dynamic_ncols=True, mininterval=seconds)


def train_vocabulary(
    input_file: str, output_file: str, language: str, input_format: str, tokenizer: str, vocab_size: int,
    do_lower_case: bool, min_frequency: int, overwrite: bool,
) -> None:  # fmt: skip
    """Trains and writes a vocabulary; see `launch/train_vocabulary.py` for the arguments."""
    if os.path.exists(output_file) and not overwrite:
        raise UsageError(f"--output_file={output_file}: exists. Choose another name or add --overwrite.")
    corpus = open_corpus(input_file, language, input_format)
    with bar(3 * corpus.num_bytes, "vocabulary") as progress:
        vocabulary = train_wordpiece(corpus, vocab_size, do_lower_case, min_frequency, progress.update)
        progress.update(progress.total - progress.n)
    os.makedirs(os.path.dirname(os.path.abspath(output_file)), exist_ok=True)
    with open(f"{output_file}.partial", "w", encoding="utf-8") as file:
        file.write(vocabulary.text())
    os.replace(f"{output_file}.partial", output_file)
    print(f"{output_file}: {len(vocabulary):,} entries from {len(corpus.paths)} file(s) read as {corpus.layout}.")
    if len(vocabulary) < vocab_size:
        print(f"Fewer than --vocab_size={vocab_size}: the text has no more pieces that occur {min_frequency} times.")


def create_pretraining_data(
    output_dir: str, num_workers: int, resume: bool, overwrite: bool, dupe_factor: int | None, masking: str, **settings
) -> Manifest:
    """Writes records and prints what they hold; see `launch/create_pretraining_data.py` for the arguments."""
    passes = dupe_factor if dupe_factor is not None else 10 if masking == "static" else 1
    progress = None

    def report(done: int, total: int) -> None:
        nonlocal progress
        progress = progress if progress is not None else bar(total, "records")
        progress.update(done - progress.n)

    try:
        manifest = pretraining_data.create(
            Settings(dupe_factor=passes, masking=masking, **settings),
            output_dir,
            num_workers,
            resume,
            overwrite,
            report,
        )
    finally:
        if progress is not None:
            progress.close()
    print(summary(manifest, output_dir))
    return manifest


def summary(manifest: Manifest, folder: str) -> str:
    """What the records hold, in a few lines."""
    counts, settings = manifest.statistics, manifest.settings

    def share(part: str, whole: float) -> str:
        return f"{counts.get(part, 0) / max(1, whole):.2%}"

    positions = counts["examples"] * settings["max_sequence_length"]
    lines = [
        f"{folder}: {manifest.num_examples:,} examples in {len(manifest.shards)} shard(s), read as {settings['input_format']}",
        f"  documents {counts['documents']:,} · sentences {counts['sentences']:,} · tokens {counts['tokens']:,}",
        f"  [UNK] {share('unknown_tokens', counts['tokens'])} of tokens · padding "
        f"{1 - counts['example_tokens'] / positions:.2%} of positions · random second segments "
        f"{share('random_next', counts['examples'])}",
        f"  words of more than one token: {share('long_words', counts['words'])} of words"
        + (" (hidden whole)" if settings["do_whole_word_mask"] else ""),
    ]
    if settings["segmenter"] != "none":
        lines.append(
            f"  sentences whose words and pieces disagree: {counts.get('misaligned_sentences', 0):,} "
            "(there each word piece group counts as a word)"
        )
    if settings["masking"] == "static":
        lines.append(f"  hidden tokens: {share('predictions', counts['example_tokens'])} of tokens")
    if counts.get("unknown_tokens", 0) > 0.2 * counts["tokens"]:
        lines.append("  Warning: much of the text is [UNK]; is the vocabulary that of this text, and --language right?")
    if counts["documents"] < 2 * len(manifest.shards):
        lines.append(
            "  Warning: few documents. Random second segments need other documents: part them with blank lines, or "
            "lower --num_shards."
        )
    return "\n".join(lines)
