r"""Turns raw text into sharded records for pretraining. Reads the text as a stream, can use several processes, and
resumes after an interruption.

    xmodels create_pretraining_data --input_file='corpus/*.txt' --vocab_file=vocab.txt --output_dir=records \
        --language=zh --do_whole_word_mask --segmenter=jieba --num_workers=8
"""

import dataclasses
from typing import ClassVar

from data_pipelines import layout
from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import InputOptions
from data_pipelines.options.runner import beam_options_option, dask_scheduler_option, runner_option
from data_pipelines.text.tokenizer_settings import TOKENIZERS


def _layouts() -> str:
    """Returns what each layout is, as sentences."""
    return " ".join(f"{name}: {summary[0].lower()}{summary[1:]}" for name, summary in layout.summaries().items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordOptions(InputOptions):
    """The options that determine the records."""

    vocab_file: str = option(REQUIRED, "Vocabulary: vocab.txt, vocab.json with its merges file beside it, a SentencePiece *.model, or a folder that contains one.", section="Text")  # fmt: skip
    tokenizer: str = option("auto", "Kind of vocabulary; auto detects it from the settings in the folder, else from the file.", choices=("auto", *TOKENIZERS))  # fmt: skip
    do_lower_case: bool | None = option(None, "Lower-case the text and strip accents. Must agree with the vocabulary. Default: as the settings in the vocabulary's folder say, else yes except for byte_bpe and sentencepiece.")  # fmt: skip
    clean: str = option("", "Cleaning steps, comma-separated: wiki, html (remove markup), width (full-width letters and digits become half-width), control (remove control characters and odd whitespace), traditional_to_simplified (OpenCC).", section="Cleaning")  # fmt: skip
    min_sentence_chars: int = option(0, "Drop sentences with fewer characters.")
    min_document_chars: int = option(0, "Drop documents with fewer characters.")
    deduplicate: str = option("none", "Drop documents that occur earlier in the corpus. exact: those with the same words. near: also those with similar words, found by MinHash. Reads the corpus twice.", choices=("none", "exact", "near"))  # fmt: skip
    near_duplicate_threshold: float = option(0.8, "Documents with at least this Jaccard similarity of word n-grams count as near duplicates.")  # fmt: skip
    near_duplicate_ngram: int = option(5, "Length of these n-grams in words; for Chinese, in characters.")
    near_duplicate_seed: int = option(1, "Random seed of MinHash.")
    do_whole_word_mask: bool | None = option(None, "Mark word boundaries, so that all tokens of a word are masked together. Chinese needs a segmenter. Default: yes with --ngram above 1, else no.", section="Words")  # fmt: skip
    segmenter: str = option("none", "Word segmenter: jieba (its dictionary and rules in Rust), jieba_python (the published package), lexicon (longest match in --lexicon), presegmented or whitespace (splits at blanks), ltp:FOLDER (a local LTP model), MODULE:FUNCTION (your own Python function from a text to its words, which is run), or none.")  # fmt: skip
    lexicon: str = option("", "Files of words, one a line, optionally with their frequency. They are added to jieba's dictionary; with --segmenter=lexicon they are the whole dictionary.")  # fmt: skip
    phrase_lexicon: str = option("", "Files of phrases, one a line, optionally with a tab and their frequency. Writes the feature phrase_start, for masking whole phrases: the longest match is one unit; elsewhere each word is one.")  # fmt: skip
    entity_lexicon: str = option("", "Files of entities, in the same form. Writes the feature entity_start: the longest match is one unit; elsewhere each Chinese character and each English word is one.")  # fmt: skip
    packing: str = option("segment_pair", f"How documents become examples. {_layouts()}", section="Examples", choices=layout.names())  # fmt: skip
    set: str | None = option(None, "NAME=VALUE: a number of the packing, for those that have numbers of their own. Separate several by commas, or repeat the flag.", repeatable=True)  # fmt: skip
    lone_sentences: str | None = option(None, "With --packing=sentence_order: what to do with a chunk of one sentence, which has no order. skip: leave it out. random: as in ALBERT's script, take the second segment from another document and label the pair as swapped. Default: skip.", choices=("skip", "random"))  # fmt: skip
    max_seq_length: int = option(128, "Maximum length of an example in tokens, including special tokens.", minimum=1)
    max_predictions_per_seq: int = option(20, "Maximum number of masked tokens per example; about max_seq_length * masked_lm_prob.")  # fmt: skip
    masked_lm_prob: float = option(0.15, "Share of tokens to mask. Training of sizes below base masks more unless this is another share than the default (docs/small_networks.md).", maximum=1.0)  # fmt: skip
    short_seq_prob: float = option(0.1, "Share of documents that are cut into shorter examples (pairs of segments only).", maximum=1.0)  # fmt: skip
    dupe_factor: int | None = option(None, "Passes over the corpus, each with other pairs. Default: 1; with static masking 10, as in Google's script.")  # fmt: skip
    masking: str = option("dynamic", "dynamic: clean records, which training masks anew in every epoch. static: masked records in Google's layout.", choices=("dynamic", "static"))  # fmt: skip
    ngram: int = option(1, "With static masking: mask n-grams of up to this many whole words, as ALBERT's script does (its default is 3). With --nodo_whole_word_mask: n-grams of tokens.")  # fmt: skip
    favor_shorter_ngram: bool = option(True, "Make shorter n-grams more likely than longer ones.")
    wwm_replace_unit: str = option("token", "With static whole word masks. token: each token of a word is masked, kept or replaced independently, as in Google's code. word: all of them alike.", choices=("token", "word"))  # fmt: skip
    random_seed: int = option(12345, "Seed of all random choices.")
    num_shards: int = option(0, "Number of record files; 0 chooses it by the size of the corpus.", section="Output and work")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RecordOptions):
    """The records, where they are written, and which processes make them."""

    SECTION: ClassVar = "Text and labelled data"
    JOB: ClassVar = "data_pipelines.pretraining.command:create_pretraining_data"

    output_dir: str = option(REQUIRED, "New folder for the records and their manifest.", section="Output and work")
    num_workers: int = option(1, "Number of processes. The records do not depend on it.", minimum=1)
    resume: bool = option(False, "Continue an unfinished output_dir; finished shards are kept.")
    overwrite: bool = option(False, "Replace the records in output_dir.")
    task: str | None = option(None, "Number of this task, from 0 to num_tasks - 1: makes only its shards. Finished shards are kept, as with --resume, and the last task writes the manifest. merge: join what the tasks made in folders that were copied together.", section="Many machines (docs/distributed_data.md)")  # fmt: skip
    num_tasks: int | None = option(None, "Number of tasks that share the work.", minimum=1)
    runner: str = runner_option()
    dask_scheduler: str | None = dask_scheduler_option()
    beam_options: str = beam_options_option()
