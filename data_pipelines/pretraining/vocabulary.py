"""The jobs behind vocabularies: train one, and report how one fits a text."""

import json
import os
from collections.abc import Iterator

from data_pipelines.corpora.corpus import Corpus, open_corpus, read_documents
from data_pipelines.corpora.reading import Reading
from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import whole_file
from data_pipelines.options import inspect_data
from data_pipelines.options.train_vocabulary import Options
from data_pipelines.paths import check_not_input
from data_pipelines.pretraining.command import warn_of_language
from data_pipelines.pretraining.settings import Settings
from data_pipelines.progress import bar
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.byte_pairs import merges_beside
from data_pipelines.text.kinds import check_form, open_tokenizer
from data_pipelines.text.report import vocabulary_report
from data_pipelines.text.tokenizer import CONFIG, Tokenizer
from data_pipelines.text.train_kinds import TRAINERS, WORDS, train_tokenizer

REPORT_BYTES = 5_000_000  # of text that the report on a new vocabulary reads
PLACES = 16  # of a larger corpus, from which a report takes its text


def train_vocabulary(options: Options) -> Tokenizer:
    """Trains a vocabulary, writes it, and says how it fits; returns its tokenizer."""
    output_file, tokenizer, segmenter = options.output_file, options.tokenizer, options.segmenter
    as_folder = not os.path.splitext(output_file)[1]
    if not as_folder:
        check_form(output_file, tokenizer, "output_file")
    elif tokenizer == "wordpiece" and not os.path.isdir(output_file):
        as_folder = False  # a plain name is a file, as it always was
    if tokenizer in WORDS and (segmenter or options.language == "zh") and not as_folder:
        raise UsageError(
            f"--output_file={output_file}: {'words' if segmenter else 'Chinese words'} need their segmenter remembered beside "
            "them; name a folder, without an ending."
        )
    if options.num_sentinels and not (tokenizer == "sentencepiece" and as_folder):
        raise UsageError(
            f"--num_sentinels={options.num_sentinels}: --tokenizer=sentencepiece has them, in a folder that remembers them; name "
            "one by --output_file, without an ending."
        )
    places = _places(output_file, tokenizer, as_folder)
    for path in places.values():
        if os.path.exists(path) and not options.overwrite:
            raise UsageError(f"--output_file={output_file}: {path} exists. Choose another name or add --overwrite.")
    corpus = warn_of_language(
        open_corpus(
            options.input_file, options.language, options.input_format, Reading.of(vars(options)), options.target_file
        )
    )
    check_not_input(corpus.paths, output_file=output_file)
    passes = TRAINERS[tokenizer][1]
    with bar(passes * corpus.num_bytes, "vocabulary") as progress:
        how = options.vocab_size, options.do_lower_case, options.min_frequency
        trained = train_tokenizer(tokenizer, corpus, *how, progress.update, segmenter, options.num_sentinels)
        progress.update(progress.total - progress.n)
    if len(trained.vocabulary) <= len(trained.vocabulary.special_ids):
        raise DataError(f"--input_file={options.input_file}: holds no words to learn from. Is there text in the files?")
    contents = trained.files()
    if as_folder:
        contents[CONFIG] = (json.dumps(trained.describe(), indent=2) + "\n").encode()
    for name, path in places.items():
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with whole_file(path) as file:
            file.write(contents[name])
    size = len(trained.vocabulary)
    print(f"{output_file}: {size:,} entries from {corpus.num_files:,} file(s) read as {corpus.layout}.")
    if size < options.vocab_size:
        least = "" if tokenizer == "sentencepiece" else f" that occur {options.min_frequency or 2} times"
        print(f"Fewer than --vocab_size={options.vocab_size}: the text has no more pieces{least}.")
    print_report(trained, corpus, REPORT_BYTES)
    return trained


def _places(output_file: str, kind: str, as_folder: bool) -> dict[str, str]:
    """Returns where each file of a vocabulary goes: name in `Tokenizer.files` -> path."""
    pairs = "vocab.json", "merges.txt"
    names = {"byte_bpe": pairs, "bpe": pairs, "sentencepiece": ("spiece.model",)}.get(kind, ("vocab.txt",))
    if as_folder:
        return {name: os.path.join(output_file, name) for name in (*names, CONFIG)}
    return dict(zip(names, (output_file, merges_beside(output_file)), strict=False))


def report_vocabulary(options: inspect_data.Options) -> None:
    """Prints how a vocabulary fits a corpus."""
    vocab_file, input_file, language = options.vocab_file, options.input_file, options.language
    opened = open_tokenizer(vocab_file, options.tokenizer, options.do_lower_case)
    if input_file:
        corpus = open_corpus(
            input_file, language, options.input_format, Reading(language, options.text_field, encoding=options.encoding)
        )
    elif options.data_dir:
        corpus = Settings.of(Manifest.read(options.data_dir).settings.to_json()).open_corpus()
    else:
        raise UsageError("--vocab_file: name the text with --input_file, or records made from it with --data_dir.")
    warn_of_language(corpus)
    case = "lower-cased" if opened.do_lower_case else "cased"
    print(f"{vocab_file}: {len(opened.vocabulary):,} entries of --tokenizer={opened.kind}, {case}.")
    print_report(opened, corpus, int(options.megabytes * 1e6))


def print_report(tokenizer: Tokenizer, corpus: Corpus, num_bytes: int) -> None:
    """Prints the report on about so many bytes of the corpus; 0 stands for all."""
    whole = not num_bytes or corpus.num_bytes <= num_bytes
    read = 0

    def counted():
        nonlocal read
        for text in sample(corpus, 0 if whole else num_bytes):
            read += len(text.encode())
            yield text

    report = vocabulary_report(tokenizer, counted())
    print(f"On {'all' if whole else f'{read:,} bytes'} of the text:")
    print(report)


def sample(corpus: Corpus, num_bytes: int) -> Iterator[str]:
    """Yields the sentences of a corpus, or about so many bytes of them, from places at equal distances where documents begin."""
    for part in corpus.cut(PLACES) if num_bytes else [corpus.whole()]:
        left = num_bytes / PLACES or float("inf")
        for text in (s for document in read_documents(part) for s in document.sentences):
            yield text
            left -= len(text.encode())
            if left < 0:
                break
