"""The job behind phrases: find them in a text, and write it with them joined."""

import collections
import math
import os
from collections.abc import Iterator

from data_pipelines.corpora.corpus import Corpus, open_corpus, read_documents
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import whole_file
from data_pipelines.options.find_phrases import Options
from data_pipelines.paths import check_not_input
from data_pipelines.pretraining.command import warn_of_language
from data_pipelines.progress import bar
from data_pipelines.text import phrases
from data_pipelines.text.plain_units import WordSplitter

BESIDE = ".phrases.tsv"


def find_phrases(options: Options) -> int:
    """Writes a text with its phrases, and these; returns how many there are."""
    output_file, thresholds = options.output_file, thresholds_of(options.thresholds)
    for path in (output_file, output_file + BESIDE):
        if os.path.exists(path) and not options.overwrite:
            raise UsageError(f"--output_file={output_file}: {path} exists. Choose another name or add --overwrite.")
    reading = Reading.of(vars(options))
    corpus = warn_of_language(
        open_corpus(options.input_file, options.language, options.input_format, reading, options.target_file)
    )
    check_not_input(corpus.paths, output_file=output_file, phrases_file=output_file + BESIDE)
    split = WordSplitter(options.do_lower_case, options.segmenter or ("jieba" if options.language == "zh" else "none"))
    with bar((len(thresholds) + 1) * corpus.num_bytes, "phrases") as progress:
        monitor = Monitor(progress.update)
        texts = (_sentences(corpus, split, monitor) for _ in thresholds)
        passes = phrases.find(texts, thresholds, options.min_count, options.max_entries)
        counts = _write(output_file, corpus, split, monitor, passes)
        progress.update(progress.total - progress.n)
    scores = {phrases.MARK.join(pair): score for found in passes for pair, score in found.items()}
    there = sorted((phrase for phrase in scores if counts[phrase]), key=lambda phrase: (-counts[phrase], phrase))
    with whole_file(output_file + BESIDE, "w") as file:
        file.write("phrase\tcount\tscore\n")
        file.writelines(f"{phrase}\t{counts[phrase]}\t{scores[phrase]:.2f}\n" for phrase in there)
    joined = sum(counts[phrase] for phrase in there)
    shown = f", such as {', '.join(there[:5])}" if there else ". Lower --thresholds or --min_count join more"
    print(
        f"{output_file}: {counts.total():,} words, {joined:,} of them phrases ({len(there):,} different){shown}. "
        f"{output_file}{BESIDE} holds all of them."
    )
    return len(there)


def thresholds_of(text: str) -> list[float]:
    """Returns the thresholds of all passes. Raises a UsageError where one is no number of at least 0."""
    found = []
    for part in text.split(","):
        try:
            found.append(float(part))
        except ValueError:
            found.append(math.nan)
        if not 0 <= found[-1] < math.inf:
            raise UsageError(
                f"--thresholds={text}: {part.strip()!r} is no number of at least 0. Give one for each pass, such as 200,100."
            )
    return found


def _sentences(corpus: Corpus, split: WordSplitter, monitor: Monitor) -> Iterator[list[str]]:
    """Yields the sentences of a text as words."""
    for document in read_documents(corpus.whole(), monitor):
        yield from ([word for word, _ in split(sentence)] for sentence in document.sentences)


def _write(path: str, corpus: Corpus, split: WordSplitter, monitor: Monitor, passes) -> collections.Counter[str]:
    """Writes the text with its phrases joined; returns how often each word and phrase occurs.

    Raises:
        DataError: there are no words.
    """
    counts: collections.Counter[str] = collections.Counter()
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with whole_file(path, "w") as file:
        for document in read_documents(corpus.whole(), monitor):
            for sentence in document.sentences:
                words = phrases.join_all([word for word, _ in split(sentence)], passes)
                counts.update(words)
                if words:
                    file.write(" ".join(words) + "\n")
            if document.ends:
                file.write("\n")
        if not counts:
            raise DataError("--input_file: holds no words. Is there text in the files?")
    return counts
